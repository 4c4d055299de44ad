//! A node restarts while the controlling process continues.

#![expect(clippy::unwrap_used, reason = "test code")]
#![expect(unsafe_code, reason = "the library is called as C calls it")]

use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;

use finerail_dlc::{finerail_dlc_close, finerail_dlc_connect, lustre_lnet_add_net_sel_pol};
use lnet_node::NodeOptions;
use lnet_noded::{ControlEndpoint, ControlOptions, ManagedNode};

fn start(path: &Path) -> (ManagedNode, ControlEndpoint) {
    let yaml = "net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n";
    let options = NodeOptions {
        port: testkit::port(),
        ..NodeOptions::default()
    };
    let node = lnet_noded::start(&lnet_config::parse(yaml).unwrap(), options).unwrap();
    let path = path.to_owned();
    let options = ControlOptions { path, group: None };
    let endpoint = ControlEndpoint::open(&node, &options).unwrap();
    (node, endpoint)
}

fn add(net: &str) -> c_int {
    let net = CString::new(net).unwrap();
    // SAFETY: the string outlives the call, which does not write to it.
    unsafe { lustre_lnet_add_net_sel_pol(net.as_ptr().cast_mut(), 1) }
}

/// Another node, such as the default one, must never receive a request for this one.
#[test]
fn a_connection_that_broke_is_made_again_to_the_same_node() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    let c_path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let first = start(&path);
    // SAFETY: the string outlives the call.
    assert_eq!(unsafe { finerail_dlc_connect(c_path.as_ptr()) }, 0);
    assert_eq!(add("tcp1"), 0);
    drop(first);
    assert!(add("tcp2") < 0, "there is no node");
    assert!(add("tcp3") < 0, "nor a default one");
    let (second, _endpoint) = start(&path);
    assert_eq!(add("tcp4"), 0);
    let rules = second.rules();
    let texts: Vec<String> = rules.rules().iter().map(ToString::to_string).collect();
    assert!(texts.iter().all(|text| text.contains("tcp4")), "{texts:?}");
    assert_eq!(texts.len(), 2);
    finerail_dlc_close();
    // SAFETY: null stands for the default node.
    let default = unsafe { lustre_lnet_add_net_sel_pol(null_mut(), 1) };
    assert_eq!(default, -22);
}

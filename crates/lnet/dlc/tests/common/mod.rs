//! A node on loopback with a control endpoint, and a connection to it.

#![allow(dead_code, reason = "every test file uses its own part")]
#![expect(clippy::unwrap_used, reason = "test code")]

use std::net::TcpListener;

use lnet_dlc::Dlc;
use lnet_node::NodeOptions;
use lnet_noded::{ControlEndpoint, ControlOptions, ManagedNode};
use tempfile::TempDir;

pub(crate) struct Bed {
    pub(crate) node: ManagedNode,
    pub(crate) endpoint: ControlEndpoint,
    _directory: TempDir,
}

impl Bed {
    /// A node with one interface, `127.0.0.1@tcp`.
    pub(crate) fn new() -> (Self, Dlc) {
        Self::with("net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n")
    }

    pub(crate) fn with(yaml: &str) -> (Self, Dlc) {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = NodeOptions {
            port: free.local_addr().unwrap().port(),
            ..NodeOptions::default()
        };
        drop(free);
        let node = lnet_noded::start(&lnet_config::parse(yaml).unwrap(), options).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        let options = ControlOptions { path, group: None };
        let endpoint = ControlEndpoint::open(&node, &options).unwrap();
        let dlc = Dlc::connect(endpoint.path()).unwrap();
        let bed = Self {
            node,
            endpoint,
            _directory: directory,
        };
        (bed, dlc)
    }
}

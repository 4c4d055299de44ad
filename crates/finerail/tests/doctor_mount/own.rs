//! The node of this machine, which its peers must not take for restarted.

use crate::common::finerail;
use crate::common::process::run;
use crate::common::site::{Site, yaml};
use crate::words;
use crate::world::{AMPLE, MGS, World};

#[test]
fn check_does_not_speak_from_the_address_of_a_node_of_this_machine() {
    let site = Site::new();
    let servers = World::healthy().start(&site);
    let document = site.write("own.yaml", yaml(&["127.0.0.1@tcp"], ""));
    let node = site.start_node("own");
    let (port, state) = (site.port.to_string(), site.path("state"));
    let state = state.to_str().unwrap();
    let (document, source) = (document.to_str().unwrap(), format!("{MGS}:/fs1"));
    let check = |more: &[&str]| run(finerail(words(&port, state, AMPLE, more)));
    let refusal = "would look like its restart";
    check(&[&source]).expect_code(2).expect_error(refusal);
    let ended = check(&["--config", document, &source]).expect_code(2);
    ended
        .expect_error(refusal)
        .expect_error("--source-address instead of --config");
    for server in &servers {
        assert_eq!(server.server.lock().unwrap().asked, [] as [u32; 0]);
    }
    // From another address, and once the node has ended, the check speaks.
    check(&["--source-address", "127.0.0.8", &source]).expect_code(0);
    node.stop().expect_code(0);
    check(&["--config", document, &source]).expect_code(0);
}

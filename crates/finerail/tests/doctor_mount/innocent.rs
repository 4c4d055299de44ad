//! What is no fault of a server: a table that does not come, targets that are switched off, and what fails on the machine
//! of the check.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use lnet_ptlrpc::opc;
use lnet_ptlrpc::server::Trouble;

use crate::common::finerail;
use crate::common::process::run;
use crate::common::site::Site;
use crate::words;
use crate::world::{AMPLE, MDT0, MGS, OSS, OST1, SHORT, World};

#[test]
fn table_that_does_not_come_is_no_finding() {
    let mut world = World::mgs_does(opc::MGS_CONFIG_READ, Trouble::Silence);
    (world.timeout, world.more) = (SHORT, Vec::new());
    world.run("no table").expect_code(0);
}

#[test]
fn targets_that_are_switched_off_are_not_said_to_serve() {
    let world = World::with(|world| {
        world.log.marker(1, OST1, "off");
        world
            .log
            .command(0xc_f00f, 0, &["fs1-OST0001-osc", "osc.active=0"]);
        world.log.marker(2, OST1, "off");
        // An empty rule needs no keys.
        world.rule(1, "fs1", "");
    });
    let ended = world.run("switched off").expect_code(0);
    let text = "all 2 targets serve; 1 more are switched off";
    assert!(ended.out.contains(text), "{}", ended.out);
    assert!(ended.out.contains("serves, Lustre 2.17.0"), "{}", ended.out);
}

#[test]
fn state_folder_that_cannot_be_written_accuses_no_server() {
    let site = Site::new();
    let nodes = World::healthy().start(&site);
    let (port, source) = (site.port.to_string(), format!("{MGS}:/fs1"));
    // Not even root can write here.
    let state = ["--state", "/proc/self/task"];
    let words = ["doctor", "mount", "--port", &port, "--timeout", AMPLE];
    let ended = run(finerail([&words[..], &state, &[&source]].concat())).expect_code(1);
    let first = ended.out.lines().next().unwrap();
    assert!(first.ends_with("[check-unfinished]"), "{}", ended.out);
    assert!(ended.out.contains("\nseen: cannot write "), "{}", ended.out);
    assert_eq!(nodes[0].server.lock().unwrap().asked, [] as [u32; 0]);
}

#[test]
fn net_on_which_a_node_of_this_machine_stands_is_not_examined() {
    let site = Site::new();
    let mut world = World::log_is(&[(MDT0, &[&["127.0.0.3@tcp7"]])]);
    world.down = BTreeSet::from([OSS]);
    let nodes = world.start(&site);
    let own = Arc::new(Mutex::new(None));
    let (port, held) = (site.port, Arc::clone(&own));
    let hook = move |asked| {
        if asked == opc::LLOG_CREATE {
            // A second log is opened, too.
            let listen = || TcpListener::bind(("127.0.0.1", port)).unwrap();
            held.lock().unwrap().get_or_insert_with(listen);
        }
    };
    *nodes[0].before_answer.lock().unwrap() = Some(Box::new(hook));
    let (port, state) = (port.to_string(), site.path("state"));
    let source = format!("{MGS}:/fs1");
    let ended = run(finerail(words(
        &port,
        state.to_str().unwrap(),
        AMPLE,
        &[&source],
    )));
    let ended = ended.expect_code(1);
    let first = ended.out.lines().next().unwrap();
    assert!(first.ends_with("[not-examined]"), "{}", ended.out);
    assert!(
        ended.out.contains("would look like its restart"),
        "{}",
        ended.out
    );
    drop(own);
}

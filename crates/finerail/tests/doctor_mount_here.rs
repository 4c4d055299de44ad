//! Tests of `finerail doctor mount` for what depends on this machine: its devices, its addresses, its folder of records.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

#[path = "doctor_mount/world.rs"]
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use lnet_ptlrpc::opc;

use common::finerail;
use common::lustre::LustreNode;
use common::process::{Ended, run};
use common::site::Site;
use world::{AMPLE, MDT0, MGS, OSS, OST0, World, expect, words};

/// A machine of these tests has no RDMA device under the address 127.0.0.1. One that has devices elsewhere may lack the
/// libraries; one with a kernel's node is not disturbed.
#[test]
fn what_is_only_on_an_o2ib_net_is_not_said_to_mount_without_a_device_there() {
    let is_spared = std::path::Path::new("/sys/module/ko2iblnd").exists();
    let named = |ended: &Ended, kind: &str| {
        let text = &ended.out;
        let first: Vec<&str> = text.lines().take(3).collect();
        let kind = if is_spared { "not-examined" } else { kind };
        assert!(first[0].contains(&format!("[{kind}]")), "{text}");
        assert!(
            first[1].contains("RDMA") || first[1].contains("ko2iblnd"),
            "{text}"
        );
        assert!(!first[0].contains("no interface"), "{text}");
    };
    let mgs = World::with(|w| w.source = "127.0.0.2@o2ib:/fs1".to_owned());
    named(&mgs.run("o2ib").expect_code(1), "mgs-no-device");
    let mdt: &[(&str, &[&[&str]])] = &[(MDT0, &[&["127.0.0.2@o2ib"]]), (OST0, &[&[OSS]])];
    let ended = World::log_is(mdt).run("o2ib").expect_code(1);
    named(&ended, "target-no-device");
    assert!(
        !ended.out.contains("this machine can mount it"),
        "{}",
        ended.out
    );
    let ost: &[(&str, &[&[&str]])] = &[(MDT0, &[&[MGS]]), (OST0, &[&["127.0.0.3@o2ib"]])];
    named(
        &World::log_is(ost).run("o2ib").expect_code(1),
        "target-no-device",
    );
    // Also from an address that was chosen.
    let chosen = |w: &mut World| {
        w.source = "127.0.0.2@o2ib:/fs1".to_owned();
        w.more = vec!["--source-address", "127.0.0.1"];
    };
    let ended = World::with(chosen).run("o2ib").expect_code(1);
    assert!(
        ended.out.contains("RDMA") && !ended.out.contains("no interface"),
        "{}",
        ended.out
    );
    // A server that has an address there beside the one that answers is none the worse.
    let both: &[(&str, &[&[&str]])] = &[(MDT0, &[&[MGS]]), (OST0, &[&[OSS, "127.0.0.3@o2ib"]])];
    World::log_is(both).run("o2ib").expect_code(0);
}

#[test]
fn what_is_only_on_a_net_of_another_kind_is_not_examined() {
    let log: &[(&str, &[&[&str]])] = &[(MDT0, &[&["15@gni"]]), (OST0, &[&[OSS]])];
    let ended = World::log_is(log).run("gni").expect_code(1);
    let first = "fs1: whether this machine can mount it is not known yet: fs1-MDT0000 is on a net on which this check";
    assert!(ended.out.starts_with(first), "{}", ended.out);
    assert!(
        ended.out.contains("seen: 15@gni: only tcp and o2ib nets"),
        "{}",
        ended.out
    );
    let mgs = World::with(|w| w.source = "15@gni:/fs1".to_owned());
    expect("not-examined", mgs);
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
    let own = Arc::new(std::sync::Mutex::new(None));
    let (port, held) = (site.port, Arc::clone(&own));
    let hook = move |asked| {
        if asked == opc::LLOG_CREATE {
            let listener = std::net::TcpListener::bind(("127.0.0.1", port));
            held.lock().unwrap().get_or_insert(listener.unwrap());
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

#[test]
fn check_does_not_speak_from_the_address_of_a_node_of_this_machine() {
    let site = Site::new();
    let own = LustreNode::start(site.port, &["127.0.0.1@tcp"], Vec::new());
    let (port, state) = (site.port.to_string(), site.path("state"));
    let state = state.to_str().unwrap();
    let source = format!("{MGS}:/fs1");
    run(finerail(words(&port, state, AMPLE, &[&source])))
        .expect_code(2)
        .expect_error("would look like its restart");
    drop(own);
}

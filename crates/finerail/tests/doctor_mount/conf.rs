//! `--lnet-conf`: the document that this machine needs for a file system.

use std::fs::File;
use std::thread;

use lnet_node::NodeOptions;
use lnet_ptlrpc::client::Service;
use lnet_ptlrpc::server::Served;
use nix::sched::{CloneFlags, setns};

use crate::common::lustre::{LustreNode, log_of};
use crate::common::netns::{End, Lab};
use crate::common::process::Process;
use crate::common::site::Site;
use crate::world::{AMPLE, MDT0, OST0, World};

#[test]
fn lnet_conf_has_the_interface_that_leads_there() {
    if !testkit::require("ip") {
        return;
    }
    let world = World::with(|world| world.more = vec!["--lnet-conf"]);
    let ended = world.run("lnet.conf").expect_code(0);
    assert!(
        ended.err.contains("this machine can mount it"),
        "{}",
        ended.err
    );
    let config = lnet_config::parse(&ended.out).unwrap();
    assert_eq!(config.nets.len(), 1, "{}", ended.out);
    assert_eq!(config.nets[0].nis[0].interfaces, ["lo"]);
    assert!(ended.out.contains("accept_port="), "{}", ended.out);
}

/// The way to the servers is by the second interface, in a network namespace of this machine.
#[test]
fn lnet_conf_names_the_interface_by_which_the_servers_are_reached_and_makes_a_node() {
    let Some(lab) = Lab::build(&["client", "office", "oss"]) else {
        return;
    };
    let end = |room, interface, address| End {
        room,
        interface,
        address,
    };
    lab.connect([
        &end("client", "eth0", "10.9.0.1/24"),
        &end("office", "eth0", "10.9.0.2/24"),
    ]);
    lab.connect([
        &end("client", "eth1", "10.1.0.1/24"),
        &end("oss", "eth0", "10.1.0.2/24"),
    ]);
    let server = served(&lab, "oss", "10.1.0.2@tcp");
    let site = Site::new();
    let state = site.path("state");
    let words = [
        "doctor",
        "mount",
        "--lnet-conf",
        "--privileged",
        "--timeout",
        AMPLE,
    ];
    let state = ["--state", state.to_str().unwrap()];
    let ended = lab.run(
        "client",
        &[&words[..], &state, &["10.1.0.2@tcp:/fs1"]].concat(),
    );
    let text = ended.expect_code(0).out;
    let config = lnet_config::parse(&text).unwrap();
    assert_eq!(config.nets.len(), 1, "{text}");
    assert_eq!(config.nets[0].nis[0].interfaces, ["eth1"], "{text}");
    assert!(!text.contains("accept_port="), "{text}");
    server.expect_no_harm("lnet.conf");
    let file = site.write("lnet.conf", &text);
    let node = ["node", "--config", file.to_str().unwrap()];
    let node = Process::start(lab.finerail("client", &node));
    node.wait_for_output("ready: 10.1.0.1@tcp on port 988");
    node.stop().expect_code(0);
}

/// Starts an MGS, MDT and OST in a room.
fn served(lab: &Lab, room: &str, nid: &str) -> LustreNode {
    let namespace = File::open(format!("/run/netns/{}", lab.namespace(room))).unwrap();
    let log = log_of(&[(MDT0, &[&[nid]]), (OST0, &[&[nid]])]);
    let targets = vec![
        Served::new(Service::Mgs, "MGS").log("fs1-client", log),
        Served::new(Service::Mdt, "fs1-MDT0000_UUID"),
        Served::new(Service::Ost, "fs1-OST0000_UUID"),
    ];
    // The threads of the node are in the namespace of the thread that starts them.
    let start = || {
        setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
        LustreNode::start(NodeOptions::LNET_PORT, &[nid], targets)
    };
    thread::scope(|scope| scope.spawn(start).join().unwrap())
}

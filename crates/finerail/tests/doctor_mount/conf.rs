//! `--lnet-conf`: the document that this machine needs for a file system.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use lnet_node::NodeOptions;
use lnet_ptlrpc::client::Service;
use lnet_ptlrpc::opc;
use lnet_ptlrpc::server::{Served, Trouble};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::Signal;

use crate::common::lustre::{LustreNode, log_of};
use crate::common::netns::{End, Lab};
use crate::common::process::Process;
use crate::common::site::Site;
use crate::common::{eventually, finerail};
use crate::words;
use crate::world::{AMPLE, MDT0, MGS, OST0, World};

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

#[test]
fn no_part_of_a_document_is_printed_when_there_is_no_log() {
    let absent = World::mgs_does(opc::MGS_CONNECT, Trouble::Status(-19));
    let down = World::with(|world| world.down = [MGS].into());
    for mut world in [absent, down] {
        world.more = vec!["--lnet-conf"];
        let ended = world.run("no log").expect_code(1);
        assert_eq!(ended.out, "", "{}", ended.err);
        let why = "--lnet-conf printed nothing: the log was not read";
        assert!(ended.err.contains(why), "{}", ended.err);
    }
}

/// A command `ip` that never ends, first in the search path.
struct EndlessIp {
    folder: std::path::PathBuf,
    pid: std::path::PathBuf,
}

impl EndlessIp {
    fn new(site: &Site) -> Self {
        let folder = site.path("bin");
        std::fs::create_dir(&folder).unwrap();
        let pid = site.path("pid");
        let script = format!(
            "#!/bin/sh\necho '[{{\"dev\": \"eth0\"'\necho $$ >{0}.new\nmv {0}.new {0}\nexec sleep 600\n",
            pid.display()
        );
        let ip = site.write("bin/ip", script);
        std::fs::set_permissions(&ip, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, pid }
    }

    fn path(&self) -> String {
        let path = std::env::var("PATH").unwrap();
        format!("{}:{path}", self.folder.display())
    }

    fn is_running(&self) -> bool {
        let pid = std::fs::read_to_string(&self.pid).unwrap();
        std::path::Path::new("/proc").join(pid.trim()).exists()
    }
}

#[test]
fn no_part_of_a_document_is_printed_when_ip_does_not_end_or_the_user_interrupts() {
    for is_interrupted in [true, false] {
        let site = Site::new();
        let nodes = World::healthy().start(&site);
        let ip = EndlessIp::new(&site);
        let (port, state) = (site.port.to_string(), site.path("state"));
        let source = format!("{MGS}:/fs1");
        let more = ["--lnet-conf", source.as_str()];
        let mut check = finerail(words(&port, state.to_str().unwrap(), AMPLE, &more));
        check.env("PATH", ip.path());
        let process = Process::start(check);
        eventually("ip runs", || ip.pid.exists().then_some(()));
        if is_interrupted {
            assert!(ip.is_running());
            process.signal(Signal::SIGINT);
        }
        let ended = process.wait().expect_code(1);
        assert_eq!(ended.out, "", "{}", ended.err);
        let why = match is_interrupted {
            true => "interrupted",
            false => "it did not end within 10 s",
        };
        assert!(
            ended.err.contains("--lnet-conf printed nothing: "),
            "{}",
            ended.err
        );
        assert!(ended.err.contains(why), "{}", ended.err);
        assert!(!ip.is_running(), "ip still runs");
        drop(nodes);
    }
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
pub(crate) fn served(lab: &Lab, room: &str, nid: &str) -> LustreNode {
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

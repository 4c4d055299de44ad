//! `finerail doctor mount` against a small MGS, MDT and OST on real sockets: a healthy site has no finding, each planted
//! trouble is named in the first three lines, nothing harmful is sent, and no connection stays unnamed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

#[path = "doctor_mount/conf.rs"]
mod conf;
#[path = "doctor_mount/flavors.rs"]
mod flavors;
#[path = "doctor_mount/innocent.rs"]
mod innocent;
#[path = "doctor_mount/interrupted.rs"]
mod interrupted;
#[path = "doctor_mount/lost.rs"]
mod lost;
#[path = "doctor_mount/many.rs"]
mod many;
#[path = "doctor_mount/own.rs"]
mod own;
#[path = "doctor_mount/rails.rs"]
mod rails;
#[path = "doctor_mount/saved.rs"]
mod saved;
#[path = "doctor_mount/world.rs"]
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lnet_ptlrpc::client::Service;
use lnet_ptlrpc::opc;
use lnet_ptlrpc::server::{LogWriter, Served, Trouble};
use nix::sys::signal::Signal;
use serde_json::Value;

use common::finerail;
use common::lustre::{LustreNode, log_of, nid};
use common::process::{Ended, Process, on_a_terminal, run};
use common::site::{Site, yaml};
use world::{AMPLE, MDT0, MGS, NOBODY, OSS, OST0, OST1, SHORT, SPARE, World, each, expect};

#[test]
fn healthy_site_has_no_finding() {
    for more in [vec![], vec!["--targets"]] {
        let world = World::with(|world| world.more = more.clone());
        let ended = world.run("healthy").expect_code(0);
        let text = &ended.out;
        assert!(
            text.starts_with("fs1: this machine can mount it\n"),
            "{text}"
        );
        assert!(text.contains("all 3 targets"), "{text}");
        for part in [
            "fs1-OST0001",
            "failover",
            "127.0.0.4@tcp",
            "from 127.0.0.1@tcp",
        ] {
            assert!(text.contains(part), "no '{part}' in {text}");
        }
        assert!(!text.contains("also:") && !text.contains("left:"), "{text}");
        assert_eq!(
            text.contains("serves, Lustre 2.17.0"),
            !more.is_empty(),
            "{text}"
        );
    }
}

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
fn table_says_where_a_target_is_now() {
    let moved = |w: &mut World| w.mgs = w.mgs.clone().ost_is_at(1, 1, &[nid(SPARE).0]);
    let ended = World::with(moved).run("moved").expect_code(0);
    let rows = |what: &str| ended.out.lines().filter(|line| line.contains(what)).count();
    assert_eq!(
        (rows(", now "), rows("failover, now")),
        (1, 1),
        "{}",
        ended.out
    );
    let row = ended
        .out
        .lines()
        .find(|line| line.contains("failover, now"))
        .unwrap();
    assert!(row.contains(OST1) && row.contains(SPARE), "{row}");
}

#[test]
fn a_reply_that_is_lost_once_is_no_finding() {
    for opc in [
        opc::MGS_CONNECT,
        opc::LLOG_READ_HEADER,
        opc::MGS_CONFIG_READ,
        opc::MGS_DISCONNECT,
    ] {
        let mut world = World::mgs_does(opc, Trouble::LostReply);
        world.mgs = world.mgs.ost_is_at(1, 1, &[nid(SPARE).0]);
        world.timeout = SHORT;
        let ended = world.run("a lost reply").expect_code(0);
        assert!(!ended.out.contains("left:"), "{}", ended.out);
    }
}

#[test]
fn troubles_of_the_way_to_the_mgs_are_named() {
    let down = |nids: &[&'static str]| nids.iter().copied().collect::<BTreeSet<_>>();
    expect("mgs-port-closed", World::with(|w| w.down = down(&[MGS])));
    expect(
        "mgs-port-closed",
        World::with(|w| w.source = format!("{NOBODY}:127.0.0.8@tcp:/fs1")),
    );
    expect("mgs-not-lnet", World::with(|w| w.strange = Some(MGS)));
    expect(
        "mgs-not-lnet",
        World::with(|w| w.source = "127.0.0.2@tcp5:/fs1".to_owned()),
    );
    expect(
        "mgs-no-net",
        World::with(|w| w.config = Some("127.0.0.1@tcp9")),
    );
    expect(
        "mgs-on-failover",
        World::with(|w| w.source = format!("{NOBODY}:{MGS}:/fs1")),
    );
    // Nodes behind the one that serves are pinged, too.
    expect(
        "failover-unreachable",
        World::with(|w| w.source = format!("{MGS}:{NOBODY}:/fs1")),
    );
    // Two NIDs of one node, of which one answers.
    expect(
        "interface-unreachable",
        World::with(|w| w.source = format!("{MGS},{NOBODY}:/fs1")),
    );
}

#[test]
fn what_the_mgs_answers_to_a_connect_is_named() {
    for (kind, trouble) in [
        ("mgs-absent", Trouble::Status(-19)),
        ("mgs-starting", Trouble::Status(-11)),
        ("mgs-flavor", Trouble::Status(-13)),
        ("mgs-banned", Trouble::Status(-1)),
        ("mgs-protocol", Trouble::Status(-71)),
        ("mgs-error", Trouble::Status(-5)),
        ("mgs-garbage", Trouble::Text),
        ("mgs-garbage", Trouble::Empty),
        ("mgs-garbage", Trouble::Echo),
        ("mgs-garbage", Trouble::OtherOperation),
    ] {
        expect(kind, World::mgs_does(opc::MGS_CONNECT, trouble));
    }
    expect(
        "mgs-banned",
        World::mgs_does(opc::LLOG_CREATE, Trouble::Banned),
    );
    expect(
        "mgs-garbage",
        World::mgs_does(opc::LLOG_READ_HEADER, Trouble::Lengths),
    );
}

#[test]
fn an_mgs_that_is_none_or_silent_is_named_within_the_timeout() {
    // The NID of an OSS.
    let of_oss = World::with(|w| {
        w.source = format!("{OSS}:/fs1");
        w.timeout = SHORT;
    });
    expect("mgs-silent", of_oss);
    for trouble in [
        Trouble::Silence,
        Trouble::OtherXid,
        Trouble::LostReplies,
        Trouble::EarlyForever,
    ] {
        let mut world = World::mgs_does(opc::MGS_CONNECT, trouble);
        world.timeout = SHORT;
        expect("mgs-silent", world);
    }
}

#[test]
fn a_peer_that_accepts_and_says_nothing_is_unreachable() {
    let mute = World::with(|w| {
        w.strange = Some(MGS);
        w.is_mute = true;
        w.timeout = SHORT;
    });
    expect("mgs-unreachable", mute);
}

#[test]
fn an_mgs_that_goes_silent_behind_its_connect_is_called_late() {
    each(
        [
            (opc::LLOG_CREATE, Trouble::Silence),
            (opc::LLOG_READ_HEADER, Trouble::Silence),
            (opc::LLOG_NEXT_BLOCK, Trouble::Silence),
            (opc::LLOG_NEXT_BLOCK, Trouble::EarlyForever),
            // Longer than the check waits, twice.
            (opc::LLOG_NEXT_BLOCK, Trouble::Slow(Duration::from_secs(60))),
        ],
        |(opc, trouble)| {
            let mut world = World::mgs_does(opc, trouble);
            world.timeout = SHORT;
            expect("mgs-late", world);
        },
    );
}

#[test]
fn servers_that_are_slow_and_in_time_are_no_finding() {
    let slow = (0, Trouble::Slow(Duration::from_millis(300)));
    let world = World::with(|w| {
        w.mgs.troubles.push(slow);
        w.mdt.troubles.push(slow);
        w.ost.troubles.push(slow);
    });
    world.run("slow").expect_code(0);
}

#[test]
fn mgs_that_does_not_answer_the_disconnect_has_a_connection_that_is_named() {
    let mut world = World::mgs_does(opc::MGS_DISCONNECT, Trouble::Silence);
    world.timeout = SHORT;
    let ended = world.run("a silent disconnect").expect_code(0);
    assert!(ended.out.contains("\nleft: MGS at "), "{}", ended.out);
}

/// A router between the check and the MGS stands still once the MGS has this request, as a machine does that hangs: its
/// connections stay, and nothing comes.
#[test]
fn whatever_stands_still_is_named_and_the_check_ends() {
    each(
        [
            (None, "mgs-unreachable"),
            (Some(opc::MGS_CONNECT), "mgs-silent"),
            (Some(opc::LLOG_CREATE), "mgs-late"),
            (Some(opc::LLOG_READ_HEADER), "mgs-late"),
            (Some(opc::LLOG_NEXT_BLOCK), "mgs-late"),
            // The log has been read by then.
            (Some(opc::MGS_CONFIG_READ), "target-unreachable"),
            (Some(opc::MGS_DISCONNECT), "target-unreachable"),
        ],
        |(standstill, kind)| {
            let site = Site::new();
            let (own, router, server) = behind_a_router(&site);
            match standstill {
                None => router.signal(Signal::SIGSTOP),
                Some(opc) => {
                    let hook = move |asked| {
                        if asked == opc {
                            router.signal(Signal::SIGSTOP);
                        }
                    };
                    *server.before_answer.lock().unwrap() = Some(Box::new(hook));
                }
            }
            let (port, state) = (site.port.to_string(), site.path("state"));
            let state = state.to_str().unwrap();
            let ended = run(finerail(words(
                &port,
                state,
                SHORT,
                &["--config", &own, FAR],
            )));
            let ended = ended.expect_code(1);
            let first = ended.out.lines().next().unwrap();
            assert!(
                first.ends_with(&format!("[{kind}]")),
                "{standstill:?}: {first}"
            );
            let connected = server.server.lock().unwrap().connected();
            let is_named = |(_, uuid): &(String, String)| ended.out.contains(uuid);
            assert!(
                connected.iter().all(is_named),
                "{standstill:?}: {}",
                ended.out
            );
            assert_eq!(
                connected.is_empty(),
                standstill.is_none() || standstill == Some(opc::MGS_DISCONNECT)
            );
            server.expect_no_harm("standing still");
        },
    );
}

#[test]
fn what_was_not_asked_in_time_is_not_known() {
    let mut world = World::healthy();
    world.timeout = "0.001";
    let ended = world.run("no time").expect_code(1);
    assert!(
        ended
            .out
            .starts_with("fs1: whether this machine can mount it is not known yet: the MGS at"),
        "{}",
        ended.out
    );
    assert!(
        ended
            .out
            .contains("\nseen: the 0.001 s of --timeout are over\n"),
        "{}",
        ended.out
    );
}

#[test]
fn troubles_of_the_log_are_named() {
    expect(
        "no-file-system",
        World::with(|w| w.source = format!("{MGS}:/fs2")),
    );
    for (opc, trouble) in [
        (opc::LLOG_READ_HEADER, Trouble::Ones),
        (opc::LLOG_READ_HEADER, Trouble::Short),
        (opc::LLOG_NEXT_BLOCK, Trouble::Ones),
        (opc::LLOG_NEXT_BLOCK, Trouble::Short),
        (opc::LLOG_NEXT_BLOCK, Trouble::Status(-12)),
    ] {
        expect("log-unreadable", World::mgs_does(opc, trouble));
    }
    let mut standing = World::mgs_does(opc::LLOG_NEXT_BLOCK, Trouble::SameBlock);
    for index in 2..60 {
        let name = format!("fs1-OST{index:04x}");
        standing.log.target(&name, &[&[nid(OSS)]]);
    }
    expect("log-unreadable", standing);
    let unknown = |log: &mut LogWriter| {
        log.marker(1, "fs1", "new");
        log.command(0xc_f0ff, 0, &["fs1"]);
        log.marker(2, "fs1", "new");
    };
    expect("log-unknown", World::with(|w| unknown(&mut w.log)));
    expect("log-empty", World::log_is(&[(OST0, &[&[OSS]])]));
    expect(
        "index-gap",
        World::log_is(&[(MDT0, &[&[MGS]]), (OST1, &[&[OSS]])]),
    );
    let mut twice = World::log_is(&[
        (MDT0, &[&[MGS]]),
        (OST0, &[&[OSS, SPARE]]),
        (OST1, &[&[MGS, OSS]]),
    ]);
    twice.more.clear();
    expect("nid-of-two-nodes", twice);
}

#[test]
fn troubles_of_the_way_to_a_target_are_named() {
    let ost = |nodes: &[&[&str]]| World::log_is(&[(MDT0, &[&[MGS]]), (OST0, nodes)]);
    expect("target-no-nid", ost(&[&[]]));
    expect("target-bad-nid", ost(&[&["storage five"]]));
    // A kind of net that nobody knows.
    let mut unknown = ost(&[]);
    unknown.log = log_of(&[(MDT0, &[&[MGS]])]);
    unknown
        .log
        .target(OST0, &[&[(0x0063_0000_c0a8_0105, "nobody")]]);
    expect("target-bad-nid", unknown);
    expect("target-here", ost(&[&["127.0.0.1@tcp"]]));
    expect("target-port-closed", ost(&[&[NOBODY]]));
    expect("target-port-closed", World::log_is(&[(MDT0, &[&[NOBODY]])]));
    expect("target-on-failover", ost(&[&[NOBODY], &[OSS]]));
    expect("failover-unreachable", ost(&[&[OSS], &[NOBODY]]));
    expect("interface-unreachable", ost(&[&[OSS, NOBODY]]));
    let mut elsewhere = ost(&[&["127.0.0.3@tcp7"]]);
    elsewhere.config = Some("127.0.0.1@tcp");
    expect("target-no-net", elsewhere);
    let elsewhere = |w: &mut World| w.mgs = w.mgs.clone().ost_is_at(1, 0, &[nid(NOBODY).0]);
    // Unless the check connects to the target.
    World::with(elsewhere).run("elsewhere").expect_code(0);
    let mut elsewhere = World::with(elsewhere);
    elsewhere.more.clear();
    expect("target-elsewhere", elsewhere);
    let mut strange = ost(&[&[OSS]]);
    strange.strange = Some(OSS);
    expect("target-not-lnet", strange);
}

#[test]
fn what_a_target_answers_is_named() {
    for (kind, opc, trouble) in [
        // The failover node does not answer the connect.
        ("target-silent", opc::OST_CONNECT, Trouble::Status(-19)),
        ("target-starting", opc::OST_CONNECT, Trouble::Status(-11)),
        ("target-banned", opc::OST_CONNECT, Trouble::Status(-1)),
        ("target-banned", opc::OST_STATFS, Trouble::Banned),
        ("target-flavor", opc::OST_CONNECT, Trouble::Status(-13)),
        (
            "target-read-only-map",
            opc::OST_CONNECT,
            Trouble::Status(-30),
        ),
        ("target-protocol", opc::OST_CONNECT, Trouble::Status(-71)),
        ("target-error", opc::OST_CONNECT, Trouble::Status(-5)),
        ("target-garbage", opc::OST_CONNECT, Trouble::Text),
        ("target-garbage", opc::OBD_PING, Trouble::Lengths),
        ("target-recovering", opc::OST_STATFS, Trouble::Status(-11)),
        ("target-recovering", 0, Trouble::Recovery),
        ("target-full", opc::OST_STATFS, Trouble::State(0x20)),
        ("target-frozen", opc::OST_STATFS, Trouble::State(2)),
    ] {
        let mut world = World::ost_does(opc, trouble);
        world.timeout = SHORT;
        expect(kind, world);
    }
    let silent = World::with(|w| {
        w.log = log_of(&[(MDT0, &[&[MGS]]), (OST0, &[&[SPARE]])]);
        w.timeout = SHORT;
    });
    expect("target-silent", silent);
    // The target that holds the root directory keeps the file system from being mounted.
    let root = World::with(|w| {
        w.mdt
            .troubles
            .push((opc::MDS_CONNECT, Trouble::Status(-19)))
    });
    let ended = root.run("no root").expect_code(1);
    assert!(
        ended.out.starts_with("fs1: this machine cannot mount it"),
        "{}",
        ended.out
    );
}

#[test]
fn document_for_programs_and_saved_list_have_every_target() {
    let site = Site::new();
    let nodes = World::healthy().start(&site);
    let (port, saved, state) = (
        site.port.to_string(),
        site.path("fs1.json"),
        site.path("state"),
    );
    let (saved, state) = (saved.to_str().unwrap(), state.to_str().unwrap());
    let source = format!("{MGS}:/fs1");
    let words = [
        "doctor",
        "mount",
        "--port",
        &port,
        "--timeout",
        AMPLE,
        "--state",
        state,
    ];
    let words = [
        &words[..],
        &["--targets", "--json", "--save", saved, &source],
    ]
    .concat();
    let document: Value = serde_json::from_str(&run(finerail(words)).expect_code(0).out).unwrap();
    assert_eq!(document["healthy"], true);
    assert_eq!(document["mgs"][0]["release"], "2.17.0");
    assert_eq!(document["targets"][1]["connects"][0]["serves"], true);
    let saved: Value = serde_json::from_slice(&std::fs::read(saved).unwrap()).unwrap();
    assert_eq!(saved["mgs"][0][0], MGS);
    assert_eq!(saved["targets"][OST0]["failover"][0][0], SPARE);
    drop(nodes);
}

/// Returns the check with this state folder and timeout.
fn words<'a>(port: &'a str, state: &'a str, timeout: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let words = [
        "doctor",
        "mount",
        "--port",
        port,
        "--timeout",
        timeout,
        "--state",
        state,
    ];
    [&words[..], more].concat()
}

/// The file system behind a router.
const FAR: &str = "127.0.0.7@tcp1:/fs1";

/// Starts an MGS and MDT behind a router. Returns the document of the check's own node, too.
fn behind_a_router(site: &Site) -> (String, Process, LustreNode) {
    behind_a_router_with(site, &["127.0.0.7@tcp1"])
}

/// Starts an MGS and MDT with these NIDs behind a router.
fn behind_a_router_with(site: &Site, nids: &[&str]) -> (String, Process, LustreNode) {
    let own = yaml(
        &["127.0.0.1@tcp"],
        "route:\n- net: tcp1\n  gateway: 127.0.0.5@tcp\n",
    );
    let own = site.write("own.yaml", own);
    let router = yaml(
        &["127.0.0.5@tcp", "127.0.0.6@tcp1"],
        "routing:\n  enable: 1\n",
    );
    site.write("router.yaml", router);
    let router = site.start_node("router");
    let far = yaml(nids, "route:\n- net: tcp\n  gateway: 127.0.0.6@tcp1\n");
    let log = log_of(&[(MDT0, &[&["127.0.0.7@tcp1"]])]);
    let targets = vec![
        Served::new(Service::Mgs, "MGS").log("fs1-client", log),
        Served::new(Service::Mdt, "fs1-MDT0000_UUID"),
    ];
    let server = LustreNode::configured(site.port, &far, targets);
    (own.to_str().unwrap().to_owned(), router, server)
}

#[test]
fn servers_behind_a_router_are_reached_through_it() {
    let site = Site::new();
    let (own, router, server) = behind_a_router(&site);
    let (port, state) = (site.port.to_string(), site.path("state"));
    let more = ["--targets", "--config", &own, FAR];
    let ended = run(finerail(words(
        &port,
        state.to_str().unwrap(),
        AMPLE,
        &more,
    )))
    .expect_code(0);
    assert!(ended.out.contains("through 127.0.0.5@tcp"), "{}", ended.out);
    server.expect_no_harm("behind a router");
    assert_eq!(server.server.lock().unwrap().connected(), []);
    drop(router.stop());
}

/// The nodes with object targets, and the NIDs of each.
const NODES: usize = 50;
const RAILS: usize = 4;

/// Starts 2,000 targets on 200 NIDs. Returns the names of the targets with the NIDs of their nodes, and the nodes.
fn many_nodes(port: u16) -> (Vec<(String, Vec<String>)>, Vec<LustreNode>) {
    let mut all = Vec::new();
    let mut nodes = Vec::new();
    for node in 0..NODES {
        let rails = 1..=RAILS;
        let nids: Vec<String> = rails
            .map(|rail| format!("127.1.{node}.{rail}@tcp"))
            .collect();
        let names = (0..2000 / NODES).map(|at| format!("fs1-OST{:04x}", at * NODES + node));
        let names: Vec<String> = names.collect();
        let served = names
            .iter()
            .map(|name| Served::new(Service::Ost, &format!("{name}_UUID")));
        let texts: Vec<&str> = nids.iter().map(String::as_str).collect();
        nodes.push(LustreNode::start(port, &texts, served.collect()));
        all.extend(names.into_iter().map(|name| (name, nids.clone())));
    }
    (all, nodes)
}

#[test]
fn two_thousand_targets_are_asked_few_at_a_time_and_a_terminal_shows_how_far() {
    if !testkit::require("script") {
        return;
    }
    let site = Site::new();
    let (targets, nodes) = many_nodes(site.port);
    let mut log = log_of(&[(MDT0, &[&[MGS]])]);
    for (name, nids) in &targets {
        let node: Vec<(u64, &str)> = nids.iter().map(|text| nid(text)).collect();
        log.target(name, &[&node]);
    }
    let world = World::with(|world| {
        world.log = log;
        world.down = BTreeSet::from([OSS, SPARE]);
    });
    let mgs = world.start(&site);
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for node in &nodes {
        let (open, most) = (Arc::clone(&open), Arc::clone(&most));
        let hook = move |asked| match asked {
            opc::OST_CONNECT => {
                most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            }
            opc::OST_DISCONNECT => {
                open.fetch_sub(1, Ordering::SeqCst);
            }
            _ => {}
        };
        *node.before_answer.lock().unwrap() = Some(Box::new(hook));
    }
    let (port, state) = (site.port.to_string(), site.path("state"));
    let source = format!("{MGS}:/fs1");
    // The timeout is the default one: four at a time are enough for it.
    let words = [
        "doctor",
        "mount",
        "--port",
        &port,
        "--state",
        state.to_str().unwrap(),
        "--targets",
        &source,
    ];
    let ended = on_a_terminal(&finerail(words)).wait_within(Duration::from_secs(400));
    let screen = ended.expect_code(0).out;
    for part in [
        "all 2001 targets serve",
        "128 of 201 NIDs asked ...",
        "asking 2001 targets, 4 at a time ...",
        "\n1024 of 2001 targets asked ...",
        "\n1984 of 2001 targets asked ...",
    ] {
        assert!(screen.contains(part), "no '{part}' in {screen}");
    }
    assert!(
        targets
            .iter()
            .all(|(name, _)| screen.contains(name.as_str()))
    );
    for node in nodes.iter().chain(&mgs) {
        node.expect_no_harm("2,000 targets");
        assert_eq!(node.server.lock().unwrap().connected(), []);
    }
    for node in &nodes {
        let asked = node.server.lock().unwrap().asked.clone();
        let connects = asked.iter().filter(|opc| **opc == opc::OST_CONNECT);
        assert_eq!(connects.count(), 2000 / NODES);
    }
    let most = most.load(Ordering::SeqCst);
    assert!((2..=4).contains(&most), "{most} at a time");
}

#[test]
fn wrong_use_is_an_error_before_anything_is_sent() {
    for (source, why) in [
        ("127.0.0.2@tcp", "has no ':/NAME'"),
        ("127.0.0.2@tcp:/toolongname", "longer than"),
        ("127.0.0@tcp:/fs1", "127.0.0@tcp"),
    ] {
        let ended = run(finerail(["doctor", "mount", "--state", "/nowhere", source]));
        ended.expect_code(2).expect_error(why);
    }
}

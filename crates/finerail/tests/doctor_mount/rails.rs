//! Nodes with several NIDs: a reply may come from each, and one may be lost.

use lnet_ptlrpc::client::Service;
use lnet_ptlrpc::opc;
use lnet_ptlrpc::server::{Served, Trouble};

use crate::common::finerail;
use crate::common::lustre::{LustreNode, log_of, nid};
use crate::common::netns::{End, Lab};
use crate::common::process::{Ended, run};
use crate::common::site::Site;
use crate::conf::served;
use crate::world::{AMPLE, MDT0, MGS, OST0};
use crate::{FAR, behind_a_router_with, words};

/// The primary NID of the server is on a net that the check has no route to.
#[test]
fn replies_come_from_any_nid_of_the_server() {
    let site = Site::new();
    let nids = ["127.0.0.8@tcp2", "127.0.0.7@tcp1"];
    let (own, router, server) = behind_a_router_with(&site, &nids);
    let (port, state) = (site.port.to_string(), site.path("state"));
    let more = ["--targets", "--config", &own, FAR];
    let words = words(&port, state.to_str().unwrap(), AMPLE, &more);
    let ended = run(finerail(words)).expect_code(0);
    assert!(!ended.out.contains("left:"), "{}", ended.out);
    server.expect_no_harm("several NIDs");
    assert_eq!(server.server.lock().unwrap().connected(), []);
    drop(router.stop());
}

/// More MDTs than the check asks at a time.
const MDTS: u32 = 9;

const LOST: &str = "127.0.0.12@tcp";
const KEPT: &str = "127.0.0.13@tcp";

/// Runs the check of a file system with one OST on one node, of which `LOST` is gone when all NIDs have answered a ping.
fn check_with_lost(nids: &[&str], kept: Option<Served>) -> (Ended, Option<LustreNode>) {
    let site = Site::new();
    let name = |index| format!("fs1-MDT{index:04x}");
    let mut log = log_of(&[(MDT0, &[&[MGS]])]);
    (1..MDTS).for_each(|index| log.target(&name(index), &[&[nid(MGS)]]));
    let nids: Vec<(u64, &str)> = nids.iter().map(|text| nid(text)).collect();
    log.target(OST0, &[&nids]);
    let mut mgs = vec![Served::new(Service::Mgs, "MGS").log("fs1-client", log)];
    mgs.extend((0..MDTS).map(|index| Served::new(Service::Mdt, &format!("{}_UUID", name(index)))));
    let mgs = LustreNode::start(site.port, &[MGS], mgs);
    let ost = Served::new(Service::Ost, "fs1-OST0000_UUID");
    let mut lost = Some(LustreNode::start(site.port, &[LOST], vec![ost]));
    let kept = kept.map(|served| LustreNode::start(site.port, &[KEPT], vec![served]));
    let hook = move |asked| {
        if asked == opc::MDS_CONNECT {
            lost.take();
        }
    };
    *mgs.before_answer.lock().unwrap() = Some(Box::new(hook));
    let (port, state) = (site.port.to_string(), site.path("state"));
    let source = format!("{MGS}:/fs1");
    let more = ["--targets", source.as_str()];
    let words = words(&port, state.to_str().unwrap(), AMPLE, &more);
    (run(finerail(words)).expect_code(1), kept)
}

#[test]
fn node_that_refuses_behind_its_ping_is_said_to_refuse_and_has_no_connection() {
    let (ended, _) = check_with_lost(&[LOST], None);
    let first: Vec<&str> = ended.out.lines().take(2).collect();
    assert!(first[0].ends_with("[target-port-closed]"), "{}", ended.out);
    assert!(first[1].contains("Connection refused"), "{}", ended.out);
    assert!(!ended.out.contains("left:"), "{}", ended.out);
}

#[test]
fn lost_nid_is_not_asked_again_and_the_failure_is_that_of_the_other() {
    let silent = Served::new(Service::Ost, "fs1-OST0000_UUID");
    let silent = silent.with(opc::OST_CONNECT, Trouble::Silence);
    let (ended, kept) = check_with_lost(&[LOST, KEPT], Some(silent));
    let text = &ended.out;
    assert!(text.contains("[target-silent]"), "{text}");
    assert!(!text.contains("could not be sent"), "{text}");
    let mut left = text.lines().filter(|line| line.starts_with("left: "));
    let of_kept = format!("fs1-OST0000_UUID at {KEPT}");
    assert!(left.next().unwrap().contains(&of_kept), "{text}");
    assert_eq!(left.next(), None, "{text}");
    let asked = kept.unwrap().server.lock().unwrap().asked.clone();
    assert_eq!(asked, [opc::OST_CONNECT; 2], "{text}");
}

#[test]
fn lost_nid_leaves_no_connection_when_the_other_refuses() {
    let absent = Served::new(Service::Ost, "fs1-OST0000_UUID");
    let absent = absent.with(opc::OST_CONNECT, Trouble::Status(-13));
    let (ended, _) = check_with_lost(&[LOST, KEPT], Some(absent));
    assert!(ended.out.contains("[target-flavor]"), "{}", ended.out);
    assert!(!ended.out.contains("left:"), "{}", ended.out);
}

#[test]
fn net_without_an_ip_route_is_named_and_the_other_nids_are_asked() {
    let Some(lab) = Lab::build(&["client", "oss"]) else {
        return;
    };
    let end = |room, address| End {
        room,
        interface: "eth0",
        address,
    };
    let ends = [end("client", "10.1.0.1/24"), end("oss", "10.1.0.2/24")];
    lab.connect([&ends[0], &ends[1]]);
    let server = served(&lab, "oss", "10.1.0.2@tcp");
    let site = Site::new();
    let state = site.path("state");
    let check = |source: &str| {
        let state = ["--state", state.to_str().unwrap(), "--timeout", AMPLE];
        let words = ["doctor", "mount", "--privileged", source];
        lab.run("client", &[&words[..], &state].concat())
    };
    let ended = check("10.9.0.2@tcp:/fs1").expect_code(1);
    let first: Vec<&str> = ended.out.lines().take(3).collect();
    assert!(first[0].ends_with("[mgs-no-net]"), "{}", ended.out);
    assert!(first[2].starts_with("to do: "), "{}", ended.out);
    for source in [
        "10.9.0.2@tcp1:10.1.0.2@tcp:/fs1",
        "10.9.0.2@tcp:10.1.0.2@tcp:/fs1",
    ] {
        let ended = check(source);
        let first = ended.out.lines().next().unwrap_or_default();
        let serves = "fs1: this machine can mount it";
        assert!(first.starts_with(serves), "{}{}", ended.out, ended.err);
    }
    server.expect_no_harm("no route");
}

//! Nodes that are not reached, or not any more, beside others that are.

use lnet_ptlrpc::client::Service;
use lnet_ptlrpc::opc;
use lnet_ptlrpc::server::{Served, Trouble};

use crate::common::finerail;
use crate::common::lustre::{LustreNode, log_of, nid};
use crate::common::process::run;
use crate::common::site::Site;
use crate::words;
use crate::world::{AMPLE, MDT0, MGS, NOBODY, OSS, OST0, OST1, SHORT, SPARE, World, each, expect};

const NONE_THERE: Trouble = Trouble::Status(-19);

#[test]
fn the_mgs_may_run_on_the_node_that_was_not_reached() {
    each(
        [
            format!("{NOBODY}:{MGS}:/fs1"),
            format!("{MGS}:{NOBODY}:/fs1"),
            // The NID of an OSS: nothing answers there as an MGS.
            format!("{NOBODY}:{OSS}:/fs1"),
        ],
        |source| {
            let mut world = World::mgs_does(opc::MGS_CONNECT, NONE_THERE);
            (world.source, world.timeout) = (source, SHORT);
            let ended = world.run("not found").expect_code(1);
            let first: Vec<&str> = ended.out.lines().take(3).collect();
            let expected = format!("cannot mount it: {NOBODY} was not reached");
            assert!(first[0].contains(&expected), "{first:?}");
            assert!(first[0].ends_with("[mgs-not-found]"), "{first:?}");
            assert!(
                first[2].starts_with("to do: bring up the node"),
                "{first:?}"
            );
        },
    );
    let mut both = World::mgs_does(opc::MGS_CONNECT, NONE_THERE);
    (both.source, both.timeout) = (format!("{MGS}:{SPARE}:/fs1"), SHORT);
    both.spare = vec![Served::new(Service::Mgs, "MGS").with(0, NONE_THERE)];
    expect("mgs-absent", both);
}

#[test]
fn a_target_may_run_on_the_node_that_was_not_reached() {
    let ost = |nodes: &[&[&str]]| {
        let mut world = World::ost_does(opc::OST_CONNECT, NONE_THERE);
        world.log = log_of(&[(MDT0, &[&[MGS]]), (OST0, nodes)]);
        world
    };
    for nodes in [[&[NOBODY][..], &[OSS]], [&[OSS], &[NOBODY]]] {
        let ended = ost(&nodes).run("not found").expect_code(1);
        let first: Vec<&str> = ended.out.lines().take(3).collect();
        assert!(first[0].ends_with("[target-not-found]"), "{first:?}");
        assert!(
            first[1].contains(NOBODY) && first[1].contains(OSS),
            "{first:?}"
        );
        assert!(!ended.out.contains("also:"), "{}", ended.out);
    }
    let mut both = ost(&[&[OSS], &[SPARE]]);
    both.spare = vec![Served::new(Service::Ost, "fs1-OST0009_UUID")];
    expect("target-absent", both);
    // One that was not reached, and another that serves.
    let mut served = ost(&[&[NOBODY], &[SPARE]]);
    served.spare = vec![Served::new(Service::Ost, "fs1-OST0000_UUID")];
    expect("target-on-failover", served);
}

/// The names of MDTs on the node of the MGS. There are more than the check asks at a time.
const MDTS: u32 = 9;

/// The NIDs of OST0, which are of one node, and those of OST1, which are of two. The first of each is lost.
const LOST: [&str; 2] = ["127.0.0.12@tcp", "127.0.0.14@tcp"];
const KEPT: [&str; 2] = ["127.0.0.13@tcp", "127.0.0.15@tcp"];

#[test]
fn a_nid_that_is_lost_behind_its_ping_hands_over_to_the_next() {
    let site = Site::new();
    let name = |index| format!("fs1-MDT{index:04x}");
    let mut world = World::healthy();
    world.log = log_of(&[(MDT0, &[&[MGS]])]);
    (1..MDTS).for_each(|index| world.log.target(&name(index), &[&[nid(MGS)]]));
    world.log.target(OST0, &[&[nid(LOST[0]), nid(KEPT[0])]]);
    world.log.target(OST1, &[&[nid(LOST[1])], &[nid(KEPT[1])]]);
    let mut mgs = vec![world.mgs.clone().log("fs1-client", world.log.clone())];
    mgs.extend((0..MDTS).map(|index| Served::new(Service::Mdt, &format!("{}_UUID", name(index)))));
    let mgs = LustreNode::start(site.port, &[MGS], mgs);
    let osts = || [OST0, OST1].map(|name| Served::new(Service::Ost, &format!("{name}_UUID")));
    let mut lost = Some(LustreNode::start(site.port, &LOST, osts().to_vec()));
    let kept = KEPT.map(|nid| LustreNode::start(site.port, &[nid], osts().to_vec()));
    // All NIDs have answered a ping before the first MDT is asked, and all MDTs are asked before the first OST.
    let hook = move |asked| {
        if asked == opc::MDS_CONNECT {
            lost.take();
        }
    };
    *mgs.before_answer.lock().unwrap() = Some(Box::new(hook));
    let (port, state) = (site.port.to_string(), site.path("state"));
    let source = format!("{MGS}:/fs1");
    let more = ["--targets", source.as_str()];
    let ended = run(finerail(words(
        &port,
        state.to_str().unwrap(),
        AMPLE,
        &more,
    )));
    let text = ended.expect_code(1).out;
    assert!(text.contains("[interface-unreachable]"), "{text}");
    assert!(text.contains("[target-on-failover]"), "{text}");
    assert_eq!(
        text.matches("answered a ping, and then").count(),
        2,
        "{text}"
    );
    for (name, kept) in [OST0, OST1].into_iter().zip(KEPT) {
        let is_row = |line: &&str| line.trim_start().starts_with(name) && line.contains(kept);
        let row = text.lines().find(is_row).unwrap();
        assert!(row.contains("serves, Lustre 2.17.0"), "{row}");
    }
    for node in kept.iter().chain([&mgs]) {
        node.expect_no_harm("a lost NID");
        assert_eq!(node.server.lock().unwrap().connected(), []);
    }
    let asked = mgs.server.lock().unwrap().asked.clone();
    let connects = asked.iter().filter(|opc| **opc == opc::MDS_CONNECT);
    assert_eq!(connects.count(), MDTS as usize);
}

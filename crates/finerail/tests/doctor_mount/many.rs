//! A configuration log with more nets than a machine has interfaces for, and an MGS with several nodes.

use crate::common::lustre::{log_of, nid};
use crate::world::{MDT0, MGS, OSS, SPARE, World};

/// As many as a hostile log may name, and few enough for a test.
const NETS: usize = 300;

#[test]
fn log_with_hundreds_of_nets_makes_interfaces_on_some_of_them() {
    let mut log = log_of(&[(MDT0, &[&[MGS]])]);
    for net in 1..=NETS {
        let text = format!("127.0.0.3@tcp{net}");
        log.target(&format!("fs1-OST{net:04x}"), &[&[nid(&text)]]);
    }
    let world = |more: &'static str| {
        World::with(|world| {
            world.log = log.clone();
            world.more = vec![more];
        })
    };
    let ended = world("--targets").run("many nets").expect_code(1);
    assert!(ended.out.contains("[not-examined]"), "{}", ended.out);
    assert!(ended.out.contains("on 64 nets at most"), "{}", ended.out);
    let tried = ended.out.matches(" from 127.0.0.1@tcp").count();
    // One is that of the MGS and the MDT.
    assert_eq!(tried, 64 + 1, "{}", ended.out);
    if testkit::require("ip") {
        let ended = world("--lnet-conf").run("many nets").expect_code(1);
        let config = lnet_config::parse(&ended.out).unwrap();
        assert_eq!(config.nets.len(), 64, "{}", ended.out);
        let more = format!("# {} more nets", NETS + 1 - 64);
        assert!(ended.out.contains(&more), "{}", ended.out);
    }
}

#[test]
fn nodes_of_the_mgs_behind_the_one_that_serves_are_pinged_and_not_asked() {
    let world = World::with(|world| world.source = format!("{MGS}:{SPARE},{OSS}:/fs1"));
    let ended = world.run("several nodes of the MGS").expect_code(0);
    for nid in [MGS, SPARE, OSS] {
        let mut rows = ended.out.lines();
        let row = rows.find(|line| line.trim_start().starts_with("MGS") && line.contains(nid));
        assert!(
            row.is_some_and(|row| row.contains("answers")),
            "{nid}: {}",
            ended.out
        );
    }
}

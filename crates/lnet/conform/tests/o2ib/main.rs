//! Over RDMA, our own node passes every check. With each planted defect, exactly the expected checks fail.
//!
//! The node is the real stack with the real o2ib LND, on the virtual fabric. A device between the fabric and the checker
//! changes what the checker hears, to create the defects.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod defects;
mod spoiled;
mod world;

use std::time::Duration;

use lnet_conform::{Check, NodeUnderTest, O2IB_CHECKS, O2ibNode, SetupError, Subject, Verdict};

use defects::{DEFECTS, Defect, NONE};
use world::World;

/// Virtual time.
const TIMEOUT: Duration = Duration::from_secs(10);

fn subject(nid: &str) -> Subject {
    let nid: lnet_types::Nid = nid.parse().unwrap();
    Subject {
        nid,
        address: (nid.ip().unwrap(), 987).into(),
        source: world::CHECKER.into(),
        privileged: false,
        timeout: TIMEOUT,
    }
}

fn node(defect: &'static Defect, depth: u8) -> (O2ibNode, lnet_o2ib::fabric::Fabric) {
    let world = World::new(defect, depth);
    let fabric = world.fabric.clone();
    let node = O2ibNode::new(subject("10.7.0.1@o2ib"), Box::new(world));
    (node.unwrap(), fabric)
}

/// Runs every check, and returns those that did not pass.
fn others(node: &mut O2ibNode) -> Vec<(&'static str, Verdict)> {
    let run = |check: &'static Check| (check.id, node.run(check).verdict);
    let mut all: Vec<_> = O2IB_CHECKS.iter().map(run).collect();
    all.retain(|(_, verdict)| *verdict != Verdict::Passed);
    all
}

#[test]
fn our_own_node_passes_every_check_over_rdma() {
    // Kernels have 8 by default, Omni-Path sites up to 128, and the smallest node 1.
    for depth in [8, 128, 2, 1] {
        let (mut node, fabric) = node(&NONE, depth);
        assert_eq!(others(&mut node), [], "peer_credits {depth}");
        assert_eq!(fabric.violations(), [""; 0]);
        assert_eq!(fabric.registrations(), 0);
        drop(node);
    }
}

#[test]
fn each_defect_over_rdma_fails_its_checks_and_no_others() {
    for defect in DEFECTS {
        let (mut node, _) = node(defect, 8);
        let failed = others(&mut node);
        let names: Vec<_> = failed.iter().map(|(id, _)| *id).collect();
        assert_eq!(
            names, defect.fails,
            "a node that {}: {failed:?}",
            defect.name
        );
        let is_failed = |verdict: &Verdict| matches!(verdict, Verdict::Failed(_));
        assert!(
            failed.iter().all(|(_, verdict)| is_failed(verdict)),
            "{failed:?}"
        );
    }
}

#[test]
fn every_check_over_rdma_is_failed_by_a_planted_defect() {
    let failed: Vec<&str> = DEFECTS
        .iter()
        .flat_map(|defect| defect.fails)
        .copied()
        .collect();
    let mut unproven: Vec<&str> = O2IB_CHECKS.iter().map(|check| check.id).collect();
    unproven.retain(|id| !failed.contains(id));
    assert_eq!(unproven, [""; 0]);
}

#[test]
fn a_check_over_rdma_that_fails_once_is_unsteady() {
    let (mut node, _) = node(&defects::ONCE, 8);
    let check = O2IB_CHECKS.iter().find(|check| check.id == "message-ends");
    defects::SPOILS.set(true);
    let verdict = node.run(check.unwrap()).verdict;
    assert!(matches!(verdict, Verdict::Unsteady(_)), "{verdict:?}");
    assert_eq!(node.run(check.unwrap()).verdict, Verdict::Passed);
}

#[test]
fn a_node_that_cannot_be_reached_over_rdma_is_told_from_one_that_rejects() {
    let why = |nid: &str| {
        let world = World::new(&NONE, 8);
        O2ibNode::new(subject(nid), Box::new(world))
            .err()
            .unwrap()
            .to_string()
    };
    assert!(
        why("10.7.0.9@o2ib").contains("no route over RDMA"),
        "{}",
        why("10.7.0.9@o2ib")
    );
    assert!(
        why("10.7.0.1@o2ib7").contains("another o2ib network"),
        "{}",
        why("10.7.0.1@o2ib7")
    );
    let silent = World::new(&defects::SILENT, 8);
    let silent = O2ibNode::new(subject("10.7.0.1@o2ib"), Box::new(silent))
        .err()
        .unwrap();
    assert!(
        silent
            .to_string()
            .contains("nothing came within the timeout"),
        "{silent}"
    );
    let world = Box::new(World::new(&NONE, 8));
    let other = O2ibNode::new(subject("10.7.0.1@tcp"), world).err().unwrap();
    assert!(matches!(other, SetupError::NotO2ib(_)), "{other}");
}

#[test]
fn a_check_of_the_other_kind_of_network_is_not_applicable() {
    let (mut over_rdma, _) = node(&NONE, 8);
    let check = lnet_conform::CHECKS.first().unwrap();
    let verdict = over_rdma.run(check).verdict;
    assert!(matches!(verdict, Verdict::NotApplicable(_)), "{verdict:?}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let subject = Subject {
        address: listener.local_addr().unwrap(),
        ..subject("10.7.0.1@o2ib")
    };
    let error = NodeUnderTest::new(subject).unwrap_err();
    assert!(matches!(error, SetupError::NotTcp(_)), "{error}");
}

//! Our own node passes every check. With each planted defect, exactly the expected checks fail.
//!
//! A proxy between the checker and a real node changes bytes to create the defects.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod defects;
mod proxy;
mod weak;

use std::error::Error;
use std::iter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use lnet_conform::{ATTACKS, CHECKS, Check, NodeUnderTest, Risk, SetupError, Subject, Verdict};
use lnet_node::{Globals, NiSettings, Node, NodeOptions};
use lnet_types::Nid;

use proxy::{Defect, Proxy, Unit};

/// A limit that is reached only by a hang.
const HANG_LIMIT: Duration = Duration::from_secs(60);

/// The timeout of a check that must fail because something does not arrive.
const SHORT: Duration = Duration::from_secs(4);

/// The same for checks in which a healthy node takes longer: above its handshake timeout of five
/// seconds.
const SHORT_OF_SLOW: Duration = Duration::from_secs(9);

/// How many checks run at the same time: most wait, for a timeout or because a defect makes each connection take a
/// second. With many more, threads come late.
const THREADS: usize = 24;

const NODE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn node_nid() -> Nid {
    Nid::from_ip("tcp".parse().unwrap(), NODE.into())
}

/// A node with discovery.
fn start(port: u16) -> Node {
    start_so(NodeOptions {
        port,
        globals: Globals {
            discovery: true,
            ..Globals::default()
        },
        ..NodeOptions::default()
    })
}

fn start_so(options: NodeOptions) -> Node {
    let node = Node::start_with(options, |engine, now| -> Result<(), Box<dyn Error>> {
        engine.add_interface(node_nid(), NiSettings::default(), now)?;
        Ok(())
    });
    node.unwrap()
}

fn connect(nid: Nid, address: SocketAddr, timeout: Duration) -> Result<NodeUnderTest, SetupError> {
    let source: IpAddr = match address {
        SocketAddr::V4(_) => proxy::checker().into(),
        SocketAddr::V6(_) => address.ip(),
    };
    NodeUnderTest::new(Subject {
        nid,
        address,
        source,
        privileged: false,
        timeout,
    })
}

fn verdicts(node: &NodeUnderTest) -> Vec<(&'static str, Verdict)> {
    let run = |check: &'static Check| (check.id, node.run(check).verdict);
    CHECKS.iter().map(run).collect()
}

#[test]
fn our_own_node_passes_every_check() {
    let port = testkit::port();
    let node = start(port);
    let checked = connect(node_nid(), (NODE, port).into(), HANG_LIMIT).unwrap();
    let mut others = verdicts(&checked);
    others.retain(|(_, verdict)| *verdict != Verdict::Passed);
    assert_eq!(others, []);
    // The checker leaves no connection behind, not even a half-open one.
    testkit::eventually("every connection of the checker is closed", || {
        node.stats().socklnd.connections_open == 0
    });
}

#[test]
fn a_router_passes_every_check_that_applies_to_it() {
    let port = testkit::port();
    let _router = start_so(NodeOptions {
        port,
        routing: true,
        ..NodeOptions::default()
    });
    let node = connect(node_nid(), (NODE, port).into(), HANG_LIMIT).unwrap();
    let mut others = verdicts(&node);
    others.retain(|(_, verdict)| *verdict != Verdict::Passed);
    let names: Vec<_> = others.iter().map(|(id, _)| *id).collect();
    // Without discovery, the node does not announce that it accepts pushes.
    let due = [
        "destination-foreign-net",
        "push-ack",
        "push-no-ack",
        "push-again",
        "push-malformed",
    ];
    assert_eq!(names, due, "{others:?}");
    let excused = |verdict: &Verdict| matches!(verdict, Verdict::NotApplicable(_));
    assert!(
        others.iter().all(|(_, verdict)| excused(verdict)),
        "{others:?}"
    );
}

#[test]
fn a_node_that_takes_each_connection_for_a_peer_of_its_own_is_not_failed_for_it() {
    let port = testkit::port();
    let _node = start(port);
    let proxy = Proxy::start((NODE, port).into(), &defects::OTHER_PROCESS_ON_BULK_OUT);
    // The node answers a process with which it has no connection, so the first ping waits in vain.
    let node = connect(node_nid(), proxy.address(), Duration::from_secs(15)).unwrap();
    let mut excused = verdicts(&node);
    excused.retain(|(_, verdict)| *verdict != Verdict::Passed);
    let names: Vec<_> = excused.iter().map(|(id, _)| *id).collect();
    let due = [
        "zero-copy",
        "reply-connection",
        "siblings-error",
        "siblings-end",
        "dial-crossing",
        "restart",
    ];
    assert_eq!(names, due, "{excused:?}");
    let applies = |verdict: &Verdict| matches!(verdict, Verdict::NotApplicable(_));
    assert!(
        excused.iter().all(|(_, verdict)| applies(verdict)),
        "{excused:?}"
    );
}

/// One check against a node with one defect.
struct Case<'defect> {
    defect: &'defect Defect,
    address: SocketAddr,
    check: &'static Check,
}

impl Case<'_> {
    /// Returns true when the defect must fail the check.
    fn is_due(&self) -> bool {
        self.defect.fails.contains(&self.check.id)
    }

    /// Runs the check. Returns the verdict if it is not as the defect says.
    fn surprise(&self) -> Option<String> {
        let timeout = match (self.is_due(), is_slow(self.check)) {
            (false, _) => HANG_LIMIT,
            (true, false) => SHORT,
            (true, true) => SHORT_OF_SLOW,
        };
        let node = connect(node_nid(), self.address, timeout).unwrap();
        let verdict = node.run(self.check).verdict;
        let as_expected = matches!(verdict, Verdict::Failed(_)) == self.is_due();
        (!as_expected).then(|| format!("{}: {}: {verdict:?}", self.defect.name, self.check.id))
    }
}

/// Runs every check against a node with each defect: those fail that the defect names, and no others.
fn hold(defects: &[Defect]) {
    let port = testkit::port();
    let _node = start(port);
    let mut cases: Vec<Case<'_>> = defects
        .iter()
        .flat_map(|defect| {
            let address = Proxy::start((NODE, port).into(), defect).address();
            CHECKS.iter().map(move |check| Case {
                defect,
                address,
                check,
            })
        })
        .filter(|case| case.is_due() || !is_slow(case.check))
        .collect();
    // Those that must fail come first: they wait for their timeout twice.
    cases.sort_by_key(|case| !case.is_due());
    let next = AtomicUsize::new(0);
    let work = || {
        let take = || cases.get(next.fetch_add(1, Ordering::Relaxed));
        iter::from_fn(take)
            .filter_map(Case::surprise)
            .collect::<Vec<_>>()
    };
    let wrong = thread::scope(|scope| {
        let running: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        let ended = running.into_iter().map(|thread| thread.join().unwrap());
        ended.flatten().collect::<Vec<_>>()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns true for a check that takes seconds because the node allows it. Such a check runs only where it must fail.
fn is_slow(check: &Check) -> bool {
    ["siblings-end", "request-silent", "hello-short"].contains(&check.id)
}

#[test]
fn each_defect_of_accepted_handshakes_fails_its_check() {
    hold(defects::HANDSHAKES);
}

#[test]
fn each_defect_of_rejected_handshakes_fails_its_check() {
    hold(defects::REJECTIONS);
}

#[test]
fn each_defect_of_frames_fails_its_check() {
    hold(defects::FRAMES);
}

#[test]
fn each_defect_of_messages_fails_its_check() {
    hold(defects::MESSAGES);
}

#[test]
fn each_defect_of_pings_and_pushes_fails_its_check() {
    hold(defects::PINGS);
}

#[test]
fn every_check_but_one_is_failed_by_a_planted_defect() {
    let all = [
        defects::HANDSHAKES,
        defects::REJECTIONS,
        defects::FRAMES,
        defects::MESSAGES,
        defects::PINGS,
    ];
    let failed: Vec<&str> = all
        .concat()
        .iter()
        .flat_map(|defect| defect.fails)
        .copied()
        .collect();
    let mut unproven: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
    unproven.retain(|id| !failed.contains(id));
    // From unprivileged ports, this check is not applicable to a node with the defect.
    assert_eq!(unproven, ["reply-connection"]);
    assert!(all.concat().len() >= 20);
}

#[test]
fn a_closed_port_and_a_stranger_are_told_apart_from_a_node() {
    let port = testkit::port();
    let address = SocketAddr::from((NODE, port));
    let rejected = connect(node_nid(), address, HANG_LIMIT).unwrap_err();
    assert!(matches!(rejected, SetupError::Connect { .. }), "{rejected}");
    let _node = start(port);
    let other: Nid = "10.9.9.9@tcp".parse().unwrap();
    let closed = connect(other, address, HANG_LIMIT).unwrap_err();
    assert!(closed.to_string().contains("--privileged"), "{closed}");
    let elsewhere = connect("1@gni".parse().unwrap(), address, HANG_LIMIT).unwrap_err();
    assert!(matches!(elsewhere, SetupError::NotTcp(_)), "{elsewhere}");
}

#[test]
fn safe_checks_close_no_connection_of_the_node_and_leave_no_rejection() {
    let port = testkit::port();
    let node = start(port);
    let checked = connect(node_nid(), (NODE, port).into(), HANG_LIMIT).unwrap();
    for check in CHECKS.iter().filter(|check| check.risk == Risk::Safe) {
        assert_eq!(checked.run(check).verdict, Verdict::Passed, "{}", check.id);
    }
    testkit::eventually("every connection of the checker is closed", || {
        node.stats().socklnd.connections_open == 0
    });
    let stats = node.stats();
    let closed = &stats.socklnd.closed;
    assert!(
        closed.keys().all(|why| !why.contains("protocol")),
        "{closed:?}"
    );
    assert_eq!(stats.drop_count, 0);
}

#[test]
fn each_attack_names_the_node_that_it_overwhelms_and_no_other_attack_fails_on_a_healthy_node() {
    let port = testkit::port();
    let _node = start(port);
    let healthy = connect(node_nid(), (NODE, port).into(), HANG_LIMIT).unwrap();
    for attack in &ATTACKS {
        let verdict = healthy.run(attack).verdict;
        assert_eq!(verdict, Verdict::Passed, "{}", attack.id);
    }
    let mut named = Vec::new();
    for weakness in weak::WEAKNESSES {
        let address = weak::start((NODE, port).into(), weakness);
        let node = connect(node_nid(), address, HANG_LIMIT).unwrap();
        let attack = ATTACKS.iter().find(|attack| attack.id == weakness.fails);
        let verdict = node.run(attack.unwrap()).verdict;
        assert!(
            matches!(verdict, Verdict::Failed(_)),
            "a node that {}: {verdict:?}",
            weakness.name
        );
        named.push(weakness.fails);
    }
    let all: Vec<_> = ATTACKS.iter().map(|attack| attack.id).collect();
    assert_eq!(named, all);
}

/// True until the proxy has changed one answer to a ping.
static SPOILS: AtomicBool = AtomicBool::new(false);

#[test]
fn a_check_that_fails_once_is_unsteady() {
    const ONCE: Defect = defects::says("spoils one answer", &[], |unit, _, bytes| {
        if unit == Unit::Message && SPOILS.swap(false, Ordering::SeqCst) {
            // The checksum of a frame is 0.
            bytes[4] = 1;
        }
    });
    let port = testkit::port();
    let _node = start(port);
    let proxy = Proxy::start((NODE, port).into(), &ONCE);
    let node = connect(node_nid(), proxy.address(), HANG_LIMIT).unwrap();
    let check = CHECKS.iter().find(|check| check.id == "frame-fields");
    SPOILS.store(true, Ordering::SeqCst);
    let verdict = node.run(check.unwrap()).verdict;
    assert!(matches!(verdict, Verdict::Unsteady(_)), "{verdict:?}");
    assert_eq!(node.run(check.unwrap()).verdict, Verdict::Passed);
}

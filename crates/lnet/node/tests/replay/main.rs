//! Replays captured conversations of kernel nodes, with our node in the place of one of them.
//!
//! The test sends what the other kernel node sent, byte by byte, and compares every answer with the kernel's answer,
//! field by field. [`compare::MAY_DIFFER`] lists all fields that need not be equal. There are two more exceptions: a
//! port that a rejected connection had may still be in use ([`player`]), and our program sends its requests when the
//! test tells it to ([`script`]). Each conversation is played twice: once our node is the node that was asked, once
//! the node that asked.
//!
//! The larger captures are looked for in `FINERAIL_SHARED_DATA`, or beside the workspace; if they are absent, their
//! tests say so and pass. The first ping and the first discovery are always there.

#![expect(clippy::expect_used, clippy::panic, reason = "test code")]

#[path = "../common/mod.rs"]
mod common;
mod compare;
mod doubts;
mod layout;
mod player;
mod script;
mod stage;

use std::net::Ipv4Addr;
use std::time::Duration;

use lnet_node::{Globals, NiTuning};

use player::{Outcome, play};
use script::{Captured, Party, Script, lives, shared_capture};
use stage::{Asks, Casting, discovering, on_loopback, on_stage};

/// The first ping between two kernel nodes.
const FIRST_PING: &[u8] = include_bytes!("../../../../lnet/capture/tests/data/ping.pcap");

/// The discovery of one kernel node by another; both are on `tcp` and `tcp1`.
const DISCOVERY: &[u8] = include_bytes!("../../../../lnet/capture/tests/data/discovery.pcap");

/// The lower of the two NIDs in every capture; its node sends the first request.
const LOWER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const HIGHER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);

/// Returns the only life in a capture without restarts.
fn only_life(capture: &[u8]) -> Vec<Captured> {
    let mut lives = lives(capture);
    assert_eq!(lives.len(), 1);
    lives.remove(0)
}

/// The router between the two nodes of `d-routed`.
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 3);

/// Replays a script, with the captured addresses if that is possible here, and panics if there is a difference.
fn replay(script: &Script, casting: &Casting) -> Outcome {
    let outcome = on_stage(script, casting, play);
    assert!(outcome.problems.is_empty(), "{:#?}", outcome.problems);
    outcome
}

#[test]
fn the_first_ping_is_answered_as_a_kernel_answers() {
    replay(
        &Script::new(&only_life(FIRST_PING), HIGHER),
        &Casting::default(),
    );
}

#[test]
fn the_first_ping_is_asked_as_a_kernel_asks() {
    replay(
        &Script::new(&only_life(FIRST_PING), LOWER),
        &Casting::default(),
    );
}

#[test]
fn the_first_ping_needs_no_privilege() {
    for party in [LOWER, HIGHER] {
        let script = Script::new(&only_life(FIRST_PING), party);
        let outcome = on_loopback(&script, &Casting::default(), play);
        assert!(outcome.problems.is_empty(), "{:#?}", outcome.problems);
    }
}

#[test]
fn several_pings_from_both_sides_are_exchanged_as_between_kernels() {
    let Some(capture) = shared_capture("a-ping.pcap") else {
        return;
    };
    for party in [LOWER, HIGHER] {
        replay(
            &Script::new(&only_life(&capture), party),
            &Casting::default(),
        );
    }
}

/// A ping, a push over each net, and the ACKs; then a second discovery, which is forced, and a ping.
#[test]
fn a_kernel_that_discovers_our_node_finds_one_of_its_own_kind() {
    let casting = Casting {
        more_nids: &["10.2.0.2@tcp1"],
        ..Casting::default()
    };
    replay(&Script::new(&only_life(DISCOVERY), HIGHER), &casting);
}

#[test]
fn a_kernel_is_discovered_as_by_its_own_kind() {
    let casting = Casting {
        more_nids: &["10.2.0.1@tcp1"],
        asks: &[Asks::Discover],
        ..Casting::default()
    };
    let script = Script::new(&only_life(DISCOVERY), LOWER).first_request();
    assert_eq!(script.count(Party::Node, "PUT"), 1);
    assert_eq!(script.count(Party::Node, "ACK"), 1);
    replay(&script, &casting);
}

/// Client, router and server: both ends discover the router, ping each other through it, and one end discovers the
/// other. The capture goes on with a ping of an absent node and with checks of the router.
#[test]
fn kernels_use_our_node_as_their_router() {
    let Some(capture) = shared_capture("d-routed.pcap") else {
        return;
    };
    let script = Script::new(&only_life(&capture), ROUTER);
    let script = script.until_asked_for(Ipv4Addr::new(10, 1, 0, 99));
    let passed_on = |step: &&script::Step| step.message.is_passed_on_by(ROUTER);
    let by_node = script.steps.iter().filter(|step| step.party == Party::Node);
    assert_eq!(by_node.filter(passed_on).count(), 10);
    let casting = Casting {
        more_nids: &["10.2.0.3@tcp1"],
        routing: true,
        ..Casting::default()
    };
    replay(&script, &casting);
}

/// The check of the router is a discovery with a push. Then come a ping through the router, a ping that is answered,
/// and a discovery with a push through the router.
const ASKED_BY_CLIENT: &[Asks] = &[Asks::Nothing, Asks::Ping, Asks::Discover];

#[test]
fn our_node_uses_a_kernel_as_its_router() {
    let Some(capture) = shared_capture("d-routed.pcap") else {
        return;
    };
    let script = Script::new(&only_life(&capture), LOWER);
    let script = script.until_asked_for(Ipv4Addr::new(10, 1, 0, 99));
    assert_eq!(script.count(Party::Node, "GET"), 3);
    let casting = Casting {
        asks: ASKED_BY_CLIENT,
        routes: &[("tcp1", "10.1.0.3@tcp")],
        ..Casting::default()
    };
    replay(&script, &casting);
}

#[test]
fn our_node_behind_a_kernel_router_is_pinged_and_discovered_as_a_kernel_is() {
    let Some(capture) = shared_capture("d-routed.pcap") else {
        return;
    };
    let script = Script::new(&only_life(&capture), Ipv4Addr::new(10, 2, 0, 2)).until_silence();
    assert_eq!(script.count(Party::Node, "PUT"), 2);
    let casting = Casting {
        net: 1,
        asks: &[Asks::Nothing, Asks::Ping],
        routes: &[("tcp", "10.2.0.3@tcp1")],
        ..Casting::default()
    };
    replay(&script, &casting);
}

/// Returns the five lives of `k-race`: the second and the third contain a race, the others do not.
fn race_lives() -> Option<Vec<Vec<Captured>>> {
    let lives = lives(&shared_capture("k-race.pcap")?);
    let refusals = |life: &Vec<Captured>| {
        let refusals = life.iter().filter(|step| step.message.is_refusal());
        refusals.count()
    };
    let refusals: Vec<_> = lives.iter().map(refusals).collect();
    assert_eq!(refusals, [0, 2, 3, 0, 0], "NONE answers in each life");
    Some(lives)
}

#[test]
fn the_higher_nid_wins_races_as_a_kernel_does() {
    for life in race_lives().unwrap_or_default() {
        replay(&Script::new(&life, HIGHER), &Casting::default());
    }
}

#[test]
fn the_lower_nid_loses_races_as_a_kernel_does() {
    for life in race_lives().unwrap_or_default() {
        replay(&Script::new(&life, LOWER), &Casting::default());
    }
}

#[test]
fn races_are_settled_without_privilege_too() {
    for life in race_lives().unwrap_or_default() {
        for party in [LOWER, HIGHER] {
            let outcome = on_loopback(&Script::new(&life, party), &Casting::default(), play);
            assert!(outcome.problems.is_empty(), "{:#?}", outcome.problems);
        }
    }
}

/// No capture contains this case. Kernel nodes end it like the race between equals, and three rejections end the
/// dialling: [SET-8].
#[test]
fn three_pairs_against_one_are_content_with_one() {
    let Some(lives) = race_lives() else {
        return;
    };
    let script = Script::new(&lives[1], HIGHER);
    let is_bulk_in = |step: &&script::Step| {
        step.party == Party::Node && step.message.name() == "HELLO" && step.message.0[48] == 2
    };
    let bulk_in = script.steps.iter().find(is_bulk_in).unwrap().connection;
    let script = script.with_refused_dials(bulk_in, 3);
    let casting = Casting {
        lnd: NiTuning {
            conns_per_peer: 3,
            ..NiTuning::default()
        },
        ..Casting::default()
    };
    replay(&script, &casting);
}

/// Settings under which a node sends a keepalive after one second of silence: it checks connections four times per
/// socket timeout, which is 4 s here.
fn impatient() -> Casting {
    Casting {
        globals: Globals {
            transaction_timeout: Duration::from_secs(5),
            retry_count: 0,
            ..discovering()
        },
        keepalive: Some(Duration::from_millis(1500)),
        ..Casting::default()
    }
}

#[test]
fn a_silent_kernel_is_sent_the_keepalive_that_a_kernel_sends() {
    let Some(capture) = shared_capture("i-keepalive-240s.pcap") else {
        return;
    };
    let mut script = Script::new(&only_life(&capture), HIGHER);
    assert_eq!(script.count(Party::Node, "NOOP"), 7);
    // Keepalives are at least 10 s apart, so the test waits only for the first one.
    let mut keepalives = 0;
    script.steps.retain(|step| {
        keepalives += usize::from(step.message.name() == "NOOP");
        keepalives <= 1
    });
    let casting = impatient();
    let outcome = replay(&script, &casting);
    let silence = outcome.silences[0];
    assert!(silence >= casting.keepalive.unwrap(), "{silence:?}");
}

#[test]
fn keepalives_of_a_kernel_are_taken_in_silence() {
    let Some(capture) = shared_capture("i-keepalive-240s.pcap") else {
        return;
    };
    let script = Script::new(&only_life(&capture), LOWER);
    assert_eq!(script.count(Party::Kernel, "NOOP"), 7);
    replay(&script, &Casting::default());
}

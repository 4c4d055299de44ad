//! The answers to a client's test: R38, R39.

use std::time::Duration;

use super::rig::{Rig, expects, ms, sends};
use crate::zbmi::Direction::{ToClient, ToServer};
use crate::zbmi::*;

const NOW: Duration = Duration::ZERO;

#[test]
fn r38_of_one_key_the_first_k_entries_are_flagged() {
    let mut rig = Rig::new();
    let peer = rig.client();
    for _ in 0..3 {
        rig.registered(ToServer, peer, 5, 100);
    }
    let entries = [
        expects(ToServer, 5, 2),
        expects(ToClient, 5, 1),
        expects(ToServer, 5, 2),
        expects(ToServer, 6, 1),
        expects(ToServer, 5, 1),
    ];
    let test = rig.test(peer, &entries, ms(5000));
    assert_eq!(
        rig.reply(peer, test),
        Some(Reply::Ready(vec![2, 0, 1, 0, 0]))
    );
}

// [ZOID-24]
#[test]
fn r38_unexpected_entries_are_flagged_while_their_memory_is_free() {
    let mut rig = Rig::with(|config| config.unexpected_size = 16_384 + 64);
    let peer = rig.client();
    let test = rig.test(peer, &[sends(8192, 1), sends(8000, 5), sends(10, 1)], NOW);
    assert_eq!(rig.reply(peer, test), Some(Reply::Ready(vec![1, 1, 0])));
    assert_eq!(rig.engine.gauges().pool_used, 0, "a flag reserves nothing");
    assert_eq!(rig.engine.counters().pool_high_water, 0);
}

// [ZOID-24]
#[test]
fn r38_nothing_is_flagged_for_memory_that_others_wait_for() {
    let mut rig = Rig::with(|config| config.unexpected_size = 8192);
    let (first, second) = (rig.client(), rig.client());
    rig.message(first, 64);
    rig.unexpected(first, 8192, ms(1000));
    let test = rig.test(second, &[sends(64, 1)], NOW);
    assert_eq!(rig.reply(second, test), Some(Reply::Ready(vec![0])));
}

#[test]
fn r39_a_test_sleeps_until_the_first_readiness() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let test = rig.test(
        peer,
        &[expects(ToClient, 5, 1), expects(ToClient, 6, 1)],
        ms(5000),
    );
    rig.registered(ToClient, peer, 7, 10);
    assert_eq!(rig.reply(peer, test), None);
    rig.registered(ToClient, peer, 6, 10);
    assert_eq!(rig.reply(peer, test), Some(Reply::Ready(vec![0, 1])));
    assert_eq!(rig.engine.next_deadline(), None);
}

// [BMI-23]
#[test]
fn r39_without_a_timeout_a_test_is_answered_at_once() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let test = rig.test(peer, &[expects(ToClient, 5, 1)], NOW);
    assert_eq!(rig.reply(peer, test), Some(Reply::Ready(vec![0])));
}

#[test]
fn r39_at_its_timeout_a_test_says_that_nothing_is_ready() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let test = rig.test(peer, &[expects(ToClient, 5, 1), sends(9000, 0)], ms(100));
    rig.pass(ms(99));
    assert_eq!(rig.reply(peer, test), None);
    rig.pass(ms(1));
    assert_eq!(rig.reply(peer, test), Some(Reply::Ready(vec![0, 0])));
    assert_eq!(rig.engine.counters().client_tests_timed_out, 1);
}

#[test]
fn r41_a_flag_whose_post_was_cancelled_leads_to_not_now() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let test = rig.test(peer, &[expects(ToServer, 5, 1)], ms(5000));
    let plugin = rig.registered(ToServer, peer, 5, 10);
    assert_eq!(rig.reply(peer, test), Some(Reply::Ready(vec![1])));
    rig.cancel(plugin);
    let send = rig.send(peer, 5, 10, NOW);
    assert_eq!(rig.reply(peer, send), Some(Reply::NotNow));
}

// [FWD-24]
#[test]
fn r36_a_wake_ends_a_sleeping_call_as_its_timeout_would() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let test = rig.test(peer, &[expects(ToServer, 5, 1)], ms(5000));
    let recv = rig.recv(peer, 5, 10, ms(5000));
    for request in [test, recv, recv] {
        rig.engine.wake(rig.now, peer, request);
        rig.collect_outputs();
    }
    assert_eq!(rig.reply(peer, test), Some(Reply::Ready(vec![0])));
    assert_eq!(rig.reply(peer, recv), Some(Reply::NotNow));
    assert_eq!(rig.rejections(Rejection::StaleWake), 1);
}

// [ZOID-24]
#[test]
fn one_test_of_huge_multiplicity_does_not_cost_as_many_trials() {
    let mut rig = Rig::with(|config| {
        config.unexpected_size = 1 << 30;
        config.total_size = 2 << 30;
    });
    let peer = rig.client();
    let test = rig.test(peer, &[sends(0, u32::MAX), sends(0, 1)], NOW);
    assert_eq!(rig.reply(peer, test), Some(Reply::Ready(vec![1024, 0])));
}

// [BOUND-8]
#[test]
fn sleeping_tests_of_one_client_have_a_limit_together() {
    let mut rig = Rig::with(|config| config.limits.test_entries = 3);
    let peer = rig.client();
    let two = [expects(ToServer, 5, 1), expects(ToServer, 6, 1)];
    let first = rig.test(peer, &two, ms(100));
    let second = rig.test(peer, &two, ms(100));
    assert_eq!(rig.reply(peer, first), None);
    assert_eq!(
        rig.reply(peer, second),
        Some(Reply::Failed(Errno::Protocol))
    );
}

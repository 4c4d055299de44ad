//! Tests of watchers: each sees each event once, with its reason, and learns how many it missed.

use super::Net;
use super::net::nid;
use crate::*;

/// Returns the events since the last call.
fn seen(net: &mut Net, node: usize, watcher: &mut Watcher) -> Vec<Watched> {
    let (events, lost) = net.core(node).watched(watcher, usize::MAX);
    assert_eq!(lost, 0);
    events.into_iter().map(|event| event.what).collect()
}

#[test]
fn a_dropped_message_is_seen_with_its_sender_and_its_reason() {
    let mut net = Net::pair();
    let mut watcher = net.core(1).watch(false);
    net.put(0, b"data", false, "10.0.0.2@tcp");
    net.run();
    let dropped = Watched::Dropped {
        ni: Some(nid("10.0.0.2@tcp")),
        sender: nid("10.0.0.1@tcp"),
        message: lnet_wire::MessageType::Put,
        length: 4,
        reason: DropReason::NoMatch,
    };
    assert_eq!(seen(&mut net, 1, &mut watcher), [dropped]);
    assert_eq!(seen(&mut net, 1, &mut watcher), []);
    net.core(1).unwatch(watcher);
}

#[test]
fn attempts_that_fail_are_seen_with_what_follows_from_them() {
    let mut net = Net::new();
    net.add(&["10.0.0.1@tcp", "10.0.0.3@tcp"]);
    net.add(&["10.0.0.2@tcp"]);
    net.keep_answers = true;
    let mut watcher = net.core(0).watch(false);
    net.put(0, b"data", false, "10.0.0.2@tcp");
    net.run();
    net.answer(0, MessageStatus::LocalTimeout);
    net.run();
    net.answer(0, MessageStatus::Ok);
    let seen = seen(&mut net, 0, &mut watcher);
    let [health, attempt] = seen.as_slice() else {
        panic!("{seen:?}")
    };
    let Watched::NiHealth { cause, health, .. } = *health else {
        panic!("{health:?}")
    };
    assert_eq!(cause, HealthCause::Failed(MessageStatus::LocalTimeout));
    assert!(!health.is_full());
    let Watched::Attempt(attempt) = *attempt else {
        panic!("{attempt:?}")
    };
    assert_eq!((attempt.target, attempt.number), (nid("10.0.0.2@tcp"), 1));
    assert_eq!(attempt.status, MessageStatus::LocalTimeout);
    assert!(attempt.again);
    net.core(0).unwatch(watcher);
}

#[test]
fn attempts_that_succeed_are_seen_by_those_who_ask_for_them() {
    let mut net = Net::pair();
    let mut watcher = net.core(0).watch(true);
    net.put(0, b"data", false, "10.0.0.2@tcp");
    net.run();
    let attempts = seen(&mut net, 0, &mut watcher);
    let [Watched::Attempt(attempt)] = attempts[..] else {
        panic!("{attempts:?}")
    };
    assert_eq!((attempt.status, attempt.number), (MessageStatus::Ok, 1));
    net.core(0).unwatch(watcher);
}

#[test]
fn a_message_without_a_path_and_a_health_that_is_set_are_seen() {
    let mut net = Net::pair();
    let now = net.now;
    let mut watcher = net.core(0).watch(false);
    let ni = net.nodes[0].nis[0].0;
    net.core(0).set_ni_health(ni, Health::ZERO, now).unwrap();
    net.core(0).set_ni_fatal(ni, true, now);
    let [health, fatal] = seen(&mut net, 0, &mut watcher)[..] else {
        panic!("two events")
    };
    let expected = Watched::NiHealth {
        nid: nid("10.0.0.1@tcp"),
        before: Health::MAX,
        health: Health::ZERO,
        cause: HealthCause::Administrator,
    };
    assert_eq!(health, expected);
    let nid = nid("10.0.0.1@tcp");
    assert_eq!(fatal, Watched::Fatal { nid, fatal: true });
    net.core(0).unwatch(watcher);
}

#[test]
fn a_slow_watcher_is_told_how_many_events_it_missed_and_memory_stays_bounded() {
    let mut net = Net::pair();
    let mut slow = net.core(0).watch(false);
    let ni = net.nodes[0].nis[0].0;
    let now = net.now;
    for turn in 0..10_000 {
        net.core(0).set_ni_fatal(ni, turn % 2 == 0, now);
    }
    let (events, lost) = net.core(0).watched(&mut slow, 100);
    assert_eq!((events.len(), lost), (100, 10_000 - 4096));
    let (events, lost) = net.core(0).watched(&mut slow, usize::MAX);
    assert_eq!((events.len(), lost), (3996, 0));
    // Without a watcher no event is kept.
    net.core(0).unwatch(slow);
    net.core(0).set_ni_fatal(ni, true, now);
    let mut late = net.core(0).watch(false);
    assert_eq!(seen(&mut net, 0, &mut late), []);
    net.core(0).unwatch(late);
}

//! Matching: R26–R34, R57–R61, and messages of one tag in step.

use std::time::Duration;

use super::rig::{Rig, completions, expects, ms, post};
use crate::zbmi::Direction::{ToClient, ToServer};
use crate::zbmi::*;

const NOW: Duration = Duration::ZERO;

#[test]
fn r26_a_send_without_a_posted_receive_is_told_not_now() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let request = rig.send(peer, 5, 100, NOW);
    assert_eq!(rig.reply(peer, request), Some(Reply::NotNow));
}

#[test]
fn r21_an_attempt_that_found_nothing_leaves_no_trace() {
    let mut rig = Rig::new();
    let peer = rig.client();
    for tag in 0..1000 {
        rig.recv(peer, tag, 100, NOW);
        rig.send(peer, tag, 100, NOW);
    }
    let gauges = rig.engine.gauges();
    assert_eq!(
        gauges,
        Gauges {
            clients: 1,
            ..Gauges::default()
        }
    );
    assert_eq!(rig.engine.next_deadline(), None);
}

#[test]
fn r28_a_send_with_a_posted_receive_is_granted_its_buffer() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let plugin = rig.registered(ToServer, peer, 5, 4096);
    let request = rig.send(peer, 5, 100, NOW);
    let grant = rig.grants.pop().unwrap();
    assert_eq!(
        grant.segments[..],
        [Segment {
            offset: super::rig::EXPECTED,
            len: 100
        }]
    );
    assert_eq!(rig.reply(peer, request), None);
    rig.arrived(grant.grant);
    assert_eq!(rig.reply(peer, request), Some(Reply::Sent));
    assert_eq!(rig.collect(), [(plugin, Ok(100))]);
}

#[test]
fn r32_a_receive_gets_the_message_that_waits() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let plugin = rig.registered(ToClient, peer, 5, 100);
    let request = rig.recv(peer, 5, 4096, NOW);
    let transfer = rig.delivers.pop().unwrap();
    assert_eq!((transfer.request, transfer.total), (request, 100));
    assert_eq!(rig.collect(), []);
    rig.acknowledged(transfer.grant);
    assert_eq!(rig.collect(), [(plugin, Ok(100))]);
    assert_eq!(rig.reply(peer, request), None);
}

#[test]
fn r33_a_receive_without_a_posted_send_is_told_not_now() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let request = rig.recv(peer, 5, 100, NOW);
    assert_eq!(rig.reply(peer, request), Some(Reply::NotNow));
}

#[test]
fn r15_a_call_waits_as_long_as_it_asked_to_and_no_longer() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let hour = Duration::from_secs(3600);
    let send = rig.send(peer, 5, 100, ms(500));
    let recv = rig.recv(peer, 5, 100, hour);
    rig.pass(ms(499));
    assert_eq!(rig.reply(peer, send), None);
    rig.pass(ms(1));
    assert_eq!(rig.reply(peer, send), Some(Reply::NotNow));
    rig.pass(hour - ms(501));
    assert_eq!(rig.reply(peer, recv), None);
    rig.pass(ms(1));
    assert_eq!(rig.reply(peer, recv), Some(Reply::NotNow));
}

// [BMI-10]
#[test]
fn messages_of_one_key_are_matched_in_post_order_on_both_sides() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let first = rig.registered(ToServer, peer, 5, 10);
    let second = rig.registered(ToServer, peer, 5, 20);
    rig.send(peer, 5, 1, NOW);
    rig.send(peer, 5, 2, NOW);
    let grants: Vec<GrantId> = rig.grants.iter().map(|grant| grant.grant).collect();
    rig.arrived(grants[1]);
    rig.arrived(grants[0]);
    assert_eq!(rig.collect(), [(second, Ok(2)), (first, Ok(1))]);

    let waiting = rig.recv(peer, 6, 10, ms(9));
    rig.recv(peer, 6, 10, ms(9));
    rig.post_send(peer, 6, 3);
    assert_eq!(rig.delivers[0].request, waiting);
}

// [BMI-10]
#[test]
fn another_client_tag_or_direction_is_another_key() {
    let mut rig = Rig::new();
    let (peer, other) = (rig.client(), rig.client());
    rig.registered(ToServer, peer, 5, 10);
    let attempts = [
        (other, rig.send(other, 5, 1, NOW)),
        (peer, rig.send(peer, -5, 1, NOW)),
        (peer, rig.recv(peer, 5, 1, NOW)),
    ];
    for (peer, request) in attempts {
        assert_eq!(rig.reply(peer, request), Some(Reply::NotNow));
    }
}

// [BMI-12]
#[test]
fn a_message_larger_than_the_buffer_fails_on_both_sides_and_consumes_both() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let short = rig.registered(ToServer, peer, 5, 10);
    let long = rig.registered(ToServer, peer, 5, 20);
    let too_much = rig.send(peer, 5, 11, NOW);
    assert_eq!(
        rig.reply(peer, too_much),
        Some(Reply::Failed(Errno::MessageSize))
    );
    assert_eq!(rig.collect(), [(short, Err(Errno::MessageSize))]);
    rig.send(peer, 5, 20, NOW);
    rig.arrived(rig.grants[0].grant);
    assert_eq!(rig.collect(), [(long, Ok(20))]);

    let message = rig.registered(ToClient, peer, 5, 10);
    let small = rig.recv(peer, 5, 9, NOW);
    assert_eq!(
        rig.reply(peer, small),
        Some(Reply::Failed(Errno::MessageSize))
    );
    assert_eq!(rig.collect(), [(message, Err(Errno::MessageSize))]);
    assert_eq!((rig.grants.len(), rig.delivers.len()), (1, 0));
}

// [ZOID-50]
#[test]
fn a_mismatch_with_a_waiting_call_is_collected_by_a_test() {
    let mut rig = Rig::new();
    let peer = rig.client();
    rig.send(peer, 5, 11, ms(9));
    let call = rig.post_recv(peer, 5, 10);
    let plugin = rig.plugin(call);
    assert_eq!(rig.collect(), [(plugin, Err(Errno::MessageSize))]);
}

// [BMI-11]
#[test]
fn a_short_message_goes_to_the_first_pieces_and_empty_ones_are_skipped() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let piece = |offset, len| Segment {
        offset: super::rig::EXPECTED + offset,
        len,
    };
    let segments = vec![piece(0, 0), piece(64, 8), piece(0, 8), piece(128, 8)];
    let post = Post {
        segments,
        total: 24,
        ..post(ToServer, peer, 5, 0)
    };
    rig.post_with(post);
    rig.send(peer, 5, 12, NOW);
    assert_eq!(rig.grants[0].segments[..], [piece(64, 8), piece(0, 4)]);
}

// [BMI-13]
#[test]
fn empty_messages_match_and_complete() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let empty = Post {
        segments: Vec::new(),
        ..post(ToServer, peer, 5, 0)
    };
    let call = rig.post_with(empty);
    let plugin = rig.plugin(call);
    rig.send(peer, 5, 0, NOW);
    let grant = rig.grants.pop().unwrap();
    assert_eq!((grant.total, grant.segments.len()), (0, 0));
    rig.arrived(grant.grant);
    assert_eq!(rig.collect(), [(plugin, Ok(0))]);
}

#[test]
fn r57_a_post_that_finds_a_waiting_call_is_answered_when_the_bytes_have_moved() {
    let mut rig = Rig::new();
    let peer = rig.client();
    rig.recv(peer, 5, 100, ms(500));
    let call = rig.post_send(peer, 5, 60);
    let transfer = rig.delivers.pop().unwrap();
    rig.pass(ms(400));
    assert_eq!(rig.answer(call), None);
    rig.acknowledged(transfer.grant);
    assert_eq!(rig.answer(call), Some(Answer::Immediate(60)));
    assert_eq!(rig.collect(), []);
    assert_eq!(rig.engine.counters().posts_immediate, 1);
}

// [ZOID-32]
#[test]
fn r57_a_post_is_held_for_the_follow_up_of_a_test() {
    let mut rig = Rig::with(|config| config.hold = ms(2));
    let peer = rig.client();
    let test = rig.test(peer, &[expects(ToServer, 5, 1)], ms(5000));
    let call = rig.post_recv(peer, 5, 100);
    assert_eq!(rig.reply(peer, test), Some(Reply::Ready(vec![1])));
    assert_eq!(rig.answer(call), None);
    rig.pass(ms(1));
    rig.send(peer, 5, 100, NOW);
    rig.arrived(rig.grants[0].grant);
    assert_eq!(rig.answer(call), Some(Answer::Immediate(100)));
    assert_eq!(rig.engine.counters().holds_used, 1);
}

// [ZOID-32]
#[test]
fn r57_a_hold_ends_at_its_deadline_and_the_post_keeps_its_place() {
    let mut rig = Rig::with(|config| config.hold = ms(2));
    let peer = rig.client();
    rig.test(peer, &[expects(ToServer, 5, 1)], ms(5000));
    let held = rig.post_recv(peer, 5, 100);
    let later = rig.registered(ToServer, peer, 5, 100);
    rig.pass(ms(1));
    assert_eq!(rig.answer(held), None);
    rig.pass(ms(1));
    let held = rig.plugin(held);
    rig.send(peer, 5, 1, NOW);
    rig.send(peer, 5, 2, NOW);
    rig.grants
        .clone()
        .iter()
        .for_each(|grant| rig.arrived(grant.grant));
    assert_eq!(rig.collect(), [(held, Ok(1)), (later, Ok(2))]);
    assert_eq!(rig.engine.counters().holds_expired, 1);
}

// [ZOID-32]
#[test]
fn r57_without_a_hold_time_a_test_is_flagged_and_the_post_registered() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let test = rig.test(peer, &[expects(ToClient, 5, 1)], ms(5000));
    let call = rig.post_send(peer, 5, 100);
    rig.plugin(call);
    assert_eq!(rig.reply(peer, test), Some(Reply::Ready(vec![1])));
}

#[test]
fn r58_a_post_that_finds_nobody_is_registered_once() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let plugin = rig.registered(ToServer, peer, 5, 100);
    assert!(plugin.0 > 0);
    assert_eq!(rig.engine.gauges().posts, 1);
}

#[test]
fn r59_a_completion_carries_the_servers_name() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let post = Post {
        bmi: BmiId(u64::MAX),
        ..post(ToServer, peer, 5, 100)
    };
    rig.post_with(post);
    rig.send(peer, 5, 100, NOW);
    rig.arrived(rig.grants[0].grant);
    let call = rig.server_test(Selection::Any(1), NOW);
    let Some(Answer::Completions { completions, .. }) = rig.answer(call) else {
        panic!()
    };
    assert_eq!(completions[0].bmi, BmiId(u64::MAX));
}

#[test]
fn r60_a_post_that_may_not_be_immediate_is_answered_before_the_bytes_move() {
    let mut rig = Rig::new();
    let peer = rig.client();
    rig.recv(peer, 5, 100, ms(500));
    let call = rig.post_with(Post {
        not_immediate: true,
        ..post(ToClient, peer, 5, 100)
    });
    let plugin = rig.plugin(call);
    let transfer = rig.delivers.pop().expect("matched all the same");
    rig.acknowledged(transfer.grant);
    assert_eq!(rig.collect(), [(plugin, Ok(100))]);
}

#[test]
fn r60_a_post_that_may_not_be_immediate_is_never_held() {
    let mut rig = Rig::with(|config| config.hold = ms(2));
    let peer = rig.client();
    let test = rig.test(peer, &[expects(ToClient, 5, 1)], ms(5000));
    let call = rig.post_with(Post {
        not_immediate: true,
        ..post(ToClient, peer, 5, 100)
    });
    rig.plugin(call);
    assert_eq!(rig.reply(peer, test), Some(Reply::Ready(vec![1])));
}

#[test]
fn r61_a_cancelled_post_that_nobody_claimed_ends_cancelled() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let plugin = rig.registered(ToServer, peer, 5, 100);
    rig.cancel(plugin);
    assert_eq!(rig.collect(), [(plugin, Err(Errno::Canceled))]);
    let request = rig.send(peer, 5, 100, NOW);
    assert_eq!(rig.reply(peer, request), Some(Reply::NotNow));
}

#[test]
fn r61_a_cancel_during_the_transfer_is_ignored() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let plugin = rig.registered(ToServer, peer, 5, 100);
    rig.send(peer, 5, 100, NOW);
    rig.cancel(plugin);
    assert_eq!(rig.collect(), []);
    rig.arrived(rig.grants[0].grant);
    assert_eq!(rig.collect(), [(plugin, Ok(100))]);
    assert_eq!(rig.engine.counters().cancels_ignored, 1);
}

#[test]
fn r61_a_cancel_after_completion_changes_nothing() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let plugin = rig.registered(ToServer, peer, 5, 100);
    rig.send(peer, 5, 100, NOW);
    rig.arrived(rig.grants[0].grant);
    rig.cancel(plugin);
    assert_eq!(rig.collect(), [(plugin, Ok(100))]);
    rig.cancel(plugin);
    assert_eq!(rig.collect(), []);
    let counters = rig.engine.counters();
    assert_eq!((counters.cancels_ignored, counters.cancels_unknown), (1, 1));
}

#[test]
fn r67_a_sleeping_test_reports_the_cancellation() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let plugin = rig.registered(ToServer, peer, 5, 100);
    let call = rig.server_test(Selection::Ids(vec![plugin]), ms(5000));
    assert_eq!(rig.answer(call), None);
    rig.cancel(plugin);
    let answer = rig.answer(call).unwrap();
    assert_eq!(completions(&answer), [(plugin, Err(Errno::Canceled))]);
}

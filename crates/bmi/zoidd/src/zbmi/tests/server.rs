//! The server's commands: R52, R64, R65, R68.

use std::time::Duration;

use super::rig::{EXPECTED, Rig, completions, messages, ms, post};
use crate::zbmi::Direction::{ToClient, ToServer};
use crate::zbmi::*;

const NOW: Duration = Duration::ZERO;

/// Returns a client, and completed posts of the server, oldest first.
fn with_done(count: u64) -> (Rig, Peer, Vec<PluginId>) {
    let mut rig = Rig::new();
    let peer = rig.client();
    let done = (0..count).map(|size| {
        let plugin = rig.registered(ToServer, peer, 5, size);
        rig.send(peer, 5, size, NOW);
        let grant = rig.grants.pop().unwrap();
        rig.arrived(grant.grant);
        plugin
    });
    let done = done.collect();
    (rig, peer, done)
}

// [CTL-17]
#[test]
fn r64_testcontext_returns_at_most_its_capacity_oldest_first_and_keeps_the_rest() {
    let (mut rig, _, done) = with_done(3);
    let call = rig.server_test(Selection::Any(2), ms(100));
    assert_eq!(
        completions(&rig.answers[&call]),
        [(done[0], Ok(0)), (done[1], Ok(1))]
    );
    assert_eq!(rig.collect(), [(done[2], Ok(2))]);
    assert_eq!(rig.collect(), []);
}

#[test]
fn r64_a_post_that_ends_while_another_thread_sleeps_wakes_it() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let call = rig.server_test(Selection::Any(8), ms(5000));
    let plugin = rig.registered(ToServer, peer, 5, 10);
    rig.send(peer, 5, 10, NOW);
    assert_eq!(rig.answer(call), None);
    rig.arrived(rig.grants[0].grant);
    assert_eq!(completions(&rig.answers[&call]), [(plugin, Ok(10))]);
}

// [CTL-24]
#[test]
fn sleeping_tests_are_served_in_order_each_what_it_asked_for() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let wanted = rig.registered(ToServer, peer, 5, 10);
    let other = rig.registered(ToServer, peer, 6, 10);
    let ids = rig.server_test(Selection::Ids(vec![wanted]), ms(5000));
    let any = rig.server_test(Selection::Any(1), ms(5000));
    rig.cancel(other);
    rig.cancel(wanted);
    assert_eq!(
        completions(&rig.answers[&ids]),
        [(wanted, Err(Errno::Canceled))]
    );
    assert_eq!(
        completions(&rig.answers[&any]),
        [(other, Err(Errno::Canceled))]
    );
}

#[test]
fn r39_a_test_of_the_server_sleeps_no_longer_than_it_asked_to() {
    let mut rig = Rig::new();
    let test = rig.server_test(Selection::Any(1), ms(100));
    let fetch = rig.unexp_test(1, ms(200));
    rig.pass(ms(99));
    assert_eq!(rig.answer(test), None);
    rig.pass(ms(1));
    assert_eq!(completions(&rig.answers[&test]), []);
    assert_eq!(rig.answer(fetch), None);
    rig.pass(ms(100));
    assert_eq!(messages(&rig.answers[&fetch]), []);
    assert_eq!(rig.engine.counters().server_tests_timed_out, 1);
}

// [CTL-18] [CTL-19]
#[test]
fn tests_that_ask_for_nothing_are_refused() {
    let (mut rig, _, done) = with_done(1);
    rig.collect();
    let calls = [
        rig.server_test(Selection::Any(0), ms(100)),
        rig.server_test(Selection::Ids(Vec::new()), ms(100)),
        rig.server_test(Selection::Ids(vec![done[0], PluginId(999)]), ms(100)),
        rig.unexp_test(0, ms(100)),
    ];
    for call in calls {
        assert_eq!(rig.answer(call), Some(Answer::Failed(Errno::Invalid)));
    }
    assert_eq!(rig.rejections(Rejection::BadTest), 4);
}

// [CTL-19]
#[test]
fn unknown_and_repeated_ids_among_known_ones_are_passed_over() {
    let (mut rig, _, done) = with_done(2);
    let ids = vec![PluginId(999), done[1], done[1], PluginId(0)];
    let call = rig.server_test(Selection::Ids(ids), NOW);
    assert_eq!(completions(&rig.answers[&call]), [(done[1], Ok(1))]);
}

// [BMI-28]
#[test]
fn a_test_returns_early_when_an_unexpected_message_is_there_or_comes() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let sleeping = rig.server_test(Selection::Any(1), ms(5000));
    rig.message(peer, 10);
    let late = rig.server_test(Selection::Any(1), ms(5000));
    for call in [sleeping, late] {
        let Some(Answer::Completions {
            completions,
            unexpected_pending,
            woken,
        }) = rig.answer(call)
        else {
            panic!("asleep")
        };
        assert_eq!(
            (completions.len(), unexpected_pending, woken),
            (0, true, false)
        );
    }
}

#[test]
fn r52_messages_are_fetched_in_order_each_once_and_stay_where_they_are() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let sent: Vec<u64> = (0..3).map(|size| rig.message(peer, 10 + size)).collect();
    let call = rig.unexp_test(2, NOW);
    let first = messages(&rig.answers[&call]);
    let rest = rig.fetch();
    let seen: Vec<u64> = first
        .iter()
        .chain(&rest)
        .map(|message| message.offset)
        .collect();
    assert_eq!(seen, sent);
    assert_eq!((first.len(), rest[0].size, rest[0].peer), (2, 12, peer));
    assert_eq!(rig.fetch(), []);
}

// [ZOID-40]
#[test]
fn r52_one_message_wakes_one_sleeping_fetch() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let calls = [rig.unexp_test(9, ms(5000)), rig.unexp_test(9, ms(5000))];
    rig.message(peer, 10);
    assert_eq!(messages(&rig.answers[&calls[0]]).len(), 1);
    assert_eq!(rig.answer(calls[1]), None);
}

// [BMI-16]
#[test]
fn classes_are_separate_streams() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let kind = SendKind::Unexpected {
        class: Class(255),
        inline: false,
    };
    let send = SendRequest {
        kind,
        tag: Tag(i32::MIN),
        total: 5,
        timeout: NOW,
        order: 0,
    };
    let asleep = rig.unexp_test(9, ms(100));
    rig.request(peer, send);
    rig.arrived(rig.grants[0].grant);
    assert_eq!(rig.answer(asleep), None);
    let call = CallId(rig.name());
    let test = UnexpTest {
        capacity: 9,
        class: Class(255),
        timeout: NOW,
    };
    rig.engine.unexp_test(rig.now, rig.session, call, test);
    rig.collect_outputs();
    assert_eq!(messages(&rig.answers[&call])[0].tag, Tag(i32::MIN));
}

// [BMI-16]
#[test]
fn a_message_does_not_overtake_an_earlier_one_whose_bytes_come_later() {
    let mut rig = Rig::new();
    let peer = rig.client();
    rig.unexpected(peer, 8192, NOW);
    rig.unexpected(peer, 1, NOW);
    let grants: Vec<GrantId> = rig.grants.iter().map(|grant| grant.grant).collect();
    rig.arrived(grants[1]);
    assert_eq!(rig.fetch(), []);
    rig.arrived(grants[0]);
    let sizes: Vec<u64> = rig.fetch().iter().map(|message| message.size).collect();
    assert_eq!(sizes, [8192, 1]);
}

// [CTL-23]
#[test]
fn r36_a_wake_returns_every_sleeping_test() {
    let mut rig = Rig::new();
    let test = rig.server_test(Selection::Any(1), ms(100));
    let fetch = rig.unexp_test(1, ms(100));
    rig.engine.server_wake(rig.session);
    rig.collect_outputs();
    let woken = Answer::Completions {
        completions: Vec::new(),
        unexpected_pending: false,
        woken: true,
    };
    assert_eq!(rig.answer(test), Some(woken));
    assert_eq!(
        rig.answer(fetch),
        Some(Answer::Messages {
            messages: Vec::new(),
            woken: true
        })
    );
}

// [CTL-22]
#[test]
fn an_answer_that_was_not_delivered_is_given_again_first() {
    let (mut rig, peer, done) = with_done(3);
    let call = rig.server_test(Selection::Any(2), NOW);
    let answer = rig.answers[&call].clone();
    rig.engine.undelivered(rig.session, answer.clone());
    rig.engine.undelivered(rig.session, answer);
    let order: Vec<PluginId> = rig.collect().iter().map(|(plugin, _)| *plugin).collect();
    assert_eq!(order, done);

    let sent = [rig.message(peer, 1), rig.message(peer, 2)];
    let call = rig.unexp_test(1, NOW);
    let answer = rig.answers[&call].clone();
    rig.engine.undelivered(rig.session, answer);
    let order: Vec<u64> = rig.fetch().iter().map(|message| message.offset).collect();
    assert_eq!(order, sent);
}

#[test]
fn an_abandoned_test_takes_nothing_with_it() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let plugin = rig.registered(ToServer, peer, 5, 10);
    let call = rig.server_test(Selection::Any(1), ms(5000));
    rig.engine.cancel_call(rig.session, call);
    rig.cancel(plugin);
    assert_eq!(rig.answer(call), None);
    assert_eq!(rig.collect(), [(plugin, Err(Errno::Canceled))]);
    assert_eq!(rig.engine.next_deadline(), None);
}

#[test]
fn r68_a_buffer_outside_the_expected_region_is_refused() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let end = 512 << 20;
    let bad = [
        (EXPECTED - 1, 1, 1),
        (0, 64, 64),
        (end, 1, 1),
        (end - 1, 2, 2),
        (u64::MAX, 2, 2),
        (EXPECTED, 8, 9),
        (EXPECTED, 8, 7),
        (EXPECTED, (128 << 20) + 1, (128 << 20) + 1),
    ];
    for (offset, len, total) in bad {
        let segments = vec![Segment { offset, len }];
        let call = rig.post_with(Post {
            segments,
            total,
            ..post(ToServer, peer, 5, 0)
        });
        assert_eq!(
            rig.answer(call),
            Some(Answer::Failed(Errno::Invalid)),
            "{offset} {len} {total}"
        );
    }
    let nothing = Post {
        segments: Vec::new(),
        total: 1,
        ..post(ToServer, peer, 5, 0)
    };
    let call = rig.post_with(nothing);
    assert_eq!(rig.answer(call), Some(Answer::Failed(Errno::Invalid)));
    assert_eq!(rig.engine.gauges().posts, 0);
    assert_eq!(rig.rejections(Rejection::BadPost), 9);
    let last = vec![Segment {
        offset: end - 1,
        len: 1,
    }];
    let call = rig.post_with(Post {
        segments: last,
        total: 1,
        ..post(ToServer, peer, 5, 0)
    });
    rig.plugin(call);
}

// [CTL-15]
#[test]
fn r07_a_post_for_somebody_who_is_not_attached_is_refused() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let stale = Peer {
        generation: peer.generation + 1,
        ..peer
    };
    let nobody = Peer {
        pid: Pid(99),
        ..peer
    };
    for peer in [stale, nobody] {
        let call = rig.post_send(peer, 5, 10);
        assert_eq!(
            rig.answer(call),
            Some(Answer::Failed(Errno::ConnectionReset))
        );
    }
}

// [BOUND-8]
#[test]
fn a_full_table_of_posts_answers_no_memory() {
    let mut rig = Rig::with(|config| config.limits.posts = 1);
    let peer = rig.client();
    let plugin = rig.registered(ToClient, peer, 5, 10);
    let call = rig.post_send(peer, 5, 10);
    assert_eq!(rig.answer(call), Some(Answer::NoMemory));
    rig.cancel(plugin);
    let call = rig.post_send(peer, 5, 10);
    assert_eq!(
        rig.answer(call),
        Some(Answer::NoMemory),
        "not collected yet"
    );
    rig.collect();
    rig.registered(ToClient, peer, 5, 10);
}

// [BOUND-8]
#[test]
fn the_segments_of_all_posts_have_a_limit_together() {
    let mut rig = Rig::with(|config| config.limits.segments = 3);
    let peer = rig.client();
    let piece = Segment {
        offset: EXPECTED,
        len: 1,
    };
    let two = Post {
        segments: vec![piece; 2],
        total: 2,
        ..post(ToClient, peer, 5, 0)
    };
    let call = rig.post_with(two.clone());
    let plugin = rig.plugin(call);
    let call = rig.post_with(two.clone());
    assert_eq!(rig.answer(call), Some(Answer::NoMemory));
    rig.cancel(plugin);
    let call = rig.post_with(two);
    rig.plugin(call);
}

// [CTL-12]
#[test]
fn a_second_server_is_refused_while_the_first_lives() {
    let mut rig = Rig::new();
    assert_eq!(rig.engine.server_attached(), Err(Errno::Busy));
    rig.engine
        .server_lost(rig.now, rig.session, Departure::Broken);
    let next = rig.engine.server_attached().unwrap();
    assert_ne!(next, rig.session);
}

// [CTL-13]
#[test]
fn commands_of_an_expired_session_are_refused() {
    let mut rig = Rig::new();
    let peer = rig.client();
    rig.engine
        .server_lost(rig.now, rig.session, Departure::Broken);
    rig.engine.server_attached().unwrap();
    let calls = [
        rig.server_test(Selection::Any(1), ms(100)),
        rig.unexp_test(1, ms(100)),
        rig.post_send(peer, 5, 10),
    ];
    for call in calls {
        assert_eq!(rig.answer(call), Some(Answer::Failed(Errno::NetReset)));
    }
    assert_eq!(
        rig.engine.drop_peer(rig.session, peer.pid),
        Err(Errno::NetReset)
    );
    rig.cancel(PluginId(1));
    rig.free(0);
    assert_eq!(rig.rejections(Rejection::UnknownSession), 6);
}

#[test]
fn r65_a_sleeping_test_delays_no_other_command() {
    let mut rig = Rig::new();
    let peer = rig.client();
    rig.server_test(Selection::Any(1), ms(5000));
    rig.unexp_test(1, ms(5000));
    rig.registered(ToServer, peer, 5, 10);
}

// [CTL-4]
#[test]
fn more_commands_than_reply_slots_are_refused() {
    let mut rig = Rig::with(|config| config.limits.server_calls = 2);
    let calls: Vec<CallId> = (0..3)
        .map(|_| rig.server_test(Selection::Any(1), ms(50)))
        .collect();
    assert_eq!(rig.answer(calls[1]), None);
    assert_eq!(rig.answer(calls[2]), Some(Answer::Failed(Errno::Invalid)));
}

//! Unexpected memory: R2, R5, R24, R25, R29, R53.

use std::time::Duration;

use super::rig::{Rig, ms, sends};
use crate::zbmi::*;

const NOW: Duration = Duration::ZERO;

#[test]
fn r05_exactly_128_messages_of_8192_bytes_are_accepted_with_nobody_fetching() {
    let mut rig = Rig::new();
    let peer = rig.client();
    for _ in 0..128 {
        rig.message(peer, 8192);
    }
    let request = rig.unexpected(peer, 8192, NOW);
    assert_eq!(rig.reply(peer, request), Some(Reply::NotNow));
    assert_eq!(rig.engine.gauges().pool_used, 1 << 20);
}

#[test]
fn r02_the_limit_is_inclusive() {
    for limit in [4096, 8192, 65_536] {
        let mut rig = Rig::with(|config| config.max_unexpected = limit);
        let peer = rig.client();
        rig.message(peer, limit);
        let request = rig.unexpected(peer, limit + 1, NOW);
        assert_eq!(
            rig.reply(peer, request),
            Some(Reply::Failed(Errno::MessageSize))
        );
    }
}

#[test]
fn r03_the_limit_of_expected_messages_is_inclusive_in_both_directions() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let limit = 128 << 20;
    let fits = [rig.send(peer, 1, limit, NOW), rig.recv(peer, 1, limit, NOW)];
    let too_long = [
        rig.send(peer, 1, limit + 1, NOW),
        rig.recv(peer, 1, limit + 1, NOW),
    ];
    for request in fits {
        assert_eq!(rig.reply(peer, request), Some(Reply::NotNow));
    }
    for request in too_long {
        assert_eq!(
            rig.reply(peer, request),
            Some(Reply::Failed(Errno::MessageSize))
        );
    }
    for post in [Rig::post_send, Rig::post_recv] {
        let fits = post(&mut rig, peer, 2, limit);
        rig.plugin(fits);
        let too_long = post(&mut rig, peer, 2, limit + 1);
        assert_eq!(rig.answer(too_long), Some(Answer::Failed(Errno::Invalid)));
    }
}

#[test]
fn r24_unexpected_messages_are_accepted_without_a_server() {
    let mut rig = Rig::new();
    rig.engine
        .server_lost(rig.now, rig.session, Departure::Orderly);
    let peer = rig.client();
    rig.message(peer, 300);
    rig.session = rig.engine.server_attached().unwrap();
    assert_eq!(rig.fetch().len(), 1);
}

#[test]
fn r25_a_send_succeeds_after_the_server_freed_one_message() {
    let mut rig = Rig::new();
    let peer = rig.client();
    for _ in 0..128 {
        rig.message(peer, 8192);
    }
    assert_eq!(rig.test(peer, &[sends(8192, 1)], NOW), RequestId(130));
    let test = rig.test(peer, &[sends(8192, 1)], ms(5000));
    let fetched = rig.fetch();
    assert_eq!(rig.reply(peer, test), None, "handing out frees nothing");
    rig.free(fetched[17].offset);
    assert_eq!(rig.reply(peer, test), Some(Reply::Ready(vec![1])));
    assert_eq!(rig.message(peer, 8192), fetched[17].offset);
}

// [MEM-23]
#[test]
fn r29_a_send_that_waits_gets_the_memory_that_is_freed() {
    let mut rig = Rig::new();
    let peer = rig.client();
    for _ in 0..128 {
        rig.message(peer, 8192);
    }
    let waiting = rig.unexpected(peer, 8192, ms(1000));
    let fetched = rig.fetch();
    rig.pass(ms(200));
    rig.free(fetched[0].offset);
    let grant = rig.grants.pop().expect("granted");
    assert_eq!(grant.request, waiting);
    rig.arrived(grant.grant);
    assert_eq!(rig.reply(peer, waiting), Some(Reply::Sent));
}

// [MEM-23]
#[test]
fn waiting_for_memory_is_strictly_first_come_first_served() {
    let mut rig = Rig::with(|config| config.unexpected_size = 16_384);
    let (first, second) = (rig.client(), rig.client());
    let messages = [
        rig.message(first, 8192),
        rig.message(first, 4096),
        rig.message(first, 4096),
    ];
    rig.fetch();
    let large = rig.unexpected(first, 8192, ms(1000));
    let small = rig.unexpected(second, 64, ms(1000));
    let hasty = rig.unexpected(second, 64, NOW);
    rig.free(messages[1]);
    assert!(
        rig.grants.is_empty(),
        "what is free is not enough for the first"
    );
    assert_eq!(rig.reply(second, hasty), Some(Reply::NotNow));
    rig.free(messages[0]);
    let order: Vec<RequestId> = rig.grants.iter().map(|grant| grant.request).collect();
    assert_eq!(order, [large, small]);
}

#[test]
fn who_waited_behind_one_that_gave_up_is_served() {
    let mut rig = Rig::with(|config| config.unexpected_size = 16_384);
    let peer = rig.client();
    let messages = [
        rig.message(peer, 8192),
        rig.message(peer, 4096),
        rig.message(peer, 4096),
    ];
    rig.fetch();
    rig.unexpected(peer, 8192, ms(100));
    let small = rig.unexpected(peer, 64, ms(1000));
    rig.free(messages[1]);
    rig.pass(ms(100));
    assert_eq!(rig.grants[0].request, small);
}

// [MEM-22]
#[test]
fn r53_what_is_not_the_servers_to_free_is_counted_and_ignored() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let offset = rig.message(peer, 300);
    rig.free(offset);
    assert_eq!(rig.rejections(Rejection::BadFree), 1, "not delivered yet");
    rig.fetch();
    rig.free(offset + 64);
    rig.free(u64::MAX);
    assert_eq!(rig.rejections(Rejection::BadFree), 3);
    rig.free(offset);
    assert_eq!(rig.engine.gauges().pool_used, 0);
    rig.free(offset);
    assert_eq!(rig.rejections(Rejection::BadFree), 4, "freed twice");
}

// [MEM-24]
#[test]
fn a_clients_share_of_the_memory_does_not_hold_up_others() {
    let mut rig = Rig::with(|config| {
        config.unexpected_size = 32_768;
        config.unexpected_share = Some(16_384);
    });
    let (greedy, modest) = (rig.client(), rig.client());
    let first = rig.message(greedy, 8192);
    rig.message(greedy, 8192);
    let waiting = rig.unexpected(greedy, 8192, ms(1000));
    let own_later = rig.unexpected(greedy, 0, ms(1000));
    rig.message(modest, 8192);
    rig.fetch();
    rig.free(first);
    assert_eq!(rig.grants.len(), 1, "and its own messages keep their order");
    assert_eq!(rig.grants[0].request, waiting);
    assert_eq!(rig.reply(greedy, own_later), None);
}

fn inline(total: u64) -> SendRequest {
    let kind = SendKind::Unexpected {
        class: Class(0),
        inline: true,
    };
    SendRequest {
        kind,
        tag: Tag(1),
        total,
        timeout: NOW,
        order: 0,
    }
}

// [FWD-30]
#[test]
fn credits_are_reserved_slots_and_come_back_when_the_message_is_freed() {
    let mut rig = Rig::with(|config| config.credits = 2);
    let peer = rig.client();
    assert_eq!(rig.engine.gauges().pool_used, 16_384);
    rig.request(peer, inline(100));
    let grant = rig.grants.pop().unwrap();
    assert!(grant.inline);
    rig.arrived(grant.grant);
    assert_eq!(rig.credits, []);
    let message = rig.fetch()[0];
    rig.free(message.offset);
    assert_eq!(rig.credits, [(peer, 1)]);
    assert_eq!(rig.engine.gauges().pool_used, 16_384);
    rig.lose(peer);
    assert_eq!(rig.engine.gauges().pool_used, 0);
}

#[test]
fn a_client_that_comes_back_has_its_credits_and_no_more() {
    let mut rig = Rig::with(|config| {
        config.credits = 2;
        config.reattach = ms(1000);
    });
    let attach = Attach {
        uuid: [7; 16],
        job: JobId(0),
        previous: None,
    };
    let peer = rig.engine.client_attached(rig.now, attach).unwrap().peer;
    rig.request(peer, inline(1));
    rig.arrived(rig.grants[0].grant);
    rig.request(peer, inline(2));
    rig.lose(peer);
    assert_eq!(
        rig.engine.gauges().pool_used,
        8192,
        "nothing is reserved for who is away"
    );
    let previous = Some(PreviousStay {
        epoch: 1,
        pid: peer.pid,
    });
    let back = rig
        .engine
        .client_attached(rig.now, Attach { previous, ..attach })
        .unwrap();
    assert_eq!(back.credits, 2);
    let message = rig.fetch()[0];
    rig.free(message.offset);
    assert_eq!(rig.credits, []);
}

// [FWD-31]
#[test]
fn an_inline_message_without_a_credit_is_refused_at_once() {
    let mut rig = Rig::with(|config| config.credits = 1);
    let peer = rig.client();
    rig.request(peer, inline(100));
    let request = rig.request(peer, inline(100));
    assert_eq!(
        rig.reply(peer, request),
        Some(Reply::Failed(Errno::Protocol))
    );
    assert_eq!(rig.rejections(Rejection::NoCredit), 1);
}

// [MEM-23]
#[test]
fn waiting_sends_come_before_owed_credits() {
    let mut rig = Rig::with(|config| {
        config.unexpected_size = 8192;
        config.credits = 1;
    });
    let (first, second) = (rig.client(), rig.client());
    rig.request(first, inline(100));
    let grant = rig.grants.pop().unwrap();
    rig.arrived(grant.grant);
    let waiting = rig.unexpected(second, 8192, ms(1000));
    let message = rig.fetch()[0];
    rig.free(message.offset);
    assert_eq!(rig.grants[0].request, waiting);
    assert_eq!(rig.credits, []);
}

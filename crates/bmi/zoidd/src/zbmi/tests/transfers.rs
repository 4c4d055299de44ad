//! Running transfers: stalls (R57), aborts, reports with unknown ids, R30.

use std::time::Duration;

use super::rig::{Rig, ms};
use crate::zbmi::Direction::{ToClient, ToServer};
use crate::zbmi::*;

const NOW: Duration = Duration::ZERO;

#[test]
fn r30_no_segment_is_named_before_a_buffer_is_claimed() {
    let mut rig = Rig::new();
    let peer = rig.client();
    for _ in 0..100 {
        rig.send(peer, 5, 128 << 20, NOW);
    }
    assert_eq!((rig.grants.len(), rig.delivers.len()), (0, 0));
}

// [ZOID-34]
#[test]
fn r57_a_stalled_immediate_post_is_pending_and_fails_later() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let request = rig.send(peer, 5, 100, ms(60_000));
    let call = rig.post_recv(peer, 5, 100);
    let grant = rig.grants[0].grant;
    rig.pass(ms(4999));
    assert_eq!(rig.answer(call), None);
    rig.pass(ms(1));
    let plugin = rig.plugin(call);
    assert_eq!(rig.stops, [grant]);
    assert_eq!(
        rig.reply(peer, request),
        Some(Reply::Failed(Errno::ConnectionReset))
    );
    assert_eq!(rig.collect(), [(plugin, Err(Errno::ConnectionReset))]);
    assert_eq!(rig.engine.counters().stalls, 1);
}

// [ZOID-51]
#[test]
fn r57_progress_puts_the_stall_off_and_so_does_that_of_the_stream_it_waits_in() {
    let mut rig = Rig::new();
    let peer = rig.client();
    for tag in [5, 6] {
        rig.registered(ToClient, peer, tag, 100);
        rig.recv(peer, tag, 100, NOW);
    }
    rig.registered(ToServer, peer, 7, 100);
    rig.send(peer, 7, 100, NOW);
    rig.pass(ms(3000));
    rig.engine
        .transfer_progressed(rig.now, rig.delivers[0].grant);
    rig.pass(ms(2000));
    assert_eq!(
        rig.stops,
        [rig.grants[0].grant],
        "the other direction does not count"
    );
    rig.pass(ms(2999));
    assert_eq!(rig.stops.len(), 1);
    rig.pass(ms(1));
    assert_eq!(rig.stops.len(), 3);
}

// [ZOID-51]
#[test]
fn a_stalled_unexpected_message_is_not_delivered_and_frees_its_memory() {
    let mut rig = Rig::new();
    let peer = rig.client();
    rig.unexpected(peer, 100, NOW);
    rig.message(peer, 50);
    assert_eq!(rig.fetch(), [], "it waits for the first");
    rig.pass(ms(5000));
    let sizes: Vec<u64> = rig.fetch().iter().map(|message| message.size).collect();
    assert_eq!(sizes, [50]);
    assert_eq!(rig.engine.gauges().pool_used, 64);
}

// [ZOID-52]
#[test]
fn an_aborted_grant_gives_the_post_its_place_back() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let first = rig.registered(ToServer, peer, 5, 100);
    let second = rig.registered(ToServer, peer, 5, 100);
    let request = rig.send(peer, 5, 1, NOW);
    let grant = rig.grants.pop().unwrap();
    rig.engine.transfer_aborted(rig.now, grant.grant);
    rig.collect_outputs();
    assert_eq!(rig.reply(peer, request), Some(Reply::NotNow));
    for size in [2, 3] {
        rig.send(peer, 5, size, NOW);
        let grant = rig.grants.pop().unwrap();
        rig.arrived(grant.grant);
    }
    assert_eq!(rig.collect(), [(first, Ok(2)), (second, Ok(3))]);
}

// [ZOID-52]
#[test]
fn an_aborted_grant_goes_to_the_call_that_waits() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let plugin = rig.registered(ToServer, peer, 5, 100);
    rig.send(peer, 5, 1, NOW);
    let waiting = rig.send(peer, 5, 2, ms(100));
    let grant = rig.grants.pop().unwrap();
    rig.engine.transfer_aborted(rig.now, grant.grant);
    rig.collect_outputs();
    let grant = rig.grants.pop().unwrap();
    assert_eq!(grant.request, waiting);
    rig.arrived(grant.grant);
    assert_eq!(rig.collect(), [(plugin, Ok(2))]);
}

#[test]
fn r61_a_cancel_that_was_ignored_counts_when_the_claim_is_given_back() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let plugin = rig.registered(ToServer, peer, 5, 100);
    rig.send(peer, 5, 1, NOW);
    rig.cancel(plugin);
    rig.engine.transfer_aborted(rig.now, rig.grants[0].grant);
    rig.collect_outputs();
    assert_eq!(rig.collect(), [(plugin, Err(Errno::Canceled))]);
}

#[test]
fn an_aborted_immediate_post_is_registered() {
    let mut rig = Rig::new();
    let peer = rig.client();
    rig.send(peer, 5, 1, ms(100));
    let call = rig.post_recv(peer, 5, 100);
    rig.engine.transfer_aborted(rig.now, rig.grants[0].grant);
    rig.collect_outputs();
    rig.plugin(call);
}

// [ZOID-52]
#[test]
fn an_aborted_unexpected_message_frees_its_memory() {
    let mut rig = Rig::new();
    let peer = rig.client();
    rig.unexpected(peer, 100, NOW);
    rig.engine.transfer_aborted(rig.now, rig.grants[0].grant);
    rig.collect_outputs();
    assert_eq!(rig.engine.gauges().pool_used, 0);
    assert_eq!(rig.fetch(), []);
}

// [FWD-23]
#[test]
fn a_message_that_the_client_could_not_take_fails_the_send() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let plugin = rig.registered(ToClient, peer, 5, 100);
    rig.recv(peer, 5, 100, NOW);
    let result = Err(Errno::ConnectionReset);
    rig.engine
        .transfer_acknowledged(rig.now, rig.delivers[0].grant, result);
    rig.collect_outputs();
    assert_eq!(rig.collect(), [(plugin, Err(Errno::ConnectionReset))]);
}

// [FWD-27]
#[test]
fn reports_that_name_nothing_or_the_wrong_thing_are_counted_and_ignored() {
    let mut rig = Rig::new();
    let peer = rig.client();
    rig.registered(ToServer, peer, 5, 100);
    rig.send(peer, 5, 100, NOW);
    rig.registered(ToClient, peer, 5, 100);
    rig.recv(peer, 5, 100, NOW);
    let (inbound, outbound) = (rig.grants[0].grant, rig.delivers[0].grant);
    rig.acknowledged(inbound);
    rig.arrived(outbound);
    rig.engine.transfer_aborted(rig.now, outbound);
    rig.arrived(GrantId(99));
    rig.engine.transfer_progressed(rig.now, GrantId(99));
    assert_eq!(rig.rejections(Rejection::StaleReport), 5);
    rig.arrived(inbound);
    rig.arrived(inbound);
    assert_eq!(rig.rejections(Rejection::StaleReport), 6);
    assert_eq!(rig.engine.gauges().transfers, 1);
}

// [FWD-20]
#[test]
fn requests_that_reuse_a_number_or_are_too_many_are_refused() {
    let mut rig = Rig::with(|config| config.limits.requests_per_client = 1);
    let peer = rig.client();
    let waiting = rig.recv(peer, 5, 100, ms(100));
    let second = rig.recv(peer, 5, 100, ms(100));
    assert_eq!(
        rig.reply(peer, second),
        Some(Reply::Failed(Errno::Protocol))
    );
    let recv = RecvRequest {
        tag: Tag(5),
        capacity: 1,
        timeout: NOW,
    };
    rig.engine.recv(rig.now, peer, waiting, recv);
    rig.collect_outputs();
    assert_eq!(
        rig.reply(peer, waiting),
        Some(Reply::Failed(Errno::Protocol))
    );
    assert_eq!(rig.rejections(Rejection::RequestLimit), 1);
    assert_eq!(rig.rejections(Rejection::DuplicateRequest), 1);
}

//! Bulk slots and turns.

use std::time::Duration;

use super::rig::{Rig, ms};
use crate::zbmi::Direction::{ToClient, ToServer};
use crate::zbmi::*;

const NOW: Duration = Duration::ZERO;
const BULK: u64 = BULK_MIN + 1;

fn inbound(rig: &mut Rig, peer: Peer, size: u64) -> RequestId {
    rig.registered(ToServer, peer, 5, size);
    rig.send(peer, 5, size, NOW)
}

// [ZOID-53]
#[test]
fn large_inbound_transfers_share_the_bulk_slots_and_others_pass() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let large: Vec<RequestId> = (0..4).map(|_| inbound(&mut rig, peer, BULK)).collect();
    assert_eq!(rig.grants.len(), 2);
    inbound(&mut rig, peer, BULK_MIN);
    assert_eq!(rig.grants.len(), 3, "64 KiB pass");
    rig.registered(ToClient, peer, 5, BULK);
    rig.recv(peer, 5, BULK, NOW);
    assert_eq!(rig.delivers.len(), 1, "outbound ones pass");
    rig.arrived(rig.grants[0].grant);
    assert_eq!(rig.grants[3].request, large[2]);
    assert_eq!(rig.engine.gauges().bulk_waiting, 1);
}

// [ZOID-53]
#[test]
fn a_transfer_that_waits_for_a_slot_does_not_stall() {
    let mut rig = Rig::with(|config| config.bulk_slots = 1);
    let peer = rig.client();
    inbound(&mut rig, peer, BULK);
    inbound(&mut rig, peer, BULK);
    rig.pass(ms(4000));
    rig.arrived(rig.grants[0].grant);
    rig.pass(ms(4999));
    assert_eq!(rig.stops, []);
}

#[test]
fn a_stalled_transfer_gives_its_slot_to_the_next() {
    let mut rig = Rig::with(|config| config.bulk_slots = 1);
    let (stuck, fine) = (rig.client(), rig.client());
    inbound(&mut rig, stuck, BULK);
    let next = inbound(&mut rig, fine, BULK);
    rig.pass(ms(5000));
    assert_eq!(rig.grants[1].request, next);
}

// [ZOID-54]
#[test]
fn jobs_take_turns_whatever_each_has_waiting() {
    let mut rig = Rig::with(|config| {
        config.bulk_slots = 1;
        config.job_weights.insert(JobId(2), 2);
    });
    let (many, few) = (rig.client_of(1), rig.client_of(2));
    for _ in 0..4 {
        inbound(&mut rig, many, BULK);
    }
    for _ in 0..3 {
        inbound(&mut rig, few, BULK);
    }
    for index in 0..7 {
        rig.arrived(rig.grants[index].grant);
    }
    let jobs: Vec<u32> = rig
        .grants
        .iter()
        .map(|grant| if grant.peer == many { 1 } else { 2 })
        .collect();
    assert_eq!(jobs, [1, 1, 2, 2, 1, 2, 1]);
}

#[test]
fn a_client_that_dies_in_the_queue_does_not_take_a_slot() {
    let mut rig = Rig::with(|config| config.bulk_slots = 1);
    let (dying, fine) = (rig.client(), rig.client());
    inbound(&mut rig, dying, BULK);
    inbound(&mut rig, dying, BULK);
    let next = inbound(&mut rig, fine, BULK);
    rig.lose(dying);
    let order: Vec<RequestId> = rig.grants.iter().map(|grant| grant.request).collect();
    assert_eq!(order[1..], [next]);
}

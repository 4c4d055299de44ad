//! Transfers between two nodes: each message of the protocol, each result, every byte.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows only functions with #[test] as tests, not their helpers"
)]

use std::time::Duration;

use lnet_o2ib::fabric::{NI, World, nid};
use lnet_o2ib::{Failure, NiTuning, O2ibConfig, TxId};
use lnet_wire::o2ib::MessageKind::{
    GetDone, GetReq, Immediate, Noop, PutAck, PutDone, PutNak, PutReq,
};
use lnet_wire::o2ib::{IMMEDIATE_MAX, MessageKind};

fn pair() -> World {
    World::new(1, O2ibConfig::default(), &[NiTuning::default(); 2])
}

fn sent(world: &World, node: usize, kind: MessageKind) -> u64 {
    world.nodes[node].lnd.stats().sent.of(kind)
}

fn result(world: &World, node: usize, tx: TxId) -> Result<(), Failure> {
    *world.nodes[node].program.sent.get(&tx).unwrap()
}

fn arrived(world: &World, node: usize, tx: TxId) -> bool {
    world.nodes[node].program.received.contains(&(tx.0, Ok(())))
}

#[track_caller]
fn assert_sound(world: World) {
    assert_eq!(world.end(), [] as [String; 0]);
}

// [IB-27]
#[test]
fn payload_that_fits_goes_with_its_header_and_longer_payload_by_rdma() {
    for (len, kinds) in [
        (0, [1, 0, 0, 0]),
        (IMMEDIATE_MAX, [1, 0, 0, 0]),
        (IMMEDIATE_MAX + 1, [0, 1, 1, 1]),
        (1 << 20, [0, 1, 1, 1]),
    ] {
        let mut world = pair();
        let tx = world.put(0, 1, len);
        world.settle();
        assert_eq!(result(&world, 0, tx), Ok(()));
        assert!(arrived(&world, 1, tx));
        let found = [
            sent(&world, 0, Immediate),
            sent(&world, 0, PutReq),
            sent(&world, 1, PutAck),
            sent(&world, 0, PutDone),
        ];
        assert_eq!(found, kinds, "{len} bytes");
        let by_rdma = if len > IMMEDIATE_MAX { len as u64 } else { 0 };
        assert_eq!(world.fabric.written(), by_rdma);
        // Payload that is written is not copied, not even once.
        let stats = world.nodes[1].lnd.stats();
        assert_eq!(
            (stats.bytes_landed, stats.bytes_copied),
            (by_rdma, len as u64 - by_rdma)
        );
        assert_sound(world);
    }
}

// [IB-29]
#[test]
fn a_large_get_is_written_into_its_memory_and_the_reply_is_no_message() {
    for (len, offers, kinds) in [
        (100, true, [1, 0, 0, 1, 0]),
        (IMMEDIATE_MAX, true, [1, 0, 0, 1, 0]),
        (IMMEDIATE_MAX + 1, true, [0, 1, 1, 0, 0]),
        (1 << 20, true, [0, 1, 1, 0, 0]),
        (1 << 20, false, [1, 0, 0, 0, 1]),
    ] {
        let mut world = pair();
        world.nodes[0].program.offers_memory = offers;
        let tx = world.get(0, 1, len);
        world.settle();
        assert_eq!(result(&world, 0, tx), Ok(()));
        assert!(arrived(&world, 1, tx), "the GET");
        assert!(arrived(&world, 0, tx), "its REPLY");
        let found = [
            sent(&world, 0, Immediate),
            sent(&world, 0, GetReq),
            sent(&world, 1, GetDone),
            sent(&world, 1, Immediate),
            sent(&world, 1, PutReq),
        ];
        assert_eq!(found, kinds, "{len} bytes");
        assert_sound(world);
    }
}

// [IB-35]
#[test]
fn a_transfer_fills_fragments_one_by_one() {
    for pieces in [2, 3, 256, 257] {
        let mut world = pair();
        world.fabric.split_memory(pieces);
        world.nodes[0].program.offers_memory = true;
        let put = world.put(0, 1, 300_001);
        let get = world.get(0, 1, 70_003);
        world.settle();
        assert!(
            arrived(&world, 1, put) && arrived(&world, 0, get),
            "{pieces} pieces"
        );
        assert_sound(world);
    }
}

// [IB-35]
#[test]
fn memory_in_more_fragments_than_agreed_is_rejected_and_nothing_is_written() {
    let mut world = pair();
    world.fabric.split_memory(258);
    let put = world.put(0, 1, 300_000);
    world.settle();
    assert_eq!(result(&world, 0, put), Err(Failure::RemoteError));
    assert_eq!((sent(&world, 1, PutNak), world.fabric.written()), (1, 0));
    assert_sound(world);
}

// [IB-28]
#[test]
fn a_put_that_nobody_wants_or_that_wants_nothing_is_answered_with_a_nak() {
    let mut world = pair();
    world.nodes[1].program.drops = true;
    let dropped = world.put(0, 1, 5000);
    world.settle();
    world.nodes[1].program.drops = false;
    world.nodes[1].program.truncates = 5000;
    let empty = world.put(0, 1, 5000);
    world.settle();
    assert_eq!(
        (result(&world, 0, dropped), result(&world, 0, empty)),
        (Ok(()), Ok(()))
    );
    assert!(arrived(&world, 1, empty) && !arrived(&world, 1, dropped));
    assert_eq!((sent(&world, 1, PutNak), sent(&world, 0, PutDone)), (2, 0));
    assert_sound(world);
}

// [IB-28]
#[test]
fn a_sink_shorter_than_the_payload_gets_its_first_bytes() {
    let mut world = pair();
    world.nodes[1].program.truncates = 3000;
    let tx = world.put(0, 1, 10_000);
    world.settle();
    assert!(arrived(&world, 1, tx));
    assert_eq!(world.fabric.written(), 7000);
    assert_sound(world);
}

// [IB-29]
#[test]
fn a_get_without_a_match_fails_at_once() {
    let mut world = pair();
    world.nodes[0].program.offers_memory = true;
    world.nodes[1].program.drops = true;
    let tx = world.get(0, 1, 5000);
    world.settle();
    assert_eq!(result(&world, 0, tx), Err(Failure::RemoteError));
    assert_eq!(sent(&world, 1, GetDone), 1);
    assert_sound(world);
}

// [IB-33]
#[test]
fn memory_that_cannot_be_registered_fails_its_message_only() {
    let mut world = pair();
    let first = world.put(0, 1, 5000);
    world.settle();
    world.fabric.fail_mappings(1);
    let second = world.put(0, 1, 5000);
    assert_eq!(result(&world, 0, second), Err(Failure::LocalError));
    let third = world.put(0, 1, 5000);
    world.fabric.fail_mappings(1);
    world.settle();
    assert_eq!(
        result(&world, 0, third),
        Err(Failure::RemoteError),
        "the sink has no memory"
    );
    let fourth = world.put(0, 1, 5000);
    world.settle();
    assert_eq!(
        (result(&world, 0, first), result(&world, 0, fourth)),
        (Ok(()), Ok(()))
    );
    let stats = world.nodes.iter().map(|node| node.lnd.stats());
    let closed = stats.map(|stats| (stats.unmapped, stats.closed.iter().count()));
    assert_eq!(closed.collect::<Vec<_>>(), [(1, 0), (1, 0)]);
    assert_sound(world);
}

// [IB-19] [IB-21] [IB-23]
#[test]
fn more_messages_than_credits_arrive_all_and_no_more_than_the_depth_is_under_way() {
    let tuning = NiTuning {
        peer_credits: 4,
        ..NiTuning::default()
    };
    let mut world = World::new(3, O2ibConfig::default(), &[tuning; 2]);
    let all: Vec<TxId> = (0..100).map(|_| world.put(0, 1, 100)).collect();
    while world.step() {
        for view in world.nodes[0].lnd.connections() {
            assert!(view.credits <= 4 && view.posted <= 4, "{view:?}");
        }
    }
    assert!(all.iter().all(|&tx| arrived(&world, 1, tx)));
    assert!(world.nodes[0].lnd.stats().waited_for_credit > 0);
    // Nothing flows back but credits.
    assert!(
        sent(&world, 1, Noop) >= 100 / 4,
        "{}",
        sent(&world, 1, Noop)
    );
    assert_sound(world);
}

// [IB-22]
#[test]
fn transfers_beyond_the_reserved_credits_wait_and_all_complete() {
    let tuning = NiTuning {
        peer_credits: 2,
        ..NiTuning::default()
    };
    let mut world = World::new(4, O2ibConfig::default(), &[tuning; 2]);
    world.nodes[0].program.offers_memory = true;
    let puts: Vec<TxId> = (0..20).map(|_| world.put(0, 1, 5000)).collect();
    let gets: Vec<TxId> = (0..20).map(|_| world.get(1, 0, 5000)).collect();
    world.settle();
    assert!(puts.iter().all(|&tx| arrived(&world, 1, tx)));
    assert!(gets.iter().all(|&tx| arrived(&world, 1, tx)));
    assert_sound(world);
}

// [IB-24] [IB-25]
#[test]
fn a_quiet_connection_sends_an_empty_message_from_time_to_time() {
    let mut world = pair();
    world.ack(0, 1);
    world.settle();
    let before = sent(&world, 0, Noop);
    world.pass(Duration::from_secs(90));
    assert_eq!(sent(&world, 0, Noop), before);
    world.pass(Duration::from_secs(250));
    assert!(sent(&world, 0, Noop) >= before + 2);
    assert_sound(world);
}

#[test]
fn held_messages_continue_in_any_form_and_give_their_credit_back_then() {
    let mut world = pair();
    world.nodes[0].program.offers_memory = true;
    world.nodes[1].program.holds = true;
    let all = [
        world.put(0, 1, 100),
        world.put(0, 1, 5000),
        world.get(0, 1, 5000),
    ];
    world.settle();
    assert!(all.iter().all(|&tx| !arrived(&world, 1, tx)));
    while world.release(1) {}
    world.settle();
    assert!(all.iter().all(|&tx| arrived(&world, 1, tx)));
    assert_sound(world);
}

#[test]
fn messages_rotate_over_the_connections_of_a_peer() {
    let tuning = NiTuning {
        conns_per_peer: 4,
        ..NiTuning::default()
    };
    let mut world = World::new(5, O2ibConfig::default(), &[tuning; 2]);
    world.put(0, 1, 10);
    world.settle();
    assert_eq!(world.nodes[0].lnd.connections().count(), 4);
    for _ in 0..8 {
        world.put(0, 1, 10);
    }
    let posted: Vec<u16> = world.nodes[0]
        .lnd
        .connections()
        .map(|view| view.posted)
        .collect();
    assert_eq!(posted, [2, 2, 2, 2]);
    world.settle();
    assert_eq!(world.nodes[1].program.received.len(), 9);
    assert_eq!(world.nodes[0].program.peers, [(nid(1), true)]);
    assert_sound(world);
}

// [IB-31]
#[test]
fn an_interface_that_goes_down_reports_no_success_too_much_and_no_memory_too_early() {
    let mut successes = [0; 2];
    for seed in 0..40 {
        for steps in 0..40 {
            for is_get in [false, true] {
                let mut world = World::new(seed, O2ibConfig::default(), &[NiTuning::default(); 2]);
                world.nodes[0].program.offers_memory = true;
                let tx = if is_get {
                    world.get(0, 1, 9000)
                } else {
                    world.put(0, 1, 9000)
                };
                for _ in 0..steps {
                    world.step();
                }
                let (now, node) = (world.now, &mut world.nodes[0]);
                node.lnd.ni_went_down(NI, now, &mut node.program);
                world.pass(Duration::from_secs(200));
                let is_written = world.fabric.written() == 9000;
                let result = result(&world, 0, tx);
                assert!(
                    result.is_err() || is_written,
                    "seed {seed}, {steps} steps, GET {is_get}"
                );
                successes[usize::from(result.is_ok())] += 1;
                assert_sound(world);
            }
        }
    }
    assert!(successes.iter().all(|&count| count > 100), "{successes:?}");
}

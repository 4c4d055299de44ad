//! A peer that does everything wrong: each field of each message, and every way not to answer.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows only functions with #[test] as tests, not their helpers"
)]

mod common;

use std::time::Duration;

use lnet_o2ib::fabric::{World, nid};
use lnet_o2ib::{CloseReason, Device, Failure, MappingId, NiTuning, O2ibConfig, Write};
use lnet_wire::o2ib::{Body, Descriptor, Envelope, Fragment, Message, MessageKind, Parameters};
use lnet_wire::{Ack, Body as LnetBody, Get, Handle, Header, Put};

use crate::common::{STRANGE, Stranger, bytes, envelope, strange};

fn connected() -> (World, Stranger) {
    let (mut world, mut stranger) = strange(O2ibConfig::default(), NiTuning::default());
    stranger.connect(&mut world);
    (world, stranger)
}

fn header(payload_length: u32, body: LnetBody) -> Header {
    Header {
        dest_nid: nid(0),
        src_nid: nid(1),
        dest_pid: 12345,
        src_pid: 12345,
        payload_length,
        body,
    }
}

fn put(payload_length: u32) -> Header {
    let body = LnetBody::Put(Put {
        ack_wmd: Handle::NONE,
        match_bits: 9,
        hdr_data: 0,
        ptl_index: 0,
        offset: 0,
    });
    header(payload_length, body)
}

fn get() -> Header {
    let body = LnetBody::Get(Get {
        return_wmd: Handle {
            interface: 1,
            object: 9,
        },
        match_bits: 9,
        ptl_index: 0,
        src_offset: 0,
        sink_length: 8192,
    });
    header(0, body)
}

fn ack() -> Header {
    let body = LnetBody::Ack(Ack {
        dst_wmd: Handle::NONE,
        match_bits: 0,
        mlength: 0,
    });
    header(0, body)
}

fn immediate() -> Body<'static> {
    Body::Immediate {
        header: ack(),
        payload: &[],
    }
}

fn descriptor(length: u32) -> Descriptor {
    let address = 4096;
    Descriptor {
        rkey: 5,
        fragments: vec![Fragment { length, address }],
    }
}

/// Asserts that node 0 has closed the connection for this reason, and nothing else.
#[track_caller]
fn assert_closed(world: &World, reason: CloseReason) {
    let closed: Vec<_> = world.nodes[0].lnd.stats().closed.iter().collect();
    assert_eq!(closed, [(reason, 1)]);
    assert!(Stranger::is_closed(world));
    assert!(world.nodes[0].lnd.is_idle());
}

// [IB-7]
#[test]
fn each_malformed_message_closes_the_connection() {
    let fitting = bytes(envelope(), immediate());
    let edited = |at: usize, byte: u8| {
        let mut bytes = fitting.clone();
        bytes[at] = byte;
        bytes
    };
    let mut all: Vec<Vec<u8>> = vec![Vec::new(), fitting[..119].to_vec(), vec![0xff; 4096]];
    for (at, byte) in [
        (0, 0),
        (4, 0x11),
        (6, 0xcf),
        (8, 0xff),
        (12, 1),
        (23, 1),
        (72, 9),
    ] {
        all.push(edited(at, byte));
    }
    for message in all {
        let (mut world, mut stranger) = connected();
        stranger.send(&mut world, &message);
        assert_closed(&world, CloseReason::Malformed);
    }
}

// [IB-9]
#[test]
fn a_message_of_another_end_or_incarnation_closes_the_connection() {
    let fitting = envelope();
    for wrong in [
        Envelope {
            source: nid(2),
            ..fitting
        },
        Envelope {
            source_incarnation: STRANGE + 1,
            ..fitting
        },
        Envelope {
            destination: nid(2),
            ..fitting
        },
        Envelope {
            destination_incarnation: 0,
            ..fitting
        },
    ] {
        let (mut world, mut stranger) = connected();
        stranger.send(&mut world, &bytes(wrong, immediate()));
        assert_closed(&world, CloseReason::Stale);
        assert!(world.nodes[0].program.received.is_empty());
    }
}

// [IB-7]
#[test]
fn a_type_that_has_no_place_on_a_connection_closes_it() {
    let parameters = Parameters {
        queue_depth: 8,
        fragments: 257,
        message_size: 4096,
    };
    for body in [
        Body::Connreq(parameters),
        Body::Connack(parameters),
        Body::PutReq {
            header: ack(),
            cookie: 1,
        },
        Body::PutReq {
            header: get(),
            cookie: 1,
        },
        Body::GetReq {
            header: put(0),
            cookie: 1,
            descriptor: descriptor(1),
        },
    ] {
        let (mut world, mut stranger) = connected();
        stranger.say(&mut world, body);
        assert_closed(&world, CloseReason::UnexpectedType);
    }
}

// [IB-20]
#[test]
fn credits_above_the_depth_close_the_connection() {
    let (mut world, mut stranger) = connected();
    let generous = Envelope {
        credits: 1,
        ..envelope()
    };
    stranger.send(&mut world, &bytes(generous, Body::Noop));
    assert_closed(&world, CloseReason::Credits);

    let (mut world, mut stranger) = connected();
    for _ in 0..3 {
        world.ack(0, 1);
    }
    world.settle();
    let exact = Envelope {
        credits: 3,
        ..envelope()
    };
    stranger.send(&mut world, &bytes(exact, Body::Noop));
    assert_eq!(world.nodes[0].lnd.connections().count(), 1);
    stranger.send(
        &mut world,
        &bytes(
            Envelope {
                credits: 255,
                ..exact
            },
            Body::Noop,
        ),
    );
    assert_closed(&world, CloseReason::Credits);
}

// [IB-19]
#[test]
fn a_peer_that_uses_more_credits_than_it_has_is_closed() {
    let (mut world, mut stranger) = connected();
    world.nodes[0].program.holds = true;
    for _ in 0..8 {
        stranger.say(&mut world, immediate());
    }
    assert_eq!(world.nodes[0].lnd.connections().count(), 1);
    stranger.say(&mut world, immediate());
    assert_closed(&world, CloseReason::Credits);
    assert!(
        world.nodes[0]
            .program
            .received
            .iter()
            .all(|(_, result)| result.is_err())
    );
}

// [IB-19] [IB-28]
#[test]
fn put_requests_without_end_are_closed_when_the_credits_are_used_up() {
    let (mut world, mut stranger) = connected();
    for cookie in 0..8 {
        let header = put(5000);
        stranger.say(&mut world, Body::PutReq { header, cookie });
    }
    assert_eq!(world.fabric.registrations(), 8);
    let answers = stranger.heard(&mut world);
    let kinds = answers
        .iter()
        .map(|bytes| Message::decode(bytes).unwrap().body.kind());
    assert!(kinds.into_iter().all(|kind| kind == MessageKind::PutAck));
    stranger.say(
        &mut world,
        Body::PutReq {
            header: put(5000),
            cookie: 8,
        },
    );
    assert_closed(&world, CloseReason::Credits);
    assert_eq!(world.fabric.registrations(), 0);
}

// [IB-29]
#[test]
fn requests_of_gets_beyond_the_reserved_credits_are_closed() {
    let (mut world, mut stranger) = connected();
    for object in 0..9 {
        let mut header = get();
        if let LnetBody::Get(get) = &mut header.body {
            get.return_wmd.object = object;
        }
        let descriptor = descriptor(8192);
        let body = Body::GetReq {
            header,
            cookie: 1,
            descriptor,
        };
        // The program above never replies, because its replies are not sent.
        let (now, node) = (world.now, &mut world.nodes[0]);
        let conn = lnet_o2ib::ConnId(1 << 32);
        let bytes = bytes(envelope(), body);
        let event = lnet_o2ib::DeviceEvent::Received {
            conn,
            buffer: 100 + object as u32,
            bytes: &bytes,
        };
        node.lnd.event(event, now, &mut node.program);
        let closed = node.lnd.stats().closed.of(CloseReason::Credits);
        assert_eq!(closed, u64::from(object == 8), "GET {object}");
    }
    let _unused = &mut stranger;
}

/// Sends a message of this kind from node 0. Returns the cookie that the stranger gets.
fn asked(world: &mut World, stranger: &Stranger, is_get: bool) -> u64 {
    world.nodes[0].program.offers_memory = true;
    world.foreign.clear();
    if is_get {
        world.get(0, 1, 8192);
    } else {
        world.put(0, 1, 8192);
    }
    world.settle();
    let heard = stranger.heard(world);
    match Message::decode(&heard[0]).unwrap().body {
        Body::PutReq { cookie, .. } | Body::GetReq { cookie, .. } => cookie,
        other => panic!("{other:?}"),
    }
}

// [IB-30]
#[test]
fn an_answer_to_nothing_or_of_the_wrong_type_closes_the_connection() {
    let ack = |source_cookie| Body::PutAck {
        source_cookie,
        sink_cookie: 1,
        descriptor: descriptor(8192),
    };
    let nak = |cookie| Body::PutNak { cookie, status: 0 };
    let done = |cookie| Body::PutDone { cookie, status: 0 };
    let got = |cookie| Body::GetDone { cookie, status: 0 };
    let foreign: [&dyn Fn(u64) -> Body<'static>; 4] = [&ack, &nak, &done, &got];
    for answer in foreign {
        for cookie in [0, 1, 1 << 32, u64::MAX] {
            let (mut world, mut stranger) = connected();
            stranger.say(&mut world, answer(cookie));
            assert_closed(&world, CloseReason::Cookie);
        }
    }
    let to_put: [&dyn Fn(u64) -> Body<'static>; 2] = [&done, &got];
    let to_get: [&dyn Fn(u64) -> Body<'static>; 3] = [&ack, &nak, &done];
    for (is_get, answers) in [(false, to_put.as_slice()), (true, to_get.as_slice())] {
        for answer in answers {
            let (mut world, mut stranger) = connected();
            let cookie = asked(&mut world, &stranger, is_get);
            stranger.say(&mut world, answer(cookie));
            assert_closed(&world, CloseReason::Cookie);
            assert_eq!(world.fabric.registrations(), 0);
        }
    }
    // The same answer twice.
    for (is_get, answer) in [(false, to_get[1]), (true, foreign[3])] {
        let (mut world, mut stranger) = connected();
        let cookie = asked(&mut world, &stranger, is_get);
        stranger.say(&mut world, answer(cookie));
        assert_eq!(world.nodes[0].lnd.connections().count(), 1);
        stranger.say(&mut world, answer(cookie));
        assert_closed(&world, CloseReason::Cookie);
    }
}

// [IB-29]
#[test]
fn a_reply_longer_than_its_memory_closes_the_connection() {
    for (status, closes) in [
        (8193, true),
        (i32::MAX, true),
        (8192, false),
        (0, false),
        (-5, false),
    ] {
        let (mut world, mut stranger) = connected();
        let cookie = asked(&mut world, &stranger, true);
        // The memory has no reply in it, which the program would notice.
        world.nodes[0].program.drops = true;
        stranger.say(&mut world, Body::GetDone { cookie, status });
        let closed = world.nodes[0].lnd.stats().closed.of(CloseReason::Malformed);
        assert_eq!(closed, u64::from(closes), "{status}");
        let results: Vec<_> = world.nodes[0].program.sent.values().copied().collect();
        let expected = match status {
            8193.. => Err(Failure::RemoteDropped),
            0.. => Ok(()),
            _ => Err(Failure::RemoteError),
        };
        assert_eq!(results, [expected]);
    }
}

// [IB-28]
#[test]
fn the_status_of_the_other_end_is_the_result() {
    let (mut world, mut stranger) = connected();
    stranger.say(
        &mut world,
        Body::PutReq {
            header: put(5000),
            cookie: 1,
        },
    );
    let heard = stranger.heard(&mut world);
    let Body::PutAck { sink_cookie, .. } = Message::decode(&heard[0]).unwrap().body else {
        panic!("no PUT_ACK");
    };
    stranger.say(
        &mut world,
        Body::PutDone {
            cookie: sink_cookie,
            status: -5,
        },
    );
    assert_eq!(
        world.nodes[0].program.received,
        [(9, Err(Failure::RemoteError))]
    );
    let cookie = asked(&mut world, &stranger, false);
    stranger.say(
        &mut world,
        Body::PutNak {
            cookie,
            status: -12,
        },
    );
    let results: Vec<_> = world.nodes[0].program.sent.values().copied().collect();
    assert_eq!(results, [Err(Failure::RemoteError)]);
}

// [IB-35]
#[test]
fn a_descriptor_of_empty_fragments_gets_no_write() {
    let (mut world, mut stranger) = connected();
    let cookie = asked(&mut world, &stranger, false);
    let mut empty = descriptor(0);
    empty.fragments = vec![empty.fragments[0]; 257];
    stranger.say(
        &mut world,
        Body::PutAck {
            source_cookie: cookie,
            sink_cookie: 1,
            descriptor: empty,
        },
    );
    let heard = stranger.heard(&mut world);
    let done = Message::decode(&heard[0]).unwrap().body;
    assert_eq!(
        done,
        Body::PutDone {
            cookie: 1,
            status: 0
        }
    );
    assert_eq!(world.fabric.written(), 0);
}

#[test]
fn a_peer_that_names_memory_that_it_has_not_loses_the_connection() {
    let (mut world, mut stranger) = connected();
    let cookie = asked(&mut world, &stranger, false);
    stranger.say(
        &mut world,
        Body::PutAck {
            source_cookie: cookie,
            sink_cookie: 1,
            descriptor: descriptor(8192),
        },
    );
    assert_eq!(world.fabric.registrations(), 0);
    let results: Vec<_> = world.nodes[0].program.sent.values().copied().collect();
    assert_eq!(results, [Err(Failure::RemoteDropped)]);
    assert_eq!(
        world.nodes[0]
            .lnd
            .stats()
            .closed
            .of(CloseReason::SendFailed),
        1
    );
}

#[test]
fn a_peer_that_writes_beyond_its_key_loses_the_connection_and_changes_nothing() {
    let (mut world, mut stranger) = connected();
    stranger.say(
        &mut world,
        Body::PutReq {
            header: put(5000),
            cookie: 1,
        },
    );
    let heard = stranger.heard(&mut world);
    let Body::PutAck { descriptor, .. } = Message::decode(&heard[0]).unwrap().body else {
        panic!("no PUT_ACK");
    };
    let memory = lnet_o2ib::fabric::VirtualMemory::lent(vec![1; 9000]);
    let mapped = stranger.device.map_source(stranger.conn, &memory).unwrap();
    let write = Write {
        mapping: mapped.id,
        offset: 0,
        length: 5001,
        address: descriptor.fragments[0].address,
        rkey: descriptor.rkey,
    };
    let message = bytes(envelope(), Body::Noop);
    stranger
        .device
        .post_send(stranger.conn, &[write], &message, 1)
        .unwrap();
    world.settle();
    assert_eq!(world.fabric.written(), 0);
    assert_eq!(
        world.nodes[0].program.received,
        [(9, Err(Failure::RemoteError))]
    );
    assert_closed(&world, CloseReason::Disconnected);
    let _ = MappingId(0);
}

// [IB-31]
#[test]
fn a_closed_connection_keeps_the_memory_of_a_transfer_until_the_device_has_stopped() {
    for _ in 0..20 {
        let (mut world, mut stranger) = connected();
        stranger.say(
            &mut world,
            Body::PutReq {
                header: put(5000),
                cookie: 1,
            },
        );
        let cookie = asked(&mut world, &stranger, false);
        assert!(cookie > 0);
        stranger
            .device
            .post_send(stranger.conn, &[], &[0; 48], 1)
            .unwrap();
        while world.nodes[0].lnd.stats().closed.of(CloseReason::Malformed) == 0 {
            assert!(world.step());
        }
        assert!(!world.nodes[0].lnd.is_idle());
        let program = &world.nodes[0].program;
        assert_eq!((program.received.len(), program.sent.len()), (0, 0));
        world.settle();
        let program = &world.nodes[0].program;
        assert_eq!((program.received.len(), program.sent.len()), (1, 1));
        assert!(world.nodes[0].lnd.is_idle());
        assert_eq!(world.end(), [] as [String; 0]);
    }
}

// [IB-32] [IB-33]
#[test]
fn a_peer_that_gives_no_credits_back_times_out_what_is_queued() {
    let (mut world, _stranger) = connected();
    let all: Vec<_> = (0..20).map(|_| world.put(0, 1, 10)).collect();
    world.settle();
    world.pass(Duration::from_secs(49));
    let sent = |world: &World| {
        let sent = &world.nodes[0].program.sent;
        let count = |result| sent.values().filter(|found| **found == result).count();
        (count(Ok(())), count(Err(Failure::LocalTimeout)))
    };
    assert_eq!(sent(&world), (8, 0));
    world.pass(Duration::from_secs(15));
    assert_eq!(sent(&world), (8, all.len() - 8));
    assert_closed(&world, CloseReason::Deadline);
}

// [IB-32] [IB-33]
#[test]
fn a_peer_that_does_not_answer_times_out_what_was_sent() {
    for is_get in [false, true] {
        let (mut world, stranger) = connected();
        asked(&mut world, &stranger, is_get);
        world.pass(Duration::from_secs(65));
        let results: Vec<_> = world.nodes[0].program.sent.values().copied().collect();
        assert_eq!(results, [Err(Failure::RemoteTimeout)]);
        assert_closed(&world, CloseReason::Deadline);
        assert_eq!(world.end(), [] as [String; 0]);
    }
}

// [IB-32]
#[test]
fn a_peer_that_never_writes_what_it_announced_is_closed() {
    let (mut world, mut stranger) = connected();
    stranger.say(
        &mut world,
        Body::PutReq {
            header: put(5000),
            cookie: 1,
        },
    );
    world.pass(Duration::from_secs(65));
    assert_eq!(
        world.nodes[0].program.received,
        [(9, Err(Failure::RemoteError))]
    );
    assert_closed(&world, CloseReason::Deadline);
}

// [IB-33]
#[test]
fn what_the_device_does_not_complete_is_a_timeout_of_the_network() {
    let (mut world, _stranger) = connected();
    let tx = world.put(0, 1, 10);
    world.now = world.now + Duration::from_secs(65);
    world.tick_all();
    assert_eq!(
        world.nodes[0].program.sent.get(&tx),
        None,
        "the device may still read it"
    );
    let until = world.now + Duration::from_secs(1);
    // The device stops without a completion.
    let (now, node) = (world.now, &mut world.nodes[0]);
    let conn = lnet_o2ib::ConnId(1 << 32);
    node.lnd.event(
        lnet_o2ib::DeviceEvent::Drained(conn),
        now,
        &mut node.program,
    );
    assert_eq!(
        node.program.sent.get(&tx),
        Some(&Err(Failure::NetworkTimeout))
    );
    assert!(until > now);
}

// [IB-26]
#[test]
fn no_more_sends_are_posted_than_configured() {
    let tuning = NiTuning {
        concurrent_sends: 2,
        ..NiTuning::default()
    };
    let (mut world, mut stranger) = strange(O2ibConfig::default(), tuning);
    stranger.connect(&mut world);
    let all: Vec<_> = (0..8).map(|_| world.put(0, 1, 10)).collect();
    let mut most = 0;
    while world.step() {
        most = world.nodes[0]
            .lnd
            .connections()
            .map(|view| view.posted)
            .max()
            .max(Some(most))
            .unwrap();
    }
    assert_eq!(most, 2);
    assert!(
        all.iter()
            .all(|tx| world.nodes[0].program.sent.get(tx) == Some(&Ok(())))
    );
}

// [IB-8]
#[test]
fn checksums_are_sent_if_configured_and_verified_always() {
    let config = O2ibConfig {
        cksum: true,
        ..O2ibConfig::default()
    };
    let (mut world, mut stranger) = strange(config, NiTuning::default());
    stranger.connect(&mut world);
    world.put(0, 1, 100);
    world.settle();
    let heard = stranger.heard(&mut world);
    assert_ne!(heard[0][12..16], [0; 4]);
    assert!(Message::decode(&heard[0]).is_ok());
    let mut wrong = bytes(envelope(), Body::Noop);
    lnet_wire::o2ib::seal(&mut wrong);
    stranger.send(&mut world, &wrong);
    assert_eq!(world.nodes[0].lnd.connections().count(), 1);
    wrong[12] ^= 1;
    stranger.send(&mut world, &wrong);
    assert_closed(&world, CloseReason::Malformed);
}

// [IB-4]
#[test]
fn events_that_name_nothing_are_counted_and_change_nothing() {
    use lnet_o2ib::{CompletionError, ConnId, ConnectFailure, DeviceEvent};
    let (mut world, _stranger) = connected();
    let conn = ConnId(999);
    let (now, node) = (world.now, &mut world.nodes[0]);
    let noop = bytes(envelope(), Body::Noop);
    for event in [
        DeviceEvent::Resolved(conn),
        DeviceEvent::Established(conn, &[]),
        DeviceEvent::Failed(conn, ConnectFailure::Rejected, &[]),
        DeviceEvent::Received {
            conn,
            buffer: 0,
            bytes: &noop,
        },
        DeviceEvent::Sent {
            conn,
            ticket: 1,
            result: Err(CompletionError::Flushed),
        },
        DeviceEvent::Sent {
            conn: ConnId(1 << 32),
            ticket: 1,
            result: Ok(()),
        },
        DeviceEvent::Established(ConnId(1 << 32), &[]),
        DeviceEvent::Drained(conn),
    ] {
        node.lnd.event(event, now, &mut node.program);
    }
    assert_eq!(node.lnd.stats().stray_events, 8);
    assert_eq!(node.lnd.connections().count(), 1);
}

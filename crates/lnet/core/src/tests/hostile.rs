//! Tests that messages of other nodes never have more effect than the rules of the protocol allow.

use std::time::Duration;

use lnet_types::{LndType, Net as LnetNet, Nid, ProcessId, Time};
use lnet_wire::{Ack, Body, Get, Handle, Header, Put, Reply};
use proptest::prelude::*;

use super::net::{any_me, config, open_md};
use super::{Net, nid};
use crate::*;

fn header(body: Body, payload_length: u32) -> Header {
    Header {
        dest_nid: nid("10.0.0.1@tcp"),
        src_nid: nid("10.0.0.2@tcp"),
        dest_pid: 12345,
        src_pid: 12345,
        payload_length,
        body,
    }
}

fn put(ptl_index: u32, offset: u32) -> Body {
    Body::Put(Put {
        ack_wmd: Handle::NONE,
        match_bits: 7,
        hdr_data: 0,
        ptl_index,
        offset,
    })
}

fn offer(net: &mut Net, header: &Header) -> Verdict {
    let (ni, now) = (net.nodes[0].nis[0].0, net.now);
    net.core(0)
        .header(ni, ProcessId::lustre(nid("10.0.0.2@tcp")), header, now)
}

fn handle_of(net: &mut Net, md: MdHandle) -> Handle {
    net.core(0).traffic().wire_handles.of(md)
}

/// Delivers a response to an operation of this descriptor, from the peer.
fn offer_to(net: &mut Net, md: MdHandle, body: fn(Handle) -> Body, length: u32) -> Verdict {
    let handle = handle_of(net, md);
    offer(net, &header(body(handle), length))
}

fn reply_to(dst_wmd: Handle) -> Body {
    Body::Reply(Reply { dst_wmd })
}

fn ack_to(dst_wmd: Handle) -> Body {
    Body::Ack(Ack {
        dst_wmd,
        match_bits: 7,
        mlength: 0,
    })
}

// [TYPE-9]
#[test]
fn a_portal_of_64_or_more_is_dropped() {
    let mut net = Net::pair();
    for portal in [64, 65, u32::MAX] {
        let verdict = offer(&mut net, &header(put(portal, 0), 1));
        assert_eq!(verdict, Verdict::Drop(DropReason::BadPortal));
    }
    assert_eq!(net.core(0).counters().dropped(DropReason::BadPortal), 3);
    assert_eq!(
        (
            net.core(0).counters().drop_count,
            net.core(0).counters().drop_length
        ),
        (3, 3)
    );
}

// [DATA-15]
#[test]
fn a_remote_offset_beyond_the_descriptor_is_too_long() {
    let mut net = Net::pair();
    net.attach(0, any_me(), open_md(16));
    for offset in [16, 17, u32::MAX] {
        let verdict = offer(&mut net, &header(put(30, offset), 1));
        assert_eq!(verdict, Verdict::Drop(DropReason::TooLong));
    }
    let verdict = offer(&mut net, &header(put(30, 15), 1));
    assert!(matches!(
        verdict,
        Verdict::Receive {
            landing: Landing {
                offset: 15,
                length: 1,
                ..
            },
            ..
        }
    ));
}

#[test]
fn an_empty_put_beyond_the_end_lands_inside() {
    let mut net = Net::pair();
    net.attach(0, any_me(), open_md(16));
    for offset in [17, u32::MAX] {
        let verdict = offer(&mut net, &header(put(30, offset), 0));
        let Verdict::Receive { landing, .. } = verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!((landing.offset, landing.length), (16, 0));
    }
}

// [MSG-4] [MSG-5]
#[test]
fn lengths_that_a_type_may_not_have_are_refused() {
    let mut net = Net::pair();
    let get = Body::Get(Get {
        return_wmd: Handle::NONE,
        match_bits: 7,
        ptl_index: 30,
        src_offset: 0,
        sink_length: 0,
    });
    for (body, length) in [
        (put(30, 0), 1 << 20 | 1),
        (get, 1),
        (ack_to(Handle::NONE), 1),
    ] {
        let verdict = offer(&mut net, &header(body, length));
        assert_eq!(verdict, Verdict::Reject(IllegalMessage::BadLength));
    }
    assert_eq!(net.core(0).counters().refused, 3);
}

// [MSG-9] [MSG-10]
#[test]
fn a_misdirected_message_is_refused_and_one_for_elsewhere_dropped() {
    let mut net = Net::new();
    net.add(&["10.0.0.1@tcp", "10.1.0.1@tcp1"]);
    for (dest, expected) in [
        (
            "10.0.0.77@tcp",
            Verdict::Reject(IllegalMessage::MisdirectedOnNet),
        ),
        (
            "10.1.0.1@tcp1",
            Verdict::Reject(IllegalMessage::WrongInterface),
        ),
        ("0@lo", Verdict::Reject(IllegalMessage::WrongInterface)),
        ("10.9.0.1@tcp9", Verdict::Drop(DropReason::NotRouting)),
    ] {
        let header = Header {
            dest_nid: nid(dest),
            ..header(put(30, 0), 1)
        };
        assert_eq!(offer(&mut net, &header), expected, "{dest}");
    }
}

#[test]
fn a_source_that_no_node_has_is_dropped() {
    let mut net = Net::pair();
    net.attach(0, any_me(), open_md(16));
    for src_nid in [Nid::ANY, Nid::LOOPBACK] {
        let header = Header {
            src_nid,
            ..header(put(30, 0), 1)
        };
        assert_eq!(
            offer(&mut net, &header),
            Verdict::Drop(DropReason::BadSource)
        );
    }
}

/// A service whose peer answers no ping cannot be made to keep without a limit what it has to tell this peer, and what
/// waits for this peer costs others nothing.
#[test]
fn messages_that_wait_for_the_discovery_of_a_peer_are_limited_for_this_peer() {
    let mut net = Net::new();
    net.add_discovering(&["10.0.0.1@tcp"]);
    for _ in 0..crate::upkeep::discovery::run::PARKED_MAX {
        net.put(0, &[1], false, "10.0.0.2@tcp");
    }
    let failed = net.core(0).counters().errors;
    net.put(0, &[1], false, "10.0.0.2@tcp");
    assert_eq!(net.core(0).counters().errors, failed + 1);
    net.put(0, &[1], false, "10.0.0.3@tcp");
    assert_eq!(net.core(0).counters().errors, failed + 1);
}

// [MSG-11]
#[test]
fn a_source_on_the_net_of_the_connection_is_a_nid_of_the_peer_there() {
    let mut net = Net::pair();
    net.attach(0, any_me(), open_md(16));
    let from = |source: &str| Header {
        src_nid: nid(source),
        ..header(put(30, 0), 1)
    };
    let forged = offer(&mut net, &from("10.0.0.3@tcp"));
    assert_eq!(forged, Verdict::Drop(DropReason::BadSource));
    let own = offer(&mut net, &from("10.0.0.2@tcp"));
    assert!(matches!(own, Verdict::Receive { .. }));
    let routed = offer(&mut net, &from("10.1.0.3@tcp1"));
    assert!(matches!(routed, Verdict::Receive { .. }), "{routed:?}");
}

// [DATA-8]
#[test]
fn responses_to_nothing_are_dropped() {
    let mut net = Net::pair();
    let attached = net.attach(0, any_me(), open_md(16));
    let idle = net.bind(0, &[0; 4], 2);
    let [attached, idle, none] =
        [attached, idle, MdHandle(u64::MAX)].map(|md| handle_of(&mut net, md));
    let interface = !idle.interface;
    let bodies = [
        ack_to(none),
        ack_to(Handle { interface, ..idle }),
        ack_to(idle),
        ack_to(attached),
        reply_to(attached),
        reply_to(Handle::NONE),
    ];
    for body in bodies {
        let verdict = offer(&mut net, &header(body, 0));
        assert_eq!(
            verdict,
            Verdict::Drop(DropReason::UnknownHandle),
            "{body:?}"
        );
    }
}

#[test]
fn a_reply_cannot_write_into_the_source_of_a_put() {
    let mut net = Net::pair();
    net.keep_answers = true;
    let md = net.put(0, b"secret", true, "10.0.0.2@tcp");
    net.run();
    let verdict = offer_to(&mut net, md, reply_to, 6);
    assert_eq!(verdict, Verdict::Drop(DropReason::UnknownHandle));
}

// [DATA-8]
#[test]
fn an_ack_for_an_earlier_life_of_the_node_is_dropped() {
    let mut net = Net::pair();
    net.keep_answers = true;
    let md = net.put(0, b"x", true, "10.0.0.2@tcp");
    net.run();
    let handle = Core::new(config(99), net.now).traffic().wire_handles.of(md);
    let verdict = offer(&mut net, &header(ack_to(handle), 0));
    assert_eq!(verdict, Verdict::Drop(DropReason::UnknownHandle));
    let verdict = offer_to(&mut net, md, ack_to, 0);
    assert!(matches!(verdict, Verdict::Receive { .. }));
}

// [DATA-9]
#[test]
fn a_reply_longer_than_asked_for_is_dropped_or_cut() {
    for (options, expected) in [(MdOptions::empty(), None), (MdOptions::TRUNCATE, Some(4))] {
        let mut net = Net::pair();
        net.keep_answers = true;
        let spec = MdSpec {
            options,
            threshold: Some(2),
            ..open_md(4)
        };
        let md = net.core(0).md_bind(spec).unwrap();
        net.nodes[0].memory.insert(md, vec![0; 4]);
        let get = GetRequest {
            md,
            source: None,
            target: ProcessId::lustre(nid("10.0.0.2@tcp")),
            portal: 30,
            match_bits: 7,
            offset: 0,
        };
        let now = net.now;
        net.core(0).get(get, now).unwrap();
        match offer_to(&mut net, md, reply_to, 5) {
            Verdict::Receive { landing, .. } => assert_eq!(Some(landing.length), expected),
            verdict => {
                assert_eq!(
                    (verdict, expected),
                    (Verdict::Drop(DropReason::TooLong), None)
                );
            }
        }
    }
}

#[test]
fn an_ack_counts_once() {
    let mut net = Net::pair();
    net.attach(1, any_me(), open_md(16));
    let md = MdSpec {
        options: MdOptions::empty(),
        unlink_when_exhausted: false,
        ..open_md(1)
    };
    let md = net.core(0).md_bind(md).unwrap();
    net.nodes[0].memory.insert(md, vec![0]);
    let put = PutRequest {
        md,
        ack: true,
        source: None,
        target: ProcessId::lustre(nid("10.0.0.2@tcp")),
        portal: 30,
        match_bits: 7,
        offset: 0,
        hdr_data: 0,
    };
    let now = net.now;
    net.core(0).put(put, now).unwrap();
    net.run();
    assert_eq!(net.kinds(0), [EventKind::Send, EventKind::Ack]);
    let again = offer_to(&mut net, md, ack_to, 0);
    assert_eq!(again, Verdict::Drop(DropReason::UnknownHandle));
}

// [LIMIT-2]
#[test]
fn a_flood_of_source_addresses_is_bounded() {
    let mut net = Net::pair();
    net.core(0).fabric_mut().peers = crate::fabric::peer::Peers::new(7, 100);
    let (ni, now) = (net.nodes[0].nis[0].0, net.now);
    for number in 0..10_000 {
        let source = Nid::from_number(LnetNet::tcp(0), number);
        let header = Header {
            src_nid: source,
            ..header(put(30, 0), 1)
        };
        net.core(0)
            .header(ni, ProcessId::lustre(source), &header, now);
    }
    assert_eq!(net.core(0).peers().count(), 100);
}

fn any_nid() -> impl Strategy<Value = Nid> {
    prop_oneof![
        Just(nid("10.0.0.1@tcp")),
        Just(nid("10.1.0.1@tcp1")),
        Just(nid("10.0.0.2@tcp")),
        Just(nid("10.2.0.2@tcp2")),
        Just(nid("fd00::1@tcp")),
        Just(Nid::LOOPBACK),
        Just(Nid::ANY),
        any::<(u8, u16, u32)>().prop_map(|(lnd, number, address)| {
            Nid::from_number(LnetNet::new(LndType(lnd), number), address)
        }),
    ]
}

fn any_body() -> impl Strategy<Value = Body> {
    let handle = prop_oneof![
        Just(Handle::NONE),
        (0..20_u64).prop_map(|md| {
            // The handles are those of the victim.
            crate::traffic::portals::wire_handle::WireHandles::new(&Entropy::from_seed(1))
                .of(MdHandle(md))
        }),
    ];
    let number = prop_oneof![0..70_u32, any::<u32>()];
    let bits = prop_oneof![Just(7_u64), Just(1 << 63), any::<u64>()];
    (
        0..4_u8,
        handle,
        bits,
        [number.clone(), number.clone(), number],
    )
        .prop_map(
            |(kind, handle, match_bits, [portal, offset, length])| match kind {
                0 => Body::Ack(Ack {
                    dst_wmd: handle,
                    match_bits,
                    mlength: length,
                }),
                1 => Body::Put(Put {
                    ack_wmd: handle,
                    match_bits,
                    hdr_data: 0,
                    ptl_index: portal,
                    offset,
                }),
                2 => Body::Get(Get {
                    return_wmd: handle,
                    match_bits,
                    ptl_index: portal,
                    src_offset: offset,
                    sink_length: length,
                }),
                _ => Body::Reply(Reply { dst_wmd: handle }),
            },
        )
}

#[derive(Clone, Debug)]
struct Attack {
    ni: u32,
    from: ProcessId,
    header: Header,
    fails: bool,
}

fn attack() -> impl Strategy<Value = Attack> {
    let length = prop_oneof![0..10_u32, 4000..5000_u32, any::<u32>()];
    let pid = prop_oneof![Just(12345_u32), any::<u32>()];
    (
        0..4_u32,
        [any_nid(), any_nid(), any_nid()],
        pid,
        length,
        any_body(),
        any::<bool>(),
    )
        .prop_map(
            |(ni, [from, src_nid, dest_nid], pid, payload_length, body, fails)| Attack {
                ni,
                from: ProcessId { nid: from, pid },
                header: Header {
                    dest_nid,
                    src_nid,
                    dest_pid: pid,
                    src_pid: pid,
                    payload_length,
                    body,
                },
                fails,
            },
        )
}

fn victim() -> Core {
    let now = Time::ZERO;
    let mut core = Core::new(
        CoreConfig {
            routing: true,
            ..config(1)
        },
        now,
    );
    let tunables = Tunables::default();
    for text in ["10.0.0.1@tcp", "10.1.0.1@tcp1"] {
        core.add_ni(
            NiConfig {
                nid: nid(text),
                tunables,
            },
            now,
        )
        .unwrap();
    }
    let gateway = nid("10.0.0.2@tcp");
    let route = Route {
        net: "tcp2".parse().unwrap(),
        gateway,
        hops: None,
        priority: 0,
    };
    core.add_route(route, now).unwrap();
    core.set_lazy(31).unwrap();
    let me = core.me_attach(any_me()).unwrap();
    core.md_attach(me, open_md(64), now).unwrap();
    core
}

/// Completes everything that the core has requested, and lets enough time pass for the rest to time out.
fn settle(core: &mut Core, mut waiting: Vec<RxId>, now: Time) {
    for rx in waiting.drain(..) {
        core.arrived(rx, Err(MessageStatus::RemoteError), now);
    }
    core.set_routing(false, now);
    let later = now + Duration::from_secs(1000);
    for time in [now, later] {
        core.tick(time);
        while let Some(output) = core.poll_output() {
            if let Output::Transmit(transmit) = output {
                core.sent(transmit.tx, MessageStatus::RemoteDropped, time);
            }
        }
    }
}

proptest! {
    #[test]
    fn no_header_panics_or_leaves_anything_behind(
        attacks in proptest::collection::vec(attack(), 1..60),
    ) {
        let mut core = victim();
        let mut waiting = Vec::new();
        let now = Time::from_secs(1);
        for Attack { ni, from, header, fails } in &attacks {
            match core.header(NiId(*ni), *from, header, now) {
                Verdict::Receive { rx, landing } => {
                    if let Place::Md(_) = landing.place {
                        prop_assert!(landing.offset + landing.length <= 64);
                    }
                    let result = if *fails { Err(MessageStatus::RemoteError) } else { Ok(()) };
                    core.arrived(rx, result, now);
                }
                Verdict::Hold { rx } => waiting.push(rx),
                Verdict::Drop(_) | Verdict::Reject(_) => {}
            }
        }
        settle(&mut core, waiting, now);
        prop_assert!(core.is_idle());
        prop_assert_eq!(core.counters().msgs_alloc, 0);
        for pool in core.router_pools() {
            prop_assert_eq!(pool.credits, i64::from(pool.buffers));
        }
        for peer_ni in core.peers().flat_map(|peer| peer.nis) {
            prop_assert_eq!(peer_ni.tx_credits, i64::from(peer_ni.max_tx_credits));
        }
    }
}

#[test]
fn a_peer_that_asks_and_never_takes_the_answers_is_held_to_a_bounded_number() {
    let mut net = Net::pair();
    net.keep_answers = true;
    let ping = header(
        Body::Get(Get {
            return_wmd: Handle::NONE,
            match_bits: lnet_wire::PING_MATCH_BITS,
            ptl_index: 0,
            src_offset: 0,
            sink_length: 272,
        }),
        0,
    );
    let peer_credits = 8;
    let now = net.now;
    for _ in 0..crate::traffic::receive::header::ANSWERS_QUEUED_MAX + peer_credits {
        let Verdict::Receive { rx, .. } = offer(&mut net, &ping) else {
            panic!("a ping was refused before the limit")
        };
        net.core(0).arrived(rx, Ok(()), now);
    }
    assert_eq!(offer(&mut net, &ping), Verdict::Drop(DropReason::NoMemory));
    // A message that needs no response is still accepted.
    assert_eq!(
        offer(&mut net, &header(put(30, 0), 0)),
        Verdict::Drop(DropReason::NoMatch)
    );
}

//! Tests of the information that a node gives about itself when it is pinged.

use std::time::Duration;

use lnet_types::ProcessId;
use lnet_wire::{Body, Get, Handle, Header, NiStatus, PING_MATCH_BITS, PingFeatures, PingInfo};

use super::net::config;
use super::{Net, nid};
use crate::*;

/// Pings `node` over its interface `ni` as a remote node would, and returns the answer.
fn ping(net: &mut Net, node: usize, ni: usize, sink_length: u32, offset: u32) -> Vec<u8> {
    let (id, own) = net.nodes[node].nis[ni];
    let number = own.number() & !0xFF | 200;
    let from = ProcessId::lustre(lnet_types::Nid::from_number(own.net(), number));
    let header = Header {
        dest_nid: own,
        src_nid: from.nid,
        dest_pid: 12345,
        src_pid: 12345,
        payload_length: 0,
        body: Body::Get(Get {
            return_wmd: Handle {
                interface: 5,
                object: 6,
            },
            match_bits: PING_MATCH_BITS,
            ptl_index: 0,
            src_offset: offset,
            sink_length,
        }),
    };
    let now = net.now;
    let core = net.core(node);
    let Verdict::Receive { rx, .. } = core.header(id, from, &header, now) else {
        panic!()
    };
    core.arrived(rx, Ok(()), now);
    let Some(Output::Transmit(reply)) = core.poll_output() else {
        panic!("no reply")
    };
    assert_eq!(reply.to, from);
    let bytes = reply.payload.map_or_else(Vec::new, |payload| {
        let Place::Core(buffer) = payload.place else {
            panic!("{payload:?}")
        };
        core.core_buffer(buffer)[payload.offset as usize..][..payload.length as usize].to_vec()
    });
    core.sent(reply.tx, MessageStatus::Ok, now);
    assert_eq!(
        core.poll_output(),
        None,
        "the target of pings is the core's own"
    );
    bytes
}

fn statuses(bytes: &[u8]) -> Vec<NiStatus> {
    PingInfo::parse(bytes)
        .unwrap()
        .nis()
        .map(|ni| ni.status)
        .collect()
}

// [PING-1] [PING-5] [PING-6]
#[test]
fn ping_info_is_section_14_to_the_byte_but_for_features_and_sequence() {
    let mut net = Net::new();
    net.add(&["192.168.1.20@tcp"]);
    let expected = [
        0x67, 0x6e, 0x69, 0x70, 0x06, 0, 0, 0, 0x39, 0x30, 0, 0, 2, 0, 0, 0, //
        0, 0, 0, 0, 0, 0, 9, 0, 2, 0, 0, 0, 0, 0, 0, 0, //
        0x14, 0x01, 0xa8, 0xc0, 0, 0, 2, 0, 0xde, 0xc0, 0xaa, 0x15, 0, 0, 0, 0,
    ];
    assert_eq!(ping(&mut net, 0, 0, 272, 0), expected);
    net.assert_at_rest();
}

// [PING-2] [DATA-6]
#[test]
fn a_short_sink_gets_the_first_bytes() {
    let mut net = Net::pair();
    assert_eq!(ping(&mut net, 0, 0, 20, 0).len(), 20);
    assert_eq!(ping(&mut net, 0, 0, 0, 0).len(), 0);
    let (ni, now) = (net.nodes[0].nis[0].0, net.now);
    net.core(0).set_ni_fatal(ni, true, now);
    net.assert_at_rest();
}

#[test]
fn an_offset_beyond_the_end_gets_nothing() {
    let mut net = Net::pair();
    for offset in [48, 49, u32::MAX] {
        assert!(ping(&mut net, 0, 0, 272, offset).is_empty());
    }
    assert_eq!(ping(&mut net, 0, 0, 272, 32).len(), 16);
}

// [LARGE-11]
#[test]
fn an_ipv6_nid_gets_a_large_record() {
    let mut net = Net::new();
    net.add(&["10.0.0.1@tcp", "fd00::1@tcp"]);
    let bytes = ping(&mut net, 0, 0, 272, 0);
    let info = PingInfo::parse(&bytes).unwrap();
    assert_eq!(info.features().bits(), 0x26);
    let nids: Vec<_> = info.nids().map(|nid| nid.to_string()).collect();
    assert_eq!(nids, ["0@lo", "10.0.0.1@tcp", "fd00::1@tcp"]);
}

// [PING-9]
#[test]
fn every_change_of_configuration_raises_the_sequence() {
    let mut net = Net::pair();
    let sequence = |net: &mut Net| {
        PingInfo::parse(&ping(net, 0, 0, 272, 0))
            .unwrap()
            .sequence()
            .unwrap()
    };
    assert_eq!(sequence(&mut net), 2, "as a kernel with one interface");
    let now = net.now;
    let tunables = Tunables::default();
    let ni = NiConfig {
        nid: nid("10.1.0.1@tcp1"),
        tunables,
    };
    let id = net.core(0).add_ni(ni, now).unwrap();
    assert_eq!(sequence(&mut net), 3);
    net.core(0).remove_ni(id, now).unwrap();
    assert_eq!(sequence(&mut net), 4);
    net.core(0).set_routing(true, now);
    assert_eq!(sequence(&mut net), 5);
}

// [ROUTE-10]
#[test]
fn a_router_clears_rte_disabled() {
    let mut net = Net::new();
    net.add_configured(
        CoreConfig {
            routing: true,
            ..config(1)
        },
        &["10.0.0.1@tcp"],
    );
    let bytes = ping(&mut net, 0, 0, 272, 0);
    assert_eq!(
        PingInfo::parse(&bytes).unwrap().features(),
        PingFeatures::NI_STATUS
    );
}

// [PING-17]
#[test]
fn a_fatal_interface_is_down_until_it_recovers() {
    let mut net = Net::pair();
    let (ni, now) = (net.nodes[0].nis[0].0, net.now);
    net.core(0).set_ni_fatal(ni, true, now);
    assert_eq!(statuses(&ping(&mut net, 0, 0, 272, 0)), [NiStatus::DOWN]);
    net.core(0).set_ni_fatal(ni, false, now);
    assert_eq!(statuses(&ping(&mut net, 0, 0, 272, 0)), [NiStatus::UP]);
}

// [ROUTE-16]
#[test]
fn a_router_calls_a_net_without_pings_down_after_110_s_and_up_at_the_next_one() {
    let mut net = Net::new();
    let router = CoreConfig {
        routing: true,
        ..config(1)
    };
    net.add_configured(router, &["10.0.0.9@tcp", "10.1.0.9@tcp1"]);
    for _ in 0..2 {
        net.advance(Duration::from_secs(60));
        ping(&mut net, 0, 0, 272, 0);
    }
    let before = PingInfo::parse(&ping(&mut net, 0, 0, 272, 0))
        .unwrap()
        .sequence();
    assert_eq!(
        statuses(&ping(&mut net, 0, 0, 272, 0)),
        [NiStatus::UP, NiStatus::DOWN]
    );
    assert_eq!(
        statuses(&ping(&mut net, 0, 1, 272, 0)),
        [NiStatus::UP, NiStatus::UP]
    );
    let after = PingInfo::parse(&ping(&mut net, 0, 0, 272, 0))
        .unwrap()
        .sequence();
    assert_eq!(before, after, "a status changes in place");

    net.advance(Duration::from_secs(109));
    assert!(net.core(0).nis().all(|ni| ni.up));
    net.advance(Duration::from_secs(1));
    let up: Vec<bool> = net.core(0).nis().map(|ni| ni.up).collect();
    assert_eq!(up, [true, false, false], "loopback is always up");
}

#[test]
fn a_net_whose_nodes_answer_a_router_but_do_not_ping_the_router_is_up() {
    let mut net = Net::new();
    let router = CoreConfig {
        routing: true,
        ..config(1)
    };
    net.add_configured(router, &["10.0.0.9@tcp", "10.1.0.9@tcp1"]);
    net.add(&["10.0.0.2@tcp"]);
    let idle = nid("10.0.0.2@tcp");
    net.core(0).add_peer(idle, &[idle], false).unwrap();
    let up = |net: &mut Net| {
        let nis = net.core(0).nis().skip(1);
        nis.map(|ni| ni.up).collect::<Vec<bool>>()
    };
    net.advance(Duration::from_secs(500));
    assert_eq!(
        up(&mut net),
        [true, false],
        "nobody is known on the other net"
    );
    net.nodes[1].alive = false;
    net.advance(Duration::from_secs(171));
    assert_eq!(up(&mut net), [false, false]);
}

#[test]
fn information_that_is_being_sent_outlives_a_change() {
    let mut net = Net::pair();
    net.keep_answers = true;
    let md = net.bind(1, &[0; 272], 2);
    let get = GetRequest {
        md,
        source: None,
        target: ProcessId::lustre(nid("10.0.0.1@tcp")),
        portal: 0,
        match_bits: PING_MATCH_BITS,
        offset: 0,
    };
    let now = net.now;
    net.core(1).get(get, now).unwrap();
    net.run();
    net.answer(1, MessageStatus::Ok);
    net.core(0).set_routing(true, now);
    assert_eq!(net.core(0).traffic().buffers.len(), 2);
    net.answer(0, MessageStatus::Ok);
    let events = net.take_events(1);
    let reply = events.last().unwrap();
    assert_eq!(
        (reply.kind, reply.status, reply.mlength),
        (EventKind::Reply, Ok(()), 48)
    );
    net.assert_at_rest();
}

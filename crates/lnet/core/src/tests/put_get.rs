//! Tests of PUT and GET from end to end.

use lnet_types::{Nid, ProcessId};
use lnet_wire::{Ack, Body, Header};

use super::net::{any_me, one_shot, open_md};
use super::{Net, nid};
use crate::*;

// [DATA-1] [DATA-2] [MSG-8]
#[test]
fn put_lands_and_both_ends_hear_of_it_once() {
    let mut net = Net::pair();
    net.attach(1, any_me(), one_shot(16));
    net.put(0, b"hello", true, "10.0.0.2@tcp");
    net.run();

    let events = net.take_events(1);
    assert_eq!(events.len(), 1);
    let event = &events[0];
    assert_eq!(
        (event.kind, event.mlength, event.rlength),
        (EventKind::Put, 5, 5)
    );
    assert_eq!(
        (event.hdr_data, event.portal, event.match_bits),
        (99, 30, 7)
    );
    assert_eq!(event.initiator, ProcessId::lustre(nid("10.0.0.1@tcp")));
    assert_eq!(event.sender, nid("10.0.0.1@tcp"));
    assert!(event.unlinked);
    let events = net.take_events(0);
    assert_eq!(
        events.iter().map(|e| e.kind).collect::<Vec<_>>(),
        [EventKind::Send, EventKind::Ack]
    );
    assert_eq!(events[1].mlength, 5);
    assert_eq!(
        events.iter().map(|e| e.unlinked).collect::<Vec<_>>(),
        [false, true]
    );
    net.assert_at_rest();
}

// [DATA-3]
#[test]
fn a_get_brings_the_data() {
    let mut net = Net::pair();
    let source = net.attach(1, any_me(), open_md(8));
    net.nodes[1].memory.insert(source, b"12345678".to_vec());
    let sink = net.bind(0, &[0; 4], 2);
    let get = GetRequest {
        md: sink,
        source: None,
        target: ProcessId::lustre(nid("10.0.0.2@tcp")),
        portal: 30,
        match_bits: 7,
        offset: 2,
    };
    let now = net.now;
    net.core(0).get(get, now).unwrap();
    net.run();

    let reply = net.trace.iter().find(|(node, _)| *node == 1).unwrap().1;
    assert_eq!(reply.payload_length, 4);
    let events = net.take_events(1);
    assert_eq!(
        (events[0].kind, events[0].offset, events[0].mlength),
        (EventKind::Get, 2, 4)
    );
    assert_eq!(net.kinds(0), [EventKind::Send, EventKind::Reply]);
    net.assert_at_rest();
}

#[test]
fn the_place_of_a_reply_is_known_while_its_get_is_sent() {
    let mut net = Net::pair();
    let sink = net.bind(0, &[0; 5000], 2);
    let get = GetRequest {
        md: sink,
        source: None,
        target: ProcessId::lustre(nid("10.0.0.2@tcp")),
        portal: 30,
        match_bits: 7,
        offset: 0,
    };
    let now = net.now;
    net.core(0).get(get, now).unwrap();
    let core = net.core(0);
    let Some(Output::Transmit(transmit)) = core.poll_output() else {
        panic!("the GET is sent");
    };
    let landing = core.reply_landing(transmit.tx).unwrap();
    assert_eq!(landing.place, Place::Md(sink));
    assert_eq!((landing.offset, landing.length), (0, 5000));
    core.sent(transmit.tx, MessageStatus::Ok, now);
    assert_eq!(core.reply_landing(transmit.tx), None);
}

// [DATA-1]
#[test]
fn a_put_without_ack_gets_none() {
    let mut net = Net::pair();
    net.attach(1, any_me(), one_shot(16));
    net.put(0, b"x", false, "10.0.0.2@tcp");
    net.run();
    assert_eq!(net.kinds(0), [EventKind::Send]);
    net.assert_at_rest();
}

#[test]
fn ack_disable_sends_no_ack() {
    let mut net = Net::pair();
    let md = one_shot(16);
    net.attach(
        1,
        any_me(),
        MdSpec {
            options: md.options | MdOptions::ACK_DISABLE,
            ..md
        },
    );
    net.put(0, b"x", true, "10.0.0.2@tcp");
    net.run();
    assert_eq!(net.kinds(0), [EventKind::Send]);
}

// [TYPE-4] [PATH-4]
#[test]
fn own_nid_and_0_at_lo_go_through_loopback() {
    for to in ["0@lo", "10.0.0.1@tcp"] {
        let mut net = Net::pair();
        net.attach(0, any_me(), one_shot(16));
        net.put(0, b"self", true, to);
        net.run();
        let events = net.take_events(0);
        let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
        assert_eq!(
            kinds,
            [EventKind::Send, EventKind::Put, EventKind::Ack],
            "{to}"
        );
        assert_eq!(events[1].initiator.nid, nid(to));
        net.assert_at_rest();
    }
}

// [PATH-14]
#[test]
fn a_target_without_path_ends_in_a_send_event_with_ehostunreach() {
    let mut net = Net::pair();
    net.put(0, b"x", false, "10.9.0.1@tcp9");
    net.run();
    let events = net.take_events(0);
    assert_eq!(
        (events[0].kind, events[0].status),
        (EventKind::Send, Err(Errno::EHOSTUNREACH))
    );
    assert!(events[0].unlinked);
    net.assert_at_rest();
}

#[test]
fn a_source_that_is_not_ours_ends_in_a_send_event() {
    let mut net = Net::pair();
    let md = net.bind(0, b"x", 1);
    let put = PutRequest {
        md,
        ack: false,
        source: Some(nid("10.0.0.77@tcp")),
        target: ProcessId::lustre(nid("10.0.0.2@tcp")),
        portal: 30,
        match_bits: 7,
        offset: 0,
        hdr_data: 0,
    };
    let now = net.now;
    net.core(0).put(put, now).unwrap();
    net.run();
    assert_eq!(net.take_events(0)[0].status, Err(Errno::EHOSTUNREACH));
}

#[test]
fn the_lnds_failure_is_the_send_events_status() {
    for (status, errno) in [
        (MessageStatus::NetworkTimeout, Errno::ETIMEDOUT),
        (MessageStatus::RemoteDropped, Errno::EHOSTUNREACH),
        (MessageStatus::LocalError, Errno::EIO),
        (MessageStatus::LocalAborted, Errno::ECANCELED),
    ] {
        let mut net = Net::pair();
        net.keep_answers = true;
        net.put(0, b"x", false, "10.0.0.2@tcp");
        net.run();
        net.answer(0, status);
        assert_eq!(net.take_events(0)[0].status, Err(errno));
        assert_eq!(net.core(0).counters().ended(status), 1);
        net.assert_at_rest();
    }
}

// [LARGE-10]
#[test]
fn a_message_that_the_next_hop_cannot_read_fails_and_blames_nobody() {
    let mut net = Net::new();
    net.add(&["10.0.0.1@tcp", "10.0.0.3@tcp"]);
    net.add(&["10.0.0.2@tcp"]);
    net.keep_answers = true;
    net.put(0, b"x", false, "10.0.0.2@tcp");
    net.run();
    net.answer_in_no_form(0);
    assert_eq!(net.take_events(0)[0].status, Err(Errno::EAFNOSUPPORT));
    assert_eq!(net.core(0).counters().ended(MessageStatus::LocalError), 1);
    for ni in net.core(0).nis() {
        assert_eq!(ni.health.health, Health::MAX, "{}", ni.nid);
    }
    net.assert_at_rest();
}

#[test]
fn a_descriptor_that_is_unlinked_while_busy_ceases_with_its_last_event() {
    let mut net = Net::pair();
    net.keep_answers = true;
    let md = net.put(0, b"x", true, "10.0.0.2@tcp");
    net.run();
    let now = net.now;
    net.core(0).md_unlink(md, now).unwrap();
    assert_eq!(
        net.core(0).md_unlink(md, now),
        Err(PortalError::UnknownHandle)
    );
    net.run();
    assert_eq!(net.take_events(0), []);

    net.answer(0, MessageStatus::Ok);
    let events = net.take_events(0);
    assert_eq!(events.len(), 1);
    assert_eq!(
        (events[0].kind, events[0].status),
        (EventKind::Send, Err(Errno::ETIMEDOUT))
    );
    assert!(events[0].unlinked);
}

#[test]
fn an_idle_descriptor_ceases_at_once_with_an_unlink_event() {
    let mut net = Net::pair();
    let md = net.attach(1, any_me(), open_md(4));
    let now = net.now;
    net.core(1).md_unlink(md, now).unwrap();
    net.run();
    let events = net.take_events(1);
    assert_eq!(
        (events[0].kind, events[0].status),
        (EventKind::Unlink, Ok(()))
    );
    assert!(events[0].unlinked);
    net.assert_at_rest();
}

#[test]
fn unlinking_cancels_what_waits_for_a_credit() {
    let mut net = Net::pair();
    net.keep_answers = true;
    let mds: Vec<_> = (0..9)
        .map(|_| net.put(0, b"x", false, "10.0.0.2@tcp"))
        .collect();
    net.run();
    let now = net.now;
    net.core(0).md_unlink(mds[8], now).unwrap();
    net.run();
    let events = net.take_events(0);
    assert_eq!(
        (events[0].kind, events[0].status),
        (EventKind::Send, Err(Errno::ECANCELED))
    );
    assert!(events[0].unlinked);
    while net.answer(0, MessageStatus::RemoteDropped).is_some() {}
    net.assert_at_rest();
}

#[test]
fn a_failed_payload_gives_a_failed_event_and_no_ack() {
    let mut net = Net::pair();
    net.attach(1, any_me(), one_shot(16));
    net.keep_answers = true;
    net.put(0, b"hello", true, "10.0.0.2@tcp");
    net.run();
    let transmit = net.nodes[0].kept.pop_front().unwrap();
    let (ni, now) = (net.nodes[1].nis[0].0, net.now);
    let from = ProcessId::lustre(nid("10.0.0.1@tcp"));
    let verdict = net.core(1).header(ni, from, &transmit.header, now);
    let Verdict::Receive { rx, .. } = verdict else {
        panic!("{verdict:?}")
    };
    net.core(1)
        .arrived(rx, Err(MessageStatus::RemoteError), now);
    net.run();

    let events = net.take_events(1);
    assert_eq!(
        (events[0].kind, events[0].status),
        (EventKind::Put, Err(Errno::EIO))
    );
    assert!(net.nodes[1].kept.is_empty(), "no ACK");
    assert_eq!(net.core(1).counters().dropped(DropReason::Incomplete), 1);
}

// [DATA-4]
#[test]
fn a_reply_goes_to_exactly_the_user_space_process_that_asked() {
    let mut net = Net::pair();
    net.attach(1, any_me(), open_md(4));
    net.keep_answers = true;
    net.get(0, 4, "10.0.0.2@tcp");
    net.run();
    let header = net.nodes[0].kept[0].header;
    let (ni, now) = (net.nodes[1].nis[0].0, net.now);
    let from = ProcessId {
        nid: nid("10.0.0.1@tcp"),
        pid: ProcessId::USER_FLAG | 40_000,
    };
    let verdict = net.core(1).header(ni, from, &header, now);
    let Verdict::Receive { rx, .. } = verdict else {
        panic!("{verdict:?}")
    };
    net.core(1).arrived(rx, Ok(()), now);
    net.run();
    assert_eq!(net.nodes[1].kept[0].to, from);
}

// [DISC-8]
#[test]
fn a_peer_without_multi_rail_always_sees_the_same_source() {
    let mut net = Net::new();
    net.add(&["10.0.0.1@tcp", "10.0.0.3@tcp"]);
    net.add(&["10.0.0.2@tcp"]);
    for _ in 0..4 {
        net.put(0, b"x", false, "10.0.0.2@tcp");
        net.run();
    }
    let sources: Vec<Nid> = net.trace.iter().map(|(_, header)| header.src_nid).collect();
    assert_eq!(sources, [sources[0]; 4]);

    net.core(0)
        .add_peer(nid("10.0.0.2@tcp"), &[], true)
        .unwrap();
    net.trace.clear();
    for _ in 0..2 {
        net.put(0, b"x", false, "10.0.0.2@tcp");
        net.run();
    }
    let sources: Vec<Nid> = net.trace.iter().map(|(_, header)| header.src_nid).collect();
    assert_ne!(sources[0], sources[1], "round robin for a Multi-Rail peer");
}

#[test]
fn an_ack_that_overtakes_the_lnds_answer_does_not_end_the_descriptor() {
    let mut net = Net::pair();
    net.attach(1, any_me(), one_shot(16));
    net.keep_answers = true;
    let md = net.put(0, b"x", true, "10.0.0.2@tcp");
    net.run();
    let put = net.nodes[0].kept[0].header;
    let dst_wmd = net.core(0).traffic().wire_handles.of(md);
    let (ni, now) = (net.nodes[0].nis[0].0, net.now);
    let from = ProcessId::lustre(nid("10.0.0.2@tcp"));
    let header = Header {
        dest_nid: put.src_nid,
        src_nid: put.dest_nid,
        payload_length: 0,
        body: Body::Ack(Ack {
            dst_wmd,
            match_bits: 7,
            mlength: 1,
        }),
        ..put
    };
    let verdict = net.core(0).header(ni, from, &header, now);
    let Verdict::Receive { rx, .. } = verdict else {
        panic!("{verdict:?}")
    };
    net.core(0).arrived(rx, Ok(()), now);
    net.run();
    net.answer(0, MessageStatus::Ok);
    let events = net.take_events(0);
    let seen: Vec<_> = events
        .iter()
        .map(|event| (event.kind, event.unlinked))
        .collect();
    assert_eq!(seen, [(EventKind::Ack, false), (EventKind::Send, true)]);
}

#[test]
fn an_exhausted_descriptor_leaves_its_retained_entry_at_once() {
    let mut net = Net::pair();
    let now = net.now;
    let entry = MeSpec {
        unlink_with_md: false,
        ..any_me()
    };
    let me = net.core(1).me_attach(entry).unwrap();
    let first = net.core(1).md_attach(me, one_shot(4), now).unwrap();
    net.nodes[1].memory.insert(first, vec![0; 4]);
    net.keep_answers = true;
    net.get(0, 4, "10.0.0.2@tcp");
    net.run();
    net.answer(0, MessageStatus::Ok);
    let second = net.core(1).md_attach(me, one_shot(4), now).unwrap();
    net.nodes[1].memory.insert(second, vec![0; 4]);
    net.answer(1, MessageStatus::Ok);
    let events = net.take_events(1);
    assert_eq!((events[0].md, events[0].unlinked), (first, true));
}

/// Returns the NIDs that four messages to this peer come from.
fn sources(ours: &[&str], theirs: &[&str], to: &str, multi_rail: bool) -> Vec<String> {
    let mut net = Net::new();
    net.add(ours);
    net.add(theirs);
    let nids: Vec<_> = theirs.iter().map(|text| nid(text)).collect();
    if multi_rail {
        net.core(0).add_peer(nids[0], &nids, true).unwrap();
    }
    net.attach(1, any_me(), open_md(16));
    for _ in 0..4 {
        net.put(0, b"data", false, to);
        net.run();
    }
    let events = net.take_events(1);
    let arrived = events.iter().filter(|event| event.kind == EventKind::Put);
    arrived.map(|event| event.source.nid.to_string()).collect()
}

const BOTH: [&str; 2] = ["fd00::1@tcp", "10.0.0.1@tcp"];

#[test]
fn a_peer_with_an_ipv4_address_hears_from_an_ipv4_address() {
    let to = "10.0.0.2@tcp";
    for multi_rail in [false, true] {
        assert_eq!(sources(&BOTH, &[to], to, multi_rail), ["10.0.0.1@tcp"; 4]);
    }
}

#[test]
fn a_peer_with_an_ipv6_address_hears_from_an_ipv6_address() {
    let to = "fd00::2@tcp";
    let ours = ["10.0.0.1@tcp", "fd00::1@tcp"];
    for multi_rail in [false, true] {
        assert_eq!(sources(&ours, &[to], to, multi_rail), ["fd00::1@tcp"; 4]);
    }
}

#[test]
fn a_node_with_ipv4_reaches_a_peer_with_both_by_its_ipv4_address() {
    let ours = ["10.0.0.1@tcp"];
    let theirs = ["fd00::2@tcp", "10.0.0.2@tcp"];
    assert_eq!(
        sources(&ours, &theirs, theirs[0], true),
        ["10.0.0.1@tcp"; 4]
    );
}

#[test]
fn two_nodes_with_both_use_both() {
    let theirs = ["fd00::2@tcp", "10.0.0.2@tcp"];
    let mut seen = sources(&BOTH, &theirs, theirs[0], true);
    seen.sort();
    assert_eq!(
        seen,
        ["10.0.0.1@tcp", "10.0.0.1@tcp", "fd00::1@tcp", "fd00::1@tcp"]
    );
}

// [PATH-13]
#[test]
fn a_source_of_another_address_size_than_the_targets_is_refused() {
    for [from, to] in [
        ["10.0.0.1@tcp", "fd00::2@tcp"],
        ["fd00::1@tcp", "10.0.0.2@tcp"],
    ] {
        let mut net = Net::new();
        net.add(&BOTH);
        net.add(&["10.0.0.2@tcp", "fd00::2@tcp"]);
        let now = net.now;
        let put = PutRequest {
            md: net.bind(0, b"x", 1),
            ack: false,
            source: Some(nid(from)),
            target: ProcessId::lustre(nid(to)),
            portal: 4,
            match_bits: 0,
            offset: 0,
            hdr_data: 0,
        };
        net.core(0).put(put, now).unwrap();
        net.run();
        assert!(net.trace.is_empty(), "{:?}", net.trace);
        let events = net.take_events(0);
        let ended: Vec<_> = events.iter().map(|event| event.status).collect();
        assert_eq!(ended, [Err(Errno::EINVAL)]);
    }
}

// [TYPE-2]
#[test]
fn nothing_is_sent_to_the_wildcard_and_no_peer_is_made_of_it() {
    let mut net = Net::new();
    net.add(&["10.0.0.1@tcp"]);
    let now = net.now;
    let md = net.bind(0, b"x", 1);
    let put = PutRequest {
        md,
        ack: false,
        source: None,
        target: ProcessId::ANY,
        portal: 4,
        match_bits: 0,
        offset: 0,
        hdr_data: 0,
    };
    let refused = net.core(0).put(put, now);
    assert_eq!(refused, Err(PortalError::WildcardTarget));
    assert_eq!(net.core(0).peers().count(), 0);
}

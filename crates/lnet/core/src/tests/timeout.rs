//! Tests of responses that do not arrive.

use std::time::Duration;

use super::Net;
use super::net::{any_me, nid, open_md};
use crate::*;

const SECOND: Duration = Duration::from_secs(1);

// [DATA-11]
#[test]
fn a_missing_ack_ends_in_timeout_then_unlink() {
    let mut net = Net::pair();
    net.put(0, b"x", true, "10.0.0.2@tcp");
    net.advance(SECOND * 149);
    assert_eq!(net.kinds(0), [EventKind::Send]);
    net.advance(SECOND);

    let events = net.take_events(0);
    let kinds: Vec<_> = events
        .iter()
        .map(|event| (event.kind, event.unlinked))
        .collect();
    assert_eq!(
        kinds,
        [(EventKind::Timeout, false), (EventKind::Unlink, true)]
    );
    assert_eq!(events[0].status, Err(Errno::ETIMEDOUT));
    assert_eq!((events[0].portal, events[0].match_bits), (30, 7));
    assert_eq!(events[0].sender, super::nid("10.0.0.2@tcp"), "the next hop");
    assert_eq!(net.core(0).counters().response_timeout_count, 1);
    net.assert_at_rest();
}

#[test]
fn a_timeout_while_the_request_is_still_with_the_lnd_ends_with_its_send_event() {
    let mut net = Net::pair();
    net.keep_answers = true;
    net.get(0, 4, "10.0.0.2@tcp");
    net.advance(SECOND * 150);
    assert_eq!(net.kinds(0), [EventKind::Timeout]);
    net.answer(0, MessageStatus::NetworkTimeout);
    let events = net.take_events(0);
    assert_eq!(
        (events[0].kind, events[0].unlinked),
        (EventKind::Send, true)
    );
    net.assert_at_rest();
}

#[test]
fn a_response_in_time_leaves_no_deadline() {
    let mut net = Net::pair();
    net.attach(1, any_me(), open_md(8));
    net.get(0, 4, "10.0.0.2@tcp");
    net.put(0, b"x", true, "10.0.0.2@tcp");
    net.run();
    assert_eq!(net.core(0).next_deadline(), None);
    net.advance(SECOND * 500);
    assert_eq!(net.core(0).counters().response_timeout_count, 0);
}

// [TYPE-7] [DATA-8]
#[test]
fn a_late_response_finds_nothing() {
    let mut net = Net::pair();
    net.attach(1, any_me(), open_md(8));
    net.keep_answers = true;
    net.put(0, b"x", true, "10.0.0.2@tcp");
    net.run();
    net.answer(0, MessageStatus::Ok);
    net.advance(SECOND * 150);
    assert_eq!(
        net.kinds(0),
        [EventKind::Send, EventKind::Timeout, EventKind::Unlink]
    );
    net.answer(1, MessageStatus::Ok);
    assert_eq!(net.core(0).counters().dropped(DropReason::UnknownHandle), 1);
    assert_eq!(net.kinds(0), []);
}

#[test]
fn tracking_follows_the_descriptor_then_the_node() {
    let cases = [
        (0, MdOptions::empty(), false),
        (3, MdOptions::empty(), true),
        (1, MdOptions::empty(), false),
        (2, MdOptions::empty(), true),
        (0, MdOptions::TRACK_RESPONSE, true),
        (3, MdOptions::NO_TRACK_RESPONSE, false),
        (
            3,
            MdOptions::TRACK_RESPONSE.union(MdOptions::NO_TRACK_RESPONSE),
            false,
        ),
    ];
    for (response_tracking, options, tracked) in cases {
        let mut net = Net::pair();
        let now = net.now;
        net.core(0).set_globals(
            Globals {
                response_tracking,
                ..Globals::default()
            },
            now,
        );
        let spec = MdSpec {
            options,
            threshold: Some(2),
            ..open_md(1)
        };
        let md = net.core(0).md_bind(MdSpec { options, ..spec }).unwrap();
        net.nodes[0].memory.insert(md, vec![0]);
        let put = PutRequest {
            md,
            ack: true,
            source: None,
            target: lnet_types::ProcessId::lustre(super::nid("10.0.0.2@tcp")),
            portal: 30,
            match_bits: 7,
            offset: 0,
            hdr_data: 0,
        };
        net.core(0).put(put, now).unwrap();
        net.run();
        assert_eq!(
            net.core(0).next_deadline().is_some(),
            tracked,
            "{response_tracking} {options:?}"
        );
    }
}

#[test]
fn a_message_that_waits_too_long_for_a_credit_is_given_up() {
    let mut net = Net::pair();
    net.keep_answers = true;
    for _ in 0..9 {
        net.put(0, b"x", false, "10.0.0.2@tcp");
    }
    net.advance(SECOND * 150);
    let events = net.take_events(0);
    assert_eq!(events.len(), 1, "only the ninth waits in the core");
    assert_eq!(
        (events[0].kind, events[0].status),
        (EventKind::Send, Err(Errno::ETIMEDOUT))
    );
    while net.answer(0, MessageStatus::NetworkTimeout).is_some() {}
    net.assert_at_rest();
}

/// Every route is down, so nothing was sent to a node that could have answered.
// [PATH-14]
#[test]
fn an_operation_that_found_no_path_costs_its_target_no_health() {
    const SERVER: &str = "10.1.0.2@tcp1";
    let mut net = Net::routed(RouterBuffers {
        tiny: 8,
        small: 8,
        large: 4,
    });
    net.advance(Duration::from_secs(1));
    net.put(0, b"first", true, SERVER);
    net.advance(Duration::from_secs(1));
    net.nodes[1].alive = false;
    net.advance(Duration::from_secs(100));
    net.nodes[0].events.clear();
    net.put(0, b"second", true, SERVER);
    net.advance(Duration::from_secs(200));
    let statuses: Vec<_> = net.nodes[0]
        .events
        .iter()
        .map(|event| (event.kind, event.status))
        .collect();
    assert!(
        statuses.contains(&(EventKind::Send, Err(Errno::EHOSTUNREACH))),
        "{statuses:?}"
    );
    let server = net.core(0).peer_with(nid(SERVER)).unwrap();
    assert!(server.nis.iter().all(|ni| ni.health.health.is_full()));
}

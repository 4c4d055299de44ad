//! Tests of routers that do not respond, and of peers that stop in the middle of a message.

use std::time::Duration;

use lnet_policy::Profile;
use lnet_types::{Nid, ProcessId};
use lnet_wire::{Body, Handle, Header, Put};

use super::net::{any_me, config, globals, one_shot, open_md};
use super::{Net, nid};
use crate::*;

const FIRST: &str = "10.0.0.8@tcp";
const SECOND: &str = "10.0.0.9@tcp";
const FAR: &str = "10.1.0.2@tcp1";

/// A time longer than the wait for any response.
const TIMEOUT: Duration = Duration::from_secs(151);

/// Creates a client with two gateways to tcp1, of which the first is preferred. The checker is off, and no node
/// answers.
fn client(profile: Profile) -> Net {
    let mut net = Net::new();
    let config = CoreConfig {
        globals: Globals {
            profile,
            alive_router_check_interval: Duration::ZERO,
            ..globals()
        },
        ..config(1)
    };
    net.add_configured(config, &["10.0.0.1@tcp"]);
    for (priority, gateway) in [(0, FIRST), (1, SECOND)] {
        let route = Route {
            net: "tcp1".parse().unwrap(),
            gateway: nid(gateway),
            hops: None,
            priority,
        };
        let now = net.now;
        net.core(0).add_route(route, now).unwrap();
    }
    net.keep_answers = true;
    net
}

/// Sends all messages that wait, and returns their next hops.
fn sent(net: &mut Net) -> Vec<Nid> {
    net.run();
    let mut hops = Vec::new();
    while let Some(kept) = net.nodes[0].kept.pop_front() {
        hops.push(kept.to.nid);
        let now = net.now;
        net.core(0).sent(kept.tx, MessageStatus::Ok, now);
        net.run();
    }
    hops
}

/// Sends a GET, and returns the gateway that it takes.
fn ask(net: &mut Net, avoid: Option<&str>) -> Nid {
    let md = net.bind(0, &[0; 4], 2);
    let get = GetRequest {
        md,
        source: None,
        target: ProcessId::lustre(nid(FAR)),
        portal: 30,
        match_bits: 7,
        offset: 0,
    };
    let hints = SendHints {
        avoid: avoid.map(nid),
        ..SendHints::default()
    };
    let now = net.now;
    net.core(0).hinted_get(get, hints, now).unwrap();
    sent(net)[0]
}

/// An observer that records every exclusion at the level of routes.
#[derive(Default)]
struct Excluded(Vec<(Subject, Exclusion)>);

impl Observer for Excluded {
    fn classified(&mut self, _: &Classification) {}
    fn candidate(&mut self, _: Level, _: Subject, _: &[(Criterion, i64)]) {}
    fn excluded(&mut self, level: Level, subject: Subject, why: Exclusion) {
        if level == Level::Route {
            self.0.push((subject, why));
        }
    }
    fn eliminated(&mut self, _: Level, _: Subject, _: Subject, _: Criterion) {}
    fn chosen(&mut self, _: Level, _: Subject, _: Option<(Subject, Criterion)>) {}
}

fn excluded(net: &mut Net, avoid: Option<&str>) -> Vec<Exclusion> {
    let query = SendQuery {
        avoid: avoid.map(nid),
        ..SendQuery::to(nid(FAR))
    };
    let mut excluded = Excluded::default();
    net.core(0).explain(&query, &mut excluded).unwrap();
    excluded.0.into_iter().map(|(_, why)| why).collect()
}

/// Delivers a complete message through a gateway; its content does not matter.
fn comes_through(net: &mut Net, gateway: &str) {
    net.attach(0, any_me(), one_shot(0));
    let (ni, dest_nid) = net.nodes[0].nis[0];
    let header = Header {
        dest_nid,
        src_nid: nid(FAR),
        dest_pid: 12345,
        src_pid: 12345,
        payload_length: 0,
        body: put(),
    };
    let now = net.now;
    let from = ProcessId::lustre(nid(gateway));
    let Verdict::Receive { rx, .. } = net.core(0).header(ni, from, &header, now) else {
        panic!("it is wanted")
    };
    net.core(0).arrived(rx, Ok(()), now);
}

fn put() -> Body {
    Body::Put(Put {
        ack_wmd: Handle::NONE,
        match_bits: 7,
        hdr_data: 0,
        ptl_index: 30,
        offset: 0,
    })
}

// [GATE-8]
#[test]
fn a_gateway_that_three_messages_in_a_row_do_not_come_back_through_is_left_while_there_is_another()
{
    let mut net = client(Profile::Design);
    for _ in 0..3 {
        assert_eq!(ask(&mut net, None), nid(FIRST), "it is preferred");
        net.advance(TIMEOUT);
    }
    assert_eq!(excluded(&mut net, None), [Exclusion::Silent]);
    for _ in 0..3 {
        assert_eq!(ask(&mut net, None), nid(SECOND));
        net.advance(TIMEOUT);
    }
    assert_eq!(excluded(&mut net, None), []);
    assert_eq!(ask(&mut net, None), nid(FIRST), "no other one is better");
}

// [GATE-8]
#[test]
fn kernels_stay_with_a_gateway_that_nothing_comes_back_through() {
    let mut net = client(Profile::Lustre);
    for _ in 0..4 {
        assert_eq!(ask(&mut net, Some(FIRST)), nid(FIRST));
        net.advance(TIMEOUT);
    }
    assert_eq!(excluded(&mut net, Some(FIRST)), []);
}

#[test]
fn a_gateway_that_a_message_comes_through_is_used_again() {
    let mut net = client(Profile::Design);
    for _ in 0..3 {
        ask(&mut net, None);
        net.advance(TIMEOUT);
    }
    comes_through(&mut net, FIRST);
    assert_eq!(ask(&mut net, None), nid(FIRST));
}

#[test]
fn the_gateway_that_the_caller_names_is_left_while_there_is_another() {
    let mut net = client(Profile::Design);
    assert_eq!(ask(&mut net, None), nid(FIRST));
    let event = net.take_events(0).pop().unwrap();
    assert_eq!((event.kind, event.sender), (EventKind::Send, nid(FIRST)));
    assert_eq!(excluded(&mut net, Some(FIRST)), [Exclusion::Avoided]);
    assert_eq!(ask(&mut net, Some(FIRST)), nid(SECOND));
    assert_eq!(
        ask(&mut net, None),
        nid(FIRST),
        "one hint is for one message"
    );
    net.core(0)
        .remove_route("tcp1".parse().unwrap(), nid(SECOND))
        .unwrap();
    assert_eq!(
        ask(&mut net, Some(FIRST)),
        nid(FIRST),
        "there is no other one"
    );
}

#[test]
fn three_hints_in_a_row_speak_against_a_gateway_for_every_message() {
    let mut net = client(Profile::Design);
    for _ in 0..3 {
        ask(&mut net, Some(FIRST));
    }
    assert_eq!(ask(&mut net, None), nid(SECOND));
}

/// Begins to receive a PUT of four bytes into this descriptor; the rest of it never arrives.
fn half_arrived(net: &mut Net, md: MdSpec) -> (MdHandle, RxId) {
    let md = net.attach(0, any_me(), md);
    let (ni, dest_nid) = net.nodes[0].nis[0];
    let from = ProcessId::lustre(nid("10.0.0.2@tcp"));
    let header = Header {
        dest_nid,
        src_nid: from.nid,
        dest_pid: 12345,
        src_pid: 12345,
        payload_length: 4,
        body: put(),
    };
    let now = net.now;
    let Verdict::Receive { rx, .. } = net.core(0).header(ni, from, &header, now) else {
        panic!("it is wanted")
    };
    (md, rx)
}

#[test]
fn memory_that_is_cancelled_is_given_back_when_the_lnd_has_let_go_of_it() {
    let mut net = Net::pair();
    let (md, rx) = half_arrived(&mut net, open_md(16));
    let now = net.now;
    net.core(0).md_cancel(md, now).unwrap();
    net.run();
    assert_eq!(net.nodes[0].cancelled, [rx]);
    assert_eq!(net.take_events(0), [], "the LND may still write");
    net.core(0).arrived(rx, Err(MessageStatus::LocalError), now);
    net.run();
    let event = net.take_events(0).pop().unwrap();
    assert_eq!(
        (event.status, event.unlinked),
        (Err(Errno::ECANCELED), true)
    );
    assert_eq!(net.core(0).counters().dropped(DropReason::Cancelled), 1);
    assert_eq!(net.core(0).counters().errors, 0);
    assert_eq!(
        net.core(0).md_cancel(md, now),
        Err(PortalError::UnknownHandle)
    );
    net.assert_at_rest();
}

#[test]
fn what_has_expired_can_still_be_cancelled() {
    let mut net = Net::pair();
    let (md, rx) = half_arrived(&mut net, one_shot(16));
    let now = net.now;
    net.core(0).md_unlink(md, now).unwrap();
    net.run();
    assert_eq!(net.nodes[0].cancelled, []);
    net.core(0).md_cancel(md, now).unwrap();
    net.run();
    assert_eq!(net.nodes[0].cancelled, [rx]);
}

#[test]
fn a_payload_that_is_whole_before_the_lnd_hears_of_the_cancelling_counts_as_received() {
    let mut net = Net::pair();
    let (md, rx) = half_arrived(&mut net, one_shot(16));
    let now = net.now;
    net.core(0).md_cancel(md, now).unwrap();
    net.core(0).arrived(rx, Ok(()), now);
    net.run();
    assert_eq!(net.core(0).counters().recv_count, 1);
    assert_eq!(net.core(0).counters().drop_count, 0);
    net.assert_at_rest();
}

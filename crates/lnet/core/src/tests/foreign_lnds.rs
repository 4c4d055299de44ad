//! Tests of NIDs of LNDs that this node has no driver for: in ping information, in routes and in rules.

use std::time::Duration;

use lnet_types::{LndType, Net as Network, Nid};

use super::catalogue::rule;
use super::discovery::{B, info, multi_rail, nids_of, push, rails};
use super::net::{Net, any_me, nid, open_md};
use crate::*;

/// Returns a NID of each LND type except `lo`, including a type without a name.
fn of_every_lnd() -> Vec<Nid> {
    let types = (1..=20).map(LndType).filter(|&lnd| lnd != LndType::LO);
    types
        .map(|lnd| Nid::from_number(Network::new(lnd, 3), 0x0A02_0007))
        .collect()
}

// [TYPE-3]
#[test]
fn a_peer_is_reached_by_each_nid_that_it_tells_whatever_the_lnd() {
    for foreign in of_every_lnd() {
        let mut net = rails();
        net.put(0, b"hello", true, B[0]);
        net.advance(Duration::from_secs(1));
        net.take_events(0);
        net.take_events(1);
        let told = [nid(B[0]), nid(B[1]), foreign];
        push(&mut net, 0, B[0], &info(multi_rail(), 9, &told));
        assert_eq!(nids_of(&mut net, 0, &foreign.to_string()), told);
        net.put(0, b"hello", true, &foreign.to_string());
        net.run();
        assert_eq!(net.kinds(0), [EventKind::Send, EventKind::Ack], "{foreign}");
        assert_eq!(net.kinds(1), [EventKind::Put], "{foreign}");
    }
}

#[test]
fn a_message_for_a_network_of_any_lnd_goes_to_the_gateway_with_its_nid() {
    for foreign in of_every_lnd() {
        let mut net = Net::pair();
        net.attach(1, any_me(), open_md(4096));
        net.route(0, &foreign.net().to_string(), "10.0.0.2@tcp");
        net.put(0, b"hello", false, &foreign.to_string());
        net.run();
        let sent: Vec<Nid> = net
            .trace
            .iter()
            .map(|(_, header)| header.dest_nid)
            .collect();
        assert_eq!(sent, [foreign]);
        assert_eq!(net.kinds(1), [], "a node that does not forward drops it");
    }
}

#[test]
fn a_rule_for_a_network_of_any_lnd_gives_its_peers_the_priority() {
    let named = |nid: &Nid| nid.net().lnd.name().is_some();
    for foreign in of_every_lnd().into_iter().filter(named) {
        let mut net = Net::pair();
        let text = foreign.to_string();
        let core = net.core(0);
        core.add_peer(nid("10.0.0.2@tcp"), &[foreign], true)
            .unwrap();
        core.add_rule(rule("", &text, "", Some(4)), None).unwrap();
        let peer = core.peer_with(foreign).unwrap();
        let ranked = peer.nis.iter().find(|ni| ni.nid == foreign).unwrap();
        let priority = ranked.health.priority;
        assert_eq!(priority.set_by, Some(0), "{text}");
    }
}

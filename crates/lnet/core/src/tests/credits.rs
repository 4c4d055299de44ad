//! Tests of the credits of interfaces and peers: which messages wait, and which continue.

use std::time::Duration;

use super::Net;
use super::net::config;
use crate::*;

#[test]
fn a_peer_gets_peer_credits_messages_and_the_rest_waits_in_order() {
    let mut net = Net::pair();
    net.keep_answers = true;
    for size in 1..=20_u8 {
        net.put(0, &vec![0; usize::from(size)], false, "10.0.0.2@tcp");
    }
    net.run();
    assert_eq!(net.nodes[0].kept.len(), 8);
    let peer = net.core(0).peers().next().unwrap().nis[0];
    assert_eq!((peer.tx_credits, peer.min_tx_credits), (-12, -12));

    let sizes: Vec<u32> = std::iter::from_fn(|| net.answer(0, MessageStatus::RemoteDropped))
        .map(|header| header.payload_length)
        .collect();
    assert_eq!(sizes, (1..=20).collect::<Vec<_>>());
    net.assert_at_rest();
}

/// Creates a node whose interface has three credits, two for each peer, and starts three messages to each of two
/// peers.
fn narrow() -> (Net, Vec<MdHandle>) {
    let mut net = Net::new();
    net.add_configured(config(1), &[]);
    let tunables = Tunables {
        credits: 3,
        peer_credits: 2,
        ..Tunables::default()
    };
    let nid = super::nid("10.0.0.1@tcp");
    let now = net.now;
    let ni = net.core(0).add_ni(NiConfig { nid, tunables }, now).unwrap();
    net.nodes[0].nis = vec![(ni, nid)];
    net.keep_answers = true;
    let mut mds = Vec::new();
    for to in ["10.0.0.2@tcp", "10.0.0.3@tcp"] {
        mds.extend((0..3).map(|_| net.put(0, b"x", false, to)));
    }
    net.run();
    (net, mds)
}

#[test]
fn an_interface_gets_credits_messages_over_all_peers() {
    let (mut net, _) = narrow();
    assert_eq!(net.nodes[0].kept.len(), 3);
    assert_eq!(net.core(0).nis().nth(1).unwrap().tx_credits, -1);
    let mut answered = 0;
    while net.answer(0, MessageStatus::RemoteDropped).is_some() {
        answered += 1;
    }
    assert_eq!(answered, 6);
    net.assert_at_rest();
}

#[test]
fn what_is_cancelled_while_it_waits_for_the_interface_gives_its_peer_credit_back() {
    let (mut net, mds) = narrow();
    let now = net.now;
    net.core(0).md_unlink(mds[4], now).unwrap();
    net.run();
    while net.answer(0, MessageStatus::RemoteDropped).is_some() {}
    assert_eq!(net.take_events(0).len(), 6);
    net.assert_at_rest();
}

/// Two interfaces, each of which takes one message and one to each peer.
fn two_narrow_rails() -> Net {
    let mut net = Net::new();
    net.add_configured(config(1), &[]);
    let tunables = Tunables {
        credits: 1,
        peer_credits: 1,
        ..Tunables::default()
    };
    for text in ["10.0.0.1@tcp", "10.1.0.1@tcp1"] {
        let (nid, now) = (super::nid(text), net.now);
        let ni = net.core(0).add_ni(NiConfig { nid, tunables }, now).unwrap();
        net.nodes[0].nis.push((ni, nid));
    }
    let peer = ["10.0.0.2@tcp", "10.1.0.2@tcp1"].map(super::nid);
    net.core(0).add_peer(peer[0], &peer, true).unwrap();
    net.keep_answers = true;
    net
}

#[test]
fn what_waits_for_an_interface_that_goes_down_goes_by_another_one() {
    let mut net = two_narrow_rails();
    for size in 1..=6 {
        net.put(0, &vec![0; size], false, "10.0.0.2@tcp");
    }
    net.run();
    let (down, now) = (net.nodes[0].nis[0].0, net.now);
    assert_eq!(net.core(0).paths_lost(), 0);
    net.core(0).set_ni_fatal(down, true, now);
    assert_eq!(net.core(0).paths_lost(), 1);
    net.run();
    // The LND gives back the one that it has, as it does with those of an interface that is down.
    let of_down = |kept: &Transmit| kept.ni == down;
    let at = net.nodes[0].kept.iter().position(of_down).unwrap();
    let handed = net.nodes[0].kept.remove(at).unwrap().tx;
    net.core(0).sent(handed, MessageStatus::LocalDropped, now);
    net.advance(Duration::from_millis(1));
    let mut sent = 0;
    while let Some(kept) = net.nodes[0].kept.front() {
        assert_ne!(kept.ni, down, "nothing more goes by it");
        sent += 1;
        net.answer(0, MessageStatus::Ok);
        net.run();
    }
    let ends: Vec<_> = net
        .take_events(0)
        .into_iter()
        .map(|event| event.status)
        .collect();
    assert_eq!((sent, &ends[..]), (6, &[Ok(()); 6][..]));
    let health = net.core(0).nis().find(|ni| ni.id == down).unwrap().health;
    assert!(
        health.health.is_full(),
        "the link is to blame and nothing else"
    );
    net.assert_at_rest();
}

#[test]
fn what_waits_for_the_only_interface_waits_on_when_it_goes_down() {
    let (mut net, _) = narrow();
    let (down, now) = (net.nodes[0].nis[0].0, net.now);
    net.core(0).set_ni_fatal(down, true, now);
    net.run();
    assert!(net.take_events(0).is_empty());
    while net.answer(0, MessageStatus::Ok).is_some() {}
    assert_eq!(net.take_events(0).len(), 6);
    net.assert_at_rest();
}

#[test]
fn an_answer_given_twice_is_counted_and_changes_nothing() {
    let mut net = Net::pair();
    net.keep_answers = true;
    net.put(0, b"x", false, "10.0.0.2@tcp");
    net.run();
    let tx = net.nodes[0].kept[0].tx;
    let now = net.now;
    net.core(0).sent(tx, MessageStatus::Ok, now);
    net.core(0).sent(tx, MessageStatus::Ok, now);
    net.core(0).sent(TxId(u64::MAX), MessageStatus::Ok, now);
    net.core(0).arrived(RxId(3), Ok(()), now);
    net.run();
    assert_eq!(net.core(0).counters().stale_answers, 3);
    assert_eq!(net.kinds(0), [EventKind::Send]);
    net.assert_at_rest();
}

//! Two nodes that discover each other while everything changes that can change.

use std::time::Duration;

use lnet_types::Nid;
use lnet_wire::Body;

use super::discovery::{A, B, info, multi_rail, push, rails};
use super::net::{any_me, nid, open_md};
use crate::*;

fn play(seed: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % n
    };
    let mut net = rails();
    net.attach(0, any_me(), open_md(4096));
    let names = [A, B];
    let extra = ["10.2.0.1@tcp2", "10.2.0.2@tcp2"];
    for _ in 0..150 {
        let node = next(2) as usize;
        let other = 1 - node;
        let (now, which) = (net.now, next(2) as usize);
        match next(12) {
            0 | 1 | 2 => {
                net.put(node, b"hello", next(2) == 0, names[other][which]);
            }
            3 => {
                let _ = net.core(node).discover(nid(names[other][which]), now);
            }
            4 => {
                let id = net.nodes[node].nis[which % net.nodes[node].nis.len()].0;
                let on = next(3) == 0;
                net.core(node).set_ni_fatal(id, on, now);
            }
            5 => {
                let globals = Globals {
                    discovery: next(3) > 0,
                    ..*net.core(node).globals()
                };
                net.core(node).set_globals(globals, now);
            }
            6 => {
                let peers: Vec<Nid> = net.core(node).peers().map(|p| p.primary).collect();
                if let Some(&name) = peers.get(next(2) as usize) {
                    let _ = net.core(node).remove_peer(name);
                }
            }
            7 if next(3) == 0 => {
                let mut nids = names[other].map(nid);
                nids.rotate_left(which);
                let _ = net.core(node).add_peer(nids[0], &nids, true);
            }
            7 | 8 => {
                // An interface goes and comes: as the first of its net, or a third one.
                let at = next(net.nodes[node].nis.len() as u64) as usize;
                if net.nodes[node].nis.len() > 1 {
                    net.run();
                    while net.answer(node, MessageStatus::NetworkTimeout).is_some() {}
                    let (id, gone) = net.nodes[node].nis.remove(at);
                    net.core(node).remove_ni(id, now).unwrap();
                    let back = if next(2) == 0 { gone } else { nid(extra[node]) };
                    if net.nodes[node].nis.iter().all(|(_, own)| *own != back) {
                        let config = NiConfig {
                            nid: back,
                            tunables: Tunables::default(),
                        };
                        let id = net.core(node).add_ni(config, now).unwrap();
                        net.nodes[node].nis.push((id, back));
                    }
                }
            }
            9 => {
                let mut nids = names[other].map(nid).to_vec();
                nids.push(nid(extra[other]));
                nids.rotate_left(next(3) as usize);
                nids.truncate(1 + next(3) as usize);
                let from = names[other][which];
                if net.core(node).globals().discovery && net.core(node).push_target.posted() > 0 {
                    let (ni, own) = net.nodes[node].nis[0];
                    if own.net() == nid(from).net() && net.core(node).nis().any(|x| x.id == ni) {
                        push(&mut net, node, from, &info(multi_rail(), 9, &nids));
                    }
                }
            }
            10 => {
                net.keep_answers = next(2) == 0;
            }
            _ => net.advance(Duration::from_millis(next(3000))),
        }
        if next(2) == 0 {
            net.run();
        }
        if !net.keep_answers || next(4) == 0 {
            let node = next(2) as usize;
            let status = [
                MessageStatus::Ok,
                MessageStatus::RemoteError,
                MessageStatus::NetworkTimeout,
            ][next(3) as usize];
            while net.answer(node, status).is_some() {}
        }
    }
    net.keep_answers = false;
    loop {
        let a = net.answer(0, MessageStatus::NetworkTimeout).is_some();
        let b = net.answer(1, MessageStatus::NetworkTimeout).is_some();
        if !a && !b {
            break;
        }
    }
    net.advance(Duration::from_secs(3000));
    net.trace.clear();
    net.advance(Duration::from_secs(3000));
    let pushes = net
        .trace
        .iter()
        .filter(|(_, h)| matches!(h.body, Body::Put(_)))
        .count();
    assert_eq!(pushes, 0, "seed {seed}: pushes for ever");
    for node in 0..2 {
        assert_eq!(
            net.core(node).counters().invariants_broken,
            0,
            "seed {seed}"
        );
        let stuck = PeerState::DISCOVERING
            | PeerState::PING_SENT
            | PeerState::PUSH_SENT
            | PeerState::DATA_PRESENT;
        let nids: Vec<Nid> = net
            .core(node)
            .peers()
            .flat_map(|p| p.nis)
            .map(|ni| ni.nid)
            .collect();
        let mut unique = nids.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), nids.len(), "seed {seed}: {nids:?}");
        for ni in net.core(node).peers.iter() {
            let Some(known) = &ni.discovery else { continue };
            assert!(
                !known.state().intersects(stuck),
                "seed {seed} node {node} {}: {:?}",
                ni.nid,
                known.state()
            );
            assert!(known.is_idle(), "seed {seed} {}", ni.nid);
            assert_eq!(
                ni.primary, ni.nid,
                "seed {seed}: discovery at the name only"
            );
        }
    }
}

#[test]
fn whatever_happens_discovery_ends_and_no_nid_is_in_two_peers() {
    (1..200).for_each(play);
}

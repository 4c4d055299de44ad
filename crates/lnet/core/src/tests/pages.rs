//! Tests of the pages of peers.

use super::{Net, nid};
use crate::*;

fn core() -> Core {
    let mut net = Net::pair();
    net.nodes.remove(0).core
}

fn walked(core: &Core, count: usize) -> Vec<lnet_types::Nid> {
    let mut nids = Vec::new();
    let mut at = Some(PeerCursor::START);
    while let Some(from) = at {
        let (page, next) = core.peer_page(from, count);
        assert!(page.len() <= count);
        nids.extend(page.into_iter().map(|peer| peer.primary));
        at = next;
    }
    nids
}

#[test]
fn pages_of_any_size_hold_every_peer_once_and_in_order() {
    let mut net = Net::pair();
    for last in 1..40 {
        let primary = nid(&format!("10.9.0.{last}@tcp"));
        let second = nid(&format!("10.8.0.{last}@tcp"));
        let core = net.core(0);
        core.add_peer(primary, &[primary, second], true).unwrap();
    }
    for last in 101..130 {
        net.put(0, b"found by traffic", false, &format!("10.0.0.{last}@tcp"));
    }
    let core = net.core(0);
    let all: Vec<_> = core.peers().map(|peer| peer.primary).collect();
    assert_eq!(all.len(), 39 + 29);
    for count in [1, 2, 7, 38, 39, 40, 68, 1000] {
        assert_eq!(walked(core, count), all, "pages of {count}");
    }
}

#[test]
fn a_walk_goes_on_when_the_peer_it_stands_at_disappears() {
    let mut core = core();
    for last in 1..=4 {
        let primary = nid(&format!("10.9.0.{last}@tcp"));
        core.add_peer(primary, &[primary], true).unwrap();
    }
    let (first, next) = core.peer_page(PeerCursor::START, 2);
    core.remove_peer(first[1].primary).unwrap();
    let (second, _) = core.peer_page(next.unwrap(), 2);
    let nids: Vec<_> = second.iter().map(|peer| peer.primary).collect();
    assert_eq!(nids, [nid("10.9.0.3@tcp"), nid("10.9.0.4@tcp")]);
}

#[test]
fn a_peer_is_found_by_each_of_its_nids_and_a_found_one_by_its_own() {
    let mut net = Net::pair();
    let (primary, second) = (nid("10.9.0.1@tcp"), nid("10.8.0.1@tcp"));
    net.core(0)
        .add_peer(primary, &[primary, second], true)
        .unwrap();
    net.put(0, b"found by traffic", false, "10.0.0.101@tcp");
    let core = net.core(0);
    assert_eq!(core.peer_with(primary), core.peer_with(second));
    assert_eq!(core.peer_with(second).unwrap().primary, primary);
    let found = core.peer_with(nid("10.0.0.101@tcp")).unwrap();
    assert_eq!(found.nis.len(), 1);
    assert_eq!(core.peer_with(nid("10.0.0.102@tcp")), None);
}

//! Tests of which peers are kept and which are removed.

use lnet_types::Net;

use crate::fabric::peer::*;

fn nid(number: u32) -> Nid {
    Nid::from_number(Net::tcp(0), number)
}

fn at(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

#[test]
fn a_full_table_forgets_an_idle_peer_of_traffic() {
    let mut peers = Peers::new(7, 4);
    for number in 0..4 {
        peers.create(nid(number), at(u64::from(number))).unwrap();
    }
    peers.create(nid(9), at(10)).unwrap();

    assert!(peers.by_nid(nid(0)).is_none(), "the one idle for longest");
    assert!(peers.by_nid(nid(9)).is_some());
    assert_eq!(peers.iter().count(), 4);
}

#[test]
fn a_full_table_keeps_what_is_configured_or_busy() {
    let mut peers = Peers::new(7, 2);
    peers.create(nid(1), at(0)).unwrap();
    peers.configure(nid(1), &[], true);
    let busy = peers.create(nid(2), at(0)).unwrap();
    peers.get_mut(busy).unwrap().credits.set_held(1);

    assert_eq!(peers.create(nid(3), at(5)), None);
    assert!(peers.by_nid(nid(1)).is_some());
    assert!(peers.by_nid(nid(2)).is_some());
}

#[test]
fn a_gateway_is_kept_until_its_last_route_goes() {
    let mut peers = Peers::new(7, 1);
    peers.create(nid(1), at(0)).unwrap();
    peers.add_gateway(nid(1));
    peers.add_gateway(nid(1));
    peers.remove_gateway(nid(1));
    assert_eq!(peers.create(nid(2), at(1)), None);
    peers.remove_gateway(nid(1));
    assert!(peers.create(nid(2), at(1)).is_some());
}

#[test]
fn every_nid_of_a_configured_peer_has_its_primary() {
    let mut peers = Peers::new(7, 8);
    for number in 1..=2 {
        peers.create(nid(number), at(0)).unwrap();
    }
    peers.configure(nid(1), &[nid(2)], true);
    assert_eq!(peers.primary_of(nid(2)), nid(1));
    assert_eq!(peers.owner_conflict(nid(3), &[nid(2)]), Some(nid(2)));
    assert_eq!(peers.owner_conflict(nid(1), &[nid(2)]), None);
}

#[test]
fn a_hundred_thousand_peers_stay_under_200_mib() {
    // Table slot and two hash or tree entries beside the peer NI itself, and a peer for each.
    let each = size_of::<PeerNi>() + size_of::<Peer>() + 128;
    assert!(each * 100_000 < 200 << 20, "{each} bytes");
    assert!(size_of::<PeerNi>() <= 640, "{}", size_of::<PeerNi>());
}

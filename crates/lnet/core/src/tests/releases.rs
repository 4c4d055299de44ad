//! Tests of the differences between releases of kernels: the rules that the `design`
//! profile takes from the release after 2.17, and the behaviour in the profiles of kernels.

use std::time::Duration;

use lnet_policy::Profile;

use super::net::{any_me, config, open_md};
use super::{Net, nid};
use crate::*;

const HERE: [&str; 2] = ["10.0.0.1@tcp", "10.1.0.1@tcp1"];
const THERE: [&str; 2] = ["10.0.0.2@tcp", "10.1.0.2@tcp1"];

/// Creates two nodes with two rails that know each other as Multi-Rail.
fn two_rails() -> Net {
    let mut net = Net::new();
    for (nids, other) in [(HERE, THERE), (THERE, HERE)] {
        let node = net.add(&nids);
        let other = other.map(nid);
        net.core(node).add_peer(other[0], &other, true).unwrap();
    }
    net.attach(1, any_me(), open_md(4096));
    net
}

#[test]
fn a_reset_of_statistics_clears_the_counts_of_interfaces_too_but_in_the_profile_of_kernels_up_to_2_16()
 {
    for profile in Profile::ALL {
        super::net::in_profile(profile, || {
            let profile = super::net::globals().profile;
            let mut net = two_rails();
            net.put(0, b"x", false, THERE[0]);
            net.run();
            let core = net.core(0);
            core.reset_stats();
            assert_eq!(core.counters().send_count, 0);
            let sent = |stats: &MessageStats| stats.sent.put + stats.sent.ack;
            let by_nis: u64 = core.nis().map(|ni| sent(&ni.stats)).sum();
            let peers = core.peers().flat_map(|peer| peer.nis);
            let to_peers: u64 = peers.map(|ni| sent(&ni.stats)).sum();
            let kept = u64::from(profile == Profile::Lustre);
            assert_eq!((by_nis, to_peers), (kept, kept), "{profile}");
        });
    }
}

// [PEER-10]
#[test]
fn a_peer_whose_primary_net_goes_stays_reachable_over_its_other_rail() {
    let mut net = two_rails();
    let now = net.now;
    let first = net.core(0).nis().nth(1).unwrap().id;
    net.core(0).remove_ni(first, now).unwrap();
    let known = net.core(0).peer_with(nid(THERE[0])).unwrap();
    assert_eq!((known.nis.len(), known.multi_rail), (2, true));
    // The sender keeps the primary NID.
    net.put(0, b"x", true, THERE[0]);
    net.run();
    let ends: Vec<_> = net
        .take_events(0)
        .iter()
        .map(|event| event.status)
        .collect();
    assert_eq!(ends, [Ok(()), Ok(())]);
    // The rail is used again after its net is added again.
    let ni = NiConfig {
        nid: nid(HERE[0]),
        tunables: Tunables::default(),
    };
    net.core(0).add_ni(ni, now).unwrap();
    let known = net.core(0).peer_with(nid(THERE[0])).unwrap();
    assert!(known.nis.iter().all(|ni| ni.max_tx_credits > 0));
}

#[test]
fn sizes_of_router_buffers_survive_that_routing_is_switched_off_and_on() {
    let now = lnet_types::Time::from_secs(1);
    let mut core = Core::new(config(1), now);
    let sizes = |core: &Core| core.router_pools().map(|pool| pool.buffers);
    core.set_routing(true, now);
    let before = sizes(&core);
    core.set_routing(false, now);
    core.set_routing(true, now + Duration::from_secs(1));
    assert_eq!(sizes(&core), before);
}

// [HEALTH-36]
#[test]
fn an_interface_whose_link_comes_back_is_up_at_once() {
    let mut net = two_rails();
    let now = net.now;
    let ni = net.core(0).nis().nth(1).unwrap().id;
    net.core(0).set_ni_fatal(ni, true, now);
    assert!(!net.core(0).nis().nth(1).unwrap().up);
    net.core(0).set_ni_fatal(ni, false, now);
    assert!(net.core(0).nis().nth(1).unwrap().up);
}

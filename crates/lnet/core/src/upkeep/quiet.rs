//! Quiet nets: a router asks known peers before it calls a net down from which no ping comes.

use std::cmp::Reverse;

use lnet_types::{Net, Nid, Time};
use smallvec::SmallVec;

use crate::upkeep::Upkeep;

/// Peers of each kind that are pinged on a net on which nobody pings this node: those that the configuration names, and
/// others. One that answers is enough.
const PEERS_ASKED: usize = 4;

impl Upkeep {
    /// Handles a net's timer. A net on which no ping arrived during the whole window counts as down. A peer on the net
    /// that answers a ping of this node proves that the net works, so that a net whose nodes use no other router, or
    /// only rarely this one, is not down when they begin. While the net is down, this node asks once in a window: when
    /// the whole net was away, nobody else may ever ask.
    // [ROUTE-16] [GATE-33] [GATE-37]
    pub(in crate::upkeep) fn net_is_quiet(&mut self, net: Net, now: Time) {
        let (window, unasked) = self.traffic.fabric.quiet_times();
        let may_ask = self.traffic.fabric.asks_known_peers();
        let Some(state) = self.traffic.fabric.nis.net_mut(net) else {
            return;
        };
        state.watch = None;
        let is_news = !state.quiet && state.last_ping + window <= now;
        state.quiet |= is_news;
        let is_due = state.quiet || (!state.asked && state.last_ping + unasked <= now);
        let asks = may_ask && is_due;
        state.asked |= asks;
        if is_news {
            self.traffic.rewrite_ping_info();
        }
        self.traffic.fabric.watch_net(net, now);
        if asks {
            for peer in self.known_on(net) {
                self.ping_over_net(peer, now);
            }
        }
    }

    /// Returns some peers on a net, those heard of last first: peers that the configuration names, then others that
    /// were heard of or discovered.
    fn known_on(&self, net: Net) -> SmallVec<[Nid; 2 * PEERS_ASKED]> {
        let (mut named, mut others) = (Vec::new(), Vec::new());
        for peer_ni in self.traffic.fabric.peers.iter() {
            if peer_ni.nid.net() != net || self.traffic.fabric.nis.by_nid(peer_ni.nid).is_some() {
                continue;
            }
            match self.traffic.fabric.peers.owner(peer_ni) {
                Some(peer) if peer.configured => named.push(peer_ni),
                None if peer_ni.last_alive.is_none() => {}
                _ => others.push(peer_ni),
            }
        }
        let mut known = SmallVec::new();
        for peers in [&mut named, &mut others] {
            peers.sort_by_key(|peer_ni| Reverse(peer_ni.last_alive));
            known.extend(peers.iter().take(PEERS_ASKED).map(|peer_ni| peer_ni.nid));
        }
        known
    }
}

//! The changes that follow from a selected path.

use lnet_types::Time;

use crate::fabric::Fabric;
use crate::fabric::select::{Path, PathRequest, Request};
use crate::ground::ids::PeerNiId;
use crate::ground::io::NiId;

impl Fabric {
    /// Records that a path is used: updates round-robin stamps, and pins the source that the peer sees from now on.
    /// `hop` is the next hop's interface.
    // [PATH-42] [PATH-52]
    pub(crate) fn commit(&mut self, send: &PathRequest, path: &Path, hop: PeerNiId, now: Time) {
        if path.ni == NiId::LOOPBACK {
            return;
        }
        self.nis.stamp(path.ni);
        self.peers.stamp(hop);
        if let Some((net, gateway)) = path.route {
            self.routes.stamp(net, gateway);
            if let Some(last) = self.peers.id_of(path.dest) {
                self.peers.stamp(last);
            }
        }
        if let PathRequest::Request(Request { target, .. }) = send {
            let is_hop = target.nid == path.next_hop.nid;
            let target = if is_hop {
                Some(hop)
            } else {
                self.peer_ni(target.nid, now)
            };
            if let Some(target) = target {
                self.pin_source(target, path.ni);
            }
        }
    }

    // [PATH-50]
    fn pin_source(&mut self, id: PeerNiId, ni: NiId) {
        let Some(peer_ni) = self.peers.get(id) else {
            return;
        };
        let valid = peer_ni
            .pinned
            .is_some_and(|pinned| self.nis.get(pinned).is_some());
        if valid
            || self
                .peers
                .owner(peer_ni)
                .is_some_and(|peer| peer.multi_rail)
        {
            return;
        }
        if let Some(peer_ni) = self.peers.get_mut(id) {
            peer_ni.pinned = Some(ni);
        }
    }
}

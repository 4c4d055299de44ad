//! What a message asks the fabric besides its path: whether it waits for a discovery, its deadline, its limits.

use lnet_types::{Nid, Time};

use crate::fabric::Fabric;
use crate::fabric::select::{Path, PathRequest};
use crate::ground::ids::PeerNiId;
use crate::ground::io::NiId;

impl Fabric {
    /// Decides whether a PUT or GET of this node must wait until its target is discovered. Messages of
    /// portal 0 never wait, so that pings and pushes do not wait for themselves.
    // [DISC-1] [DISC-2] [PEER-2] [PEER-4]
    pub(crate) fn must_wait(&self, send: &PathRequest, path: Path) -> bool {
        let PathRequest::Request(request) = send else {
            return false;
        };
        let is_exempt = request.reserved || path.ni == NiId::LOOPBACK || self.ground.is_copy;
        if !self.globals().discovery || is_exempt {
            return false;
        }
        let target = self.peers.by_nid(request.target.nid);
        let named = match target {
            Some(peer_ni) if peer_ni.primary != peer_ni.nid => self.peers.by_nid(peer_ni.primary),
            _ => target,
        };
        let discovery = named.and_then(|peer_ni| peer_ni.discovery.as_ref());
        discovery.is_none_or(|known| !known.is_up_to_date(&self.ours()))
    }

    /// Returns the NID that the target sees as the source. Over loopback it is the NID that the message was sent to,
    /// unless the caller asked for another NID of this node.
    pub(crate) fn source_nid(&self, source: Option<Nid>, target: Nid, path: Path) -> Nid {
        let own = |nid: &Nid| self.nis.by_nid(*nid).is_some();
        if path.ni == NiId::LOOPBACK {
            return source.filter(own).unwrap_or(target);
        }
        self.nis.get(path.ni).map_or(Nid::ANY, |ni| ni.nid)
    }

    /// Returns how many messages may hold a credit of a peer NI.
    pub(crate) fn peer_credits(&self, peer: PeerNiId) -> u32 {
        let peer_ni = self.peers.get(peer);
        let tunables = peer_ni.and_then(|peer_ni| self.nis.net_tunables(peer_ni.nid.net()));
        tunables.map_or(1, |tunables| tunables.peer_credits)
    }

    /// Returns whether the peer NI is down and may not be tried yet. A peer NI that lost its connections while the whole
    /// net was quiet may be tried when the net is there again, except by kernels.
    // [GATE-32] [GATE-38]
    pub(crate) fn is_down(&self, peer: PeerNiId, now: Time) -> bool {
        self.peers.get(peer).is_some_and(|peer_ni| {
            let net = peer_ni.nid.net();
            let returned = self.nis.net(net).and_then(|state| state.returned);
            let returned = returned.filter(|_| !self.globals().profile.is_lustre());
            let timeout = self.nis.net_tunables(net).map(|t| t.peer_timeout);
            peer_ni
                .down_since
                .zip(timeout)
                .is_some_and(|(since, timeout)| {
                    now.saturating_since(since) < timeout && returned.is_none_or(|at| since > at)
                })
        })
    }

    /// Returns the deadline of a message that starts now. In the `design` profile the deadline is one transaction
    /// timeout away and holds for all attempts. Kernels give every attempt the time that the LND needs for all attempts
    /// together.
    // [RESEND-31] [RESEND-32]
    pub(crate) fn message_deadline(&self, ni: NiId, now: Time) -> Time {
        let globals = self.globals();
        let of_lnd = self.nis.get(ni).and_then(|ni| ni.lnd_timeout);
        match of_lnd {
            Some(each) if globals.profile.is_lustre() => {
                let attempts = globals.retry_count.saturating_add(1);
                now + each.saturating_mul(attempts) + std::time::Duration::from_secs(1)
            }
            _ => now + globals.transaction_timeout,
        }
    }
}

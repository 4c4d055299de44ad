//! NIDs that one peer names, and that another discovered peer has (section 7.5 does not say whose they are).
//!
//! ```text
//!   X says: I am x and n; n is Y's ──▶ n stays Y's ──▶ ping n itself
//!                                                        │ the answer names x ──▶ n becomes X's
//!                                                        └ another answer, or none: n stays Y's
//! ```
//!
//! Kernels let whoever named a NID last have it, so that any node can take the NIDs of any other until the next
//! discovery. Here whoever answers at a NID says whose the NID is. A node that has got another name, or an address of a
//! node that is gone, has its NIDs one round trip later than with a kernel.
//!
//! NIDs on nets that this node has no interface on are whoever's who named them last: the way to ask one may lead through
//! the node itself, and a router that is asked for a NID of its own over another net closes the connection.

use std::collections::BTreeMap;
use std::time::Duration;

use lnet_types::{Nid, Time};

use crate::Core;
use crate::discovery::table::{Happening, PeerState};
use crate::event::{Event, EventKind};
use crate::io::CoreBuffer;
use crate::ping::said::Said;
use crate::portals::descriptor::Owner;

/// NIDs that are asked at the same time, or were asked within [`PAUSE`]: further claims are ignored.
const ASKED_MAX: usize = 64;

/// A NID is asked once in this time at most, however often it is claimed.
const PAUSE: Duration = Duration::from_secs(1);

/// NIDs that are asked whose they are.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    asked: BTreeMap<Nid, Claim>,
}

#[derive(Debug)]
struct Claim {
    /// A NID of the peer that claims.
    claimant: Nid,
    at: Time,
    /// The ping is under way.
    waits: bool,
}

impl Claims {
    /// Takes note of a claim; false where the NID is not to be asked now.
    fn begin(&mut self, nid: Nid, claimant: Nid, now: Time) -> bool {
        self.asked
            .retain(|_, claim| claim.waits || now < claim.at + PAUSE);
        if self.asked.len() >= ASKED_MAX || self.asked.contains_key(&nid) {
            return false;
        }
        let claim = Claim {
            claimant,
            at: now,
            waits: true,
        };
        self.asked.insert(nid, claim);
        true
    }

    /// The ping has ended: who claims the NID.
    fn end(&mut self, nid: Nid) -> Option<Nid> {
        let claim = self.asked.get_mut(&nid).filter(|claim| claim.waits)?;
        claim.waits = false;
        Some(claim.claimant)
    }
}

impl Core {
    /// A NID is one of a discovered peer that is not the one of this name, on a net of this node.
    // [PUSH-9]
    pub(crate) fn is_anothers(&self, nid: Nid, name: Nid) -> bool {
        let owner = self.peers.primary_of(nid);
        let known = self.peers.by_nid(owner);
        let known = known.and_then(|peer_ni| peer_ni.discovery.as_ref());
        let is_near = self.nis.has_net(nid.net());
        is_near
            && owner != name
            && known.is_some_and(|known| known.state().contains(PeerState::DISCOVERED))
    }

    /// A peer names a NID that another one has: the NID is asked.
    pub(crate) fn ask_whose(&mut self, nid: Nid, claimant: Nid, now: Time) {
        self.counters.discoveries_ignored += 1;
        if !self.claims.begin(nid, claimant, now) {
            return;
        }
        let length = self.ping_size(claimant);
        match self.bind_ping(length, |buffer| Owner::Claim(buffer, nid)) {
            Some(md) => {
                let timeout = self.config.globals.transaction_timeout;
                self.send_ping(md, nid, timeout, now);
            }
            None => {
                self.claims.end(nid);
            }
        }
    }

    /// Something happened to the ping of a NID that a peer claims.
    pub(crate) fn claim_event(&mut self, buffer: CoreBuffer, nid: Nid, event: &Event, now: Time) {
        if (event.kind, event.status) == (EventKind::Send, Ok(())) {
            return;
        }
        let claimant = self.claims.end(nid);
        let claimant = claimant.map(|claimant| self.peers.primary_of(claimant));
        let Some(claimant) = claimant.filter(|&claimant| self.is_anothers(nid, claimant)) else {
            return;
        };
        if (event.kind, event.status) != (EventKind::Reply, Ok(())) {
            return;
        }
        let bytes = self.buffers.data(buffer);
        let data = bytes
            .get(..event.mlength as usize)
            .unwrap_or(bytes)
            .to_vec();
        let Some(said) = Said::read(&data) else {
            return;
        };
        let is_claimants = |&(other, _): &(Nid, _)| self.peers.primary_of(other) == claimant;
        if !said.nis.iter().any(is_claimants) {
            return;
        }
        let Some(discovery) = self.discovery_mut(claimant) else {
            return;
        };
        discovery.grant(nid);
        let event = if said.truncated {
            Happening::Forced
        } else {
            discovery.keep(data, false);
            Happening::Granted
        };
        self.discovery_event(claimant, event, now);
    }
}

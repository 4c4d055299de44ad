//! Finds out which peer has a NID that one peer names and another discovered peer has. Kernels do not
//! find this out.
//!
//! ```text
//!   X says: I am x and n; n is Y's ──▶ n stays Y's ──▶ ping n itself
//!                                                        │ the answer names x ──▶ n becomes X's
//!                                                        └ another answer, or none: n stays Y's
//! ```
//!
//! In kernels a NID belongs to the peer that named it last, so that any node can take over the NIDs of any other until
//! the next discovery. Here the node that answers at a NID decides. If a node has got another name, or the address of
//! a removed node, it gets its NIDs one round trip later than with a kernel.
//!
//! NIDs on nets on which this node has no interface are not pinged and belong to the peer that named them last. The
//! route for the ping may lead through the node itself, and a router closes the connection when it is pinged for a NID
//! of its own over another net.

use std::collections::BTreeMap;
use std::time::Duration;

use lnet_types::{Nid, Time};

use crate::fabric::discovery::{Happening, PeerState};
use crate::fabric::said::Said;
use crate::ground::event::{Event, EventKind};
use crate::ground::io::CoreBuffer;
use crate::traffic::portals::descriptor::Owner;
use crate::upkeep::Upkeep;

/// The limit of NIDs that are being pinged or were pinged within [`PAUSE`]; further claims are ignored.
const ASKED_MAX: usize = 64;

/// The shortest time between two pings of a NID, however often it is claimed.
const PAUSE: Duration = Duration::from_secs(1);

/// The NIDs that are pinged to find out which peer has them.
#[derive(Debug, Default)]
pub(in crate::upkeep) struct Claims {
    asked: BTreeMap<Nid, Claim>,
}

#[derive(Debug)]
struct Claim {
    /// A NID of the peer that claims the NID.
    claimant: Nid,
    at: Time,
    /// True while the ping is under way.
    waits: bool,
}

impl Claims {
    /// Notes a claim. Returns false if the NID must not be pinged now.
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

    /// Ends the ping of a NID. Returns the peer that claims the NID.
    fn end(&mut self, nid: Nid) -> Option<Nid> {
        let claim = self.asked.get_mut(&nid).filter(|claim| claim.waits)?;
        claim.waits = false;
        Some(claim.claimant)
    }
}

impl Upkeep {
    /// Returns whether a NID is on a local net and belongs to a discovered peer other than the one of this name.
    // [PUSH-9]
    pub(in crate::upkeep) fn is_anothers(&self, nid: Nid, name: Nid) -> bool {
        let owner = self.traffic.fabric.peers.primary_of(nid);
        let known = self.traffic.fabric.peers.by_nid(owner);
        let known = known.and_then(|peer_ni| peer_ni.discovery.as_ref());
        let is_near = self.traffic.fabric.nis.has_net(nid.net());
        is_near
            && owner != name
            && known.is_some_and(|known| known.state().contains(PeerState::DISCOVERED))
    }

    /// Handles the claim of a NID that another peer has: pings the NID.
    // [PEER-14]
    pub(in crate::upkeep) fn ping_claimed_nid(&mut self, nid: Nid, claimant: Nid, now: Time) {
        self.counters().discoveries_ignored += 1;
        if !self.claims.begin(nid, claimant, now) {
            return;
        }
        let length = self.traffic.fabric.ping_size(claimant);
        match self.bind_ping(length, |buffer| Owner::Claim(buffer, nid)) {
            Some(md) => {
                let timeout = self.globals().transaction_timeout;
                self.send_ping(md, nid, timeout, now);
            }
            None => {
                self.claims.end(nid);
            }
        }
    }

    /// Handles an event of the ping of a claimed NID.
    pub(in crate::upkeep) fn claim_event(
        &mut self,
        buffer: CoreBuffer,
        nid: Nid,
        event: &Event,
        now: Time,
    ) {
        if (event.kind, event.status) == (EventKind::Send, Ok(())) {
            return;
        }
        let claimant = self.claims.end(nid);
        let claimant = claimant.map(|claimant| self.traffic.fabric.peers.primary_of(claimant));
        let Some(claimant) = claimant.filter(|&claimant| self.is_anothers(nid, claimant)) else {
            return;
        };
        if (event.kind, event.status) != (EventKind::Reply, Ok(())) {
            return;
        }
        let bytes = self.traffic.buffers.data(buffer);
        let data = bytes
            .get(..event.mlength as usize)
            .unwrap_or(bytes)
            .to_vec();
        let Some(said) = Said::read(&data) else {
            return;
        };
        let is_claimants =
            |&(other, _): &(Nid, _)| self.traffic.fabric.peers.primary_of(other) == claimant;
        if !said.nis.iter().any(is_claimants) {
            return;
        }
        let Some(discovery) = self.traffic.fabric.discovery_mut(claimant) else {
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

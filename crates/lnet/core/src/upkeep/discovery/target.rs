//! The target of pushes, by which peers send their information to this node.
//!
//! A push lands in a descriptor that accepts one message, on portal 0. A kernel has one such descriptor. This node has
//! [`TARGETS`], so that a peer that sends only half of a push does not block the pushes of other peers.

use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{LNET_PORTAL, PING_BUFFER_MIN, PING_MATCH_BITS, PingFeatures};

use crate::fabric::discovery::{Happening, PeerState};
use crate::fabric::said::Said;
use crate::ground::event::{Event, EventKind};
use crate::ground::io::CoreBuffer;
use crate::ground::md::{InsertPosition, MdHandle, MdOptions, MdSpec, MeSpec};
use crate::traffic::portals::descriptor::Owner;
use crate::upkeep::Upkeep;
use crate::upkeep::discovery::merge::INFO_SIZE_MAX;

/// The number of pushes that may land at the same time.
const TARGETS: usize = 16;

/// The descriptors that accept pushes.
#[derive(Debug, Default)]
pub(crate) struct PushTarget {
    posted: Vec<MdHandle>,
    /// The size of the largest push so far, in bytes.
    length: u32,
}

impl PushTarget {
    /// Returns the number of descriptors that accept a push now.
    pub(crate) fn posted(&self) -> usize {
        self.posted.len()
    }
}

impl Upkeep {
    /// Starts or stops to accept pushes.
    pub(in crate::upkeep) fn set_push_target(&mut self, on: bool, now: Time) {
        if !on {
            for md in std::mem::take(&mut self.push_target.posted) {
                if self.traffic.mds.get(md).is_some_and(|md| !md.dead) {
                    self.traffic.unlink_md(md, Ok(()), now);
                }
            }
            return;
        }
        self.traffic.fabric.own.has_discovered = true;
        while self.push_target.posted.len() < TARGETS {
            if !self.post_push_target() {
                return;
            }
        }
    }

    // [PUSH-1]
    fn post_push_target(&mut self) -> bool {
        let me = MeSpec {
            portal: LNET_PORTAL,
            match_id: ProcessId::ANY,
            match_bits: PING_MATCH_BITS,
            ignore_bits: 0,
            unlink_with_md: true,
            position: InsertPosition::After,
        };
        let length = self.push_target.length.max(PING_BUFFER_MIN);
        let md = MdSpec {
            length,
            threshold: Some(1),
            max_size: 0,
            options: MdOptions::OP_PUT | MdOptions::TRUNCATE | MdOptions::MANAGE_REMOTE,
            unlink_when_exhausted: true,
            user: 0,
        };
        let buffer = self.traffic.buffers.insert(vec![0; length as usize]);
        let owner = Owner::PushTarget(buffer);
        let attached = self.traffic.portals.attach(me);
        match attached.and_then(|me| self.traffic.attach_md(me, md, owner)) {
            Ok(md) => {
                self.push_target.posted.push(md);
                true
            }
            Err(_) => {
                self.traffic.release_buffer(buffer);
                self.broken("a descriptor that takes pushes");
                false
            }
        }
    }

    /// Handles an event of a descriptor that accepts pushes.
    pub(in crate::upkeep) fn push_event(&mut self, buffer: CoreBuffer, event: &Event, now: Time) {
        self.push_target.posted.retain(|&md| md != event.md);
        if event.kind == EventKind::Put {
            self.counters().pushes_received += 1;
            let bytes = self.traffic.buffers.data(buffer);
            let length = event.mlength as usize;
            let data = bytes.get(..length).unwrap_or(bytes).to_vec();
            let cut_off = event.mlength < event.rlength;
            if event.status.is_ok() {
                self.pushed(
                    event.source.nid,
                    data,
                    cut_off.then_some(event.rlength),
                    now,
                );
            }
        }
        if self.globals().discovery {
            self.set_push_target(true, now);
        }
    }

    /// Handles the information that a peer has pushed. If it was truncated, `needs` is its complete size.
    // [PUSH-6] [PUSH-7] [PUSH-9]
    fn pushed(&mut self, from: Nid, data: Vec<u8>, needs: Option<u32>, now: Time) {
        let features = Said::read(&data).map(|said| said.features);
        // For a message that came through a router, the router has a peer NI but the source may have none. In a full
        // table the source stays unknown, and the push is rejected below.
        if features.is_some_and(|features| features.contains(PingFeatures::MULTI_RAIL)) {
            let _full = self.traffic.fabric.peer_ni(from, now);
        }
        let name = self.traffic.fabric.peers.primary_of(from);
        let Some(discovery) = self.traffic.fabric.discovery_mut(name) else {
            self.counters().pushes_refused += 1;
            return;
        };
        // Only a peer that this node has discovered can cause a ping.
        let known = discovery.state().contains(PeerState::DISCOVERED);
        let Some(features) = features else {
            self.counters().pushes_refused += 1;
            if known {
                self.discovery_event(name, Happening::BadPush, now);
            }
            return;
        };
        if !features.contains(PingFeatures::MULTI_RAIL) {
            self.counters().pushes_refused += 1;
            return;
        }
        let listens = features.contains(PingFeatures::DISCOVERY);
        discovery.set(PeerState::NO_DISCOVERY, !listens);
        if let Some(needs) = needs {
            let needs = needs.min(INFO_SIZE_MAX);
            discovery.grow(needs);
            self.push_target.length = self.push_target.length.max(needs);
            if known {
                self.discovery_event(name, Happening::Forced, now);
            }
            return;
        }
        discovery.keep(data, true);
        self.discovery_event(name, Happening::Pushed, now);
    }
}

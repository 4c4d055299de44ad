//! The answer to pings: an ordinary descriptor on portal 0 whose memory the core owns.
//!
//! The information is rebuilt after every change; messages that carry the old information keep it until they are sent.

use lnet_types::ProcessId;
use lnet_wire::{LNET_PORTAL, PING_MATCH_BITS};

use crate::fabric::own::Outdated;
use crate::ground::md::{InsertPosition, MdOptions, MdSpec, MeSpec};
use crate::traffic::Traffic;
use crate::traffic::portals::descriptor::Owner;

impl Traffic {
    /// Creates the descriptor that answers pings.
    // [PING-1] [PING-2] [PING-4]
    pub(crate) fn open_ping_target(&mut self) {
        let me = MeSpec {
            portal: LNET_PORTAL,
            match_id: ProcessId::ANY,
            match_bits: PING_MATCH_BITS,
            ignore_bits: 0,
            unlink_with_md: false,
            position: InsertPosition::After,
        };
        let md = MdSpec {
            length: 0,
            threshold: None,
            max_size: 0,
            options: MdOptions::OP_GET | MdOptions::TRUNCATE | MdOptions::MANAGE_REMOTE,
            unlink_when_exhausted: false,
            user: 0,
        };
        let buffer = self.buffers.insert(Vec::new());
        let owner = Owner::PingTarget(buffer);
        self.ping_answer = self
            .portals
            .attach(me)
            .and_then(|me| self.attach_md(me, md, owner))
            .ok();
        self.rebuild_ping_info();
    }

    /// Brings the ping information up to date.
    pub(crate) fn refresh_ping_info(&mut self) {
        match self.fabric.own.take_changes() {
            Outdated::Nothing => {}
            Outdated::Status => self.rewrite_ping_info(),
            Outdated::Interfaces => self.rebuild_ping_info(),
        }
    }

    /// Rebuilds the ping information after the configuration has changed, with the next sequence number.
    // [PING-9]
    pub(crate) fn rebuild_ping_info(&mut self) {
        self.fabric.own.sequence = self.fabric.own.sequence.wrapping_add(1);
        self.rewrite_ping_info();
    }

    /// Rebuilds the ping information after the status of an interface has changed; the sequence number stays.
    /// While discovery is on, the node pushes the new information to each peer that has the older one.
    pub(crate) fn rewrite_ping_info(&mut self) {
        self.fabric.own.version = self.fabric.own.version.wrapping_add(1);
        if self.globals().discovery {
            self.fabric.plan_pushes();
        }
        let info = self.fabric.ping_info();
        let length = info.len() as u32;
        let fresh = self.buffers.insert(info);
        let Some(md) = self.ping_answer.and_then(|md| self.mds.get_mut(md)) else {
            return self.broken("the descriptor that answers pings");
        };
        md.spec.length = length;
        if let Owner::PingTarget(stale) = std::mem::replace(&mut md.owner, Owner::PingTarget(fresh))
        {
            self.release_buffer(stale);
        }
    }
}

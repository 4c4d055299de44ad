//! Pings that the core itself sends: to gateways, for recovery, for discovery.
//!
//! The caller binds a descriptor, notes its handle, and then sends the ping, in this order: the ping may fail before
//! the call that sends it returns.

use std::time::Duration;

use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{LNET_PORTAL, PING_MATCH_BITS};

use crate::fabric::select::Exact;
use crate::ground::io::CoreBuffer;
use crate::ground::md::{MdHandle, MdOptions, MdSpec};
use crate::traffic::portals::descriptor::Owner;
use crate::traffic::portals::put_get::{GetRequest, SendHints};
use crate::upkeep::Upkeep;

impl Upkeep {
    /// Binds a descriptor for one ping, with room for `length` bytes of the answer; `None` if it cannot be bound.
    pub(in crate::upkeep) fn bind_ping(
        &mut self,
        length: u32,
        owner: impl FnOnce(CoreBuffer) -> Owner,
    ) -> Option<MdHandle> {
        let spec = MdSpec {
            length,
            threshold: Some(2),
            max_size: 0,
            options: MdOptions::TRUNCATE,
            unlink_when_exhausted: true,
            user: 0,
        };
        let buffer = self.traffic.buffers.insert(vec![0; length as usize]);
        let bound = self.traffic.bind_md(spec, owner(buffer));
        if bound.is_err() {
            self.traffic.release_buffer(buffer);
        }
        bound.ok()
    }

    /// Pings exactly this NID.
    // [PING-3] [RESEND-36]
    pub(in crate::upkeep) fn send_ping(
        &mut self,
        md: MdHandle,
        nid: Nid,
        timeout: Duration,
        now: Time,
    ) {
        let get = GetRequest {
            md,
            source: None,
            target: ProcessId::lustre(nid),
            portal: LNET_PORTAL,
            match_bits: PING_MATCH_BITS,
            offset: 0,
        };
        let hints = SendHints::default();
        match self
            .traffic
            .start_get(get, hints, timeout, Exact::Always, now)
        {
            // What goes to portal 0 waits for no discovery.
            Ok(waiting) => debug_assert!(waiting.is_none(), "a ping waits for a discovery"),
            Err(_) => self.traffic.unlink_md(md, Ok(()), now),
        }
    }
}

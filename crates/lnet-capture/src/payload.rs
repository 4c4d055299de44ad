//! What is behind an LNet header: ping info is decoded, everything else is opaque.
//!
//! A REPLY does not say what it answers: its wire handle does (section 1.6). Ping GETs are remembered,
//! across connections (a REPLY may travel on another one) and beyond the first REPLY (a router's two
//! sides show the same handle twice), the oldest forgotten first.

use std::collections::VecDeque;

use lnet_wire::{Body, DecodeError, Handle, Header, LNET_PORTAL, PING_MATCH_BITS, PingInfo};
use rustc_hash::FxHashSet;

/// What is known of a message's payload.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// There is none.
    None,
    /// Bytes that LNet does not look into.
    Opaque {
        /// How many of them are not in the capture.
        lost: u64,
    },
    /// Ping info: a ping's REPLY, or a push.
    Ping(PingInfo<'a>),
    /// Should be ping info and is not; offsets count from the payload's start.
    BadPing(DecodeError),
}

/// The ping GETs that were seen.
#[derive(Debug, Default)]
pub(crate) struct Pings {
    known: FxHashSet<Handle>,
    oldest_first: VecDeque<Handle>,
}

/// More pings than this are never under way in one network at a time.
const PINGS_MAX: usize = 64 << 10;

impl Pings {
    /// Notes a ping GET; says whether the payload of this message is ping info.
    pub(crate) fn observe(&mut self, header: &Header) -> bool {
        match header.body {
            Body::Get(get) => {
                if get.ptl_index == LNET_PORTAL && get.match_bits == PING_MATCH_BITS {
                    self.remember(get.return_wmd);
                }
                false
            }
            Body::Put(put) => put.ptl_index == LNET_PORTAL && put.match_bits == PING_MATCH_BITS,
            Body::Reply(reply) => self.known.contains(&reply.dst_wmd),
            Body::Ack(_) => false,
        }
    }

    fn remember(&mut self, handle: Handle) {
        if !self.known.insert(handle) {
            return;
        }
        self.oldest_first.push_back(handle);
        if self.oldest_first.len() > PINGS_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

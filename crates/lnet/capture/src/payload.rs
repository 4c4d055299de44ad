//! The payload of an LNet message: ping info is decoded, everything else is opaque.
//!
//! The wire handle of a REPLY shows which GET it answers. The handles of ping GETs
//! are kept across connections, because a REPLY may use another connection, and after the first
//! REPLY, because a capture of both sides of a router shows it twice. The oldest handles are
//! dropped first.

use std::collections::VecDeque;

use lnet_wire::{Body, DecodeError, Handle, Header, LNET_PORTAL, PING_MATCH_BITS, PingInfo};
use rustc_hash::FxHashSet;

/// The payload of a message, as far as it is decoded.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// There is none.
    None,
    /// Bytes that LNet does not interpret.
    Opaque {
        /// Its first bytes, as many as the decoder was told to keep; none by default, and none if bytes are lost.
        head: &'a [u8],
        /// The number of bytes that are not in the capture.
        lost: u64,
    },
    /// Ping info: a ping's REPLY, or a push.
    Ping(PingInfo<'a>),
    /// Expected to be ping info, but malformed; offsets count from the start of the payload.
    BadPing(DecodeError),
}

/// The captured ping GETs.
#[derive(Debug, Default)]
pub(crate) struct Pings {
    known: FxHashSet<Handle>,
    oldest_first: VecDeque<Handle>,
}

/// The most pings that are kept; a network never has more in flight.
const PINGS_MAX: usize = 64 << 10;

impl Pings {
    /// Records a ping GET; returns true if the payload of this message is ping info.
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

//! The decision of the core about an input, as bytes and as their hash.

use lnet_wire::MessageType;

use super::Chain;
use super::codec::{Put, shown};
use crate::{
    Answer, Errno, Event, EventKind, Landing, Output, Payload, Place, RouterBuffer, Transmit,
    Verdict,
};

/// The hash of a decision, chained to the hash before it.
pub(crate) fn chain<'a>(
    before: Chain,
    input: &[u8],
    answer: &Answer,
    outputs: impl Iterator<Item = &'a Output>,
    scratch: &mut Vec<u8>,
) -> Chain {
    scratch.clear();
    scratch.extend_from_slice(&before);
    scratch.extend_from_slice(input);
    answer.put(scratch);
    outputs.for_each(|output| output.put(scratch));
    hash(scratch)
}

/// The first 8 bytes of the hash.
pub(crate) fn hash(bytes: &[u8]) -> Chain {
    let mut chain = Chain::default();
    for (to, from) in chain.iter_mut().zip(blake3::hash(bytes).as_bytes()) {
        *to = *from;
    }
    chain
}

shown! {
    Landing { place, offset, length }
    Payload { place, offset, length }
    Transmit { tx, ni, to, header, payload, deadline }
    Event {
        kind, md, user, status, unlinked, target, initiator, source, sender, message_type, portal, match_bits,
        rlength, mlength, offset, hdr_data
    }
    RouterBuffer { pool, index }
}

/// The number of a variant, then its parts.
macro_rules! parts {
    ($out:ident, $tag:literal $(, $part:expr)*) => {{
        $out.push($tag);
        $($part.put($out);)*
    }};
}

impl Put for Answer {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Nothing => out.push(0),
            Self::Number(number) => parts!(out, 1, number),
            Self::Verdict(verdict) => parts!(out, 2, verdict),
            Self::Refused(why) => parts!(out, 3, why),
        }
    }
}

impl Put for Verdict {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Receive { rx, landing } => parts!(out, 0, rx, landing),
            Self::Hold { rx } => parts!(out, 1, rx),
            Self::Drop(reason) => parts!(out, 2, (*reason as u8)),
            Self::Reject(error) => parts!(out, 3, error.reason().to_owned()),
        }
    }
}

impl Put for Output {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Transmit(transmit) => parts!(out, 0, transmit),
            Self::Resume { rx, landing } => parts!(out, 1, rx, landing),
            Self::Cancel { rx } => parts!(out, 2, rx),
            Self::Event(event) => parts!(out, 3, event),
            Self::Gateway { nid, alive } => parts!(out, 4, nid, alive),
            Self::Doubt { nid } => parts!(out, 5, nid),
        }
    }
}

impl Put for Place {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Md(md) => parts!(out, 0, md),
            Self::Router(buffer) => parts!(out, 1, buffer),
            Self::Core(buffer) => parts!(out, 2, buffer),
        }
    }
}

impl Put for crate::RouterPool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
}

impl Put for EventKind {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
}

impl Put for MessageType {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
}

/// The errno; success is 0.
impl Put for Result<(), Errno> {
    fn put(&self, out: &mut Vec<u8>) {
        self.map_or_else(|errno| errno.0.unsigned_abs(), |()| 0)
            .put(out);
    }
}

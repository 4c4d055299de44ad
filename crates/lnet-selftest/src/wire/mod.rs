//! The messages of selftest, 160 bytes each (section 11.3).
//!
//! ```text
//! offset  size  field                        the sender's byte order, told by the magic
//!      0     4  magic 0xEEB0F00D
//!      4     4  version, 1
//!      8     4  message type
//!     12     8  reserved, 0
//!     20     4  features of the session; bit 0: lengths of bulk are in bytes
//!     24   136  body, by the type (sections 11.4 to 11.6)
//! ```
//!
//! Decoding never panics, and takes every field as it comes: whether a value makes sense is for those to judge who
//! act on it. Bytes behind a body, and the reserved words, are not looked at and are written as zeros.

mod body;
mod codec;
#[cfg(test)]
mod tests;

use std::fmt;

use lnet_types::{Nid, ProcessId};
use thiserror::Error;

use self::codec::{Codec, Reader, Writer};

pub use self::body::{
    BatchReply, BatchRequest, Body, BulkRequest, DebugReply, DebugRequest, FrameworkCounters,
    JoinReply, JoinRequest, LnetCounters, MakeReply, MakeRequest, Params, PingReply, PingRequest,
    RemoveRequest, RpcCounters, SessionReply, StatReply, StatRequest, TestRequest,
};
pub use self::codec::Order;

/// Bytes of every message.
// [LST-1]
pub const MESSAGE_LEN: usize = 160;
/// The first word of every message.
pub const MAGIC: u32 = 0xEEB0_F00D;
/// The one version there is.
pub const VERSION: u32 = 1;
/// Feature bit: bulk lengths are in bytes and not in pages.
pub const FEATURE_BULK_LEN: u32 = 1;
/// The word of a ping (section 11.5).
pub const PING_MAGIC: u32 = 0xBABE_FACE;
/// Longest bulk of one RPC, in bytes.
pub const BULK_MAX: u32 = 1 << 20;

/// A numbered service; its number is the match bits of its requests (section 11.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service(pub u32);

impl Service {
    /// Asks what session a node has.
    pub const DEBUG: Self = Self(0);
    /// Makes a session.
    pub const MAKE_SESSION: Self = Self(1);
    /// Ends a session.
    pub const REMOVE_SESSION: Self = Self(2);
    /// Runs, stops or queries a batch.
    pub const BATCH: Self = Self(3);
    /// Adds a test to a batch.
    pub const TEST: Self = Self(4);
    /// Asks for counters.
    pub const STAT: Self = Self(5);
    /// Bulk reads and writes.
    pub const BULK: Self = Self(11);
    /// Pings.
    pub const PING: Self = Self(12);

    /// Those of the framework, on [`Self::FRAMEWORK_PORTAL`].
    pub const FRAMEWORK: [Self; 6] = [
        Self::DEBUG,
        Self::MAKE_SESSION,
        Self::REMOVE_SESSION,
        Self::BATCH,
        Self::TEST,
        Self::STAT,
    ];
    /// Those that tests load, on [`Self::TEST_PORTAL`].
    pub const TESTS: [Self; 2] = [Self::BULK, Self::PING];

    /// Portal of test services.
    pub const TEST_PORTAL: u32 = 50;
    /// Portal of framework services.
    pub const FRAMEWORK_PORTAL: u32 = 51;
    /// Portal of replies and bulk.
    pub const REPLY_PORTAL: u32 = 52;

    /// Where its requests go.
    #[must_use]
    pub const fn portal(self) -> u32 {
        if self.0 < 10 {
            Self::FRAMEWORK_PORTAL
        } else {
            Self::TEST_PORTAL
        }
    }
}

/// Names a session: its console, and when that began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId {
    /// The console's NID in its 8-byte form.
    pub nid: u64,
    /// Milliseconds on the console's clock.
    pub stamp: i64,
}

impl SessionId {
    /// No session.
    pub const NONE: Self = Self {
        nid: u64::MAX,
        stamp: -1,
    };

    /// True where the NID is the wildcard, which no console has.
    #[must_use]
    pub fn is_any(self) -> bool {
        Nid::from_nid4(self.nid).is_some_and(Nid::is_any)
    }

    fn fields(&mut self, codec: &mut impl Codec) {
        codec.u64(&mut self.nid);
        codec.i64(&mut self.stamp);
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Nid::from_nid4(self.nid) {
            Some(nid) if !nid.is_any() => write!(f, "{}.{nid}", self.stamp),
            _ => write!(f, "{}.{:#x}", self.stamp, self.nid),
        }
    }
}

/// A name of at most 31 bytes, filled up with zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name([u8; Name::LEN]);

impl Name {
    /// Bytes of its field.
    pub const LEN: usize = 32;
    /// No name.
    pub const EMPTY: Self = Self([0; Self::LEN]);

    /// `None` where it is empty, too long, or holds a zero byte.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..Self::LEN).contains(&text.len()) && !text.contains('\0');
        let mut bytes = [0; Self::LEN];
        for (to, from) in bytes.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        fits.then_some(Self(bytes))
    }
}

impl fmt::Display for Name {
    /// Up to the first zero byte. What is not printable ASCII, which a stranger may have chosen, stands as `?`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.iter().take_while(|&&byte| byte != 0);
        for &byte in bytes {
            let shown = if byte == b' ' || byte.is_ascii_graphic() {
                char::from(byte)
            } else {
                '?'
            };
            write!(f, "{shown}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// [`VERSION`], unless the sender is of another kind.
    pub version: u32,
    /// Features of the session.
    pub features: u32,
    /// What it says.
    pub body: Body,
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Not as long as a message is.
    #[error("{0} bytes instead of {MESSAGE_LEN}")]
    Length(usize),
    /// Another first word.
    #[error("magic {0:#010x} at offset 0 instead of {MAGIC:#010x}")]
    Magic(u32),
    /// No such message type.
    #[error("unknown message type {0} at offset 8")]
    Type(u32),
}

impl Message {
    /// A message of this version.
    #[must_use]
    pub const fn new(features: u32, body: Body) -> Self {
        Self {
            version: VERSION,
            features,
            body,
        }
    }

    /// Decodes a message, and tells the byte order of its sender.
    ///
    /// # Errors
    ///
    /// Another length, another magic in either byte order, an unknown type.
    // [LST-4] [LST-7]
    pub fn decode(bytes: &[u8]) -> Result<(Self, Order), DecodeError> {
        let Ok(bytes) = <&[u8; MESSAGE_LEN]>::try_from(bytes) else {
            return Err(DecodeError::Length(bytes.len()));
        };
        let [m0, m1, m2, m3, ..] = *bytes;
        let magic = u32::from_le_bytes([m0, m1, m2, m3]);
        let order = match magic {
            MAGIC => Order::Little,
            _ if magic.swap_bytes() == MAGIC => Order::Big,
            _ => return Err(DecodeError::Magic(magic)),
        };
        let mut reader = Reader { left: bytes, order };
        let (mut head, mut kind, mut features) = ([0; 2], 0, 0);
        header(&mut reader, &mut head, &mut kind, &mut features);
        let mut body = Body::of_type(kind).ok_or(DecodeError::Type(kind))?;
        body.fields(features, &mut reader);
        let [_, version] = head;
        let message = Self {
            version,
            features,
            body,
        };
        Ok((message, order))
    }

    /// Encodes it, as Finerail sends it.
    #[must_use]
    pub fn encode(&self) -> [u8; MESSAGE_LEN] {
        self.encode_in(Order::Little)
    }

    /// Encodes it as a node of this byte order does.
    #[must_use]
    pub fn encode_in(&self, order: Order) -> [u8; MESSAGE_LEN] {
        let mut bytes = [0; MESSAGE_LEN];
        let mut writer = Writer {
            left: &mut bytes,
            order,
        };
        let (mut kind, mut features) = (self.body.message_type(), self.features);
        header(
            &mut writer,
            &mut [MAGIC, self.version],
            &mut kind,
            &mut features,
        );
        let mut body = self.body;
        body.fields(features, &mut writer);
        bytes
    }
}

fn header(codec: &mut impl Codec, head: &mut [u32; 2], kind: &mut u32, features: &mut u32) {
    for word in head {
        codec.u32(word);
    }
    codec.u32(kind);
    let mut reserved = [0; 8];
    codec.bytes(&mut reserved);
    codec.u32(features);
}

/// Bytes of a process id in a list of destinations (section 1.5).
pub const PROCESS_LEN: usize = 12;

/// Most destinations of one test: longer lists lose bytes at the page ends of kernel consoles (section 11.7).
// [LST-15]
pub const DESTINATIONS_MAX: usize = 341;

/// The list of a test's destinations, as a client fetches it. `None` where one has a large NID, which has no place in it.
#[must_use]
pub fn encode_destinations(destinations: &[ProcessId]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(destinations.len() * PROCESS_LEN);
    for destination in destinations {
        bytes.extend_from_slice(&destination.nid.to_nid4()?.to_le_bytes());
        bytes.extend_from_slice(&destination.pid.to_le_bytes());
    }
    Some(bytes)
}

/// Reads such a list. `None` where bytes are left over or a NID is none, or the wildcard.
#[must_use]
pub fn decode_destinations(bytes: &[u8], order: Order) -> Option<Vec<ProcessId>> {
    let (entries, rest) = bytes.as_chunks::<PROCESS_LEN>();
    if !rest.is_empty() {
        return None;
    }
    let process = |entry: &[u8; PROCESS_LEN]| {
        let mut reader = Reader { left: entry, order };
        let (mut nid, mut pid) = (0, 0);
        reader.u64(&mut nid);
        reader.u32(&mut pid);
        let nid = Nid::from_nid4(nid).filter(|nid| !nid.is_any())?;
        Some(ProcessId { nid, pid })
    };
    entries.iter().map(process).collect()
}

//! The messages of selftest, 160 bytes each.
//!
//! ```text
//! offset  size  field                        the sender's byte order, told by the magic
//!      0     4  magic 0xEEB0F00D
//!      4     4  version, 1
//!      8     4  message type
//!     12     8  reserved, 0
//!     20     4  features of the session; bit 0: lengths of bulk are in bytes
//!     24   136  body, by the type
//! ```
//!
//! Decoding never panics, and accepts any value in every field. The code that acts on a value decides whether
//! the value makes sense. The bytes behind a body and the reserved words are ignored when read and written as
//! zeros.

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

/// The length of every message, in bytes.
// [LST-1]
pub const MESSAGE_LEN: usize = 160;
/// The first word of every message.
pub const MAGIC: u32 = 0xEEB0_F00D;
/// The only version of the protocol.
pub const VERSION: u32 = 1;
/// Feature bit: lengths of bulk are in bytes and not in pages.
pub const FEATURE_BULK_LEN: u32 = 1;
/// The magic word of a ping.
pub const PING_MAGIC: u32 = 0xBABE_FACE;
/// The limit of bulk of one RPC, in bytes.
pub const BULK_MAX: u32 = 1 << 20;

/// A service by its number, which is also the match bits of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service(pub u32);

impl Service {
    /// Reports the session that a node has.
    pub const DEBUG: Self = Self(0);
    /// Makes a session.
    pub const MAKE_SESSION: Self = Self(1);
    /// Ends a session.
    pub const REMOVE_SESSION: Self = Self(2);
    /// Runs, stops or queries a batch.
    pub const BATCH: Self = Self(3);
    /// Adds a test to a batch.
    pub const TEST: Self = Self(4);
    /// Reports counters.
    pub const STAT: Self = Self(5);
    /// Moves bulk in either direction.
    pub const BULK: Self = Self(11);
    /// Answers pings.
    pub const PING: Self = Self(12);

    /// The services of the framework, on [`Self::FRAMEWORK_PORTAL`].
    pub const FRAMEWORK: [Self; 6] = [
        Self::DEBUG,
        Self::MAKE_SESSION,
        Self::REMOVE_SESSION,
        Self::BATCH,
        Self::TEST,
        Self::STAT,
    ];
    /// The services that tests load, on [`Self::TEST_PORTAL`].
    pub const TESTS: [Self; 2] = [Self::BULK, Self::PING];

    /// Portal of test services.
    pub const TEST_PORTAL: u32 = 50;
    /// Portal of framework services.
    pub const FRAMEWORK_PORTAL: u32 = 51;
    /// Portal of replies and bulk.
    pub const REPLY_PORTAL: u32 = 52;

    /// Returns the portal that the requests of this service go to.
    #[must_use]
    pub const fn portal(self) -> u32 {
        if self.0 < 10 {
            Self::FRAMEWORK_PORTAL
        } else {
            Self::TEST_PORTAL
        }
    }
}

/// The id of a session: its console, and the time at which the console began the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId {
    /// The console's NID in its 8-byte form.
    pub nid: u64,
    /// The time at which the session began, in milliseconds of the console's clock.
    pub stamp: i64,
}

impl SessionId {
    /// The id that stands for no session.
    pub const NONE: Self = Self {
        nid: u64::MAX,
        stamp: -1,
    };

    /// Reports whether the NID is the wildcard, which no console has.
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
    /// Length of the field of a name, in bytes.
    pub const LEN: usize = 32;
    /// The empty name.
    pub const EMPTY: Self = Self([0; Self::LEN]);

    /// Makes a name. Returns `None` if the text is empty, longer than 31 bytes, or contains a zero byte.
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
    /// Writes the name up to the first zero byte. A stranger may have chosen the bytes, so each byte that is
    /// not printable ASCII is written as `?`.
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

/// A message of selftest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The version: [`VERSION`], unless the sender uses another version.
    pub version: u32,
    /// Features of the session.
    pub features: u32,
    /// The body.
    pub body: Body,
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The length is not [`MESSAGE_LEN`].
    #[error("{0} bytes instead of {MESSAGE_LEN}")]
    Length(usize),
    /// The first word is not [`MAGIC`] in either byte order.
    #[error("magic {0:#010x} at offset 0 instead of {MAGIC:#010x}")]
    Magic(u32),
    /// The message type does not exist.
    #[error("unknown message type {0} at offset 8")]
    Type(u32),
}

impl Message {
    /// Makes a message of this version.
    #[must_use]
    pub const fn new(features: u32, body: Body) -> Self {
        Self {
            version: VERSION,
            features,
            body,
        }
    }

    /// Decodes a message, and returns it with the byte order of its sender.
    ///
    /// # Errors
    ///
    /// The length is wrong, the magic is wrong in both byte orders, or the message type is unknown.
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

    /// Encodes the message in the byte order in which Finerail sends.
    #[must_use]
    pub fn encode(&self) -> [u8; MESSAGE_LEN] {
        self.encode_in(Order::Little)
    }

    /// Encodes the message in this byte order.
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

/// Length of a process id in a list of destinations, in bytes.
pub const PROCESS_LEN: usize = 12;

/// The limit of destinations of one test: longer lists lose bytes at the page ends of kernel consoles.
// [LST-15]
pub const DESTINATIONS_MAX: usize = 341;

/// Encodes the list of a test's destinations, which a client fetches. Returns `None` if a destination has a
/// large NID, because the list has no room for it.
#[must_use]
pub fn encode_destinations(destinations: &[ProcessId]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(destinations.len() * PROCESS_LEN);
    for destination in destinations {
        bytes.extend_from_slice(&destination.nid.to_nid4()?.to_le_bytes());
        bytes.extend_from_slice(&destination.pid.to_le_bytes());
    }
    Some(bytes)
}

/// Decodes a list of destinations. Returns `None` if the length does not fit, or if an entry is not a NID or is
/// the wildcard.
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

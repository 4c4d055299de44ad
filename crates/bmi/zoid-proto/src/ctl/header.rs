//! The headers of commands and replies.

use std::fmt;

use super::CTL_MESSAGE_LEN;
use crate::bytes::{Reader, Writer, in_range};
use crate::error::{DecodeError, EncodeError, Problem};
use crate::status::Status;

const REQUEST_MAGIC: u32 = u32::from_le_bytes(*b"ZBM1");
const REPLY_MAGIC: u32 = u32::from_le_bytes(*b"ZBR1");
const VERSION: u16 = 1;
const NO_SLOT: u32 = u32::MAX;
const REPLY_BIT: u16 = 0x8000;
const SPILL: u64 = 1;

/// The code of a command. Unknown values are kept and printed as numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(pub u16);

impl Opcode {
    /// Attach a server.
    pub const INIT: Self = Self(1);
    /// Fetch unexpected messages that have arrived.
    pub const UNEXP_TEST: Self = Self(2);
    /// Free the memory of an unexpected message.
    pub const UNEXP_FREE: Self = Self(3);
    /// Register a send.
    pub const POST_SEND: Self = Self(4);
    /// Register a receive.
    pub const POST_RECV: Self = Self(5);
    /// Collect completed operations.
    pub const TEST: Self = Self(6);
    /// Unregister an operation.
    pub const CANCEL: Self = Self(7);
    /// Detach the server.
    pub const FINI: Self = Self(8);
    /// Read counters.
    pub const STAT: Self = Self(9);
    /// Forget a client's address.
    pub const DROP_PEER: Self = Self(10);
    /// End every sleeping test of the session.
    pub const WAKE: Self = Self(11);
    /// Unregister an operation that was posted without a reply slot, by the server's id.
    pub const RECALL: Self = Self(12);
    /// The highest command.
    pub const LAST: Self = Self::RECALL;

    const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::INIT => "INIT",
            Self::UNEXP_TEST => "UNEXP_TEST",
            Self::UNEXP_FREE => "UNEXP_FREE",
            Self::POST_SEND => "POST_SEND",
            Self::POST_RECV => "POST_RECV",
            Self::TEST => "TEST",
            Self::CANCEL => "CANCEL",
            Self::FINI => "FINI",
            Self::STAT => "STAT",
            Self::DROP_PEER => "DROP_PEER",
            Self::WAKE => "WAKE",
            Self::RECALL => "RECALL",
            _ => return None,
        })
    }

    /// Returns the name for error messages; a general one for an unknown command.
    pub(crate) const fn what(self) -> &'static str {
        match self.name() {
            Some(name) => name,
            None => "command",
        }
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "opcode {}", self.0),
        }
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The header of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The command.
    pub opcode: Opcode,
    /// The length of the command in bytes, including the header.
    pub len: u32,
    /// The slot of the reply queue; none for commands without an answer.
    pub slot: Option<u32>,
    /// The server's session; 0 in INIT only.
    pub session: u64,
    /// Increases with each command of a slot.
    pub sequence: u64,
    /// Whether the command's list is in the segment.
    pub spilled: bool,
}

impl RequestHeader {
    /// The length of the header in bytes.
    pub const LEN: usize = 40;

    /// Decodes the header of the command that fills `message`.
    ///
    /// # Errors
    ///
    /// An input that is too short or too long, a wrong magic or version, or a length that differs from that
    /// of `message`. An unknown opcode is accepted here.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new("command header", message);
        check_start(&reader, message.len(), REQUEST_MAGIC)?;
        let slot = reader.u32(12)?;
        Ok(Self {
            opcode: Opcode(reader.u16(6)?),
            len: reader.u32(8)?,
            slot: (slot != NO_SLOT).then_some(slot),
            session: reader.u64(16)?,
            sequence: reader.u64(24)?,
            spilled: reader.u64(32)? & SPILL != 0,
        })
    }

    pub(crate) fn encode(&self, buffer: &mut [u8]) -> Result<(), EncodeError> {
        Writer::new(buffer, Self::LEN)?
            .u32(REQUEST_MAGIC)
            .u16(VERSION)
            .u16(self.opcode.0)
            .u32(self.len)
            .u32(self.slot.unwrap_or(NO_SLOT))
            .u64(self.session)
            .u64(self.sequence)
            .u64(u64::from(self.spilled) * SPILL);
        Ok(())
    }
}

/// The header of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The command that this reply answers.
    pub opcode: Opcode,
    /// The length of the reply in bytes, including the header.
    pub len: u32,
    /// [`Status::NONE`], or an error; a reply with an error has no body.
    pub status: Status,
    /// The session; in an INIT reply, the new session.
    pub session: u64,
    /// The sequence of the command.
    pub sequence: u64,
    /// The daemon's epoch.
    pub epoch: u64,
}

impl ReplyHeader {
    /// The length of the header in bytes.
    pub const LEN: usize = 40;

    /// Decodes the header of the reply that fills `message`.
    ///
    /// # Errors
    ///
    /// An input that is too short or too long, a wrong magic or version, an opcode that is not a reply's, or
    /// a length that differs from that of `message`.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new("reply header", message);
        check_start(&reader, message.len(), REPLY_MAGIC)?;
        let opcode = reader.u16(6)?;
        if opcode & REPLY_BIT == 0 {
            let problem = Problem::UnknownValue {
                field: "reply opcode",
                value: opcode.into(),
            };
            return Err(reader.error(6, problem));
        }
        Ok(Self {
            opcode: Opcode(opcode & !REPLY_BIT),
            len: reader.u32(8)?,
            status: Status(reader.i32(12)?),
            session: reader.u64(16)?,
            sequence: reader.u64(24)?,
            epoch: reader.u64(32)?,
        })
    }

    /// Returns the header of a reply without a body: `status` in answer to this command.
    #[must_use]
    pub const fn rejection(request: &RequestHeader, status: Status, epoch: u64) -> Self {
        Self {
            opcode: request.opcode,
            len: Self::LEN as u32,
            status,
            session: request.session,
            sequence: request.sequence,
            epoch,
        }
    }

    /// Writes the header and returns its length. [`Reply::encode`](super::Reply::encode) writes header and
    /// body.
    ///
    /// # Errors
    ///
    /// The buffer is too short.
    pub fn encode(&self, buffer: &mut [u8]) -> Result<usize, EncodeError> {
        Writer::new(buffer, Self::LEN)?
            .u32(REPLY_MAGIC)
            .u16(VERSION)
            .u16(self.opcode.0 | REPLY_BIT)
            .u32(self.len)
            .i32(self.status.0)
            .u64(self.session)
            .u64(self.sequence)
            .u64(self.epoch);
        Ok(Self::LEN)
    }
}

/// Checks the fields that both headers begin with: length, magic, version.
fn check_start(reader: &Reader<'_>, len: usize, magic: u32) -> Result<(), DecodeError> {
    reader.require(RequestHeader::LEN)?;
    if len > CTL_MESSAGE_LEN {
        let surplus = len - CTL_MESSAGE_LEN;
        return Err(reader.error(CTL_MESSAGE_LEN, Problem::TooLong { surplus }));
    }
    let found = reader.u32(0)?;
    if found != magic {
        return Err(reader.error(0, Problem::BadMagic(found.into())));
    }
    let version = reader.u16(4)?;
    if version != VERSION {
        return Err(reader.error(4, Problem::UnknownVersion(version.into())));
    }
    let len = len as u64;
    in_range(reader, 8, "length", reader.u32(8)?.into(), (len, len))?;
    Ok(())
}

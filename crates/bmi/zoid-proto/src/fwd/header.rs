//! The header of every frame.

use std::fmt;

use bitflags::bitflags;

use super::{MAX_BODY, MAX_CHUNK};
use crate::bytes::{Reader, Writer, at_most, in_range};
use crate::error::{DecodeError, EncodeError, Problem};
use crate::status::Status;

const WHAT: &str = "frame header";
const MAGIC: u32 = u32::from_le_bytes(*b"ZFW1");
const VERSION: u8 = 1;
const CHECKSUM_AT: usize = 20;

/// The type of a frame. Unknown values are kept and printed as numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameType(pub u8);

impl FrameType {
    /// Client: identifies itself.
    pub const HELLO: Self = Self(1);
    /// Daemon: accepts the client and states the limits.
    pub const WELCOME: Self = Self(2);
    /// Client: requests to send a message.
    pub const SEND_REQ: Self = Self(3);
    /// Daemon: a buffer is reserved; send the message.
    pub const GRANT: Self = Self(4);
    /// Either: payload.
    pub const DATA: Self = Self(5);
    /// Client: the granted buffer will not be filled.
    pub const ABORT: Self = Self(6);
    /// Daemon: the result of a send.
    pub const SEND_DONE: Self = Self(7);
    /// Client: requests a message for a buffer.
    pub const RECV_REQ: Self = Self(8);
    /// Daemon: a message follows, or the error.
    pub const RECV_REPLY: Self = Self(9);
    /// Client: the message has arrived, or why it was not accepted.
    pub const RECV_ACK: Self = Self(10);
    /// Client: asks which of several operations would succeed.
    pub const TEST_REQ: Self = Self(11);
    /// Daemon: answers TEST_REQ.
    pub const TEST_REPLY: Self = Self(12);
    /// Client: answer the request with this id now.
    pub const WAKE: Self = Self(13);
    /// Daemon: notifies the client of a change.
    pub const EVENT: Self = Self(14);
    /// Either: requests a PONG.
    pub const PING: Self = Self(15);
    /// Either: answers PING.
    pub const PONG: Self = Self(16);
    /// Client: leaves.
    pub const BYE: Self = Self(17);
    /// Client: the message's memory in the client.
    pub const PLACES: Self = Self(18);
    /// Client: requests to send a short message, and includes it.
    pub const SEND_INLINE: Self = Self(19);

    const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::HELLO => "HELLO",
            Self::WELCOME => "WELCOME",
            Self::SEND_REQ => "SEND_REQ",
            Self::GRANT => "GRANT",
            Self::DATA => "DATA",
            Self::ABORT => "ABORT",
            Self::SEND_DONE => "SEND_DONE",
            Self::RECV_REQ => "RECV_REQ",
            Self::RECV_REPLY => "RECV_REPLY",
            Self::RECV_ACK => "RECV_ACK",
            Self::TEST_REQ => "TEST_REQ",
            Self::TEST_REPLY => "TEST_REPLY",
            Self::WAKE => "WAKE",
            Self::EVENT => "EVENT",
            Self::PING => "PING",
            Self::PONG => "PONG",
            Self::BYE => "BYE",
            Self::PLACES => "PLACES",
            Self::SEND_INLINE => "SEND_INLINE",
            _ => return None,
        })
    }

    /// Returns the name for error messages; a general one for an unknown type.
    pub(crate) const fn what(self) -> &'static str {
        match self.name() {
            Some(name) => name,
            None => "frame",
        }
    }

    /// Returns the most payload of a frame of this type in bytes: DATA a chunk, SEND_REQ an unexpected
    /// message against a credit, all others none.
    const fn max_payload(self) -> u64 {
        match self {
            Self::DATA | Self::SEND_REQ => MAX_CHUNK,
            _ => 0,
        }
    }
}

impl fmt::Display for FrameType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "frame type {}", self.0),
        }
    }
}

impl fmt::Debug for FrameType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

bitflags! {
    /// Flags of a frame. Unknown bits are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct FrameFlags: u16 {
        /// SEND_REQ: the message follows as payload, against a credit.
        const INLINE = 1;
        const _ = !0;
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The type of the frame.
    pub frame_type: FrameType,
    /// The flags.
    pub flags: FrameFlags,
    /// The request that the frame belongs to: chosen by the client, increasing, not 0. It is 0 in frames
    /// without a request.
    pub request: u32,
    /// In replies: 1, 0 or an error.
    pub status: Status,
    /// The length of the body in bytes.
    pub body_len: u32,
    /// The length of the payload after the body in bytes.
    pub payload_len: u64,
}

impl FrameHeader {
    /// The length of the header in bytes.
    pub const LEN: usize = 32;

    /// Creates the header of a frame without body and payload.
    #[must_use]
    pub const fn new(frame_type: FrameType, request: u32) -> Self {
        Self {
            frame_type,
            flags: FrameFlags::empty(),
            request,
            status: Status::NONE,
            body_len: 0,
            payload_len: 0,
        }
    }

    /// Returns the same header with another status.
    #[must_use]
    pub const fn with_status(self, status: Status) -> Self {
        Self { status, ..self }
    }

    /// Decodes the header at the start of `bytes`; later bytes are ignored. An unknown type is accepted here
    /// if it has no payload.
    ///
    /// # Errors
    ///
    /// A short input; a wrong magic, version or checksum; a body or payload that is too long.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new(WHAT, bytes);
        reader.require(Self::LEN)?;
        let magic = reader.u32(0)?;
        if magic != MAGIC {
            return Err(reader.error(0, Problem::BadMagic(magic.into())));
        }
        let version = reader.u8(4)?;
        if version != VERSION {
            return Err(reader.error(4, Problem::UnknownVersion(version.into())));
        }
        // [FWD-2]
        let (found, computed) = (reader.u32(CHECKSUM_AT)?, checksum(&reader.array(0)?));
        if found != 0 && found != computed {
            return Err(reader.error(CHECKSUM_AT, Problem::BadChecksum { found, computed }));
        }
        let frame_type = FrameType(reader.u8(5)?);
        let body_len = reader.u32(16)?;
        in_range(
            &reader,
            16,
            "body length",
            body_len.into(),
            (0, MAX_BODY.into()),
        )?;
        let payload = reader.u64(24)?;
        let max = frame_type.max_payload();
        Ok(Self {
            frame_type,
            flags: FrameFlags::from_bits_retain(reader.u16(6)?),
            request: reader.u32(8)?,
            status: Status(reader.i32(12)?),
            body_len,
            payload_len: in_range(&reader, 24, "payload length", payload, (0, max))?,
        })
    }

    /// Rejects lengths that receivers would reject.
    pub(crate) fn check(&self) -> Result<(), EncodeError> {
        at_most("body length", self.body_len.into(), MAX_BODY.into())?;
        at_most(
            "payload length",
            self.payload_len,
            self.frame_type.max_payload(),
        )
    }

    /// Writes the header with its checksum.
    // [FWD-1]
    pub(crate) fn encode(&self, buffer: &mut [u8]) -> Result<(), EncodeError> {
        let mut bytes = [0; Self::LEN];
        Writer::new(&mut bytes, Self::LEN)?
            .u32(MAGIC)
            .u8(VERSION)
            .u8(self.frame_type.0)
            .u16(self.flags.bits())
            .u32(self.request)
            .i32(self.status.0)
            .u32(self.body_len)
            .u32(0)
            .u64(self.payload_len);
        let sum = checksum(&bytes).to_le_bytes();
        let (before, rest) = bytes.split_at(CHECKSUM_AT);
        Writer::new(buffer, Self::LEN)?
            .bytes(before)
            .bytes(&sum)
            .bytes(rest.get(sum.len()..).unwrap_or_default());
        Ok(())
    }
}

/// Returns the crc32c of bytes 0..20 and 24..32: everything but the checksum itself.
fn checksum(header: &[u8; FrameHeader::LEN]) -> u32 {
    let (before, rest) = header.split_at(CHECKSUM_AT);
    crc32c::crc32c_append(crc32c::crc32c(before), rest.get(4..).unwrap_or_default())
}

//! The bodies of the frames that move messages.
//!
//! ```text
//!  SEND_REQ    kind u8, class u8, 0 u16, tag i32, total u64, timeout ms i32, 0 u32, order u64
//!  SEND_INLINE what SEND_REQ has, the message
//!  RECV_REQ    tag i32, 0 u32, capacity u64, timeout ms i32, 0 u32, order u64
//!  GRANT       grant u64, mode u8, 0 [7]; modes: 0 stream, 2 the client's memory (see PLACES)
//!  RECV_REPLY  total u64, grant u64, mode u8, 0 [7]
//!  DATA        grant u64, offset u64; payload
//! ```

use super::INLINE_MAX;
use crate::bytes::{Reader, Writer, at_most, check_milliseconds, in_range};
use crate::error::{DecodeError, EncodeError, Problem};

/// Whether the receiver must have posted a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageKind {
    /// A posted receive must match.
    Expected,
    /// No posted receive is needed.
    Unexpected,
}

impl MessageKind {
    pub(crate) fn decode(reader: &Reader<'_>, at: usize) -> Result<Self, DecodeError> {
        match reader.u8(at)? {
            0 => Ok(Self::Expected),
            1 => Ok(Self::Unexpected),
            value => Err(unknown(reader, at, "kind", value)),
        }
    }

    pub(crate) const fn to_wire(self) -> u8 {
        match self {
            Self::Expected => 0,
            Self::Unexpected => 1,
        }
    }
}

/// Requests to send a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendReq {
    /// Which kind of message.
    pub kind: MessageKind,
    /// Its class; used for unexpected messages only.
    pub class: u8,
    /// Its tag.
    pub tag: i32,
    /// Its length in bytes.
    pub total: u64,
    /// How long to wait for a buffer, in milliseconds.
    pub timeout_ms: u32,
    /// The number of the client's post; a request that is repeated after a reconnection has the same number.
    pub order: u64,
}

impl SendReq {
    pub(crate) const LEN: usize = 32;

    pub(crate) fn decode(reader: &Reader<'_>) -> Result<Self, DecodeError> {
        reader.require_exactly(Self::LEN)?;
        Self::decode_fixed(reader)
    }

    fn decode_fixed(reader: &Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            kind: MessageKind::decode(reader, 0)?,
            class: reader.u8(1)?,
            tag: reader.i32(4)?,
            total: reader.u64(8)?,
            timeout_ms: reader.milliseconds(16, "timeout ms")?,
            order: reader.u64(24)?,
        })
    }

    pub(crate) fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        check_milliseconds(self.timeout_ms)?;
        Writer::new(body, Self::LEN)?
            .u8(self.kind.to_wire())
            .u8(self.class)
            .reserved(2)
            .i32(self.tag)
            .u64(self.total)
            .u32(self.timeout_ms)
            .reserved(4)
            .u64(self.order);
        Ok(())
    }
}

/// Requests to send a short message, and includes it.
///
/// The daemon puts the message into the buffer that waits for it, or into memory reserved for the short
/// messages of this client until there is a buffer. The answer is SEND_DONE, never GRANT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendInline<'a> {
    /// The fields of SEND_REQ.
    pub request: SendReq,
    /// The whole message, at most [`INLINE_MAX`] bytes.
    pub message: &'a [u8],
}

impl<'a> SendInline<'a> {
    pub(crate) fn decode(reader: &Reader<'a>) -> Result<Self, DecodeError> {
        let request = SendReq::decode_fixed(reader)?;
        let message = reader.tail(SendReq::LEN);
        let found = message.len() as u64;
        in_range(reader, 8, "total", request.total, (0, INLINE_MAX as u64))?;
        if found != request.total {
            let (field, said) = ("total", request.total);
            return Err(reader.error(8, Problem::Contradiction { field, said, found }));
        }
        Ok(Self { request, message })
    }

    pub(crate) fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        at_most(
            "message length",
            self.message.len() as u64,
            INLINE_MAX as u64,
        )?;
        let (fixed, rest) = body.split_at_mut_checked(SendReq::LEN).unwrap_or_default();
        self.request.encode(fixed)?;
        Writer::new(rest, self.message.len())?.bytes(self.message);
        Ok(())
    }

    pub(crate) const fn encoded_len(&self) -> usize {
        SendReq::LEN + self.message.len()
    }
}

/// Requests a message for a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvReq {
    /// The message's tag.
    pub tag: i32,
    /// The length of the buffer in bytes.
    pub capacity: u64,
    /// How long to wait for a message, in milliseconds.
    pub timeout_ms: u32,
    /// The number of the client's post.
    pub order: u64,
}

impl RecvReq {
    pub(crate) const LEN: usize = 32;

    pub(crate) fn decode(reader: &Reader<'_>) -> Result<Self, DecodeError> {
        reader.require_exactly(Self::LEN)?;
        Ok(Self {
            tag: reader.i32(0)?,
            capacity: reader.u64(8)?,
            timeout_ms: reader.milliseconds(16, "timeout ms")?,
            order: reader.u64(24)?,
        })
    }

    pub(crate) fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        check_milliseconds(self.timeout_ms)?;
        Writer::new(body, Self::LEN)?
            .i32(self.tag)
            .reserved(4)
            .u64(self.capacity)
            .u32(self.timeout_ms)
            .reserved(4)
            .u64(self.order);
        Ok(())
    }
}

/// The modes on the wire. 1 is not used any more.
const STREAM: u8 = 0;
const MEMORY: u8 = 2;

/// How the bytes of a granted transfer travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In DATA frames.
    Stream,
    /// By a copy by the daemon out of or into memory that the client names with PLACES.
    Memory,
}

impl Place {
    /// The length of the mode with its padding in bytes.
    const LEN: usize = 8;

    /// Decodes the mode at `at`, which ends the body.
    fn decode(reader: &Reader<'_>, at: usize) -> Result<Self, DecodeError> {
        reader.require_exactly(at + Self::LEN)?;
        match reader.u8(at)? {
            STREAM => Ok(Self::Stream),
            MEMORY => Ok(Self::Memory),
            value => Err(unknown(reader, at, "mode", value)),
        }
    }

    const fn mode(self) -> u8 {
        match self {
            Self::Stream => STREAM,
            Self::Memory => MEMORY,
        }
    }
}

/// A buffer is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The transfer.
    pub grant: u64,
    /// How its bytes travel.
    pub place: Place,
}

impl Grant {
    pub(crate) const LEN: usize = 8 + Place::LEN;

    pub(crate) fn decode(reader: &Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            place: Place::decode(reader, 8)?,
            grant: reader.u64(0)?,
        })
    }

    pub(crate) fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        Writer::new(body, Self::LEN)?
            .u64(self.grant)
            .u8(self.place.mode())
            .reserved(7);
        Ok(())
    }
}

/// Answers [`RecvReq`]. The numbers mean something only if the header's status is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvReply {
    /// The length of the message in bytes.
    pub total: u64,
    /// The transfer, for DATA and RECV_ACK.
    pub grant: u64,
    /// How its bytes travel.
    pub place: Place,
}

impl RecvReply {
    /// The body of a reply without a message.
    pub const NOTHING: Self = Self {
        total: 0,
        grant: 0,
        place: Place::Stream,
    };

    pub(crate) const LEN: usize = 16 + Place::LEN;

    pub(crate) fn decode(reader: &Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            place: Place::decode(reader, 16)?,
            total: reader.u64(0)?,
            grant: reader.u64(8)?,
        })
    }

    pub(crate) fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        Writer::new(body, Self::LEN)?
            .u64(self.total)
            .u64(self.grant)
            .u8(self.place.mode())
            .reserved(7);
        Ok(())
    }
}

/// A piece of a message; its bytes are the frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// The transfer.
    pub grant: u64,
    /// The number of bytes of the message before this piece.
    pub offset: u64,
}

impl Data {
    pub(crate) const LEN: usize = 16;

    pub(crate) fn decode(reader: &Reader<'_>) -> Result<Self, DecodeError> {
        reader.require_exactly(Self::LEN)?;
        Ok(Self {
            grant: reader.u64(0)?,
            offset: reader.u64(8)?,
        })
    }

    pub(crate) fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        Writer::new(body, Self::LEN)?
            .u64(self.grant)
            .u64(self.offset);
        Ok(())
    }
}

pub(crate) fn unknown(
    reader: &Reader<'_>,
    at: usize,
    field: &'static str,
    value: u8,
) -> DecodeError {
    let value = value.into();
    reader.error(at, Problem::UnknownValue { field, value })
}

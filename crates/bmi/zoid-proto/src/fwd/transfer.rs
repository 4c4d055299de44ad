//! The bodies of the frames that move messages.
//!
//! ```text
//!  SEND_REQ    kind u8, class u8, 0 u16, tag i32, total u64, timeout ms i32, 0 u32, order u64
//!  SEND_INLINE what SEND_REQ has, the message
//!  RECV_REQ    tag i32, 0 u32, capacity u64, timeout ms i32, 0 u32, order u64
//!  GRANT       grant u64, mode u8, 0 [3], count u32, {offset u64, length u64} of the segment ...
//!              modes: 0 stream, 1 segment, 2 the client's memory (see PLACES)
//!  RECV_REPLY  total u64, grant u64, mode u8, 0 [3], count u32, {offset u64, length u64} ...
//!  DATA        grant u64, offset u64; payload
//! ```

use super::{INLINE_MAX, MAX_BODY};
use crate::bytes::{Reader, Writer, at_most, check_milliseconds, in_range};
use crate::error::{DecodeError, EncodeError, Problem};
use crate::list::List;
use crate::segment::Extent;

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

/// The modes on the wire.
const STREAM: u8 = 0;
const SHARED: u8 = 1;
const MEMORY: u8 = 2;

/// How the bytes of a granted transfer travel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place<'a> {
    /// In DATA frames.
    Stream,
    /// By a copy by the client into or out of these places of the segment, in order.
    Shared(List<'a, Extent>),
    /// By a copy by the daemon out of or into memory that the client names with PLACES.
    Memory,
}

impl<'a> Place<'a> {
    /// Returns the length of mode, count and list in bytes.
    const fn encoded_len(&self) -> usize {
        8 + match self {
            Self::Stream | Self::Memory => 0,
            Self::Shared(segments) => segments.encoded_len(),
        }
    }

    /// Decodes mode, count and list from `at` to the end of the body.
    fn decode(reader: &Reader<'a>, at: usize) -> Result<Self, DecodeError> {
        reader.require(at + 8)?;
        let mode = reader.u8(at)?;
        let max = match mode {
            STREAM | MEMORY => 0,
            SHARED => u64::from(MAX_BODY) / Extent::LEN as u64,
            value => return Err(unknown(reader, at, "mode", value)),
        };
        let count = u64::from(reader.u32(at + 4)?);
        let count = in_range(reader, at + 4, "segment count", count, (0, max))?;
        reader.require_exactly(at + 8 + count as usize * Extent::LEN)?;
        match mode {
            STREAM => return Ok(Self::Stream),
            MEMORY => return Ok(Self::Memory),
            _ => {}
        }
        List::decode("", reader.tail(at + 8))
            .map(Self::Shared)
            .map_err(|error| reader.error(at + 8 + error.offset, error.problem))
    }

    fn encode(&self, buffer: &mut [u8]) -> Result<(), EncodeError> {
        let (mode, segments) = match self {
            Self::Stream => (STREAM, List::new(&[])),
            Self::Shared(segments) => (SHARED, *segments),
            Self::Memory => (MEMORY, List::new(&[])),
        };
        let count = segments.len() as u64;
        at_most(
            "segment count",
            count,
            u64::from(MAX_BODY) / Extent::LEN as u64,
        )?;
        Writer::new(buffer, 8)?
            .u8(mode)
            .reserved(3)
            .u32(count as u32);
        segments.encode(buffer.get_mut(8..).unwrap_or_default())?;
        Ok(())
    }
}

/// A buffer is reserved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grant<'a> {
    /// The transfer.
    pub grant: u64,
    /// How its bytes travel.
    pub place: Place<'a>,
}

impl<'a> Grant<'a> {
    pub(crate) const fn encoded_len(&self) -> usize {
        8 + self.place.encoded_len()
    }

    pub(crate) fn decode(reader: &Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            place: Place::decode(reader, 8)?,
            grant: reader.u64(0)?,
        })
    }

    pub(crate) fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        Writer::new(body, 8)?.u64(self.grant);
        self.place.encode(body.get_mut(8..).unwrap_or_default())
    }
}

/// Answers [`RecvReq`]. The numbers mean something only if the header's status is 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecvReply<'a> {
    /// The length of the message in bytes.
    pub total: u64,
    /// The transfer, for DATA and RECV_ACK.
    pub grant: u64,
    /// How its bytes travel.
    pub place: Place<'a>,
}

impl<'a> RecvReply<'a> {
    /// The body of a reply without a message.
    pub const NOTHING: Self = Self {
        total: 0,
        grant: 0,
        place: Place::Stream,
    };

    pub(crate) const fn encoded_len(&self) -> usize {
        16 + self.place.encoded_len()
    }

    pub(crate) fn decode(reader: &Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            place: Place::decode(reader, 16)?,
            total: reader.u64(0)?,
            grant: reader.u64(8)?,
        })
    }

    pub(crate) fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        Writer::new(body, 16)?.u64(self.total).u64(self.grant);
        self.place.encode(body.get_mut(16..).unwrap_or_default())
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

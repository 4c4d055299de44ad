//! The bodies of TEST_REQ and TEST_REPLY.
//!
//! ```text
//!  TEST_REQ    timeout ms i32, count u32, entries: { tag i32, direction u8, kind u8, class u8, 0 u8,
//!                                                    size i64, multiplicity u32, 0 u32 } ...
//!  TEST_REPLY  ready entries u32, count u32, then for each entry how many are ready, u32 ...
//! ```

use super::MAX_BODY;
use super::transfer::{MessageKind, unknown};
use crate::bytes::{Reader, Writer, at_most, check_milliseconds, in_range, out_of_range};
use crate::error::{DecodeError, EncodeError};
use crate::list::{Item, List};

/// The direction on the wire.
const SEND: u8 = 1;
const RECV: u8 = 2;

/// The size in entries of expected operations, which is ignored.
const ANY_SIZE: i64 = -1;

/// Operations with one key that the client wants to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestEntry {
    /// Expected sends with this tag.
    Send {
        /// The tag.
        tag: i32,
        /// The number of operations.
        multiplicity: u32,
    },
    /// Receives with this tag.
    Recv {
        /// The tag.
        tag: i32,
        /// The number of operations.
        multiplicity: u32,
    },
    /// Unexpected sends, each of this size.
    Unexpected {
        /// The tag.
        tag: i32,
        /// The class.
        class: u8,
        /// The length of each message in bytes.
        size: u64,
        /// The number of operations.
        multiplicity: u32,
    },
}

impl TestEntry {
    /// Returns the number of operations that the entry stands for.
    #[must_use]
    pub const fn multiplicity(&self) -> u32 {
        match self {
            Self::Send { multiplicity, .. }
            | Self::Recv { multiplicity, .. }
            | Self::Unexpected { multiplicity, .. } => *multiplicity,
        }
    }
}

impl Item for TestEntry {
    const LEN: usize = 24;

    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new("test entry", bytes);
        let tag = reader.i32(0)?;
        let kind = MessageKind::decode(&reader, 5)?;
        let size = reader.i64(8)?;
        let multiplicity = reader.u32(16)?;
        in_range(
            &reader,
            16,
            "multiplicity",
            multiplicity.into(),
            (1, u32::MAX.into()),
        )?;
        let range = |min: i64, max: i64| {
            let problem = out_of_range("size", size.into(), min.into(), max.into());
            reader.error(8, problem)
        };
        match (reader.u8(4)?, kind) {
            (SEND, MessageKind::Unexpected) => Ok(Self::Unexpected {
                tag,
                class: reader.u8(6)?,
                size: u64::try_from(size).map_err(|_| range(0, i64::MAX))?,
                multiplicity,
            }),
            (SEND | RECV, MessageKind::Expected) if size != ANY_SIZE => {
                Err(range(ANY_SIZE, ANY_SIZE))
            }
            (SEND, MessageKind::Expected) => Ok(Self::Send { tag, multiplicity }),
            (RECV, MessageKind::Expected) => Ok(Self::Recv { tag, multiplicity }),
            (direction, _) => Err(unknown(&reader, 4, "direction", direction)),
        }
    }

    fn write(&self, buffer: &mut [u8]) -> Result<(), EncodeError> {
        let (direction, kind, class, tag, size) = match *self {
            Self::Send { tag, .. } => (SEND, MessageKind::Expected, 0, tag, ANY_SIZE),
            Self::Recv { tag, .. } => (RECV, MessageKind::Expected, 0, tag, ANY_SIZE),
            Self::Unexpected {
                tag, class, size, ..
            } => {
                at_most("size", size, i64::MAX.unsigned_abs())?;
                (
                    SEND,
                    MessageKind::Unexpected,
                    class,
                    tag,
                    size.cast_signed(),
                )
            }
        };
        Writer::new(buffer, Self::LEN)?
            .i32(tag)
            .u8(direction)
            .u8(kind.to_wire())
            .u8(class)
            .reserved(1)
            .i64(size)
            .u32(self.multiplicity())
            .reserved(4);
        Ok(())
    }
}

/// Asks which operations would succeed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestReq<'a> {
    /// How long to wait if none would succeed, in milliseconds.
    pub timeout_ms: u32,
    /// The operations, oldest first.
    pub entries: List<'a, TestEntry>,
}

impl<'a> TestReq<'a> {
    /// The most entries in one frame.
    pub const MAX_ENTRIES: usize = (MAX_BODY as usize - 8) / TestEntry::LEN;

    pub(crate) const fn encoded_len(&self) -> usize {
        8 + self.entries.encoded_len()
    }

    pub(crate) fn decode(reader: &Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            entries: decode_list(reader, Self::MAX_ENTRIES)?,
            timeout_ms: reader.milliseconds(0, "timeout ms")?,
        })
    }

    pub(crate) fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        check_milliseconds(self.timeout_ms)?;
        encode_list(self.timeout_ms, &self.entries, Self::MAX_ENTRIES, body)
    }
}

/// The answer to [`TestReq`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Readiness<'a> {
    /// The total number of operations that would succeed.
    pub ready: u32,
    /// The number for each entry, in the order of the request.
    pub counts: List<'a, u32>,
}

impl<'a> Readiness<'a> {
    pub(crate) const fn encoded_len(&self) -> usize {
        8 + self.counts.encoded_len()
    }

    pub(crate) fn decode(reader: &Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            counts: decode_list(reader, TestReq::MAX_ENTRIES)?,
            ready: reader.u32(0)?,
        })
    }

    pub(crate) fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        encode_list(self.ready, &self.counts, TestReq::MAX_ENTRIES, body)
    }
}

/// Decodes a list whose length is at offset 4 and whose items start at offset 8.
fn decode_list<'a, T: Item>(reader: &Reader<'a>, max: usize) -> Result<List<'a, T>, DecodeError> {
    reader.require(8)?;
    let count = in_range(reader, 4, "count", reader.u32(4)?.into(), (0, max as u64))?;
    reader.require_exactly(8 + count as usize * T::LEN)?;
    List::decode("", reader.tail(8)).map_err(|error| reader.error(8 + error.offset, error.problem))
}

fn encode_list<T: Item>(
    first: u32,
    list: &List<'_, T>,
    max: usize,
    body: &mut [u8],
) -> Result<(), EncodeError> {
    at_most("count", list.len() as u64, max as u64)?;
    Writer::new(body, 8)?.u32(first).u32(list.len() as u32);
    list.encode(body.get_mut(8..).unwrap_or_default())?;
    Ok(())
}

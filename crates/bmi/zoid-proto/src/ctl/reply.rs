//! The bodies of replies. Offsets count from the start of the reply, including the header.

use super::header::{Opcode, ReplyHeader};
use super::{COMPLETIONS_PER_REPLY, COUNTERS_PER_REPLY, UNEXPECTED_PER_REPLY};
use crate::bytes::{Reader, Writer, at_most, in_range, out_of_range};
use crate::error::{DecodeError, EncodeError, Problem};
use crate::list::{Item, List};
use crate::status::Status;

const UNEXPECTED_PENDING: u32 = 1;
const WOKEN: u32 = 2;

/// The body of a reply without an error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reply<'a> {
    /// Answers INIT.
    Init(InitReply),
    /// Answers UNEXP_TEST with the messages, oldest first.
    UnexpectedTest(List<'a, UnexpectedMessage>),
    /// Answers POST_SEND and POST_RECV.
    Post(PostOutcome),
    /// Answers TEST.
    Test(TestReply<'a>),
    /// Answers STAT.
    Stat {
        /// The total number of counters.
        counters: u32,
        /// The values, from the requested index on.
        values: List<'a, u64>,
    },
    /// Answers commands that have only a status: FINI, DROP_PEER.
    Empty,
}

/// The parameters that a server receives when it attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitReply {
    /// Identifies the server in every further command.
    pub session: u64,
    /// The daemon's epoch.
    pub epoch: u64,
    /// The size of both regions in bytes.
    pub total: u64,
    /// The size of the unexpected region in bytes.
    pub unexpected: u64,
    /// The longest unexpected message in bytes.
    pub max_unexpected: u64,
    /// The longest expected message in bytes.
    pub max_expected: u64,
    /// Milliseconds between the daemon's heartbeats.
    pub heartbeat_ms: u32,
    /// The most clients that the daemon serves.
    pub pset_capacity: u32,
}

/// An unexpected message in the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnexpectedMessage {
    /// The client's pset process id.
    pub peer: i32,
    /// Its tag.
    pub tag: i32,
    /// Its class.
    pub class: u8,
    /// Distinguishes successive clients with the same pset process id.
    pub generation: u32,
    /// Its offset in the unexpected region.
    pub offset: u64,
    /// Its length in bytes.
    pub size: u64,
}

impl Item for UnexpectedMessage {
    const LEN: usize = 32;

    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new("unexpected message", bytes);
        Ok(Self {
            peer: reader.i32(0)?,
            tag: reader.i32(4)?,
            class: reader.u8(8)?,
            generation: reader.u32(12)?,
            offset: reader.u64(16)?,
            size: reader.u64(24)?,
        })
    }

    fn write(&self, buffer: &mut [u8]) -> Result<(), EncodeError> {
        Writer::new(buffer, Self::LEN)?
            .i32(self.peer)
            .i32(self.tag)
            .u8(self.class)
            .reserved(3)
            .u32(self.generation)
            .u64(self.offset)
            .u64(self.size);
        Ok(())
    }
}

/// The outcome of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostOutcome {
    /// The plugin has no room for another operation; nothing was registered.
    NoMemory,
    /// The operation has completed.
    Immediate {
        /// The number of bytes moved.
        len: u64,
    },
    /// The operation is registered; a TEST reply will report its completion.
    Registered {
        /// The plugin's id of the operation, for CANCEL; 1 to 2^63 − 1.
        plugin_id: u64,
    },
}

/// The answer to a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestReply<'a> {
    /// An unexpected message waits.
    pub unexpected_pending: bool,
    /// WAKE ended the sleep.
    pub woken: bool,
    /// The operations that completed.
    pub completions: List<'a, Completion>,
}

/// A completed operation.
// [CTL-20]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The server's id of the operation.
    pub bmi_id: u64,
    /// The number of bytes moved, or the error.
    pub outcome: Result<u64, Status>,
}

impl Item for Completion {
    const LEN: usize = 16;

    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new("completion", bytes);
        let length = reader.i64(8)?;
        let outcome = match u64::try_from(length) {
            Ok(len) => Ok(len),
            Err(_) => Err(Status(i32::try_from(length).map_err(|_| {
                let min = i32::MIN.into();
                reader.error(
                    8,
                    out_of_range("length", length.into(), min, i64::MAX.into()),
                )
            })?)),
        };
        Ok(Self {
            bmi_id: reader.u64(0)?,
            outcome,
        })
    }

    fn write(&self, buffer: &mut [u8]) -> Result<(), EncodeError> {
        let length = match self.outcome {
            Ok(len) => {
                at_most("length", len, i64::MAX.unsigned_abs())?;
                len.cast_signed()
            }
            Err(status) => status.0.into(),
        };
        Writer::new(buffer, Self::LEN)?.u64(self.bmi_id).i64(length);
        Ok(())
    }
}

impl<'a> Reply<'a> {
    /// Decodes the body of the reply `message` with the given `header`. A reply with an error has an empty
    /// body.
    ///
    /// # Errors
    ///
    /// An opcode that is never answered (at offset 6); a length that does not match the body; a number
    /// outside its range.
    pub fn decode(header: &ReplyHeader, message: &'a [u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new(header.opcode.what(), message);
        if header.status.is_error() {
            return reader
                .require_exactly(ReplyHeader::LEN)
                .map(|()| Self::Empty);
        }
        match header.opcode {
            Opcode::INIT => decode_init(&reader).map(Self::Init),
            Opcode::UNEXP_TEST => {
                decode_list(&reader, 48, UNEXPECTED_PER_REPLY).map(Self::UnexpectedTest)
            }
            Opcode::POST_SEND | Opcode::POST_RECV => decode_post(&reader).map(Self::Post),
            Opcode::TEST => {
                let completions = decode_list(&reader, 48, COMPLETIONS_PER_REPLY)?;
                let flags = reader.u32(44)?;
                Ok(Self::Test(TestReply {
                    unexpected_pending: flags & UNEXPECTED_PENDING != 0,
                    woken: flags & WOKEN != 0,
                    completions,
                }))
            }
            Opcode::STAT => Ok(Self::Stat {
                values: decode_list(&reader, 48, COUNTERS_PER_REPLY)?,
                counters: reader.u32(44)?,
            }),
            Opcode::FINI | Opcode::DROP_PEER => reader
                .require_exactly(ReplyHeader::LEN)
                .map(|()| Self::Empty),
            Opcode(value) => {
                let (field, value) = ("reply opcode", value.into());
                Err(reader.error(6, Problem::UnknownValue { field, value }))
            }
        }
    }

    /// Returns the length of the whole reply in bytes.
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        ReplyHeader::LEN
            + match self {
                Self::Init(_) => 56,
                Self::UnexpectedTest(messages) => 8 + messages.encoded_len(),
                Self::Post(_) => 16,
                Self::Test(test) => 8 + test.completions.encoded_len(),
                Self::Stat { values, .. } => 8 + values.encoded_len(),
                Self::Empty => 0,
            }
    }

    /// Writes the reply, including the header, and returns its length. The length in `header` is ignored.
    ///
    /// # Errors
    ///
    /// The buffer is too short, or receivers would reject a list or number.
    pub fn encode(&self, header: ReplyHeader, buffer: &mut [u8]) -> Result<usize, EncodeError> {
        let needed = self.encoded_len();
        let available = buffer.len();
        let Some(buffer) = buffer.get_mut(..needed) else {
            return Err(EncodeError::BufferTooSmall { needed, available });
        };
        let len = needed as u32;
        ReplyHeader { len, ..header }.encode(buffer)?;
        self.encode_body(buffer.get_mut(ReplyHeader::LEN..).unwrap_or_default())?;
        Ok(needed)
    }

    fn encode_body(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        match self {
            Self::Init(init) => init.encode(body),
            Self::UnexpectedTest(messages) => encode_list(messages, 0, UNEXPECTED_PER_REPLY, body),
            Self::Post(outcome) => outcome.encode(body),
            Self::Test(test) => {
                let pending = u32::from(test.unexpected_pending) * UNEXPECTED_PENDING;
                let flags = pending | (u32::from(test.woken) * WOKEN);
                encode_list(&test.completions, flags, COMPLETIONS_PER_REPLY, body)
            }
            Self::Stat { counters, values } => {
                encode_list(values, *counters, COUNTERS_PER_REPLY, body)
            }
            Self::Empty => Ok(()),
        }
    }
}

impl InitReply {
    fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        let len = body.len();
        Writer::new(body, len)?
            .u64(self.session)
            .u64(self.epoch)
            .u64(self.total)
            .u64(self.unexpected)
            .u64(self.max_unexpected)
            .u64(self.max_expected)
            .u32(self.heartbeat_ms)
            .u32(self.pset_capacity);
        Ok(())
    }
}

impl PostOutcome {
    fn encode(self, body: &mut [u8]) -> Result<(), EncodeError> {
        let (id, length) = match self {
            Self::NoMemory => (0, 0),
            Self::Immediate { len } => (-1, len),
            Self::Registered { plugin_id } => {
                at_most("plugin id", plugin_id, i64::MAX.unsigned_abs())?;
                (plugin_id.cast_signed(), 0)
            }
        };
        at_most("length", length, i64::MAX.unsigned_abs())?;
        let len = body.len();
        Writer::new(body, len)?.i64(id).i64(length.cast_signed());
        Ok(())
    }
}

fn decode_init(reader: &Reader<'_>) -> Result<InitReply, DecodeError> {
    reader.require_exactly(96)?;
    Ok(InitReply {
        session: reader.u64(40)?,
        epoch: reader.u64(48)?,
        total: reader.u64(56)?,
        unexpected: reader.u64(64)?,
        max_unexpected: reader.u64(72)?,
        max_expected: reader.u64(80)?,
        heartbeat_ms: reader.u32(88)?,
        pset_capacity: reader.u32(92)?,
    })
}

fn decode_post(reader: &Reader<'_>) -> Result<PostOutcome, DecodeError> {
    reader.require_exactly(56)?;
    let (id, length) = (reader.i64(40)?, reader.i64(48)?);
    let range = |at, field, value: i64, min| {
        let max = i64::MAX.into();
        reader.error(at, out_of_range(field, value.into(), min, max))
    };
    Ok(match id {
        0 => PostOutcome::NoMemory,
        -1 => PostOutcome::Immediate {
            len: u64::try_from(length).map_err(|_| range(48, "length", length, 0))?,
        },
        _ => PostOutcome::Registered {
            plugin_id: u64::try_from(id).map_err(|_| range(40, "plugin id", id, -1))?,
        },
    })
}

/// Decodes a list of `count` (at offset 40) items from offset `at` to the end of the reply.
fn decode_list<'a, T: Item>(
    reader: &Reader<'a>,
    at: usize,
    max: usize,
) -> Result<List<'a, T>, DecodeError> {
    reader.require(at)?;
    let count = in_range(reader, 40, "count", reader.u32(40)?.into(), (0, max as u64))?;
    reader.require_exactly(at + count as usize * T::LEN)?;
    List::decode("", reader.tail(at))
        .map_err(|error| reader.error(at + error.offset, error.problem))
}

fn encode_list<T: Item>(
    list: &List<'_, T>,
    second: u32,
    max: usize,
    body: &mut [u8],
) -> Result<(), EncodeError> {
    at_most("count", list.len() as u64, max as u64)?;
    Writer::new(body, 8)?.u32(list.len() as u32).u32(second);
    list.encode(body.get_mut(8..).unwrap_or_default())?;
    Ok(())
}

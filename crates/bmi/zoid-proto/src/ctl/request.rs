//! The bodies of commands. Offsets count from the start of the command, including the header.

use super::header::{Opcode, RequestHeader};
use super::{CTL_MESSAGE_LEN, INLINE_IDS, INLINE_SEGMENTS};
use crate::bytes::{Reader, Writer, at_most, check_milliseconds, in_range, out_of_range};
use crate::error::{DecodeError, EncodeError, Problem};
use crate::list::{Array, List};
use crate::segment::Extent;

/// The offset of the reply queue's name in INIT.
pub(crate) const INIT_NAME_AT: usize = 54;

/// The longest reply queue name in INIT, in bytes: the system's limit.
const NAME_MAX: u64 = 255;

const NOT_IMMEDIATE: u32 = 1;
const WAKE_ON_UNEXPECTED: u32 = 1;
const DISCONNECT: u32 = 1;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request<'a> {
    /// Attach a server.
    Init(Init<'a>),
    /// Fetch unexpected messages that have arrived.
    UnexpectedTest(UnexpectedTest),
    /// Free the memory at `offset` of an unexpected message. No answer.
    UnexpectedFree {
        /// The offset from [`UnexpectedMessage`](super::UnexpectedMessage).
        offset: u64,
    },
    /// Register a send, or complete it at once.
    PostSend(Post<'a>),
    /// Register a receive, or complete it at once.
    PostRecv(Post<'a>),
    /// Collect completed operations.
    Test(Test<'a>),
    /// Unregister an operation, unless it is already matched. No answer.
    Cancel {
        /// The id from [`PostOutcome::Registered`](super::PostOutcome::Registered).
        plugin_id: u64,
    },
    /// Detach the server.
    Fini,
    /// Read counters.
    Stat {
        /// The index of the first counter to read.
        first: u32,
    },
    /// The server has forgotten this client's address, or disconnects the client.
    DropPeer {
        /// The client's pset process id.
        peer: i32,
        /// Whether to close the client's connection.
        disconnect: bool,
    },
    /// End every sleeping test of the session. No answer.
    Wake,
    /// RECALL: unregister an operation that was posted without a reply slot. No answer.
    Recall {
        /// The server's id of the operation.
        bmi_id: u64,
    },
}

/// The parameters of a server that attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init<'a> {
    /// The server's process id.
    pub unix_pid: u32,
    /// Its user id.
    pub uid: u32,
    /// The version of its library.
    pub library_version: u32,
    /// The name of the reply queue of slot 0; the names of the other slots follow from it.
    pub reply_queue: &'a str,
}

/// A request for unexpected messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnexpectedTest {
    /// The most messages that the caller takes, 1 or more.
    pub capacity: u32,
    /// The message class.
    pub class: u8,
    /// How long to sleep if there is no message, in milliseconds.
    pub idle_ms: u32,
}

/// The description of a server's operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Post<'a> {
    /// The server's id of the operation.
    pub bmi_id: u64,
    /// The client's pset process id.
    pub peer: i32,
    /// The message tag.
    pub tag: i32,
    /// Register the operation and answer before the message moves, even if a client waits.
    pub not_immediate: bool,
    /// The sum of the segments' lengths in bytes.
    pub total: u64,
    /// The memory; all of it must be in the expected region.
    pub segments: Array<'a, Extent>,
}

impl Post<'_> {
    /// Checks that a list of segments has `total` bytes. Inline lists are checked when decoded; this function
    /// is for lists read from the segment.
    ///
    /// # Errors
    ///
    /// Another sum, or a sum that overflows.
    pub fn check_total(&self, segments: &List<'_, Extent>) -> Result<(), DecodeError> {
        check_total(&Reader::new("POST", &[]), self.total, segments)
    }
}

/// A request for completed operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Test<'a> {
    /// How long to sleep if none has completed, in milliseconds.
    pub timeout_ms: u32,
    /// Also return if an unexpected message is waiting.
    pub wake_on_unexpected: bool,
    /// Which operations are meant.
    pub selection: TestSelection<'a>,
}

/// The operations that a test asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TestSelection<'a> {
    /// Any operations; a capacity of 0 is written as 1.
    Any {
        /// The most operations that the caller takes.
        capacity: u32,
    },
    /// These operations, at least one, by the plugin's ids from
    /// [`PostOutcome::Registered`](super::PostOutcome::Registered) (R59: each side uses the ids of the
    /// other).
    These(Array<'a, u64>),
}

impl<'a> Request<'a> {
    /// Returns the opcode of this command.
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Init(_) => Opcode::INIT,
            Self::UnexpectedTest(_) => Opcode::UNEXP_TEST,
            Self::UnexpectedFree { .. } => Opcode::UNEXP_FREE,
            Self::PostSend(_) => Opcode::POST_SEND,
            Self::PostRecv(_) => Opcode::POST_RECV,
            Self::Test(_) => Opcode::TEST,
            Self::Cancel { .. } => Opcode::CANCEL,
            Self::Fini => Opcode::FINI,
            Self::Stat { .. } => Opcode::STAT,
            Self::DropPeer { .. } => Opcode::DROP_PEER,
            Self::Wake => Opcode::WAKE,
            Self::Recall { .. } => Opcode::RECALL,
        }
    }

    /// Returns whether the command is answered.
    #[must_use]
    pub const fn is_answered(&self) -> bool {
        !matches!(
            self,
            Self::UnexpectedFree { .. } | Self::Cancel { .. } | Self::Wake | Self::Recall { .. }
        )
    }

    /// Decodes the body of the command `message` with the given `header`.
    ///
    /// # Errors
    ///
    /// An unknown opcode (at offset 6); a length that does not match the body; a number outside its range; a
    /// count or total that does not match the list.
    pub fn decode(header: &RequestHeader, message: &'a [u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new(header.opcode.what(), message);
        match header.opcode {
            Opcode::INIT => decode_init(&reader).map(Self::Init),
            Opcode::UNEXP_TEST => decode_unexpected_test(&reader).map(Self::UnexpectedTest),
            Opcode::UNEXP_FREE => one_u64(&reader).map(|offset| Self::UnexpectedFree { offset }),
            Opcode::POST_SEND => decode_post(&reader, header.spilled).map(Self::PostSend),
            Opcode::POST_RECV => decode_post(&reader, header.spilled).map(Self::PostRecv),
            Opcode::TEST => decode_test(&reader, header.spilled).map(Self::Test),
            Opcode::CANCEL => one_u64(&reader).map(|plugin_id| Self::Cancel { plugin_id }),
            Opcode::FINI => nothing(&reader).map(|()| Self::Fini),
            Opcode::STAT => one_u32(&reader).map(|first| Self::Stat { first }),
            Opcode::DROP_PEER => decode_drop_peer(&reader),
            Opcode::WAKE => nothing(&reader).map(|()| Self::Wake),
            Opcode::RECALL => one_u64(&reader).map(|bmi_id| Self::Recall { bmi_id }),
            Opcode(value) => {
                let value = value.into();
                let field = "opcode";
                Err(reader.error(6, Problem::UnknownValue { field, value }))
            }
        }
    }

    /// Returns the length of the whole command in bytes.
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        RequestHeader::LEN
            + match self {
                Self::Init(init) => 14 + init.reply_queue.len(),
                Self::UnexpectedTest(_) => 12,
                Self::UnexpectedFree { .. } | Self::Cancel { .. } | Self::Recall { .. } => 8,
                Self::PostSend(post) | Self::PostRecv(post) => 32 + post.segments.encoded_len(),
                Self::Test(test) => 16 + test.selection.encoded_len(),
                Self::DropPeer { .. } => 8,
                Self::Stat { .. } => 4,
                Self::Fini | Self::Wake => 0,
            }
    }

    /// Writes the command, including the header, and returns its length. Length, opcode and spill flag in
    /// `header` are ignored.
    ///
    /// # Errors
    ///
    /// The buffer is too short, or receivers would reject a list, name or time limit.
    pub fn encode(&self, header: RequestHeader, buffer: &mut [u8]) -> Result<usize, EncodeError> {
        let len = self.encoded_len();
        at_most("command length", len as u64, CTL_MESSAGE_LEN as u64)?;
        let available = buffer.len();
        let Some(buffer) = buffer.get_mut(..len) else {
            let needed = len;
            return Err(EncodeError::BufferTooSmall { needed, available });
        };
        let header = RequestHeader {
            opcode: self.opcode(),
            len: len as u32,
            spilled: self.is_spilled(),
            ..header
        };
        header.encode(buffer)?;
        self.encode_body(buffer.get_mut(RequestHeader::LEN..).unwrap_or_default())?;
        Ok(len)
    }

    fn is_spilled(&self) -> bool {
        match self {
            Self::PostSend(post) | Self::PostRecv(post) => post.segments.is_spilled(),
            Self::Test(test) => match test.selection {
                TestSelection::Any { .. } => false,
                TestSelection::These(ids) => ids.is_spilled(),
            },
            _ => false,
        }
    }

    fn encode_body(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        let len = body.len();
        match self {
            Self::Init(init) => init.encode(body),
            Self::UnexpectedTest(test) => test.encode(body),
            Self::UnexpectedFree { offset: value }
            | Self::Cancel { plugin_id: value }
            | Self::Recall { bmi_id: value } => {
                Writer::new(body, len)?.u64(*value);
                Ok(())
            }
            Self::PostSend(post) | Self::PostRecv(post) => post.encode(body),
            Self::Test(test) => test.encode(body),
            Self::Stat { first: value } => {
                Writer::new(body, len)?.u32(*value);
                Ok(())
            }
            Self::DropPeer { peer, disconnect } => {
                let flags = if *disconnect { DISCONNECT } else { 0 };
                Writer::new(body, len)?.i32(*peer).u32(flags);
                Ok(())
            }
            Self::Fini | Self::Wake => Ok(()),
        }
    }
}

impl Init<'_> {
    fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        let name = self.reply_queue.as_bytes();
        at_most("reply queue name", name.len() as u64, NAME_MAX)?;
        let len = body.len();
        Writer::new(body, len)?
            .u32(self.unix_pid)
            .u32(self.uid)
            .u32(self.library_version)
            .u16(name.len() as u16)
            .bytes(name);
        Ok(())
    }
}

impl UnexpectedTest {
    fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        check_milliseconds(self.idle_ms)?;
        let len = body.len();
        Writer::new(body, len)?
            .u32(self.capacity)
            .u8(self.class)
            .reserved(3)
            .u32(self.idle_ms);
        Ok(())
    }
}

impl Post<'_> {
    fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        let count = self.segments.len();
        at_most("segment count", count, u32::MAX.into())?;
        let fixed = 32;
        Writer::new(body, fixed)?
            .u64(self.bmi_id)
            .i32(self.peer)
            .i32(self.tag)
            .u32(u32::from(self.not_immediate) * NOT_IMMEDIATE)
            .u32(count as u32)
            .u64(self.total);
        self.segments
            .encode(body.get_mut(fixed..).unwrap_or_default())?;
        Ok(())
    }
}

impl Test<'_> {
    fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        check_milliseconds(self.timeout_ms)?;
        let count = match self.selection {
            // A capacity of 0 would be written as 0, which is not a valid request.
            TestSelection::Any { capacity } => -i64::from(capacity.max(1)),
            TestSelection::These(ids) => ids.len() as i64,
        };
        at_most(
            "id count",
            count.unsigned_abs(),
            i32::MAX.unsigned_abs().into(),
        )?;
        let fixed = 16;
        Writer::new(body, fixed)?
            .u32(self.timeout_ms)
            .i32(count as i32)
            .u32(u32::from(self.wake_on_unexpected) * WAKE_ON_UNEXPECTED)
            .reserved(4);
        if let TestSelection::These(ids) = self.selection {
            ids.encode(body.get_mut(fixed..).unwrap_or_default())?;
        }
        Ok(())
    }
}

impl TestSelection<'_> {
    const fn encoded_len(&self) -> usize {
        match self {
            Self::Any { .. } => 0,
            Self::These(ids) => ids.encoded_len(),
        }
    }
}

fn decode_init<'a>(reader: &Reader<'a>) -> Result<Init<'a>, DecodeError> {
    reader.require(INIT_NAME_AT)?;
    let len = in_range(
        reader,
        52,
        "name length",
        reader.u16(52)?.into(),
        (1, NAME_MAX),
    )?;
    reader.require_exactly(INIT_NAME_AT + len as usize)?;
    let name = str::from_utf8(reader.tail(INIT_NAME_AT))
        .map_err(|_| reader.error(INIT_NAME_AT, Problem::BadName("reply queue name")))?;
    Ok(Init {
        unix_pid: reader.u32(40)?,
        uid: reader.u32(44)?,
        library_version: reader.u32(48)?,
        reply_queue: name,
    })
}

fn decode_unexpected_test(reader: &Reader<'_>) -> Result<UnexpectedTest, DecodeError> {
    reader.require_exactly(52)?;
    let capacity = reader.u32(40)?;
    in_range(
        reader,
        40,
        "capacity",
        capacity.into(),
        (1, u32::MAX.into()),
    )?;
    Ok(UnexpectedTest {
        capacity,
        class: reader.u8(44)?,
        idle_ms: reader.milliseconds(48, "idle ms")?,
    })
}

fn decode_post<'a>(reader: &Reader<'a>, spilled: bool) -> Result<Post<'a>, DecodeError> {
    reader.require(72)?;
    let count = u64::from(reader.u32(60)?);
    let total = reader.u64(64)?;
    let max = INLINE_SEGMENTS as u64;
    let segments = Array::decode(reader, 72, (60, "segment count", count), max, spilled)?;
    match &segments {
        Array::Inline(list) => check_total(reader, total, list)?,
        Array::Spilled(_) if count == 0 => check_total(reader, total, &List::new(&[]))?,
        Array::Spilled(_) => {}
    }
    Ok(Post {
        bmi_id: reader.u64(40)?,
        peer: reader.i32(48)?,
        tag: reader.i32(52)?,
        not_immediate: reader.u32(56)? & NOT_IMMEDIATE != 0,
        total,
        segments,
    })
}

fn check_total(
    reader: &Reader<'_>,
    said: u64,
    segments: &List<'_, Extent>,
) -> Result<(), DecodeError> {
    let found = segments
        .iter()
        .try_fold(0_u64, |sum, segment| sum.checked_add(segment.len))
        .unwrap_or(u64::MAX);
    if found == said && said != u64::MAX {
        return Ok(());
    }
    let field = "total";
    Err(reader.error(64, Problem::Contradiction { field, said, found }))
}

// [CTL-18]
fn decode_test<'a>(reader: &Reader<'a>, spilled: bool) -> Result<Test<'a>, DecodeError> {
    reader.require(56)?;
    let count = reader.i32(44)?;
    let size = u64::from(count.unsigned_abs());
    let selection = match count {
        // The most negative number cannot be negated.
        0 | i32::MIN => {
            let problem = out_of_range("id count", count.into(), 1, i32::MAX.into());
            return Err(reader.error(44, problem));
        }
        ..0 => {
            reader.require_exactly(56)?;
            TestSelection::Any {
                capacity: count.unsigned_abs(),
            }
        }
        _ => {
            let max = INLINE_IDS as u64;
            let ids = Array::decode(reader, 56, (44, "id count", size), max, spilled)?;
            TestSelection::These(ids)
        }
    };
    Ok(Test {
        timeout_ms: reader.milliseconds(40, "timeout ms")?,
        wake_on_unexpected: reader.u32(48)? & WAKE_ON_UNEXPECTED != 0,
        selection,
    })
}

fn decode_drop_peer<'a>(reader: &Reader<'_>) -> Result<Request<'a>, DecodeError> {
    reader.require_exactly(RequestHeader::LEN + 8)?;
    Ok(Request::DropPeer {
        peer: reader.i32(RequestHeader::LEN)?,
        disconnect: reader.u32(RequestHeader::LEN + 4)? & DISCONNECT != 0,
    })
}

fn nothing(reader: &Reader<'_>) -> Result<(), DecodeError> {
    reader.require_exactly(RequestHeader::LEN)
}

fn one_u32(reader: &Reader<'_>) -> Result<u32, DecodeError> {
    reader.require_exactly(RequestHeader::LEN + 4)?;
    reader.u32(RequestHeader::LEN)
}

fn one_u64(reader: &Reader<'_>) -> Result<u64, DecodeError> {
    reader.require_exactly(RequestHeader::LEN + 8)?;
    reader.u64(RequestHeader::LEN)
}

//! The shared segment: a header page, then the unexpected region, then the expected region.
//!
//! ```text
//!  0        8    12       16    24      32      40      48    56   60     64         72       80    84
//!  +--------+----+--------+-----+-------+-------+-------+-----+----+------+----------+--------+-----+----+
//!  | magic  | v. | header |total|unexp. |max un.|max ex.|epoch|pid |state |heartbeat |session |ready|regs|
//!  +--------+----+--------+-----+-------+-------+-------+-----+----+------+----------+--------+-----+----+
//!  88: what the daemon understands beyond version 1, u32 (SegmentHeader::CAPS_AT)
//!  2048: the server's statistics, u64 each ... 4096: the unexpected region ... 4096 + unexpected: the
//!  expected region
//! ```
//!
//! **Every offset in both protocols counts from the end of the header page.** Expected memory therefore
//! begins at the size of the unexpected region. State, heartbeat, session and the ready counter change while
//! other processes read them; constants give their offsets for code that maps the page.

use std::ops::Range;

use crate::bytes::{Reader, Writer, in_range};
use crate::error::{DecodeError, EncodeError, Problem};

const WHAT: &str = "segment header";
const MAGIC: u64 = u64::from_le_bytes(*b"ZBMISHM1");
const VERSION: u32 = 1;

/// The length of the header page in bytes.
// [SEG-1]
pub const SEGMENT_HEADER_LEN: usize = 4096;

/// The daemon's state. Unknown values are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DaemonState(pub u32);

// [SEG-4]
impl DaemonState {
    /// The segment is not usable yet.
    pub const STARTING: Self = Self(0);
    /// In service.
    pub const READY: Self = Self(1);
    /// The daemon completes running transfers and accepts no new ones.
    pub const DRAINING: Self = Self(2);
    /// The daemon has shut down in order.
    pub const DEAD: Self = Self(3);
}

/// A range of the segment after its header page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The offset in bytes from the end of the header page.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
}

impl Extent {
    /// The length of an encoded extent in bytes.
    pub const LEN: usize = 16;

    /// Returns whether the whole extent is inside `region`; false if its end overflows.
    #[must_use]
    pub fn is_inside(self, region: &Range<u64>) -> bool {
        self.offset >= region.start
            && self
                .offset
                .checked_add(self.len)
                .is_some_and(|end| end <= region.end)
    }
}

/// The fields of the header page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The size of both regions in bytes. The object that contains them has at least [`SEGMENT_HEADER_LEN`]
    /// bytes more.
    pub total: u64,
    /// The size of the unexpected region in bytes, less than `total`.
    pub unexpected: u64,
    /// The longest unexpected message in bytes.
    pub max_unexpected: u64,
    /// The longest expected message in bytes.
    pub max_expected: u64,
    /// A random number, not 0, that differs at each start of the daemon.
    pub epoch: u64,
    /// The daemon's process id.
    pub daemon_pid: u32,
    /// The daemon's state.
    pub state: DaemonState,
    /// The time of the daemon's last heartbeat: nanoseconds of the monotonic clock.
    pub heartbeat_ns: u64,
    /// The attached server's session; 0 for none.
    pub session: u64,
    /// The number of unexpected messages that have arrived, modulo 2^32: a futex word.
    pub unexpected_ready: u32,
    /// A descriptor in the daemon's process of another object that contains the regions at the same offsets;
    /// 0 if the regions are in this object. Memory without a name, such as huge pages, needs another object;
    /// this one then has only the header page.
    pub regions: u32,
}

/// Statistics that the attached server reports for the daemon's metrics: u64 each in the header page, from
/// [`ServerStatistics::AT`]. Only the server writes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerStatistics {
    /// Messages copied between memory outside the segment and a temporary buffer.
    pub copies: u64,
    /// Temporary buffers allocated.
    pub temporary_buffers: u64,
    /// Operations that had to wait for memory.
    pub memory_waits: u64,
    /// Operations that wait for memory now.
    pub waiting_for_memory: u64,
    /// The longest completed wait for memory, in microseconds.
    pub longest_memory_wait_us: u64,
    /// Allocations of the program rejected in favour of operations that wait for memory.
    pub allocations_held_back: u64,
    /// Bytes of the expected region in use.
    pub memory_used: u64,
    /// Invalid replies.
    pub protocol_errors: u64,
}

// [SEG-6]
impl ServerStatistics {
    /// The offset of the first word.
    pub const AT: usize = 2048;
    /// The number of words.
    pub const COUNT: usize = 8;

    /// Returns the values in the order of the header page.
    #[must_use]
    pub const fn words(&self) -> [u64; Self::COUNT] {
        [
            self.copies,
            self.temporary_buffers,
            self.memory_waits,
            self.waiting_for_memory,
            self.longest_memory_wait_us,
            self.allocations_held_back,
            self.memory_used,
            self.protocol_errors,
        ]
    }

    /// Converts the result of [`words`](Self::words) back. Every value is valid.
    #[must_use]
    pub const fn from_words(words: [u64; Self::COUNT]) -> Self {
        Self {
            copies: words[0],
            temporary_buffers: words[1],
            memory_waits: words[2],
            waiting_for_memory: words[3],
            longest_memory_wait_us: words[4],
            allocations_held_back: words[5],
            memory_used: words[6],
            protocol_errors: words[7],
        }
    }
}

impl SegmentHeader {
    /// The length in bytes that [`encode`](Self::encode) writes; the rest of the page is statistics.
    pub const LEN: usize = 88;
    /// The offset of [`state`](Self::state), u32.
    pub const STATE_AT: usize = 60;
    /// The offset of [`heartbeat_ns`](Self::heartbeat_ns), u64.
    pub const HEARTBEAT_AT: usize = 64;
    /// The offset of [`session`](Self::session), u64.
    pub const SESSION_AT: usize = 72;
    /// The offset of [`unexpected_ready`](Self::unexpected_ready), u32.
    pub const UNEXPECTED_READY_AT: usize = 80;
    /// The offset of the daemon's features beyond version 1, u32.
    pub const CAPS_AT: usize = 88;
    /// The bit in that word: the daemon registers posts without a reply slot and accepts RECALL.
    pub const UNANSWERED_POSTS: u32 = 1;
    /// The offset of the statistics, u64 each.
    pub const STATISTICS_AT: usize = 128;

    /// Decodes the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// A short input; a wrong magic, version or header size; an unexpected region that is not smaller than
    /// the total; epoch 0.
    // [SEG-3]
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new(WHAT, bytes);
        reader.require(Self::LEN)?;
        let magic = reader.u64(0)?;
        if magic != MAGIC {
            return Err(reader.error(0, Problem::BadMagic(magic)));
        }
        let version = reader.u32(8)?;
        if version != VERSION {
            return Err(reader.error(8, Problem::UnknownVersion(version)));
        }
        let page = SEGMENT_HEADER_LEN as u64;
        in_range(
            &reader,
            12,
            "header size",
            reader.u32(12)?.into(),
            (page, page),
        )?;
        let total = in_range(
            &reader,
            16,
            "total",
            reader.u64(16)?,
            (1, i64::MAX as u64 - page),
        )?;
        Ok(Self {
            total,
            unexpected: in_range(
                &reader,
                24,
                "unexpected size",
                reader.u64(24)?,
                (0, total - 1),
            )?,
            max_unexpected: reader.u64(32)?,
            max_expected: reader.u64(40)?,
            epoch: in_range(&reader, 48, "epoch", reader.u64(48)?, (1, u64::MAX))?,
            daemon_pid: reader.u32(56)?,
            state: DaemonState(reader.u32(Self::STATE_AT)?),
            heartbeat_ns: reader.u64(Self::HEARTBEAT_AT)?,
            session: reader.u64(Self::SESSION_AT)?,
            unexpected_ready: reader.u32(Self::UNEXPECTED_READY_AT)?,
            regions: reader.u32(84)?,
        })
    }

    /// Writes the header and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is too short.
    pub fn encode(&self, buffer: &mut [u8]) -> Result<usize, EncodeError> {
        Writer::new(buffer, Self::LEN)?
            .u64(MAGIC)
            .u32(VERSION)
            .u32(SEGMENT_HEADER_LEN as u32)
            .u64(self.total)
            .u64(self.unexpected)
            .u64(self.max_unexpected)
            .u64(self.max_expected)
            .u64(self.epoch)
            .u32(self.daemon_pid)
            .u32(self.state.0)
            .u64(self.heartbeat_ns)
            .u64(self.session)
            .u32(self.unexpected_ready)
            .u32(self.regions);
        Ok(Self::LEN)
    }

    /// Returns the offsets of the unexpected region.
    #[must_use]
    pub const fn unexpected_region(&self) -> Range<u64> {
        0..self.unexpected
    }

    /// Returns the offsets of the expected region.
    #[must_use]
    pub const fn expected_region(&self) -> Range<u64> {
        self.unexpected..self.total
    }
}

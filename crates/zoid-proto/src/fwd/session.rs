//! The bodies of HELLO, WELCOME and EVENT.
//!
//! ```text
//!           0     2     4      8            24      28   32               40             44   48
//!  HELLO    +-----+-----+------+------------+-------+----+----------------+--------------+----+
//!           | min | max | caps | uuid       | unix  | 0  | previous epoch | previous pid | job|
//!           +-----+-----+------+------------+-------+----+----------------+--------------+----+
//!           0    4   8       16        24          32          40          44       48     52    54  56
//!  WELCOME  +----+---+-------+---------+-----------+-----------+-----------+--------+------+-----+---+
//!           | pid| 0 | epoch | session | max unexp.| max exp.  | heartbeat | credits| caps | v.  | 0 |
//!           +----+---+-------+---------+-----------+-----------+-----------+--------+------+-----+---+
//!  EVENT    code u32, 0 u32, value u64
//! ```

use bitflags::bitflags;

use crate::bytes::{Reader, Writer, in_range};
use crate::error::{DecodeError, EncodeError};

/// The version of the frames in this crate.
pub const PROTOCOL_VERSION: u16 = 1;

bitflags! {
    /// What a client would like and a daemon grants. Unknown bits survive.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Caps: u32 {
        /// Several requests at once.
        const MULTIPLEX = 1;
        /// Grants may name places in the segment, whose descriptor came with WELCOME.
        const SHARED_MEMORY = 2;
        /// The client has no thread of its own for answering PING: it answers while it waits. Only
        /// the end of its stream tells that it is gone.
        const QUIET = 4;
        /// The client repeats a send whose end it did not hear of; the daemon keeps its place for a
        /// while after the link broke, and knows such a repetition by its order.
        const REATTACH = 8;
        /// In WELCOME: the place was kept.
        const REATTACHED = 16;
        /// Grants may ask where in the client's memory the message is, for the daemon to copy. In
        /// WELCOME: EVENT 5 follows at once.
        const CLIENT_MEMORY = 32;
        /// SEND_INLINE is understood: the daemon keeps memory for the short messages of this client.
        const INLINE = 64;
        const _ = !0;
    }
}

/// A client introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Oldest protocol version that it speaks.
    pub version_min: u16,
    /// Newest, not below the oldest.
    pub version_max: u16,
    /// What it would like.
    pub caps: Caps,
    /// Names the client over reconnections.
    pub uuid: [u8; 16],
    /// Its process id, for logs.
    pub unix_pid: u32,
    /// The epoch of its last session, 0 for none.
    pub previous_epoch: u64,
    /// Its pset process id then, −1 for none.
    pub previous_pid: i32,
    /// The job that it belongs to, for fairness between jobs; 0 for none.
    pub job: u32,
}

impl Hello {
    pub(crate) const LEN: usize = 48;

    pub(crate) fn decode(reader: &Reader<'_>) -> Result<Self, DecodeError> {
        reader.require_exactly(Self::LEN)?;
        let version_min = reader.u16(0)?;
        let version_max = reader.u16(2)?;
        let range = (version_min.into(), u16::MAX.into());
        in_range(reader, 2, "newest version", version_max.into(), range)?;
        Ok(Self {
            version_min,
            version_max,
            caps: Caps::from_bits_retain(reader.u32(4)?),
            uuid: reader.array(8)?,
            unix_pid: reader.u32(24)?,
            previous_epoch: reader.u64(32)?,
            previous_pid: reader.i32(40)?,
            job: reader.u32(44)?,
        })
    }

    pub(crate) fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        Writer::new(body, Self::LEN)?
            .u16(self.version_min)
            .u16(self.version_max)
            .u32(self.caps.bits())
            .bytes(&self.uuid)
            .u32(self.unix_pid)
            .reserved(4)
            .u64(self.previous_epoch)
            .i32(self.previous_pid)
            .u32(self.job);
        Ok(())
    }

    /// The newest version that both sides speak; none when there is none.
    #[must_use]
    pub const fn common_version(&self) -> Option<u16> {
        if self.version_min <= PROTOCOL_VERSION && PROTOCOL_VERSION <= self.version_max {
            return Some(PROTOCOL_VERSION);
        }
        None
    }
}

/// The daemon's answer to HELLO. With an error in the header the numbers mean nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// The client's pset process id.
    pub pid: i32,
    /// The daemon's epoch.
    pub epoch: u64,
    /// The attached server's session, 0 for none.
    pub server_session: u64,
    /// Bytes of the longest unexpected message.
    pub max_unexpected: u64,
    /// Bytes of the longest expected message.
    pub max_expected: u64,
    /// Milliseconds of silence after which the other side sends PING; not 0.
    pub heartbeat_ms: u32,
    /// Unexpected messages that may be sent inline before the next EVENT.
    pub credits: u32,
    /// What is granted.
    pub caps: Caps,
    /// The version that both sides speak from now on.
    pub version: u16,
}

impl Welcome {
    pub(crate) const LEN: usize = 56;

    pub(crate) fn decode(reader: &Reader<'_>) -> Result<Self, DecodeError> {
        reader.require_exactly(Self::LEN)?;
        Ok(Self {
            pid: reader.i32(0)?,
            epoch: reader.u64(8)?,
            server_session: reader.u64(16)?,
            max_unexpected: reader.u64(24)?,
            max_expected: reader.u64(32)?,
            heartbeat_ms: reader.u32(40)?,
            credits: reader.u32(44)?,
            caps: Caps::from_bits_retain(reader.u32(48)?),
            version: reader.u16(52)?,
        })
    }

    pub(crate) fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        Writer::new(body, Self::LEN)?
            .i32(self.pid)
            .reserved(4)
            .u64(self.epoch)
            .u64(self.server_session)
            .u64(self.max_unexpected)
            .u64(self.max_expected)
            .u32(self.heartbeat_ms)
            .u32(self.credits)
            .u32(self.caps.bits())
            .u16(self.version)
            .reserved(2);
        Ok(())
    }
}

/// News from the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A server attached; its session.
    ServerAttached(u64),
    /// The server is gone; the session it had.
    ServerGone(u64),
    /// The daemon goes down.
    Draining,
    /// So many more credits.
    Credits(u32),
    /// A number that the client is to hold in its memory from now on, and to say where with PLACES.
    Mark(u64),
    /// An unexpected message of the client, with this tag, outlives the server that ends: the next
    /// server can fetch it. Comes ahead of `ServerGone`, once for each such message.
    Kept(i32),
    /// News that this version does not know: code and value.
    Unknown(u32, u64),
}

impl Event {
    pub(crate) const LEN: usize = 16;

    pub(crate) fn decode(reader: &Reader<'_>) -> Result<Self, DecodeError> {
        reader.require_exactly(Self::LEN)?;
        let value = reader.u64(8)?;
        Ok(match reader.u32(0)? {
            1 => Self::ServerAttached(value),
            2 => Self::ServerGone(value),
            3 => Self::Draining,
            4 => {
                let credits = in_range(reader, 8, "credits", value, (0, u32::MAX.into()))?;
                Self::Credits(credits as u32)
            }
            5 => Self::Mark(value),
            6 => {
                let tag = in_range(reader, 8, "tag", value, (0, u32::MAX.into()))?;
                Self::Kept((tag as u32).cast_signed())
            }
            code => Self::Unknown(code, value),
        })
    }

    pub(crate) fn encode(self, body: &mut [u8]) -> Result<(), EncodeError> {
        let (code, value) = match self {
            Self::ServerAttached(session) => (1, session),
            Self::ServerGone(session) => (2, session),
            Self::Draining => (3, 0),
            Self::Credits(credits) => (4, credits.into()),
            Self::Mark(number) => (5, number),
            Self::Kept(tag) => (6, tag.cast_unsigned().into()),
            Self::Unknown(code, value) => (code, value),
        };
        Writer::new(body, Self::LEN)?
            .u32(code)
            .reserved(4)
            .u64(value);
        Ok(())
    }
}

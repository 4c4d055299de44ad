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
    /// Features that a client requests and a daemon grants. Unknown bits are kept.
    // [FWD-5]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Caps: u32 {
        /// Several requests may be in flight at once.
        const MULTIPLEX = 1;
        /// The client has no thread for answering PING: it answers only while it waits. Only the end of its
        /// stream says that the client is gone.
        const QUIET = 4;
        /// The client repeats a send whose result it does not know. After a lost connection the daemon keeps
        /// the client's place for a while and recognises the repeated send by its order.
        const REATTACH = 8;
        /// In WELCOME: the client's place was kept.
        const REATTACHED = 16;
        /// Grants may ask for the client's memory, from which the daemon copies. In WELCOME: EVENT 5 follows
        /// at once.
        const CLIENT_MEMORY = 32;
        /// The daemon accepts SEND_INLINE and reserves memory for the short messages of this client.
        const INLINE = 64;
        const _ = !0;
    }
}

/// Identifies a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The oldest protocol version that the client supports.
    pub version_min: u16,
    /// The newest version, not below the oldest.
    pub version_max: u16,
    /// The features that the client requests.
    pub caps: Caps,
    /// Identifies the client across reconnections.
    pub uuid: [u8; 16],
    /// Its process id, for logs.
    pub unix_pid: u32,
    /// The epoch of its last session; 0 for none.
    pub previous_epoch: u64,
    /// Its pset process id in that session; −1 for none.
    pub previous_pid: i32,
    /// The client's job, for fairness between jobs; 0 for none.
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

    /// Returns the newest version that both sides support, if there is one.
    #[must_use]
    pub const fn common_version(&self) -> Option<u16> {
        if self.version_min <= PROTOCOL_VERSION && PROTOCOL_VERSION <= self.version_max {
            return Some(PROTOCOL_VERSION);
        }
        None
    }
}

/// Answers HELLO. If the header has an error, the numbers mean nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// The client's pset process id.
    pub pid: i32,
    /// The daemon's epoch.
    pub epoch: u64,
    /// The attached server's session; 0 for none.
    pub server_session: u64,
    /// The longest unexpected message in bytes.
    pub max_unexpected: u64,
    /// The longest expected message in bytes.
    pub max_expected: u64,
    /// The interval of silence in milliseconds after which the other side sends PING; not 0.
    pub heartbeat_ms: u32,
    /// The number of unexpected messages that may be sent inline before the next EVENT.
    pub credits: u32,
    /// The features that the daemon grants.
    pub caps: Caps,
    /// The version that both sides use from now on.
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

/// A notification of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A server attached, with this session.
    ServerAttached(u64),
    /// The server with this session is gone.
    ServerGone(u64),
    /// The daemon shuts down.
    Draining,
    /// The client gains this number of credits.
    Credits(u32),
    /// A number that the client must store in its memory and whose address it sends with PLACES.
    Mark(u64),
    /// An unexpected message of the client, with this tag, outlives the server: the next server can fetch it.
    /// Sent before `ServerGone`, once for each such message.
    Kept(i32),
    /// An event that this version does not know: code and value.
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

//! The frame header in front of every LNet message.
//!
//! ```text
//!  0        4        8                  16                 24
//!  +--------+--------+------------------+------------------+
//!  | type   | csum   | cookie 0         | cookie 1         |  then, for LNET: LNet header, payload
//!  +--------+--------+------------------+------------------+
//!    0xC0 NOOP         2nd ack, or start  ack, or range end
//!    0xC1 LNET         asks for an ack    ack
//! ```
//!
//! The integers have the sender's byte order, which its HELLO showed. Frames on connections of
//! HELLO version 1 have no frame header.

use crate::bytes::{ByteOrder, Reader, Writer};
use crate::error::{DecodeError, Problem};

const WHAT: &str = "frame header";
const NOOP: u32 = 0xC0;
const LNET: u32 = 0xC1;

/// The acknowledgement cookie that acknowledges nothing.
const KEEPALIVE: u64 = 1;

/// The part that follows a frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameType {
    /// Nothing: the frame consists of its header.
    Noop,
    /// An LNet header and its payload.
    Lnet,
}

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KsockHeader {
    /// The part that follows.
    pub frame_type: FrameType,
    /// The checksum, 0 for none; used only on connections of HELLO version 2
    /// ([`FrameChecksum`](crate::FrameChecksum)).
    pub csum: u32,
    /// The cookies as received; [`zc_request`](Self::zc_request) and [`zc_ack`](Self::zc_ack)
    /// interpret them.
    pub cookies: [u64; 2],
}

impl KsockHeader {
    /// Bytes of a frame header.
    // [FRAME-1]
    pub const LEN: usize = 24;

    /// The header of an LNet message that asks for no zero-copy acknowledgement and carries none.
    pub const LNET: Self = Self {
        frame_type: FrameType::Lnet,
        csum: 0,
        cookies: [0, 0],
    };

    /// The keepalive frame.
    // [KEEP-1]
    pub const KEEPALIVE: Self = Self {
        frame_type: FrameType::Noop,
        csum: 0,
        cookies: [0, KEEPALIVE],
    };

    /// The frame that acknowledges the zero-copy request `cookie`.
    // [ZC-4]
    #[must_use]
    pub const fn ack(cookie: u64) -> Self {
        Self {
            frame_type: FrameType::Noop,
            csum: 0,
            cookies: [0, cookie],
        }
    }

    /// The byte order of the frame header at the start of `bytes`, as its type shows. `None` for an
    /// unknown type and for fewer than four bytes.
    ///
    /// A receiver uses the order of the HELLO; this function serves observers that did not see the
    /// HELLO.
    #[must_use]
    pub fn order_of(bytes: &[u8]) -> Option<ByteOrder> {
        let read = Reader::new(WHAT, bytes).u32(0).ok()?;
        [NOOP, LNET]
            .into_iter()
            .find_map(|known| ByteOrder::of_magic(read, known))
    }

    /// Decodes the frame header at the start of `bytes`; ignores bytes after it.
    ///
    /// # Errors
    ///
    /// A short input or an unknown type.
    // [FRAME-2]
    pub fn decode(order: ByteOrder, bytes: &[u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new(WHAT, bytes).with_order(order);
        reader.require(Self::LEN)?;
        let frame_type = match reader.u32(0)? {
            NOOP => FrameType::Noop,
            LNET => FrameType::Lnet,
            value => {
                return Err(reader.error(
                    0,
                    Problem::UnknownValue {
                        field: "type",
                        value,
                    },
                ));
            }
        };
        let cookies = [reader.u64(8)?, reader.u64(16)?];
        Ok(Self {
            frame_type,
            csum: reader.u32(4)?,
            cookies,
        })
    }

    /// The header's bytes, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let frame_type = match self.frame_type {
            FrameType::Noop => NOOP,
            FrameType::Lnet => LNET,
        };
        // The buffer has the required size, so this cannot fail.
        if let Ok(mut writer) = Writer::new(&mut bytes, Self::LEN) {
            writer
                .u32(frame_type)
                .u32(self.csum)
                .u64(self.cookies[0])
                .u64(self.cookies[1]);
        }
        bytes
    }

    /// The cookie that the receiver of this frame must acknowledge exactly once, after it has taken
    /// the payload that it wants.
    // [ZC-1]
    #[must_use]
    pub const fn zc_request(&self) -> Option<u64> {
        match (self.frame_type, self.cookies[0]) {
            (FrameType::Noop, _) | (FrameType::Lnet, 0) => None,
            (FrameType::Lnet, cookie) => Some(cookie),
        }
    }

    /// The cookies that this frame acknowledges.
    ///
    /// # Errors
    ///
    /// The keepalive cookie together with another one, which is a protocol error.
    // [ZC-7]
    pub const fn zc_ack(&self) -> Result<ZcAck, DecodeError> {
        let second = match self.frame_type {
            FrameType::Noop => self.cookies[0],
            FrameType::Lnet => 0,
        };
        match (second, self.cookies[1]) {
            (_, 0) => Ok(ZcAck::None),
            (0, KEEPALIVE) => Ok(ZcAck::Keepalive),
            (0, cookie) => Ok(ZcAck::One(cookie)),
            (KEEPALIVE, _) => Err(mixed_keepalive(8)),
            (_, KEEPALIVE) => Err(mixed_keepalive(16)),
            (a, b) if a > b => Ok(ZcAck::Pair(a, b)),
            (a, b) if a < b => Ok(ZcAck::Range { first: a, last: b }),
            (_, cookie) => Ok(ZcAck::One(cookie)),
        }
    }
}

const fn mixed_keepalive(offset: usize) -> DecodeError {
    let problem = Problem::OutOfRange {
        field: "ack cookie",
        value: KEEPALIVE,
        min: 2,
        max: u64::MAX,
    };
    DecodeError {
        what: WHAT,
        offset,
        problem,
    }
}

/// The zero-copy requests that a frame acknowledges.
///
/// A frame that names the same cookie twice acknowledges it once. A range may have any length:
/// check each waiting cookie against the range instead of looping over the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZcAck {
    /// None.
    None,
    /// None: the frame only shows that the peer is alive.
    Keepalive,
    /// This one.
    One(u64),
    /// These two.
    Pair(u64, u64),
    /// All from `first` to `last`.
    Range {
        /// The lowest cookie.
        first: u64,
        /// The highest cookie, above `first`.
        last: u64,
    },
}

impl ZcAck {
    /// Returns true if the frame acknowledges `cookie`.
    #[must_use]
    pub const fn contains(self, cookie: u64) -> bool {
        match self {
            Self::None | Self::Keepalive => false,
            Self::One(one) => cookie == one,
            Self::Pair(a, b) => cookie == a || cookie == b,
            Self::Range { first, last } => first <= cookie && cookie <= last,
        }
    }

    /// The number of cookies that the frame acknowledges; each must belong to a waiting request.
    #[must_use]
    pub const fn count(self) -> u64 {
        match self {
            Self::None | Self::Keepalive => 0,
            Self::One(_) => 1,
            Self::Pair(..) => 2,
            // `first` is at least 2, so the sum does not overflow.
            Self::Range { first, last } => last.saturating_sub(first).saturating_add(1),
        }
    }
}

//! The frame header in front of every LNet message (sections 3.1 to 3.4).
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
//! In the sender's byte order, which its HELLO showed. Connections of HELLO version 1 have none.

use crate::bytes::{ByteOrder, Reader, Writer};
use crate::error::{DecodeError, Problem};

const WHAT: &str = "frame header";
const NOOP: u32 = 0xC0;
const LNET: u32 = 0xC1;

/// The acknowledgement cookie that acknowledges nothing (section 3.7).
const KEEPALIVE: u64 = 1;

/// What follows a frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameType {
    /// Nothing: the frame is its header.
    Noop,
    /// An LNet header and its payload.
    Lnet,
}

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KsockHeader {
    /// What follows.
    pub frame_type: FrameType,
    /// Checksum, 0 for none; means something only on connections of HELLO version 2
    /// ([`FrameChecksum`](crate::FrameChecksum)).
    pub csum: u32,
    /// As read; [`zc_request`](Self::zc_request) and [`zc_ack`](Self::zc_ack) say what they mean.
    pub cookies: [u64; 2],
}

impl KsockHeader {
    /// Bytes of a frame header.
    pub const LEN: usize = 24;

    /// In front of an LNet message that asks for no zero-copy acknowledgement and carries none.
    pub const LNET: Self = Self {
        frame_type: FrameType::Lnet,
        csum: 0,
        cookies: [0, 0],
    };

    /// The keepalive frame.
    pub const KEEPALIVE: Self = Self {
        frame_type: FrameType::Noop,
        csum: 0,
        cookies: [0, KEEPALIVE],
    };

    /// The frame that acknowledges the zero-copy request `cookie`.
    #[must_use]
    pub const fn ack(cookie: u64) -> Self {
        Self {
            frame_type: FrameType::Noop,
            csum: 0,
            cookies: [0, cookie],
        }
    }

    /// The order in which the frame header at the start of `bytes` was written, as its type shows. `None`
    /// for an unknown type and for less than four bytes.
    ///
    /// A receiver of a connection goes by the HELLO; this is for whoever did not see it.
    #[must_use]
    pub fn order_of(bytes: &[u8]) -> Option<ByteOrder> {
        let read = Reader::new(WHAT, bytes).u32(0).ok()?;
        [NOOP, LNET]
            .into_iter()
            .find_map(|known| ByteOrder::of_magic(read, known))
    }

    /// Decodes the frame header at the start of `bytes`; bytes behind it are ignored.
    ///
    /// # Errors
    ///
    /// A short input or an unknown type.
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
        // The buffer has the size that is asked for, so that this cannot fail.
        if let Ok(mut writer) = Writer::new(&mut bytes, Self::LEN) {
            writer
                .u32(frame_type)
                .u32(self.csum)
                .u64(self.cookies[0])
                .u64(self.cookies[1]);
        }
        bytes
    }

    /// The cookie that the receiver of this frame must acknowledge, exactly once, when it has taken
    /// what it wants of the payload.
    #[must_use]
    pub const fn zc_request(&self) -> Option<u64> {
        match (self.frame_type, self.cookies[0]) {
            (FrameType::Noop, _) | (FrameType::Lnet, 0) => None,
            (FrameType::Lnet, cookie) => Some(cookie),
        }
    }

    /// What this frame acknowledges.
    ///
    /// # Errors
    ///
    /// The keepalive cookie together with another one, which is a protocol error (section 12.2).
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

/// The zero-copy requests that a frame acknowledges (section 3.4).
///
/// A frame that names the same cookie twice acknowledges it once. A range may span any distance:
/// look the cookies that are waiting up in it, never the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZcAck {
    /// None.
    None,
    /// None: the frame only shows that the peer lives.
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
    /// True when the frame acknowledges `cookie`.
    #[must_use]
    pub const fn contains(self, cookie: u64) -> bool {
        match self {
            Self::None | Self::Keepalive => false,
            Self::One(one) => cookie == one,
            Self::Pair(a, b) => cookie == a || cookie == b,
            Self::Range { first, last } => first <= cookie && cookie <= last,
        }
    }

    /// How many cookies the frame acknowledges; all of them must be waiting (section 3.4).
    #[must_use]
    pub const fn count(self) -> u64 {
        match self {
            Self::None | Self::Keepalive => 0,
            Self::One(_) => 1,
            Self::Pair(..) => 2,
            // `first` is at least 2, so that the sum does not overflow.
            Self::Range { first, last } => last.saturating_sub(first).saturating_add(1),
        }
    }
}

//! HELLO: the NID of the sender, its incarnation, and the type of the connection.
//!
//! ```text
//!  v2,v3 0       4         8         16        24       28       32       40       48     52
//!        +-------+---------+---------+---------+--------+--------+--------+--------+------+------+
//!        | magic | version | src NID | dst NID | src pid| dst pid| src inc| dst inc| ctype| nips |
//!        +-------+---------+---------+---------+--------+--------+--------+--------+------+------+
//!        then nips * 4 bytes of IPv4 addresses, at most 16 of them
//!
//!  v4    0       4         8         28        48       52       56       64       72     76
//!        the same fields with 20-byte NIDs that are never swapped; nips ignored, no list
//!
//!  v1    0       4   6     8         16  20       24     28         32       40     44
//!        +-------+---+-----+---------+---+--------+------+----------+--------+------+--------+
//!        | magic | 1 | 0   | src NID | 0 | src pid| 4    | 4 * nips | src inc| ctype| 0 (28) |
//!        +-------+---+-----+---------+---+--------+------+----------+--------+------+--------+
//!        then the list; always little-endian
//! ```
//!
//! The magic of versions 2 to 4 shows the sender's byte order. The order applies to the integers of
//! the HELLO and to the frame header of every later frame, never to an LNet header.
//!
//! The caller decides what a HELLO means for the connection (race, duplicate, stale incarnation).

use std::net::Ipv4Addr;

use lnet_types::{Nid, ProcessId};

use crate::bytes::{ByteOrder, Reader, Writer};
use crate::ctype::Ctype;
use crate::error::{DecodeError, EncodeError, Problem};
use crate::header::HeaderForm;

/// First word of HELLO versions 2 to 4: LNet's "unified" magic.
pub const LNET_MAGIC: u32 = 0x4572_6963;

/// First word of HELLO version 1.
pub const HELLO_V1_MAGIC: u32 = 0xEEBC_0DED;

const WHAT: &str = "HELLO";

/// The LNet message type that marks a version 1 HELLO.
const V1_MESSAGE_TYPE: u32 = 4;

/// The version of a HELLO, which determines the framing of the whole connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HelloVersion {
    /// The layout of an LNet header; frames have no frame header.
    V1,
    /// Frame headers with checksums; one acknowledgement cookie in each frame.
    V2,
    /// The version that all known nodes send over IPv4.
    V3,
    /// 20-byte NIDs in the HELLO and in LNet headers; nodes send it over IPv6 (release 2.16 and
    /// later).
    V4,
}

impl HelloVersion {
    /// The number on the wire; version 1 is written as major 1, minor 0.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
            Self::V3 => 3,
            Self::V4 => 4,
        }
    }

    /// Bytes of the HELLO without its address list.
    #[must_use]
    pub const fn base_len(self) -> usize {
        match self {
            Self::V1 => 72,
            Self::V2 | Self::V3 => 56,
            Self::V4 => 80,
        }
    }

    /// The form of the LNet headers that follow on the connection.
    // [MSG-2] [LARGE-7]
    #[must_use]
    pub const fn header_form(self) -> HeaderForm {
        match self {
            Self::V1 | Self::V2 | Self::V3 => HeaderForm::Nid4,
            Self::V4 => HeaderForm::Nid16,
        }
    }

    /// Returns true if frames begin with a frame header.
    #[must_use]
    pub const fn has_frame_header(self) -> bool {
        !matches!(self, Self::V1)
    }
}

/// The fields of a HELLO, whatever its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version of the received or sent HELLO.
    pub version: HelloVersion,
    /// The sender's NI; never the wildcard.
    pub src_nid: Nid,
    /// The receiver's NI as the sender sees it. Receivers do not check it, so a malformed one
    /// decodes as [`Nid::ANY`]. Version 1 has no such field: `ANY`.
    pub dst_nid: Nid,
    /// The sender's process id.
    pub src_pid: u32,
    /// The receiver's process id: 0 from a dialler, a copy of the received value in replies, 0 in
    /// version 1. Never checked.
    pub dst_pid: u32,
    /// The time at which the sender's NI started, in nanoseconds on its own clock; constant for the
    /// life of the NI.
    pub src_incarnation: u64,
    /// A copy of the receiver's incarnation; 0 from a dialler and in version 1. Never checked.
    pub dst_incarnation: u64,
    /// The connection's type as the sender names it; it may be an undefined value.
    pub ctype: Ctype,
}

/// A HELLO as it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedHello<'a> {
    /// The fields.
    pub hello: Hello,
    /// The sender's byte order, which also applies to its frame headers (never to LNet headers).
    pub order: ByteOrder,
    /// The sender's other addresses, which old releases send when an NI has several interfaces.
    pub addresses: Addresses<'a>,
    /// Bytes of the whole HELLO with its list.
    pub len: usize,
}

/// The IPv4 addresses after a HELLO of version 1 to 3; modern receivers read and ignore them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses<'a> {
    raw: &'a [u8],
    order: ByteOrder,
}

impl<'a> Addresses<'a> {
    /// How many there are, at most [`Hello::MAX_ADDRESSES`].
    #[must_use]
    pub const fn len(&self) -> usize {
        self.raw.len() / 4
    }

    /// Returns true if the sender listed no addresses, as all releases from 2.15 on.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The addresses, as sent.
    pub fn iter(&self) -> impl Iterator<Item = Ipv4Addr> + use<'a> {
        let order = self.order;
        let words = self.raw.as_chunks::<4>().0.iter();
        words.map(move |word| {
            Ipv4Addr::from_bits(match order {
                ByteOrder::Little => u32::from_le_bytes(*word),
                ByteOrder::Big => u32::from_be_bytes(*word),
            })
        })
    }
}

impl Hello {
    /// The most addresses that a HELLO may list.
    pub const MAX_ADDRESSES: u32 = 16;

    /// Bytes of the longest HELLO: version 1 with a full list.
    pub const MAX_LEN: usize = 72 + 4 * Self::MAX_ADDRESSES as usize;

    /// The HELLO of a dialler: version 4 if a NID needs it, otherwise version 3.
    // [HELLO-1] [LARGE-6]
    #[must_use]
    pub const fn dial(src_nid: Nid, dst_nid: Nid, incarnation: u64, ctype: Ctype) -> Self {
        let large = src_nid.is_large() || dst_nid.is_large();
        Self {
            version: if large {
                HelloVersion::V4
            } else {
                HelloVersion::V3
            },
            src_nid,
            dst_nid,
            src_pid: ProcessId::LUSTRE_PID,
            dst_pid: 0,
            src_incarnation: incarnation,
            dst_incarnation: 0,
            ctype,
        }
    }

    /// The answer to this HELLO: the same version, both ends exchanged, `dst_pid` and
    /// `dst_incarnation` as received, as kernels do. `src_nid` is the NI that the acceptor request
    /// named. `ctype` is the inverse of the requested type, or [`Ctype::NONE`] to reject the
    /// connection.
    // [HELLO-2] [HELLO-5] [HELLO-6] [HELLO-9]
    #[must_use]
    pub const fn reply(&self, src_nid: Nid, incarnation: u64, ctype: Ctype) -> Self {
        Self {
            version: self.version,
            src_nid,
            dst_nid: self.src_nid,
            src_pid: ProcessId::LUSTRE_PID,
            dst_pid: self.dst_pid,
            src_incarnation: incarnation,
            dst_incarnation: self.dst_incarnation,
            ctype,
        }
    }

    /// The number of bytes that a reader needs for the next step: 4 (the magic), 8 (the version),
    /// then the fixed part, then the whole HELLO. A prefix of at least that length is complete.
    ///
    /// # Errors
    ///
    /// A wrong magic or version, or a list that is too long, as soon as the prefix contains it.
    // [CONN-8] [LIMIT-1]
    pub fn needed(prefix: &[u8]) -> Result<usize, DecodeError> {
        match prefix.len() {
            0..4 => return Ok(4),
            4..8 => return read_magic(prefix).map(|_| 8),
            _ => {}
        }
        let (version, order) = read_version(prefix)?;
        let base = version.base_len();
        if prefix.len() < base {
            return Ok(base);
        }
        Ok(base + list_len(version, &Reader::new(WHAT, prefix).with_order(order))?)
    }

    /// Decodes the HELLO at the start of `bytes`; ignores bytes after it.
    ///
    /// # Errors
    ///
    /// A short input, an unknown magic or version, a malformed or wildcard source NID, more than 16
    /// addresses, or a zero address.
    pub fn decode(bytes: &[u8]) -> Result<ReceivedHello<'_>, DecodeError> {
        let (version, order) = read_version(bytes)?;
        let reader = Reader::new(WHAT, bytes).with_order(order);
        let base = version.base_len();
        reader.require(base)?;
        let hello = match version {
            HelloVersion::V1 => decode_v1(&reader)?,
            HelloVersion::V2 | HelloVersion::V3 => decode_nid4(version, &reader)?,
            HelloVersion::V4 => decode_v4(&reader)?,
        };
        let len = base + list_len(version, &reader)?;
        reader.require(len)?;
        let addresses = Addresses {
            raw: bytes.get(base..len).unwrap_or_default(),
            order,
        };
        if let Some(index) = addresses
            .iter()
            .position(|address| address.is_unspecified())
        {
            let zero = Problem::OutOfRange {
                field: "address",
                value: 0,
                min: 1,
                max: u32::MAX.into(),
            };
            return Err(reader.error(base + 4 * index, zero));
        }
        Ok(ReceivedHello {
            hello,
            order,
            addresses,
            len,
        })
    }

    /// Writes the HELLO in its version, little-endian and without an address list, and returns its
    /// length.
    ///
    /// # Errors
    ///
    /// A short buffer, or a large NID in a version below 4.
    // [HELLO-3] [HELLO-12]
    pub fn encode(&self, buffer: &mut [u8]) -> Result<usize, EncodeError> {
        let len = self.version.base_len();
        let mut writer = Writer::new(buffer, len)?;
        match self.version {
            HelloVersion::V1 => {
                writer
                    .u32(HELLO_V1_MAGIC)
                    .u16(1)
                    .u16(0)
                    .nid4(self.src_nid)?;
                writer.u32(0).u32(self.src_pid).u32(V1_MESSAGE_TYPE).u32(0);
                writer.u64(self.src_incarnation).u32(self.ctype.0);
            }
            HelloVersion::V2 | HelloVersion::V3 => {
                writer.u32(LNET_MAGIC).u32(self.version.number());
                writer.nid4(self.src_nid)?.nid4(self.dst_nid)?;
                self.encode_tail(&mut writer);
            }
            HelloVersion::V4 => {
                writer.u32(LNET_MAGIC).u32(self.version.number());
                writer.nid16(self.src_nid).nid16(self.dst_nid);
                self.encode_tail(&mut writer);
            }
        }
        writer.zeros();
        Ok(len)
    }

    /// The fields of versions 2 to 4 after the NIDs.
    fn encode_tail(&self, writer: &mut Writer<'_>) {
        writer.u32(self.src_pid).u32(self.dst_pid);
        writer.u64(self.src_incarnation).u64(self.dst_incarnation);
        writer.u32(self.ctype.0);
    }
}

/// The group of HELLO versions that a magic stands for.
enum Magic {
    V1,
    Lnet(ByteOrder),
}

// [HELLO-4] [HELLO-15]
fn read_magic(bytes: &[u8]) -> Result<Magic, DecodeError> {
    let reader = Reader::new(WHAT, bytes);
    let magic = reader.u32(0)?;
    if magic == HELLO_V1_MAGIC {
        return Ok(Magic::V1);
    }
    match ByteOrder::of_magic(magic, LNET_MAGIC) {
        Some(order) => Ok(Magic::Lnet(order)),
        None => Err(reader.error(0, Problem::BadMagic(magic))),
    }
}

// [HELLO-16]
fn read_version(bytes: &[u8]) -> Result<(HelloVersion, ByteOrder), DecodeError> {
    let reader = Reader::new(WHAT, bytes);
    match read_magic(bytes)? {
        Magic::V1 => match (reader.u16(4)?, reader.u16(6)?) {
            (1, 0) => Ok((HelloVersion::V1, ByteOrder::Little)),
            (major, minor) => {
                let version = u32::from(minor) << 16 | u32::from(major);
                Err(reader.error(4, Problem::UnknownVersion(version)))
            }
        },
        Magic::Lnet(order) => match reader.with_order(order).u32(4)? {
            2 => Ok((HelloVersion::V2, order)),
            3 => Ok((HelloVersion::V3, order)),
            4 => Ok((HelloVersion::V4, order)),
            unknown => Err(reader.error(4, Problem::UnknownVersion(unknown))),
        },
    }
}

/// Bytes of the address list after a HELLO whose fixed part is in `reader`.
// [HELLO-12] [HELLO-13]
fn list_len(version: HelloVersion, reader: &Reader<'_>) -> Result<usize, DecodeError> {
    let max = Hello::MAX_ADDRESSES;
    let (at, field, count) = match version {
        HelloVersion::V1 => (28, "payload length / 4", reader.u32(28)? / 4),
        HelloVersion::V2 | HelloVersion::V3 => (52, "nips", reader.u32(52)?),
        HelloVersion::V4 => return Ok(0),
    };
    if count > max {
        let problem = Problem::OutOfRange {
            field,
            value: count.into(),
            min: 0,
            max: max.into(),
        };
        return Err(reader.error(at, problem));
    }
    Ok(4 * count as usize)
}

fn decode_v1(reader: &Reader<'_>) -> Result<Hello, DecodeError> {
    let message_type = reader.u32(24)?;
    if message_type != V1_MESSAGE_TYPE {
        let problem = Problem::UnknownValue {
            field: "message type",
            value: message_type,
        };
        return Err(reader.error(24, problem));
    }
    Ok(Hello {
        version: HelloVersion::V1,
        src_nid: source(reader, 8, reader.nid4(8)?)?,
        dst_nid: Nid::ANY,
        src_pid: reader.u32(20)?,
        dst_pid: 0,
        src_incarnation: reader.u64(32)?,
        dst_incarnation: 0,
        ctype: Ctype(reader.u32(40)?),
    })
}

fn decode_nid4(version: HelloVersion, reader: &Reader<'_>) -> Result<Hello, DecodeError> {
    let src_nid = source(reader, 8, reader.nid4(8)?)?;
    let dst_nid = reader.nid4(16).unwrap_or(Nid::ANY);
    decode_tail(version, src_nid, dst_nid, reader, 24)
}

fn decode_v4(reader: &Reader<'_>) -> Result<Hello, DecodeError> {
    let src_nid = source(reader, 8, reader.nid16(8)?)?;
    let dst_nid = reader.nid16(28).unwrap_or(Nid::ANY);
    decode_tail(HelloVersion::V4, src_nid, dst_nid, reader, 48)
}

/// The fields of versions 2 to 4 after the NIDs, from offset `at`.
fn decode_tail(
    version: HelloVersion,
    src_nid: Nid,
    dst_nid: Nid,
    reader: &Reader<'_>,
    at: usize,
) -> Result<Hello, DecodeError> {
    Ok(Hello {
        version,
        src_nid,
        dst_nid,
        src_pid: reader.u32(at)?,
        dst_pid: reader.u32(at + 4)?,
        src_incarnation: reader.u64(at + 8)?,
        dst_incarnation: reader.u64(at + 16)?,
        ctype: Ctype(reader.u32(at + 24)?),
    })
}

/// Rejects the wildcard as the source of a HELLO.
// [HELLO-14]
fn source(reader: &Reader<'_>, at: usize, nid: Nid) -> Result<Nid, DecodeError> {
    if nid.is_any() {
        return Err(reader.error(at, Problem::BadNid));
    }
    Ok(nid)
}

//! The acceptor request: the first bytes on a connection, naming the NI that is dialled.
//!
//! ```text
//!        0        4         8                                16                28
//!        +--------+---------+--------------------------------+
//!    v1  | magic  | 1       | target NID, 8 bytes            |
//!        +--------+---------+--------------------------------+-----------------+
//!    v2  | magic  | 2       | target NID, 20 bytes, never swapped              |
//!        +--------+---------+--------------------------------------------------+
//! ```
//!
//! A valid request gets no answer. The caller decides whether the target is one of its NIs.

use lnet_types::Nid;

use crate::bytes::{ByteOrder, Reader, Writer};
use crate::error::{DecodeError, EncodeError, Problem};
use crate::hello::LNET_MAGIC;

/// First word of an acceptor request and of its rejection.
pub const ACCEPTOR_MAGIC: u32 = 0xACCE_7100;

const WHAT: &str = "connection request";

/// The form of an acceptor request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnreqVersion {
    /// 16 bytes with an 8-byte NID: every release.
    V1,
    /// 28 bytes with a 20-byte NID: releases from 2.15 on.
    V2,
}

impl ConnreqVersion {
    /// Bytes of a request in this form.
    #[must_use]
    pub const fn wire_len(self) -> usize {
        match self {
            Self::V1 => 16,
            Self::V2 => 28,
        }
    }
}

/// An acceptor request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connreq {
    /// Its form.
    pub version: ConnreqVersion,
    /// The NID of the NI that the dialler wants to reach.
    pub target: Nid,
}

impl Connreq {
    /// Bytes of the longest request.
    pub const MAX_LEN: usize = 28;

    /// The answer of an acceptor to a request for which
    /// [`deserves_rejection`](Self::deserves_rejection) holds, before the acceptor closes: acceptor
    /// magic, version 1, NID 0.
    // [REQ-6]
    pub const REJECTION: [u8; 16] = [0x00, 0x71, 0xCE, 0xAC, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    /// The request for `target` that most releases understand: version 1, or version 2 if the
    /// address is too large for version 1.
    // [REQ-1] [REQ-2] [LARGE-6]
    #[must_use]
    pub const fn to(target: Nid) -> Self {
        let version = if target.is_large() {
            ConnreqVersion::V2
        } else {
            ConnreqVersion::V1
        };
        Self { version, target }
    }

    /// The number of bytes that a reader needs for the next step: 4 (the magic), 8 (the version),
    /// then the length of the whole request. A prefix of at least that length is complete.
    ///
    /// # Errors
    ///
    /// A wrong magic or version, as soon as the prefix contains it.
    pub fn needed(prefix: &[u8]) -> Result<usize, DecodeError> {
        match prefix.len() {
            0..4 => Ok(4),
            4..8 => read_order(prefix).map(|_| 8),
            _ => Ok(read_version(prefix, read_order(prefix)?)?.wire_len()),
        }
    }

    /// Decodes the request at the start of `bytes`, in either byte order; ignores bytes after it.
    ///
    /// # Errors
    ///
    /// A short input, a wrong magic or version, or a malformed NID.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let order = read_order(bytes)?;
        let version = read_version(bytes, order)?;
        let reader = Reader::new(WHAT, bytes).with_order(order);
        reader.require(version.wire_len())?;
        let target = match version {
            ConnreqVersion::V1 => reader.nid4(8)?,
            ConnreqVersion::V2 => reader.nid16(8)?,
        };
        Ok(Self { version, target })
    }

    /// Writes the request, little-endian, and returns its length.
    ///
    /// # Errors
    ///
    /// A short buffer, or a large NID in a version 1 request.
    pub fn encode(&self, buffer: &mut [u8]) -> Result<usize, EncodeError> {
        let len = self.version.wire_len();
        let mut writer = Writer::new(buffer, len)?;
        match self.version {
            ConnreqVersion::V1 => writer.u32(ACCEPTOR_MAGIC).u32(1).nid4(self.target)?,
            ConnreqVersion::V2 => writer.u32(ACCEPTOR_MAGIC).u32(2).nid16(self.target),
        };
        Ok(len)
    }

    /// Returns true if kernels answer a request with this error with [`REJECTION`](Self::REJECTION)
    /// before they close: an unknown version, or LNet's own magic in place of the acceptor's. For
    /// every other error they close without an answer.
    // [REQ-6]
    #[must_use]
    pub const fn deserves_rejection(error: &DecodeError) -> bool {
        match error.problem {
            Problem::UnknownVersion(_) => true,
            Problem::BadMagic(magic) => ByteOrder::of_magic(magic, LNET_MAGIC).is_some(),
            _ => false,
        }
    }
}

// [REQ-3] [REQ-5]
fn read_order(bytes: &[u8]) -> Result<ByteOrder, DecodeError> {
    let reader = Reader::new(WHAT, bytes);
    let magic = reader.u32(0)?;
    ByteOrder::of_magic(magic, ACCEPTOR_MAGIC).ok_or(reader.error(0, Problem::BadMagic(magic)))
}

// [LARGE-9]
fn read_version(bytes: &[u8], order: ByteOrder) -> Result<ConnreqVersion, DecodeError> {
    let reader = Reader::new(WHAT, bytes).with_order(order);
    match reader.u32(4)? {
        1 => Ok(ConnreqVersion::V1),
        2 => Ok(ConnreqVersion::V2),
        unknown => Err(reader.error(4, Problem::UnknownVersion(unknown))),
    }
}

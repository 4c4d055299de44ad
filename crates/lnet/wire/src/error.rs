//! Errors of decoders and encoders.

use lnet_types::Nid;
use thiserror::Error;

/// The error of a decoder: what is wrong, and at which byte of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{what}: {problem} at offset {offset}")]
pub struct DecodeError {
    /// The structure being decoded, such as `HELLO` or `LNet header`.
    pub what: &'static str,
    /// Offset of the wrong field in the decoder's input, in bytes.
    pub offset: usize,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The input ends before the structure does.
    #[error("needs {needed} bytes, has {available}")]
    Truncated {
        /// Bytes that the structure needs, counted from its start.
        needed: usize,
        /// Bytes that the input has.
        available: usize,
    },
    /// A magic number is none of those expected here.
    #[error("bad magic {0:#010x}")]
    BadMagic(u32),
    /// A version that this decoder does not know.
    #[error("unknown version {0}")]
    UnknownVersion(u32),
    /// A NID is malformed.
    #[error("malformed NID")]
    BadNid,
    /// A type or enum value is unknown.
    #[error("unknown {field} {value:#x}")]
    UnknownValue {
        /// The field's name.
        field: &'static str,
        /// The value found.
        value: u32,
    },
    /// A checksum that does not fit the bytes.
    #[error("wrong checksum {0:#010x}")]
    BadChecksum(u32),
    /// A number is outside its range.
    #[error("{field} {value} is outside {min}..={max}")]
    OutOfRange {
        /// The field's name.
        field: &'static str,
        /// The value found.
        value: u64,
        /// The smallest legal value.
        min: u64,
        /// The largest legal value.
        max: u64,
    },
}

/// Why a structure cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The caller's buffer is shorter than the structure.
    #[error("needs a buffer of {needed} bytes, has {available}")]
    BufferTooSmall {
        /// Bytes that the structure takes.
        needed: usize,
        /// Bytes that the buffer has.
        available: usize,
    },
    /// A NID with a 16-byte address in a form that has only 4 bytes for the address.
    #[error("{0} does not fit the 8-byte NID form")]
    LargeNid(Nid),
    /// A number above the limit of receivers.
    #[error("{field} {value} is above {max}")]
    TooLarge {
        /// The field's name.
        field: &'static str,
        /// The value given.
        value: u64,
        /// The largest legal value.
        max: u64,
    },
}

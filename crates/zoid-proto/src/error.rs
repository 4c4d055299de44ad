//! What can be wrong with bytes from a queue, a connection or the segment.

use thiserror::Error;

/// A decoder's complaint: what is wrong, and at which byte of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{what}: {problem} at offset {offset}")]
pub struct DecodeError {
    /// The structure being decoded, such as `POST_SEND` or `frame header`.
    pub what: &'static str,
    /// Offset of the offending field in the decoder's input, in bytes.
    pub offset: usize,
    /// What is wrong.
    pub problem: Problem,
}

/// The kinds of complaint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The input ends before the structure does.
    #[error("needs {needed} bytes, has {available}")]
    Truncated {
        /// Bytes that the structure needs, counted from its start.
        needed: usize,
        /// Bytes that there are.
        available: usize,
    },
    /// The input is longer than the structure says it is.
    #[error("{surplus} bytes too many")]
    TooLong {
        /// Bytes behind the structure's end.
        surplus: usize,
    },
    /// A magic number is not the one expected here.
    #[error("bad magic {0:#018x}")]
    BadMagic(u64),
    /// A version that this decoder does not know.
    #[error("unknown version {0}")]
    UnknownVersion(u32),
    /// A header checksum is wrong.
    #[error("checksum {found:#010x}, computed {computed:#010x}")]
    BadChecksum {
        /// The checksum in the header.
        found: u32,
        /// What the header's bytes give.
        computed: u32,
    },
    /// A type or enum value is unknown.
    #[error("unknown {field} {value:#x}")]
    UnknownValue {
        /// The field's name.
        field: &'static str,
        /// The value found.
        value: u32,
    },
    /// A number is outside its range.
    #[error("{field} {value} is outside {min}..={max}")]
    OutOfRange {
        /// The field's name.
        field: &'static str,
        /// The value found.
        value: i128,
        /// The smallest legal value.
        min: i128,
        /// The largest legal value.
        max: i128,
    },
    /// Two fields, or a field and a list, contradict one another.
    #[error("{field} says {said}, the rest says {found}")]
    Contradiction {
        /// The field's name.
        field: &'static str,
        /// The field's value.
        said: u64,
        /// The value that the rest of the structure gives.
        found: u64,
    },
    /// A name is not one that this protocol allows.
    #[error("malformed {0}")]
    BadName(&'static str),
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
    /// A number or a list that receivers refuse.
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

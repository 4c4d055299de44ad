//! Errors of decoders and encoders.

use thiserror::Error;

/// Why a decoder rejected its input, and at which byte.
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

/// What is wrong with an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The input ends before the structure does.
    #[error("needs {needed} bytes, has {available}")]
    Truncated {
        /// The length of the structure in bytes, from its start.
        needed: usize,
        /// The bytes available.
        available: usize,
    },
    /// The input is longer than its length field or its structure.
    #[error("{surplus} bytes too many")]
    TooLong {
        /// The bytes after the structure's end.
        surplus: usize,
    },
    /// A magic number is wrong.
    #[error("bad magic {0:#018x}")]
    BadMagic(u64),
    /// The decoder does not know the version.
    #[error("unknown version {0}")]
    UnknownVersion(u32),
    /// A header checksum is wrong.
    #[error("checksum {found:#010x}, computed {computed:#010x}")]
    BadChecksum {
        /// The checksum in the header.
        found: u32,
        /// The checksum computed from the header.
        computed: u32,
    },
    /// A type or enumeration value is unknown.
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
    /// Two fields, or a field and a list, contradict each other.
    #[error("{field} says {said}, the rest says {found}")]
    Contradiction {
        /// The field's name.
        field: &'static str,
        /// The field's value.
        said: u64,
        /// The value that the rest of the structure gives.
        found: u64,
    },
    /// The protocol does not allow this name.
    #[error("malformed {0}")]
    BadName(&'static str),
}

/// Why an encoder rejected a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The caller's buffer is shorter than the structure.
    #[error("needs a buffer of {needed} bytes, has {available}")]
    BufferTooSmall {
        /// The length of the structure in bytes.
        needed: usize,
        /// The length of the buffer in bytes.
        available: usize,
    },
    /// Receivers would reject this number or list.
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

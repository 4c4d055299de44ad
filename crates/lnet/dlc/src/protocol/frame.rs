//! Frames: the units of the control protocol.
//!
//! ```text
//!  0        4         6       8       12       16         24       28           32
//!  +--------+---------+-------+-------+--------+----------+--------+------------+---- … -+
//!  | magic  | version | flags | code  | length | sequence | status | generation | body   |
//!  | "FLCT" | 2       |       |       | of body|          |        |            |        |
//!  +--------+---------+-------+-------+--------+----------+--------+------------+---- … -+
//! ```
//!
//! Little-endian. The client chooses `sequence`; the answer repeats it. `status` is 0 in requests;
//! in answers it is 0 or a negative errno. `generation` numbers the versions of the node's rule
//! list. Answers to rule requests carry the current generation. A request to add rules with a
//! generation other than 0 is rejected with −ESTALE if the list has changed since. In all other
//! frames the generation is 0.
//!
//! Magic and version have the same place in every version. A node answers a request of another
//! version with one frame of its own version, without body, and status −EPROTONOSUPPORT; then it
//! closes the connection.

use thiserror::Error;

/// The purpose of a request or an answer. Unknown codes are kept, so that the answer can name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub u32);

impl Code {
    /// An answer to no request: the node does not serve this connection, for the reason in the
    /// status. The body is empty, or a [`crate::protocol::Reply::Failed`] as JSON. The sequence is 0, and the
    /// node closes the connection.
    pub const NOT_SERVED: Self = Self(0);
    /// The body is a rule block, v1 or v2. Its rules replace those of its type if the list still
    /// has the generation of the header, or if the header has none. The answer's body is empty, or
    /// a [`crate::protocol::Reply::Failed`] as JSON.
    pub const IOC_LIBCFS_ADD_RULES: Self = Self(1);
    /// The body is the requested rule type (u32): 0 nets, 1 NIDs, 2 pairs as a v1 block, or
    /// `0xFFFF_FFFF` for all rules as a v2 block. The answer's body is the block.
    pub const IOC_LIBCFS_GET_RULES: Self = Self(2);
    /// The body is a [`crate::protocol::Request`] as JSON; the answer's body is a [`crate::protocol::Reply`].
    pub const DOCUMENT: Self = Self(3);
}

/// The first 32 bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// More frames of the same answer follow.
    pub more: bool,
    /// The purpose of the frame.
    pub code: Code,
    /// Bytes of the body, at most [`Header::BODY_MAX`].
    pub length: u32,
    /// The number that the client gave the request.
    pub sequence: u64,
    /// 0, or in an answer a negative errno.
    pub status: i32,
    /// Generation of the rule list; 0 for none.
    pub generation: u32,
}

/// A header and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// More frames of the same answer follow.
    pub more: bool,
    /// The purpose of the frame.
    pub code: Code,
    /// The number that the client gave the request.
    pub sequence: u64,
    /// 0, or in an answer a negative errno.
    pub status: i32,
    /// Generation of the rule list; 0 for none.
    pub generation: u32,
    /// At most [`Header::BODY_MAX`] bytes.
    pub body: Vec<u8>,
}

/// Why bytes are not a frame. The connection cannot be used any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The bytes do not begin with the magic of this protocol.
    #[error("the first four bytes are {0:#010x}, not a control frame")]
    Magic(u32),
    /// A version that this crate does not support.
    #[error("control protocol version {0}; this side speaks {version}", version = VERSION)]
    Version(u16),
    /// Unknown flags.
    #[error("unknown flags {0:#06x}")]
    Flags(u16),
    /// A body above the limit.
    #[error("a body of {0} bytes is longer than {max}", max = Header::BODY_MAX)]
    TooLong(usize),
}

const MAGIC: u32 = u32::from_le_bytes(*b"FLCT");
const VERSION: u16 = 2;
const FLAG_MORE: u16 = 1;

impl Header {
    /// Bytes of a header.
    pub const LEN: usize = 32;

    /// The most bytes of a body: 16 MiB. The YAML of 10,000 routes and 1,000 rules has less than 2
    /// MiB.
    pub const BODY_MAX: usize = 16 << 20;

    /// Reads a header.
    ///
    /// # Errors
    ///
    /// Another protocol, another version, unknown flags, a body that is too long.
    pub fn parse(bytes: &[u8; Self::LEN]) -> Result<Self, FrameError> {
        let [
            m0,
            m1,
            m2,
            m3,
            v0,
            v1,
            f0,
            f1,
            c0,
            c1,
            c2,
            c3,
            l0,
            l1,
            l2,
            l3,
            s0,
            s1,
            s2,
            s3,
            s4,
            s5,
            s6,
            s7,
            e0,
            e1,
            e2,
            e3,
            g0,
            g1,
            g2,
            g3,
        ] = *bytes;
        let magic = u32::from_le_bytes([m0, m1, m2, m3]);
        if magic != MAGIC {
            return Err(FrameError::Magic(magic));
        }
        let version = u16::from_le_bytes([v0, v1]);
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        let flags = u16::from_le_bytes([f0, f1]);
        if flags & !FLAG_MORE != 0 {
            return Err(FrameError::Flags(flags));
        }
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        if length as usize > Self::BODY_MAX {
            return Err(FrameError::TooLong(length as usize));
        }
        Ok(Self {
            more: flags & FLAG_MORE != 0,
            code: Code(u32::from_le_bytes([c0, c1, c2, c3])),
            length,
            sequence: u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            status: i32::from_le_bytes([e0, e1, e2, e3]),
            generation: u32::from_le_bytes([g0, g1, g2, g3]),
        })
    }

    /// Writes a header.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let flags = if self.more { FLAG_MORE } else { 0 };
        let fields: [&[u8]; 8] = [
            &MAGIC.to_le_bytes(),
            &VERSION.to_le_bytes(),
            &flags.to_le_bytes(),
            &self.code.0.to_le_bytes(),
            &self.length.to_le_bytes(),
            &self.sequence.to_le_bytes(),
            &self.status.to_le_bytes(),
            &self.generation.to_le_bytes(),
        ];
        let written = fields.into_iter().flatten();
        for (byte, &value) in bytes.iter_mut().zip(written) {
            *byte = value;
        }
        bytes
    }
}

impl Frame {
    /// The bytes of the frame.
    ///
    /// # Errors
    ///
    /// The body is too long.
    pub fn to_bytes(&self) -> Result<Vec<u8>, FrameError> {
        let length = self.body.len();
        let header = Header {
            more: self.more,
            code: self.code,
            length: u32::try_from(length)
                .ok()
                .filter(|_| length <= Header::BODY_MAX)
                .ok_or(FrameError::TooLong(length))?,
            sequence: self.sequence,
            status: self.status,
            generation: self.generation,
        };
        let mut bytes = Vec::with_capacity(Header::LEN + length);
        bytes.extend_from_slice(&header.emit());
        bytes.extend_from_slice(&self.body);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_has_these_bytes() {
        let frame = Frame {
            more: true,
            code: Code::IOC_LIBCFS_GET_RULES,
            sequence: 7,
            status: -17,
            generation: 9,
            body: vec![0xaa],
        };
        let expected = [
            b'F', b'L', b'C', b'T', 2, 0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0,
            0xef, 0xff, 0xff, 0xff, 9, 0, 0, 0, 0xaa,
        ];
        assert_eq!(frame.to_bytes().unwrap(), expected);
    }

    #[test]
    fn each_wrong_field_is_rejected_by_name() {
        let good = Header {
            more: false,
            code: Code::DOCUMENT,
            length: 0,
            sequence: 0,
            status: 0,
            generation: 0,
        }
        .emit();
        let with = |at: usize, value: u8| {
            let mut bytes = good;
            bytes[at] = value;
            Header::parse(&bytes)
        };
        assert_eq!(with(0, 0), Err(FrameError::Magic(0x5443_4c00)));
        assert_eq!(with(4, 1), Err(FrameError::Version(1)));
        assert_eq!(with(6, 2), Err(FrameError::Flags(2)));
        assert!(with(15, 1).is_ok(), "16 MiB is the most");
        assert_eq!(with(15, 2), Err(FrameError::TooLong(2 << 24)));
    }

    #[test]
    fn a_body_that_is_too_long_is_not_written() {
        let frame = Frame {
            more: false,
            code: Code::DOCUMENT,
            sequence: 0,
            status: 0,
            generation: 0,
            body: vec![0; Header::BODY_MAX + 1],
        };
        assert!(matches!(frame.to_bytes(), Err(FrameError::TooLong(_))));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            more: bool,
            code: u32,
            length in 0..=Header::BODY_MAX as u32,
            sequence: u64,
            status: i32,
            generation: u32,
        ) {
            let header = Header { more, code: Code(code), length, sequence, status, generation };
            prop_assert_eq!(Header::parse(&header.emit()), Ok(header));
        }

        #[test]
        fn no_bytes_panic(bytes: [u8; Header::LEN]) {
            let _any = Header::parse(&bytes);
        }
    }
}

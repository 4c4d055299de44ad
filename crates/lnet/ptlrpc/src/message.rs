//! The frame of an RPC: a header with the lengths of its buffers, and the buffers.
//!
//! ```text
//!  bufcount flavor magic repsize cksum flags opc pad | lengths ... | buffer 0 | buffer 1 | ...
//!  0        4      8     12      16    20    24  28    32            each padded to 8 bytes
//! ```
//!
//! Nothing is copied, and no length is believed before it is compared with the bytes.

use lnet_wire::ByteOrder;
use thiserror::Error;

use crate::security::Flavor;
use crate::view::{View, pad8};

/// The magic number of the header.
pub const MAGIC: u32 = 0x0bd0_0bd3;

/// The most buffers that a header may announce.
pub const BUFFERS_MAX: usize = 32;

/// The length of the header without the lengths of the buffers, in bytes.
pub const HEADER_LEN: usize = 32;

/// The reason why bytes are not an RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// There are fewer bytes than a header has.
    #[error("{0} bytes are too few for a header of 32 bytes")]
    Short(usize),
    /// The magic number is another one.
    #[error("magic number {0:#010x}, and not 0x0bd00bd3")]
    Magic(u32),
    /// The header announces no buffer, or too many.
    #[error("{0} buffers, and not 1 to 32")]
    Buffers(u32),
    /// The buffers are longer than the message.
    #[error("its buffers need {needed} bytes, and the message has {present}")]
    Truncated {
        /// The bytes that the lengths announce, with header and padding.
        needed: usize,
        /// The bytes of the message.
        present: usize,
    },
}

/// A message: its header is checked, its buffers are where the header says.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    view: View<'a>,
    count: usize,
    needed: usize,
    wire_len: usize,
}

/// One buffer of a message.
#[derive(Clone, Copy, Debug)]
pub struct Buffer<'a> {
    /// Its place in the header's list.
    pub index: usize,
    /// Its offset in the message, in bytes.
    pub at: usize,
    /// Its length on the wire, in bytes.
    pub len: usize,
    /// Its bytes; fewer than `len` if the message was captured in part.
    pub view: View<'a>,
}

impl<'a> Message<'a> {
    /// Reads a message that is complete.
    ///
    /// # Errors
    ///
    /// [`MessageError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MessageError> {
        Self::parse_head(bytes, bytes.len())
    }

    /// Reads a message of `wire_len` bytes of which the first are at hand.
    ///
    /// # Errors
    ///
    /// [`MessageError`].
    // [PTLRPC-1] [PTLRPC-2]
    pub fn parse_head(bytes: &'a [u8], wire_len: usize) -> Result<Self, MessageError> {
        let wire_len = wire_len.max(bytes.len());
        let little = View::little(bytes);
        let magic = little.u32(8).ok_or(MessageError::Short(bytes.len()))?;
        let order = match magic {
            MAGIC => ByteOrder::Little,
            swapped if swapped == MAGIC.swap_bytes() => ByteOrder::Big,
            other => return Err(MessageError::Magic(other)),
        };
        let view = View::new(bytes, order);
        let announced = view.u32(0).unwrap_or_default();
        let count = match announced {
            1..=32 => announced as usize,
            other => return Err(MessageError::Buffers(other)),
        };
        let head = pad8(HEADER_LEN + 4 * count);
        if bytes.len() < head {
            return Err(MessageError::Short(bytes.len()));
        }
        let mut needed = head;
        for index in 0..count {
            let len = view.u32(HEADER_LEN + 4 * index).unwrap_or_default();
            needed = needed.saturating_add(pad8(len as usize));
        }
        if needed > wire_len {
            let present = wire_len;
            return Err(MessageError::Truncated { needed, present });
        }
        Ok(Self {
            view,
            count,
            needed,
            wire_len,
        })
    }

    /// Returns the number of buffers.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Returns the bytes of header, buffers and padding; a message may be longer.
    #[must_use]
    pub const fn needed(&self) -> usize {
        self.needed
    }

    /// Returns the length on the wire, in bytes.
    #[must_use]
    pub const fn wire_len(&self) -> usize {
        self.wire_len
    }

    /// Returns the header and everything behind it.
    #[must_use]
    pub const fn view(&self) -> View<'a> {
        self.view
    }

    /// Returns the security flavor.
    #[must_use]
    pub fn flavor(&self) -> Flavor {
        Flavor(self.word(4))
    }

    /// Returns the checksum of an early reply; 0 in other messages.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        self.word(16)
    }

    /// Returns the flags of the header: 1, the sender takes early replies.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.word(20)
    }

    /// Returns the length of the header with the lengths of the buffers, in bytes.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        pad8(HEADER_LEN + 4 * self.count)
    }

    /// Returns all buffers, also those of length 0.
    pub fn buffers(&self) -> impl Iterator<Item = Buffer<'a>> + use<'a> {
        let this = *self;
        let mut at = this.header_len();
        (0..this.count).map(move |index| {
            let len = this.word(HEADER_LEN + 4 * index) as usize;
            let view = this.view.part(at, len);
            let buffer = Buffer {
                index,
                at,
                len,
                view,
            };
            at += pad8(len);
            buffer
        })
    }

    /// Returns a buffer; `None` for one that is absent: beyond the count, or of length 0.
    #[must_use]
    pub fn buffer(&self, index: usize) -> Option<View<'a>> {
        let buffer = self.buffers().nth(index)?;
        (buffer.len > 0).then_some(buffer.view)
    }

    fn word(&self, at: usize) -> u32 {
        self.view.u32(at).unwrap_or_default()
    }
}

/// Returns the checksum that an early reply carries over its buffer 0: CRC-32 without the final inversion.
// [PTLRPC-8]
#[must_use]
pub fn early_checksum(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    crc
}

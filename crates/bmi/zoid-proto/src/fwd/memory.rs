//! The body of PLACES: memory of the client that the daemon may read or write.
//!
//! ```text
//!  PLACES      grant u64, count u32, 0 u32, {address u64, length u64} of the client's memory ...
//! ```
//!
//! | Frames | Meaning |
//! |---|---|
//! | WELCOME with the bit, EVENT 5 `number`; PLACES 0, one part of 8 bytes | the daemon checks that the client's memory contains the number |
//! | GRANT mode 2; PLACES `grant`; SEND_DONE | the daemon reads the message from the client |
//! | RECV_REPLY mode 2; PLACES `grant`; DATA of no bytes at the message's end; RECV_ACK | the daemon writes the message to the client |
//! | GRANT mode 2; DATA ... ; SEND_DONE | the client prefers to send the message on the stream |
//! | ... PLACES `grant`; GRANT mode 0 or DATA ... | the daemon's copy failed: the message follows on the stream, from the start |
//! | RECV_REPLY mode 2; PLACES `grant` without parts; DATA ... | the client prefers to receive the message on the stream |

use super::MAX_BODY;
use crate::bytes::{Reader, Writer, at_most, in_range};
use crate::error::{DecodeError, EncodeError};
use crate::list::{Item, List};

/// A piece of a client's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPart {
    /// The address of its first byte, in the client.
    pub address: u64,
    /// Its length in bytes; it must not exceed the address space.
    pub len: u64,
}

impl Item for MemoryPart {
    const LEN: usize = 16;

    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new("memory list", bytes);
        let (address, len) = (reader.u64(0)?, reader.u64(8)?);
        in_range(&reader, 8, "length", len, (0, u64::MAX - address))?;
        Ok(Self { address, len })
    }

    fn write(&self, buffer: &mut [u8]) -> Result<(), EncodeError> {
        at_most("length", self.len, u64::MAX - self.address)?;
        Writer::new(buffer, Self::LEN)?
            .u64(self.address)
            .u64(self.len);
        Ok(())
    }
}

/// Names the memory of a transfer. The daemon may read or write it until it has answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Places<'a> {
    /// The transfer; 0 for the number of EVENT 5.
    pub grant: u64,
    /// The pieces, in order.
    pub parts: List<'a, MemoryPart>,
}

impl<'a> Places<'a> {
    /// The most parts in one frame.
    pub const PARTS_MAX: usize = (MAX_BODY as usize - 16) / MemoryPart::LEN;

    pub(crate) const fn encoded_len(&self) -> usize {
        16 + self.parts.encoded_len()
    }

    /// Returns the sum of the lengths; `None` if it overflows.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        let mut parts = self.parts.iter();
        parts.try_fold(0_u64, |sum, part| sum.checked_add(part.len))
    }

    pub(crate) fn decode(reader: &Reader<'a>) -> Result<Self, DecodeError> {
        reader.require(16)?;
        let max = Self::PARTS_MAX as u64;
        let count = in_range(reader, 8, "part count", reader.u32(8)?.into(), (0, max))?;
        // At most PARTS_MAX.
        reader.require_exactly(16 + count as usize * MemoryPart::LEN)?;
        let parts = List::decode("", reader.tail(16))
            .map_err(|error| reader.error(16 + error.offset, error.problem))?;
        Ok(Self {
            grant: reader.u64(0)?,
            parts,
        })
    }

    pub(crate) fn encode(&self, body: &mut [u8]) -> Result<(), EncodeError> {
        let count = self.parts.len() as u64;
        at_most("part count", count, Self::PARTS_MAX as u64)?;
        Writer::new(body, 16)?
            .u64(self.grant)
            .u32(count as u32)
            .reserved(4);
        self.parts.encode(body.get_mut(16..).unwrap_or_default())?;
        Ok(())
    }
}

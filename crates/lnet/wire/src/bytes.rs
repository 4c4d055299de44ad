//! Checked reads and writes at offsets. No other module touches raw bytes.
//!
//! A [`Reader`] reports an input that is too short as a [`DecodeError`] with the name of the
//! structure. A [`Writer`] checks its buffer once, for the size of the whole structure.

use lnet_types::Nid;

use crate::error::{DecodeError, EncodeError, Problem};

/// The byte order of a sender's integers. Every known sender is little-endian; a receiver also
/// understands big-endian senders of formats whose magic number shows the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first, as all known nodes send.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// The byte order of `magic`, given its four bytes as a little-endian number. `None` if they
    /// are not `magic` in either order.
    pub(crate) const fn of_magic(read: u32, magic: u32) -> Option<Self> {
        if read == magic {
            Some(Self::Little)
        } else if read == magic.swap_bytes() {
            Some(Self::Big)
        } else {
            None
        }
    }
}

/// Reads the fields of one structure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    what: &'static str,
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self {
            what,
            bytes,
            order: ByteOrder::Little,
        }
    }

    pub(crate) const fn with_order(self, order: ByteOrder) -> Self {
        Self { order, ..self }
    }

    pub(crate) const fn order(&self) -> ByteOrder {
        self.order
    }

    /// The error that `problem` is at `offset`.
    pub(crate) const fn error(&self, offset: usize, problem: Problem) -> DecodeError {
        DecodeError {
            what: self.what,
            offset,
            problem,
        }
    }

    /// Rejects an input shorter than `needed`; the offset of the error is the end of the input.
    pub(crate) const fn require(&self, needed: usize) -> Result<(), DecodeError> {
        let available = self.bytes.len();
        if available < needed {
            return Err(self.error(available, Problem::Truncated { needed, available }));
        }
        Ok(())
    }

    pub(crate) fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], DecodeError> {
        match self
            .bytes
            .get(at..)
            .and_then(|tail| tail.first_chunk::<N>())
        {
            Some(bytes) => Ok(*bytes),
            None => {
                let available = self.bytes.len();
                let needed = at.saturating_add(N);
                Err(self.error(available, Problem::Truncated { needed, available }))
            }
        }
    }

    pub(crate) fn u16(&self, at: usize) -> Result<u16, DecodeError> {
        let bytes = self.array(at)?;
        Ok(match self.order {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        })
    }

    pub(crate) fn u32(&self, at: usize) -> Result<u32, DecodeError> {
        let bytes = self.array(at)?;
        Ok(match self.order {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        })
    }

    pub(crate) fn u64(&self, at: usize) -> Result<u64, DecodeError> {
        let bytes = self.array(at)?;
        Ok(match self.order {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        })
    }

    /// An 8-byte NID, in the sender's order.
    // [TYPE-1]
    pub(crate) fn nid4(&self, at: usize) -> Result<Nid, DecodeError> {
        Nid::from_nid4(self.u64(at)?).ok_or(self.error(at, Problem::BadNid))
    }

    /// A 20-byte NID, whose bytes never depend on the sender's order.
    // [LARGE-1] [LARGE-3]
    pub(crate) fn nid16(&self, at: usize) -> Result<Nid, DecodeError> {
        Nid::from_wire(self.array(at)?).ok_or(self.error(at, Problem::BadNid))
    }

    /// A NID of which the input has only the first `used` bytes, at most 20.
    pub(crate) fn nid16_of(&self, at: usize, used: usize) -> Result<Nid, DecodeError> {
        let end = at.saturating_add(used);
        self.require(end)?;
        let mut wire = [0; Nid::WIRE_LEN];
        wire.iter_mut()
            .zip(self.bytes.get(at..end).unwrap_or_default())
            .for_each(|(to, from)| *to = *from);
        Nid::from_wire(wire).ok_or(self.error(at, Problem::BadNid))
    }
}

/// Writes the fields of one structure in sequence, little-endian.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    rest: &'a mut [u8],
}

impl<'a> Writer<'a> {
    /// A writer of exactly the `needed` bytes of a structure.
    pub(crate) fn new(buffer: &'a mut [u8], needed: usize) -> Result<Self, EncodeError> {
        let available = buffer.len();
        match buffer.get_mut(..needed) {
            Some(rest) => Ok(Self { rest }),
            None => Err(EncodeError::BufferTooSmall { needed, available }),
        }
    }

    /// Writes `bytes`. [`Writer::new`] has checked the buffer for everything that an encoder
    /// writes, so the other branch is unreachable; it writes nothing instead of panicking.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let rest = std::mem::take(&mut self.rest);
        debug_assert!(
            bytes.len() <= rest.len(),
            "an encoder wrote more than it announced"
        );
        if let Some((head, tail)) = rest.split_at_mut_checked(bytes.len()) {
            head.copy_from_slice(bytes);
            self.rest = tail;
        }
        self
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn nid4(&mut self, nid: Nid) -> Result<&mut Self, EncodeError> {
        let value = nid.to_nid4().ok_or(EncodeError::LargeNid(nid))?;
        Ok(self.u64(value))
    }

    pub(crate) fn nid16(&mut self, nid: Nid) -> &mut Self {
        self.bytes(&nid.to_wire())
    }

    /// Fills the rest of the structure with zeros.
    pub(crate) fn zeros(&mut self) {
        self.rest.fill(0);
    }
}

//! Bytes of a message and the byte order of their sender. No other module reads integers from bytes.

use lnet_wire::ByteOrder;

/// Bytes of one structure. Every read is checked: outside the bytes there is `None`.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> View<'a> {
    /// Returns a view of bytes whose integers have this order.
    #[must_use]
    pub const fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { bytes, order }
    }

    /// Returns a view of bytes that are little-endian whoever sent them, such as log records.
    #[must_use]
    pub const fn little(bytes: &'a [u8]) -> Self {
        Self::new(bytes, ByteOrder::Little)
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the byte order.
    #[must_use]
    pub const fn order(&self) -> ByteOrder {
        self.order
    }

    /// Returns the part from `at` on, of at most `len` bytes; empty beyond the end.
    #[must_use]
    pub fn part(&self, at: usize, len: usize) -> Self {
        let from = at.min(self.bytes.len());
        let to = from.saturating_add(len).min(self.bytes.len());
        Self::new(self.bytes.get(from..to).unwrap_or_default(), self.order)
    }

    /// Returns the byte at an offset.
    #[must_use]
    pub fn u8(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    /// Returns the 16-bit integer at an offset.
    #[must_use]
    pub fn u16(&self, at: usize) -> Option<u16> {
        self.array(at).map(|bytes| match self.order {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        })
    }

    /// Returns the 32-bit integer at an offset.
    #[must_use]
    pub fn u32(&self, at: usize) -> Option<u32> {
        self.array(at).map(|bytes| match self.order {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        })
    }

    /// Returns the 64-bit integer at an offset.
    #[must_use]
    pub fn u64(&self, at: usize) -> Option<u64> {
        self.array(at).map(|bytes| match self.order {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        })
    }

    /// Returns an integer of 1, 2, 4 or 8 bytes; `None` for other lengths and outside the bytes.
    #[must_use]
    pub fn number(&self, at: usize, len: usize) -> Option<u64> {
        match len {
            1 => self.u8(at).map(u64::from),
            2 => self.u16(at).map(u64::from),
            4 => self.u32(at).map(u64::from),
            8 => self.u64(at),
            _ => None,
        }
    }

    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        let bytes = self.bytes.get(at..at.checked_add(N)?)?;
        bytes.try_into().ok()
    }
}

/// Returns `len` rounded up to a multiple of 8.
#[must_use]
pub(crate) const fn pad8(len: usize) -> usize {
    len.saturating_add(7) & !7
}

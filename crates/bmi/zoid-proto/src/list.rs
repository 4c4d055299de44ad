//! Lists of items of equal length, decoded in place or encoded from a slice.

use std::fmt;
use std::marker::PhantomData;

use crate::bytes::{Reader, Writer, in_range};
use crate::error::{DecodeError, EncodeError, Problem};
use crate::segment::Extent;

/// An item of a list, of fixed length.
pub trait Item: Copy + PartialEq + fmt::Debug {
    /// The length of an item in bytes.
    const LEN: usize;

    /// Decodes an item from exactly [`LEN`](Self::LEN) bytes.
    ///
    /// # Errors
    ///
    /// Values that no sender may use.
    fn read(bytes: &[u8]) -> Result<Self, DecodeError>;

    /// Encodes the item to the first [`LEN`](Self::LEN) bytes of `buffer`.
    ///
    /// # Errors
    ///
    /// The buffer is too short.
    fn write(&self, buffer: &mut [u8]) -> Result<(), EncodeError>;
}

impl Item for Extent {
    const LEN: usize = Self::LEN;

    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new("segment list", bytes);
        Ok(Self {
            offset: reader.u64(0)?,
            len: reader.u64(8)?,
        })
    }

    fn write(&self, buffer: &mut [u8]) -> Result<(), EncodeError> {
        Writer::new(buffer, Self::LEN)?
            .u64(self.offset)
            .u64(self.len);
        Ok(())
    }
}

impl Item for u64 {
    const LEN: usize = 8;

    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::new("id list", bytes).u64(0)
    }

    fn write(&self, buffer: &mut [u8]) -> Result<(), EncodeError> {
        Writer::new(buffer, Self::LEN)?.u64(*self);
        Ok(())
    }
}

impl Item for u32 {
    const LEN: usize = 4;

    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::new("count list", bytes).u32(0)
    }

    fn write(&self, buffer: &mut [u8]) -> Result<(), EncodeError> {
        Writer::new(buffer, Self::LEN)?.u32(*self);
        Ok(())
    }
}

/// A list of `T`: bytes that a decoder has checked, or a slice to encode.
#[derive(Clone, Copy)]
pub struct List<'a, T>(Repr<'a, T>);

#[derive(Clone, Copy)]
enum Repr<'a, T> {
    /// The length is a multiple of the item's, and each item has been decoded once without an error.
    Wire(&'a [u8], PhantomData<T>),
    Items(&'a [T]),
}

impl<'a, T: Item> List<'a, T> {
    /// Creates a list of `items`.
    #[must_use]
    pub const fn new(items: &'a [T]) -> Self {
        Self(Repr::Items(items))
    }

    /// Decodes a list that fills `bytes`, such as one written to the segment because it did not fit in a
    /// command. Copy the bytes out of shared memory first.
    ///
    /// # Errors
    ///
    /// A length that is not a multiple of the item's, or an item that no sender may use. The offset counts
    /// from the start of `bytes`.
    pub fn decode(what: &'static str, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let items = bytes.chunks_exact(T::LEN);
        if !items.remainder().is_empty() {
            let available = bytes.len();
            let needed = available.next_multiple_of(T::LEN);
            let problem = Problem::Truncated { needed, available };
            return Err(Reader::new(what, bytes).error(available, problem));
        }
        for (index, item) in items.enumerate() {
            T::read(item).map_err(|error| DecodeError {
                what,
                offset: index * T::LEN + error.offset,
                ..error
            })?;
        }
        Ok(Self(Repr::Wire(bytes, PhantomData)))
    }

    /// Returns the number of items.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.0 {
            Repr::Wire(bytes, _) => bytes.len() / T::LEN,
            Repr::Items(items) => items.len(),
        }
    }

    /// Returns whether there are no items.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the item at `index`.
    #[must_use]
    pub fn item(&self, index: usize) -> Option<T> {
        match self.0 {
            // Each item was decoded without an error before, so `ok` hides none.
            Repr::Wire(bytes, _) => bytes
                .chunks_exact(T::LEN)
                .nth(index)
                .and_then(|item| T::read(item).ok()),
            Repr::Items(items) => items.get(index).copied(),
        }
    }

    /// Returns the items in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let list = *self;
        (0..list.len()).filter_map(move |index| list.item(index))
    }

    /// Returns the length of the list in bytes.
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        self.len() * T::LEN
    }

    /// Writes the items and returns their length in bytes.
    ///
    /// # Errors
    ///
    /// The buffer is too short.
    pub fn encode(&self, buffer: &mut [u8]) -> Result<usize, EncodeError> {
        let needed = self.encoded_len();
        let available = buffer.len();
        let Some(target) = buffer.get_mut(..needed) else {
            return Err(EncodeError::BufferTooSmall { needed, available });
        };
        for (item, chunk) in self.iter().zip(target.chunks_exact_mut(T::LEN)) {
            item.write(chunk)?;
        }
        Ok(needed)
    }
}

impl<T: Item> PartialEq for List<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<T: Item> fmt::Debug for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A list in a command, or in the segment if it does not fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Array<'a, T: Item> {
    /// In the command.
    Inline(List<'a, T>),
    /// In the expected region, at this extent.
    Spilled(Extent),
}

impl<'a, T: Item> Array<'a, T> {
    /// Creates a list of `items` in the command.
    #[must_use]
    pub const fn inline(items: &'a [T]) -> Self {
        Self::Inline(List::new(items))
    }

    /// Returns the number of items; for a spilled list, according to its length in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        match self {
            Self::Inline(list) => list.len() as u64,
            Self::Spilled(extent) => extent.len / T::LEN as u64,
        }
    }

    /// Returns whether there are no items.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the list is in the segment.
    #[must_use]
    pub const fn is_spilled(&self) -> bool {
        matches!(self, Self::Spilled(_))
    }

    /// Returns the number of bytes of the list in the command.
    pub(crate) const fn encoded_len(&self) -> usize {
        match self {
            Self::Inline(list) => list.encoded_len(),
            Self::Spilled(_) => Extent::LEN,
        }
    }

    pub(crate) fn encode(&self, buffer: &mut [u8]) -> Result<usize, EncodeError> {
        match self {
            Self::Inline(list) => list.encode(buffer),
            Self::Spilled(extent) => List::new(&[*extent]).encode(buffer),
        }
    }

    /// Decodes a list from `at` to the end of a command, or the extent of a spilled list. The number of items
    /// is the field at `count_at`.
    pub(crate) fn decode(
        reader: &Reader<'a>,
        at: usize,
        (count_at, count_field, count): (usize, &'static str, u64),
        max: u64,
        spilled: bool,
    ) -> Result<Self, DecodeError> {
        if spilled {
            reader.require_exactly(at + Extent::LEN)?;
            let extent =
                Extent::read(reader.tail(at)).map_err(|error| reader.error(at, error.problem))?;
            // A count that saturates here exceeds any segment.
            let said = count.saturating_mul(T::LEN as u64);
            if said != extent.len {
                let found = extent.len;
                let problem = Problem::Contradiction {
                    field: count_field,
                    said,
                    found,
                };
                return Err(reader.error(at + 8, problem));
            }
            return Ok(Self::Spilled(extent));
        }
        let count = in_range(reader, count_at, count_field, count, (0, max))?;
        // At most `max` items, whose length fits in a usize.
        reader.require_exactly(at + count as usize * T::LEN)?;
        let bytes = reader.tail(at);
        List::decode("", bytes)
            .map(Self::Inline)
            .map_err(|error| reader.error(at + error.offset, error.problem))
    }
}

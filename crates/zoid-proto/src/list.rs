//! Lists of equal items, read where they stand or written from a slice.

use std::fmt;
use std::marker::PhantomData;

use crate::bytes::{Reader, Writer, in_range};
use crate::error::{DecodeError, EncodeError, Problem};
use crate::segment::Extent;

/// One item of a list: so many bytes, any of them legal.
pub trait Item: Copy + PartialEq + fmt::Debug {
    /// Bytes of an item.
    const LEN: usize;

    /// Reads an item; `bytes` are [`LEN`](Self::LEN) bytes.
    ///
    /// # Errors
    ///
    /// Values that no sender may use.
    fn read(bytes: &[u8]) -> Result<Self, DecodeError>;

    /// Writes the item into the first [`LEN`](Self::LEN) bytes of `buffer`.
    ///
    /// # Errors
    ///
    /// A short buffer.
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

/// A list of `T`: bytes that a decoder has checked, or a slice that an encoder will write.
#[derive(Clone, Copy)]
pub struct List<'a, T>(Repr<'a, T>);

#[derive(Clone, Copy)]
enum Repr<'a, T> {
    /// A multiple of the item's length; each item was read once without a complaint.
    Wire(&'a [u8], PhantomData<T>),
    Items(&'a [T]),
}

impl<'a, T: Item> List<'a, T> {
    /// The list of `items`.
    #[must_use]
    pub const fn new(items: &'a [T]) -> Self {
        Self(Repr::Items(items))
    }

    /// Reads a list that fills `bytes`, such as one written into the segment because a command had
    /// no room for it. Copy it out of shared memory first.
    ///
    /// # Errors
    ///
    /// A length that is no multiple of the item's, or an item that no sender may use; the offset
    /// counts from the start of `bytes`.
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

    /// Items in the list.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.0 {
            Repr::Wire(bytes, _) => bytes.len() / T::LEN,
            Repr::Items(items) => items.len(),
        }
    }

    /// True without items.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item at `index`.
    #[must_use]
    pub fn item(&self, index: usize) -> Option<T> {
        match self.0 {
            // Read without a complaint when the list was decoded, so that `ok` loses nothing.
            Repr::Wire(bytes, _) => bytes
                .chunks_exact(T::LEN)
                .nth(index)
                .and_then(|item| T::read(item).ok()),
            Repr::Items(items) => items.get(index).copied(),
        }
    }

    /// The items, in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let list = *self;
        (0..list.len()).filter_map(move |index| list.item(index))
    }

    /// Bytes that the list takes.
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        self.len() * T::LEN
    }

    /// Writes the items and returns their length in bytes.
    ///
    /// # Errors
    ///
    /// A short buffer.
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

/// A list that stands in a command, or in the segment when the command has no room for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Array<'a, T: Item> {
    /// In the command.
    Inline(List<'a, T>),
    /// So many bytes of the expected region.
    Spilled(Extent),
}

impl<'a, T: Item> Array<'a, T> {
    /// The list of `items`, in the command.
    #[must_use]
    pub const fn inline(items: &'a [T]) -> Self {
        Self::Inline(List::new(items))
    }

    /// Items, as far as the byte count of a spilled list tells.
    #[must_use]
    pub const fn len(&self) -> u64 {
        match self {
            Self::Inline(list) => list.len() as u64,
            Self::Spilled(extent) => extent.len / T::LEN as u64,
        }
    }

    /// True without items.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True for a list in the segment.
    #[must_use]
    pub const fn is_spilled(&self) -> bool {
        matches!(self, Self::Spilled(_))
    }

    /// Bytes that the list takes in the command.
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

    /// Reads items from `at` to the end of a command, or the place of as many in the segment; how
    /// many, says the field that stands at `count_at`.
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
            // A count that overflows here is in no segment's reach.
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
        // At most `max` items, which fit the address space.
        reader.require_exactly(at + count as usize * T::LEN)?;
        let bytes = reader.tail(at);
        List::decode("", bytes)
            .map(Self::Inline)
            .map_err(|error| reader.error(at + error.offset, error.problem))
    }
}

//! The memory of messages: one buffer or a list of buffers.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};

use smallvec::SmallVec;
use sys::span::{Exclusive, Span};

use crate::error::Error;

/// The segments of a message. A single segment, the common case, needs no allocation.
pub type Segments = SmallVec<[Span; 1]>;

/// Where memory came from; decides whether a method must copy it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// From [`crate::Bmi::allocate`]: the method receives into it and sends from it without a copy.
    PreAllocated,
    /// From anywhere else.
    #[default]
    External,
}

/// Memory for a message. Accessible as a slice of bytes until it is posted; frees itself.
///
/// ```
/// let mut buffer = bmi::Buffer::zeroed(4)?;
/// buffer[..2].copy_from_slice(b"ab");
/// assert_eq!(&buffer[..], b"ab\0\0");
/// # Ok::<(), bmi::Error>(())
/// ```
#[derive(Debug)]
pub struct Buffer {
    bytes: Exclusive,
    memory: Memory,
}

impl Buffer {
    /// Allocates zeroed memory from this process's heap, aligned to 64 bytes.
    ///
    /// # Errors
    ///
    /// [`Error::NoMem`].
    // [MEM-1]
    pub fn zeroed(len: usize) -> Result<Buffer, Error> {
        Ok(Buffer {
            bytes: Exclusive::zeroed(len)?,
            memory: Memory::External,
        })
    }

    /// Returns where the memory came from.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Returns the range of addresses of the memory.
    #[must_use]
    pub fn addresses(&self) -> Range<usize> {
        self.bytes.addresses()
    }

    /// Converts the buffer to the form that methods use.
    #[must_use]
    pub fn into_span(self) -> Span {
        self.bytes.into_span()
    }

    pub(crate) fn reclaim(span: Span, memory: Memory) -> Buffer {
        Buffer {
            bytes: Exclusive::reclaim(span),
            memory,
        }
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        Buffer {
            bytes: Exclusive::from(bytes),
            memory: Memory::External,
        }
    }
}

impl From<&[u8]> for Buffer {
    fn from(bytes: &[u8]) -> Buffer {
        Buffer::from(bytes.to_vec())
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// The buffers of one message, in order. Posted with an operation and returned at its completion.
///
/// `into()` converts a buffer or a list of buffers. The receiver's list may be divided differently from the
/// sender's: only the sums of the lengths matter.
// [BMI-14]
#[derive(Clone, Default)]
pub struct Payload {
    segments: Segments,
    memory: Memory,
}

impl Payload {
    /// Creates a payload from memory that is not a [`Buffer`]'s, such as that of a C program.
    #[must_use]
    pub fn from_spans(segments: Segments, memory: Memory) -> Payload {
        Payload { segments, memory }
    }

    /// The segments.
    #[must_use]
    pub fn segments(&self) -> &[Span] {
        &self.segments
    }

    /// Returns where the memory came from: pre-allocated only if all segments are.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Returns the sum of the lengths; `None` if it exceeds the largest message size.
    #[must_use]
    pub fn total(&self) -> Option<usize> {
        let sum = self
            .segments
            .iter()
            .try_fold(0_usize, |sum, span| sum.checked_add(span.len()))?;
        i64::try_from(sum).is_ok().then_some(sum)
    }

    pub(crate) fn into_parts(self) -> (Segments, Memory) {
        (self.segments, self.memory)
    }

    /// Returns the first buffer; an empty one if there is none.
    #[must_use]
    pub fn into_buffer(self) -> Buffer {
        let memory = self.memory;
        match self.segments.into_iter().next() {
            Some(span) => Buffer::reclaim(span, memory),
            None => Buffer::from(Vec::new()),
        }
    }

    /// Returns the buffers in the order in which they were posted.
    #[must_use]
    pub fn into_buffers(self) -> Vec<Buffer> {
        let memory = self.memory;
        let each = |span| Buffer::reclaim(span, memory);
        self.segments.into_iter().map(each).collect()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.segments).finish()
    }
}

impl From<Buffer> for Payload {
    fn from(buffer: Buffer) -> Payload {
        let memory = buffer.memory;
        Payload {
            segments: Segments::from_buf([buffer.into_span()]),
            memory,
        }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Payload {
        Payload::from(Buffer::from(bytes))
    }
}

impl From<Vec<Buffer>> for Payload {
    fn from(buffers: Vec<Buffer>) -> Payload {
        let all = |buffers: &[Buffer]| buffers.iter().all(|b| b.memory == Memory::PreAllocated);
        let memory = if !buffers.is_empty() && all(&buffers) {
            Memory::PreAllocated
        } else {
            Memory::External
        };
        Payload {
            segments: buffers.into_iter().map(Buffer::into_span).collect(),
            memory,
        }
    }
}

//! Checked reads and writes at offsets, little-endian. No other module touches raw bytes.

use crate::error::{DecodeError, EncodeError, Problem};

/// Reads the fields of one structure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    what: &'static str,
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, bytes }
    }

    /// Returns the error that `problem` exists at `offset`.
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

    /// Rejects an input that is not exactly `needed` bytes long.
    pub(crate) const fn require_exactly(&self, needed: usize) -> Result<(), DecodeError> {
        if self.bytes.len() > needed {
            let surplus = self.bytes.len() - needed;
            return Err(self.error(needed, Problem::TooLong { surplus }));
        }
        self.require(needed)
    }

    /// Returns the bytes from `at` on; none if the input is shorter.
    pub(crate) fn tail(&self, at: usize) -> &'a [u8] {
        self.bytes.get(at..).unwrap_or_default()
    }

    pub(crate) fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], DecodeError> {
        let found = self
            .bytes
            .get(at..)
            .and_then(|tail| tail.first_chunk::<N>());
        match found {
            Some(bytes) => Ok(*bytes),
            None => {
                let available = self.bytes.len();
                let needed = at.saturating_add(N);
                Err(self.error(available, Problem::Truncated { needed, available }))
            }
        }
    }

    pub(crate) fn u8(&self, at: usize) -> Result<u8, DecodeError> {
        self.array(at).map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&self, at: usize) -> Result<u16, DecodeError> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&self, at: usize) -> Result<u32, DecodeError> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&self, at: usize) -> Result<i32, DecodeError> {
        self.array(at).map(i32::from_le_bytes)
    }

    pub(crate) fn u64(&self, at: usize) -> Result<u64, DecodeError> {
        self.array(at).map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&self, at: usize) -> Result<i64, DecodeError> {
        self.array(at).map(i64::from_le_bytes)
    }

    /// Reads a time limit in milliseconds: a signed number on the wire that must not be negative.
    pub(crate) fn milliseconds(&self, at: usize, field: &'static str) -> Result<u32, DecodeError> {
        let value = self.i32(at)?;
        u32::try_from(value).map_err(|_| {
            let problem = out_of_range(field, value.into(), 0, i32::MAX.into());
            self.error(at, problem)
        })
    }
}

/// Checks that a number is in `min..=max`.
pub(crate) fn in_range(
    reader: &Reader<'_>,
    at: usize,
    field: &'static str,
    value: u64,
    (min, max): (u64, u64),
) -> Result<u64, DecodeError> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    let problem = out_of_range(field, value.into(), min.into(), max.into());
    Err(reader.error(at, problem))
}

pub(crate) const fn out_of_range(
    field: &'static str,
    value: i128,
    min: i128,
    max: i128,
) -> Problem {
    Problem::OutOfRange {
        field,
        value,
        min,
        max,
    }
}

/// Rejects a `value` above `max`.
pub(crate) fn at_most(field: &'static str, value: u64, max: u64) -> Result<(), EncodeError> {
    if value <= max {
        return Ok(());
    }
    Err(EncodeError::TooLarge { field, value, max })
}

/// Rejects a time limit that the signed number on the wire cannot hold.
pub(crate) fn check_milliseconds(value: u32) -> Result<(), EncodeError> {
    at_most("timeout ms", value.into(), i32::MAX.unsigned_abs().into())
}

/// Writes the fields of one structure in order.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    rest: &'a mut [u8],
}

impl<'a> Writer<'a> {
    /// Returns a writer of exactly the `needed` bytes of a structure.
    pub(crate) fn new(buffer: &'a mut [u8], needed: usize) -> Result<Self, EncodeError> {
        let available = buffer.len();
        match buffer.get_mut(..needed) {
            Some(rest) => Ok(Self { rest }),
            None => Err(EncodeError::BufferTooSmall { needed, available }),
        }
    }

    /// Writes `bytes`. The size given to [`Writer::new`] covers all that an encoder writes. If it did not,
    /// this would write nothing; that branch is unreachable.
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

    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn i32(&mut self, value: i32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn i64(&mut self, value: i64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Writes `count` reserved bytes, which are zero on send and ignored on receive.
    pub(crate) fn reserved(&mut self, count: usize) -> &mut Self {
        for _ in 0..count {
            self.u8(0);
        }
        self
    }
}

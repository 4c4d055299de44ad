//! Encoding of values. One list of fields defines both directions.

use std::time::Duration;

/// Why bytes are not a value, as the end of a sentence that begins with "the record has".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// A type that can be written.
pub(crate) trait Put {
    fn put(&self, out: &mut Vec<u8>);
}

/// A type that can also be read.
pub(crate) trait Take: Put + Sized {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed>;
}

/// Structures, field by field. A field that is added to or removed from the core does not compile
/// until this list follows.
macro_rules! fields {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl crate::record::file::codec::Put for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $(crate::record::file::codec::Put::put($field, out);)*
            }
        }
        impl crate::record::file::codec::Take for $name {
            fn take(from: &mut &[u8]) -> Result<Self, crate::record::file::codec::Malformed> {
                Ok(Self { $($field: crate::record::file::codec::Take::take(from)?),* })
            }
        }
    )*};
}

/// As `fields`, for types that are only written.
macro_rules! shown {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl crate::record::file::codec::Put for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $(crate::record::file::codec::Put::put($field, out);)*
            }
        }
    )*};
}

/// Structures of one unnamed field.
macro_rules! wrapped {
    ($($name:ident),*) => {$(
        impl crate::record::file::codec::Put for $name {
            fn put(&self, out: &mut Vec<u8>) {
                crate::record::file::codec::Put::put(&self.0, out);
            }
        }
        impl crate::record::file::codec::Take for $name {
            fn take(from: &mut &[u8]) -> Result<Self, crate::record::file::codec::Malformed> {
                Ok(Self(crate::record::file::codec::Take::take(from)?))
            }
        }
    )*};
}

/// Enumerations of named fields, each variant with its number.
macro_rules! choices {
    ($($name:ident { $($tag:literal $variant:ident $({ $($field:ident),* })?),* $(,)? })*) => {$(
        impl crate::record::file::codec::Put for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $({ $($field),* })? => {
                        out.push($tag);
                        $($(crate::record::file::codec::Put::put($field, out);)*)?
                    })*
                }
            }
        }
        impl crate::record::file::codec::Take for $name {
            fn take(from: &mut &[u8]) -> Result<Self, crate::record::file::codec::Malformed> {
                match crate::record::file::codec::byte(from)? {
                    $($tag => Ok(Self::$variant $({ $($field: crate::record::file::codec::Take::take(from)?),* })?),)*
                    _ => Err(crate::record::file::codec::Malformed(concat!("no such ", stringify!($name)))),
                }
            }
        }
    )*};
}

pub(crate) use {choices, fields, shown, wrapped};

/// The next byte.
pub(crate) fn byte(from: &mut &[u8]) -> Result<u8, Malformed> {
    let (&first, rest) = from.split_first().ok_or(TOO_SHORT)?;
    *from = rest;
    Ok(first)
}

/// The next `length` bytes.
pub(crate) fn bytes<'a>(from: &mut &'a [u8], length: usize) -> Result<&'a [u8], Malformed> {
    let (taken, rest) = from.split_at_checked(length).ok_or(TOO_SHORT)?;
    *from = rest;
    Ok(taken)
}

/// The next bytes, whose number is in the type.
pub(crate) fn array<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (taken, rest) = from.split_first_chunk().ok_or(TOO_SHORT)?;
    *from = rest;
    Ok(*taken)
}

const TOO_SHORT: Malformed = Malformed("an item that ends too early");

impl Put for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        let mut left = *self;
        while left >= 0x80 {
            out.push(left as u8 | 0x80);
            left >>= 7;
        }
        out.push(left as u8);
    }
}

impl Take for u64 {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let next = byte(from)?;
            let part = u64::from(next & 0x7F);
            if part << shift >> shift != part {
                return Err(TOO_LARGE);
            }
            value |= part << shift;
            if next & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(TOO_LARGE)
    }
}

const TOO_LARGE: Malformed = Malformed("a number that is too large");

/// Numbers that are written as `u64`.
macro_rules! narrow {
    ($($type:ty),*) => {$(
        impl Put for $type {
            fn put(&self, out: &mut Vec<u8>) {
                (*self as u64).put(out);
            }
        }
        impl Take for $type {
            fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
                u64::take(from)?.try_into().map_err(|_| TOO_LARGE)
            }
        }
    )*};
}

narrow!(u8, u16, u32, usize);

impl Put for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push((*self).into());
    }
}

impl Take for bool {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        match byte(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a switch that is neither on nor off")),
        }
    }
}

impl<T: Put> Put for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
}

impl<T: Take> Take for Option<T> {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok(if bool::take(from)? {
            Some(T::take(from)?)
        } else {
            None
        })
    }
}

impl<T: Put> Put for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_ref().put(out);
    }
}

impl<T: Take> Take for Box<T> {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        T::take(from).map(Self::new)
    }
}

impl<T: Put> Put for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|one| one.put(out));
    }
}

impl<T: Take> Take for Vec<T> {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        // Each element has at least one byte, so the length of a list cannot exceed the bytes of
        // the item.
        let length = usize::take(from)?;
        if length > from.len() {
            return Err(TOO_SHORT);
        }
        (0..length).map(|_| T::take(from)).collect()
    }
}

impl Put for String {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        out.extend_from_slice(self.as_bytes());
    }
}

impl Take for String {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let length = usize::take(from)?;
        let text = str::from_utf8(bytes(from, length)?);
        text.map(str::to_owned)
            .map_err(|_| Malformed("a text that is not UTF-8"))
    }
}

impl Put for Duration {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_secs().put(out);
        self.subsec_nanos().put(out);
    }
}

impl Take for Duration {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let (seconds, nanos) = (u64::take(from)?, u32::take(from)?);
        if nanos >= 1_000_000_000 {
            return Err(TOO_LARGE);
        }
        Ok(Self::new(seconds, nanos))
    }
}

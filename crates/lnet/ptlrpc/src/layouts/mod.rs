//! The structures inside buffers as tables: one line a field, and a walk that leaves no byte out.

pub(crate) mod as_bytes;
pub(crate) mod common;
pub(crate) mod evidence;
pub(crate) mod ldlm;
pub(crate) mod mds;
pub(crate) mod names;
pub(crate) mod ost;

use std::fmt;

use crate::text::{Fid, ObjectId, Release, Text};
use crate::view::View;

/// How sure a fact of the format is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// Known from reading only: no byte of a real node, and no table of sizes, confirms it.
    Read,
    /// Sizes and offsets are asserted by a table of the project that made the format.
    Checked,
    /// Confirmed on captures of real clients and servers.
    Live,
}

/// A structure.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) name: &'static str,
    /// Bytes without the tail.
    pub(crate) len: usize,
    /// How sure the fields are that no capture has a value of.
    pub(crate) evidence: Evidence,
    pub(crate) tail: Tail,
    /// In the order of their offsets.
    pub(crate) specs: &'static [Spec],
}

/// What may follow a structure in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    Nothing,
    /// Lock handles of 8 bytes.
    Handles,
    /// A name.
    Text,
}

impl Tail {
    const fn name(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Handles => Some("handle"),
            Self::Text => Some("name"),
        }
    }
}

/// A field of a structure.
#[derive(Debug)]
pub(crate) struct Spec {
    name: &'static str,
    at: u16,
    len: u16,
    format: Format,
    is_seen: bool,
}

/// Makes a field that a capture has a value of.
pub(crate) const fn s(name: &'static str, at: u16, len: u16, format: Format) -> Spec {
    Spec {
        name,
        at,
        len,
        format,
        is_seen: true,
    }
}

/// Makes a field that no capture has a value of.
pub(crate) const fn u(name: &'static str, at: u16, len: u16, format: Format) -> Spec {
    let is_seen = false;
    Spec {
        is_seen,
        ..s(name, at, len, format)
    }
}

/// How a field is printed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Dec,
    Hex,
    Signed,
    Octal,
    Bytes,
    Text,
    Fid,
    Object,
    Release,
    Names(&'static [(u32, &'static str)]),
    Flags(&'static [(u64, &'static str)]),
    ObjectFlags,
}

/// A field of a message: its place, its bytes, and a value that prints.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The structure or the buffer.
    pub part: &'static str,
    /// The field; `pad` for bytes without a meaning, `undecoded` for bytes that nothing explains.
    pub name: &'static str,
    /// Its offset in the message, in bytes.
    pub at: usize,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// How sure its place and its meaning are.
    pub evidence: Evidence,
    pub(crate) view: View<'a>,
    pub(crate) format: Format,
}

/// The name of a field of bytes that nothing explains.
pub const UNDECODED: &str = "undecoded";

impl<'a> Field<'a> {
    pub(crate) fn new(
        part: &'static str,
        name: &'static str,
        at: usize,
        view: View<'a>,
        evidence: Evidence,
        format: Format,
    ) -> Self {
        let bytes = view.bytes();
        Self {
            part,
            name,
            at,
            bytes,
            evidence,
            view,
            format,
        }
    }

    /// Returns whether nothing explains the bytes.
    #[must_use]
    pub fn is_undecoded(&self) -> bool {
        self.name == UNDECODED
    }

    /// Returns whether the bytes are shown, and nothing that they mean.
    #[must_use]
    pub const fn is_bytes(&self) -> bool {
        matches!(self.format, Format::Bytes)
    }

    pub(crate) fn number(&self) -> Option<u64> {
        self.view.number(0, self.bytes.len())
    }
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number();
        match (self.format, number) {
            (Format::Text, _) => write!(f, "{}", Text::new(self.bytes)),
            (Format::Fid, _) => print_or_bytes(f, self.bytes, Fid::read(self.view, 0)),
            (Format::Object, _) => print_or_bytes(f, self.bytes, ObjectId::read(self.view, 0)),
            (Format::Bytes, _) | (_, None) => print_bytes(f, self.bytes),
            (Format::Dec, Some(number)) => write!(f, "{number}"),
            (Format::Hex, Some(number)) => write!(f, "{number:#x}"),
            (Format::Octal, Some(number)) => write!(f, "{number:#o}"),
            // A field of 4 bytes holds 32 bits.
            (Format::Signed, Some(number)) if self.bytes.len() == 4 => {
                write!(f, "{}", number as u32 as i32)
            }
            (Format::Signed, Some(number)) => write!(f, "{}", number as i64),
            (Format::Release, Some(number)) => write!(f, "{}", Release(number as u32)),
            (Format::Names(names), Some(number)) => print_name(f, names, number),
            (Format::Flags(names), Some(number)) => print_flags(f, names, number),
            (Format::ObjectFlags, Some(number)) => print_object_flags(f, number),
        }
    }
}

fn print_or_bytes(
    f: &mut fmt::Formatter<'_>,
    bytes: &[u8],
    value: Option<impl fmt::Display>,
) -> fmt::Result {
    match value {
        Some(value) => write!(f, "{value}"),
        None => print_bytes(f, bytes),
    }
}

/// The most bytes of a value that are printed.
const BYTES_SHOWN: usize = 24;

fn print_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    if bytes.iter().all(|byte| *byte == 0) {
        return write!(f, "{} bytes of 0", bytes.len());
    }
    let shown = bytes.get(..BYTES_SHOWN).unwrap_or(bytes);
    shown.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
    match bytes.len() > shown.len() {
        true => write!(f, "… ({} bytes)", bytes.len()),
        false => Ok(()),
    }
}

fn print_name(f: &mut fmt::Formatter<'_>, names: &[(u32, &str)], number: u64) -> fmt::Result {
    let known = names.iter().find(|(known, _)| u64::from(*known) == number);
    match known {
        Some((_, name)) => write!(f, "{number} {name}"),
        None => write!(f, "{number}"),
    }
}

fn print_flags(f: &mut fmt::Formatter<'_>, names: &[(u64, &str)], number: u64) -> fmt::Result {
    let set = names.iter().filter(|(flag, _)| number & flag != 0);
    print_names(f, number, set)
}

/// Prints the flags of an object, of which some bits are the number of a checksum.
fn print_object_flags(f: &mut fmt::Formatter<'_>, number: u64) -> fmt::Result {
    let (mask, checksums) = names::OBDO_CHECKSUMS;
    let checksum = checksums.iter().filter(|(kind, _)| number & mask == *kind);
    let set = names::OBDO_FLAGS
        .iter()
        .filter(|(flag, _)| number & flag != 0);
    print_names(f, number, checksum.chain(set))
}

fn print_names<'n>(
    f: &mut fmt::Formatter<'_>,
    number: u64,
    names: impl Iterator<Item = &'n (u64, &'n str)>,
) -> fmt::Result {
    write!(f, "{number:#x}")?;
    let mut separator = ' ';
    for (_, name) in names {
        write!(f, "{separator}{name}")?;
        separator = '|';
    }
    Ok(())
}

/// Returns the names of the flags that are set, in the order of the table.
pub(crate) fn flag_names(
    names: &'static [(u64, &'static str)],
    number: u64,
) -> impl Iterator<Item = &'static str> {
    let set = names.iter().filter(move |(flag, _)| number & flag != 0);
    set.map(|(_, name)| *name)
}

impl Layout {
    fn evidence_of(&self, spec: &Spec) -> Evidence {
        match spec.is_seen {
            true => Evidence::Live,
            false => self.evidence,
        }
    }

    /// Captures have locks with handles.
    fn tail_evidence(&self) -> Evidence {
        match self.tail {
            Tail::Handles => Evidence::Live,
            Tail::Text | Tail::Nothing => self.evidence,
        }
    }

    /// Calls `each` with every field of a structure at offset `base` of the message, bytes between fields included.
    /// Returns the bytes that were explained.
    pub(crate) fn walk<'a>(
        &self,
        view: View<'a>,
        base: usize,
        each: &mut dyn FnMut(Field<'a>),
    ) -> usize {
        let end = self.len.min(view.bytes().len());
        let mut at = 0;
        let mut put = |name, from: usize, to: usize, evidence, format| {
            if from < to {
                let part = view.part(from, to - from);
                let at = base + from;
                each(Field::new(self.name, name, at, part, evidence, format));
            }
        };
        for spec in self.specs {
            let from = usize::from(spec.at).min(end);
            let to = (usize::from(spec.at) + usize::from(spec.len)).min(end);
            put("pad", at, from, self.evidence, Format::Bytes);
            put(spec.name, from, to, self.evidence_of(spec), spec.format);
            at = to;
        }
        put("pad", at, end, self.evidence, Format::Bytes);
        end + self.walk_tail(view.part(end, usize::MAX), base + end, each)
    }

    fn walk_tail<'a>(&self, rest: View<'a>, base: usize, each: &mut dyn FnMut(Field<'a>)) -> usize {
        let len = rest.bytes().len();
        match self.tail {
            Tail::Nothing => return 0,
            Tail::Handles => {
                for at in (0..len).step_by(8) {
                    let part = rest.part(at, 8);
                    each(Field::new(
                        self.name,
                        "handle",
                        base + at,
                        part,
                        self.tail_evidence(),
                        Format::Hex,
                    ));
                }
            }
            Tail::Text if len > 0 => {
                each(Field::new(
                    self.name,
                    "name",
                    base,
                    rest,
                    self.tail_evidence(),
                    Format::Text,
                ));
            }
            Tail::Text => {}
        }
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ObjectFlags(u64);

    impl fmt::Display for ObjectFlags {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            print_object_flags(f, self.0)
        }
    }

    #[test]
    fn the_checksum_of_an_object_is_a_number_among_flags() {
        for (number, shown) in [
            (0, "0x0"),
            (0x40_4000, "0x404000 crc32c|short_io"),
            (0x5000, "0x5000 t10ip512"),
            (0x8800, "0x8800 t10crc4k|srvlock"),
            (0x3000, "0x3000"),
        ] {
            assert_eq!(ObjectFlags(number).to_string(), shown);
        }
    }
}

//! Lines with the indentation of `lnetctl`'s four writers: [CONF-8].
//!
//! ```text
//!  Six (N)               Four (C)            Two (P)
//!  net:                  udsp:               ping:
//!  -     net type: tcp       - idx: 0        - primary nid: 10.1.0.2@tcp
//!        tunables:             action:         peer_ni:
//!              credits: 8          priority: 1 - nid: 10.1.0.2@tcp
//! ```
//!
//! Writer E, which prints most errors, is Six between `---` and `...`.

use std::fmt::{self, Display, Write};

use crate::stats::{Block, Slot};

/// The columns between a key and its contents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// From a key to a key of a mapping under it.
    map: usize,
    /// From a key to the dash of a list item under it.
    dash: usize,
    /// From a dash to the keys of its item.
    item: usize,
}

impl Layout {
    pub(super) const SIX: Self = Self {
        map: 6,
        dash: 0,
        item: 6,
    };
    pub(super) const FOUR: Self = Self {
        map: 4,
        dash: 4,
        item: 2,
    };
    pub(super) const TWO: Self = Self {
        map: 2,
        dash: 0,
        item: 2,
    };
}

/// Writes lines.
pub(super) struct Emitter<'a> {
    out: &'a mut String,
    layout: Layout,
    /// The column of keys.
    column: usize,
    /// The column of the dash in the next line, if it has one.
    dash: Option<usize>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(out: &'a mut String, layout: Layout) -> Self {
        Self {
            out,
            layout,
            column: 0,
            dash: None,
        }
    }

    /// `key: value`.
    pub(super) fn pair(&mut self, key: &str, value: impl Display) {
        self.key(key);
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, " {value}");
    }

    /// `key: value`, if there is a value.
    pub(super) fn pair_if(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.pair(key, value);
        }
    }

    /// `key:` alone.
    pub(super) fn null(&mut self, key: &str) {
        self.key(key);
        self.out.push('\n');
    }

    /// `key:` with the lines of `write` under it.
    pub(super) fn map(&mut self, key: &str, write: impl FnOnce(&mut Self)) {
        self.null(key);
        self.column += self.layout.map;
        write(self);
        self.column -= self.layout.map;
    }

    /// `key:` and under it, after a dash, the lines that `write` makes of each item. Writes nothing
    /// if there are no items.
    pub(super) fn list<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        let mut items = items.into_iter().peekable();
        if items.peek().is_none() {
            return;
        }
        self.null(key);
        let outer = self.column;
        for item in items {
            self.dash = Some(outer + self.layout.dash);
            self.column = outer + self.layout.dash + self.layout.item;
            write(self, item);
        }
        self.column = outer;
        self.dash = None;
    }

    /// `key:` and under it `0: …`, `1: …`, with `prefix` before each index. Writes nothing if there
    /// are no values.
    pub(super) fn enumerated<T: Display>(
        &mut self,
        key: &str,
        prefix: &str,
        values: impl ExactSizeIterator<Item = T>,
    ) {
        if values.len() == 0 {
            return;
        }
        self.map(key, |out| {
            for (index, value) in values.enumerate() {
                out.pair(&format!("{prefix}{index}"), value);
            }
        });
    }

    /// `key:` with the numbers of a block under it; writes nothing if there is no block.
    pub(super) fn block<B: Block>(&mut self, key: &str, block: Option<B>) {
        if let Some(block) = block {
            self.map(key, |out| out.numbers(block));
        }
    }

    /// The numbers of a block.
    pub(super) fn numbers<B: Block>(&mut self, mut block: B) {
        for (key, slot) in block.slots() {
            match slot {
                Slot::Count(value) => self.pair(key, value),
                Slot::Signed(value) => self.pair(key, value),
                Slot::Optional(value) => self.pair_if(key, value.as_ref()),
            }
        }
    }

    fn key(&mut self, key: &str) {
        match self.dash.take() {
            Some(dash) => {
                self.blanks(dash);
                self.out.push('-');
                self.blanks(self.column - dash - 1);
            }
            None => self.blanks(self.column),
        }
        self.out.push_str(key);
        self.out.push(':');
    }

    fn blanks(&mut self, count: usize) {
        self.out.extend(std::iter::repeat_n(' ', count));
    }
}

/// Text that YAML reads back unchanged: plain if possible, otherwise in double quotes.
pub(super) struct Scalar<'a>(pub(super) &'a str);

impl Scalar<'_> {
    fn is_plain(&self) -> bool {
        let starts_plain = self
            .0
            .starts_with(|first: char| first.is_ascii_alphanumeric());
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-@/[],*".contains(&byte);
        starts_plain && self.0.bytes().all(is_plain)
    }
}

impl Display for Scalar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_plain() {
            return f.write_str(self.0);
        }
        Quoted(self.0).fmt(f)
    }
}

/// Text in double quotes.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                ' '..='~' => f.write_char(character)?,
                other => write!(f, "\\U{:08X}", u32::from(other))?,
            }
        }
        f.write_char('"')
    }
}

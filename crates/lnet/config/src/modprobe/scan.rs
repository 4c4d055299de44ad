//! A position in the text of options.
//!
//! Values are slices of the file until they are parsed, so every error has its place. A `\` before
//! the end of a line counts as a blank.

use crate::MAX_BYTES;
use crate::error::{Fault, Place, Problem, shown};

/// Rejects text longer than the limit of documents.
pub(super) fn check_size(source: &str) -> Result<(), Fault> {
    let bytes = source.len();
    if bytes > MAX_BYTES {
        return Err(Fault::new(Place::START, Problem::TooLarge { bytes }));
    }
    Ok(())
}

/// The unread part of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    source: &'a str,
    /// Offset of the next character.
    at: usize,
    /// Offset of the end of the part.
    end: usize,
}

/// A word and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) place: Place,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(source: &'a str) -> Self {
        Self {
            source,
            at: 0,
            end: source.len(),
        }
    }

    /// The rest of the text.
    pub(super) fn rest(&self) -> &'a str {
        self.source.get(self.at..self.end).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) const fn at_end(&self) -> bool {
        self.at >= self.end
    }

    /// Takes the next character if it is `wanted`.
    pub(super) fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    /// Takes characters as long as `belongs` returns true.
    pub(super) fn word(&mut self, belongs: impl Fn(char) -> bool) -> Word<'a> {
        let rest = self.rest();
        let length = rest
            .find(|character| !belongs(character))
            .unwrap_or(rest.len());
        self.advance(length)
    }

    /// Takes the next `length` bytes, which must end at a character boundary.
    pub(super) fn advance(&mut self, length: usize) -> Word<'a> {
        let place = Place {
            start: self.at,
            end: self.at + length,
        };
        let text = self.source.get(place.start..place.end).unwrap_or_default();
        self.at = place.end.min(self.end);
        Word { text, place }
    }

    /// A cursor over the next `length` bytes, which this cursor skips.
    pub(super) fn split(&mut self, length: usize) -> Self {
        let part = Self {
            end: (self.at + length).min(self.end),
            ..*self
        };
        self.at = part.end;
        part
    }

    /// Skips blanks and continued lines, not the end of a line.
    pub(super) fn blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blanks = rest.find(|c: char| c != ' ' && c != '\t' && c != '\r');
            self.at += blanks.unwrap_or(rest.len());
            let rest = self.rest();
            match ["\\\n", "\\\r\n"]
                .iter()
                .find(|end| rest.starts_with(**end))
            {
                Some(end) => self.at += end.len(),
                None => return,
            }
        }
    }

    /// The place of the next word, for an error.
    pub(super) fn here(&self) -> Place {
        let length = self.peek().map_or(0, char::len_utf8);
        Place {
            start: self.at,
            end: self.at + length,
        }
    }

    /// The fault that `expected` does not come next.
    pub(super) fn expected(&self, expected: &'static str) -> Fault {
        let found: String = self
            .rest()
            .chars()
            .take_while(|c| !c.is_whitespace())
            .collect();
        Fault::new(
            self.here(),
            Problem::Expected {
                expected,
                found: shown(&found),
            },
        )
    }
}

impl Word<'_> {
    /// The fault that the word is not valid for the option; `expected` describes a valid one.
    pub(super) fn invalid(&self, key: &str, expected: impl ToString) -> Fault {
        let problem = Problem::InvalidValue {
            key: key.to_owned(),
            value: shown(self.text),
            expected: shown(&expected.to_string()),
        };
        Fault::new(self.place, problem)
    }
}

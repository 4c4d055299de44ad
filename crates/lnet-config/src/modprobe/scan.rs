//! A position in the text of options.
//!
//! Values are never copied before they are understood, so every error has its place in the file. A
//! `\` before the end of a line is a blank.

use crate::MAX_BYTES;
use crate::error::{Fault, Place, Problem, shown};

/// Refuses text larger than a document may be.
pub(super) fn check_size(source: &str) -> Result<(), Fault> {
    let bytes = source.len();
    if bytes > MAX_BYTES {
        return Err(Fault::new(Place::START, Problem::TooLarge { bytes }));
    }
    Ok(())
}

/// The part of a text that has not been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    source: &'a str,
    /// Where the next character is.
    at: usize,
    /// Where the part ends.
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

    /// What is left.
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

    /// Takes characters while they `belong`.
    pub(super) fn word(&mut self, belongs: impl Fn(char) -> bool) -> Word<'a> {
        let rest = self.rest();
        let length = rest
            .find(|character| !belongs(character))
            .unwrap_or(rest.len());
        self.advance(length)
    }

    /// Takes the next `length` bytes, which end between characters.
    pub(super) fn advance(&mut self, length: usize) -> Word<'a> {
        let place = Place {
            start: self.at,
            end: self.at + length,
        };
        let text = self.source.get(place.start..place.end).unwrap_or_default();
        self.at = place.end.min(self.end);
        Word { text, place }
    }

    /// The same text from here up to the next `length` bytes, which this cursor steps over.
    pub(super) fn split(&mut self, length: usize) -> Self {
        let part = Self {
            end: (self.at + length).min(self.end),
            ..*self
        };
        self.at = part.end;
        part
    }

    /// Steps over blanks and continued lines, not over the end of a line.
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

    /// What is next, for a complaint.
    pub(super) fn here(&self) -> Place {
        let length = self.peek().map_or(0, char::len_utf8);
        Place {
            start: self.at,
            end: self.at + length,
        }
    }

    /// `expected` is not what comes next.
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
    /// The word is not what the option takes; `expected` is what would be right.
    pub(super) fn invalid(&self, key: &str, expected: impl ToString) -> Fault {
        let problem = Problem::InvalidValue {
            key: key.to_owned(),
            value: shown(self.text),
            expected: shown(&expected.to_string()),
        };
        Fault::new(self.place, problem)
    }
}

//! Values with the shape and range that their keys require.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::error::{Fault, Problem, shown};
use crate::yaml::{Entry, Node, Value};

/// The entries of a mapping; a key without a value counts as empty, as kernels of 2.15 print it.
pub(super) fn mapping_of<'n, 'a>(node: &'n Node<'a>, key: &str) -> Result<&'n [Entry<'a>], Fault> {
    match &node.value {
        Value::Mapping(entries) => Ok(entries),
        Value::Null => Ok(&[]),
        _ => Err(wrong_shape(node, key, "a mapping of keys and values")),
    }
}

/// The text of a scalar.
pub(super) fn text_of<'n>(node: &'n Node<'_>, key: &str) -> Result<&'n str, Fault> {
    match &node.value {
        Value::Scalar(text) => Ok(text),
        Value::Null => Err(Fault::new(node.place, Problem::NoValue { key: shown(key) })),
        _ => Err(wrong_shape(node, key, "one value")),
    }
}

fn wrong_shape(node: &Node<'_>, key: &str, shape: &'static str) -> Fault {
    Fault::new(
        node.place,
        Problem::WrongShape {
            key: shown(key),
            shape,
        },
    )
}

impl<'a> Entry<'a> {
    /// The fault that the key is not allowed here; `known` lists the allowed keys.
    // [CONF-1]
    pub(super) fn invalid_key(&self, known: &'static [&'static str]) -> Fault {
        let key = shown(&self.key);
        Fault::new(self.key_place, Problem::InvalidKey { key, known })
    }

    /// The fault that the value is not valid for the key; `expected` describes a valid one.
    pub(super) fn invalid_value(&self, expected: impl Display) -> Fault {
        match &self.node.value {
            Value::Scalar(text) => self.invalid_text(text, expected),
            _ => self.invalid_text("", expected),
        }
    }

    /// The same for a value that was read as `text`.
    pub(super) fn invalid_text(&self, text: &str, expected: impl Display) -> Fault {
        let problem = Problem::InvalidValue {
            key: shown(&self.key),
            value: shown(text),
            expected: shown(&expected.to_string()),
        };
        Fault::new(self.node.place, problem)
    }

    /// The fault that the parameter was given before, by this name or another.
    // [CONF-1]
    pub(super) fn given_twice(&self) -> Fault {
        let key = shown(&self.key);
        Fault::new(self.key_place, Problem::KeyTwice { key })
    }

    pub(super) fn text(&self) -> Result<&str, Fault> {
        // The place of an absent value would be that of the next token; the place of the key is
        // clearer.
        if matches!(self.node.value, Value::Null) {
            let key = shown(&self.key);
            return Err(Fault::new(self.key_place, Problem::NoValue { key }));
        }
        text_of(&self.node, &self.key)
    }

    pub(super) fn mapping(&self) -> Result<&[Entry<'a>], Fault> {
        mapping_of(&self.node, &self.key)
    }

    /// The items of a list; a key without a value counts as empty.
    pub(super) fn sequence(&self) -> Result<&[Node<'a>], Fault> {
        match &self.node.value {
            Value::Sequence(nodes) => Ok(nodes),
            Value::Null => Ok(&[]),
            _ => Err(wrong_shape(
                &self.node,
                &self.key,
                "a list of entries that begin with '-'",
            )),
        }
    }

    /// The values of a mapping whose keys are only a count: 0, 1 and so on.
    pub(super) fn enumerated<T>(
        &self,
        value: impl Fn(&Self) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let mut values = Vec::new();
        for entry in self.mapping()? {
            if entry.key.parse::<u32>().is_err() {
                return Err(entry.invalid_key(&["0", "1", "and so on, one for each value"]));
            }
            values.push(value(entry)?);
        }
        Ok(values)
    }

    /// A value with its own text form, whose error describes a valid one.
    pub(super) fn parse<T: FromStr<Err: Display>>(&self) -> Result<T, Fault> {
        self.text()?
            .parse()
            .map_err(|error| self.invalid_value(error))
    }

    /// A decimal integer in `range`; `expected` describes a valid one.
    fn integer(&self, range: RangeInclusive<i64>, expected: impl Display) -> Result<i64, Fault> {
        let text = self.text()?;
        let digits = text.strip_prefix('-').unwrap_or(text);
        // `i64::from_str` would accept a plus sign.
        let is_decimal = digits.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(value) if is_decimal && range.contains(&value) => Ok(value),
            _ => Err(self.invalid_value(expected)),
        }
    }

    /// Any integer of 64 bits, with or without sign.
    pub(super) fn signed(&self) -> Result<i64, Fault> {
        let expected = format_args!("{} is an integer", self.key);
        self.integer(i64::MIN..=i64::MAX, expected)
    }

    /// Any count of 64 bits.
    pub(super) fn count(&self) -> Result<u64, Fault> {
        let text = self.text()?;
        let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(value) if is_decimal => Ok(value),
            _ => {
                let expected = format_args!("{} is an integer from 0 on", self.key);
                Err(self.invalid_value(expected))
            }
        }
    }

    /// An integer in `range`.
    pub(super) fn unsigned(&self, range: RangeInclusive<u32>) -> Result<u32, Fault> {
        let (min, max) = range.into_inner();
        let expected = format_args!("{} is an integer from {min} to {max}", self.key);
        self.integer(i64::from(min)..=i64::from(max), expected)
            .map(narrow)
    }

    /// An integer in `range`, or -1 for the default.
    // [CONF-22]
    pub(super) fn unsigned_or_default(
        &self,
        range: RangeInclusive<u32>,
    ) -> Result<Option<u32>, Fault> {
        let (min, max) = range.into_inner();
        let expected = format_args!("{} is {min} to {max}, or -1 for the default", self.key);
        if self.text()? == "-1" {
            return Ok(None);
        }
        self.integer(i64::from(min)..=i64::from(max), expected)
            .map(narrow)
            .map(Some)
    }
}

/// A number that the caller has checked to be within 0 and `u32::MAX`.
fn narrow(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

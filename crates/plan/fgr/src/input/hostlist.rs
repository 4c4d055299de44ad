//! Host lists in Slurm's notation.
//!
//! ```text
//!   nid[00017-00019,00042],login1     nid00017, nid00018, nid00019, nid00042, login1
//!   r[1-2]n[1-4]                      r1n1, r1n2, … r2n4
//! ```
//!
//! A range keeps the leading zeros of its first number. Names outside brackets stay as they are.

use thiserror::Error;

/// Most names that one list gives: more than the nodes of any machine of 2025.
const MAX_NAMES: usize = 1 << 21;

/// Most bytes of all names of one list together.
const MAX_BYTES: usize = 64 << 20;

/// Why a text is not a host list.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HostListError {
    /// A bracket has no counterpart, or brackets are empty.
    #[error("'{0}': brackets do not match, or are empty")]
    Brackets(String),
    /// Text in brackets is not a range of numbers.
    #[error("'{0}' is not a number or a range of ascending numbers")]
    Range(String),
    /// Two commas follow each other, or a comma is at an end.
    #[error("a name between two commas is missing")]
    Empty,
    /// The list gives too many names, or too long ones.
    #[error("more than {MAX_NAMES} names, or more than {MAX_BYTES} bytes of them")]
    TooMany,
}

/// Returns the names of a list in order. White space around names is ignored. An empty text has no
/// names.
///
/// # Errors
///
/// [`HostListError`]: the text is not a host list, or gives too many names.
pub fn hosts(text: &str) -> Result<Vec<String>, HostListError> {
    let mut names = Vec::new();
    let mut room = MAX_BYTES;
    if text.trim().is_empty() {
        return Ok(names);
    }
    for item in items(text)? {
        let item = item.trim();
        if item.is_empty() {
            return Err(HostListError::Empty);
        }
        for name in expand(item)? {
            room = room.checked_sub(name.len()).ok_or(HostListError::TooMany)?;
            if names.len() == MAX_NAMES {
                return Err(HostListError::TooMany);
            }
            names.push(name);
        }
    }
    Ok(names)
}

/// Splits a list at commas outside brackets.
fn items(text: &str) -> Result<Vec<&str>, HostListError> {
    let mut items = Vec::new();
    let (mut from, mut inside) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' | b']' if inside == (byte == b'[') => return Err(brackets(text)),
            b'[' | b']' => inside = !inside,
            b',' if !inside => {
                items.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(brackets(text));
    }
    items.push(&text[from..]);
    Ok(items)
}

fn brackets(text: &str) -> HostListError {
    HostListError::Brackets(crate::problem::shown(text))
}

/// Returns the names of an item: each prefix so far is combined with each number of the next
/// bracket.
fn expand(item: &str) -> Result<Vec<String>, HostListError> {
    let mut names = vec![String::new()];
    let mut rest = item;
    while let Some((before, after)) = rest.split_once('[') {
        let (inside, after) = after.split_once(']').ok_or_else(|| brackets(item))?;
        let numbers = numbers(inside)?;
        let count = names.len().saturating_mul(numbers.len());
        let longest = |names: &[String]| names.iter().map(String::len).max().unwrap_or(0);
        let length = longest(&names) + before.len() + longest(&numbers);
        if count > MAX_NAMES || count.saturating_mul(length) > MAX_BYTES {
            return Err(HostListError::TooMany);
        }
        let with = |name: &String| {
            let name = format!("{name}{before}");
            numbers
                .iter()
                .map(move |number| format!("{name}{number}"))
                .collect::<Vec<_>>()
        };
        names = names.iter().flat_map(with).collect();
        rest = after;
    }
    for name in &mut names {
        name.push_str(rest);
    }
    Ok(names)
}

/// Expands `7,00017-00019` to numbers as text.
fn numbers(text: &str) -> Result<Vec<String>, HostListError> {
    let mut found = Vec::new();
    for range in text.split(',') {
        let wrong = || HostListError::Range(crate::problem::shown(range));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |word: &str| {
            let is_plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
            word.parse::<u32>().ok().filter(|_| is_plain)
        };
        let (Some(from), Some(to)) = (number(first), number(last)) else {
            return Err(wrong());
        };
        if from > to {
            return Err(wrong());
        }
        if (to - from) as usize >= MAX_NAMES - found.len().min(MAX_NAMES) {
            return Err(HostListError::TooMany);
        }
        let width = first.len();
        found.extend((from..=to).map(|number| format!("{number:0width$}")));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{HostListError, hosts};

    #[test]
    fn brackets_are_expanded_and_keep_leading_zeros() {
        let names = hosts("nid[00009-00011,42], login1 ,r[1-2]n[1-2]x").unwrap();
        assert_eq!(
            names.join(" "),
            "nid00009 nid00010 nid00011 nid42 login1 r1n1x r1n2x r2n1x r2n2x"
        );
        assert_eq!(hosts(" ").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn other_texts_are_rejected_with_the_reason() {
        use HostListError::{Brackets, Empty, Range, TooMany};
        let rejection = |text: &str| hosts(text).unwrap_err();
        assert!(matches!(rejection("n[1-3"), Brackets(_)));
        assert!(matches!(rejection("n1-3]"), Brackets(_)));
        assert!(matches!(rejection("n[[1]]"), Brackets(_)));
        assert!(matches!(rejection("n[]"), Range(_)));
        assert!(matches!(rejection("n[3-1]"), Range(_)));
        assert!(matches!(rejection("n[+1]"), Range(_)));
        assert_eq!(rejection("a,,b"), Empty);
        assert_eq!(rejection("n[0-4294967295]"), TooMany);
        assert_eq!(rejection("n[1-2000][1-2000][1-2000]"), TooMany);
    }

    proptest! {
        #[test]
        fn a_list_is_expanded_within_its_limits_or_rejected(text in "[a-c0-9\\[\\],\\- ]{0,40}") {
            if let Ok(names) = hosts(&text) {
                prop_assert!(names.iter().all(|name| !name.is_empty() && !name.contains(['[', ']', ','])));
            }
        }
    }
}

//! The keys of a mapping: each taken once by its reader, every other one complained about.

use std::str::FromStr;

use crate::input::yaml::{Node, Value};
use crate::problem::{Problems, Reason, shown};

/// A mapping whose keys are taken one by one.
pub(super) struct Fields<'n, 'a> {
    pub(super) line: u32,
    entries: Vec<(&'n str, &'n Node<'a>)>,
    known: Vec<&'static str>,
}

impl<'n, 'a> Fields<'n, 'a> {
    /// The keys of `node`; a complaint and no keys if it is no mapping or has a key twice.
    pub(super) fn of(node: &'n Node<'a>, what: &str, problems: &mut Problems) -> Self {
        let mut entries: Vec<(&str, &Node<'a>)> = Vec::new();
        match &node.value {
            Value::Mapping(pairs) => {
                for (key, value) in pairs {
                    let Value::Scalar(name) = &key.value else {
                        continue;
                    };
                    if entries.iter().any(|(earlier, _)| earlier == name) {
                        problems.value(
                            key.line,
                            name,
                            "the second one",
                            "a key that is given once",
                        );
                    }
                    entries.push((name, value));
                }
            }
            other => problems.value(node.line, what, kind(other), "a mapping"),
        }
        Self {
            line: node.line,
            entries,
            known: Vec::new(),
        }
    }

    /// The value of an optional key.
    pub(super) fn optional(&mut self, key: &'static str) -> Option<&'n Node<'a>> {
        self.known.push(key);
        let at = self.entries.iter().position(|(name, _)| *name == key)?;
        Some(self.entries.remove(at).1)
    }

    /// The value of a key; a complaint if it is not there.
    pub(super) fn required(
        &mut self,
        key: &'static str,
        problems: &mut Problems,
    ) -> Option<&'n Node<'a>> {
        let node = self.optional(key);
        if node.is_none() {
            problems.add(self.line, Reason::Missing(key.to_owned()));
        }
        node
    }

    /// A required number or the like.
    pub(super) fn parsed<T: FromStr>(
        &mut self,
        key: &'static str,
        wanted: &str,
        problems: &mut Problems,
    ) -> Option<T> {
        let node = self.required(key, problems)?;
        parse(node, key, wanted, problems)
    }

    /// An optional number or the like; the default also replaces one that is wrong, after a complaint.
    pub(super) fn parsed_or<T: FromStr>(
        &mut self,
        key: &'static str,
        wanted: &str,
        default: T,
        problems: &mut Problems,
    ) -> T {
        let node = self.optional(key);
        node.and_then(|node| parse(node, key, wanted, problems))
            .unwrap_or(default)
    }

    /// Complains about the keys that nobody took.
    pub(super) fn finish(self, problems: &mut Problems) {
        for (key, node) in self.entries {
            let reason = Reason::UnknownKey {
                key: shown(key),
                known: self.known.join(", "),
            };
            problems.add(node.line, reason);
        }
    }
}

/// The items of a sequence; a complaint and none if it is something else.
pub(super) fn items<'n, 'a>(
    node: &'n Node<'a>,
    what: &str,
    problems: &mut Problems,
) -> &'n [Node<'a>] {
    match &node.value {
        Value::Sequence(nodes) => nodes,
        other => {
            problems.value(node.line, what, kind(other), "a list");
            &[]
        }
    }
}

/// The text of a scalar; a complaint if it is something else.
pub(super) fn text<'n>(node: &'n Node<'_>, what: &str, problems: &mut Problems) -> Option<&'n str> {
    match &node.value {
        Value::Scalar(text) => Some(text),
        other => {
            problems.value(node.line, what, kind(other), "a word or number");
            None
        }
    }
}

/// A scalar as a value; a complaint if it is none.
pub(super) fn parse<T: FromStr>(
    node: &Node<'_>,
    what: &str,
    wanted: &str,
    problems: &mut Problems,
) -> Option<T> {
    let text = text(node, what, problems)?;
    let value = text.parse().ok();
    if value.is_none() {
        problems.value(node.line, what, text, wanted);
    }
    value
}

/// A list of scalars as values; complaints for those that are none.
pub(super) fn parse_all<T: FromStr>(
    node: &Node<'_>,
    what: &str,
    wanted: &str,
    problems: &mut Problems,
) -> Option<Vec<T>> {
    let items = items(node, what, problems);
    let values: Vec<Option<T>> = items
        .iter()
        .map(|item| parse(item, what, wanted, problems))
        .collect();
    values.into_iter().collect()
}

fn kind(value: &Value<'_>) -> &'static str {
    match value {
        Value::Scalar(_) => "one value",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) => "a mapping",
    }
}

//! The keys of a mapping. A reader takes each key once; keys that are left over are reported.

use std::str::FromStr;

use crate::input::yaml::{Node, Value};
use crate::problem::{Problems, Reason, shown};
use crate::rates::RateSource;

/// A mapping from which a reader takes keys one by one.
pub(crate) struct Fields<'n, 'a> {
    pub(crate) line: u32,
    entries: Vec<(&'n str, &'n Node<'a>)>,
    known: Vec<&'static str>,
}

impl<'n, 'a> Fields<'n, 'a> {
    /// Takes the keys of `node`. If `node` is not a mapping or has a key twice, reports that; if it
    /// is not a mapping, returns no keys.
    pub(crate) fn of(node: &'n Node<'a>, what: &str, problems: &mut Problems) -> Self {
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

    /// Returns the value of an optional key.
    pub(crate) fn optional(&mut self, key: &'static str) -> Option<&'n Node<'a>> {
        self.known.push(key);
        let at = self.entries.iter().position(|(name, _)| *name == key)?;
        Some(self.entries.remove(at).1)
    }

    /// Returns the value of a key. Reports a missing key.
    pub(crate) fn required(
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

    /// Returns the parsed value of a required key.
    pub(crate) fn parsed<T: FromStr>(
        &mut self,
        key: &'static str,
        wanted: &str,
        problems: &mut Problems,
    ) -> Option<T> {
        let node = self.required(key, problems)?;
        parse(node, key, wanted, problems)
    }

    /// Returns the parsed value of an optional key. The default replaces a missing value and, after
    /// a report, an invalid one.
    pub(crate) fn parsed_or<T: FromStr>(
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

    /// Reports the keys that were not taken.
    pub(crate) fn report_rest(self, problems: &mut Problems) {
        for (key, node) in self.entries {
            let reason = Reason::UnknownKey {
                key: shown(key),
                known: self.known.join(", "),
            };
            problems.add(node.line, reason);
        }
    }
}

/// Returns the items of a sequence. Reports any other node and returns no items.
pub(crate) fn items<'n, 'a>(
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

/// Reads where rates come from. Reports a text without a source.
pub(crate) fn rate_source(
    node: &Node<'_>,
    key: &'static str,
    problems: &mut Problems,
) -> RateSource {
    let source = text(node, key, problems).and_then(|text| {
        let source = RateSource::parse(text);
        if source.is_none() {
            let wanted = "published, measured or assumed, a colon and the source, all in quotes";
            problems.value(node.line, key, text, wanted);
        }
        source
    });
    source.unwrap_or_else(RateSource::unnamed)
}

/// Returns the text of a scalar. Reports any other node.
pub(crate) fn text<'n>(node: &'n Node<'_>, what: &str, problems: &mut Problems) -> Option<&'n str> {
    match &node.value {
        Value::Scalar(text) => Some(text),
        other => {
            problems.value(node.line, what, kind(other), "a word or number");
            None
        }
    }
}

/// Parses a scalar. Reports an invalid value.
pub(crate) fn parse<T: FromStr>(
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

/// Parses a list of scalars. Reports each invalid value.
pub(crate) fn parse_all<T: FromStr>(
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

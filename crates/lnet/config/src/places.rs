//! The places of the values in a document, for errors that are found after reading.
//!
//! [`crate::read`] returns values without places, because most callers need none. [`Places`] parses
//! the same text again and returns where a key or an item of a list begins.

use std::collections::BTreeMap;

use crate::error::{ConfigError, Place};
use crate::yaml::{Entry, Node, Value, load};

/// One step down in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'p> {
    /// To the value of this key.
    Key(&'p str),
    /// To this item of a list, counted from 0.
    Item(usize),
}

/// A line and a column in characters, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// Bytes between two counts of characters.
const STRIDE: usize = 4096;

/// The places of a document.
///
/// ```
/// use lnet_config::{Places, Step};
///
/// let places = Places::new("global:\n    retry_count: 3\n")?;
/// let found = places.find(&[Step::Key("global"), Step::Key("retry_count")]);
/// assert_eq!((found.line, found.column), (2, 5));
/// # Ok::<(), lnet_config::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Places<'a> {
    source: &'a str,
    root: Node<'a>,
    /// The byte at which each line begins.
    lines: Vec<usize>,
    /// The number of characters before each multiple of [`STRIDE`] bytes, so that a document in one
    /// long line is not slower than others.
    counted: Vec<usize>,
    /// For lists of which only some items were taken: the start of the list, and the indices of the
    /// taken items.
    kept: BTreeMap<usize, Vec<usize>>,
    /// The places of rejected values.
    rejected: Vec<Place>,
}

impl<'a> Places<'a> {
    /// Reads the places of a document.
    ///
    /// # Errors
    ///
    /// Text that is not YAML in the form that [`crate::read`] accepts.
    pub fn new(source: &'a str) -> Result<Self, ConfigError> {
        let root = load(source).map_err(|fault| ConfigError::new(source, fault))?;
        Ok(Self::of(source, root))
    }

    /// The places of a document that was parsed.
    pub(crate) fn of(source: &'a str, root: Node<'a>) -> Self {
        let newlines = source.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(newlines).collect();
        let mut counted = vec![0];
        let mut characters = 0;
        for chunk in source.as_bytes().chunks(STRIDE) {
            characters += begun(chunk);
            counted.push(characters);
        }
        Self {
            source,
            root,
            lines,
            counted,
            kept: BTreeMap::new(),
            rejected: Vec::new(),
        }
    }

    /// The same for a document that was read without some items of lists and without the rejected
    /// values.
    pub(crate) fn without(self, kept: BTreeMap<usize, Vec<usize>>, rejected: Vec<Place>) -> Self {
        Self {
            kept,
            rejected,
            ..self
        }
    }

    /// The steps of `path` that exist in the document. Items are counted as in the text, because a
    /// [`Survey`](crate::Survey) leaves out some.
    #[must_use]
    pub fn steps<'p>(&self, path: &[Step<'p>]) -> Vec<Step<'p>> {
        self.walk(path).2
    }

    /// Returns true if a value at `path` or below it was rejected.
    #[must_use]
    pub fn is_rejected(&self, path: &[Step<'_>]) -> bool {
        if self.rejected.is_empty() {
            return false;
        }
        let steps = self.steps(path);
        let mut rejected = self.rejected.iter();
        steps.len() == path.len()
            && rejected.any(|place| self.leading_to(*place).starts_with(&steps))
    }

    /// The path to the place of an error; items are counted as in the text.
    #[must_use]
    pub fn path(&self, error: &ConfigError) -> Vec<Step<'_>> {
        self.leading_to(error.place())
    }

    /// The path to the deepest key or item that begins at a place or before it.
    fn leading_to(&self, place: Place) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        let mut node = &self.root;
        loop {
            let next = match &node.value {
                Value::Mapping(entries) => {
                    let after = entries.partition_point(|one| one.key_place.start <= place.start);
                    let entry = after.checked_sub(1).and_then(|at| entries.get(at));
                    entry.map(|entry| (Step::Key(entry.key.as_ref()), &entry.node))
                }
                Value::Sequence(items) => {
                    let after = items.partition_point(|item| item.place.start <= place.start);
                    let at = after.checked_sub(1);
                    at.and_then(|at| Some((Step::Item(at), items.get(at)?)))
                }
                _ => None,
            };
            let Some((step, below)) = next else {
                return steps;
            };
            steps.push(step);
            node = below;
        }
    }

    /// The place of `path`; if the document does not have all of it, the place of the last existing
    /// step.
    #[must_use]
    pub fn find(&self, path: &[Step<'_>]) -> Position {
        self.position(self.walk(path).0)
    }

    /// The number of steps of `path` that exist in the document.
    #[must_use]
    pub fn depth(&self, path: &[Step<'_>]) -> usize {
        self.walk(path).2.len()
    }

    /// The text at the end of `path`; `None` for a list, a mapping, or nothing.
    #[must_use]
    pub fn text(&self, path: &[Step<'_>]) -> Option<&str> {
        let (_, nodes, steps) = self.walk(path);
        match nodes.first().map(|node| &node.value) {
            Some(Value::Scalar(text)) if steps.len() == path.len() => Some(text),
            _ => None,
        }
    }

    /// The place, nodes and steps of the existing part of `path`. There are several nodes if a
    /// section occurs twice.
    fn walk<'p>(&self, path: &[Step<'p>]) -> (Place, Vec<&Node<'a>>, Vec<Step<'p>>) {
        let mut place = self.root.place;
        let mut nodes = vec![&self.root];
        let mut steps = Vec::with_capacity(path.len());
        for step in path {
            let mut there = *step;
            let next: Vec<(Place, &Node<'a>)> = match step {
                Step::Key(key) => {
                    let entries = nodes.iter().flat_map(|node| entries(node));
                    let named = entries.filter(|entry| entry.key == *key);
                    named.map(|entry| (entry.key_place, &entry.node)).collect()
                }
                Step::Item(index) => {
                    let item = self.nth(&nodes, *index);
                    let item = item.into_iter();
                    item.map(|(at, node)| {
                        there = Step::Item(at);
                        (node.place, node)
                    })
                    .collect()
                }
            };
            let Some(&(first, _)) = next.first() else {
                return (place, nodes, steps);
            };
            steps.push(there);
            place = first;
            nodes = next.into_iter().map(|(_, node)| node).collect();
        }
        (place, nodes, steps)
    }

    /// An item of several consecutive lists: its index in the text, and the item.
    fn nth<'n>(&self, lists: &[&'n Node<'a>], mut index: usize) -> Option<(usize, &'n Node<'a>)> {
        let mut before = 0;
        for list in lists {
            let items = items(list);
            let kept = self.kept.get(&list.place.start);
            let at = kept.map_or(Some(index), |kept| kept.get(index).copied());
            if let Some((at, item)) = at.and_then(|at| Some((at, items.get(at)?))) {
                return Some((before + at, item));
            }
            index -= kept.map_or(items.len(), Vec::len);
            before += items.len();
        }
        None
    }

    fn position(&self, place: Place) -> Position {
        let line = self.lines.partition_point(|&start| start <= place.start);
        let start = self.lines.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = self.characters(place.start);
        Position {
            line,
            column: before.saturating_sub(self.characters(start)) + 1,
        }
    }

    /// Characters before a byte of the document.
    fn characters(&self, byte: usize) -> usize {
        let counted = self.counted.get(byte / STRIDE).copied().unwrap_or(0);
        let rest = self.source.as_bytes().get(byte - byte % STRIDE..byte);
        counted + rest.map_or(0, begun)
    }
}

/// The number of UTF-8 characters that begin in these bytes.
fn begun(bytes: &[u8]) -> usize {
    let starts = bytes.iter().filter(|&&byte| byte & 0xC0 != 0x80);
    starts.count()
}

fn entries<'n, 'a>(node: &'n Node<'a>) -> &'n [Entry<'a>] {
    match &node.value {
        Value::Mapping(entries) => entries,
        _ => &[],
    }
}

fn items<'n, 'a>(node: &'n Node<'a>) -> &'n [Node<'a>] {
    match &node.value {
        Value::Sequence(items) => items,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "peer:\n- primary nid: 10.0.0.1@tcp\nglobal: {}\npeer:\n- primary nid: 10.0.0.2@tcp\n";

    #[test]
    fn items_of_a_section_that_stands_twice_are_counted_through() {
        let places = Places::new(TEXT).unwrap();
        let path = [Step::Key("peer"), Step::Item(1), Step::Key("primary nid")];
        assert_eq!(places.find(&path), Position { line: 5, column: 3 });
        assert_eq!(places.text(&path), Some("10.0.0.2@tcp"));
    }

    #[test]
    fn a_path_that_breaks_off_gives_its_last_step() {
        let places = Places::new(TEXT).unwrap();
        let path = [Step::Key("global"), Step::Key("retry_count")];
        assert_eq!(places.find(&path), Position { line: 3, column: 1 });
        assert_eq!((places.depth(&path), places.text(&path)), (1, None));
        assert_eq!(places.depth(&[Step::Key("route")]), 0);
    }

    #[test]
    fn columns_count_characters_also_far_into_a_line() {
        let text = format!("a: [{}x]", "é, ".repeat(3000));
        let places = Places::new(&text).unwrap();
        let found = places.find(&[Step::Key("a"), Step::Item(3000)]);
        assert_eq!((found.line, found.column), (1, 5 + 3 * 3000));
        assert_eq!(places.text(&[Step::Key("a"), Step::Item(3000)]), Some("x"));
    }
}

//! Where the values of a document stand, for complaints about a document that was read.
//!
//! [`crate::read`] gives values without places, because most who read want none. [`Places`] reads the
//! same text once more, and answers where a key or an item of a list begins.

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
    /// Characters before each multiple of [`STRIDE`] bytes, so that a document in one line costs no more than
    /// others.
    counted: Vec<usize>,
}

impl<'a> Places<'a> {
    /// Reads the places of a document.
    ///
    /// # Errors
    ///
    /// When the text is not YAML as [`crate::read`] takes it.
    pub fn new(source: &'a str) -> Result<Self, ConfigError> {
        let root = load(source).map_err(|fault| ConfigError::new(source, fault))?;
        let newlines = source.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(newlines).collect();
        let mut counted = vec![0];
        let mut characters = 0;
        for chunk in source.as_bytes().chunks(STRIDE) {
            characters += begun(chunk);
            counted.push(characters);
        }
        Ok(Self {
            source,
            root,
            lines,
            counted,
        })
    }

    /// Where `path` leads; where the document does not go as far, the last step that it has.
    #[must_use]
    pub fn find(&self, path: &[Step<'_>]) -> Position {
        self.position(self.walk(path).0)
    }

    /// How many steps of `path` the document has.
    #[must_use]
    pub fn depth(&self, path: &[Step<'_>]) -> usize {
        self.walk(path).2
    }

    /// The text at the end of `path`; `None` for a list, a mapping, or nothing.
    #[must_use]
    pub fn text(&self, path: &[Step<'_>]) -> Option<&str> {
        let (_, nodes, depth) = self.walk(path);
        match nodes.first().map(|node| &node.value) {
            Some(Value::Scalar(text)) if depth == path.len() => Some(text),
            _ => None,
        }
    }

    /// Place, nodes and length of the part of `path` that there is. They are several where a section
    /// stands twice.
    fn walk(&self, path: &[Step<'_>]) -> (Place, Vec<&Node<'a>>, usize) {
        let mut place = self.root.place;
        let mut nodes = vec![&self.root];
        for (depth, step) in path.iter().enumerate() {
            let next: Vec<(Place, &Node<'a>)> = match step {
                Step::Key(key) => {
                    let entries = nodes.iter().flat_map(|node| entries(node));
                    let named = entries.filter(|entry| entry.key == *key);
                    named.map(|entry| (entry.key_place, &entry.node)).collect()
                }
                Step::Item(index) => {
                    let item = nth(&nodes, *index);
                    item.map(|node| (node.place, node)).into_iter().collect()
                }
            };
            let Some(&(first, _)) = next.first() else {
                return (place, nodes, depth);
            };
            place = first;
            nodes = next.into_iter().map(|(_, node)| node).collect();
        }
        (place, nodes, path.len())
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

/// Characters of UTF-8 text that begin in these bytes.
fn begun(bytes: &[u8]) -> usize {
    let starts = bytes.iter().filter(|&&byte| byte & 0xC0 != 0x80);
    starts.count()
}

/// An item of several lists in a row.
fn nth<'n, 'a>(lists: &[&'n Node<'a>], mut index: usize) -> Option<&'n Node<'a>> {
    for list in lists {
        let items = items(list);
        if let Some(item) = items.get(index) {
            return Some(item);
        }
        index -= items.len();
    }
    None
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

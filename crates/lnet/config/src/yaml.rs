//! Parses YAML text to a tree of nodes with their places. No other module uses the YAML parser.
//!
//! Scalars stay text: the key determines whether `0` is a number, a name or a boolean. The parser
//! rejects forms that configurations do not need and hostile input could use: anchors and aliases,
//! keys that are not scalars, a second document, deep nesting, more than [`MAX_NODES`] nodes. It
//! also rejects a key that occurs twice in a mapping.

use std::borrow::Cow;
use std::collections::BTreeSet;

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span};

use crate::MAX_BYTES;
use crate::error::{Fault, Faults, Place, Problem, shown};

/// The deepest nesting of collections; the deepest key of an export is at 8.
const MAX_NESTING: usize = 32;

/// The most nodes of one document. At about 100 bytes for each node, it limits the memory of a
/// document of empty lists; a document of [`MAX_BYTES`] with ordinary lines stays below it.
const MAX_NODES: usize = 1_000_000;

/// A value and where it stands.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub(crate) place: Place,
    pub(crate) value: Value<'a>,
}

#[derive(Debug)]
pub(crate) enum Value<'a> {
    /// No value, as after the colon of `lnd tunables:`.
    Null,
    Scalar(Cow<'a, str>),
    Sequence(Vec<Node<'a>>),
    Mapping(Vec<Entry<'a>>),
}

/// A key of a mapping, and its value.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) key: Cow<'a, str>,
    pub(crate) key_place: Place,
    pub(crate) node: Node<'a>,
}

/// Parses one document. An empty document is [`Value::Null`].
pub(crate) fn load(source: &str) -> Result<Node<'_>, Fault> {
    build(source, Builder::default()).map(|(root, _)| root)
}

/// The same, but continues after a key that occurs twice: its first value counts, except that all
/// occurrences of a section count. Also returns the faults.
pub(crate) fn load_all(source: &str) -> Result<(Node<'_>, Faults), Fault> {
    let builder = Builder {
        twice: Some(Faults::default()),
        ..Builder::default()
    };
    let (root, faults) = build(source, builder)?;
    Ok((root, faults.unwrap_or_default()))
}

fn build<'a>(
    source: &'a str,
    mut builder: Builder<'a>,
) -> Result<(Node<'a>, Option<Faults>), Fault> {
    if source.len() > MAX_BYTES {
        return Err(Fault::new(
            Place::START,
            Problem::TooLarge {
                bytes: source.len(),
            },
        ));
    }
    for event in Parser::new_from_str_with_options(source, options()) {
        let (event, span) = event.map_err(|error| scan_fault(&error))?;
        builder.take(event, place(&span))?;
    }
    let nothing = Node {
        place: Place::START,
        value: Value::Null,
    };
    Ok((builder.root.unwrap_or(nothing), builder.twice))
}

fn options() -> Options {
    granit_parser::options! {
        disallow_directives: true,
        flow_nesting_limit: MAX_NESTING,
        block_nesting_limit: MAX_NESTING,
    }
}

fn place(span: &Span) -> Place {
    // Text input always has byte offsets.
    let start = span.start.byte_offset().unwrap_or(0);
    Place {
        start,
        end: span.end.byte_offset().unwrap_or(start).max(start),
    }
}

fn scan_fault(error: &ScanError) -> Fault {
    let start = error.marker().byte_offset().unwrap_or(0);
    Fault::new(
        Place { start, end: start },
        Problem::NotYaml(shown(&error.info())),
    )
}

/// A collection whose end has not been seen.
enum Open<'a> {
    Sequence(Place, Vec<Node<'a>>),
    Mapping(Place, OpenMapping<'a>),
}

#[derive(Default)]
struct OpenMapping<'a> {
    entries: Vec<Entry<'a>>,
    keys: BTreeSet<Cow<'a, str>>,
    /// The key whose value comes next.
    pending: Option<(Cow<'a, str>, Place)>,
    /// Whether the pending key occurs a second time.
    surplus: bool,
}

/// Builds nodes from events; nesting uses a stack of its own instead of recursion.
#[derive(Default)]
struct Builder<'a> {
    open: Vec<Open<'a>>,
    root: Option<Node<'a>>,
    nodes: usize,
    /// Keys that occur twice, if they are noted; `None` makes the first an error.
    twice: Option<Faults>,
}

impl<'a> Builder<'a> {
    fn take(&mut self, event: Event<'a>, place: Place) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, ..) => {
                let is_null = style == ScalarStyle::Plain && (text.is_empty() || text == "~");
                let value = if is_null {
                    Value::Null
                } else {
                    Value::Scalar(text)
                };
                self.close(Node { place, value })
            }
            Event::SequenceStart(..) => {
                self.open.push(Open::Sequence(place, Vec::new()));
                Ok(())
            }
            Event::MappingStart(..) => {
                self.open.push(Open::Mapping(place, OpenMapping::default()));
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(open) => self.close(open.into_node()),
                None => Ok(()),
            },
            Event::Alias(..) => Err(Fault::new(place, Problem::Alias)),
            Event::DocumentStart(..) if self.root.is_some() => {
                Err(Fault::new(place, Problem::SecondDocument))
            }
            _ => Ok(()),
        }
    }

    /// Adds a complete node to the collection around it.
    fn close(&mut self, node: Node<'a>) -> Result<(), Fault> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(Fault::new(
                node.place,
                Problem::TooManyNodes { max: MAX_NODES },
            ));
        }
        let is_root = self.open.len() == 1;
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::Sequence(_, nodes)) => nodes.push(node),
            Some(Open::Mapping(_, mapping)) => mapping.take(node, is_root, self.twice.as_mut())?,
        }
        Ok(())
    }
}

impl<'a> Open<'a> {
    fn into_node(self) -> Node<'a> {
        match self {
            Self::Sequence(place, nodes) => Node {
                place,
                value: Value::Sequence(nodes),
            },
            Self::Mapping(place, mapping) => Node {
                place,
                value: Value::Mapping(mapping.entries),
            },
        }
    }
}

impl<'a> OpenMapping<'a> {
    /// Takes keys and values alternately.
    fn take(
        &mut self,
        node: Node<'a>,
        is_root: bool,
        twice: Option<&mut Faults>,
    ) -> Result<(), Fault> {
        match (self.pending.take(), node.value) {
            (Some(_), _) if self.surplus => {
                self.surplus = false;
                Ok(())
            }
            (Some((key, key_place)), value) => {
                let node = Node {
                    place: node.place,
                    value,
                };
                self.entries.push(Entry {
                    key,
                    key_place,
                    node,
                });
                Ok(())
            }
            (None, Value::Scalar(key)) => {
                // lnetctl itself prints "peer:" twice if a peer list follows a failed import.
                let may_repeat = is_root && key == "peer";
                if !self.keys.insert(key.clone()) && !may_repeat {
                    let fault = Fault::new(node.place, Problem::KeyTwice { key: shown(&key) });
                    let Some(twice) = twice else {
                        return Err(fault);
                    };
                    twice.note(fault);
                    self.surplus = !is_root;
                }
                self.pending = Some((key, node.place));
                Ok(())
            }
            (None, _) => Err(Fault::new(node.place, Problem::KeyNotText)),
        }
    }
}

//! Parses YAML text into a tree of nodes with line numbers. Only this module uses the YAML parser.
//!
//! Scalars stay text: the key determines what `6` means. An alias is a copy of its anchor, and the
//! merge key `<<` adds the keys of another mapping. Copies count towards the limits of values and of
//! nesting, so that anchors cannot multiply the size of a document. Keys that are not scalars and
//! second documents are rejected; a machine file needs none of them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use granit_parser::{Event, Options, Parser, Span};

/// Most levels of nested collections. The deepest value of a machine file is at level 7.
const MAX_NESTING: usize = 16;

/// Most nodes of one document: three times those of a list of all clients of the largest machine of
/// 2025.
pub(super) const MAX_NODES: usize = 4_000_000;

/// A value, and the line where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node<'a> {
    pub(crate) line: u32,
    pub(crate) value: Value<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Scalar(Cow<'a, str>),
    Sequence(Vec<Node<'a>>),
    /// Keys with their values. A key may occur twice; the reader of the mapping rejects that.
    Mapping(Vec<(Node<'a>, Node<'a>)>),
}

/// Why a text is not a document, and on which line.
pub(crate) struct NotYaml {
    pub(crate) line: u32,
    pub(crate) reason: String,
}

/// Parses one document. A carriage return alone is a line break of YAML, and of no editor: the lines of errors would be
/// other lines than those that the user sees.
pub(crate) fn load(source: &str) -> Result<Node<'_>, NotYaml> {
    if let Some(line) = lone_carriage_return(source) {
        return Err(rejection(line, "a carriage return without a line feed"));
    }
    let options: Options = granit_parser::options! {
        disallow_directives: true,
        flow_nesting_limit: MAX_NESTING,
        block_nesting_limit: MAX_NESTING,
    };
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(source, options) {
        let (event, span) = event.map_err(|error| NotYaml {
            line: line_number(error.marker().line()),
            reason: error.info().to_string(),
        })?;
        builder.take(event, line(&span))?;
    }
    builder.root.ok_or_else(|| rejection(1, "it is empty"))
}

/// Returns the line of the first carriage return that no line feed follows.
fn lone_carriage_return(source: &str) -> Option<u32> {
    let bytes = source.as_bytes();
    let is_alone = |&at: &usize| bytes[at] == b'\r' && bytes.get(at + 1) != Some(&b'\n');
    let at = (0..bytes.len()).find(is_alone)?;
    let lines = bytes[..at].iter().filter(|byte| **byte == b'\n').count();
    Some(line_number(lines + 1))
}

fn line(span: &Span) -> u32 {
    line_number(span.start.line())
}

fn line_number(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}

fn rejection(line: u32, reason: &str) -> NotYaml {
    NotYaml {
        line,
        reason: reason.to_owned(),
    }
}

/// Builds nodes from events. Nesting uses a stack of its own, not the stack of the thread.
#[derive(Default)]
struct Builder<'a> {
    open: Vec<Open<'a>>,
    /// Parts with an anchor, by its number.
    anchors: BTreeMap<usize, Part<'a>>,
    root: Option<Node<'a>>,
    nodes: usize,
}

/// A collection that has not ended.
struct Open<'a> {
    line: u32,
    is_mapping: bool,
    /// 0 if there is no anchor.
    anchor: usize,
    nodes: Vec<Node<'a>>,
    /// Nodes inside so far, and levels of the deepest of them.
    size: (usize, usize),
}

/// A node with the number of its nodes and of its levels.
#[derive(Clone)]
struct Part<'a> {
    node: Node<'a>,
    size: (usize, usize),
}

impl<'a> Builder<'a> {
    fn take(&mut self, event: Event<'a>, line: u32) -> Result<(), NotYaml> {
        self.count(1, line)?;
        match event {
            Event::Scalar(text, _, anchor, _) => {
                let value = Value::Scalar(text);
                let node = Node { line, value };
                let size = (1, 0);
                self.close(Part { node, size }, anchor, line)?;
            }
            Event::SequenceStart(_, anchor, _) => self.open(line, false, anchor),
            Event::MappingStart(_, anchor, _) => self.open(line, true, anchor),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else {
                    return Ok(());
                };
                let value = match open.is_mapping {
                    true => Value::Mapping(pairs(open.nodes)?),
                    false => Value::Sequence(open.nodes),
                };
                let node = Node {
                    line: open.line,
                    value,
                };
                let size = (open.size.0 + 1, open.size.1 + 1);
                self.close(Part { node, size }, open.anchor, line)?;
            }
            Event::Alias(anchor) => {
                let part = self.anchors.get(&anchor).cloned();
                let part = part.ok_or_else(|| rejection(line, "an alias inside its own anchor"))?;
                self.count(part.size.0, line)?;
                self.close(part, 0, line)?;
            }
            Event::DocumentStart(..) if self.root.is_some() => {
                return Err(rejection(line, "a second document"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts nodes, and rejects more than a document may have.
    fn count(&mut self, nodes: usize, line: u32) -> Result<(), NotYaml> {
        self.nodes += nodes;
        match self.nodes > MAX_NODES {
            true => Err(rejection(line, "too many values")),
            false => Ok(()),
        }
    }

    fn open(&mut self, line: u32, is_mapping: bool, anchor: usize) {
        self.open.push(Open {
            line,
            is_mapping,
            anchor,
            nodes: Vec::new(),
            size: (0, 0),
        });
    }

    fn close(&mut self, part: Part<'a>, anchor: usize, line: u32) -> Result<(), NotYaml> {
        if self.open.len() + part.size.1 > MAX_NESTING {
            return Err(rejection(line, "too many levels of collections"));
        }
        if anchor != 0 {
            self.count(part.size.0, line)?;
            self.anchors.insert(anchor, part.clone());
        }
        match self.open.last_mut() {
            Some(open) => {
                open.size = (open.size.0 + part.size.0, open.size.1.max(part.size.1));
                open.nodes.push(part.node);
            }
            None => self.root = Some(part.node),
        }
        Ok(())
    }
}

type Pairs<'a> = Vec<(Node<'a>, Node<'a>)>;

/// Pairs up keys and values, which alternate. Adds the keys of merged mappings that the mapping does
/// not have itself.
fn pairs(nodes: Vec<Node<'_>>) -> Result<Pairs<'_>, NotYaml> {
    let mut pairs = Vec::with_capacity(nodes.len() / 2);
    let mut merged = Vec::new();
    let mut nodes = nodes.into_iter();
    while let (Some(key), Some(value)) = (nodes.next(), nodes.next()) {
        match &key.value {
            Value::Scalar(name) if name == "<<" => merged.extend(mappings(value)?),
            Value::Scalar(_) => pairs.push((key, value)),
            _ => return Err(rejection(key.line, "a key that is not a word")),
        }
    }
    if !merged.is_empty() {
        let name = |key: &Node<'_>| match &key.value {
            Value::Scalar(name) => name.to_string(),
            _ => String::new(),
        };
        let mut known: BTreeSet<String> = pairs.iter().map(|(key, _)| name(key)).collect();
        merged.retain(|(key, _)| known.insert(name(key)));
        pairs.append(&mut merged);
    }
    Ok(pairs)
}

/// Returns the pairs of a mapping, or of a sequence of mappings.
fn mappings(node: Node<'_>) -> Result<Pairs<'_>, NotYaml> {
    match node.value {
        Value::Mapping(pairs) => Ok(pairs),
        Value::Sequence(nodes) => {
            let mut all = Vec::new();
            for node in nodes {
                match node.value {
                    Value::Mapping(pairs) => all.extend(pairs),
                    _ => return Err(rejection(node.line, "<< takes mappings")),
                }
            }
            Ok(all)
        }
        Value::Scalar(_) => Err(rejection(node.line, "<< takes mappings")),
    }
}

//! Parses YAML text into a tree of nodes with line numbers. Only this module uses the YAML parser.
//!
//! Scalars stay text: the key determines what `6` means. Anchors, which could multiply the size of
//! a document, are rejected, as are keys that are not scalars, second documents and deep nesting. A
//! machine file needs none of them.

use std::borrow::Cow;

use granit_parser::{Event, Options, Parser, Span};

/// Most levels of nested collections. The deepest value of a machine file is at level 7.
const MAX_NESTING: usize = 16;

/// Most nodes of one document: three times those of a list of all clients of the largest machine of
/// 2025.
pub(super) const MAX_NODES: usize = 4_000_000;

/// A value, and the line where it begins.
#[derive(Debug, PartialEq)]
pub(super) struct Node<'a> {
    pub(super) line: u32,
    pub(super) value: Value<'a>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Value<'a> {
    Scalar(Cow<'a, str>),
    Sequence(Vec<Node<'a>>),
    /// Keys with their values. A key may occur twice; the reader of the mapping rejects that.
    Mapping(Vec<(Node<'a>, Node<'a>)>),
}

/// Why a text is not a document, and on which line.
pub(super) struct NotYaml {
    pub(super) line: u32,
    pub(super) reason: String,
}

/// Parses one document.
pub(super) fn load(source: &str) -> Result<Node<'_>, NotYaml> {
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
    /// Collections that have not ended: their line, whether they are mappings, and their nodes so
    /// far.
    open: Vec<(u32, bool, Vec<Node<'a>>)>,
    root: Option<Node<'a>>,
    nodes: usize,
}

impl<'a> Builder<'a> {
    fn take(&mut self, event: Event<'a>, line: u32) -> Result<(), NotYaml> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(rejection(line, "too many values"));
        }
        match event {
            Event::Scalar(text, ..) => self.close(line, Value::Scalar(text)),
            Event::SequenceStart(..) => self.open.push((line, false, Vec::new())),
            Event::MappingStart(..) => self.open.push((line, true, Vec::new())),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some((line, true, nodes)) => self.close(line, Value::Mapping(pairs(nodes)?)),
                Some((line, false, nodes)) => self.close(line, Value::Sequence(nodes)),
                None => {}
            },
            Event::Alias(..) => {
                return Err(rejection(line, "anchors and aliases are not supported"));
            }
            Event::DocumentStart(..) if self.root.is_some() => {
                return Err(rejection(line, "a second document"));
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, line: u32, value: Value<'a>) {
        let node = Node { line, value };
        match self.open.last_mut() {
            Some((_, _, nodes)) => nodes.push(node),
            None => self.root = Some(node),
        }
    }
}

/// Pairs up keys and values, which alternate.
fn pairs(nodes: Vec<Node<'_>>) -> Result<Vec<(Node<'_>, Node<'_>)>, NotYaml> {
    let mut pairs = Vec::with_capacity(nodes.len() / 2);
    let mut nodes = nodes.into_iter();
    while let (Some(key), Some(value)) = (nodes.next(), nodes.next()) {
        if !matches!(key.value, Value::Scalar(_)) {
            return Err(rejection(key.line, "a key that is not a word"));
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

//! A fast reader of plan documents that have exactly the form that [`crate::write_yaml`] writes.
//!
//! A program that runs before each job reads the plan every time, and a complete YAML parser would
//! take most of that time. Tables in the written form do not need one. If a document differs in a
//! single byte, this reader returns `None` and the YAML parser reads the document, so both give the
//! same result for every document.
//!
//! ```yaml
//! policy: strict                        # the head: YAML, a key a line
//! tables:
//!   - clients: "0,7,64-71"
//!     routes:
//!       o2ib201: [1011, 1012, 1013]
//! ```

use std::borrow::Cow;

use crate::input::yaml::{self, MAX_NODES, Node, Value};

/// The line before the tables.
const TABLES: &str = "\ntables:\n";

/// The texts before a table, in a table, and before a route.
const CLIENTS: &str = "  - clients: \"";
const ROUTES: &str = "    routes:";
const ROUTE: &str = "      ";

/// Returns the document, or `None` if it has another form.
pub(super) fn load(source: &str) -> Option<Node<'_>> {
    // A carriage return also ends lines, and the writer writes none.
    if source.contains('\r') {
        return None;
    }
    let end_of_head = source.find(TABLES)? + 1;
    let (head, tables) = source.split_at(end_of_head);
    let keys = head.lines().count();
    // Each line of the head is a key, so nothing of the head extends into the tables.
    let is_key = |line: &str| line.starts_with(|c: char| c.is_ascii_lowercase());
    if !head.lines().all(is_key) || !tables.ends_with('\n') {
        return None;
    }
    let mut root = yaml::load(head).ok()?;
    let Value::Mapping(pairs) = &mut root.value else {
        return None;
    };
    if pairs.len() != keys {
        return None;
    }
    let line = u32::try_from(keys).ok()? + 1;
    let tables = Lines::new(tables, line).tables()?;
    pairs.push((scalar(line, "tables"), tables));
    Some(root)
}

/// The lines of the tables.
struct Lines<'a> {
    lines: std::iter::Peekable<std::str::Lines<'a>>,
    line: u32,
    nodes: usize,
}

impl<'a> Lines<'a> {
    /// Starts behind the first line.
    fn new(text: &'a str, line: u32) -> Self {
        let mut lines = text.lines().peekable();
        lines.next();
        Self {
            lines,
            line,
            nodes: 0,
        }
    }

    fn next(&mut self) -> Option<&'a str> {
        self.line += 1;
        self.lines.next()
    }

    fn tables(mut self) -> Option<Node<'a>> {
        let first = self.line + 1;
        let mut tables = Vec::new();
        while self.lines.peek().is_some() {
            tables.push(self.table()?);
        }
        sequence(first, tables)
    }

    fn table(&mut self) -> Option<Node<'a>> {
        let clients = self.next()?.strip_prefix(CLIENTS)?.strip_suffix('"')?;
        let is_list = |byte: u8| byte.is_ascii_digit() || matches!(byte, b',' | b'-');
        if !clients.bytes().all(is_list) {
            return None;
        }
        let line = self.line;
        if self.next()? != ROUTES {
            return None;
        }
        let routes = scalar(self.line, "routes");
        let first = self.line + 1;
        let mut each = Vec::new();
        while self
            .lines
            .peek()
            .is_some_and(|line| line.starts_with(ROUTE))
        {
            each.push(self.route()?);
        }
        if each.is_empty() {
            return None;
        }
        let entries = vec![
            (scalar(line, "clients"), scalar(line, clients)),
            (routes, mapping(first, each)),
        ];
        Some(mapping(line, entries))
    }

    fn route(&mut self) -> Option<(Node<'a>, Node<'a>)> {
        let (net, list) = self.next()?.strip_prefix(ROUTE)?.split_once(": [")?;
        let list = list.strip_suffix(']')?;
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if net.is_empty() || !net.bytes().all(is_word) {
            return None;
        }
        let line = self.line;
        let mut routers = Vec::with_capacity(4);
        for id in list.split(", ") {
            if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            routers.push(scalar(line, id));
        }
        self.nodes += routers.len() + 2;
        (self.nodes < MAX_NODES / 2).then_some(())?;
        Some((scalar(line, net), sequence(line, routers)?))
    }
}

fn scalar(line: u32, text: &str) -> Node<'_> {
    let value = Value::Scalar(Cow::Borrowed(text));
    Node { line, value }
}

fn mapping<'a>(line: u32, pairs: Vec<(Node<'a>, Node<'a>)>) -> Node<'a> {
    let value = Value::Mapping(pairs);
    Node { line, value }
}

/// Makes a list; returns `None` if it is empty.
fn sequence(line: u32, nodes: Vec<Node<'_>>) -> Option<Node<'_>> {
    let value = Value::Sequence(nodes);
    matches!(&value, Value::Sequence(nodes) if !nodes.is_empty()).then_some(Node { line, value })
}

#[cfg(test)]
mod tests {
    use super::load;
    use crate::input::yaml;

    const PLAN: &str = "machine: \"mini\"
origin: synthetic
policy: strict
warnings: [\"a \\\"doubt\\\": #1\", \"tables:\"]
tables:
  - clients: \"0,7,64-71\"
    routes:
      o2ib201: [1011, 1012, 1013]
      tcp: [7]
  - clients: \"1\"
    routes:
      o2ib201: [1012]
";

    #[test]
    fn a_written_document_is_read_as_the_yaml_parser_reads_it() {
        let known = yaml::load(PLAN).ok();
        assert!(known.is_some());
        assert_eq!(load(PLAN), known);
    }

    /// Changes, removes or doubles every byte of a document in turn.
    #[test]
    fn a_changed_document_is_left_to_the_yaml_parser_or_read_in_the_same_way() {
        let mut read = 0;
        for at in 0..PLAN.len() {
            let (before, behind) = PLAN.split_at(at);
            for with in [
                "", " ", "\n", "#", ":", "-", "0", "a", "\"", "[", "]", ",", "\r", "'", "&",
                "...\n", "---\n", "\t", "{", "|\n",
            ] {
                for rest in [behind, &behind[1..]] {
                    let text = format!("{before}{with}{rest}");
                    if let Some(found) = load(&text) {
                        read += 1;
                        assert_eq!(Some(found), yaml::load(&text).ok(), "{text}");
                    }
                }
            }
        }
        assert!(read > 100, "{read} documents were read by lines");
    }
}

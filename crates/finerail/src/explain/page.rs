//! A page of text for a terminal: headings, wrapped paragraphs, tables without boxes.

use std::fmt::Display;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use lnet_explain::Severity;

/// The indentation of everything under a heading.
const INDENT: usize = 2;

/// A page that is being written.
pub(super) struct Page {
    text: String,
    colour: bool,
    /// The width in columns.
    width: usize,
}

impl Page {
    /// Creates an empty page.
    pub(super) fn new(colour: bool, width: usize) -> Self {
        Self {
            text: String::new(),
            colour,
            width,
        }
    }

    /// Returns the text of the page.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Adds the answer, in bold.
    pub(super) fn answer(&mut self, text: &str) {
        for line in wrapped(self.width, 0, INDENT, text) {
            let bold = self.styled("1", &line);
            self.line(&bold);
        }
    }

    /// Adds a heading, after an empty line.
    pub(super) fn heading(&mut self, text: &str) {
        let bold = self.styled("1", text);
        self.text.push('\n');
        self.line(&bold);
    }

    /// Adds a paragraph. All lines except the first are indented by another `hang` columns.
    pub(super) fn paragraph(&mut self, indent: usize, hang: usize, text: &str) {
        for line in wrapped(self.width, indent, hang, text) {
            self.line(&line);
        }
    }

    /// Adds a paragraph under a heading.
    pub(super) fn item(&mut self, text: &str) {
        self.paragraph(INDENT, INDENT, text);
    }

    /// Adds the first line of a finding.
    pub(super) fn finding(&mut self, severity: Severity, rest: &str) {
        let colour = match severity {
            Severity::Error => "1;31",
            Severity::Warning => "33",
            Severity::Note => "36",
        };
        let word = self.styled(colour, &severity.to_string());
        self.line(&format!("{}{word} {rest}", " ".repeat(INDENT)));
    }

    /// Adds a table. The first column and the last `texts` columns are texts, and all others are numbers.
    pub(super) fn table(&mut self, header: &[String], rows: &[Vec<String>], texts: usize) {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        let width = self.width.saturating_sub(INDENT + 1);
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        if !header.is_empty() {
            table.set_header(header);
        }
        for row in rows {
            table.add_row(row);
        }
        let numbers = table.column_count().saturating_sub(texts);
        for column in table.column_iter_mut().take(numbers).skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        // Number columns may shrink, because they have enough room. Text columns may not: a name that is broken
        // over two lines cannot be found by searching.
        for at in std::iter::once(0).chain(numbers..numbers + texts) {
            if let Some(column) = table.column_mut(at) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        for line in table.trim_fmt().lines() {
            self.pad(INDENT - 1);
            self.line(line);
        }
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    fn pad(&mut self, columns: usize) {
        self.text.push_str(&" ".repeat(columns));
    }

    fn styled(&self, code: &str, text: &str) -> String {
        if self.colour {
            return format!("\x1b[{code}m{text}\x1b[0m");
        }
        text.to_owned()
    }
}

/// Breaks a paragraph into lines. A word longer than a line gets a line of its own.
fn wrapped(width: usize, indent: usize, hang: usize, text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = " ".repeat(indent);
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent + hang)));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// Joins items with `between`.
pub(super) fn listed<T: Display>(items: &[T], between: &str) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(between)
}

//! A page of text for a terminal: headings, wrapped paragraphs, tables without boxes.

use std::fmt::Display;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use lnet_explain::Severity;

/// Of everything under a heading.
const INDENT: usize = 2;

/// A page that is being written.
pub(super) struct Page {
    text: String,
    colour: bool,
    /// Columns.
    width: usize,
}

impl Page {
    /// An empty page.
    pub(super) fn new(colour: bool, width: usize) -> Self {
        Self {
            text: String::new(),
            colour,
            width,
        }
    }

    /// What was written.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// The answer, which stands out.
    pub(super) fn answer(&mut self, text: &str) {
        for line in wrapped(self.width, 0, INDENT, text) {
            let bold = self.styled("1", &line);
            self.line(&bold);
        }
    }

    /// A heading, after an empty line.
    pub(super) fn heading(&mut self, text: &str) {
        let bold = self.styled("1", text);
        self.text.push('\n');
        self.line(&bold);
    }

    /// A paragraph; its lines but the first are indented by `hang` more.
    pub(super) fn paragraph(&mut self, indent: usize, hang: usize, text: &str) {
        for line in wrapped(self.width, indent, hang, text) {
            self.line(&line);
        }
    }

    /// A paragraph under a heading.
    pub(super) fn item(&mut self, text: &str) {
        self.paragraph(INDENT, INDENT, text);
    }

    /// A finding's first line.
    pub(super) fn finding(&mut self, severity: Severity, rest: &str) {
        let colour = match severity {
            Severity::Error => "1;31",
            Severity::Warning => "33",
            Severity::Note => "36",
        };
        let word = self.styled(colour, &severity.to_string());
        self.line(&format!("{}{word} {rest}", " ".repeat(INDENT)));
    }

    /// A table; all columns but the first are numbers, but for the last `texts`.
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
        // Numbers have room; a name that is broken cannot be searched for.
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

/// The lines of a paragraph; a word that is longer than a line has one of its own.
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

/// Items in one line.
pub(super) fn listed<T: Display>(items: &[T], between: &str) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(between)
}

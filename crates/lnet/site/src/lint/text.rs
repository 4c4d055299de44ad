//! Writes a report for a terminal of 100 columns.

use std::fmt::Write as _;

use crate::lint::finding::{Report, Shown};

/// The number of columns.
const WIDTH: usize = 100;
/// The indentation of the lines below a finding's place.
const INDENT: usize = 4;

impl Report {
    /// Returns the report as text: the place, severity, code, reason and advice of each finding, then the numbers
    /// of findings.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let place = format!("{}:{}:{}", finding.file, finding.line, finding.column);
            let head = format!("{place}: {}[{}]", finding.severity, finding.code);
            // A long key gets a line of its own, because a key that is split over lines cannot be searched for.
            let one_line = head.chars().count() + 1 + finding.key.chars().count() <= WIDTH;
            let between = if one_line { " " } else { "\n    at " };
            let between = if finding.key.is_empty() { "" } else { between };
            // Writing to a String cannot fail.
            let _infallible = writeln!(text, "{head}{between}{}", finding.key);
            if let Some(shown) = &finding.shown {
                excerpt(&mut text, shown);
            }
            paragraph(&mut text, &finding.reason);
            paragraph(&mut text, &format!("fix: {}", finding.fix));
        }
        let counts = [
            counted(self.errors, "error"),
            counted(self.warnings, "warning"),
            counted(self.notes, "note"),
        ];
        let files = counted(self.files.len(), "file");
        let _infallible = writeln!(text, "{} in {files}", counts.join(", "));
        text
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Writes a line of the document with the marks below it. Of a long line only the part around the marks is shown.
fn excerpt(page: &mut String, shown: &Shown) {
    const ROOM: usize = WIDTH - INDENT - 2;
    let before = shown.mark.chars().take_while(|&one| one != '^').count();
    // A third of the space is for the text before the marks.
    let skipped = match shown.text.chars().count() {
        0..=ROOM => 0,
        length => before.saturating_sub(ROOM / 3).min(length - ROOM),
    };
    for line in [&shown.text, &shown.mark] {
        let part: String = line.chars().skip(skipped).take(ROOM).collect();
        let _infallible = writeln!(page, "    | {}", part.trim_end());
    }
}

/// Writes words in indented lines. A word that is longer than a line gets a line of its own.
fn paragraph(page: &mut String, text: &str) {
    let mut line = " ".repeat(INDENT);
    for word in text.split_whitespace() {
        let is_first = line.len() == INDENT;
        if !is_first && line.chars().count() + 1 + word.chars().count() > WIDTH {
            page.push_str(&line);
            page.push('\n');
            line.truncate(INDENT);
        } else if !is_first {
            line.push(' ');
        }
        line.push_str(word);
    }
    page.push_str(&line);
    page.push('\n');
}

//! Shows the result of a check as text, about 100 columns wide.

use std::fmt::Write as _;

use crate::check::{Cause, Check, ClassReport, RoleReport, short};
use crate::lint::Severity;

/// The number of columns of a line.
const WIDTH: usize = 100;
/// The limit on the settings of a class that are listed. The number of the others is printed.
const SETTINGS_SHOWN: usize = 6;
/// The limit on the classes of a role that are listed. The number of the others is printed.
const CLASSES_SHOWN: usize = 20;

impl Check {
    /// Returns the check as text: the problems, the most severe first; then the roles and how their nodes differ.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut page = String::new();
        let _infallible = writeln!(page, "{}", self.headline());
        let mut codes: Vec<&str> = Vec::new();
        for cause in &self.causes {
            if !codes.contains(&cause.code) {
                codes.push(cause.code);
            }
        }
        // An overview of all codes. With a single cause the list below is enough.
        if codes.len() > 1 {
            wrapped(&mut page, "", &format!("worst first: {}", codes.join(", ")));
        }
        for cause in &self.causes {
            cause.write(&mut page);
        }
        for role in &self.roles {
            role.write(&mut page);
        }
        for (path, why) in self.passed_over.iter().take(SETTINGS_SHOWN) {
            let _infallible = writeln!(page, "ignored: {path}: {why}");
        }
        page
    }

    /// Returns the size of the site and the number of findings in one line.
    #[must_use]
    pub fn headline(&self) -> String {
        let count = |severity| {
            let causes = self
                .causes
                .iter()
                .filter(|cause| cause.severity == severity);
            causes.count()
        };
        format!(
            "{}, {}, {}: {}, {}, {}",
            counted(self.nodes, "node"),
            counted(self.classes, "class"),
            counted(self.roles.len(), "role"),
            counted(count(Severity::Error), "error"),
            counted(count(Severity::Warning), "warning"),
            counted(count(Severity::Note), "note"),
        )
    }
}

impl Cause {
    fn write(&self, page: &mut String) {
        let Self {
            code,
            severity,
            nodes,
            ..
        } = self;
        let (first, names) = (&self.first, short(&self.names));
        let (of, role) = (self.of, &self.role);
        let _infallible = writeln!(page, "{severity}[{code}] {nodes} of {of} {role}: {names}");
        let place = format!(
            "{}:{}:{} {}",
            first.file, first.line, first.column, first.key
        );
        let _infallible = writeln!(page, "    {}", place.trim_end());
        wrapped(page, "    ", &first.reason);
        wrapped(page, "    ", &format!("fix: {}", first.fix));
        if self.others > 0 {
            let others = counted(self.others, "finding");
            let text = format!("and {others} with other details, which --json lists");
            wrapped(page, "    ", &text);
        }
    }
}

impl RoleReport {
    fn write(&self, page: &mut String) {
        let _infallible = writeln!(
            page,
            "{} ({}, {})",
            self.role,
            counted(self.nodes, "node"),
            counted(self.classes.len(), "class")
        );
        for (at, class) in self.classes.iter().take(CLASSES_SHOWN).enumerate() {
            let _infallible = writeln!(page, "    {}: {}", class.nodes, short(&class.names));
            if at > 0 {
                class.write(page);
            }
        }
        let more = self.classes.len().saturating_sub(CLASSES_SHOWN);
        if more > 0 {
            let _infallible = writeln!(page, "    and {}", counted(more, "class more"));
        }
    }
}

impl ClassReport {
    fn write(&self, page: &mut String) {
        let has = self.has.iter().map(|setting| format!("+ {setting}"));
        let lacks = self.lacks.iter().map(|setting| format!("- {setting}"));
        let all: Vec<String> = has.chain(lacks).collect();
        for line in all.iter().take(SETTINGS_SHOWN) {
            let _infallible = writeln!(page, "        {line}");
        }
        let more = all.len().saturating_sub(SETTINGS_SHOWN);
        if more > 0 {
            let _infallible = writeln!(page, "        and {more} more");
        }
    }
}

/// Returns a number with its noun: `1 node`, `2 nodes`, `2 classes`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    let plural = match what {
        _ if count == 1 => "",
        what if what.ends_with("ss") => "es",
        what if what.ends_with("more") => "",
        _ => "s",
    };
    format!("{count} {what}{plural}")
}

/// Writes words in indented lines. A word that is longer than a line gets a line of its own.
pub(crate) fn wrapped(page: &mut String, indent: &str, text: &str) {
    let mut line = indent.to_owned();
    for word in text.split_whitespace() {
        let is_first = line.len() == indent.len();
        if !is_first && line.chars().count() + 1 + word.chars().count() > WIDTH {
            page.push_str(&line);
            page.push('\n');
            line.truncate(indent.len());
        } else if !is_first {
            line.push(' ');
        }
        line.push_str(word);
    }
    page.push_str(&line);
    page.push('\n');
}

//! Findings, and the report with all of them.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;

use serde::Serialize;

use crate::lint::Input;
use crate::lint::catalogue::Severity;

/// A problem that a lint found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The code of the lint that found it.
    pub code: &'static str,
    /// The severity of the problem.
    pub severity: Severity,
    /// The name of the document.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The key, such as `route[3].gateway`; empty if the finding is about the whole document.
    pub key: String,
    /// The line of the document, if the problem is in the text of this line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
    /// The problem, with the facts that show it.
    pub reason: String,
    /// The advice.
    pub fix: String,
}

/// A line of a document, with the part of it that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// The line, or the part of it around the place: at most 200 characters, without terminal control characters.
    pub text: String,
    /// The line to print below `text`: spaces, then a mark under each character that the finding is about.
    pub mark: String,
}

impl Shown {
    /// Marks the characters `marked`, counted in characters of `text`.
    pub(crate) fn new(text: &str, marked: Range<usize>) -> Self {
        let before = text.chars().take(marked.start);
        // A tab stays a tab, so that the marks are below their characters.
        let before = before.map(|one| if one == '\t' { one } else { ' ' });
        let marks = marked.len().max(1);
        Self {
            text: text.to_owned(),
            mark: before.chain(iter::repeat_n('^', marks)).collect(),
        }
    }
}

/// The result of all lints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The names of the documents, in their order.
    pub files: Vec<String>,
    /// The number of errors.
    pub errors: usize,
    /// The number of warnings.
    pub warnings: usize,
    /// The number of notes.
    pub notes: usize,
    /// The findings, sorted by document, line and column.
    pub findings: Vec<Finding>,
}

impl Report {
    pub(crate) fn new(inputs: &[Input<'_>], mut findings: Vec<Finding>) -> Self {
        let files: Vec<String> = inputs.iter().map(|input| input.name.to_owned()).collect();
        let places = files.iter().zip(0..).map(|(file, at)| (file.clone(), at));
        let places: BTreeMap<String, usize> = places.collect();
        let order = |finding: &Finding| places.get(&finding.file).copied();
        findings.sort_by_cached_key(|finding| {
            (
                order(finding),
                finding.line,
                finding.column,
                finding.code,
                finding.reason.clone(),
            )
        });
        let count = |severity| findings.iter().filter(|f| f.severity == severity).count();
        Self {
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            notes: count(Severity::Note),
            files,
            findings,
        }
    }
}

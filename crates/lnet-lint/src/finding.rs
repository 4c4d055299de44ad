//! Findings, and all of them together.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;

use serde::Serialize;

use crate::Input;
use crate::catalogue::Severity;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The code of the lint that found it.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The document.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The key, such as `route[3].gateway`; empty for the whole document.
    pub key: String,
    /// The line, where the matter is how it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
    /// What is the matter, with the facts.
    pub reason: String,
    /// What helps.
    pub fix: String,
}

/// A line of a document, and what of it is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// The line, or the part of it around the place; at most 200 characters, none of which commands a terminal.
    pub text: String,
    /// What stands below it: spaces, then a mark under each character that is meant.
    pub mark: String,
}

impl Shown {
    /// `marked` counts the characters of `text`.
    pub(crate) fn new(text: &str, marked: Range<usize>) -> Self {
        let before = text.chars().take(marked.start);
        // A tab stays one, so that what follows stands below its character.
        let before = before.map(|one| if one == '\t' { one } else { ' ' });
        let marks = marked.len().max(1);
        Self {
            text: text.to_owned(),
            mark: before.chain(iter::repeat_n('^', marks)).collect(),
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The documents, in their order.
    pub files: Vec<String>,
    /// How many errors.
    pub errors: usize,
    /// How many warnings.
    pub warnings: usize,
    /// How many notes.
    pub notes: usize,
    /// The findings, by document, line and column.
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

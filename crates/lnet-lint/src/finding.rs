//! Findings, and all of them together.

use std::collections::BTreeMap;

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
    /// What is the matter, with the facts.
    pub reason: String,
    /// What helps.
    pub fix: String,
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

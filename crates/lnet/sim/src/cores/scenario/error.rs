//! Errors of a scenario, with their places.

use serde_saphyr::{Location, Spanned};
use thiserror::Error;

/// The reason why a scenario cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {what}{}{help}", if .help.is_empty() { "" } else { "; " })]
pub struct ScenarioError {
    /// The line, counted from 1.
    pub line: u64,
    /// The column, counted from 1.
    pub column: u64,
    /// The error.
    pub what: String,
    /// The right form; empty if `what` names it.
    pub help: String,
}

impl ScenarioError {
    pub(super) fn at(place: Location, what: String, help: String) -> Self {
        Self {
            line: place.line(),
            column: place.column(),
            what,
            help,
        }
    }

    pub(super) fn of<T>(
        value: &Spanned<T>,
        what: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self::at(value.referenced, what.into(), help.into())
    }

    /// Converts an error of the YAML reader or of a type.
    pub(super) fn of_yaml(error: &serde_saphyr::Error) -> Self {
        let (line, column) = error
            .location()
            .map_or((1, 1), |location| (location.line(), location.column()));
        // The reader's text contains the place at its beginning or end. The place is removed, because it is in our
        // own fields.
        let text = error.without_snippet().to_string();
        let first = text.lines().next().unwrap_or_default();
        let place = format!(" at line {line}, column {column}");
        let what = first.replace(&place, "");
        let prefix = format!("error: line {line} column {column}: ");
        let what = what.strip_prefix(&prefix).unwrap_or(&what);
        Self {
            line,
            column,
            what: what.to_owned(),
            help: String::new(),
        }
    }
}

//! The rules, and their findings.

use std::fmt;

use crate::workspace::Workspace;
use crate::{documentation, layering, markers, panics, purity, rooms, size, style, unsafety};

/// One rule of the workspace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rule {
    /// No function is longer than 100 lines, tests included.
    FunctionLength,
    /// 90 % of the functions outside tests have at most 30 lines.
    FunctionShare,
    /// No file is longer than 800 lines.
    FileLength,
    /// Every public item has documentation.
    PublicDocs,
    /// Every file begins with a `//!` comment that says what it is.
    ModuleDoc,
    /// Outside tests, code that can panic states in a comment why it does not.
    Panics,
    /// `unsafe` is only in the crates of system calls, each time with a SAFETY comment.
    Unsafe,
    /// No test sleeps: it waits on a condition.
    Sleep,
    /// No test is ignored, and no work is left for later.
    Unfinished,
    /// Imports are in three blocks: std, external, this crate.
    Imports,
    /// No function name begins with `get_`.
    Getter,
    /// No function or type has a name that the glossary of CONTRIBUTING.md replaces by another.
    Words,
    /// The pure crates contain no clock, thread, lock, socket, file, randomness or randomly ordered
    /// map.
    Purity,
    /// Dependencies between crates point downwards, along the edges of the layers. What a crate
    /// must not contain is not compiled into it.
    Layering,
    /// The rooms of `lnet-core` name only rooms below them, and `Core` has few methods.
    Rooms,
    /// Every crate has the lints of the workspace and its limits for clippy.
    Lints,
}

impl Rule {
    /// Every rule, in the order of the type.
    pub const ALL: [Self; 16] = [
        Self::FunctionLength,
        Self::FunctionShare,
        Self::FileLength,
        Self::PublicDocs,
        Self::ModuleDoc,
        Self::Panics,
        Self::Unsafe,
        Self::Sleep,
        Self::Unfinished,
        Self::Imports,
        Self::Getter,
        Self::Words,
        Self::Purity,
        Self::Layering,
        Self::Rooms,
        Self::Lints,
    ];

    /// Name of the rule in messages and in `exceptions.txt`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FunctionLength => "function-length",
            Self::FunctionShare => "function-share",
            Self::FileLength => "file-length",
            Self::PublicDocs => "public-docs",
            Self::ModuleDoc => "module-doc",
            Self::Panics => "panics",
            Self::Unsafe => "unsafe",
            Self::Sleep => "sleep",
            Self::Unfinished => "unfinished",
            Self::Imports => "imports",
            Self::Getter => "getter",
            Self::Words => "words",
            Self::Purity => "purity",
            Self::Layering => "layering",
            Self::Rooms => "rooms",
            Self::Lints => "lints",
        }
    }

    /// Returns every place in the workspace that breaks the rule, in the order of the files.
    #[must_use]
    pub fn check(self, workspace: &Workspace) -> Vec<Finding> {
        match self {
            Self::FunctionLength => size::function_length(workspace),
            Self::FunctionShare => size::function_share(workspace),
            Self::FileLength => size::file_length(workspace),
            Self::PublicDocs => documentation::public_items(workspace),
            Self::ModuleDoc => documentation::modules(workspace),
            Self::Panics => panics::check(workspace),
            Self::Unsafe => unsafety::check(workspace),
            Self::Sleep => markers::sleeps(workspace),
            Self::Unfinished => markers::unfinished(workspace),
            Self::Imports => style::imports(workspace),
            Self::Getter => style::getters(workspace),
            Self::Words => style::words(workspace),
            Self::Purity => purity::check(workspace),
            Self::Layering => [layering::edges(workspace), layering::left_out(workspace)].concat(),
            Self::Rooms => rooms::check(workspace),
            Self::Lints => [layering::lints(workspace), layering::clippy(workspace)].concat(),
        }
    }
}

/// One place that breaks a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// The broken rule.
    pub rule: Rule,
    /// Path of the file, relative to the root of the workspace, with `/` as separator.
    pub path: String,
    /// The line, counted from 1; 1 if the finding is about the whole file.
    pub line: usize,
    /// Name of the item that breaks the rule, without spaces; empty if the finding is about the
    /// whole file.
    pub subject: String,
    /// What is wrong, in a few words.
    pub what: String,
}

impl Finding {
    /// Name of the place in the list of exceptions: `path#subject`, or `path` for a whole file.
    /// Line numbers are not part of it, because they change with every edit.
    #[must_use]
    pub fn place(&self) -> String {
        if self.subject.is_empty() {
            self.path.clone()
        } else {
            format!("{}#{}", self.path, self.subject)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rule,
            path,
            line,
            subject,
            what,
        } = self;
        let rule = rule.name();
        if subject.is_empty() {
            write!(f, "{path}:{line}: [{rule}] {what}")
        } else {
            write!(f, "{path}:{line}: [{rule}] {subject}: {what}")
        }
    }
}

//! The rules of this workspace, measured: what the compiler and clippy cannot check.
//!
//! `tests/workspace.rs` holds one test for each [`Rule`]; a test that fails prints each place as
//! `file:line`. What cannot follow a rule is listed, with the reason, in `exceptions.txt`, and an
//! exception that nothing needs any longer fails as well, so that the list only shrinks.
//!
//! ```text
//! crates/*/**/*.rs ── syn ──▶ Source ──┐
//! crates/*/Cargo.toml ───────────────▶ ├─ Workspace ── Rule::check ──▶ Finding ── Exceptions ──▶ test
//! cargo metadata ── names, edges ────▶ ┘
//! ```
//!
//! A rule sees tokens and syntax trees, never types. It therefore reads names: `Instant` is
//! taken for the clock whichever module it came from. The code inside macro calls is seen by the
//! rules that read tokens and not by those that read trees.
//!
//! This crate reads the work tree and runs `cargo metadata`. It never changes anything, and
//! nothing depends on it.

mod documentation;
mod exceptions;
mod layering;
mod markers;
mod panics;
mod purity;
mod rule;
mod size;
mod source;
mod style;
mod unsafety;
mod workspace;

#[cfg(test)]
mod planted;

pub use exceptions::{Exception, Exceptions};
pub use rule::{Finding, Rule};
pub use source::{Source, Token};
pub use workspace::{Package, Workspace};

//! Checks the rules of this workspace that neither the compiler nor clippy can check.
//!
//! `tests/workspace.rs` checks every [`Rule`]. A failing test prints each place as `file:line`
//! with the name of the rule. `exceptions.txt` lists the places that cannot follow a rule, with the reason. An
//! exception that is not needed also fails, so that the list only shrinks.
//!
//! ```text
//! crates/**/*.rs ──── syn ──▶ Source ──┐
//! crates/**/Cargo.toml ──────────────▶ ├─ Workspace ── Rule::check ──▶ Finding ── Exceptions ──▶ test
//! cargo metadata ── names, edges ────▶ ┘
//! ```
//!
//! `tests/specifications.rs` compares the rules in `docs/protocol` and `docs/selection` with the comments that cite
//! them: see [`specifications`].
//!
//! A rule sees tokens and syntax trees, but no types. It therefore compares names: every `Instant`
//! counts as the clock, whatever its module. Rules that read tokens see the code inside macro
//! calls; rules that read trees do not.
//!
//! `tests/links.rs` follows the links between the texts of the repository.
//!
//! This crate reads the work tree and runs `cargo metadata`. No crate depends on it.

mod documentation;
mod exceptions;
mod layering;
mod markers;
mod panics;
mod purity;
mod rooms;
mod rule;
mod size;
mod source;
pub mod specifications;
mod style;
mod unsafety;
mod workspace;

#[cfg(test)]
mod planted;

pub use exceptions::{Exception, Exceptions};
pub use rule::{Finding, Rule};
pub use source::{Source, Token};
pub use specifications::{SPECIFICATIONS, Specifications};
pub use workspace::{Package, Workspace};

//! Will this machine mount that file system? The facts that a check gathers, and what follows from them.
//!
//! ```text
//!  Facts { MGS nodes, file system, targets: how reached, what answered } ─▶ check ─▶ Verdict { findings, worst first }
//! ```

mod catalogue;
mod facts;
mod mgs;
mod target;
mod verdict;

pub use catalogue::{KINDS, Kind, Severity};
pub use facts::{Answer, Facts, Knock, Mgs, Reach, TargetFacts, Way, Why};
pub use verdict::{Finding, Verdict, check};

//! Will this machine mount that file system? The facts that a check gathers, and what follows from them.
//!
//! ```text
//!  Facts { MGS nodes, file system, targets: how reached, what answered } ─▶ judge ─▶ Verdict { findings, worst first }
//! ```

mod catalogue;
mod facts;
mod judge;

pub use catalogue::{KINDS, Kind, Severity};
pub use facts::{Answer, Facts, Knock, Mgs, Reach, TargetFacts, Way, Why};
pub use judge::{Finding, Verdict, judge};

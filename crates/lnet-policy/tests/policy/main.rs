//! What selection rules promise. A test whose name begins with `t_u` is that case of the catalogue
//! (selection 7.3); it runs in both profiles unless it names one.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows only functions with #[test] as tests"
)]

mod apply;
mod audit;
mod blocks;
mod build;
mod catalogue;
mod design;
mod equivalence;
mod hostile;
mod kernel;
mod refusals;
mod strategies;
mod triggers;

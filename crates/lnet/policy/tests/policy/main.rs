//! Tests of selection rules. A test whose name begins with `t_u` is that case of the catalogue,
//! `docs/selection-cases.md`; it runs in both profiles unless its name contains one.

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
mod rejections;
mod strategies;
mod triggers;

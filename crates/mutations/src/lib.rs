//! Mutations: places where the code is broken on purpose, each with the test that must notice.
//!
//! A test that cannot fail proves nothing. A crate lists in `mutations.txt` what may be broken in it:
//!
//! ```text
//! == fatal_is_ignored
//! file: src/select/direct.rs
//! test: t_s06_an_interface_without_fatal_error_comes_before_health
//! --- from
//!                 ni.fatal.into(),
//! --- to
//!                 0,
//! ```
//!
//! ```text
//!  list ─▶ copy of the workspace ─▶ per mutation: change ─▶ build ─▶ its test ─▶ change back
//!                                                            │          │
//!                                                   did not compile   fails: caught
//!                                                                     passes: survived
//! ```
//!
//! The workspace itself is never touched. What is run is the code of this workspace; a mutation that
//! makes a test run for ever is ended, and counts as caught.

mod bench;
mod list;
mod place;

pub use bench::{Bench, Fate};
pub use list::{Mutation, parse};
pub use place::{Catalogue, find, workspace_root};

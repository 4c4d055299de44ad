//! Mutation testing: breaks the code at listed places, and expects that a named test fails.
//!
//! A test that cannot fail proves nothing. `mutations.txt` of a crate lists the places to break:
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
//! The workspace itself is not changed. The program runs code of this workspace. A test that hangs
//! because of a mutation is stopped, and the mutation counts as caught.

mod bench;
mod list;
mod place;

pub use bench::{Bench, Fate};
pub use list::{Mutation, parse};
pub use place::{Catalogue, find, workspace_root};

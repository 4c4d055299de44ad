//! Questions about a whole LNet site, answered from the files that it already has.
//!
//! ```text
//!  files ── gather ──▶ nodes ──▶ Site: members, classes, roles
//!                                  ├─ check ─▶ what is wrong, by cause and role
//!                                  ├─ reach ─▶ who reaches whom, there and back
//!                                  ├─ what_if ─▶ what a failure does to that
//!                                  └─ differences ─▶ what a change does to that
//! ```
//!
//! A node is a file or a folder; a class of nodes is a file whose name is a host list (`node[0001-9408].yaml`). Nodes
//! that differ in nothing but their NIDs and what they counted are one class, and are looked at once where a question
//! is about behaviour. What one node alone has wrong is looked for in every node.
//!
//! This crate opens no file and no socket, and chooses no path: that is the work of `lnet-core`.

mod check;
mod document;
mod error;
mod fold;
mod gather;
mod html;
mod impact;
mod impact_text;
mod lctl;
mod model;
mod picture;
mod reach;
mod repair;
mod site;
mod text;
mod trouble;

pub use check::{Cause, Check, ClassReport, RoleReport, check, listed};
pub use error::SiteError;
pub use fold::fold;
pub use gather::{Gathered, NodeText, Part, SiteFile, gather, is_wanted, may_hold};
pub use impact::{
    Change, Impact, SiteDifference, differences, each_rail, each_router, overlay, what_if,
};
pub use impact_text::{difference_text, impacts_text};
pub use model::{Track, Verdict};
pub use reach::{Direction, End, Reach, Selection, reach, tracks, verdicts};
pub use site::{Class, Member, Role, Site};
pub use trouble::Trouble;

/// Reads a site from its files, all of whose names are names of nodes.
///
/// # Errors
///
/// [`SiteError`].
pub fn read(files: &[SiteFile]) -> Result<Site, SiteError> {
    let mut gathered = gather(files);
    match gathered.unnamed.pop() {
        Some(error) => Err(error),
        None => Site::new(gathered),
    }
}

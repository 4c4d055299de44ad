//! Answers questions about a whole LNet site from the configuration files and outputs that the site already has.
//!
//! ```text
//!  files ── gather ──▶ nodes ──▶ Site: members, classes, roles
//!                                  ├─ check ─▶ problems, by cause and role
//!                                  ├─ reach ─▶ which nodes reach each other, in both directions
//!                                  ├─ what_if ─▶ the effects of a failure
//!                                  └─ differences ─▶ the effects of a change
//! ```
//!
//! A node is a file or a folder. A file whose name is a host list (`node[0001-9408].yaml`) stands for many equal
//! nodes. Nodes that differ only in their NIDs and counters form one class. A question about behaviour examines one
//! node of each class; the search for configuration errors examines every node.
//!
//! This crate opens no file and no socket. It chooses no path: `lnet-core` does.

mod cause;
mod check;
mod document;
mod doubt;
mod error;
mod fold;
mod gather;
mod html;
mod impact;
mod impact_text;
mod lctl;
pub mod lint;
mod model;
mod picture;
mod reach;
mod repair;
mod site;
mod targets;
mod text;
mod trouble;

pub use check::{Cause, Check, ClassReport, RoleReport, check, listed};
pub use doubt::Doubt;
pub use error::SiteError;
pub use fold::fold;
pub use gather::{Gathered, NodeText, Part, SiteFile, gather, is_wanted, may_hold};
pub use impact::{
    Change, Impact, SiteDifference, differences, each_rail, each_router, overlay, what_if,
};
pub use impact_text::{Extent, SCREEN, difference_text, impacts_text};
pub use model::{Track, Verdict};
pub use reach::{Direction, End, Reach, Selection, Tried, reach, tracks, verdicts};
pub use site::{Class, Member, Role, Site};
pub use targets::{ClassTargets, SavedTarget, SavedTargets, TargetReach, targets};
pub use trouble::Trouble;

/// Reads a site from its files. The name of each file must be the name of a node.
///
/// # Errors
///
/// Returns a [`SiteError`] if a name is no host list, if there is no node, or if a list of interfaces cannot be
/// read.
pub fn read(files: &[SiteFile]) -> Result<Site, SiteError> {
    let mut gathered = gather(files);
    match gathered.unnamed.pop() {
        Some(error) => Err(error),
        None => Site::new(gathered),
    }
}

//! The catalogue of cases, `docs/selection-cases.md`, each a test whose name has its ID, and the checklist of the
//! design documents of LNet Health.
//!
//! Unless a test sets other values: used paths by pair, sensitivity 100, retry count 2, all health values 1000, no
//! rules, equal distances. A case whose name says `design` or `lustre` holds in that profile. Every other case runs in
//! the `design` profile and, by `both`, in those of kernels. `coverage` checks that no case is missing.

mod bench;
mod both;
mod cases;
mod checklist;
mod coverage;
mod explain;
mod faults;
mod health;
mod policy;
mod recovery;
mod resend;
mod routing;
mod selection;
mod triggers;
mod uncatalogued;

pub(super) use self::bench::rule;
use self::bench::{Bench, DESIGN, LITERAL, LUSTRE, LUSTRE_217, PAIR};
use super::net::{self, any_me, open_md};
use super::{Net, nid};
use crate::*;

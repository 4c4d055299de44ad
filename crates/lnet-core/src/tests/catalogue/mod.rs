//! The catalogue of cases (sections 7.1 to 7.4 of lnet-selection), each a test that carries its ID, and
//! the checklist of the design (section 3.10).
//!
//! Unless a test says otherwise: used paths by pair, sensitivity 100, retry count 2, all healths 1000,
//! no rules, distances equal. A case whose name says `design` or `lustre` holds in that profile; every
//! other one runs in the `design` profile and, through `both`, in the `lustre` one. `coverage` checks
//! that no case is missing.

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

pub(super) use self::bench::rule;
use self::bench::{Bench, DESIGN, LITERAL, LUSTRE, LUSTRE_217, PAIR};
use super::net::{self, any_me, open_md};
use super::{Net, nid};
use crate::*;

//! The catalogue of cases (sections 7.1 to 7.4 of lnet-selection), each a test that carries its ID, and
//! the checklist of the design (section 3.10).
//!
//! Unless a test says otherwise: `design` profile, used paths by pair, sensitivity 100, retry count 2,
//! all healths 1000, no rules, distances equal. `coverage` checks that no case is missing.

mod bench;
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

use self::bench::{Bench, LITERAL, LUSTRE, PAIR, rule};
use super::net::{self, any_me, open_md};
use super::{Net, nid};
use crate::*;

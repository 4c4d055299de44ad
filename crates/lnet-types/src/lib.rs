//! The ground that everything else stands on: networks, NIDs, process ids, the expressions that
//! match them, and a point in time.
//!
//! These types hold no state and do no I/O. They know how a value is written by people
//! (`10.0.0.1@tcp5`, `10.0.0.[1-10/2]@o2ib1`) and what it is on the wire (a 20-byte NID), and nothing
//! of how it is used. Section numbers cite the LNet wire description; "selection" before a number
//! means the description of path selection and policies.

pub mod expr;
mod net;
mod nid;
mod process;
mod time;

pub use net::{LndType, Net, ParseNetError};
pub use nid::{Nid, ParseNidError};
pub use process::{ParseProcessIdError, ProcessId};
pub use time::Time;

#[cfg(test)]
mod tests;

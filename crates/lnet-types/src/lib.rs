//! The ground that everything else stands on: networks, NIDs, process ids, the expressions that
//! match them, and a point in time.
//!
//! These types hold no state and do no I/O. They know how a value is written by people
//! (`10.0.0.1@tcp5`) and what it is on the wire (a 20-byte NID), and nothing of how it is used.

mod net;
mod nid;
mod time;

pub use net::{LndType, Net, ParseNetError};
pub use nid::{Nid, ParseNidError, ProcessId};
pub use time::Time;

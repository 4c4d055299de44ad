//! The client's side of the conversations of a mount check, without I/O.
//!
//! [`Exchange`] is one connection to one target. A driver sends what it says, over any LNet node, and gives it the
//! replies and the time.

mod exchange;
mod failure;
mod limits;
mod log_reader;
mod request;

pub use exchange::{Ending, Exchange, Export, Granted, Outgoing, Start, Statfs, Step};
pub use failure::Failure;
pub use limits::Limits;
pub use request::Service;
#[cfg(feature = "server")]
pub(crate) use request::message;

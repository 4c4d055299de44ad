//! The values that all other crates share: networks, NIDs, process ids, the expressions that match
//! them, a point in time, and a generator of numbers from a seed.
//!
//! The types hold no state and do no I/O. They convert between a value, its text (`10.0.0.1@tcp5`,
//! `10.0.0.[1-10/2]@o2ib1`) and its bytes on the wire (a 20-byte NID).
//!
//! ```
//! use lnet_types::expr::NidExpr;
//! use lnet_types::{Net, Nid};
//!
//! let nid: Nid = "10.0.0.3@tcp5".parse()?;
//! assert_eq!(nid.net(), Net::tcp(5));
//! assert_eq!(Nid::from_wire(nid.to_wire()), Some(nid));
//!
//! let gateways: NidExpr = "10.0.0.[1-9/2]@tcp5".parse()?;
//! assert!(gateways.matches(nid));
//! assert_eq!(gateways.expand(100)?.len(), 5);
//! assert!(gateways.expand(4).is_err());
//!
//! let error = "10.0.0@tcp".parse::<Nid>().unwrap_err();
//! assert!(error.to_string().starts_with("'10.0.0' is not an address on a tcp network"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: a NID has an address of 4 or 16 bytes, as those of all known LNDs; host names are not
//! resolved; a network is not checked for existence.
//!
//! Tags such as [TYPE-1] and [UDSP-20] cite the rules in `docs/protocol` and `docs/selection`.

pub mod expr;
mod net;
mod nid;
mod process;
mod random;
mod time;

pub use net::{LndType, Net, ParseNetError};
pub use nid::{Nid, ParseNidError};
pub use process::{ParseProcessIdError, ProcessId};
pub use random::SplitMix64;
pub use time::Time;

#[cfg(test)]
mod tests;

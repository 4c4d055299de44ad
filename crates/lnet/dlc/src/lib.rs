//! The Dynamic LNet Configuration library: a client of a node's control endpoint.
//!
//! ```text
//!  program ── Dlc ── Unix socket ──▶ control endpoint of a node
//! ```
//!
//! [`Dlc`] has the nine functions of the selection-policy design under their original names, and
//! functions for the other settings and outputs of a node with values of [`lnet_config`]. A
//! connection carries one request at a time; open several for parallel requests.
//!
//! ```no_run
//! use lnet_dlc::Dlc;
//! use lnet_policy::Priority;
//!
//! let mut dlc = Dlc::connect("/run/finerail/control.sock")?;
//! dlc.lustre_lnet_add_net_sel_pol("o2ib1", Priority::new(0).unwrap())?;
//! for policy in dlc.lustre_lnet_show_net_sel_pol(None)? {
//!     println!("{}: {} {}", policy.id, policy.net, policy.priority);
//! }
//! # Ok::<(), lnet_dlc::DlcError>(())
//! ```
//!
//! Limits: requests block until the answer arrives or the timeout expires, and the node must run on
//! the same machine. The crate does not know how a node serves a request.

mod connection;
mod error;
mod policies;
pub mod protocol;
mod typed;

pub use connection::{Dlc, Generation};
pub use error::DlcError;
pub use typed::{Answers, Routing, Run};

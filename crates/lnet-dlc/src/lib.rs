//! The Dynamic LNet Configuration library: a client of a node's control endpoint.
//!
//! ```text
//!  program ── Dlc ── Unix socket ──▶ control endpoint of a node
//! ```
//!
//! [`Dlc`] has the nine functions of the selection-policy design under its names, and functions for
//! everything else that a node has and can be told, as values of [`lnet_config`]. One connection, one request at a time; whoever needs more
//! opens another one.
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
//! This crate may never know what a node does with a request.

mod connection;
mod error;
mod policies;
mod typed;

pub use connection::{Dlc, Generation};
pub use error::DlcError;
pub use typed::{Answers, Routing, Run};

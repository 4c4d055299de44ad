//! `libfinerail_lnet`: Put and Get over LNet for C programs.
//!
//! `include/finerail_lnet.h` has the documentation of the functions for their callers. `lnet-node` carries them out;
//! this crate adds only the C interface.
//!
//! ```text
//!  C program ── flnet_put ──▶ operations ─┐
//!               flnet_wait ─▶ queue ──────┼─▶ handles ──▶ lnet_node::Node, EventQueue, Inbox
//!               flnet_send ─▶ whole ──────┘   (a table of this process)
//!                    ◀── a number, or a negative errno and a text (failure)
//! ```
//!
//! A handle is a number: wrong, closed and inherited ones are answered. Pointers cannot be checked beyond null; those
//! that are wrong are undefined behaviour, as with `read(2)`. Memory of descriptors is the program's: the node moves
//! bytes there until the descriptor's last event.

pub mod abi;
mod arguments;
mod failure;
mod handles;
mod memory;
mod node;
mod operations;
mod queue;
mod whole;

pub use abi::{flnet_format_nid, flnet_parse_address, flnet_parse_nid};
pub use failure::flnet_error;
pub use memory::{flnet_attach, flnet_bind, flnet_cancel, flnet_unlink};
pub use node::{
    flnet_counters, flnet_discover, flnet_nids, flnet_ping, flnet_start, flnet_start_file,
    flnet_stop,
};
pub use operations::{flnet_get, flnet_get_many, flnet_put, flnet_put_many};
pub use queue::{flnet_queue_close, flnet_queue_fd, flnet_queue_open, flnet_wait};
pub use whole::{
    flnet_inbox_close, flnet_inbox_next, flnet_inbox_open, flnet_read, flnet_send, flnet_write,
};

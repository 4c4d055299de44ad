//! The devices of the o2ib LND: RDMA over libibverbs and librdmacm.
//!
//! [`VerbsDevice`] does what [`lnet_o2ib::O2iblnd`] decides. A program polls it, passes its events to the LND, and waits
//! for its descriptors when there is nothing to do:
//!
//! ```text
//!   loop:  poll ─▶ next_event ─▶ O2iblnd::event …  nothing left: wait
//! ```
//!
//! The libraries are loaded by [`VerbsDevice::new`] and not before. Each connection has its own registered receive and
//! send buffers and its own completion queue. All descriptors stand behind the one of [`VerbsDevice`], so a program waits
//! for this one beside its others: it calls [`VerbsDevice::arm`] before it sleeps, and [`VerbsDevice::poll`] afterwards.
//! A queue with completions is looked at in each poll, without a system call, until it is found empty and armed. When the LND closes a connection, its queues are destroyed at once, so that
//! the device touches no memory of the connection afterwards.

mod device;
mod link;
mod memory;

pub use device::VerbsDevice;
pub use memory::{Landing, Payload};

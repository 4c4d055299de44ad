//! The zoid method of BMI: messages between compute processes and the server on their I/O node.
//!
//! ```text
//!  client ──connection──▶ daemon ◀──message queues── server
//!                           └───── shared segment ─────┘
//! ```
//!
//! Both roles are clients of the daemon's plugin and know nothing of one another's code. The role
//! is chosen when the interface starts: with a listen address it is the server's.
//!
//! A client keeps what it posted until the daemon finds the counterpart: payload moves only once
//! there is a buffer for it. A server registers what it posts; its memory from
//! `Bmi::allocate` lies in the segment, where messages arrive without a copy.
//!
//! **Post timeout.** With [`bmi::Setting::PostTimeout`] a client's post waits for its counterpart,
//! which saves an exchange when that comes soon. It makes the order of posts matter: a program
//! that waits in one post while the server first needs another one stalls until the time is over.
//!
//! **Pipelining.** A post waits for the daemon, and a server's that completes at once for its whole
//! transfer, so one thread has one message under way. With [`Options::pipelined`] posts return pending,
//! and one thread has as many under way as it posts, which is what bandwidth wants.
//!
//! **Signals.** A wait goes on after a signal that was handled. With [`Options::interruptible`] it ends:
//! a test returns what there is, mostly nothing; a client's post that waits returns pending; starting
//! returns [`bmi::Error::Intr`]. It is the handling thread's wait that ends. Whatever moves bytes goes
//! on to its end, at most as long as the daemon lets a transfer stall, so that no frame is left half
//! written: a server's post waits for nothing else, and is never interrupted.
//!
//! **The end of a process** needs no farewell: the daemon sees the end of a client's stream, and of a
//! server's process, at once. So nothing here runs at `exit`; `Bmi::finalize` says farewell, which
//! matters to a daemon that would otherwise keep the client's place for a while.

mod address;
mod client;
mod counters;
mod error;
mod factory;
mod options;
pub mod question;
mod server;
pub mod setting;
mod spans;

pub use counters::{Counters, Counts};
pub use factory::Zoid;
pub use options::{ClientMemory, Options};

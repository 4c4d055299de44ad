//! Request and reply over LNet, with bulk that the server moves, executed exactly once.
//!
//! ```text
//!   Client::call ──▶ exchange ─┐                        ┌─ dispatcher ──▶ workers ──▶ Handler::call
//!   (any thread)     CallState │    Put, Get, Ack       │  Table                     Call: bulk, Window
//!                              └── lnet-node ═══════════╧═ lnet-node
//! ```
//!
//! What a caller can rely on:
//!
//! * **A call always ends**, with a value or with a [`CallError`], by its own deadline.
//! * **Within one session a call is executed at most once**, however often the network loses, repeats or
//!   reorders its messages; exactly once when it returns a value. A session lasts until the server
//!   restarts, or forgets a client that was silent for minutes. Then calls that are
//!   [`Idempotence::Idempotent`] are repeated, and others fail with an error that says so. A session outlives
//!   the server where its handler keeps a durable record of it ([`Handler::restore`]).
//! * **A call that its client has given up is not begun** any more, however long a server or a router held it
//!   ([`Call::is_over`]).
//! * **Memory is bounded** on both sides; a server that reaches a bound says "busy", and the client comes
//!   again.
//! * **Late data hits nothing.** Every attempt has match bits of its own that nobody can guess.
//!
//! The parts that decide ([`proto`], the client's `retry` and `memory`, `deadline`, the server's `table`, `transfer`
//! and `window`) do no I/O and are tested together against a network that loses, repeats and reorders, in
//! virtual time.

mod buffers;
mod call;
mod client;
mod clock;
mod counters;
mod deadline;
mod delivery;
mod entropy;
mod exchange;
mod handler;
mod jobs;
mod memory;
pub mod proto;
mod retry;
mod server;
mod silent;
#[cfg(test)]
mod simulation_tests;
mod table;
mod transfer;
mod window;

pub use call::{BulkError, Call};
pub use client::{Bulk, CallError, Client, ClientOptions, Request, Response};
pub use counters::{ClientCounters, ServerCounters};
pub use entropy::Entropy;
pub use handler::{Handler, Reply, Restored, RestoredClient, Session};
pub use proto::{BulkKind, ClientId, REPLY_BODY_MAX, REQUEST_BODY_MAX, RESERVED_OPCODES};
pub use retry::Idempotence;
pub use server::{Server, ServerError, ServerOptions};

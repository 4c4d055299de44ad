//! Remote procedure calls over LNet: a request, a reply, and bulk that the server moves. Within one session,
//! each call is executed at most once.
//!
//! ```text
//!   Client::call ──▶ exchange ─┐                        ┌─ dispatcher ──▶ workers ──▶ Handler::call
//!   (any thread)     CallState │    Put, Get, Ack       │  Table                     Call: bulk, Window
//!                              └── lnet-node ═══════════╧═ lnet-node
//! ```
//!
//! The crate guarantees to a caller:
//!
//! * **A call always completes** by its own deadline, with a value or with a [`CallError`].
//! * **Within one session a call is executed at most once**, however often the network loses, repeats or
//!   reorders its messages. A call that returns a value was executed exactly once. A session lasts until the
//!   server restarts or forgets the client; a server forgets a client that is silent for
//!   [`ServerOptions::idle`]. The client then repeats calls that are [`Idempotence::Idempotent`]; other calls
//!   fail with an error that names the reason. A session outlives a restart of the server if the server's
//!   handler keeps a durable record of the session ([`Handler::restore`]).
//! * **A server does not begin a call whose client has stopped waiting**, however long a server or a router
//!   held the request. A handler can ask the same question while it runs ([`Call::is_over`]).
//! * **Memory is limited** on both sides. A server that reaches a limit answers "busy", and the client retries.
//!   What a server keeps for a peer is charged to this peer, and no peer gets all of it (`lnet_node::shares`): clients, calls,
//!   replies, and answers that the peer has not acknowledged. Requests of a peer that leaves too many answers
//!   unacknowledged are dropped and counted.
//! * **Late messages reach no memory.** Each attempt has match bits of its own that no other node can guess.
//!   LNet drops a message whose match bits are no longer attached.
//!
//! The modules that decide ([`proto`]; `retry` and `memory` of the client; `deadline`, `table`, `transfer` and
//! `window` of the server) do no I/O. They are tested together in virtual time, against a simulated network
//! that loses, repeats and reorders messages.

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
pub use server::{Server, ServerError, ServerNumbers, ServerOptions};

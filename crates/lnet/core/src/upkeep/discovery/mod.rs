//! Discovery: this node learns the interfaces of a peer from the peer itself.
//!
//! ```text
//!  first PUT or GET to a peer ─▶ wait ─▶ ping ─▶ merge ─▶ push, if the peer is Multi-Rail ─▶ done
//!                                  ▲                                                          │
//!             a push of the peer ──┘                  messages that wait are sent, or fail ◀──┘
//! ```
//!
//! [`fabric::discovery`](crate::fabric::discovery) decides. It is a pure state machine, and each of its rows names a
//! section. [`run`] carries out the decisions, [`merge`] enters the information of a peer into the peer table,
//! [`claims`] finds out which of two peers has a NID that both name, [`target`] receives the pushes of other nodes.

pub(in crate::upkeep) mod claims;
pub(crate) mod merge;
pub(crate) mod run;
pub(in crate::upkeep) mod target;

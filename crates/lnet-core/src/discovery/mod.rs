//! Discovery: what interfaces a peer has, learned from the peer itself (section 7).
//!
//! ```text
//!  first PUT or GET to a peer ─▶ wait ─▶ ping ─▶ merge ─▶ push, if the peer is Multi-Rail ─▶ done
//!                                  ▲                                                          │
//!             a push of the peer ──┘                     messages that wait go on, or fail ◀──┘
//! ```
//!
//! [`table`] decides; it is pure and names the section of each row. [`run`] carries out what the table says, [`merge`]
//! brings what a peer said into the peer table, [`claims`] asks whose a NID is that two peers name, [`target`] takes the
//! pushes of others.

pub(crate) mod claims;
pub(crate) mod merge;
pub(crate) mod run;
pub(crate) mod table;
pub(crate) mod target;

//! LNet selftest: a test node, a console, and flows of one's own (section 11).
//!
//! ```text
//!   Console ── groups, batches, tests ──┐
//!   flows ──── mixes, rates, counts ────┤
//!                                       ▼
//!   TestNode ── framework, services, RPCs ══ lnet-node ══ any LNet node
//! ```
//!
//! * [`wire`] are the messages, [`pattern`] is what bulk is filled with and how it is checked.
//! * [`framework`] is what a test node has for consoles: a session, batches, tests.
//! * [`load`] are the RPCs of a test.
//! * [`console`] is what makes sessions at test nodes.
//! * [`flow`] are RPCs as a file describes them.
//! * [`driver`] is all of it on a running node.
//!
//! What decides does no I/O and takes the time as an input; `driver` alone has a thread and a clock.

pub mod console;
pub mod driver;
pub mod flow;
pub mod framework;
pub mod load;
pub mod pattern;
pub mod wire;

pub use console::{Console, ConsoleError};
pub use driver::{CallError, TestNode};

//! LNet selftest: a test node, a console, and user-defined flows.
//!
//! ```text
//!   Console ── groups, batches, tests ──┐
//!   flows ──── mixes, rates, counts ────┤
//!                                       ▼
//!   TestNode ── framework, services, RPCs ══ lnet-node ══ any LNet node
//! ```
//!
//! * [`wire`] has the messages. [`pattern`] makes and checks the data of bulk.
//! * [`framework`] is the part of a test node that serves consoles: a session, batches, tests.
//! * [`load`] makes the RPCs of a test.
//! * [`console`] makes sessions at test nodes.
//! * [`flow`] makes RPCs as a file describes them.
//! * [`driver`] runs all of this on a node.
//!
//! All modules except `driver` do no I/O and take the time as an input. Only `driver` has a thread and a clock.

pub mod console;
pub mod driver;
pub mod flow;
pub mod framework;
pub mod load;
pub mod pattern;
pub mod wire;

pub use console::{Console, ConsoleError};
pub use driver::{CallError, Consoles, TestNode};

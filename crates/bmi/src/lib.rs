//! The Buffered Message Interface: reliable, ordered messages between processes, over
//! exchangeable methods.
//!
//! | Message | The receiver | Matched by |
//! |---|---|---|
//! | expected | has posted a buffer, or will | peer, tag; in order among equals |
//! | unexpected | asks for whatever came, and gets memory with it | class; in order from one peer |
//!
//! A **post** is finished at once or leaves an operation behind, which a **test** collects when it
//! is done. Memory that is posted belongs to the operation until then.

mod address;
mod bmi;
mod builder;
#[cfg(feature = "conformance")]
#[expect(
    clippy::expect_used,
    reason = "a suite of tests fails by panicking; nothing else may use it"
)]
pub mod conformance;
mod error;
mod id;
mod method;
mod ops;
mod option;
mod payload;
mod post;
mod table;
pub mod tcp;
mod test;
mod turns;

pub use address::ADDRESS_BYTES_MAX;
pub use bmi::Bmi;
pub use builder::Builder;
pub use error::Error;
pub use id::{Address, Class, ContextId, OpId, Tag};
pub use method::{
    Completions, Factory, Kind, Limits, Method, Peer, Posted, Received, Request, Role, Setup,
    Traits, Wanted, Which,
};
pub use ops::Completion;
pub use option::{Question, Setting};
pub use payload::{Buffer, Memory, Payload, Segments};
pub use post::{Post, Refused};
pub use test::Unexpected;

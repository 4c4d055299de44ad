//! The Buffered Message Interface (BMI): reliable, ordered messages between processes, over exchangeable methods.
//!
//! | Message | The receiver | Matched by |
//! |---|---|---|
//! | expected | posts a buffer, before or after the send | peer, tag; in order among equal tags |
//! | unexpected | tests for any message, and gets the memory with it | class; in order from one peer |
//!
//! A **post** begins an operation. The operation completes inside the post, or a **test** collects its result later.
//! Posted memory belongs to the operation until then. Methods make progress only while a thread posts or tests; the
//! module [`future`] has a thread that tests, and futures to await.
//!
//! ```
//! use std::{thread, time::Duration};
//!
//! use bmi::tcp::Tcp;
//! use bmi::{Bmi, Buffer, Class, Error, Post, Question, Tag};
//!
//! const WAIT: Duration = Duration::from_secs(60);
//! let server = Bmi::builder().method(Tcp::new()).listen("tcp://127.0.0.1:0").start()?;
//! let port = server.get(None, Question::TcpPort)?;
//!
//! // The client posts the receive for the answer, then sends the request as an unexpected message.
//! let client = thread::spawn(move || -> Result<Vec<u8>, Error> {
//!     let client = Bmi::builder().method(Tcp::new()).start()?;
//!     let context = client.open_context()?;
//!     let to = client.lookup(&format!("tcp://127.0.0.1:{port}"))?;
//!     let answer = client.post_receive(context, to, Buffer::zeroed(64)?, Tag(7), 0)?;
//!     client.post_send_unexpected(context, to, vec![5; 3], Tag(7), Class(0), 1)?;
//!     let Post::Pending(answer) = answer else { unreachable!("the request is not sent yet") };
//!     loop {
//!         if let Some(done) = client.test(answer, WAIT)? {
//!             let length = done.result?;
//!             return Ok(done.payload.into_buffer()[..length].to_vec());
//!         }
//!     }
//! });
//!
//! let context = server.open_context()?;
//! let request = loop {
//!     if let Some(request) = server.test_unexpected(Class(0), 1, WAIT)?.pop() {
//!         break request;
//!     }
//! };
//! let answer: Vec<u8> = request.data.iter().map(|byte| byte * 2).collect();
//! server.post_send(context, request.from, answer, request.tag, 0)?;
//! while !client.is_finished() {
//!     server.test_context(context, 1, Duration::from_millis(1))?;
//! }
//! assert_eq!(client.join().unwrap()?, [10, 10, 10]);
//! # Ok::<(), Error>(())
//! ```
//!
//! # Limits
//!
//! * This crate contains one method, [`tcp`]. Others implement [`Method`].
//! * A message has at most 128 MiB with the methods `tcp` and `zoid`, an unexpected message 8192 bytes;
//!   [`Bmi::get`] returns the limits in force.
//! * A receive names its peer and its tag; there are no wildcards.
//! * Sixteen contexts can be open at a time.

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
pub mod future;
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
    Completions, Factory, Limits, Method, Peer, Posted, Received, Request, RequestKind, Role,
    Setup, Traits, Wanted, Which,
};
pub use ops::Completion;
pub use option::{Question, Setting};
pub use payload::{Buffer, Memory, Payload, Segments};
pub use post::{Post, Rejected};
pub use test::Unexpected;

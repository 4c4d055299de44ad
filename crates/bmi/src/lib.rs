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
//! // The client asks with an unexpected message, and has posted where the answer is to go.
//! let client = thread::spawn(move || -> Result<Vec<u8>, Error> {
//!     let client = Bmi::builder().method(Tcp::new()).start()?;
//!     let context = client.open_context()?;
//!     let to = client.lookup(&format!("tcp://127.0.0.1:{port}"))?;
//!     let answer = client.post_receive(context, to, Buffer::zeroed(64)?, Tag(7), 0)?;
//!     client.post_send_unexpected(context, to, vec![5; 3], Tag(7), Class(0), 1)?;
//!     let Post::Pending(answer) = answer else { unreachable!("nothing was asked yet") };
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
    Completions, Factory, Kind, Limits, Method, Peer, Posted, Received, Request, Role, Setup,
    Traits, Wanted, Which,
};
pub use ops::Completion;
pub use option::{Question, Setting};
pub use payload::{Buffer, Memory, Payload, Segments};
pub use post::{Post, Refused};
pub use test::Unexpected;

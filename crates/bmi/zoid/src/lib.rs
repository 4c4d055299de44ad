//! The zoid method of BMI: messages between compute processes and the server on their I/O node.
//!
//! ```text
//!  client ──connection──▶ daemon ◀──message queues── server
//!                           └───── shared segment ─────┘
//! ```
//!
//! Client and server are both clients of the daemon and share no code. The role is chosen when the interface
//! starts: with a listen address it is the server's.
//!
//! A client stores its operations until the daemon finds the counterparts: payload moves only if there is a
//! buffer for it. A server registers its operations with the daemon. Memory that a server gets from
//! `Bmi::allocate` is in the segment, where messages arrive without a copy.
//!
//! ```
//! use std::time::Duration;
//!
//! use bmi::{Bmi, Class, Error, Post, Tag};
//! use zoid::{Options, Zoid};
//!
//! const WAIT: Duration = Duration::from_secs(60);
//! # let _turn = testkit::QueueTurn::take();
//! # let directory = tempfile::tempdir().unwrap();
//! # let socket = directory.path().join("socket");
//! # let daemon = zoidd::Daemon::open(zoidd::Options {
//! #     instance: "documentation".parse().unwrap(),
//! #     directory: Some(directory.path().to_path_buf()),
//! #     socket: Some(socket.clone()),
//! #     total: 4 << 20,
//! #     ..zoidd::Options::default()
//! # });
//! # let daemon = daemon.unwrap();
//! # let stopper = daemon.stopper();
//! # let running = std::thread::spawn(move || daemon.run().unwrap());
//! // The daemon runs on this machine: `finerail zoid daemon --instance documentation`.
//! let options = Options {
//!     instance: "documentation".parse().expect("letters"),
//! #   socket: Some(socket),
//!     ..Options::default()
//! };
//! let server = Bmi::builder().method(Zoid::new(options.clone())).listen("zoid://").start()?;
//! let client = Bmi::builder().method(Zoid::new(options)).start()?;
//! let (server_context, context) = (server.open_context()?, client.open_context()?);
//! let to = client.lookup("zoid://")?;
//!
//! // An unexpected message needs no posted receive. It stays in the segment until it is dropped.
//! client.post_send_unexpected(context, to, b"ready?".to_vec(), Tag(7), Class(0), 0)?;
//! let request = server.test_unexpected(Class(0), 1, WAIT)?.remove(0);
//! assert_eq!(&*request.data, b"ready?");
//!
//! // There is no message for this receive yet, so the client stores the operation.
//! let room = client.allocate(to, 64)?;
//! let Post::Pending(answer) = client.post_receive(context, to, room, Tag(7), 1)? else {
//!     unreachable!("the server has not answered");
//! };
//! // The memory of the answer is in the segment, so the daemon sends it without a copy.
//! let mut memory = server.allocate(request.from, 3)?;
//! memory.copy_from_slice(b"yes");
//! server.post_send(server_context, request.from, memory, request.tag, 2)?;
//! let done = client.test(answer, WAIT)?.expect("within a minute");
//! assert_eq!(&done.payload.into_buffer()[..done.result?], b"yes");
//!
//! // The server collects its send.
//! assert_eq!(server.test_context(server_context, 1, WAIT)?[0].user, 2);
//! # drop((request, server, client));
//! # stopper.stop();
//! # running.join().unwrap();
//! # Ok::<(), Error>(())
//! ```
//!
//! # Post timeout
//!
//! With [`bmi::Setting::PostTimeout`] a client's post waits for its counterpart, which saves an exchange if
//! the counterpart comes soon. The order of posts then matters: if a program waits in one post while the
//! server first needs another one, both wait until the timeout expires.
//!
//! # Pipelining
//!
//! By default a client's post waits for the daemon's answer, and a server's post that completes at once waits
//! for its whole transfer, so one thread has one message in flight. With [`Options::pipelined`] posts return
//! pending, and one thread can have many messages in flight. Use it for bandwidth.
//!
//! # Signals
//!
//! By default a wait continues after a signal handler. With [`Options::interruptible`] the wait of the thread
//! that handled the signal ends: a test returns the results so far, usually none; a client's waiting post
//! returns pending; starting returns [`bmi::Error::Intr`]. A transfer that has begun always completes, or
//! fails when the daemon stops it for a stall, so that no frame stays incomplete. A server's post waits for
//! nothing else, so it is never interrupted.
//!
//! # Process exit
//!
//! The daemon notices the end of a client's stream and of a server's process at once, so nothing runs at
//! `exit`. `Bmi::finalize` sends BYE or FINI; without it, a daemon may keep the client's place for a while.
//!
//! # Limits
//!
//! * A client exchanges messages with the server only, and receives no unexpected messages.
//! * Client and server need a running daemon. The server must be on the daemon's host; clients may use TCP
//!   with
//!   [`Zoid::over_tcp`].
//! * One daemon serves one server at a time.
//! * After `fork`, the child must initialise an interface of its own.

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
pub use options::{ClientMemory, Options, SPIN_MAX};

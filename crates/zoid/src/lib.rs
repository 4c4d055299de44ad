//! The zoid method of BMI: messages between compute processes and the server on their I/O node.
//!
//! ```text
//!  client ──connection──▶ daemon ◀──message queues── server
//!                           └───── shared segment ─────┘
//! ```
//!
//! Both roles are clients of the daemon's plugin and know nothing of one another's code. The role
//! is chosen when the interface starts: with a listen address it is the server's.
//!
//! A client keeps what it posted until the daemon finds the counterpart: payload moves only once
//! there is a buffer for it. A server registers what it posts; its memory from
//! `Bmi::allocate` lies in the segment, where messages arrive without a copy.
//!
//! ```
//! use std::time::Duration;
//!
//! use bmi::{Bmi, Class, Error, Post, Tag};
//! use zoid::{Options, Zoid};
//!
//! const WAIT: Duration = Duration::from_secs(60);
//! # let lock = format!("finerail-queues-{}.lock", sys::effective_user());
//! # let turn = std::fs::File::create(std::env::temp_dir().join(lock)).unwrap();
//! # turn.lock().unwrap();
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
//! // While `finerail zoid daemon --instance documentation` runs on this machine:
//! let options = Options {
//!     instance: "documentation".parse().expect("letters"),
//! #   socket: Some(socket),
//!     ..Options::default()
//! };
//! let server = Bmi::builder().method(Zoid::new(options.clone())).listen("zoid://").start()?;
//! let client = Bmi::builder().method(Zoid::new(options)).start()?;
//! let (desk, context) = (server.open_context()?, client.open_context()?);
//! let to = client.lookup("zoid://")?;
//!
//! // A request is taken though nobody waits for it, and lies in the segment until it is dropped.
//! client.post_send_unexpected(context, to, b"ready?".to_vec(), Tag(7), Class(0), 0)?;
//! let request = server.test_unexpected(Class(0), 1, WAIT)?.remove(0);
//! assert_eq!(&*request.data, b"ready?");
//!
//! // Nothing is there for this receive yet: it waits in the client, and costs the daemon nothing.
//! let room = client.allocate(to, 64)?;
//! let Post::Pending(answer) = client.post_receive(context, to, room, Tag(7), 1)? else {
//!     unreachable!("the server has not answered");
//! };
//! // The answer is in the segment, so the daemon sends it from there, without a copy.
//! let mut memory = server.allocate(request.from, 3)?;
//! memory.copy_from_slice(b"yes");
//! server.post_send(desk, request.from, memory, request.tag, 2)?;
//! let done = client.test(answer, WAIT)?.expect("within a minute");
//! assert_eq!(&done.payload.into_buffer()[..done.result?], b"yes");
//!
//! // The server's end of it is collected, too.
//! assert_eq!(server.test_context(desk, 1, WAIT)?[0].user, 2);
//! # drop((request, server, client));
//! # stopper.stop();
//! # running.join().unwrap();
//! # Ok::<(), Error>(())
//! ```
//!
//! **Post timeout.** With [`bmi::Setting::PostTimeout`] a client's post waits for its counterpart,
//! which saves an exchange when that comes soon. It makes the order of posts matter: a program
//! that waits in one post while the server first needs another one stalls until the time is over.
//!
//! **Pipelining.** A post waits for the daemon, and a server's that completes at once for its whole
//! transfer, so one thread has one message under way. With [`Options::pipelined`] posts return pending,
//! and one thread has as many under way as it posts, which is what bandwidth wants.
//!
//! **Signals.** A wait goes on after a signal that was handled. With [`Options::interruptible`] it ends:
//! a test returns what there is, mostly nothing; a client's post that waits returns pending; starting
//! returns [`bmi::Error::Intr`]. It is the handling thread's wait that ends. Whatever moves bytes goes
//! on to its end, at most as long as the daemon lets a transfer stall, so that no frame is left half
//! written: a server's post waits for nothing else, and is never interrupted.
//!
//! **The end of a process** needs no farewell: the daemon sees the end of a client's stream, and of a
//! server's process, at once. So nothing here runs at `exit`; `Bmi::finalize` says farewell, which
//! matters to a daemon that would otherwise keep the client's place for a while.

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

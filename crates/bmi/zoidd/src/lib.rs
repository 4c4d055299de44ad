//! The I/O-node daemon: message queues, the shared segment and clients' connections around the zbmi engine.
//!
//! ```text
//!  client ──Unix socket or TCP──▶ ┌────────── Daemon ──────────┐ ◀──control queue── server
//!  client ◀──────────────────────  │ one loop around the engine │ ──reply queues───▶
//!                                  └─────────────┬──────────────┘
//!                       sockets are read into it │ and written from it
//!                                  ┌─────────────▼──────────────┐
//!                                  │ segment: header │ regions  │ ◀──the server's buffers
//!                                  └────────────────────────────┘
//! ```
//!
//! The crate `zbmi` decides which message goes to which buffer, and `zoid-proto` defines the bytes. This
//! crate owns descriptors, names, clocks and processes. "R7" is a requirement of the zoid method
//! (`docs/bmi-requirements.md`), and `[ZOID-12]` a rule of `docs/bmi`.
//!
//! # Example
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! let mut options = zoidd::Options::default();
//! options.set("example", "instance", "example")?;
//! options.set("example", "total", "64M")?;
//! # options.directory = Some(directory.path().to_path_buf());
//! # options.check()?;
//! assert_eq!(options.total, 64 << 20);
//! # if false {
//! let daemon = zoidd::Daemon::open(options)?;
//! let stopper = daemon.stopper();
//! let running = std::thread::spawn(move || daemon.run());
//! stopper.stop();
//! assert!(running.join().is_ok());
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! * Payload is never buffered outside the segment, except for short messages that arrive with their request
//!   (`SEND_INLINE`), of which each client may have 64 KiB in flight.
//! * Payload is copied only with the option `client-memory`, once.
//! * The loop never waits for a single client or for the server, and nothing that one of them sends can end
//!   it.
//! * A daemon serves one server at a time.

mod advice;
mod client;
mod counters;
mod daemon;
mod error;
mod failpoint;
mod home;
mod log_limiter;
mod metrics;
mod options;
mod segment;
mod server;
mod size;
pub mod zbmi;

pub use daemon::{Daemon, Stopper};
pub use error::Error;
pub use failpoint::{BadFailpoint, Failpoint, Failpoints, Place};
pub use home::{Removed, cleanup, find_directory};
pub use metrics::{Metric, read as read_metrics};
pub use options::{ClientMemory, HugePages, Options, Prefault, SETTINGS, SettingError, VARIABLES};
pub use segment::PREFAULT_THREAD;

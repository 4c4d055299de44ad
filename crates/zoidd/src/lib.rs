//! The I/O-node daemon: message queues, the shared segment and clients' connections around the
//! zbmi engine.
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
//! What a message means is the engine's to say (crate `zbmi`); bytes are `zoid-proto`'s. This
//! crate owns what the engine may not know: descriptors, names, clocks, processes. "R7" and
//! "section 3.1.7" are those of the description of the zoid method, as in `zbmi`.
//!
//! The daemon may never: copy a payload byte; buffer payload outside the segment; wait for a
//! single client or for the server; end because of what one of them sends.
//!
//! ```no_run
//! let mut options = zoidd::Options::default();
//! options.set("example", "total", "64M")?;
//! let daemon = zoidd::Daemon::open(options)?;
//! let stopper = daemon.stopper();
//! let running = std::thread::spawn(move || daemon.run());
//! stopper.stop();
//! assert!(running.join().is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advice;
mod client;
mod counters;
mod daemon;
mod error;
mod failpoint;
mod home;
mod metrics;
mod options;
mod segment;
mod seldom;
mod server;
mod size;

pub use daemon::{Daemon, Stopper};
pub use error::Error;
pub use failpoint::{BadFailpoint, Failpoint, Failpoints, Place};
pub use home::{Removed, cleanup, find_directory};
pub use metrics::{Metric, read as read_metrics};
pub use options::{ClientMemory, HugePages, Options, Prefault, SETTINGS, SettingError, VARIABLES};
pub use segment::PREFAULT_THREAD;

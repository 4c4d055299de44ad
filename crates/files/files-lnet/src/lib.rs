//! Files over LNet: a gateway that serves a file system to clients on the network, and a client that uses the
//! gateway as a file system.
//!
//! [`files`] describes how operations travel. A gateway serves any [`files::FileSystem`](::files::FileSystem);
//! one of them is `files::dir`, a directory of this machine.

pub mod files;
mod printable;

pub use printable::Printable;

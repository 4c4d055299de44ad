//! Files over LNet: what serves a file system to clients on the network, and the file system that such a client is.
//!
//! [`files`] says how operations travel. What is served is any [`files::FileSystem`](::files::FileSystem); `files-dir` is one, a
//! directory of this machine.

pub mod files;
mod printable;

pub use printable::Printable;

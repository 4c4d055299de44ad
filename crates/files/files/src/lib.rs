//! File operations: one trait, [`FileSystem`], for every carrier.
//!
//! ```text
//!   finerail files …   finerail mount   programs                 call FileSystem
//!          └────────────────┼──────────────┘
//!                      FileSystem::call(caller, request, data) → reply
//!          ┌────────────────┼───────────────────┐
//!     a local directory   client over BMI   client over LNet     implement FileSystem
//! ```
//!
//! An implementation of [`FileSystem`] has one method, [`FileSystem::call`]: it takes a [`Request`]
//! and returns a [`Reply`] or an [`Errno`]. Named methods such as [`FileSystem::lookup`] and
//! [`FileSystem::read`] call it. A carrier therefore only encodes, transports and decodes two
//! types, and a layer between two file systems (a forwarder, a choice among gateways) only passes
//! on the calls of one method.
//!
//! * **No open and no close.** Every operation takes a [`Handle`], which names a file, a directory
//!   or any other object. A handle stays valid until the last name of the object is removed, the
//!   server restarts, or the server forgets the handle. Operations with an invalid handle return
//!   `ESTALE`, and the caller then looks the object up again. [`Handle::ROOT`] is always valid. A
//!   caller that still needs a file first renames the file and removes it later, as NFS clients do.
//!   If others may remove the file, the caller asks the server to hold it ([`Request::Hold`]).
//! * **Names are bytes.** A [`Path`] has one or more components and is relative to a directory's
//!   handle. No component is `.` or `..`, and no server follows a symbolic link within a path: such
//!   a link gives `ELOOP`.
//! * **Calls are synchronous.** Many threads may call at once; a caller that wants several
//!   operations in flight uses several threads.
//! * **Errors are those of Linux.** Only [`OUTCOME_UNKNOWN`] has a meaning that Linux does not give
//!   it.
//!
//! # Example
//!
//! ```
//! use files::{Handle, Path, Place, Request, Caller, wire};
//!
//! // A path is checked when it is made, a request when it is decoded.
//! assert_eq!(Path::new(b"../etc"), Err(files::Errno::EINVAL));
//! let place = Place::from_root(b"results/run-1")?;
//! assert_eq!(place.directory, Handle::ROOT);
//!
//! // The bytes that a carrier moves.
//! let caller = Caller { uid: 1000, gid: 100, groups: Vec::new() };
//! let bytes = wire::encode_request(&caller, &Request::Lookup { place: place.clone() });
//! let decoded = wire::decode_request(&bytes).map_err(|error| error.errno())?;
//! assert_eq!(decoded, (caller, Request::Lookup { place }));
//! # Ok::<(), files::Errno>(())
//! ```
//!
//! # Limits
//!
//! Without features this crate does no I/O; it uses `nix` only for the names of errors. The features `dir`, `mount`,
//! `spread`, `tools` and `reftest` add the modules of their names. [`wire`] has the bytes of
//! requests and replies. The limits of requests are constants here: [`PATH_MAX`], [`SEGMENTS_MAX`],
//! [`TRANSFER_MAX`], [`ENTRIES_MAX`] and others.

#[cfg(feature = "dir")]
pub mod dir;
mod file_system;
#[cfg(any(feature = "dir", feature = "mount"))]
mod held_locks;
mod lock;
#[cfg(feature = "mount")]
pub mod mount;
mod path;
#[cfg(feature = "reftest")]
pub mod reftest;
mod request;
#[cfg(feature = "spread")]
pub mod spread;
#[cfg(feature = "tools")]
pub mod tools;
pub mod transfer;
mod types;
pub mod wire;

pub use nix::errno::Errno;

pub use file_system::{Data, FileSystem, Located};
pub use lock::{LOCK_GRACE, LOCK_PATIENCE, Lock, LockAction, LockOutcome};
pub use path::{COMPONENT_MAX, PATH_MAX, Path, Place};
pub use request::{
    APPEND_MAX, AllocateMode, ENTRIES_MAX, HANDLES_MAX, HOLD_TIME, Node, RenameMode, Reply,
    Request, SEGMENTS_MAX, SeekTarget, TRANSFER_MAX, XATTR_MAX, XattrMode, check_xattr_name,
};
pub use types::{
    Attributes, COHERENT_MAX, Caller, DirectoryEntry, Entry, Export, GROUPS_MAX, Handle, Kind,
    Listing, Segment, SetAttributes, SetTime, Space, Timestamp,
};

/// The outcome of an operation is unknown: the server that received the request no longer answers,
/// no other server knows whether the operation was executed, and a second execution could do harm.
pub const OUTCOME_UNKNOWN: Errno = Errno::EREMOTEIO;

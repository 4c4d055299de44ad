//! File operations: one interface, whoever carries them.
//!
//! ```text
//!   finerail files …   finerail mount   programs                 call FileSystem
//!          └────────────────┼──────────────┘
//!                      FileSystem::call(caller, request, data) → reply
//!          ┌────────────────┼───────────────────┐
//!     a local directory   client over BMI   client over LNet     implement FileSystem
//! ```
//!
//! [`FileSystem`] has one method to implement, [`FileSystem::call`]: it takes a [`Request`] and gives a
//! [`Reply`] or an [`Errno`]. The methods with names ([`FileSystem::lookup`], [`FileSystem::read`] and so
//! on) are written in terms of it. So a carrier encodes, transports and decodes two types, and whatever
//! stands between two file systems (a forwarder, a choice among gateways) forwards one method.
//!
//! * **No open and no close.** A [`Handle`] names a file, a directory or anything else in the tree; every
//!   operation carries one. A handle stays valid until the last name of the object is removed, the server
//!   restarts or the server has forgotten it: then operations end with `ESTALE` and the caller looks the
//!   object up again. [`Handle::ROOT`] is always valid. Who wants to use a file behind its removal renames
//!   it first and removes it later, as clients of NFS do.
//! * **Names are bytes.** A [`Path`] is one or more components relative to a directory's handle. No
//!   component is `.` or `..`, and no server follows a symbolic link on the way: a link in the middle of a
//!   path is `ELOOP`.
//! * **Calls are synchronous.** They may be made by many threads at once; who wants several operations
//!   under way brings several threads.
//! * **Errors are those of Linux.** [`OUTCOME_UNKNOWN`] is the one with a meaning of its own.
//!
//! [`wire`] has the bytes of requests and replies. This crate does no I/O: it uses `nix` for the names of
//! the errors only.

mod file_system;
mod path;
mod request;
pub mod transfer;
mod types;
pub mod wire;

pub use nix::errno::Errno;

pub use file_system::{Data, FileSystem, Located};
pub use path::{COMPONENT_MAX, PATH_MAX, Path, Place};
pub use request::{
    APPEND_MAX, AllocateMode, ENTRIES_MAX, Node, RenameMode, Reply, Request, SEGMENTS_MAX,
    SeekTarget, TRANSFER_MAX, XATTR_MAX, XattrMode,
};
pub use types::{
    Attributes, COHERENT_MAX, Caller, DirectoryEntry, Entry, Export, GROUPS_MAX, Handle, Kind,
    Listing, Segment, SetAttributes, SetTime, Space, Timestamp,
};

/// The result of an operation that is not known: the server that was asked is gone, another one cannot tell
/// whether the operation was executed, and executing it a second time could do harm.
pub const OUTCOME_UNKNOWN: Errno = Errno::EREMOTEIO;

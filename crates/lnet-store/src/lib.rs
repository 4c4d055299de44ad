//! A storage service over LNet RPC, and its client.
//!
//! The service ([`Service`]) keeps files of any size under one directory and hands them out again. A
//! name stands for a whole file whose digest was checked, or for nothing; see [`service`](Service) for
//! how a file comes into being and what it survives. The client ([`Store`]) has one method for each
//! operation, and [`transfer`] moves many files or large ones with several calls in flight.
//!
//! ```text
//!   transfer ──▶ Store ──▶ lnet-rpc ═══ LNet ═══ lnet-rpc ──▶ Service ──▶ directory
//!   local files                                                          (openat, O_NOFOLLOW)
//! ```
//!
//! **End to end.** What is stored carries its BLAKE3 digest from the client, and is not given its name
//! unless what was written agrees. What is read carries the digest of what the service read from its
//! file, chunk by chunk, and the client checks what arrived. Damage on the disk between the two is the
//! file system's to find.
//!
//! Short files take one call each way. Long ones go in chunks of 4 MiB, in any order and over several
//! threads; both sides digest the chunks in parallel ([`digest`]).

mod client;
pub mod digest;
mod directory;
pub mod files;
mod listing;
mod name;
pub mod proto;
mod service;
mod temporary;
pub mod transfer;

pub use client::{Chunk, Store, StoreError};
pub use directory::DirectoryError;
pub use name::{DEPTH_MAX, NAME_MAX, NameError, Printable, StoreName, TEMPORARY_PREFIX};
pub use proto::{Attributes, Entry, Kind};
pub use service::{Service, ServiceOptions, Sync};

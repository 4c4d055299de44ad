//! Every byte layout of LNet over TCP, in one place.
//!
//! One file a message. Decoders borrow, check every length before they trust it, cannot panic, and say
//! what is wrong at which offset ([`DecodeError`]). Encoders write into the caller's buffer. Section
//! numbers are those of the LNet-over-TCP wire description that the project works from.
//!
//! This crate knows no sockets and no time.

mod error;
mod header;

pub use error::{DecodeError, Problem};
pub use header::{Ack, Body, Get, Handle, Header, HeaderForm, MessageType, Put, Reply, LNET_MTU};

//! LNet traffic in packet captures, message by message.
//!
//! ```text
//!  pcap, pcapng      Ethernet, cooked,      IPv4, IPv6         two streams        connreq, HELLO,
//!  file              raw IP, loopback       TCP                a connection       frames
//!  ----------> file ------------------> ip ------> reassembly ------------> half -----------> Message
//!                    InfiniBand, RoCE        ------> rdma -- connection manager, o2ib LND ---> Message
//! ```
//!
//! [`decode_capture`] reads a file from front to back and calls a closure with each [`Message`].
//! [`render`] turns messages into lines, tables of fields, or JSON. Bytes that cannot be decoded
//! are messages, too ([`Kind::Broken`], [`Kind::Gap`]), and the [`Summary`] accounts for every
//! byte. A connection that began before the capture is decoded from the first frame boundary that
//! is found, and is marked as joined.
//!
//! ```
//! use lnet_capture::{LNET_PORT, decode_capture};
//!
//! let file: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/ping.pcap"));
//! let mut names = Vec::new();
//! let (summary, result) = decode_capture(file, &[LNET_PORT], |message| {
//!     names.push(message.kind.name());
//!     Ok(())
//! });
//! result?;
//! assert!(names.contains(&"GET") && names.contains(&"REPLY"));
//! assert!(summary.is_complete());
//! # Ok::<(), lnet_capture::CaptureError>(())
//! ```
//!
//! Limits: memory is limited for every input; IP fragments are not reassembled. The layouts are
//! those of [`lnet_wire`]. The crate keeps no state of a node and opens no socket.

mod boundary;
mod conversation;
mod decoder;
mod error;
mod file;
mod half;
mod ip;
mod message;
mod payload;
mod rdma;
mod reassembly;
pub mod render;
mod summary;

pub use decoder::{CONVERSATIONS_MAX, Decoder, KEPT_BYTES_MAX, LNET_PORT, decode_capture};
pub use error::CaptureError;
pub use file::{Packet, RECORD_LEN_MAX, read_packets};
pub use half::Keep;
pub use ip::Skipped;
pub use message::{Cm, CmStep, Connection, Direction, Kind, Lnet, Message, Nak, RdmaWrite, Reason};
pub use payload::Payload;
pub use summary::{Bytes, Summary};

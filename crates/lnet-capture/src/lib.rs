//! LNet traffic in packet captures, message by message.
//!
//! ```text
//!  pcap, pcapng      Ethernet, cooked,      IPv4, IPv6         two streams        connreq, HELLO,
//!  file              raw IP, loopback       TCP                a connection       frames
//!  ----------> file ------------------> ip ------> reassembly ------------> half -----------> Message
//! ```
//!
//! [`decode_capture`] reads a file from front to back and calls a closure with each [`Message`]; memory is
//! bounded, whatever the file holds. [`render`] turns messages into lines, tables of fields, or JSON. What
//! cannot be decoded becomes a message too ([`Kind::Broken`], [`Kind::Gap`]), and the [`Summary`] accounts for
//! every byte.
//!
//! A connection that began before the capture is decoded from the first frame boundary that can be found,
//! and is marked as joined. The layouts themselves are those of [`lnet_wire`]; this crate never invents one,
//! keeps no state of a node, and opens no socket.

mod boundary;
mod conversation;
mod decoder;
mod error;
mod file;
mod half;
mod ip;
mod message;
mod payload;
mod reassembly;
pub mod render;
mod summary;

pub use decoder::{CONVERSATIONS_MAX, Decoder, KEPT_BYTES_MAX, LNET_PORT, decode_capture};
pub use error::CaptureError;
pub use file::{Packet, RECORD_LEN_MAX, read_packets};
pub use ip::Skipped;
pub use message::{Connection, Direction, Kind, Lnet, Message, Reason};
pub use payload::Payload;
pub use summary::{Bytes, Summary};

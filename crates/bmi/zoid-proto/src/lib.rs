//! The bytes of the zoid method: the protocols between client, daemon and server, and the layout of their
//! segment.
//!
//! ```text
//!  client library ──frames──▶ daemon ◀──commands over message queues── server library
//!                    [fwd]       │  [ctl]                                  │
//!                                └──────────── segment ────────────────────┘
//!                                        [SegmentHeader]
//! ```
//!
//! * [`ctl`]: commands of the server, and their replies;
//! * [`fwd`]: frames between client and daemon;
//! * [`SegmentHeader`]: the first page of the shared segment; [`Extent`]: a range of the segment after that
//!   page;
//! * [`Instance`]: the names of queues, segment and files;
//! * [`Status`]: results, in all of these.
//!
//! Everything is little-endian; reserved fields are 0 on send and ignored on receive. Decoders borrow their
//! input, check every length before using it, do not panic, and report the offset of an error
//! ([`DecodeError`]). Encoders write to the caller's buffer and reject what receivers would reject.
//!
//! # Example
//!
//! A client requests to send a message of 300 bytes, and the daemon grants it:
//!
//! ```
//! use zoid_proto::fwd::{Frame, FrameHeader, FrameType, Grant, MessageKind, Place, SendReq};
//!
//! let ask = Frame::SendReq(SendReq {
//!     kind: MessageKind::Unexpected,
//!     class: 0,
//!     tag: 7,
//!     total: 300,
//!     timeout_ms: 0,
//!     order: 1,
//! });
//! let mut bytes = [0; 128];
//! let len = ask.encode(FrameHeader::new(FrameType::SEND_REQ, 1), &mut bytes)?;
//!
//! // The receiver reads 32 bytes of header, and then the body, whose length the header contains.
//! let header = FrameHeader::decode(&bytes)?;
//! assert_eq!((header.frame_type, len), (FrameType::SEND_REQ, 32 + 32));
//! assert_eq!(Frame::decode(&header, &bytes[32..len])?, ask);
//!
//! let grant = Frame::Grant(Grant { grant: 9, place: Place::Stream });
//! grant.encode(FrameHeader::new(FrameType::GRANT, header.request), &mut bytes)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! This crate has no queues, sockets, mappings or clocks, and no state: it does not check that frames or
//! commands arrive in a sensible order. The crates `zoid` (both libraries) and `zoidd` with `zbmi` (the
//! daemon) do.

mod bytes;
pub mod ctl;
mod error;
pub mod fwd;
mod instance;
mod list;
mod segment;
mod status;

pub use error::{DecodeError, EncodeError, Problem};
pub use instance::{BadInstance, Instance, runtime_directories};
pub use list::{Array, Item, List};
// [ZOID-6]
pub use segment::{DaemonState, Extent, SEGMENT_HEADER_LEN, SegmentHeader, ServerStatistics};
pub use status::Status;

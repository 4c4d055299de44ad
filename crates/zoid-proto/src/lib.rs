//! The bytes of the zoid method, in one place for all three parties.
//!
//! ```text
//!  client library ──frames──▶ daemon ◀──commands over message queues── server library
//!                    [fwd]       │  [ctl]                                  │
//!                                └──────────── segment ────────────────────┘
//!                                        [SegmentHeader]
//! ```
//!
//! * [`ctl`]: commands of the server and their replies;
//! * [`fwd`]: frames between client and daemon;
//! * [`SegmentHeader`]: the first page of the shared segment; [`Extent`] names a stretch behind it;
//! * [`Instance`]: the names under which the parties find one another;
//! * [`Status`]: results, as all of them carry them.
//!
//! Everything is little-endian; reserved fields are 0 on send and ignored on receive. Decoders
//! borrow, check every length before they trust it, cannot panic, and say what is wrong at which
//! offset ([`DecodeError`]). Encoders write into the caller's buffer and refuse what receivers
//! would refuse. This crate knows no queue, socket, mapping or time, and decides nothing about
//! messages.
//!
//! A client asks to send a message of 300 bytes, and the daemon grants it:
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
//! // The receiver reads 32 bytes, learns the body's length, reads that.
//! let header = FrameHeader::decode(&bytes)?;
//! assert_eq!((header.frame_type, len), (FrameType::SEND_REQ, 32 + 32));
//! assert_eq!(Frame::decode(&header, &bytes[32..len])?, ask);
//!
//! let grant = Frame::Grant(Grant { grant: 9, place: Place::Stream });
//! grant.encode(FrameHeader::new(FrameType::GRANT, header.request), &mut bytes)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
pub use segment::{DaemonState, Extent, SEGMENT_HEADER_LEN, SegmentHeader, ServerStatistics};
pub use status::Status;

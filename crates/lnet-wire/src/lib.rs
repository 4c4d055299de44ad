//! Every byte layout of LNet over TCP, in one place.
//!
//! One file a structure. Decoders borrow, check every length before they trust it, cannot panic, and
//! say what is wrong at which offset ([`DecodeError`]). Encoders write into the caller's buffer.
//! Section numbers are those of the LNet-over-TCP wire description that the project works from.
//!
//! A connection, in the order of its bytes:
//!
//! ```text
//!  dialler   Connreq  Hello   | KsockHeader  Header  payload | KsockHeader (NOOP) | ...
//!  acceptor           Hello   | ...
//! ```
//!
//! [`Connreq::needed`] and [`Hello::needed`] tell a socket reader how much to read, so that it never
//! takes a byte of the first frame. This crate knows no sockets and no time, and decides nothing
//! about connections, messages or peers: it says what the bytes say.

mod bytes;
mod checksum;
mod connreq;
mod ctype;
mod error;
mod header;
mod hello;
mod ksock;
mod ping;
mod portal;

pub use bytes::ByteOrder;
pub use checksum::FrameChecksum;
pub use connreq::{ACCEPTOR_MAGIC, Connreq, ConnreqVersion};
pub use ctype::Ctype;
pub use error::{DecodeError, EncodeError, Problem};
pub use header::{Ack, Body, Get, Handle, Header, HeaderForm, LNET_MTU, MessageType, Put, Reply};
pub use hello::{Addresses, HELLO_V1_MAGIC, Hello, HelloVersion, LNET_MAGIC, ReceivedHello};
pub use ksock::{FrameType, KsockHeader, ZcAck};
pub use ping::{
    NiStatus, PING_BUFFER_MIN, PING_MAGIC, PingFeatures, PingInfo, PingInfoError, PingInfoRepr,
    PingNi,
};
pub use portal::{
    LNET_PORTAL, PING_MATCH_BITS, PORTALS, SELFTEST_FRAMEWORK_PORTAL, SELFTEST_REPLY_PORTAL,
    SELFTEST_TEST_PORTAL,
};

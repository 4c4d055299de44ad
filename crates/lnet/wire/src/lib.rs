//! The byte layouts of LNet over TCP and over RDMA ([`o2ib`]): decoders and encoders.
//!
//! Each structure has its own file. Decoders borrow their input, check every length before they use
//! it, do not panic, and report what is wrong at which offset ([`DecodeError`]). Encoders write
//! into the caller's buffer. Tags in comments cite the rules in `docs/protocol`.
//!
//! A connection, in the order of its bytes:
//!
//! ```text
//!  dialler   Connreq  Hello   | KsockHeader  Header  payload | KsockHeader (NOOP) | ...
//!  acceptor           Hello   | ...
//! ```
//!
//! [`Connreq::needed`] and [`Hello::needed`] return how much a socket reader must read, so that it
//! never takes a byte of the first frame. Limits: the crate has no sockets and no clock, and takes
//! no decision about connections, messages or peers; it translates between bytes and values.
//!
//! The bytes that a node writes to dial another node and ask for its ping info:
//!
//! ```
//! use lnet_types::Nid;
//! use lnet_wire::{
//!     Body, Connreq, Ctype, Get, Handle, Header, HeaderForm, Hello, KsockHeader, LNET_PORTAL,
//!     PING_BUFFER_MIN, PING_MATCH_BITS,
//! };
//!
//! let us: Nid = "192.168.1.10@tcp".parse()?;
//! let peer: Nid = "192.168.1.20@tcp".parse()?;
//!
//! let mut bytes = [0; 256];
//! let mut len = Connreq::to(peer).encode(&mut bytes)?;
//! len += Hello::dial(us, peer, 0x18a1_b2c3, Ctype::CONTROL).encode(&mut bytes[len..])?;
//! assert_eq!(len, 16 + 56);
//!
//! // The acceptor learns from each prefix how far to read.
//! assert_eq!(Connreq::needed(&bytes[..8])?, 16);
//! assert_eq!(Connreq::decode(&bytes)?.target, peer);
//! assert_eq!(Hello::needed(&bytes[16..24])?, 56);
//! let received = Hello::decode(&bytes[16..])?;
//! let answer = received.hello.ctype.inverse().unwrap_or(Ctype::NONE);
//! assert_eq!(received.hello.reply(peer, 0x18a0, answer).ctype, Ctype::CONTROL);
//!
//! let get = Get {
//!     return_wmd: Handle { interface: 1, object: 1 },
//!     match_bits: PING_MATCH_BITS,
//!     ptl_index: LNET_PORTAL,
//!     src_offset: 0,
//!     sink_length: PING_BUFFER_MIN,
//! };
//! let ping = Header {
//!     dest_nid: peer,
//!     src_nid: us,
//!     dest_pid: 12345,
//!     src_pid: 12345,
//!     payload_length: 0,
//!     body: Body::Get(get),
//! };
//! bytes[..24].copy_from_slice(&KsockHeader::LNET.to_bytes());
//! ping.encode(HeaderForm::Nid4, &mut bytes[24..])?;
//! assert_eq!(Header::decode(HeaderForm::Nid4, &bytes[24..])?, ping);
//!
//! // A decoder says what is wrong, and where.
//! let error = Hello::decode(b"GET / HTTP/1.1\r\n").unwrap_err();
//! assert_eq!(error.to_string(), "HELLO: bad magic 0x20544547 at offset 0");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bytes;
mod checksum;
mod connreq;
mod ctype;
mod error;
mod header;
mod hello;
mod ksock;
pub mod o2ib;
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

//! The control protocol: the messages between a node and its control clients on a Unix socket.
//!
//! ```text
//!  client                                        node
//!  ------                                        ----
//!  Frame{code, sequence, body} ────────────────▶ serves it under its lock
//!                              ◀──────────────── Frame{code, sequence, status, body}   one or more,
//!                                                all but the last marked MORE
//! ```
//!
//! A frame is a header of 32 bytes and a body. Two requests carry the rule blocks of the selection
//! design byte for byte, [`Code::IOC_LIBCFS_ADD_RULES`] and [`Code::IOC_LIBCFS_GET_RULES`]; all
//! others are a [`Request`] as JSON with a [`Reply`] as JSON. Configurations and outputs of `show`
//! have the YAML form of `lnetctl` inside the JSON.
//!
//! ```
//! use lnet_dlc::protocol::{Code, Frame, Header, Reply, Request};
//!
//! let request = Request::Unconfigure;
//! let frame = Frame {
//!     more: false,
//!     code: Code::DOCUMENT,
//!     sequence: 7,
//!     status: 0,
//!     generation: 0,
//!     body: request.to_body()?,
//! };
//! let bytes = frame.to_bytes()?;
//! let (header, body) = bytes.split_at(Header::LEN);
//! assert_eq!(Header::parse(header.try_into()?)?.sequence, 7);
//! assert_eq!(Request::from_body(body)?, request);
//! assert_eq!(Reply::from_body(br#""done""#)?, Reply::Done);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A connection carries one request at a time. The node closes a connection with a malformed frame;
//! it answers a well-formed but invalid request with an errno and a text.
//!
//! Limits: the crate has no sockets, does not know the state of a node, and does not interpret
//! configurations.

mod frame;
mod lst;
mod numbers;
mod path;
mod request;
mod rpcs;
mod watch;

pub use frame::{Code, Frame, FrameError, Header};
pub use lst::{Said, is_lst_key};
pub use numbers::{
    Condition, ConnectionNumbers, NiNumbers, NodeNumbers, O2ibNumber, Part, PeerNiNumbers,
    PoolNumbers, RouteNumbers, RoutingChange, ServiceNumber, Traffic,
};
pub use path::default_socket_path;
pub use request::{
    Failure, Fault, FaultPace, FaultRule, HealthTarget, ImportMode, MARK_MAX, Reply, Request,
    RuleChange, Section, Show, Tune, UdspRule, parameters,
};
pub use rpcs::{RpcFilter, RpcNumbers, RpcRow, RpcTable, RpcTold};
pub use watch::{Happened, Happening, Happenings};

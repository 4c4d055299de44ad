//! The control protocol: what a node and those who control it say to each other over a Unix socket.
//!
//! ```text
//!  client                                        node
//!  ------                                        ----
//!  Frame{code, sequence, body} ────────────────▶ carries it out under its lock
//!                              ◀──────────────── Frame{code, sequence, status, body}   one or more,
//!                                                all but the last marked MORE
//! ```
//!
//! A frame is a header of 32 bytes and a body. Two requests carry the rule blocks of the selection
//! design byte for byte, [`Code::IOC_LIBCFS_ADD_RULES`] and [`Code::IOC_LIBCFS_GET_RULES`]; all others
//! are a [`Request`] as JSON, answered by a [`Reply`] as JSON. Configuration and what `show` prints
//! travel inside as the YAML that `lnetctl` reads and writes, so there is one language for them.
//!
//! A connection carries one request at a time. Whoever sends a malformed frame is cut off; a request
//! that is well-formed and wrong is answered with its errno and the text for people.
//!
//! This crate may never know of sockets, of a node's state, or of what a configuration means.

mod frame;
mod numbers;
mod path;
mod request;
mod watch;

pub use frame::{Code, Frame, FrameError, Header};
pub use numbers::{
    Condition, ConnectionNumbers, NiNumbers, NodeNumbers, Part, PeerNiNumbers, PoolNumbers,
    RouteNumbers, Traffic,
};
pub use path::default_socket_path;
pub use request::{
    Failure, Fault, FaultPace, FaultRule, HealthTarget, ImportMode, MARK_MAX, PARAMETERS, Reply,
    Request, RuleChange, Section, Show, Tune, UdspRule,
};
pub use watch::{Happened, Happening, Happenings};

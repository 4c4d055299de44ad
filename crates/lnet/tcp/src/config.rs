//! Settings of the socket LND that an administrator or a tool chooses.

use std::time::Duration;

use lnd::NiId;
use lnet_types::Nid;

/// Which dialling peers are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AcceptMode {
    /// Only peers whose source port is below 1024, which needs a privilege.
    #[default]
    Secure,
    /// Peers from any port.
    All,
    /// No peers: the LND does not listen.
    None,
}

/// The local ports from which connections are dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SourcePorts {
    /// Ports 1023 down to 512, which nodes with `accept=secure` demand.
    #[default]
    Privileged,
    /// Any port that the system assigns.
    Any,
}

/// Limits on what peers, and the node itself, can make the LND hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Accepted connections with an unfinished handshake; one more closes the oldest.
    pub handshakes_max: usize,
    /// Established connections; at this limit no further connection is accepted.
    pub connections_max: usize,
    /// Connections of one type with one peer; a further one is answered with `NONE`.
    pub connections_per_type_max: usize,
    /// Messages queued for one peer, including those partly written.
    pub queued_messages_max: usize,
    /// Bytes of the messages queued for one peer.
    pub queued_bytes_max: u64,
    /// The listen backlog: connections that the system keeps until they are accepted.
    pub backlog: i32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshakes_max: 1024,
            connections_max: 65_536,
            connections_per_type_max: 128,
            queued_messages_max: 8192,
            queued_bytes_max: 256 << 20,
            backlog: 127,
        }
    }
}

/// Parameters of the socket LND; the defaults are those of kernel nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocklndConfig {
    /// The TCP port to listen on and to dial.
    pub port: u16,
    /// Which dialling peers to accept.
    pub accept: AcceptMode,
    /// Accept a peer only if it dials from the address of its NID. Kernel nodes do not check this,
    /// and behind address translation the two differ. If false, a peer on an
    /// unprivileged port can claim any NID.
    pub match_addresses: bool,
    /// Which local ports to dial from.
    pub source_ports: SourcePorts,
    /// How long the handshake of an accepted connection may take.
    pub accept_timeout: Duration,
    /// How long a dialling pass may take, a frame may stall, or a write may stay unacknowledged.
    pub sock_timeout: Duration,
    /// The pause after the first failed dialling pass; each further failure doubles it.
    pub reconnect_min: Duration,
    /// The longest pause between dialling passes. A peer that returns after an interruption is dialled within this
    /// time. Kernels wait up to 60 s.
    pub reconnect_max: Duration,
    /// A keepalive frame is sent after this time without traffic.
    pub keepalive: Duration,
    /// Frames of at least this many bytes prefer the bulk connections.
    pub min_bulk: u32,
    /// Open bulk connections too; if false, one `CONTROL` connection carries everything.
    pub typed: bool,
    /// TCP congestion control of every connection; `None` is the system's default.
    pub congestion: Option<String>,
    /// Present this process as a user-space process, whose pid is the local port with
    /// [`lnet_types::ProcessId::USER_FLAG`]: peers then answer on our connections only.
    pub user_pid: bool,
    /// Limits on what the LND holds.
    pub limits: Limits,
}

impl Default for SocklndConfig {
    fn default() -> Self {
        Self {
            // [CONN-1]
            port: 988,
            accept: AcceptMode::default(),
            match_addresses: false,
            source_ports: SourcePorts::default(),
            // [CONN-5]
            accept_timeout: Duration::from_secs(5),
            sock_timeout: Duration::from_secs(50),
            reconnect_min: Duration::from_secs(1),
            reconnect_max: Duration::from_secs(5),
            // [KEEP-1]
            keepalive: Duration::from_secs(30),
            // [FRAME-13]
            min_bulk: 1024,
            typed: true,
            congestion: None,
            user_pid: false,
            limits: Limits::default(),
        }
    }
}

/// Settings of a local interface that may change while it is in use: [`crate::Socklnd::tune`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NiTuning {
    /// Pairs of bulk connections with each peer; 0 counts as 1. Lowering the number closes no open
    /// connection.
    pub conns_per_peer: u8,
    /// How long a connection of the interface may go without progress; `None` uses
    /// [`SocklndConfig::sock_timeout`].
    pub timeout: Option<Duration>,
    /// The IP type of service of new connections; `None` keeps the system's default.
    pub tos: Option<u8>,
}

/// A local interface for [`crate::Socklnd::add_ni`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LndNi {
    /// The identifier that the node above gives the interface.
    pub ni: NiId,
    /// Its NID, on a network of type `tcp`. The LND binds its address.
    pub nid: Nid,
    /// Settings that may change while the interface is in use.
    pub tuning: NiTuning,
    /// When the interface started, in nanoseconds of wall-clock time: constant while the interface
    /// exists, different after a restart.
    // [HELLO-18]
    pub incarnation: u64,
}

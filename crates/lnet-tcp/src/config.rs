//! What an administrator or a tool decides about the socket LND.

use std::time::Duration;

use lnd::NiId;
use lnet_types::Nid;

/// Which dialling peers are listened to (section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AcceptMode {
    /// Only peers whose source port is below 1024, which takes privilege to use.
    #[default]
    Secure,
    /// Peers from any port.
    All,
    /// Nobody: no port is listened on.
    None,
}

/// Which local ports connections are dialled from (section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SourcePorts {
    /// 1023 down to 512, as nodes with `accept=secure` demand.
    #[default]
    Privileged,
    /// Whatever the system gives.
    Any,
}

/// Bounds on what peers, and the node itself, can make the LND hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Accepted connections that have not finished their handshake; one more closes the oldest.
    pub handshakes_max: usize,
    /// Established connections; beyond it nothing is accepted.
    pub connections_max: usize,
    /// Connections of one type with one peer; a further one is answered with `NONE` (section 2.8).
    pub connections_per_type_max: usize,
    /// Messages that wait for one peer, written in part or not at all.
    pub queued_messages_max: usize,
    /// Bytes of those messages.
    pub queued_bytes_max: u64,
    /// Connections that the system keeps until they are accepted.
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

/// Parameters of the socket LND; the defaults are those of kernel nodes (sections 2.2 and 9.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocklndConfig {
    /// The TCP port that is listened on and dialled.
    pub port: u16,
    /// Whom to listen to.
    pub accept: AcceptMode,
    /// Accept a peer only where the address of its NID is the one it dials from. Kernel nodes do not ask
    /// (section 2.4), and behind address translation the two differ; without, a peer on an unprivileged
    /// port is who it says it is.
    pub match_addresses: bool,
    /// Where to dial from.
    pub source_ports: SourcePorts,
    /// How long an accepted connection may take over its handshake.
    pub accept_timeout: Duration,
    /// How long a dialling pass, a stalled frame or an unacknowledged write may take.
    pub sock_timeout: Duration,
    /// First pause after a dialling pass failed; each further failure doubles it.
    pub reconnect_min: Duration,
    /// Longest such pause.
    pub reconnect_max: Duration,
    /// Silence after which a keepalive frame is sent.
    pub keepalive: Duration,
    /// Frames of this many bytes and more prefer the bulk connections.
    pub min_bulk: u32,
    /// Open bulk connections too; false opens one `CONTROL` connection and uses it for everything.
    pub typed: bool,
    /// TCP congestion control for every connection; `None` is the system's default.
    pub congestion: Option<String>,
    /// Present ourselves as a user-space process, whose pid is the local port with
    /// [`lnet_types::ProcessId::USER_FLAG`]: peers then answer on our connections only.
    pub user_pid: bool,
    /// What may be held.
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
            reconnect_max: Duration::from_secs(60),
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
    /// Pairs of bulk connections with each peer; 0 counts as 1. With fewer than before, those that are
    /// open stay.
    pub conns_per_peer: u8,
    /// How long its connections may be without progress; `None`: [`SocklndConfig::sock_timeout`].
    pub timeout: Option<Duration>,
    /// The IP type of service of connections made from now on; `None` leaves the system's.
    pub tos: Option<u8>,
}

/// A local interface for [`crate::Socklnd::add_ni`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LndNi {
    /// The upper side's name for it.
    pub ni: NiId,
    /// Its NID, on a network of type `tcp`; the address is bound.
    pub nid: Nid,
    /// What may change during its life.
    pub tuning: NiTuning,
    /// When the interface started, in nanoseconds of wall-clock time: constant for its life and
    /// different after a restart (section 2.12).
    pub incarnation: u64,
}

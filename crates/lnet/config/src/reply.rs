//! The answers of `lnetctl` to requests: NIDs, queues, errors.

use lnet_types::Nid;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `ping`.
    Ping(Vec<PeerReply>),
    /// `discover`.
    Discover(Vec<PeerReply>),
    /// `peer list`: primary NIDs.
    PeerList(Vec<Nid>),
    /// `debug recovery --local`: interfaces of this node in recovery.
    LocalRecovery(Vec<Nid>),
    /// `debug recovery --peer`: interfaces of peers in recovery.
    PeerRecovery(Vec<Nid>),
    /// `cpt-of-nid`: CPU partitions.
    CptOfNid(Vec<(Nid, i64)>),
    /// An error.
    Failure(ErrorBlock),
    /// An error without a number: `error: {msg: …}`.
    Message(String),
}

/// A peer that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerReply {
    /// The NID that was asked, or the peer's primary NID after discovery.
    pub primary: Nid,
    /// Whether the local node knows the peer as Multi-Rail: false before discovery.
    pub multi_rail: bool,
    /// The peer's NIDs, without loopback.
    pub nids: Vec<Nid>,
}

/// An error with a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorBlock {
    /// The request: `add`, `del`, `set`, `show`, `manage`, `configure`.
    pub verb: String,
    /// Its object: `net`, `route`, `udsp`, ….
    pub entity: String,
    /// The number of the request, if it had one.
    pub seq_no: Option<u32>,
    /// A negative errno, or a positive one if the kernel rejected a request that the tool accepted.
    pub errno: i64,
    /// The reason in words.
    pub descr: String,
    /// The layout of the error.
    pub layout: ErrorLayout,
}

/// The layout of an error.
// [CONF-9]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorLayout {
    /// Number and reason beside the entity, between `---` and `...`: for networks, routes, imports,
    /// and arguments of ping and discover.
    Flat,
    /// Number and reason under the entity: for rules and parameters.
    Nested,
    /// Number and reason beside the entity, without marks: for a peer that did not answer.
    Reply,
}

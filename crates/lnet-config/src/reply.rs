//! What `lnetctl` answers to a request: NIDs, queues, errors.

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
    /// `debug recovery --local`: interfaces of this node that are being recovered.
    LocalRecovery(Vec<Nid>),
    /// `debug recovery --peer`: interfaces of peers that are being recovered.
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
    /// The NID that was asked, or the peer's primary NID once it has been discovered.
    pub primary: Nid,
    /// What the local node holds of the peer: false until it has been discovered.
    pub multi_rail: bool,
    /// The peer's NIDs, without loopback.
    pub nids: Vec<Nid>,
}

/// An error with a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorBlock {
    /// What was asked: `add`, `del`, `set`, `show`, `manage`, `configure`.
    pub verb: String,
    /// About what: `net`, `route`, `udsp`, ….
    pub entity: String,
    /// The number of the request, where it had one.
    pub seq_no: Option<u32>,
    /// A negative errno, or a positive one where the kernel refused what the tool took.
    pub errno: i64,
    /// The reason in words.
    pub descr: String,
    /// Which of the layouts of errors.
    pub layout: ErrorLayout,
}

/// How an error is laid out (selection, sections 11.1 and 11.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorLayout {
    /// Number and reason beside the entity, between `---` and `...`: networks, routes, imports, and
    /// arguments of ping and discover.
    Flat,
    /// Number and reason under the entity: rules and parameters.
    Nested,
    /// Number and reason beside the entity, without marks: a peer that did not answer.
    Reply,
}

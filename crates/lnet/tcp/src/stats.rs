//! Counters: every frame and byte, and every rejection, failure and close by its reason.

use std::collections::BTreeMap;
use std::io::ErrorKind;

/// Numbers by reason. Reasons that never occurred have no entry and count as 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts<K: Ord>(BTreeMap<K, u64>);

impl<K: Ord + Copy> Counts<K> {
    /// Returns how often `reason` occurred.
    #[must_use]
    pub fn of(&self, reason: K) -> u64 {
        self.0.get(&reason).copied().unwrap_or(0)
    }

    /// Returns the reasons that occurred, in order, each with its number.
    pub fn iter(&self) -> impl Iterator<Item = (K, u64)> {
        self.0.iter().map(|(&reason, &count)| (reason, count))
    }

    /// Returns the sum over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    pub(crate) fn add(&mut self, reason: K) {
        *self.0.entry(reason).or_insert(0) += 1;
    }
}

impl<K: Ord> Default for Counts<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// The reason why a connection that a peer dialled was not established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The source port is above 1023, and only privileged ports are accepted.
    SourcePort,
    /// The limit of established connections is reached.
    TooManyConnections,
    /// This was the oldest of too many unfinished handshakes.
    TooManyHandshakes,
    /// The handshake took longer than the accept timeout.
    TooSlow,
    /// The peer closed or reset the connection before the handshake was complete.
    Disconnected,
    /// The first word is not the acceptor magic.
    RequestMagic,
    /// The acceptor request has an unknown version.
    RequestVersion,
    /// The acceptor request has another fault.
    RequestMalformed,
    /// The acceptor request names a NID that no interface of this node has.
    NoSuchNi,
    /// The HELLO is malformed.
    HelloMalformed,
    /// The HELLO has an unknown version; answered with `NONE`.
    HelloVersion,
    /// The HELLO has version 1, whose frames have no frame header; no release in use dials with it.
    HelloVersion1,
    /// The HELLO asks for a connection type that does not exist.
    HelloType,
    /// The HELLO comes from a NID of another net than the interface's net.
    HelloNet,
    /// The HELLO comes from a NID whose address is not the connection's remote address
    /// ([`crate::SocklndConfig::match_addresses`]).
    HelloAddress,
    /// The peer lost the race of two simultaneous dials [SET-5]; answered with `NONE`.
    Race,
    /// The limit of connections of this type is reached [SET-6]; answered with `NONE`.
    Duplicate,
    /// The interface was removed.
    Shutdown,
    /// The system rejected an operation on the socket.
    System,
}

impl Refusal {
    /// Returns the reason in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::SourcePort => "source port above 1023 (accept: secure)",
            Self::TooManyConnections => "too many connections",
            Self::TooManyHandshakes => "too many unfinished handshakes",
            Self::TooSlow => "handshake took too long",
            Self::Disconnected => "disconnected during the handshake",
            Self::RequestMagic => "not an LNet connection request",
            Self::RequestVersion => "unknown version of connection request",
            Self::RequestMalformed => "malformed connection request",
            Self::NoSuchNi => "the request names a NID that this node does not have",
            Self::HelloMalformed => "malformed HELLO",
            Self::HelloVersion => "unknown version of HELLO",
            Self::HelloVersion1 => "HELLO version 1 is not supported",
            Self::HelloType => "HELLO asks for an undefined connection type",
            Self::HelloNet => "HELLO from a NID of another net",
            Self::HelloAddress => "HELLO from a NID of another address",
            Self::Race => "lost the race of two dials",
            Self::Duplicate => "enough connections of this type",
            Self::Shutdown => "the interface was removed",
            Self::System => "the system rejected the operation",
        }
    }
}

/// The reason why an attempt to dial a peer gave no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DialFailure {
    /// The peer's NID has no IP address on a tcp net.
    NoAddress,
    /// No local port between 512 and 1023 is free.
    NoSourcePort,
    /// Local ports below 1024 need a privilege that this process lacks.
    SourcePortPrivilege,
    /// No process listens at the peer's address and port.
    Refused,
    /// The network or the host cannot be reached.
    Unreachable,
    /// The peer did not answer within the time of a dialling pass.
    TimedOut,
    /// The peer closed or reset the connection before it answered with a HELLO.
    Disconnected,
    /// The answer is not a usable HELLO.
    HelloMalformed,
    /// The answer comes from another NID or pid than the peer's.
    WrongPeer,
    /// The type in the answer is not the inverse of the requested type.
    WrongType,
    /// The peer supports only a version in which our NIDs cannot be written.
    Version,
    /// The peer answered `NONE`. This alone does not end the dialling pass.
    Declined,
    /// The peer answered `NONE` during a whole dialling pass, and there is no connection.
    DeclinedTooOften,
    /// The peer has another incarnation in each answer.
    Unsteady,
    /// The interface was removed.
    Shutdown,
    /// The system rejected an operation on the socket.
    System,
}

impl DialFailure {
    /// Returns the reason for a failed connection attempt.
    #[must_use]
    pub const fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::ConnectionRefused => Self::Refused,
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {
                Self::Unreachable
            }
            ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
                Self::Disconnected
            }
            _ => Self::System,
        }
    }
}

/// How a peer broke the protocol on an established connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The frame type is neither NOOP nor LNET.
    FrameType,
    /// A frame's checksum (HELLO version 2) is wrong.
    Checksum,
    /// The peer acknowledged a zero-copy cookie, but this node never asks for an acknowledgement.
    UnknownAck,
    /// The peer sent the keepalive cookie together with another cookie.
    MixedKeepalive,
    /// The LNet header is malformed or breaks a size limit.
    LnetHeader,
    /// The node above rejected the message.
    Refused,
    /// The connection ended inside a frame.
    Truncated,
}

/// The reason why an established connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CloseReason {
    /// The peer closed the connection between frames.
    Eof,
    /// Reading failed: the peer reset the connection.
    Reset,
    /// Reading failed: TCP timed out on the peer.
    ReadTimedOut,
    /// Reading failed for another reason.
    ReadFailed,
    /// Writing failed: the peer reset the connection.
    WriteReset,
    /// Writing failed: TCP timed out on the peer.
    WriteTimedOut,
    /// Writing failed for another reason.
    WriteFailed,
    /// The peer broke the protocol.
    Protocol(ProtocolError),
    /// A frame began, but the rest of it did not arrive in time.
    FrameStalled,
    /// Sent bytes were not acknowledged in time.
    SendStalled,
    /// No response came in time, and the connection had stopped moving bytes.
    Silent,
    /// The peer restarted: its HELLO has another incarnation.
    PeerRestarted,
    /// The peer has the incarnation before the last one: two nodes have the NID, and each seems to be a restart of the
    /// other.
    NidClaimedTwice,
    /// A sibling closed for a reason of its own: another connection of the same peer.
    Sibling,
    /// The interface was removed.
    Shutdown,
    /// The link or the address under the interface is gone.
    NiDown,
}

/// The reason why a message that was given to `send` was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Unsent {
    /// The interface does not exist.
    NoSuchNi,
    /// There is no connection, and the peer cannot be dialled or is in the pause after a failure.
    NoRoute,
    /// Dialling failed while the message waited.
    DialFailed,
    /// The message expired while it waited.
    Expired,
    /// The limit of messages or bytes queued for the peer is reached.
    QueueFull,
    /// The message's NIDs cannot be written in the connection's version, or its payload is not as long as its header
    /// says.
    NotEncodable,
    /// The message's connection closed.
    Closed,
    /// The interface was removed.
    Shutdown,
}

/// The counters of one [`crate::Socklnd`] since it was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocklndStats {
    /// Frames received, NOOPs included.
    pub frames_in: u64,
    /// Frames sent, NOOPs included.
    pub frames_out: u64,
    /// Bytes read from established connections.
    pub bytes_in: u64,
    /// Bytes written to established connections.
    pub bytes_out: u64,
    /// Read system calls on established connections.
    pub reads: u64,
    /// Write system calls on established connections.
    pub writes: u64,
    /// Payload bytes read and dropped.
    pub discarded_payload_bytes: u64,
    /// Payload bytes copied between buffers of this process: the payload of small messages that were read in bulk,
    /// and the part of the first large message behind them that the same read took.
    pub copied_payload_bytes: u64,
    /// Payload bytes read into a pipe instead of memory: the payload of large messages that are only forwarded.
    pub piped_payload_bytes: u64,
    /// Zero-copy acknowledgements queued.
    pub zc_acks: u64,
    /// Keepalive frames queued.
    pub keepalives_out: u64,
    /// Keepalive frames received.
    pub keepalives_in: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Accepted connections with an unfinished handshake now.
    pub handshakes_open: u64,
    /// Connections that peers dialled and that were established.
    pub accepted: u64,
    /// Connections that were dialled here and established.
    pub dialled: u64,
    /// Failures to accept a connection because the system lacked descriptors or memory.
    pub accept_errors: u64,
    /// Connections of dialling peers rejected, by reason.
    pub refused: Counts<Refusal>,
    /// Dials that gave no connection, by reason.
    pub dial_failures: Counts<DialFailure>,
    /// Established connections closed, by reason.
    pub closed: Counts<CloseReason>,
    /// Messages not sent, by reason.
    pub unsent: Counts<Unsent>,
    /// Broken invariants of the LND: an entry that its own tables name did not exist.
    pub invariants_broken: u64,
}

//! What is counted: every frame and byte, and every refusal, failure and close by its reason.

use std::collections::BTreeMap;
use std::io::ErrorKind;

/// Numbers by reason. Reasons that never occurred have no entry and count as 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts<K: Ord>(BTreeMap<K, u64>);

impl<K: Ord + Copy> Counts<K> {
    /// How often `reason` occurred.
    #[must_use]
    pub fn of(&self, reason: K) -> u64 {
        self.0.get(&reason).copied().unwrap_or(0)
    }

    /// The reasons that occurred, in order, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (K, u64)> {
        self.0.iter().map(|(&reason, &count)| (reason, count))
    }

    /// How often anything occurred.
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

/// Why a connection that somebody dialled to us did not come to be (section 12.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Its source port is above 1023 and only privileged ones are accepted.
    SourcePort,
    /// There are as many connections as there may be.
    TooManyConnections,
    /// It was the oldest of too many unfinished handshakes.
    TooManyHandshakes,
    /// The handshake took longer than the accept timeout.
    TooSlow,
    /// The peer closed or reset before the handshake ended.
    Disconnected,
    /// The first word is not the acceptor magic.
    RequestMagic,
    /// The acceptor request has an unknown version.
    RequestVersion,
    /// The acceptor request is malformed in another way.
    RequestMalformed,
    /// The acceptor request names a NID that no interface here has.
    NoSuchNi,
    /// The HELLO is malformed.
    HelloMalformed,
    /// The HELLO has a version that nobody knows; answered with `NONE`.
    HelloVersion,
    /// The HELLO has version 1, whose frames have no frame header; no release in use dials with it.
    HelloVersion1,
    /// The HELLO asks for a connection type that does not exist.
    HelloType,
    /// The HELLO comes from a NID of another net than the interface's.
    HelloNet,
    /// The HELLO comes from a NID whose address is not the connection's
    /// ([`crate::SocklndConfig::match_addresses`]).
    HelloAddress,
    /// Lost the race of two simultaneous dials (section 2.7); answered with `NONE`.
    Race,
    /// There are enough connections of this type (section 2.8); answered with `NONE`.
    Duplicate,
    /// The interface went away.
    Shutdown,
    /// The system refused an operation on the socket.
    System,
}

impl Refusal {
    /// The reason in words.
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
            Self::NoSuchNi => "the request names a NID that is not here",
            Self::HelloMalformed => "malformed HELLO",
            Self::HelloVersion => "unknown version of HELLO",
            Self::HelloVersion1 => "HELLO version 1 is not spoken here",
            Self::HelloType => "HELLO asks for an undefined connection type",
            Self::HelloNet => "HELLO from a NID of another net",
            Self::HelloAddress => "HELLO from a NID of another address",
            Self::Race => "lost the race of two dials",
            Self::Duplicate => "enough connections of this type",
            Self::Shutdown => "the interface went away",
            Self::System => "the system refused",
        }
    }
}

/// Why an attempt to dial a peer did not give a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DialFailure {
    /// The peer's NID has no IP address on a TCP network.
    NoAddress,
    /// No local port between 512 and 1023 is free.
    NoSourcePort,
    /// Local ports below 1024 take a privilege that this process lacks.
    SourcePortPrivilege,
    /// Nobody listens there.
    Refused,
    /// The network or the host cannot be reached.
    Unreachable,
    /// No answer within the time for a dialling pass.
    TimedOut,
    /// The peer closed or reset before it answered with a HELLO.
    Disconnected,
    /// What came back is not a HELLO that can be used.
    HelloMalformed,
    /// The peer says that it is somebody else.
    WrongPeer,
    /// The answer's type is not the inverse of the one asked for.
    WrongType,
    /// The peer speaks only a version in which our NIDs cannot be written.
    Version,
    /// The peer answered `NONE`, which ends nothing by itself.
    Declined,
    /// The peer answered `NONE` again and again and there is no connection.
    DeclinedTooOften,
    /// The interface went away.
    Shutdown,
    /// The system refused an operation on the socket.
    System,
}

impl DialFailure {
    /// What a failed connection attempt means.
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

/// How a peer broke the protocol on an established connection (section 12.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The frame type is neither NOOP nor LNET.
    FrameType,
    /// A frame's checksum (HELLO version 2) is wrong.
    Checksum,
    /// It acknowledged a zero-copy cookie; we never ask for an acknowledgement.
    UnknownAck,
    /// It sent the keepalive cookie together with another one.
    MixedKeepalive,
    /// The LNet header is malformed or breaks a size limit.
    LnetHeader,
    /// The node above refused the message.
    Refused,
    /// The connection ended inside a frame.
    Truncated,
}

/// Why an established connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CloseReason {
    /// The peer closed between frames.
    Eof,
    /// Reading failed: the peer reset the connection.
    Reset,
    /// Reading failed: TCP gave up on the peer.
    ReadTimedOut,
    /// Reading failed otherwise.
    ReadFailed,
    /// Writing failed: the peer reset the connection.
    WriteReset,
    /// Writing failed: TCP gave up on the peer.
    WriteTimedOut,
    /// Writing failed otherwise.
    WriteFailed,
    /// The peer broke the protocol.
    Protocol(ProtocolError),
    /// A frame began and did not go on.
    FrameStalled,
    /// What was sent was not acknowledged.
    SendStalled,
    /// The peer restarted: its HELLO has another incarnation.
    PeerRestarted,
    /// The incarnation before the last one is back: two nodes have the NID, and each is taken for a restart of the other.
    NidClaimedTwice,
    /// Another connection of the same peer was closed for a reason of its own.
    Sibling,
    /// The interface went away.
    Shutdown,
}

/// Why a message that was given to `send` was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Unsent {
    /// The interface does not exist.
    NoSuchNi,
    /// There is no connection, and dialling is not possible or in its pause after a failure.
    NoRoute,
    /// Dialling failed while it waited.
    DialFailed,
    /// Its time was up while it waited.
    Expired,
    /// Too much waits for this peer.
    QueueFull,
    /// Its NIDs cannot be written in the connection's version, or its payload is not as long as its header says.
    NotEncodable,
    /// The connection closed.
    Closed,
    /// The interface went away.
    Shutdown,
}

/// Counters of one [`crate::Socklnd`], since it was made.
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
    /// Payload bytes that were read to be thrown away.
    pub discarded_payload_bytes: u64,
    /// Payload bytes that were copied between buffers of this process: those of small messages that were
    /// read in bulk, and what such a read took of the first large message behind them.
    pub copied_payload_bytes: u64,
    /// Payload bytes that went into a pipe, not into memory: those of large messages that are only forwarded.
    pub piped_payload_bytes: u64,
    /// Zero-copy acknowledgements queued.
    pub zc_acks: u64,
    /// Keepalive frames queued.
    pub keepalives_out: u64,
    /// Keepalive frames received.
    pub keepalives_in: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Accepted connections whose handshake is under way now.
    pub handshakes_open: u64,
    /// Connections that peers dialled and that were established.
    pub accepted: u64,
    /// Connections that were dialled here and established.
    pub dialled: u64,
    /// Failures to accept a connection for want of descriptors or memory.
    pub accept_errors: u64,
    /// Connections refused, by reason.
    pub refused: Counts<Refusal>,
    /// Dials without a connection, by reason.
    pub dial_failures: Counts<DialFailure>,
    /// Established connections closed, by reason.
    pub closed: Counts<CloseReason>,
    /// Messages not sent, by reason.
    pub unsent: Counts<Unsent>,
    /// Errors of the LND itself: something that its own tables name is not there.
    pub invariants_broken: u64,
}

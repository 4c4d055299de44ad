//! The invariants that hold whatever fails, and what a run says when one of them does not.
//!
//! The checkers use only the outputs, the events and the visible state of nodes. They do not read the simulators' own
//! state, so an error in that state cannot hide here.

use std::fmt;

use serde::{Serialize, Serializer};

/// What must hold in every run. The number of an invariant never changes, because reports name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// A message is delivered at most once for each attempt. In a calm run of stacks it is delivered exactly once.
    Delivery = 1,
    /// Each message of an operation has exactly one SEND event.
    OneSend = 2,
    /// An operation that expects a response ends in REPLY, ACK or TIMEOUT by its deadline.
    Deadline = 3,
    /// No event follows the last event of a descriptor.
    LastEvent = 4,
    /// No message takes the same path twice (profile `design`). Cores only.
    FreshPath = 5,
    /// No counter decreases. Cores only.
    Counters = 6,
    /// After the last fault all interfaces and peers recover to full health, and all routes come up.
    Health = 7,
    /// No descriptor, message or memory remains in use.
    Leftover = 8,
    /// All credits and buffers are free again, and no byte waits on a stream.
    Credits = 9,
    /// Nodes do not reject each other's messages, and stay within their limits.
    Rejected = 10,
    /// The first attempt of a message takes a path of the best class: health, then rules. Cores only.
    BestPath = 11,
    /// Everything comes to rest. Stacks only.
    Rest = 12,
    /// Each HELLO is answered as the protocol prescribes, and so are the connections at the end. Stacks only.
    Connections = 13,
    /// If nodes discover each other, a peer that was sent a message is Multi-Rail with all its interfaces. Stacks only.
    Discovery = 14,
    /// Payload arrives as it was sent, byte for byte. Stacks only.
    Payload = 15,
    /// A response is accepted only from the node that was asked. Stacks only.
    Responder = 16,
    /// A turn of a node carries out a limited number of outputs. Stacks only.
    Turn = 17,
    /// In a calm run, and after the time at which the plan's faults are over, every operation succeeds. Stacks only.
    Success = 18,
    /// A device of RDMA touches only memory that is registered, with keys that were given. Stacks only.
    Device = 19,
}

impl Invariant {
    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Delivery => "a message is delivered at most once for each attempt",
            Self::OneSend => "each message has exactly one SEND event",
            Self::Deadline => "an operation ends in REPLY, ACK or TIMEOUT by its deadline",
            Self::LastEvent => "no event follows the last event of a descriptor",
            Self::FreshPath => "no message takes the same path twice",
            Self::Counters => "no counter decreases",
            Self::Health => "health and routes recover after the last fault",
            Self::Leftover => "nothing remains in use",
            Self::Credits => "all credits and buffers are free at the end",
            Self::Rejected => "nodes do not reject each other's messages",
            Self::BestPath => "the first attempt takes a path of the best class",
            Self::Rest => "everything comes to rest",
            Self::Connections => "connections are as the protocol prescribes",
            Self::Discovery => "peers that were sent a message are discovered",
            Self::Payload => "payload arrives as it was sent",
            Self::Responder => "only the node that was asked may respond",
            Self::Turn => "a turn has a limited number of outputs",
            Self::Success => "without faults every operation succeeds",
            Self::Device => "RDMA touches only memory that is registered",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {} ({})", self.number(), self.text())
    }
}

impl Serialize for Invariant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.number())
    }
}

/// The violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The time in nanoseconds of virtual time.
    pub at: u64,
    /// The invariant.
    pub invariant: Invariant,
    /// What was observed.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            invariant,
            what,
        } = self;
        write!(f, "{invariant} at {} s: {what}", Seconds(*at))
    }
}

/// Displays nanoseconds as seconds.
pub(crate) struct Seconds(pub(crate) u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        f.pad(&format!("{seconds}.{rest:09}"))
    }
}

//! LNet ping: asks a node for its interfaces.

use std::time::{Duration, Instant};

use lnet_core::{Errno, EventKind, GetRequest, MdOptions, NoPath};
use lnet_tcp::DialFailure;
use lnet_types::{Nid, ProcessId};
use lnet_wire::{
    DecodeError, LNET_PORTAL, PING_MATCH_BITS, PingFeatures, PingInfo, PingInfoError, PingNi,
};
use thiserror::Error;

use crate::node::{Node, NodeError};
use crate::queue::{EventQueue, WaitError};
use crate::stack::{Md, NodeEvent};

/// A node's answer to a ping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingReply {
    /// The primary NID of the node.
    pub primary_nid: Nid,
    /// The process id of the node.
    pub pid: u32,
    /// The features that the node supports.
    pub features: PingFeatures,
    /// The node's interfaces with their status, without loopback, in the node's order.
    pub nis: Vec<PingNi>,
    /// The time from the call of ping to the event of the reply.
    pub round_trip: Duration,
}

/// The reason why a ping has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PingError {
    /// No reply came in time.
    #[error("no reply from {target} within {} s{}", timeout.as_secs_f64(), because(why.as_ref()))]
    TimedOut {
        /// The NID that was asked.
        target: Nid,
        /// The timeout that expired.
        timeout: Duration,
        /// The faults of the gateways, if only gateways lead to the target and none of them works.
        why: Option<NoPath>,
    },
    /// The request was not sent in time: there was no connection yet, or the peer does not read from it.
    #[error("nothing could be sent to {target} within {} s{}", timeout.as_secs_f64(), because(why.as_ref()))]
    NotSent {
        /// The NID that was asked.
        target: Nid,
        /// The timeout that expired.
        timeout: Duration,
        /// What is wrong with the gateways, if only gateways lead to the target and none is well.
        why: Option<NoPath>,
    },
    /// The request could not be sent, or the reply could not be received.
    #[error("{target} cannot be reached: {}{}", describe(*errno), because(why.as_ref()))]
    Failed {
        /// The NID that was asked.
        target: Nid,
        /// The cause.
        errno: Errno,
        /// What is wrong with the gateways, if only gateways lead to the target and none is well.
        why: Option<NoPath>,
    },
    /// No interface and no live route leads to the target's net.
    #[error("{target} cannot be reached: {why}")]
    NoPath {
        /// The NID that was asked.
        target: Nid,
        /// The gateways, with what is wrong with each.
        why: NoPath,
    },
    /// The reply is not ping information.
    #[error("{target} sent an invalid reply: {error}")]
    Malformed {
        /// The NID that was asked.
        target: Nid,
        /// What is wrong with the bytes.
        error: DecodeError,
    },
    /// The reply is ping information that breaks a rule and must not be used.
    #[error("{target} sent invalid information: {error}")]
    Invalid {
        /// The NID that was asked.
        target: Nid,
        /// The rule that it breaks.
        error: PingInfoError,
    },
    /// The node discovers nobody.
    #[error("discovery is switched off on this node: set its parameter 'discovery'")]
    DiscoveryOff,
    /// The node rejected the call.
    #[error(transparent)]
    Node(#[from] NodeError),
}

impl PingError {
    /// Makes the error without the state of the gateways, which is added later.
    pub(crate) fn failed(target: Nid, errno: Errno) -> Self {
        Self::Failed {
            target,
            errno,
            why: None,
        }
    }

    /// Makes the error without the state of the gateways, which is added later.
    pub(crate) fn timed_out(target: Nid, timeout: Duration) -> Self {
        Self::TimedOut {
            target,
            timeout,
            why: None,
        }
    }

    /// Returns the faults of the gateways that lead to the target, if they are the reason why there is no answer.
    #[must_use]
    pub fn no_path(&self) -> Option<&NoPath> {
        match self {
            Self::NoPath { why, .. } => Some(why),
            Self::TimedOut { why, .. } | Self::NotSent { why, .. } | Self::Failed { why, .. } => {
                why.as_ref()
            }
            _ => None,
        }
    }
}

/// The size of the receive buffer, which `lnetctl ping` has used since 2.16: room for 246 interfaces: [PING-3].
const SINK_LENGTH: usize = 3960;

/// The most entries taken from a reply, as in current kernels.
// [PING-12]
const ENTRIES_MAX: u32 = 4096;

impl Node {
    /// Pings `target` and waits for the answer; `source` pins the local interface.
    ///
    /// # Errors
    ///
    /// No answer in time, no path to the target, or an answer that is not valid ping information.
    pub fn ping(
        &self,
        target: Nid,
        source: Option<Nid>,
        timeout: Duration,
    ) -> Result<PingReply, PingError> {
        let queue = self.event_queue();
        let begun = Instant::now();
        // One SEND and one REPLY. This call has its own deadline, so the response is not tracked.
        let md = Md::sink(vec![0; SINK_LENGTH])
            .threshold(2)
            .options(MdOptions::TRUNCATE | MdOptions::NO_TRACK_RESPONSE);
        let md = self.bind(&queue, md)?;
        self.get(GetRequest {
            md,
            source,
            target: ProcessId::lustre(target),
            portal: LNET_PORTAL,
            match_bits: PING_MATCH_BITS,
            offset: 0,
        })?;
        let reply = await_reply(&queue, target, begun, timeout);
        if reply.is_err() {
            // An unknown descriptor is no error: the failure may have unlinked it.
            let _gone = self.unlink(md);
        }
        let (event, round_trip) = reply.map_err(|error| self.with_cause(error))?;
        let length = event.event.mlength as usize;
        let bytes = event
            .memory
            .map(crate::stack::Memory::into_vec)
            .unwrap_or_default();
        read_reply(target, bytes.get(..length).unwrap_or_default(), round_trip)
    }
}

impl Node {
    /// Replaces the errno of a message that could not be sent with a more precise cause, if one is known: why
    /// the peer could not be dialled, or why no path leads to the peer. A message that a gateway keeps gets no
    /// answer: then the state of the gateways is the cause.
    pub(crate) fn with_cause(&self, error: PingError) -> PingError {
        let gateways = |target| self.with_engine(|engine, _| engine.core().no_answer_from(target));
        match error {
            PingError::Failed { target, errno, .. } => self.failed(target, errno, gateways(target)),
            PingError::TimedOut {
                target, timeout, ..
            } => PingError::TimedOut {
                target,
                timeout,
                why: gateways(target),
            },
            PingError::NotSent {
                target, timeout, ..
            } => PingError::NotSent {
                target,
                timeout,
                why: gateways(target),
            },
            other => other,
        }
    }

    fn failed(&self, target: Nid, errno: Errno, why: Option<NoPath>) -> PingError {
        match why {
            Some(why) if errno == Errno::EHOSTUNREACH => PingError::NoPath { target, why },
            why => PingError::Failed {
                target,
                errno: self.cause_of(target, errno),
                why,
            },
        }
    }

    /// Returns why a node cannot be reached: the failure of the last dial, if there is one, else `errno`.
    #[must_use]
    pub fn cause_of(&self, target: Nid, errno: Errno) -> Errno {
        let failure = self.look(|engine| engine.stack.lnd.dial_failure(target));
        failure.and_then(cause).unwrap_or(errno)
    }
}

/// Returns the errno for a failed dial, if the peer or the network caused the failure.
fn cause(failure: DialFailure) -> Option<Errno> {
    const EPROTO: i32 = 71;
    const ECONNRESET: i32 = 104;
    const ECONNREFUSED: i32 = 111;
    match failure {
        DialFailure::Refused => Some(Errno(ECONNREFUSED)),
        DialFailure::Unreachable => Some(Errno::EHOSTUNREACH),
        DialFailure::TimedOut => Some(Errno::ETIMEDOUT),
        DialFailure::Disconnected => Some(Errno(ECONNRESET)),
        DialFailure::HelloMalformed
        | DialFailure::WrongPeer
        | DialFailure::WrongType
        | DialFailure::Version => Some(Errno(EPROTO)),
        _ => None,
    }
}

/// Waits for the REPLY, which may come before the SEND. The last event of the descriptor carries the memory.
fn await_reply(
    queue: &EventQueue,
    target: Nid,
    begun: Instant,
    timeout: Duration,
) -> Result<(NodeEvent, Duration), PingError> {
    let mut replied = None;
    let mut sent = false;
    loop {
        let left = timeout.saturating_sub(begun.elapsed());
        let mut next = queue.wait(Some(left)).map_err(|error| match error {
            WaitError::Closed => PingError::Node(NodeError::ShutDown),
            WaitError::TimedOut | WaitError::PathLost if sent => {
                PingError::timed_out(target, timeout)
            }
            WaitError::TimedOut | WaitError::PathLost => PingError::NotSent {
                target,
                timeout,
                why: None,
            },
        })?;
        if let Err(errno) = next.event.status {
            return Err(PingError::failed(target, errno));
        }
        sent |= next.event.kind == EventKind::Send;
        if next.event.kind == EventKind::Reply {
            replied = Some((next.event.mlength, begun.elapsed()));
        }
        if let (Some((mlength, round_trip)), true) = (replied, next.event.unlinked) {
            next.event.mlength = mlength;
            return Ok((next, round_trip));
        }
    }
}

fn read_reply(target: Nid, bytes: &[u8], round_trip: Duration) -> Result<PingReply, PingError> {
    let info = PingInfo::parse(bytes).map_err(|error| PingError::Malformed { target, error })?;
    info.validate(ENTRIES_MAX)
        .map_err(|error| PingError::Invalid { target, error })?;
    Ok(PingReply {
        primary_nid: info.primary_nid().unwrap_or(target),
        pid: info.pid(),
        features: info.features(),
        nis: info.nis().collect(),
        round_trip,
    })
}

fn because(why: Option<&NoPath>) -> String {
    why.map(|why| format!(": {why}")).unwrap_or_default()
}

pub(crate) fn describe(errno: Errno) -> String {
    std::io::Error::from_raw_os_error(errno.0).to_string()
}

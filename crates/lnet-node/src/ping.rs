//! LNet ping: ask a node for its interfaces (section 6.1).

use std::time::{Duration, Instant};

use lnet_core::{Errno, EventKind, GetRequest, MdOptions, NoPath};
use lnet_stack::{Md, NodeEvent};
use lnet_tcp::DialFailure;
use lnet_types::{Nid, ProcessId};
use lnet_wire::{
    DecodeError, LNET_PORTAL, PING_MATCH_BITS, PingFeatures, PingInfo, PingInfoError, PingNi,
};
use thiserror::Error;

use crate::node::{Node, NodeError};
use crate::queue::{EventQueue, WaitError};

/// What a node answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingReply {
    /// The NID by which the node wants to be known.
    pub primary_nid: Nid,
    /// Its process id.
    pub pid: u32,
    /// What it can do.
    pub features: PingFeatures,
    /// Its interfaces with their status, loopback excepted, as it lists them.
    pub nis: Vec<PingNi>,
    /// From the call of ping to the reply's event.
    pub round_trip: Duration,
}

/// Why a ping has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PingError {
    /// Nothing came back in time.
    #[error("no reply from {target} within {} s{}", timeout.as_secs_f64(), because(why.as_ref()))]
    TimedOut {
        /// Who was asked.
        target: Nid,
        /// For how long.
        timeout: Duration,
        /// What is wrong with the gateways, if only gateways lead to the target and none is well.
        why: Option<NoPath>,
    },
    /// The request was not even sent in time: no connection was there yet, or its peer takes nothing.
    #[error("nothing could be sent to {target} within {} s{}", timeout.as_secs_f64(), because(why.as_ref()))]
    NotSent {
        /// Who was asked.
        target: Nid,
        /// For how long.
        timeout: Duration,
        /// What is wrong with the gateways, if only gateways lead to the target and none is well.
        why: Option<NoPath>,
    },
    /// The request did not get out, or the reply did not get in.
    #[error("{target} cannot be reached: {}{}", describe(*errno), because(why.as_ref()))]
    Failed {
        /// Who was asked.
        target: Nid,
        /// Why.
        errno: Errno,
        /// What is wrong with the gateways, if only gateways lead to the target and none is well.
        why: Option<NoPath>,
    },
    /// No interface and no live route leads to the target's net.
    #[error("{target} cannot be reached: {why}")]
    NoPath {
        /// Who was asked.
        target: Nid,
        /// Which gateways there are, and what is wrong with each.
        why: NoPath,
    },
    /// The reply is not ping information.
    #[error("{target} answered nonsense: {error}")]
    Malformed {
        /// Who was asked.
        target: Nid,
        /// What is wrong with the bytes.
        error: DecodeError,
    },
    /// The reply is ping information that must not be used.
    #[error("{target} answered with invalid information: {error}")]
    Invalid {
        /// Who was asked.
        target: Nid,
        /// Which rule it breaks.
        error: PingInfoError,
    },
    /// The node refused the call.
    #[error(transparent)]
    Node(#[from] NodeError),
}

impl PingError {
    /// Nothing is known of the gateways yet.
    pub(crate) fn failed(target: Nid, errno: Errno) -> Self {
        Self::Failed {
            target,
            errno,
            why: None,
        }
    }

    /// Nothing is known of the gateways yet.
    pub(crate) fn timed_out(target: Nid, timeout: Duration) -> Self {
        Self::TimedOut {
            target,
            timeout,
            why: None,
        }
    }

    /// What is wrong with the gateways that lead to the target, if that is why there is no answer.
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

/// Bytes asked for, as `lnetctl ping` does since 2.16: room for 246 interfaces (section 18).
const SINK_LENGTH: usize = 3960;

/// The most entries taken from a reply, as in current kernels (section 6.6).
const ENTRIES_MAX: u32 = 4096;

impl Node {
    /// Pings `target` and waits for the answer; `source` pins the local interface.
    ///
    /// # Errors
    ///
    /// No answer in time, no way there, or an answer that is none.
    pub fn ping(
        &self,
        target: Nid,
        source: Option<Nid>,
        timeout: Duration,
    ) -> Result<PingReply, PingError> {
        let queue = self.event_queue();
        let begun = Instant::now();
        // A SEND and a REPLY; the deadline is ours, not the response tracker's.
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
            // Too late is no error: the descriptor may have gone with the failure.
            let _gone = self.unlink(md);
        }
        let (event, round_trip) = reply.map_err(|error| self.with_cause(error))?;
        let length = event.event.mlength as usize;
        let bytes = event
            .memory
            .map(lnet_stack::Memory::into_vec)
            .unwrap_or_default();
        read_reply(target, bytes.get(..length).unwrap_or_default(), round_trip)
    }
}

impl Node {
    /// A message that did not get out fails with the class of the failure. Where the peer could not be
    /// dialled, the socket has said more. A message that went to a gateway which keeps it has no answer: what is known of the
    /// gateways says why.
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
            why => {
                let failure = self.with_engine(|engine, _| engine.stack.lnd.dial_failure(target));
                let errno = failure.and_then(cause).unwrap_or(errno);
                PingError::Failed { target, errno, why }
            }
        }
    }
}

/// What a caller is told of a failure to dial, if it is the peer's doing.
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

/// Waits for the REPLY, which may overtake the SEND. The descriptor's last event carries the memory.
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
            WaitError::TimedOut if sent => PingError::timed_out(target, timeout),
            WaitError::TimedOut => PingError::NotSent {
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

fn describe(errno: Errno) -> String {
    std::io::Error::from_raw_os_error(errno.0).to_string()
}

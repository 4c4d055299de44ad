//! The node that is checked: how it is dialled, and what is known of it before the first check.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lnet_types::{LndType, Nid, ProcessId};
use lnet_wire::{Ctype, KsockHeader, PingFeatures, PingInfo};
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;

use crate::exchange::Way;
use crate::link::first_ready;
use crate::probe::{Check, Outcome, Probe, SINK_MAX, Stop, Verdict};

/// Source ports that kernels dial from, taken from the top (section 2.2).
const PRIVILEGED_PORTS: std::ops::RangeInclusive<u16> = 512..=1023;

/// Which node is checked, and from where.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The NID that is checked.
    pub nid: Nid,
    /// The address that is dialled: that of the NID, unless the way to it is another.
    pub address: SocketAddr,
    /// The local address to dial from. It makes the checker's NID, on the network of `nid`.
    pub source: IpAddr,
    /// Dial from ports below 1024, which takes a privilege.
    pub privileged: bool,
    /// How long each check may take.
    pub timeout: Duration,
}

/// Why a node cannot be checked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MeetError {
    /// The NID is not on a TCP network.
    #[error("{0} is not on a tcp network: only tcp can be checked")]
    NotTcp(Nid),
    /// Ports below 1024 take a privilege that this process lacks.
    #[error("source ports below 1024 need CAP_NET_BIND_SERVICE or root")]
    Privilege,
    /// There is no connection.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// The node closed the connection in answer to a good handshake.
    #[error(
        "{nid} closed the connection during a good handshake: {}",
        if *.privileged {
            "no interface there has this NID (another network, or another address?), or it is no LNet node"
        } else {
            "it may accept only source ports below 1024 (--privileged), or have no interface with this NID"
        }
    )]
    Closed {
        /// The NID.
        nid: Nid,
        /// The source port was below 1024.
        privileged: bool,
    },
    /// The node accepted the connection and said nothing.
    #[error(
        "{0} accepted the connection and did not answer a good handshake in time: is it an LNet node?"
    )]
    Silent(Nid),
}

/// Identities that this process has used.
static IDENTITIES: AtomicU32 = AtomicU32::new(0);

/// A node that can be checked.
#[derive(Debug)]
pub struct Meeting {
    subject: Subject,
    features: Option<PingFeatures>,
    shares_identity: bool,
}

impl Meeting {
    /// Shakes hands with the node and pings it once.
    ///
    /// # Errors
    ///
    /// See [`MeetError`]. A node that answers something wrong is no error: the checks will tell.
    pub fn new(subject: Subject) -> Result<Self, MeetError> {
        if subject.nid.net().lnd != LndType::TCP {
            return Err(MeetError::NotTcp(subject.nid));
        }
        let mut meeting = Self::unmet(subject);
        meeting.knock()?;
        meeting.features = meeting.ask(first_ping).ok();
        meeting.shares_identity = meeting.ask(takes_both_for_one_peer).is_ok();
        Ok(meeting)
    }

    /// A node of which nothing is known yet.
    pub(crate) const fn unmet(subject: Subject) -> Self {
        Self {
            subject,
            features: None,
            shares_identity: false,
        }
    }

    /// Makes one check.
    pub fn run(&self, check: &Check) -> Outcome {
        let begun = Instant::now();
        let mut probe = self.probe();
        let verdict = match (check.run)(&mut probe) {
            Ok(()) => Verdict::Passed,
            Err(Stop::Failed(why)) => Verdict::Failed(why),
            Err(Stop::NotApplicable(why)) => Verdict::NotApplicable(why),
        };
        Outcome {
            verdict,
            observed: probe.observed(),
            elapsed: begun.elapsed(),
        }
    }

    /// What was asked for.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// What the node said that it can do; `None` when its answer to a ping could not be read.
    #[must_use]
    pub const fn features(&self) -> Option<PingFeatures> {
        self.features
    }

    /// The checker's NID.
    #[must_use]
    pub fn source_nid(&self) -> Nid {
        Nid::from_ip(self.subject.nid.net(), self.subject.source)
    }

    /// True when the node takes two connections of one HELLO identity for connections of one peer.
    pub(crate) const fn shares_identity(&self) -> bool {
        self.shares_identity
    }

    fn ask<T>(&self, question: fn(&mut Probe<'_>) -> Result<T, Stop>) -> Result<T, Stop> {
        question(&mut self.probe())
    }

    /// A run with an identity, a timeout and connections of its own.
    pub(crate) fn probe(&self) -> Probe<'_> {
        Probe::new(self, self.identity(), incarnation())
    }

    /// An identity that nobody else has: of no node, so that connections of a node at this address are not
    /// touched, and of no check before.
    pub(crate) fn identity(&self) -> ProcessId {
        let number = IDENTITIES.fetch_add(1, Ordering::Relaxed);
        // Bits 28 to 30 are reserved (section 1.5).
        let pid = ProcessId::USER_FLAG | (process::id() & 0xFFFF) << 12 | number & 0xFFF;
        ProcessId {
            nid: self.source_nid(),
            pid,
        }
    }

    /// Whether there is a node at all.
    fn knock(&self) -> Result<(), MeetError> {
        let Subject { nid, address, .. } = self.subject;
        // The connection of the probe has its own, which tells less about errors.
        drop(
            connect(&self.subject).map_err(|source| match source.kind() {
                ErrorKind::PermissionDenied if self.subject.privileged => MeetError::Privilege,
                _ => MeetError::Connect { address, source },
            })?,
        );
        let mut probe = self.probe();
        let answered = probe.open(Ctype::CONTROL);
        let observed = probe.observed();
        let heard = |way| observed.iter().any(|exchange| exchange.way == way);
        match answered {
            Err(_) if heard(Way::Received) => Ok(()),
            Err(_) if heard(Way::Closed) => Err(MeetError::Closed {
                nid,
                privileged: self.subject.privileged,
            }),
            Err(_) => Err(MeetError::Silent(nid)),
            Ok(_) => Ok(()),
        }
    }
}

fn first_ping(probe: &mut Probe<'_>) -> Result<PingFeatures, Stop> {
    let reply = probe.ping_afresh(SINK_MAX)?;
    let info = PingInfo::parse(&reply.payload).map_err(|error| Stop::failed(error.to_string()))?;
    Ok(info.features())
}

/// The REPLY to a ping on our BULK_OUT comes on CONTROL, because the node sends no messages on its BULK_IN
/// (section 3.6), if it takes both connections for one peer's.
pub(crate) fn takes_both_for_one_peer(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut control = probe.open(Ctype::CONTROL)?;
    let mut bulk = probe.open(Ctype::BULK_OUT)?;
    let (header, _) = probe.ping_header(lnet_wire::PING_BUFFER_MIN);
    bulk.send_message(KsockHeader::LNET, &header, &[])?;
    if first_ready(&[&control, &bulk])? != 0 {
        return Err(Stop::failed(
            "the answer to a ping on our BULK_OUT came on that connection, the node's BULK_IN",
        ));
    }
    control.reply().map(drop)
}

/// The time, in nanoseconds (section 2.12).
fn incarnation() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // 64 bits of nanoseconds last until the year 2554.
    since.map_or(1, |elapsed| elapsed.as_nanos() as u64)
}

/// Connects to the node.
pub(crate) fn connect(subject: &Subject) -> io::Result<TcpStream> {
    if !subject.privileged {
        return connect_from(subject, 0);
    }
    for port in PRIVILEGED_PORTS.rev() {
        match connect_from(subject, port) {
            // The address pair is in use, or was until a moment ago: the next port makes another.
            Err(error) if is_taken(error.kind()) => {}
            other => return other,
        }
    }
    Err(ErrorKind::AddrInUse.into())
}

const fn is_taken(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable)
}

fn connect_from(subject: &Subject, port: u16) -> io::Result<TcpStream> {
    let local = SocketAddr::new(subject.source, port);
    let socket = Socket::new(
        Domain::for_address(local),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // 512 ports serve any number of connections, because only the whole address pair is unique.
    socket.set_reuse_address(true)?;
    socket.bind(&local.into())?;
    socket.connect_timeout(&subject.address.into(), subject.timeout)?;
    socket.set_tcp_nodelay(true)?;
    // A node that does not read must not hold the checker up.
    socket.set_write_timeout(Some(subject.timeout))?;
    Ok(socket.into())
}

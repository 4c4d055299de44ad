//! The node that is checked: how it is dialled, and what is known about it before the first check.

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
use crate::probe::{Check, Outcome, Probe, Run, SINK_MAX, Stop, Verdict};

/// Pause between two polls of a listener and a connection.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Source ports of kernels, which use the highest first.
// [CONN-2]
const PRIVILEGED_PORTS: std::ops::RangeInclusive<u16> = 512..=1023;

/// Which node is checked, and from where.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The NID that is checked.
    pub nid: Nid,
    /// The address that is dialled: that of the NID, unless the node is reached at another.
    pub address: SocketAddr,
    /// The local address to dial from, which is also the checker's NID on the network of `nid`.
    pub source: IpAddr,
    /// Dial from ports below 1024, which needs a privilege.
    pub privileged: bool,
    /// The timeout of each check.
    pub timeout: Duration,
}

impl Subject {
    /// The address at which the node would dial the checker.
    pub(crate) const fn own_address(&self) -> SocketAddr {
        SocketAddr::new(self.source, self.address.port())
    }
}

/// Why a node cannot be checked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The NID is not on a TCP network.
    #[error(
        "{0} is not on a tcp network: only nodes on tcp and o2ib networks are reached directly"
    )]
    NotTcp(Nid),
    /// The NID is not on an o2ib network, or has no IPv4 address.
    #[error("{0} is not an IPv4 address on an o2ib network")]
    NotO2ib(Nid),
    /// No RDMA device of this machine can be used.
    #[error("cannot dial over RDMA: {0}")]
    Device(String),
    /// No connection over RDMA.
    #[error("cannot connect to {nid}: {why}")]
    Rdma {
        /// The NID.
        nid: Nid,
        /// The reason.
        why: String,
    },
    /// Ports below 1024 need a privilege that this process lacks.
    #[error("source ports below 1024 need CAP_NET_BIND_SERVICE or root")]
    Privilege,
    /// The connection failed.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The node closed the connection after a valid handshake.
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
        /// True if the source port was below 1024.
        privileged: bool,
    },
    /// The node accepted the connection and sent nothing.
    #[error(
        "{0} accepted the connection and did not answer a good handshake in time: is it an LNet node?"
    )]
    Silent(Nid),
}

/// The number of identities that this process has used.
static IDENTITIES: AtomicU32 = AtomicU32::new(0);

/// A node that can be checked.
#[derive(Debug)]
pub struct NodeUnderTest {
    subject: Subject,
    features: Option<PingFeatures>,
    shares_identity: bool,
}

impl NodeUnderTest {
    /// Makes a handshake with the node and pings it once.
    ///
    /// # Errors
    ///
    /// See [`SetupError`]. A wrong answer of the node is not an error; the checks report it.
    pub fn new(subject: Subject) -> Result<Self, SetupError> {
        if subject.nid.net().lnd != LndType::TCP {
            return Err(SetupError::NotTcp(subject.nid));
        }
        let mut node = Self::unchecked(subject);
        node.try_handshake()?;
        node.features = node.ask(first_ping).ok();
        node.shares_identity = node.ask(takes_both_for_one_peer).is_ok();
        Ok(node)
    }

    /// A node about which nothing is known yet.
    pub(crate) const fn unchecked(subject: Subject) -> Self {
        Self {
            subject,
            features: None,
            shares_identity: false,
        }
    }

    /// Runs one check, and a failed one again: a node is only failed if it fails twice.
    pub fn run(&self, check: &Check) -> Outcome {
        Outcome::of(|| self.run_once(check))
    }

    fn run_once(&self, check: &Check) -> Outcome {
        let begun = Instant::now();
        let mut probe = self.probe();
        let verdict = match check.run {
            Run::Tcp(run) => run(&mut probe).into(),
            Run::O2ib(_) => Verdict::NotApplicable("a check of o2ib networks".to_owned()),
        };
        Outcome {
            verdict,
            observed: probe.observed(),
            elapsed: begun.elapsed(),
        }
    }

    /// The subject of the checks.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The node's feature bits; `None` if its answer to a ping could not be read.
    #[must_use]
    pub const fn features(&self) -> Option<PingFeatures> {
        self.features
    }

    /// The checker's NID.
    #[must_use]
    pub fn source_nid(&self) -> Nid {
        Nid::from_ip(self.subject.nid.net(), self.subject.source)
    }

    /// Returns true if the node treats two connections with one HELLO identity as connections of
    /// one peer.
    pub(crate) const fn shares_identity(&self) -> bool {
        self.shares_identity
    }

    fn ask<T>(&self, question: fn(&mut Probe<'_>) -> Result<T, Stop>) -> Result<T, Stop> {
        question(&mut self.probe())
    }

    /// A run with its own identity, timeout and connections.
    pub(crate) fn probe(&self) -> Probe<'_> {
        Probe::new(self, self.identity(), incarnation())
    }

    /// A new identity. It differs from those of nodes, so that connections of a node at this
    /// address stay open, and from those of earlier checks.
    pub(crate) fn identity(&self) -> ProcessId {
        let number = IDENTITIES.fetch_add(1, Ordering::Relaxed);
        // Bits 28 to 30 are reserved.
        let pid = ProcessId::USER_FLAG | (process::id() & 0xFFFF) << 12 | number & 0xFFF;
        ProcessId {
            nid: self.source_nid(),
            pid,
        }
    }

    /// Checks whether a node answers at all.
    fn try_handshake(&self) -> Result<(), SetupError> {
        let Subject { nid, address, .. } = self.subject;
        // The connection of a probe reports errors with less detail.
        drop(
            connect(&self.subject).map_err(|source| match lacks_privilege(&source) {
                true => SetupError::Privilege,
                false => SetupError::Connect { address, source },
            })?,
        );
        let mut probe = self.probe();
        let answered = probe.open(Ctype::CONTROL);
        let observed = probe.observed();
        let heard = |way| observed.iter().any(|exchange| exchange.way == way);
        match answered {
            Err(_) if heard(Way::Received) => Ok(()),
            Err(_) if heard(Way::Closed) => Err(SetupError::Closed {
                nid,
                privileged: self.subject.privileged,
            }),
            Err(_) => Err(SetupError::Silent(nid)),
            Ok(_) => Ok(()),
        }
    }
}

fn first_ping(probe: &mut Probe<'_>) -> Result<PingFeatures, Stop> {
    let reply = probe.ping_afresh(SINK_MAX)?;
    let info = PingInfo::parse(&reply.payload).map_err(|error| Stop::failed(error.to_string()))?;
    Ok(info.features())
}

/// A ping on our BULK_OUT is answered on CONTROL if the node treats both connections as one peer's,
/// because it sends no messages on its BULK_IN.
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

/// The current time in nanoseconds.
fn incarnation() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // 64 bits of nanoseconds suffice until the year 2554.
    since.map_or(1, |elapsed| elapsed.as_nanos() as u64)
}

/// Listens for connections of the node. An accept waits [`LOOK`] at most.
pub(crate) fn listen(own: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(own), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of a node that ran on this port may still be in TIME-WAIT.
    socket.set_reuse_address(true)?;
    socket.bind(&own.into())?;
    socket.listen(8)?;
    // On Linux, this timeout applies to accept, too.
    socket.set_read_timeout(Some(LOOK))?;
    Ok(socket)
}

/// Connects to the node.
pub(crate) fn connect(subject: &Subject) -> io::Result<TcpStream> {
    if !subject.privileged {
        return connect_from(subject, 0);
    }
    for port in PRIVILEGED_PORTS.rev() {
        match connect_from(subject, port) {
            // The address pair is or was in use; the next port makes another pair.
            Err(error) if is_taken(error.kind()) => {}
            other => return other,
        }
    }
    Err(ErrorKind::AddrInUse.into())
}

/// The system does not let this process use a source port below 1024.
#[derive(Debug, Error)]
#[error("source ports below 1024 need CAP_NET_BIND_SERVICE or root")]
struct NoPrivilege;

/// Returns true if an attempt to connect failed because this process lacks the privilege. A filter or a route that
/// prohibits the connection has the same error number.
pub(crate) fn lacks_privilege(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<NoPrivilege>())
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
    // 512 ports serve any number of connections, because only the whole address pair must be
    // unique.
    socket.set_reuse_address(true)?;
    socket
        .bind(&local.into())
        .map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => io::Error::new(error.kind(), NoPrivilege),
            _ => error,
        })?;
    let is_v6 = subject.address.is_ipv6();
    sys::keep_icmp(&socket, is_v6)?;
    let connected = socket.connect_timeout(&subject.address.into(), subject.timeout);
    let rejection = sys::icmp_rejection(&socket, is_v6);
    connected.map_err(|error| match rejection {
        Some(rejection) => io::Error::new(error.kind(), rejection),
        None => error,
    })?;
    socket.set_tcp_nodelay(true)?;
    // A node that does not read must not block the checker.
    socket.set_write_timeout(Some(subject.timeout))?;
    Ok(socket.into())
}

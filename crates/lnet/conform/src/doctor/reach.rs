//! Checks whether the address can be reached, whether an LNet node listens there, and whether it
//! accepts the connection.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use lnet_types::{Net, Nid};
use lnet_wire::{Connreq, Ctype, Hello, LNET_MAGIC};
use sys::IcmpRejection;

use super::{Diagnosis, FindingKind, catalogue};
use crate::exchange::{Exchange, Way};
use crate::link::Link;
use crate::node::{NodeUnderTest, SetupError, Subject, lacks_privilege};
use crate::probe::Probe;

/// The number of bytes without an answer that counts as a flood: a HELLO has at most 136, an answer
/// to a ping 4 KiB.
const FLOOD: usize = 64 << 10;

/// How long to read from a peer that sends unexpected bytes, to see whether it stops.
const WATCH: Duration = Duration::from_secs(1);

/// Longer than an acceptor needs to check a port number, and shorter than the five seconds that it
/// gives a silent client.
const UNHEARD: Duration = Duration::from_secs(4);

/// The port of nodes whose configuration names no other.
// [CONN-1]
const LNET_PORT: u16 = 988;

/// Networks to try if the node is on another one. A kernel logs each rejection.
const NETS_TRIED: u16 = 4;

/// Why there is no handshake.
enum HandshakeFailure {
    /// The system made no connection.
    NoConnection(io::Error),
    /// Nothing arrived within the timeout.
    Silent,
    /// The connection was closed or reset before a byte arrived.
    Closed,
    /// The acceptor's rejection, or a HELLO that rejects a version.
    Version,
    /// A HELLO of type NONE.
    Rejected,
    /// A HELLO with another NID.
    OtherNid(Nid),
    /// Bytes that are not a HELLO: the first of them.
    Strange(Vec<u8>),
    /// Bytes that are not a HELLO, without end.
    Flood(usize),
}

/// Connects to the node's port. Returns true if an LNet node answers there for the NID. If none does, looks for the node
/// on `others` and on LNet's own port, too.
pub(super) fn try_node(
    node: &NodeUnderTest,
    others: &[u16],
    diagnosis: &mut Diagnosis,
) -> Result<bool, SetupError> {
    let subject = node.subject();
    let name = "port";
    let failure = match try_handshake(&mut node.probe()) {
        Ok(()) => {
            let from = if subject.privileged {
                "a port below 1024"
            } else {
                "an unprivileged port"
            };
            let port = subject.address.port();
            diagnosis.saw(name, format!("{port}: an LNet node answers, to {from}"));
            return Ok(true);
        }
        Err(HandshakeFailure::NoConnection(error)) if lacks_privilege(&error) => {
            return Err(SetupError::Privilege);
        }
        Err(failure) => failure,
    };
    let (kind, seen) = match failure {
        HandshakeFailure::Closed => closed(node),
        other => finding_of(other, subject),
    };
    diagnosis.saw(name, format!("{}: {seen}", subject.address.port()));
    diagnosis.found(kind, seen);
    let mut others = others.iter().chain([&LNET_PORT]);
    if let Some(other) = others.find(|&&other| answers_on(other, subject)) {
        let port = subject.address.port();
        let seen = format!("{} answers on port {other}, and not on {port}", subject.nid);
        diagnosis.found(&catalogue::OTHER_PORT, seen);
    }
    Ok(false)
}

/// Returns true if the node answers on another port of its address.
fn answers_on(port: u16, subject: &Subject) -> bool {
    let address = SocketAddr::new(subject.address.ip(), port);
    let other = NodeUnderTest::unchecked(Subject {
        address,
        ..*subject
    });
    port != subject.address.port() && try_handshake(&mut other.probe()).is_ok()
}

/// Checks whether a further port can be reached at all; any program may listen there.
pub(super) fn try_port(subject: Subject, diagnosis: &mut Diagnosis) {
    let name = "further port";
    let port = subject.address.port();
    let node = NodeUnderTest::unchecked(subject);
    let reached = node.probe().connect_only();
    match reached {
        Ok(()) => diagnosis.saw(name, format!("{port}: open")),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {
            diagnosis.saw(name, format!("{port}: open, and resets the connection"));
        }
        Err(error) if is_reset(&error) => {
            diagnosis.saw(name, format!("{port}: reachable, but no process listens"));
        }
        Err(error) => {
            let (kind, seen) = no_connection(&error, &subject);
            diagnosis.saw(name, format!("{port}: {seen}"));
            diagnosis.found(kind, seen);
        }
    }
}

/// Connects and sends a valid handshake.
fn try_handshake(probe: &mut Probe<'_>) -> Result<(), HandshakeFailure> {
    let ours = probe.hello(Ctype::CONTROL);
    let mut link = probe.reach(ours.version).map_err(no_link)?;
    link.send(&probe.greeting(&ours));
    let Ok(heard) = link.hello() else {
        return Err(unheard(&mut link, probe));
    };
    let hello = heard.hello;
    if hello.ctype == Ctype::NONE {
        let same = hello.version == ours.version;
        return Err(if same {
            HandshakeFailure::Rejected
        } else {
            HandshakeFailure::Version
        });
    }
    if hello.src_nid != probe.nid() {
        return Err(HandshakeFailure::OtherNid(hello.src_nid));
    }
    Ok(())
}

/// Returns the reason why there is no connection. A connection that is reset was accepted before: if no process listens,
/// or a firewall rejects the attempt with a reset, the system reports the attempt as refused.
fn no_link(error: io::Error) -> HandshakeFailure {
    match error.kind() {
        ErrorKind::ConnectionReset => HandshakeFailure::Closed,
        _ => HandshakeFailure::NoConnection(error),
    }
}

/// The reason why no HELLO arrived.
fn unheard(link: &mut Link, probe: &Probe<'_>) -> HandshakeFailure {
    let observed = probe.observed();
    let received: Vec<&Exchange> = observed
        .iter()
        .filter(|exchange| exchange.way == Way::Received)
        .collect();
    let Some(first) = received.first() else {
        let closed = observed.iter().any(|exchange| exchange.way == Way::Closed);
        return if closed {
            HandshakeFailure::Closed
        } else {
            HandshakeFailure::Silent
        };
    };
    if first.bytes == Connreq::REJECTION || is_hello(&first.bytes) {
        return HandshakeFailure::Version;
    }
    let so_far: usize = received.iter().map(|exchange| exchange.length).sum();
    let all = so_far + link.drop_input(FLOOD, WATCH);
    if all >= FLOOD {
        return HandshakeFailure::Flood(all);
    }
    // Only the first bytes are checked for a HELLO; the rest of a greeting shows which program sent
    // it.
    let rest = probe.observed();
    let rest = rest.iter().filter(|exchange| exchange.way == Way::Received);
    let all = received.into_iter().chain(rest);
    HandshakeFailure::Strange(
        all.flat_map(|exchange| exchange.bytes.iter().copied())
            .collect(),
    )
}

/// Returns true for the beginning of a HELLO in a version that we cannot read.
fn is_hello(bytes: &[u8]) -> bool {
    bytes.first_chunk() == Some(&LNET_MAGIC.to_le_bytes())
}

/// Bytes that a connection sent beyond `FLOOD` in place of an answer.
pub(super) fn is_flooded(link: &mut Link, observed: &[Exchange]) -> Option<usize> {
    let received = observed
        .iter()
        .filter(|exchange| exchange.way == Way::Received);
    let so_far: usize = received.map(|exchange| exchange.length).sum();
    // A silent peer stays silent, and a flooding one needs no long wait.
    let all = so_far + link.drop_input(FLOOD, WATCH);
    (all >= FLOOD).then_some(all)
}

/// The finding for every failure except a closed connection.
fn finding_of(failure: HandshakeFailure, subject: &Subject) -> (&'static FindingKind, String) {
    let Subject {
        nid,
        address,
        timeout,
        ..
    } = subject;
    match failure {
        HandshakeFailure::NoConnection(error) => no_connection(&error, subject),
        HandshakeFailure::Silent => (
            &catalogue::PORT_SILENT,
            format!("{address} accepts the connection, but sends nothing within {timeout:?}"),
        ),
        HandshakeFailure::Closed => (
            &catalogue::WRONG_NID,
            format!("{address} closes the connection"),
        ),
        HandshakeFailure::Version => (
            &catalogue::VERSION_REJECTED,
            format!("{address} rejects the version of the handshake"),
        ),
        HandshakeFailure::Rejected => (
            &catalogue::HELLO_REJECTED,
            format!("{address} answers the HELLO with type NONE"),
        ),
        HandshakeFailure::OtherNid(other) => (
            &catalogue::OTHER_NID,
            format!("the node that was dialled as {nid} says that it is {other}"),
        ),
        HandshakeFailure::Strange(bytes) => (
            &catalogue::OTHER_PROTOCOL,
            format!("{address} sends \"{}\" instead of a HELLO", shown(&bytes)),
        ),
        HandshakeFailure::Flood(count) => (
            &catalogue::FLOOD,
            format!("{address} sent {count} bytes, but no HELLO"),
        ),
    }
}

fn no_connection(error: &io::Error, subject: &Subject) -> (&'static FindingKind, String) {
    let Subject {
        address, timeout, ..
    } = subject;
    let rejection = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<IcmpRejection>());
    if let Some(rejection) = rejection.filter(|rejection| rejection.is_of_filter()) {
        let seen = format!("the attempt to connect to {address} is rejected by {rejection}");
        return (&catalogue::FIREWALL_REJECTS, seen);
    }
    match error.kind() {
        ErrorKind::ConnectionRefused => (
            &catalogue::PORT_REJECTED,
            format!("{address} rejects the connection: no process listens on the port"),
        ),
        ErrorKind::PermissionDenied => (
            &catalogue::FIREWALL_REJECTS,
            format!("this machine itself does not permit a connection to {address}: {error}"),
        ),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => (
            &catalogue::PORT_FILTERED,
            format!("{address} did not answer the attempt to connect within {timeout:?}"),
        ),
        _ => (
            &catalogue::NO_WAY,
            format!("no connection to {address}: {error}"),
        ),
    }
}

/// Distinguishes four causes by the time at which the node closes, and by how it does.
fn closed(node: &NodeUnderTest) -> (&'static FindingKind, String) {
    let Subject {
        nid,
        address,
        privileged,
        ..
    } = node.subject();
    let unheard = (!privileged).then(|| end_unheard(node));
    if unheard == Some(Unheard::Closed) {
        let seen =
            format!("{address} closes connections from unprivileged ports before it reads a byte");
        return (&catalogue::UNPRIVILEGED_REJECTED, seen);
    }
    if let Some(other) = other_net(node.subject()) {
        let seen = format!("the node at {address} has no {nid}, and answers as {other}");
        return (&catalogue::WRONG_NET, seen);
    }
    let how = match unheard.unwrap_or_else(|| end_unheard(node)) {
        Unheard::Closed if *privileged => {
            let seen = format!(
                "{address} closes connections from this machine's ports below 1024 before it reads a byte, as \
                 acceptors do with ports above 1023"
            );
            return (&catalogue::PRIVILEGED_REJECTED, seen);
        }
        Unheard::Reset => "resets",
        Unheard::Closed => "closes",
        Unheard::Open => {
            let seen = format!(
                "{address} closes the connection after it has read the handshake for {nid}"
            );
            return (&catalogue::WRONG_NID, seen);
        }
    };
    let seen = format!("{address} accepts the connection and {how} it before it reads a byte");
    (&catalogue::PORT_CLOSES, seen)
}

/// Returns true if the host answered the attempt to connect with a reset. An ICMP message comes from a filter.
fn is_reset(error: &io::Error) -> bool {
    error.kind() == ErrorKind::ConnectionRefused && error.get_ref().is_none()
}

/// What happens to a connection on which nothing is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unheard {
    /// The connection stays open for a while.
    Open,
    /// The connection is closed in order, as the acceptor of a node does.
    Closed,
    /// The connection is reset. No acceptor of a node resets a connection whose bytes it has read.
    Reset,
}

fn end_unheard(node: &NodeUnderTest) -> Unheard {
    let mut probe = node.probe();
    match probe.reach(probe.hello(Ctype::CONTROL).version) {
        Ok(mut link) => match link.end_within(UNHEARD) {
            None => Unheard::Open,
            Some(false) => Unheard::Closed,
            Some(true) => Unheard::Reset,
        },
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Unheard::Reset,
        Err(_) => Unheard::Open,
    }
}

/// The NID with the same address on one of the first tcp networks for which the node answers.
fn other_net(subject: &Subject) -> Option<Nid> {
    let address = subject.nid.ip()?;
    let asked = subject.nid.net();
    let nets = (0..NETS_TRIED).map(|number| Net { number, ..asked });
    nets.filter(|net| *net != asked)
        .map(|net| Nid::from_ip(net, address))
        .find(|&nid| {
            try_handshake(&mut NodeUnderTest::unchecked(Subject { nid, ..*subject }).probe())
                .is_ok()
        })
}

/// The first line, or as many bytes as fit one.
fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 64;
    let bytes = bytes.get(..SHOWN_MAX).unwrap_or(bytes);
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let line = bytes.split(is_end).next().unwrap_or_default();
    let shown = if line.is_empty() { bytes } else { line };
    shown.escape_ascii().to_string()
}

impl Probe<'_> {
    /// Connection request and HELLO of a dialler.
    fn greeting(&self, hello: &Hello) -> Vec<u8> {
        [self.request(), crate::probe::hello_of(hello)].concat()
    }

    /// Connects and sends nothing.
    fn connect_only(&mut self) -> io::Result<()> {
        self.reach(self.hello(Ctype::CONTROL).version).map(drop)
    }
}

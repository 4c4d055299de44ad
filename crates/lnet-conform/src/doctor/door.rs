//! The door: is there a way, does something listen, is it an LNet node, and does it let us in?

use std::io::{self, ErrorKind};
use std::time::Duration;

use lnet_types::{Net, Nid};
use lnet_wire::{Connreq, Ctype, Hello, LNET_MAGIC};

use super::{Ailment, Diagnosis, catalogue};
use crate::exchange::{Exchange, Way};
use crate::link::Link;
use crate::meeting::{MeetError, Meeting, Subject};
use crate::probe::Probe;

/// So many bytes that answer nothing are a flood: a HELLO has 136 at most, an answer to a ping 4 KiB.
const FLOOD: usize = 64 << 10;

/// How long it is watched whether a peer that says something strange ever ends.
const WATCH: Duration = Duration::from_secs(1);

/// Longer than an acceptor needs to look at a port number, and shorter than the five seconds that it gives a
/// silent client (section 2.3).
const UNHEARD: Duration = Duration::from_secs(4);

/// Networks that are tried where the node's is another. A kernel logs each rejection.
const NETS_TRIED: u16 = 4;

/// What keeps us out.
enum Trouble {
    /// The system made no connection.
    NoConnection(io::Error),
    /// Nothing came within the timeout.
    Silent,
    /// The connection was closed before a byte came.
    Closed,
    /// The acceptor's rejection, or a HELLO that rejects a version.
    Version,
    /// A HELLO of type NONE.
    Rejected,
    /// A HELLO of somebody else.
    OtherNid(Nid),
    /// Something else than a HELLO: its first bytes.
    Strange(Vec<u8>),
    /// Something else than a HELLO, without end.
    Flood(usize),
}

/// Knocks at the node's port. True when an LNet node answers there for the NID.
pub(super) fn try_door(meeting: &Meeting, diagnosis: &mut Diagnosis) -> Result<bool, MeetError> {
    let subject = meeting.subject();
    let name = "port";
    let trouble = match knock(&mut meeting.probe()) {
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
        Err(Trouble::NoConnection(error)) if lacks_privilege(&error, subject) => {
            return Err(MeetError::Privilege);
        }
        Err(trouble) => trouble,
    };
    let (ailment, seen) = match trouble {
        Trouble::Closed => closed(meeting),
        other => judged(other, subject),
    };
    diagnosis.saw(name, format!("{}: {seen}", subject.address.port()));
    diagnosis.found(ailment, seen);
    Ok(false)
}

/// Looks whether a further port can be reached at all. Whoever has the port is welcome to it.
pub(super) fn try_port(subject: Subject, diagnosis: &mut Diagnosis) {
    let name = "further port";
    let port = subject.address.port();
    let meeting = Meeting::unmet(subject);
    let reached = meeting.probe().connect_only();
    match reached {
        Ok(()) => diagnosis.saw(name, format!("{port}: open")),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            diagnosis.saw(name, format!("{port}: reachable, and nothing listens"));
        }
        Err(error) => {
            let (ailment, seen) = no_connection(&error, &subject);
            diagnosis.saw(name, format!("{port}: {seen}"));
            diagnosis.found(ailment, seen);
        }
    }
}

fn lacks_privilege(error: &io::Error, subject: &Subject) -> bool {
    subject.privileged && error.kind() == ErrorKind::PermissionDenied
}

/// Connects and says a good handshake.
fn knock(probe: &mut Probe<'_>) -> Result<(), Trouble> {
    let ours = probe.hello(Ctype::CONTROL);
    let mut link = probe.reach(ours.version).map_err(Trouble::NoConnection)?;
    link.send(&probe.greeting(&ours));
    let Ok(heard) = link.hello() else {
        return Err(unheard(&mut link, probe));
    };
    let hello = heard.hello;
    if hello.ctype == Ctype::NONE {
        let same = hello.version == ours.version;
        return Err(if same {
            Trouble::Rejected
        } else {
            Trouble::Version
        });
    }
    if hello.src_nid != probe.nid() {
        return Err(Trouble::OtherNid(hello.src_nid));
    }
    Ok(())
}

/// Why no HELLO came.
fn unheard(link: &mut Link, probe: &Probe<'_>) -> Trouble {
    let observed = probe.observed();
    let received: Vec<&Exchange> = observed
        .iter()
        .filter(|it| it.way == Way::Received)
        .collect();
    let Some(first) = received.first() else {
        let closed = observed.iter().any(|it| it.way == Way::Closed);
        return if closed {
            Trouble::Closed
        } else {
            Trouble::Silent
        };
    };
    if first.bytes == Connreq::REJECTION || is_hello(&first.bytes) {
        return Trouble::Version;
    }
    let so_far: usize = received.iter().map(|it| it.length).sum();
    let all = so_far + link.swallow(FLOOD, WATCH);
    if all >= FLOOD {
        return Trouble::Flood(all);
    }
    // A HELLO is looked for in the first bytes only; the rest of a greeting says whose it is.
    let rest = probe.observed();
    let rest = rest.iter().filter(|it| it.way == Way::Received);
    let all = received.into_iter().chain(rest);
    Trouble::Strange(all.flat_map(|it| it.bytes.iter().copied()).collect())
}

/// True for the beginning of a HELLO of a version that we do not read.
fn is_hello(bytes: &[u8]) -> bool {
    bytes.first_chunk() == Some(&LNET_MAGIC.to_le_bytes())
}

/// What a connection has sent beyond `FLOOD` once an answer failed to come.
pub(super) fn is_flooded(link: &mut Link, observed: &[Exchange]) -> Option<usize> {
    let received = observed.iter().filter(|it| it.way == Way::Received);
    let so_far: usize = received.map(|it| it.length).sum();
    // A peer that was silent stays so, and one that is flooding needs no long look.
    let all = so_far + link.swallow(FLOOD, WATCH);
    (all >= FLOOD).then_some(all)
}

/// The finding of everything but a connection that was closed.
fn judged(trouble: Trouble, subject: &Subject) -> (&'static Ailment, String) {
    let Subject {
        nid,
        address,
        timeout,
        ..
    } = subject;
    match trouble {
        Trouble::NoConnection(error) => no_connection(&error, subject),
        Trouble::Silent => (
            &catalogue::PORT_SILENT,
            format!("{address} accepts the connection and says nothing within {timeout:?}"),
        ),
        Trouble::Closed => (
            &catalogue::WRONG_NID,
            format!("{address} closes the connection"),
        ),
        Trouble::Version => (
            &catalogue::VERSION_REJECTED,
            format!("{address} rejects the version of the handshake"),
        ),
        Trouble::Rejected => (
            &catalogue::HELLO_REJECTED,
            format!("{address} answers the HELLO with type NONE"),
        ),
        Trouble::OtherNid(other) => (
            &catalogue::OTHER_NID,
            format!("the node that was dialled as {nid} says that it is {other}"),
        ),
        Trouble::Strange(bytes) => (
            &catalogue::OTHER_PROTOCOL,
            format!("{address} says \"{}\" in place of a HELLO", shown(&bytes)),
        ),
        Trouble::Flood(count) => (
            &catalogue::FLOOD,
            format!("{address} sent {count} bytes, and no HELLO"),
        ),
    }
}

fn no_connection(error: &io::Error, subject: &Subject) -> (&'static Ailment, String) {
    let Subject {
        address, timeout, ..
    } = subject;
    match error.kind() {
        ErrorKind::ConnectionRefused => (
            &catalogue::PORT_REJECTED,
            format!("{address} rejects the connection: nothing listens on the port"),
        ),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => (
            &catalogue::PORT_FILTERED,
            format!("{address} did not answer the attempt to connect within {timeout:?}"),
        ),
        ErrorKind::ConnectionReset => (
            &catalogue::NO_WAY,
            format!("{address} reset the attempt to connect: a firewall on the way may do this"),
        ),
        _ => (
            &catalogue::NO_WAY,
            format!("no connection to {address}: {error}"),
        ),
    }
}

/// Three causes look alike until it is seen when the node closes.
fn closed(meeting: &Meeting) -> (&'static Ailment, String) {
    let Subject {
        nid,
        address,
        privileged,
        ..
    } = meeting.subject();
    if !privileged && closes_unheard(meeting) {
        let seen =
            format!("{address} closes connections from unprivileged ports before it reads a byte");
        return (&catalogue::UNPRIVILEGED_REJECTED, seen);
    }
    if let Some(other) = other_net(meeting.subject()) {
        let seen = format!("the node at {address} has no {nid}, and answers as {other}");
        return (&catalogue::WRONG_NET, seen);
    }
    let seen = format!("{address} closes the connection when it has read the handshake for {nid}");
    (&catalogue::WRONG_NID, seen)
}

fn closes_unheard(meeting: &Meeting) -> bool {
    let mut probe = meeting.probe();
    let Ok(mut link) = probe.connect() else {
        return false;
    };
    link.swallow(1, UNHEARD);
    probe.observed().iter().any(|it| it.way == Way::Closed)
}

/// The NID with the same address, on one of the first tcp networks, for which the node answers.
fn other_net(subject: &Subject) -> Option<Nid> {
    let address = subject.nid.ip()?;
    let asked = subject.nid.net();
    let nets = (0..NETS_TRIED).map(|number| Net { number, ..asked });
    nets.filter(|net| *net != asked)
        .map(|net| Nid::from_ip(net, address))
        .find(|&nid| knock(&mut Meeting::unmet(Subject { nid, ..*subject }).probe()).is_ok())
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
    /// Connection request and HELLO, as a dialler sends them.
    fn greeting(&self, hello: &Hello) -> Vec<u8> {
        [self.request(), crate::probe::hello_of(hello)].concat()
    }

    /// Connects and says nothing.
    fn connect_only(&mut self) -> io::Result<()> {
        self.reach(self.hello(Ctype::CONTROL).version).map(drop)
    }
}

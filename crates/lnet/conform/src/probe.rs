//! One run of one check: its identity, its connections, its deadline.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use lnet_types::{LndType, Nid, ProcessId};
use lnet_wire::{
    Body, Connreq, Ctype, Get, Handle, Header, Hello, HelloVersion, KsockHeader, LNET_PORTAL,
    PING_MATCH_BITS, PingFeatures, Put,
};

use crate::exchange::{Exchange, Transcript};
use crate::link::{Heard, HeardHello, Link};
use crate::node::{NodeUnderTest, Subject, connect};

/// Whether a check may be run on a node in production.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Risk {
    /// The check sends only valid messages, and leaves no traces.
    Safe,
    /// The check sends input that a kernel logs, makes the node close connections, or leaves a peer
    /// behind.
    Intrusive,
}

/// One row of the table of checks.
#[derive(Debug)]
pub struct Check {
    /// The name, unique in the table.
    pub id: &'static str,
    /// The rules of `docs/protocol` that are checked, such as `PING-5, PING-6`.
    pub rules: &'static str,
    /// The rule, in a sentence.
    pub title: &'static str,
    /// The risk of the check.
    pub risk: Risk,
    pub(crate) run: Run,
}

/// The function of a check.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    /// Over TCP.
    Tcp(fn(&mut Probe<'_>) -> Result<(), Stop>),
    /// Over RDMA.
    O2ib(fn(&mut crate::o2ib::Probe<'_>) -> Result<(), Stop>),
}

impl Check {
    /// Returns a row of a table: its name, rules and title, its risk and its function.
    pub(crate) const fn new(
        (id, rules, title): (&'static str, &'static str, &'static str),
        risk: Risk,
        run: Run,
    ) -> Self {
        Self {
            id,
            rules,
            title,
            risk,
            run,
        }
    }

    /// Returns the type of network whose nodes are checked.
    #[must_use]
    pub const fn lnd(&self) -> LndType {
        match self.run {
            Run::Tcp(_) => LndType::TCP,
            Run::O2ib(_) => LndType::O2IB,
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The node follows the rule.
    Passed,
    /// The node does not follow the rule, as the text describes.
    Failed(String),
    /// The check failed once, as the text describes, and not when it was repeated.
    Unsteady(String),
    /// The rule cannot be checked on this node; the text has the reason.
    NotApplicable(String),
}

/// The result of one check.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The result.
    pub verdict: Verdict,
    /// The bytes that were exchanged, in order.
    pub observed: Vec<Exchange>,
    /// How long the check took.
    pub elapsed: Duration,
}

impl Outcome {
    /// Runs a check, and a failed one again: a node is only failed if it fails twice.
    pub(crate) fn of(mut run_once: impl FnMut() -> Self) -> Self {
        let first = run_once();
        let Verdict::Failed(why) = &first.verdict else {
            return first;
        };
        let second = run_once();
        let verdict = match second.verdict {
            Verdict::Failed(_) => Verdict::Failed(why.clone()),
            _ => Verdict::Unsteady(why.clone()),
        };
        Self {
            verdict,
            observed: first.observed,
            elapsed: first.elapsed + second.elapsed,
        }
    }
}

/// Why a check ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    Failed(String),
    NotApplicable(String),
    /// The checker's own machine failed.
    Local(String),
}

impl From<Result<(), Stop>> for Verdict {
    fn from(result: Result<(), Stop>) -> Self {
        match result {
            Ok(()) => Self::Passed,
            Err(Stop::Failed(why)) => Self::Failed(why),
            Err(Stop::NotApplicable(why)) => Self::NotApplicable(why),
            Err(Stop::Local(why)) => Self::Failed(format!("this machine: {why}")),
        }
    }
}

impl Stop {
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }
}

/// Fails the check unless `holds` is true.
pub(crate) fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), Stop> {
    if holds {
        Ok(())
    } else {
        Err(Stop::Failed(why()))
    }
}

/// Fails the check unless `found` equals `due`; `what` names the value.
pub(crate) fn equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: &T,
    due: &T,
) -> Result<(), Stop> {
    ensure(found == due, || format!("{what} is {found:?}, not {due:?}"))
}

/// One run of one check.
pub(crate) struct Probe<'a> {
    node: &'a NodeUnderTest,
    deadline: Instant,
    transcript: Transcript,
    connections: usize,
    handles: u64,
    /// The identity of the check.
    pub(crate) me: ProcessId,
    /// The incarnation of `me`, in nanoseconds.
    pub(crate) incarnation: u64,
}

impl<'a> Probe<'a> {
    pub(crate) fn new(node: &'a NodeUnderTest, me: ProcessId, incarnation: u64) -> Self {
        Self {
            node,
            deadline: Instant::now() + node.subject().timeout,
            transcript: Transcript::default(),
            connections: 0,
            handles: 0,
            me,
            incarnation,
        }
    }

    pub(crate) fn observed(&self) -> Vec<Exchange> {
        self.transcript.take()
    }

    pub(crate) const fn subject(&self) -> &Subject {
        self.node.subject()
    }

    /// The NID that is checked.
    pub(crate) const fn nid(&self) -> Nid {
        self.subject().nid
    }

    /// The node's feature bits.
    pub(crate) fn features(&self) -> Result<PingFeatures, Stop> {
        self.node.features().ok_or_else(|| {
            Stop::NotApplicable("the node's answer to a ping could not be read".to_owned())
        })
    }

    /// Stops if the node treats each connection as a separate peer.
    pub(crate) fn need_siblings(&self) -> Result<(), Stop> {
        if self.node.shares_identity() {
            return Ok(());
        }
        Err(Stop::NotApplicable(
            "the node takes each connection from an unprivileged port for a peer of its own \
             (HELLO-19); --privileged"
                .to_owned(),
        ))
    }

    /// Stops if the rule concerns 8-byte NIDs and the node's NID is larger.
    pub(crate) fn need_small_nid(&self) -> Result<(), Stop> {
        if self.nid().is_large() {
            let why = format!("{} has no 8-byte form", self.nid());
            return Err(Stop::NotApplicable(why));
        }
        Ok(())
    }

    /// A TCP connection on which nothing was sent yet.
    pub(crate) fn connect(&mut self) -> Result<Link, Stop> {
        self.connect_for(self.hello(Ctype::CONTROL).version)
    }

    fn connect_for(&mut self, version: HelloVersion) -> Result<Link, Stop> {
        self.reach(version)
            .map_err(|error| Stop::failed(format!("cannot connect: {error}")))
    }

    /// A TCP connection for a HELLO of this version, or the system's error.
    pub(crate) fn reach(&mut self, version: HelloVersion) -> io::Result<Link> {
        let stream = connect(self.subject())?;
        Ok(self.link(stream, version))
    }

    /// A connection that the node has made to the checker.
    pub(crate) fn accepted(&mut self, stream: TcpStream) -> Link {
        self.link(stream, self.hello(Ctype::CONTROL).version)
    }

    fn link(&mut self, stream: TcpStream, version: HelloVersion) -> Link {
        let number = self.connections;
        self.connections += 1;
        Link::new(
            stream,
            number,
            self.deadline,
            version,
            self.transcript.clone(),
        )
    }

    /// Returns whether the time of the check is over.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// The connection request that the node must accept.
    pub(crate) fn request(&self) -> Vec<u8> {
        request_of(&Connreq::to(self.nid()))
    }

    /// The HELLO that the node must accept.
    pub(crate) const fn hello(&self, ctype: Ctype) -> Hello {
        let mut hello = Hello::dial(self.me.nid, self.subject().nid, self.incarnation, ctype);
        hello.src_pid = self.me.pid;
        hello
    }

    /// Takes a new identity.
    pub(crate) fn rename(&mut self) {
        self.me = self.node.identity();
    }

    /// Connects and sends `hello` in one write.
    pub(crate) fn dial(&mut self, hello: &Hello) -> Result<Link, Stop> {
        self.dial_with(hello.version, &hello_of(hello))
    }

    /// Connects and sends these bytes in place of a HELLO of this version.
    pub(crate) fn dial_with(&mut self, version: HelloVersion, hello: &[u8]) -> Result<Link, Stop> {
        let mut link = self.connect_for(version)?;
        link.send(&[&self.request(), hello].concat());
        Ok(link)
    }

    /// A connection with the type of `hello`, and the node's HELLO.
    pub(crate) fn handshake(&mut self, hello: &Hello) -> Result<(Link, HeardHello), Stop> {
        let mut link = self.dial(hello)?;
        let heard = link.hello()?;
        ensure(heard.hello.ctype != Ctype::NONE, || {
            "the node rejected the connection: its HELLO has type NONE".to_owned()
        })?;
        Ok((link, heard))
    }

    /// A connection of this type, as we name it.
    pub(crate) fn open(&mut self, ctype: Ctype) -> Result<Link, Stop> {
        Ok(self.handshake(&self.hello(ctype))?.0)
    }

    /// A handle that no other message of the check has.
    pub(crate) fn handle(&mut self) -> Handle {
        self.handles += 1;
        Handle {
            interface: self.incarnation,
            object: self.handles << 8 | 1,
        }
    }

    /// The header of a message from us to the node.
    pub(crate) const fn header(&self, payload_length: u32, body: Body) -> Header {
        Header {
            dest_nid: self.subject().nid,
            src_nid: self.me.nid,
            dest_pid: ProcessId::LUSTRE_PID,
            src_pid: self.me.pid,
            payload_length,
            body,
        }
    }

    /// The header of a ping that has room for `sink` bytes.
    pub(crate) fn ping_header(&mut self, sink: u32) -> (Header, Handle) {
        let handle = self.handle();
        (self.header(0, get(PING_MATCH_BITS, handle, sink)), handle)
    }

    /// The header of a PUT of `length` bytes.
    pub(crate) const fn put_header(&self, portal: u32, ack_wmd: Handle, length: u32) -> Header {
        self.header(length, put(portal, ack_wmd))
    }

    /// Pings and returns the REPLY, with any contents.
    pub(crate) fn ping(&mut self, link: &mut Link, sink: u32) -> Result<Heard, Stop> {
        let (header, _) = self.ping_header(sink);
        link.send_message(KsockHeader::LNET, &header, &[])?;
        link.reply()
    }

    /// Pings on a separate connection as a separate peer, so that the end of other connections does
    /// not affect it.
    pub(crate) fn ping_afresh(&mut self, sink: u32) -> Result<Heard, Stop> {
        self.rename();
        let mut link = self.open(Ctype::CONTROL)?;
        self.ping(&mut link, sink)
    }

    /// Checks that the connection is open and nothing else was answered: the next answer is that to
    /// a ping.
    pub(crate) fn still_answers(&mut self, link: &mut Link) -> Result<(), Stop> {
        self.ping(link, SINK_MAX).map(drop)
    }
}

/// A GET from LNet's portal with room for `sink` bytes.
pub(crate) const fn get(match_bits: u64, handle: Handle, sink: u32) -> Body {
    Body::Get(Get {
        return_wmd: handle,
        match_bits,
        ptl_index: LNET_PORTAL,
        src_offset: 0,
        sink_length: sink,
    })
}

/// A PUT with the match bits of a push.
pub(crate) const fn put(portal: u32, ack_wmd: Handle) -> Body {
    Body::Put(Put {
        ack_wmd,
        match_bits: PING_MATCH_BITS,
        hdr_data: 0,
        ptl_index: portal,
        offset: 0,
    })
}

/// The buffer of `lnetctl ping` in releases from 2.16 on.
pub(crate) const SINK_MAX: u32 = 3960;

/// The bytes of a connection request.
pub(crate) fn request_of(request: &Connreq) -> Vec<u8> {
    let mut bytes = [0; Connreq::MAX_LEN];
    // The buffer has room for every form; a large NID is encoded in the form that has room for it.
    let length = request.encode(&mut bytes).unwrap_or_default();
    bytes.get(..length).unwrap_or_default().to_vec()
}

/// The bytes of a HELLO.
pub(crate) fn hello_of(hello: &Hello) -> Vec<u8> {
    let mut bytes = [0; Hello::MAX_LEN];
    // The buffer has room for every version; checks of older versions do not run for large NIDs.
    let length = hello.encode(&mut bytes).unwrap_or_default();
    bytes.get(..length).unwrap_or_default().to_vec()
}

//! Test nodes above the LND: they store everything that the LND reports, and are driven turn by turn.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary includes this file and uses its own part"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use lnet_tcp::{
    AcceptMode, Destination, Disposition, Failure, LndNi, NiId, NiTuning, RxId, SendRequest,
    Sockets, Socklnd, SocklndConfig, Source, SourcePorts, Staging, TxId, Upper,
};
use lnet_types::{Net, Nid, ProcessId, Time};
use lnet_wire::{Body, Connreq, Ctype, Get, Handle, Header, HeaderForm, Hello, KsockHeader, Put};
use mio::{Events, Poll};
use sys::Pipe;
use sys::span::Span;

/// How long a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

pub const PORT: u16 = 9988;

/// Returns an address of this machine that no other test uses.
pub fn address() -> IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high | 1, low, NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

pub fn config() -> SocklndConfig {
    SocklndConfig {
        port: PORT,
        accept: AcceptMode::All,
        source_ports: SourcePorts::Any,
        ..SocklndConfig::default()
    }
}

/// What a test node does with messages.
#[derive(Clone, Copy, Debug)]
pub enum Policy {
    /// Receive all of each message.
    Receive,
    /// Receive this many bytes of each message.
    Wanted(u32),
    Hold,
    Drop,
    Reject,
}

pub struct TestUpper {
    pub policy: Policy,
    next_rx: u64,
    /// Every header in the order of arrival.
    pub headers: Vec<(ProcessId, Header, RxId)>,
    landings: HashMap<RxId, Span>,
    /// The pipes for the next landings.
    pub pipes: VecDeque<Arc<Pipe>>,
    pub received: Vec<(RxId, Result<(), Failure>)>,
    pub sent: Vec<(TxId, Result<(), Failure>)>,
    pub changes: Vec<(ProcessId, bool)>,
}

impl TestUpper {
    fn new() -> Self {
        Self {
            policy: Policy::Receive,
            next_rx: 0,
            headers: Vec::new(),
            landings: HashMap::new(),
            pipes: VecDeque::new(),
            received: Vec::new(),
            sent: Vec::new(),
            changes: Vec::new(),
        }
    }

    pub fn landed(&self, rx: RxId) -> Vec<u8> {
        self.landings[&rx].to_vec()
    }

    pub fn set_destination(&mut self, rx: RxId, bytes: usize) -> Option<Destination> {
        let destination = Span::zeroed(bytes).unwrap();
        self.landings.insert(rx, destination.clone());
        let pipe = self.pipes.pop_front();
        (bytes > 0).then(|| match pipe {
            Some(pipe) => Destination::piped(destination, pipe),
            None => destination.into(),
        })
    }
}

impl Upper for TestUpper {
    type Destination = Destination;
    type Payload = Source;

    fn header(
        &mut self,
        _: NiId,
        peer: ProcessId,
        header: &Header,
        _: Time,
    ) -> Disposition<Destination> {
        let rx = RxId(self.next_rx);
        self.next_rx += 1;
        self.headers.push((peer, *header, rx));
        let wanted = match self.policy {
            Policy::Receive => header.payload_length,
            Policy::Wanted(bytes) => bytes.min(header.payload_length),
            Policy::Hold => return Disposition::Hold(rx),
            Policy::Drop => return Disposition::Drop,
            Policy::Reject => return Disposition::Reject("the test says so"),
        };
        let destination = self.set_destination(rx, wanted as usize);
        Disposition::Receive { rx, destination }
    }

    fn received(&mut self, rx: RxId, result: Result<(), Failure>, _: Time) {
        self.received.push((rx, result));
    }

    fn sent(&mut self, tx: TxId, result: Result<(), Failure>, _: Time) {
        self.sent.push((tx, result));
    }

    fn peer_changed(&mut self, _: NiId, peer: ProcessId, alive: bool, _: Option<u64>, _: Time) {
        self.changes.push((peer, alive));
    }
}

/// A node: an LND, its poll and the test's upper side.
pub struct Node {
    pub lnd: Socklnd,
    pub upper: TestUpper,
    pub nid: Nid,
    pub now: Time,
    poll: Poll,
    events: Events,
    staging: Staging,
    next_tx: u64,
}

pub const NI: NiId = NiId(7);
const FIRST_TOKEN: usize = 100;

impl Node {
    pub fn new(config: SocklndConfig) -> Self {
        Self::at(address(), config, 1, 1)
    }

    pub fn at(address: IpAddr, config: SocklndConfig, pairs: u8, incarnation: u64) -> Self {
        let poll = Poll::new().unwrap();
        let registry = poll.registry().try_clone().unwrap();
        let mut lnd = Socklnd::new(config, Sockets::new(registry, FIRST_TOKEN), 42);
        let nid = Nid::from_ip(Net::tcp(0), address);
        lnd.add_ni(LndNi {
            ni: NI,
            nid,
            tuning: NiTuning {
                conns_per_peer: pairs,
                ..NiTuning::default()
            },
            incarnation,
        })
        .unwrap();
        Self {
            lnd,
            upper: TestUpper::new(),
            nid,
            now: Time::from_secs(1000),
            poll,
            events: Events::with_capacity(256),
            staging: Staging::default(),
            next_tx: 0,
        }
    }

    pub fn id(&self) -> ProcessId {
        ProcessId::lustre(self.nid)
    }

    pub fn socket_address(&self) -> SocketAddr {
        (self.nid.ip().unwrap(), PORT).into()
    }

    /// Runs one turn without waiting.
    pub fn turn(&mut self) {
        self.poll
            .poll(&mut self.events, Some(Duration::ZERO))
            .unwrap();
        for event in &self.events {
            let (slot, readiness) = Sockets::readiness(event, FIRST_TOKEN).unwrap();
            self.lnd.ready(slot, readiness, self.now, &mut self.upper);
        }
        self.lnd.tick(self.now, &mut self.upper);
        while self.lnd.flush(&mut self.staging, self.now, &mut self.upper) {}
    }

    /// Lets `span` pass in virtual time, in the steps that the LND's deadlines give.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(next) = self.lnd.next_deadline().filter(|&next| next <= end) {
            self.now = self.now.max(next);
            self.turn();
        }
        self.now = end;
        self.turn();
    }

    pub fn send(&mut self, to: ProcessId, payload: Vec<u8>) -> TxId {
        let deadline = self.now + Duration::from_secs(1000);
        self.send_before(to, payload, deadline)
    }

    pub fn send_before(&mut self, to: ProcessId, payload: Vec<u8>, deadline: Time) -> TxId {
        self.send_over((NI, self.nid), to, payload, deadline)
    }

    /// Sends over the interface with this identifier and NID.
    pub fn send_over(
        &mut self,
        (ni, nid): (NiId, Nid),
        to: ProcessId,
        payload: Vec<u8>,
        deadline: Time,
    ) -> TxId {
        let payload = (!payload.is_empty()).then(|| Source::Shared(payload.into()));
        self.send_source((ni, nid), to, payload, deadline)
    }

    /// Sends any payload over the interface with this identifier and NID.
    pub fn send_source(
        &mut self,
        (ni, nid): (NiId, Nid),
        to: ProcessId,
        payload: Option<Source>,
        deadline: Time,
    ) -> TxId {
        let tx = TxId(self.next_tx);
        self.next_tx += 1;
        let header = put(nid, to.nid, payload.as_ref().map_or(0, Source::len));
        let request = SendRequest {
            tx,
            ni,
            to,
            header,
            payload,
            deadline,
        };
        self.lnd.send(request, self.now, &mut self.upper);
        tx
    }

    pub fn result(&self, tx: TxId) -> Option<Result<(), Failure>> {
        self.upper
            .sent
            .iter()
            .find(|sent| sent.0 == tx)
            .map(|sent| sent.1)
    }

    /// Returns the types of all connections, sorted.
    pub fn types(&self) -> Vec<Ctype> {
        let mut types: Vec<_> = self.lnd.connections().map(|link| link.ctype).collect();
        types.sort();
        types
    }

    pub fn open(&self) -> u64 {
        self.lnd.stats().connections_open
    }
}

pub fn put(src_nid: Nid, dest_nid: Nid, bytes: usize) -> Header {
    Header {
        dest_nid,
        src_nid,
        dest_pid: 12345,
        src_pid: 12345,
        payload_length: u32::try_from(bytes).unwrap(),
        body: Body::Put(Put {
            ack_wmd: Handle::NONE,
            match_bits: 5,
            hdr_data: 6,
            ptl_index: 7,
            offset: 0,
        }),
    }
}

pub fn get(src_nid: Nid, dest_nid: Nid) -> Header {
    Header {
        payload_length: 0,
        body: Body::Get(Get {
            return_wmd: Handle {
                interface: 1,
                object: 2,
            },
            match_bits: 3,
            ptl_index: 0,
            src_offset: 0,
            sink_length: 272,
        }),
        ..put(src_nid, dest_nid, 0)
    }
}

/// Runs nodes in turns until `done` returns true.
pub fn run(nodes: &mut [&mut Node], mut done: impl FnMut(&[&mut Node]) -> bool) {
    let end = Instant::now() + PATIENCE;
    loop {
        for node in nodes.iter_mut() {
            node.turn();
        }
        if done(nodes) {
            return;
        }
        assert!(Instant::now() < end, "waited in vain");
        std::thread::yield_now();
    }
}

/// Runs one node until `done` returns a value.
pub fn until<T>(node: &mut Node, mut done: impl FnMut(&mut Node) -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        node.turn();
        if let Some(value) = done(node) {
            return value;
        }
        assert!(Instant::now() < end, "waited in vain");
        std::thread::yield_now();
    }
}

/// The other end of a connection, played by the test.
pub struct Raw {
    pub stream: TcpStream,
    pub read: Vec<u8>,
    pub closed: bool,
}

impl Raw {
    pub fn new(stream: TcpStream) -> Self {
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            read: Vec::new(),
            closed: false,
        }
    }

    pub fn connect(node: &Node) -> Self {
        Self::new(TcpStream::connect(node.socket_address()).unwrap())
    }

    /// Connects with a receive buffer that is soon full.
    pub fn connect_narrow(node: &Node) -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&node.socket_address().into()).unwrap();
        Self::new(socket.into())
    }

    /// Connects and completes the handshake as the sender of `hello`.
    pub fn establish(node: &mut Node, hello: &Hello) -> Self {
        Self::connect(node).greet(node, hello)
    }

    /// Completes the handshake as the sender of `hello`.
    pub fn greet(self, node: &mut Node, hello: &Hello) -> Self {
        let mut raw = self;
        raw.write(&opening(node.nid, hello));
        let reply = raw.expect(node, hello.version.base_len());
        let reply = Hello::decode(&reply).unwrap().hello;
        assert_eq!(reply.ctype.inverse(), Some(hello.ctype));
        raw
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Reads the bytes that are there.
    pub fn poll(&mut self) {
        let mut buffer = [0; 65536];
        while !self.closed {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.closed = true,
                Ok(count) => self.read.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.closed = true,
            }
        }
    }

    /// Returns the next `count` bytes.
    pub fn expect(&mut self, node: &mut Node, count: usize) -> Vec<u8> {
        until(node, |_| {
            self.poll();
            assert!(
                self.read.len() >= count || !self.closed,
                "closed after {:02x?}",
                self.read
            );
            (self.read.len() >= count).then(|| self.read.drain(..count).collect())
        })
    }

    /// Returns the bytes that the node sends before it closes the connection.
    pub fn expect_close(&mut self, node: &mut Node) -> Vec<u8> {
        until(node, |_| {
            self.poll();
            self.closed.then(|| std::mem::take(&mut self.read))
        })
    }
}

/// Returns a connection request and a HELLO.
pub fn opening(to: Nid, hello: &Hello) -> Vec<u8> {
    let mut bytes = vec![0; Connreq::MAX_LEN + Hello::MAX_LEN];
    let request = Connreq::to(to).encode(&mut bytes).unwrap();
    let len = hello.encode(&mut bytes[request..]).unwrap();
    bytes.truncate(request + len);
    bytes
}

/// Returns the HELLO of an unknown peer.
pub fn hello(to: Nid, ctype: Ctype) -> Hello {
    Hello::dial("10.9.9.9@tcp".parse().unwrap(), to, 77, ctype)
}

/// Returns a frame with its LNet header and payload.
pub fn frame(cookie: u64, header: &Header, payload: &[u8]) -> Vec<u8> {
    let frame_header = KsockHeader {
        cookies: [cookie, 0],
        ..KsockHeader::LNET
    };
    let mut bytes = frame_header.to_bytes().to_vec();
    bytes.resize(24 + 72, 0);
    header.encode(HeaderForm::Nid4, &mut bytes[24..]).unwrap();
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns a listener at the address of a peer, and the peer's NID.
pub fn raw_peer() -> (TcpListener, Nid) {
    let address = address();
    let listener = TcpListener::bind((address, PORT)).unwrap();
    listener.set_nonblocking(true).unwrap();
    (listener, Nid::from_ip(Net::tcp(0), address))
}

/// Returns the NID of a peer whose connections nobody accepts, and what keeps its backlog full.
pub fn full_peer() -> ((TcpListener, Vec<TcpStream>), Nid) {
    let address = address();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let place = SocketAddr::new(address, PORT);
    socket.bind(&place.into()).unwrap();
    socket.listen(1).unwrap();
    let connect = |_| TcpStream::connect_timeout(&place, Duration::from_millis(200)).ok();
    let streams = (0..16).map_while(connect).collect();
    let nid = Nid::from_ip(Net::tcp(0), address);
    ((socket.into(), streams), nid)
}

pub fn accept(node: &mut Node, listener: &TcpListener) -> Raw {
    until(node, |_| {
        listener.accept().ok().map(|(stream, _)| Raw::new(stream))
    })
}

pub fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n % 251) as u8).collect()
}

/// Makes a CONTROL connection from a peer to the node.
pub fn control(node: &mut Node) -> Raw {
    let hello = hello(node.nid, Ctype::CONTROL);
    Raw::establish(node, &hello)
}

//! A proxy between the checker and a node, which changes the bytes of either.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;

use lnet_wire::{ACCEPTOR_MAGIC, KsockHeader};
use socket2::{Domain, Socket, Type};

/// A unit of the node's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// The rejection of a connection request.
    Rejection,
    /// A HELLO of version 2 or 3.
    Hello,
    /// A frame without a message.
    Noop,
    /// A frame with a message.
    Message,
    /// The end of a connection without any output.
    SilentEnd,
    /// The end of any other connection.
    End,
}

/// The position of a unit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// The number of its connection, from 0.
    pub(crate) connection: usize,
    /// Its number among the messages of the connection, from 0.
    pub(crate) message: usize,
    /// The type in the node's HELLO.
    pub(crate) ctype: u32,
}

/// A defect of a node.
#[derive(Clone, Copy)]
pub(crate) struct Defect {
    /// The defect, in a sentence.
    pub(crate) name: &'static str,
    /// The checks that must fail.
    pub(crate) fails: &'static [&'static str],
    /// Changes the node's output.
    pub(crate) said: fn(Unit, Place, &mut Vec<u8>),
    /// Changes the node's input, in pieces as they arrive, each of which begins with a structure.
    pub(crate) heard: fn(&mut Vec<u8>),
    /// Whether the node's end of a connection reaches the checker.
    pub(crate) ends: fn(Unit, Place) -> bool,
    /// Whether the checker's end of a connection reaches the node.
    pub(crate) hears_end: bool,
}

/// The networks of proxies and of checkers: each has an address of its own, because all use the node's port.
const PROXIES: [u8; 2] = [127, 1];
const CHECKERS: [u8; 2] = [127, 2];

/// Returns a loopback address that nobody else has.
fn next_address([a, b]: [u8; 2]) -> Ipv4Addr {
    static NUMBER: AtomicU16 = AtomicU16::new(1);
    let [c, d] = NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    Ipv4Addr::new(a, b, c, d)
}

/// Returns an address for a checker.
pub(crate) fn checker() -> Ipv4Addr {
    next_address(CHECKERS)
}

/// Returns an address for a proxy in front of a node with this port, which the node dials, too.
pub(crate) fn proxy(port: u16) -> SocketAddr {
    SocketAddr::from((next_address(PROXIES), port))
}

/// A proxy in front of a node.
pub(crate) struct Proxy {
    address: SocketAddr,
}

impl Proxy {
    /// Starts a proxy that runs until the process ends.
    pub(crate) fn start(node: SocketAddr, defect: &Defect) -> Self {
        let address = proxy(node.port());
        let listener = TcpListener::bind(address).unwrap();
        let defect = *defect;
        thread::spawn(move || {
            for (connection, checker) in listener.incoming().map_while(Result::ok).enumerate() {
                let node = connect_from(checker.peer_addr().unwrap().ip(), node);
                let place = Place {
                    connection,
                    ..Place::default()
                };
                join(&checker, &node, defect, place);
            }
        });
        Self { address }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Connects from the checker's address: a peer with another address than its NID's is another peer.
pub(crate) fn connect_from(own: IpAddr, node: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::for_address(node), Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(own, 0).into()).unwrap();
    socket.connect(&node.into()).unwrap();
    socket.into()
}

fn join(checker: &TcpStream, node: &TcpStream, defect: Defect, place: Place) {
    for stream in [checker, node] {
        stream.set_nodelay(true).unwrap();
    }
    let [to_node, from_node] = [node, node].map(|stream| stream.try_clone().unwrap());
    let [to_checker, from_checker] = [checker, checker].map(|stream| stream.try_clone().unwrap());
    thread::spawn(move || hear(from_checker, to_node, defect));
    thread::spawn(move || say(from_node, to_checker, defect, place));
}

/// Forwards the checker's bytes to the node.
fn hear(mut from: TcpStream, mut to: TcpStream, defect: Defect) {
    let mut room = vec![0; 1 << 16];
    loop {
        match from.read(&mut room) {
            Ok(count) if count > 0 => {
                let mut bytes = room[..count].to_vec();
                (defect.heard)(&mut bytes);
                if to.write_all(&bytes).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    if defect.hears_end {
        let _closed = to.shutdown(Shutdown::Write);
    }
}

/// Forwards the node's units to the checker.
fn say(mut from: TcpStream, mut to: TcpStream, defect: Defect, mut place: Place) {
    let mut spoke = false;
    while let Some((unit, mut bytes)) = unit(&mut from, spoke) {
        spoke = true;
        if unit == Unit::Hello {
            place.ctype = u32::from_le_bytes(bytes[48..52].try_into().unwrap());
        }
        (defect.said)(unit, place, &mut bytes);
        place.message += usize::from(unit == Unit::Message);
        if to.write_all(&bytes).is_err() {
            return;
        }
    }
    let end = if spoke { Unit::End } else { Unit::SilentEnd };
    let mut bytes = Vec::new();
    (defect.said)(end, place, &mut bytes);
    let _gone = to.write_all(&bytes);
    if (defect.ends)(end, place) {
        let _closed = to.shutdown(Shutdown::Write);
    }
}

/// The next unit of a healthy node; `None` at the end.
fn unit(from: &mut TcpStream, spoke: bool) -> Option<(Unit, Vec<u8>)> {
    let mut bytes = exactly(from, 4)?;
    let word = u32::from_le_bytes(bytes[..].try_into().unwrap());
    if !spoke {
        let (unit, length) = if word == ACCEPTOR_MAGIC {
            (Unit::Rejection, 16)
        } else {
            (Unit::Hello, 56)
        };
        bytes.extend(exactly(from, length - 4)?);
        return Some((unit, bytes));
    }
    bytes.extend(exactly(from, KsockHeader::LEN - 4)?);
    if word == 0xC0 {
        return Some((Unit::Noop, bytes));
    }
    bytes.extend(exactly(from, 72)?);
    let payload = u32::from_le_bytes(bytes[52..56].try_into().unwrap());
    bytes.extend(exactly(from, payload as usize)?);
    Some((Unit::Message, bytes))
}

fn exactly(from: &mut TcpStream, count: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; count];
    from.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

//! A node with a planted weakness: while an attack goes on, or since it did, the node serves no new peer.
//!
//! ```text
//!   checker ─▶ accept: all that has arrived is counted ─┬─ overwhelmed ─▶ closed
//!                                                       └─ else: hear, counted ─▶ node ─▶ checker
//! ```

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use socket2::SockRef;

use crate::proxy::{connect_from, proxy};

/// A weakness of a node.
#[derive(Clone, Copy)]
pub(crate) struct Weakness {
    /// The weakness, in a sentence.
    pub(crate) name: &'static str,
    /// The attack that must fail.
    pub(crate) fails: &'static str,
    /// Returns whether the node serves no new peer.
    overwhelmed: fn(&[Heard]) -> bool,
}

/// What was heard on one connection.
#[derive(Clone, Default)]
pub(crate) struct Heard {
    is_open: bool,
    /// The first bytes: request, HELLO and the header of the first message.
    head: Vec<u8>,
    bytes: usize,
}

/// The length of a connection request.
const REQUEST: usize = 16;
/// The length of a connection request and a HELLO.
const HANDSHAKE: usize = REQUEST + 56;
/// The position of the type of the first message.
const FIRST_TYPE: usize = HANDSHAKE + 48;
const REPLY: u8 = 3;
/// Connections that a weak node serves, and bytes that it takes from one peer.
const PLACES: usize = 32;
const BYTES: usize = 64 << 10;

impl Heard {
    /// Returns whether a place is taken by a connection of which no more than this was heard.
    fn is_held_with(&self, most: usize) -> bool {
        self.is_open && self.bytes <= most
    }

    fn is_junk(&self) -> bool {
        let magic = lnet_wire::ACCEPTOR_MAGIC.to_le_bytes();
        self.head.get(..4).is_some_and(|head| head != magic)
    }
}

fn held(all: &[Heard], most: usize) -> bool {
    all.iter().filter(|heard| heard.is_held_with(most)).count() >= PLACES
}

pub(crate) const WEAKNESSES: [Weakness; 6] = [
    Weakness {
        name: "waits for requests in all of its places",
        fails: "half-open",
        overwhelmed: |all| held(all, 0),
    },
    Weakness {
        name: "waits for the rest of handshakes in all of its places",
        fails: "half-hello",
        overwhelmed: |all| held(all, HANDSHAKE - 1),
    },
    Weakness {
        name: "never gives a place back",
        fails: "connect-flood",
        overwhelmed: |all| all.len() > 8 * PLACES,
    },
    Weakness {
        name: "serves one peer at a time while it sends much",
        fails: "unread-replies",
        overwhelmed: |all| all.iter().any(|one| one.is_open && one.bytes >= BYTES),
    },
    Weakness {
        name: "breaks at an answer that it did not ask for",
        fails: "forged-answers",
        overwhelmed: |all| {
            let first = |heard: &Heard| heard.head.get(FIRST_TYPE).copied();
            all.iter().any(|heard| first(heard) == Some(REPLY))
        },
    },
    Weakness {
        name: "breaks at what is no request",
        fails: "garbage",
        overwhelmed: |all| all.iter().any(Heard::is_junk),
    },
];

type Seen = Arc<Mutex<Vec<Heard>>>;

fn lock(seen: &Seen) -> MutexGuard<'_, Vec<Heard>> {
    seen.lock().unwrap()
}

/// Starts a weak node in front of a node, until the process ends. Returns its address.
pub(crate) fn start(node: SocketAddr, weakness: Weakness) -> SocketAddr {
    let address = proxy(node.port());
    let listener = TcpListener::bind(address).unwrap();
    thread::spawn(move || {
        let seen = Seen::default();
        let mut streams: Vec<TcpStream> = Vec::new();
        for checker in listener.incoming().map_while(Result::ok) {
            wait_until_counted(&streams, &seen);
            let number = lock(&seen).len();
            let is_weak = (weakness.overwhelmed)(&lock(&seen));
            lock(&seen).push(Heard {
                is_open: !is_weak,
                ..Heard::default()
            });
            streams.push(checker.try_clone().unwrap());
            if is_weak {
                let _gone = checker.shutdown(Shutdown::Both);
            } else {
                serve(checker, node, number, &seen);
            }
        }
    });
    address
}

/// Waits until what has arrived is counted, so that an attack that was made before a connection is known. A connection
/// with enough bytes may wait for the node.
fn wait_until_counted(streams: &[TcpStream], seen: &Seen) {
    for (number, stream) in streams.iter().enumerate() {
        let is_known = || {
            let heard = lock(seen)[number].clone();
            !heard.is_open || heard.bytes >= BYTES || !has_input(stream)
        };
        while !is_known() {
            thread::yield_now();
        }
    }
}

/// Returns whether bytes wait to be read.
fn has_input(stream: &TcpStream) -> bool {
    // MSG_PEEK and MSG_DONTWAIT of Linux.
    let flags = 0x02 | 0x40;
    let mut room = [MaybeUninit::uninit()];
    SockRef::from(stream)
        .recv_with_flags(&mut room, flags)
        .is_ok_and(|count| count > 0)
}

fn serve(checker: TcpStream, node: SocketAddr, number: usize, seen: &Seen) {
    let node = connect_from(checker.peer_addr().unwrap().ip(), node);
    let [mut from_node, to_node] = [node.try_clone().unwrap(), node];
    let mut to_checker = checker.try_clone().unwrap();
    thread::spawn(move || {
        // The end of a connection is the end of its forwarding.
        let _ended = io::copy(&mut from_node, &mut to_checker);
        let _closed = to_checker.shutdown(Shutdown::Write);
    });
    let seen = Arc::clone(seen);
    thread::spawn(move || {
        let _ended = hear(checker, to_node, number, &seen);
        lock(&seen)[number].is_open = false;
    });
}

/// Forwards what the checker sends; all of it is counted before it is taken.
fn hear(mut from: TcpStream, mut to: TcpStream, number: usize, seen: &Seen) -> io::Result<()> {
    let mut room = vec![0; 1 << 16];
    loop {
        let count = from.peek(&mut room)?;
        if count == 0 {
            return to.shutdown(Shutdown::Write);
        }
        let mut all = lock(seen);
        let heard = &mut all[number];
        let rest = (FIRST_TYPE + 1).saturating_sub(heard.head.len());
        heard.head.extend_from_slice(&room[..count.min(rest)]);
        heard.bytes += count;
        drop(all);
        from.read_exact(&mut room[..count])?;
        to.write_all(&room[..count])?;
    }
}

//! The state of the method, under one lock: peers, links, operations in flight.
//!
//! ```text
//!  send, short      EAGER ─────────────────────▶ matched on arrival, else kept till it is
//!  send, long       REQUEST ───────────────────▶ matched: READY ─▶ DATA into the posted memory
//!                                                too short: REFUSE
//!  unexpected       UNEXPECTED ────────────────▶ kept till somebody tests for it
//! ```
//!
//! When a link fails, everything in flight on it fails, and with a peer's last link every receive from that
//! peer. Messages that had arrived completely stay, because their sends have already completed with success;
//! for the same reason a link that can no longer be written is read to its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use mio::{Interest, Registry, Token};
use rustc_hash::FxHashMap;
use socket2::SockRef;
use sys::span::Span;

use super::counters::{Counter, Counters};
use super::endpoint::{Endpoint, Listener, Socket};
use super::held::{Allowance, Held};
use super::link::{Frame, Link, LinkId, Waiting};
use super::name::Name;
use super::queue::TagQueues;
use super::quiet::Quiet;
use super::wire::{FrameKind, Header, VERSION};
use crate::error::Error;
use crate::id::{OpId, Tag};
use crate::method::{Completions, Peer, Received};

/// The token of the listening socket. The token of a link is its index in the table of links.
pub(crate) const LISTENER: Token = Token(usize::MAX - 1);
/// The most connections at a time. A further connection replaces one without a HELLO; if there is none, it is
/// closed.
const LINKS_MAX: usize = 4096;
/// The most peers that are known without having been looked up. Programs drop the addresses of peers that
/// have left.
const PEERS_MAX: usize = 1 << 16;

/// The state of the method.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) registry: Registry,
    pub(crate) listener: Option<Listener>,
    pub(crate) completions: Completions,
    pub(crate) counters: Arc<Counters>,
    /// Limits the memory of messages that nobody has collected.
    pub(crate) allowance: Allowance,
    pub(crate) links: Vec<Option<Link>>,
    pub(crate) free_links: Vec<usize>,
    pub(crate) peers: FxHashMap<u64, PeerState>,
    by_remote: FxHashMap<Endpoint, u64>,
    /// Peers whose names could not be resolved yet.
    early: FxHashMap<u64, Name>,
    /// Peers whose names turned out to be those of another peer, and that peer.
    aliases: FxHashMap<u64, u64>,
    next_peer: u64,
    /// Where each pending operation is, for cancel.
    pub(crate) places: FxHashMap<OpId, Place>,
    pub(crate) next_receive: u64,
    next_link: u64,
    /// Unexpected messages by class.
    pub(crate) unexpected: FxHashMap<u8, VecDeque<Message>>,
    pub(crate) unexpected_count: usize,
    /// Completed operations that are not yet reported.
    pub(crate) done: Vec<(OpId, Result<usize, Error>)>,
    /// Links that may have more to read.
    pub(crate) ready: VecDeque<usize>,
    pub(crate) buffers: SocketBuffers,
    pub(crate) quiet: Quiet,
    /// Whether the next accept may succeed.
    pub(crate) acceptable: bool,
}

/// Sizes of the sockets' buffers in bytes, if the program has chosen them. Otherwise the system adapts them
/// to the traffic.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SocketBuffers {
    send: Option<usize>,
    receive: Option<usize>,
}

impl SocketBuffers {
    /// Sets the send size of future sockets; 0 leaves it to the system.
    // [TCP-9]
    pub(crate) fn choose_send(&mut self, len: usize) {
        self.send = (len > 0).then_some(len);
    }

    /// Sets the receive size of future sockets; 0 leaves it to the system.
    pub(crate) fn choose_receive(&mut self, len: usize) {
        self.receive = (len > 0).then_some(len);
    }

    /// Prepares a socket that is about to dial. The side that dials chooses the sizes. Once a connection is
    /// made, the kernel would send segments as long as half the window that it has seen, and a smaller buffer
    /// would stop it at each of them.
    fn apply(self, socket: &SockRef<'_>) {
        let buffers = [
            self.send.map(|len| socket.set_send_buffer_size(len)),
            self.receive.map(|len| socket.set_recv_buffer_size(len)),
        ];
        buffers.into_iter().flatten().for_each(note);
        tune(socket);
    }
}

/// Sets the options of every socket.
fn tune(socket: &SockRef<'_>) {
    note(socket.set_tcp_nodelay(true));
    note(socket.set_keepalive(true));
}

/// Logs an option that could not be set; the socket works without.
fn note(result: std::io::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "cannot set a socket option");
    }
}

/// A peer.
#[derive(Debug)]
pub(crate) struct PeerState {
    /// The address on which the peer listens, if it does.
    pub(crate) remote: Option<Endpoint>,
    /// The origin of the peer's connection.
    pub(crate) seen: Option<Endpoint>,
    /// The link to send on. If both sides dialled at once there is a second link, which is used for receiving
    /// only, so each direction keeps its order.
    pub(crate) link: Option<usize>,
    pub(crate) receives: TagQueues<Waiting>,
    pub(crate) arrivals: TagQueues<Arrival>,
    /// Whether the interface knows the peer.
    pub(crate) announced: bool,
}

/// An expected message that no receive has matched.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// The message is stored here.
    Eager {
        link: LinkId,
        data: Span,
        _held: Option<Held>,
    },
    /// The message waits at its sender.
    Request {
        link: usize,
        token: u64,
        length: usize,
        _held: Held,
    },
}

/// An unexpected message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) link: LinkId,
    pub(crate) received: Received,
    pub(crate) _held: Option<Held>,
}

/// Where a pending operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A receive that nothing has matched.
    Receive { peer: u64, tag: Tag },
    /// A send that waits for a window.
    Backlog { link: usize },
    /// A send that was announced.
    Requested { link: usize, token: u64 },
    /// An eager or unexpected send in the queue of frames.
    Queued { link: usize },
    /// An operation whose data moves.
    Claimed,
}

impl State {
    pub(crate) fn new(
        registry: Registry,
        listener: Option<Listener>,
        completions: Completions,
        counters: Arc<Counters>,
        allowance: Allowance,
    ) -> State {
        State {
            registry,
            listener,
            completions,
            counters,
            allowance,
            links: Vec::new(),
            free_links: Vec::new(),
            peers: FxHashMap::default(),
            by_remote: FxHashMap::default(),
            early: FxHashMap::default(),
            aliases: FxHashMap::default(),
            next_peer: 1,
            places: FxHashMap::default(),
            next_receive: 0,
            next_link: 0,
            unexpected: FxHashMap::default(),
            unexpected_count: 0,
            done: Vec::new(),
            ready: VecDeque::new(),
            buffers: SocketBuffers::default(),
            quiet: Quiet::default(),
            acceptable: true,
        }
    }

    /// Returns the peer of an address that a program looked up.
    pub(crate) fn looked_up(&mut self, remote: Endpoint) -> u64 {
        let peer = self.peer_at(remote);
        if let Some(state) = self.peers.get_mut(&peer) {
            state.announced = true;
        }
        peer
    }

    /// Returns the peer that listens at an address.
    pub(crate) fn peer_at(&mut self, remote: Endpoint) -> u64 {
        if let Some(&known) = self.by_remote.get(&remote) {
            return known;
        }
        let peer = self.add_peer(Some(remote.clone()), None);
        self.by_remote.insert(remote, peer);
        peer
    }

    pub(crate) fn add_peer(&mut self, remote: Option<Endpoint>, seen: Option<Endpoint>) -> u64 {
        let peer = self.next_peer;
        self.next_peer += 1;
        let state = PeerState {
            remote,
            seen,
            link: None,
            receives: TagQueues::default(),
            arrivals: TagQueues::default(),
            announced: false,
        };
        self.peers.insert(peer, state);
        peer
    }

    pub(crate) fn has_room_for_peers(&self) -> bool {
        self.peers.len() < PEERS_MAX
    }

    /// Returns the peer of a name that cannot be resolved yet.
    pub(crate) fn looked_up_early(&mut self, name: Name) -> u64 {
        let peer = self.next_peer;
        self.next_peer += 1;
        self.early.insert(peer, name);
        peer
    }

    /// Returns the name of a peer that is still to be resolved.
    pub(crate) fn early(&self, peer: u64) -> Option<Name> {
        self.early.get(&peer).cloned()
    }

    /// Records the address of a resolved name; several threads may resolve the same name at once. If the
    /// address belongs to a known peer, the name becomes an alias of that peer.
    pub(crate) fn resolved(&mut self, peer: u64, remote: Endpoint) {
        if self.early.remove(&peer).is_some() {
            let known = self.looked_up(remote);
            self.aliases.insert(peer, known);
        }
    }

    /// Returns the number under which a peer is known, after aliases.
    pub(crate) fn known_as(&self, peer: u64) -> u64 {
        self.aliases.get(&peer).copied().unwrap_or(peer)
    }

    pub(crate) fn peer(&self, peer: u64) -> Option<&PeerState> {
        self.peers.get(&self.known_as(peer))
    }

    /// Returns the port that this process listens on; 0 if it does not listen.
    pub(crate) fn port(&self) -> u16 {
        self.listener.as_ref().map_or(0, Listener::port)
    }

    /// Returns the link to send on, and dials if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::ConnReset`]: the peer does not listen and its connection is gone. [`Error::Inval`]: no such
    /// peer. Immediate errors of dialling.
    // [TCP-4]
    pub(crate) fn link_to(&mut self, peer: u64) -> Result<usize, Error> {
        let state = self.peers.get(&peer).ok_or(Error::Inval)?;
        let whole = |&index: &usize| {
            let link = self.links.get(index).and_then(Option::as_ref);
            link.is_some_and(|link| link.broken.is_none())
        };
        if let Some(link) = state.link.filter(whole) {
            return Ok(link);
        }
        let remote = state.remote.as_ref().ok_or(Error::ConnReset)?;
        let socket = Socket::connect(remote, |socket| self.buffers.apply(socket))?;
        let link = self.add_link(Link::dialled(socket, peer))?;
        if let Some(state) = self.peers.get_mut(&peer) {
            state.link = Some(link);
        }
        Ok(link)
    }

    /// Accepts all waiting connections.
    pub(crate) fn accept(&mut self) {
        while self.acceptable
            && let Some(listener) = &self.listener
        {
            match listener.accept() {
                Ok((socket, seen)) => {
                    self.counters.add(Counter::Accepted);
                    tune(&SockRef::from(&socket));
                    if self.make_room() && self.add_link(Link::accepted(socket, seen)).is_ok() {
                        continue;
                    }
                    self.counters.add(Counter::Refused);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.acceptable = false;
                }
                // Either one connection went away while it waited, or the descriptors are used up. The next
                // arrival tries again.
                Err(error) => {
                    if let Some(suppressed) = self.quiet.admit("accept", Instant::now()) {
                        tracing::warn!(%error, suppressed, "cannot accept a connection");
                    }
                    self.counters.add(Counter::Refused);
                    self.acceptable = error.kind() == std::io::ErrorKind::Interrupted;
                }
            }
        }
    }

    /// Returns whether one more link may be made. If the table is full, closes a link that has not received a
    /// HELLO.
    // [TCP-24]
    fn make_room(&mut self) -> bool {
        if self.links.len() - self.free_links.len() < LINKS_MAX {
            return true;
        }
        let mute = |link: &Option<Link>| {
            link.as_ref()
                .is_some_and(|link| !link.greeted && link.peer.is_none())
        };
        let Some(index) = self.links.iter().position(mute) else {
            return false;
        };
        self.fail(index, Error::ConnReset);
        true
    }

    /// Registers a link and sends HELLO to its peer.
    // [TCP-2]
    fn add_link(&mut self, mut link: Link) -> Result<usize, Error> {
        let index = self.free_links.pop().unwrap_or(self.links.len());
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self
            .registry
            .register(&mut link.socket, Token(index), interest)
        {
            if index < self.links.len() {
                self.free_links.push(index);
            }
            return Err(error.into());
        }
        let greeting = Header {
            tag: VERSION,
            token: u64::from(self.port()),
            ..Header::new(FrameKind::Hello)
        };
        link.outbound.push_back(Frame::control(greeting));
        if index == self.links.len() {
            self.links.push(None);
        }
        link.id = LinkId {
            index,
            number: self.next_link,
        };
        self.next_link += 1;
        let connected = link.connected;
        self.links[index] = Some(link);
        if connected {
            self.flush(index);
            self.ready.push_back(index);
        }
        Ok(index)
    }

    /// Puts a frame into a link's queue and writes as much as possible.
    pub(crate) fn enqueue(&mut self, index: usize, frame: Frame) {
        if let Some(link) = &mut self.links[index] {
            link.outbound.push_back(frame);
        }
        self.flush(index);
    }

    pub(crate) fn flush(&mut self, index: usize) {
        let State { links, done, .. } = self;
        let Some(link) = &mut links[index] else {
            return;
        };
        if let Err(error) = link.flush(done) {
            self.break_off(index, error);
        }
    }

    /// Stops sending on a link that cannot be written any more, and fails its sends. What the peer sent
    /// before it ended may still be unread; the link fails once that is read.
    // [TCP-31]
    fn break_off(&mut self, index: usize, error: Error) {
        let Some(link) = &mut self.links[index] else {
            return;
        };
        link.broken = Some(error);
        link.readable = true;
        link.ending = true;
        for op in link.unsent() {
            self.done.push((op, Err(error)));
        }
        if !self.ready.contains(&index) {
            self.ready.push_back(index);
        }
    }

    /// Reports completed operations. Returns whether there were any.
    pub(crate) fn report_done(&mut self) -> bool {
        let any = !self.done.is_empty();
        for (op, result) in self.done.drain(..) {
            self.places.remove(&op);
            self.completions.complete(op, result);
        }
        any
    }

    /// Closes a link and fails everything in flight to or from its peer.
    pub(crate) fn fail(&mut self, index: usize, error: Error) {
        let Some(mut link) = self.links[index].take() else {
            return;
        };
        self.free_links.push(index);
        // Closing the descriptor below also deregisters it.
        let _ = self.registry.deregister(&mut link.socket);
        let peer = link.peer;
        self.fail_operations(link, error);
        let Some(peer) = peer else {
            return;
        };
        let other = self
            .links
            .iter()
            .position(|link| link.as_ref().is_some_and(|link| link.peer == Some(peer)));
        let Some(state) = self.peers.get_mut(&peer) else {
            return;
        };
        // The messages may come on the other link.
        if other.is_none() {
            for waiting in state.receives.drain(|_| true) {
                self.done.push((waiting.op, Err(error)));
            }
        }
        let asked =
            |arrival: &Arrival| matches!(arrival, Arrival::Request { link, .. } if *link == index);
        state.arrivals.drain(asked);
        if state.link == Some(index) {
            state.link = other;
        }
        if !state.announced && state.link.is_none() {
            let gone = self.peers.remove(&peer);
            if let Some(remote) = gone.and_then(|state| state.remote) {
                self.by_remote.remove(&remote);
            }
        }
    }

    // [TCP-30]
    fn fail_operations(&mut self, mut link: Link, error: Error) {
        let sent = link.unsent();
        let Link {
            inbound, receiving, ..
        } = link;
        let granted = receiving
            .granted
            .into_values()
            .map(|granted| granted.waiting.op);
        let reading = inbound.body.and_then(|body| match body.then {
            super::link::Then::Receive(op) => Some(op),
            _ => None,
        });
        for op in sent.into_iter().chain(granted).chain(reading) {
            self.done.push((op, Err(error)));
        }
    }

    /// Forgets a peer.
    pub(crate) fn forget(&mut self, peer: u64) {
        if self.early.remove(&peer).is_some() || self.aliases.remove(&peer).is_some() {
            // The program may know the peer by another name.
            return;
        }
        self.disconnect(peer, Error::ConnReset);
        if let Some(state) = self.peers.remove(&peer) {
            if let Some(remote) = state.remote {
                self.by_remote.remove(&remote);
            }
            let mut receives = state.receives;
            for waiting in receives.drain(|_| true) {
                self.done.push((waiting.op, Err(Error::ConnReset)));
            }
        }
    }

    /// Closes every link with a peer.
    pub(crate) fn disconnect(&mut self, peer: u64, error: Error) {
        for index in 0..self.links.len() {
            let of_peer = |link: &Link| link.peer == Some(peer);
            if self.links[index].as_ref().is_some_and(of_peer) {
                self.fail(index, error);
            }
        }
    }

    /// Closes everything except the connections, which it returns.
    pub(crate) fn close(&mut self) -> Vec<Socket> {
        let links = self.links.drain(..).flatten();
        let sockets = links.map(|link| link.socket).collect();
        self.free_links.clear();
        self.ready.clear();
        self.listener = None;
        self.peers.clear();
        self.by_remote.clear();
        self.early.clear();
        self.aliases.clear();
        self.places.clear();
        self.unexpected.clear();
        self.unexpected_count = 0;
        self.done.clear();
        sockets
    }

    /// Returns the name of a peer: where it listens, or where its connection comes from.
    pub(crate) fn name(&self, peer: Peer) -> String {
        if let Some(name) = self.early.get(&peer.0) {
            return name.to_string();
        }
        let state = self.peer(peer.0);
        match state.and_then(|state| state.remote.as_ref().or(state.seen.as_ref())) {
            Some(address) => address.to_string(),
            None => format!("tcp://#{}", peer.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the buffer sizes of a new socket, tuned or not.
    fn sizes(buffers: Option<SocketBuffers>) -> (usize, usize) {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        if let Some(buffers) = buffers {
            buffers.apply(&SockRef::from(&socket));
        }
        (
            socket.send_buffer_size().unwrap(),
            socket.recv_buffer_size().unwrap(),
        )
    }

    // [TCP-9]
    #[test]
    fn a_buffer_size_of_zero_is_the_systems_default() {
        let mut buffers = SocketBuffers::default();
        buffers.choose_send(8192);
        buffers.choose_receive(8192);
        let default = sizes(None);
        assert_ne!(sizes(Some(buffers)), default);
        buffers.choose_send(0);
        buffers.choose_receive(0);
        assert_eq!(sizes(Some(buffers)), default);
    }
}

//! Virtual RDMA devices on a virtual fabric, for tests and simulators.
//!
//! The fabric checks what hardware checks (keys, ranges, receive buffers), and what hardware cannot: that no device
//! touches memory that its owner has taken back. Messages of one connection keep their order; everything else happens
//! in an order that a seed decides. A device goes on to write until a closed connection is drained, and a broken
//! connection loses completions of messages that arrived.
//!
//! ```text
//!   O2iblnd ──▶ VirtualDevice ──▶ Fabric: queue pairs, keys, CM messages ──▶ Fabric::step ──▶ event of a node
//! ```

mod memory;
mod virtual_device;
mod world;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::rc::Rc;

use lnet_types::SplitMix64;

pub use memory::VirtualMemory;
pub use virtual_device::VirtualDevice;
pub use world::{NI, Node, Program, World, address, nid, payload};

use crate::device::{
    CompletionError, ConnId, ConnectFailure, MappingId, PortState, RequestId, Sink, Source, Write,
};
pub use crate::event::Event;

/// The port that nodes dial from.
const SOURCE_PORT: u16 = 1023;

/// Bytes of private data as librdmacm gives it out, padded with zeros: of a rejection and of a reply.
const REJECT_LEN: usize = 148;
const REPLY_LEN: usize = 196;

/// A connection's end at a node.
type Place = (usize, ConnId);

/// The other end of a connection whose node is gone. No node has this number.
const NOWHERE: Place = (usize::MAX, ConnId(0));

#[derive(Debug)]
struct Posted {
    writes: Vec<Write>,
    message: Vec<u8>,
    ticket: u64,
}

#[derive(Debug, Default)]
struct Queues {
    peer: Option<Place>,
    target: Option<Ipv4Addr>,
    sends: VecDeque<Posted>,
    receives: VecDeque<u32>,
    events: VecDeque<Event>,
    is_closing: bool,
    is_broken: bool,
    is_drained: bool,
}

#[derive(Debug)]
enum CmMessage {
    Request(Place, Vec<u8>),
    Reply(Place, Place, Vec<u8>),
    Ready(Place),
    Reject(Place, ConnectFailure, Vec<u8>),
}

struct Registration {
    node: usize,
    memory: Memory,
    /// The same memory, if it knows whether it is lent.
    lent: Option<VirtualMemory>,
    rkey: u32,
    base: u64,
}

/// Registered memory, for one direction.
enum Memory {
    Source(Box<dyn Source>),
    Sink(Box<dyn Sink>),
}

impl Registration {
    fn is_lent(&self) -> bool {
        self.lent.as_ref().is_none_or(VirtualMemory::is_lent)
    }

    /// Returns a part of a source; `None` if the part is not inside.
    fn read(&self, start: usize, len: usize) -> Option<Vec<u8>> {
        let Memory::Source(source) = &self.memory else {
            return None;
        };
        let mut bytes = vec![0; source.len()];
        source.copy_out(&mut bytes);
        Some(bytes.get(start..start.checked_add(len)?)?.to_vec())
    }

    /// Writes to a place of a sink. Returns false, and changes nothing, if the place is not inside.
    fn write(&self, address: u64, bytes: &[u8]) -> bool {
        let at = address.checked_sub(self.base);
        let at = at.and_then(|at| usize::try_from(at).ok());
        match (&self.memory, at) {
            (Memory::Sink(sink), Some(at))
                if at
                    .checked_add(bytes.len())
                    .is_some_and(|end| end <= sink.len()) =>
            {
                sink.copy_in(at, bytes);
                true
            }
            _ => false,
        }
    }
}

struct Inner {
    addresses: BTreeMap<Ipv4Addr, usize>,
    listening: BTreeSet<Ipv4Addr>,
    /// Addresses whose port is down.
    down: BTreeSet<Ipv4Addr>,
    queues: BTreeMap<Place, Queues>,
    requests: BTreeMap<RequestId, Place>,
    registrations: BTreeMap<MappingId, Registration>,
    /// Events that nodes have not taken yet, of [`Fabric::advance`].
    inboxes: BTreeMap<usize, VecDeque<Event>>,
    cm: VecDeque<CmMessage>,
    news: VecDeque<(usize, Event)>,
    cut: BTreeSet<usize>,
    random: SplitMix64,
    next: u64,
    pieces: u32,
    unmappable: u32,
    written: u64,
    violations: Vec<String>,
}

/// A fabric. Clones are the same fabric.
#[derive(Clone)]
pub struct Fabric(Rc<RefCell<Inner>>);

/// Something that can happen next.
#[derive(Clone, Copy)]
enum Move {
    Deliver(Place),
    Send(Place),
    Drain(Place),
    Cm(usize),
    News,
}

impl Fabric {
    /// Makes a fabric without nodes. `seed` decides the order of what happens.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            addresses: BTreeMap::new(),
            listening: BTreeSet::new(),
            down: BTreeSet::new(),
            queues: BTreeMap::new(),
            requests: BTreeMap::new(),
            registrations: BTreeMap::new(),
            inboxes: BTreeMap::new(),
            cm: VecDeque::new(),
            news: VecDeque::new(),
            cut: BTreeSet::new(),
            random: SplitMix64::new(seed),
            next: 1,
            pieces: 1,
            unmappable: 0,
            written: 0,
            violations: Vec::new(),
        })))
    }

    /// Adds a device of a node at an address.
    #[must_use]
    pub fn device(&self, node: usize, address: Ipv4Addr) -> VirtualDevice {
        self.add_address(node, address);
        self.device_for(node)
    }

    /// Returns a device of a node for memory of these types, at the addresses that it is given.
    #[must_use]
    pub fn device_for<S, K>(&self, node: usize) -> VirtualDevice<S, K> {
        VirtualDevice::new(self.clone(), node)
    }

    /// Gives the device of a node an address.
    pub fn add_address(&self, node: usize, address: Ipv4Addr) {
        self.0.borrow_mut().addresses.insert(address, node);
    }

    /// Takes a node away with everything that it had. With `tells`, the other ends of its connections hear of it, as they
    /// do if a program ends and not if a machine loses its power.
    pub fn vanish(&self, node: usize, tells: bool) {
        self.0.borrow_mut().vanish(node, tells);
    }

    /// Breaks some connections of a node, each with the chance of one in `one_in`.
    pub fn break_some(&self, node: usize, one_in: u64) {
        let mut inner = self.0.borrow_mut();
        for place in inner.open_places(node) {
            if inner.random.below(one_in.max(1)) == 0 {
                inner.break_end(place, CompletionError::Flushed, true);
            }
        }
    }

    /// Moves something, and leaves the event for the device of its node. Returns the node; `None` if nothing can happen.
    #[must_use]
    pub fn advance(&self) -> Option<usize> {
        let (node, event) = self.step()?;
        let mut inner = self.0.borrow_mut();
        inner.inboxes.entry(node).or_default().push_back(event);
        Some(node)
    }

    /// Returns true if the device with this address accepts connection requests.
    #[must_use]
    pub fn is_listening(&self, address: Ipv4Addr) -> bool {
        self.0.borrow().listening.contains(&address)
    }

    /// Returns true if nothing can happen.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.0.borrow().moves().is_empty()
    }

    /// Registers memory from now on in this many fragments, as far as the memory has bytes.
    pub fn split_memory(&self, pieces: u32) {
        self.0.borrow_mut().pieces = pieces.max(1);
    }

    /// Fails the next registrations of memory.
    pub fn fail_mappings(&self, count: u32) {
        self.0.borrow_mut().unmappable = count;
    }

    /// Cuts a node off, or connects it again. What is sent meanwhile ends with [`CompletionError::RetryExceeded`].
    pub fn cut(&self, node: usize, is_cut: bool) {
        let mut inner = self.0.borrow_mut();
        if is_cut {
            inner.cut.insert(node);
        } else {
            inner.cut.remove(&node);
        }
    }

    /// Breaks a connection of a node: what is posted is flushed although it may have arrived.
    pub fn break_off(&self, node: usize) -> bool {
        let mut inner = self.0.borrow_mut();
        let places = inner.open_places(node);
        if places.is_empty() {
            return false;
        }
        let index = inner.random.below(places.len() as u64) as usize;
        if let Some(&place) = places.get(index) {
            inner.break_end(place, CompletionError::Flushed, true);
        }
        true
    }

    /// Changes the state of a port, and tells its node.
    pub fn port(&self, node: usize, address: Ipv4Addr, state: PortState) {
        let mut inner = self.0.borrow_mut();
        if state == PortState::Down {
            inner.down.insert(address);
        } else {
            inner.down.remove(&address);
        }
        inner.news.push_back((node, Event::Port(address, state)));
    }

    /// Moves an address to another port of its node. The node's device hears no requests at the address until it listens
    /// anew.
    pub fn move_address(&self, node: usize, address: Ipv4Addr) {
        let mut inner = self.0.borrow_mut();
        inner.listening.remove(&address);
        inner.news.push_back((node, Event::Moved(address)));
    }

    /// Returns the bytes that devices have written into memory of others.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.0.borrow().written
    }

    /// Returns the number of registrations that were not released.
    #[must_use]
    pub fn registrations(&self) -> usize {
        self.0.borrow().registrations.len()
    }

    /// Returns the broken rules that the fabric has seen.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.0.borrow().violations.clone()
    }

    /// Returns a random number below `limit`, from the fabric's seed.
    #[must_use]
    pub fn draw(&self, limit: u64) -> u64 {
        self.0.borrow_mut().random.below(limit)
    }

    /// Moves something. Returns the next event of a node; `None` if nothing can happen.
    #[must_use]
    pub fn step(&self) -> Option<(usize, Event)> {
        loop {
            let moves = self.0.borrow().moves();
            if moves.is_empty() {
                return None;
            }
            let index = self.draw(moves.len() as u64) as usize;
            let event = self.0.borrow_mut().make(*moves.get(index)?);
            if event.is_some() {
                return event;
            }
        }
    }
}

impl Inner {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn open_places(&self, node: usize) -> Vec<Place> {
        let open = self
            .queues
            .iter()
            .filter(|((at, _), queues)| *at == node && queues.peer.is_some() && !queues.is_broken);
        open.map(|(&place, _)| place).collect()
    }

    fn vanish(&mut self, node: usize, tells: bool) {
        self.queues.retain(|place, _| place.0 != node);
        let is_left = |queues: &Queues| queues.peer.is_some_and(|peer| peer.0 == node);
        let left = self.queues.iter().filter(|(_, queues)| is_left(queues));
        let left: Vec<Place> = left.map(|(&place, _)| place).collect();
        for place in left {
            if let Some(queues) = self.queues.get_mut(&place) {
                queues.peer = Some(NOWHERE);
            }
            if tells {
                self.break_end(place, CompletionError::Flushed, false);
            }
        }
        for message in std::mem::take(&mut self.cm) {
            let left = self.without(node, message);
            self.cm.extend(left);
        }
        let addresses = &self.addresses;
        let is_its = |address: &Ipv4Addr| addresses.get(address) == Some(&node);
        self.listening.retain(|address| !is_its(address));
        self.registrations.retain(|_, one| one.node != node);
        self.requests.retain(|_, dialler| dialler.0 != node);
        self.news.retain(|(to, _)| *to != node);
        self.inboxes.remove(&node);
    }

    /// Returns what becomes of a CM message once a node is gone.
    fn without(&mut self, node: usize, message: CmMessage) -> Option<CmMessage> {
        match message {
            CmMessage::Reply(to, from, _) if to.0 == node => {
                self.tell(from, Event::Disconnected(from.1));
                None
            }
            CmMessage::Reply(to, from, _) if from.0 == node => Some(CmMessage::Reject(
                to,
                ConnectFailure::Unreachable,
                Vec::new(),
            )),
            CmMessage::Request(at, _) | CmMessage::Ready(at) | CmMessage::Reject(at, ..)
                if at.0 == node =>
            {
                None
            }
            other => Some(other),
        }
    }

    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (&place, queues) in &self.queues {
            if !queues.events.is_empty() {
                moves.push(Move::Deliver(place));
            }
            if !queues.sends.is_empty() && !queues.is_broken && !queues.is_drained {
                moves.push(Move::Send(place));
            }
            if queues.is_closing && !queues.is_drained {
                moves.push(Move::Drain(place));
            }
        }
        moves.extend((0..self.cm.len()).map(Move::Cm));
        if !self.news.is_empty() {
            moves.push(Move::News);
        }
        moves
    }

    fn make(&mut self, next: Move) -> Option<(usize, Event)> {
        match next {
            Move::News => self.news.pop_front(),
            Move::Cm(index) => {
                if let Some(message) = self.cm.remove(index) {
                    self.cm_message(message);
                }
                None
            }
            Move::Send(place) => {
                self.send_one(place);
                None
            }
            Move::Drain(place) => {
                self.drain(place);
                None
            }
            Move::Deliver(place) => {
                let queues = self.queues.get_mut(&place)?;
                let event = queues.events.pop_front()?;
                if matches!(event, Event::Drained(_) | Event::Failed(..)) {
                    self.queues.remove(&place);
                }
                Some((place.0, event))
            }
        }
    }

    fn tell(&mut self, place: Place, event: Event) {
        if let Some(queues) = self.queues.get_mut(&place) {
            queues.events.push_back(event);
        }
    }

    fn is_cut(&self, node: usize) -> bool {
        self.cut.contains(&node)
    }

    fn cm_message(&mut self, message: CmMessage) {
        match message {
            CmMessage::Request(from, data) => self.cm_request(from, data),
            CmMessage::Reply(to, from, mut data) => {
                let is_waiting = self
                    .queues
                    .get(&to)
                    .is_some_and(|queues| !queues.is_closing);
                if !is_waiting {
                    return self.tell(from, Event::Disconnected(from.1));
                }
                data.resize(REPLY_LEN.max(data.len()), 0);
                if let Some(queues) = self.queues.get_mut(&to) {
                    queues.peer = Some(from);
                }
                self.tell(to, Event::Established(to.1, data));
                self.cm.push_back(CmMessage::Ready(from));
            }
            CmMessage::Ready(to) => self.tell(to, Event::Established(to.1, Vec::new())),
            CmMessage::Reject(to, failure, mut data) => {
                if failure == ConnectFailure::Rejected {
                    data.resize(REJECT_LEN.max(data.len()), 0);
                }
                let is_waiting = self
                    .queues
                    .get(&to)
                    .is_some_and(|queues| !queues.is_closing);
                if is_waiting {
                    self.tell(to, Event::Failed(to.1, failure, data));
                }
            }
        }
    }

    fn cm_request(&mut self, from: Place, data: Vec<u8>) {
        let Some(address) = self.queues.get(&from).and_then(|queues| queues.target) else {
            return;
        };
        let Some(&node) = self.addresses.get(&address) else {
            return;
        };
        if self.is_cut(node) || self.is_cut(from.0) {
            let failed = CmMessage::Reject(from, ConnectFailure::Unreachable, Vec::new());
            return self.cm.push_back(failed);
        }
        if !self.listening.contains(&address) {
            let failed = CmMessage::Reject(from, ConnectFailure::NobodyListens, Vec::new());
            return self.cm.push_back(failed);
        }
        let request = RequestId(self.number());
        self.requests.insert(request, from);
        self.news
            .push_back((node, Event::Requested(request, address, SOURCE_PORT, data)));
    }

    /// Carries out the oldest posted work of a connection.
    fn send_one(&mut self, place: Place) {
        let Some(queues) = self.queues.get_mut(&place) else {
            return;
        };
        let Some(peer) = queues.peer else {
            return;
        };
        let Some(posted) = queues.sends.pop_front() else {
            return;
        };
        let answer = |result| Event::Sent(place.1, posted.ticket, result);
        let is_there = self
            .queues
            .get(&peer)
            .is_some_and(|q| !q.is_broken && !q.is_drained);
        if !is_there || self.is_cut(place.0) || self.is_cut(peer.0) {
            self.tell(place, answer(Err(CompletionError::RetryExceeded)));
            return self.break_end(place, CompletionError::Flushed, false);
        }
        for write in &posted.writes {
            if !self.write(place.0, peer.0, write) {
                self.tell(place, answer(Err(CompletionError::RemoteAccess)));
                return self.break_end(place, CompletionError::Flushed, true);
            }
        }
        let buffer = self
            .queues
            .get_mut(&peer)
            .and_then(|q| q.receives.pop_front());
        let Some(buffer) = buffer else {
            self.violations
                .push(format!("no receive buffer at node {}", peer.0));
            self.tell(place, answer(Err(CompletionError::ReceiverNotReady)));
            return self.break_end(place, CompletionError::Flushed, true);
        };
        self.tell(peer, Event::Received(peer.1, buffer, posted.message));
        let answer = Event::Sent(place.1, posted.ticket, Ok(()));
        self.tell(place, answer);
    }

    /// Writes to the memory of another node. Returns false if its device rejects that.
    fn write(&mut self, from: usize, to: usize, write: &Write) -> bool {
        let source = self.registrations.get(&write.mapping);
        let Some(source) = source.filter(|source| source.node == from) else {
            self.violations.push(format!(
                "node {from} writes from memory that is not registered"
            ));
            return false;
        };
        let mut sinks = self.registrations.values();
        let sink = sinks.find(|sink| sink.node == to && sink.rkey == write.rkey);
        let Some(sink) = sink else {
            self.violations.push(format!(
                "node {from} writes with a key that node {to} has not given"
            ));
            return false;
        };
        if !source.is_lent() {
            self.violations
                .push(format!("node {from} reads memory that was taken back"));
        }
        if !sink.is_lent() {
            self.violations
                .push(format!("node {to} has memory written that was taken back"));
        }
        let part = source.read(write.offset as usize, write.length as usize);
        let is_inside = part.is_some_and(|part| sink.write(write.address, &part));
        if is_inside {
            self.written += u64::from(write.length);
        } else {
            self.violations.push(format!(
                "node {from} writes outside the memory of node {to}"
            ));
        }
        is_inside
    }

    /// Breaks one end, or both: posted work is flushed, and the LND hears of it.
    fn break_end(&mut self, place: Place, error: CompletionError, both: bool) {
        let Some(queues) = self
            .queues
            .get_mut(&place)
            .filter(|queues| !queues.is_broken)
        else {
            return;
        };
        queues.is_broken = true;
        for posted in std::mem::take(&mut queues.sends) {
            queues
                .events
                .push_back(Event::Sent(place.1, posted.ticket, Err(error)));
        }
        queues.events.push_back(Event::Disconnected(place.1));
        if let (true, Some(peer)) = (both, queues.peer) {
            self.break_end(peer, error, false);
        }
    }

    fn drain(&mut self, place: Place) {
        let Some(queues) = self.queues.get_mut(&place) else {
            return;
        };
        queues.is_drained = true;
        for posted in std::mem::take(&mut queues.sends) {
            let flushed = Err(CompletionError::Flushed);
            queues
                .events
                .push_back(Event::Sent(place.1, posted.ticket, flushed));
        }
        queues.events.push_back(Event::Drained(place.1));
        if let Some(peer) = queues.peer {
            self.break_end(peer, CompletionError::Flushed, false);
        }
    }
}

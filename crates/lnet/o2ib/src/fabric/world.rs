//! Nodes with the real LND on a virtual fabric, and programs above them that verify each byte.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use lnd::{Disposition, Failure, NiId, RxId, SendRequest, TxId, Upper};
use lnet_types::{LndType, Net, Nid, ProcessId, Time};
use lnet_wire::{Ack, Body, Get, Handle, Header, Put, Reply};

use super::{Event, Fabric, VirtualDevice, VirtualMemory};
use crate::config::{LndNi, NiTuning, O2ibConfig};
use crate::device::Source;
use crate::machine::O2iblnd;

/// The interface that each node of a world has.
pub const NI: NiId = NiId(1);

/// What the program above a node does with messages, and what it has seen.
#[derive(Default)]
pub struct Program {
    /// The results of its messages.
    pub sent: BTreeMap<TxId, Result<(), Failure>>,
    /// The results of the messages that it received, by the match bits of their sender.
    pub received: Vec<(u64, Result<(), Failure>)>,
    /// Broken promises of the LND.
    pub violations: Vec<String>,
    /// The news of its interface: true if fatal.
    pub fatal: Vec<bool>,
    /// The news of peers: true if alive.
    pub peers: Vec<(Nid, bool)>,
    /// GETs name the memory for their reply.
    pub offers_memory: bool,
    /// New messages are held until [`World::release`].
    pub holds: bool,
    /// New messages are dropped.
    pub drops: bool,
    /// The memory of a message that it receives begins at this length less than its payload.
    pub truncates: usize,
    pending: BTreeSet<TxId>,
    sources: BTreeMap<TxId, VirtualMemory>,
    gets: BTreeMap<u64, VirtualMemory>,
    landing: BTreeMap<RxId, Landing>,
    /// PUTs that failed here before all their bytes were written.
    incomplete: BTreeSet<u64>,
    held: VecDeque<RxId>,
    replies: VecDeque<(Nid, Handle, u64, u32)>,
    next_rx: u64,
}

struct Landing {
    header: Header,
    memory: Option<VirtualMemory>,
    is_held: bool,
}

/// Returns the byte at a place of the payload of an operation.
fn pattern(operation: u64, at: usize) -> u8 {
    // Each operation has other bytes at each place.
    (operation
        .wrapping_mul(0x9e37_79b9)
        .wrapping_add(at as u64)
        .wrapping_mul(31)
        >> 3) as u8
}

/// Returns the payload of an operation.
#[must_use]
pub fn payload(operation: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| pattern(operation, at)).collect()
}

impl Program {
    fn receive(&mut self, header: &Header) -> Disposition<VirtualMemory> {
        self.next_rx += 1;
        let rx = RxId(self.next_rx);
        let mut landing = Landing {
            header: *header,
            memory: None,
            is_held: self.holds,
        };
        if self.holds {
            self.landing.insert(rx, landing);
            self.held.push_back(rx);
            return Disposition::Hold(rx);
        }
        let Some(memory) = self.memory_for(header) else {
            return Disposition::Drop;
        };
        landing.memory.clone_from(&memory);
        self.landing.insert(rx, landing);
        Disposition::Receive {
            rx,
            destination: memory,
        }
    }

    /// Returns the memory for the payload of a message; `None` if nobody wants the message.
    fn memory_for(&mut self, header: &Header) -> Option<Option<VirtualMemory>> {
        let len = (header.payload_length as usize).saturating_sub(self.truncates);
        match header.body {
            Body::Reply(reply) => {
                let memory = self.gets.get(&reply.dst_wmd.object)?;
                Some(Some(memory.clone()))
            }
            _ if len == 0 => Some(None),
            _ => Some(Some(VirtualMemory::lent(vec![0; len]))),
        }
    }
}

impl Landing {
    /// Returns the first byte that is not as it was sent; `None` if there is none.
    fn first_wrong(&self) -> Option<usize> {
        let operation = operation_of(&self.header);
        let bytes = self.memory.as_ref()?.to_vec();
        let len = bytes.len().min(self.header.payload_length as usize);
        (0..len).find(|&at| bytes.get(at) != Some(&pattern(operation, at)))
    }
}

fn operation_of(header: &Header) -> u64 {
    match header.body {
        Body::Put(put) => put.match_bits,
        Body::Get(get) => get.match_bits,
        Body::Reply(reply) => reply.dst_wmd.object,
        Body::Ack(ack) => ack.match_bits,
    }
}

impl Upper for Program {
    type Destination = VirtualMemory;
    type Payload = VirtualMemory;

    fn header(
        &mut self,
        _ni: NiId,
        _peer: ProcessId,
        header: &Header,
        _now: Time,
    ) -> Disposition<VirtualMemory> {
        if self.drops {
            return Disposition::Drop;
        }
        self.receive(header)
    }

    fn received(&mut self, rx: RxId, result: Result<(), Failure>, _now: Time) {
        let Some(landing) = self.landing.remove(&rx) else {
            return self.violations.push(format!("{rx:?} is reported twice"));
        };
        let operation = operation_of(&landing.header);
        let wrong = landing.first_wrong();
        if let (Err(_), Some(_), Body::Put(_)) = (result, wrong, landing.header.body) {
            self.incomplete.insert(operation);
        }
        if result.is_ok() {
            if let Some(at) = wrong {
                let what = format!("operation {operation}: byte {at} is wrong");
                self.violations.push(what);
            }
            if let Body::Get(get) = landing.header.body {
                let reply = (
                    landing.header.src_nid,
                    get.return_wmd,
                    operation,
                    get.sink_length,
                );
                self.replies.push_back(reply);
            }
        }
        if let Some(memory) = &landing.memory {
            memory.take_back();
        }
        self.received.push((operation, result));
    }

    fn sent(&mut self, tx: TxId, result: Result<(), Failure>, _now: Time) {
        if !self.pending.remove(&tx) {
            self.violations.push(format!("{tx:?} is reported twice"));
        }
        if let Some(source) = self.sources.remove(&tx) {
            source.take_back();
        }
        self.sent.insert(tx, result);
    }

    fn peer_changed(
        &mut self,
        _ni: NiId,
        peer: ProcessId,
        alive: bool,
        _incarnation: Option<u64>,
        _now: Time,
    ) {
        self.peers.push((peer.nid, alive));
    }

    fn reply_memory(&mut self, tx: TxId) -> Option<VirtualMemory> {
        let memory = self.gets.get(&tx.0).filter(|_| self.offers_memory)?;
        Some(memory.clone())
    }

    fn ni_fatal(&mut self, _ni: NiId, is_fatal: bool, _now: Time) {
        self.fatal.push(is_fatal);
    }
}

/// A node.
pub struct Node {
    /// The LND.
    pub lnd: O2iblnd<VirtualDevice>,
    /// The program above.
    pub program: Program,
    /// Its NID.
    pub nid: Nid,
}

/// Nodes on a fabric, and the time.
pub struct World {
    /// The fabric.
    pub fabric: Fabric,
    /// The nodes; the address of node n ends with n + 1.
    pub nodes: Vec<Node>,
    /// The time.
    pub now: Time,
    /// Events of devices whose nodes are not of this world: those of a stranger.
    pub foreign: Vec<Event>,
    next: u64,
}

/// Returns the address of a node.
#[must_use]
pub fn address(node: usize) -> Ipv4Addr {
    // Worlds have a few nodes.
    Ipv4Addr::new(10, 7, 0, node as u8 + 1)
}

/// Returns the NID of a node.
#[must_use]
pub fn nid(node: usize) -> Nid {
    Nid::from_ip(Net::new(LndType::O2IB, 0), address(node).into())
}

impl World {
    /// Makes a world of nodes with these parameters.
    #[must_use]
    pub fn new(seed: u64, config: O2ibConfig, tunings: &[NiTuning]) -> Self {
        let fabric = Fabric::new(seed);
        let mut world = Self {
            fabric,
            nodes: Vec::new(),
            now: Time::from_secs(1000),
            foreign: Vec::new(),
            next: 0,
        };
        for (index, &tuning) in tunings.iter().enumerate() {
            let device = world.fabric.device(index, address(index));
            let mut node = Node {
                lnd: O2iblnd::new(config, device),
                program: Program::default(),
                nid: nid(index),
            };
            let ni = LndNi {
                ni: NI,
                nid: node.nid,
                tuning,
                incarnation: 1000 + index as u64,
            };
            if let Err(error) = node.lnd.add_ni(ni) {
                node.program.violations.push(error.to_string());
            }
            world.nodes.push(node);
        }
        world
    }

    /// Sends a PUT of this many bytes. Returns its number.
    pub fn put(&mut self, from: usize, to: usize, len: usize) -> TxId {
        let tx = self.number();
        let body = Body::Put(Put {
            ack_wmd: Handle::NONE,
            match_bits: tx.0,
            hdr_data: 0,
            ptl_index: 0,
            offset: 0,
        });
        let memory = (len > 0).then(|| VirtualMemory::lent(payload(tx.0, len)));
        self.send(from, to, tx, body, memory)
    }

    /// Sends a GET of this many bytes. Returns its number.
    pub fn get(&mut self, from: usize, to: usize, len: usize) -> TxId {
        let tx = self.number();
        let body = Body::Get(Get {
            return_wmd: Handle {
                interface: from as u64,
                object: tx.0,
            },
            match_bits: tx.0,
            ptl_index: 0,
            src_offset: 0,
            // Payload of a test is short.
            sink_length: len as u32,
        });
        let memory = VirtualMemory::lent(vec![0; len]);
        if let Some(node) = self.nodes.get_mut(from) {
            node.program.gets.insert(tx.0, memory);
        }
        self.send(from, to, tx, body, None)
    }

    /// Sends an ACK. Returns its number.
    pub fn ack(&mut self, from: usize, to: usize) -> TxId {
        let tx = self.number();
        let body = Body::Ack(Ack {
            dst_wmd: Handle::NONE,
            match_bits: tx.0,
            mlength: 0,
        });
        self.send(from, to, tx, body, None)
    }

    fn number(&mut self) -> TxId {
        self.next += 1;
        TxId(self.next)
    }

    fn send(
        &mut self,
        from: usize,
        to: usize,
        tx: TxId,
        body: Body,
        payload: Option<VirtualMemory>,
    ) -> TxId {
        let (now, to) = (self.now, nid(to));
        let Some(node) = self.nodes.get_mut(from) else {
            return tx;
        };
        let header = Header {
            dest_nid: to,
            src_nid: node.nid,
            dest_pid: ProcessId::LUSTRE_PID,
            src_pid: ProcessId::LUSTRE_PID,
            // Payload of a test is short.
            payload_length: payload.as_ref().map_or(0, Source::len) as u32,
            body,
        };
        node.program.pending.insert(tx);
        if let Some(memory) = &payload {
            node.program.sources.insert(tx, memory.clone());
        }
        let request = SendRequest {
            tx,
            ni: NI,
            to: ProcessId::lustre(to),
            header,
            payload,
            deadline: now + Duration::from_secs(200),
        };
        node.lnd.send(request, now, &mut node.program);
        tx
    }

    /// Lets a node's program decide about the oldest message that it holds. Returns false if there is none.
    pub fn release(&mut self, index: usize) -> bool {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(index) else {
            return false;
        };
        let Some(rx) = node.program.held.pop_front() else {
            return false;
        };
        let Some(header) = node.program.landing.get(&rx).map(|landing| landing.header) else {
            // Its connection has closed.
            return true;
        };
        let memory = node.program.memory_for(&header).flatten();
        if let Some(landing) = node.program.landing.get_mut(&rx) {
            landing.memory.clone_from(&memory);
            landing.is_held = false;
        }
        if !node.lnd.resume(rx, memory, now, &mut node.program) {
            node.program
                .violations
                .push(format!("{rx:?} cannot be resumed"));
        }
        true
    }

    /// Makes one event happen. Returns false if nothing can happen before time passes.
    pub fn step(&mut self) -> bool {
        self.now = self.now + Duration::from_micros(1);
        self.reply();
        let Some((index, event)) = self.fabric.step() else {
            return false;
        };
        let now = self.now;
        match self.nodes.get_mut(index) {
            Some(node) => node.lnd.event(event.view(), now, &mut node.program),
            None => self.foreign.push(event),
        }
        self.tick_all();
        true
    }

    /// Lets what can happen happen, but no time pass that anything waits for.
    pub fn settle(&mut self) {
        while self.step() {}
        // The last event may have asked for a reply.
        while self.reply() {
            while self.step() {}
        }
    }

    /// Lets time pass, and what is due happen.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        self.settle();
        while let Some(due) = self.next_deadline().filter(|&due| due <= until) {
            self.now = self.now.max(due);
            self.tick_all();
            self.settle();
        }
        self.now = self.now.max(until);
    }

    fn next_deadline(&self) -> Option<Time> {
        let deadlines = self
            .nodes
            .iter()
            .filter_map(|node| node.lnd.next_deadline());
        deadlines.min()
    }

    /// Lets every node do what is due now.
    pub fn tick_all(&mut self) {
        let now = self.now;
        for node in &mut self.nodes {
            node.lnd.tick(now, &mut node.program);
        }
    }

    /// Sends the replies to GETs that have come. Returns false if there was none.
    fn reply(&mut self) -> bool {
        let mut any = false;
        for from in 0..self.nodes.len() {
            let replies = self
                .nodes
                .get_mut(from)
                .map(|node| std::mem::take(&mut node.program.replies));
            for (to, dst_wmd, operation, len) in replies.unwrap_or_default() {
                any = true;
                let tx = self.number();
                let body = Body::Reply(Reply { dst_wmd });
                let memory = VirtualMemory::lent(payload(operation, len as usize));
                let to = (0..self.nodes.len()).find(|&node| nid(node) == to);
                self.send(from, to.unwrap_or_default(), tx, body, Some(memory));
            }
        }
        any
    }

    /// Returns all broken rules that the fabric and the programs have seen.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        let mut all = self.fabric.violations();
        for node in &self.nodes {
            all.extend(node.program.violations.iter().cloned());
        }
        all
    }

    /// Shuts every node down and returns all broken rules, among them what is left over.
    #[must_use]
    pub fn end(mut self) -> Vec<String> {
        let now = self.now;
        for node in &mut self.nodes {
            node.program.holds = false;
            node.lnd.close_all(now, &mut node.program);
        }
        self.settle();
        self.pass(Duration::from_secs(1));
        let mut all = self.violations();
        for (index, node) in self.nodes.iter().enumerate() {
            if !node.program.pending.is_empty() {
                all.push(format!(
                    "node {index}: {:?} are not reported",
                    node.program.pending
                ));
            }
            if !node.program.landing.is_empty() {
                let left = node.program.landing.len();
                all.push(format!(
                    "node {index}: {left} received messages are not reported"
                ));
            }
            if !node.lnd.is_idle() {
                all.push(format!("node {index}: connections are left"));
            }
        }
        let sent = self.nodes.iter().flat_map(|node| &node.program.sent);
        let successes = sent.filter(|(_, result)| result.is_ok());
        for (tx, _) in successes {
            let fell_short = |node: &Node| node.program.incomplete.contains(&tx.0);
            if self.nodes.iter().any(fell_short) {
                all.push(format!(
                    "{tx:?} is a success, and its bytes were not written"
                ));
            }
        }
        if self.fabric.registrations() > 0 {
            all.push(format!(
                "{} registrations are left",
                self.fabric.registrations()
            ));
        }
        all
    }
}

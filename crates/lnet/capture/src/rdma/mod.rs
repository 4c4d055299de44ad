//! RDMA connections that carry LNet: pairs of queue pairs, from the request for a connection to its end.
//!
//! ```text
//!  CM request ─▶ Link ◀─ CM reply: both queue pairs and first sequence numbers are known
//!                 │
//!  SEND, WRITE ─▶ Flow to the receiver's queue pair ─ in order ─▶ messages
//!                 ├─ before the expected number: sent again, and counted
//!                 └─ beyond it: dropped, as the receiver does, until the expected packet comes, or until the receiver
//!                    acknowledges what the capture lacks
//! ```

mod cm;
pub(crate) mod packet;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};

use lnet_types::Time;
use lnet_wire::o2ib::{self, IMMEDIATE_PAYLOAD_AT, MAGIC, MESSAGE_MAX, REJECTION_LEN, Rejection};

use crate::decoder::CONVERSATIONS_MAX;
use crate::half::Sink;
use crate::message::{Cm, CmStep, Connection, Direction, Kind, Message, Nak, RdmaWrite};
use crate::rdma::cm::{CmMessage, Step};
use crate::rdma::packet::{Memory, Operation, Part, RdmaPacket};
use crate::summary::Summary;

/// The most packets beyond the expected one that are dropped. After more, the expected one is not in the capture. A sender
/// has up to some hundred packets under way, and sends them anew each time that the expected one is lost on the wire. Where
/// the capture has both directions, the receiver's acknowledgement tells earlier.
const AHEAD_MAX: u32 = 1024;
/// Sequence numbers have 24 bits; those of the lower half of the distance are ahead.
const PSN_MASK: u32 = 0xFF_FFFF;
const PSN_HALF: u32 = 0x80_0000;
/// The queue pair of the connection manager.
const CM_QP: u32 = 1;

/// A queue pair: the address of its end, and its number.
type Qp = (IpAddr, u32);

/// State of the capture that the connections need.
pub(crate) struct Context<'a, 'sink> {
    pub(crate) time: Time,
    pub(crate) next_id: &'a mut u32,
    pub(crate) summary: &'a mut Summary,
    pub(crate) sink: &'a mut Sink<'sink>,
}

/// The connections; see the [module](self).
#[derive(Debug)]
pub(crate) struct Rdma {
    services: Vec<u16>,
    links: BTreeMap<u32, Link>,
    /// The ends of links by the numbers that the connection manager of each end gave them.
    by_number: BTreeMap<(IpAddr, u32), (u32, Direction)>,
    flows: BTreeMap<Qp, Flow>,
}

/// A connection.
#[derive(Debug)]
struct Link {
    connection: Connection,
    used: Time,
    /// The queue pair of the side that asked, and the first sequence number that it wants.
    asked: Option<(u32, u32)>,
    /// The numbers of its ends.
    numbers: Vec<(IpAddr, u32)>,
    /// The receivers of its flows: the acceptor, and the initiator.
    receivers: Vec<Qp>,
}

/// What one side sends to the other.
#[derive(Debug)]
struct Flow {
    link: u32,
    direction: Direction,
    /// The sequence number of the next packet.
    next: u32,
    /// Packets beyond it since the last expected one.
    ahead: u32,
    /// Bytes of messages and writes so far.
    offset: u64,
    /// The message or the write whose packets come.
    begun: Begun,
}

#[derive(Debug)]
enum Begun {
    Nothing,
    Message(Vec<u8>),
    Write(Memory),
}

impl Rdma {
    /// Connections to nodes that listen at these service numbers.
    pub(crate) const fn new(services: Vec<u16>) -> Self {
        Self {
            services,
            links: BTreeMap::new(),
            by_number: BTreeMap::new(),
            flows: BTreeMap::new(),
        }
    }

    /// Takes the next packet.
    pub(crate) fn packet(
        &mut self,
        packet: &RdmaPacket<'_>,
        cx: &mut Context<'_, '_>,
    ) -> io::Result<()> {
        match packet.operation {
            Operation::Datagram if packet.qp == CM_QP => self.datagram(packet, cx),
            Operation::Datagram | Operation::Other => Ok(()),
            Operation::Acknowledge(syndrome) => self.acknowledge(packet, syndrome, cx),
            Operation::Send(_) | Operation::Write(..) => self.data(packet, cx),
        }
    }

    /// Counts what is left of messages whose end is not in the capture.
    pub(crate) fn finish(&self, summary: &mut Summary) {
        let left = self.flows.values().map(Flow::left).sum::<u64>();
        summary.bytes.cut += left;
    }

    fn datagram(&mut self, packet: &RdmaPacket<'_>, cx: &mut Context<'_, '_>) -> io::Result<()> {
        let message = match cm::read(packet.payload) {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(()),
            Err(reason) => {
                *cx.summary.skipped.entry(reason).or_default() += 1;
                return Ok(());
            }
        };
        let (id, direction) = match message.step {
            Step::Request { port, .. } if !self.services.contains(&port) => return Ok(()),
            Step::Request {
                port,
                source,
                qp,
                psn,
            } => {
                let (from, from_port) = source.unwrap_or((packet.from, 0));
                let ends = [(from, from_port), (packet.to, port)].map(SocketAddr::from);
                let number = (packet.from, message.local);
                match self.asked(number, ends, (qp, psn), cx) {
                    Some(id) => (id, Direction::FromInitiator),
                    None => {
                        cx.summary.packets_repeated += 1;
                        return Ok(());
                    }
                }
            }
            _ => match self.by_number.get(&(packet.to, message.remote)) {
                Some(&(id, receiver)) => (id, receiver.other()),
                None => return Ok(()),
            },
        };
        if let Step::Reply { qp, psn } = message.step
            && !self.joins(id, packet, message.local, (qp, psn), cx.summary)
        {
            cx.summary.packets_repeated += 1;
            return Ok(());
        }
        self.say(id, direction, &message, cx)?;
        if matches!(message.step, Step::Disconnected | Step::Reject(_)) {
            self.forget(id, cx.summary);
        }
        Ok(())
    }

    /// Adds the connection that one end asks for, with its queue pair and the first sequence number that it wants; `None` if
    /// the connection is known.
    fn asked(
        &mut self,
        number: (IpAddr, u32),
        ends: [SocketAddr; 2],
        first: (u32, u32),
        cx: &mut Context<'_, '_>,
    ) -> Option<u32> {
        if let Some(&(known, _)) = self.by_number.get(&number) {
            let link = self.links.get(&known);
            if link.is_some_and(|link| link.asked == Some(first)) {
                return None;
            }
            self.forget(known, cx.summary);
        }
        let id = self.link(ends, cx);
        self.name(id, number, Direction::FromInitiator);
        if let Some(link) = self.links.get_mut(&id) {
            link.asked = Some(first);
        }
        Some(id)
    }

    /// Joins the queue pairs of a connection that the other end agrees to; returns false if they are joined already.
    fn joins(
        &mut self,
        id: u32,
        packet: &RdmaPacket<'_>,
        number: u32,
        (qp, psn): (u32, u32),
        summary: &mut Summary,
    ) -> bool {
        let Some(link) = self
            .links
            .get_mut(&id)
            .filter(|link| link.receivers.is_empty())
        else {
            return false;
        };
        let Some((asking, first)) = link.asked else {
            return false;
        };
        self.name(id, (packet.from, number), Direction::FromAcceptor);
        // Each end says with which number the other one begins.
        self.flow(
            id,
            (packet.from, qp),
            Direction::FromInitiator,
            psn,
            summary,
        );
        self.flow(
            id,
            (packet.to, asking),
            Direction::FromAcceptor,
            first,
            summary,
        );
        true
    }

    /// Reports a message of the connection manager, with what LNet says in it.
    fn say(
        &mut self,
        id: u32,
        direction: Direction,
        message: &CmMessage<'_>,
        cx: &mut Context<'_, '_>,
    ) -> io::Result<()> {
        let Some(link) = self.links.get_mut(&id) else {
            return Ok(());
        };
        link.used = cx.time;
        let step = match message.step {
            Step::Request { .. } => CmStep::Request,
            Step::Reply { .. } => CmStep::Reply,
            Step::Reject(reason) => CmStep::Reject(reason),
            Step::Ready => CmStep::Ready,
            Step::Disconnect => CmStep::Disconnect,
            Step::Disconnected => CmStep::Disconnected,
        };
        if let CmStep::Reject(_) = step
            && !link.connection.rejected
        {
            link.connection.rejected = true;
            cx.summary.rejected += 1;
        }
        let mut said = Cm {
            step,
            message: None,
            rejection: None,
        };
        let decoded = match step {
            CmStep::Request | CmStep::Reply => Some(o2ib::Message::decode(message.data)),
            CmStep::Reject(CmStep::BY_PEER) => {
                match Rejection::decode(message.data) {
                    Ok(rejection) => said.rejection = Some(rejection),
                    Err(error) => return broken(link, direction, message.data, error, cx),
                }
                None
            }
            _ => None,
        };
        let len = match &decoded {
            Some(Ok(message)) => {
                said.message = Some(message);
                message.body.kind().least_len()
            }
            Some(Err(error)) => return broken(link, direction, message.data, *error, cx),
            None if said.rejection.is_some() => REJECTION_LEN,
            None => 0,
        };
        let raw = message.data.get(..len).unwrap_or_default();
        deliver(link, direction, 0, raw, len as u64, Kind::Cm(said), cx)
    }

    fn data(&mut self, packet: &RdmaPacket<'_>, cx: &mut Context<'_, '_>) -> io::Result<()> {
        let receiver = (packet.to, packet.qp);
        if !self.flows.contains_key(&receiver) {
            if !begins_lnet(packet) {
                return Ok(());
            }
            let ends = [packet.from, packet.to].map(|end| SocketAddr::new(end, 0));
            let id = self.link(ends, cx);
            if let Some(link) = self.links.get_mut(&id) {
                link.connection.joined = true;
                cx.summary.joined += 1;
            }
            let (first, summary) = (packet.psn, &mut *cx.summary);
            self.flow(id, receiver, Direction::FromInitiator, first, summary);
        }
        let Some(flow) = self.flows.get_mut(&receiver) else {
            return Ok(());
        };
        let Some(link) = self.links.get_mut(&flow.link) else {
            return Ok(());
        };
        link.used = cx.time;
        let ahead = packet.psn.wrapping_sub(flow.next) & PSN_MASK;
        if ahead >= PSN_HALF {
            cx.summary.packets_repeated += 1;
            return Ok(());
        }
        if ahead > 0 {
            flow.ahead += 1;
            if flow.ahead <= AHEAD_MAX {
                return Ok(());
            }
            flow.lose(ahead, link, cx)?;
        }
        flow.ahead = 0;
        flow.next = packet.psn.wrapping_add(1) & PSN_MASK;
        match packet.operation {
            Operation::Write(part, memory) => flow.write(part, memory, packet, link, cx),
            Operation::Send(part) => flow.send(part, packet, link, cx),
            _ => Ok(()),
        }
    }

    fn acknowledge(
        &mut self,
        packet: &RdmaPacket<'_>,
        syndrome: u8,
        cx: &mut Context<'_, '_>,
    ) -> io::Result<()> {
        const ACK: u8 = 0;
        let Some(back) = self.flows.get(&(packet.to, packet.qp)) else {
            return Ok(());
        };
        let (id, direction) = (back.link, back.direction);
        let Some(link) = self.links.get_mut(&id) else {
            return Ok(());
        };
        let mut receivers = link.receivers.iter();
        let there = receivers.find(|receiver| **receiver != (packet.to, packet.qp));
        let Some(flow) = there.and_then(|receiver| self.flows.get_mut(receiver)) else {
            return Ok(());
        };
        let is_ack = syndrome >> 5 == ACK;
        let behind = packet.psn.wrapping_add(u32::from(is_ack)) & PSN_MASK;
        let lost = behind.wrapping_sub(flow.next) & PSN_MASK;
        if lost > 0 && lost < PSN_HALF {
            flow.lose(lost, link, cx)?;
            flow.ahead = 0;
        }
        match nak(syndrome) {
            Some(nak) => deliver(link, direction, 0, &[], 0, Kind::Nak(nak), cx),
            None => Ok(()),
        }
    }

    /// Adds a connection; returns its number.
    fn link(&mut self, [initiator, acceptor]: [SocketAddr; 2], cx: &mut Context<'_, '_>) -> u32 {
        self.make_room(cx.summary);
        let id = *cx.next_id;
        *cx.next_id = id.wrapping_add(1);
        cx.summary.connections += 1;
        let link = Link {
            connection: Connection::new(id, initiator, acceptor),
            used: cx.time,
            asked: None,
            numbers: Vec::new(),
            receivers: Vec::new(),
        };
        self.links.insert(id, link);
        id
    }

    fn name(&mut self, id: u32, number: (IpAddr, u32), side: Direction) {
        self.by_number.insert(number, (id, side));
        if let Some(link) = self.links.get_mut(&id) {
            link.numbers.push(number);
        }
    }

    /// Adds a flow. An earlier connection whose end is not in the capture may have had the same queue pair.
    fn flow(
        &mut self,
        id: u32,
        receiver: Qp,
        direction: Direction,
        next: u32,
        summary: &mut Summary,
    ) {
        let flow = Flow {
            link: id,
            direction,
            next,
            ahead: 0,
            offset: 0,
            begun: Begun::Nothing,
        };
        let earlier = self.flows.insert(receiver, flow);
        summary.bytes.cut += earlier.map_or(0, |earlier| earlier.left());
        if let Some(link) = self.links.get_mut(&id) {
            link.receivers.push(receiver);
        }
    }

    /// Forgets a connection. A later one may have taken over its queue pairs and numbers.
    fn forget(&mut self, id: u32, summary: &mut Summary) {
        let Some(link) = self.links.remove(&id) else {
            return;
        };
        for number in link.numbers {
            if self.by_number.get(&number).is_some_and(|(of, _)| *of == id) {
                self.by_number.remove(&number);
            }
        }
        for receiver in link.receivers {
            let flow = self.flows.get(&receiver);
            if let Some(flow) = flow.filter(|flow| flow.link == id) {
                summary.bytes.cut += flow.left();
                self.flows.remove(&receiver);
            }
        }
    }

    /// Forgets the less recently used half of the connections if there are too many.
    fn make_room(&mut self, summary: &mut Summary) {
        if self.links.len() < CONVERSATIONS_MAX {
            return;
        }
        let mut all: Vec<(Time, u32)> = self
            .links
            .iter()
            .map(|(id, link)| (link.used, *id))
            .collect();
        all.sort_unstable();
        all.truncate(CONVERSATIONS_MAX / 2);
        all.into_iter().for_each(|(_, id)| self.forget(id, summary));
    }
}

impl Flow {
    /// Returns the bytes of a message whose end did not come.
    fn left(&self) -> u64 {
        match &self.begun {
            Begun::Message(parts) => parts.len() as u64,
            Begun::Nothing | Begun::Write(_) => 0,
        }
    }

    /// Goes on behind packets that are not in the capture.
    fn lose(&mut self, packets: u32, link: &Link, cx: &mut Context<'_, '_>) -> io::Result<()> {
        self.next = self.next.wrapping_add(packets) & PSN_MASK;
        let undecoded = match std::mem::replace(&mut self.begun, Begun::Nothing) {
            Begun::Message(parts) => parts.len() as u64,
            Begun::Nothing | Begun::Write(_) => 0,
        };
        let kind = Kind::PacketsLost { packets, undecoded };
        deliver(link, self.direction, self.offset, &[], 0, kind, cx)
    }

    fn write(
        &mut self,
        part: Part,
        memory: Option<Memory>,
        packet: &RdmaPacket<'_>,
        link: &Link,
        cx: &mut Context<'_, '_>,
    ) -> io::Result<()> {
        if let Some(memory) = memory {
            self.begun = Begun::Write(memory);
        }
        let Begun::Write(memory) = self.begun else {
            return self.without_beginning(packet, cx);
        };
        if !part.ends() {
            return Ok(());
        }
        self.begun = Begun::Nothing;
        let write = RdmaWrite {
            address: memory.address,
            rkey: memory.rkey,
            length: memory.length,
        };
        self.report(memory.length.into(), &[], Kind::Write(write), link, cx)
    }

    fn send(
        &mut self,
        part: Part,
        packet: &RdmaPacket<'_>,
        link: &Link,
        cx: &mut Context<'_, '_>,
    ) -> io::Result<()> {
        if part.begins() {
            self.begun = Begun::Message(Vec::new());
        }
        let Begun::Message(mut parts) = std::mem::replace(&mut self.begun, Begun::Nothing) else {
            return self.without_beginning(packet, cx);
        };
        if packet.cut > 0 {
            let kind = Kind::Gap {
                lost: packet.cut as u64,
                undecoded: (parts.len() + packet.payload.len()) as u64,
            };
            return deliver(link, self.direction, self.offset, &[], 0, kind, cx);
        }
        if part == Part::Only {
            return self.message(packet.payload, link, cx);
        }
        parts.extend_from_slice(packet.payload);
        // A longer message is none of LNet's, and its decoder says so.
        if part.ends() || parts.len() > MESSAGE_MAX {
            return self.message(&parts, link, cx);
        }
        self.begun = Begun::Message(parts);
        Ok(())
    }

    fn message(&mut self, bytes: &[u8], link: &Link, cx: &mut Context<'_, '_>) -> io::Result<()> {
        match o2ib::Message::decode(bytes) {
            Ok(message) => {
                let is_immediate = message.body.kind() == o2ib::MessageKind::Immediate;
                let headers = bytes.get(..IMMEDIATE_PAYLOAD_AT).filter(|_| is_immediate);
                let raw = headers.unwrap_or(bytes);
                self.report(bytes.len() as u64, raw, Kind::O2ib(&message), link, cx)
            }
            Err(error) => {
                self.offset += bytes.len() as u64;
                broken(link, self.direction, bytes, error, cx)
            }
        }
    }

    fn report(
        &mut self,
        length: u64,
        raw: &[u8],
        kind: Kind<'_>,
        link: &Link,
        cx: &mut Context<'_, '_>,
    ) -> io::Result<()> {
        let offset = self.offset;
        self.offset += length;
        deliver(link, self.direction, offset, raw, length, kind, cx)
    }

    /// Counts the packet of a message whose beginning is not in the capture.
    fn without_beginning(
        &self,
        packet: &RdmaPacket<'_>,
        cx: &mut Context<'_, '_>,
    ) -> io::Result<()> {
        cx.summary.bytes.undecoded += packet.payload.len() as u64;
        Ok(())
    }
}

/// Returns whether a packet begins a message of the o2ib LND, in either byte order.
fn begins_lnet(packet: &RdmaPacket<'_>) -> bool {
    let Operation::Send(part) = packet.operation else {
        return false;
    };
    let magic = packet.payload.first_chunk::<4>();
    part.begins()
        && magic.is_some_and(|magic| [MAGIC.to_le_bytes(), MAGIC.to_be_bytes()].contains(magic))
}

/// Returns what a negative acknowledgement says.
const fn nak(syndrome: u8) -> Option<Nak> {
    match (syndrome >> 5, syndrome & 0x1F) {
        (0, _) => None,
        (1, _) => Some(Nak::ReceiverNotReady),
        (3, 0) => Some(Nak::SequenceError),
        (3, 1) => Some(Nak::InvalidRequest),
        (3, 2) => Some(Nak::RemoteAccess),
        (3, 3) => Some(Nak::RemoteOperation),
        _ => Some(Nak::Other(syndrome)),
    }
}

fn broken(
    link: &Link,
    direction: Direction,
    bytes: &[u8],
    error: lnet_wire::DecodeError,
    cx: &mut Context<'_, '_>,
) -> io::Result<()> {
    let length = bytes.len() as u64;
    if !link.connection.rejected {
        cx.summary.bytes.undecoded += length;
    }
    deliver(link, direction, 0, bytes, length, Kind::Broken(error), cx)
}

fn deliver(
    link: &Link,
    direction: Direction,
    offset: u64,
    raw: &[u8],
    length: u64,
    kind: Kind<'_>,
    cx: &mut Context<'_, '_>,
) -> io::Result<()> {
    let message = Message {
        time: cx.time,
        connection: &link.connection,
        direction,
        offset,
        length,
        raw,
        kind,
    };
    cx.summary.count(&message);
    (cx.sink)(&message)
}

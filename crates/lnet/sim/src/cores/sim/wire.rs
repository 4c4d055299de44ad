//! Carries a message from a driver over the fabric to another node, and its completion back.

use std::rc::Rc;

use lnet_core::{FaultTypes, Landing, Place, RxId, Verdict};
use lnet_types::{Nid, ProcessId};
use lnet_wire::{Body, Header};

use super::Happening;
use super::Sim;
use super::node::{Held, PORTAL};
use crate::cores::lnd::{
    Action, CompletionError, ConnectError, Incarnation, LndEvent, LndKind, Message,
};
use crate::cores::plan::PortId;

/// The time after which a dead peer counts as unreachable, in nanoseconds.
const DIAL_NS: u64 = 3_000_000_000;

/// The time after which a stream retransmits lost data for the first time, in nanoseconds.
const RETRANSMIT_NS: u64 = 200_000_000;

/// The number of losses in a row that a stream survives.
const RETRANSMITS_MAX: u32 = 6;

/// The bytes of a header on the wire.
const HEADER_BYTES: u64 = 72;

/// A message in flight.
#[derive(Debug)]
pub(super) struct Flight {
    message: Message,
    from: PortId,
    /// The incarnation of the sender that the completion is for.
    from_life: Incarnation,
    to: PortId,
    /// The incarnation of the receiver that the connection belongs to.
    connection: Incarnation,
    posted_at: u64,
    /// The message uses the loopback interface: it does not cross the fabric, and has completed already.
    looped: bool,
    /// The message reaches the other node.
    arrives: bool,
    /// The result that the sender gets; `None` if it gets no completion.
    result: Option<Result<(), CompletionError>>,
}

/// A connection that is being set up.
#[derive(Debug)]
pub(super) struct Dialling {
    from: PortId,
    from_life: Incarnation,
    peer: Nid,
    to: Option<PortId>,
}

impl Sim {
    /// Reports an event to a driver, and carries out the driver's actions.
    pub(super) fn tell(&mut self, port: PortId, event: LndEvent) {
        let now = self.time();
        let Some(node) = self
            .nodes
            .get_mut(port.node as usize)
            .filter(|node| node.core.is_some())
        else {
            return;
        };
        if let Some(at) = node.ports.get_mut(usize::from(port.ni)) {
            at.lnd.event(event, now, &mut self.actions);
        }
        self.act(port);
    }

    pub(super) fn lnd_timer(&mut self, port: PortId) {
        let (now, time) = (self.now, self.time());
        let Some(at) = self.port_mut(port).filter(|at| at.wake_at == now) else {
            return;
        };
        at.wake_at = u64::MAX;
        if let Some(node) = self.nodes.get_mut(port.node as usize)
            && node.core.is_some()
            && let Some(at) = node.ports.get_mut(usize::from(port.ni))
        {
            at.lnd.tick(time, &mut self.actions);
        }
        self.act(port);
        self.settle(port.node);
    }

    /// Carries out the actions of an interface's driver. Outputs of the core that result are left to
    /// [`Sim::settle`].
    pub(super) fn act(&mut self, port: PortId) {
        while let Some(action) = self.actions.pop_front() {
            match action {
                Action::Post {
                    message,
                    connection,
                } => self.post(port, message, connection),
                Action::Connect { peer } => self.dial(port, peer),
                Action::Close { peer } => self.close(port, peer),
                Action::Sent { tx, status } => {
                    self.trace
                        .sent(self.now, &self.plan.world, port, tx, status);
                    let now = self.time();
                    if let Some(core) = self.core_of(port.node) {
                        core.sent(tx, status, now);
                    }
                }
                Action::Fatal(fatal) => {
                    let now = self.time();
                    let ni = lnet_core::NiId(u32::from(port.ni) + 1);
                    if fatal {
                        let plan = Rc::clone(&self.plan);
                        self.checker.interface_down(plan.operations_from(port.node));
                    }
                    if let Some(core) = self.core_of(port.node) {
                        core.set_ni_fatal(ni, fatal, now);
                    }
                }
                Action::Peer { nid, alive } => {
                    let now = self.time();
                    let ni = lnet_core::NiId(u32::from(port.ni) + 1);
                    if let Some(core) = self.core_of(port.node) {
                        core.peer_notify(ni, nid, alive, now);
                    }
                }
            }
        }
        self.arm_lnd(port);
    }

    fn core_of(&mut self, node: u32) -> Option<&mut lnet_core::Core> {
        self.nodes.get_mut(node as usize)?.core.as_deref_mut()
    }

    fn arm_lnd(&mut self, port: PortId) {
        let now = self.now;
        let node = self
            .nodes
            .get_mut(port.node as usize)
            .filter(|node| node.core.is_some());
        let Some(at) = node.and_then(|node| node.ports.get_mut(usize::from(port.ni))) else {
            return;
        };
        let Some(due) = at.lnd.next_deadline() else {
            return;
        };
        let due = due.as_nanos().max(now);
        if due < at.wake_at {
            at.wake_at = due;
            self.agenda.plan(due, Happening::LndTimer(port));
        }
    }

    /// Sends a message of a node to the node itself.
    pub(super) fn loop_back(&mut self, node: u32, message: Message) {
        let tx = message.tx;
        let port = PortId { node, ni: 0 };
        let life = self
            .nodes
            .get(node as usize)
            .map_or(Incarnation(0), |node| node.incarnation);
        let flight = Flight {
            message,
            from: port,
            from_life: life,
            to: port,
            connection: life,
            posted_at: self.now,
            looped: true,
            arrives: true,
            result: None,
        };
        self.take_off(flight, self.now);
        let now = self.time();
        if let Some(core) = self.core_of(node) {
            core.sent(tx, lnet_core::MessageStatus::Ok, now);
        }
    }

    fn take_off(&mut self, flight: Flight, at: u64) {
        let number = self.flights.insert(flight) as u32;
        self.agenda.plan(at, Happening::Arrival(number));
    }

    /// Puts a message of a driver on the wire.
    fn post(&mut self, port: PortId, message: Message, connection: Incarnation) {
        let Some(&to) = self.places.get(&message.peer) else {
            return;
        };
        let (Some(from_plug), Some(to_plug)) = (self.plug(port), self.plug(to)) else {
            return;
        };
        let bytes = HEADER_BYTES + u64::from(message.header.payload_length);
        self.tally.posted(self.rail(port), bytes);
        if self.is_cut(port.node, to.node)
            || !self.fabric.is_up_since(from_plug, to_plug, self.now + 1)
        {
            return self.tally.lost();
        }
        let types = FaultTypes::from(message.header.body.message_type());
        let Some(waits) = self.waits_for_losses(port, to, types) else {
            return self.tally.lost();
        };
        let (result, arrives) = self.completion_of(port);
        let flight = Flight {
            from: port,
            from_life: self
                .nodes
                .get(port.node as usize)
                .map_or(connection, |n| n.incarnation),
            to,
            connection,
            posted_at: self.now,
            looped: false,
            arrives,
            result,
            message,
        };
        let at = self.fabric.carry(from_plug, to_plug, bytes, self.now) + waits;
        self.take_off(flight, at);
    }

    /// Returns the delay that a lossy path causes; `None` if the message is lost. Verbs lose the message at once; a
    /// stream retransmits it.
    fn waits_for_losses(&mut self, from: PortId, to: PortId, types: FaultTypes) -> Option<u64> {
        let (from_plug, to_plug) = (self.plug(from)?, self.plug(to)?);
        let spec = self.plan.world.nodes.get(from.node as usize)?;
        let kind = spec.nis.get(usize::from(from.ni))?.lnd;
        let mut waits = 0;
        for attempt in 0..RETRANSMITS_MAX {
            if !self.fabric.loses(from_plug, to_plug, types) {
                return Some(waits);
            }
            if kind == LndKind::O2ib {
                return None;
            }
            waits += RETRANSMIT_NS << attempt;
        }
        None
    }

    /// Returns the result that the sender will get, and whether the message reaches the other node.
    fn completion_of(&mut self, port: PortId) -> (Option<Result<(), CompletionError>>, bool) {
        let Some(at) = self.port(port) else {
            return (None, false);
        };
        if let Some(&(_, error)) = at.completion_error.last() {
            let arrives = error.may_have_arrived() && self.random.one_in(2);
            return (Some(Err(error)), arrives);
        }
        if at.completion_lost > 0 {
            return (None, true);
        }
        (Some(Ok(())), true)
    }

    fn plug(&self, port: PortId) -> Option<crate::cores::fabric::Plug> {
        self.port(port).map(|port| port.plug)
    }

    fn rail(&self, port: PortId) -> u16 {
        let node = self.plan.world.nodes.get(port.node as usize);
        node.and_then(|node| node.nis.get(usize::from(port.ni)))
            .map_or(0, |ni| ni.rail)
    }

    fn is_cut(&self, a: u32, b: u32) -> bool {
        let side = |side: &[bool], node: u32| side.get(node as usize).copied().unwrap_or(false);
        self.partitions
            .iter()
            .any(|(_, of)| side(of, a) != side(of, b))
    }

    /// Processes a message that is at the end of its path.
    pub(super) fn arrival(&mut self, number: u32) {
        let Some(flight) = self.flights.try_remove(number as usize) else {
            return;
        };
        if !flight.looped && !self.came_through(&flight) {
            return self.tally.lost();
        }
        let node = self.nodes.get(flight.to.node as usize);
        let lives = node.is_some_and(|n| n.core.is_some() && n.incarnation == flight.connection);
        if !lives {
            self.tally.lost();
            return self.unknown_connection(&flight);
        }
        if !flight.arrives {
            self.tally.lost();
            return self.complete(&flight);
        }
        let key = (flight.to.ni, flight.message_from(self));
        let held = self.nodes.get_mut(flight.to.node as usize);
        match held.and_then(|node| node.held.get_mut(&key)) {
            Some(held) if !flight.looped => held.behind.push_back(flight),
            _ => {
                let to = flight.to.node;
                self.deliver(flight);
                self.settle(to);
            }
        }
    }

    fn came_through(&mut self, flight: &Flight) -> bool {
        let (Some(from), Some(to)) = (self.plug(flight.from), self.plug(flight.to)) else {
            return false;
        };
        let broken = self
            .port(flight.to)
            .is_none_or(|port| port.device_faults > 0);
        !broken
            && !self.is_cut(flight.from.node, flight.to.node)
            && self.fabric.is_up_since(from, to, flight.posted_at + 1)
    }

    /// Handles a message whose receiver crashed after the connection was made. A receiver that runs again reports
    /// the connection as closed.
    fn unknown_connection(&mut self, flight: &Flight) {
        let lives = self
            .nodes
            .get(flight.to.node as usize)
            .is_some_and(|node| node.core.is_some());
        if lives && !flight.looped && self.sender_lives(flight) {
            let peer = flight.message.peer;
            self.tell(flight.from, LndEvent::Closed { peer });
            self.settle(flight.from.node);
        }
    }

    fn sender_lives(&self, flight: &Flight) -> bool {
        let node = self.nodes.get(flight.from.node as usize);
        node.is_some_and(|node| node.core.is_some() && node.incarnation == flight.from_life)
    }

    fn deliver(&mut self, flight: Flight) {
        let now = self.time();
        let to = flight.to;
        let from = ProcessId::lustre(flight.message_from(self));
        let ni = lnet_core::NiId(if flight.looped {
            0
        } else {
            u32::from(to.ni) + 1
        });
        let Some(core) = self.core_of(to.node) else {
            return;
        };
        match core.header(ni, from, &flight.message.header, now) {
            Verdict::Receive { rx, landing } => {
                self.land(to.node, rx, Some(landing), &flight);
                self.complete(&flight);
            }
            Verdict::Hold { rx } => self.hold(flight, from.nid, rx),
            Verdict::Drop(reason) => {
                self.tally.dropped();
                self.trace
                    .drop_message(self.now, &self.plan.world, to, reason);
                self.complete(&flight);
            }
            Verdict::Reject(error) => {
                let name = self.plan.world.node_name(to.node).to_owned();
                self.checker.refused(&name, error.reason(), self.now);
            }
        }
    }

    fn hold(&mut self, flight: Flight, from: Nid, rx: RxId) {
        let key = (flight.to.ni, from);
        if let Some(node) = self.nodes.get_mut(flight.to.node as usize) {
            let behind = std::collections::VecDeque::new();
            node.held.insert(key, Held { rx, flight, behind });
        }
    }

    /// Puts the payload of a message in its place, or drops it.
    fn land(&mut self, index: u32, rx: RxId, landing: Option<Landing>, flight: &Flight) {
        let now = self.time();
        self.trace.arrival(
            self.now,
            &self.plan.world,
            flight.to,
            &flight.message.header,
        );
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return;
        };
        if let Some(Landing {
            place,
            offset,
            length,
        }) = landing
        {
            let bytes = flight.message.bytes.as_deref();
            match place {
                Place::Md(_) => {}
                Place::Router(buffer) => match bytes {
                    Some(bytes) => drop(node.router_bytes.insert(buffer, bytes.into())),
                    None => drop(node.router_bytes.remove(&buffer)),
                },
                Place::Core(buffer) => {
                    let (from, length) = (offset as usize, length as usize);
                    let memory = node
                        .core
                        .as_deref_mut()
                        .map(|core| core.core_buffer_mut(buffer));
                    let memory = memory.and_then(|memory| memory.get_mut(from..from + length));
                    let bytes = bytes.and_then(|bytes| bytes.get(..length));
                    if let (Some(memory), Some(bytes)) = (memory, bytes) {
                        memory.copy_from_slice(bytes);
                    }
                }
            }
            self.tally.delivered(flight.message.header.payload_length);
        }
        if let Some(core) = self.core_of(index) {
            core.arrived(rx, Ok(()), now);
        }
    }

    /// Continues a held message, and then the messages that wait behind it on its connection.
    pub(super) fn resume(&mut self, index: u32, rx: RxId, landing: Option<Landing>) {
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return;
        };
        // The connection may have closed since the core released the message.
        let Some((&key, _)) = node.held.iter().find(|(_, held)| held.rx == rx) else {
            return;
        };
        let Some(held) = node.held.remove(&key) else {
            return;
        };
        self.land(index, rx, landing, &held.flight);
        self.complete(&held.flight);
        for flight in held.behind {
            let held_again = self
                .nodes
                .get_mut(index as usize)
                .and_then(|node| node.held.get_mut(&key));
            match held_again {
                Some(held) => held.behind.push_back(flight),
                None => self.deliver(flight),
            }
        }
    }

    /// Reports the result of a message to its sender.
    fn complete(&mut self, flight: &Flight) {
        let (false, Some(result)) = (flight.looped, flight.result) else {
            return;
        };
        if !self.sender_lives(flight) {
            return;
        }
        let lie = self
            .port(flight.from)
            .and_then(|port| port.lies.last().copied());
        let tx = flight.message.tx;
        match lie.filter(|_| result.is_ok()).zip(flight.operation()) {
            // The driver gets the true result afterwards, when the core no longer uses it.
            Some(((_, class), operation)) => {
                self.checker.lied(operation);
                self.trace
                    .sent(self.now, &self.plan.world, flight.from, tx, class);
                let now = self.time();
                if let Some(core) = self.core_of(flight.from.node) {
                    core.sent(tx, class, now);
                }
                self.tell(flight.from, LndEvent::Completion { tx, result });
            }
            None => self.tell(flight.from, LndEvent::Completion { tx, result }),
        }
        self.settle(flight.from.node);
    }

    // --- connections ---

    fn dial(&mut self, from: PortId, peer: Nid) {
        let to = self.places.get(&peer).copied();
        let plugs = (self.plug(from), to.and_then(|to| self.plug(to)));
        let life = self
            .nodes
            .get(from.node as usize)
            .map_or(Incarnation(0), |n| n.incarnation);
        let wait = match plugs {
            (Some(from), Some(to)) if !self.fabric.is_apart(from, to) => {
                2 * self.fabric.latency(from, to)
            }
            _ => 0,
        };
        let dialling = Dialling {
            from,
            from_life: life,
            peer,
            to,
        };
        let reachable = to.is_some_and(|to| self.is_reachable(from, to));
        let wait = if reachable || wait == 0 {
            wait
        } else {
            DIAL_NS
        };
        let number = self.diallings.insert(dialling) as u32;
        self.agenda
            .plan(self.now + wait, Happening::Dialled(number));
    }

    fn is_reachable(&mut self, from: PortId, to: PortId) -> bool {
        let (Some(a), Some(b)) = (self.plug(from), self.plug(to)) else {
            return false;
        };
        !self.is_cut(from.node, to.node) && self.fabric.is_up_since(a, b, self.now + 1)
    }

    pub(super) fn dialled(&mut self, number: u32) {
        let Some(dialling) = self.diallings.try_remove(number as usize) else {
            return;
        };
        let Dialling {
            from,
            from_life,
            peer,
            to,
        } = dialling;
        let lives = self
            .nodes
            .get(from.node as usize)
            .is_some_and(|n| n.incarnation == from_life);
        if !lives {
            return;
        }
        let event = match self.connect(from, to) {
            Ok(incarnation) => LndEvent::Connected { peer, incarnation },
            Err(error) => LndEvent::ConnectFailed { peer, error },
        };
        self.tell(from, event);
        self.settle(from.node);
    }

    fn connect(&mut self, from: PortId, to: Option<PortId>) -> Result<Incarnation, ConnectError> {
        let to = to.ok_or(ConnectError::NoRoute)?;
        let (a, b) = (self.plug(from), self.plug(to));
        let (a, b) = a.zip(b).ok_or(ConnectError::NoRoute)?;
        if self.fabric.is_apart(a, b) {
            return Err(ConnectError::NoRoute);
        }
        if self
            .port(from)
            .is_none_or(|port| !port.link_up || port.device_faults > 0)
        {
            return Err(ConnectError::Aborted);
        }
        if !self.is_reachable(from, to) {
            return Err(ConnectError::Unreachable);
        }
        let node = self
            .nodes
            .get(to.node as usize)
            .ok_or(ConnectError::NoRoute)?;
        let broken = node
            .ports
            .get(usize::from(to.ni))
            .is_none_or(|port| port.device_faults > 0);
        if broken {
            return Err(ConnectError::Unreachable);
        }
        if node.core.is_none() || node.rejects > 0 {
            return Err(ConnectError::Rejected);
        }
        Ok(node.incarnation)
    }

    /// Handles a connection that its sender closed: the messages that the other end holds of it fail.
    fn close(&mut self, from: PortId, peer: Nid) {
        let Some(nid) = self.port(from).map(|port| port.nid) else {
            return;
        };
        if let Some(&to) = self.places.get(&peer) {
            self.drop_held(to, nid);
        }
    }

    /// Fails the messages that an interface holds of a connection.
    pub(super) fn drop_held(&mut self, to: PortId, from: Nid) {
        let now = self.time();
        let Some(node) = self.nodes.get_mut(to.node as usize) else {
            return;
        };
        let Some(held) = node.held.remove(&(to.ni, from)) else {
            return;
        };
        for _ in 0..=held.behind.len() {
            self.tally.lost();
        }
        if let Some(core) = node.core.as_deref_mut() {
            core.arrived(held.rx, Err(lnet_core::MessageStatus::RemoteError), now);
        }
        // The node that closed the connection is settled by its caller; the other node is settled with its next
        // timer.
        self.agenda.plan(self.now, Happening::CoreTimer(to.node));
        if let Some(node) = self.nodes.get_mut(to.node as usize) {
            node.wake_at = self.now;
        }
    }
}

/// Returns the operation of a program that a request belongs to.
pub(crate) fn operation_of(header: &Header) -> Option<u64> {
    match header.body {
        Body::Put(put) if put.ptl_index == PORTAL => Some(put.match_bits),
        Body::Get(get) if get.ptl_index == PORTAL => Some(get.match_bits),
        _ => None,
    }
}

impl Flight {
    /// Returns the NID that the receiver sees as the sender.
    fn message_from(&self, sim: &Sim) -> Nid {
        if self.looped {
            return Nid::LOOPBACK;
        }
        sim.port(self.from).map_or(Nid::ANY, |port| port.nid)
    }

    fn operation(&self) -> Option<u64> {
        operation_of(&self.message.header)
    }
}

//! Handles the arrival of a header: the checks in their order, and the place for the payload.

use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{Body, Handle, Header, LNET_MTU, LNET_PORTAL, MessageType};

use crate::Core;
use crate::counts::counters::Arrival;
use crate::event::{Event, EventKind};
use crate::health::recovery::RecoveryTarget;
use crate::io::{Landing, NiId, Payload, Place, Verdict};
use crate::portals::matching::{Match, Wanted};
use crate::portals::md::MdHandle;
use crate::receive::rx::{Origin, ReceiveStage, Rx};
use crate::status::{DropReason, IllegalMessage};

/// The limit of messages that wait for credits of one peer NI before its requests are dropped. Otherwise a peer that
/// sends requests but reads no responses would fill the memory.
pub(crate) const ANSWERS_QUEUED_MAX: usize = 8192;

/// The limit of messages under way over all peers. Near this limit, the limit of waiting responses of each peer falls
/// from [`ANSWERS_QUEUED_MAX`] to the number of messages that are left. A peer that takes its responses is answered
/// whatever others do.
const MESSAGES_MAX: usize = 1 << 18;

pub(crate) fn header(
    core: &mut Core,
    ni: NiId,
    from: ProcessId,
    header: &Header,
    now: Time,
) -> Verdict {
    core.note_time(now);
    let arrival = Arrival::new(ni, from.nid, header);
    let for_this_node = match core.is_for_this_node(ni, header) {
        Ok(for_this_node) => for_this_node,
        Err(error) => {
            core.counters.refused += 1;
            return Verdict::Reject(error);
        }
    };
    let origin = Origin {
        ni,
        from,
        header: *header,
    };
    if core.fault_on_receive(&origin, now) {
        return core.drop_arrival(arrival, DropReason::FaultInjected);
    }
    core.note_ping(ni, header, now);
    // The answer to this ping already says what the ping has shown.
    core.refresh_ping_info();
    match core.admit(for_this_node, arrival, header, now) {
        Err(reason) => core.drop_arrival(arrival, reason),
        Ok(()) if for_this_node => match core.delay_on_receive(&origin, now) {
            Some(held) => held,
            None => core.receive(origin),
        },
        Ok(()) => core.receive_routed(origin),
    }
}

impl Core {
    /// Applies checks 1 and 3: the length must be legal, and the message must be addressed to this interface or to
    /// another net.
    // [MSG-4] [MSG-5] [MSG-9]
    fn is_for_this_node(&self, ni: NiId, header: &Header) -> Result<bool, IllegalMessage> {
        let longest = match header.body.message_type() {
            MessageType::Ack | MessageType::Get => 0,
            MessageType::Put | MessageType::Reply => LNET_MTU,
        };
        if header.payload_length > longest {
            return Err(IllegalMessage::BadLength);
        }
        let here = self.nis.get(ni).map(|ni| ni.nid);
        match self.nis.by_nid(header.dest_nid) {
            Some(_) if ni == NiId::LOOPBACK || here == Some(header.dest_nid) => Ok(true),
            Some(_) => Err(IllegalMessage::WrongInterface),
            None if here.is_some_and(|nid| nid.net() == header.dest_nid.net()) => {
                Err(IllegalMessage::MisdirectedOnNet)
            }
            None => Ok(false),
        }
    }

    /// Applies checks 3c to 8, which may drop a message whatever its type is.
    // [MSG-10] [MSG-11] [MSG-12]
    fn admit(
        &mut self,
        for_this_node: bool,
        arrival: Arrival,
        header: &Header,
        now: Time,
    ) -> Result<(), DropReason> {
        if self.nis.get(arrival.ni).is_none() {
            return Err(DropReason::NoRoute);
        }
        if arrival.ni == NiId::LOOPBACK {
            return if for_this_node {
                Ok(())
            } else {
                Err(DropReason::NoRoute)
            };
        }
        if !for_this_node && !self.config.routing {
            return Err(DropReason::NotRouting);
        }
        if !self.may_be_source(header.src_nid, arrival.sender) {
            return Err(DropReason::BadSource);
        }
        let id = self
            .peer_ni(arrival.sender, now)
            .ok_or(DropReason::NoMemory)?;
        if header.src_nid.net() != arrival.sender.net() {
            self.came_through(arrival.sender, header.src_nid, for_this_node, now)?;
        }
        if let Some(peer_ni) = self.peers.get_mut(id) {
            peer_ni.down_since = None;
            peer_ni.last_alive = Some(now);
            // A peer NI below full health from which nothing was ever received was not in recovery until now. It is
            // alive even if the message is dropped later.
            if !peer_ni.health.is_full() && self.config.globals.health_sensitivity > 0 {
                self.enter_recovery(RecoveryTarget::Peer(id), now);
            }
        }
        Ok(())
    }

    /// Checks the source of a message. On the net of the connection, a node sends each message from the NID for which
    /// the connection was made. Another NID of the same peer is accepted, too: which NIDs these are, the configuration
    /// or the peer's own answer says. A NID on another net is that of a node behind a router.
    // [MSG-11]
    fn may_be_source(&self, source: Nid, sender: Nid) -> bool {
        if source.is_any() || source.net() == Nid::LOOPBACK.net() {
            return false;
        }
        let is_direct = source.net() == sender.net();
        let is_of_sender =
            || source == sender || self.peers.primary_of(source) == self.peers.primary_of(sender);
        !is_direct || is_of_sender()
    }

    /// Applies check 7 to a message that came through a router.
    // [GATE-24]
    fn came_through(
        &mut self,
        gateway: Nid,
        source: Nid,
        for_this_node: bool,
        now: Time,
    ) -> Result<(), DropReason> {
        self.revive_gateway(gateway, source.net(), now);
        let primary = self.peers.primary_of(gateway);
        let routed = self
            .routes
            .to(source.net())
            .iter()
            .any(|state| self.peers.primary_of(state.route.gateway) == primary);
        if for_this_node && self.config.globals.drop_asym_route && !routed {
            return Err(DropReason::AsymmetricRoute);
        }
        Ok(())
    }

    fn receive(&mut self, origin: Origin) -> Verdict {
        match self.place_of_message(&origin) {
            Ok((stage, landing)) => self.receive_into(origin.into_rx(stage), landing),
            Err(DropReason::NoMatch) => self.receive_unmatched(origin),
            Err(reason) => self.drop_arrival(origin.arrival(), reason),
        }
    }

    /// Handles a message that no entry accepts: a lazy portal holds a PUT until a descriptor accepts it.
    // [DATA-17] [MSG-12]
    fn receive_unmatched(&mut self, origin: Origin) -> Verdict {
        match origin.header.body {
            Body::Put(put) if self.holds(put.ptl_index, MessageType::Put) => {
                self.hold_lazy(origin, put.ptl_index)
            }
            _ => self.drop_arrival(origin.arrival(), DropReason::NoMatch),
        }
    }

    /// Returns the place for the payload of a message for this node, and begins an operation of the descriptor there.
    pub(crate) fn place_of_message(
        &mut self,
        origin: &Origin,
    ) -> Result<(ReceiveStage, Landing), DropReason> {
        let header = &origin.header;
        let (portal, wanted) = match header.body {
            Body::Put(put) => {
                let length = header.payload_length;
                let wanted = self.wanted(origin, put.match_bits, length, put.offset);
                (put.ptl_index, wanted)
            }
            Body::Get(get) => {
                let length = get.sink_length.min(LNET_MTU);
                let wanted = self.wanted(origin, get.match_bits, length, get.src_offset);
                (get.ptl_index, wanted)
            }
            Body::Ack(ack) => return self.place_of_response(origin, ack.dst_wmd),
            Body::Reply(reply) => return self.place_of_response(origin, reply.dst_wmd),
        };
        if !self.may_answer(origin) {
            return Err(DropReason::NoMemory);
        }
        let found = self.search(portal, &wanted)?;
        Ok(self.begin_request(origin, &wanted, found))
    }

    // [DATA-7] [DATA-8] [DATA-9]
    fn place_of_response(
        &mut self,
        origin: &Origin,
        handle: Handle,
    ) -> Result<(ReceiveStage, Landing), DropReason> {
        let (event, landing) = self.accept_response(origin, handle)?;
        Ok((ReceiveStage::Landing(event), landing))
    }

    pub(crate) fn wanted(
        &self,
        origin: &Origin,
        match_bits: u64,
        rlength: u32,
        offset: u32,
    ) -> Wanted {
        Wanted {
            operation: origin.header.body.message_type(),
            match_bits,
            rlength,
            offset,
            initiator: self.initiator(&origin.header),
        }
    }

    /// Returns the initiator of a message by the name that upper layers use.
    // [DATA-16]
    pub(crate) fn initiator(&self, header: &Header) -> ProcessId {
        let source = header.src_nid;
        let own = self.nis.by_nid(source).is_some() && !source.is_loopback();
        let nid = match self.primary_nid().filter(|_| own) {
            Some(primary) => primary,
            None => self.peers.primary_of(source),
        };
        ProcessId {
            nid,
            pid: header.src_pid,
        }
    }

    /// Returns whether there is room for the response, if the message needs one.
    fn may_answer(&self, origin: &Origin) -> bool {
        let unanswered = match origin.header.body {
            Body::Put(put) => put.ack_wmd == Handle::NONE,
            _ => false,
        };
        let queued = self
            .peers
            .by_nid(origin.from.nid)
            .map_or(0, |peer_ni| peer_ni.credits.waiting().len());
        let free = MESSAGES_MAX.saturating_sub(self.tx.len()).max(1);
        unanswered || queued < ANSWERS_QUEUED_MAX.min(free)
    }

    fn search(&self, portal: u32, wanted: &Wanted) -> Result<Match, DropReason> {
        let aliases = self.aliases(wanted.initiator);
        self.portals.search(&self.mds, portal, wanted, aliases)
    }

    /// Returns the NIDs of an initiator's peer.
    pub(crate) fn aliases(&self, initiator: ProcessId) -> &[Nid] {
        self.peers
            .peer(initiator.nid)
            .map_or(&[], |peer| &peer.nids)
    }

    /// Begins an operation of a descriptor for a matched PUT or GET.
    pub(crate) fn begin_request(
        &mut self,
        origin: &Origin,
        wanted: &Wanted,
        found: Match,
    ) -> (ReceiveStage, Landing) {
        let Match {
            md,
            spec,
            owner,
            offset,
            mlength: length,
        } = found;
        self.begin_operation(md, offset.saturating_add(length));
        let place = owner.place(md);
        let mut event = origin.event(md, spec.user);
        event.initiator = wanted.initiator;
        event.match_bits = wanted.match_bits;
        event.offset = offset;
        event.mlength = length;
        // An operation of no bytes may name any offset. The place must not start outside the memory.
        let offset = offset.min(spec.length);
        if wanted.operation != MessageType::Get {
            return (
                ReceiveStage::Landing(event),
                Landing {
                    place,
                    offset,
                    length,
                },
            );
        }
        if let Place::Core(buffer) = place {
            self.buffers.retain(buffer);
        }
        let nothing = Landing {
            place,
            offset: 0,
            length: 0,
        };
        (
            ReceiveStage::Asking(
                event,
                Payload {
                    place,
                    offset,
                    length,
                },
            ),
            nothing,
        )
    }

    /// Begins an operation and moves the descriptor's running offset. A descriptor that this exhausts is detached if
    /// it is to be unlinked.
    fn begin_operation(&mut self, md: MdHandle, offset: u32) {
        let Some(entry) = self.mds.get_mut(md) else {
            return self.broken("the descriptor that a request found");
        };
        entry.begin();
        entry.offset = offset;
        if entry.is_to_be_freed() {
            self.detach(md);
        }
    }
}

impl Origin {
    pub(crate) fn into_rx(self, stage: ReceiveStage) -> Rx {
        Rx {
            ni: self.ni,
            from: self.from,
            header: self.header,
            stage,
        }
    }

    /// Returns the event of a message that arrived, as far as the header determines it. `user` is the user value of
    /// its descriptor.
    pub(crate) fn event(&self, md: MdHandle, user: u64) -> Event {
        let header = &self.header;
        let (kind, portal, match_bits, hdr_data) = match header.body {
            Body::Ack(ack) => (EventKind::Ack, LNET_PORTAL, ack.match_bits, 0),
            Body::Put(put) => (EventKind::Put, put.ptl_index, put.match_bits, put.hdr_data),
            Body::Get(get) => (EventKind::Get, get.ptl_index, get.match_bits, 0),
            Body::Reply(_) => (EventKind::Reply, LNET_PORTAL, 0, 0),
        };
        let source = ProcessId {
            nid: header.src_nid,
            pid: header.src_pid,
        };
        Event {
            kind,
            md,
            user,
            status: Ok(()),
            unlinked: false,
            target: ProcessId {
                nid: header.dest_nid,
                pid: header.dest_pid,
            },
            initiator: source,
            source,
            sender: self.from.nid,
            message_type: Some(header.body.message_type()),
            portal,
            match_bits,
            rlength: header.payload_length,
            mlength: 0,
            offset: 0,
            hdr_data,
        }
    }
}

//! Handles the arrival of a header: the checks in their order, and the place for the payload.

use lnet_types::{ProcessId, Time};
use lnet_wire::{Body, Handle, Header, LNET_MTU, LNET_PORTAL, MessageType};

use crate::ground::counters::Arrival;
use crate::ground::event::{Event, EventKind};
use crate::ground::io::{Landing, NiId, Payload, Place, Verdict};
use crate::ground::md::MdHandle;
use crate::ground::status::DropReason;
use crate::ground::timer::RecoveryTarget;
use crate::traffic::Traffic;
use crate::traffic::portals::matching::{Match, Wanted};
use crate::traffic::receive::rx::{Origin, ReceiveStage, Rx};

/// The limit of messages that wait for credits of one peer NI before its requests are dropped. Otherwise a peer that
/// sends requests but reads no responses would fill the memory.
pub(crate) const ANSWERS_QUEUED_MAX: usize = 8192;

/// The limit of messages under way over all peers. Near this limit, the limit of waiting responses of each peer falls
/// from [`ANSWERS_QUEUED_MAX`] to the number of messages that are left. A peer that takes its responses is answered
/// whatever others do.
const MESSAGES_MAX: usize = 1 << 18;

impl Origin {
    pub(in crate::traffic) fn into_rx(self, stage: ReceiveStage) -> Rx {
        Rx {
            ni: self.ni,
            from: self.from,
            header: self.header,
            stage,
        }
    }

    /// Returns the event of a message that arrived, as far as the header determines it. `user` is the user value of
    /// its descriptor.
    pub(in crate::traffic) fn event(&self, md: MdHandle, user: u64) -> Event {
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

impl Traffic {
    pub(crate) fn header(
        &mut self,
        ni: NiId,
        from: ProcessId,
        header: &Header,
        now: Time,
    ) -> Verdict {
        self.note_time(now);
        let arrival = Arrival::new(ni, from.nid, header);
        let for_this_node = match self.fabric.is_for_this_node(ni, header) {
            Ok(for_this_node) => for_this_node,
            Err(error) => {
                self.counters().refused += 1;
                return Verdict::Reject(error);
            }
        };
        let origin = Origin {
            ni,
            from,
            header: *header,
        };
        if self.fault_on_receive(&origin, now) {
            return self.fabric.drop_arrival(arrival, DropReason::FaultInjected);
        }
        self.fabric.note_ping(ni, header, now);
        // The answer to this ping already says what the ping has shown.
        self.refresh_ping_info();
        match self.admit(for_this_node, arrival, header, now) {
            Err(reason) => self.fabric.drop_arrival(arrival, reason),
            Ok(()) if for_this_node => match self.delay_on_receive(&origin, now) {
                Some(held) => held,
                None => self.receive(origin),
            },
            Ok(()) => self.receive_routed(origin),
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
        if self.fabric.nis.get(arrival.ni).is_none() {
            return Err(DropReason::NoRoute);
        }
        if arrival.ni == NiId::LOOPBACK {
            return if for_this_node {
                Ok(())
            } else {
                Err(DropReason::NoRoute)
            };
        }
        if !for_this_node && !self.fabric.ground.config.routing {
            return Err(DropReason::NotRouting);
        }
        if !self.fabric.may_be_source(header.src_nid, arrival.sender) {
            return Err(DropReason::BadSource);
        }
        let id = self
            .fabric
            .peer_ni(arrival.sender, now)
            .ok_or(DropReason::NoMemory)?;
        if header.src_nid.net() != arrival.sender.net() {
            self.fabric
                .came_through(arrival.sender, header.src_nid, for_this_node, now)?;
        }
        if let Some(peer_ni) = self.fabric.peers.get_mut(id) {
            peer_ni.down_since = None;
            peer_ni.last_alive = Some(now);
            // A peer NI below full health from which nothing was ever received was not in recovery until now. It is
            // alive even if the message is dropped later.
            if !peer_ni.health.is_full() && self.globals().health_sensitivity > 0 {
                self.fabric.enter_recovery(RecoveryTarget::Peer(id), now);
            }
        }
        Ok(())
    }

    fn receive(&mut self, origin: Origin) -> Verdict {
        match self.place_of_message(&origin) {
            Ok((stage, landing)) => self.receive_into(origin.into_rx(stage), landing),
            Err(DropReason::NoMatch) => self.receive_unmatched(origin),
            Err(reason) => self.fabric.drop_arrival(origin.arrival(), reason),
        }
    }

    /// Handles a message that no entry accepts: a lazy portal holds a PUT until a descriptor accepts it.
    // [DATA-17] [MSG-12]
    fn receive_unmatched(&mut self, origin: Origin) -> Verdict {
        match origin.header.body {
            Body::Put(put) if self.holds(put.ptl_index, MessageType::Put) => {
                self.hold_lazy(origin, put.ptl_index)
            }
            _ => self
                .fabric
                .drop_arrival(origin.arrival(), DropReason::NoMatch),
        }
    }

    /// Returns the place for the payload of a message for this node, and begins an operation of the descriptor there.
    pub(in crate::traffic) fn place_of_message(
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

    pub(in crate::traffic) fn wanted(
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
            initiator: self.fabric.initiator(&origin.header),
        }
    }

    /// Returns whether there is room for the response, if the message needs one.
    fn may_answer(&self, origin: &Origin) -> bool {
        let unanswered = match origin.header.body {
            Body::Put(put) => put.ack_wmd == Handle::NONE,
            _ => false,
        };
        let queued = self
            .fabric
            .peers
            .by_nid(origin.from.nid)
            .map_or(0, |peer_ni| peer_ni.credits.waiting().len());
        let free = MESSAGES_MAX.saturating_sub(self.tx.len()).max(1);
        unanswered || queued < ANSWERS_QUEUED_MAX.min(free)
    }

    fn search(&self, portal: u32, wanted: &Wanted) -> Result<Match, DropReason> {
        let aliases = self.fabric.aliases(wanted.initiator);
        self.portals.search(&self.mds, portal, wanted, aliases)
    }

    /// Begins an operation of a descriptor for a matched PUT or GET.
    pub(in crate::traffic) fn begin_request(
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

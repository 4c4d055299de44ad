//! Forwarding of messages for other nodes.
//!
//! ```text
//!  header ─▶ credit of the sender ─▶ share of the next hop ─▶ buffer of the pool ─▶ payload arrives ─▶ sent on ─▶ all free
//!                 │ none left             │ used up                │ none left
//!                 ▼                       ▼                        ▼
//!            waits in the sender's    waits in the hop's       waits in the pool's
//!            queue (Hold)             queue (Hold)             queue (Hold)
//! ```
//!
//! The router stores and forwards: a complete message is in a buffer before its next hop is selected. A message that
//! waits blocks its connection, which is the only back-pressure. All queues are first in, first out. The router
//! changes nothing in the header.
//!
//! A message never goes back through the gateway that it came from. LNet counts no hops: two routers that each have a
//! route to a net through the other would pass a message to and fro until one of them fails.

use lnet_policy::Profile;
use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::Header;

use crate::fabric::select::{PathRequest, Unobserved};
use crate::ground::event::Errno;
use crate::ground::ids::PeerNiId;
use crate::ground::io::{Landing, Output, Payload, Place, RouterBuffer, RouterPool, RxId, Verdict};
use crate::ground::status::{DropReason, MessageStatus};
use crate::traffic::Traffic;
use crate::traffic::portals::descriptor::Owner;
use crate::traffic::receive::rx::{Origin, ReceiveStage};
use crate::traffic::send::tx::{End, Outgoing, Tx, Work};

/// What the buffer of a routed message is counted against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage {
    pool: RouterPool,
    /// The peer NI that sent the message to this node.
    sender: PeerNiId,
    /// The next hop that was selected when the header arrived; `None` if there was no path or the share of a next hop
    /// is not limited. The path is selected anew when the complete message is here.
    hop: Option<Nid>,
}

/// Describes a routed message to selection.
// [ROUTE-2] [ROUTE-6]
fn forwarding(header: &Header, from: Nid) -> PathRequest {
    let user = ProcessId {
        nid: header.dest_nid,
        pid: header.dest_pid,
    };
    // A header may carry any pid. Only a pid that stands for a dialled connection names the peer's process.
    let target = if user.is_userspace() {
        user
    } else {
        ProcessId::lustre(user.nid)
    };
    PathRequest::Forward {
        origin: header.src_nid,
        from,
        target,
    }
}

fn landing(buffer: RouterBuffer, length: u32) -> Landing {
    Landing {
        place: Place::Router(buffer),
        offset: 0,
        length,
    }
}

impl Traffic {
    pub(crate) fn set_router_buffers(
        &mut self,
        buffers: crate::ground::config::RouterBuffers,
        _now: Time,
    ) {
        self.fabric.ground.config.buffers = buffers;
        self.pools.resize(buffers);
        for pool in RouterPool::ALL {
            self.serve_pool(pool);
        }
    }

    /// Handles the header of a message for another node.
    // [ROUTE-5] [ROUTE-9]
    pub(in crate::traffic) fn receive_routed(&mut self, origin: Origin) -> Verdict {
        let arrival = origin.arrival();
        let length = origin.header.payload_length;
        let pool = RouterPool::for_length(length);
        let Some(sender) = self.fabric.peers.id_of(origin.from.nid) else {
            return self.fabric.drop_arrival(arrival, DropReason::NoMemory);
        };
        if self.pools.get(pool).total() == 0 {
            return self.fabric.drop_arrival(arrival, DropReason::NoMemory);
        }
        self.counters().begin_message();
        let stage = ReceiveStage::HeldForCredit(sender);
        let rx = self.rx.insert(origin.into_rx(stage));
        if !self.take_sender_credit(sender, rx) {
            return Verdict::Hold { rx };
        }
        match self.enter(rx, sender) {
            Some(buffer) => Verdict::Receive {
                rx,
                landing: landing(buffer, length),
            },
            None => Verdict::Hold { rx },
        }
    }

    /// Counts a buffer against the sender, or queues the message behind the sender's others. Returns whether it was
    /// counted.
    // [ROUTE-8]
    fn take_sender_credit(&mut self, sender: PeerNiId, rx: RxId) -> bool {
        let limit = self.sender_limit(sender);
        let Some(peer_ni) = self.fabric.peers.get_mut(sender) else {
            self.broken("the sender of a message that has just arrived");
            return false;
        };
        peer_ni.router_credits.take_or_wait(rx, limit)
    }

    fn sender_limit(&self, sender: PeerNiId) -> u32 {
        let net = self
            .fabric
            .peers
            .get(sender)
            .map(|peer_ni| peer_ni.nid.net());
        net.and_then(|net| self.fabric.nis.net_tunables(net))
            .map_or(1, |t| t.router_credits())
    }

    /// Gives a buffer to a message that has its sender's credit, or queues the message for one.
    fn enter(&mut self, id: RxId, sender: PeerNiId) -> Option<RouterBuffer> {
        let Some(rx) = self.rx.get(id) else {
            self.broken("a message that has its sender's credit");
            return None;
        };
        let send = forwarding(&rx.header, rx.from.nid);
        let pool = RouterPool::for_length(rx.header.payload_length);
        let limit = self.hop_limit(pool);
        let path = || self.fabric.view().path(&send, None, &mut Unobserved).ok();
        // If one next hop may hold every buffer, there is nothing to count.
        let counts = limit < self.pools.get(pool).total();
        let hop = counts.then(path).flatten().map(|path| path.next_hop.nid);
        let passage = Passage { pool, sender, hop };
        if let Some(hop) = hop
            && !self.hops.take(hop, pool, limit, id)
        {
            self.counters().next_hop_waits += 1;
            self.set_rx_stage(id, ReceiveStage::HeldForHop(passage));
            return None;
        }
        self.take_buffer(passage, id)
    }

    /// Returns the limit of buffers of a pool that messages for one next hop may hold.
    // [GATE-36]
    fn hop_limit(&self, pool: RouterPool) -> u32 {
        let total = u64::from(self.pools.get(pool).total());
        let share = match self.globals().profile {
            Profile::Lustre | Profile::Lustre217 => 100,
            Profile::Design => u64::from(self.globals().next_hop_share.min(100)),
        };
        // A percentage of a 32-bit number, at most 100, fits in 32 bits.
        ((total * share / 100) as u32).max(1)
    }

    fn set_rx_stage(&mut self, id: RxId, stage: ReceiveStage) {
        match self.rx.get_mut(id) {
            Some(rx) => rx.stage = stage,
            None => self.broken("a message that is being received"),
        }
    }

    /// Gives a message a buffer, or queues the message behind the pool's others.
    // [ROUTE-7]
    fn take_buffer(&mut self, passage: Passage, id: RxId) -> Option<RouterBuffer> {
        let buffer = self.pools.take_or_wait(passage.pool, id);
        let stage = match buffer {
            Some(buffer) => ReceiveStage::Buffered(buffer, passage),
            None => ReceiveStage::HeldForBuffer(passage),
        };
        self.set_rx_stage(id, stage);
        buffer
    }

    /// Sends a routed message that is complete in its buffer to the next hop.
    pub(in crate::traffic) fn buffered(
        &mut self,
        origin: &Origin,
        buffer: RouterBuffer,
        passage: Passage,
        result: Result<(), MessageStatus>,
        now: Time,
    ) {
        if result.is_err() {
            return self.return_buffer(buffer, passage);
        }
        self.fabric.count_received(origin.arrival());
        if let Err(reason) = self.send_on(origin, buffer, passage, now) {
            self.fabric.count_drop(origin.arrival(), reason);
            self.return_buffer(buffer, passage);
        }
    }

    // [ROUTE-4]
    fn send_on(
        &mut self,
        origin: &Origin,
        buffer: RouterBuffer,
        passage: Passage,
        now: Time,
    ) -> Result<(), DropReason> {
        if !self.fabric.ground.config.routing {
            return Err(DropReason::RoutingStopped);
        }
        let header = origin.header;
        let from = origin.from.nid;
        let send = forwarding(&header, from);
        self.fabric.ensure_target_known(&send, now);
        let path = self.fabric.view().path(&send, None, &mut Unobserved);
        self.fabric.note_selection(&send, None);
        let path = path.map_err(|_| {
            if self
                .fabric
                .view()
                .leads_through(header.dest_nid.net(), from)
            {
                DropReason::RoutingLoop
            } else {
                DropReason::NoRoute
            }
        })?;
        let length = header.payload_length;
        let payload = (length > 0).then_some(Payload {
            place: Place::Router(buffer),
            offset: 0,
            length,
        });
        let work = Work::Forward(buffer, passage);
        self.dispatch(
            send,
            path,
            Outgoing {
                header,
                payload,
                work,
                owner: Owner::User,
                named: None,
            },
            now,
        );
        Ok(())
    }

    /// Takes a buffer back, and the credits that it was counted against. Messages that wait for them continue.
    pub(in crate::traffic) fn return_buffer(&mut self, buffer: RouterBuffer, passage: Passage) {
        self.release_router_buffer(buffer);
        self.serve_pool(buffer.pool);
        self.return_share(passage);
        self.return_sender_credit(passage.sender);
    }

    fn return_share(&mut self, passage: Passage) {
        let Passage { pool, hop, .. } = passage;
        let limit = self.hop_limit(pool);
        let Some(hop) = hop else { return };
        if !self.hops.release(hop, pool) {
            self.broken("a share of a next hop that comes back was taken");
        }
        let Some(id) = self.hops.take_next(hop, pool, limit) else {
            return;
        };
        let stage = self.rx.get(id).map(|rx| &rx.stage);
        let Some(&ReceiveStage::HeldForHop(next)) = stage else {
            return self.broken("a message that waits for its next hop's share");
        };
        if let Some(buffer) = self.take_buffer(next, id) {
            self.resume_with(id, buffer);
        }
    }

    fn resume_with(&mut self, id: RxId, buffer: RouterBuffer) {
        let Some(rx) = self.rx.get(id) else {
            return self.broken("a message that has a buffer");
        };
        let landing = Some(landing(buffer, rx.header.payload_length));
        self.fabric
            .ground
            .outputs
            .push_back(Output::Resume { rx: id, landing });
    }

    fn release_router_buffer(&mut self, buffer: RouterBuffer) {
        if !self.pools.release(buffer) {
            self.broken("a router buffer that comes back was out");
        }
    }

    /// Gives free buffers to the messages that wait for one.
    fn serve_pool(&mut self, pool: RouterPool) {
        while let Some((id, buffer)) = self.pools.serve(pool) {
            self.resume_into(id, buffer);
        }
    }

    fn resume_into(&mut self, id: RxId, buffer: RouterBuffer) {
        let Some(rx) = self.rx.get_mut(id) else {
            self.broken("a message that waits for a buffer");
            return self.release_router_buffer(buffer);
        };
        let ReceiveStage::HeldForBuffer(passage) = rx.stage else {
            self.broken("a message in the queue for a buffer waits for one");
            return self.release_router_buffer(buffer);
        };
        rx.stage = ReceiveStage::Buffered(buffer, passage);
        self.resume_with(id, buffer);
    }

    fn return_sender_credit(&mut self, sender: PeerNiId) {
        let limit = self.sender_limit(sender);
        let Some(peer_ni) = self.fabric.peers.get_mut(sender) else {
            return;
        };
        if !peer_ni.router_credits.release() {
            return self.broken("a sender's credit that comes back was taken");
        }
        let Some(id) = peer_ni.router_credits.take_next(limit) else {
            return;
        };
        if let Some(buffer) = self.enter(id, sender) {
            self.resume_with(id, buffer);
        }
    }

    /// Removes a message that waits for its sender's credit, because its connection has closed or it is dropped.
    pub(in crate::traffic) fn leave_credit_queue(&mut self, sender: PeerNiId, rx: RxId) {
        if let Some(peer_ni) = self.fabric.peers.get_mut(sender) {
            peer_ni.router_credits.leave(rx);
        }
    }

    /// Removes a message that waits for its next hop's share, because its connection has closed or it is dropped.
    pub(in crate::traffic) fn leave_hop_queue(&mut self, passage: Passage, rx: RxId) {
        if let Some(hop) = passage.hop {
            self.hops.leave(hop, passage.pool, rx);
        }
        self.return_sender_credit(passage.sender);
    }

    /// Removes a message that waits for a buffer, because its connection has closed or it is dropped.
    pub(in crate::traffic) fn leave_buffer_queue(&mut self, passage: Passage, rx: RxId) {
        self.pools.leave(passage.pool, rx);
        self.return_share(passage);
        self.return_sender_credit(passage.sender);
    }

    /// Drops every routed message, except those that the LND has and those whose payload is arriving.
    pub(crate) fn stop_forwarding(&mut self, now: Time) {
        let waiting = |stage: &ReceiveStage| {
            matches!(
                stage,
                ReceiveStage::HeldForCredit(_)
                    | ReceiveStage::HeldForHop(_)
                    | ReceiveStage::HeldForBuffer(_)
            )
        };
        let held: Vec<RxId> = self
            .rx
            .iter()
            .filter(|(_, rx)| waiting(&rx.stage))
            .map(|(id, _)| id)
            .collect();
        for id in held {
            self.drop_held_forward(id, DropReason::RoutingStopped);
        }
        let end = End::Failed(Errno::ECANCELED, DropReason::RoutingStopped);
        self.cancel_queued_where(Tx::is_forwarded, end, now);
    }

    /// Drops a held routed message.
    pub(crate) fn drop_held_forward(&mut self, id: RxId, reason: DropReason) {
        let Some(rx) = self.rx.get(id) else { return };
        match rx.stage {
            ReceiveStage::HeldForCredit(sender) => {
                self.drop_waiting(id, reason);
                self.leave_credit_queue(sender, id);
            }
            ReceiveStage::HeldForHop(passage) => {
                self.drop_waiting(id, reason);
                self.leave_hop_queue(passage, id);
            }
            ReceiveStage::HeldForBuffer(passage) => {
                self.drop_waiting(id, reason);
                self.leave_buffer_queue(passage, id);
            }
            _ => {}
        }
    }
}

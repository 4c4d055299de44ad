//! Forwarding: messages for other networks (sections 8.5 to 8.8).
//!
//! ```text
//!  header ─▶ credit of the sender ─▶ buffer of the pool ─▶ payload arrives ─▶ sent on ─▶ both free
//!                 │ none left             │ none left
//!                 ▼                       ▼
//!            waits in the sender's    waits in the pool's
//!            queue (Hold)             queue (Hold)
//! ```
//!
//! Store and forward: the message is whole in a buffer before its next hop is chosen. A message that
//! waits holds its connection, which is the only back-pressure there is. Both queues are first in,
//! first out. Nothing in the header changes on the way.

use lnet_types::{ProcessId, Time};

use crate::Core;
use crate::event::Errno;
use crate::io::{Landing, Output, Payload, Place, RouterBuffer, RouterPool, RxId, Verdict};
use crate::peer::PeerNiId;
use crate::rx::{Origin, Stage};
use crate::select::{Send, Unobserved};
use crate::status::{DropReason, MessageStatus};
use crate::tx::{End, Outgoing, Tx, Work};

impl Core {
    /// The header of a message for elsewhere has arrived.
    pub(crate) fn receive_routed(&mut self, origin: Origin) -> Verdict {
        let arrival = origin.arrival();
        let length = origin.header.payload_length;
        let pool = RouterPool::for_length(length);
        let Some(sender) = self.peers.id_of(origin.from.nid) else {
            return self.discard(arrival, DropReason::NoMemory);
        };
        if self.pools.get(pool).total == 0 {
            return self.discard(arrival, DropReason::NoMemory);
        }
        self.counters.begin_message();
        let stage = Stage::HeldForCredit(sender);
        let rx = self.rx.insert(origin.into_rx(stage));
        if !self.take_sender_credit(sender, rx) {
            return Verdict::Hold { rx };
        }
        match self.take_buffer(pool, sender, rx) {
            Some(buffer) => Verdict::Receive {
                rx,
                landing: landing(buffer, length),
            },
            None => Verdict::Hold { rx },
        }
    }

    /// Counts a buffer against its sender, or queues the message behind the sender's others.
    fn take_sender_credit(&mut self, sender: PeerNiId, rx: RxId) -> bool {
        let limit = self.sender_limit(sender);
        let Some(peer_ni) = self.peers.get_mut(sender) else {
            return false;
        };
        let free = peer_ni.buffer_queue.is_empty() && peer_ni.buffers_held < limit;
        if free {
            peer_ni.buffers_held += 1;
        } else {
            peer_ni.buffer_queue.push_back(rx);
        }
        peer_ni.note_buffers();
        free
    }

    fn sender_limit(&self, sender: PeerNiId) -> u32 {
        let net = self.peers.get(sender).map(|peer_ni| peer_ni.nid.net());
        net.and_then(|net| self.nis.net_tunables(net))
            .map_or(1, |t| t.router_credits())
    }

    /// Gives a message a buffer, or queues it behind the pool's others.
    fn take_buffer(
        &mut self,
        pool: RouterPool,
        sender: PeerNiId,
        id: RxId,
    ) -> Option<RouterBuffer> {
        let none_wait = self.pools.get(pool).waiting.is_empty();
        let buffer = if none_wait {
            self.pools.take(pool)
        } else {
            None
        };
        if buffer.is_none() {
            let entry = self.pools.get_mut(pool);
            entry.waiting.push_back(id);
            entry.note_demand();
        }
        if let Some(rx) = self.rx.get_mut(id) {
            rx.stage = match buffer {
                Some(buffer) => Stage::Buffered(buffer, sender),
                None => Stage::HeldForBuffer(pool, sender),
            };
        }
        buffer
    }

    /// A routed message is in its buffer: it goes on.
    pub(crate) fn buffered(
        &mut self,
        origin: &Origin,
        buffer: RouterBuffer,
        sender: PeerNiId,
        result: Result<(), MessageStatus>,
        now: Time,
    ) {
        if result.is_err() {
            return self.return_buffer(buffer, sender);
        }
        self.count_received(origin.arrival());
        if let Err(reason) = self.send_on(origin, buffer, sender, now) {
            self.count_drop(origin.arrival(), reason);
            self.return_buffer(buffer, sender);
        }
    }

    fn send_on(
        &mut self,
        origin: &Origin,
        buffer: RouterBuffer,
        sender: PeerNiId,
        now: Time,
    ) -> Result<(), DropReason> {
        if !self.config.routing {
            return Err(DropReason::RoutingStopped);
        }
        let header = origin.header;
        let user = ProcessId {
            nid: header.dest_nid,
            pid: header.dest_pid,
        };
        // A header may carry any pid; only one that stands for a dialled connection names a peer.
        let target = if user.is_userspace() {
            user
        } else {
            ProcessId::lustre(user.nid)
        };
        let send = Send::Forward {
            origin: header.src_nid,
            target,
        };
        self.meet(&send, now);
        let path = self.view().path(&send, None, &mut Unobserved);
        let path = path.map_err(|_| DropReason::NoRoute)?;
        let length = header.payload_length;
        let payload = (length > 0).then_some(Payload {
            place: Place::Router(buffer),
            offset: 0,
            length,
        });
        let work = Work::Forward(buffer, sender);
        self.dispatch(
            send,
            path,
            Outgoing {
                header,
                payload,
                work,
                named: None,
            },
            now,
        );
        Ok(())
    }

    /// A buffer and its sender's credit are free; whoever waits for them goes on.
    pub(crate) fn return_buffer(&mut self, buffer: RouterBuffer, sender: PeerNiId) {
        self.pools.release(buffer);
        self.serve_pool(buffer.pool);
        self.return_sender_credit(sender);
    }

    /// Resumes messages that wait for a buffer while there are any.
    fn serve_pool(&mut self, pool: RouterPool) {
        while let Some(&id) = self.pools.get(pool).waiting.front() {
            let Some(buffer) = self.pools.take(pool) else {
                return;
            };
            self.pools.get_mut(pool).waiting.pop_front();
            self.resume_into(id, buffer);
        }
    }

    fn resume_into(&mut self, id: RxId, buffer: RouterBuffer) {
        let Some(rx) = self.rx.get_mut(id) else {
            return self.pools.release(buffer);
        };
        let Stage::HeldForBuffer(_, sender) = rx.stage else {
            return self.pools.release(buffer);
        };
        rx.stage = Stage::Buffered(buffer, sender);
        let landing = Some(landing(buffer, rx.header.payload_length));
        self.outputs.push_back(Output::Resume { rx: id, landing });
    }

    fn return_sender_credit(&mut self, sender: PeerNiId) {
        let limit = self.sender_limit(sender);
        let Some(peer_ni) = self.peers.get_mut(sender) else {
            return;
        };
        peer_ni.buffers_held = peer_ni.buffers_held.saturating_sub(1);
        if peer_ni.buffers_held >= limit {
            return;
        }
        let Some(id) = peer_ni.buffer_queue.pop_front() else {
            return;
        };
        peer_ni.buffers_held += 1;
        let Some(length) = self.rx.get(id).map(|rx| rx.header.payload_length) else {
            return;
        };
        let pool = RouterPool::for_length(length);
        if let Some(buffer) = self.take_buffer(pool, sender, id) {
            let landing = Some(landing(buffer, length));
            self.outputs.push_back(Output::Resume { rx: id, landing });
        }
    }

    /// The connection of a message that waits for its sender's credit is gone.
    pub(crate) fn unhold_for_credit(&mut self, sender: PeerNiId, rx: RxId) {
        if let Some(peer_ni) = self.peers.get_mut(sender) {
            peer_ni.buffer_queue.retain(|held| *held != rx);
        }
    }

    /// The connection of a message that waits for a buffer is gone.
    pub(crate) fn unhold_for_buffer(&mut self, pool: RouterPool, sender: PeerNiId, rx: RxId) {
        self.pools.get_mut(pool).waiting.retain(|held| *held != rx);
        self.return_sender_credit(sender);
    }

    /// Sets the sizes of the pools; buffers above them go as they come back.
    pub fn set_router_buffers(&mut self, buffers: crate::RouterBuffers, _now: Time) {
        self.config.buffers = buffers;
        self.pools.resize(buffers);
        for pool in RouterPool::ALL {
            self.serve_pool(pool);
        }
    }

    /// Drops every routed message that has not been handed to the LND and is not arriving just now.
    pub(crate) fn stop_forwarding(&mut self, now: Time) {
        let waiting =
            |stage: &Stage| matches!(stage, Stage::HeldForCredit(_) | Stage::HeldForBuffer(..));
        let held: Vec<RxId> = self
            .rx
            .iter()
            .filter(|(_, rx)| waiting(&rx.stage))
            .map(|(id, _)| id)
            .collect();
        for id in held {
            self.drop_held(id, DropReason::RoutingStopped);
        }
        let end = End::Failed(Errno::ECANCELED, DropReason::RoutingStopped);
        self.abandon_where(Tx::is_forwarded, end, now);
    }

    /// Throws a held routed message away.
    pub(crate) fn drop_held(&mut self, id: RxId, reason: DropReason) {
        let Some(rx) = self.rx.get(id) else { return };
        match rx.stage {
            Stage::HeldForCredit(sender) => {
                self.discard_held(id, reason);
                self.unhold_for_credit(sender, id);
            }
            Stage::HeldForBuffer(pool, sender) => {
                self.discard_held(id, reason);
                self.unhold_for_buffer(pool, sender, id);
            }
            _ => {}
        }
    }
}

fn landing(buffer: RouterBuffer, length: u32) -> Landing {
    Landing {
        place: Place::Router(buffer),
        offset: 0,
        length,
    }
}

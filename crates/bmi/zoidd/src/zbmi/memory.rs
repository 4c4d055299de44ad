//! Distribution of memory in the unexpected region: first to waiting sends, in order; then to clients that
//! are owed a credit; then sleeping tests are answered.
//!
//! Waiting sends are served strictly in order, even if a later one would fit. There is one exception: a
//! client that has used up its share of the region ([`crate::zbmi::Config::unexpected_share`]) does not delay
//! others. The messages of one client never overtake each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::zbmi::Engine;
use crate::zbmi::client::Request;
use crate::zbmi::io::{
    Class, Direction, Message, Output, Peer, RequestId, Segment, SendKind, SendRequest,
};
use crate::zbmi::pool::{Slot, slot_len};
use crate::zbmi::time::Time;
use crate::zbmi::transfer::{Running, Target};

#[derive(Debug, Default)]
pub(crate) struct MemoryQueue {
    /// Waiting sends by ticket, that is, in the order of arrival.
    pub(crate) waiters: BTreeMap<u64, (Peer, RequestId)>,
    next_ticket: u64,
    /// Sleeping tests that ask about unexpected sends.
    pub(crate) testers: BTreeSet<(Peer, RequestId)>,
    /// Clients that are owed a credit; one entry per credit.
    pub(crate) owed: VecDeque<Peer>,
}

impl MemoryQueue {
    pub(crate) fn enqueue(&mut self, peer: Peer, request: RequestId) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiters.insert(ticket, (peer, request));
        ticket
    }
}

impl Engine {
    /// Allocates memory for a client's message, unless others wait for memory or the client has used up its
    /// share.
    pub(crate) fn allocate_in_turn(&mut self, peer: Peer, size: u64) -> Option<Slot> {
        if self.must_queue(peer) || !self.within_share(peer, size) {
            return None;
        }
        let slot = self.pool.allocate(size)?;
        self.counters.pool_high_water = self.counters.pool_high_water.max(self.pool.used());
        if let Some(client) = self.client_mut(peer) {
            client.pool_bytes += slot.len;
        }
        Some(slot)
    }

    /// Returns whether a new message of this client would overtake another one.
    // [MEM-24]
    fn must_queue(&self, peer: Peer) -> bool {
        let waiters = &self.memory.waiters;
        if self.config.unexpected_share.is_none() {
            return !waiters.is_empty();
        }
        waiters.values().any(|&(other, request)| {
            other == peer || self.within_share(other, self.waiting_size(other, request))
        })
    }

    pub(crate) fn within_share(&self, peer: Peer, size: u64) -> bool {
        let (Some(share), Some(client)) = (self.config.unexpected_share, self.client(peer)) else {
            return true;
        };
        let wanted = slot_len(size).and_then(|len| len.checked_add(client.pool_bytes));
        wanted.is_some_and(|bytes| bytes <= share)
    }

    fn waiting_size(&self, peer: Peer, request: RequestId) -> u64 {
        let found = self
            .client(peer)
            .and_then(|client| client.requests.get(&request));
        match found {
            Some(Request::Send { send, .. }) => send.total,
            _ => 0,
        }
    }

    /// Serves the next in order, after memory was freed or a waiting send that blocked others has ended.
    // [MEM-23]
    pub(crate) fn serve_memory(&mut self, now: Time) {
        self.serve_waiters(now);
        self.pay_credits();
        self.flag_memory_tests();
    }

    fn serve_waiters(&mut self, now: Time) {
        let mut at_their_share = BTreeSet::new();
        let mut next_ticket = 0;
        while let Some((&ticket, &(peer, request))) =
            self.memory.waiters.range(next_ticket..).next()
        {
            next_ticket = ticket + 1;
            let size = self.waiting_size(peer, request);
            if at_their_share.contains(&peer) || !self.within_share(peer, size) {
                at_their_share.insert(peer);
                continue;
            }
            let Some(slot) = self.pool.allocate(size) else {
                return;
            };
            self.counters.pool_high_water = self.counters.pool_high_water.max(self.pool.used());
            if let Some(Request::Send { send, .. }) = self.take_waiting(peer, request) {
                if let Some(client) = self.client_mut(peer) {
                    client.pool_bytes += slot.len;
                }
                self.counters.waits_satisfied += 1;
                self.grant_message(now, peer, request, send, slot);
            } else {
                self.pool.release(slot);
            }
        }
    }

    /// Grants a message that has memory. The client's account already includes it.
    pub(crate) fn grant_message(
        &mut self,
        now: Time,
        peer: Peer,
        request: RequestId,
        send: SendRequest,
        slot: Slot,
    ) {
        let (class, inline) = match send.kind {
            SendKind::Unexpected { class, inline } => (class, inline),
            SendKind::Expected => (Class::default(), false),
        };
        let (offset, size) = (slot.offset, send.total);
        let message = Message {
            peer,
            tag: send.tag,
            class,
            offset,
            size,
        };
        self.inbox.insert(message, slot, inline);
        if let Some(client) = self.client_mut(peer) {
            client.arriving.entry(class).or_default().push_back(offset);
        }
        let piece = Segment { offset, len: size };
        let segments: Arc<[Segment]> = (size > 0).then_some(piece).into_iter().collect();
        self.start(
            now,
            Running {
                peer,
                request,
                direction: Direction::ToServer,
                target: Target::Message(offset),
                segments,
                total: size,
                inline,
                order: send.order,
                begun: None,
            },
        );
    }

    /// Frees a message's memory. The caller then calls `serve_memory`.
    pub(crate) fn free_message(&mut self, offset: u64) {
        let Some(entry) = self.inbox.remove(offset) else {
            return;
        };
        self.pool.release(entry.slot);
        let peer = entry.message.peer;
        if let Some(client) = self.client_mut(peer) {
            client.pool_bytes -= entry.slot.len;
            if entry.credited {
                self.memory.owed.push_back(peer);
            }
        }
    }

    /// Reserves a new client's credits: as many as there is memory for now, the others later.
    pub(crate) fn first_credits(&mut self, peer: Peer) -> u32 {
        let mut reserved = 0;
        for _ in 0..self.config.credits {
            if self.reserve_credit(peer) {
                reserved += 1;
            } else {
                self.memory.owed.push_back(peer);
            }
        }
        reserved
    }

    // [FWD-30]
    fn reserve_credit(&mut self, peer: Peer) -> bool {
        let Some(slot) = self.allocate_in_turn(peer, self.config.max_unexpected) else {
            return false;
        };
        match self.client_mut(peer) {
            Some(client) => client.credits.push(slot),
            None => self.pool.release(slot),
        }
        true
    }

    fn pay_credits(&mut self) {
        for _ in 0..self.memory.owed.len() {
            let Some(peer) = self.memory.owed.pop_front() else {
                return;
            };
            if self.reserve_credit(peer) {
                self.outputs.push_back(Output::Credits { peer, count: 1 });
            } else if self.within_share(peer, self.config.max_unexpected) {
                return self.memory.owed.push_front(peer);
            } else {
                self.memory.owed.push_back(peer);
            }
        }
    }

    /// Frees the client's reserved slots and removes the credits owed to it.
    pub(crate) fn withdraw_credits(&mut self, peer: Peer) {
        self.memory.owed.retain(|&other| other != peer);
        self.inbox.uncredit(peer);
        let Some(client) = self.client_mut(peer) else {
            return;
        };
        let slots = std::mem::take(&mut client.credits);
        client.pool_bytes -= slots.iter().map(|slot| slot.len).sum::<u64>();
        slots.into_iter().for_each(|slot| self.pool.release(slot));
    }
}

//! The queues in which messages wait for credits: first that of the peer NI, then that of the interface.
//!
//! A queue has one timer, armed no later than the first deadline of the messages of this node in the queue. A routed
//! message does not fail by waiting.

use lnet_types::Time;

use crate::ground::credits::Credits;
use crate::ground::event::Errno;
use crate::ground::ids::PeerNiId;
use crate::ground::io::{NiId, TxId};
use crate::ground::status::{DropReason, MessageStatus};
use crate::ground::timer::Queue;
use crate::ground::timer::Timer;
use crate::traffic::Traffic;
use crate::traffic::send::tx::{End, SendStage, Tx};

impl Traffic {
    pub(in crate::traffic) fn enter_peer_queue(&mut self, id: TxId, peer: PeerNiId, now: Time) {
        let forwarded = self.tx.get(id).is_some_and(|tx| tx.is_forwarded());
        if forwarded && self.fabric.is_down(peer, now) {
            self.fail_message(
                id,
                End::Failed(Errno::EHOSTUNREACH, DropReason::NextHopDown),
            );
            return;
        }
        let limit = self.fabric.peer_credits(peer);
        let Some(peer_ni) = self.fabric.peers.get_mut(peer) else {
            return self.broken("the next hop of a path");
        };
        if peer_ni.credits.take_or_wait(id, limit) {
            self.enter_ni_queue(id, peer, now);
        } else {
            self.serve_peer_queue(peer, now);
            self.arm_while_queued(id);
        }
    }

    /// Passes a message that has a credit of its peer NI to the LND, or lets it wait for a credit of its interface.
    fn enter_ni_queue(&mut self, id: TxId, peer: PeerNiId, now: Time) {
        let Some(tx) = self.tx.get_mut(id) else {
            return self.broken("a message that has a credit of its peer");
        };
        let ni = tx.ni;
        tx.stage = SendStage::NiQueue;
        let Some(interface) = self.fabric.nis.get_mut(ni) else {
            self.release(Queue::Peer(peer));
            return self.fail_message(id, End::Failed(Errno::ENODEV, DropReason::NoRoute));
        };
        if interface
            .credits
            .take_or_wait(id, interface.tunables.credits)
        {
            self.transmit(id, now);
        } else {
            self.serve_ni_queue(ni, now);
            self.arm_while_queued(id);
        }
    }

    /// Arms the timer of the queue that a message of this node waits in, no later than the message's deadline. A queue
    /// has one timer, since thousands of messages may pass it in a second.
    // [GATE-31]
    fn arm_while_queued(&mut self, id: TxId) {
        let Some(tx) = self.tx.get(id) else { return };
        let queue = match (tx.stage, tx.peer) {
            (SendStage::PeerQueue, Some(peer)) => Queue::Peer(peer),
            (SendStage::NiQueue, _) => Queue::Ni(tx.ni),
            _ => return,
        };
        if tx.is_forwarded() {
            return;
        }
        let at = tx.deadline;
        if let Some(credits) = self.credits_of(queue) {
            let last = credits.in_order_until.filter(|last| *last <= at);
            credits.in_order_until = last.map(|_| at);
        }
        self.arm_queue(queue, at);
    }

    fn credits_of(&mut self, queue: Queue) -> Option<&mut Credits<TxId>> {
        match queue {
            Queue::Peer(peer) => self
                .fabric
                .peers
                .get_mut(peer)
                .map(|peer_ni| &mut peer_ni.credits),
            Queue::Ni(ni) => self.fabric.nis.get_mut(ni).map(|ni| &mut ni.credits),
        }
    }

    fn arm_queue(&mut self, queue: Queue, at: Time) {
        let Some(credits) = self.credits_of(queue) else {
            return self.broken("the queue of a message");
        };
        if credits.checked_at.is_some_and(|armed| armed <= at) {
            return;
        }
        let before = credits.checked_at.replace(at);
        if let Some(before) = before {
            self.fabric
                .ground
                .timers
                .disarm(before, Timer::Queue(queue));
        }
        self.fabric.ground.timers.arm(at, Timer::Queue(queue));
    }

    /// Disarms the timer of a queue in which no message waits any more.
    fn disarm_if_empty(&mut self, queue: Queue) {
        let credits = self
            .credits_of(queue)
            .filter(|credits| credits.waiting().is_empty());
        let Some(credits) = credits else { return };
        credits.in_order_until = Some(Time::ZERO);
        if let Some(at) = credits.checked_at.take() {
            self.fabric.ground.timers.disarm(at, Timer::Queue(queue));
        }
    }

    /// Fails the messages of this node that have waited in a queue until their deadline, in the order of the queue.
    pub(crate) fn check_queue(&mut self, queue: Queue, now: Time) {
        // The queue of an interface or a peer that was removed is gone.
        let Some(credits) = self.credits_of(queue) else {
            return;
        };
        credits.checked_at = None;
        let in_order = credits.in_order_until.is_some();
        let (mut late, mut next) = (Vec::new(), None::<Time>);
        for place in 0.. {
            let credits = self.credits_of(queue);
            let id = credits.and_then(|credits| credits.waiting().get(place).copied());
            let Some(id) = id else { break };
            let Some(tx) = self.tx.get(id).filter(|tx| !tx.is_forwarded()) else {
                continue;
            };
            if tx.deadline <= now {
                late.push(id);
                continue;
            }
            next = Some(next.map_or(tx.deadline, |next| next.min(tx.deadline)));
            // All behind it have later deadlines. Thousands may wait for a peer that stands still.
            if in_order {
                break;
            }
        }
        if let Some(next) = next {
            self.arm_queue(queue, next);
        }
        for id in late {
            self.queued_too_long(id, now);
        }
    }

    /// Moves queued messages on while the peer NI has credits.
    pub(in crate::traffic) fn serve_peer_queue(&mut self, peer: PeerNiId, now: Time) {
        while let Some(id) = self.next_with_peer_credit(peer) {
            self.go_on_to_ni(id, peer, now);
        }
        self.disarm_if_empty(Queue::Peer(peer));
    }

    /// Moves a message that has just got a credit of its peer NI on to its interface.
    fn go_on_to_ni(&mut self, id: TxId, peer: PeerNiId, now: Time) {
        let Some(tx) = self.tx.get(id) else {
            return self.broken("a message that waits for a credit of its peer");
        };
        if tx.is_forwarded() && self.fabric.is_down(peer, now) {
            self.release(Queue::Peer(peer));
            self.fail_message(
                id,
                End::Failed(Errno::EHOSTUNREACH, DropReason::NextHopDown),
            );
        } else {
            self.enter_ni_queue(id, peer, now);
        }
    }

    /// Takes a credit back from a message. Returns whether there may be work in the queue; mostly there is none.
    fn release(&mut self, queue: Queue) -> bool {
        let Some(credits) = self.credits_of(queue) else {
            return false;
        };
        let (held, rests) = (credits.release(), credits.are_at_rest());
        if !held {
            self.broken("a credit that was not taken");
        }
        !rests
    }

    /// Gives a credit of the peer NI to the message that has waited longest for one.
    fn next_with_peer_credit(&mut self, peer: PeerNiId) -> Option<TxId> {
        let limit = self.fabric.peer_credits(peer);
        self.fabric.peers.get_mut(peer)?.credits.take_next(limit)
    }

    fn serve_ni_queue(&mut self, ni: NiId, now: Time) {
        while let Some(id) = self.next_with_ni_credit(ni) {
            self.transmit(id, now);
        }
        self.disarm_if_empty(Queue::Ni(ni));
    }

    fn next_with_ni_credit(&mut self, ni: NiId) -> Option<TxId> {
        let ni = self.fabric.nis.get_mut(ni)?;
        ni.credits.take_next(ni.tunables.credits)
    }

    pub(in crate::traffic) fn return_ni_credit(&mut self, ni: NiId, now: Time) {
        if self.release(Queue::Ni(ni)) {
            self.serve_ni_queue(ni, now);
        }
    }

    pub(in crate::traffic) fn return_peer_credit(&mut self, peer: PeerNiId, now: Time) {
        if self.release(Queue::Peer(peer)) {
            self.serve_peer_queue(peer, now);
        }
    }

    /// Removes a message from its queue. Returns the peer NI whose credit the message holds; the caller returns the credit
    /// after it has moved the message.
    pub(in crate::traffic) fn leave_queue(&mut self, id: TxId) -> Option<PeerNiId> {
        let Tx {
            stage,
            ni,
            peer,
            to,
            ..
        } = **self.tx.get(id)?;
        let queue = match stage {
            SendStage::Resend => {
                self.resends.retain(|parked| *parked != id);
                return None;
            }
            SendStage::Parked => {
                self.fabric.unpark(to.nid, id);
                return None;
            }
            SendStage::PeerQueue => Queue::Peer(peer?),
            SendStage::NiQueue => Queue::Ni(ni),
            SendStage::Handed => return None,
        };
        if let Some(credits) = self.credits_of(queue) {
            credits.leave(id);
        }
        self.disarm_if_empty(queue);
        peer.filter(|_| stage == SendStage::NiQueue)
    }

    /// Fails a message of this node that waited for a credit until its deadline.
    // [RESEND-33]
    pub(crate) fn queued_too_long(&mut self, id: TxId, now: Time) {
        let class = MessageStatus::NetworkTimeout;
        self.counters().count_status(class);
        self.cancel_queued(
            id,
            End::Failed(Errno::ETIMEDOUT, DropReason::NotForwarded),
            now,
        );
    }
}

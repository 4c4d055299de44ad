//! Messages being received.
//!
//! ```text
//!  header ─▶ Landing ──────────────▶ arrived: event, then the ACK
//!               └─▶ Cancelled ───▶ arrived: event, with ECANCELED if it was not complete
//!         ─▶ Asking ───────────────▶ arrived: the REPLY
//!         ─▶ Buffered ─────────────▶ arrived: sent to the next hop
//!         ─▶ held ──▶ Landing, Buffered or Dropped, by Output::Resume
//! ```
//!
//! Each message ends with exactly one `arrived`, also a held one: the LND reports a held message as failed when its
//! connection closes.

use lnet_types::{ProcessId, Time};
use lnet_wire::Header;

use crate::ground::counters::Arrival;
use crate::ground::event::Event;
use crate::ground::ids::PeerNiId;
use crate::ground::io::{Landing, NiId, Output, Payload, RouterBuffer, RxId, Verdict};
use crate::ground::md::MdHandle;
use crate::ground::status::{DropReason, MessageStatus};
use crate::traffic::Traffic;
use crate::traffic::router::forward::Passage;

/// A message being received.
#[derive(Debug)]
pub(crate) struct Rx {
    pub(in crate::traffic) ni: NiId,
    /// The process that sent the message to this node.
    pub(in crate::traffic) from: ProcessId,
    pub(in crate::traffic) header: Header,
    pub(in crate::traffic) stage: ReceiveStage,
}

/// The stage of a message that is being received.
#[derive(Debug)]
pub(in crate::traffic) enum ReceiveStage {
    /// A PUT, REPLY or ACK on its way to a descriptor. Holds its event.
    Landing(Event),
    /// A GET that found its descriptor. Holds its event and the payload of the REPLY.
    Asking(Event, Payload),
    /// A routed message that is being received into a buffer.
    Buffered(RouterBuffer, Passage),
    /// A PUT on a lazy portal that waits for a descriptor.
    HeldLazy,
    /// A routed message that waits until its sender may hold another buffer.
    HeldForCredit(PeerNiId),
    /// A routed message that has its sender's credit and waits until its next hop may hold another buffer.
    HeldForHop(Passage),
    /// A routed message that may hold a buffer and waits for one.
    HeldForBuffer(Passage),
    /// A message that an injected fault delays.
    HeldByFault,
    /// A message that was held and is being dropped.
    Dropped,
    /// A message that the caller has cancelled by [`Output::Cancel`]. Holds its event.
    Cancelled(Event),
}

impl Rx {
    pub(in crate::traffic) fn arrival(&self) -> Arrival {
        Arrival::new(self.ni, self.from.nid, &self.header)
    }
}

/// The origin of a message, and its header.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(in crate::traffic) ni: NiId,
    pub(in crate::traffic) from: ProcessId,
    pub(in crate::traffic) header: Header,
}

impl Origin {
    pub(in crate::traffic) fn arrival(&self) -> Arrival {
        Arrival::new(self.ni, self.from.nid, &self.header)
    }
}

impl Traffic {
    pub(crate) fn arrived(&mut self, rx: RxId, result: Result<(), MessageStatus>, now: Time) {
        self.note_time(now);
        let Some(message) = self.rx.remove(rx) else {
            self.counters().stale_answers += 1;
            return;
        };
        self.counters().end_message();
        if result.is_err() {
            self.count_failed(&message);
        }
        if result.is_ok() && !matches!(message.stage, ReceiveStage::Dropped) {
            self.fabric
                .update_health_on_receive(message.ni, message.from.nid, now);
            if message.header.src_nid.net() != message.from.nid.net() {
                self.fabric.note_received_through(message.from.nid);
            }
        }
        let Rx {
            ni,
            from,
            header,
            stage,
        } = message;
        let origin = Origin { ni, from, header };
        match stage {
            ReceiveStage::Landing(event) => self.landed(&origin, event, result, now),
            ReceiveStage::Cancelled(event) => {
                let result = result.map_err(|_| MessageStatus::LocalAborted);
                self.landed(&origin, event, result, now);
            }
            ReceiveStage::Asking(event, payload) => {
                self.asked(&origin, event, payload, result, now)
            }
            ReceiveStage::Buffered(buffer, passage) => {
                self.buffered(&origin, buffer, passage, result, now);
            }
            ReceiveStage::HeldLazy => self.leave_lazy_queue(&origin.header, rx),
            ReceiveStage::HeldForCredit(sender) => self.leave_credit_queue(sender, rx),
            ReceiveStage::HeldForHop(passage) => self.leave_hop_queue(passage, rx),
            ReceiveStage::HeldForBuffer(passage) => self.leave_buffer_queue(passage, rx),
            ReceiveStage::HeldByFault | ReceiveStage::Dropped => {}
        }
    }

    /// Inserts a message into the table, and returns the verdict that tells the LND where to put its payload.
    pub(in crate::traffic) fn receive_into(&mut self, rx: Rx, landing: Landing) -> Verdict {
        self.counters().begin_message();
        Verdict::Receive {
            rx: self.rx.insert(rx),
            landing,
        }
    }

    /// Drops a held message: the LND reads its payload and drops it.
    pub(in crate::traffic) fn drop_waiting(&mut self, id: RxId, reason: DropReason) {
        let Some(rx) = self.rx.get_mut(id) else {
            return self.broken("a held message that is thrown away");
        };
        rx.stage = ReceiveStage::Dropped;
        let arrival = rx.arrival();
        self.fabric.count_drop(arrival, reason);
        self.fabric.ground.outputs.push_back(Output::Resume {
            rx: id,
            landing: None,
        });
    }

    /// Cancels the messages that are landing in a descriptor: the LND reads and drops the rest of their payloads.
    pub(in crate::traffic) fn cancel_landings(&mut self, md: MdHandle) {
        let landing = |rx: &Rx| matches!(&rx.stage, ReceiveStage::Landing(event) if event.md == md);
        let ids: Vec<RxId> = self
            .rx
            .iter()
            .filter(|(_, rx)| landing(rx))
            .map(|(id, _)| id)
            .collect();
        for id in ids {
            let Some(rx) = self.rx.get_mut(id) else {
                continue;
            };
            if let ReceiveStage::Landing(event) = &rx.stage {
                rx.stage = ReceiveStage::Cancelled(event.clone());
                self.fabric
                    .ground
                    .outputs
                    .push_back(Output::Cancel { rx: id });
            }
        }
    }

    fn count_failed(&mut self, message: &Rx) {
        let reason = match message.stage {
            ReceiveStage::Dropped => return,
            ReceiveStage::Cancelled(_) => DropReason::Cancelled,
            _ => {
                self.counters().errors += 1;
                DropReason::Incomplete
            }
        };
        self.fabric.count_drop(message.arrival(), reason);
    }
}

//! Messages being received.
//!
//! ```text
//!  header ─▶ Landing ──────────────▶ arrived: event, then the ACK
//!               └─▶ Cancelled ───▶ arrived: event, with ECANCELED if it was not whole
//!         ─▶ Asking ───────────────▶ arrived: the REPLY
//!         ─▶ Buffered ─────────────▶ arrived: sent on
//!         ─▶ held ──▶ Landing, Buffered or Discarded, by Output::Resume
//! ```
//!
//! Every entry ends with exactly one `arrived`, held ones too: the LND reports a held message as failed
//! when its connection goes.

use lnet_types::{ProcessId, Time};
use lnet_wire::Header;

use crate::Core;
use crate::counts::counters::Arrival;
use crate::event::Event;
use crate::io::{Landing, NiId, Output, Payload, RouterBuffer, RxId, Verdict};
use crate::peer::PeerNiId;
use crate::portals::md::MdHandle;
use crate::record::Input;
use crate::router::forward::Passage;
use crate::status::{DropReason, MessageStatus};

/// A message being received.
#[derive(Debug)]
pub(crate) struct Rx {
    pub(crate) ni: NiId,
    /// The process that handed it to us.
    pub(crate) from: ProcessId,
    pub(crate) header: Header,
    pub(crate) stage: ReceiveStage,
}

/// Where it stands.
#[derive(Debug)]
pub(crate) enum ReceiveStage {
    /// A PUT, REPLY or ACK on its way to a descriptor; this is its event.
    Landing(Event),
    /// A GET that found its descriptor, and what it is to be answered with.
    Asking(Event, Payload),
    /// A routed message on its way into a buffer.
    Buffered(RouterBuffer, Passage),
    /// A PUT on a lazy portal that waits for a descriptor.
    HeldLazy,
    /// A routed message that waits until its sender may hold another buffer.
    HeldForCredit(PeerNiId),
    /// A routed message that has its sender's credit and waits until its next hop may hold another buffer.
    HeldForHop(Passage),
    /// A routed message that may hold a buffer and waits for one.
    HeldForBuffer(Passage),
    /// An injected fault holds it back.
    HeldByFault,
    /// It was held and is being thrown away.
    Discarded,
    /// The caller does not want it any more, and the LND has been told so; this is its event.
    Cancelled(Event),
}

impl Rx {
    pub(crate) fn arrival(&self) -> Arrival {
        Arrival::new(self.ni, self.from.nid, &self.header)
    }
}

impl Core {
    /// Enters a message into the table and tells the LND where its payload goes.
    pub(crate) fn receive_into(&mut self, rx: Rx, landing: Landing) -> Verdict {
        self.counters.begin_message();
        Verdict::Receive {
            rx: self.rx.insert(rx),
            landing,
        }
    }

    /// A held message is not wanted: the LND throws it away.
    pub(crate) fn discard_held(&mut self, id: RxId, reason: DropReason) {
        let Some(rx) = self.rx.get_mut(id) else {
            return self.broken("a held message that is thrown away");
        };
        rx.stage = ReceiveStage::Discarded;
        let arrival = rx.arrival();
        self.count_drop(arrival, reason);
        self.outputs.push_back(Output::Resume {
            rx: id,
            landing: None,
        });
    }

    /// Gives up what is landing in a descriptor: the LND reads the rest into nowhere.
    pub(crate) fn cancel_landings(&mut self, md: MdHandle) {
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
                self.outputs.push_back(Output::Cancel { rx: id });
            }
        }
    }

    fn count_failed(&mut self, message: &Rx) {
        let reason = match message.stage {
            ReceiveStage::Discarded => return,
            ReceiveStage::Cancelled(_) => DropReason::Cancelled,
            _ => {
                self.counters.errors += 1;
                DropReason::Incomplete
            }
        };
        self.count_drop(message.arrival(), reason);
    }

    /// The payload of a message has arrived where its verdict or [`Output::Resume`] said, or the
    /// message has failed on the way. Ids that are not known (any more) are counted and ignored.
    pub fn arrived(&mut self, rx: RxId, result: Result<(), MessageStatus>, now: Time) {
        let input = self.noted(|| Input::Arrived { rx, result, now });
        self.take_in(input, |core| core.arrived_unrecorded(rx, result, now));
    }

    fn arrived_unrecorded(&mut self, rx: RxId, result: Result<(), MessageStatus>, now: Time) {
        self.note_time(now);
        let Some(message) = self.rx.remove(rx) else {
            self.counters.stale_answers += 1;
            return;
        };
        self.counters.end_message();
        if result.is_err() {
            self.count_failed(&message);
        }
        if result.is_ok() && !matches!(message.stage, ReceiveStage::Discarded) {
            self.update_health_on_receive(message.ni, message.from.nid, now);
            if message.header.src_nid.net() != message.from.nid.net() {
                self.note_received_through(message.from.nid);
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
            ReceiveStage::HeldByFault | ReceiveStage::Discarded => {}
        }
    }
}

/// Where a message came from, and its header.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) ni: NiId,
    pub(crate) from: ProcessId,
    pub(crate) header: Header,
}

impl Origin {
    pub(crate) fn arrival(&self) -> Arrival {
        Arrival::new(self.ni, self.from.nid, &self.header)
    }
}

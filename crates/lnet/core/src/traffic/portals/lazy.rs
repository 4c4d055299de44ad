//! Lazy portals: a PUT that no entry accepts waits for a descriptor instead of being dropped. Its
//! payload is not read meanwhile, so its connection waits, too. A portal that is full drops further PUTs.

use lnet_wire::{Body, Header, MessageType};

use crate::ground::io::{Output, RxId, Verdict};
use crate::ground::md::MeHandle;
use crate::ground::status::DropReason;
use crate::traffic::Traffic;
use crate::traffic::receive::rx::{Origin, ReceiveStage};

impl Traffic {
    /// Returns whether a portal would hold a message that no entry accepts.
    pub(in crate::traffic) fn holds(&self, portal: u32, operation: MessageType) -> bool {
        operation == MessageType::Put && self.portals.is_lazy(portal)
    }

    pub(in crate::traffic) fn hold_lazy(&mut self, origin: Origin, portal: u32) -> Verdict {
        let arrival = origin.arrival();
        if !self.portals.has_room(portal) {
            return self.fabric.drop_arrival(arrival, DropReason::LazyPortal);
        }
        let rx = self.rx.insert(origin.into_rx(ReceiveStage::HeldLazy));
        self.portals.hold(portal, rx);
        self.counters().begin_message();
        Verdict::Hold { rx }
    }

    /// Holds a message in a lazy portal after an injected fault has delayed it. Returns false if the portal is not
    /// lazy or full.
    pub(in crate::traffic) fn hold_delayed_lazily(&mut self, rx: RxId, origin: &Origin) -> bool {
        let Body::Put(put) = origin.header.body else {
            return false;
        };
        let portal = put.ptl_index;
        if !self.holds(portal, MessageType::Put) || !self.portals.has_room(portal) {
            return false;
        }
        self.portals.hold(portal, rx);
        if let Some(entry) = self.rx.get_mut(rx) {
            entry.stage = ReceiveStage::HeldLazy;
        }
        true
    }

    /// Removes a held message whose connection has closed.
    pub(in crate::traffic) fn leave_lazy_queue(&mut self, header: &Header, rx: RxId) {
        let Body::Put(put) = header.body else { return };
        self.portals.forget_held(put.ptl_index, rx);
    }

    /// Offers the messages that a lazy portal holds to a descriptor that was just attached.
    pub(in crate::traffic) fn offer_held(&mut self, portal: u32, me: MeHandle) {
        for id in self.portals.take_held(portal) {
            if !self.offer_one(id, me) {
                self.portals.hold(portal, id);
            }
        }
    }

    /// Offers a held message to an entry. Returns whether the message no longer waits.
    fn offer_one(&mut self, id: RxId, me: MeHandle) -> bool {
        let Some(rx) = self.rx.get(id) else {
            self.broken("a message that a lazy portal holds");
            return true;
        };
        let Body::Put(put) = rx.header.body else {
            self.broken("what a lazy portal holds is a PUT");
            return true;
        };
        let origin = Origin {
            ni: rx.ni,
            from: rx.from,
            header: rx.header,
        };
        let length = origin.header.payload_length;
        let wanted = self.wanted(&origin, put.match_bits, length, put.offset);
        let aliases = self.fabric.aliases(wanted.initiator);
        match self.portals.offer(&self.mds, me, &wanted, aliases) {
            None => false,
            Some(Err(reason)) => {
                self.drop_waiting(id, reason);
                true
            }
            Some(Ok(found)) => {
                let (stage, landing) = self.begin_request(&origin, &wanted, found);
                if let Some(rx) = self.rx.get_mut(id) {
                    rx.stage = stage;
                }
                self.fabric.ground.outputs.push_back(Output::Resume {
                    rx: id,
                    landing: Some(landing),
                });
                true
            }
        }
    }
}

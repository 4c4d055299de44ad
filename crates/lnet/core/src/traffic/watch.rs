//! Reports of attempts and failures to those who watch.

use lnet_types::Nid;
use lnet_wire::Header;

use crate::fabric::watch::{Watched, WatchedAttempt};
use crate::ground::io::NiId;
use crate::ground::status::MessageStatus;
use crate::traffic::Traffic;
use crate::traffic::send::tx::{End, Tx};

/// The facts of an attempt to send, copied because the message may be removed before the report.
pub(in crate::traffic) struct Attempted {
    ni: NiId,
    next_hop: Nid,
    header: Header,
    attempt: u32,
}

impl Attempted {
    pub(in crate::traffic) fn of(tx: &Tx) -> Self {
        Self {
            ni: tx.ni,
            next_hop: tx.to.nid,
            header: tx.header,
            attempt: tx.attempts.retries.saturating_add(1),
        }
    }
}

impl Traffic {
    pub(in crate::traffic) fn attempt_happened(
        &mut self,
        tx: &Attempted,
        status: MessageStatus,
        again: bool,
    ) {
        self.fabric.happened(Watched::Attempt(WatchedAttempt {
            ni: self.fabric.nis.get(tx.ni).map(|ni| ni.nid),
            next_hop: tx.next_hop,
            target: tx.header.dest_nid,
            message: tx.header.body.message_type(),
            length: tx.header.payload_length,
            number: tx.attempt,
            status,
            again,
        }));
    }

    /// Reports a message that failed; does nothing if `end` is [`End::Sent`].
    pub(in crate::traffic) fn failure_happened(&mut self, tx: &Tx, end: End) {
        if let End::Failed(errno, reason) = end {
            self.fabric.happened(Watched::GivenUp {
                target: tx.header.dest_nid,
                message: tx.header.body.message_type(),
                length: tx.header.payload_length,
                errno,
                reason: tx.is_forwarded().then_some(reason),
            });
        }
    }
}

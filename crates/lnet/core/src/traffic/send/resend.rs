//! Resends. The rules are in `docs/selection/resend.md`.
//!
//! ```text
//!  attempt failed ─▶ may it be resent? ─▶ queue ─▶ path for the same request, without the used paths
//!                       │ no                          │ none left
//!                       ▼                             ▼
//!          one SEND event: the last failure, or that there is no path left
//! ```
//!
//! The descriptor stays attached meanwhile and reports no event. A message is not resent if its owner or the
//! transaction timeout cancels it while it waits.

use lnet_types::Time;

use crate::fabric::select::{Retry, SelectError, Unobserved};
use crate::ground::io::{NiId, TxId};
use crate::ground::status::{DropReason, MessageStatus};
use crate::ground::timer::Timer;
use crate::traffic::Traffic;
use crate::traffic::send::tx::{End, SendStage, Tx};

impl Traffic {
    /// Decides whether to resend a failed message. Counts the message if only the limit of resends forbids it.
    // [DATA-12] [RESEND-3] [RESEND-9]
    pub(in crate::traffic) fn may_resend(
        &mut self,
        id: TxId,
        status: MessageStatus,
        now: Time,
    ) -> bool {
        let Some(tx) = self.tx.get(id) else {
            self.broken("a message that failed");
            return false;
        };
        let allowed = tx.attempts.retryable
            && !tx.attempts.recovery
            && now < tx.deadline
            && self.class_allows(tx, status)
            && !self.is_cancelled(tx);
        let limit = self.globals().retry_count;
        let exhausted = tx.attempts.retries >= limit;
        self.counters().failed_resends += u64::from(allowed && exhausted && limit > 0);
        allowed && !exhausted
    }

    /// Decides whether the status allows a resend: only if the message certainly did not arrive, and another interface
    /// exists.
    // [RESEND-1] [RESEND-2]
    fn class_allows(&self, tx: &Tx, status: MessageStatus) -> bool {
        let Some(peer_ni) = tx.peer.and_then(|peer| self.fabric.peers.get(peer)) else {
            return false;
        };
        let has_local = self.fabric.nis.real().len() > 1;
        let has_remote = self.fabric.peers.interfaces_beside(peer_ni) > 1;
        status.allows_local_resend() && has_local || status.allows_remote_resend() && has_remote
    }

    // [RESEND-6]
    fn is_cancelled(&self, tx: &Tx) -> bool {
        let md = tx.descriptor().map(|md| self.mds.get(md));
        md.is_some_and(|md| md.is_none_or(|md| md.dead))
    }

    /// Ends a failed attempt and queues the message for a resend.
    // [RESEND-5]
    pub(in crate::traffic) fn park_for_resend(
        &mut self,
        id: TxId,
        status: MessageStatus,
        now: Time,
    ) {
        let Some(tx) = self.tx.get_mut(id) else {
            return self.broken("a message that is to be sent again");
        };
        tx.stage = SendStage::Resend;
        tx.attempts.failed = Some(status);
        let bytes = tx.bytes();
        let (ni, peer) = (tx.ni, tx.peer);
        if let Some(peer) = peer {
            tx.attempts.used.push((ni, peer));
        }
        let peer_ni = peer.and_then(|peer| self.fabric.peers.get_mut(peer));
        if peer_ni.is_some_and(|peer_ni| !peer_ni.subtract_queued(bytes)) {
            self.broken("bytes that were not counted as queued");
        }
        self.resends.push_back(id);
        self.fabric.ground.timers.arm(now, Timer::Resend);
    }

    /// Moves the messages of an interface that went down to another interface, if there is one. The LND returns the
    /// messages that it already has.
    pub(crate) fn leave_ni(&mut self, ni: NiId, now: Time) {
        let status = MessageStatus::LocalDropped;
        // Messages without a credit first: otherwise the credits of the others would send them by this interface.
        for stage in [SendStage::PeerQueue, SendStage::NiQueue] {
            let waits = |tx: &Tx| tx.ni == ni && tx.stage == stage;
            let waiting = self.tx.iter().filter(|(_, tx)| waits(tx));
            let ids: Vec<TxId> = waiting.map(|(id, _)| id).collect();
            for id in ids {
                if self.may_resend(id, status, now) {
                    let freed = self.leave_queue(id);
                    self.park_for_resend(id, status, now);
                    freed
                        .into_iter()
                        .for_each(|peer| self.return_peer_credit(peer, now));
                }
            }
        }
    }

    /// Resends all queued messages, first in, first out.
    pub(crate) fn resend_all(&mut self, now: Time) {
        // A message that fails at once during this loop is queued again and waits for the next turn.
        for _ in 0..self.resends.len() {
            let Some(id) = self.resends.pop_front() else {
                return;
            };
            self.resend(id, now);
        }
    }

    // [RESEND-4]
    fn resend(&mut self, id: TxId, now: Time) {
        let Some(tx) = self.tx.get(id) else {
            return self.broken("a message that waits for its next attempt");
        };
        let send = tx.send;
        self.fabric.bring_target_up_to_date(&send);
        let Some(tx) = self.tx.get(id) else { return };
        let attempts = &tx.attempts;
        let retry = Retry {
            used: &attempts.used,
            named: attempts.named.and_then(|nid| self.fabric.peers.id_of(nid)),
        };
        let path = self
            .fabric
            .view()
            .path(&tx.send, Some(&retry), &mut Unobserved);
        let seen = self.fabric.seen(&tx.send, Some(&retry));
        self.fabric.kept.keep(seen);
        match path {
            Ok(path) => {
                let Some(mut tx) = self.tx.remove(id) else {
                    return;
                };
                self.remove_from_md(&tx, id);
                tx.attempts.retries += 1;
                self.counters().count_resend(tx.attempts.failed);
                if self.globals().profile.is_lustre() {
                    tx.deadline = self.fabric.message_deadline(path.ni, now);
                }
                self.launch(tx, &path, now);
            }
            Err(error) => self.no_path_left(id, error),
        }
    }

    /// Fails a message that has no unused path left, with the errno of its last attempt, because that error is the
    /// cause. `EHOSTUNREACH` is the errno if its routes or interfaces are gone.
    // [RESEND-8]
    fn no_path_left(&mut self, id: TxId, error: SelectError) {
        self.counters().failed_resends += 1;
        let failed = self.tx.get(id).and_then(|tx| tx.attempts.failed);
        let failure = failed.and_then(|status| status.result().err());
        let errno = match (error, failure) {
            (SelectError::NothingLeft | SelectError::NoAlternative(_), Some(failure)) => failure,
            _ => error.errno(self.globals().profile),
        };
        self.fail_message(id, End::Failed(errno, DropReason::NotForwarded));
    }
}

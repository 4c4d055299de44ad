//! Timers: deadlines of handshakes and the next work for each peer.
//!
//! A peer has at most one timer. Sending and receiving move no timer: a connection is checked four times per socket
//! timeout, and each check looks at the time of the connection's last progress.

use std::time::Duration;

use lnd::Failure;
use lnet_types::Time;
use lnet_wire::{Ctype, HelloVersion, KsockHeader};

use super::{Slot, Socklnd};
use crate::job::Above;
use crate::network::Network;
use crate::stats::{CloseReason, DialFailure, Refusal, Unsent};
use crate::transmit::Departed;

/// The shortest time between two timers of a peer, so that no mistake can cause a busy loop.
const PEER_STEP: Duration = Duration::from_millis(1);

/// The shortest time between two keepalive frames to one peer.
// [KEEP-2]
const KEEPALIVE_GAP: Duration = Duration::from_secs(10);

/// The number of checks of a connection within one socket timeout.
// [FRAME-8] [FRAME-11]
const CHECKS_PER_TIMEOUT: u32 = 4;

/// The object that a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A handshake slot; its handshake has taken too long.
    Handshake(usize),
    /// A listener slot; its listener may retry to accept.
    Listener(usize),
    /// The index of a peer.
    Peer(usize),
}

impl<N: Network> Socklnd<N> {
    /// Does the work that is due.
    pub fn tick(&mut self, now: Time, upper: &mut impl Above) {
        while let Some((_, timer)) = self.timers.first().copied().filter(|due| due.0 <= now) {
            self.timers.pop_first();
            match timer {
                Timer::Handshake(slot) => self.handshake_is_late(slot, now, upper),
                Timer::Listener(slot) => self.accept(slot, now, upper),
                Timer::Peer(index) => {
                    if let Some(peer) = self.peers.get_mut(index) {
                        peer.armed = None;
                    }
                    self.tend(index, now, upper);
                }
            }
        }
    }

    /// Returns when [`tick`](Self::tick) must be called next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|due| due.0)
    }

    /// Sets the peer's timer to the time of its next work.
    pub(super) fn arm(&mut self, index: usize, now: Time) {
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        let Some(due) = peer.next_due() else {
            return;
        };
        let due = due.max(now + PEER_STEP);
        if peer.armed.is_some_and(|armed| armed <= due) {
            return;
        }
        if let Some(armed) = peer.armed.replace(due) {
            self.timers.remove(&(armed, Timer::Peer(index)));
        }
        self.timers.insert((due, Timer::Peer(index)));
    }

    /// Returns the interval between checks of a peer's connections. The first check comes one interval after the
    /// first connection.
    pub(super) fn check_interval(&self, index: usize) -> Duration {
        self.timeout(index) / CHECKS_PER_TIMEOUT
    }

    /// Returns how long a peer's connections may be without progress.
    pub(super) fn timeout(&self, index: usize) -> Duration {
        let ni = self
            .peers
            .get(index)
            .and_then(|peer| self.nis.get(&peer.key.ni));
        let of_ni = ni.and_then(|ni| ni.tuning.timeout);
        of_ni.unwrap_or(self.config.sock_timeout)
    }

    // [CONN-5] [CONN-6] [SET-13]
    fn handshake_is_late(&mut self, slot: usize, now: Time, upper: &mut impl Above) {
        self.end_handshake(slot, Refusal::TooSlow, DialFailure::TimedOut, now, upper);
    }

    fn tend(&mut self, index: usize, now: Time, upper: &mut impl Above) {
        self.expire_waiting(index, now, upper);
        if self
            .peers
            .get(index)
            .is_some_and(|peer| peer.parting_until <= now)
        {
            self.close_parting(index, CloseReason::Eof, now, upper);
        }
        if self
            .peers
            .get(index)
            .is_some_and(|peer| peer.dialler.is_due(now))
        {
            self.continue_pass(index, now, upper);
        }
        if self
            .peers
            .get(index)
            .is_some_and(|peer| peer.check_at <= now && !peer.links.is_empty())
        {
            self.check_connections(index, now, upper);
        }
        self.arm(index, now);
        self.forget_if_idle(index, now);
    }

    fn expire_waiting(&mut self, index: usize, now: Time, upper: &mut impl Above) {
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        for request in peer.take_expired(now) {
            let failed = (Unsent::Expired, Failure::NetworkTimeout);
            self.report_unsent(index, Departed::of(&request), failed, now, upper);
        }
    }

    // [FRAME-8] [FRAME-11]
    fn check_connections(&mut self, index: usize, now: Time, upper: &mut impl Above) {
        let interval = self.check_interval(index);
        let timeout = self.timeout(index);
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        peer.check_at = now + interval;
        let links = peer.slots();
        for slot in links {
            self.expire_queued(slot, now, upper);
            let Some(connection) = self.connection_mut(slot) else {
                continue;
            };
            if let Err(reason) = connection.check(now, timeout) {
                self.close(slot, reason, now, upper);
            }
        }
        self.keep_alive(index, now);
    }

    fn expire_queued(&mut self, slot: usize, now: Time, upper: &mut impl Above) {
        let Self {
            slots,
            peers,
            stats,
            ..
        } = self;
        let Some(Slot::Connection(connection)) = slots.get_mut(slot) else {
            return;
        };
        let Some(peer) = peers.get_mut(connection.terms.peer) else {
            stats.broken("the peer of a connection");
            return;
        };
        connection.tx.expire(now, &mut |gone| {
            peer.queued_messages -= 1;
            peer.queued_bytes -= gone.cost;
            stats.unsent.add(Unsent::Expired);
            upper.sent(gone.tx, Err(Failure::NetworkTimeout), now);
        });
    }

    /// Sends a keepalive to a silent peer: it shows the peer that this node is alive, and shows this node if the peer
    /// is not. Kernels use `BULK_IN`; if there is none, any connection will do. In version 2 a
    /// keepalive is not possible: its cookie would acknowledge a message that was never sent, and the peer would
    /// close everything.
    // [KEEP-1] [KEEP-4]
    fn keep_alive(&mut self, index: usize, now: Time) {
        let Some(peer) = self.peers.get(index) else {
            return;
        };
        let connections = || {
            peer.links
                .iter()
                .filter_map(|link| Some((link.slot, self.connection(link.slot)?)))
        };
        let alive_at = connections()
            .map(|(_, connection)| connection.alive_at())
            .max();
        let chosen = connections()
            .filter(|(_, connection)| connection.terms.version != HelloVersion::V2)
            .min_by_key(|(_, connection)| connection.terms.ctype != Ctype::BULK_IN)
            .filter(|(_, connection)| connection.tx.is_empty())
            .map(|(slot, _)| slot);
        let silent = alive_at.is_some_and(|at| now - at >= self.config.keepalive);
        let Some(slot) = chosen.filter(|_| silent && now >= peer.keepalive_at) else {
            return;
        };
        if let Some(peer) = self.peers.get_mut(index) {
            peer.keepalive_at = now + KEEPALIVE_GAP;
        }
        if let Some(connection) = self.connection_mut(slot) {
            connection.note_queueing(now);
            connection.tx.push_noop(&KsockHeader::KEEPALIVE);
            self.stats.keepalives_out += 1;
            self.want_write(slot);
        }
    }
}

//! Closes a connection with its siblings, a peer, an interface, or everything.
//!
//! The messages of a closed connection are reported before the call returns, each once.
//!
//! A peer that shuts down closes its connections one after the other, and the end of one may be seen before the last
//! bytes of the others are read. Kernels close the siblings at once. This LND reads the siblings to their own end,
//! for at most [`PARTING`], and sends nothing more on them.

use std::time::Duration;

use lnd::{Failure, NiId};
use lnet_types::{Nid, Time};
use lnet_wire::Ctype;
use tracing::{debug, info, warn};

use super::traffic::settle;
use super::{Slot, Socklnd};
use crate::config::AcceptMode;
use crate::connection::Terms;
use crate::job::Above;
use crate::network::Network;
use crate::peer::Peer;
use crate::stats::{CloseReason, DialFailure, Refusal, Unsent};
use crate::transmit::Departed;

/// How long a connection is read after its sibling has ended. This is long enough for bytes that the peer wrote
/// before to arrive, unless the network loses many of them. A choice of this LND; kernels have no such time.
const PARTING: Duration = Duration::from_secs(2);

/// How long a doubted peer must have shown no life: longer than the pauses after a few lost packets.
const SILENCE: Duration = Duration::from_secs(2);

/// Returns the failure of the messages that waited on a closed connection.
fn flushed(reason: CloseReason) -> Failure {
    match reason {
        CloseReason::Eof
        | CloseReason::Reset
        | CloseReason::WriteReset
        | CloseReason::PeerRestarted
        | CloseReason::NidClaimedTwice => Failure::RemoteDropped,
        CloseReason::ReadTimedOut
        | CloseReason::WriteTimedOut
        | CloseReason::FrameStalled
        | CloseReason::SendStalled
        | CloseReason::Silent => Failure::NetworkTimeout,
        CloseReason::NiDown => Failure::LocalDropped,
        CloseReason::ReadFailed
        | CloseReason::WriteFailed
        | CloseReason::Protocol(_)
        | CloseReason::Sibling
        | CloseReason::Shutdown => Failure::LocalError,
    }
}

/// Returns the failure of the message that was being written to a closed connection.
fn being_written(reason: CloseReason) -> Failure {
    match reason {
        CloseReason::WriteTimedOut => Failure::RemoteTimeout,
        CloseReason::WriteReset => Failure::LocalError,
        other => flushed(other),
    }
}

impl<N: Network> Socklnd<N> {
    /// Closes a connection and every other connection of the same peer to the same address, because kernels expect
    /// them to close together. After a clean end, the others are read to their own end first.
    pub(super) fn close(
        &mut self,
        slot: usize,
        reason: CloseReason,
        now: Time,
        upper: &mut impl Above,
    ) {
        let Some(connection) = self.connection(slot) else {
            return;
        };
        let index = connection.terms.peer;
        let address = connection.terms.remote.ip();
        let ctype = connection.terms.ctype;
        let may_be_second =
            !connection.is_used && reason == CloseReason::Eof && !self.takes_crossed();
        if connection.parting {
            self.close_one(slot, CloseReason::Sibling, reason, now, upper);
            self.forget_if_idle(index, now);
            return;
        }
        self.log_close(slot, reason, now);
        self.close_one(slot, reason, reason, now, upper);
        let links = self.peers.get(index).map(Peer::slots);
        let mut siblings = links.unwrap_or_default();
        siblings.retain(|link| {
            let terms = self.connection(*link).map(|connection| connection.terms);
            terms.is_some_and(|terms| terms.remote.ip() == address)
        });
        // The peer had two connections of the type, and has ended the one that carried nothing.
        // [SET-15]
        let is_second = |link: &usize| {
            let terms = self.connection(*link).map(|connection| connection.terms);
            terms.is_some_and(|terms| terms.ctype == ctype)
        };
        if may_be_second && siblings.iter().any(is_second) {
            return self.after_close(index, now, upper);
        }
        for sibling in siblings {
            if reason == CloseReason::Eof {
                self.part(sibling, now, upper);
            } else {
                self.close_one(sibling, CloseReason::Sibling, reason, now, upper);
            }
        }
        self.after_close(index, now, upper);
    }

    /// Parts the old connections of a peer that dials a new CONTROL connection. No node dials a second CONTROL
    /// connection beside the first, so this peer has closed the connections that it had dialled before,
    /// and their end has not been seen yet. Bytes sent on these would be lost, so they are only read from now on, and
    /// their end does not close the new connections. Kernels close the new ones with the old ones.
    // [SET-10]
    pub(super) fn part_replaced(&mut self, new: &Terms, now: Time, upper: &mut impl Above) {
        // A connection from this node to itself has both its ends in this list, in either order. So an older CONTROL
        // connection in the list does not mean that the peer has dialled again.
        let is_own = self.ni_by_nid.contains_key(&new.id.nid);
        if new.dialled || new.ctype != Ctype::CONTROL || is_own {
            return;
        }
        let links = self.peers.get(new.peer).map(Peer::slots);
        let mut old = links.unwrap_or_default();
        old.retain(|link| {
            let terms = self.connection(*link).map(|connection| connection.terms);
            // Connections that we dialled stay: both sides may dial at the same time, and then both connections are
            // wanted.
            terms.is_some_and(|terms| !terms.dialled && terms.remote.ip() == new.remote.ip())
        });
        let is_control = |link: &usize| {
            let terms = self.connection(*link).map(|connection| connection.terms);
            terms.is_some_and(|terms| terms.ctype == Ctype::CONTROL)
        };
        if old.iter().any(is_control) {
            old.into_iter().for_each(|link| self.part(link, now, upper));
        }
    }

    /// Parts a connection: it is only read from now on, because its peer has closed or replaced a sibling.
    fn part(&mut self, slot: usize, now: Time, upper: &mut impl Above) {
        let Self {
            slots,
            peers,
            stats,
            ..
        } = self;
        let Some(Slot::Connection(connection)) = slots.get_mut(slot) else {
            stats.broken("a sibling that is to be read to its end");
            return;
        };
        let Some(peer) = peers.get_mut(connection.terms.peer) else {
            stats.broken("the peer of a connection");
            return;
        };
        connection.parting = true;
        peer.remove_link(slot);
        // The first parting connection sets the time, so that a peer that goes on to connect and close cannot extend
        // it.
        if peer.parting.is_empty() {
            peer.parting_until = now + PARTING;
        }
        peer.parting.push(slot);
        self.fail_queued(slot, now, upper);
        self.want_read(slot);
    }

    /// Fails the queued messages of a connection that is only read. Messages that are lent to a write are failed, or
    /// reported as sent, when the write has ended.
    pub(super) fn fail_queued(&mut self, slot: usize, now: Time, upper: &mut impl Above) {
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
            return stats.broken("the peer of a connection");
        };
        for gone in connection.tx.drain_waiting() {
            settle(peer, gone.cost);
            stats.unsent.add(Unsent::Closed);
            upper.sent(gone.tx, Err(flushed(CloseReason::Eof)), now);
        }
    }

    /// Closes the connections of a peer that are only read.
    pub(super) fn close_parting(
        &mut self,
        index: usize,
        cause: CloseReason,
        now: Time,
        upper: &mut impl Above,
    ) {
        let parting = self.peers.get(index).map(|peer| peer.parting.clone());
        for slot in parting.unwrap_or_default() {
            self.close_one(slot, CloseReason::Sibling, cause, now, upper);
        }
    }

    /// Closes all connections of a peer.
    pub(super) fn close_peer(
        &mut self,
        index: usize,
        reason: CloseReason,
        now: Time,
        upper: &mut impl Above,
    ) {
        let links = self.peers.get(index).map(Peer::slots).unwrap_or_default();
        self.close_parting(index, reason, now, upper);
        for slot in links {
            self.close_one(slot, reason, reason, now, upper);
        }
        self.after_close(index, now, upper);
    }

    /// Closes the connections of a peer that has another incarnation now. Returns the incarnation before.
    pub(super) fn displace(
        &mut self,
        index: usize,
        incarnation: u64,
        now: Time,
        upper: &mut impl Above,
    ) -> Option<u64> {
        let peer = self.peers.get(index)?;
        let (id, address, known) = (peer.key.id, peer.address, peer.incarnation);
        // A node that restarts never comes back with an earlier incarnation.
        let is_back = peer.displaced == Some(incarnation);
        if is_back
            && let Some(address) = address
            && let Some(left_out) = self.log.admit("two nodes", address.ip(), now)
        {
            warn!(
                peer = %id, left_out,
                "two nodes have this NID: each closes the connections of the other; give one of them another address"
            );
        }
        let reason = match is_back {
            true => CloseReason::NidClaimedTwice,
            false => CloseReason::PeerRestarted,
        };
        self.close_peer(index, reason, now, upper);
        known
    }

    /// Closes one connection and counts it as `counted`; its messages fail as `cause` says.
    fn close_one(
        &mut self,
        slot: usize,
        counted: CloseReason,
        cause: CloseReason,
        now: Time,
        upper: &mut impl Above,
    ) {
        if self.connection(slot).is_none() {
            return;
        }
        let Slot::Connection(mut connection) = self.slots.remove(slot) else {
            self.stats.broken("a connection that is to be closed");
            return;
        };
        self.network.forget(&connection.stream);
        self.stats.closed.add(counted);
        self.stats.connections_open -= 1;
        if let Some(rx) = connection.rx.take_unfinished() {
            self.held.remove(&rx);
            upper.received(rx, Err(flushed(cause)), now);
        }
        let Some(peer) = self.peers.get_mut(connection.terms.peer) else {
            self.stats.broken("the peer of a connection");
            return;
        };
        peer.remove_link(slot);
        peer.parting.retain(|link| *link != slot);
        let why = if cause == CloseReason::Shutdown {
            Unsent::Shutdown
        } else {
            Unsent::Closed
        };
        let mut failure = if counted == cause {
            being_written(cause)
        } else {
            flushed(cause)
        };
        for gone in connection.tx.drain() {
            settle(peer, gone.cost);
            self.stats.unsent.add(why);
            upper.sent(gone.tx, Err(failure), now);
            failure = flushed(cause);
        }
    }

    fn after_close(&mut self, index: usize, now: Time, upper: &mut impl Above) {
        let Some(peer) = self.peers.get_mut(index) else {
            self.stats
                .broken("the peer of connections that were closed");
            return;
        };
        let was_last = peer.links.is_empty();
        peer.dialler.lost(was_last);
        peer.forget_refusal();
        if was_last {
            upper.peer_changed(peer.key.ni, peer.key.id, false, peer.incarnation, now);
        }
        self.arm(index, now);
        self.forget_if_idle(index, now);
    }

    /// Closes the connections with a NID through which no response came in time, if one of them has bytes that the
    /// peer's TCP does not acknowledge and none has shown life for two seconds. After an interruption, TCP would try
    /// again only after as long as the interruption lasted; a new connection works at once. Kernels wait for their
    /// socket timeout.
    // [SET-16]
    pub fn doubt(&mut self, nid: Nid, now: Time, upper: &mut impl Above) {
        let of_nid = |(index, peer): (usize, &Peer)| (peer.key.id.nid == nid).then_some(index);
        let indices: Vec<usize> = self.peers.iter().filter_map(of_nid).collect();
        for index in indices {
            if self.is_stuck(index, now) {
                self.close_peer(index, CloseReason::Silent, now, upper);
            }
        }
    }

    fn is_stuck(&mut self, index: usize, now: Time) -> bool {
        let links = self.peers.get(index).map(Peer::slots);
        let mut owes = false;
        for link in links.unwrap_or_default() {
            let Some(connection) = self.connection_mut(link) else {
                continue;
            };
            owes |= connection.owes(now);
            if now < connection.heard_at() + SILENCE {
                return false;
            }
        }
        owes
    }

    /// Closes the connections and ends the handshakes of an interface whose link or address is gone. Their messages
    /// fail at once instead of at a timeout; a later message makes new connections. Kernels wait.
    pub fn ni_went_down(&mut self, ni: NiId, now: Time, upper: &mut impl Above) {
        let of_ni = |(index, peer): (usize, &Peer)| (peer.key.ni == ni).then_some(index);
        let indices: Vec<usize> = self.peers.iter().filter_map(of_ni).collect();
        for index in indices {
            let dialled = self.peers.get(index).and_then(|peer| peer.dial_slot);
            if let Some(slot) = dialled {
                self.end_handshake(
                    slot,
                    Refusal::Disconnected,
                    DialFailure::Unreachable,
                    now,
                    upper,
                );
            }
            let connected = self
                .peers
                .get(index)
                .is_some_and(|peer| !peer.links.is_empty());
            if connected {
                self.close_peer(index, CloseReason::NiDown, now, upper);
            }
        }
    }

    /// Closes everything that belongs to an interface and removes the interface. Listens on its address as long as
    /// another interface has the same address.
    pub fn remove_ni(&mut self, ni: NiId, now: Time, upper: &mut impl Above) {
        let Some(gone) = self.nis.remove(&ni) else {
            return;
        };
        self.ni_by_nid.remove(&gone.nid);
        let of_ni = |(index, peer): (usize, &Peer)| (peer.key.ni == ni).then_some(index);
        let indices: Vec<usize> = self.peers.iter().filter_map(of_ni).collect();
        for index in indices {
            self.shut_down_peer(index, now, upper);
        }
        let address = gone.nid.ip();
        if self.config.accept != AcceptMode::None
            && !self.nis.values().any(|other| other.nid.ip() == address)
            && let Some(slot) = address.and_then(|address| self.listeners.remove(&address))
            && let Some(Slot::Listener(listener)) = self.slots.try_remove(slot)
        {
            self.network.close(listener.socket);
            self.timers
                .retain(|(_, timer)| *timer != super::clock::Timer::Listener(slot));
        }
    }

    /// Closes everything: reports every message in flight in either direction, and ends listening and dialling.
    pub fn close_all(&mut self, now: Time, upper: &mut impl Above) {
        let nis: Vec<NiId> = self.nis.keys().copied().collect();
        for ni in nis {
            self.remove_ni(ni, now, upper);
        }
        let half_open: Vec<usize> = self.half_open.values().copied().collect();
        for slot in half_open {
            self.end_handshake(slot, Refusal::Shutdown, DialFailure::Shutdown, now, upper);
        }
        self.reads.clear();
        self.writes.clear();
    }

    fn shut_down_peer(&mut self, index: usize, now: Time, upper: &mut impl Above) {
        let Some(peer) = self.peers.get_mut(index) else {
            self.stats.broken("the peer of an interface that goes");
            return;
        };
        let connected = !peer.links.is_empty();
        if let Some(slot) = peer.dial_slot {
            self.end_handshake(slot, Refusal::Shutdown, DialFailure::Shutdown, now, upper);
        }
        self.fail_waiting(index, (Unsent::Shutdown, Failure::LocalError), now, upper);
        self.close_parting(index, CloseReason::Shutdown, now, upper);
        if connected {
            self.close_peer(index, CloseReason::Shutdown, now, upper);
        }
        if let Some(gone) = self.peers.try_remove(index) {
            self.peer_by_key.remove(&gone.key);
            if let Some(time) = gone.armed {
                self.timers
                    .remove(&(time, super::clock::Timer::Peer(index)));
            }
        }
    }

    /// Reports every message that waits for a connection to a peer as not sent.
    pub(super) fn fail_waiting(
        &mut self,
        index: usize,
        failed: (Unsent, Failure),
        now: Time,
        upper: &mut impl Above,
    ) {
        let waiting = self
            .peers
            .get_mut(index)
            .map(Peer::take_waiting)
            .unwrap_or_default();
        for request in waiting {
            self.report_unsent(index, Departed::of(&request), failed, now, upper);
        }
    }

    fn log_close(&mut self, slot: usize, reason: CloseReason, now: Time) {
        let Some(connection) = self.connection(slot) else {
            return;
        };
        let peer = connection.terms.id;
        let remote = connection.terms.remote;
        let complaint = connection.rx.complaint().unwrap_or("");
        match reason {
            CloseReason::Eof | CloseReason::Shutdown => debug!(%peer, %remote, ?reason, "closed"),
            CloseReason::Protocol(_) => {
                if let Some(left_out) = self.log.admit("protocol error", remote.ip(), now) {
                    warn!(%peer, %remote, ?reason, complaint, left_out, "closed: protocol error");
                }
            }
            _ => {
                if let Some(left_out) = self.log.admit("closed", remote.ip(), now) {
                    info!(%peer, %remote, ?reason, left_out, "closed");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lnd::RxId;
    use mio::Poll;

    use super::*;
    use crate::{Sockets, SocklndConfig};

    /// Returns an LND that holds a message whose connection is in no slot.
    fn broken() -> Socklnd<Sockets> {
        let registry = Poll::new().unwrap().registry().try_clone().unwrap();
        let mut lnd = Socklnd::new(SocklndConfig::default(), Sockets::new(registry, 0), 1);
        lnd.held.insert(RxId(1), 7);
        lnd
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "broken invariant: the connection of a message that is held")]
    fn a_broken_invariant_fails_tests() {
        broken().resume(RxId(1), None, Time::ZERO);
    }

    #[test]
    #[cfg(not(debug_assertions))]
    fn a_broken_invariant_is_counted() {
        let mut lnd = broken();
        lnd.resume(RxId(1), None, Time::ZERO);
        assert_eq!(lnd.stats().invariants_broken, 1);
    }

    #[test]
    fn a_flushed_queue_fails_as_the_table_says() {
        assert_eq!(flushed(CloseReason::SendStalled), Failure::NetworkTimeout);
        assert_eq!(flushed(CloseReason::Reset), Failure::RemoteDropped);
        assert_eq!(flushed(CloseReason::ReadFailed), Failure::LocalError);
    }

    #[test]
    fn the_message_being_written_fails_as_the_write_did() {
        assert_eq!(
            being_written(CloseReason::WriteTimedOut),
            Failure::RemoteTimeout
        );
        assert_eq!(being_written(CloseReason::WriteReset), Failure::LocalError);
        assert_eq!(being_written(CloseReason::WriteFailed), Failure::LocalError);
        assert_eq!(being_written(CloseReason::Reset), Failure::RemoteDropped);
    }
}

//! The end of connections, messages past their deadline, ports, and interfaces that go.

use std::net::Ipv4Addr;

use lnd::{Failure, NiId};
use lnet_types::{ProcessId, Time};

use super::receive::failed_get;
use super::{Above, LISTEN_AGAIN, O2iblnd, Timer};
use crate::connection::{Incoming, State};
use crate::device::{ConnId, Device, PortState};
use crate::stats::CloseReason;

const ETIMEDOUT: i32 = 110;

impl<D: Device> O2iblnd<D> {
    /// Closes a connection. Messages whose memory the device may still use end when the device has stopped.
    // [IB-31]
    pub(super) fn close(
        &mut self,
        id: ConnId,
        reason: CloseReason,
        now: Time,
        upper: &mut impl Above<D>,
    ) {
        self.untime_connect(id);
        let Some(conn) = self
            .conns
            .get_mut(id.0)
            .filter(|conn| conn.state != State::Closing)
        else {
            return;
        };
        let was = std::mem::replace(&mut conn.state, State::Closing);
        conn.clear_queues();
        conn.early.clear();
        let peer = conn.peer;
        self.stats.closed.add(reason);
        self.device.disconnect(id);
        self.end_incoming(id, now, upper);
        self.end_outgoing(id, now, upper);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.forget(id);
        }
        let class = match (was, reason) {
            (_, CloseReason::ConnectDeadline | CloseReason::Disconnected) => {
                Failure::NetworkTimeout
            }
            _ => Failure::LocalDropped,
        };
        if was == State::Open {
            self.went_down(peer, now, upper);
        }
        // An attempt that an address left behind is made anew.
        if was == State::Open || reason == CloseReason::AddressMoved {
            self.reconnect(peer, now);
        }
        self.dialling_ended(peer, class, now, upper);
        self.forget_if_idle(peer);
    }

    /// Ends the messages of the peer that own no memory that the device may use.
    fn end_incoming(&mut self, id: ConnId, now: Time, upper: &mut impl Above<D>) {
        let Some(conn) = self.conns.get_mut(id.0) else {
            return;
        };
        #[cfg(feature = "defects")]
        let reports_early = self.defect == Some(super::Defect::EarlyReport);
        for key in conn.incoming.keys() {
            let Some(conn) = self.conns.get_mut(id.0) else {
                return;
            };
            match conn.incoming.get(key) {
                Some(&Incoming::Held { rx, .. }) => {
                    conn.incoming.remove(key);
                    self.held.remove(&rx);
                    upper.received(rx, Err(Failure::RemoteError), now);
                }
                Some(Incoming::Get { .. }) => {
                    self.take_get(id, key);
                }
                #[cfg(feature = "defects")]
                Some(&Incoming::Put { rx, mapping, .. }) if reports_early => {
                    conn.incoming.remove(key);
                    self.device.unmap(mapping);
                    upper.received(rx, Err(Failure::RemoteError), now);
                }
                Some(Incoming::Put { .. }) | None => {}
            }
        }
    }

    /// Ends our messages that own no memory that the device or the peer may use.
    fn end_outgoing(&mut self, id: ConnId, now: Time, upper: &mut impl Above<D>) {
        let Some(conn) = self.conns.get_mut(id.0) else {
            return;
        };
        for key in conn.out.keys() {
            let Some(conn) = self.conns.get_mut(id.0) else {
                return;
            };
            let Some(outgoing) = conn.out.get_mut(key) else {
                continue;
            };
            // What was posted as the last message may complete before the device stops; a transfer that is cut short
            // fails, but the peer may write to its memory until then.
            if outgoing.is_unfinished() {
                outgoing.failure.get_or_insert(outgoing.broken_off());
            }
            let uses_memory =
                outgoing.posts > 0 || (outgoing.was_posted && outgoing.mapping.is_some());
            #[cfg(feature = "defects")]
            let uses_memory = uses_memory && self.defect != Some(super::Defect::EarlyReport);
            if uses_memory {
                continue;
            }
            if let Some(outgoing) = conn.out.remove(key) {
                self.finish(outgoing, now, upper);
            }
        }
    }

    /// Ends everything that was left of a closed connection.
    // [IB-31]
    pub(super) fn drained(&mut self, id: ConnId, now: Time, upper: &mut impl Above<D>) {
        self.close(id, CloseReason::Disconnected, now, upper);
        let Some(mut conn) = self.conns.remove(id.0) else {
            self.stats.stray_events += 1;
            return;
        };
        for key in conn.incoming.keys() {
            if let Some(Incoming::Put { rx, mapping, .. }) = conn.incoming.remove(key) {
                self.device.unmap(mapping);
                upper.received(rx, Err(Failure::RemoteError), now);
            }
        }
        for key in conn.out.keys() {
            if let Some(mut outgoing) = conn.out.remove(key) {
                let class = outgoing.broken_off();
                outgoing.failure.get_or_insert(class);
                self.finish(outgoing, now, upper);
            }
        }
    }

    fn went_down(&mut self, key: u64, now: Time, upper: &mut impl Above<D>) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        if peer.open.is_empty() && std::mem::take(&mut peer.told_alive) {
            let id = ProcessId::lustre(peer.nid);
            upper.peer_changed(peer.ni, id, false, peer.incarnation, now);
        }
    }

    /// Fails the messages that wait for a connection with a peer.
    pub(super) fn fail_waiting(
        &mut self,
        key: u64,
        class: Failure,
        now: Time,
        upper: &mut impl Above<D>,
    ) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let waiting = std::mem::take(&mut peer.waiting);
        if !waiting.is_empty() {
            let id = ProcessId::lustre(peer.nid);
            peer.told_alive = false;
            upper.peer_changed(peer.ni, id, false, None, now);
        }
        for request in waiting {
            upper.sent(request.tx, Err(class), now);
        }
        self.forget_if_idle(key);
    }

    /// Forgets a peer without connections and messages.
    pub(super) fn forget_if_idle(&mut self, key: u64) {
        let Some(peer) = self.peers.get(key) else {
            return;
        };
        if peer.connections() == 0 && peer.waiting.is_empty() && peer.dial_at.is_none() {
            self.peer_by_key.remove(&(peer.ni, peer.nid));
            self.peers.remove(key);
        }
    }

    /// Looks at all deadlines.
    // [IB-24] [IB-32]
    pub(super) fn check(&mut self, now: Time, upper: &mut impl Above<D>) {
        self.is_checking = false;
        for key in self.peers.keys() {
            self.expire_waiting(key, now, upper);
        }
        for key in self.conns.keys() {
            let id = ConnId(key);
            if self.is_overdue(id, now) {
                self.doom(id, CloseReason::Deadline);
            } else {
                self.expire_gets(id, now);
                self.pump(id, now);
            }
        }
    }

    fn expire_waiting(&mut self, key: u64, now: Time, upper: &mut impl Above<D>) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let waiting = std::mem::take(&mut peer.waiting);
        let mut late = Vec::new();
        for request in waiting {
            if request.deadline <= now {
                late.push(request);
            } else {
                peer.waiting.push_back(request);
            }
        }
        for request in late {
            // [IB-33]
            upper.sent(request.tx, Err(Failure::NetworkTimeout), now);
        }
        self.forget_if_idle(key);
    }

    /// Marks the messages of a connection that are past their deadline. Returns true if there is one.
    // [IB-33]
    fn is_overdue(&mut self, id: ConnId, now: Time) -> bool {
        let open = self
            .conns
            .get_mut(id.0)
            .filter(|conn| conn.state == State::Open);
        let Some(conn) = open else {
            return false;
        };
        let is_late =
            |one: &Incoming<D>| matches!(one, Incoming::Put { deadline, .. } if *deadline <= now);
        let mut found = conn.incoming.iter().any(|(_, one)| is_late(one));
        for key in conn.out.keys() {
            let outgoing = conn.out.get_mut(key);
            if let Some(outgoing) = outgoing.filter(|outgoing| outgoing.deadline <= now) {
                let class = outgoing.overdue();
                outgoing.failure.get_or_insert(class);
                found = true;
            }
        }
        found
    }

    /// Answers GET_REQs whose REPLY did not come.
    fn expire_gets(&mut self, id: ConnId, now: Time) {
        let Some(conn) = self.conns.get(id.0) else {
            return;
        };
        let is_late =
            |one: &Incoming<D>| matches!(one, Incoming::Get { deadline, .. } if *deadline <= now);
        let late = conn.incoming.iter().filter(|(_, one)| is_late(one));
        let late: Vec<u64> = late.map(|(key, _)| key).collect();
        for key in late {
            if let Some((cookie, _)) = self.take_get(id, key) {
                self.answer(id, failed_get(cookie, -ETIMEDOUT), now);
            }
        }
    }

    /// Handles the news of a port.
    // [IB-34]
    pub(super) fn port(
        &mut self,
        address: Ipv4Addr,
        state: PortState,
        now: Time,
        upper: &mut impl Above<D>,
    ) {
        let mut state = match state {
            // The news may be of a port that the address has left.
            PortState::Down if !self.removed.contains(&address) => self.device.port_state(address),
            state => state,
        };
        let is_back = state == PortState::Up && self.removed.contains(&address);
        if is_back && self.device.listen(address).is_ok() {
            self.removed.remove(&address);
            state = self.device.port_state(address);
        }
        let is_fatal = state != PortState::Up || self.removed.contains(&address);
        let mut concerned = Vec::new();
        for (&id, ni) in &mut self.nis {
            if ni.address == address {
                concerned.push(id);
                if ni.is_fatal != is_fatal {
                    ni.is_fatal = is_fatal;
                    upper.ni_fatal(id, is_fatal, now);
                }
            }
        }
        if state == PortState::Removed && !concerned.is_empty() {
            self.device.unlisten(address);
            self.removed.insert(address);
            self.timers
                .insert((now + LISTEN_AGAIN, Timer::Listen(address)));
            for ni in concerned {
                self.doom_all(ni, CloseReason::DeviceRemoved);
                self.fail_all_waiting(ni, now, upper);
            }
        }
    }

    /// Follows an address to its new port: listens there, and closes the connections of the old one.
    // [IB-37]
    pub(super) fn moved(&mut self, address: Ipv4Addr, now: Time, upper: &mut impl Above<D>) {
        let concerned = self.nis.iter().filter(|(_, ni)| ni.address == address);
        let concerned: Vec<NiId> = concerned.map(|(&id, _)| id).collect();
        if concerned.is_empty() || self.removed.contains(&address) {
            return;
        }
        self.device.unlisten(address);
        if self.device.listen(address).is_err() {
            return self.port(address, PortState::Removed, now, upper);
        }
        let state = self.device.port_state(address);
        self.port(address, state, now, upper);
        for ni in concerned {
            self.doom_all(ni, CloseReason::AddressMoved);
        }
    }

    /// Tries to listen at an address whose device was removed.
    // [IB-34]
    pub(super) fn listen_again(&mut self, address: Ipv4Addr, now: Time, upper: &mut impl Above<D>) {
        if self.removed.contains(&address) {
            self.port(address, PortState::Up, now, upper);
        }
        if self.removed.contains(&address) {
            self.timers
                .insert((now + LISTEN_AGAIN, Timer::Listen(address)));
        }
    }

    /// Fails what waits for connections of an interface.
    fn fail_all_waiting(&mut self, ni: NiId, now: Time, upper: &mut impl Above<D>) {
        let peers = self.peers.iter().filter(|(_, peer)| peer.ni == ni);
        let peers: Vec<u64> = peers.map(|(key, _)| key).collect();
        for key in peers {
            if let Some(peer) = self.peers.get_mut(key) {
                peer.dial_at = None;
            }
            self.fail_waiting(key, Failure::LocalError, now, upper);
        }
    }

    fn doom_all(&mut self, ni: NiId, reason: CloseReason) {
        let conns = self.conns.iter().filter(|(_, conn)| conn.ni == ni);
        let all: Vec<ConnId> = conns.map(|(key, _)| ConnId(key)).collect();
        all.into_iter().for_each(|id| self.doom(id, reason));
    }

    /// Fails at once what an interface has, because its link or address is gone.
    pub fn ni_went_down(&mut self, ni: NiId, now: Time, upper: &mut impl Above<D>) {
        self.doom_all(ni, CloseReason::Disconnected);
        self.settle(now, upper);
    }

    /// Removes an interface, with its connections.
    pub fn remove_ni(&mut self, ni: NiId, now: Time, upper: &mut impl Above<D>) {
        let Some(gone) = self.nis.remove(&ni) else {
            return;
        };
        let shares = self.nis.values().any(|other| other.address == gone.address);
        if !shares {
            self.device.unlisten(gone.address);
            self.removed.remove(&gone.address);
        }
        self.fail_all_waiting(ni, now, upper);
        self.doom_all(ni, CloseReason::Shutdown);
        self.settle(now, upper);
    }

    /// Removes all interfaces. Messages whose memory a device may use end with the device's events.
    pub fn close_all(&mut self, now: Time, upper: &mut impl Above<D>) {
        let all: Vec<NiId> = self.nis.keys().copied().collect();
        for ni in all {
            self.remove_ni(ni, now, upper);
        }
    }
}

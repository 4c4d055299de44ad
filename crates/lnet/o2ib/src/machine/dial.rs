//! Dialling: the attempt, its answer, and what rejections mean.

use std::net::IpAddr;
use std::time::Duration;

use lnd::Failure;
use lnet_types::Time;
use lnet_wire::o2ib::{
    Body, Envelope, MESSAGE_MAX, Message, Parameters, Rejection, RejectionReason, VERSION,
};

use super::{Above, O2iblnd, Timer};
use crate::connection::{Conn, End, State};
use crate::device::{ConnId, ConnectFailure, Device, Shape};
use crate::peer::RECONNECTS_MAX;
use crate::stats::CloseReason;
use crate::version::OtherVersion;

/// How long resolving an address and a route may take together.
const RESOLVE: Duration = Duration::from_secs(10);

impl<D: Device> O2iblnd<D> {
    /// Dials a peer without connections that nothing else connects.
    pub(super) fn dial(&mut self, peer: u64, now: Time, upper: &mut impl Above<D>) {
        let Some((ni, nid)) = self.peers.get(peer).map(|peer| (peer.ni, peer.nid)) else {
            return;
        };
        let Some(local) = self.nis.get(&ni).copied() else {
            return self.fail_waiting(peer, Failure::LocalError, now, upper);
        };
        let Some(IpAddr::V4(address)) = nid.ip() else {
            return self.fail_waiting(peer, Failure::NetworkTimeout, now, upper);
        };
        let ours = End {
            nid: local.config.nid,
            incarnation: local.config.incarnation,
        };
        for _ in 0..local.config.tuning.conns_per_peer.max(1) {
            let known = self.peers.get(peer).and_then(|peer| peer.incarnation);
            let theirs = End {
                nid,
                incarnation: known.unwrap_or(0),
            };
            let conn = Conn::new(peer, ni, ours, theirs, State::Resolving, now);
            let id = self.add_conn(conn);
            if self.device.resolve(id, local.address, address).is_err() {
                self.conns.remove(id.0);
                self.stats.failed.add(ConnectFailure::Local);
                continue;
            }
            self.time_connect(id, now + self.connect_timeout(ni) + RESOLVE);
            if let Some(peer) = self.peers.get_mut(peer) {
                peer.dialled.push(id);
            }
        }
        let is_dialling = self
            .peers
            .get(peer)
            .is_some_and(|peer| peer.is_connecting());
        if !is_dialling {
            self.fail_waiting(peer, Failure::LocalDropped, now, upper);
        }
    }

    fn time_connect(&mut self, id: ConnId, until: Time) {
        if let Some(conn) = self.conns.get_mut(id.0) {
            self.timers
                .remove(&(conn.connect_until, Timer::Connect(id)));
            conn.connect_until = until;
            self.timers.insert((until, Timer::Connect(id)));
        }
    }

    pub(super) fn untime_connect(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get(id.0) {
            self.timers
                .remove(&(conn.connect_until, Timer::Connect(id)));
        }
    }

    /// Sends the connection request.
    // [IB-2] [IB-11]
    pub(super) fn resolved(&mut self, id: ConnId, now: Time, upper: &mut impl Above<D>) {
        let Some(conn) = self
            .conns
            .get(id.0)
            .filter(|conn| conn.state == State::Resolving)
        else {
            self.stats.stray_events += 1;
            return;
        };
        let (peer, ni, ours, theirs) = (conn.peer, conn.ni, conn.ours, conn.theirs);
        let (Some(peer), Some(ni)) = (self.peers.get(peer), self.nis.get(&ni)) else {
            return self.doom(id, CloseReason::Shutdown);
        };
        let wanted = self.parameters(ni);
        let fragments = wanted.fragments.min(peer.fragments_max);
        let depth = wanted.queue_depth.min(peer.depth_max);
        let parameters = Parameters {
            queue_depth: self.fitting_depth(ni.address, depth, fragments),
            fragments,
            message_size: MESSAGE_MAX as u32,
        };
        let tuning = ni.config.tuning;
        let sends = self.fitting_sends(ni, parameters.queue_depth, fragments);
        let envelope = Envelope {
            credits: 0,
            source: ours.nid,
            source_incarnation: ours.incarnation,
            destination: theirs.nid,
            destination_incarnation: theirs.incarnation,
        };
        let body = Body::Connreq(parameters);
        let encoded = Message { envelope, body }.encode(self.scratch.as_mut_slice());
        if let Some(conn) = self.conns.get_mut(id.0) {
            conn.state = State::Connecting;
            conn.sends_max = sends;
            conn.agree(parameters.queue_depth, fragments, &tuning);
        }
        self.time_connect(id, now + self.connect_timeout(ni.config.ni));
        let shape = shape(parameters.queue_depth, fragments, sends);
        let data = encoded.ok().and_then(|len| self.scratch.get(..len));
        let connected = data.map(|data| self.device.connect(id, shape, data));
        if !matches!(connected, Some(Ok(()))) {
            self.dial_failed(id, ConnectFailure::Local, &[], now, upper);
        }
    }

    /// Handles the acceptor's reply, or the end of the handshake of an acceptor.
    // [IB-12]
    pub(super) fn established(
        &mut self,
        id: ConnId,
        data: &[u8],
        now: Time,
        upper: &mut impl Above<D>,
    ) {
        let Some(conn) = self.conns.get_mut(id.0) else {
            self.stats.stray_events += 1;
            return;
        };
        match conn.state {
            State::Accepting => {}
            State::Connecting => {
                let Some(reply) = accepted(conn, data) else {
                    if let Some((version, _)) = Message::other_version(data) {
                        let peer = Some(conn.theirs.nid);
                        self.versions.note(OtherVersion { peer, version });
                    }
                    return self.doom(id, CloseReason::BadReply);
                };
                let (parameters, incarnation) = reply;
                conn.theirs.incarnation = incarnation;
                let tuning = self.nis.get(&conn.ni).map(|ni| ni.config.tuning);
                let tuning = tuning.unwrap_or_default();
                conn.agree(parameters.queue_depth, parameters.fragments, &tuning);
            }
            _ => {
                self.stats.stray_events += 1;
                return;
            }
        }
        self.untime_connect(id);
        self.open(id, now, upper);
    }

    /// Makes an established connection usable: the messages that waited go to it.
    // [IB-13]
    fn open(&mut self, id: ConnId, now: Time, upper: &mut impl Above<D>) {
        let Some(conn) = self.conns.get_mut(id.0) else {
            return;
        };
        conn.state = State::Open;
        conn.alive_at = now;
        let early = std::mem::take(&mut conn.early);
        let (peer_key, incarnation) = (conn.peer, conn.theirs.incarnation);
        self.stats.established += 1;
        let Some(peer) = self.peers.get_mut(peer_key) else {
            return self.doom(id, CloseReason::Shutdown);
        };
        peer.forget(id);
        let older = peer.incarnation.filter(|&known| known != incarnation);
        peer.incarnation = Some(incarnation);
        peer.open.push(id);
        (peer.races, peer.reconnects) = (0, 0);
        let (ni, nid) = (peer.ni, peer.nid);
        let is_first = !std::mem::replace(&mut peer.told_alive, true);
        let waiting = std::mem::take(&mut peer.waiting);
        if older.is_some() {
            self.close_older(peer_key, incarnation);
        }
        if is_first {
            let id = lnet_types::ProcessId::lustre(nid);
            upper.peer_changed(ni, id, true, Some(incarnation), now);
        }
        for request in waiting {
            self.begin(id, request, now, upper);
        }
        for (buffer, bytes) in early {
            self.received(id, buffer, &bytes, now, upper);
        }
        self.pump(id, now);
    }

    /// Closes the connections with another incarnation of a peer.
    // [IB-14]
    pub(super) fn close_older(&mut self, peer: u64, incarnation: u64) {
        let all = self.peers.get(peer).map(|peer| peer.open.clone());
        for id in all.unwrap_or_default() {
            let conn = self.conns.get(id.0);
            if conn.is_some_and(|conn| conn.theirs.incarnation != incarnation) {
                self.doom(id, CloseReason::PeerRestarted);
            }
        }
    }

    /// Handles a dialled connection that was not made.
    // [IB-17]
    pub(super) fn dial_failed(
        &mut self,
        id: ConnId,
        failure: ConnectFailure,
        data: &[u8],
        now: Time,
        upper: &mut impl Above<D>,
    ) {
        self.untime_connect(id);
        let Some(conn) = self.conns.remove(id.0) else {
            self.stats.stray_events += 1;
            return;
        };
        if conn.state == State::Closing {
            return;
        }
        self.stats.failed.add(failure);
        let rejection = Rejection::decode(data).ok();
        let rejection = rejection.filter(|_| failure == ConnectFailure::Rejected);
        let rejection = rejection.map(understood);
        if let Some(rejection) = &rejection {
            self.stats.rejections.add(rejection.reason);
            if rejection.reason == RejectionReason::ConnUncompat {
                let peer = Some(conn.theirs.nid);
                let version = rejection.version;
                self.versions.note(OtherVersion { peer, version });
            }
        }
        let Some(peer) = self.peers.get_mut(conn.peer) else {
            return;
        };
        peer.forget(id);
        let again = match (failure, rejection) {
            (ConnectFailure::Stale, _) => true,
            (_, Some(rejection)) => learn(peer, conn.depth, conn.fragments, &rejection),
            _ => false,
        };
        if again {
            return self.reconnect(conn.peer, now);
        }
        let class = match (failure, rejection) {
            (ConnectFailure::Unreachable | ConnectFailure::NobodyListens, _) => {
                Failure::NetworkTimeout
            }
            (ConnectFailure::Rejected, _) => Failure::RemoteDropped,
            _ => Failure::LocalDropped,
        };
        self.dialling_ended(conn.peer, class, now, upper);
    }

    /// Fails the messages that wait for a peer, if nothing connects to the peer any more.
    pub(super) fn dialling_ended(
        &mut self,
        peer: u64,
        class: Failure,
        now: Time,
        upper: &mut impl Above<D>,
    ) {
        let is_over =
            |peer: &crate::peer::Peer<D::Source>| peer.open.is_empty() && !peer.is_connecting();
        if self.peers.get(peer).is_some_and(is_over) {
            self.fail_waiting(peer, class, now, upper);
        }
    }

    /// Dials again if messages wait and nothing else connects, now or after a pause.
    // [IB-15]
    pub(super) fn reconnect(&mut self, key: u64, now: Time) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let is_wanted = !peer.waiting.is_empty() && peer.open.is_empty();
        if !is_wanted || peer.is_connecting() {
            return;
        }
        self.stats.retries += 1;
        peer.reconnects = peer.reconnects.saturating_add(1);
        let mut at = now;
        if peer.reconnects > RECONNECTS_MAX {
            peer.reconnects = 0;
            at = now + Duration::from_secs(1);
        }
        peer.dial_at = Some(at);
        self.timers.insert((at, Timer::Dial(key)));
    }

    pub(super) fn dial_again(&mut self, key: u64, now: Time, upper: &mut impl Above<D>) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        peer.dial_at = None;
        if peer.open.is_empty() && !peer.is_connecting() && !peer.waiting.is_empty() {
            self.dial(key, now, upper);
        }
    }
}

/// Work requests for the two NOOPs that may be posted beyond the configured sends.
pub(super) const SPARE_SENDS: u32 = 2;

/// Returns the sizes of the queues for a connection of this depth.
// [IB-18]
pub(super) fn shape(depth: u16, fragments: u16, sends: u16) -> Shape {
    Shape {
        receives: 2 * u32::from(depth) + 2,
        messages: u32::from(sends),
        sends: u32::from(sends) * (1 + u32::from(fragments)) + SPARE_SENDS,
    }
}

/// Returns a rejection with the reason that its version shows: nodes of other versions call that fatal.
fn understood(mut rejection: Rejection) -> Rejection {
    if rejection.version != VERSION && rejection.reason == RejectionReason::Fatal {
        rejection.reason = RejectionReason::ConnUncompat;
    }
    rejection
}

/// Takes over what a rejection says of the peer. Returns true if another attempt makes sense.
fn learn<P>(
    peer: &mut crate::peer::Peer<P>,
    depth: u16,
    fragments: u16,
    rejection: &Rejection,
) -> bool {
    let theirs = rejection.parameters;
    match rejection.reason {
        RejectionReason::ConnRace => true,
        RejectionReason::ConnStale => {
            peer.incarnation = Some(rejection.incarnation).filter(|&known| known != 0);
            true
        }
        RejectionReason::RdmaFrags => {
            let is_lower = (1..fragments).contains(&theirs.fragments);
            if is_lower {
                peer.fragments_max = theirs.fragments;
            }
            is_lower
        }
        RejectionReason::MsgQueueSize => {
            let is_lower = (1..depth).contains(&theirs.queue_depth);
            if is_lower {
                peer.depth_max = theirs.queue_depth;
            }
            is_lower
        }
        _ => false,
    }
}

/// Checks the acceptor's reply. Returns what it agreed to, and its incarnation.
fn accepted<D: Device>(conn: &Conn<D>, data: &[u8]) -> Option<(Parameters, u64)> {
    let message = Message::decode(data).ok()?;
    let Body::Connack(parameters) = message.body else {
        return None;
    };
    let envelope = message.envelope;
    let is_ours = envelope.destination == conn.ours.nid
        && envelope.destination_incarnation == conn.ours.incarnation
        && envelope.source == conn.theirs.nid;
    let fits = (1..=conn.depth).contains(&parameters.queue_depth)
        && (1..=conn.fragments).contains(&parameters.fragments)
        && parameters.message_size as usize <= MESSAGE_MAX;
    (is_ours && fits).then_some((parameters, envelope.source_incarnation))
}

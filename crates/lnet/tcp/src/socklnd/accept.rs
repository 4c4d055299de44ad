//! Accepts connections: handshakes that peers began.
//!
//! Each accepted connection has its own deadline, so that a silent one delays no other, and their number is limited.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lnd::NiId;
use lnet_types::{ProcessId, Time};
use lnet_wire::{ByteOrder, Connreq, Ctype, DecodeError, Hello, HelloVersion, Problem};
use tracing::{info, warn};

use super::clock::Timer;
use super::{Slot, Socklnd};
use crate::admit::{Admission, Inquiry, admit};
use crate::config::AcceptMode;
use crate::handshake::{Handshake, Role, Stage};
use crate::job::Above;
use crate::network::{Bytes, Network, send_whole};
use crate::peer::PeerKey;
use crate::reader::{HandshakeReader, ReadError};
use crate::stats::Refusal;

/// The highest port that needs a privilege.
// [CONN-3]
const PRIVILEGED_PORT_MAX: u16 = 1023;

/// The most connections accepted in one turn.
const TURN_ACCEPTS: usize = 64;

/// How long a dial of the peer may have crossed ours. A peer that dials later has lost the connection, although its
/// end has not been seen here; a peer that wants more connections than we dial comes again after this time. Kernels
/// have no such time: they reject every connection beyond their own number.
// [SET-14]
const CROSSING: Duration = Duration::from_secs(1);

/// How long accepting pauses if the system lacks descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

impl<N: Network> Socklnd<N> {
    /// Accepts the connections that wait at a listener.
    pub(super) fn accept(&mut self, slot: usize, now: Time, upper: &mut impl Above) {
        for _ in 0..TURN_ACCEPTS {
            let Some(Slot::Listener(listener)) = self.slots.get_mut(slot) else {
                return;
            };
            match self.network.accept(&listener.socket) {
                Ok((stream, remote)) => self.take_in(stream, remote, now, upper),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    // Closes the oldest handshake to free its descriptor: silent clients must not keep others out.
                    _ if is_out_of_descriptors(&error) && self.close_oldest_handshake(now) => {}
                    _ => return self.pause_accepting(slot, &error, now),
                },
            }
        }
        if let Some(Slot::Listener(listener)) = self.slots.get_mut(slot)
            && !listener.in_reads
        {
            listener.in_reads = true;
            self.reads.push_back(slot);
        }
    }

    /// Pauses accepting, because the system lacks descriptors or memory. A timer is needed to continue: readiness is
    /// not reported a second time for connections that already wait.
    fn pause_accepting(&mut self, slot: usize, error: &io::Error, now: Time) {
        let Some(Slot::Listener(listener)) = self.slots.get_mut(slot) else {
            return;
        };
        let address = listener.address;
        self.stats.accept_errors += 1;
        if listener.retry_at.is_none_or(|time| time <= now) {
            listener.retry_at = Some(now + ACCEPT_PAUSE);
            self.timers
                .insert((now + ACCEPT_PAUSE, Timer::Listener(slot)));
        }
        if let Some(left_out) = self.log.admit("accept", address, now) {
            warn!(%address, %error, left_out, "cannot accept connections");
        }
    }

    fn take_in(
        &mut self,
        stream: N::Stream,
        remote: SocketAddr,
        now: Time,
        upper: &mut impl Above,
    ) {
        if self.config.accept == AcceptMode::Secure && remote.port() > PRIVILEGED_PORT_MAX {
            return self.count_refusal(remote, Refusal::SourcePort, None, now);
        }
        if self.stats.connections_open >= self.config.limits.connections_max as u64 {
            return self.count_refusal(remote, Refusal::TooManyConnections, None, now);
        }
        self.make_room(now);
        let entry = self.slots.vacant_entry();
        let slot = entry.key();
        if self.network.admit(slot, &stream).is_err() {
            return self.count_refusal(remote, Refusal::System, None, now);
        }
        let sequence = self.next_sequence;
        let deadline = now + self.config.accept_timeout;
        entry.insert(Slot::Handshake(Box::new(Handshake {
            stream: Arc::new(stream),
            role: Role::Passive { sequence },
            stage: Stage::Request,
            reader: HandshakeReader::new(),
            remote,
            deadline,
            peer_closed: false,
        })));
        self.next_sequence += 1;
        self.half_open.insert(sequence, slot);
        self.stats.handshakes_open += 1;
        self.timers.insert((deadline, Timer::Handshake(slot)));
        self.advance_handshake(slot, now, upper);
    }

    /// Closes the oldest unfinished handshake if there are too many.
    // [LIMIT-2]
    fn make_room(&mut self, now: Time) {
        if self.half_open.len() < self.config.limits.handshakes_max {
            return;
        }
        self.close_oldest_handshake(now);
    }

    /// Closes the oldest unfinished handshake; returns false if there is none.
    fn close_oldest_handshake(&mut self, now: Time) -> bool {
        let Some((_, &oldest)) = self.half_open.first_key_value() else {
            return false;
        };
        self.fail_passive(oldest, Refusal::TooManyHandshakes, now);
        true
    }

    /// Continues a handshake of either role.
    pub(super) fn advance_handshake(&mut self, slot: usize, now: Time, upper: &mut impl Above) {
        let Some(handshake) = self.handshake_mut(slot) else {
            self.stats.broken("a handshake that goes on");
            return;
        };
        if matches!(handshake.role, Role::Active { .. }) {
            return self.advance_active(slot, now, upper);
        }
        if handshake.stage == Stage::Request && !self.read_request(slot, now) {
            return;
        }
        match self.handshake_mut(slot).map(|handshake| handshake.stage) {
            Some(Stage::Hello(ni)) => self.read_hello(slot, ni, now, upper),
            Some(Stage::Rejected { .. }) => self.drop_rest(slot),
            _ => {}
        }
    }

    /// Reads the connection request; returns true once it is complete and names one of our interfaces.
    // [REQ-4] [REQ-5] [REQ-7] [REQ-8]
    fn read_request(&mut self, slot: usize, now: Time) -> bool {
        let Some(Slot::Handshake(handshake)) = self.slots.get_mut(slot) else {
            self.stats.broken("a handshake that is read");
            return false;
        };
        let mut socket = Bytes(&*handshake.stream);
        let request = match handshake.reader.read(&mut socket, Connreq::needed) {
            Ok(None) => return false,
            Ok(Some(bytes)) => Connreq::decode(bytes),
            Err(ReadError::Malformed(error)) => Err(error),
            Err(ReadError::Disconnected) => {
                self.fail_passive(slot, Refusal::Disconnected, now);
                return false;
            }
        };
        match request.map(|request| self.ni_by_nid.get(&request.target).copied()) {
            Ok(Some(ni)) => {
                let known = self.nis.get(&ni);
                let tuning = known.map(|known| known.tuning).unwrap_or_default();
                let timeout = tuning.timeout.unwrap_or(self.config.sock_timeout);
                let stream = &handshake.stream;
                let set = self.network.set_tos(stream, tuning.tos);
                if set
                    .and_then(|()| self.network.set_timeout(stream, timeout))
                    .is_err()
                {
                    self.fail_passive(slot, Refusal::System, now);
                    return false;
                }
                handshake.stage = Stage::Hello(ni);
                handshake.reader.clear();
                true
            }
            Ok(None) => {
                self.fail_passive(slot, Refusal::NoSuchNi, now);
                false
            }
            Err(error) => {
                self.refuse_request(slot, error, now);
                false
            }
        }
    }

    // [REQ-6]
    fn refuse_request(&mut self, slot: usize, error: DecodeError, now: Time) {
        let refusal = match error.problem {
            Problem::BadMagic(_) => Refusal::RequestMagic,
            Problem::UnknownVersion(_) => Refusal::RequestVersion,
            _ => Refusal::RequestMalformed,
        };
        if Connreq::deserves_rejection(&error) {
            self.refuse_with(slot, refusal, Some(error), &Connreq::REJECTION, now);
        } else {
            self.fail_passive_saying(slot, refusal, Some(error), now);
        }
    }

    // [HELLO-13] [HELLO-14] [HELLO-15]
    fn read_hello(&mut self, slot: usize, ni: NiId, now: Time, upper: &mut impl Above) {
        let Some(handshake) = self.handshake_mut(slot) else {
            self.stats.broken("a handshake that is read");
            return;
        };
        let mut socket = Bytes(&*handshake.stream);
        let result = match handshake.reader.read(&mut socket, Hello::needed) {
            Ok(None) => return,
            Ok(Some(bytes)) => Hello::decode(bytes).map(|decoded| (decoded.hello, decoded.order)),
            Err(ReadError::Malformed(error)) => Err(error),
            Err(ReadError::Disconnected) => {
                return self.fail_passive(slot, Refusal::Disconnected, now);
            }
        };
        match result {
            Ok((hello, _)) if hello.version == HelloVersion::V1 => {
                self.fail_passive(slot, Refusal::HelloVersion1, now);
            }
            Ok((hello, order)) => self.take_hello(slot, ni, &hello, order, now, upper),
            Err(error) if matches!(error.problem, Problem::UnknownVersion(_)) => {
                self.refuse_version(slot, ni, error, now);
            }
            Err(error) => self.fail_passive_saying(slot, Refusal::HelloMalformed, Some(error), now),
        }
    }

    /// Answers a HELLO of an unknown version with type `NONE` in our version. The peer's NID is unknown; the answer
    /// contains our own NID in its place, as kernels' answers do.
    // [HELLO-16]
    fn refuse_version(&mut self, slot: usize, ni: NiId, error: DecodeError, now: Time) {
        let Some(ni) = self.nis.get(&ni) else {
            return self.fail_passive(slot, Refusal::Shutdown, now);
        };
        let answer = Hello::dial(ni.nid, ni.nid, ni.incarnation, Ctype::NONE);
        self.refuse_hello(slot, &answer, Refusal::HelloVersion, Some(error), now);
    }

    // [HELLO-7] [HELLO-11]
    fn take_hello(
        &mut self,
        slot: usize,
        ni: NiId,
        hello: &Hello,
        order: ByteOrder,
        now: Time,
        upper: &mut impl Above,
    ) {
        let Some(ctype) = hello.ctype.inverse() else {
            return self.fail_passive(slot, Refusal::HelloType, now);
        };
        let Some(our) = self.nis.get(&ni).copied() else {
            return self.fail_passive(slot, Refusal::Shutdown, now);
        };
        let id = ProcessId {
            nid: hello.src_nid,
            pid: hello.src_pid,
        };
        let key = PeerKey { ni, id };
        let mut displaced = None;
        match admit(&self.inquiry(slot, our.nid, key, ctype, hello, now)) {
            Admission::Accept => {}
            Admission::AcceptAfterRestart => {
                if let Some(&index) = self.peer_by_key.get(&key) {
                    displaced = self.displace(index, hello.src_incarnation, now, upper);
                }
            }
            Admission::Decline(refusal) => {
                let answer = hello.reply(our.nid, our.incarnation, Ctype::NONE);
                return self.refuse_hello(slot, &answer, refusal, None, now);
            }
            Admission::Distrust(refusal) => return self.fail_passive(slot, refusal, now),
        }
        let answer = hello.reply(our.nid, our.incarnation, ctype);
        if !self.answer(slot, &answer) {
            return self.fail_passive(slot, Refusal::Disconnected, now);
        }
        let index = self.peer_index(key);
        self.stats.accepted += 1;
        if let Some(peer) = self.peers.get_mut(index) {
            peer.displaced = displaced.or(peer.displaced);
        }
        self.establish(slot, index, ctype, order, hello, now, upper);
        let Some(peer) = self.peers.get_mut(index) else {
            self.stats
                .broken("the peer of a connection that was accepted");
            return;
        };
        peer.dialler.met();
        if peer.dialler.is_waiting() {
            // A connection that the peer has rejected may exist now.
            self.continue_pass(index, now, upper);
            self.arm(index, now);
        }
    }

    // [SET-2]
    fn inquiry(
        &self,
        slot: usize,
        our_nid: lnet_types::Nid,
        key: PeerKey,
        ctype: Ctype,
        hello: &Hello,
        now: Time,
    ) -> Inquiry {
        let index = self.peer_by_key.get(&key).copied();
        let peer = index.and_then(|index| self.peers.get(index));
        let remote = match self.slots.get(slot) {
            Some(Slot::Handshake(handshake)) => Some(handshake.remote.ip()),
            _ => None,
        };
        #[cfg(feature = "defects")]
        let peer_in_race = peer.filter(|_| !self.ignores_races);
        #[cfg(not(feature = "defects"))]
        let peer_in_race = peer;
        let links = peer.map(|peer| peer.slots().into_iter().chain(peer.parting.clone()));
        let same_type = links
            .into_iter()
            .flatten()
            .filter_map(|link| self.connection(link))
            .filter(|link| link.terms.ctype == ctype && Some(link.terms.remote.ip()) == remote);
        let made = same_type.clone().filter(|link| {
            link.terms.version == hello.version
                && link.terms.dialled
                && now < link.made_at + CROSSING
        });
        // A connection from this node to itself has both its ends among these.
        let is_own = self.ni_by_nid.contains_key(&key.id.nid);
        let is_enough = !is_own && made.clone().count() >= self.pairs(key.ni);
        Inquiry {
            our_nid,
            peer_nid: key.id.nid,
            remote: remote.filter(|_| self.config.match_addresses),
            is_dialling: peer_in_race.is_some_and(|peer| {
                peer.dialler.is_connecting() && peer.address.map(|address| address.ip()) == remote
            }),
            incarnation: hello.src_incarnation,
            known_incarnation: index.and_then(|index| self.known_incarnation(index)),
            same_type: same_type.count(),
            same_type_max: self.config.limits.connections_per_type_max,
            is_made: is_enough && !self.takes_crossed(),
        }
    }

    // [HELLO-2] [HELLO-5] [CONN-7]
    fn answer(&mut self, slot: usize, hello: &Hello) -> bool {
        let mut bytes = [0; Hello::MAX_LEN];
        let Ok(len) = hello.encode(&mut bytes) else {
            return false;
        };
        self.handshake_mut(slot)
            .is_some_and(|peer| send_whole(&*peer.stream, &bytes[..len]).is_ok())
    }

    // [SET-5] [SET-6]
    fn refuse_hello(
        &mut self,
        slot: usize,
        answer: &Hello,
        refusal: Refusal,
        error: Option<DecodeError>,
        now: Time,
    ) {
        let mut bytes = [0; Hello::MAX_LEN];
        match answer.encode(&mut bytes) {
            Ok(len) => self.refuse_with(slot, refusal, error, &bytes[..len], now),
            Err(_) => self.fail_passive_saying(slot, refusal, error, now),
        }
    }

    /// Sends a rejection; then the peer must close the connection.
    fn refuse_with(
        &mut self,
        slot: usize,
        refusal: Refusal,
        error: Option<DecodeError>,
        bytes: &[u8],
        now: Time,
    ) {
        let Some(handshake) = self.handshake_mut(slot) else {
            self.stats.broken("a handshake that is refused");
            return;
        };
        let remote = handshake.remote;
        let stays = handshake.reject(bytes);
        self.count_refusal(remote, refusal, error, now);
        if stays {
            self.drop_rest(slot);
        } else {
            self.drop_handshake(slot);
        }
    }

    fn drop_rest(&mut self, slot: usize) {
        let Self { slots, scratch, .. } = self;
        let Some(Slot::Handshake(handshake)) = slots.get_mut(slot) else {
            return;
        };
        if !handshake.drop_rest(scratch) {
            self.drop_handshake(slot);
        }
    }

    /// Closes an accepted handshake without an answer.
    pub(super) fn fail_passive(&mut self, slot: usize, refusal: Refusal, now: Time) {
        self.fail_passive_saying(slot, refusal, None, now);
    }

    fn fail_passive_saying(
        &mut self,
        slot: usize,
        refusal: Refusal,
        error: Option<DecodeError>,
        now: Time,
    ) {
        let Some(handshake) = self.handshake_mut(slot) else {
            self.stats.broken("a handshake that has failed");
            return;
        };
        let remote = handshake.remote;
        // A rejected peer that does not close has already been counted with its rejection.
        if !matches!(handshake.stage, Stage::Rejected { .. }) {
            self.count_refusal(remote, refusal, error, now);
        }
        self.drop_handshake(slot);
    }

    fn count_refusal(
        &mut self,
        remote: SocketAddr,
        refusal: Refusal,
        error: Option<DecodeError>,
        now: Time,
    ) {
        self.stats.refused.add(refusal);
        let Some(left_out) = self.log.admit(refusal.text(), remote.ip(), now) else {
            return;
        };
        let why = refusal.text();
        match error {
            Some(error) => info!(%remote, why, %error, left_out, "rejected a connection"),
            None => info!(%remote, why, left_out, "rejected a connection"),
        }
    }

    /// Removes a handshake and closes its stream.
    pub(super) fn drop_handshake(&mut self, slot: usize) {
        if let Some(handshake) = self.take_handshake(slot) {
            self.network.forget(&handshake.stream);
            self.slots.remove(slot);
        }
    }

    /// Takes a handshake out of its slot. The slot stays reserved; the caller fills or removes it.
    pub(super) fn take_handshake(&mut self, slot: usize) -> Option<Handshake<N::Stream>> {
        self.handshake_mut(slot)?;
        let Slot::Handshake(handshake) = std::mem::replace(&mut self.slots[slot], Slot::Changing)
        else {
            return None;
        };
        self.timers
            .remove(&(handshake.deadline, Timer::Handshake(slot)));
        if let Role::Passive { sequence } = handshake.role {
            self.half_open.remove(&sequence);
            self.stats.handshakes_open -= 1;
        }
        Some(*handshake)
    }
}

/// Returns true if the process or the system has no file descriptor left.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

/// `ErrorKind` has no names for these errors.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

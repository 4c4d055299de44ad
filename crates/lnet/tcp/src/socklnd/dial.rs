//! Dials peers: passes over the missing connection types, and handshakes that we began.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lnd::{Failure, NiId};
use lnet_types::{ProcessId, Time};
use lnet_wire::{ByteOrder, Connreq, Ctype, Hello, HelloVersion};
use tracing::{info, warn};

use super::clock::Timer;
use super::{Slot, Socklnd};
use crate::connection::{Connection, Terms};
use crate::dialling::{AfterRejection, TypeCounts};
use crate::handshake::{Handshake, Role, Stage};
use crate::job::Above;
use crate::network::{Bytes, Network, Stream, send_whole};
use crate::peer::{LargeNids, Link, Peer};
use crate::reader::{HandshakeReader, ReadError};
use crate::stats::{DialFailure, Refusal, Unsent};
use crate::transmit::Departed;

/// How long one attempt to connect may take within a pass. The pauses between TCP's own attempts double, so that a
/// peer that returns would be noticed late; a new attempt begins with short ones. Kernels wait for TCP.
const ATTEMPT: Duration = Duration::from_secs(4);

/// Returns the failure of the messages that waited for a failed pass.
fn failure_of(why: DialFailure) -> Failure {
    match why {
        DialFailure::Refused
        | DialFailure::Unreachable
        | DialFailure::Disconnected
        | DialFailure::DeclinedTooOften => Failure::RemoteDropped,
        DialFailure::TimedOut => Failure::NetworkTimeout,
        _ => Failure::LocalError,
    }
}

/// The answer of a peer that we dialled: its HELLO, and the HELLO's byte order.
#[derive(Clone, Copy)]
struct Reply {
    hello: Hello,
    order: ByteOrder,
}

impl<N: Network> Socklnd<N> {
    /// Begins a dialling pass, if we dial this peer and a connection type is missing.
    pub(super) fn dial_what_is_missing(&mut self, index: usize, now: Time, upper: &mut impl Above) {
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        if !peer.is_dialled
            || peer.is_complete
            || peer.key.id.is_userspace()
            || !peer.dialler.may_begin(now)
        {
            return;
        }
        let is_complete = self.missing(index).is_none();
        let timeout = self.timeout(index);
        if let Some(peer) = self.peers.get_mut(index) {
            peer.is_complete = is_complete;
            if is_complete {
                return;
            }
            peer.dialler.begin(now, timeout);
        }
        self.continue_pass(index, now, upper);
    }

    /// Counts a peer's connections by type. If the peer needs version 4, only connections of that version count.
    fn counts(&self, index: usize) -> TypeCounts {
        let peer = self.peers.get(index);
        let wants_large = peer.is_some_and(|peer| peer.large_nids == LargeNids::Wanted);
        let links = self
            .peers
            .get(index)
            .map(|peer| peer.links.as_slice())
            .unwrap_or_default();
        TypeCounts::of(
            links
                .iter()
                .filter(|link| !wants_large || link.version == HelloVersion::V4)
                .map(|link| link.ctype),
        )
    }

    /// Returns the version in which a peer is dialled: the version that messages to it need, else the version that it
    /// asked for, else the version of its connections, else the usual one.
    // [HELLO-1] [LARGE-6] [LARGE-8]
    fn version_for(&self, peer: &Peer, usual: HelloVersion) -> HelloVersion {
        if peer.large_nids == LargeNids::Wanted {
            return HelloVersion::V4;
        }
        let links = peer.links.iter();
        let spoken = links.map(|link| link.version);
        peer.dialler.version().or(spoken.max()).unwrap_or(usual)
    }

    // [SET-2]
    fn missing(&self, index: usize) -> Option<Ctype> {
        let pairs = self.pairs(self.peers.get(index)?.key.ni);
        self.counts(index).missing(self.config.typed, pairs)
    }

    /// Returns how many pairs of bulk connections an interface wants with each peer.
    pub(super) fn pairs(&self, ni: NiId) -> usize {
        let tuning = self.nis.get(&ni).map(|interface| interface.tuning);
        usize::from(tuning.map_or(1, |tuning| tuning.conns_per_peer.max(1)))
    }

    /// Opens the next connection of a pass; ends the pass if no type is missing.
    pub(super) fn continue_pass(&mut self, index: usize, now: Time, upper: &mut impl Above) {
        let missing = self.missing(index);
        let Some(peer) = self.peers.get_mut(index) else {
            self.stats.broken("a peer that is dialled");
            return;
        };
        let Some(ctype) = missing else {
            peer.dialler.rest();
            return;
        };
        let opened = if now >= peer.dialler.deadline() {
            Err(peer.dialler.why_late())
        } else {
            self.open(index, ctype, now)
        };
        match opened {
            Ok(slot) => {
                if let Some(peer) = self.peers.get_mut(index) {
                    peer.dialler.connecting();
                    peer.dial_slot = Some(slot);
                }
            }
            Err(why) => self.dial_failed(index, why, now, upper),
        }
    }

    // [CONN-4] [REQ-1]
    fn open(&mut self, index: usize, ctype: Ctype, now: Time) -> Result<usize, DialFailure> {
        let peer = self.peers.get(index).ok_or(DialFailure::Shutdown)?;
        let remote = peer.address.ok_or(DialFailure::NoAddress)?;
        let ni = self.nis.get(&peer.key.ni).ok_or(DialFailure::Shutdown)?;
        let local = ni.nid.ip().ok_or(DialFailure::NoAddress)?;
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(DialFailure::NoAddress);
        }
        let usual = Hello::dial(ni.nid, peer.key.id.nid, ni.incarnation, ctype).version;
        let version = self.version_for(peer, usual);
        let deadline = peer.dialler.deadline().min(now + ATTEMPT);
        let entry = self.slots.vacant_entry();
        let slot = entry.key();
        let stream = self
            .network
            .dial(slot, local, remote, ni.tuning.tos, &self.config)?;
        entry.insert(Slot::Handshake(Box::new(Handshake {
            stream: Arc::new(stream),
            role: Role::Active {
                peer: index,
                ctype,
                version,
            },
            stage: Stage::Connecting,
            reader: HandshakeReader::new(),
            remote,
            deadline,
            peer_closed: false,
        })));
        self.timers.insert((deadline, Timer::Handshake(slot)));
        Ok(slot)
    }

    /// Ends a pass that has failed: reports a peer without connections as down, fails its waiting
    /// messages, and delays the next pass.
    pub(super) fn dial_failed(
        &mut self,
        index: usize,
        why: DialFailure,
        now: Time,
        upper: &mut impl Above,
    ) {
        self.stats.dial_failures.add(why);
        let (min, max) = (self.config.reconnect_min, self.config.reconnect_max);
        let Some(peer) = self.peers.get_mut(index) else {
            self.stats.broken("a peer that was dialled");
            return;
        };
        peer.dial_slot = None;
        peer.last_failure = Some(why);
        peer.dialler.failed(now, min, max);
        peer.forget_refusal();
        let (key, address, has_links) = (peer.key, peer.address, !peer.links.is_empty());
        let incarnation = peer.incarnation;
        // A peer that has dialled us meanwhile is not down, nor is a peer whose interface is being removed. Reports
        // the peer down before failing its messages; otherwise the freed credits would send more to it.
        if peer.links.is_empty() && why != DialFailure::Shutdown {
            upper.peer_changed(key.ni, key.id, false, incarnation, now);
        }
        self.log_dial_failure(key.id, address, why, now);
        let failed = if has_links {
            // The peer has connections, so only messages that these cannot carry are waiting.
            (Unsent::NotEncodable, Failure::Unwritable)
        } else {
            (Unsent::DialFailed, failure_of(why))
        };
        self.fail_waiting(index, failed, now, upper);
        self.arm(index, now);
    }

    /// Continues a handshake that we began.
    pub(super) fn advance_active(&mut self, slot: usize, now: Time, upper: &mut impl Above) {
        let Some(handshake) = self.handshake_mut(slot) else {
            self.stats.broken("a handshake of ours that goes on");
            return;
        };
        if handshake.stage == Stage::Connecting {
            let stream = Arc::clone(&handshake.stream);
            match self.network.connected(&stream) {
                None => return,
                Some(Err(why)) => return self.fail_active(slot, why, now, upper),
                Some(Ok(())) => {}
            }
            if let Err(why) = self.greet(slot) {
                return self.fail_active(slot, why, now, upper);
            }
            self.await_reply(slot);
        }
        match self.read_reply(slot) {
            Ok(None) => {}
            Ok(Some(reply)) => self.take_reply(slot, reply, now, upper),
            Err(why) => self.fail_active(slot, why, now, upper),
        }
    }

    /// Gives the peer the rest of the pass for its answer.
    fn await_reply(&mut self, slot: usize) {
        let Self {
            slots,
            peers,
            timers,
            ..
        } = self;
        let Some(Slot::Handshake(handshake)) = slots.get_mut(slot) else {
            return;
        };
        let Role::Active { peer: index, .. } = handshake.role else {
            return;
        };
        let Some(peer) = peers.get(index) else {
            return;
        };
        timers.remove(&(handshake.deadline, Timer::Handshake(slot)));
        handshake.deadline = peer.dialler.deadline();
        timers.insert((handshake.deadline, Timer::Handshake(slot)));
    }

    /// Sends connection request and HELLO in one write, because some acceptors serve one client at a time.
    // [CONN-4] [CONN-7]
    fn greet(&mut self, slot: usize) -> Result<(), DialFailure> {
        let Some(Slot::Handshake(handshake)) = self.slots.get_mut(slot) else {
            return Err(DialFailure::Shutdown);
        };
        let Role::Active {
            peer: index,
            ctype,
            version,
        } = handshake.role
        else {
            return Err(DialFailure::Shutdown);
        };
        let key = self.peers.get(index).ok_or(DialFailure::Shutdown)?.key;
        let ni = self.nis.get(&key.ni).ok_or(DialFailure::Shutdown)?;
        let timeout = ni.tuning.timeout.unwrap_or(self.config.sock_timeout);
        self.network
            .set_timeout(&handshake.stream, timeout)
            .map_err(|_| DialFailure::System)?;
        let local = handshake
            .stream
            .local_address()
            .map_err(|_| DialFailure::System)?;
        let mut hello = Hello::dial(ni.nid, key.id.nid, ni.incarnation, ctype);
        hello.version = version;
        if self.config.user_pid {
            hello.src_pid = u32::from(local.port()) | ProcessId::USER_FLAG;
        }
        let mut bytes = [0; Connreq::MAX_LEN + Hello::MAX_LEN];
        let request = Connreq::to(key.id.nid)
            .encode(&mut bytes)
            .map_err(|_| DialFailure::Version)?;
        let len = hello
            .encode(&mut bytes[request..])
            .map_err(|_| DialFailure::Version)?;
        handshake.stage = Stage::AwaitReply;
        send_whole(&*handshake.stream, &bytes[..request + len])
            .map_err(|error| DialFailure::of(error.kind()))
    }

    // [REQ-9]
    fn read_reply(&mut self, slot: usize) -> Result<Option<Reply>, DialFailure> {
        let Some(Slot::Handshake(handshake)) = self.slots.get_mut(slot) else {
            return Err(DialFailure::Shutdown);
        };
        let mut socket = Bytes(&*handshake.stream);
        match handshake.reader.read(&mut socket, Hello::needed) {
            Ok(None) => Ok(None),
            Ok(Some(bytes)) => {
                let received = Hello::decode(bytes).map_err(|_| DialFailure::HelloMalformed)?;
                Ok(Some(Reply {
                    hello: received.hello,
                    order: received.order,
                }))
            }
            Err(ReadError::Disconnected) => Err(DialFailure::Disconnected),
            Err(ReadError::Malformed(_)) => Err(DialFailure::HelloMalformed),
        }
    }

    // [HELLO-8] [HELLO-10]
    fn take_reply(&mut self, slot: usize, reply: Reply, now: Time, upper: &mut impl Above) {
        let Some(handshake) = self.handshake_mut(slot) else {
            return;
        };
        let Role::Active {
            peer: index,
            ctype,
            version,
        } = handshake.role
        else {
            return;
        };
        let hello = reply.hello;
        if hello.version == HelloVersion::V1 {
            return self.fail_active(slot, DialFailure::Version, now, upper);
        }
        if hello.ctype == Ctype::NONE {
            return self.declined(slot, index, (hello.version, version), now, upper);
        }
        let id = ProcessId {
            nid: hello.src_nid,
            pid: hello.src_pid,
        };
        if self.peers.get(index).is_none_or(|peer| peer.key.id != id) {
            return self.fail_active(slot, DialFailure::WrongPeer, now, upper);
        }
        if hello.ctype.inverse() != Some(ctype) {
            return self.fail_active(slot, DialFailure::WrongType, now, upper);
        }
        if hello.version < version {
            self.reject_large(index, now, upper);
        }
        if self
            .known_incarnation(index)
            .is_some_and(|known| known != hello.src_incarnation)
        {
            let before = self.displace(index, hello.src_incarnation, now, upper);
            let Some(peer) = self.peers.get_mut(index) else {
                return;
            };
            peer.displaced = before;
            if peer.dialler.restarted() {
                return self.fail_active(slot, DialFailure::Unsteady, now, upper);
            }
        }
        if let Some(peer) = self.peers.get_mut(index) {
            peer.dial_slot = None;
            peer.dialler.connected();
        }
        #[cfg(feature = "defects")]
        if self.closes_crossed && self.has_accepted(index, ctype) {
            self.drop_handshake(slot);
            return self.pursue_pass(index, now, upper);
        }
        self.stats.dialled += 1;
        self.establish(slot, index, ctype, reply.order, &hello, now, upper);
        self.pursue_pass(index, now, upper);
    }

    #[cfg(feature = "defects")]
    fn has_accepted(&self, index: usize, ctype: Ctype) -> bool {
        let links = self.peers.get(index).map(|peer| peer.links.as_slice());
        let mut terms = links
            .unwrap_or_default()
            .iter()
            .filter_map(|link| Some(self.connection(link.slot)?.terms));
        terms.any(|terms| !terms.dialled && terms.ctype == ctype)
    }

    /// Continues the pass with the next missing type and sets the peer's timer.
    fn pursue_pass(&mut self, index: usize, now: Time, upper: &mut impl Above) {
        self.continue_pass(index, now, upper);
        self.arm(index, now);
    }

    /// Returns the incarnation of a peer's open connections; `None` if it has none.
    pub(super) fn known_incarnation(&self, index: usize) -> Option<u64> {
        let peer = self.peers.get(index)?;
        peer.incarnation.filter(|_| !peer.links.is_empty())
    }

    /// Handles the answer `NONE`, in our version or in another one.
    // [HELLO-17] [SET-7]
    fn declined(
        &mut self,
        slot: usize,
        index: usize,
        (version, spoken): (HelloVersion, HelloVersion),
        now: Time,
        upper: &mut impl Above,
    ) {
        self.stats.dial_failures.add(DialFailure::Declined);
        self.drop_handshake(slot);
        if version < spoken {
            self.reject_large(index, now, upper);
        }
        let counts = self.counts(index);
        let jitter = self.random.number();
        let Some(peer) = self.peers.get_mut(index) else {
            self.stats.broken("a peer that was dialled");
            return;
        };
        peer.dial_slot = None;
        match peer.dialler.refused(now, version, spoken, counts, jitter) {
            AfterRejection::Wait | AfterRejection::Content => self.arm(index, now),
            AfterRejection::AtOnce => self.pursue_pass(index, now, upper),
        }
    }

    /// Notes that a peer with a 4-byte address reads no HELLO of version 4: fails the messages that
    /// need this version.
    // [LARGE-10]
    fn reject_large(&mut self, index: usize, now: Time, upper: &mut impl Above) {
        let Some(peer) = self
            .peers
            .get_mut(index)
            .filter(|peer| peer.large_nids == LargeNids::Wanted)
        else {
            return;
        };
        peer.set_large_nids(LargeNids::Refused);
        let (id, ip) = (peer.key.id, peer.address.map(|address| address.ip()));
        let (gone, kept) = peer
            .take_waiting()
            .into_iter()
            .partition::<Vec<_>, _>(|request| peer.needs_more_than_usual(&request.header));
        for request in kept {
            let deadline = request.deadline;
            peer.wait(request, deadline);
        }
        for request in gone {
            let failed = (Unsent::NotEncodable, Failure::Unwritable);
            self.report_unsent(index, Departed::of(&request), failed, now, upper);
        }
        if let Some(ip) = ip
            && let Some(left_out) = self.log.admit("reads no large NIDs", ip, now)
        {
            warn!(
                peer = %id, left_out,
                "it does not read HELLO version 4: messages from or to nodes with IPv6 addresses cannot be sent to it"
            );
        }
    }

    /// Ends a handshake of ours that gave no connection, and its pass.
    pub(super) fn fail_active(
        &mut self,
        slot: usize,
        why: DialFailure,
        now: Time,
        upper: &mut impl Above,
    ) {
        let Some(handshake) = self.handshake_mut(slot) else {
            self.stats.broken("a handshake of ours that has failed");
            return;
        };
        let is_connecting = handshake.stage == Stage::Connecting;
        let Role::Active {
            peer: index,
            version,
            ..
        } = handshake.role
        else {
            return;
        };
        // A release that does not know version 4 answers NONE in version 3 and closes with unread bytes, so its
        // answer may be lost. Therefore a disconnection counts as that answer.
        let is_small = |peer: &Peer| !peer.key.id.nid.is_large();
        if why == DialFailure::Disconnected
            && version == HelloVersion::V4
            && self.peers.get(index).is_some_and(is_small)
        {
            let versions = (HelloVersion::V3, version);
            return self.declined(slot, index, versions, now, upper);
        }
        self.drop_handshake(slot);
        // TCP did not connect within one attempt; the pass has time for another.
        if let Some(peer) = self.peers.get_mut(index)
            && why == DialFailure::TimedOut
            && is_connecting
            && now < peer.dialler.deadline()
        {
            peer.dial_slot = None;
            return self.pursue_pass(index, now, upper);
        }
        self.dial_failed(index, why, now, upper);
        self.forget_if_idle(index, now);
    }

    /// Makes a connection of a handshake that both sides agreed on.
    #[expect(
        clippy::too_many_arguments,
        reason = "what the two roles know differs in every one"
    )]
    pub(super) fn establish(
        &mut self,
        slot: usize,
        index: usize,
        ctype: Ctype,
        order: ByteOrder,
        hello: &Hello,
        now: Time,
        upper: &mut impl Above,
    ) {
        let Some(handshake) = self.take_handshake(slot) else {
            self.stats.broken("a handshake that became a connection");
            return;
        };
        let Some(peer) = self.peers.get_mut(index) else {
            self.stats.broken("the peer of a new connection");
            self.slots.remove(slot);
            return;
        };
        let terms = Terms {
            peer: index,
            ni: peer.key.ni,
            id: peer.key.id,
            ctype,
            version: hello.version,
            order,
            local: handshake.stream.local_address().unwrap_or(handshake.remote),
            remote: handshake.remote,
            dialled: matches!(handshake.role, Role::Active { .. }),
        };
        let is_first = peer.links.is_empty();
        self.part_replaced(&terms, now, upper);
        let Some(peer) = self.peers.get_mut(index) else {
            self.stats.broken("the peer of a new connection");
            return;
        };
        peer.incarnation = Some(hello.src_incarnation);
        peer.add_link(Link {
            slot,
            ctype,
            version: terms.version,
        });
        peer.last_failure = None;
        self.next_serial += 1;
        let mut connection = Connection::new(handshake.stream, self.next_serial, terms, now);
        connection.peer_closed = handshake.peer_closed;
        #[cfg(feature = "defects")]
        {
            connection.deaf = self.deaf;
        }
        self.slots[slot] = Slot::Connection(Box::new(connection));
        self.stats.connections_open += 1;
        self.welcome(slot, index, is_first, now, upper);
    }

    /// Starts a new connection: queues the waiting messages on it, and reads it at once, because the handshake
    /// may have consumed its readiness.
    fn welcome(
        &mut self,
        slot: usize,
        index: usize,
        is_first: bool,
        now: Time,
        upper: &mut impl Above,
    ) {
        let check_at = now + self.check_interval(index);
        let Some(peer) = self.peers.get_mut(index) else {
            self.stats.broken("the peer of a new connection");
            return;
        };
        if is_first {
            peer.check_at = check_at;
            upper.peer_changed(peer.key.ni, peer.key.id, true, peer.incarnation, now);
        }
        for request in peer.take_waiting() {
            match self.choose_connection(index, &request.header) {
                Some(slot) => self.enqueue(slot, request, now, upper),
                None => {
                    if let Some(peer) = self.peers.get_mut(index) {
                        let deadline = request.deadline;
                        peer.wait(request, deadline);
                    }
                }
            }
        }
        self.want_read(slot);
        self.arm(index, now);
    }

    fn log_dial_failure(
        &mut self,
        id: ProcessId,
        address: Option<SocketAddr>,
        why: DialFailure,
        now: Time,
    ) {
        let Some(address) = address else {
            info!(peer = %id, ?why, "cannot dial");
            return;
        };
        match (why, self.log.admit("cannot dial", address.ip(), now)) {
            (_, None) => {}
            (DialFailure::SourcePortPrivilege, Some(left_out)) => warn!(
                peer = %id, %address, left_out,
                "cannot dial: source ports below 1024 need a privilege; run `setcap \
                 cap_net_bind_service=+ep` on the program, or set `source_ports` to any where peers \
                 accept all"
            ),
            (DialFailure::WrongPeer, Some(left_out)) => warn!(
                peer = %id, %address, left_out,
                "cannot dial: the node at this address says that it is another node"
            ),
            (_, Some(left_out)) => info!(peer = %id, %address, ?why, left_out, "cannot dial"),
        }
    }

    /// Ends a handshake of either role.
    pub(super) fn end_handshake(
        &mut self,
        slot: usize,
        refusal: Refusal,
        failure: DialFailure,
        now: Time,
        upper: &mut impl Above,
    ) {
        match self.handshake_mut(slot).map(|handshake| handshake.role) {
            Some(Role::Active { .. }) => self.fail_active(slot, failure, now, upper),
            Some(Role::Passive { .. }) => self.fail_passive(slot, refusal, now),
            None => {}
        }
    }
}

//! Carries out the discovery of peers: pings, pushes, and the messages that wait.

use std::time::Duration;

use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{LNET_PORTAL, PING_MATCH_BITS};

use crate::fabric::discovery::{Action, Discovery, Happening};
use crate::fabric::said::Said;
use crate::fabric::select::{Path, PathRequest, Unobserved};
use crate::ground::event::{Errno, Event, EventKind};
use crate::ground::io::{CoreBuffer, TxId};
use crate::ground::md::{MdOptions, MdSpec};
use crate::ground::status::DropReason;
use crate::ground::timer::Timer;
use crate::traffic::portals::calls::PortalError;
use crate::traffic::portals::descriptor::Owner;
use crate::traffic::portals::lifecycle::Later;
use crate::traffic::portals::put_get::{GetRequest, PutRequest, SendHints, Waiting};
use crate::traffic::send::tx::{End, SendStage, Tx};
use crate::upkeep::Upkeep;
use crate::upkeep::discovery::merge::INFO_SIZE_MAX;

/// The limit of messages that wait for the discovery of one peer. Further messages to the peer fail at once. Otherwise a
/// peer that never answers a ping would fill the memory with what a service of this node has to tell it.
pub(crate) const PARKED_MAX: usize = 8192;

/// Limit of the steps after one event. An event leads to a merge, then a ping, a push or the end; the rest is reserve.
const STEPS_MAX: usize = 8;

/// The pause between two steps of pushing, in which messages can be sent.
const PUSH_PAUSE: Duration = Duration::from_millis(1);

/// Peers that are checked in one step after a change of this node's information; some 100 µs.
const PEERS_PER_STEP: usize = 256;

/// Returns the size of the complete information of a peer, in bytes.
fn bytes_needed(said: &Said) -> u32 {
    u32::try_from(said.size)
        .unwrap_or(u32::MAX)
        .min(INFO_SIZE_MAX)
}

impl Upkeep {
    pub(crate) fn discover(&mut self, nid: Nid, now: Time) -> Result<(), Errno> {
        self.note_time(now);
        if nid.is_loopback() || nid.is_any() || !self.globals().discovery {
            return Err(Errno::EINVAL);
        }
        self.traffic.fabric.peer_ni(nid, now).ok_or(Errno::ENOMEM)?;
        let name = self.traffic.fabric.peers.primary_of(nid);
        self.discovery_event(name, Happening::Forced, now);
        Ok(())
    }

    /// Lets a message wait until its target is discovered, if it must.
    pub(crate) fn park(&mut self, waiting: Option<Box<Waiting>>, now: Time) {
        let Some(waiting) = waiting else { return };
        let Waiting {
            send: PathRequest::Request(request),
            path,
            message,
        } = *waiting
        else {
            return;
        };
        let (target, send) = (request.target, PathRequest::Request(request));
        if self.traffic.fabric.peer_ni(target.nid, now).is_none() {
            return self.traffic.reject(message, Errno::ENOMEM);
        }
        let name = self.traffic.fabric.peers.primary_of(target.nid);
        let is_full = |known: &mut Discovery| known.parked.len() >= PARKED_MAX;
        if self.traffic.fabric.discovery_mut(name).is_some_and(is_full) {
            return self.traffic.reject(message, Errno::ENOMEM);
        }
        let deadline = now + self.globals().transaction_timeout;
        let tx = Tx::parked(send, path.ni, target, message, deadline, now);
        let id = self.traffic.enter_parked(tx);
        self.traffic
            .fabric
            .ground
            .timers
            .arm(deadline, Timer::Parked(id));
        if let Some(discovery) = self.traffic.fabric.discovery_mut(name) {
            discovery.parked.push_back(id);
        }
        self.discovery_event(name, Happening::Wanted, now);
    }

    /// Applies an event to a peer's discovery, and takes the steps that follow.
    pub(in crate::upkeep) fn discovery_event(&mut self, name: Nid, event: Happening, now: Time) {
        if let Some(discovery) = self.traffic.fabric.discovery_mut(name) {
            discovery.happens(event);
        }
        let mut name = name;
        for _ in 0..STEPS_MAX {
            let ours = self.traffic.fabric.ours();
            let Some(discovery) = self.traffic.fabric.discovery_mut(name) else {
                return;
            };
            match discovery.step(&ours) {
                Action::Wait => return,
                Action::Merge => name = self.merge(name, now),
                Action::Ping => return self.ping_peer(name, now),
                Action::Push => return self.push_to_peer(name, now),
                Action::Fail => return self.fail_parked(name),
                Action::Complete => return self.release_parked(name, now),
            }
        }
    }

    /// Continues the discovery of a peer that was configured while messages wait for it.
    pub(in crate::upkeep) fn go_on_with_discovery(&mut self, name: Nid) {
        let known = self.traffic.fabric.peers.by_nid(name);
        let known = known.and_then(|peer_ni| peer_ni.discovery.as_ref());
        if known.is_some_and(|known| !known.parked.is_empty()) {
            self.discovery_event(name, Happening::Wanted, self.traffic.fabric.ground.latest);
        }
    }

    /// Notes that a peer has this name from now on. Operations under way and messages that wait must find the peer by
    /// this name, even if the NID that they were started for is no longer one of the peer's.
    pub(in crate::upkeep) fn renamed(&mut self, name: Nid) {
        let known = self.traffic.fabric.peers.by_nid(name);
        let Some(known) = known.and_then(|peer_ni| peer_ni.discovery.as_ref()) else {
            return;
        };
        for md in known.ping.into_iter().chain(known.push) {
            let owners = self
                .traffic
                .later
                .iter_mut()
                .filter_map(|later| match later {
                    Later::Event { owner, event } if event.md == md => Some(owner),
                    _ => None,
                });
            let descriptor = self.traffic.mds.get_mut(md).map(|md| &mut md.owner);
            for owner in owners.chain(descriptor) {
                if let Owner::Discovery(_, of) | Owner::Push(_, of) = owner {
                    *of = name;
                }
            }
        }
        for &id in &known.parked {
            if let Some(tx) = self.traffic.tx.get_mut(id) {
                tx.waits_for(name);
            }
        }
    }

    fn ping_peer(&mut self, name: Nid, now: Time) {
        let length = self.traffic.fabric.ping_size(name);
        let Some(md) = self.bind_ping(length, |buffer| Owner::Discovery(buffer, name)) else {
            return self.cannot_begin(name, Happening::PingFailed, now);
        };
        if let Some(discovery) = self.traffic.fabric.discovery_mut(name) {
            discovery.begin_ping(md);
        }
        let timeout = self.globals().transaction_timeout;
        let asked = self.nid_to_ping(name);
        self.send_ping(md, asked, timeout, now);
    }

    /// Returns the NID at which a peer is pinged: its primary NID, or, if that is on no local net, a NID on a net that
    /// this node shares with the peer. The route to a remote primary NID may lead through the peer itself, which
    /// rejects messages for it that arrive over another net.
    fn nid_to_ping(&self, name: Nid) -> Nid {
        let is_near = |nid: &Nid| self.traffic.fabric.nis.has_net(nid.net());
        let peer = self
            .traffic
            .fabric
            .peers
            .peer(name)
            .filter(|_| !is_near(&name));
        let nids = peer.map(|peer| peer.nids.as_slice()).unwrap_or_default();
        let near = || nids.iter().copied().filter(is_near);
        let is_up = |nid: &Nid| {
            self.traffic
                .fabric
                .peers
                .by_nid(*nid)
                .is_some_and(|ni| ni.status_up)
        };
        near().find(is_up).or_else(|| near().next()).unwrap_or(name)
    }

    // [PUSH-4] [DISC-9]
    fn push_to_peer(&mut self, name: Nid, now: Time) {
        let info = self.traffic.fabric.ping_info();
        let spec = MdSpec {
            length: info.len() as u32,
            threshold: Some(2),
            max_size: 0,
            options: MdOptions::TRACK_RESPONSE,
            unlink_when_exhausted: true,
            user: u64::from(self.traffic.fabric.own.version),
        };
        let buffer = self.traffic.buffers.insert(info);
        let Ok(md) = self.traffic.bind_md(spec, Owner::Push(buffer, name)) else {
            self.traffic.release_buffer(buffer);
            return self.cannot_begin(name, Happening::PushFailed, now);
        };
        let mut way = None;
        if let Some(discovery) = self.traffic.fabric.discovery_mut(name) {
            discovery.push = Some(md);
            way = discovery.answered.take();
        }
        self.counters().pushes_sent += 1;
        // A push may have to report that this interface is down, so the interface must not carry the push.
        let is_usable = |core: &Self, (ours, theirs)| {
            let is_up = core
                .traffic
                .fabric
                .nis
                .by_nid(ours)
                .is_some_and(|ni| !ni.is_down());
            is_up && core.traffic.fabric.peers.primary_of(theirs) == name
        };
        let way = way.filter(|&way| is_usable(self, way));
        let put = PutRequest {
            md,
            ack: true,
            source: way.map(|(ours, _)| ours),
            target: ProcessId::lustre(way.map_or(name, |(_, theirs)| theirs)),
            portal: LNET_PORTAL,
            match_bits: PING_MATCH_BITS,
            offset: 0,
            hdr_data: 0,
        };
        if self.hinted_put(put, SendHints::default(), now).is_err() {
            self.traffic.unlink_md(md, Ok(()), now);
        }
    }

    /// Fails a ping or a push for which there is no room.
    fn cannot_begin(&mut self, name: Nid, event: Happening, now: Time) {
        if let Some(discovery) = self.traffic.fabric.discovery_mut(name) {
            discovery.fail(Errno::ENOMEM);
        }
        self.discovery_event(name, event, now);
    }

    /// Handles an event of a discovery ping.
    pub(in crate::upkeep) fn discovery_ping_event(
        &mut self,
        buffer: CoreBuffer,
        asked: Nid,
        event: &Event,
        now: Time,
    ) {
        let name = self.traffic.fabric.peers.primary_of(asked);
        let Some(discovery) = self.traffic.fabric.discovery_mut(name) else {
            return;
        };
        let happening = match (event.kind, event.status) {
            (EventKind::Send, Ok(())) => return,
            _ if discovery.ping.take_if(|md| *md == event.md).is_none() => return,
            (EventKind::Reply, Ok(())) => {
                discovery.answered = Some((event.target.nid, event.source.nid));
                self.answered(name, buffer, event.mlength)
            }
            (_, status) => {
                discovery.fail(status.err().unwrap_or(Errno::ETIMEDOUT));
                Happening::PingFailed
            }
        };
        self.discovery_event(name, happening, now);
    }

    /// Handles an event of a push of this node.
    pub(in crate::upkeep) fn push_sent_event(&mut self, to: Nid, event: &Event, now: Time) {
        let name = self.traffic.fabric.peers.primary_of(to);
        let Some(discovery) = self.traffic.fabric.discovery_mut(name) else {
            return;
        };
        let happening = match (event.kind, event.status) {
            (EventKind::Send, Ok(())) => return,
            _ if discovery.push.take_if(|md| *md == event.md).is_none() => return,
            (EventKind::Ack, Ok(())) => {
                // The descriptor's user value is the version that was pushed, which has 32 bits.
                discovery.acknowledge(event.user as u32);
                self.traffic.fabric.own.has_pushed = true;
                Happening::Acknowledged
            }
            (_, status) => {
                discovery.fail(status.err().unwrap_or(Errno::ETIMEDOUT));
                Happening::PushFailed
            }
        };
        self.discovery_event(name, happening, now);
    }

    fn answered(&mut self, name: Nid, buffer: CoreBuffer, length: u32) -> Happening {
        let bytes = self.traffic.buffers.data(buffer);
        let data = bytes.get(..length as usize).unwrap_or(bytes).to_vec();
        let said = Said::read(&data);
        let Some(discovery) = self.traffic.fabric.discovery_mut(name) else {
            return Happening::PingFailed;
        };
        let Some(said) = said else {
            discovery.fail(Errno::EPROTO);
            return Happening::PingFailed;
        };
        // The size cannot grow beyond the limit, so this ends even if a peer needs more each time.
        if said.truncated && discovery.grow(bytes_needed(&said)) {
            return Happening::CutOff;
        }
        if discovery.is_overtaken() {
            return Happening::Overtaken;
        }
        discovery.keep(data, false);
        Happening::Answered
    }

    /// Handles a gateway's answer to the checker, which is also a discovery of the gateway and requires a
    /// push.
    pub(in crate::upkeep) fn discovery_by_check(
        &mut self,
        gateway: Nid,
        said: &Said,
        data: Vec<u8>,
    ) {
        if !self.globals().discovery {
            return;
        }
        let name = self.traffic.fabric.peers.primary_of(gateway);
        let Some(discovery) = self.traffic.fabric.discovery_mut(name) else {
            return;
        };
        let event = if said.truncated && discovery.grow(bytes_needed(said)) {
            Happening::Forced
        } else {
            discovery.keep(data, false);
            Happening::Checked
        };
        self.discovery_event(name, event, self.traffic.fabric.ground.latest);
    }

    // [DISC-3] [PEER-3]
    fn fail_parked(&mut self, name: Nid) {
        let Some(discovery) = self.traffic.fabric.discovery_mut(name) else {
            return;
        };
        let errno = discovery.failure().unwrap_or(Errno::ETIMEDOUT);
        let parked = std::mem::take(&mut discovery.parked);
        self.counters().discoveries_failed += 1;
        for id in parked {
            self.traffic
                .fail_message(id, End::Failed(errno, DropReason::NotForwarded));
        }
    }

    /// Ends a successful discovery: each message that waited takes its path.
    fn release_parked(&mut self, name: Nid, now: Time) {
        let Some(discovery) = self.traffic.fabric.discovery_mut(name) else {
            return;
        };
        discovery.complete(now);
        for id in std::mem::take(&mut discovery.parked) {
            let Some(tx) = self.traffic.tx.get(id) else {
                self.broken("a message that waits for a discovery");
                continue;
            };
            let send = tx.send;
            self.traffic.fabric.bring_target_up_to_date(&send);
            self.traffic.fabric.note_selection(&send, None);
            match self
                .traffic
                .fabric
                .view()
                .path(&send, None, &mut Unobserved)
            {
                Ok(path) => self.launch_parked(id, path, now),
                Err(error) => {
                    let errno = error.errno(self.globals().profile);
                    self.traffic
                        .fail_message(id, End::Failed(errno, DropReason::NotForwarded));
                }
            }
        }
    }

    fn launch_parked(&mut self, id: TxId, path: Path, now: Time) {
        let Some(mut tx) = self.traffic.tx.remove(id) else {
            return;
        };
        self.traffic
            .fabric
            .ground
            .timers
            .disarm(tx.deadline, Timer::Parked(id));
        self.traffic.remove_from_md(&tx, id);
        tx.stage = SendStage::PeerQueue;
        self.traffic.launch(tx, &path, now);
    }

    /// Pushes this node's information to the next few peers that need it.
    pub(in crate::upkeep) fn push_step(&mut self, from: usize, now: Time) {
        let slots = from..from.saturating_add(PEERS_PER_STEP);
        let end = slots.end;
        let Some(peers) = self.traffic.fabric.peers.in_slots(slots) else {
            return;
        };
        let owed = peers.filter(|peer_ni| peer_ni.discovery.is_some());
        let owed: Vec<Nid> = owed.map(|peer_ni| peer_ni.nid).collect();
        for name in owed {
            let ours = self.traffic.fabric.ours();
            let is_owed = self
                .traffic
                .fabric
                .discovery_mut(name)
                .is_some_and(|known| known.owes(&ours));
            if is_owed {
                self.discovery_event(name, Happening::Changed, now);
            }
        }
        self.traffic
            .fabric
            .ground
            .timers
            .arm(now + PUSH_PAUSE, Timer::Push(end));
    }

    pub(crate) fn hinted_put(
        &mut self,
        put: PutRequest,
        hints: SendHints,
        now: Time,
    ) -> Result<(), PortalError> {
        let waiting = self.traffic.start_put(put, hints, now)?;
        self.park(waiting, now);
        Ok(())
    }

    pub(crate) fn hinted_get(
        &mut self,
        get: GetRequest,
        hints: SendHints,
        now: Time,
    ) -> Result<(), PortalError> {
        let timeout = self.globals().transaction_timeout;
        let exact = hints.exact(get.target.nid);
        let waiting = self.traffic.start_get(get, hints, timeout, exact, now)?;
        self.park(waiting, now);
        Ok(())
    }
}

//! Carries out the discovery of peers: pings, pushes, and the messages that wait.

use std::time::Duration;

use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{LNET_PORTAL, PING_BUFFER_MIN, PING_MATCH_BITS};

use crate::Core;
use crate::discovery::merge::INFO_SIZE_MAX;
use crate::discovery::table::{Action, Discovery, Happening, Ours};
use crate::event::{Errno, Event, EventKind};
use crate::io::{CoreBuffer, TxId};
use crate::ping::said::Said;
use crate::portals::descriptor::Owner;
use crate::portals::md::{MdOptions, MdSpec};
use crate::portals::put_get::{PutRequest, SendHints, Waiting};
use crate::select::{Path, PathRequest, Unobserved};
use crate::send::tx::{End, SendStage, Tx};
use crate::status::DropReason;
use crate::timer::Timer;

/// The limit of messages that wait for the discovery of one peer. Further messages to the peer fail at once. Otherwise a
/// peer that never answers a ping would fill the memory with what a service of this node has to tell it.
pub(crate) const PARKED_MAX: usize = 8192;

/// Limit of the steps after one event. An event leads to a merge, then a ping, a push or the end; the rest is reserve.
const STEPS_MAX: usize = 8;

/// The pause between two steps of pushing, in which messages can be sent.
const PUSH_PAUSE: Duration = Duration::from_millis(1);

/// Peers that are checked in one step after a change of this node's information; some 100 µs.
const PEERS_PER_STEP: usize = 256;

pub(crate) fn discover(core: &mut Core, nid: Nid, now: Time) -> Result<(), Errno> {
    core.note_time(now);
    if nid.is_loopback() || nid.is_any() || !core.config.globals.discovery {
        return Err(Errno::EINVAL);
    }
    core.peer_ni(nid, now).ok_or(Errno::ENOMEM)?;
    let name = core.peers.primary_of(nid);
    core.discovery_event(name, Happening::Forced, now);
    Ok(())
}

impl Core {
    /// Returns the discovery of the peer with this primary NID.
    pub(crate) fn discovery_mut(&mut self, name: Nid) -> Option<&mut Discovery> {
        let peer_ni = self.peers.by_nid_mut(name)?;
        Some(peer_ni.discovery.get_or_insert_default())
    }

    pub(crate) fn ours(&self) -> Ours {
        Ours {
            enabled: self.config.globals.discovery,
            version: self.own.version,
        }
    }

    /// Lets a message wait until its target is discovered, if it must.
    pub(crate) fn park(&mut self, waiting: Option<Waiting>, now: Time) {
        let Some(Waiting {
            send: PathRequest::Request(request),
            path,
            message,
        }) = waiting
        else {
            return;
        };
        let (target, send) = (request.target, PathRequest::Request(request));
        if self.peer_ni(target.nid, now).is_none() {
            return self.reject(message, Errno::ENOMEM);
        }
        let name = self.peers.primary_of(target.nid);
        let is_full = |known: &mut Discovery| known.parked.len() >= PARKED_MAX;
        if self.discovery_mut(name).is_some_and(is_full) {
            return self.reject(message, Errno::ENOMEM);
        }
        let deadline = now + self.config.globals.transaction_timeout;
        let tx = Tx::parked(send, path.ni, target, message, deadline, now);
        let id = self.enter_parked(tx);
        self.timers.arm(deadline, Timer::Parked(id));
        if let Some(discovery) = self.discovery_mut(name) {
            discovery.parked.push_back(id);
        }
        self.discovery_event(name, Happening::Wanted, now);
    }

    /// Removes a message that has failed from the messages that wait for the discovery of `target`.
    pub(crate) fn unpark(&mut self, target: Nid, id: TxId) {
        let name = self.peers.primary_of(target);
        if let Some(discovery) = self.discovery_mut(name) {
            discovery.parked.retain(|parked| *parked != id);
        }
    }

    /// Applies an event to a peer's discovery, and takes the steps that follow.
    pub(crate) fn discovery_event(&mut self, name: Nid, event: Happening, now: Time) {
        if let Some(discovery) = self.discovery_mut(name) {
            discovery.happens(event);
        }
        let mut name = name;
        for _ in 0..STEPS_MAX {
            let ours = self.ours();
            let Some(discovery) = self.discovery_mut(name) else {
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
    pub(crate) fn go_on_with_discovery(&mut self, name: Nid) {
        let known = self.peers.by_nid(name);
        let known = known.and_then(|peer_ni| peer_ni.discovery.as_ref());
        if known.is_some_and(|known| !known.parked.is_empty()) {
            self.discovery_event(name, Happening::Wanted, self.latest);
        }
    }

    /// Notes that a peer has this name from now on. Operations under way and messages that wait must find the peer by
    /// this name, even if the NID that they were started for is no longer one of the peer's.
    pub(crate) fn renamed(&mut self, name: Nid) {
        let known = self.peers.by_nid(name);
        let Some(known) = known.and_then(|peer_ni| peer_ni.discovery.as_ref()) else {
            return;
        };
        for md in known.ping.into_iter().chain(known.push) {
            let mut events = self.finished.iter_mut();
            let event = events.find(|finished| finished.event.md == md);
            let owners = event.map(|finished| &mut finished.owner);
            let descriptor = self.mds.get_mut(md).map(|md| &mut md.owner);
            for owner in owners.into_iter().chain(descriptor) {
                if let Owner::Discovery(_, of) | Owner::Push(_, of) = owner {
                    *of = name;
                }
            }
        }
        for &id in &known.parked {
            if let Some(tx) = self.tx.get_mut(id) {
                tx.waits_for(name);
            }
        }
    }

    fn ping_peer(&mut self, name: Nid, now: Time) {
        let length = self.ping_size(name);
        let Some(md) = self.bind_ping(length, |buffer| Owner::Discovery(buffer, name)) else {
            return self.cannot_begin(name, Happening::PingFailed, now);
        };
        if let Some(discovery) = self.discovery_mut(name) {
            discovery.begin_ping(md);
        }
        let timeout = self.config.globals.transaction_timeout;
        let asked = self.nid_to_ping(name);
        self.send_ping(md, asked, timeout, now);
    }

    /// Returns the NID at which a peer is pinged: its primary NID, or, if that is on no local net, a NID on a net that
    /// this node shares with the peer. The route to a remote primary NID may lead through the peer itself, which
    /// rejects messages for it that arrive over another net.
    fn nid_to_ping(&self, name: Nid) -> Nid {
        let is_near = |nid: &Nid| self.nis.has_net(nid.net());
        let peer = self.peers.peer(name).filter(|_| !is_near(&name));
        let nids = peer.map(|peer| peer.nids.as_slice()).unwrap_or_default();
        let near = || nids.iter().copied().filter(is_near);
        let is_up = |nid: &Nid| self.peers.by_nid(*nid).is_some_and(|ni| ni.status_up);
        near().find(is_up).or_else(|| near().next()).unwrap_or(name)
    }

    // [PUSH-4] [DISC-9]
    fn push_to_peer(&mut self, name: Nid, now: Time) {
        let info = self.ping_info();
        let spec = MdSpec {
            length: info.len() as u32,
            threshold: Some(2),
            max_size: 0,
            options: MdOptions::TRACK_RESPONSE,
            unlink_when_exhausted: true,
            user: u64::from(self.own.version),
        };
        let buffer = self.buffers.insert(info);
        let Ok(md) = self.bind_md(spec, Owner::Push(buffer, name)) else {
            self.release_buffer(buffer);
            return self.cannot_begin(name, Happening::PushFailed, now);
        };
        let mut way = None;
        if let Some(discovery) = self.discovery_mut(name) {
            discovery.push = Some(md);
            way = discovery.answered.take();
        }
        self.counters.pushes_sent += 1;
        // A push may have to report that this interface is down, so the interface must not carry the push.
        let is_usable = |core: &Self, (ours, theirs)| {
            let is_up = core.nis.by_nid(ours).is_some_and(|ni| !ni.is_down());
            is_up && core.peers.primary_of(theirs) == name
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
            self.unlink_md(md, Ok(()), now);
        }
    }

    /// Fails a ping or a push for which there is no room.
    fn cannot_begin(&mut self, name: Nid, event: Happening, now: Time) {
        if let Some(discovery) = self.discovery_mut(name) {
            discovery.fail(Errno::ENOMEM);
        }
        self.discovery_event(name, event, now);
    }

    /// Handles an event of a discovery ping.
    pub(crate) fn discovery_ping_event(
        &mut self,
        buffer: CoreBuffer,
        asked: Nid,
        event: &Event,
        now: Time,
    ) {
        let name = self.peers.primary_of(asked);
        let Some(discovery) = self.discovery_mut(name) else {
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
    pub(crate) fn push_sent_event(&mut self, to: Nid, event: &Event, now: Time) {
        let name = self.peers.primary_of(to);
        let Some(discovery) = self.discovery_mut(name) else {
            return;
        };
        let happening = match (event.kind, event.status) {
            (EventKind::Send, Ok(())) => return,
            _ if discovery.push.take_if(|md| *md == event.md).is_none() => return,
            (EventKind::Ack, Ok(())) => {
                // The descriptor's user value is the version that was pushed, which has 32 bits.
                discovery.acknowledge(event.user as u32);
                self.own.has_pushed = true;
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
        let bytes = self.buffers.data(buffer);
        let data = bytes.get(..length as usize).unwrap_or(bytes).to_vec();
        let said = Said::read(&data);
        let Some(discovery) = self.discovery_mut(name) else {
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
    pub(crate) fn discovery_by_check(&mut self, gateway: Nid, said: &Said, data: Vec<u8>) {
        if !self.config.globals.discovery {
            return;
        }
        let name = self.peers.primary_of(gateway);
        let Some(discovery) = self.discovery_mut(name) else {
            return;
        };
        let event = if said.truncated && discovery.grow(bytes_needed(said)) {
            Happening::Forced
        } else {
            discovery.keep(data, false);
            Happening::Checked
        };
        self.discovery_event(name, event, self.latest);
    }

    /// Returns the size of the buffer for a ping of this peer, in bytes.
    // [PING-3]
    pub(crate) fn ping_size(&self, name: Nid) -> u32 {
        let known = self.peers.by_nid(name);
        let known = known.and_then(|peer_ni| peer_ni.discovery.as_ref());
        known.map_or(PING_BUFFER_MIN, |known| {
            known.info_size().max(PING_BUFFER_MIN)
        })
    }

    // [DISC-3] [PEER-3]
    fn fail_parked(&mut self, name: Nid) {
        let Some(discovery) = self.discovery_mut(name) else {
            return;
        };
        let errno = discovery.failure().unwrap_or(Errno::ETIMEDOUT);
        let parked = std::mem::take(&mut discovery.parked);
        self.counters.discoveries_failed += 1;
        for id in parked {
            self.fail_message(id, End::Failed(errno, DropReason::NotForwarded));
        }
    }

    /// Ends a successful discovery: each message that waited takes its path.
    fn release_parked(&mut self, name: Nid, now: Time) {
        let Some(discovery) = self.discovery_mut(name) else {
            return;
        };
        discovery.complete(now);
        for id in std::mem::take(&mut discovery.parked) {
            let Some(tx) = self.tx.get(id) else {
                self.broken("a message that waits for a discovery");
                continue;
            };
            let send = tx.send;
            self.bring_target_up_to_date(&send);
            self.note_selection(&send, None);
            match self.view().path(&send, None, &mut Unobserved) {
                Ok(path) => self.launch_parked(id, path, now),
                Err(error) => {
                    let errno = error.errno(self.config.globals.profile);
                    self.fail_message(id, End::Failed(errno, DropReason::NotForwarded));
                }
            }
        }
    }

    fn launch_parked(&mut self, id: TxId, path: Path, now: Time) {
        let Some(mut tx) = self.tx.remove(id) else {
            return;
        };
        self.timers.disarm(tx.deadline, Timer::Parked(id));
        self.remove_from_md(&tx, id);
        tx.stage = SendStage::PeerQueue;
        self.launch(tx, &path, now);
    }

    /// Plans pushes after this node's information has changed, also by switching discovery off. They go
    /// to each peer that has acknowledged older information, to some peers at a time.
    // [PUSH-5] [PUSH-10]
    pub(crate) fn plan_pushes(&mut self) {
        if self.own.has_pushed {
            self.timers.arm(self.latest, Timer::Push(0));
        }
    }

    /// Pushes this node's information to the next few peers that need it.
    pub(crate) fn push_step(&mut self, from: usize, now: Time) {
        let slots = from..from.saturating_add(PEERS_PER_STEP);
        let end = slots.end;
        let Some(peers) = self.peers.in_slots(slots) else {
            return;
        };
        let owed = peers.filter(|peer_ni| peer_ni.discovery.is_some());
        let owed: Vec<Nid> = owed.map(|peer_ni| peer_ni.nid).collect();
        for name in owed {
            let ours = self.ours();
            let is_owed = self
                .discovery_mut(name)
                .is_some_and(|known| known.owes(&ours));
            if is_owed {
                self.discovery_event(name, Happening::Changed, now);
            }
        }
        self.timers.arm(now + PUSH_PAUSE, Timer::Push(end));
    }
}

/// Returns the size of the complete information of a peer, in bytes.
fn bytes_needed(said: &Said) -> u32 {
    u32::try_from(said.size)
        .unwrap_or(u32::MAX)
        .min(INFO_SIZE_MAX)
}

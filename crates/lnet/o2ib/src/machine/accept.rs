//! Connection requests of peers.

use std::net::Ipv4Addr;

use lnet_types::Time;
use lnet_wire::o2ib::{
    Body, Envelope, MESSAGE_MAX, Message, Parameters, Rejection, RejectionReason,
};

use super::dial::shape;
use super::{Ni, O2iblnd};
use crate::connection::{Conn, End, State};
use crate::device::{Device, RequestId};
use crate::peer::RACES_MAX;
use crate::stats::CloseReason;
use crate::version::OtherVersion;

/// The first port that any user may use.
const UNPRIVILEGED: u16 = 1024;

/// What a request asks for.
struct Asked {
    ni: Ni,
    theirs: End,
    parameters: Parameters,
}

impl<D: Device> O2iblnd<D> {
    /// Accepts or rejects a connection request.
    // [IB-3]
    pub(super) fn requested(
        &mut self,
        (request, address, source_port): (RequestId, Ipv4Addr, u16),
        data: &[u8],
        now: Time,
    ) {
        let mut met = None;
        let examined = self.examine(address, source_port, data);
        let admitted = examined.and_then(|asked| {
            let peer = self.admit(&asked, &mut met)?;
            Ok((asked, peer))
        });
        let accepted = admitted.and_then(|(asked, peer)| {
            let accepted = self.accept_request(request, &asked, peer, now);
            accepted.map_err(|reason| (reason, Some(asked.ni)))
        });
        if let Err((reason, ni)) = accepted {
            if let Some((version, peer)) = Message::other_version(data)
                && reason == RejectionReason::ConnUncompat
            {
                self.versions.note(OtherVersion { peer, version });
            }
            self.reject(request, reason, ni);
        }
        if let Some(peer) = met {
            self.forget_if_idle(peer);
        }
    }

    // [IB-2] [IB-16]
    fn reject(&mut self, request: RequestId, reason: RejectionReason, ni: Option<Ni>) {
        self.stats.rejected.add(reason);
        let own = Parameters {
            queue_depth: 0,
            fragments: self.config.fragments,
            message_size: MESSAGE_MAX as u32,
        };
        let parameters = ni.map_or(own, |ni| self.parameters(&ni));
        let incarnation = ni.map_or(0, |ni| ni.config.incarnation);
        // CONN_UNCOMPAT never crosses the wire: the dialler finds it by the version of the rejection.
        let told = match reason {
            RejectionReason::ConnUncompat => RejectionReason::Fatal,
            other => other,
        };
        let rejection = Rejection::new(told, incarnation, parameters);
        self.device.reject(request, &rejection.to_bytes());
    }

    /// Makes the checks that need no peer, in the order of the protocol.
    fn examine(
        &self,
        address: Ipv4Addr,
        source_port: u16,
        data: &[u8],
    ) -> Result<Asked, (RejectionReason, Option<Ni>)> {
        let here = self.nis.values().find(|ni| ni.address == address).copied();
        let fatal = Err((RejectionReason::Fatal, here));
        if self.config.require_privileged_port && source_port >= UNPRIVILEGED {
            return fatal;
        }
        if Message::other_version(data).is_some() {
            // The rejection has our version, from which the dialler learns.
            return Err((RejectionReason::ConnUncompat, here));
        }
        let Ok(message) = Message::decode(data) else {
            return fatal;
        };
        let envelope = message.envelope;
        let meant = self
            .nis
            .values()
            .find(|ni| ni.config.nid == envelope.destination);
        let Some(ni) = meant.filter(|ni| ni.address == address).copied() else {
            return match here {
                Some(_) => fatal,
                None => Err((RejectionReason::Early, None)),
            };
        };
        let known = envelope.destination_incarnation;
        if known != 0 && known != ni.config.incarnation {
            return Err((RejectionReason::ConnStale, Some(ni)));
        }
        let Body::Connreq(parameters) = message.body else {
            return Err((RejectionReason::Fatal, Some(ni)));
        };
        let most = self.parameters(&ni);
        let reason = if parameters.queue_depth > most.queue_depth {
            RejectionReason::MsgQueueSize
        } else if parameters.fragments > most.fragments {
            RejectionReason::RdmaFrags
        } else if parameters.queue_depth == 0
            || parameters.fragments == 0
            || parameters.message_size as usize > MESSAGE_MAX
            || envelope.source.net() != ni.config.nid.net()
            || (envelope.source == ni.config.nid
                && envelope.source_incarnation != ni.config.incarnation)
        {
            RejectionReason::Fatal
        } else {
            let theirs = End {
                nid: envelope.source,
                incarnation: envelope.source_incarnation,
            };
            return Ok(Asked {
                ni,
                theirs,
                parameters,
            });
        };
        Err((reason, Some(ni)))
    }

    /// Makes the checks that concern the peer. Returns the peer.
    // [IB-10] [IB-14]
    fn admit(
        &mut self,
        asked: &Asked,
        met: &mut Option<u64>,
    ) -> Result<u64, (RejectionReason, Option<Ni>)> {
        let ni = Some(asked.ni);
        let full = self.conns.len() >= self.config.limits.connections_max;
        let key = (asked.ni.config.ni, asked.theirs.nid);
        if full && !self.peer_by_key.contains_key(&key) {
            return Err((RejectionReason::NoResources, ni));
        }
        let key = self.peer_of(asked.ni.config.ni, asked.theirs.nid);
        *met = Some(key);
        let Some(peer) = self.peers.get_mut(key) else {
            return Err((RejectionReason::NoResources, ni));
        };
        let incarnation = asked.theirs.incarnation;
        if peer.incarnation.is_some_and(|known| known != incarnation) {
            peer.incarnation = Some(incarnation);
            self.close_older(key, incarnation);
            return Err((RejectionReason::ConnStale, ni));
        }
        // [IB-36]
        if asked.theirs.nid == asked.ni.config.nid && peer.dialled.is_empty() {
            return Err((RejectionReason::Fatal, ni));
        }
        if full || peer.connections() >= self.config.limits.connections_per_peer_max {
            return Err((RejectionReason::NoResources, ni));
        }
        let loses = asked.theirs.nid.to_nid4() < asked.ni.config.nid.to_nid4();
        if !peer.dialled.is_empty() && loses && peer.races < RACES_MAX {
            peer.races += 1;
            return Err((RejectionReason::ConnRace, ni));
        }
        peer.races = 0;
        Ok(key)
    }

    // [IB-11]
    fn accept_request(
        &mut self,
        request: RequestId,
        asked: &Asked,
        peer: u64,
        now: Time,
    ) -> Result<(), RejectionReason> {
        let local = asked.ni.config;
        let ours = End {
            nid: local.nid,
            incarnation: local.incarnation,
        };
        let fragments = asked.parameters.fragments;
        let depth = asked.parameters.queue_depth;
        let depth = self.fitting_depth(asked.ni.address, depth, fragments);
        let parameters = Parameters {
            queue_depth: depth,
            ..asked.parameters
        };
        let envelope = Envelope {
            credits: 0,
            source: ours.nid,
            source_incarnation: ours.incarnation,
            destination: asked.theirs.nid,
            destination_incarnation: asked.theirs.incarnation,
        };
        let body = Body::Connack(parameters);
        let encoded = Message { envelope, body }.encode(self.scratch.as_mut_slice());
        let mut conn = Conn::new(peer, local.ni, ours, asked.theirs, State::Accepting, now);
        let sends = self.fitting_sends(&asked.ni, depth, fragments);
        conn.sends_max = sends;
        conn.agree(depth, fragments, &local.tuning);
        conn.connect_until = now + self.connect_timeout(local.ni);
        let until = conn.connect_until;
        let id = self.add_conn(conn);
        let shape = shape(depth, fragments, sends);
        let data = encoded.ok().and_then(|len| self.scratch.get(..len));
        let accepted = data.map(|data| self.device.accept(request, id, shape, data));
        if !matches!(accepted, Some(Ok(()))) {
            self.conns.remove(id.0);
            return Err(RejectionReason::NoResources);
        }
        self.timers.insert((until, super::Timer::Connect(id)));
        match self.peers.get_mut(peer) {
            Some(peer) => peer.accepted.push(id),
            None => self.doom(id, CloseReason::Shutdown),
        }
        Ok(())
    }
}

//! The information of this node about itself, which pings ask for.
//!
//! The answer is an ordinary descriptor on portal 0 whose memory the core owns. The information is rebuilt after every
//! change; messages that carry the old information keep it until they are sent.

use std::cmp::Reverse;
use std::time::Duration;

use lnet_policy::Profile;
use lnet_types::{Net, Nid, ProcessId, Time};
use lnet_wire::{
    Body, Header, LNET_PORTAL, NiStatus, PING_MATCH_BITS, PingFeatures, PingInfoRepr, PingNi,
};
use smallvec::SmallVec;

use crate::Core;
use crate::io::NiId;
use crate::ni::Ni;
use crate::own::Outdated;
use crate::portals::descriptor::Owner;
use crate::portals::md::{InsertPosition, MdOptions, MdSpec, MeSpec};
use crate::router::routing::RoutingState;
use crate::timer::Timer;

/// Peers of each kind that are pinged on a net on which nobody pings this node: those that the configuration names, and
/// others. One that answers is enough.
const PEERS_ASKED: usize = 4;

impl Core {
    /// Creates the descriptor that answers pings.
    // [PING-1] [PING-2] [PING-4]
    pub(crate) fn open_ping_target(&mut self) {
        let me = MeSpec {
            portal: LNET_PORTAL,
            match_id: ProcessId::ANY,
            match_bits: PING_MATCH_BITS,
            ignore_bits: 0,
            unlink_with_md: false,
            position: InsertPosition::After,
        };
        let md = MdSpec {
            length: 0,
            threshold: None,
            max_size: 0,
            options: MdOptions::OP_GET | MdOptions::TRUNCATE | MdOptions::MANAGE_REMOTE,
            unlink_when_exhausted: false,
            user: 0,
        };
        let buffer = self.buffers.insert(Vec::new());
        let owner = Owner::PingTarget(buffer);
        self.ping_answer = self
            .portals
            .attach(me)
            .and_then(|me| self.attach_md(me, md, owner))
            .ok();
        self.rebuild_ping_info();
    }

    /// Brings the ping information up to date.
    pub(crate) fn refresh_ping_info(&mut self) {
        match self.own.take_changes() {
            Outdated::Nothing => {}
            Outdated::Status => self.rewrite_ping_info(),
            Outdated::Interfaces => self.rebuild_ping_info(),
        }
    }

    /// Rebuilds the ping information after the configuration has changed, with the next sequence number.
    // [PING-9]
    pub(crate) fn rebuild_ping_info(&mut self) {
        self.own.sequence = self.own.sequence.wrapping_add(1);
        self.rewrite_ping_info();
    }

    /// Rebuilds the ping information after the status of an interface has changed; the sequence number stays.
    /// While discovery is on, the node pushes the new information to each peer that has the older one.
    pub(crate) fn rewrite_ping_info(&mut self) {
        self.own.version = self.own.version.wrapping_add(1);
        if self.config.globals.discovery {
            self.plan_pushes();
        }
        let info = self.ping_info();
        let length = info.len() as u32;
        let fresh = self.buffers.insert(info);
        let Some(md) = self.ping_answer.and_then(|md| self.mds.get_mut(md)) else {
            return self.broken("the descriptor that answers pings");
        };
        md.spec.length = length;
        if let Owner::PingTarget(stale) = std::mem::replace(&mut md.owner, Owner::PingTarget(fresh))
        {
            self.release_buffer(stale);
        }
    }

    /// Returns the information of this node about itself, in the bytes of the answer to a ping and of a push.
    // [PING-5] [PING-7] [PING-8] [PUSH-2] [ROUTE-10]
    pub(crate) fn ping_info(&self) -> Vec<u8> {
        let mut features = PingFeatures::NI_STATUS;
        // A node that has never used discovery sets no feature for it. A node that used discovery and
        // stopped says so as a Multi-Rail node, because receivers ignore pushes of other nodes.
        features.set(PingFeatures::MULTI_RAIL, self.own.has_discovered);
        features.set(PingFeatures::DISCOVERY, self.config.globals.discovery);
        let routes = self.routing() == RoutingState::On;
        features.set(PingFeatures::RTE_DISABLED, !routes);
        let nis: Vec<PingNi> = self
            .advertised()
            .map(|ni| PingNi {
                nid: ni.nid,
                status: self.advertised_status(ni),
            })
            .collect();
        let (pid, sequence) = (self.config.pid, self.own.sequence);
        let info = PingInfoRepr {
            features,
            pid,
            sequence,
            nis: &nis,
        }
        .with_large_bits();
        let mut bytes = vec![0; info.encoded_len()];
        // Encoding fails only above 1 MiB, which the limit of interfaces rules out. The answer would then be empty,
        // never malformed.
        let length = info.encode(&mut bytes).unwrap_or(0);
        bytes.truncate(length);
        bytes
    }

    /// Returns the interfaces net by net, in the order of configuration. The first one is the primary one.
    fn advertised(&self) -> impl Iterator<Item = &Ni> {
        self.nis
            .nets()
            .iter()
            .flat_map(|state| self.nis.on_net(state.net))
    }

    // [PING-17] [ROUTE-16]
    pub(crate) fn advertised_status(&self, ni: &Ni) -> NiStatus {
        let quiet = self.nis.net(ni.nid.net()).is_some_and(|state| state.quiet);
        if ni.is_down() || quiet {
            NiStatus::DOWN
        } else {
            NiStatus::UP
        }
    }

    /// Returns the NID by which this node is known: its first one.
    #[must_use]
    pub fn primary_nid(&self) -> Option<Nid> {
        self.advertised().next().map(|ni| ni.nid)
    }

    /// Handles a ping from another node. For a router, a ping by a remote node shows that the net it came over works.
    /// For every node, a ping by a gateway shows that the gateway is alive.
    // [ROUTE-16]
    pub(crate) fn note_ping(&mut self, ni: NiId, header: &Header, now: Time) {
        let Body::Get(get) = header.body else { return };
        let foreign = self.nis.by_nid(header.src_nid).is_none();
        if get.ptl_index != LNET_PORTAL || !foreign {
            return;
        }
        self.gateway_pinged(header.src_nid, now);
        if !self.config.routing {
            return;
        }
        if let Some(net) = self.nis.get(ni).map(|ni| ni.nid.net()) {
            self.net_works(net, now);
        }
    }

    /// Notes that messages pass over a net in both directions.
    pub(crate) fn net_works(&mut self, net: Net, now: Time) {
        let Some(state) = self.nis.net_mut(net) else {
            return;
        };
        (state.last_ping, state.asked) = (now, false);
        if std::mem::take(&mut state.quiet) {
            self.watch_net(net, now);
            self.own.changes(Outdated::Status);
        }
    }

    /// Starts to watch all nets when routing begins, or stops when routing ends.
    pub(crate) fn watch_nets(&mut self, now: Time) {
        for state in self.nis.nets_mut() {
            (state.last_ping, state.asked) = (now, false);
            state.quiet = false;
        }
        let nets: Vec<_> = self.nis.nets().iter().map(|state| state.net).collect();
        for net in nets {
            self.watch_net(net, now);
        }
    }

    /// Arms a net's timer if the node routes and the checker is on.
    pub(crate) fn watch_net(&mut self, net: Net, now: Time) {
        let (window, unasked) = self.quiet_times();
        let on = self.config.routing && !self.config.globals.alive_router_check_interval.is_zero();
        let asks = self.asks_known_peers();
        let Some(state) = self.nis.net_mut(net) else {
            return;
        };
        if let Some(at) = state.watch.take() {
            self.timers.disarm(at, Timer::Quiet(net));
        }
        let at = match (state.quiet, state.asked) {
            (true, _) => now + window,
            (false, true) => state.last_ping + window,
            (false, false) => state.last_ping + unasked,
        };
        if on && (asks || !state.quiet) {
            let at = at.max(now);
            state.watch = Some(at);
            self.timers.arm(at, Timer::Quiet(net));
        }
    }

    /// Returns whether this node pings the peers that it knows on a net before it calls the net down. Kernels do not.
    fn asks_known_peers(&self) -> bool {
        self.config.globals.profile == Profile::Design
    }

    /// Returns after which time without a ping a net counts as down, and after which time this node pings peers on the
    /// net: peers that check their gateways have pinged by then, and there is time for the answer.
    fn quiet_times(&self) -> (Duration, Duration) {
        let globals = &self.config.globals;
        let window = globals.quiet_window();
        let answer = globals.router_ping_timeout / 2;
        let unasked = match self.asks_known_peers() {
            true => window.saturating_sub(answer),
            false => window,
        };
        (window, unasked)
    }

    /// Handles a net's timer. A net on which no ping arrived during the whole window counts as down. A peer on the net
    /// that answers a ping of this node proves that the net works, so that a net whose nodes use no other router, or
    /// only rarely this one, is not down when they begin. While the net is down, this node asks once in a window: when
    /// the whole net was away, nobody else may ever ask.
    // [ROUTE-16] [GATE-33] [GATE-37]
    pub(crate) fn net_is_quiet(&mut self, net: Net, now: Time) {
        let (window, unasked) = self.quiet_times();
        let may_ask = self.asks_known_peers();
        let Some(state) = self.nis.net_mut(net) else {
            return;
        };
        state.watch = None;
        let is_news = !state.quiet && state.last_ping + window <= now;
        state.quiet |= is_news;
        let is_due = state.quiet || (!state.asked && state.last_ping + unasked <= now);
        let asks = may_ask && is_due;
        state.asked |= asks;
        if is_news {
            self.rewrite_ping_info();
        }
        self.watch_net(net, now);
        if asks {
            for peer in self.known_on(net) {
                self.ping_over_net(peer, now);
            }
        }
    }

    /// Returns some peers on a net, those heard of last first: peers that the configuration names, then others that
    /// were heard of or discovered.
    fn known_on(&self, net: Net) -> SmallVec<[Nid; 2 * PEERS_ASKED]> {
        let (mut named, mut others) = (Vec::new(), Vec::new());
        for peer_ni in self.peers.iter() {
            if peer_ni.nid.net() != net || self.nis.by_nid(peer_ni.nid).is_some() {
                continue;
            }
            match self.peers.owner(peer_ni) {
                Some(peer) if peer.configured => named.push(peer_ni),
                None if peer_ni.last_alive.is_none() => {}
                _ => others.push(peer_ni),
            }
        }
        let mut known = SmallVec::new();
        for peers in [&mut named, &mut others] {
            peers.sort_by_key(|peer_ni| Reverse(peer_ni.last_alive));
            known.extend(peers.iter().take(PEERS_ASKED).map(|peer_ni| peer_ni.nid));
        }
        known
    }
}

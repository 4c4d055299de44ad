//! Builds the state that a document describes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lnet_config::{
    Document, Ip2Nets, NetConfig, NiConfig, NiShow, PeerNiShow, PeerShow, RouteShow, RouteType,
    Status,
};
use lnet_core::{
    CoreConfig, Entropy, Globals, Health, NetSelection, NiHealthStats, PeerHealthStats,
    PeerNiSelection, Route, RouteSelection, RouterBuffers, SelectionState, Tunables,
};
use lnet_policy::Profile;
use lnet_types::{LndType, Net, Nid, Time};

use super::Settings;
use crate::node::{Assumed, Facts, Node, ShownPriority};
use crate::whatif::{new_gateway, new_ni, new_peer, new_peer_ni};

/// The process id of LNet's own messages.
const LNET_PID: u32 = 12345;

/// Returns the node that a document describes, with the list of all assumptions.
pub(super) fn node(document: &Document, settings: &Settings) -> Node {
    let (rules, dead) = document.rules(profile_of(document, settings));
    let mut builder = Builder {
        state: SelectionState {
            config: config(document, settings),
            sequence: 0,
            nets: Vec::new(),
            nis: Vec::new(),
            peer_nis: Vec::new(),
            peers: Vec::new(),
            routes: Vec::new(),
            gateways: Vec::new(),
            rules,
        },
        facts: Facts {
            discovery: document.globals.discovery.unwrap_or(true),
            dead_rules: dead
                .iter()
                .map(|dead| (dead.index, dead.error.to_string()))
                .collect(),
            ip2nets: document.ip2nets.clone(),
            machine: settings.machine.clone(),
            ..Facts::default()
        },
        assumed: BTreeSet::from([Assumed::Sequences, Assumed::NiLoad, Assumed::Pins]),
        seen: BTreeSet::new(),
        peer_nis: BTreeMap::new(),
    };
    builder.nets(document);
    builder.routes(document);
    builder.peers(document);
    builder.globals(document);
    builder.finish()
}

struct Builder {
    state: SelectionState,
    facts: Facts,
    assumed: BTreeSet<Assumed>,
    /// The NIDs of the peers that were added so far.
    seen: BTreeSet<Nid>,
    /// The index of each peer NI in the state's list.
    peer_nis: BTreeMap<Nid, usize>,
}

impl Builder {
    fn finish(mut self) -> Node {
        if self.state.nis.len() > 1 {
            self.assumed.insert(Assumed::Distances);
        }
        self.facts.assumed = self.assumed.into_iter().collect();
        Node {
            state: self.state,
            now: Time::ZERO,
            facts: self.facts,
        }
    }

    fn leave_out(&mut self, why: String) {
        self.facts.left_out.push(why);
    }

    fn nets(&mut self, document: &Document) {
        let real = document.nets.iter().filter(|net| net.net != Net::LO);
        for net in real.clone() {
            for ni in &net.nis {
                self.ni(net.net, ni);
            }
        }
        if real.count() == 0 {
            for net in self.matched(&document.ip2nets) {
                for ni in &net.nis {
                    self.ni(net.net, &shown(ni));
                }
            }
        }
        if self.state.nis.is_empty() {
            let why =
                "no local network is in the input: give the output of `lnetctl net show -v 4`, too";
            self.leave_out(why.to_owned());
        }
    }

    /// Returns the nets that the `ip2nets` entries configure on this machine.
    fn matched(&mut self, entries: &[Ip2Nets]) -> Vec<NetConfig> {
        let (false, Some(machine)) = (entries.is_empty(), &self.facts.machine) else {
            return Vec::new();
        };
        let named = machine.interfaces.iter().flat_map(|one| {
            let addresses = one.addresses.iter();
            addresses.map(|address| (one.name.as_str(), address.ip))
        });
        let local: Vec<_> = named.collect();
        match Ip2Nets::nets(entries, &local) {
            Ok(nets) => nets,
            Err(none) => {
                self.leave_out(none.to_string());
                Vec::new()
            }
        }
    }

    /// Adds an NI. An NI that is given by several interfaces is added as several NIs.
    fn ni(&mut self, net: Net, shown: &NiShow) {
        if let Some(nid) = shown.config.nid {
            return self.named_ni(nid, shown.config.interfaces.clone(), shown);
        }
        for interface in &shown.config.interfaces {
            let nid = self.nid_of(net, interface);
            self.named_ni(nid, vec![interface.clone()], shown);
        }
    }

    /// Returns the NID that an interface has on the machine, or a made-up NID if the address is not known.
    fn nid_of(&mut self, net: Net, interface: &str) -> Nid {
        let by_address = matches!(net.lnd, LndType::TCP | LndType::O2IB);
        let machine = self.facts.machine.as_ref().filter(|_| by_address);
        let address = machine.and_then(|machine| machine.address(interface));
        if let Some(address) = address {
            return Nid::from_ip(net, address.ip);
        }
        self.assumed.insert(Assumed::Nids);
        let number = u32::try_from(self.state.nis.len()).unwrap_or(u32::MAX);
        Nid::from_number(net, number.saturating_add(1))
    }

    fn named_ni(&mut self, nid: Nid, interfaces: Vec<String>, shown: &NiShow) {
        if nid.is_any() || nid.is_loopback() {
            return;
        }
        if self.state.nis.iter().any(|ni| ni.nid == nid) {
            return self.leave_out(format!(
                "local NID {nid} is given twice; the first one counts"
            ));
        }
        let mut ni = new_ni(nid, tunables(&shown.config));
        let lnd_timeout = shown
            .config
            .lnd_tunables
            .timeout
            .filter(|&seconds| seconds > 0);
        ni.lnd_timeout = lnd_timeout.map(|seconds| Duration::from_secs(seconds.into()));
        match &shown.health {
            Some(health) => {
                ni.fatal = health.fatal_error != 0;
                ni.health = health_value(health.health_value);
                if ni.fatal {
                    self.facts.down.insert(nid, "fatal_error 1");
                } else if shown.status == Some(Status::Down) {
                    self.facts.down.insert(nid, "status down");
                }
                // A router prints an NI without recent traffic as down. Its own choices ignore that, so an NI in
                // full health counts as up.
                ni.up = shown.status != Some(Status::Down) || ni.fatal || ni.health.is_full();
                ni.recovery.ping_count = u32::try_from(health.ping_count).unwrap_or(u32::MAX);
                ni.failures = NiHealthStats {
                    interrupts: health.interrupts,
                    dropped: health.dropped,
                    aborted: health.aborted,
                    no_route: health.no_route,
                    timeouts: health.timeouts,
                    error: health.error,
                };
                self.note_next_ping(nid, health.next_ping);
            }
            None => {
                self.assumed.insert(Assumed::NiHealth);
                ni.fatal = shown.status == Some(Status::Down);
                if ni.fatal {
                    self.facts.down.insert(nid, "status down");
                }
            }
        }
        self.state.nis.push(ni);
        self.facts.interfaces.insert(nid, interfaces);
        if let Some(seconds) = lnd_timeout {
            self.facts.lnd_timeouts.insert(nid, seconds);
        }
        let fragments = shown.config.lnd_tunables.other.get("map_on_demand");
        let fragments = fragments.filter(|_| nid.net().lnd == LndType::O2IB);
        if let Some(fragments) = fragments.and_then(|text| text.parse().ok()) {
            self.facts.map_on_demand.insert(nid, fragments);
        }
        if let Some(udsp) = &shown.udsp {
            self.note_priority(nid, true, udsp);
        }
        let net = nid.net();
        if !self.state.nets.iter().any(|known| known.net == net) {
            self.state.nets.push(NetSelection { net, sequence: 0 });
        }
    }

    fn note_next_ping(&mut self, nid: Nid, uptime: u64) {
        if uptime > 0 {
            self.facts.next_pings.insert(nid, uptime);
        }
    }

    fn note_priority(&mut self, nid: Nid, local: bool, udsp: &lnet_config::UdspInfo) {
        self.facts.shown.push(ShownPriority {
            nid,
            local,
            net: udsp.net_priority,
            own: udsp.nid_priority,
        });
    }

    fn routes(&mut self, document: &Document) {
        for shown in &document.routes {
            self.route(shown);
        }
        let gateways: BTreeSet<Nid> = self
            .state
            .routes
            .iter()
            .map(|one| one.route.gateway)
            .collect();
        for nid in gateways {
            let mut routes = self.state.routes.iter();
            let alive = routes.any(|one| one.route.gateway == nid && one.up);
            self.state.gateways.push(new_gateway(nid, alive));
            self.peer_ni_of(nid);
        }
    }

    fn route(&mut self, shown: &RouteShow) {
        let RouteShow { net, gateway, .. } = *shown;
        let has = |net: Net| self.state.nis.iter().any(|ni| ni.nid.net() == net);
        let refused = if has(net) || net == Net::LO || net == Net::ANY {
            Some("its net is local")
        } else if self.state.nis.iter().any(|ni| ni.nid == gateway) {
            Some("its gateway is this node")
        } else if gateway.is_any() || gateway.is_loopback() || gateway.net() == net {
            Some("its gateway cannot be one")
        } else {
            None
        };
        if let Some(why) = refused {
            return self.leave_out(format!("route to {net} by {gateway}: {why}"));
        }
        if !has(gateway.net()) {
            self.leave_out(format!(
                "the gateway {gateway} of the route to {net} is not on a local net: nothing can use the route"
            ));
        }
        if shown.state.is_none() {
            self.assumed.insert(Assumed::RouteState);
        }
        self.state.routes.push(RouteSelection {
            route: Route {
                net,
                gateway,
                hops: shown.hop,
                priority: shown.priority.unwrap_or(0),
            },
            up: shown.state != Some(Status::Down),
            fault: None,
            single_hop: shown.kind == Some(RouteType::SingleHop),
            sequence: 0,
        });
    }

    fn peers(&mut self, document: &Document) {
        for peer in &document.peers {
            self.peer(peer);
        }
    }

    fn peer(&mut self, shown: &PeerShow) {
        let others = shown.nis.iter().map(|ni| ni.nid);
        let mut nids: Vec<Nid> = Vec::new();
        for nid in std::iter::once(shown.primary).chain(others) {
            if nid.is_any() || nid.is_loopback() || nids.contains(&nid) {
                continue;
            }
            if self.seen.insert(nid) {
                nids.push(nid);
            } else {
                self.leave_out(format!(
                    "peer NID {nid} is given twice; the first peer has it"
                ));
            }
        }
        for ni in &shown.nis {
            if nids.contains(&ni.nid) {
                self.peer_ni(ni);
            }
        }
        for &nid in &nids {
            self.peer_ni_of(nid);
        }
        if let Some(bits) = shown.state {
            self.facts.peer_states.insert(shown.primary, bits);
        }
        if !shown.multi_rail {
            self.facts.single_rail.insert(shown.primary);
        }
        // Other peers need no entry: the first message to the NID creates the same peer.
        if shown.multi_rail || nids.len() > 1 {
            self.state.peers.push(new_peer(nids, shown.multi_rail));
        }
    }

    /// Adds a peer NI with this NID if there is none.
    fn peer_ni_of(&mut self, nid: Nid) {
        if !self.peer_nis.contains_key(&nid) {
            self.put_peer_ni(new_peer_ni(nid));
            self.assumed
                .extend([Assumed::PeerHealth, Assumed::PeerLoad]);
        }
    }

    fn peer_ni(&mut self, shown: &PeerNiShow) {
        let mut ni = new_peer_ni(shown.nid);
        ni.up = shown.state != Some(Status::Down);
        match &shown.credits {
            Some(credits) => {
                self.facts.credits.insert(shown.nid, *credits);
                let used = credits.max_tx.saturating_sub(credits.available_tx);
                ni.in_flight = u32::try_from(used).unwrap_or(0).min(1 << 20);
                ni.queued_bytes = credits.tx_queued.min(1 << 50);
            }
            None => drop(self.assumed.insert(Assumed::PeerLoad)),
        }
        match &shown.health {
            Some(health) => {
                ni.health = health_value(health.health_value);
                ni.recovery.ping_count = u32::try_from(health.ping_count).unwrap_or(u32::MAX);
                ni.failures = PeerHealthStats {
                    dropped: health.dropped,
                    timeout: health.timeout,
                    error: health.error,
                    network_timeout: health.network_timeout,
                };
                self.note_next_ping(shown.nid, health.next_ping);
            }
            None => drop(self.assumed.insert(Assumed::PeerHealth)),
        }
        if let Some(udsp) = &shown.udsp {
            self.note_priority(shown.nid, false, udsp);
        }
        self.put_peer_ni(ni);
    }

    /// Stores a peer NI. The peer NI of a gateway exists already, because its route created it; the new one
    /// replaces it.
    fn put_peer_ni(&mut self, ni: PeerNiSelection) {
        let peer_nis = &mut self.state.peer_nis;
        let at = *self.peer_nis.entry(ni.nid).or_insert(peer_nis.len());
        match peer_nis.get_mut(at) {
            Some(known) => *known = ni,
            None => peer_nis.push(ni),
        }
    }

    fn globals(&mut self, document: &Document) {
        let known = &document.globals;
        let all = known.retry_count.is_some()
            && known.transaction_timeout.is_some()
            && known.health_sensitivity.is_some();
        if !all {
            self.assumed.insert(Assumed::Globals);
        }
        let sensitivities = document
            .routes
            .iter()
            .filter_map(|route| route.health_sensitivity);
        if let Some(sensitivity) = sensitivities.max() {
            let globals = &mut self.state.config.globals;
            globals.gateway_sensitivity = u16::try_from(sensitivity).unwrap_or(u16::MAX);
        }
    }
}

fn shown(config: &NiConfig) -> NiShow {
    NiShow {
        config: config.clone(),
        ..NiShow::default()
    }
}

fn health_value(value: u64) -> Health {
    let value = u16::try_from(value).ok();
    value.and_then(Health::new).unwrap_or(Health::MAX)
}

fn tunables(config: &NiConfig) -> Tunables {
    let (given, default) = (&config.tunables, Tunables::default());
    let positive = |value: Option<u32>, default: u32| value.filter(|&v| v > 0).unwrap_or(default);
    let timeout = given
        .peer_timeout
        .map(|seconds| Duration::from_secs(seconds.into()));
    Tunables {
        credits: positive(given.credits, default.credits),
        peer_credits: positive(given.peer_credits, default.peer_credits),
        peer_buffer_credits: given
            .peer_buffer_credits
            .unwrap_or(default.peer_buffer_credits),
        peer_timeout: timeout.unwrap_or(default.peer_timeout),
    }
}

fn profile_of(document: &Document, settings: &Settings) -> Profile {
    let profile = settings.profile.or(document.globals.profile);
    profile.unwrap_or_default()
}

fn config(document: &Document, settings: &Settings) -> CoreConfig {
    let given = &document.globals;
    let globals = Globals {
        // Nothing is asked while a path is explained.
        discovery: false,
        used_paths: settings.used_paths,
        ..Globals::default().with(given.numbers(), Some(profile_of(document, settings)))
    };
    CoreConfig {
        entropy: Entropy::withheld(),
        seed: 1,
        globals,
        buffers: RouterBuffers::default(),
        routing: document.routing.unwrap_or(false),
        pid: LNET_PID,
    }
}

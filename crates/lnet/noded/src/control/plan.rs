//! Reads what a document wants of a node, and plans the changes for it.

use lnet_config::{
    Buffers, Change, Config, Document, Globals, NetConfig, NiConfig, NiName, PeerConfig, diff,
};
use lnet_dlc::protocol::{Failure, ImportMode, Reply};
use lnet_types::Net;

use super::before::{Before, Concerned};
use super::complete;
use super::request::failure;
use crate::setup::{self, KeptGlobals};

const EINVAL: i32 = 22;

/// The result that a document wants.
pub(super) enum Wanted {
    Add(Config),
    Complete(Config),
    Del(Box<Document>),
    Replace(Config),
}

impl Wanted {
    pub(super) fn read(yaml: &str, mode: ImportMode) -> Result<Self, Reply> {
        let refused = |error: lnet_config::ConfigError| {
            let verb = if mode == ImportMode::Del {
                "del"
            } else {
                "add"
            };
            failure(verb, "import", -EINVAL, error.render("the document"))
        };
        Ok(match mode {
            ImportMode::Add => Self::Add(lnet_config::parse(yaml).map_err(refused)?),
            ImportMode::Complete => {
                let config = lnet_config::parse(yaml).map_err(refused)?;
                let nets = nets_of(&config).map_err(|failure| Reply::Failed(vec![failure]))?;
                Self::Complete(Config {
                    nets,
                    ip2nets: Vec::new(),
                    ..config
                })
            }
            ImportMode::Replace => {
                let config = lnet_config::parse(yaml).map_err(refused)?;
                let config = with_defaults(&config);
                Self::Replace(config.map_err(|failure| Reply::Failed(vec![failure]))?)
            }
            ImportMode::Del => {
                let reading = lnet_config::read(yaml).map_err(refused)?;
                if let Some(unknown) = reading.warnings.into_iter().next() {
                    return Err(refused(unknown));
                }
                Self::Del(Box::new(reading.document))
            }
        })
    }

    /// Lets the interfaces of each network share their tunables: see [`setup::share_tunables`]. Returns the warnings.
    pub(super) fn share_tunables(&mut self, own: &Config) -> String {
        let warnings = match self {
            Self::Add(config) | Self::Complete(config) => {
                setup::share_tunables(&mut config.nets, &own.nets)
            }
            Self::Replace(config) => setup::share_tunables(&mut config.nets, &[]),
            Self::Del(_) => Vec::new(),
        };
        let lines = warnings.iter().map(|warning| format!("{warning}\n"));
        lines.collect()
    }

    /// Returns the peers that must be read to plan the changes.
    pub(super) fn concerns(&self) -> Concerned {
        match self {
            Self::Add(config) | Self::Complete(config) => {
                Concerned::named(config.peers.iter().flat_map(|peer| &peer.nids))
            }
            Self::Del(document) => Concerned::named(
                document
                    .peers
                    .iter()
                    .flat_map(|peer| peer.nis.iter().map(|ni| &ni.nid).chain([&peer.primary])),
            ),
            Self::Replace(_) => Concerned::All,
        }
    }

    /// Returns the changes, and the report of them.
    pub(super) fn plan(&self, before: &Before) -> Result<(Vec<Change>, String), Failure> {
        let own = &before.config;
        Ok(match self {
            Self::Add(config) => (additions(own, config), String::new()),
            Self::Complete(config) => {
                let completion = complete::divide(before, config)?;
                let changes = additions(own, &completion.missing);
                let report = completion.report(&changes);
                (changes, report)
            }
            Self::Del(document) => (removals(own, document), String::new()),
            Self::Replace(config) => (replacement(before, config), String::new()),
        })
    }
}

/// Returns the differences between the node's configuration and another one.
pub(super) fn replacement(before: &Before, config: &Config) -> Vec<Change> {
    let config = without_gateways(config, &before.gateways);
    diff(&comparable(&before.config, &config), &config)
}

/// Removes peers that are gateways. An export lists gateways among the peers, but they are peers because of their
/// routes: as long as the routes stay, nothing must be added.
fn without_gateways(config: &Config, gateways: &[PeerConfig]) -> Config {
    let is_routed = |peer: &PeerConfig| {
        let mut routes = config.routes.iter();
        routes.any(|route| peer.nids.contains(&route.gateway))
    };
    let is_there = |peer: &&PeerConfig| gateways.contains(peer) && is_routed(peer);
    let peers = config.peers.iter().filter(|peer| !is_there(peer));
    Config {
        peers: peers.cloned().collect(),
        ..config.clone()
    }
}

/// Sets routing to its default if the configuration does not give it, and takes the nets from [`nets_of`].
pub(super) fn with_defaults(config: &Config) -> Result<Config, Failure> {
    Ok(Config {
        nets: nets_of(config)?,
        ip2nets: Vec::new(),
        routing: Some(config.routing.unwrap_or(false)),
        ..config.clone()
    })
}

/// Returns the nets that a configuration gives this machine by name and by address, one entry for each interface, as
/// the node shows them.
fn nets_of(config: &Config) -> Result<Vec<NetConfig>, Failure> {
    let by_address = setup::nets_by_address(&config.ip2nets).map_err(|error| {
        let change = Change::Ip2Nets(config.ip2nets.clone());
        super::failure::of_error(&change, &error.into())
    })?;
    let mut nets: Vec<NetConfig> = Vec::new();
    for net in config.nets.iter().chain(&by_address) {
        let nis = net.nis.iter().flat_map(singly);
        match nets.iter_mut().find(|known| known.net == net.net) {
            Some(known) => known.nis.extend(nis),
            None => nets.push(NetConfig {
                net: net.net,
                nis: nis.collect(),
            }),
        }
    }
    Ok(nets)
}

/// Returns one entry for each interface of an entry.
fn singly(ni: &NiConfig) -> Vec<NiConfig> {
    if ni.nid.is_some() {
        return vec![ni.clone()];
    }
    let names = ni.interfaces.iter().cloned();
    names
        .map(|name| NiConfig {
            interfaces: vec![name],
            ..ni.clone()
        })
        .collect()
}

/// Returns the node's configuration without the values that the other side does not give: the node shows every
/// parameter, and both names of an interface, and these are no differences.
pub(super) fn comparable(own: &Config, other: &Config) -> Config {
    let mut own = own.clone();
    for net in &mut own.nets {
        let others = other.nets.iter().filter(|other| other.net == net.net);
        let others: Vec<_> = others.flat_map(|net| &net.nis).collect();
        for ni in &mut net.nis {
            let same = others.iter().find(|other| match other.nid {
                Some(nid) => ni.nid == Some(nid),
                None => other.interfaces == ni.interfaces,
            });
            if let Some(same) = same {
                ni.nid = same.nid;
                ni.interfaces.clone_from(&same.interfaces);
                shrink_to(ni, same);
            }
        }
    }
    own.globals = own.globals.only(&other.globals);
    if other.buffers == Buffers::default() {
        own.buffers = other.buffers;
    }
    own
}

/// Removes settings that the other side does not give, since they do not differ.
fn shrink_to(own: &mut NiConfig, other: &NiConfig) {
    fn keep<T>(own: &mut Option<T>, other: Option<&T>) {
        if other.is_none() {
            *own = None;
        }
    }
    let (tunables, wanted) = (&mut own.tunables, &other.tunables);
    keep(&mut tunables.peer_timeout, wanted.peer_timeout.as_ref());
    keep(&mut tunables.peer_credits, wanted.peer_credits.as_ref());
    keep(
        &mut tunables.peer_buffer_credits,
        wanted.peer_buffer_credits.as_ref(),
    );
    keep(&mut tunables.credits, wanted.credits.as_ref());
    let (lnd, wanted) = (&mut own.lnd_tunables, &other.lnd_tunables);
    keep(&mut lnd.conns_per_peer, wanted.conns_per_peer.as_ref());
    keep(&mut lnd.timeout, wanted.timeout.as_ref());
    lnd.other.retain(|key, _| wanted.other.contains_key(key));
    own.cpts.clone_from(&other.cpts);
}

/// Returns the changes of `import --add`.
fn additions(own: &Config, new: &Config) -> Vec<Change> {
    let mut changes = Vec::new();
    let globals = own.globals.with(&new.globals);
    if globals != own.globals {
        changes.push(Change::Globals(Box::new(globals)));
    }
    for net in &new.nets {
        let is_there = own.nets.iter().any(|known| known.net == net.net);
        if is_there {
            let nis = net.nis.iter().cloned();
            changes.extend(nis.map(|ni| Change::AddNi { net: net.net, ni }));
        } else {
            changes.push(Change::AddNet(net.clone()));
        }
    }
    if !new.ip2nets.is_empty() {
        changes.push(Change::Ip2Nets(new.ip2nets.clone()));
    }
    changes.extend(new.peers.iter().cloned().map(Change::AddPeer));
    changes.extend(new.routes.iter().copied().map(Change::AddRoute));
    changes.extend(new.routing.map(|enabled| Change::Routing(Some(enabled))));
    if new.buffers != Buffers::default() {
        changes.push(Change::Buffers(own.buffers.with(new.buffers)));
    }
    let end = own.rules.rules().len();
    let rules = new.rules.rules().iter().cloned();
    changes.extend(
        (end..)
            .zip(rules)
            .map(|(index, rule)| Change::AddRule { index, rule }),
    );
    changes
}

/// Returns the changes of `import --del`. Three parameters return to the values that `lnetctl` sets; the
/// others stay.
// [CONF-5]
fn removals(own: &Config, old: &Document) -> Vec<Change> {
    let mut changes = Vec::new();
    let (rules, _) = old.rules(lnet_policy::Profile::Design);
    let gone = own.rules.rules().iter().enumerate().rev();
    let gone = gone.filter(|(_, own)| {
        let mut named = rules.rules().iter();
        named.any(|rule| rule.selector() == own.selector())
    });
    changes.extend(gone.map(|(index, _)| Change::DelRule { index }));
    for route in &old.routes {
        let (net, gateway) = (route.net, route.gateway);
        changes.push(Change::DelRoute { net, gateway });
    }
    for peer in &old.peers {
        let primary = peer.primary;
        let nids: Vec<_> = peer.nis.iter().map(|ni| ni.nid).collect();
        changes.push(if nids.is_empty() || nids.contains(&primary) {
            Change::DelPeer { primary }
        } else {
            Change::DelPeerNids { primary, nids }
        });
    }
    // Loopback is in every export and on every node.
    for net in old.nets.iter().filter(|net| net.net != Net::LO) {
        if net.nis.is_empty() {
            changes.push(Change::DelNet(net.net));
        }
        let names = net.nis.iter().map(|ni| ni.config.name());
        changes.extend(names.map(|ni: NiName| Change::DelNi { net: net.net, ni }));
    }
    if old.routing.is_some() {
        changes.push(Change::Routing(Some(false)));
    }
    let globals = own.globals.with(&reset(&old.globals));
    if globals != own.globals {
        changes.push(Change::Globals(Box::new(globals)));
    }
    changes
}

fn reset(named: &Globals) -> Globals {
    let default = KeptGlobals::default();
    Globals {
        numa_range: named.numa_range.map(|_| 0),
        max_interfaces: named.max_interfaces.map(|_| default.max_interfaces),
        discovery: named.discovery.map(|_| true),
        ..Globals::default()
    }
}

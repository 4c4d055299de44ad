//! Conversions between module options and configurations.

use std::collections::BTreeSet;

use lnet_types::expr::ExpandError;
use lnet_types::{Net, Nid};
use thiserror::Error;

use super::{
    GatewayOption, InterfaceOption, Ip2NetsOption, ModuleOptions, NetworkOption, RouteOption, lnd,
};
use crate::ip2nets::{Ip2Nets, IpPattern};
use crate::model::{Config, LndTunables, NetConfig, NiConfig, PeerConfig, RouteConfig, Tunables};
use crate::parameters::Globals;

/// The most routes that one entry may expand to.
const MAX_ROUTES: usize = 4096;

/// Values for a conversion if the options lack them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConvertDefaults {
    /// Hops of routes that have none.
    pub hop: Option<u8>,
    /// The interface of networks that name none. The module uses the first interface that it finds,
    /// which a document cannot express.
    pub interface: Option<String>,
}

/// Why options cannot be converted to a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConvertError {
    /// A network names no interface, and there is no default.
    #[error(
        "network {0} names no interface: the module would take the first that it finds; write {0}(eth0)"
    )]
    NoInterface(Net),
    /// An entry of `routes` expands to too many routes.
    #[error("an entry of routes means too many routes: {0}")]
    TooMany(#[from] ExpandError),
    /// A network that cannot be the target of a route.
    #[error("{0} cannot be routed to")]
    NotRoutable(Net),
}

impl ModuleOptions {
    /// Converts the options to a configuration. Also returns notes on the options that the
    /// configuration cannot express.
    ///
    /// As in the module, routes to a local network and routes through a gateway that is not on a
    /// local network are left out, because all nodes of a site share one list. With `ip2nets`, the
    /// local networks are not known.
    ///
    /// # Errors
    ///
    /// [`ConvertError`].
    // [CONF-52]
    pub fn to_config(
        &self,
        defaults: &ConvertDefaults,
    ) -> Result<(Config, Vec<String>), ConvertError> {
        let mut notes = Vec::new();
        let mut config = Config {
            nets: self.nets(defaults)?,
            ip2nets: self.ip2nets(&mut notes),
            routing: self.forwarding,
            buffers: self.buffers,
            globals: self.globals,
            ..Config::default()
        };
        self.add_routes(&mut config, defaults, &mut notes)?;
        lnd::add(self, &mut config, &mut notes);
        Ok((config, notes))
    }

    fn nets(&self, defaults: &ConvertDefaults) -> Result<Vec<NetConfig>, ConvertError> {
        let nets = self.networks.iter().map(|network| {
            let nis = network.nis(defaults)?;
            Ok(NetConfig {
                net: network.net,
                nis,
            })
        });
        nets.collect()
    }

    pub(super) fn ip2nets(&self, notes: &mut Vec<String>) -> Vec<Ip2Nets> {
        let mut rules = Vec::new();
        for entry in &self.ip2nets {
            for network in &entry.networks {
                if network
                    .interfaces
                    .iter()
                    .any(|interface| !interface.cpts.is_empty())
                {
                    let net = network.net;
                    notes.push(format!("ip2nets {net}: the CPTs of single interfaces"));
                }
                rules.push(Ip2Nets {
                    net: network.net,
                    interfaces: network.names().collect(),
                    patterns: entry.patterns.clone(),
                    tunables: Tunables::default(),
                    lnd_tunables: LndTunables::default(),
                    cpts: network.cpts.clone(),
                });
            }
        }
        rules
    }

    fn add_routes(
        &self,
        config: &mut Config,
        defaults: &ConvertDefaults,
        notes: &mut Vec<String>,
    ) -> Result<(), ConvertError> {
        for (route, skipped) in self.routes(defaults)? {
            match skipped {
                None => config.routes.push(route),
                Some(why) => {
                    let RouteConfig { net, gateway, .. } = route;
                    notes.push(format!("route to {net} by {gateway}: {why}"));
                }
            }
        }
        Ok(())
    }

    /// Returns the routes that the module makes of `routes`, each with the reason if the module passes over it.
    ///
    /// # Errors
    ///
    /// As [`Self::to_config`].
    pub fn routes(
        &self,
        defaults: &ConvertDefaults,
    ) -> Result<Vec<(RouteConfig, Option<&'static str>)>, ConvertError> {
        let local: BTreeSet<Net> = self.networks.iter().map(|network| network.net).collect();
        let known = !local.is_empty() && self.ip2nets.is_empty();
        let mut seen = BTreeSet::new();
        let mut routes = Vec::new();
        for entry in &self.routes {
            for route in entry.routes(defaults)? {
                let RouteConfig { net, gateway, .. } = route;
                if net == Net::LO {
                    return Err(ConvertError::NotRoutable(net));
                }
                let skipped = if !seen.insert((net, gateway)) {
                    Some("it exists already")
                } else if gateway.net() == net {
                    Some("the gateway is on the remote network itself")
                } else if local.contains(&net) && known {
                    Some("the network is local")
                } else if known && !local.contains(&gateway.net()) {
                    Some("the gateway is on no local network")
                } else {
                    None
                };
                routes.push((route, skipped));
            }
        }
        Ok(routes)
    }

    /// Converts a configuration to options. Also returns notes on the parts that options cannot
    /// express.
    #[must_use]
    pub fn from_config(config: &Config) -> (Self, Vec<String>) {
        let mut notes = Vec::new();
        let mut globals = config.globals;
        remove_unknown(&mut globals, &mut notes);
        let networks = networks(config, &mut notes);
        let ip2nets = ip2nets_options(&config.ip2nets, &mut notes);
        let others = lnd::options(config, &mut notes);
        let options = Self {
            networks,
            ip2nets,
            routes: config.routes.iter().filter_map(RouteOption::new).collect(),
            forwarding: config.routing,
            buffers: config.buffers,
            globals,
            others,
        };
        if !config.nets.is_empty() && !config.ip2nets.is_empty() {
            notes.push("networks and ip2nets: the module accepts only one of them".to_owned());
        }
        notes.extend(config.peers.iter().map(|peer| {
            let PeerConfig { nids, .. } = peer;
            let primary = nids.first().map_or(String::new(), Nid::to_string);
            format!("peer {primary}: peers cannot be options of the module")
        }));
        if !config.rules.rules().is_empty() {
            notes.push("udsp: selection rules cannot be options of the module".to_owned());
        }
        (options, notes)
    }
}

/// Removes the parameters that no kernel has.
fn remove_unknown(globals: &mut Globals, notes: &mut Vec<String>) {
    if globals.profile.take().is_some() {
        notes.push("profile: no kernel has this parameter".to_owned());
    }
    if globals.match_addresses.take().is_some() {
        notes.push("match_addresses: no kernel has this parameter".to_owned());
    }
}

impl NetworkOption {
    fn names(&self) -> impl Iterator<Item = String> {
        self.interfaces
            .iter()
            .map(|interface| interface.name.clone())
    }

    /// One item for all interfaces, or one for each if they have their own CPTs.
    fn nis(&self, defaults: &ConvertDefaults) -> Result<Vec<NiConfig>, ConvertError> {
        let ni = |interfaces: Vec<String>, cpts: &[u32]| NiConfig {
            interfaces,
            cpts: cpts.to_vec(),
            ..NiConfig::default()
        };
        if self.interfaces.is_empty() {
            let name = defaults.interface.clone();
            let name = name.ok_or(ConvertError::NoInterface(self.net))?;
            return Ok(vec![ni(vec![name], &self.cpts)]);
        }
        if self
            .interfaces
            .iter()
            .all(|interface| interface.cpts.is_empty())
        {
            return Ok(vec![ni(self.names().collect(), &self.cpts)]);
        }
        let nis = self.interfaces.iter().map(|interface| {
            let own = !interface.cpts.is_empty();
            let cpts = if own { &interface.cpts } else { &self.cpts };
            ni(vec![interface.name.clone()], cpts)
        });
        Ok(nis.collect())
    }
}

impl RouteOption {
    fn routes(&self, defaults: &ConvertDefaults) -> Result<Vec<RouteConfig>, ConvertError> {
        let mut routes = Vec::new();
        for expr in &self.nets {
            for net in expr.expand(MAX_ROUTES)? {
                for gateway in &self.gateways {
                    let left = MAX_ROUTES.saturating_sub(routes.len());
                    let nids = gateway.nids.expand(left)?;
                    routes.extend(nids.into_iter().map(|nid| RouteConfig {
                        net,
                        gateway: nid,
                        hop: self.hop.or(defaults.hop),
                        priority: gateway.priority.unwrap_or(0),
                    }));
                }
            }
        }
        Ok(routes)
    }
}

impl RouteOption {
    /// One entry for each gateway, because kernels use one priority for all gateways of an
    /// entry. `None` for a network or gateway that no expression can name and that no route of a
    /// document has.
    // [CONF-51]
    fn new(route: &RouteConfig) -> Option<Self> {
        let gateway = GatewayOption {
            nids: route.gateway.to_string().parse().ok()?,
            priority: (route.priority != 0).then_some(route.priority),
        };
        Some(Self {
            nets: vec![route.net.to_string().parse().ok()?],
            hop: route.hop,
            gateways: vec![gateway],
        })
    }
}

fn networks(config: &Config, notes: &mut Vec<String>) -> Vec<NetworkOption> {
    let mut networks = Vec::new();
    for NetConfig { net, nis } in &config.nets {
        let mut interfaces = Vec::new();
        for ni in nis {
            match ni.nid {
                Some(nid) if ni.interfaces.is_empty() => {
                    notes.push(format!("{nid}: networks accepts interfaces, not NIDs"));
                }
                _ => {}
            }
            interfaces.extend(ni.interfaces.iter().map(|name| InterfaceOption {
                name: name.clone(),
                cpts: ni.cpts.clone(),
            }));
        }
        if !interfaces.is_empty() {
            networks.push(NetworkOption::compact(*net, interfaces));
        }
    }
    networks
}

impl NetworkOption {
    /// CPTs that all interfaces share are written after the network.
    fn compact(net: Net, mut interfaces: Vec<InterfaceOption>) -> Self {
        let first = interfaces.first().map(|first| first.cpts.clone());
        let cpts = first.filter(|cpts| interfaces.iter().all(|other| other.cpts == *cpts));
        if cpts.is_some() {
            interfaces
                .iter_mut()
                .for_each(|interface| interface.cpts.clear());
        }
        Self {
            net,
            interfaces,
            cpts: cpts.unwrap_or_default(),
        }
    }
}

fn ip2nets_options(rules: &[Ip2Nets], notes: &mut Vec<String>) -> Vec<Ip2NetsOption> {
    let mut entries = Vec::new();
    for rule in rules {
        let net = rule.net;
        let mut patterns = rule.patterns.clone();
        let all = patterns.len();
        patterns.retain(IpPattern::is_quad);
        if patterns.len() < all {
            notes.push(format!(
                "ip2nets {net}: the module accepts no IPv6 patterns"
            ));
        }
        if all == 0 {
            patterns.push(IpPattern::any_v4());
        }
        if patterns.is_empty() {
            continue;
        }
        let interfaces = rule.interfaces.iter().map(|name| InterfaceOption {
            name: name.clone(),
            cpts: Vec::new(),
        });
        entries.push(Ip2NetsOption {
            networks: vec![NetworkOption {
                net,
                interfaces: interfaces.collect(),
                cpts: rule.cpts.clone(),
            }],
            patterns,
        });
    }
    entries
}

//! Conversions between module options and configurations.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lnet_types::expr::ExpandError;
use lnet_types::{Net, Nid};
use thiserror::Error;

use super::{
    GatewayOption, InterfaceOption, Ip2NetsOption, ModuleOptions, NetworkOption, OtherOption,
    RouteOption, lnd,
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
        "network {0} names no interface: the module would take the first that it finds; write {0}(INTERFACE)"
    )]
    NoInterface(Net),
    /// An entry of `routes` expands to too many routes.
    #[error("an entry of routes means too many routes: {0}")]
    TooMany(#[from] ExpandError),
    /// A network that cannot be the target of a route.
    #[error("{0} cannot be routed to")]
    NotRoutable(Net),
}

/// Something that a conversion leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// What it is, and why the other form does not have it.
    pub text: String,
    /// Whether a node does something else without it. It does not if the module passes over it, too.
    pub has_effect: bool,
    /// What to do about it, for who converts.
    pub advice: Option<String>,
}

impl LeftOut {
    /// Something that changes what a node does.
    pub(super) fn lost(text: String) -> Self {
        Self {
            text,
            has_effect: true,
            advice: None,
        }
    }

    /// An option that changes what a node does and that can stay where it is.
    pub(super) fn kept(option: &OtherOption, why: &str) -> Self {
        let advice = format!("keep it in modprobe.d: {option}");
        Self::lost(option.told(why)).with_advice(advice)
    }

    /// Something without effect.
    pub(super) fn idle(text: String) -> Self {
        Self {
            has_effect: false,
            ..Self::lost(text)
        }
    }

    /// The same, with what to do about it.
    pub(super) fn with_advice(self, advice: String) -> Self {
        let advice = Some(advice);
        Self { advice, ..self }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

/// Why the module does not use a route of `routes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The reason.
    pub why: &'static str,
    /// Whether the module does not start with the route; otherwise it passes over the route without a message.
    pub stops_module: bool,
}

impl ModuleOptions {
    /// Converts the options to a configuration. Also returns what the configuration cannot express.
    ///
    /// As in the module, routes to a local network and routes through a gateway that is not on a
    /// local network are left out, because all nodes of a site share one list. With `ip2nets`, the
    /// local networks are not known. Rules of `ip2nets` for one network and the same addresses become one rule.
    ///
    /// # Errors
    ///
    /// [`ConvertError`].
    // [CONF-52] [CONF-54]
    pub fn to_config(
        &self,
        defaults: &ConvertDefaults,
    ) -> Result<(Config, Vec<LeftOut>), ConvertError> {
        let twice: BTreeSet<&String> = self.twice.iter().collect();
        let twice = twice.into_iter().map(|name| {
            let text = format!(
                "lnet {name}: given more than once, and the module takes the last value only"
            );
            LeftOut::lost(text).with_advice("join the values, or remove all but one".to_owned())
        });
        let mut notes: Vec<LeftOut> = twice.chain(self.contradiction()).collect();
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

    /// Returns a note if the options name the networks in two ways, which the module refuses.
    // [CONF-50]
    fn contradiction(&self) -> Option<LeftOut> {
        let is_both = !self.networks.is_empty() && !self.ip2nets.is_empty();
        is_both.then(|| {
            let text = "networks and ip2nets: they exclude each other, and the module does not start with both";
            LeftOut::lost(text.to_owned()).with_advice("remove the wrong one".to_owned())
        })
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

    fn ip2nets(&self, notes: &mut Vec<LeftOut>) -> Vec<Ip2Nets> {
        let (mut rules, mut firsts) = (Vec::new(), BTreeMap::new());
        let each = self.ip2nets.iter();
        let each =
            each.flat_map(|entry| entry.networks.iter().map(move |network| (entry, network)));
        for (entry, network) in each {
            let mut interfaces = network.interfaces.iter();
            if interfaces.any(|interface| !interface.cpts.is_empty()) {
                let net = network.net;
                notes.push(LeftOut::lost(format!(
                    "ip2nets {net}: the CPTs of single interfaces; a document has those of the network"
                )));
            }
            let rule = Ip2Nets {
                net: network.net,
                interfaces: network.names().collect(),
                patterns: entry.patterns.clone(),
                tunables: Tunables::default(),
                lnd_tunables: LndTunables::default(),
                cpts: network.cpts.clone(),
            };
            add_rule(&mut rules, &mut firsts, rule);
        }
        notes.extend(hidden(&rules));
        rules
    }

    fn add_routes(
        &self,
        config: &mut Config,
        defaults: &ConvertDefaults,
        notes: &mut Vec<LeftOut>,
    ) -> Result<(), ConvertError> {
        for (route, skipped) in self.routes(defaults)? {
            let RouteConfig { net, gateway, .. } = route;
            match skipped {
                None => config.routes.push(route),
                Some(Skipped { why, stops_module }) => notes.push(match stops_module {
                    true => LeftOut::lost(format!(
                        "route to {net} by {gateway}: {why}, and the module does not start with such a route"
                    )),
                    false => LeftOut::idle(format!(
                        "route to {net} by {gateway}: {why}; the module passes over it, too"
                    )),
                }),
            }
        }
        Ok(())
    }

    /// Returns the routes that the module makes of `routes`, each with the reason if the module does not use it.
    ///
    /// # Errors
    ///
    /// As [`Self::to_config`].
    pub fn routes(
        &self,
        defaults: &ConvertDefaults,
    ) -> Result<Vec<(RouteConfig, Option<Skipped>)>, ConvertError> {
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
                let passed_over = |why| {
                    Some(Skipped {
                        why,
                        stops_module: false,
                    })
                };
                // The module looks for the gateway on the remote network first.
                let skipped = if gateway.net() == net {
                    let why = "the gateway is on the remote network itself";
                    Some(Skipped {
                        why,
                        stops_module: true,
                    })
                } else if !seen.insert((net, gateway)) {
                    passed_over("it exists already")
                } else if local.contains(&net) && known {
                    passed_over("the network is local")
                } else if known && !local.contains(&gateway.net()) {
                    passed_over("the gateway is on no local network")
                } else {
                    None
                };
                routes.push((route, skipped));
            }
        }
        Ok(routes)
    }

    /// Converts a configuration to options. Also returns what options cannot express.
    #[must_use]
    pub fn from_config(config: &Config) -> (Self, Vec<LeftOut>) {
        let mut notes = Vec::new();
        let mut globals = config.globals;
        remove_unknown(&mut globals, &mut notes);
        let networks = networks(config, &mut notes);
        let ip2nets = ip2nets_options(&config.ip2nets, &mut notes);
        notes.extend(taken_too(&config.ip2nets));
        let others = lnd::options(config, &mut notes);
        let options = Self {
            networks,
            ip2nets,
            routes: config.routes.iter().filter_map(RouteOption::new).collect(),
            forwarding: config.routing,
            buffers: config.buffers,
            globals,
            others,
            twice: Vec::new(),
        };
        if !config.nets.is_empty() && !config.ip2nets.is_empty() {
            let text = "networks and ip2nets: the module accepts only one of them";
            notes.push(LeftOut::lost(text.to_owned()));
        }
        notes.extend(config.peers.iter().map(|peer| {
            let PeerConfig { nids, .. } = peer;
            let primary = nids.first().map_or(String::new(), Nid::to_string);
            LeftOut::lost(format!(
                "peer {primary}: peers cannot be options of the module"
            ))
        }));
        if !config.rules.rules().is_empty() {
            let text = "udsp: selection rules cannot be options of the module";
            notes.push(LeftOut::lost(text.to_owned()));
        }
        (options, notes)
    }
}

/// The machines and the settings of a rule of `ip2nets`. If two rules with interfaces have the same, the module takes the
/// interfaces of both, and a document names them in one rule.
// [CONF-55]
type Same = (Net, Vec<u32>, BTreeSet<String>);

/// Adds a rule, or its interfaces to the first rule for the same machines.
fn add_rule(rules: &mut Vec<Ip2Nets>, firsts: &mut BTreeMap<Same, usize>, rule: Ip2Nets) {
    if rule.interfaces.is_empty() {
        rules.push(rule);
        return;
    }
    let texts = rule.patterns.iter().map(ToString::to_string).collect();
    let first = *firsts
        .entry((rule.net, rule.cpts.clone(), texts))
        .or_insert(rules.len());
    match rules.get_mut(first) {
        Some(earlier) => {
            for name in rule.interfaces {
                if !earlier.interfaces.contains(&name) {
                    earlier.interfaces.push(name);
                }
            }
        }
        None => rules.push(rule),
    }
}

/// Returns the rules of `ip2nets` whose interfaces a document may not give to a machine, while the module does.
fn hidden(rules: &[Ip2Nets]) -> impl Iterator<Item = LeftOut> {
    let hidden = Ip2Nets::may_be_passed_over(rules).into_iter();
    hidden.map(|(at, rule, earlier)| {
        let mut both = earlier.clone();
        let more = rule.interfaces.iter();
        let more = more.filter(|name| !earlier.interfaces.contains(name));
        both.interfaces.extend(more.cloned());
        let advice = match earlier.interfaces.is_empty() {
            true => "name the interfaces of both in one rule".to_owned(),
            false => format!("write one rule with {}", both.spec()),
        };
        LeftOut::lost(format!(
            "ip2nets: rule {} ({}) on machines that the rule for {} covers too: the module takes both, and the YAML only \
             the first",
            at + 1,
            rule.spec(),
            earlier.spec(),
        ))
        .with_advice(format!("if there are such machines, {advice} for them, before the others"))
    })
}

/// Returns the rules of a document whose interfaces the module gives to a machine, and the document may not.
// [CONF-55]
fn taken_too(rules: &[Ip2Nets]) -> impl Iterator<Item = LeftOut> {
    let hidden = Ip2Nets::may_be_passed_over(rules).into_iter();
    hidden.map(|(at, rule, earlier)| {
        LeftOut::lost(format!(
            "ip2nets: rule {} ({}) on machines that the rule for {} covers too: the YAML takes only the first, and the \
             module both",
            at + 1,
            rule.spec(),
            earlier.spec(),
        ))
    })
}

/// Removes the parameters that no kernel has.
fn remove_unknown(globals: &mut Globals, notes: &mut Vec<LeftOut>) {
    let given = [
        ("profile", globals.profile.take().is_some()),
        ("match_addresses", globals.match_addresses.take().is_some()),
    ];
    let given = given.into_iter().filter(|(_, is_given)| *is_given);
    notes.extend(
        given.map(|(name, _)| LeftOut::idle(format!("{name}: no kernel has this parameter"))),
    );
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

fn networks(config: &Config, notes: &mut Vec<LeftOut>) -> Vec<NetworkOption> {
    let mut networks = Vec::new();
    for NetConfig { net, nis } in &config.nets {
        let mut interfaces: Vec<InterfaceOption> = Vec::new();
        for ni in nis {
            let label = ni.nid.map_or(net.to_string(), |nid| nid.to_string());
            if ni.nid.is_some() && ni.interfaces.is_empty() {
                notes.push(LeftOut::lost(format!(
                    "{label}: networks accepts interfaces, not NIDs"
                )));
            }
            for name in &ni.interfaces {
                if interfaces.iter().any(|known| known.name == *name) {
                    notes.push(LeftOut::lost(format!(
                        "{label}: networks names interfaces, and {name} is named already"
                    )));
                    continue;
                }
                interfaces.push(InterfaceOption {
                    name: name.clone(),
                    cpts: ni.cpts.clone(),
                });
            }
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

fn ip2nets_options(rules: &[Ip2Nets], notes: &mut Vec<LeftOut>) -> Vec<Ip2NetsOption> {
    let mut entries = Vec::new();
    for rule in rules {
        let net = rule.net;
        let mut patterns = rule.patterns.clone();
        let all = patterns.len();
        patterns.retain(IpPattern::is_quad);
        if patterns.len() < all {
            notes.push(LeftOut::lost(format!(
                "ip2nets {net}: the module accepts no IPv6 patterns"
            )));
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

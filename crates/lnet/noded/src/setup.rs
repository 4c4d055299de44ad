//! Makes a node from a configuration document: its interfaces, their limits and their addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use lnet_config::pinned::{Pinned, size};
use lnet_config::{
    Buffers, Config, Document, Ip2Nets, LndTunables, NetConfig, NiConfig, NoRuleApplies,
    RouteConfig,
};
use lnet_core::{Core, Globals, NiId, Route, RouterBuffers, Tunables};
use lnet_node::{Engine, InterfaceError, NiSettings, NodeOptions, O2ibTuning, has_driver};
use lnet_policy::Profile;
use lnet_tcp::NiTuning;
use lnet_types::{LndType, Net, Nid, Time};
use sys::InterfaceAddress;
use thiserror::Error;
use tracing::warn;

use crate::managed::Configured;

/// The reason why the node of a configuration cannot start. Each message says what would help.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The operating system rejected a part that every node needs.
    #[error(transparent)]
    Node(#[from] lnet_node::StartError),
    /// The document configures no net.
    #[error("the configuration has no network: add a 'net' section with at least one interface")]
    NoNetwork,
    /// An interface cannot be taken into use.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The interface does not exist, or has no IP address.
    #[error(
        "{net}: this machine has no interface '{interface}' with an IP address (there are: {known})"
    )]
    NoInterface {
        /// The net that asks for the interface.
        net: Net,
        /// The interface's name in the document.
        interface: String,
        /// The names that exist.
        known: String,
    },
    /// A setting of the o2ib LND is no number in its range.
    #[error("{net}: {key} is '{value}', which is no number from 0 to {most}")]
    Tunable {
        /// The net.
        net: Net,
        /// The setting.
        key: &'static str,
        /// What the document gives.
        value: String,
        /// The highest value.
        most: u32,
    },
    /// No rule of `ip2nets` applies to this machine.
    #[error(transparent)]
    Ip2Nets(#[from] NoRuleApplies),
    /// The core rejected a part of the configuration.
    #[error(transparent)]
    Core(#[from] lnet_core::ConfigError),
    /// The record would lack earlier inputs of the node.
    #[error(transparent)]
    Record(#[from] lnet_core::TooLate),
}

/// The parts of a configuration that the node itself does not keep.
pub(crate) struct Kept {
    /// The configuration of each interface.
    pub(crate) interfaces: BTreeMap<NiId, NiConfig>,
    /// For some NIs, the system interface that has the same address although its name stands for another address.
    pub(crate) labels: BTreeMap<NiId, String>,
    /// True if the name of a system interface stands for its IPv6 address (`lnetctl lnet configure --large`).
    pub(crate) large: bool,
    /// Parameters that the node stores and shows, and that its core does not have.
    pub(crate) globals: KeptGlobals,
    /// The parameters that hold if the configuration does not name them.
    base: Globals,
    /// The same of [`NodeOptions::match_addresses`].
    match_addresses: bool,
}

impl Kept {
    pub(crate) fn of(config: &Config, options: &NodeOptions) -> Self {
        Self {
            interfaces: BTreeMap::new(),
            labels: BTreeMap::new(),
            large: false,
            globals: KeptGlobals::of(&config.globals),
            base: options.globals,
            match_addresses: options.match_addresses,
        }
    }
}

/// Gives every interface of a network the tunables of its first one, as kernels do since 2.17: the first one that the
/// node has, or that is to be added. Returns a warning for each interface that wants others.
pub(crate) fn share_tunables(nets: &mut [NetConfig], own: &[NetConfig]) -> Vec<String> {
    let mut warnings = Vec::new();
    for NetConfig { net, nis } in nets {
        let present = own.iter().find(|one| one.net == *net);
        let first = present.map_or(nis.first(), |one| one.nis.first());
        let Some(first) = first.map(|ni| ni.tunables.clone()) else {
            continue;
        };
        for ni in nis.iter_mut().filter(|ni| ni.tunables != first) {
            if ni.tunables != lnet_config::Tunables::default() {
                let name = ni
                    .nid
                    .map_or_else(|| ni.interfaces.join(","), |nid| nid.to_string());
                warnings.push(format!(
                    "{net}: the tunables of the first interface hold for {name}, too: others are ignored"
                ));
            }
            ni.tunables = first.clone();
        }
    }
    warnings
}

/// Returns a document's configuration as a node takes it over: in the profile of 2.17, interfaces of a network share their
/// tunables.
pub(crate) fn taken_over(config: &Config, base: Globals) -> Config {
    let mut config = config.clone();
    if config.globals.profile.unwrap_or(base.profile) == Profile::Lustre217 {
        for warning in share_tunables(&mut config.nets, &[]) {
            warn!("{warning}");
        }
    }
    config
}

/// Returns the options of a configuration's node. Its parameters must be those to which a running node could be
/// changed.
pub(crate) fn node_options(
    config: &Config,
    options: &NodeOptions,
) -> Result<NodeOptions, lnet_core::ConfigError> {
    Ok(NodeOptions {
        globals: globals(&config.globals, options.globals).checked()?,
        buffers: router_buffers(config.buffers),
        routing: config.routing.unwrap_or(false),
        match_addresses: config
            .globals
            .match_addresses
            .unwrap_or(options.match_addresses),
        ..options.clone()
    })
}

/// Adds the routes, peers and rules of a configuration to a node that has its interfaces.
pub(crate) fn add_routes_peers_and_rules(
    core: &mut Core,
    config: &Config,
    now: Time,
) -> Result<(), StartError> {
    for route in &config.routes {
        core.add_route(self::route(route), now)?;
    }
    for peer in &config.peers {
        if let Some(&primary) = peer.nids.first() {
            core.add_peer(primary, &peer.nids, peer.multi_rail)?;
        }
    }
    core.set_rules(config.rules.clone());
    Ok(())
}

/// Returns an engine with the same configuration that no peer can reach, to try out how changes would affect the
/// node.
pub(crate) fn rehearsal(
    config: &Config,
    options: &NodeOptions,
    now: Time,
) -> Result<(Engine, Kept), StartError> {
    let mut engine = Engine::unreachable(&node_options(config, options)?)?;
    let mut kept = Kept::of(config, options);
    let mut node = Configured {
        engine: &mut engine,
        kept: &mut kept,
    };
    add_interfaces(&mut node, config, now)?;
    add_routes_peers_and_rules(node.core_mut(), config, now)?;
    Ok((engine, kept))
}

/// Changes the parameters of a node to those of a configuration.
pub(crate) fn change_globals(
    node: &mut Configured<'_>,
    given: &lnet_config::Globals,
    now: Time,
) -> Result<(), lnet_core::ConfigError> {
    let wanted = globals(given, node.kept.base);
    node.engine.change_globals(wanted, now)?;
    let match_addresses = given.match_addresses.unwrap_or(node.kept.match_addresses);
    node.engine.match_addresses(match_addresses);
    node.kept.globals = KeptGlobals::of(given);
    Ok(())
}

pub(crate) fn add_interfaces(
    node: &mut Configured<'_>,
    config: &Config,
    now: Time,
) -> Result<(), StartError> {
    let by_address = nets_by_address(&config.ip2nets)?;
    for net in config.nets.iter().chain(&by_address) {
        for ni in &net.nis {
            add_nis(node, net.net, ni, now)?;
        }
    }
    Ok(())
}

/// Returns the NIDs that the node of a configuration has.
///
/// # Errors
///
/// An interface of the configuration that this machine does not have, and rules of `ip2nets` of which none applies.
pub fn own_nids(config: &Config) -> Result<Vec<Nid>, StartError> {
    let system = interface_addresses()?;
    let by_address = nets_by_address(&config.ip2nets)?;
    let mut own = Vec::new();
    for net in config.nets.iter().chain(&by_address) {
        for ni in &net.nis {
            own.extend(nids(net.net, ni, &system, false)?);
        }
    }
    Ok(own)
}

/// Takes the interfaces of an entry into use: all of them or none.
pub(crate) fn add_nis(
    node: &mut Configured<'_>,
    net: Net,
    ni: &NiConfig,
    now: Time,
) -> Result<(), StartError> {
    if !has_driver(net) {
        return Err(InterfaceError::NoDriver(net).into());
    }
    let system = interface_addresses()?;
    let mut added = Vec::new();
    // The messages of o2ib have no room for IPv6 addresses.
    let large = node.kept.large && net.lnd != LndType::O2IB;
    for nid in nids(net, ni, &system, large)? {
        match add_ni(node, nid, ni, &system, now) {
            Ok(id) => added.push(id),
            Err(error) => {
                for id in added {
                    remove_ni(node, id, now);
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

fn add_ni(
    node: &mut Configured<'_>,
    nid: Nid,
    ni: &NiConfig,
    system: &[InterfaceAddress],
    now: Time,
) -> Result<NiId, StartError> {
    let lnd_tunables = own_timeout(&ni.lnd_tunables, node.core());
    let settings = NiSettings {
        tunables: tunables(ni),
        lnd: tuning(&lnd_tunables),
        o2ib: o2ib_tuning(nid.net(), &lnd_tunables)?,
    };
    let id = node.engine.add_interface(nid, settings, now)?;
    // The name is shown in place of the NID, so it must give the same NID when it is read back.
    let link = node.engine.link(id).map(str::to_owned);
    let large = node.kept.large;
    let interface = interface_name(nid, &ni.interfaces, link.as_deref(), system, large);
    if let (None, Some(label)) = (&interface, link) {
        node.kept.labels.insert(id, label);
    }
    let configured = NiConfig {
        nid: Some(nid),
        interfaces: interface.into_iter().collect(),
        lnd_tunables,
        ..ni.clone()
    };
    node.kept.interfaces.insert(id, configured);
    Ok(id)
}

/// Returns the name of an NI's interface: the name in the configuration, or the link under the NI, or the label of
/// its address (`eth0:1`). The first name that stands for the NI's address is taken; `None` if there is none.
fn interface_name(
    nid: Nid,
    given: &[String],
    link: Option<&str>,
    system: &[InterfaceAddress],
    large: bool,
) -> Option<String> {
    let labels = system
        .iter()
        .filter(|known| Some(known.address) == nid.ip());
    let given = given.iter().map(String::as_str).chain(link);
    let mut names = given.chain(labels.map(|known| known.name.as_str()));
    let name = names.find(|name| interface_address(name, system, large) == nid.ip());
    name.map(str::to_owned)
}

/// Changes the LND settings of an interface; its connections stay.
pub(crate) fn tune(node: &mut Configured<'_>, id: NiId, lnd: &LndTunables) {
    let lnd = own_timeout(lnd, node.core());
    node.engine.tune(id, tuning(&lnd));
    if let Some(configured) = node.kept.interfaces.get_mut(&id) {
        configured.lnd_tunables = lnd;
    }
}

/// Removes a timeout that equals the node's: the interface then follows the node's timeout.
fn own_timeout(lnd: &LndTunables, core: &Core) -> LndTunables {
    let of_node = core.globals().lnd_timeout();
    let is_own = |timeout: &u32| *timeout > 0 && seconds(*timeout) != of_node;
    LndTunables {
        timeout: lnd.timeout.filter(is_own),
        ..lnd.clone()
    }
}

fn tuning(lnd: &LndTunables) -> NiTuning {
    NiTuning {
        // 0 lets the LND choose, and this LND chooses 1. Kernels choose by link speed, but loopback and tunnels have
        // none.
        conns_per_peer: lnd.conns_per_peer.unwrap_or(0).max(1),
        timeout: lnd.timeout.map(seconds),
        tos: lnd.tos,
    }
}

/// Returns the settings that only the o2ib LND has; -1 stands for the default. The LND registers each payload as a whole,
/// so that settings of pools of registrations (`map_on_demand`, `fmr_*`) have no effect, and it has no pool of messages
/// (`ntx`).
fn o2ib_tuning(net: Net, lnd: &LndTunables) -> Result<O2ibTuning, StartError> {
    let number = |key, most: u32| {
        let given = lnd.other.get(key).filter(|_| net.lnd == LndType::O2IB);
        let Some(given) = given.filter(|given| given.as_str() != "-1") else {
            return Ok(0);
        };
        let number = given.parse().ok().filter(|number| *number <= most);
        number.ok_or_else(|| StartError::Tunable {
            net,
            key,
            value: given.clone(),
            most,
        })
    };
    // The numbers are in the ranges of their types.
    Ok(O2ibTuning {
        peer_credits_hiw: number("peercredits_hiw", u8::MAX.into())? as u8,
        concurrent_sends: number("concurrent_sends", u16::MAX.into())? as u16,
        ..O2ibTuning::default()
    })
}

/// Takes an interface out of use and closes its connections.
pub(crate) fn remove_ni(node: &mut Configured<'_>, id: NiId, now: Time) {
    node.engine.remove_interface(id, now);
    node.kept.interfaces.remove(&id);
    node.kept.labels.remove(&id);
}

fn interface_addresses() -> Result<Vec<InterfaceAddress>, InterfaceError> {
    sys::interface_addresses().map_err(InterfaceError::Addresses)
}

/// Returns the nets that `ip2nets` gives to a machine with these addresses.
pub(crate) fn nets_by_address(rules: &[Ip2Nets]) -> Result<Vec<NetConfig>, StartError> {
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let system = interface_addresses()?;
    // Loopback addresses do not say where a machine is.
    let local = system.iter().filter(|local| !local.address.is_loopback());
    let local: Vec<_> = local
        .map(|local| (local.name.as_str(), local.address))
        .collect();
    for (at, rule, earlier) in Ip2Nets::passed_over(rules, &local) {
        warn!(
            rule = at + 1,
            "ip2nets: {} is ignored, because an earlier rule configures {}: the first rule of a network that \
             covers an address of this machine is the only one; name all interfaces in one rule",
            rule.spec(),
            earlier.spec(),
        );
    }
    Ok(Ip2Nets::nets(rules, &local)?)
}

/// Returns the NIDs of an entry: the NID that it gives, or one NID for each interface that it names.
fn nids(
    net: Net,
    ni: &NiConfig,
    system: &[InterfaceAddress],
    large: bool,
) -> Result<Vec<Nid>, StartError> {
    if let Some(nid) = ni.nid {
        return Ok(vec![nid]);
    }
    let address = |name: &String| {
        interface_address(name, system, large).ok_or_else(|| no_interface(net, name, system))
    };
    let addresses = ni.interfaces.iter().map(address);
    addresses
        .map(|address| address.map(|address| Nid::from_ip(net, address)))
        .collect()
}

/// Returns the first IPv4 address of an interface, else its first IPv6 address that is not link-local (a NID has no
/// room for the scope). Prefers the IPv6 address if `large` is true.
fn interface_address(name: &str, system: &[InterfaceAddress], large: bool) -> Option<IpAddr> {
    let of_interface = || {
        system
            .iter()
            .filter(|known| known.name == name)
            .map(|known| known.address)
    };
    let usable = |address: &IpAddr| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    };
    let preferred = |address: &IpAddr| address.is_ipv6() == large && usable(address);
    of_interface()
        .find(preferred)
        .or_else(|| of_interface().find(usable))
}

/// Returns a document that gives the same interfaces on a node that does not prefer large NIDs. Removes names that
/// would give another NID there; the NID stays.
pub(crate) fn with_nids_where_names_mislead(mut document: Document) -> Document {
    let Ok(system) = interface_addresses() else {
        return document;
    };
    for ni in document.nets.iter_mut().flat_map(|net| &mut net.nis) {
        let own = ni.config.nid.and_then(Nid::ip);
        let is_misleading = |name: &String| interface_address(name, &system, false) != own;
        if own.is_some_and(|own| own.is_ipv6()) && ni.config.interfaces.iter().any(is_misleading) {
            ni.config.interfaces.clear();
        }
    }
    document
}

fn no_interface(net: Net, interface: &str, system: &[InterfaceAddress]) -> StartError {
    // An interface with only a link-local address is not a choice.
    let names = system.iter().map(|address| address.name.as_str());
    let mut known: Vec<&str> = names
        .filter(|name| interface_address(name, system, false).is_some())
        .collect();
    known.sort_unstable();
    known.dedup();
    StartError::NoInterface {
        net,
        interface: interface.to_owned(),
        known: known.join(", "),
    }
}

pub(crate) fn route(route: &RouteConfig) -> Route {
    Route {
        net: route.net,
        gateway: route.gateway,
        hops: route.hop,
        priority: route.priority,
    }
}

pub(crate) fn tunables(ni: &NiConfig) -> Tunables {
    let default = Tunables::default();
    let given = &ni.tunables;
    Tunables {
        credits: given.credits.unwrap_or(default.credits),
        peer_credits: given.peer_credits.unwrap_or(default.peer_credits),
        peer_buffer_credits: given
            .peer_buffer_credits
            .unwrap_or(default.peer_buffer_credits),
        peer_timeout: given.peer_timeout.map_or(default.peer_timeout, seconds),
    }
}

/// Returns the parameters of a node; a parameter that is not given is taken from `base`. Discovery is on if the document
/// does not mention it, as in kernels.
fn globals(given: &lnet_config::Globals, base: Globals) -> Globals {
    let base = Globals {
        discovery: true,
        ..base
    };
    base.with(given.numbers(), given.profile)
}

/// Parameters that a node stores and shows, and that its core does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptGlobals {
    /// The most interfaces in ping information; this node has no limit.
    pub(crate) max_interfaces: u32,
    /// Deprecated: kept and shown, without effect.
    pub(crate) router_sensitivity: u32,
    /// A parameter of the LND; `None` if the configuration does not name it.
    pub(crate) match_addresses: Option<bool>,
}

impl KeptGlobals {
    pub(crate) fn of(given: &lnet_config::Globals) -> Self {
        let default = Self::default();
        let room = given
            .max_interfaces
            .filter(|&room| room >= LEAST_INTERFACES);
        Self {
            max_interfaces: room.unwrap_or(default.max_interfaces),
            router_sensitivity: given
                .router_sensitivity
                .unwrap_or(default.router_sensitivity),
            match_addresses: given.match_addresses,
        }
    }

    /// Returns the parameter with this name.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        match name {
            "max_interfaces" => Some(self.max_interfaces),
            "router_sensitivity" => Some(self.router_sensitivity),
            "match_addresses" => self.match_addresses.map(u32::from),
            _ => None,
        }
    }
}

impl Default for KeptGlobals {
    /// Returns the values of kernel nodes.
    fn default() -> Self {
        Self {
            max_interfaces: 200,
            router_sensitivity: 100,
            match_addresses: None,
        }
    }
}

/// The smallest `max_interfaces` that is used; a node replaces a smaller number by the default.
const LEAST_INTERFACES: u32 = 16;

/// Returns the sizes of router buffers; 0 stands for the default, as in the kernel.
pub(crate) fn router_buffers(given: Buffers) -> RouterBuffers {
    let default = RouterBuffers::default();
    let size = |given: Option<u32>, default| given.filter(|&size| size > 0).unwrap_or(default);
    RouterBuffers {
        tiny: size(given.tiny, default.tiny),
        small: size(given.small, default.small),
        large: size(given.large, default.large),
    }
}

/// Warns if the limit of this process cannot hold what the o2ib networks register with devices.
pub(crate) fn warn_of_locked_memory(config: &Config) {
    let limit = sys::locked_memory_limit().ok().flatten();
    let mut config = config.clone();
    config
        .nets
        .extend(nets_by_address(&config.ip2nets).unwrap_or_default());
    if let Some(warning) = limit.and_then(|limit| beyond_memlock(&config, limit)) {
        warn!("{warning}");
    }
}

/// Returns what to say about a limit of locked memory; `None` if the limit is high enough.
fn beyond_memlock(config: &Config, limit: u64) -> Option<String> {
    let pinned = Pinned::of(config).filter(|pinned| pinned.total() > limit)?;
    Some(format!(
        "RLIMIT_MEMLOCK is {}, and the o2ib networks use up to {pinned}: set LimitMEMLOCK=infinity in the unit, or \
         `ulimit -l unlimited`",
        size(limit)
    ))
}

/// Warns of settings that are accepted but have no effect.
pub(crate) fn warn_of_settings_without_effect(config: &Config) {
    let globals = &config.globals;
    let nis = || config.nets.iter().flat_map(|net| &net.nis);
    let without_effect = [
        (
            "max_interfaces",
            globals.max_interfaces.is_some_and(|value| value != 200),
        ),
        (
            "router_sensitivity",
            globals.router_sensitivity.is_some_and(|value| value != 100),
        ),
        ("CPT", nis().any(|ni| !ni.cpts.is_empty())),
    ];
    for (key, _) in without_effect.iter().filter(|(_, set)| *set) {
        warn!(key, "this setting has no effect in this version");
    }
}

fn seconds(value: u32) -> Duration {
    Duration::from_secs(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(name: &str, address: [u8; 4]) -> InterfaceAddress {
        InterfaceAddress {
            name: name.to_owned(),
            address: address.into(),
            prefix: 24,
            up: true,
        }
    }

    #[test]
    fn a_name_means_the_ipv4_address_and_with_large_nids_the_ipv6_address_if_there_is_one() {
        let of = |name: &str, text: &str| InterfaceAddress {
            name: name.to_owned(),
            address: text.parse().unwrap(),
            prefix: 24,
            up: true,
        };
        let system = [
            of("eth0", "fe80::1"),
            of("eth0", "fd00::1"),
            of("eth0", "10.0.0.1"),
            of("eth1", "10.0.1.1"),
        ];
        let address = |name: &str, large| {
            interface_address(name, &system, large).map(|address| address.to_string())
        };
        assert_eq!(address("eth0", false).as_deref(), Some("10.0.0.1"));
        assert_eq!(address("eth0", true).as_deref(), Some("fd00::1"));
        assert_eq!(address("eth1", true).as_deref(), Some("10.0.1.1"));
    }

    #[test]
    fn a_limit_of_locked_memory_that_is_too_low_is_named() {
        let text = "net: [{net type: o2ib, local NI(s): [{interfaces: {0: ib0}}]}]\n";
        let config = lnet_config::parse(text).unwrap();
        let warning = beyond_memlock(&config, 8 << 20).unwrap();
        assert!(warning.starts_with("RLIMIT_MEMLOCK is 8 MiB"), "{warning}");
        assert_eq!(beyond_memlock(&config, 9 << 20), None);
        let over_tcp = lnet_config::parse(&text.replace("o2ib", "tcp")).unwrap();
        assert_eq!(beyond_memlock(&over_tcp, 0), None);
    }

    #[test]
    fn an_ni_on_an_alias_has_the_alias_as_its_interface() {
        let system = [
            address("eth0", [10, 0, 0, 1]),
            address("eth0:1", [10, 0, 5, 1]),
        ];
        let name = |nid: &str, given: &[&str]| {
            let given: Vec<String> = given.iter().map(|&name| name.to_owned()).collect();
            interface_name(nid.parse().unwrap(), &given, Some("eth0"), &system, false)
        };
        assert_eq!(name("10.0.5.1@tcp", &["eth0:1"]).as_deref(), Some("eth0:1"));
        assert_eq!(name("10.0.5.1@tcp", &[]).as_deref(), Some("eth0:1"));
        assert_eq!(name("10.0.0.1@tcp", &[]).as_deref(), Some("eth0"));
        assert_eq!(name("10.0.9.1@tcp", &[]), None);
    }

    #[test]
    fn a_node_without_parameters_has_those_of_the_table() {
        let given = lnet_config::Globals::default();
        let (core, kept) = (globals(&given, Globals::default()), KeptGlobals::of(&given));
        for parameter in lnet_config::PARAMETERS {
            let of_core = core.number(parameter.name);
            let value = of_core.or_else(|| kept.number(parameter.name));
            let default = Some(parameter.default).filter(|_| parameter.name != "match_addresses");
            assert_eq!(value, default, "{}", parameter.name);
        }
    }

    #[test]
    fn each_parameter_of_a_document_reaches_the_node() {
        for parameter in lnet_config::PARAMETERS {
            let (min, max) = parameter.values.clone().into_inner();
            let value = if parameter.default == max { min } else { max };
            let mut given = lnet_config::Globals::default();
            parameter.set(&mut given, value);
            let (core, kept) = (globals(&given, Globals::default()), KeptGlobals::of(&given));
            let reached = core
                .number(parameter.name)
                .or_else(|| kept.number(parameter.name));
            assert_eq!(reached, parameter.get(&given), "{}", parameter.name);
        }
    }
}

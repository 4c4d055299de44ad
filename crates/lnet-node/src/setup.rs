//! From a configuration document to an engine: which interfaces, with which limits, on which address.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use lnet_config::{
    Buffers, Config, Ip2Nets, LndTunables, NetConfig, NiConfig, NoRuleApplies, RouteConfig,
};
use lnet_core::{Core, CoreConfig, Entropy, Globals, NiId, Route, RouterBuffers, Tunables};
use lnet_tcp::{
    AcceptMode, AddNiError, LndNi, NiTuning, Sockets, Socklnd, SocklndConfig, SourcePorts,
};
use lnet_types::{LndType, Net, Nid, Time};
use mio::Registry;
use sys::InterfaceAddress;
use thiserror::Error;
use tracing::warn;

use crate::clock::{Clock, wall_clock_nanos};
use crate::engine::Engine;
use crate::node::{FIRST_LND_TOKEN, LINKS};
use crate::options::NodeOptions;

/// Why a node cannot start. Each message says what would help.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The operating system refused the event loop, its waker or its thread.
    #[error("cannot set up the event loop: {0}")]
    EventLoop(io::Error),
    /// The operating system gives no random bytes, so the node's handles could be guessed.
    #[error("cannot draw random bytes: {0}")]
    Random(getrandom::Error),
    /// The addresses of this machine cannot be listed.
    #[error("cannot list this machine's network interfaces: {0}")]
    Interfaces(io::Error),
    /// The document configures no network.
    #[error("the configuration has no network: add a 'net' section with at least one interface")]
    NoNetwork,
    /// Only socket networks can be run from user space.
    #[error("network {0} cannot be run here: only tcp networks can")]
    NotTcp(Net),
    /// No such interface, or it has no IP address.
    #[error(
        "{net}: this machine has no interface '{interface}' with an IP address (there are: {known})"
    )]
    NoInterface {
        /// The network that asks for it.
        net: Net,
        /// The name in the document.
        interface: String,
        /// Names that exist.
        known: String,
    },
    /// No rule of `ip2nets` is for this machine.
    #[error(transparent)]
    Ip2Nets(#[from] NoRuleApplies),
    /// The LND cannot serve the interface.
    #[error(transparent)]
    Lnd(#[from] AddNiError),
    /// The core refused a part of the configuration.
    #[error(transparent)]
    Core(#[from] lnet_core::ConfigError),
}

/// Builds the engine of a node.
pub(crate) fn engine(
    config: &Config,
    options: &NodeOptions,
    registry: Registry,
    clock: Clock,
) -> Result<Engine, StartError> {
    warn_of_settings_without_effect(config);
    let watched = registry.try_clone().map_err(StartError::EventLoop)?;
    let mut engine = bare_engine(config, options, registry, clock)?;
    let now = engine.now();
    // A one-shot node is gone before a link could change.
    if !options.one_shot {
        engine.links.watch(&watched, LINKS);
    }
    add_interfaces(&mut engine, config, now)?;
    if engine.stack.side.core.primary_nid().is_none() {
        return Err(StartError::NoNetwork);
    }
    add_routes_and_peers(&mut engine.stack.side.core, config, now)?;
    engine.stack.side.core.set_rules(config.rules.clone());
    Ok(engine)
}

/// An engine of the same configuration that nobody can reach, to see what changes would do to it.
pub(crate) fn rehearsal(
    config: &Config,
    options: &NodeOptions,
    registry: Registry,
) -> Result<Engine, StartError> {
    let options = NodeOptions {
        accept: Some(AcceptMode::None),
        ..options.clone()
    };
    let mut engine = bare_engine(config, &options, registry, Clock::start())?;
    let now = engine.now();
    add_interfaces(&mut engine, config, now)?;
    add_routes_and_peers(&mut engine.stack.side.core, config, now)?;
    engine.stack.side.core.set_rules(config.rules.clone());
    Ok(engine)
}

/// With parameters, and nothing else.
fn bare_engine(
    config: &Config,
    options: &NodeOptions,
    registry: Registry,
    clock: Clock,
) -> Result<Engine, StartError> {
    let now = clock.now();
    let globals = globals(&config.globals, options);
    let incarnation = wall_clock_nanos();
    let core = CoreConfig {
        entropy: entropy()?,
        seed: options.seed,
        globals,
        buffers: router_buffers(config.buffers),
        routing: config.routing.unwrap_or(false),
        pid: lnet_types::ProcessId::LUSTRE_PID,
    };
    let lnd = socklnd_config(options, &globals);
    let socklnd = Socklnd::new(lnd, Sockets::new(registry, FIRST_LND_TOKEN), options.seed);
    let core = Core::new(core, now);
    let mut engine = Engine::new(socklnd, core, incarnation, options.clone(), clock);
    engine.kept = KeptGlobals::of(&config.globals);
    Ok(engine)
}

fn entropy() -> Result<Entropy, StartError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(StartError::Random)?;
    Ok(Entropy::new(bytes))
}

fn add_interfaces(engine: &mut Engine, config: &Config, now: Time) -> Result<(), StartError> {
    let by_address = nets_by_address(&config.ip2nets)?;
    for net in config.nets.iter().chain(&by_address) {
        for ni in &net.nis {
            add_nis(engine, net.net, ni, now)?;
        }
    }
    Ok(())
}

/// Takes the interfaces of an entry into use: all of them, or none.
pub(crate) fn add_nis(
    engine: &mut Engine,
    net: Net,
    ni: &NiConfig,
    now: Time,
) -> Result<(), StartError> {
    if net.lnd != LndType::TCP {
        return Err(StartError::NotTcp(net));
    }
    let system = sys::interface_addresses().map_err(StartError::Interfaces)?;
    let mut added = Vec::new();
    for nid in nids(net, ni, &system)? {
        match add_interface(engine, nid, ni, now) {
            Ok(id) => added.push(id),
            Err(error) => {
                for id in added {
                    remove_ni(engine, id, now);
                }
                return Err(error);
            }
        }
        let Some(&id) = added.last() else { continue };
        let interface = engine.links.add(id, nid, &system);
        // Shown as its name, it must come back as the same NID.
        let interface = interface.filter(|name| interface_address(name, &system) == nid.ip());
        let configured = NiConfig {
            nid: Some(nid),
            interfaces: interface.into_iter().collect(),
            ..ni.clone()
        };
        engine.configured.insert(id, configured);
        tune(engine, id, ni.lnd_tunables.clone());
    }
    engine.links.refresh(&mut engine.stack.side.core, now);
    Ok(())
}

/// Gives an interface other settings of the LND; its connections stay. A timeout that is the node's own
/// is none of the interface's: it follows the node's.
pub(crate) fn tune(engine: &mut Engine, id: NiId, mut lnd: LndTunables) {
    let core = &mut engine.stack.side.core;
    let of_node = core.globals().lnd_timeout();
    let timeout = lnd.timeout.filter(|&seconds| seconds > 0).map(seconds);
    let timeout = timeout.filter(|&timeout| timeout != of_node);
    lnd.timeout = timeout.and(lnd.timeout);
    // One that is not there any more has no settings.
    let _gone = core.set_ni_lnd_timeout(id, timeout);
    engine.stack.lnd.tune(id, tuning(&lnd));
    if let Some(configured) = engine.configured.get_mut(&id) {
        configured.lnd_tunables = lnd;
    }
}

fn tuning(lnd: &LndTunables) -> NiTuning {
    NiTuning {
        // 0 means that the LND chooses; kernels choose by link speed, which loopback and tunnels do not
        // have.
        conns_per_peer: lnd.conns_per_peer.unwrap_or(0).max(1),
        timeout: lnd.timeout.map(seconds),
        tos: lnd.tos,
    }
}

/// Takes an interface out of use and closes its connections.
pub(crate) fn remove_ni(engine: &mut Engine, id: NiId, now: Time) {
    engine.stack.remove_ni(id, now);
    engine.links.remove(id);
    engine.configured.remove(&id);
}

/// The networks that `ip2nets` gives a machine with these addresses.
pub(crate) fn nets_by_address(rules: &[Ip2Nets]) -> Result<Vec<NetConfig>, StartError> {
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let system = sys::interface_addresses().map_err(StartError::Interfaces)?;
    // Loopback addresses say nothing of where a machine is.
    let local = system.iter().filter(|local| !local.address.is_loopback());
    let local: Vec<_> = local
        .map(|local| (local.name.as_str(), local.address))
        .collect();
    Ok(Ip2Nets::nets(rules, &local)?)
}

fn add_interface(
    engine: &mut Engine,
    nid: Nid,
    ni: &NiConfig,
    now: Time,
) -> Result<NiId, StartError> {
    let added = lnet_core::NiConfig {
        nid,
        tunables: tunables(ni),
    };
    let id = engine.stack.side.core.add_ni(added, now)?;
    let serving = engine.stack.lnd.add_ni(LndNi {
        ni: id,
        nid,
        tuning: tuning(&ni.lnd_tunables),
        incarnation: engine.incarnation,
    });
    if let Err(error) = serving {
        // The core got it just now.
        let _gone = engine.stack.side.core.remove_ni(id, now);
        return Err(error.into());
    }
    Ok(id)
}

/// The NIDs of one entry: the one it gives, or one an interface it names.
fn nids(net: Net, ni: &NiConfig, system: &[InterfaceAddress]) -> Result<Vec<Nid>, StartError> {
    if let Some(nid) = ni.nid {
        return Ok(vec![nid]);
    }
    let addresses = ni
        .interfaces
        .iter()
        .map(|name| interface_address(name, system).ok_or_else(|| no_interface(net, name, system)));
    addresses
        .map(|address| address.map(|address| Nid::from_ip(net, address)))
        .collect()
}

/// The first IPv4 address of an interface, else its first IPv6 address that is not link-local (a NID
/// has no room for the scope).
fn interface_address(name: &str, system: &[InterfaceAddress]) -> Option<IpAddr> {
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
    of_interface()
        .find(IpAddr::is_ipv4)
        .or_else(|| of_interface().find(usable))
}

fn no_interface(net: Net, interface: &str, system: &[InterfaceAddress]) -> StartError {
    let mut known: Vec<&str> = system.iter().map(|address| address.name.as_str()).collect();
    known.sort_unstable();
    known.dedup();
    StartError::NoInterface {
        net,
        interface: interface.to_owned(),
        known: known.join(", "),
    }
}

fn add_routes_and_peers(core: &mut Core, config: &Config, now: Time) -> Result<(), StartError> {
    for route in &config.routes {
        core.add_route(self::route(route), now)?;
    }
    for peer in &config.peers {
        if let Some(&primary) = peer.nids.first() {
            core.add_peer(primary, &peer.nids, peer.multi_rail)?;
        }
    }
    Ok(())
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

/// The parameters of a node; what is not set has its default.
pub(crate) fn globals(given: &lnet_config::Globals, options: &NodeOptions) -> Globals {
    let default = Globals::default();
    let tracking = given
        .response_tracking
        .and_then(|value| u8::try_from(value).ok());
    Globals {
        transaction_timeout: given
            .transaction_timeout
            .map_or(default.transaction_timeout, seconds),
        retry_count: given.retry_count.unwrap_or(default.retry_count),
        response_tracking: tracking.unwrap_or(default.response_tracking),
        numa_range: given.numa_range.unwrap_or(default.numa_range),
        health_sensitivity: health_sensitivity(given, options),
        recovery_limit: given.recovery_limit.map_or(default.recovery_limit, seconds),
        max_recovery_ping_interval: given
            .max_recovery_ping_interval
            .map_or(default.max_recovery_ping_interval, seconds),
        drop_asym_route: given.drop_asym_route.unwrap_or(default.drop_asym_route),
        alive_router_check_interval: options
            .router_check_interval
            .unwrap_or(default.alive_router_check_interval),
        router_ping_timeout: options
            .router_ping_timeout
            .unwrap_or(default.router_ping_timeout),
        ..default
    }
}

/// Parameters that a node keeps for those who ask, and consults nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptGlobals {
    /// Room for interfaces in ping information; here there is no limit.
    pub(crate) max_interfaces: u32,
    /// Deprecated (section 3.1 of lnet-selection).
    pub(crate) router_sensitivity: u32,
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
        }
    }
}

impl Default for KeptGlobals {
    /// As kernel nodes have them (section 10.1 of lnet-selection).
    fn default() -> Self {
        Self {
            max_interfaces: 200,
            router_sensitivity: 100,
        }
    }
}

/// With less room than this, a node takes the default.
const LEAST_INTERFACES: u32 = 16;

/// A one-shot node has one connection to one peer and nobody can ping it: no health, no recovery.
fn health_sensitivity(given: &lnet_config::Globals, options: &NodeOptions) -> u16 {
    if options.one_shot {
        return 0;
    }
    given
        .health_sensitivity
        .and_then(|value| u16::try_from(value).ok())
        .unwrap_or(Globals::default().health_sensitivity)
}

/// 0 stands for the default size, as in the kernel (selection, section 6.2).
pub(crate) fn router_buffers(given: Buffers) -> RouterBuffers {
    let default = RouterBuffers::default();
    let size = |given: Option<u32>, default| given.filter(|&size| size > 0).unwrap_or(default);
    RouterBuffers {
        tiny: size(given.tiny, default.tiny),
        small: size(given.small, default.small),
        large: size(given.large, default.large),
    }
}

fn socklnd_config(options: &NodeOptions, globals: &Globals) -> SocklndConfig {
    let default = SocklndConfig::default();
    SocklndConfig {
        port: options.port,
        accept: options.accept_mode(),
        match_addresses: options.match_addresses,
        source_ports: options.source_port_choice(),
        accept_timeout: options.accept_timeout,
        sock_timeout: globals.lnd_timeout(),
        typed: !options.one_shot,
        // A user-space peer is one that dials from an unprivileged port (section 2.11).
        user_pid: options.one_shot && options.source_port_choice() == SourcePorts::Any,
        congestion: options.congestion.clone(),
        keepalive: options.keepalive.unwrap_or(default.keepalive),
        ..default
    }
}

/// A setting that is accepted and does nothing must not pass in silence.
fn warn_of_settings_without_effect(config: &Config) {
    let globals = &config.globals;
    let nis = || config.nets.iter().flat_map(|net| &net.nis);
    let without_effect = [
        (
            "max_interfaces",
            globals.max_interfaces.is_some_and(|value| value != 200),
        ),
        ("discovery", globals.discovery == Some(true)),
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

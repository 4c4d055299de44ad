//! Applies changes to a state.

use std::time::Duration;

use lnet_core::{
    ConfigError, Core, GatewaySelection, Globals, Health, NetSelection, NiDevice, NiHealthStats,
    NiSelection, PeerHealthStats, PeerNiSelection, PeerSelection, RecoverySelection, Route,
    RouteSelection, SelectionState, Tunables,
};
use lnet_policy::{Priority, Rule, RuleList};
use lnet_types::{Net, Nid, Time};

use super::{Change, ChangeError, Parameter, Switch, Target};
use crate::node::Node;

impl Change {
    /// Applies the change to `node`; `peer` is a NID of the peer that the question is about.
    ///
    /// # Errors
    ///
    /// Returns an error if the node does not have the named object, or already has the object to add.
    pub fn apply(&self, node: &mut Node, peer: Nid) -> Result<(), ChangeError> {
        let state = &mut node.state;
        match self {
            Self::Fail(target) => set_well(node, target, false),
            Self::Restore(target) => set_well(node, target, true),
            Self::Health(nid, health) => set_health(node, *nid, *health),
            Self::AddRule(rule, at) => add_rule(state, rule, *at),
            Self::DeleteRule(index) => {
                let unknown = |_| ChangeError::unknown("rule", index);
                state.rules.delete(*index).map(drop).map_err(unknown)
            }
            Self::AddNi(nid, interface) => add_ni(node, *nid, interface.as_deref()),
            Self::DeleteNi(nid) => delete_nis(state, "local NI", nid, |ni| ni.nid == *nid),
            Self::DeleteNet(net) => delete_nis(state, "local net", net, |ni| ni.nid.net() == *net),
            Self::AddPeerNid(peer, nid) => add_peer_nid(state, *peer, *nid),
            Self::DeletePeerNid(nid) => delete_peer_nid(state, *nid),
            Self::AddRoute(route) => add_route(node, route),
            Self::DeleteRoute(net, by) => delete_route(state, *net, *by),
            Self::Set(parameter) => set(state, *parameter),
            Self::Switch(switch, on) => turn(node, *switch, *on, peer),
        }
    }
}

/// Makes a core from the node's state and changes it. The core checks whether the change is permitted, and makes
/// all changes that follow from it.
fn changed_core(
    node: &Node,
    change: impl FnOnce(&mut Core, Time) -> Result<(), ConfigError>,
) -> Result<Core, ChangeError> {
    let core = Core::from_selection_state(&node.state, node.now);
    let mut core = core.map_err(|error| ChangeError::Refused(error.to_string()))?;
    let changed = change(&mut core, node.now);
    changed.map_err(|error| ChangeError::Refused(error.to_string()))?;
    Ok(core)
}

fn set_well(node: &mut Node, target: &Target, well: bool) -> Result<(), ChangeError> {
    let nids: Vec<Nid> = match target {
        Target::Nid(nid) => vec![*nid],
        Target::Interface(name) => {
            let interfaces = node.facts.interfaces.iter();
            let on_it = interfaces.filter(|(_, names)| names.contains(name));
            on_it.map(|(&nid, _)| nid).collect()
        }
    };
    if nids.is_empty() {
        return Err(ChangeError::unknown("interface", target));
    }
    nids.into_iter()
        .try_for_each(|nid| set_nid_well(&mut node.state, nid, well))
}

fn set_nid_well(state: &mut SelectionState, nid: Nid, well: bool) -> Result<(), ChangeError> {
    if let Some(ni) = state.nis.iter_mut().find(|ni| ni.nid == nid) {
        ni.fatal = !well;
        if well {
            (ni.up, ni.health, ni.recovery) = (true, Health::MAX, RecoverySelection::default());
        }
        return Ok(());
    }
    let gateway = state.gateways.iter_mut().find(|gateway| gateway.nid == nid);
    let is_gateway = gateway.is_some();
    gateway.into_iter().for_each(|gateway| gateway.alive = well);
    for route in state
        .routes
        .iter_mut()
        .filter(|route| route.route.gateway == nid)
    {
        route.up = well;
        route.fault = None;
    }
    let peer_ni = state.peer_nis.iter_mut().find(|ni| ni.nid == nid);
    if peer_ni.is_none() && !is_gateway {
        return Err(ChangeError::unknown(
            "interface, peer interface or gateway",
            nid,
        ));
    }
    if let Some(peer_ni) = peer_ni {
        peer_ni.up = well;
        peer_ni.health = if well { Health::MAX } else { Health::ZERO };
    }
    Ok(())
}

/// Sets the health in a core, because the core also changes what an administrator's change of the health entails:
/// the status that is advertised, and the start or end of recovery.
fn set_health(node: &mut Node, nid: Nid, health: u16) -> Result<(), ChangeError> {
    let health = Health::new(health).unwrap_or(Health::MAX);
    let ours = node.state.nis.iter().any(|ni| ni.nid == nid);
    if !ours && !node.state.peer_nis.iter().any(|ni| ni.nid == nid) {
        return Err(ChangeError::unknown("interface or peer interface", nid));
    }
    let near = node.about(nid);
    let core = changed_core(&near, |core, now| {
        let ni = core.nis().find(|ni| ni.nid == nid).map(|ni| ni.id);
        match ni {
            Some(ni) => core.set_ni_health(ni, health, now),
            None => core.set_peer_ni_health(nid, health, now),
        }
    })?;
    let SelectionState { nis, peer_nis, .. } = core.selection_state();
    for set in nis.into_iter().filter(|set| set.nid == nid) {
        let known = node.state.nis.iter_mut().filter(|ni| ni.nid == nid);
        known.for_each(|ni| *ni = set.clone());
    }
    for set in peer_nis.into_iter().filter(|set| set.nid == nid) {
        let known = node.state.peer_nis.iter_mut().filter(|ni| ni.nid == nid);
        known.for_each(|ni| *ni = set.clone());
    }
    Ok(())
}

fn add_rule(state: &mut SelectionState, rule: &Rule, at: Option<usize>) -> Result<(), ChangeError> {
    let added = state.rules.add(rule.clone(), at);
    added
        .map(drop)
        .map_err(|error| ChangeError::Rule(error.to_string()))
}

fn add_ni(node: &mut Node, nid: Nid, interface: Option<&str>) -> Result<(), ChangeError> {
    let state = &mut node.state;
    if state.nis.iter().any(|ni| ni.nid == nid) {
        return Err(ChangeError::Exists(nid.to_string()));
    }
    let of_net = state.nis.iter().find(|ni| ni.nid.net() == nid.net());
    let tunables = of_net.map_or_else(Tunables::default, |ni| ni.tunables);
    // A net cannot be both local and the target of a route.
    state.routes.retain(|route| route.route.net != nid.net());
    forget_idle_gateways(state);
    state.nis.push(new_ni(nid, tunables));
    let names = interface.map(|name| vec![name.to_owned()]);
    names
        .into_iter()
        .for_each(|names| drop(node.facts.interfaces.insert(nid, names)));
    Ok(())
}

/// Returns an NI without any traffic or failures.
pub(crate) fn new_ni(nid: Nid, tunables: Tunables) -> NiSelection {
    NiSelection {
        nid,
        tunables,
        device: NiDevice::default(),
        lnd_timeout: None,
        fatal: false,
        up: true,
        health: Health::MAX,
        recovery: RecoverySelection::default(),
        failures: NiHealthStats::default(),
        in_flight: 0,
        sequence: 0,
    }
}

/// Returns a peer NI without any traffic or failures.
#[must_use]
pub fn new_peer_ni(nid: Nid) -> PeerNiSelection {
    PeerNiSelection {
        nid,
        health: Health::MAX,
        up: true,
        recovery: RecoverySelection::default(),
        failures: PeerHealthStats::default(),
        in_flight: 0,
        queued_bytes: 0,
        sequence: 0,
        pinned: None,
        last_alive: None,
        last_used: Time::ZERO,
        discovery: None,
    }
}

fn delete_nis(
    state: &mut SelectionState,
    what: &'static str,
    name: impl ToString,
    goes: impl Fn(&NiSelection) -> bool,
) -> Result<(), ChangeError> {
    if !state.nis.iter().any(&goes) {
        return Err(ChangeError::unknown(what, name));
    }
    state.nis.retain(|ni| !goes(ni));
    Ok(())
}

fn add_peer_nid(state: &mut SelectionState, peer: Nid, nid: Nid) -> Result<(), ChangeError> {
    if state.peers.iter().any(|one| one.nids.contains(&nid)) {
        return Err(ChangeError::Exists(nid.to_string()));
    }
    for nid in [peer, nid] {
        if !state.peer_nis.iter().any(|ni| ni.nid == nid) {
            state.peer_nis.push(new_peer_ni(nid));
        }
    }
    if let Some(known) = state.peers.iter_mut().find(|one| one.nids.contains(&peer)) {
        known.nids.push(nid);
        known.configured = true;
        return Ok(());
    }
    state.peers.push(new_peer(vec![peer, nid], true));
    Ok(())
}

/// Returns a peer to which nothing was sent.
#[must_use]
pub fn new_peer(nids: Vec<Nid>, multi_rail: bool) -> PeerSelection {
    let mut nets: Vec<NetSelection> = Vec::new();
    for net in nids.iter().map(|nid| nid.net()) {
        if !nets.iter().any(|known| known.net == net) {
            nets.push(NetSelection { net, sequence: 0 });
        }
    }
    PeerSelection {
        nids,
        multi_rail,
        configured: true,
        silent: 0,
        sequence: 0,
        nets,
    }
}

fn delete_peer_nid(state: &mut SelectionState, nid: Nid) -> Result<(), ChangeError> {
    let owner = state.peers.iter_mut().find(|peer| peer.nids.contains(&nid));
    let known = state.peer_nis.iter().any(|ni| ni.nid == nid);
    if owner.is_none() && !known {
        return Err(ChangeError::unknown("peer NID", nid));
    }
    owner
        .into_iter()
        .for_each(|peer| peer.nids.retain(|one| *one != nid));
    state.peers.retain(|peer| !peer.nids.is_empty());
    state.peer_nis.retain(|ni| ni.nid != nid);
    Ok(())
}

fn add_route(node: &mut Node, route: &Route) -> Result<(), ChangeError> {
    let Route { net, gateway, .. } = *route;
    let same = |known: &RouteSelection| known.route.net == net && known.route.gateway == gateway;
    if node.state.routes.iter().any(same) {
        return Err(ChangeError::Exists(format!(
            "a route to {net} by {gateway}"
        )));
    }
    let near = node.about(gateway);
    let _accepted = changed_core(&near, |core, now| core.add_route(*route, now))?;
    let state = &mut node.state;
    state.routes.push(RouteSelection {
        route: *route,
        up: true,
        fault: None,
        single_hop: false,
        sequence: 0,
    });
    if !state.gateways.iter().any(|known| known.nid == gateway) {
        state.gateways.push(new_gateway(gateway, true));
    }
    Ok(())
}

/// Returns a gateway that was not pinged yet.
pub(crate) fn new_gateway(nid: Nid, alive: bool) -> GatewaySelection {
    GatewaySelection {
        nid,
        alive,
        next_check: None,
        last_check: Time::ZERO,
        failures: 0,
    }
}

fn delete_route(state: &mut SelectionState, net: Net, by: Nid) -> Result<(), ChangeError> {
    let before = state.routes.len();
    state
        .routes
        .retain(|route| route.route.net != net || route.route.gateway != by);
    if state.routes.len() == before {
        return Err(ChangeError::unknown("route", format!("to {net} by {by}")));
    }
    forget_idle_gateways(state);
    Ok(())
}

fn forget_idle_gateways(state: &mut SelectionState) {
    let routes = &state.routes;
    state.gateways.retain(|gateway| {
        routes
            .iter()
            .any(|route| route.route.gateway == gateway.nid)
    });
}

fn set(state: &mut SelectionState, parameter: Parameter) -> Result<(), ChangeError> {
    match parameter {
        Parameter::HealthSensitivity(value) => {
            set_globals(state, |globals| globals.health_sensitivity = value)
        }
        Parameter::RetryCount(value) => set_globals(state, |globals| globals.retry_count = value),
        Parameter::TransactionTimeout(value) => {
            let timeout = Duration::from_secs(value.into());
            set_globals(state, |globals| globals.transaction_timeout = timeout)
        }
        Parameter::NumaRange(value) => set_globals(state, |globals| globals.numa_range = value),
        Parameter::RulePriority(index, value) => set_rule_priority(state, index, value),
        Parameter::RoutePriority(net, by, value) => {
            let mut routes = state.routes.iter_mut();
            let route = routes.find(|one| one.route.net == net && one.route.gateway == by);
            let unknown = || ChangeError::unknown("route", format!("to {net} by {by}"));
            route.ok_or_else(unknown)?.route.priority = value;
            Ok(())
        }
    }
}

/// Changes the node-wide parameters in a core, because the core checks which values may be combined and changes the
/// values that depend on others.
fn set_globals(
    state: &mut SelectionState,
    change: impl FnOnce(&mut Globals),
) -> Result<(), ChangeError> {
    let mut globals = state.config.globals;
    change(&mut globals);
    let core = Core::from_selection_state(state, Time::ZERO);
    let mut core = core.map_err(|error| ChangeError::Refused(error.to_string()))?;
    let changed = core.change_globals(globals, Time::ZERO);
    changed.map_err(|error| ChangeError::Refused(error.to_string()))?;
    state.config.globals = core.selection_state().config.globals;
    Ok(())
}

fn set_rule_priority(
    state: &mut SelectionState,
    index: usize,
    value: u32,
) -> Result<(), ChangeError> {
    let unknown = || ChangeError::unknown("rule", index);
    let rule = state.rules.get(index).ok_or_else(unknown)?.clone();
    let refused = |error: lnet_policy::PolicyError| ChangeError::Rule(error.to_string());
    let priority = Priority::new(value).ok_or_else(|| {
        ChangeError::unreadable(&value.to_string(), "a priority below 4294967295")
    })?;
    let selector = rule.selector().clone();
    let changed = match selector {
        lnet_policy::Selector::Local(local) => Rule::local(local, priority),
        lnet_policy::Selector::Remote(remote) => Rule::remote(remote, priority),
        lnet_policy::Selector::Pair { local, remote } => Rule::pair(local, remote, priority),
        lnet_policy::Selector::Router { .. } => {
            return Err(ChangeError::Rule(
                "a router rule has no priority".to_owned(),
            ));
        }
    };
    let changed = changed.map_err(refused)?.disabled(rule.is_disabled());
    let mut rules = RuleList::new();
    for (at, rule) in state.rules.rules().iter().enumerate() {
        let rule = if at == index {
            changed.clone()
        } else {
            rule.clone()
        };
        rules.add(rule, None).map_err(refused)?;
    }
    state.rules = rules;
    Ok(())
}

fn turn(node: &mut Node, switch: Switch, on: bool, peer: Nid) -> Result<(), ChangeError> {
    let state = &mut node.state;
    match switch {
        Switch::Discovery => node.facts.discovery = on,
        Switch::MultiRail => {
            let owner = state.peers.iter_mut().find(|one| one.nids.contains(&peer));
            match owner {
                Some(owner) => (owner.multi_rail, owner.configured) = (on, true),
                None => {
                    if !state.peer_nis.iter().any(|ni| ni.nid == peer) {
                        state.peer_nis.push(new_peer_ni(peer));
                    }
                    state.peers.push(new_peer(vec![peer], on));
                }
            }
        }
        Switch::Routing => state.config.routing = on,
        Switch::AvoidAsymmetric => state.config.globals.avoid_asym_router_failure = on,
        Switch::DropAsymmetric => state.config.globals.drop_asym_route = on,
    }
    Ok(())
}

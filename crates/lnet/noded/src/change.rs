//! Changes of a running node's configuration.
//!
//! [`make`] makes one change. A caller that makes several changes holds the node's lock for all of them, so that a
//! message sees the configuration before or after all of them.

use lnet_config::{Change, LndTunables, NiConfig, NiName, Tunables};
use lnet_core::{ConfigError, Core, NiId};
use lnet_policy::{PolicyError, Profile};
use lnet_types::{Net, Nid, Time};
use thiserror::Error;

use crate::managed::Configured;
use crate::setup::{self, StartError};

/// The reason why a change was not made.
#[derive(Debug, Error)]
pub(crate) enum ChangeError {
    /// An interface cannot be used.
    #[error(transparent)]
    Interface(#[from] StartError),
    /// The core rejected the change.
    #[error(transparent)]
    Core(#[from] ConfigError),
    /// The list of rules rejected the change.
    #[error(transparent)]
    Rule(#[from] PolicyError),
    /// The named net does not exist.
    #[error("there is no network {0}")]
    NoNet(Net),
    /// The named interface does not exist.
    #[error("network {0} has no such interface")]
    NoNi(Net),
}

/// Makes a change. After an error the node is as before, with two exceptions: an interface or a route whose settings
/// were to change is removed if it cannot be added with the new settings; if one of several interfaces cannot be
/// added, those added before it stay.
pub(crate) fn make(
    node: &mut Configured<'_>,
    change: &Change,
    now: Time,
) -> Result<(), ChangeError> {
    match change {
        Change::Globals(globals) => setup::change_globals(node, globals, now)?,
        Change::DelNi { net, ni } => remove(node, *net, Some(ni), now)?,
        Change::DelNet(net) => remove(node, *net, None, now)?,
        Change::AddNet(net) => {
            for ni in &net.nis {
                setup::add_nis(node, net.net, ni, now)?;
            }
        }
        Change::AddNi { net, ni } => setup::add_nis(node, *net, ni, now)?,
        Change::SetNi { net, ni } => {
            let meant = meant(node, *net, Some(&ni.name()))?;
            if meant.iter().all(|&id| is_tuned_only(node, id, ni)) {
                meant
                    .into_iter()
                    .for_each(|id| retune(node, id, &ni.lnd_tunables));
            } else {
                // Its connections use the old settings, so the interface is removed and added.
                remove(node, *net, Some(&ni.name()), now)?;
                setup::add_nis(node, *net, ni, now)?;
            }
        }
        Change::Ip2Nets(rules) => {
            for net in setup::nets_by_address(rules)? {
                make(node, &Change::AddNet(net), now)?;
            }
        }
        Change::DelRule { .. } | Change::AddRule { .. } | Change::SetRule { .. } => {
            make_rule(node, change)?;
        }
        _ => make_in_core(node, change, now)?,
    }
    Ok(())
}

fn make_in_core(node: &mut Configured<'_>, change: &Change, now: Time) -> Result<(), ConfigError> {
    let core = node.core_mut();
    match change {
        Change::DelRoute { net, gateway } => core.remove_route(*net, *gateway),
        Change::AddRoute(route) => core.add_route(setup::route(route), now),
        Change::SetRoute(route) => {
            core.remove_route(route.net, route.gateway)?;
            core.add_route(setup::route(route), now)
        }
        Change::DelPeer { primary } => {
            reject_gateway(core, *primary)?;
            core.remove_peer(*primary)
        }
        Change::DelPeerNids { primary, nids } => {
            reject_gateway(core, *primary)?;
            let peer = core.peer_with(*primary).filter(|peer| peer.configured);
            let peer = peer.ok_or(ConfigError::UnknownPeer(*primary))?;
            let has = |nid| peer.nis.iter().any(|peer_ni| peer_ni.nid == nid);
            if let Some(&foreign) = nids.iter().find(|&&nid| !has(nid)) {
                return Err(ConfigError::UnknownPeer(foreign));
            }
            let kept = peer.nis.iter().map(|peer_ni| peer_ni.nid);
            let kept: Vec<_> = kept.filter(|nid| !nids.contains(nid)).collect();
            core.remove_peer(*primary)?;
            core.add_peer(*primary, &kept, peer.multi_rail)
        }
        Change::AddPeer(peer) => {
            for &nid in &peer.nids {
                reject_gateway(core, nid)?;
            }
            match peer.nids.first() {
                Some(&primary) => core.add_peer(primary, &peer.nids, peer.multi_rail),
                None => Ok(()),
            }
        }
        Change::AddPeerNids { primary, nids } => {
            reject_gateway(core, *primary)?;
            let peer = core.peer_with(*primary);
            let multi_rail = peer.is_none_or(|peer| peer.multi_rail);
            core.add_peer(*primary, nids, multi_rail)
        }
        Change::Routing(enabled) => {
            set_routing(core, enabled.unwrap_or(false), now);
            Ok(())
        }
        Change::Buffers(buffers) => {
            core.set_router_buffers(setup::router_buffers(*buffers), now);
            Ok(())
        }
        // The other changes are made elsewhere.
        _ => Ok(()),
    }
}

/// Switches routing. A router that stops forwards until its peers know, so that no message is lost. One that starts is
/// used at once, except as the kernel 2.17, which forwards for a while before its peers learn of it.
fn set_routing(core: &mut Core, on: bool, now: Time) {
    match (on, core.globals().profile) {
        (false, _) => core.stop_routing(now),
        (true, Profile::Lustre217) => core.start_routing(now),
        (true, _) => core.set_routing(true, now),
    }
}

/// Rejects a change of a peer that is a gateway: it is a peer because of its route.
// [PEER-9]
fn reject_gateway(core: &Core, nid: Nid) -> Result<(), ConfigError> {
    match core.peer_with(nid) {
        Some(peer) if peer.gateway => Err(ConfigError::PeerIsGateway(peer.primary)),
        _ => Ok(()),
    }
}

fn make_rule(node: &mut Configured<'_>, change: &Change) -> Result<(), PolicyError> {
    let core = node.core_mut();
    match change {
        Change::DelRule { index } => core.delete_rule(*index).map(|_| ()),
        Change::AddRule { index, rule } | Change::SetRule { index, rule } => {
            core.add_rule(rule.clone(), Some(*index)).map(|_| ())
        }
        _ => Ok(()),
    }
}

/// Removes the interfaces of a net that have this name; all if there is no name.
fn remove(
    node: &mut Configured<'_>,
    net: Net,
    name: Option<&NiName>,
    now: Time,
) -> Result<(), ChangeError> {
    for id in meant(node, net, name)? {
        setup::remove_ni(node, id, now);
    }
    Ok(())
}

/// Returns the interfaces of a net that have this name, all if there is no name; at least one.
fn meant(node: &Configured<'_>, net: Net, name: Option<&NiName>) -> Result<Vec<NiId>, ChangeError> {
    let of_net = |ni: &lnet_core::NiView| ni.nid.net() == net && ni.id != NiId::LOOPBACK;
    let there: Vec<NiId> = node.core().nis().filter(of_net).map(|ni| ni.id).collect();
    if there.is_empty() {
        return Err(ChangeError::NoNet(net));
    }
    let meant: Vec<NiId> = there
        .into_iter()
        .filter(|id| name.is_none_or(|name| is_named(node, *id, name)))
        .collect();
    match (meant.is_empty(), name) {
        (false, _) => Ok(meant),
        (true, Some(name)) => labelled(node, net, name),
        (true, None) => Err(ChangeError::NoNi(net)),
    }
}

/// Returns whether the wanted settings differ from an interface's own only in those that may change while it is in
/// use.
fn is_tuned_only(node: &Configured<'_>, id: NiId, wanted: &NiConfig) -> bool {
    let Some(view) = node.core().nis().find(|ni| ni.id == id) else {
        return false;
    };
    let Some(own) = node.kept.interfaces.get(&id) else {
        return false;
    };
    let given = &wanted.tunables;
    let complete = setup::tunables(&NiConfig {
        tunables: Tunables {
            peer_timeout: given.peer_timeout.or(own.tunables.peer_timeout),
            peer_credits: given.peer_credits.or(own.tunables.peer_credits),
            peer_buffer_credits: given
                .peer_buffer_credits
                .or(own.tunables.peer_buffer_credits),
            credits: given.credits.or(own.tunables.credits),
        },
        ..NiConfig::default()
    });
    let (wanted, own) = (&wanted.lnd_tunables, &own.lnd_tunables);
    let mut others = wanted.other.iter();
    let is_kept = others.all(|(key, value)| own.other.get(key) == Some(value));
    complete == view.tunables && wanted.tos == own.tos && is_kept
}

/// Changes the LND settings of an interface; a setting that is not given stays.
pub(crate) fn retune(node: &mut Configured<'_>, id: NiId, given: &LndTunables) {
    let Some(own) = node.kept.interfaces.get(&id) else {
        return;
    };
    let own = own.lnd_tunables.clone();
    let lnd = LndTunables {
        conns_per_peer: given.conns_per_peer.or(own.conns_per_peer),
        timeout: given.timeout.or(own.timeout),
        ..own
    };
    setup::tune(node, id, &lnd);
}

/// Returns the interfaces of a net that are shown with this name although the name stands for another address.
fn labelled(node: &Configured<'_>, net: Net, name: &NiName) -> Result<Vec<NiId>, ChangeError> {
    let is_meant = |ni: &lnet_core::NiView| {
        let label = node.kept.labels.get(&ni.id);
        ni.nid.net() == net
            && name.nid.is_none()
            && label.is_some_and(|label| name.interfaces.contains(label))
    };
    let meant: Vec<NiId> = node.core().nis().filter(is_meant).map(|ni| ni.id).collect();
    if meant.is_empty() {
        return Err(ChangeError::NoNi(net));
    }
    Ok(meant)
}

/// Returns whether an interface is named. A NID names one interface; names of system interfaces name all NIs on them.
fn is_named(node: &Configured<'_>, id: NiId, name: &NiName) -> bool {
    let Some(configured) = node.kept.interfaces.get(&id) else {
        return false;
    };
    match name.nid {
        Some(nid) => configured.nid == Some(nid),
        None => configured
            .interfaces
            .iter()
            .any(|own| name.interfaces.contains(own)),
    }
}

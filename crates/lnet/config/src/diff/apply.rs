//! Changes made to a configuration.

use lnet_policy::PolicyError;
use lnet_types::{Net, Nid};
use thiserror::Error;

use super::{Change, NiName};
use crate::model::{Config, NetConfig, PeerConfig, RouteConfig};

/// Why a change cannot be made to a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// The object to remove or change does not exist.
    #[error("it does not exist: {0}")]
    NotFound(Box<Change>),
    /// The object to add exists already.
    #[error("it exists already: {0}")]
    Exists(Box<Change>),
    /// The list of rules rejects the change.
    #[error(transparent)]
    Rule(#[from] PolicyError),
}

impl Change {
    /// Makes this change to a configuration.
    ///
    /// # Errors
    ///
    /// [`ApplyError`]; the configuration is then unchanged.
    pub fn apply(&self, config: &mut Config) -> Result<(), ApplyError> {
        let is_done = match self {
            Self::Globals(globals) => {
                config.globals = **globals;
                true
            }
            Self::Ip2Nets(rules) => {
                config.ip2nets.clone_from(rules);
                true
            }
            Self::Routing(routing) => {
                config.routing = *routing;
                true
            }
            Self::Buffers(buffers) => {
                config.buffers = *buffers;
                true
            }
            Self::DelRule { index } => config.rules.delete(*index).map(|_| true)?,
            Self::AddRule { index, rule } | Self::SetRule { index, rule } => {
                config.rules.add(rule.clone(), Some(*index)).map(|_| true)?
            }
            Self::AddNet(_)
            | Self::AddNi { .. }
            | Self::AddPeer(_)
            | Self::AddPeerNids { .. }
            | Self::AddRoute(_) => return self.add(config),
            _ => self.remove_or_set(config),
        };
        if is_done {
            return Ok(());
        }
        Err(ApplyError::NotFound(Box::new(self.clone())))
    }

    /// Adds what the change adds, which must not exist yet. Returns false if the object that it
    /// belongs to does not exist.
    fn add(&self, config: &mut Config) -> Result<(), ApplyError> {
        let exists = || Err(ApplyError::Exists(Box::new(self.clone())));
        let missing = || ApplyError::NotFound(Box::new(self.clone()));
        match self {
            Self::AddNet(net) if find_net(config, net.net).is_some() => exists(),
            Self::AddNet(net) => {
                config.nets.push(net.clone());
                Ok(())
            }
            Self::AddNi { net, ni } => {
                let nis = &mut find_net(config, *net).ok_or_else(missing)?.nis;
                if nis.iter().any(|other| other.name() == ni.name()) {
                    return exists();
                }
                nis.push(ni.clone());
                Ok(())
            }
            Self::AddPeer(peer) if peer.nids.iter().any(|nid| has_nid(config, *nid)) => exists(),
            Self::AddPeer(peer) => {
                config.peers.push(peer.clone());
                Ok(())
            }
            Self::AddPeerNids { nids, .. } if nids.iter().any(|nid| has_nid(config, *nid)) => {
                exists()
            }
            Self::AddPeerNids { primary, nids } => {
                let peer = find_peer(config, *primary).ok_or_else(missing)?;
                peer.nids.extend(nids);
                Ok(())
            }
            Self::AddRoute(route) if find_route(config, route).is_some() => exists(),
            Self::AddRoute(route) => {
                config.routes.push(*route);
                Ok(())
            }
            _ => Err(missing()),
        }
    }

    /// Removes or changes an object. Returns false if the object does not exist.
    fn remove_or_set(&self, config: &mut Config) -> bool {
        match self {
            Self::DelRoute { net, gateway } => shrinks(&mut config.routes, |route| {
                (route.net, route.gateway) != (*net, *gateway)
            }),
            Self::DelPeer { primary } => {
                shrinks(&mut config.peers, |peer| peer.nids.first() != Some(primary))
            }
            Self::DelPeerNids { primary, nids } => find_peer(config, *primary)
                .is_some_and(|peer| shrinks(&mut peer.nids, |nid| !nids.contains(nid))),
            Self::DelNet(net) => shrinks(&mut config.nets, |other| other.net != *net),
            Self::DelNi { net, ni } => del_ni(config, *net, ni),
            Self::SetNi { net, ni } => find_net(config, *net)
                .and_then(|net| net.nis.iter_mut().find(|other| other.name() == ni.name()))
                .map(|found| found.clone_from(ni))
                .is_some(),
            Self::SetRoute(route) => find_route(config, route)
                .map(|found| *found = *route)
                .is_some(),
            _ => false,
        }
    }
}

/// Removes interfaces from a network. A network without interfaces stays for those that are added
/// next.
fn del_ni(config: &mut Config, net: Net, ni: &NiName) -> bool {
    find_net(config, net).is_some_and(|net| shrinks(&mut net.nis, |other| other.name() != *ni))
}

/// Keeps the items for which `stays` returns true. Returns true if an item was removed.
fn shrinks<T>(items: &mut Vec<T>, stays: impl FnMut(&T) -> bool) -> bool {
    let before = items.len();
    items.retain(stays);
    items.len() < before
}

fn find_net(config: &mut Config, net: Net) -> Option<&mut NetConfig> {
    config.nets.iter_mut().find(|other| other.net == net)
}

fn find_peer(config: &mut Config, primary: Nid) -> Option<&mut PeerConfig> {
    let mut peers = config.peers.iter_mut();
    peers.find(|peer| peer.nids.first() == Some(&primary))
}

fn has_nid(config: &Config, nid: Nid) -> bool {
    config.peers.iter().any(|peer| peer.nids.contains(&nid))
}

fn find_route<'c>(config: &'c mut Config, route: &RouteConfig) -> Option<&'c mut RouteConfig> {
    let mut routes = config.routes.iter_mut();
    routes.find(|other| (other.net, other.gateway) == (route.net, route.gateway))
}

//! Finds the parts of a document that a node already has: an import that completes a configuration adds the other
//! parts and names these.
//!
//! ```text
//!  document ─┬─ there, as the document says ──▶ named
//!            ├─ there with other settings ────▶ rejected: an edited line must not silently do nothing
//!            └─ not there ────────────────────▶ added, as by any import
//! ```

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::{Change, Config, NetConfig, NiConfig, PeerConfig, RouteConfig};
use lnet_dlc::protocol::Failure;
use lnet_policy::{Rule, RuleList};
use lnet_types::{Net, Nid};

use super::before::Before;
use super::failure;
use super::plan::comparable;

/// A document, divided into the parts that a node has and those that it lacks.
#[derive(Default)]
pub(super) struct Completion {
    /// The parts that the node lacks, with all parameters of the document.
    pub(super) missing: Config,
    /// The parts that the node has.
    there: There,
}

/// The names of the parts that the node has, in the order of the document.
#[derive(Default)]
struct There {
    interfaces: Vec<String>,
    routes: Vec<String>,
    peers: Vec<String>,
    rules: Vec<String>,
}

/// The most names of one kind that are written out; a site has tens of thousands of routes.
const NAMED_MAX: usize = 4;

/// Divides a document, whose nets have one entry for each interface. Rejects parts that the node has with other
/// settings.
pub(super) fn divide(before: &Before, document: &Config) -> Result<Completion, Failure> {
    let own = comparable(&before.config, document);
    let mut completion = Completion {
        missing: document.clone(),
        ..Completion::default()
    };
    completion.divide_nets(&own, &document.nets)?;
    completion.divide_routes(&own, &document.routes)?;
    completion.divide_peers(before, &document.peers);
    completion.divide_rules(&own, &document.rules);
    Ok(completion)
}

impl Completion {
    fn divide_nets(&mut self, own: &Config, nets: &[NetConfig]) -> Result<(), Failure> {
        self.missing.nets.clear();
        for net in nets {
            let of_own = own.nets.iter().filter(|known| known.net == net.net);
            let of_own: Vec<&NiConfig> = of_own.flat_map(|net| &net.nis).collect();
            let mut nis = Vec::new();
            for ni in &net.nis {
                match of_own.iter().find(|known| known.name() == ni.name()) {
                    None => nis.push(ni.clone()),
                    Some(known) if is_same(known, ni) => {
                        self.there.interfaces.push(name_of(net.net, ni));
                    }
                    Some(_) => {
                        let (net, ni) = (net.net, ni.clone());
                        return Err(differs(&Change::AddNi { net, ni }, "net set, or net del"));
                    }
                }
            }
            if !nis.is_empty() || net.nis.is_empty() {
                self.missing.nets.push(NetConfig { net: net.net, nis });
            }
        }
        Ok(())
    }

    fn divide_routes(&mut self, own: &Config, routes: &[RouteConfig]) -> Result<(), Failure> {
        let known: BTreeMap<(Net, Nid), RouteConfig> = own
            .routes
            .iter()
            .map(|route| ((route.net, route.gateway), *route))
            .collect();
        self.missing.routes.clear();
        for route in routes {
            match known.get(&(route.net, route.gateway)) {
                None => self.missing.routes.push(*route),
                Some(known) if known == route => {
                    let name = format!("{} by {}", route.net, route.gateway);
                    self.there.routes.push(name);
                }
                Some(_) => return Err(differs(&Change::AddRoute(*route), "route del")),
            }
        }
        Ok(())
    }

    /// Divides the peers. A peer is there if it has all the NIDs, or is the gateway of a route; missing NIDs are
    /// added.
    fn divide_peers(&mut self, before: &Before, peers: &[PeerConfig]) {
        let known = before.config.peers.iter().chain(&before.gateways);
        let known: BTreeMap<Nid, &PeerConfig> = known
            .flat_map(|peer| peer.nids.iter().map(move |&nid| (nid, peer)))
            .collect();
        self.missing.peers.clear();
        for peer in peers {
            let Some(&primary) = peer.nids.first() else {
                continue;
            };
            let has_all = known.get(&primary).is_some_and(|known| {
                let nids: BTreeSet<&Nid> = known.nids.iter().collect();
                known.multi_rail == peer.multi_rail
                    && known.nids.first() == Some(&primary)
                    && peer.nids.iter().all(|nid| nids.contains(nid))
            });
            if has_all {
                self.there.peers.push(primary.to_string());
            } else {
                self.missing.peers.push(peer.clone());
            }
        }
    }

    fn divide_rules(&mut self, own: &Config, rules: &RuleList) {
        let is_known = |rule: &Rule| own.rules.rules().contains(rule);
        let (there, missing): (Vec<&Rule>, Vec<&Rule>) =
            rules.rules().iter().partition(|rule| is_known(rule));
        self.there.rules = there.iter().map(ToString::to_string).collect();
        let mut list = RuleList::default();
        for rule in missing {
            // Every rule of a list can be added to another list.
            if list.add(rule.clone(), None).is_err() {
                return;
            }
        }
        self.missing.rules = list;
    }

    /// Reports what was there, one line for each kind, and what is new; an empty text if nothing was there.
    pub(super) fn report(&self, changes: &[Change]) -> String {
        let kinds = [
            ("interface", "interfaces", &self.there.interfaces),
            ("route", "routes", &self.there.routes),
            ("peer", "peers", &self.there.peers),
            ("rule", "rules", &self.there.rules),
        ];
        let there = kinds.iter().filter(|(_, _, names)| !names.is_empty());
        let mut lines: Vec<String> = there
            .map(|(one, many, names)| {
                let kind = if names.len() == 1 { one } else { many };
                format!(
                    "exists already: {} {kind}: {}",
                    names.len(),
                    some_of(names, "; ")
                )
            })
            .collect();
        if lines.is_empty() {
            return String::new();
        }
        let new: Vec<String> = changes
            .iter()
            .take(NAMED_MAX + 1)
            .map(ToString::to_string)
            .collect();
        lines.push(match changes.len() {
            0 => "nothing new".to_owned(),
            1..=NAMED_MAX => format!("new: {}", new.join("; ")),
            all => format!(
                "new: {}; and {} more",
                new[..NAMED_MAX].join("; "),
                all - NAMED_MAX
            ),
        });
        lines.join("\n") + "\n"
    }
}

fn some_of(names: &[String], between: &str) -> String {
    let some = names.iter().take(NAMED_MAX).map(String::as_str);
    let some = some.collect::<Vec<_>>().join(between);
    if names.len() > NAMED_MAX {
        format!("{some}{between}…")
    } else {
        some
    }
}

fn name_of(net: Net, ni: &NiConfig) -> String {
    match ni.nid {
        Some(nid) => nid.to_string(),
        None => format!("{} of {net}", ni.interfaces.join(",")),
    }
}

/// Returns whether the settings of two interfaces are the same. Ignores those that a node may show differently: the
/// LND's own choice of connections, and the timeout, since it may follow the node's.
fn is_same(own: &NiConfig, given: &NiConfig) -> bool {
    let normal = |ni: &NiConfig| {
        let mut ni = ni.clone();
        let lnd = &mut ni.lnd_tunables;
        lnd.timeout = None;
        lnd.conns_per_peer = lnd.conns_per_peer.filter(|&count| count > 1);
        ni.cpts.clear();
        ni
    };
    let mut own = normal(own);
    let wanted = normal(given);
    // A node shows more settings of its LND than a document gives.
    let others = &mut own.lnd_tunables.other;
    others.retain(|key, _| wanted.lnd_tunables.other.contains_key(key));
    own == wanted
}

fn differs(change: &Change, remedy: &str) -> Failure {
    let descr = format!("{change}: it exists with other settings ({remedy} first)");
    failure::of_change(change, -EEXIST, &descr)
}

const EEXIST: i32 = 17;

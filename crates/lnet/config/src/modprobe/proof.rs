//! Proves that a document is equivalent to options: it gives the same NIs, rules and routes in the
//! same order, the same settings of interfaces, and the same forwarding, buffers and parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lnet_types::{Net, Nid};
use thiserror::Error;

use super::{ConvertDefaults, ModuleOptions, NetworkOption, lnd};
use crate::model::Config;

/// The objects that a document and options have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// NIs, by their interfaces.
    pub nis: usize,
    /// Rules of `ip2nets`.
    pub rules: usize,
    /// Routes.
    pub routes: usize,
}

/// The first difference between a document and options.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the YAML does not mean the same as the options: {what}: options {options}, YAML {yaml}")]
pub struct Unproved {
    what: &'static str,
    options: String,
    yaml: String,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.nis, "NI"),
            (self.rules, "rule of ip2nets"),
            (self.routes, "route"),
        ];
        let named = parts.into_iter().filter(|(count, _)| *count > 0);
        let named = named.map(|(count, what)| match (count, what.split_once(' ')) {
            (1, _) => format!("1 {what}"),
            (_, Some((noun, rest))) => format!("{count} {noun}s {rest}"),
            (_, None) => format!("{count} {what}s"),
        });
        let named: Vec<String> = named.collect();
        if named.is_empty() {
            return f.write_str("no NIs, rules or routes");
        }
        f.write_str(&named.join(", "))
    }
}

/// An interface of a network, with the CPTs that serve it.
type Placed = (Net, String, Vec<u32>);

impl ModuleOptions {
    /// Compares these options with a configuration that was read back from a document.
    ///
    /// The comparison does not use [`ModuleOptions::to_config`]. A conversion may leave out routes,
    /// because the nodes of a site share one list; such a route counts only if the document has it.
    ///
    /// # Errors
    ///
    /// [`Unproved`] names the first difference.
    pub fn prove(&self, read: &Config, defaults: &ConvertDefaults) -> Result<Proof, Unproved> {
        let nis = self.placed(defaults);
        same("NIs", &nis, &placed(read))?;
        let rules = self.specs();
        let read_rules = read
            .ip2nets
            .iter()
            .map(|rule| (rule.spec(), texts(&rule.patterns)));
        same("ip2nets rules", &rules, &read_rules.collect::<Vec<_>>())?;
        let routes: Vec<(Net, Nid, Option<u8>, u32)> = read
            .routes
            .iter()
            .map(|route| (route.net, route.gateway, route.hop, route.priority))
            .collect();
        let given = self.given_routes(defaults);
        let kept: BTreeSet<(Net, Nid)> = routes.iter().map(|route| (route.0, route.1)).collect();
        let mut seen = BTreeSet::new();
        let given = given.into_iter().filter(|route| {
            let key = (route.0, route.1);
            kept.contains(&key) && seen.insert(key)
        });
        same("routes", &given.collect::<Vec<_>>(), &routes)?;
        let tuned = tuned(read);
        let mut of_lnds = BTreeMap::new();
        let given = tuned.iter().map(|(net, _)| {
            let of_lnd = of_lnds.entry(net.lnd);
            let given = of_lnd.or_insert_with(|| lnd::given(self, net.lnd));
            (*net, given.clone())
        });
        same("settings of interfaces", &given.collect::<Vec<_>>(), &tuned)?;
        same("forwarding", &[self.forwarding], &[read.routing])?;
        same("buffers of a router", &[self.buffers], &[read.buffers])?;
        same("parameters", &[self.globals], &[read.globals])?;
        Ok(Proof {
            nis: nis.len(),
            rules: rules.len(),
            routes: routes.len(),
        })
    }

    fn placed(&self, defaults: &ConvertDefaults) -> Vec<Placed> {
        let mut placed = Vec::new();
        for network in &self.networks {
            if network.interfaces.is_empty() {
                let name = defaults.interface.clone().unwrap_or_default();
                placed.push((network.net, name, network.cpts.clone()));
            }
            placed.extend(network.interfaces.iter().map(|interface| {
                let own = !interface.cpts.is_empty();
                let cpts = if own { &interface.cpts } else { &network.cpts };
                (network.net, interface.name.clone(), cpts.clone())
            }));
        }
        placed
    }

    /// Every rule, as its network with interfaces, and its patterns. Interfaces that a later rule adds for the same
    /// addresses belong to the first.
    fn specs(&self) -> Vec<(String, Vec<String>)> {
        let mut rules: Vec<GivenRule<'_>> = Vec::new();
        let mut firsts: BTreeMap<_, usize> = BTreeMap::new();
        for entry in &self.ip2nets {
            for network in &entry.networks {
                let rule = GivenRule {
                    network,
                    names: network.interfaces.iter().map(|one| &*one.name).collect(),
                    patterns: texts(&entry.patterns),
                };
                let addresses: BTreeSet<String> = rule.patterns.iter().cloned().collect();
                let key = (network.net, network.cpts.as_slice(), addresses);
                let first = match rule.names.is_empty() {
                    true => rules.len(),
                    false => *firsts.entry(key).or_insert(rules.len()),
                };
                match rules.get_mut(first) {
                    Some(earlier) => {
                        let is_new = |name: &&str| !earlier.names.contains(name);
                        let new: Vec<&str> = rule.names.into_iter().filter(is_new).collect();
                        earlier.names.extend(new);
                    }
                    None => rules.push(rule),
                }
            }
        }
        let specs = rules.into_iter().map(|rule| {
            let names = match rule.names.as_slice() {
                [] => String::new(),
                names => format!("({})", names.join(",")),
            };
            (format!("{}{names}", rule.network.net), rule.patterns)
        });
        specs.collect()
    }

    /// Every route that the options name, in their order. Expressions that cannot be expanded were
    /// rejected before.
    fn given_routes(&self, defaults: &ConvertDefaults) -> Vec<(Net, Nid, Option<u8>, u32)> {
        let mut routes = Vec::new();
        for entry in &self.routes {
            let nets = entry
                .nets
                .iter()
                .flat_map(|net| net.expand(MAX).unwrap_or_default());
            for net in nets {
                for gateway in &entry.gateways {
                    let hop = entry.hop.or(defaults.hop);
                    let priority = gateway.priority.unwrap_or(0);
                    let nids = gateway.nids.expand(MAX).unwrap_or_default();
                    routes.extend(nids.into_iter().map(|nid| (net, nid, hop, priority)));
                }
            }
        }
        routes
    }
}

/// A network of `ip2nets`, with all interfaces that the options give it for these addresses.
struct GivenRule<'o> {
    network: &'o NetworkOption,
    names: Vec<&'o str>,
    patterns: Vec<String>,
}

/// The most routes that one entry may expand to.
const MAX: usize = 4096;

fn texts<T: ToString>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

fn placed(config: &Config) -> Vec<Placed> {
    let nis = config
        .nets
        .iter()
        .flat_map(|net| net.nis.iter().map(move |ni| (net.net, ni)));
    let placed = nis.flat_map(|(net, ni)| {
        let names = ni.interfaces.iter();
        names.map(move |name| (net, name.clone(), ni.cpts.clone()))
    });
    placed.collect()
}

/// The settings of each interface and of each rule of `ip2nets`, by the names of options.
fn tuned(config: &Config) -> Vec<(Net, BTreeMap<String, String>)> {
    let nis = config.nets.iter().flat_map(|net| {
        let nis = net.nis.iter();
        nis.map(|ni| (net.net, &ni.tunables, &ni.lnd_tunables))
    });
    let rules = config.ip2nets.iter();
    let rules = rules.map(|rule| (rule.net, &rule.tunables, &rule.lnd_tunables));
    let all = nis.chain(rules);
    all.map(|(net, tunables, own)| (net, lnd::had(net.lnd, tunables, own)))
        .collect()
}

/// Returns an error for the first difference of two lists.
fn same<T: PartialEq + fmt::Debug>(
    what: &'static str,
    options: &[T],
    yaml: &[T],
) -> Result<(), Unproved> {
    let longest = options.len().max(yaml.len());
    let differing = (0..longest).find(|&at| options.get(at) != yaml.get(at));
    let Some(at) = differing else { return Ok(()) };
    let shown =
        |item: Option<&T>| item.map_or_else(|| "nothing".to_owned(), |item| format!("{item:?}"));
    Err(Unproved {
        what,
        options: shown(options.get(at)),
        yaml: shown(yaml.get(at)),
    })
}

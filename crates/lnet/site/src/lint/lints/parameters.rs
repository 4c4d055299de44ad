//! Compares the parameters of nodes of one kind: nodes with the same nets that all forward, or all do not.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::{Globals, LndTunables, PARAMETERS, Step, Tunables};
use lnet_types::{LndType, Net};

use super::globals::is_default_lnd_timeout;
use super::kinds::kinds;
use super::site::usual;
use crate::lint::catalogue::PARAMETERS_DIFFER;
use crate::lint::finding::Finding;
use crate::lint::node::Node;
use crate::lint::source::Path;

/// A parameter of a node, with its value and its place.
struct Parameter {
    name: String,
    value: u32,
    path: Path,
}

impl Parameter {
    /// Returns true if the value and another one are the defaults of two releases: an update of some nodes changes
    /// the value without a change of their configurations.
    fn is_default_as(&self, node: &Node<'_>, other: u32) -> bool {
        let globals = &node.document().globals;
        self.path.last() == Some(&Step::Key("timeout"))
            && is_default_lnd_timeout(globals, self.value)
            && is_default_lnd_timeout(globals, other)
    }
}

/// Reports each node whose parameter differs from that of most nodes of its kind. If two values are equally
/// frequent, the value of the first document is taken as the usual one.
pub(super) fn parameters_differ(nodes: &[Node<'_>]) -> Vec<Finding> {
    let kinds = kinds(nodes);
    kinds.iter().flat_map(|alike| differences(alike)).collect()
}

fn differences(alike: &[&Node<'_>]) -> Vec<Finding> {
    if alike.len() < 2 {
        return Vec::new();
    }
    let all: Vec<(&Node<'_>, Vec<Parameter>)> =
        alike.iter().map(|&node| (node, parameters(node))).collect();
    let nodes: usize = alike.iter().map(|node| node.count).sum();
    let mut by_name: BTreeMap<&str, Vec<(u32, usize)>> = BTreeMap::new();
    for (node, parameters) in &all {
        for parameter in parameters {
            let values = by_name.entry(&parameter.name).or_default();
            values.push((parameter.value, node.count));
        }
    }
    let most: BTreeMap<&str, (u32, usize)> = by_name
        .into_iter()
        .filter_map(|(name, values)| {
            let most = usual(values.iter().copied())?;
            let with = values.iter().filter(|(value, _)| *value == most);
            let count = with.map(|(_, nodes)| nodes).sum();
            Some((name, (most, count)))
        })
        .collect();
    let mut found = Vec::new();
    for (node, parameters) in &all {
        for parameter in parameters {
            let Parameter { name, value, path } = parameter;
            let usual = most.get(name.as_str());
            let usual = usual.filter(|(most, _)| most != value);
            let Some((most, count)) =
                usual.filter(|(most, _)| !parameter.is_default_as(node, *most))
            else {
                continue;
            };
            let reason = format!(
                "{name} is {value}, and {most} on {count} of the {nodes} nodes with these networks and this role"
            );
            let fix = format!("{name}: {most}, or the same value on all of them");
            found.push(node.finding(&PARAMETERS_DIFFER, path, reason, fix));
        }
    }
    found
}

fn parameters(node: &Node<'_>) -> Vec<Parameter> {
    let globals = globals(&node.document().globals);
    let globals = globals.map(|(key, value)| Parameter {
        name: key.to_owned(),
        value,
        path: node.parameter(key),
    });
    // For a rejected value the default must not be assumed.
    let globals = globals.filter(|one| !node.is_rejected(&one.path));
    let mut parameters: Vec<Parameter> = globals.collect();
    let mut seen = BTreeSet::new();
    for ni in node.nis.iter().filter(|ni| seen.insert(ni.net)) {
        if node.is_rejected(ni.path.get(..2).unwrap_or(&ni.path)) {
            continue;
        }
        let Some(show) = ni.show else { continue };
        let of_lnd = lnd_tunables(&show.config.lnd_tunables);
        let of_lnd = of_lnd.map(|(key, value)| ("lnd tunables", key, value));
        let of_ni = tunables(ni.net, &show.config.tunables);
        let of_ni = of_ni.map(|(key, value)| ("tunables", key, value));
        for (section, key, value) in of_ni.into_iter().chain(of_lnd) {
            // A value that the LND itself chooses is not known.
            let Some(value) = value else { continue };
            let steps = [Step::Key(section), Step::Key(key)];
            parameters.push(Parameter {
                name: format!("{key} of {}", ni.net),
                value,
                path: [ni.path.as_slice(), &steps].concat(),
            });
        }
    }
    parameters
}

/// Returns the value of each parameter that `lnetctl` prints and that has an effect: the value in the document, or the
/// default of kernels since 2.16.
fn globals(globals: &Globals) -> impl Iterator<Item = (&'static str, u32)> + '_ {
    let counts = |parameter: &&lnet_config::Parameter| {
        parameter.is_printed && parameter.name != "router_sensitivity"
    };
    PARAMETERS.iter().filter(counts).map(|parameter| {
        let value = parameter.get(globals).unwrap_or(parameter.default);
        (parameter.name, value)
    })
}

/// Returns settings of the LND that both ends of a connection must agree on, or that hide a slow node if they
/// differ. A value that the LND itself chooses is `None`. `map-on-demand-differs` compares nodes of all roles.
fn lnd_tunables(lnd: &LndTunables) -> [(&'static str, Option<u32>); 5] {
    let other = |key: &str| lnd.other.get(key).and_then(|text| text.parse().ok());
    [
        ("conns_per_peer", lnd.conns_per_peer.map(u32::from)),
        ("timeout", lnd.timeout),
        ("concurrent_sends", other("concurrent_sends")),
        ("peercredits_hiw", other("peercredits_hiw")),
        ("ntx", other("ntx")),
    ]
}

/// Returns the value of each tunable: the value in the document, or the default of the socket and IB LNDs.
/// `queue-depth-differs` compares the `peer_credits` of o2ib nets on nodes of all roles.
// [CONF-22]
fn tunables(net: Net, tunables: &Tunables) -> [(&'static str, Option<u32>); 4] {
    let known = matches!(net.lnd, LndType::TCP | LndType::O2IB);
    let or = |value: Option<u32>, default| value.or(known.then_some(default));
    let depth = or(tunables.peer_credits, 8).filter(|_| net.lnd != LndType::O2IB);
    [
        ("peer_timeout", or(tunables.peer_timeout, 180)),
        ("peer_credits", depth),
        ("peer_buffer_credits", or(tunables.peer_buffer_credits, 0)),
        ("credits", or(tunables.credits, 256)),
    ]
}

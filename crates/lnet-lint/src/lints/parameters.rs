//! Parameters that differ among nodes of one kind: those that have the same networks and do, or do not, forward.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::{Globals, Step, Tunables};
use lnet_types::Net;

use super::site::usual;
use crate::catalogue::PARAMETERS_DIFFER;
use crate::finding::Finding;
use crate::node::Node;
use crate::source::Path;

/// What makes nodes comparable.
type Kind = (bool, BTreeSet<Net>);

/// A parameter of a node. `None` for what the LND chooses.
struct Parameter {
    name: String,
    value: Option<u32>,
    path: Path,
}

/// A node that is unlike most of its kind. Of two equally frequent values the first file's counts as usual.
pub(super) fn parameters_differ(nodes: &[Node<'_>]) -> Vec<Finding> {
    let mut kinds: BTreeMap<Kind, Vec<&Node<'_>>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| !node.is_partial()) {
        let kind = (node.is_router(), node.nets().into_iter().collect());
        kinds.entry(kind).or_default().push(node);
    }
    kinds
        .values()
        .flat_map(|alike| differences(alike))
        .collect()
}

fn differences(alike: &[&Node<'_>]) -> Vec<Finding> {
    if alike.len() < 2 {
        return Vec::new();
    }
    let all: Vec<(&Node<'_>, Vec<Parameter>)> =
        alike.iter().map(|&node| (node, parameters(node))).collect();
    let mut by_name: BTreeMap<&str, Vec<Option<u32>>> = BTreeMap::new();
    for parameter in all.iter().flat_map(|(_, parameters)| parameters) {
        by_name
            .entry(&parameter.name)
            .or_default()
            .push(parameter.value);
    }
    let most: BTreeMap<&str, Option<u32>> = by_name
        .into_iter()
        .filter_map(|(name, values)| Some((name, usual(values.into_iter())?)))
        .collect();
    let mut found = Vec::new();
    for (node, parameters) in &all {
        for Parameter { name, value, path } in parameters {
            let Some(&most) = most.get(name.as_str()).filter(|most| *most != value) else {
                continue;
            };
            let (here, there) = (shown(*value), shown(most));
            let reason = format!(
                "{name} is {here}, and {there} on most nodes with the same networks and role ({} in all)",
                alike.len()
            );
            let fix = format!("{name}: {there}, or the same value on all of them");
            found.push(node.finding(&PARAMETERS_DIFFER, path, reason, fix));
        }
    }
    found
}

fn shown(value: Option<u32>) -> String {
    value.map_or_else(|| "the LND's choice".to_owned(), |value| value.to_string())
}

fn parameters(node: &Node<'_>) -> Vec<Parameter> {
    let globals = globals(&node.document().globals);
    let globals = globals.into_iter().map(|(key, value)| Parameter {
        name: key.to_owned(),
        value: Some(value),
        path: node.parameter(key),
    });
    let mut parameters: Vec<Parameter> = globals.collect();
    let mut seen = BTreeSet::new();
    for ni in node.nis.iter().filter(|ni| seen.insert(ni.net)) {
        let Some(show) = ni.show else { continue };
        let lnd = show.config.lnd_tunables.conns_per_peer.map(u32::from);
        let of_lnd = ("lnd tunables", "conns_per_peer", lnd);
        let of_ni = tunables(&show.config.tunables);
        let of_ni = of_ni.map(|(key, value)| ("tunables", key, value));
        for (section, key, value) in of_ni.into_iter().chain([of_lnd]) {
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

/// What is set, or else the default of kernels since 2.16 (lnet-selection, sections 3.1 and 10.1).
fn globals(globals: &Globals) -> [(&'static str, u32); 10] {
    [
        ("numa_range", globals.numa_range.unwrap_or(0)),
        ("max_interfaces", globals.max_interfaces.unwrap_or(200)),
        ("discovery", globals.discovery.unwrap_or(true).into()),
        (
            "drop_asym_route",
            globals.drop_asym_route.unwrap_or(false).into(),
        ),
        ("retry_count", globals.retry_count.unwrap_or(2)),
        (
            "transaction_timeout",
            globals.transaction_timeout.unwrap_or(150),
        ),
        (
            "health_sensitivity",
            globals.health_sensitivity.unwrap_or(100),
        ),
        ("response_tracking", globals.response_tracking.unwrap_or(3)),
        ("recovery_limit", globals.recovery_limit.unwrap_or(0)),
        (
            "max_recovery_ping_interval",
            globals.max_recovery_ping_interval.unwrap_or(900),
        ),
    ]
}

const fn tunables(tunables: &Tunables) -> [(&'static str, Option<u32>); 4] {
    [
        ("peer_timeout", tunables.peer_timeout),
        ("peer_credits", tunables.peer_credits),
        ("peer_buffer_credits", tunables.peer_buffer_credits),
        ("credits", tunables.credits),
    ]
}

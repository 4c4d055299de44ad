//! Compares the planned configuration of a node with its running one, and lists the `lnetctl`
//! commands that remove the differences.
//!
//! The order of the commands keeps the node usable: parameters, interfaces of nets, peers, routes to add,
//! routes to change, routes to remove, selection rules. Nets and peers outside the plan stay, because they
//! may serve another purpose. Interfaces, routes and rules outside the plan are removed if they concern a
//! net of the plan.

mod nets;
mod peers;

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::{Config, Globals, RouteConfig};
use lnet_policy::{Rule, RuleList};
use lnet_types::expr::Descriptor;
use lnet_types::{Net, Nid};

use crate::config::Timing;

/// A difference between two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What differs.
    pub what: String,
    /// The commands to run; empty if there is none, or nothing should be done.
    pub commands: Vec<String>,
    /// Whether the node is as planned all the same: it has something that the plan does not concern.
    pub is_left_alone: bool,
}

impl Difference {
    /// A difference that these commands remove; without commands, one that no command removes.
    fn new(what: String, commands: Vec<String>) -> Self {
        Self {
            what,
            commands,
            is_left_alone: false,
        }
    }

    /// Something outside the plan that stays.
    fn left_alone(what: String) -> Self {
        Self {
            is_left_alone: true,
            ..Self::new(what + "; left alone", Vec::new())
        }
    }
}

/// Compares the planned configuration with its selection rules with the running one, such as an
/// export. Settings that an export does not mention have LNet's defaults: discovery on, asymmetric
/// routes kept, no routing, a transaction timeout of 150 s. The intervals between pings of gateways,
/// which `lnetctl` does not export, are compared if both configurations have them. Interfaces are compared
/// by NID, or by name where one configuration has no NID; of tunables those that the plan sets; of peers
/// those that the plan has.
#[must_use]
pub fn differences(planned: &Config, running: &Config) -> Vec<Difference> {
    let mut found = Vec::new();
    parameters(planned, running, &mut found);
    nets::nets(planned, running, &mut found);
    peers::peers(planned, running, &mut found);
    routes(planned, running, &mut found);
    rules(planned, running, &mut found);
    found
}

fn parameters(planned: &Config, running: &Config, found: &mut Vec<Difference>) {
    let flags = [
        (
            "discovery",
            planned.globals.discovery,
            running.globals.discovery,
            true,
        ),
        (
            "drop_asym_route",
            planned.globals.drop_asym_route,
            running.globals.drop_asym_route,
            false,
        ),
        ("routing", planned.routing, running.routing, false),
    ];
    for (name, wanted, is, default) in flags {
        let is = is.unwrap_or(default);
        if let Some(wanted) = wanted.filter(|&wanted| wanted != is) {
            found.push(parameter(
                name,
                u32::from(wanted),
                &u32::from(is).to_string(),
            ));
        }
    }
    at_load(planned, running, found);
    let running_timeout = running.globals.transaction_timeout;
    let sizes = [
        (
            "transaction_timeout",
            planned.globals.transaction_timeout,
            running_timeout.or(Some(Timing::LNET.transaction_timeout)),
        ),
        ("tiny_buffers", planned.buffers.tiny, running.buffers.tiny),
        (
            "small_buffers",
            planned.buffers.small,
            running.buffers.small,
        ),
        (
            "large_buffers",
            planned.buffers.large,
            running.buffers.large,
        ),
    ];
    for (name, wanted, is) in sizes {
        if let Some(wanted) = wanted.filter(|_| wanted != is) {
            let is = is.map_or("not set".to_owned(), |running| running.to_string());
            found.push(parameter(name, wanted, &is));
        }
    }
}

/// Compares parameters that no command sets on a node that runs.
fn at_load(planned: &Config, running: &Config, found: &mut Vec<Difference>) {
    type Of = fn(&Globals) -> Option<u32>;
    let parameters: [(&str, Of); 3] = [
        ("alive_router_check_interval", |all| {
            all.alive_router_check_interval
        }),
        ("router_ping_timeout", |all| all.router_ping_timeout),
        ("avoid_asym_router_failure", |all| {
            all.avoid_asym_router_failure.map(u32::from)
        }),
    ];
    for (name, of) in parameters {
        if let (Some(wanted), Some(is)) = (of(&planned.globals), of(&running.globals))
            && wanted != is
        {
            let what = format!(
                "{name} is {is}, planned {wanted}; no command sets it: change the file of module options or the \
                 node's document, and load the module or start the node again"
            );
            found.push(Difference::new(what, Vec::new()));
        }
    }
}

fn parameter(name: &str, wanted: u32, is: &str) -> Difference {
    Difference::new(
        format!("{name} is {is}, planned {wanted}"),
        vec![format!("lnetctl set {name} {wanted}")],
    )
}

/// Compares the selection rules. The commands first remove rules and then add rules at their places.
fn rules(planned: &Config, running: &Config, found: &mut Vec<Difference>) {
    let (wanted, is) = (planned.rules.rules(), running.rules.rules());
    let nets = planned.nets.iter().map(|net| net.net);
    let nets: BTreeSet<Net> = nets
        .chain(planned.routes.iter().map(|route| route.net))
        .collect();
    let left_alone = is
        .iter()
        .filter(|rule| !wanted.contains(rule) && !concerns(rule, &nets));
    let left_alone = left_alone.count();
    let mut kept: Vec<&Rule> = Vec::new();
    let mut removed = Vec::new();
    for (index, rule) in is.iter().enumerate() {
        let is_planned = wanted.contains(rule);
        let is_in_order = left_alone > 0
            || kept
                .last()
                .is_none_or(|last| place(wanted, last) < place(wanted, rule));
        if is_planned && is_in_order {
            kept.push(rule);
            continue;
        }
        let what = match is_planned {
            true => "is not in the planned order",
            false if concerns(rule, &nets) => "is not in the plan",
            false => {
                let what = format!("rule {rule} concerns no net of the plan");
                found.push(Difference::left_alone(what));
                continue;
            }
        };
        removed.push(Difference::new(
            format!("rule {rule} {what}"),
            vec![format!("lnetctl udsp del --idx {index}")],
        ));
    }
    // The highest index comes first, so that the others stay right.
    removed.reverse();
    found.append(&mut removed);
    for (index, rule) in wanted.iter().enumerate() {
        if !kept.contains(&rule) {
            // With rules that are left alone the place among all rules does not matter.
            let place = match left_alone {
                0 if index < RuleList::MAX_LEN => format!(" --idx {index}"),
                _ => String::new(),
            };
            found.push(Difference::new(
                format!("no rule {rule}"),
                vec![format!("lnetctl udsp add {rule}{place}")],
            ));
        }
    }
}

fn place(rules: &[Rule], rule: &Rule) -> Option<usize> {
    rules.iter().position(|other| other == rule)
}

/// Returns whether a rule can choose among paths to one of these nets.
fn concerns(rule: &Rule, nets: &BTreeSet<Net>) -> bool {
    let mut descriptors = rule.selector().descriptors().into_iter().flatten();
    descriptors.any(|descriptor| {
        let expression = match descriptor {
            Descriptor::Net(net) => net,
            Descriptor::Nid(nid) => nid.net(),
        };
        nets.iter().any(|&net| expression.matches(net))
    })
}

fn routes(planned: &Config, running: &Config, found: &mut Vec<Difference>) {
    let by_way = |config: &Config| -> BTreeMap<(Net, Nid), RouteConfig> {
        let routes = config.routes.iter().rev();
        routes
            .map(|route| ((route.net, route.gateway), *route))
            .collect()
    };
    let (wanted, is) = (by_way(planned), by_way(running));
    let mut changed = Vec::new();
    for route in &planned.routes {
        match is.get(&(route.net, route.gateway)) {
            None => found.push(Difference::new(
                format!("no route to {} by {}", route.net, route.gateway),
                vec![add(route)],
            )),
            Some(other) if other != route => changed.push(Difference::new(
                format!(
                    "{} by {}: {}, planned {}",
                    route.net,
                    route.gateway,
                    values(other),
                    values(route)
                ),
                vec![delete(other), add(route)],
            )),
            Some(_) => {}
        }
    }
    found.append(&mut changed);
    let nets: BTreeSet<Net> = planned.routes.iter().map(|route| route.net).collect();
    let is_planned = |route: &RouteConfig| wanted.contains_key(&(route.net, route.gateway));
    for route in running.routes.iter().filter(|route| !is_planned(route)) {
        let way = format!("{} by {}", route.net, route.gateway);
        found.push(match nets.contains(&route.net) {
            true => Difference::new(format!("{way} is not in the plan"), vec![delete(route)]),
            false => {
                Difference::left_alone(format!("{way} leads to a net that is not in the plan"))
            }
        });
    }
}

fn values(route: &RouteConfig) -> String {
    let hop = route
        .hop
        .map_or("no hop".to_owned(), |hop| format!("hop {hop}"));
    format!("{hop}, priority {}", route.priority)
}

fn add(route: &RouteConfig) -> String {
    let hop = route
        .hop
        .map_or(String::new(), |hop| format!(" --hop {hop}"));
    format!(
        "lnetctl route add --net {} --gateway {}{hop} --priority {}",
        route.net, route.gateway, route.priority
    )
}

fn delete(route: &RouteConfig) -> String {
    format!(
        "lnetctl route del --net {} --gateway {}",
        route.net, route.gateway
    )
}

//! Reads the description of a site with chains of routers.
//!
//! ```yaml
//! site: laboratory
//! rates: "assumed: 100 Gbit/s"      # optional: where rates come from: published, measured or assumed, and the source
//! groups:
//!   - nodes: cn[1-3]                # a host list
//!     role: client                  # client, router or server
//!     on:                           # one interface of each node, on each of its nets
//!       - {net: o2ib1, first: 192.168.128.101, interface: ib0, rate: 12.5}     # rate: GB/s of a node there
//!   - nodes: cr[4-5]
//!     role: router
//!     on:
//!       - {net: o2ib1, first: 192.168.128.4, interface: ib0, rate: 12.5}
//!       - net: o2ib100
//!         first: 172.9.2.14
//!         interface: san0
//!         rate: 25
//!         tunables: {peer_credits: 32, credits: 1024}       # as in a configuration
//!         lnd-tunables: {peercredits_hiw: 16, conns_per_peer: 4}
//! ```

use std::collections::BTreeSet;
use std::fmt::Write;

use lnet_config::NetConfig;
use lnet_types::{Net, Nid};

use crate::chain::{Chain, Group, Side};
use crate::config::NodeRole;
use crate::input::fields::{Fields, items, parse, rate_source, text};
use crate::input::yaml::{self, Node, Value};
use crate::input::{NODE_NAME, fits, hosts, is_file_name, is_node_name};
use crate::problem::{InputError, Problems, Reason};
use crate::rates::{RATE, RateSource, is_rate};

/// Most nodes of a site.
const MAX_NODES: usize = 1 << 22;

/// Reads the description of a site.
///
/// # Errors
///
/// Everything that is wrong with the description: invalid YAML, unknown or missing keys, names and
/// NIDs that occur twice, and routers that are not on two nets at least.
pub fn read_chain(file: &str, source: &str) -> Result<Chain, InputError> {
    let mut problems = Problems::new(file);
    let mut chain = Chain {
        name: String::new(),
        rates: RateSource::unnamed(),
        groups: Vec::new(),
    };
    if !fits(&mut problems, source) {
        return problems.into_result(chain);
    }
    match yaml::load(source) {
        Ok(root) => site(&root, &mut chain, &mut problems),
        Err(yaml::NotYaml { line, reason }) => problems.add(line, Reason::Yaml(reason)),
    }
    problems.into_result(chain)
}

fn site(root: &Node<'_>, chain: &mut Chain, problems: &mut Problems) {
    let mut fields = Fields::of(root, "the document", problems);
    let name = fields.required("site", problems);
    let name = name.and_then(|node| text(node, "site", problems));
    chain.name = name.unwrap_or_default().to_owned();
    let rates = fields.optional("rates");
    chain.rates = rates.map_or_else(RateSource::unnamed, |node| {
        rate_source(node, "rates", problems)
    });
    let (mut names, mut nids) = (BTreeSet::new(), BTreeSet::new());
    let groups = fields.required("groups", problems);
    for node in groups.map_or(&[][..], |node| items(node, "groups", problems)) {
        let line = node.line;
        let Some(group) = group(node, problems) else {
            continue;
        };
        for (index, name) in group.nodes.iter().enumerate() {
            if !names.insert(name.clone()) {
                problems.value(line, "nodes", name, "new: an earlier group has it");
            }
            for net in group.nets() {
                match group.nid(index, net) {
                    Some(nid) if nids.insert(nid) => {}
                    Some(nid) => {
                        problems.value(line, "first", &nid.to_string(), "new: another node has it")
                    }
                    None => problems.value(
                        line,
                        "first",
                        name,
                        "an address with enough addresses after it",
                    ),
                }
            }
        }
        if names.len() > MAX_NODES {
            let (what, max) = ("nodes", MAX_NODES);
            problems.add(line, Reason::TooMany { what, max });
            return;
        }
        chain.groups.push(group);
    }
    fields.report_rest(problems);
    if problems.found.is_empty() {
        for (role, what) in [(NodeRole::Client, "client"), (NodeRole::Server, "server")] {
            if chain.groups.iter().all(|group| group.role != role) {
                problems.add(
                    root.line,
                    Reason::Missing(format!("a group with role: {what}")),
                );
            }
        }
    }
}

fn group(node: &Node<'_>, problems: &mut Problems) -> Option<Group> {
    let mut fields = Fields::of(node, "group", problems);
    let list = fields.required("nodes", problems);
    let list = list.and_then(|node| Some((node.line, text(node, "nodes", problems)?.to_owned())));
    let role = fields.required("role", problems);
    let role = role.and_then(|node| {
        let word = text(node, "role", problems)?;
        let role = NodeRole::from_name(word);
        if role.is_none() {
            problems.value(node.line, "role", word, "client, router or server");
        }
        role
    });
    let on = fields.required("on", problems);
    let on = on.map_or(&[][..], |node| items(node, "on", problems));
    let sides: Vec<Option<Side>> = on.iter().map(|node| side(node, problems)).collect();
    fields.report_rest(problems);
    let (line, list) = list?;
    let nodes = hosts(&list).unwrap_or_default();
    if nodes.is_empty() || !nodes.iter().all(|name| is_node_name(name)) {
        let bad = nodes.iter().find(|name| !is_node_name(name));
        let wanted = bad.map_or("a host list", |_| NODE_NAME);
        problems.value(line, "nodes", bad.unwrap_or(&list), wanted);
    }
    let (role, sides): (NodeRole, Vec<Side>) = (role?, sides.into_iter().collect::<Option<_>>()?);
    let nets: BTreeSet<Net> = sides.iter().map(|side| side.net.net).collect();
    let least = if role == NodeRole::Router { 2 } else { 1 };
    if nets.len() < least || nets.len() < sides.len() {
        let wanted = match least {
            2 => "two nets at least, each once",
            _ => "a net at least, each once",
        };
        problems.value(node.line, "on", &nets.len().to_string(), wanted);
    }
    Some(Group {
        list,
        nodes,
        role,
        sides,
    })
}

fn side(node: &Node<'_>, problems: &mut Problems) -> Option<Side> {
    let mut fields = Fields::of(node, "on", problems);
    let net: Option<Net> = fields.parsed("net", "a net such as o2ib1", problems);
    let first = fields.required("first", problems);
    let interface = fields.required("interface", problems);
    let interface = interface.and_then(|node| {
        let name = text(node, "interface", problems)?;
        let is_name = is_file_name(&name.replace(':', "-"));
        if !is_name {
            problems.value(node.line, "interface", name, "the name of an interface");
        }
        is_name.then_some(name)
    });
    let rate = fields.required("rate", problems);
    let rate = rate.and_then(|node| {
        let rate: f64 = parse(node, "rate", "GB/s", problems)?;
        if !is_rate(rate) {
            problems.value(node.line, "rate", &rate.to_string(), RATE);
        }
        is_rate(rate).then_some(rate)
    });
    let tunables = tunables(&mut fields, problems);
    fields.report_rest(problems);
    let (net, first) = (net?, first?);
    let written = text(first, "first", problems)?;
    let nid: Option<Nid> = format!("{written}@{net}").parse().ok();
    let nid = nid.filter(|nid: &Nid| !nid.is_any() && !nid.is_large());
    if nid.is_none() {
        problems.value(
            first.line,
            "first",
            written,
            "the address of the first node",
        );
    }
    let (net, first, rate) = (
        net_config(node.line, net, interface?, &tunables, problems)?,
        nid?,
        rate?,
    );
    Some(Side { net, first, rate })
}

/// Returns the tunables as lines of a configuration.
fn tunables(fields: &mut Fields<'_, '_>, problems: &mut Problems) -> String {
    let mut lines = String::new();
    for (key, name) in [("tunables", "tunables"), ("lnd-tunables", "lnd tunables")] {
        let Some(node) = fields.optional(key) else {
            continue;
        };
        let Value::Mapping(pairs) = &node.value else {
            problems.value(node.line, key, "another value", "a mapping");
            continue;
        };
        // Writing to a String cannot fail.
        let _ = writeln!(lines, "    {name}:");
        for (key, value) in pairs {
            let number = parse::<u32>(value, "tunables", "a number", problems);
            if let (Value::Scalar(key), Some(number)) = (&key.value, number)
                && is_file_name(key)
            {
                let _ = writeln!(lines, "      {key}: {number}");
            }
        }
    }
    lines
}

/// Reads the configuration of one net, so that tunables mean what they mean in configurations.
fn net_config(
    line: u32,
    net: Net,
    interface: &str,
    tunables: &str,
    problems: &mut Problems,
) -> Option<NetConfig> {
    let document = format!(
        "net:\n- net type: {net}\n  local NI(s):\n  - interfaces:\n      0: \"{interface}\"\n{tunables}"
    );
    match lnet_config::parse(&document) {
        Ok(config) => config.nets.into_iter().next(),
        Err(error) => {
            problems.value(
                line,
                "on",
                &error.problem().to_string(),
                "a net that can be configured",
            );
            None
        }
    }
}

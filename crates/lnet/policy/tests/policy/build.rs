//! Short constructors for rules and topologies.

use lnet_policy::{
    Action, Effects, Gateway, Peer, PolicyError, Priority, Profile, Rule, RuleList, RuleText,
    Topology, evaluate,
};
use lnet_types::{Net, Nid};

pub(crate) const PROFILES: [Profile; 2] = [Profile::Design, Profile::Lustre];

pub(crate) fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

pub(crate) fn net(text: &str) -> Net {
    text.parse().unwrap()
}

pub(crate) fn priority(value: u32) -> Priority {
    Priority::new(value).unwrap()
}

/// Reads the arguments of `lnetctl udsp add`, except `--idx`.
pub(crate) fn parse(arguments: &str, profile: Profile) -> Result<Rule, PolicyError> {
    let mut text = RuleText::default();
    let words: Vec<&str> = arguments.split(' ').collect();
    for pair in words.chunks(2) {
        match pair[0] {
            "--src" => text.src = Some(pair[1]),
            "--dst" => text.dst = Some(pair[1]),
            "--rte" => text.rte = Some(pair[1]),
            "--priority" => text.action = Some(Action::Priority(pair[1].parse()?)),
            other => panic!("{other}"),
        }
    }
    Rule::from_text(&text, profile)
}

pub(crate) fn rule(arguments: &str) -> Rule {
    parse(arguments, Profile::Design).unwrap()
}

pub(crate) fn list(rules: &[&str]) -> RuleList {
    let mut list = RuleList::new();
    for text in rules {
        list.add(rule(text), None).unwrap();
    }
    list
}

pub(crate) fn texts(list: &RuleList) -> Vec<String> {
    list.rules().iter().map(Rule::to_string).collect()
}

pub(crate) fn local(nids: &[&str]) -> Topology {
    Topology {
        local: nids.iter().map(|text| nid(text)).collect(),
        ..Topology::default()
    }
}

pub(crate) trait With: Sized {
    fn peer(self, nids: &[&str]) -> Self;
    fn gateway(self, nids: &[&str]) -> Self;
}

impl With for Topology {
    /// Adds a Multi-Rail peer.
    fn peer(mut self, nids: &[&str]) -> Self {
        let nis: Vec<Nid> = nids.iter().map(|text| nid(text)).collect();
        self.peers.push(Peer {
            primary: nis[0],
            multi_rail: true,
            nis,
        });
        self
    }

    fn gateway(mut self, nids: &[&str]) -> Self {
        let nids: Vec<Nid> = nids.iter().map(|text| nid(text)).collect();
        self.gateways.push(Gateway {
            primary: nids[0],
            others: nids[1..].to_vec(),
        });
        self
    }
}

/// The effective values as text for comparisons: `NAME: PRIORITY[#RULE]`, only those that are set.
pub(crate) fn effects(rules: &RuleList, topology: &Topology, profile: Profile) -> Vec<String> {
    lines(&evaluate(rules, topology, profile))
}

fn lines(effects: &Effects) -> Vec<String> {
    let mut lines = Vec::new();
    let mut note = |what: String, effective: lnet_policy::Effective| {
        if let Some(rule) = effective.set_by {
            lines.push(format!("{what}: {}#{rule}", effective.priority));
        }
    };
    for (net, effective) in &effects.local_nets {
        note(format!("net {net}"), *effective);
    }
    for (nid, effective) in &effects.local_nis {
        note(format!("ni {nid}"), *effective);
    }
    for peer in &effects.peers {
        for (net, effective) in &peer.nets {
            note(format!("peer net {net}"), *effective);
        }
        for (nid, effect) in &peer.nis {
            note(format!("peer ni {nid}"), effect.priority);
        }
    }
    for (nid, effect) in effects.peers.iter().flat_map(|peer| &peer.nis) {
        for (name, entries) in [("from", &effect.sources), ("via", &effect.gateways)] {
            for entry in entries.entries() {
                lines.push(format!(
                    "{nid} {name} {}: {}#{}",
                    entry.nid, entry.rank, entry.set_by
                ));
            }
        }
    }
    lines
}

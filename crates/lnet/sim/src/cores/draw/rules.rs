//! Draws selection rules for a seed's world: for nets, NIDs, pairs and gateways, with equal and with contradicting
//! priorities.

use lnet_policy::{Action, Priority, Profile, Rule, RuleText};
use lnet_types::{Net, Nid};

use crate::cores::plan::{NodeSpec, World};
use crate::random::Random;

/// The limit on the rules of a node.
const RULES_MAX: u64 = 8;

/// Gives rules to the nodes of half of the worlds, and priorities to their routes.
pub(super) fn add(world: &mut World, random: &mut Random) {
    if !random.one_in(2) {
        return;
    }
    let profile = world.globals.profile;
    let all: Vec<Nid> = world.nodes.iter().flat_map(nids).collect();
    let gateways: Vec<Nid> = world
        .nodes
        .iter()
        .filter(|node| node.routing)
        .flat_map(nids)
        .collect();
    for node in &mut world.nodes {
        let own: Vec<Nid> = nids(node).collect();
        let drawn = Drawn {
            own: &own,
            all: &all,
            gateways: &gateways,
            profile,
        };
        for _ in 0..random.within(0, RULES_MAX) {
            if let Some(rule) = drawn.rule(random) {
                // A duplicate rule is rejected; one copy is enough.
                let _added = node.rules.add(rule, None);
            }
        }
        for route in &mut node.routes {
            route.priority = random.below(2) as u32;
        }
    }
}

fn nids(node: &NodeSpec) -> impl Iterator<Item = Nid> {
    node.nis.iter().map(|ni| ni.nid)
}

/// The objects that the rules of a node can match.
struct Drawn<'a> {
    own: &'a [Nid],
    all: &'a [Nid],
    gateways: &'a [Nid],
    profile: Profile,
}

impl Drawn<'_> {
    /// Draws a rule of any kind; `None` if there is no object that it could match.
    fn rule(&self, random: &mut Random) -> Option<Rule> {
        let priority = Priority::new(random.below(3) as u32).map(Action::Priority);
        let (src, dst, rte, action) = match random.below(6) {
            0 => (Some(net(self.own, random)?), None, None, priority),
            1 => (Some(some(self.own, random)?), None, None, priority),
            2 => (None, Some(net(self.all, random)?), None, priority),
            3 => (None, Some(some(self.all, random)?), None, priority),
            4 => {
                let dst = if random.one_in(4) {
                    net(self.all, random)?
                } else {
                    some(self.all, random)?
                };
                // Only the design profile ranks pairs.
                let ranked = self.profile == Profile::Design && random.one_in(2);
                let rank = priority.filter(|_| ranked);
                (Some(some(self.own, random)?), Some(dst), None, rank)
            }
            _ => {
                let dst = if random.one_in(2) {
                    net(self.all, random)?
                } else {
                    some(self.all, random)?
                };
                (None, Some(dst), Some(some(self.gateways, random)?), None)
            }
        };
        let text = RuleText {
            src: src.as_deref(),
            dst: dst.as_deref(),
            rte: rte.as_deref(),
            action,
        };
        Rule::from_text(&text, self.profile).ok()
    }
}

fn net(nids: &[Nid], random: &mut Random) -> Option<String> {
    random.of(nids).map(|nid| nid.net().to_string())
}

/// Returns a pattern for one NID, for all NIDs of a node, or for all NIDs of a net.
fn some(nids: &[Nid], random: &mut Random) -> Option<String> {
    let nid = *random.of(nids)?;
    let text = nid.to_string();
    let (address, net): (&str, Net) = (text.split_once('@')?.0, nid.net());
    Some(match random.below(4) {
        0 => format!("*.*.*.*@{net}"),
        1 => format!("{}.*@{net}", address.rsplit_once('.')?.0),
        _ => text,
    })
}

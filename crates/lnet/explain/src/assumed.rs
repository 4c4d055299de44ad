//! The values that the input does not hold, and what depends on them. Each alternative value is tried in a core
//! that is made from the state with only that value changed.

use std::collections::BTreeSet;

use lnet_core::{Core, Health, SelectionState, StateError};
use lnet_types::Nid;

use crate::Question;
use crate::explanation::Assumption;
use crate::node::{Assumed, Node};

/// The limit on the alternatives that are tried one after another.
const TURNS_MAX: usize = 32;
/// The health that one failure costs at the default sensitivity.
const DEMERIT: u16 = 100;
/// A sequence number that is later than every other one.
const LATEST: u64 = 1 << 40;

/// Returns the values that were assumed about this node, with the paths that other values would lead to.
pub(crate) fn assumptions(node: &Node, question: &Question) -> Result<Vec<Assumption>, StateError> {
    let told = node.facts.assumed.iter().map(|&assumed| {
        Ok(Assumption {
            what: in_words(assumed).to_owned(),
            alternatives: alternatives(node, question, assumed)?,
        })
    });
    told.collect()
}

fn in_words(assumed: Assumed) -> &'static str {
    match assumed {
        Assumed::Sequences => {
            "round-robin stamps: nothing was used yet, so the first of equals is next"
        }
        Assumed::NiLoad => "no message is in flight on the local NIs: all their credits are free",
        Assumed::PeerLoad => "no message is in flight to the peer NIs: all their credits are free",
        Assumed::NiHealth => "the local NIs are in full health and up",
        Assumed::PeerHealth => "the peer NIs are in full health and up",
        Assumed::RouteState => "the routes are up",
        Assumed::Nids => "NIDs of NIs that are given by interface only: 0.0.0.N stands for them",
        Assumed::Globals => "node-wide parameters that are not in the input have their defaults",
        Assumed::Distances => "all local NIs are equally far from the memory of the payload",
        Assumed::Pins => "peers without Multi-Rail know none of the local NIs yet",
    }
}

fn alternatives(
    node: &Node,
    question: &Question,
    assumed: Assumed,
) -> Result<Vec<String>, StateError> {
    let asked = Asking { node, question };
    let Some(first) = asked.pick(&node.state)? else {
        return Ok(Vec::new());
    };
    match assumed {
        Assumed::Sequences => asked.turns(&first),
        Assumed::NiLoad => asked.with_ni(&first, "all credits of NID were in use", |ni| {
            ni.in_flight = ni.tunables.credits;
        }),
        Assumed::NiHealth => asked.with_ni(&first, "NID had failed once", |ni| {
            ni.health = lowered();
        }),
        Assumed::PeerLoad => asked.with_hop(&first, "all credits of NID were in use", |ni| {
            ni.in_flight = 1 << 16;
        }),
        Assumed::PeerHealth => asked.with_hop(&first, "NID had failed once", |ni| {
            ni.health = lowered();
        }),
        Assumed::RouteState => asked.without_gateway(&first),
        Assumed::Pins => asked.pinned(&first),
        Assumed::Nids | Assumed::Globals | Assumed::Distances => Ok(Vec::new()),
    }
}

fn lowered() -> Health {
    Health::new(Health::MAX.value() - DEMERIT).unwrap_or(Health::ZERO)
}

/// The source, the next hop and the destination of a choice.
type Pick = [Nid; 3];

struct Asking<'a> {
    node: &'a Node,
    question: &'a Question,
}

impl Asking<'_> {
    fn pick(&self, state: &SelectionState) -> Result<Option<Pick>, StateError> {
        let core = Core::from_selection_state(state, self.node.now)?;
        let choice = core.choose(&self.question.query()).ok();
        Ok(choice.map(|choice| [choice.source, choice.next_hop, choice.destination]))
    }

    fn shown(&self, pick: Option<Pick>) -> String {
        match pick {
            Some([source, hop, destination]) if hop == destination => {
                format!("{} → {destination}", self.node.label(source))
            }
            Some([source, hop, destination]) => {
                format!("{} → {hop} → {destination}", self.node.label(source))
            }
            None => "no path".to_owned(),
        }
    }

    fn told(&self, condition: &str, first: &Pick, other: Option<Pick>) -> Vec<String> {
        if other == Some(*first) {
            return Vec::new();
        }
        vec![format!("if {condition}: {}", self.shown(other))]
    }

    /// Marks each chosen path as used last and chooses again, until a path is chosen a second time.
    fn turns(&self, first: &Pick) -> Result<Vec<String>, StateError> {
        let mut state = self.node.state.clone();
        let mut seen = BTreeSet::from([*first]);
        let (mut last, mut told) = (*first, Vec::new());
        for stamp in (LATEST..).take(TURNS_MAX) {
            stamp_used(&mut state, &last, stamp);
            let Some(next) = self.pick(&state)?.filter(|next| seen.insert(*next)) else {
                break;
            };
            told.push(format!("it may be the turn of {}", self.shown(Some(next))));
            last = next;
        }
        Ok(told)
    }

    fn with_ni(
        &self,
        first: &Pick,
        what: &str,
        change: impl Fn(&mut lnet_core::NiSelection),
    ) -> Result<Vec<String>, StateError> {
        let mut state = self.node.state.clone();
        let chosen = state.nis.iter_mut().find(|ni| ni.nid == first[0]);
        chosen.into_iter().for_each(change);
        let condition = what.replace("NID", &first[0].to_string());
        Ok(self.told(&condition, first, self.pick(&state)?))
    }

    fn with_hop(
        &self,
        first: &Pick,
        what: &str,
        change: impl Fn(&mut lnet_core::PeerNiSelection),
    ) -> Result<Vec<String>, StateError> {
        let mut state = self.node.state.clone();
        let chosen = state.peer_nis.iter_mut().find(|ni| ni.nid == first[1]);
        chosen.into_iter().for_each(change);
        let condition = what.replace("NID", &first[1].to_string());
        Ok(self.told(&condition, first, self.pick(&state)?))
    }

    fn without_gateway(&self, first: &Pick) -> Result<Vec<String>, StateError> {
        let [_, hop, destination] = *first;
        if hop == destination {
            return Ok(Vec::new());
        }
        let mut state = self.node.state.clone();
        for route in state
            .routes
            .iter_mut()
            .filter(|route| route.route.gateway == hop)
        {
            route.up = false;
        }
        let condition = format!("the route by {hop} were down");
        Ok(self.told(&condition, first, self.pick(&state)?))
    }

    fn pinned(&self, first: &Pick) -> Result<Vec<String>, StateError> {
        let mut told = Vec::new();
        for ni in self.node.state.nis.iter().take(TURNS_MAX) {
            let mut state = self.node.state.clone();
            let target = state
                .peer_nis
                .iter_mut()
                .find(|one| one.nid == self.question.to);
            if let Some(target) = target {
                target.pinned = Some(ni.nid);
            }
            let condition = format!("{} knew this node as {}", self.question.to, ni.nid);
            told.extend(self.told(&condition, first, self.pick(&state)?));
        }
        Ok(told)
    }
}

/// Gives every object of a pick the sequence number `stamp`.
fn stamp_used(state: &mut SelectionState, pick: &Pick, stamp: u64) {
    let [source, hop, destination] = *pick;
    for ni in state.nis.iter_mut().filter(|ni| ni.nid == source) {
        ni.sequence = stamp;
    }
    for net in state.nets.iter_mut().filter(|net| net.net == source.net()) {
        net.sequence = stamp;
    }
    for nid in [hop, destination] {
        for ni in state.peer_nis.iter_mut().filter(|ni| ni.nid == nid) {
            ni.sequence = stamp;
        }
        for peer in state
            .peers
            .iter_mut()
            .filter(|peer| peer.nids.contains(&nid))
        {
            for net in peer.nets.iter_mut().filter(|net| net.net == nid.net()) {
                net.sequence = stamp;
            }
        }
    }
    for route in state
        .routes
        .iter_mut()
        .filter(|route| route.route.gateway == hop)
    {
        route.sequence = stamp;
    }
}

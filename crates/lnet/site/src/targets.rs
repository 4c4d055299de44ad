//! Decides which targets of a file system each class of clients reaches, and on which of their nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use lnet_types::Nid;
use serde::{Deserialize, Serialize};

use crate::doubt::{Doubt, Doubts};
use crate::model::{Model, Track, Verdict, verdict};
use crate::site::{Member, Site};
use crate::text::counted;

/// The most targets of a class that the text names.
const NAMED_MAX: usize = 8;

/// The most doubts about a class that the text names.
const DOUBTS_MAX: usize = 4;

/// A file system and its targets, as `finerail doctor mount --save` writes them.
#[derive(Clone, Debug, Deserialize)]
pub struct SavedTargets {
    /// The name of the file system.
    pub fs: String,
    /// The NIDs of each node of the MGS.
    pub mgs: Vec<Vec<String>>,
    /// The targets by name.
    pub targets: BTreeMap<String, SavedTarget>,
}

/// A target.
#[derive(Clone, Debug, Deserialize)]
pub struct SavedTarget {
    /// The NIDs of the node that usually serves the target.
    pub nids: Vec<String>,
    /// The NIDs of each node that may take over.
    pub failover: Vec<Vec<String>>,
    /// Whether an administrator switched the target off.
    pub is_inactive: bool,
}

impl SavedTargets {
    /// Returns the NIDs of each node of the MGS and of each target that is switched on, by the target's name.
    #[must_use]
    pub fn nodes(&self) -> BTreeMap<String, Vec<Vec<String>>> {
        let on = self
            .targets
            .iter()
            .filter(|(_, target)| !target.is_inactive);
        let nodes = on.map(|(name, target)| {
            let nodes = std::iter::once(&target.nids).chain(&target.failover);
            (name.clone(), nodes.cloned().collect())
        });
        let mgs = std::iter::once(("MGS".to_owned(), self.mgs.clone()));
        mgs.chain(nodes).collect()
    }
}

/// What each class of clients reaches.
#[derive(Clone, Debug, Serialize)]
pub struct TargetReach {
    /// The name of the file system.
    pub fs: String,
    /// The number of targets that were looked at, with the MGS.
    pub targets: usize,
    /// The classes of nodes that are neither gateways nor servers of the file system.
    pub classes: Vec<ClassTargets>,
}

/// What a class of clients does not reach.
#[derive(Clone, Debug, Serialize)]
pub struct ClassTargets {
    /// The names of the nodes, as a host list.
    pub name: String,
    /// The number of nodes.
    pub nodes: usize,
    /// The targets that are reached on none of their nodes, with the reasons.
    pub unreached: BTreeMap<String, BTreeSet<String>>,
    /// The targets that are reached on some of their nodes, with the reasons for the others.
    pub in_part: BTreeMap<String, BTreeSet<String>>,
    /// The findings of the check because of which messages to targets may be lost nevertheless.
    pub doubts: BTreeSet<Doubt>,
}

impl TargetReach {
    /// Returns whether every class reaches every target on each of its nodes, without a doubt.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let mut classes = self.classes.iter();
        classes.all(|class| class.reaches_all() && class.doubts.is_empty())
    }

    /// Returns the answer as text: the classes that miss something, and what.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for class in &self.classes {
            let nodes = counted(class.nodes, "node");
            // Writing to a `String` cannot fail.
            let _ok = match class.reaches_all() {
                true => writeln!(text, "{} ({nodes}): all of {}", class.name, self.fs),
                false => writeln!(text, "{} ({nodes}):", class.name),
            };
            list(&mut text, "does not reach", &class.unreached);
            list(&mut text, "reaches in part", &class.in_part);
            for doubt in class.doubts.iter().take(DOUBTS_MAX) {
                let _ok = writeln!(text, "  in doubt: {}", doubt.told());
            }
            if class.doubts.len() > DOUBTS_MAX {
                let _ok = writeln!(text, "  in doubt: {} more", class.doubts.len() - DOUBTS_MAX);
            }
        }
        let classes = counted(self.classes.len(), "class");
        let _ok = writeln!(text, "{classes}, {} targets with the MGS", self.targets);
        text
    }
}

impl ClassTargets {
    fn reaches_all(&self) -> bool {
        self.unreached.is_empty() && self.in_part.is_empty()
    }
}

fn list(text: &mut String, what: &str, targets: &BTreeMap<String, BTreeSet<String>>) {
    for (name, reasons) in targets.iter().take(NAMED_MAX) {
        let reasons: Vec<&str> = reasons.iter().map(String::as_str).collect();
        let _ok = writeln!(text, "  {what} {name}: {}", reasons.join("; "));
    }
    if targets.len() > NAMED_MAX {
        let _ok = writeln!(text, "  {what} {} more", targets.len() - NAMED_MAX);
    }
}

/// Follows the messages of each class of clients to every NID of the file system.
#[must_use]
pub fn targets(site: &Site, saved: &SavedTargets) -> TargetReach {
    let wanted = saved.nodes();
    let texts = wanted.values().flatten().flatten();
    let nids: BTreeSet<Nid> = texts.filter_map(|text| text.parse().ok()).collect();
    let small = site.reduced(&nids);
    let doubts = Doubts::new(site, &small);
    let none = BTreeSet::new();
    let model = Model::new(&small, &none);
    let gateways = small.gateways();
    let is_client = |(at, member): &(usize, &Member)| {
        !gateways.contains(at) && !member.nids().any(|nid| nids.contains(&nid))
    };
    let members = small.members.iter().enumerate();
    let classes = members.filter(is_client).map(|(at, member)| {
        let mut class = ClassTargets {
            name: member.text.name.clone(),
            nodes: member.text.count,
            unreached: BTreeMap::new(),
            in_part: BTreeMap::new(),
            doubts: BTreeSet::new(),
        };
        for (name, nodes) in &wanted {
            let outcomes: Vec<Result<Reached, String>> = nodes
                .iter()
                .map(|node| node_reached(&model, at, node))
                .collect();
            let reasons: BTreeSet<String> = outcomes
                .iter()
                .filter_map(|one| one.clone().err())
                .collect();
            for reached in outcomes.iter().flatten() {
                class
                    .doubts
                    .extend(doubts.of(&reached.tracks, at, reached.by));
            }
            match (outcomes.iter().any(Result::is_ok), reasons.is_empty()) {
                (true, true) => {}
                (true, false) => drop(class.in_part.insert(name.clone(), reasons)),
                (false, _) => drop(class.unreached.insert(name.clone(), reasons)),
            }
        }
        class
    });
    let mut classes: Vec<ClassTargets> = classes.collect();
    classes.sort_by(|one, other| one.name.cmp(&other.name));
    TargetReach {
        fs: saved.fs.clone(),
        targets: wanted.len(),
        classes,
    }
}

/// The messages to a node that arrive on all paths.
#[derive(Clone)]
struct Reached {
    /// The member that is the node.
    by: usize,
    tracks: Vec<Track>,
}

/// Returns `Ok` if messages arrive at one of the NIDs of a node, on all paths.
fn node_reached(model: &Model<'_>, from: usize, nids: &[String]) -> Result<Reached, String> {
    let mut why = "the list has no NID of its node".to_owned();
    for nid in nids {
        let known: Option<Nid> = nid.parse().ok();
        let owner = known.and_then(|nid| Some((nid, *model.owners.get(&nid)?)));
        let Some((parsed, by)) = owner else {
            why = format!("no node of the files has {nid}");
            continue;
        };
        let tracks = model.tracks(from, parsed);
        if verdict(&tracks) == Verdict::All {
            return Ok(Reached { by, tracks });
        }
        let trouble = tracks.iter().find_map(|track| track.outcome.as_ref().err());
        why = match trouble {
            Some(trouble) => format!("{nid}: {}", trouble.told(model.site)),
            None => format!("{nid}: no path"),
        };
    }
    Err(why)
}

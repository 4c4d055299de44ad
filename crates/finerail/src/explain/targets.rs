//! `finerail explain --targets`: the path to every node of a file system's targets.

use std::collections::{BTreeMap, BTreeSet};

use lnet_explain::{Change, Node, Question, explain, what_if};
use lnet_site::SavedTargets;
use lnet_site::lint::Finding;
use lnet_types::Nid;
use serde::Serialize;

use super::{Texts, places};

/// The most paths at whose ends findings are looked for.
const LOOKED_AT: usize = 256;

/// The most findings that the text has.
const TOLD: usize = 10;

/// How messages go to the targets of a file system.
#[derive(Serialize)]
pub(super) struct Ways {
    fs: String,
    rows: Vec<Way>,
    /// What the lints find at the ends of the paths.
    places: Vec<Finding>,
}

/// How messages go to one node of a target.
#[derive(Serialize)]
struct Way {
    target: String,
    nids: Vec<String>,
    /// The first NID of the node with a path.
    path: Option<lnet_explain::Path>,
    /// Why there is no path to any.
    error: Option<String>,
}

/// Explains the path to each node of each target after these changes. `question` gives what does not depend on the
/// destination.
pub(super) fn ways(
    node: &Node,
    saved: &SavedTargets,
    question: &Question,
    changes: &[Change],
) -> anyhow::Result<Ways> {
    let mut known = BTreeMap::new();
    let mut rows = Vec::new();
    for (target, nodes) in saved.nodes() {
        for nids in nodes {
            let mut way = Way {
                target: target.clone(),
                nids,
                path: None,
                error: None,
            };
            for text in &way.nids {
                if !known.contains_key(text) {
                    known.insert(text.clone(), to(node, text, question, changes)?);
                }
                match known.get(text) {
                    Some(Ok(path)) => way.path = Some(path.clone()),
                    Some(Err(why)) => way.error = Some(format!("{text}: {why}")),
                    None => {}
                }
                if way.path.is_some() {
                    way.error = None;
                    break;
                }
            }
            rows.push(way);
        }
    }
    let fs = saved.fs.clone();
    let places = Vec::new();
    Ok(Ways { fs, rows, places })
}

type Found = Result<lnet_explain::Path, String>;

fn to(node: &Node, text: &str, question: &Question, changes: &[Change]) -> anyhow::Result<Found> {
    let Ok(to) = text.parse::<Nid>() else {
        return Ok(Err("is no NID".to_owned()));
    };
    let question = Question { to, ..*question };
    let answer = match changes {
        [] => explain(node, &question)?.answer,
        changes => what_if(node, &question, changes)?.after.answer,
    };
    let why = answer.error.unwrap_or_default();
    Ok(answer.path.ok_or(why))
}

impl Ways {
    /// Returns whether there is a path to every node of every target.
    pub(super) fn is_whole(&self) -> bool {
        self.rows.iter().all(|way| way.path.is_some())
    }

    /// Looks for findings at the ends of the paths, as for one destination.
    pub(super) fn look(&mut self, texts: &Texts) -> anyhow::Result<()> {
        let paths = self.rows.iter().filter_map(|way| way.path.as_ref());
        let mut known = BTreeSet::new();
        for path in paths {
            let Ok(to) = path.destination.parse::<Nid>() else {
                continue;
            };
            if known.len() == LOOKED_AT || !known.insert((&path.source, to)) {
                continue;
            }
            for finding in places::findings(texts, Some(path), to)? {
                if !self.places.contains(&finding) {
                    self.places.push(finding);
                }
            }
        }
        Ok(())
    }

    /// Returns a line for each node, and the findings.
    pub(super) fn to_text(&self) -> String {
        let widest = self.rows.iter().map(|way| way.target.chars().count()).max();
        let width = widest.unwrap_or(0);
        let mut text = String::new();
        for way in &self.rows {
            let told = match (&way.path, &way.error) {
                (Some(path), _) => {
                    let by = path
                        .gateway
                        .as_ref()
                        .map_or(String::new(), |by| format!(" by {by}"));
                    format!("{} to {}{by}", path.source, path.destination)
                }
                (None, Some(why)) => format!("no path: {why}"),
                (None, None) => "no path: the list has no NID of this node".to_owned(),
            };
            text += &format!("{:<width$}  {told}\n", way.target);
        }
        let lost = self.rows.iter().filter(|way| way.path.is_none()).count();
        text += &format!(
            "{}: {} nodes of the MGS and the targets, {lost} without a path\n",
            self.fs,
            self.rows.len()
        );
        for one in self.places.iter().take(TOLD) {
            let Finding { severity, code, .. } = one;
            text += &format!(
                "{severity}[{code}] {}: {}\n  {}\n",
                one.file, one.reason, one.fix
            );
        }
        if self.places.len() > TOLD {
            text += &format!(
                "and {} more findings (--json has all)\n",
                self.places.len() - TOLD
            );
        }
        text
    }
}

//! What follows from the facts: findings, the worst first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use super::catalogue::*;
use super::facts::{Answer, Facts, Reach, Way, Why};
use super::mgs::check_mgs;
use super::target::check_target;
use crate::client::Service;
use crate::rules::Needs;

/// What follows from the facts.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The name of the file system.
    pub fs: String,
    /// One finding of each kind, the worst first.
    pub findings: Vec<Finding>,
}

/// A trouble, and everything that has it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its kind.
    pub kind: &'static Kind,
    /// How bad it is here.
    pub severity: Severity,
    /// What it concerns, and what was seen of each.
    pub places: Vec<(String, String)>,
}

/// The names that the first line has at most.
const NAMED_MAX: usize = 3;

impl Verdict {
    /// Returns whether nothing is wrong.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.findings.is_empty()
    }

    pub(super) fn add(
        &mut self,
        kind: &'static Kind,
        place: impl Into<String>,
        seen: impl Into<String>,
    ) {
        let place = (place.into(), seen.into());
        let severity = severity_at(kind, &place.0);
        match self
            .findings
            .iter_mut()
            .find(|finding| finding.kind == kind)
        {
            Some(finding) => {
                finding.severity = finding.severity.min(severity);
                finding.places.push(place);
            }
            None => self.findings.push(Finding {
                kind,
                severity,
                places: vec![place],
            }),
        }
    }
}

/// Returns how bad a trouble is at a place.
fn severity_at(kind: &Kind, place: &str) -> Severity {
    let is_root = place.ends_with("-MDT0000");
    match kind.severity {
        Severity::Suffers if is_root && !leaves_working(kind) => Severity::Fails,
        // A mount needs the MGS and the root directory.
        Severity::Unknown if !is_root && Service::of_target(place).is_some() => Severity::Suffers,
        severity => severity,
    }
}

/// Findings with which everything can be used.
static WARNINGS: [&Kind; 7] = [
    &NID_UNUSABLE,
    &ON_FAILOVER,
    &MGS_ON_FAILOVER,
    &NO_FAILOVER,
    &RAIL_DOWN,
    &NID_TWICE,
    &INDEX_GAP,
];

fn is_warning(kind: &Kind) -> bool {
    WARNINGS.contains(&kind)
}

/// Returns whether the target works for a mount in spite of the trouble.
fn leaves_working(kind: &Kind) -> bool {
    is_warning(kind) || [&TARGET_READ_ONLY_MAP, &TARGET_FULL].contains(&kind)
}

/// Returns the place of a finding among those that are as bad: what is known to be broken, what is not known, warnings.
fn rank(kind: &Kind) -> (u8, Option<usize>) {
    let class = match kind.severity {
        Severity::Unknown => 1,
        _ if is_warning(kind) => 2,
        _ => 0,
    };
    (class, KINDS.iter().position(|known| *known == kind))
}

impl fmt::Display for Verdict {
    /// The verdict, what was seen, and the one thing to change: one line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(worst) = self.findings.first() else {
            return writeln!(f, "{}: this machine can mount it", self.fs);
        };
        let outcome = match worst.severity {
            Severity::Fails => "this machine cannot mount it",
            Severity::Unknown => "whether this machine can mount it is not known yet",
            Severity::Suffers if is_warning(worst.kind) => {
                "this machine can mount it, but not all is in order"
            }
            Severity::Suffers if worst.kind.severity == Severity::Unknown => {
                "this machine can mount it, but whether all of it can be used is not known yet"
            }
            Severity::Suffers => "this machine can mount it, but not use all of it",
        };
        writeln!(f, "{}: {outcome}: {worst}", self.fs)?;
        let seen = worst.places.first().map_or("", |(_, seen)| seen);
        writeln!(f, "seen: {seen}")?;
        writeln!(f, "to do: {}", worst.kind.to_do)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One target may have several places: its NIDs.
        let mut known = BTreeSet::new();
        let names = self.places.iter().map(|(name, _)| name.as_str());
        let names: Vec<&str> = names.filter(|name| known.insert(*name)).collect();
        let named = names.get(..NAMED_MAX).unwrap_or(&names);
        f.write_str(&named.join(", "))?;
        if names.len() > named.len() {
            write!(f, " and {} more", names.len() - named.len())?;
        }
        write!(f, " {} [{}]", self.kind.means, self.kind.name)
    }
}

/// Returns what follows from the facts.
#[must_use]
pub fn check(facts: &Facts) -> Verdict {
    let mut verdict = Verdict {
        fs: facts.fs.clone(),
        findings: Vec::new(),
    };
    check_mgs(facts, &mut verdict);
    if facts.has_log {
        check_log(facts, &mut verdict);
        for target in facts.targets.iter().filter(|target| !target.is_inactive) {
            check_target(target, &mut verdict);
            match target.needs(&facts.rules) {
                Needs::Nothing => {}
                Needs::Keys(rule) => {
                    verdict.add(&FLAVOR_NEEDED, &target.name, format!("the rule {rule}"));
                }
                Needs::Unclear(rule) => {
                    verdict.add(&FLAVOR_UNCLEAR, &target.name, format!("the rule {rule}"));
                }
            }
            if target.is_unasked {
                verdict.add(&UNFINISHED, &target.name, facts.why_cut());
            }
        }
        check_nids(facts, &mut verdict);
    }
    for Finding { kind, places, .. } in &mut verdict.findings {
        // What makes the finding so bad comes first.
        places.sort_by_key(|(place, _)| severity_at(kind, place));
    }
    verdict
        .findings
        .sort_by_key(|finding| (finding.severity, rank(finding.kind)));
    verdict
}

fn check_log(facts: &Facts, verdict: &mut Verdict) {
    let rejected = facts
        .problems
        .iter()
        .filter(|problem| problem.starts_with("command "));
    for problem in rejected {
        verdict.add(&LOG_UNKNOWN, facts.fs.clone(), problem);
    }
    if facts
        .targets
        .iter()
        .all(|target| target.service != Service::Mdt)
    {
        let count = facts.targets.len();
        verdict.add(
            &LOG_EMPTY,
            facts.fs.clone(),
            format!("{count} targets in the log"),
        );
    }
    for service in [Service::Mdt, Service::Ost] {
        let targets = facts
            .targets
            .iter()
            .filter(|target| target.service == service);
        let indices: BTreeSet<u32> = targets.filter_map(|target| target.index).collect();
        let Some(last) = indices.last().copied() else {
            continue;
        };
        if let Some(missing) = (0..last).find(|index| !indices.contains(index)) {
            let kind = match (service, missing) {
                (Service::Mdt, 0) => &LOG_NO_ROOT,
                _ => &INDEX_GAP,
            };
            let name = match service {
                Service::Mdt => "MDT",
                _ => "OST",
            };
            let seen = format!("no {name}{missing:04x}, but {name}{last:04x}");
            verdict.add(kind, facts.fs.clone(), seen);
        }
    }
}

/// A NID belongs to one node. An entry may lack NIDs that the node got later, or name only some of them; but of two entries
/// with a NID in common, one has all NIDs of the other.
fn check_nids(facts: &Facts, verdict: &mut Verdict) {
    let mut nodes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for node in facts.targets.iter().flat_map(|target| &target.nodes) {
        let nids: BTreeSet<&str> = node.iter().map(|reach| reach.nid.as_str()).collect();
        for nid in nids.iter().copied() {
            let known = nodes.entry(nid).or_insert_with(|| nids.clone());
            if known.is_subset(&nids) {
                known.clone_from(&nids);
            } else if !known.is_superset(&nids) {
                verdict.add(
                    &NID_TWICE,
                    facts.fs.clone(),
                    format!("{nid} stands in two nodes"),
                );
                return;
            }
        }
    }
}

pub(super) const EPERM: i32 = -1;
pub(super) const EAGAIN: i32 = -11;
pub(super) const EACCES: i32 = -13;
pub(super) const EBUSY: i32 = -16;
pub(super) const ENODEV: i32 = -19;
pub(super) const EROFS: i32 = -30;
pub(super) const EPROTO: i32 = -71;

/// Says which NIDs of a node do not answer beside others that do. A net that this machine does not have is none of its
/// troubles.
pub(super) fn silent_rails(node: &[Reach], name: &str, verdict: &mut Verdict) {
    let is_silent = |reach: &&Reach| matches!(reach.answer, Answer::No { .. });
    for reach in node.iter().filter(is_silent) {
        verdict.add(&RAIL_DOWN, name, describe(std::slice::from_ref(reach)));
    }
}

/// Returns whether nothing could be sent there, so that its silence says nothing about the node.
pub(super) fn is_untried(way: &Way) -> bool {
    matches!(way, Way::Unexamined { .. } | Way::NoDevice { .. })
}

pub(super) fn any_unexamined(nids: &[Reach]) -> bool {
    let mut ways = nids.iter().map(|reach| &reach.way);
    ways.any(|way| matches!(way, Way::Unexamined { .. }))
}

pub(super) fn any_without_device(nids: &[Reach]) -> bool {
    let mut ways = nids.iter().map(|reach| &reach.way);
    ways.any(|way| matches!(way, Way::NoDevice { .. }))
}

/// Returns the most telling cause among NIDs of which none answers.
pub(super) fn unreached(nids: &[Reach]) -> Option<(Why, String)> {
    let causes = nids.iter().filter_map(|reach| match &reach.answer {
        Answer::No { why, .. } => Some((*why, describe(std::slice::from_ref(reach)))),
        Answer::Yes | Answer::NotAsked => None,
    });
    causes.min_by_key(|(why, _)| match why {
        Why::NotLnet => 0,
        Why::PortClosed => 1,
        Why::Silent => 2,
        Why::NoPath => 3,
        Why::Other => 4,
    })
}

pub(super) fn names(nids: &[Reach]) -> String {
    let nids: Vec<&str> = nids.iter().map(|reach| reach.nid.as_str()).collect();
    nids.join(",")
}

/// Returns what is known of the NIDs that do not answer.
pub(super) fn describe(nids: &[Reach]) -> String {
    let mut text = String::new();
    let silent = nids.iter().filter(|reach| !reach.answers());
    for (at, reach) in silent.enumerate() {
        let seen = match (&reach.answer, &reach.way) {
            (Answer::No { seen, .. }, _) => seen.as_str(),
            (_, Way::NoNet) => "no interface and no route to its net",
            (_, Way::Here) => "an address of this machine",
            (_, Way::Unreadable) => "no NID",
            (_, Way::NoDevice { why } | Way::Unexamined { why }) => why.as_str(),
            _ => "not tested",
        };
        let separator = if at > 0 { "; " } else { "" };
        let named = if seen.contains(reach.nid.as_str()) {
            ""
        } else {
            &reach.nid
        };
        let colon = if named.is_empty() { "" } else { ": " };
        // Writing to a `String` cannot fail.
        let _ok = write!(text, "{separator}{named}{colon}{seen}");
    }
    text
}

//! What is told: plain data for a terminal, for machines (JSON), and for comparing.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::finding::Finding;

/// Why a message takes its path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// What was asked.
    pub question: Asked,
    /// The path, or why there is none.
    pub answer: Answer,
    /// Which of the eight cases it is.
    pub classification: Option<CaseFacts>,
    /// The decisions, in their order.
    pub levels: Vec<LevelTable>,
    /// What the rules set, and what becomes of each rule.
    pub policies: Policies,
    /// Interfaces and peer interfaces that matter here and are not in full health.
    pub health: Vec<HealthReport>,
    /// The next sends.
    pub forecast: Forecast,
    /// What happens when a try fails.
    pub resends: Vec<ResendTree>,
    /// What the input does not hold.
    pub assumed: Vec<Assumption>,
    /// Causes of trouble that are visible.
    pub findings: Vec<Finding>,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// The destination.
    pub to: String,
    /// The source, if one was demanded.
    pub from: Option<String>,
    /// Payload in bytes.
    pub size: u32,
    /// `design` or `lustre`.
    pub profile: &'static str,
    /// `pair` or `literal`.
    pub used_paths: &'static str,
}

/// The path of the next message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Where it goes.
    pub path: Option<Path>,
    /// Why there is no path.
    pub error: Option<String>,
    /// The deciding facts, in the order of the decisions.
    pub because: Vec<String>,
}

/// The path of a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Path {
    /// The local NID.
    pub source: String,
    /// The system interface under it, where it is known.
    pub interface: Option<String>,
    /// The gateway's NID, unless the next hop is the destination.
    pub gateway: Option<String>,
    /// The destination's NID, which may be another one than was asked for.
    pub destination: String,
}

/// The case of a send, each axis with the fact that decides it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseFacts {
    /// `A1C` to `B2D`.
    pub case: String,
    /// Source: given or any.
    pub source: String,
    /// Destination: local or remote.
    pub locality: String,
    /// Destination: Multi-Rail or not.
    pub kind: String,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LevelTable {
    /// What is chosen: `net`, `local NI`, `route` …
    pub level: &'static str,
    /// What candidates are compared by, first things first.
    pub criteria: Vec<&'static str>,
    /// The candidates.
    pub candidates: Vec<Row>,
    /// What cannot be chosen, and why.
    pub excluded: Vec<(String, String)>,
    /// What was chosen.
    pub winner: Option<String>,
    /// By what it is ahead of the best rival.
    pub decided_by: Option<&'static str>,
    /// What would have to change for the rival to win.
    pub margin: Option<String>,
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// The system interface under it, where it is known.
    pub interface: Option<String>,
    /// By criterion; `-1` stands for no priority.
    pub values: Vec<i64>,
    /// The criterion at which it was eliminated; `None` for the winner.
    pub eliminated_by: Option<&'static str>,
    /// What it lost to.
    pub lost_to: Option<String>,
}

/// The rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Policies {
    /// Values that rules set.
    pub values: Vec<PolicyValue>,
    /// Every rule.
    pub rules: Vec<RuleReport>,
    /// Where a kernel's order of events leaves rules unapplied.
    pub unapplied: Vec<String>,
}

/// A value that a rule sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyValue {
    /// Of what.
    pub object: String,
    /// Which value, and what it is.
    pub value: String,
    /// The rule's index.
    pub rule: usize,
    /// The rule as `lnetctl udsp add` takes it.
    pub text: String,
}

/// What becomes of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleReport {
    /// Its index.
    pub index: usize,
    /// As `lnetctl udsp add` takes it.
    pub text: String,
    /// It sets something.
    pub live: bool,
    /// What it does, or why it does nothing.
    pub state: String,
}

/// The health of something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HealthReport {
    /// The interface or peer interface.
    pub nid: String,
    /// One of the node's own.
    pub local: bool,
    /// 0 to 1000.
    pub health: u16,
    /// Down, and by what.
    pub down: Option<String>,
    /// Failed tries by class, those that there were.
    pub failures: Vec<(&'static str, u64)>,
    /// The likely cause: the only class, or the most frequent one.
    pub cause: Option<String>,
    /// Seconds until the next recovery ping, where it is planned.
    pub next_ping_seconds: Option<u64>,
    /// When it is or was due, in seconds of the node's uptime, where only that is known.
    pub next_ping_uptime_seconds: Option<u64>,
    /// Answered pings until full health.
    pub pings: u32,
    /// When they go out, in seconds after the first, if each is answered.
    pub schedule_seconds: Vec<u64>,
    /// When the last of them goes out, in the same count; `None`: there is none.
    pub full_after_seconds: Option<u64>,
    /// Why it does not recover, if it does not.
    pub stuck: Option<String>,
}

/// What the next messages do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Forecast {
    /// The next sends, none of which completes.
    pub picks: Vec<Pick>,
    /// Of as many sends, each of which completes before the next: how many took which path.
    pub shares: Vec<Share>,
}

/// One of the next sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pick {
    /// Its path; `None`: there is none.
    pub path: Option<Path>,
    /// It waits for a credit.
    pub waits: bool,
}

/// The traffic of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The path; `None` for what found none.
    pub path: Option<Path>,
    /// Messages.
    pub sends: u32,
}

/// What happens when tries fail, by class of failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResendTree {
    /// `design` or `lustre`.
    pub profile: &'static str,
    /// The classes; those after which the same happens stand together.
    pub branches: Vec<Branch>,
}

/// What happens when every try fails in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Branch {
    /// The classes.
    pub classes: Vec<&'static str>,
    /// The tries.
    pub tries: Vec<Try>,
    /// How it ends.
    pub end: String,
    /// Seconds from the first try to the end.
    pub end_seconds: u64,
}

/// One try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Try {
    /// Its path.
    pub path: Path,
    /// When it begins, in seconds after the first.
    pub at_seconds: u64,
}

/// Something that the input does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assumption {
    /// What is assumed.
    pub what: String,
    /// What would be otherwise if it were not so.
    pub alternatives: Vec<String>,
}

/// What a change changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The changes.
    pub changes: Vec<String>,
    /// What was told before and is told now, where it differs: subject, before, after.
    pub differing: Vec<(String, String, String)>,
    /// Messages by path: before and after.
    pub shares: BTreeMap<String, (u32, u32)>,
    /// Findings that the changes remove.
    pub solved: Vec<Finding>,
    /// Findings that they bring.
    pub new: Vec<Finding>,
    /// The explanation after the changes.
    pub after: Box<Explanation>,
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.source)?;
        if let Some(interface) = &self.interface {
            write!(f, " ({interface})")?;
        }
        if let Some(gateway) = &self.gateway {
            write!(f, " → {gateway}")?;
        }
        write!(f, " → {}", self.destination)
    }
}

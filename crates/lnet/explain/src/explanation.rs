//! The explanation as plain data: for a terminal, for machines (JSON), and for comparison.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::finding::Finding;

/// The explanation why a message takes its path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The question that was asked.
    pub question: Asked,
    /// The path, or the reason why there is no path.
    pub answer: Answer,
    /// Which of the eight cases of a send applies; `None` if the send was rejected before it was classified.
    pub classification: Option<CaseFacts>,
    /// The decisions of selection, in their order.
    pub levels: Vec<LevelTable>,
    /// The values that rules set, and the state of each rule.
    pub policies: Policies,
    /// Local NIs and peer NIs that matter here and are not in full health or not up.
    pub health: Vec<HealthReport>,
    /// The paths of the next sends.
    pub forecast: Forecast,
    /// The tries of a message whose every try fails, once for each profile.
    pub resends: Vec<ResendTree>,
    /// The values that the input does not hold, and what depends on them.
    pub assumed: Vec<Assumption>,
    /// The causes of trouble that the state shows.
    pub findings: Vec<Finding>,
}

/// The question, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// The destination NID.
    pub to: String,
    /// The source NID, if one was demanded.
    pub from: Option<String>,
    /// Payload in bytes.
    pub size: u32,
    /// The profile of selection: `design` or `lustre`.
    pub profile: &'static str,
    /// What resends remember of earlier tries: `pair` or `literal`.
    pub used_paths: &'static str,
}

/// The answer: the path of the next message, or an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The path; `None` if there is none.
    pub path: Option<Path>,
    /// The reason why there is no path; `None` if there is a path.
    pub error: Option<String>,
    /// The facts that decided, in the order of the decisions.
    pub because: Vec<String>,
}

/// The path of a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Path {
    /// The local NID.
    pub source: String,
    /// The system interface under the local NID, if it is known.
    pub interface: Option<String>,
    /// The NID of the gateway; `None` if the next hop is the destination.
    pub gateway: Option<String>,
    /// The destination's NID. If the peer is Multi-Rail, this may be another NID than the one that was asked for.
    pub destination: String,
}

/// The case of a send, with the fact that decides each of its three axes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseFacts {
    /// The name of the case, `A1C` to `B2D`.
    pub case: String,
    /// Whether the source was given or may be any, and why.
    pub source: String,
    /// Whether the destination is local or remote, and why.
    pub locality: String,
    /// Whether the destination is Multi-Rail, and why.
    pub kind: String,
}

/// One decision of selection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LevelTable {
    /// The kind of the candidates: `net`, `local NI`, `route` …
    pub level: &'static str,
    /// The criteria that compare the candidates, the first one first.
    pub criteria: Vec<&'static str>,
    /// The candidates that were compared.
    pub candidates: Vec<Row>,
    /// The names of the candidates that were excluded, each with the reason.
    pub excluded: Vec<(String, String)>,
    /// The name of the winner; `None` if every candidate was excluded.
    pub winner: Option<String>,
    /// The criterion in which the winner is ahead of the best rival.
    pub decided_by: Option<&'static str>,
    /// The changes of values that would let the rival win.
    pub margin: Option<String>,
}

/// One candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The candidate's name, such as its NID.
    pub name: String,
    /// The system interface under the NID, if it is known.
    pub interface: Option<String>,
    /// The candidate's value for each criterion of the table; `-1` stands for no priority.
    pub values: Vec<i64>,
    /// The criterion that eliminated the candidate; `None` for the winner.
    pub eliminated_by: Option<&'static str>,
    /// The candidate that it lost to.
    pub lost_to: Option<String>,
}

/// The rules of the node, and their effects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Policies {
    /// The values that rules set.
    pub values: Vec<PolicyValue>,
    /// A report on every rule.
    pub rules: Vec<RuleReport>,
    /// Rules that a kernel may not have applied because of the order of events, each as a sentence.
    pub unapplied: Vec<String>,
}

/// One value that a rule sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyValue {
    /// The net, NI or gateway that has the value.
    pub object: String,
    /// The kind of value, and the value.
    pub value: String,
    /// The index of the rule that sets it.
    pub rule: usize,
    /// The rule in the syntax of `lnetctl udsp add`.
    pub text: String,
}

/// The state of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleReport {
    /// The rule's index.
    pub index: usize,
    /// The rule in the syntax of `lnetctl udsp add`.
    pub text: String,
    /// True if the rule sets a value.
    pub live: bool,
    /// What the rule does, or why it does nothing.
    pub state: String,
}

/// The health of one local NI or peer NI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HealthReport {
    /// The NID of the NI or peer NI.
    pub nid: String,
    /// True for a local NI, false for a peer NI.
    pub local: bool,
    /// The health value, 0 to 1000.
    pub health: u16,
    /// The reason why it is down; `None` if it is up.
    pub down: Option<String>,
    /// The number of failed tries of each class; classes without failures are left out.
    pub failures: Vec<(&'static str, u64)>,
    /// The likely cause: the only class of failures, or the most frequent class.
    pub cause: Option<String>,
    /// Seconds until the next recovery ping, if one is planned.
    pub next_ping_seconds: Option<u64>,
    /// The time of the next recovery ping in seconds of the node's uptime, if only that time is known. It may be in
    /// the past.
    pub next_ping_uptime_seconds: Option<u64>,
    /// The number of answered pings that lead to full health.
    pub pings: u32,
    /// The times of the first of these pings, in seconds after the first ping, if each ping is answered.
    pub schedule_seconds: Vec<u64>,
    /// The time of the last of these pings, in seconds after the first ping; `None` if there is no ping.
    pub full_after_seconds: Option<u64>,
    /// The reason why the health does not recover; `None` if it recovers.
    pub stuck: Option<String>,
}

/// The forecast of the next messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Forecast {
    /// The paths of the next sends if none of them completes.
    pub picks: Vec<Pick>,
    /// The number of messages on each path, if each of as many sends completes before the next.
    pub shares: Vec<Share>,
}

/// One of the next sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pick {
    /// The path of the send; `None` if there is no path.
    pub path: Option<Path>,
    /// True if the message waits for a credit.
    pub waits: bool,
}

/// The traffic of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The path; `None` stands for the messages without a path.
    pub path: Option<Path>,
    /// The number of messages.
    pub sends: u32,
}

/// The sequences of tries after failures, by class of failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResendTree {
    /// The profile of selection: `design` or `lustre`.
    pub profile: &'static str,
    /// The branches. Classes with the same sequence of tries share a branch.
    pub branches: Vec<Branch>,
}

/// The sequence of tries if every try fails with the same class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Branch {
    /// The classes of failure.
    pub classes: Vec<&'static str>,
    /// The tries in their order.
    pub tries: Vec<Try>,
    /// The end of the message, as text.
    pub end: String,
    /// Seconds from the first try to the end.
    pub end_seconds: u64,
}

/// One try to send the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Try {
    /// The path of the try.
    pub path: Path,
    /// The start of the try, in seconds after the first try.
    pub at_seconds: u64,
}

/// A value that the input does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assumption {
    /// The assumed value, as a sentence.
    pub what: String,
    /// The paths that would be taken if the value were another one.
    pub alternatives: Vec<String>,
}

/// The differences that changes make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The changes, in their order.
    pub changes: Vec<String>,
    /// The parts of the explanation that differ: subject, text before, text after.
    pub differing: Vec<(String, String, String)>,
    /// The number of messages on each path, before and after.
    pub shares: BTreeMap<String, (u32, u32)>,
    /// Findings that the changes remove.
    pub solved: Vec<Finding>,
    /// Findings that the changes add.
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

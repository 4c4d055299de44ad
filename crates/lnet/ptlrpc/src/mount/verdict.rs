//! What follows from the facts: findings, the worst first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use super::catalogue::*;
use super::facts::{Answer, Facts, Mgs, Reach, TargetFacts, Way, Why};
use crate::client::{Failure, Service};
use crate::opc::MGS_CONNECT;
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

    fn add(&mut self, kind: &'static Kind, place: impl Into<String>, seen: impl Into<String>) {
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
    let is_root = place.ends_with("-MDT0000") && !IN_RESERVE.contains(&kind.name);
    match kind.severity {
        Severity::Suffers if is_root => Severity::Fails,
        severity => severity,
    }
}

/// Findings that leave the target working.
const IN_RESERVE: [&str; 6] = [
    "target-on-failover",
    "failover-unreachable",
    "interface-unreachable",
    "nid-of-two-nodes",
    "target-read-only-map",
    "target-full",
];

impl fmt::Display for Verdict {
    /// The verdict, what was seen, and the one thing to change: one line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(worst) = self.findings.first() else {
            return writeln!(f, "{}: this machine can mount it", self.fs);
        };
        let outcome = match worst.severity {
            Severity::Fails => "this machine cannot mount it",
            Severity::Unknown => "whether this machine can mount it is not known yet",
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
    let rank = |kind: &Kind| KINDS.iter().position(|known| *known == kind);
    verdict
        .findings
        .sort_by_key(|finding| (finding.severity, rank(finding.kind)));
    verdict
}

fn check_mgs(facts: &Facts, verdict: &mut Verdict) {
    let serves = |mgs: &Mgs| matches!(mgs.outcome, Some(Ok(_)));
    let Some(serving) = facts.mgs.iter().position(serves) else {
        let is_unasked = |mgs: &&Mgs| match &mgs.outcome {
            Some(outcome) => matches!(outcome, Err(Failure::Stopped)),
            None => mgs.nids.iter().any(Reach::is_unasked),
        };
        if let Some(mgs) = facts.mgs.iter().find(is_unasked) {
            let name = format!("the MGS at {}", names(&mgs.nids));
            let asked = facts.mgs.iter().filter(|mgs| !is_unasked(mgs));
            let seen = asked.map(|mgs| why_not(mgs).1);
            let seen: Vec<String> = [facts.why_cut().to_owned()]
                .into_iter()
                .chain(seen)
                .collect();
            return verdict.add(&UNFINISHED, name, seen.join("; "));
        }
        let is_unexamined = |mgs: &&Mgs| mgs.outcome.is_none() && any_unexamined(&mgs.nids);
        if let Some(mgs) = facts.mgs.iter().find(is_unexamined) {
            let name = format!("the MGS at {}", names(&mgs.nids));
            let others = facts.mgs.iter().filter(|mgs| !is_unexamined(mgs));
            let others = others.map(|mgs| why_not(mgs).1);
            let seen: Vec<String> = [describe(&mgs.nids)].into_iter().chain(others).collect();
            return verdict.add(&NOT_EXAMINED, name, seen.join("; "));
        }
        return not_served(facts, verdict);
    };
    for mgs in facts.mgs.iter().take(serving) {
        let (kind, seen) = why_not(mgs);
        let name = names(&mgs.nids);
        verdict.add(&MGS_ON_FAILOVER, name, format!("{seen} ({})", kind.name));
    }
    for (at, mgs) in facts.mgs.iter().enumerate().skip(serving) {
        let is_unknown = any_unexamined(&mgs.nids) || mgs.nids.iter().any(Reach::is_unasked);
        if at == serving || mgs.nids.iter().any(Reach::answers) {
            silent_rails(&mgs.nids, "the MGS", verdict);
        } else if !is_unknown {
            verdict.add(&NO_FAILOVER, "the MGS", describe(&mgs.nids));
        }
    }
}

/// No node of the MGS serves, and all were asked. Of several nodes, the one that got furthest tells most.
fn not_served(facts: &Facts, verdict: &mut Verdict) {
    let Some(told) = facts.mgs.iter().max_by_key(|mgs| progress(mgs)) else {
        return;
    };
    let (kind, seen) = why_not(told);
    if kind == &MGS_ABSENT || kind == &MGS_SILENT {
        return absent_mgs(kind, &facts.mgs, verdict);
    }
    let name = match kind.name {
        "no-file-system" | "log-unreadable" => facts.fs.clone(),
        _ => format!("the MGS at {}", names(&told.nids)),
    };
    verdict.add(kind, name, seen);
}

/// No node that was reached has the MGS. It may run on a node that was not reached.
fn absent_mgs(kind: &'static Kind, nodes: &[Mgs], verdict: &mut Verdict) {
    let is_missed = |mgs: &&Mgs| matches!(mgs.outcome, None | Some(Err(Failure::Unsent(_))));
    let of_nodes = |nodes: &[&Mgs]| {
        let names: Vec<String> = nodes.iter().map(|mgs| names(&mgs.nids)).collect();
        names.join(":")
    };
    let seen_of = |mgs: &&Mgs| match &mgs.outcome {
        Some(Err(failure)) => format!("{}: {failure}", names(&mgs.nids)),
        _ => describe(&mgs.nids),
    };
    let (missed, reached): (Vec<&Mgs>, Vec<&Mgs>) = nodes.iter().partition(is_missed);
    let seen: Vec<String> = missed.iter().chain(&reached).map(seen_of).collect();
    let (kind, name) = match missed.is_empty() {
        true => (kind, format!("the MGS at {}", of_nodes(&reached))),
        false => (&MGS_NOT_FOUND, of_nodes(&missed)),
    };
    verdict.add(kind, name, seen.join("; "));
}

/// Returns how far the conversation with a node of the MGS got.
fn progress(mgs: &Mgs) -> u8 {
    let refused = |failure: &Failure| match failure {
        // The node was lost before it was asked.
        Failure::Unsent(_) => 1,
        // What answered the connect is an MGS: its later silence tells more than a node without one.
        Failure::NoReply { opc, .. } if *opc == MGS_CONNECT => 2,
        Failure::Refused { status: -19, .. } => 3,
        // Nothing is known of that node: it may have what another node lacks.
        Failure::Own(_) => 4,
        _ => 5,
    };
    match &mgs.outcome {
        Some(Err(failure)) => refused(failure),
        Some(Ok(_)) => 6,
        None => u8::from(
            mgs.nids
                .iter()
                .any(|reach| matches!(reach.answer, Answer::No { .. })),
        ),
    }
}

fn why_not(mgs: &Mgs) -> (&'static Kind, String) {
    match &mgs.outcome {
        Some(Err(failure)) => (mgs_failure(failure), failure.to_string()),
        Some(Ok(_)) | None => match unreached(&mgs.nids) {
            Some((Why::PortClosed, seen)) => (&MGS_PORT_CLOSED, seen),
            Some((Why::NotLnet, seen)) => (&MGS_NOT_LNET, seen),
            Some((_, seen)) => (&MGS_UNREACHABLE, seen),
            None if any_without_device(&mgs.nids) => (&MGS_NO_DEVICE, describe(&mgs.nids)),
            None => (
                &MGS_NO_NET,
                format!("{} cannot be reached from here", names(&mgs.nids)),
            ),
        },
    }
}

const EPERM: i32 = -1;
const EAGAIN: i32 = -11;
const EACCES: i32 = -13;
const EBUSY: i32 = -16;
const ENODEV: i32 = -19;
const EROFS: i32 = -30;
const EPROTO: i32 = -71;

fn mgs_failure(failure: &Failure) -> &'static Kind {
    match failure {
        // What answered the connect is an MGS.
        Failure::NoReply { opc, .. } if *opc != MGS_CONNECT => &MGS_LATE,
        Failure::NoReply { .. } => &MGS_SILENT,
        Failure::Unsent(_) => &MGS_UNREACHABLE,
        Failure::Refused {
            is_banned: true, ..
        } => &MGS_BANNED,
        Failure::Refused { status, .. } => match *status {
            ENODEV => &MGS_ABSENT,
            EAGAIN | EBUSY => &MGS_STARTING,
            EACCES => &MGS_FLAVOR,
            EPERM => &MGS_BANNED,
            EPROTO => &MGS_PROTOCOL,
            _ => &MGS_ERROR,
        },
        Failure::Garbage { .. } => &MGS_GARBAGE,
        Failure::NoFileSystem => &NO_FILE_SYSTEM,
        Failure::Log(_) => &LOG_UNREADABLE,
        Failure::Late(_) | Failure::Stopped => &MGS_LATE,
        Failure::Own(_) => &UNFINISHED,
    }
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
            let name = match service {
                Service::Mdt => "MDT",
                _ => "OST",
            };
            let seen = format!("no {name}{missing:04x}, but {name}{last:04x}");
            verdict.add(&INDEX_GAP, facts.fs.clone(), seen);
        }
    }
}

fn check_target(target: &TargetFacts, verdict: &mut Verdict) {
    let name = &target.name;
    let nids = || target.nodes.iter().flatten();
    if target.nodes.first().is_none_or(Vec::is_empty) {
        return verdict.add(&TARGET_NO_NID, name, "the log names no NID of its node");
    }
    for reach in nids() {
        match reach.way {
            Way::Unreadable => verdict.add(&TARGET_BAD_NID, name, format!("'{}'", reach.nid)),
            Way::Here if !reach.answers() => {
                verdict.add(
                    &TARGET_HERE,
                    name,
                    format!("{} is an address of this machine", reach.nid),
                );
            }
            _ => {}
        }
    }
    if nids().any(|reach| matches!(reach.way, Way::Unreadable | Way::Here) && !reach.answers()) {
        return;
    }
    let answers = |node: &Vec<Reach>| node.iter().any(Reach::answers);
    let untested = |reach: &Reach| is_untried(&reach.way) || reach.is_unasked();
    if !target.nodes.iter().any(answers) {
        let is_unfinished = nids().any(Reach::is_unasked);
        if target.nodes.iter().any(|node| any_unexamined(node)) {
            let all: Vec<Reach> = nids().cloned().collect();
            verdict.add(&NOT_EXAMINED, name, describe(&all));
        } else if !is_unfinished {
            unreached_target(target, verdict);
        }
        return;
    }
    let is_away = |reach: &Reach| !reach.answers() && !untested(reach);
    let has_connected = target.knocks.iter().any(|knock| knock.result.is_ok());
    if !has_connected && !target.now.is_empty() && target.now.iter().all(is_away) {
        return verdict.add(&TARGET_AWAY, name, describe(&target.now));
    }
    let is_served_where_asked = has_connected || target.now.iter().any(Reach::answers);
    if !is_served_where_asked && target.now.iter().any(|reach| is_untried(&reach.way)) {
        let kind = match any_unexamined(&target.now) {
            true => &NOT_EXAMINED,
            false => &TARGET_NO_DEVICE,
        };
        return verdict.add(kind, name, describe(&target.now));
    }
    if is_missed(target, verdict) {
        return;
    }
    for (at, node) in target.nodes.iter().enumerate() {
        let is_unknown = any_unexamined(node) || node.iter().any(Reach::is_unasked);
        match (answers(node), at) {
            (true, _) => silent_rails(node, name, verdict),
            (false, 0) if any_unexamined(node) && !is_served_where_asked => {
                verdict.add(&NOT_EXAMINED, name, describe(node));
            }
            (false, _) if is_unknown => {}
            (false, 0) => verdict.add(&ON_FAILOVER, name, describe(node)),
            (false, _) => verdict.add(&NO_FAILOVER, name, describe(node)),
        }
    }
    check_knocks(target, verdict);
}

fn unreached_target(target: &TargetFacts, verdict: &mut Verdict) {
    let all: Vec<Reach> = target.nodes.iter().flatten().cloned().collect();
    let kind = match unreached(&all).map(|(why, _)| why) {
        Some(Why::PortClosed) => &TARGET_PORT_CLOSED,
        Some(Why::NotLnet) => &TARGET_NOT_LNET,
        Some(_) => &TARGET_UNREACHABLE,
        None if any_without_device(&all) => &TARGET_NO_DEVICE,
        None => &TARGET_NO_NET,
    };
    verdict.add(kind, &target.name, describe(&all));
}

fn silent_rails(node: &[Reach], name: &str, verdict: &mut Verdict) {
    for reach in node.iter().filter(|reach| !reach.answers()) {
        if !is_untried(&reach.way) && !reach.is_unasked() {
            verdict.add(&RAIL_DOWN, name, describe(std::slice::from_ref(reach)));
        }
    }
}

fn check_knocks(target: &TargetFacts, verdict: &mut Verdict) {
    let mut serving = target.knocks.iter().filter_map(|knock| {
        let (_, statfs) = knock.result.as_ref().ok()?;
        Some((&knock.nid, statfs.map_or(0, |statfs| statfs.state)))
    });
    if let Some((nid, state)) = serving.next() {
        let seen = format!("{nid}: state {state:#x}");
        if state & 0x60 != 0 {
            verdict.add(&TARGET_FULL, &target.name, seen);
        } else if state & 2 != 0 {
            verdict.add(&TARGET_FROZEN, &target.name, seen);
        }
        return;
    }
    if let Some((kind, seen)) = refusal(target) {
        verdict.add(kind, &target.name, seen);
    }
}

/// Returns the failure that tells most, if the target was asked and serves nowhere: a node where the target is not started
/// tells less than one that answers with something else.
fn refusal(target: &TargetFacts) -> Option<(&'static Kind, String)> {
    if target.knocks.iter().any(|knock| knock.result.is_ok()) {
        return None;
    }
    let failures = target.knocks.iter().filter_map(|knock| {
        let failure = knock.result.as_ref().err()?;
        let kind = target_failure(failure);
        Some((
            tells_little(kind),
            kind,
            format!("{}: {failure}", knock.nid),
        ))
    });
    let (_, kind, seen) = failures.min_by_key(|(tells_little, ..)| *tells_little)?;
    Some((kind, seen))
}

/// Returns whether a failure on one node leaves open whether another node has the target.
fn tells_little(kind: &Kind) -> bool {
    [&TARGET_ABSENT, &TARGET_SILENT, &TARGET_UNREACHABLE].contains(&kind)
}

/// What is known of a node of a target that no node that was asked has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Asked,
    Missed,
    Unexamined,
    Unasked,
}

fn place(target: &TargetFacts, node: &[Reach]) -> Place {
    let answers = node.iter().any(Reach::answers);
    let has = |nid: &str| node.iter().any(|reach| reach.nid == nid);
    let knock = target.knocks.iter().find(|knock| has(&knock.nid));
    match knock.map(|knock| &knock.result) {
        Some(Err(Failure::Unsent(_))) => Place::Missed,
        Some(_) => Place::Asked,
        None if answers || node.iter().any(Reach::is_unasked) => Place::Unasked,
        None if any_unexamined(node) => Place::Unexamined,
        None => Place::Missed,
    }
}

/// Says what is unknown about a target that no node has of those that were asked, while another was not reached: the target
/// may run there. Returns whether that is so.
fn is_missed(target: &TargetFacts, verdict: &mut Verdict) -> bool {
    if !refusal(target).is_some_and(|(kind, _)| tells_little(kind)) {
        return false;
    }
    let places = target.nodes.iter().map(|node| (place(target, node), node));
    let elsewhere: Vec<(Place, &Vec<Reach>)> =
        places.filter(|(place, _)| *place != Place::Asked).collect();
    if elsewhere.len() == target.nodes.len() {
        return false;
    }
    let is_at = |wanted| elsewhere.iter().any(|(place, _)| *place == wanted);
    let kind = match () {
        () if is_at(Place::Unasked) => &UNFINISHED,
        () if is_at(Place::Unexamined) => &NOT_EXAMINED,
        () if is_at(Place::Missed) => &TARGET_NOT_FOUND,
        () => return false,
    };
    // A target that was not asked is said to be so anyway.
    if kind != &UNFINISHED || !target.is_unasked {
        let seen = elsewhere.iter().map(|(_, node)| describe(node));
        let knocks = target.knocks.iter().filter_map(|knock| {
            let failure = knock.result.as_ref().err()?;
            Some(format!("{}: {failure}", knock.nid))
        });
        let seen: Vec<String> = seen.chain(knocks).filter(|seen| !seen.is_empty()).collect();
        verdict.add(kind, &target.name, seen.join("; "));
    }
    true
}

fn target_failure(failure: &Failure) -> &'static Kind {
    match failure {
        Failure::NoReply { .. } => &TARGET_SILENT,
        Failure::Unsent(_) => &TARGET_UNREACHABLE,
        Failure::Late(_) | Failure::Stopped | Failure::Own(_) => &UNFINISHED,
        Failure::Refused {
            is_banned: true, ..
        } => &TARGET_BANNED,
        Failure::Refused { opc, status, .. } => match (*status, *opc) {
            (ENODEV, _) => &TARGET_ABSENT,
            // A connect is answered so while the target starts, and a later request while it recovers.
            (EAGAIN, 8 | 38) => &TARGET_STARTING,
            (EAGAIN | EBUSY, _) => &TARGET_RECOVERING,
            (EACCES, _) => &TARGET_FLAVOR,
            (EPERM, _) => &TARGET_BANNED,
            (EROFS, _) => &TARGET_READ_ONLY_MAP,
            (EPROTO, _) => &TARGET_PROTOCOL,
            _ => &TARGET_ERROR,
        },
        Failure::Garbage { .. } => &TARGET_GARBAGE,
        Failure::NoFileSystem | Failure::Log(_) => &TARGET_ERROR,
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

/// Returns whether nothing could be sent there, so that its silence says nothing about the node.
fn is_untried(way: &Way) -> bool {
    matches!(way, Way::Unexamined { .. } | Way::NoDevice { .. })
}

fn any_unexamined(nids: &[Reach]) -> bool {
    let mut ways = nids.iter().map(|reach| &reach.way);
    ways.any(|way| matches!(way, Way::Unexamined { .. }))
}

fn any_without_device(nids: &[Reach]) -> bool {
    let mut ways = nids.iter().map(|reach| &reach.way);
    ways.any(|way| matches!(way, Way::NoDevice { .. }))
}

/// Returns the most telling cause among NIDs of which none answers.
fn unreached(nids: &[Reach]) -> Option<(Why, String)> {
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

fn names(nids: &[Reach]) -> String {
    let nids: Vec<&str> = nids.iter().map(|reach| reach.nid.as_str()).collect();
    nids.join(",")
}

/// Returns what is known of the NIDs that do not answer.
fn describe(nids: &[Reach]) -> String {
    let mut text = String::new();
    let silent = nids.iter().filter(|reach| !reach.answers());
    for (at, reach) in silent.enumerate() {
        let seen = match (&reach.answer, &reach.way) {
            (Answer::No { seen, .. }, _) => seen.as_str(),
            (_, Way::NoNet) => "no interface and no route to its net",
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

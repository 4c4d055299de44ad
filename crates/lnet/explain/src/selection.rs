//! The explanation of one selection: the case, the tables of its levels, and the winner's margin.

use lnet_core::{Choice, Classification, Core, Criterion, Locality, SelectError, TargetKind};
use lnet_policy::{Peer, evaluate};
use lnet_types::Nid;

use crate::Question;
use crate::discovery;
use crate::explanation::{Answer, CaseFacts, LevelTable, Path, Row};
use crate::node::Node;
use crate::policies::topology;
use crate::watch::{Contest, Recorder, exclusion_word, level_word, nid_of, subject_name, word};

/// What one selection reported.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) answer: Answer,
    pub(crate) classification: Option<CaseFacts>,
    pub(crate) levels: Vec<LevelTable>,
    /// The contests as selection reported them.
    pub(crate) contests: Vec<Contest>,
}

/// Lets the core choose, and records the selection.
pub(crate) fn tell(
    node: &Node,
    core: &Core,
    question: &Question,
    path: impl Fn(&Choice) -> Path,
) -> Told {
    let mut recorder = Recorder::default();
    let choice = core.explain(&question.query(), &mut recorder);
    tell_recorded(node, choice, recorder, question, path)
}

/// Explains a selection that was recorded.
pub(crate) fn tell_recorded(
    node: &Node,
    choice: Result<Choice, SelectError>,
    recorder: Recorder,
    question: &Question,
    path: impl Fn(&Choice) -> Path,
) -> Told {
    let classification = recorder.classification;
    let contests = recorder.contests();
    let levels: Vec<LevelTable> = contests.iter().map(|one| table(node, one)).collect();
    let answer = Answer {
        because: match (&choice, &classification) {
            // Selection rejected the message before its first decision: the error says everything.
            (Err(_), None) => Vec::new(),
            _ => because(node, question, classification.as_ref(), &contests),
        },
        path: choice.as_ref().ok().map(path),
        error: choice.err().map(|error| explain_error(error, question)),
    };
    Told {
        answer,
        classification: classification.map(|one| case_facts(node, question, &one)),
        levels,
        contests,
    }
}

fn explain_error(error: SelectError, question: &Question) -> String {
    match error {
        SelectError::NoRoute(net) => {
            format!("no interface of this node is on {net}, and no live route leads there")
        }
        error => format!("{error} (to {})", question.to),
    }
}

fn case_facts(node: &Node, question: &Question, one: &Classification) -> CaseFacts {
    let to = question.to;
    let source = match one.source {
        Some(nid) => format!("A, given: {}", node.label(nid)),
        None => "B, any: none was given".to_owned(),
    };
    let locality = match (one.locality, one.source) {
        (Locality::Local(net), None) => format!("1, local: this node has an interface on {net}"),
        (Locality::Local(net), Some(_)) => format!("1, local: the source is on {net}, too"),
        (Locality::Remote(net), None) => {
            format!("2, remote: no interface of this node is on {net}")
        }
        (Locality::Remote(net), Some(from)) => {
            format!("2, remote: the source is on {}, not on {net}", from.net())
        }
    };
    let kind = match one.kind {
        TargetKind::MultiRail { primary } => {
            let since = discovery::why_multi_rail(node, to);
            let since = since.map_or_else(String::new, |since| format!("; {since}"));
            format!("C, Multi-Rail: {to} belongs to peer {primary}{since}")
        }
        TargetKind::SingleRail => format!("D, not Multi-Rail: {}", why_single(node, question)),
        TargetKind::Pinned => "D: a ping is about this very NID".to_owned(),
        TargetKind::LastHop => "D: the last hop of a forwarded message".to_owned(),
    };
    CaseFacts {
        case: one.case().to_string(),
        source,
        locality,
        kind,
    }
}

fn why_single(node: &Node, question: &Question) -> String {
    let to = question.to;
    let peer = node.state.peers.iter().find(|peer| peer.nids.contains(&to));
    let what = match peer.and_then(|peer| peer.nids.first()) {
        Some(primary) if node.facts.single_rail.contains(primary) => {
            format!("peer {primary} is listed with Multi-Rail: False")
        }
        Some(primary) if *primary != to => format!("peer {primary} is known not to be"),
        Some(_) => format!("peer {to} is not known to be"),
        None if node.facts.single_rail.contains(&to) => {
            format!("peer {to} is listed with Multi-Rail: False")
        }
        None => format!("{to} is not among the known peers"),
    };
    match discovery::why_single_rail(node, to) {
        Some(why) => format!("{what}; {why}"),
        None => what,
    }
}

fn table(node: &Node, contest: &Contest) -> LevelTable {
    let first = contest.candidates.first();
    let criteria = first.map(|one| one.values.iter().map(|&(by, _)| word(by)).collect());
    let rows = contest.candidates.iter().map(|one| Row {
        name: subject_name(one.subject),
        interface: nid_of(one.subject)
            .and_then(|nid| node.facts.interfaces.get(&nid)?.first().cloned()),
        values: one.values.iter().map(|&(_, value)| value).collect(),
        eliminated_by: one.lost.map(|(_, by)| word(by)),
        lost_to: one.lost.map(|(to, _)| subject_name(to)),
    });
    let excluded = contest.excluded.iter();
    LevelTable {
        level: level_word(contest.level),
        criteria: criteria.unwrap_or_default(),
        candidates: rows.collect(),
        excluded: excluded
            .map(|&(subject, why)| (subject_name(subject), exclusion_word(why).to_owned()))
            .collect(),
        winner: contest.winner.map(subject_name),
        decided_by: contest.decided_by().map(word),
        margin: margin(contest),
    }
}

/// Returns the changes that would let the best rival win: the winner falls behind in one criterion, at or before
/// the deciding criterion.
fn margin(contest: &Contest) -> Option<String> {
    let best = contest.best()?;
    let (rival, decider) = contest.runner_up()?;
    let rival_name = subject_name(rival.subject);
    let up_to_decider = best.values.iter().zip(&rival.values);
    let deciding = best.values.iter().position(|&(by, _)| by == decider);
    let up_to_decider = up_to_decider.take(deciding.map_or(usize::MAX, |at| at + 1));
    let ways: Vec<String> = up_to_decider
        .filter(|(mine, _)| !mine.0.is_rotation())
        .filter_map(|(&(by, mine), &(_, its))| way_to_lose(by, mine, its))
        .collect();
    let turns = if decider.is_rotation() {
        "they take turns; "
    } else {
        ""
    };
    if ways.is_empty() {
        return None;
    }
    Some(format!(
        "{turns}would lose to {rival_name} with {}",
        ways.join(", or ")
    ))
}

fn way_to_lose(by: Criterion, mine: i64, its: i64) -> Option<String> {
    // No priority is worse than none, which is shown as -1, and no device is farther than one at an unknown
    // distance.
    if its == -1 && has_none(by) || by == Criterion::Distance && its == i64::from(u32::MAX) {
        return None;
    }
    match by {
        Criterion::Fatal if its == 0 => return Some("a fatal error".to_owned()),
        // No error is worse than a fatal one.
        Criterion::Fatal => return None,
        // No health is below 0.
        Criterion::Health | Criterion::PeerNetHealth | Criterion::LocalNetHealth if its == 0 => {
            return None;
        }
        Criterion::Used | Criterion::PreferredGateway | Criterion::Device if mine == its => {
            return None;
        }
        _ => {}
    }
    let than = if by.is_higher_better() {
        "below"
    } else {
        "above"
    };
    let mine = match mine {
        mine if mine == its => String::new(),
        -1 if has_none(by) => " (has none)".to_owned(),
        mine => format!(" (has {mine})"),
    };
    Some(format!("{} {than} {its}{mine}", word(by)))
}

fn has_none(by: Criterion) -> bool {
    matches!(
        by,
        Criterion::Priority
            | Criterion::PeerNetPriority
            | Criterion::LocalNetPriority
            | Criterion::Preference
    )
}

fn because(
    node: &Node,
    question: &Question,
    one: Option<&Classification>,
    contests: &[Contest],
) -> Vec<String> {
    let Some(one) = one else {
        return vec![format!("{} is this node itself: loopback", question.to)];
    };
    let mut clauses: Vec<String> = contests.iter().filter_map(clause).collect();
    let alone = contests
        .iter()
        .filter(|contest| contest.runner_up().is_none());
    let mut alone: Vec<&str> = alone
        .filter(|contest| contest.winner.is_some())
        .map(|contest| level_word(contest.level))
        .collect();
    alone.dedup();
    if let Some(source) = one.source {
        clauses.insert(0, format!("the source {} was given", node.label(source)));
    } else if let Some(pinned) = pinned(node, question, one, contests) {
        clauses.push(pinned);
    }
    if !alone.is_empty() {
        clauses.push(format!("there is no choice of {}", alone.join(", ")));
    }
    clauses
}

/// Returns the choice that no table shows: messages to a peer that is not Multi-Rail leave from the local NI that the
/// peer knows.
fn pinned(
    node: &Node,
    question: &Question,
    one: &Classification,
    contests: &[Contest],
) -> Option<String> {
    let chosen = contests
        .iter()
        .any(|c| c.level == lnet_core::Level::LocalNi);
    if chosen || !matches!(one.kind, TargetKind::SingleRail) {
        return None;
    }
    if let Some((rule, source)) = preferred_source(node, question.to) {
        return Some(format!(
            "rule {rule} prefers {} for {}, a NID of a peer that is not Multi-Rail",
            node.label(source),
            question.to
        ));
    }
    let peer_nis = &node.state.peer_nis;
    let known = peer_nis.iter().find(|ni| ni.nid == question.to)?.pinned?;
    Some(format!(
        "{} knows this node as {}",
        question.to,
        node.label(known)
    ))
}

/// Returns the first local interface that a rule prefers for messages to this NID, and the rule.
fn preferred_source(node: &Node, to: Nid) -> Option<(usize, Nid)> {
    let mut topology = topology(&node.state);
    if !topology.peers.iter().any(|peer| peer.nis.contains(&to)) {
        topology.peers.push(Peer {
            primary: to,
            multi_rail: false,
            nis: vec![to],
        });
    }
    let profile = node.state.config.globals.profile;
    let effects = evaluate(&node.state.rules, &topology, profile);
    let mut nis = effects.peers.iter().flat_map(|peer| &peer.nis);
    let (_, effect) = nis.find(|one| one.0 == to)?;
    let is_ours = |nid: Nid| node.state.nis.iter().any(|ni| ni.nid == nid);
    let entries = effect.sources.entries().iter();
    let mut found = entries.filter(|entry| is_ours(entry.nid));
    found.next().map(|entry| (entry.set_by, entry.nid))
}

fn clause(contest: &Contest) -> Option<String> {
    let level = level_word(contest.level);
    let winner = subject_name(contest.winner?);
    let (best, (rival, by)) = contest.best().zip(contest.runner_up())?;
    if by.is_rotation() {
        return Some(format!("{level} {winner} is next in turn"));
    }
    let value = |values: &[(Criterion, i64)]| {
        let found = values.iter().find(|&&(one, _)| one == by);
        found.map_or(0, |&(_, value)| value)
    };
    let (mine, its) = (value(&best.values), value(&rival.values));
    let shown = |value: i64| match value {
        -1 if has_none(by) => "none".to_owned(),
        value => value.to_string(),
    };
    let name = word(by);
    let its_name = subject_name(rival.subject);
    Some(format!(
        "{level} {winner} by {name}, {} against {} of {its_name}",
        shown(mine),
        shown(its)
    ))
}

//! What follows from the ways to a target, and from what it answered.

use super::catalogue::*;
use super::facts::{Reach, TargetFacts, Way, Why};
use super::verdict::{
    EACCES, EAGAIN, EBUSY, ENODEV, EPERM, EPROTO, EROFS, Verdict, any_unexamined,
    any_without_device, describe, is_untried, silent_rails, unreached,
};
use crate::client::Failure;
use crate::opc::{MDS_CONNECT, OST_CONNECT};

pub(super) fn check_target(target: &TargetFacts, verdict: &mut Verdict) {
    let name = &target.name;
    if target.nodes.first().is_none_or(Vec::is_empty) {
        return verdict.add(&TARGET_NO_NID, name, "the log names no NID of its node");
    }
    let refusal = refusal(target);
    if are_nids_bad(target, refusal.as_ref(), verdict) {
        return;
    }
    if !target.nodes.iter().any(|node| answers(node)) {
        return unanswered(target, verdict);
    }
    let is_there = has_connected(target)
        || refusal
            .as_ref()
            .is_some_and(|refusal| refusal.tells == Tells::There);
    let is_away =
        |reach: &Reach| !reach.answers() && !is_untried(&reach.way) && !reach.is_unasked();
    let says_little = refusal.as_ref().is_none_or(Refusal::says_little);
    if !is_there && says_little && !target.now.is_empty() && target.now.iter().all(is_away) {
        let answered = refusal.iter().map(|refusal| refusal.seen.clone());
        let seen: Vec<String> = [describe(&target.now)]
            .into_iter()
            .chain(answered)
            .collect();
        return verdict.add(&TARGET_AWAY, name, seen.join("; "));
    }
    let is_known = is_there || answers(&target.now);
    if !is_known && target.now.iter().any(|reach| is_untried(&reach.way)) {
        let kind = match any_unexamined(&target.now) {
            true => &NOT_EXAMINED,
            false => &TARGET_NO_DEVICE,
        };
        return verdict.add(kind, name, describe(&target.now));
    }
    if is_missed(target, refusal.as_ref(), verdict) {
        return;
    }
    check_nodes(target, is_known, verdict);
    if let Some(Refusal { kind, seen, .. }) = refusal {
        verdict.add(kind, name, seen);
    }
    check_state(target, verdict);
}

fn answers(nids: &[Reach]) -> bool {
    nids.iter().any(Reach::answers)
}

fn has_connected(target: &TargetFacts) -> bool {
    target.knocks.iter().any(|knock| knock.result.is_ok())
}

/// Returns whether the log has a NID by which no other machine is reached.
fn is_bad(reach: &Reach) -> bool {
    matches!(reach.way, Way::Unreadable | Way::Here) && !reach.answers()
}

/// Says which NIDs of the log are bad. Returns whether nothing else is to be said: no other NID is left, or the target is not
/// found on the others.
fn are_nids_bad(target: &TargetFacts, refusal: Option<&Refusal>, verdict: &mut Verdict) -> bool {
    let nids = || target.nodes.iter().flatten();
    if !nids().any(is_bad) {
        return false;
    }
    let is_open = |reach: &Reach| {
        reach.answers() || reach.is_unasked() || matches!(reach.way, Way::Unexamined { .. })
    };
    let is_beside = nids().any(is_open) && !refusal.is_some_and(Refusal::says_little);
    for reach in nids().filter(|reach| is_bad(reach)) {
        let (kind, seen) = match reach.way {
            Way::Unreadable => (&TARGET_BAD_NID, format!("'{}'", reach.nid)),
            _ => (
                &TARGET_HERE,
                format!("{} is an address of this machine", reach.nid),
            ),
        };
        let kind = if is_beside { &NID_UNUSABLE } else { kind };
        verdict.add(kind, &target.name, seen);
    }
    !is_beside
}

/// No NID of the target answers.
fn unanswered(target: &TargetFacts, verdict: &mut Verdict) {
    let all: Vec<Reach> = target.nodes.iter().flatten().cloned().collect();
    let is_unfinished = all.iter().any(Reach::is_unasked);
    let kind = match unreached(&all).map(|(why, _)| why) {
        _ if any_unexamined(&all) => &NOT_EXAMINED,
        // That is said anyway.
        _ if is_unfinished => return,
        Some(Why::PortClosed) => &TARGET_PORT_CLOSED,
        Some(Why::NotLnet) => &TARGET_NOT_LNET,
        Some(_) => &TARGET_UNREACHABLE,
        None if any_without_device(&all) => &TARGET_NO_DEVICE,
        None => &TARGET_NO_NET,
    };
    verdict.add(kind, &target.name, describe(&all));
}

/// Says which nodes do not answer beside others that do. A failover node that answers a ping need not have the target.
fn check_nodes(target: &TargetFacts, is_known: bool, verdict: &mut Verdict) {
    let name = &target.name;
    for (at, node) in target.nodes.iter().enumerate() {
        let is_usual = at == 0;
        if answers(node) {
            silent_rails(node, name, verdict);
            continue;
        }
        let is_unasked = node.iter().any(Reach::is_unasked);
        let kind = match is_usual {
            true if !is_known && any_unexamined(node) => &NOT_EXAMINED,
            // It is not known to be away.
            _ if any_unexamined(node) || is_unasked => continue,
            true if !is_known => &TARGET_UNPROVEN,
            // That is said already.
            _ if node.iter().all(is_bad) => continue,
            true => &ON_FAILOVER,
            false => &NO_FAILOVER,
        };
        verdict.add(kind, name, describe(node));
    }
}

/// Says what a target that serves says about itself.
fn check_state(target: &TargetFacts, verdict: &mut Verdict) {
    let mut serving = target.knocks.iter().filter_map(|knock| {
        let (_, statfs) = knock.result.as_ref().ok()?;
        Some((&knock.nid, statfs.map_or(0, |statfs| statfs.state)))
    });
    let Some((nid, state)) = serving.next() else {
        return;
    };
    let seen = format!("{nid}: state {state:#x}");
    if state & 0x60 != 0 {
        verdict.add(&TARGET_FULL, &target.name, seen);
    } else if state & 2 != 0 {
        verdict.add(&TARGET_FROZEN, &target.name, seen);
    }
}

/// What the answer to a connect tells about where the target is: what tells most comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tells {
    /// The target is there.
    There,
    /// The target was not asked to the end.
    Unclear,
    /// The target may be there, or not.
    Silent,
    /// What answers is no Lustre server.
    Garbage,
    /// The target is not there, or the node was not reached.
    Nothing,
}

fn tells(failure: &Failure) -> Tells {
    match failure {
        Failure::Late(_) | Failure::Stopped | Failure::Own(_) => Tells::Unclear,
        Failure::NoReply { opc, .. } if is_connect(*opc) => Tells::Silent,
        Failure::Garbage { opc, .. } if is_connect(*opc) => Tells::Garbage,
        Failure::Unsent(_) => Tells::Nothing,
        _ if target_failure(failure) == &TARGET_ABSENT => Tells::Nothing,
        _ => Tells::There,
    }
}

fn is_connect(opc: u32) -> bool {
    [OST_CONNECT, MDS_CONNECT].contains(&opc)
}

/// What a target answered that serves nowhere.
struct Refusal {
    tells: Tells,
    /// What follows from the failure that tells most.
    kind: &'static Kind,
    /// All failures, the one that tells most first.
    seen: String,
}

impl Refusal {
    /// Returns whether the failures leave open whether another node has the target.
    fn says_little(&self) -> bool {
        self.tells > Tells::Unclear
    }
}

/// Returns the failures of a target that was asked and serves nowhere.
fn refusal(target: &TargetFacts) -> Option<Refusal> {
    if has_connected(target) {
        return None;
    }
    let failures = target.knocks.iter().filter_map(|knock| {
        let failure = knock.result.as_ref().err()?;
        Some((&knock.nid, failure))
    });
    let mut failures: Vec<(&String, &Failure)> = failures.collect();
    failures.sort_by_key(|(_, failure)| tells(failure));
    let (_, most) = failures.first()?;
    let seen = failures
        .iter()
        .map(|(nid, failure)| format!("{nid}: {failure}"));
    Some(Refusal {
        tells: tells(most),
        kind: target_failure(most),
        seen: seen.collect::<Vec<_>>().join("; "),
    })
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
    let has = |nid: &str| node.iter().any(|reach| reach.nid == nid);
    let knock = target.knocks.iter().find(|knock| has(&knock.nid));
    match knock.map(|knock| &knock.result) {
        Some(Err(Failure::Unsent(_))) => Place::Missed,
        Some(_) => Place::Asked,
        None if answers(node) || node.iter().any(Reach::is_unasked) => Place::Unasked,
        None if any_unexamined(node) => Place::Unexamined,
        None => Place::Missed,
    }
}

/// Says what is unknown about a target that no node has of those that were asked, while another was not reached: the target
/// may run there. Returns whether that is so.
fn is_missed(target: &TargetFacts, refusal: Option<&Refusal>, verdict: &mut Verdict) -> bool {
    let Some(refusal) = refusal.filter(|refusal| refusal.says_little()) else {
        return false;
    };
    let places = target.nodes.iter().map(|node| (place(target, node), node));
    let elsewhere: Vec<(Place, &Vec<Reach>)> =
        places.filter(|(place, _)| *place != Place::Asked).collect();
    if elsewhere.len() == target.nodes.len() {
        return false;
    }
    let is_at = |wanted| elsewhere.iter().any(|(place, _)| *place == wanted);
    let kind = match () {
        // Nobody asks the next node after such an answer.
        () if refusal.tells == Tells::Garbage && is_at(Place::Unasked) => return false,
        () if is_at(Place::Unasked) => &UNFINISHED,
        () if is_at(Place::Unexamined) => &NOT_EXAMINED,
        () if is_at(Place::Missed) => &TARGET_NOT_FOUND,
        () => return false,
    };
    // A target that was not asked is said to be so anyway.
    if kind != &UNFINISHED || !target.is_unasked {
        let seen = elsewhere.iter().map(|(_, node)| describe(node));
        let seen = seen.chain([refusal.seen.clone()]);
        let seen: Vec<String> = seen.filter(|seen| !seen.is_empty()).collect();
        verdict.add(kind, &target.name, seen.join("; "));
    }
    true
}

fn target_failure(failure: &Failure) -> &'static Kind {
    match failure {
        // What answered the connect is the target.
        Failure::NoReply { opc, .. } if !is_connect(*opc) => &TARGET_LATE,
        Failure::NoReply { .. } => &TARGET_SILENT,
        Failure::Unsent(_) => &TARGET_UNREACHABLE,
        Failure::Late(_) => &TARGET_SLOW,
        Failure::Stopped | Failure::Own(_) => &UNFINISHED,
        Failure::Refused {
            is_banned: true, ..
        } => &TARGET_BANNED,
        Failure::Refused { opc, status, .. } => match (*status, is_connect(*opc)) {
            (ENODEV, _) => &TARGET_ABSENT,
            // A connect is answered so while the target starts, and a later request while it recovers.
            (EAGAIN, true) => &TARGET_STARTING,
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

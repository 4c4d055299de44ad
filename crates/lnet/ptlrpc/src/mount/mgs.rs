//! What follows from what the nodes of the MGS answered.

use super::catalogue::*;
use super::facts::{Facts, Mgs, Reach, Why};
use super::verdict::{
    EACCES, EAGAIN, EBUSY, ENODEV, EPERM, EPROTO, Verdict, any_unexamined, any_without_device,
    describe, names, silent_rails, unreached,
};
use crate::client::Failure;
use crate::opc::MGS_CONNECT;

/// What is known of a node, by what it tells when no node serves: what tells most comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Serves,
    /// The MGS is there, and answers with something else.
    Answers,
    /// Nothing is known, because the node was not asked to the end.
    Unasked,
    Unexamined,
    /// The node was not reached.
    Missed,
    /// The node is up, and a connect gets no answer.
    Silent,
    /// What answers the connect is no RPC.
    Garbage,
    /// The node says that it has no MGS.
    Absent,
}

fn standing(mgs: &Mgs) -> Standing {
    match &mgs.outcome {
        Some(Ok(_)) => Standing::Serves,
        Some(Err(failure)) => match failure {
            Failure::Unsent(_) => Standing::Missed,
            Failure::Stopped | Failure::Own(_) => Standing::Unasked,
            Failure::NoReply { opc, .. } if *opc == MGS_CONNECT => Standing::Silent,
            Failure::Garbage { opc, .. } if *opc == MGS_CONNECT => Standing::Garbage,
            _ if mgs_failure(failure) == &MGS_ABSENT => Standing::Absent,
            _ => Standing::Answers,
        },
        None if mgs.nids.iter().any(Reach::is_unasked) => Standing::Unasked,
        None if any_unexamined(&mgs.nids) => Standing::Unexamined,
        None => Standing::Missed,
    }
}

pub(super) fn check_mgs(facts: &Facts, verdict: &mut Verdict) {
    let serves = |mgs: &Mgs| standing(mgs) == Standing::Serves;
    let Some(serving) = facts.mgs.iter().position(serves) else {
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

/// No node of the MGS serves. The nodes with the standing that tells most are named, and what was seen of all stands behind.
fn not_served(facts: &Facts, verdict: &mut Verdict) {
    let Some(most) = facts.mgs.iter().map(standing).min() else {
        return;
    };
    let (mut told, mut others): (Vec<&Mgs>, Vec<&Mgs>) =
        facts.mgs.iter().partition(|mgs| standing(mgs) == most);
    let kind = match most {
        Standing::Unasked => &UNFINISHED,
        Standing::Unexamined => &NOT_EXAMINED,
        // A node that was reached does not have the MGS.
        Standing::Missed if !others.is_empty() => &MGS_NOT_FOUND,
        _ => {
            let kinds = told.iter().map(|mgs| why_not(mgs).0);
            let Some(kind) = kinds.min_by_key(|kind| urgency(kind)) else {
                return;
            };
            let (same, rest): (Vec<&Mgs>, Vec<&Mgs>) =
                told.iter().partition(|mgs| why_not(mgs).0 == kind);
            told = same;
            others.splice(0..0, rest);
            kind
        }
    };
    let nodes: Vec<String> = told.iter().map(|mgs| names(&mgs.nids)).collect();
    let name = match kind.name {
        "no-file-system" | "log-unreadable" => facts.fs.clone(),
        "mgs-not-found" => nodes.join(":"),
        _ => format!("the MGS at {}", nodes.join(":")),
    };
    let is_one = facts.mgs.len() == 1;
    let seen = told.iter().chain(&others).map(|mgs| seen_of(mgs, is_one));
    let cut = (kind == &UNFINISHED && told.iter().any(|mgs| is_cut(mgs)))
        .then(|| facts.why_cut().to_owned());
    let seen = cut.into_iter().chain(seen);
    let seen: Vec<String> = seen.filter(|seen| !seen.is_empty()).collect();
    verdict.add(kind, name, seen.join("; "));
}

/// Returns whether the check ended before it had asked the node.
fn is_cut(mgs: &Mgs) -> bool {
    matches!(mgs.outcome, None | Some(Err(Failure::Stopped)))
}

/// Returns what was seen of a node.
fn seen_of(mgs: &Mgs, is_one: bool) -> String {
    match &mgs.outcome {
        Some(Err(Failure::Stopped)) => String::new(),
        Some(Err(failure)) if is_one => failure.to_string(),
        Some(Err(failure)) => format!("{}: {failure}", names(&mgs.nids)),
        None if mgs.nids.iter().all(Reach::is_unasked) => String::new(),
        _ => describe(&mgs.nids),
    }
}

/// Returns the place of a kind among those of nodes that tell as much.
fn urgency(kind: &Kind) -> usize {
    // A node without a way from here is of another net: those that this machine can reach come first.
    let last = [&MGS_NO_DEVICE, &MGS_NO_NET];
    let behind = last.iter().position(|known| *known == kind);
    let at = |kind| KINDS.iter().position(|known| *known == kind);
    match behind {
        Some(behind) => KINDS.len() + behind,
        None => at(kind).unwrap_or_default(),
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
        Failure::Late(_) => &MGS_LATE,
        Failure::Stopped | Failure::Own(_) => &UNFINISHED,
    }
}

//! Health: what is not in full health, why, and until when. A core computes the time until full health.

use std::collections::BTreeSet;

use lnet_core::{Health, NiSelection, PeerNiSelection, RecoverySelection, StateError};
use lnet_types::{Nid, Time};

use crate::explanation::HealthReport;
use crate::node::Node;
use crate::recovery;

/// The limit on the pings of a schedule that are listed.
const SCHEDULE_MAX: usize = 16;

/// The number of failed tries of each class.
pub(crate) type Failures = Vec<(&'static str, u64)>;

/// Reports on the local NIs and the given peer NIs that are not in full health or not up.
pub(crate) fn reports(
    node: &Node,
    peer_nis: &BTreeSet<Nid>,
) -> Result<Vec<HealthReport>, StateError> {
    let local = node
        .state
        .nis
        .iter()
        .filter(|ni| !is_well(ni.health, ni.up && !ni.fatal));
    let remote = node
        .state
        .peer_nis
        .iter()
        .filter(|ni| peer_nis.contains(&ni.nid));
    let remote = remote.filter(|ni| !is_well(ni.health, ni.up));
    let local = local.map(|ni| of_local(node, ni));
    local.chain(remote.map(|ni| of_peer(node, ni))).collect()
}

fn is_well(health: Health, up: bool) -> bool {
    health.is_full() && up
}

fn of_local(node: &Node, ni: &NiSelection) -> Result<HealthReport, StateError> {
    let down = if ni.fatal {
        Some("the LND reported a fatal error, such as a link that is down".to_owned())
    } else if !ni.up {
        Some("advertised as down, because its health was 0, until it is full".to_owned())
    } else {
        None
    };
    let report = report(node, ni.nid, ni.health, failures_of_ni(ni), &ni.recovery)?;
    Ok(HealthReport {
        local: true,
        down,
        ..report
    })
}

fn of_peer(node: &Node, ni: &PeerNiSelection) -> Result<HealthReport, StateError> {
    let report = report(node, ni.nid, ni.health, failures_of_peer(ni), &ni.recovery)?;
    Ok(HealthReport {
        down: (!ni.up).then(|| "its node reports that it is down".to_owned()),
        ..report
    })
}

fn report(
    node: &Node,
    nid: Nid,
    health: Health,
    failures: Failures,
    recovery: &RecoverySelection,
) -> Result<HealthReport, StateError> {
    let pings = if health.is_full() {
        Vec::new()
    } else {
        recovery::pings(node, nid)?
    };
    let until = |at: Time| (at - node.now).as_secs();
    let first = pings.first().copied().unwrap_or(node.now);
    let after_first = |&at: &Time| (at - first).as_secs();
    let unpinged = !health.is_full() && pings.is_empty();
    Ok(HealthReport {
        nid: node.label(nid),
        local: false,
        health: health.value(),
        down: None,
        cause: cause(&failures),
        failures,
        next_ping_seconds: recovery.next_ping.map(until),
        next_ping_uptime_seconds: node.facts.next_pings.get(&nid).copied(),
        pings: u32::try_from(pings.len()).unwrap_or(u32::MAX),
        schedule_seconds: pings.iter().take(SCHEDULE_MAX).map(after_first).collect(),
        full_after_seconds: pings.last().map(after_first),
        stuck: unpinged.then(|| why_unpinged(node)),
    })
}

fn why_unpinged(node: &Node) -> String {
    let globals = &node.state.config.globals;
    if globals.health_sensitivity == 0 {
        return "health_sensitivity is 0: health never changes".to_owned();
    }
    let limit = globals.recovery_limit.as_secs();
    format!("never heard of, or silent for more than recovery_limit ({limit} s): not pinged")
}

fn failures_of_ni(ni: &NiSelection) -> Failures {
    counted([
        ("interrupts", ni.failures.interrupts),
        ("dropped", ni.failures.dropped),
        ("aborted", ni.failures.aborted),
        ("no route", ni.failures.no_route),
        ("timeouts", ni.failures.timeouts),
        ("error", ni.failures.error),
    ])
}

fn failures_of_peer(ni: &PeerNiSelection) -> Failures {
    counted([
        ("dropped", ni.failures.dropped),
        ("timeout", ni.failures.timeout),
        ("error", ni.failures.error),
        ("network timeout", ni.failures.network_timeout),
    ])
}

fn counted<const N: usize>(failures: [(&'static str, u64); N]) -> Failures {
    let counted = failures.into_iter().filter(|&(_, count)| count > 0);
    counted.collect()
}

fn cause(counted: &[(&'static str, u64)]) -> Option<String> {
    let &(most, count) = counted.iter().max_by_key(|&&(_, count)| count)?;
    let only = if counted.len() == 1 { "only" } else { "mostly" };
    let times = if count == 1 {
        "once".to_owned()
    } else {
        format!("{count} times")
    };
    Some(format!("{only} {most}, {times}"))
}

/// Returns the counters of each local NI and peer NI that has failures: its NID, whether it is local, its health,
/// and the number of failures of each class.
pub(crate) fn failures(node: &Node) -> impl Iterator<Item = (Nid, bool, Health, Failures)> {
    let nis = node.state.nis.iter();
    let local = nis.map(|ni| (ni.nid, true, ni.health, failures_of_ni(ni)));
    let peer_nis = node.state.peer_nis.iter();
    let remote = peer_nis.map(|ni| (ni.nid, false, ni.health, failures_of_peer(ni)));
    let all = local.chain(remote);
    all.filter(|(.., failures)| !failures.is_empty())
}

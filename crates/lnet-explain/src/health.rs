//! Health: what is not well, why, and until when.
//!
//! An answered recovery ping raises a peer NI by one sensitivity, and a gateway's to the full. A ping of
//! one's own NID is sent, received, answered and received, so that it raises a local NI by five
//! (lnet-selection, section 10.1). The answer also resets the back-off, so that pings go out two seconds apart.

use lnet_core::{Health, NiSelection, PeerNiSelection, RecoverySelection};
use lnet_types::{Nid, Time};

use crate::explanation::HealthReport;
use crate::node::Node;

/// Sensitivities that an answered ping of one's own NID raises health by.
const SELF_PING_GAIN: u32 = 5;
/// Pause after an answered ping: two to the power of the one ping sent since.
const PAUSE_SECONDS: u64 = 2;
/// Pings of a schedule that are listed.
const SCHEDULE_MAX: u32 = 16;

/// Reports on what is not well, of the local NIs and of these peer NIs.
pub(crate) fn reports(node: &Node, peer_nis: &[Nid]) -> Vec<HealthReport> {
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

fn of_local(node: &Node, ni: &NiSelection) -> HealthReport {
    let failures = [
        ("interrupts", ni.failures.interrupts),
        ("dropped", ni.failures.dropped),
        ("aborted", ni.failures.aborted),
        ("no route", ni.failures.no_route),
        ("timeouts", ni.failures.timeouts),
        ("error", ni.failures.error),
    ];
    let down = if ni.fatal {
        Some("the LND reported a fatal error, such as a link that is down".to_owned())
    } else if !ni.up {
        Some("advertised as down, since its health was 0 and until it is full".to_owned())
    } else {
        None
    };
    let gain = u32::from(node.state.config.globals.health_sensitivity) * SELF_PING_GAIN;
    let mut report = report(node, ni.nid, ni.health, &failures, &ni.recovery, gain);
    (report.local, report.down) = (true, down);
    report
}

fn of_peer(node: &Node, ni: &PeerNiSelection) -> HealthReport {
    let failures = [
        ("dropped", ni.failures.dropped),
        ("timeout", ni.failures.timeout),
        ("error", ni.failures.error),
        ("network timeout", ni.failures.network_timeout),
    ];
    let state = &node.state;
    let globals = &state.config.globals;
    let owner = state.peers.iter().find(|peer| peer.nids.contains(&ni.nid));
    let is_gateway = owner.is_some_and(|peer| {
        let mut gateways = state.gateways.iter();
        gateways.any(|gateway| peer.nids.contains(&gateway.nid))
    });
    let gain = match globals.health_sensitivity {
        0 => 0,
        _ if is_gateway || state.config.routing => u32::from(Health::MAX.value()),
        sensitivity => u32::from(sensitivity),
    };
    let mut report = report(node, ni.nid, ni.health, &failures, &ni.recovery, gain);
    report.down = (!ni.up).then(|| "its node says that it is down".to_owned());
    let silent = ni
        .last_alive
        .zip(Some(globals.recovery_limit))
        .filter(|(_, limit)| !limit.is_zero());
    if silent.is_some_and(|(heard, limit)| node.now > heard + limit) {
        let limit = globals.recovery_limit.as_secs();
        report.stuck = Some(format!(
            "silent for more than recovery_limit ({limit} s): not pinged"
        ));
    }
    report
}

fn report(
    node: &Node,
    nid: Nid,
    health: Health,
    failures: &[(&'static str, u64)],
    recovery: &RecoverySelection,
    gain: u32,
) -> HealthReport {
    let counted: Vec<_> = failures
        .iter()
        .copied()
        .filter(|&(_, count)| count > 0)
        .collect();
    let missing = u32::from(Health::MAX.value() - health.value());
    let pings = if gain == 0 { 0 } else { missing.div_ceil(gain) };
    let until = |at: Time| (at - node.now).as_secs();
    HealthReport {
        nid: node.label(nid),
        local: false,
        health: health.value(),
        down: None,
        cause: cause(&counted),
        failures: counted,
        next_ping_seconds: recovery.next_ping.map(until),
        next_ping_uptime_seconds: node.facts.next_pings.get(&nid).copied(),
        pings,
        schedule_seconds: (0..pings.min(SCHEDULE_MAX))
            .map(|ping| u64::from(ping) * PAUSE_SECONDS)
            .collect(),
        stuck: (gain == 0 && missing > 0)
            .then(|| "health_sensitivity is 0: health never changes".to_owned()),
    }
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

/// Reports on every local NI and peer NI, well or not.
pub(crate) fn all(node: &Node) -> Vec<HealthReport> {
    let local = node.state.nis.iter().map(|ni| of_local(node, ni));
    let remote = node.state.peer_nis.iter().map(|ni| of_peer(node, ni));
    local.chain(remote).collect()
}

//! Lints of the node-wide parameters.

use std::collections::BTreeSet;

use lnet_config::{Globals, Step};

use crate::lint::catalogue::{
    HEALTH_OFF, RECOVERY_LIMIT_SHORT, SENSITIVITY_DRAINS, TIMEOUTS_MISALIGNED,
};
use crate::lint::finding::Finding;
use crate::lint::node::Node;

/// The shortest LND timeout, in seconds, with which slow tries do not count as failed.
const SHORT_LND_TIMEOUT: u32 = 5;
/// The seconds between two pings of a gateway: alive_router_check_interval, which no document of a
/// kernel sets.
const ROUTER_CHECK_INTERVAL: u32 = 60;
/// The value of full health.
// [HEALTH-1]
const HEALTH_MAX: u32 = 1000;
/// The defaults of kernels since 2.16; `docs/selection/releases.md` has those of each release.
const TRANSACTION_TIMEOUT: u32 = 150;
const RETRY_COUNT: u32 = 2;
/// The LND's own timeout, in seconds, that release 2.17.0 shows if nobody set one.
const LND_TIMEOUT_2_17: u32 = 50;

/// Returns true for an LND's timeout that a release has if nobody set one: the share of an attempt, which releases up
/// to 2.16 derive, or the 50 s of release 2.17.0.
pub(super) fn is_default_lnd_timeout(globals: &Globals, timeout: u32) -> bool {
    let whole = globals.transaction_timeout.unwrap_or(TRANSACTION_TIMEOUT);
    let tries = globals.retry_count.unwrap_or(RETRY_COUNT).saturating_add(1);
    timeout == share(whole, tries) || timeout == LND_TIMEOUT_2_17
}

/// Returns the seconds of one of several tries.
fn share(whole: u32, tries: u32) -> u32 {
    (whole.saturating_sub(1) / tries).max(1)
}

/// Reports that health is switched off although the node could choose between several paths.
pub(super) fn health_off(node: &Node<'_>) -> Vec<Finding> {
    if node.document().globals.health_sensitivity != Some(0) {
        return Vec::new();
    }
    let several_gateways = || {
        let nets: BTreeSet<_> = node.routes.iter().map(|route| route.show.net).collect();
        nets.len() < node.routes.len()
    };
    let several_peer_nis = || {
        node.peers()
            .any(|(_, peer)| peer.multi_rail && peer.nis.len() > 1)
    };
    let choice = if node.nis.len() > 1 {
        "several local NIs"
    } else if several_peer_nis() {
        "Multi-Rail peers"
    } else if several_gateways() {
        "several gateways"
    } else {
        return Vec::new();
    };
    let reason = format!(
        "health_sensitivity is 0 and there are {choice}: failures do not influence the selection, and no message is resent"
    );
    let path = node.parameter("health_sensitivity");
    vec![node.finding(&HEALTH_OFF, &path, reason, HEALTH_OFF.helps.to_owned())]
}

/// Reports a sensitivity with which one failure takes all health of an interface.
pub(super) fn sensitivity_drains(node: &Node<'_>) -> Vec<Finding> {
    let sensitivity = node.document().globals.health_sensitivity;
    if sensitivity.is_none_or(|value| value < HEALTH_MAX) {
        return Vec::new();
    }
    let reason = "health_sensitivity is 1000: one failure takes all health, marks the interface down and moves all \
                  traffic off it";
    let fix = "lnetctl set health_sensitivity 100, with which ten failures take all health";
    let path = node.parameter("health_sensitivity");
    vec![node.finding(
        &SENSITIVITY_DRAINS,
        &path,
        reason.to_owned(),
        fix.to_owned(),
    )]
}

/// Reports timeouts that do not fit together: all tries must fit into the transaction.
pub(super) fn timeouts_misaligned(node: &Node<'_>) -> Vec<Finding> {
    let globals = &node.document().globals;
    let whole = globals.transaction_timeout.unwrap_or(TRANSACTION_TIMEOUT);
    let retries = globals.retry_count.unwrap_or(RETRY_COUNT);
    let tries = retries.saturating_add(1);
    let decisive = ["transaction_timeout", "retry_count"];
    if decisive
        .iter()
        .any(|key| node.is_rejected(&node.parameter(key)))
    {
        return Vec::new();
    }
    let sum = |lnd: u32| {
        let all = u64::from(lnd) * u64::from(tries);
        format!("lnd_timeout {lnd} s × {tries} tries = {all} s, transaction_timeout {whole} s")
    };
    let path = if globals.transaction_timeout.is_some() {
        node.parameter("transaction_timeout")
    } else {
        node.parameter("retry_count")
    };
    let mut found = Vec::new();
    let lnd = share(whole, tries);
    if lnd < SHORT_LND_TIMEOUT {
        let reason = format!(
            "{}: an attempt that is only slow counts as failed",
            sum(lnd)
        );
        let fix =
            "raise transaction_timeout or lower retry_count until an attempt has at least 5 s";
        found.push(node.finding(&TIMEOUTS_MISALIGNED, &path, reason, fix.to_owned()));
    }
    let timeout = |ni: &&crate::lint::node::Ni<'_>| ni.show?.config.lnd_tunables.timeout;
    let longest = node.nis.iter().max_by_key(timeout);
    let longest = longest.and_then(|ni| Some((ni, timeout(&ni)?)));
    // Release 2.17.0 itself has 50 s, 2 retries and 150 s.
    let is_stock =
        |lnd| (whole, retries, lnd) == (TRANSACTION_TIMEOUT, RETRY_COUNT, LND_TIMEOUT_2_17);
    let too_long = longest.filter(|&(_, lnd)| {
        u64::from(lnd) * u64::from(tries) >= u64::from(whole) && !is_stock(lnd)
    });
    if let Some((ni, lnd)) = too_long {
        let path = [
            ni.path.as_slice(),
            &[Step::Key("lnd tunables"), Step::Key("timeout")],
        ];
        let reason = format!(
            "{}: the LND waits longer for an attempt than its share of the time, so the last attempts never happen",
            sum(lnd)
        );
        let fix = "raise transaction_timeout, or lower the LND's own timeout";
        found.push(node.finding(&TIMEOUTS_MISALIGNED, &path.concat(), reason, fix.to_owned()));
    }
    found
}

/// Reports a recovery limit with which recovery of a gateway's interface ends before the router checker pings it
/// again.
pub(super) fn recovery_limit_short(node: &Node<'_>) -> Vec<Finding> {
    let limit = node.document().globals.recovery_limit.unwrap_or(0);
    if limit == 0 || limit >= ROUTER_CHECK_INTERVAL {
        return Vec::new();
    }
    let reason = format!(
        "recovery_limit is {limit} s, shorter than the {ROUTER_CHECK_INTERVAL} s between two pings of a gateway: its \
         interface leaves recovery before the next ping"
    );
    let fix = "lnetctl set recovery_limit 0, which means no limit, or a limit of several minutes";
    let path = node.parameter("recovery_limit");
    vec![node.finding(&RECOVERY_LIMIT_SHORT, &path, reason, fix.to_owned())]
}

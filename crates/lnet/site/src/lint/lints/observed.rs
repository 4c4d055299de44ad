//! Lints of the counters in a document.

use lnet_config::{Document, NiHealth, NodeStats, PeerCredits, PeerNiHealth, Step};
use lnet_types::Nid;

use crate::lint::catalogue::{
    CREDITS_EXHAUSTED, FAILURES_COUNTED, FAILURES_RISE, HEALTH_ZERO, MESSAGES_FAILED, Severity,
};
use crate::lint::finding::Finding;
use crate::lint::node::{Node, listed};

/// Reports local NIs and peer NIs with health 0, which selection avoids. `gateway_health` reports on gateways.
pub(super) fn health_zero(node: &Node<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for ni in &node.nis {
        let health = ni.show.and_then(|show| show.health);
        if health.is_none_or(|health| health.health_value > 0) {
            continue;
        }
        let path = [ni.path.as_slice(), &[Step::Key("health stats")]].concat();
        let reason = format!(
            "local NI {} has health 0: messages leave by other NIs as long as there are any",
            Node::label(ni)
        );
        let fix = "check the interface, its cable and its switch; recovery pings restore its health when it works";
        found.push(node.finding(&HEALTH_ZERO, &path, reason, fix.to_owned()));
    }
    let is_gateway = |nid: Nid| node.routes.iter().any(|route| route.show.gateway == nid);
    for (at, peer) in node.peers() {
        for (item, ni) in peer.nis.iter().enumerate() {
            let is_zero = ni.health.is_some_and(|health| health.health_value == 0);
            if !is_zero || is_gateway(ni.nid) {
                continue;
            }
            let steps = [Step::Key("peer"), Step::Item(at), Step::Key("peer ni")];
            let last = [Step::Item(item), Step::Key("health stats")];
            let path = [steps.as_slice(), &last].concat();
            let reason = format!(
                "peer NI {} has health 0: messages to that node take its other interfaces as long as there are any",
                ni.nid
            );
            let fix = "check that interface and the path to it; recovery pings restore its health when it answers";
            found.push(node.finding(&HEALTH_ZERO, &path, reason, fix.to_owned()));
        }
    }
    found
}

/// The failures of a whole node from which on they are a warning: fewer are what each restart of a peer leaves.
const FAILED_MANY: u64 = 100;

/// Reports messages that failed since the node started, most frequent class first, with what each class means. With an
/// earlier reading, [`failures_rise`] reports instead.
pub(super) fn messages_failed(node: &Node<'_>) -> Vec<Finding> {
    let Some(counts) = node
        .document()
        .statistics
        .filter(|_| node.earlier().is_none())
    else {
        return Vec::new();
    };
    let (total, failed) = failed(&counts);
    if failed.is_empty() {
        return Vec::new();
    }
    let reason = format!(
        "totals since this node started, which may be long ago: {failed}; {} messages were sent and {} resent",
        counts.send_count, counts.resend_count
    );
    let fix = "run `lnetctl stats show` twice with a pause, and `finerail lint LATER --since EARLIER`: what rises fails \
               now; then `lnetctl peer show -v 3` names the peer whose counters rise";
    let path = [Step::Key("statistics")];
    let made = node.finding(&MESSAGES_FAILED, &path, reason, fix.to_owned());
    let severity = if total < FAILED_MANY {
        Severity::Note
    } else {
        made.severity
    };
    vec![made.with_severity(severity)]
}

/// Returns the number of failed messages, and the classes of failures in words, most frequent first.
fn failed(counts: &NodeStats) -> (u64, String) {
    let mut classes = [
        (
            counts.remote_timeout_count,
            "remote timeouts (the peer or a router on the way did not answer in time)",
        ),
        (
            counts.response_timeout_count,
            "response timeouts (the message arrived, its reply or acknowledgement did not)",
        ),
        (
            counts.network_timeout_count,
            "network timeouts (neither end confirms the loss: look at the fabric)",
        ),
        (
            counts.local_timeout_count,
            "local timeouts (the message did not leave this node in time: credits or the interface)",
        ),
        (
            counts.local_error_count,
            "local errors (this node's interface or its driver)",
        ),
        (counts.local_no_route_count, "without a route"),
        (counts.local_dropped_count, "dropped on this node"),
        (counts.local_aborted_count, "aborted on this node"),
        (counts.local_interrupt_count, "interrupted on this node"),
        (counts.remote_dropped_count, "dropped by peers"),
        (
            counts.remote_error_count,
            "remote errors (the peer refused or failed)",
        ),
    ];
    classes.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let total = classes
        .iter()
        .fold(0_u64, |sum, (count, _)| sum.saturating_add(*count));
    let some = classes.iter().filter(|(count, _)| *count > 0);
    (
        total,
        listed(some.map(|(count, what)| format!("{count} {what}"))),
    )
}

/// Reports what failed between an earlier reading of the same node and this one: of the whole node, and at each NI.
pub(super) fn failures_rise(node: &Node<'_>) -> Vec<Finding> {
    let Some(earlier) = node.earlier() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let since = node.document().since(earlier);
    let zeroed = if since.zeroed {
        " (a count is lower than before: the node was restarted or its counters were zeroed, and such counts are from \
         there)"
    } else {
        ""
    };
    let path = [Step::Key("statistics")];
    if let Some(counts) = since.document.statistics {
        let (total, failed) = failed(&counts);
        let sent = format!(
            "{} messages were sent, {} resent",
            counts.send_count, counts.resend_count
        );
        let made = match total {
            0 => {
                let reason = format!(
                    "no failure was counted between the two readings{zeroed}; {sent}: the totals are older"
                );
                let fix = "nothing fails now: compare again when the trouble is back";
                node.finding(&FAILURES_RISE, &path, reason, fix.to_owned())
                    .with_severity(Severity::Note)
            }
            _ => {
                let reason = format!("between the two readings{zeroed}: {failed}; {sent}");
                node.finding(
                    &FAILURES_RISE,
                    &path,
                    reason,
                    FAILURES_RISE.helps.to_owned(),
                )
            }
        };
        found.push(made);
    }
    found.extend(rises_of_nis(node, earlier));
    found.extend(rises_of_peers(node, earlier));
    found
}

fn rises_of_nis(node: &Node<'_>, earlier: &Document) -> Vec<Finding> {
    let then = |nid: Option<Nid>| {
        let mut nis = earlier.nets.iter().flat_map(|net| &net.nis);
        nis.find(|ni| ni.config.nid == nid).and_then(|ni| ni.health)
    };
    let told = node.nis.iter().filter_map(|ni| {
        let now = ni.show?.health?;
        let rise = risen(local(&now), local(&then(ni.nid)?));
        let path = [ni.path.as_slice(), &[Step::Key("health stats")]].concat();
        let reason = format!(
            "local NI {} counted since the earlier reading: {rise}",
            Node::label(ni)
        );
        let fix = "check the interface, its cable and its driver".to_owned();
        (!rise.is_empty()).then(|| node.finding(&FAILURES_RISE, &path, reason, fix))
    });
    told.collect()
}

fn rises_of_peers(node: &Node<'_>, earlier: &Document) -> Vec<Finding> {
    let then = |nid: Nid| {
        let mut nis = earlier.peers.iter().flat_map(|peer| &peer.nis);
        nis.find(|ni| ni.nid == nid).and_then(|ni| ni.health)
    };
    let mut found = Vec::new();
    for (at, peer) in node.peers() {
        for (item, ni) in peer.nis.iter().enumerate() {
            let (Some(now), Some(then)) = (ni.health, then(ni.nid)) else {
                continue;
            };
            let rise = risen(remote(&now), remote(&then));
            if rise.is_empty() {
                continue;
            }
            let steps = [Step::Key("peer"), Step::Item(at), Step::Key("peer ni")];
            let last = [Step::Item(item), Step::Key("health stats")];
            let path = [steps.as_slice(), &last].concat();
            let reason = format!(
                "peer NI {} counted since the earlier reading: {rise}",
                ni.nid
            );
            let fix = format!(
                "lnetctl ping {}; then `finerail doctor {}` from this machine",
                ni.nid, ni.nid
            );
            found.push(node.finding(&FAILURES_RISE, &path, reason, fix));
        }
    }
    found
}

/// Returns the counters that are higher than before. A lower one was zeroed, and counts from there.
fn risen<const N: usize>(now: [(&'static str, u64); N], then: [(&str, u64); N]) -> String {
    let both = now.into_iter().zip(then);
    let rise = both.map(|((class, now), (_, then))| (class, now.checked_sub(then).unwrap_or(now)));
    let some = rise.filter(|(_, count)| *count > 0);
    listed(some.map(|(class, count)| format!("{class} {count}")))
}

/// Reports the failure counters of all local NIs and peer NIs, unless there is an earlier reading.
pub(super) fn failures_counted(node: &Node<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if node.earlier().is_some() {
        return found;
    }
    for ni in &node.nis {
        let Some(health) = ni.show.and_then(|show| show.health) else {
            continue;
        };
        let failures = counted(local(&health));
        if !failures.is_empty() {
            let path = [ni.path.as_slice(), &[Step::Key("health stats")]].concat();
            let reason = format!(
                "local NI {} counted {failures}; its health is {}",
                Node::label(ni),
                health.health_value
            );
            let fix = "check the interface, its cable and its driver".to_owned();
            found.push(node.finding(&FAILURES_COUNTED, &path, reason, fix));
        }
    }
    for (at, peer) in node.peers() {
        for (item, ni) in peer.nis.iter().enumerate() {
            let Some(health) = ni.health else { continue };
            let failures = counted(remote(&health));
            if failures.is_empty() {
                continue;
            }
            let steps = [Step::Key("peer"), Step::Item(at), Step::Key("peer ni")];
            let last = [Step::Item(item), Step::Key("health stats")];
            let reason = format!(
                "peer NI {} counted {failures}; its health is {}",
                ni.nid, health.health_value
            );
            let fix = "check that node and the network on the path".to_owned();
            let path = [steps.as_slice(), &last].concat();
            found.push(node.finding(&FAILURES_COUNTED, &path, reason, fix));
        }
    }
    found
}

fn counted<const N: usize>(failures: [(&str, u64); N]) -> String {
    let some = failures.into_iter().filter(|(_, count)| *count > 0);
    listed(some.map(|(class, count)| format!("{class} {count}")))
}

const fn local(health: &NiHealth) -> [(&'static str, u64); 6] {
    [
        ("interrupts", health.interrupts),
        ("dropped", health.dropped),
        ("aborted", health.aborted),
        ("no route", health.no_route),
        ("timeouts", health.timeouts),
        ("error", health.error),
    ]
}

const fn remote(health: &PeerNiHealth) -> [(&'static str, u64); 4] {
    [
        ("dropped", health.dropped),
        ("timeout", health.timeout),
        ("error", health.error),
        ("network timeout", health.network_timeout),
    ]
}

/// The limit on a past queue in multiples of the credits. A longer queue is reported, because it was no short burst.
const LONG_QUEUE: i64 = 4;

/// Reports messages that wait, or waited, for credits of a peer NI.
pub(super) fn credits_exhausted(node: &Node<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, peer) in node.peers() {
        for (item, ni) in peer.nis.iter().enumerate() {
            let Some((severity, what, key)) = ni.credits.as_ref().and_then(exhausted) else {
                continue;
            };
            let steps = [Step::Key("peer"), Step::Item(at), Step::Key("peer ni")];
            let path = [steps.as_slice(), &[Step::Item(item), Step::Key(key)]].concat();
            let reason = format!("peer NI {}: {what}", ni.nid);
            let fix = "check that node and the network on the path: it accepts messages more slowly than they are \
                       sent; if both are idle, raise peer_credits and credits on both sides";
            let made = node.finding(&CREDITS_EXHAUSTED, &path, reason, fix.to_owned());
            found.push(made.with_severity(severity));
        }
    }
    found
}

fn exhausted(credits: &PeerCredits) -> Option<(Severity, String, &'static str)> {
    let PeerCredits {
        max_tx,
        available_tx,
        min_tx,
        tx_queued,
        available_router,
        min_router,
        ..
    } = *credits;
    if available_tx < 0 {
        let what = format!(
            "{} messages with {tx_queued} bytes wait for a credit (available_tx_credits {available_tx} of {max_tx}, \
             the least was {min_tx})",
            available_tx.unsigned_abs()
        );
        return Some((Severity::Warning, what, "available_tx_credits"));
    }
    if available_router < 0 {
        let what = format!(
            "{} messages from it wait for a router buffer (available_rtr_credits {available_router}, the least was \
             {min_router})",
            available_router.unsigned_abs()
        );
        return Some((Severity::Warning, what, "available_rtr_credits"));
    }
    let was_long = max_tx > 0 && min_tx < max_tx.saturating_mul(-LONG_QUEUE);
    was_long.then(|| {
        let what = format!(
            "{} messages once waited for a credit at the same time (min_tx_credits {min_tx} of {max_tx}); none waits \
             now",
            min_tx.unsigned_abs()
        );
        (Severity::Note, what, "min_tx_credits")
    })
}

//! Lints of the counters in a document.

use lnet_config::{NiHealth, PeerCredits, PeerNiHealth, Step};
use lnet_types::Nid;

use crate::lint::catalogue::{
    CREDITS_EXHAUSTED, FAILURES_COUNTED, HEALTH_ZERO, MESSAGES_FAILED, Severity,
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

/// Reports messages that failed since the node started, most frequent class first, with what each class means.
pub(super) fn messages_failed(node: &Node<'_>) -> Vec<Finding> {
    let Some(counts) = node.document().statistics else {
        return Vec::new();
    };
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
    let failed: Vec<String> = classes
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if failed.is_empty() {
        return Vec::new();
    }
    let total: u64 = classes
        .iter()
        .fold(0, |sum, (count, _)| sum.saturating_add(*count));
    let reason = format!(
        "since this node started, {}; {} messages were sent and {} resent",
        failed.join(", "),
        counts.send_count,
        counts.resend_count
    );
    let fix = "run `lnetctl stats show` twice with a pause: what rises fails now; then `lnetctl peer show -v 3` names the \
               peer whose counters rise";
    let path = [Step::Key("statistics")];
    let made = node.finding(&MESSAGES_FAILED, &path, reason, fix.to_owned());
    let severity = if total < FAILED_MANY {
        Severity::Note
    } else {
        made.severity
    };
    vec![made.with_severity(severity)]
}

/// Reports the failure counters of all local NIs and peer NIs.
pub(super) fn failures_counted(node: &Node<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
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

//! What a node counted before the document was written.

use lnet_config::{NiHealth, PeerNiHealth, Step};

use crate::catalogue::FAILURES_COUNTED;
use crate::finding::Finding;
use crate::node::{Node, listed};

/// What the counters of all interfaces say, in one place.
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
            let fix = "look at the interface, its cable and its driver".to_owned();
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
            let fix = "look at that node and the network on the way".to_owned();
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

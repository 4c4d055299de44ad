//! Examines a node on an o2ib network: an endpoint of this machine dials the node over RDMA and pings it.

use std::time::Duration;

use lnet_conform::{
    Diagnosis, Finding, FindingKind, NI_DOWN, NID_NOT_LISTED, NO_LNET_SERVICE, NO_RDMA_DEVICE,
    PING_UNANSWERED, RDMA_FAILED_HERE, RDMA_REJECTED, RDMA_UNREACHABLE, RDMA_VERSION, Step,
    UNSTEADY,
};
use lnet_node::{ConnectFailure, Node, NodeOptions, PingReply};
use lnet_types::Nid;
use lnet_wire::NiStatus;
use lnet_wire::o2ib::RejectionReason;

use crate::ping::start_endpoint;
use crate::rdma::Unreached;

/// Enough to find an unsteady node, few enough for a server in production.
const PINGS: usize = 5;
/// The steps after the device, which need a connection.
const INSIDE: [&str; 2] = ["connection", "ping"];
/// Steps of which a connection over RDMA shows nothing.
const OVER_TCP_ONLY: [&str; 3] = ["release", "identity", "sizes"];

/// Examines a node. Dials from `own`.
pub(super) fn examine(
    nid: Nid,
    own: Nid,
    timeout: Duration,
    mut announce: impl FnMut(&str),
) -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    announce("device");
    match start_endpoint(own, NodeOptions::default()) {
        Ok(node) => {
            saw(&mut diagnosis, "device", format!("dials from {own}"));
            announce("ping");
            ping(&node, nid, timeout, &mut diagnosis);
            node.shutdown(Duration::ZERO);
        }
        Err(error) => {
            let why = format!("{error:#}");
            saw(&mut diagnosis, "device", why.clone());
            found(&mut diagnosis, &NO_RDMA_DEVICE, why);
            for name in INSIDE {
                untested(&mut diagnosis, name, "no endpoint of this machine can dial");
            }
        }
    }
    for name in OVER_TCP_ONLY {
        untested(&mut diagnosis, name, "only over tcp");
    }
    let why = "run `finerail doctor` on the node, with a NID of this machine";
    untested(&mut diagnosis, "way back", why);
    diagnosis
}

fn ping(node: &Node, nid: Nid, timeout: Duration, diagnosis: &mut Diagnosis) {
    let first = node.ping(nid, None, timeout);
    if let Some(unreached) = Unreached::of(node) {
        saw(diagnosis, "connection", unreached.to_string());
        untested(diagnosis, "ping", "there is no connection");
        return found(diagnosis, kind_of(unreached), unreached.to_string());
    }
    saw(diagnosis, "connection", "established");
    let again = (1..PINGS).map(|_| node.ping(nid, None, timeout));
    let all: Vec<_> = match first {
        Ok(_) => std::iter::once(first).chain(again).collect(),
        // Each further one would take the whole timeout.
        Err(_) => vec![first],
    };
    let times = all.iter().flatten().map(|reply| reply.round_trip);
    let slowest = times.max().unwrap_or_default().as_secs_f64() * 1000.0;
    let answers = all.iter().flatten().count();
    saw(
        diagnosis,
        "ping",
        format!(
            "{answers} of {} answered, the slowest in {slowest:.3} ms",
            all.len()
        ),
    );
    if let Some(error) = all.iter().find_map(|one| one.as_ref().err()) {
        let kind = if answers > 0 {
            &UNSTEADY
        } else {
            &PING_UNANSWERED
        };
        found(diagnosis, kind, error.to_string());
    }
    if let Some(reply) = all.iter().flatten().last() {
        listed(nid, reply, diagnosis);
    }
}

/// Compares the NID with what the node says of itself.
fn listed(nid: Nid, reply: &PingReply, diagnosis: &mut Diagnosis) {
    match reply.nis.iter().find(|ni| ni.nid == nid) {
        None => {
            let all: Vec<String> = reply.nis.iter().map(|ni| ni.nid.to_string()).collect();
            let seen = format!("the node lists {}", all.join(", "));
            found(diagnosis, &NID_NOT_LISTED, seen);
        }
        Some(ni) if ni.status == NiStatus::DOWN => {
            found(diagnosis, &NI_DOWN, format!("{nid} is down"));
        }
        Some(_) => {}
    }
}

fn kind_of(unreached: Unreached) -> &'static FindingKind {
    match unreached {
        Unreached::Rejected(RejectionReason::InvalidSrvId)
        | Unreached::Failed(ConnectFailure::NobodyListens) => &NO_LNET_SERVICE,
        Unreached::Failed(ConnectFailure::Local) => &RDMA_FAILED_HERE,
        Unreached::Failed(ConnectFailure::Unreachable) | Unreached::Silent => &RDMA_UNREACHABLE,
        Unreached::Rejected(RejectionReason::ConnUncompat) => &RDMA_VERSION,
        Unreached::Rejected(_) | Unreached::Failed(_) => &RDMA_REJECTED,
    }
}

fn saw(diagnosis: &mut Diagnosis, name: &'static str, seen: impl Into<String>) {
    let (tested, seen) = (true, seen.into());
    diagnosis.steps.push(Step { name, tested, seen });
}

fn untested(diagnosis: &mut Diagnosis, name: &'static str, why: &str) {
    let (tested, seen) = (false, why.to_owned());
    diagnosis.steps.push(Step { name, tested, seen });
}

fn found(diagnosis: &mut Diagnosis, kind: &'static FindingKind, seen: String) {
    diagnosis.findings.push(Finding { kind, seen });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_for_the_version_has_a_finding_of_its_own() {
        let kind = |reason| kind_of(Unreached::Rejected(reason)).name;
        assert_eq!(kind(RejectionReason::ConnUncompat), "rdma-version");
        assert_eq!(kind(RejectionReason::Fatal), "rdma-rejected");
        assert_eq!(kind(RejectionReason::InvalidSrvId), "no-lnet-service");
    }
}

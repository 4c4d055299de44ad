//! Checks whether the same node answers on every connection.

use lnet_types::Nid;
use lnet_wire::{Ctype, PingInfo};

use super::{Diagnosis, catalogue, reason};
use crate::node::NodeUnderTest;
use crate::probe::{Probe, SINK_MAX, Stop};

/// Connections that are compared. Two hosts with equal shares stay undetected in one of 128 cases.
const CONNECTIONS: usize = 8;

/// Failures after which no more connections are made, because each may take the full timeout.
const FAILURES_MAX: usize = 2;

/// The node that answered on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answerer {
    /// When its interface was started, in nanoseconds.
    incarnation: u64,
    /// Its process id.
    pid: u32,
    /// Its primary NID, if its answer could be read.
    primary: Option<Nid>,
}

pub(super) fn identity(node: &NodeUnderTest, diagnosis: &mut Diagnosis) {
    let mut probe = node.probe();
    let mut answerers = Vec::new();
    let mut failures = Vec::new();
    for _ in 0..CONNECTIONS {
        match ask(&mut probe) {
            Ok(answerer) => answerers.push(answerer),
            Err(stop) => failures.push(reason(stop)),
        }
        if failures.len() == FAILURES_MAX {
            break;
        }
    }
    let count = answerers.len();
    diagnosis.saw(
        "identity",
        format!(
            "{} on {count} connections",
            match different(&answerers) {
                0 => "nobody".to_owned(),
                1 => "the same node".to_owned(),
                several => format!("{several} different nodes"),
            }
        ),
    );
    compare(&answerers, diagnosis);
    if count > 0
        && let Some(why) = failures.first()
    {
        let seen = format!(
            "{} connections failed and {count} did not: {why}",
            failures.len()
        );
        diagnosis.found(&catalogue::UNSTEADY, seen);
    }
}

fn ask(probe: &mut Probe<'_>) -> Result<Answerer, Stop> {
    probe.rename();
    let (mut link, heard) = probe.handshake(&probe.hello(Ctype::CONTROL))?;
    let reply = probe.ping(&mut link, SINK_MAX)?;
    Ok(Answerer {
        incarnation: heard.hello.src_incarnation,
        pid: heard.hello.src_pid,
        primary: PingInfo::parse(&reply.payload)
            .ok()
            .and_then(|info| info.primary_nid()),
    })
}

fn different(answerers: &[Answerer]) -> usize {
    let firsts = answerers.iter().enumerate();
    firsts
        .filter(|(index, answerer)| {
            !answerers
                .iter()
                .take(*index)
                .any(|other| other == *answerer)
        })
        .count()
}

/// After a restart, the node answers with a later incarnation from then on; two nodes alternate.
fn compare(answerers: &[Answerer], diagnosis: &mut Diagnosis) {
    let count = answerers.len();
    match different(answerers) {
        0 | 1 => {}
        2 if answerers.is_sorted_by_key(|answerer| answerer.incarnation)
            && same_but_age(answerers) =>
        {
            let seen = format!("the incarnation changed once within {count} connections");
            diagnosis.found(&catalogue::RESTARTED, seen);
        }
        several => {
            let seen = format!(
                "{several} nodes answered on {count} connections, distinguished by {}",
                if same_but_age(answerers) {
                    "their incarnations"
                } else {
                    "their primary NIDs and processes"
                }
            );
            diagnosis.found(&catalogue::NID_CLAIMED_TWICE, seen);
        }
    }
}

fn same_but_age(answerers: &[Answerer]) -> bool {
    let key = |answerer: &Answerer| (answerer.pid, answerer.primary);
    answerers
        .windows(2)
        .all(|pair| pair.first().map(key) == pair.last().map(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(incarnations: &[u64]) -> Option<&'static str> {
        let answerers: Vec<Answerer> = incarnations
            .iter()
            .map(|&incarnation| Answerer {
                incarnation,
                pid: 12345,
                primary: None,
            })
            .collect();
        let mut diagnosis = Diagnosis::default();
        compare(&answerers, &mut diagnosis);
        diagnosis.findings.first().map(|finding| finding.kind.name)
    }

    #[test]
    fn a_restart_goes_forward_once_and_two_nodes_take_turns() {
        assert_eq!(finding(&[]), None);
        assert_eq!(finding(&[5, 5, 5]), None);
        assert_eq!(finding(&[5, 5, 6]), Some("restarted"));
        assert_eq!(finding(&[6, 5, 5]), Some("nid-claimed-twice"));
        assert_eq!(finding(&[5, 6, 5]), Some("nid-claimed-twice"));
        assert_eq!(finding(&[5, 6, 7]), Some("nid-claimed-twice"));
    }
}

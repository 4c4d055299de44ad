//! Pings the node: checks its answer, its NIDs and its speed.

use std::time::{Duration, Instant};

use lnet_types::{Nid, ProcessId};
use lnet_wire::{Ctype, NiStatus, PingFeatures, PingInfo};

use super::{Diagnosis, catalogue, milliseconds, reach, reason};
use crate::link::{Heard, Link};
use crate::node::{NodeUnderTest, Subject};
use crate::probe::{Probe, SINK_MAX, Stop};

/// Enough to find an unsteady node, few enough for a server in production.
pub(super) const PINGS: usize = 5;

/// The most entries that any kernel takes.
const ENTRIES_MAX: u32 = 4096;

/// The contents of the node's answers.
pub(super) struct Answers {
    pub(super) features: PingFeatures,
}

/// Pings the node and checks its answer. `None` if there is no usable answer.
pub(super) fn ping(
    node: &NodeUnderTest,
    lnd_timeout: Duration,
    diagnosis: &mut Diagnosis,
) -> Option<Answers> {
    let mut probe = node.probe();
    let begun = Instant::now();
    let mut link = match probe.open(Ctype::CONTROL) {
        Ok(link) => link,
        Err(stop) => {
            fails(reason(stop), diagnosis);
            return None;
        }
    };
    let handshake = begun.elapsed();
    let (last, times) = match pings(&mut probe, &mut link) {
        Ok(answered) => answered,
        Err(stop) => {
            lost(&mut probe, &mut link, stop, diagnosis);
            return None;
        }
    };
    let (least, most) = (
        times.iter().min().copied().unwrap_or_default(),
        times.iter().max().copied().unwrap_or_default(),
    );
    diagnosis.saw(
        "ping",
        format!(
            "{} answers in {} to {}; handshake in {}",
            times.len(),
            milliseconds(least),
            milliseconds(most),
            milliseconds(handshake)
        ),
    );
    slowness(most.max(handshake), lnd_timeout, diagnosis);
    let asker = ProcessId {
        nid: last.header.dest_nid,
        pid: last.header.dest_pid,
    };
    if let Some(seen) = translation(node.subject(), probe.me, asker) {
        diagnosis.found(&catalogue::TRANSLATED, seen);
    }
    check_ping_info(&last.payload, node.subject().nid, diagnosis)
}

fn fails(why: String, diagnosis: &mut Diagnosis) {
    diagnosis.saw("ping", why.clone());
    diagnosis.found(&catalogue::UNSTEADY, format!("the second handshake: {why}"));
}

fn lost(probe: &mut Probe<'_>, link: &mut Link, stop: Stop, diagnosis: &mut Diagnosis) {
    let why = reason(stop);
    diagnosis.saw("ping", why.clone());
    match reach::is_flooded(link, &probe.observed()) {
        Some(count) => diagnosis.found(
            &catalogue::FLOOD,
            format!("the node sent {count} bytes, and no answer to the ping: {why}"),
        ),
        None => diagnosis.found(&catalogue::PING_UNANSWERED, why),
    }
}

/// The last answer, and the time of each.
fn pings(probe: &mut Probe<'_>, link: &mut Link) -> Result<(Heard, Vec<Duration>), Stop> {
    let mut times = Vec::new();
    loop {
        let sent = Instant::now();
        let heard = probe.ping(link, SINK_MAX)?;
        times.push(sent.elapsed());
        if times.len() >= PINGS {
            return Ok((heard, times));
        }
    }
}

/// Tells where the node sees the asker, if that is not where the asker is. A kernel takes the address and the port of
/// the socket for the identity of an asker with an unprivileged port, and answers to this identity; other nodes answer
/// to the identity of the HELLO, which proves nothing.
fn translation(subject: &Subject, me: ProcessId, asker: ProcessId) -> Option<String> {
    let is_of_socket = asker != me && asker.pid & ProcessId::USER_FLAG != 0;
    let address = asker.nid.ip().filter(|_| is_of_socket)?;
    let port = asker.pid & !ProcessId::USER_FLAG;
    let own = subject.source;
    // The acceptor replaces the identity only if the source port is above 1023.
    (address != own || subject.privileged).then(|| {
        let from = if subject.privileged {
            "a port below 1024 of "
        } else {
            ""
        };
        format!("a connection from {from}{own} arrives there from {address}, port {port}")
    })
}

pub(super) fn slowness(slowest: Duration, lnd_timeout: Duration, diagnosis: &mut Diagnosis) {
    if slowest > lnd_timeout {
        let seen = format!(
            "an answer took {}, and a transfer may take {lnd_timeout:?}",
            milliseconds(slowest)
        );
        diagnosis.found(&catalogue::TIMEOUT_SHORT, seen);
    }
}

/// Reads the node's ping info.
pub(super) fn check_ping_info(
    payload: &[u8],
    nid: Nid,
    diagnosis: &mut Diagnosis,
) -> Option<Answers> {
    let info = match PingInfo::parse(payload) {
        Ok(info) => info,
        Err(error) => {
            diagnosis.found(&catalogue::PING_MALFORMED, error.to_string());
            return None;
        }
    };
    if let Err(error) = info.validate(ENTRIES_MAX) {
        diagnosis.found(&catalogue::PING_MALFORMED, error.to_string());
        return None;
    }
    listed(&info, nid, diagnosis);
    diagnosis.saw("node", portrait(&info, nid));
    let features = info.features();
    Some(Answers { features })
}

fn listed(info: &PingInfo<'_>, nid: Nid, diagnosis: &mut Diagnosis) {
    match info.nis().find(|ni| ni.nid == nid) {
        Some(ni) if ni.status == NiStatus::DOWN => {
            diagnosis.found(&catalogue::NI_DOWN, format!("the status of {nid} is down"));
        }
        Some(_) => {}
        None if info.is_truncated() => {}
        None => {
            let primary = info.primary_nid().unwrap_or(Nid::ANY);
            let seen = format!("{nid} is not among the NIDs of the node, which is {primary}");
            diagnosis.found(&catalogue::NID_NOT_LISTED, seen);
        }
    }
}

fn portrait(info: &PingInfo<'_>, nid: Nid) -> String {
    let has = |feature| info.features().contains(feature);
    let kinds = [
        (has(PingFeatures::MULTI_RAIL), "Multi-Rail"),
        (has(PingFeatures::DISCOVERY), "discovery"),
        (!has(PingFeatures::RTE_DISABLED), "router"),
        (has(PingFeatures::LARGE_ADDR), "large NIDs"),
    ];
    let mut text = format!(
        "primary NID {}, NIs: {}",
        info.primary_nid().unwrap_or(nid),
        info.nis().count()
    );
    for (_, kind) in kinds.iter().filter(|(is, _)| *is) {
        text.push_str(", ");
        text.push_str(kind);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_takes_longer_than_a_transfer_may_is_a_finding() {
        let second = Duration::from_secs(1);
        let mut diagnosis = Diagnosis::default();
        slowness(second, second, &mut diagnosis);
        assert_eq!(diagnosis.findings, []);
        slowness(2 * second, second, &mut diagnosis);
        assert_eq!(diagnosis.findings[0].kind.name, "timeout-short");
    }

    #[test]
    fn an_answer_to_another_address_or_port_shows_address_translation() {
        let id = |nid: &str, pid| ProcessId {
            nid: nid.parse().unwrap(),
            pid,
        };
        let own = "10.0.0.1".parse().unwrap();
        let subject = |privileged| Subject {
            nid: "10.0.9.9@tcp".parse().unwrap(),
            address: "10.0.9.9:988".parse().unwrap(),
            source: own,
            privileged,
            timeout: Duration::from_secs(1),
        };
        let me = id("10.0.0.1@tcp", ProcessId::USER_FLAG | 7);
        let seen = |privileged, asker| translation(&subject(privileged), me, asker);
        let here = id("10.0.0.1@tcp", ProcessId::USER_FLAG | 40_000);
        let moved = id("10.0.5.1@tcp", ProcessId::USER_FLAG | 40_000);
        assert_eq!(seen(false, me), None);
        assert_eq!(seen(false, here), None);
        assert!(
            seen(false, moved)
                .unwrap()
                .contains("from 10.0.5.1, port 40000")
        );
        assert!(seen(true, here).unwrap().contains("from a port below 1024"));
        // A node that believes the HELLO.
        assert_eq!(seen(true, id("10.0.0.1@tcp", ProcessId::LUSTRE_PID)), None);
    }

    #[test]
    fn an_answer_that_is_no_ping_info_is_a_finding() {
        let mut diagnosis = Diagnosis::default();
        assert!(check_ping_info(b"nonsense of sixteen bytes", Nid::ANY, &mut diagnosis).is_none());
        assert_eq!(diagnosis.findings[0].kind.name, "ping-malformed");
    }
}

//! Pings a node through a gateway.

use std::time::{Duration, Instant};

use lnet_types::Nid;
use lnet_wire::{Ctype, KsockHeader, PingFeatures, PingInfo};

use super::ping::{PINGS, check_ping_info, slowness};
use super::{Diagnosis, catalogue, milliseconds, reason};
use crate::link::{Heard, Link};
use crate::node::NodeUnderTest;
use crate::probe::{Probe, SINK_MAX, Stop, equal};

/// Pings `far` through the gateway `node`, which has answered before.
pub(super) fn ping(
    node: &NodeUnderTest,
    far: Nid,
    lnd_timeout: Duration,
    diagnosis: &mut Diagnosis,
) {
    let name = "ping";
    let gateway = node.subject().nid;
    let mut probe = node.probe();
    let asked = probe.open(Ctype::CONTROL).and_then(|mut link| {
        let own = probe.ping(&mut link, SINK_MAX)?;
        let forwards = PingInfo::parse(&own.payload)
            .is_ok_and(|info| !info.features().contains(PingFeatures::RTE_DISABLED));
        Ok((link, forwards))
    });
    let (mut link, forwards) = match asked {
        Ok(asked) => asked,
        Err(stop) => return diagnosis.untested(name, format!("{gateway}: {}", reason(stop))),
    };
    if !forwards {
        let seen = format!("{gateway} says that it does not forward");
        diagnosis.untested(name, seen.clone());
        return diagnosis.found(&catalogue::NOT_A_ROUTER, seen);
    }
    match pings(&mut probe, &mut link, far) {
        Ok((payload, slowest)) => {
            let time = milliseconds(slowest);
            let seen = format!("{PINGS} answers through {gateway}, the slowest in {time}");
            diagnosis.saw(name, seen);
            slowness(slowest, lnd_timeout, diagnosis);
            check_ping_info(&payload, far, diagnosis);
        }
        Err(stop) => {
            let seen = format!("{far} through {gateway}: {}", reason(stop));
            diagnosis.saw(name, seen.clone());
            diagnosis.found(&catalogue::FAR_SILENT, seen);
        }
    }
}

/// The last answer, and the longest time of an answer.
fn pings(probe: &mut Probe<'_>, link: &mut Link, far: Nid) -> Result<(Vec<u8>, Duration), Stop> {
    let (mut payload, mut slowest) = (Vec::new(), Duration::ZERO);
    for _ in 0..PINGS {
        let (mut header, _) = probe.ping_header(SINK_MAX);
        header.dest_nid = far;
        let sent = Instant::now();
        link.send_message(KsockHeader::LNET, &header, &[])?;
        let heard: Heard = link.reply()?;
        equal("the source of the answer", &heard.header.src_nid, &far)?;
        (payload, slowest) = (heard.payload, slowest.max(sent.elapsed()));
    }
    Ok((payload, slowest))
}

//! A plain relay on the CPUs of both ends: the limit of a router, because the relay examines no message.
//!
//! ```text
//!   this process, CPU A ──▶ relay, CPU A or B ──▶ target, CPU B
//! ```

use std::time::{Duration, Instant};

use anyhow::bail;

use super::initiator::{batches, connect, stream};
use super::{Link, Relay};
use crate::child::{self, Peer, PeerSpec};
use crate::measure::Side;
use crate::peer::Role;
use crate::placement::Placement;
use crate::workload::{LARGE, Workload};

/// The relay, and the target behind it.
pub(crate) struct Relayed {
    link: Link,
    buffer: Vec<u8>,
    peers: [Peer; 2],
}

impl Relayed {
    pub(crate) fn start(
        placement: &Placement,
        congestion: &str,
        relay: Relay,
    ) -> anyhow::Result<Self> {
        let spec = |role, port| PeerSpec {
            role,
            cpu: placement.target_cpu,
            congestion,
            port,
        };
        let target = Peer::start(&spec(Role::RawTarget, 0))?;
        let cpu = placement.initiator_cpu.to_string();
        let more = ["--cpu", &cpu, "--relay", &relay.argument()];
        let relay = Peer::start_with(&spec(Role::RawRelay, target.port()), &more)?;
        Ok(Self {
            link: connect(relay.port(), congestion)?,
            buffer: vec![0x5A; LARGE],
            peers: [relay, target],
        })
    }

    fn measure(&mut self, workload: Workload, count: u64) -> anyhow::Result<Duration> {
        let payload = &self.buffer[..workload.message_len()];
        let begin = Instant::now();
        match workload {
            Workload::HopLarge | Workload::HopSmall => stream(&mut self.link, payload, count)?,
            Workload::HopSmallBatched => return batches(&mut self.link, payload, count),
            other => bail!("no plain relay for '{}'", other.label()),
        }
        Ok(begin.elapsed())
    }
}

impl Side for Relayed {
    fn run(&mut self, workload: Workload, count: u64) -> anyhow::Result<Duration> {
        let result = self.measure(workload, count);
        if result.is_err() {
            child::blame(&mut self.peers)?;
        }
        result
    }
}

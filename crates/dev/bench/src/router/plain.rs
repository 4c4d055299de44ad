//! Measures what plain relays that examine no message reach beside one hop: the limits of the rows above.

use serde::Serialize;

use crate::measure::{Effort, Side, calibrate};
use crate::placement::Placement;
use crate::raw::{self, Relay, Relayed};
use crate::report::Summary;
use crate::workload::Workload;

/// The number of messages in the first trial.
const FIRST: u64 = 16;

/// Plain relays beside one hop, measured in turns.
#[derive(Serialize)]
pub(super) struct Plain(Vec<Row>);

#[derive(Serialize)]
struct Row {
    relay: &'static str,
    what: &'static str,
    ratio: Summary,
}

impl Plain {
    pub(super) fn measure(
        placement: &Placement,
        congestion: &str,
        effort: &Effort,
    ) -> anyhow::Result<Self> {
        let mut hop = raw::Initiator::start(placement, congestion)?;
        let start = |relay| Ok((relay, Relayed::start(placement, congestion, relay)?));
        let relays: anyhow::Result<Vec<_>> = Relay::ALL.into_iter().map(start).collect();
        let mut relays = relays?;
        let mut rows = Vec::new();
        for &workload in &effort.workloads {
            let length = effort.measurement;
            let hops = calibrate(FIRST, length, |count| hop.run(workload, count))?;
            for (relay, relayed) in &mut relays {
                let count = calibrate(FIRST, length, |count| relayed.run(workload, count))?;
                let mut round = || {
                    let limit = workload.figure(hops, hop.run(workload, hops)?);
                    anyhow::Ok(workload.figure(count, relayed.run(workload, count)?) / limit)
                };
                let ratios = (0..effort.rounds).map(|_| round());
                rows.push(Row {
                    relay: relay.label(),
                    what: label(workload),
                    ratio: Summary::of(ratios.collect::<anyhow::Result<_>>()?),
                });
            }
        }
        Ok(Self(rows))
    }

    pub(super) fn text(&self) -> String {
        let lines = Relay::ALL.map(|relay| {
            let rows = self.0.iter().filter(|row| row.relay == relay.label());
            let ratios = rows.map(|Row { what, ratio, .. }| {
                let Summary { median, min, max } = ratio;
                format!("{what} {median:.2} ({min:.2}–{max:.2})")
            });
            let ratios: Vec<String> = ratios.collect();
            format!("  {}: {}", relay.label(), ratios.join(", "))
        });
        let lines = lines.join("\n");
        format!("plain relays that look at nothing, of one hop\n{lines}")
    }
}

fn label(workload: Workload) -> &'static str {
    match workload {
        Workload::HopLarge => "1 MiB",
        Workload::HopSmall => "4 KiB one a write",
        _ => "4 KiB batched",
    }
}

//! Measures what a relay that examines no message reaches beside one hop: the limit of the rows above.

use serde::Serialize;

use crate::measure::{Effort, Side, calibrate};
use crate::placement::Placement;
use crate::raw::{self, Relayed};
use crate::report::Summary;
use crate::workload::Workload;

/// The number of messages in the first trial.
const FIRST: u64 = 16;

/// A plain relay beside one hop, measured in turns.
#[derive(Serialize)]
pub(super) struct Plain(Vec<Row>);

#[derive(Serialize)]
struct Row {
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
        let mut relay = Relayed::start(placement, congestion)?;
        let mut rows = Vec::new();
        for &workload in &effort.workloads {
            let length = effort.measurement;
            let hops = calibrate(FIRST, length, |count| hop.run(workload, count))?;
            let relayed = calibrate(FIRST, length, |count| relay.run(workload, count))?;
            let mut round = || {
                let limit = workload.figure(hops, hop.run(workload, hops)?);
                anyhow::Ok(workload.figure(relayed, relay.run(workload, relayed)?) / limit)
            };
            let ratios = (0..effort.rounds).map(|_| round());
            rows.push(Row {
                what: label(workload),
                ratio: Summary::of(ratios.collect::<anyhow::Result<_>>()?),
            });
        }
        Ok(Self(rows))
    }

    pub(super) fn text(&self) -> String {
        let rows = self.0.iter().map(|Row { what, ratio }| {
            let Summary { median, min, max } = ratio;
            format!("{what} {median:.2} ({min:.2}–{max:.2})")
        });
        let rows: Vec<String> = rows.collect();
        format!(
            "a relay that looks at nothing, of one hop: {}",
            rows.join(", ")
        )
    }
}

fn label(workload: Workload) -> &'static str {
    match workload {
        Workload::HopLarge => "1 MiB",
        Workload::HopSmall => "4 KiB one a write",
        _ => "4 KiB batched",
    }
}

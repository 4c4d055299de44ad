//! Measures what it costs a router to count the RPCs that pass: messages of 4 KiB through two routers, of which one
//! counts, in turns.
//!
//! The CPU time of the router is compared, with that of the thread that counts. The messages of each second depend on
//! which CPU the system gives to which of the processes, which differs from round to round by more than the cost.

use std::time::Duration;

use serde::Serialize;

use crate::lnet::fan::{Fan, Kind, RpcPart};
use crate::measure::{Effort, calibrate};
use crate::placement::Placement;
use crate::report::Summary;
use crate::verdict;
use crate::workload::Workload;

/// The highest acceptable ratio, for data and for requests, both messages of 4 KiB: counting costs at most 5 % of the rate that the router's CPUs allow.
const TARGET: f64 = 1.0 / 0.95;
/// The number of messages in the first trial.
const FIRST: u64 = 16;

/// The CPU time of a router that counts beside that of one that does not.
#[derive(Serialize)]
pub(super) struct Counted {
    rows: [Row; 2],
    target: f64,
    pub(super) met: bool,
}

#[derive(Serialize)]
struct Row {
    part: RpcPart,
    /// In microseconds a message.
    plain: Summary,
    counted: Summary,
    ratio: Summary,
    met: bool,
}

impl Counted {
    pub(super) fn measure(
        placement: &Placement,
        congestion: &str,
        effort: &Effort,
    ) -> anyhow::Result<Self> {
        let row = |part| Row::measure(part, placement, congestion, effort);
        Ok(Self::of([row(RpcPart::Bulk)?, row(RpcPart::Request)?]))
    }

    /// Every row counts.
    fn of(rows: [Row; 2]) -> Self {
        let met = rows.iter().all(|row| row.met);
        Self {
            rows,
            target: TARGET,
            met,
        }
    }

    pub(super) fn text(&self) -> String {
        let rows = self.rows.iter().map(Row::text);
        let rows: Vec<String> = rows.collect();
        format!(
            "a router that counts RPCs, messages of 4 KiB\n{}\n  target of each ≤ {TARGET:.2}",
            rows.join("\n")
        )
    }
}

impl Row {
    fn measure(
        part: RpcPart,
        placement: &Placement,
        congestion: &str,
        effort: &Effort,
    ) -> anyhow::Result<Self> {
        let fan = |is_counting| {
            let kind = Kind::Lustre { part, is_counting };
            Fan::start(placement, congestion, kind)
        };
        let (mut without, mut with) = (fan(false)?, fan(true)?);
        let count = calibrate(FIRST, effort.measurement, |count| used(&mut without, count))?;
        let (mut plain, mut counted) = (Vec::new(), Vec::new());
        for _ in 0..effort.rounds {
            plain.push(each(used(&mut without, count)?, count));
            counted.push(each(used(&mut with, count)?, count));
        }
        let ratios = counted.iter().zip(&plain);
        let ratios = ratios.map(|(counted, plain)| counted / plain).collect();
        let (plain, counted) = (Summary::of(plain), Summary::of(counted));
        Ok(Self::of(part, plain, counted, Summary::of(ratios)))
    }

    fn of(part: RpcPart, plain: Summary, counted: Summary, ratio: Summary) -> Self {
        let met = ratio.median <= TARGET;
        Self {
            part,
            plain,
            counted,
            ratio,
            met,
        }
    }

    fn text(&self) -> String {
        let what = match self.part {
            RpcPart::Bulk => "data",
            RpcPart::Request => "requests",
        };
        let Summary { median, min, max } = self.ratio;
        format!(
            "  {what}: {:.2} µs of CPU time beside {:.2} µs without, ratio {median:.2} ({min:.2}–{max:.2}): {}",
            self.counted.median,
            self.plain.median,
            verdict(self.met)
        )
    }
}

/// Returns the CPU time that the router uses for messages.
fn used(fan: &mut Fan, count: u64) -> anyhow::Result<Duration> {
    let before = fan.router_time()?;
    fan.run(Workload::HopSmall, count)?;
    Ok(fan.router_time()?.saturating_sub(before))
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn each(used: Duration, count: u64) -> f64 {
    used.as_secs_f64() * 1e6 / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(data: f64, requests: f64) -> Counted {
        let one = |value| Summary::of(vec![value]);
        let row = |part, ratio| Row::of(part, one(1.0), one(ratio), one(ratio));
        Counted::of([row(RpcPart::Bulk, data), row(RpcPart::Request, requests)])
    }

    #[test]
    fn requests_count_as_data_do() {
        assert!(counted(1.05, 1.05).met);
        for (data, requests) in [(1.0, 1.06), (1.06, 1.0), (1.0, f64::NAN)] {
            let counted = counted(data, requests);
            assert!(!counted.met, "{data} {requests}");
        }
        let text = counted(1.0, 1.2).text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with(verdict(true)), "{text}");
        assert!(lines[2].ends_with(verdict(false)), "{text}");
    }
}

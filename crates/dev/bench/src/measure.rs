//! The rounds: the limit and Finerail in turns, as often as requested.

use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use super::foreign::{Program, Rival};
use super::lnet::bystander::Bystander;
use super::lnet::crowd::Crowd;
use super::placement::{Placement, placements};
use super::report::{Beside, PlacementReport, Report, Row};
use super::workload::Workload;
use super::{lnet, raw};

/// The extent of a measurement.
#[derive(Clone, Debug)]
pub(super) struct Effort {
    pub(super) workloads: Vec<Workload>,
    pub(super) rounds: u16,
    /// The time that one measurement should take.
    pub(super) measurement: Duration,
    /// If set, figures without a raw limit are measured, too.
    pub(super) is_whole: bool,
    /// The time for which spinning ends look for work before they sleep.
    pub(super) spin: Duration,
    /// Other programs that run in the same rounds.
    pub(super) peers: Vec<Program>,
}

/// The time for which a bystander and a crowd are observed, as a multiple of a measurement's length.
const LOOK: u32 = 50;

/// One of the two sides of a comparison.
pub(super) trait Side {
    /// Moves `count` messages, and returns the time until the last one has arrived.
    fn run(&mut self, workload: Workload, count: u64) -> anyhow::Result<Duration>;
}

/// Measures all workloads in every placement.
pub(super) fn everything(congestion: &str, effort: &Effort) -> anyhow::Result<Report> {
    let placements = placements()?;
    let bar = progress(placements.len(), effort);
    let widest = placements.first().context("no CPU may be used")?.clone();
    let mut reports = Vec::new();
    for placement in placements {
        bar.set_message(placement.name);
        reports.push(in_placement(placement, congestion, effort, &bar)?);
    }
    bar.finish_and_clear();
    let beside = beside(&widest, congestion, effort)?;
    Ok(Report::new(congestion, effort, reports, beside))
}

/// Measures the workloads of an effort in one placement.
pub(super) fn in_one_placement(
    placement: Placement,
    congestion: &str,
    effort: &Effort,
) -> anyhow::Result<PlacementReport> {
    let bar = progress(1, effort);
    bar.set_message(placement.name);
    let report = in_placement(placement, congestion, effort, &bar);
    bar.finish_and_clear();
    report
}

/// Measures the figures that have no raw limit.
fn beside(widest: &Placement, congestion: &str, effort: &Effort) -> anyhow::Result<Beside> {
    let length = effort.measurement * LOOK;
    let (bystander, crowds) = match effort.is_whole {
        true => (
            Some(Bystander::measure(widest, congestion, length)?),
            Crowd::measure_all(congestion, length)?,
        ),
        false => (None, Vec::new()),
    };
    Ok(Beside {
        bystander,
        crowds,
        idle_memory: lnet::idle_memory(congestion)?,
    })
}

fn progress(placements: usize, effort: &Effort) -> ProgressBar {
    let steps = placements * effort.workloads.len() * (usize::from(effort.rounds) + 1);
    let bar = ProgressBar::new(steps as u64);
    // The template is a constant and valid; without it the bar would only look different.
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    bar
}

fn in_placement(
    placement: Placement,
    congestion: &str,
    effort: &Effort,
    bar: &ProgressBar,
) -> anyhow::Result<PlacementReport> {
    let cpu = placement.initiator_cpu;
    sys::pin_to_cpu(cpu).with_context(|| format!("cannot stay on CPU {cpu}"))?;
    let mut limit = raw::Initiator::start(&placement, congestion)?;
    let mut finerail = lnet::Initiator::start(&placement, congestion, effort.spin)?;
    let mut rows = Vec::new();
    for &workload in &effort.workloads {
        let counts = Counts {
            limit: calibrate(FIRST, effort.measurement, |n| limit.run(workload, n))?,
            finerail: calibrate(FIRST, effort.measurement, |n| finerail.run(workload, n))?,
        };
        let mut row = Row::new(workload);
        if let Some(test) = workload.test() {
            let what = (workload.label(), workload.unit(), test);
            row.rivals = Rival::all(&effort.peers, what, &placement, effort.measurement)?;
        }
        rows.push((row, counts));
        bar.inc(1);
    }
    for round in 0..effort.rounds {
        for (row, counts) in &mut rows {
            one_round(row, *counts, round, &mut limit, &mut finerail)?;
            for rival in &mut row.rivals {
                rival.round(&placement, |took| workload_figure(row.workload, took))?;
            }
            bar.inc(1);
        }
    }
    let rows = rows.into_iter().map(|(row, _)| row).collect();
    Ok(PlacementReport::new(placement, rows))
}

/// Returns the figure for one message or exchange that took this time.
fn workload_figure(workload: Workload, took: Duration) -> f64 {
    const MANY: u32 = 1000;
    workload.figure(MANY.into(), took * MANY)
}

/// The numbers of messages with which a measurement takes about the wanted time.
#[derive(Clone, Copy)]
struct Counts {
    limit: u64,
    finerail: u64,
}

/// Measures both sides. The side that comes first changes from round to round, so that neither profits from caches
/// that the other has filled.
fn one_round(
    row: &mut Row,
    counts: Counts,
    round: u16,
    limit: &mut impl Side,
    finerail: &mut impl Side,
) -> anyhow::Result<()> {
    let workload = row.workload;
    let mut measure_limit = || limit.run(workload, counts.limit);
    let mut measure_finerail = || finerail.run(workload, counts.finerail);
    let (limit, finerail) = if round.is_multiple_of(2) {
        let first = measure_limit()?;
        (first, measure_finerail()?)
    } else {
        let first = measure_finerail()?;
        (measure_limit()?, first)
    };
    row.push(
        workload.figure(counts.limit, limit),
        workload.figure(counts.finerail, finerail),
    );
    Ok(())
}

/// The number of messages in the first trial of a calibration.
const FIRST: u64 = 16;

/// Returns the number of messages that take about `wanted`. The first trial has `first` messages. The trials also
/// warm up the connection and the buffers.
pub(super) fn calibrate(
    first: u64,
    wanted: Duration,
    mut run: impl FnMut(u64) -> anyhow::Result<Duration>,
) -> anyhow::Result<u64> {
    const MOST: u64 = 1 << 32;
    let mut count = first;
    loop {
        let took = run(count)?;
        if took >= wanted / 4 || count >= MOST {
            return Ok(scaled(count, took, wanted));
        }
        count *= 4;
    }
}

fn scaled(count: u64, took: Duration, wanted: Duration) -> u64 {
    let scaled = u128::from(count) * wanted.as_nanos() / took.as_nanos().max(1);
    u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A side in which every message takes a microsecond.
    struct Steady;

    impl Side for Steady {
        fn run(&mut self, _: Workload, count: u64) -> anyhow::Result<Duration> {
            Ok(Duration::from_micros(count))
        }
    }

    #[test]
    fn calibration_finds_the_count_that_takes_the_wanted_time() {
        let run = |count| Steady.run(Workload::RoundTrip, count);
        let count = calibrate(FIRST, Duration::from_millis(50), run).unwrap();
        assert_eq!(count, 50_000);
    }

    #[test]
    fn a_message_that_takes_longer_than_wanted_is_measured_once() {
        assert_eq!(
            scaled(16, Duration::from_secs(160), Duration::from_millis(1)),
            1
        );
    }

    #[test]
    fn both_sides_of_a_round_get_their_own_figure() {
        struct Slow;
        impl Side for Slow {
            fn run(&mut self, _: Workload, count: u64) -> anyhow::Result<Duration> {
                Ok(Duration::from_micros(2 * count))
            }
        }
        for round in [0, 1] {
            let mut row = Row::new(Workload::RoundTrip);
            let counts = Counts {
                limit: 100,
                finerail: 10,
            };
            one_round(&mut row, counts, round, &mut Steady, &mut Slow).unwrap();
            assert!((row.ratio().median - 2.0).abs() < 1e-6, "round {round}");
        }
    }
}

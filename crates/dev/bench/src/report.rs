//! The results as a table and as JSON.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::foreign::{self, Rival, RivalReport};
use super::lnet::PEER_CREDITS;
use super::lnet::bystander::Bystander;
use super::lnet::crowd::Crowd;
use super::measure::Effort;
use super::placement::Placement;
use super::workload::{Target, Workload};

/// The limit on the memory of an idle endpoint, in mebibytes.
const IDLE_MEMORY_TARGET_MIB: f64 = 20.0;

/// All results.
#[derive(Serialize)]
pub(super) struct Report {
    /// The congestion control of every socket.
    congestion: String,
    /// The number of messages that each node may have in flight to one peer.
    peer_credits: u32,
    rounds: u16,
    placements: Vec<PlacementReport>,
    bystander: Option<Bystander>,
    crowds: Vec<Crowd>,
    idle_endpoint: IdleMemory,
}

/// The figures that are measured once, apart from the rounds.
pub(super) struct Beside {
    pub(super) bystander: Option<Bystander>,
    pub(super) crowds: Vec<Crowd>,
    /// The resident bytes of an idle endpoint.
    pub(super) idle_memory: u64,
}

/// The figures of one placement.
#[derive(Serialize)]
pub(super) struct PlacementReport {
    #[serde(flatten)]
    placement: Placement,
    rows: Vec<RowReport>,
    peers: Vec<RivalReport>,
}

/// The figures of one workload during the measurement.
pub(super) struct Row {
    pub(super) workload: Workload,
    limit: Vec<f64>,
    finerail: Vec<f64>,
    /// Other programs that run the same test.
    pub(super) rivals: Vec<Rival>,
}

#[derive(Serialize)]
struct RowReport {
    what: &'static str,
    unit: &'static str,
    message_bytes: usize,
    limit: Summary,
    finerail: Summary,
    ratio: Summary,
    target: Option<Target>,
    met: Option<bool>,
    limit_rounds: Vec<f64>,
    finerail_rounds: Vec<f64>,
}

/// The summary of several rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

#[derive(Serialize)]
struct IdleMemory {
    resident_mib: f64,
    target_mib: f64,
    met: bool,
}

impl Report {
    pub(super) fn new(
        congestion: &str,
        effort: &Effort,
        placements: Vec<PlacementReport>,
        beside: Beside,
    ) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a process has less than 2^52 bytes"
        )]
        let resident_mib = beside.idle_memory as f64 / f64::from(1 << 20);
        Self {
            congestion: congestion.to_owned(),
            peer_credits: PEER_CREDITS,
            rounds: effort.rounds,
            placements,
            bystander: beside.bystander,
            crowds: beside.crowds,
            idle_endpoint: IdleMemory {
                resident_mib,
                target_mib: IDLE_MEMORY_TARGET_MIB,
                met: resident_mib < IDLE_MEMORY_TARGET_MIB,
            },
        }
    }

    /// Returns the tables as text.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "congestion control {}, peer_credits {}, medians of {} rounds, GB = 10^9 bytes\n",
            self.congestion, self.peer_credits, self.rounds
        );
        if self.placements.len() == 1 {
            text.push_str("only one CPU may be used here, so two cores are not measured\n");
        }
        for report in &self.placements {
            push(
                &mut text,
                format_args!("\n{}\n{}\n", report.placement.describe(), table(report)),
            );
            if !report.peers.is_empty() {
                push(
                    &mut text,
                    format_args!("\n{}\n", foreign::table(&report.peers)),
                );
            }
        }
        let beside = self
            .bystander
            .iter()
            .map(|measured| (measured.text(), measured.met));
        let crowds = self.crowds.iter().map(|crowd| (crowd.text(), crowd.met));
        for (line, met) in beside.chain(crowds) {
            push(&mut text, format_args!("\n{line}, {}\n", verdict(met)));
        }
        let IdleMemory {
            resident_mib,
            target_mib,
            met,
        } = &self.idle_endpoint;
        push(
            &mut text,
            format_args!(
                "\nidle endpoint: {resident_mib:.1} MiB resident, target < {target_mib} MiB, {}\n",
                verdict(*met)
            ),
        );
        text
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _infallible = text.write_fmt(arguments);
}

const fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

fn table(report: &PlacementReport) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "what",
        "limit",
        "Finerail",
        "ratio",
        "min–max",
        "target",
        "",
    ]);
    for row in &report.rows {
        table.add_row(row.cells());
    }
    for column in table.column_iter_mut().skip(1).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

impl RowReport {
    fn cells(&self) -> [String; 7] {
        let figure = |value: f64| match value {
            value if value >= 100.0 => format!("{value:.0} {}", self.unit),
            value => format!("{value:.2} {}", self.unit),
        };
        let target = match self.target {
            None => String::new(),
            Some(Target::AtLeast(goal)) => format!("≥ {goal:.2}"),
            Some(Target::AtMost(goal)) => format!("≤ {goal:.2}"),
        };
        [
            self.what.to_owned(),
            figure(self.limit.median),
            figure(self.finerail.median),
            format!("{:.2}", self.ratio.median),
            format!("{:.2}–{:.2}", self.ratio.min, self.ratio.max),
            target,
            self.met.map(verdict).unwrap_or_default().to_owned(),
        ]
    }
}

impl PlacementReport {
    /// Returns the placement and its table as text.
    pub(super) fn text(&self) -> String {
        format!("{}\n{}\n", self.placement.describe(), table(self))
    }

    pub(super) fn new(placement: Placement, mut rows: Vec<Row>) -> Self {
        let on_one_core = placement.is_one_core();
        let peers = rows.iter_mut().flat_map(Row::take_rivals).collect();
        Self {
            placement,
            peers,
            rows: rows
                .into_iter()
                .map(|row| row.report(on_one_core))
                .collect(),
        }
    }
}

impl Row {
    pub(super) const fn new(workload: Workload) -> Self {
        Self {
            workload,
            limit: Vec::new(),
            finerail: Vec::new(),
            rivals: Vec::new(),
        }
    }

    fn take_rivals(&mut self) -> Vec<RivalReport> {
        let rivals = std::mem::take(&mut self.rivals);
        rivals
            .into_iter()
            .map(|rival| rival.report(&self.finerail))
            .collect()
    }

    /// Adds a round.
    pub(super) fn push(&mut self, limit: f64, finerail: f64) {
        self.limit.push(limit);
        self.finerail.push(finerail);
    }

    /// Returns the ratio of Finerail's figure to the limit's figure of the same round.
    pub(super) fn ratio(&self) -> Summary {
        let rounds = self.finerail.iter().zip(&self.limit);
        Summary::of(rounds.map(|(finerail, limit)| finerail / limit).collect())
    }

    fn report(self, on_one_core: bool) -> RowReport {
        let ratio = self.ratio();
        let target = self.workload.target(on_one_core);
        RowReport {
            what: self.workload.label(),
            unit: self.workload.unit(),
            message_bytes: self.workload.message_len(),
            limit: Summary::of(self.limit.clone()),
            finerail: Summary::of(self.finerail.clone()),
            ratio,
            target,
            met: target.map(|target| target.is_met_by(ratio.median)),
            limit_rounds: self.limit,
            finerail_rounds: self.finerail,
        }
    }
}

impl Summary {
    /// Summarizes the values. Without values all fields are zero.
    pub(super) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let at = |index: usize| values.get(index).copied().unwrap_or_default();
        let median = match values.len() % 2 {
            0 => f64::midpoint(at(middle.wrapping_sub(1)), at(middle)),
            _ => at(middle),
        };
        Self {
            median,
            min: at(0),
            max: at(values.len().wrapping_sub(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let summary = Summary::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(
            summary,
            Summary {
                median: 2.5,
                min: 1.0,
                max: 4.0
            }
        );
    }

    #[test]
    fn the_ratio_is_taken_round_by_round() {
        let mut row = Row::new(Workload::PutLarge);
        for (limit, finerail) in [(10.0, 9.0), (5.0, 4.0), (2.0, 2.0)] {
            row.push(limit, finerail);
        }
        assert_eq!(
            row.ratio(),
            Summary {
                median: 0.9,
                min: 0.8,
                max: 1.0
            }
        );
    }

    #[test]
    fn the_text_says_congestion_control_placement_and_verdict() {
        let mut row = Row::new(Workload::PutLarge);
        row.push(10.0, 7.0);
        let placement = Placement::all(&[4]).remove(0);
        let effort = Effort {
            workloads: vec![Workload::PutLarge],
            rounds: 1,
            measurement: std::time::Duration::ZERO,
            is_whole: false,
            spin: std::time::Duration::ZERO,
            peers: Vec::new(),
        };
        let placements = vec![PlacementReport::new(placement, vec![row])];
        let beside = Beside {
            bystander: None,
            crowds: Vec::new(),
            idle_memory: 30 << 20,
        };
        let text = Report::new("cubic", &effort, placements, beside).text();
        for wanted in [
            "cubic",
            "one core: every process on CPU 4",
            "only one CPU",
            "0.70",
            "missed",
        ] {
            assert!(text.contains(wanted), "{wanted} in\n{text}");
        }
    }
}

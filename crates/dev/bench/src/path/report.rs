//! The results as tables and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::faults::Faults;
use super::hops::Hops;
use super::small::SmallFiles;
use super::task::PIECE;
use crate::report::Summary;
use crate::verdict;

/// All results.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) congestion: String,
    /// The reason why there was no mount; `None` if there was one.
    pub(super) mount: Option<String>,
    pub(super) hops: HopReport,
    pub(super) rows: Vec<Row>,
    pub(super) small: SmallFiles,
    /// `None` with `--short`.
    pub(super) faults: Option<Faults>,
}

/// The rate of each hop by itself, in GB/s, for each round.
#[derive(Default, Serialize)]
pub(super) struct HopReport {
    memory: Vec<f64>,
    tcp: Vec<f64>,
    directory_write: Vec<f64>,
    directory_read: Vec<f64>,
}

impl HopReport {
    pub(super) fn push(&mut self, hops: Hops) {
        self.memory.push(hops.memory);
        self.tcp.push(hops.tcp);
    }

    pub(super) fn push_local(&mut self, is_write: bool, figure: f64) {
        match is_write {
            true => self.directory_write.push(figure),
            false => self.directory_read.push(figure),
        }
    }

    fn text(&self) -> String {
        let median = |figures: &Vec<f64>| Summary::of(figures.clone()).median;
        format!(
            "single hops: shared memory {:.2} GB/s, TCP {:.2} GB/s, directory written {:.2} GB/s and read {:.2} GB/s",
            median(&self.memory),
            median(&self.tcp),
            median(&self.directory_write),
            median(&self.directory_read)
        )
    }
}

/// The unit of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Unit {
    /// The rate of pieces.
    #[serde(rename = "GB/s")]
    Bandwidth,
    /// The rate of operations.
    #[serde(rename = "/s")]
    Rate,
}

impl Unit {
    /// Returns the figure for so many operations.
    pub(super) fn figure(self, operations: f64, took: Duration) -> f64 {
        let rate = operations / took.as_secs_f64();
        match self {
            #[expect(clippy::cast_precision_loss, reason = "a small constant")]
            Self::Bandwidth => rate * PIECE as f64 / 1e9,
            Self::Rate => rate,
        }
    }

    fn show(self, figure: f64) -> String {
        match self {
            Self::Bandwidth => format!("{figure:.2} GB/s"),
            Self::Rate => format!("{figure:.0} /s"),
        }
    }

    /// Returns the unit of work to which the CPU times of [`Processes`] refer.
    const fn operation(self) -> &'static str {
        match self {
            Self::Bandwidth => "MiB",
            Self::Rate => "operation",
        }
    }
}

/// The CPU time of each process for one operation or for 1 MiB, in microseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Processes(BTreeMap<&'static str, f64>);

impl Processes {
    pub(super) fn add(&mut self, name: &'static str, microseconds: f64) {
        self.0.insert(name, microseconds);
    }
}

/// One comparison.
#[derive(Serialize)]
pub(super) struct Row {
    what: String,
    beside: &'static str,
    unit: Unit,
    limit: Vec<f64>,
    figure: Vec<f64>,
    target: Option<f64>,
    /// The CPU times of each round; only in the first row of a subject.
    pub(super) processes: Vec<Processes>,
}

impl Row {
    pub(super) fn new(what: &str, beside: &'static str, unit: Unit, target: Option<f64>) -> Self {
        Self {
            what: what.to_owned(),
            beside,
            unit,
            limit: Vec::new(),
            figure: Vec::new(),
            target,
            processes: Vec::new(),
        }
    }

    /// Adds a round.
    pub(super) fn push(&mut self, limit: f64, figure: f64) {
        self.limit.push(limit);
        self.figure.push(figure);
    }

    fn ratio(&self) -> Summary {
        let rounds = self.figure.iter().zip(&self.limit);
        Summary::of(rounds.map(|(figure, limit)| figure / limit).collect())
    }

    fn cells(&self) -> [String; 8] {
        let Summary { median, min, max } = self.ratio();
        let show = |figures: &Vec<f64>| self.unit.show(Summary::of(figures.clone()).median);
        [
            self.what.clone(),
            show(&self.figure),
            self.beside.to_owned(),
            show(&self.limit),
            format!("{median:.2}"),
            format!("{min:.2}–{max:.2}"),
            self.target
                .map(|target| format!("≥ {target:.2}"))
                .unwrap_or_default(),
            self.target
                .map(|target| verdict(median >= target))
                .unwrap_or_default()
                .to_owned(),
        ]
    }

    /// Returns the medians of the CPU times as text.
    fn cpu(&self) -> Option<String> {
        let names = self.processes.first()?.0.keys();
        let median = |name: &&'static str| {
            let times = self.processes.iter().filter_map(|round| round.0.get(name));
            Summary::of(times.copied().collect()).median
        };
        let shown: Vec<String> = names
            .map(|name| format!("{name} {:.0}", median(name)))
            .collect();
        Some(format!(
            "  {}, µs a {}: {}",
            self.what,
            self.unit.operation(),
            shown.join(", ")
        ))
    }
}

impl Report {
    /// Returns the results as text.
    pub(super) fn text(&self) -> String {
        let rounds = self.rows.first().map_or(0, |row| row.figure.len());
        let mut text = format!(
            "congestion control {}, medians of {rounds} rounds, GB = 10^9 bytes\n{}\n",
            self.congestion,
            self.hops.text()
        );
        let mut line = |line: &dyn std::fmt::Display| {
            // Writing to a string cannot fail.
            let _infallible = writeln!(text, "{line}");
        };
        if let Some(why) = &self.mount {
            line(&format_args!("there is no mount here: {why}"));
        }
        line(&format_args!("\n{}", table(&self.rows)));
        line(&"\nCPU time of the path's processes without the client:");
        self.rows
            .iter()
            .filter_map(Row::cpu)
            .for_each(|cpu| line(&cpu));
        line(&format_args!("\n{}", self.small.text()));
        if let Some(faults) = &self.faults {
            line(&format_args!("\n{}", faults.text()));
        }
        text
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "what",
        "Finerail",
        "beside",
        "",
        "ratio",
        "min–max",
        "target",
        "",
    ]);
    for row in rows {
        table.add_row(row.cells());
    }
    for column in [1, 3, 4, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_ratio_round_by_round_and_verdict() {
        let mut row = Row::new("write", "slowest hop", Unit::Bandwidth, Some(0.7));
        for (limit, figure) in [(2.0, 1.0), (4.0, 3.0), (1.0, 0.6)] {
            row.push(limit, figure);
        }
        let cells = row.cells();
        assert_eq!(cells[4..], ["0.60", "0.50–0.75", "≥ 0.70", "missed"]);
    }
}

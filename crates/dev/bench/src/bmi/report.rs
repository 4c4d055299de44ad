//! The results as tables and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::bed::Bed;
use super::limits::Tuning;
use super::machine::Bare;
use super::measure::describe;
use super::plain::Plain;
use super::rows::{Subject, Unit, size};
use super::task::{Done, Method, Task};
use crate::foreign::{self, Rival, RivalReport};
use crate::placement::Placement;
use crate::report::Summary;
use crate::verdict;
use crate::workload::Target;

/// All results.
#[derive(Serialize)]
pub(super) struct Measured {
    /// The congestion control of the TCP sockets. On both sides it is the system's default.
    pub(super) congestion: String,
    pub(super) rounds: u16,
    pub(super) placements: Vec<PlacementReport>,
    pub(super) counted: Vec<Counted>,
}

/// The figures of one placement.
#[derive(Serialize)]
pub(super) struct PlacementReport {
    #[serde(flatten)]
    placement: Placement,
    machine: Vec<Bare>,
    rows: Vec<RowReport>,
    many_clients: Vec<GroupReport>,
    peers: Vec<RivalReport>,
}

/// The figures of one subject during the measurement.
pub(super) struct Row {
    pub(super) subject: Subject,
    limit: Plain,
    physical: Plain,
    /// The number of messages in one measurement of the method.
    pub(super) count: u64,
    method: Vec<f64>,
    /// Other programs that run the same test.
    pub(super) rivals: Vec<Rival>,
}

#[derive(Serialize)]
struct RowReport {
    what: String,
    limit_is: &'static str,
    unit: Unit,
    task: Task,
    /// The middle of the best figures of the best tunings.
    limit: f64,
    /// True if these figures agree. A limit that does not settle is met by no figure.
    limit_settled: bool,
    limit_tunings: Vec<Tuning>,
    method: Summary,
    ratio: Summary,
    physical_is: &'static str,
    physical: f64,
    ratio_to_physical: f64,
    target: Option<Target>,
    met: Option<bool>,
    limit_rounds: Vec<f64>,
    method_rounds: Vec<f64>,
}

/// Many clients beside one, during the measurement.
pub(super) struct Group {
    method: Method,
    bytes: usize,
    clients: usize,
    alone: Vec<f64>,
    /// The figures of one client that uses as much memory as all of them together.
    roomy: Vec<f64>,
    together: Vec<f64>,
    fairness: Vec<f64>,
}

#[derive(Serialize)]
struct GroupReport {
    what: String,
    alone: Summary,
    alone_in_same_memory: Summary,
    together: Summary,
    ratio: Summary,
    ratio_target: Target,
    ratio_met: bool,
    ratio_in_same_memory: Summary,
    ratio_in_same_memory_met: bool,
    slowest_to_fastest: Summary,
    slowest_target: Target,
    slowest_met: bool,
}

/// A figure that is the same on every machine.
#[derive(Serialize)]
pub(super) struct Counted {
    what: &'static str,
    value: f64,
    target: Target,
    met: bool,
}

/// The lowest acceptable total of many clients, as a share of one client's.
const AGGREGATE: Target = Target::AtLeast(0.95);
/// The lowest acceptable rate of the slowest client, as a share of the fastest one's.
const FAIRNESS: Target = Target::AtLeast(0.8);

impl Measured {
    /// Returns true if no row was measured.
    pub(super) fn is_empty(&self) -> bool {
        self.placements.iter().all(|report| report.rows.is_empty())
    }

    /// Returns the tables as text.
    pub(super) fn text(&self) -> String {
        let Self {
            congestion, rounds, ..
        } = self;
        let mut text = format!(
            "congestion control {congestion}, medians of {rounds} rounds, GB = 10^9 bytes\n\
             one way: half of the time of a message there and its answer; its limit is a round trip\n\
             a limit is the best of its plain programs, blocking and not, whose best figures agree\n\
             physical: the ratio to a queue round trip (one way) or to copies of as much memory\n",
        );
        if self.placements.len() == 1 {
            text.push_str("only one CPU may be used here, so two cores are not measured\n");
        }
        for report in &self.placements {
            let place = report
                .placement
                .describe_roles("clients", "daemon and server");
            push(&mut text, format_args!("\n{place}\n"));
            if !report.machine.is_empty() {
                push(&mut text, format_args!("{}\n\n", report.machine()));
            }
            push(&mut text, format_args!("{}\n", report.rows()));
            if !report.many_clients.is_empty() {
                push(&mut text, format_args!("\n{}\n", report.groups()));
            }
            if !report.peers.is_empty() {
                push(
                    &mut text,
                    format_args!("\n{}\n", foreign::table(&report.peers)),
                );
            }
        }
        text.push('\n');
        for counted in &self.counted {
            push(&mut text, format_args!("{}\n", counted.line()));
        }
        text
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _infallible = text.write_fmt(arguments);
}

fn plain_table(header: &[&str], figures: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.iter().copied());
    for column in table.column_iter_mut().skip(1).take(figures) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn range(summary: Summary) -> String {
    format!("{:.2}–{:.2}", summary.min, summary.max)
}

fn aim(target: Target) -> String {
    match target {
        Target::AtLeast(goal) => format!("≥ {goal:.2}"),
        Target::AtMost(goal) => format!("≤ {goal:.2}"),
    }
}

impl PlacementReport {
    pub(super) fn new(
        placement: Placement,
        machine: Vec<Bare>,
        mut rows: Vec<Row>,
        groups: Vec<Group>,
    ) -> Self {
        let peers = rows.iter_mut().flat_map(Row::take_rivals).collect();
        Self {
            placement,
            machine,
            rows: rows.into_iter().map(Row::report).collect(),
            many_clients: groups.into_iter().map(Group::report).collect(),
            peers,
        }
    }

    fn rows(&self) -> Table {
        let header = [
            "what",
            "measured",
            "limit",
            "ratio",
            "min–max",
            "physical",
            "target",
            "",
        ];
        let mut table = plain_table(&header, 5);
        let mut limit = "";
        for row in &self.rows {
            if row.limit_is != limit {
                limit = row.limit_is;
                table.add_row([format!("beside {limit}:")]);
            }
            table.add_row(row.cells());
        }
        table
    }

    /// Returns the table of the limits by themselves.
    fn machine(&self) -> Table {
        let mut table = plain_table(&["this machine", "measured", "min–max"], 2);
        for Bare {
            what,
            unit,
            measured,
        } in &self.machine
        {
            table.add_row([what.clone(), unit.show(measured.median), range(*measured)]);
        }
        table
    }

    fn groups(&self) -> Table {
        let header = [
            "many clients",
            "one",
            "together",
            "ratio",
            "",
            "one, as much memory",
            "ratio",
            "",
            "slowest/fastest",
            "",
        ];
        let mut table = plain_table(&header, 3);
        if let Some(column) = table.column_mut(5) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for group in &self.many_clients {
            let aimed = |target, met| format!("{}, {}", aim(target), verdict(met));
            table.add_row([
                group.what.clone(),
                format!("{:.2} GB/s", group.alone.median),
                format!("{:.2} GB/s", group.together.median),
                format!("{:.2}", group.ratio.median),
                aimed(group.ratio_target, group.ratio_met),
                format!("{:.2} GB/s", group.alone_in_same_memory.median),
                format!("{:.2}", group.ratio_in_same_memory.median),
                aimed(group.ratio_target, group.ratio_in_same_memory_met),
                format!("{:.2}", group.slowest_to_fastest.median),
                aimed(group.slowest_target, group.slowest_met),
            ]);
        }
        table
    }
}

impl Row {
    pub(super) const fn new(subject: Subject, limit: Plain, physical: Plain, count: u64) -> Self {
        Self {
            subject,
            limit,
            physical,
            count,
            method: Vec::new(),
            rivals: Vec::new(),
        }
    }

    /// Runs the other programs for one round.
    pub(super) fn rivals_round(&mut self, place: &Placement) -> anyhow::Result<()> {
        const MANY: u32 = 1000;
        let subject = &self.subject;
        let figure = |took: Duration| {
            let nanoseconds = u64::try_from((took * MANY).as_nanos()).unwrap_or(u64::MAX);
            let done = Done {
                nanoseconds,
                ..Done::default()
            };
            subject.figure(MANY.into(), done)
        };
        let mut rivals = self.rivals.iter_mut();
        rivals.try_for_each(|rival| rival.round(place, figure))
    }

    fn take_rivals(&mut self) -> Vec<RivalReport> {
        let rivals = std::mem::take(&mut self.rivals);
        let reports = rivals.into_iter().map(|rival| rival.report(&self.method));
        reports.collect()
    }

    /// Measures both limits once.
    pub(super) fn measure_limits(&mut self, bed: &mut Bed) -> anyhow::Result<()> {
        self.limit.measure(bed)?;
        self.physical.measure(bed)
    }

    /// Measures both limits until they have settled, each at most `most` times.
    pub(super) fn settle(&mut self, bed: &mut Bed, most: u16) -> anyhow::Result<()> {
        self.limit.settle(bed, most)?;
        self.physical.settle(bed, most)
    }

    /// Adds a round.
    pub(super) fn push(&mut self, done: Done) {
        self.method.push(self.subject.figure(self.count, done));
    }

    fn report(self) -> RowReport {
        let (limit, limit_settled) = self.limit.value();
        let (physical, _) = self.physical.value();
        let ratio = Summary::of(self.method.iter().map(|method| method / limit).collect());
        let method = Summary::of(self.method.clone());
        let target = self.subject.target;
        RowReport {
            what: self.subject.label(),
            limit_is: describe(self.limit.limit),
            unit: self.subject.unit(),
            task: Task {
                count: self.count,
                ..self.subject.task
            },
            limit,
            limit_settled,
            limit_tunings: self.limit.tunings(),
            ratio,
            physical_is: describe(self.physical.limit),
            physical,
            ratio_to_physical: method.median / physical,
            method,
            target,
            met: target
                .filter(|_| limit_settled)
                .map(|target| target.is_met_by(ratio.median)),
            limit_rounds: self.limit.figures,
            method_rounds: self.method,
        }
    }
}

impl RowReport {
    fn cells(&self) -> [String; 8] {
        let verdict = match self.limit_settled {
            true => self.met.map(verdict).unwrap_or_default(),
            false => "limit unstable",
        };
        [
            self.what.clone(),
            self.unit.show(self.method.median),
            self.unit.show(self.limit),
            format!("{:.2}", self.ratio.median),
            range(self.ratio),
            format!("{:.2}", self.ratio_to_physical),
            self.target.map(aim).unwrap_or_default(),
            verdict.to_owned(),
        ]
    }
}

impl Group {
    pub(super) const fn new(method: Method, bytes: usize, clients: usize) -> Self {
        Self {
            method,
            bytes,
            clients,
            alone: Vec::new(),
            roomy: Vec::new(),
            together: Vec::new(),
            fairness: Vec::new(),
        }
    }

    /// Adds a round.
    pub(super) fn push(&mut self, alone: f64, roomy: f64, together: f64, each: &[Done]) {
        self.alone.push(alone);
        self.roomy.push(roomy);
        self.together.push(together);
        let times = || each.iter().map(|done| done.nanoseconds);
        let (fastest, slowest) = (times().min().unwrap_or(0), times().max().unwrap_or(1));
        #[expect(clippy::cast_precision_loss, reason = "a run takes seconds")]
        // All clients have sent the same amount, so their times are inverse to their rates.
        self.fairness.push(fastest as f64 / slowest as f64);
    }

    fn report(self) -> GroupReport {
        let beside = |one: &[f64]| {
            let rounds = self.together.iter().zip(one);
            Summary::of(rounds.map(|(together, one)| together / one).collect())
        };
        let (ratio, in_same_memory) = (beside(&self.alone), beside(&self.roomy));
        let slowest = Summary::of(self.fairness);
        let (method, clients) = (self.method, self.clients);
        GroupReport {
            what: format!("{method} {}, {clients} clients", size(self.bytes)),
            alone: Summary::of(self.alone),
            alone_in_same_memory: Summary::of(self.roomy),
            together: Summary::of(self.together),
            ratio,
            ratio_target: AGGREGATE,
            ratio_met: AGGREGATE.is_met_by(ratio.median),
            ratio_in_same_memory: in_same_memory,
            ratio_in_same_memory_met: AGGREGATE.is_met_by(in_same_memory.median),
            slowest_to_fastest: slowest,
            slowest_target: FAIRNESS,
            slowest_met: FAIRNESS.is_met_by(slowest.median),
        }
    }
}

impl Counted {
    /// Returns a figure with a target: `total` divided by `count` should be at most `most`.
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub(super) fn at_most(what: &'static str, total: u64, count: u64, most: f64) -> Self {
        let value = total as f64 / count as f64;
        let target = Target::AtMost(most);
        Self {
            what,
            value,
            target,
            met: target.is_met_by(value),
        }
    }

    fn line(&self) -> String {
        let Self {
            what,
            value,
            target,
            met,
        } = self;
        format!(
            "{what}: {value:.2}, target {}, {}",
            aim(*target),
            verdict(*met)
        )
    }
}

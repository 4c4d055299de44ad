//! The counts as lines of OpenMetrics, with a limited number of series.

use std::fmt::Write as _;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use lnet_ptlrpc::{By, FindingKind, TIME_BOUNDS};

use super::board::{Line, Reader, Sums};
use super::{Counted, Shared};

/// A family of series: the ending of its name, its meaning, and its value.
type Part<T> = (&'static str, &'static str, fn(&T) -> u64);

/// The counters by client, target, operation and job.
const PARTS: [Part<Sums>; 5] = [
    ("rpcs", "RPCs that have ended", |sums| sums.rpcs),
    ("errors", "RPCs whose reply has an error", |sums| {
        sums.errors
    }),
    ("unanswered", "RPCs without a reply in time", |sums| {
        sums.unanswered
    }),
    ("answered", "RPCs with a final reply", |sums| sums.answered),
    ("bulk_bytes", "Bytes of data of RPCs", |sums| sums.bytes),
];

/// The counters of everything that was seen.
const SINGLE: [Part<Counted>; 9] = [
    (
        "not_followed",
        "RPCs that were forgotten before their end, because too many were outstanding",
        |counted| counted.pairer.tally.forgotten,
    ),
    ("resent", "RPCs whose request was sent again", |counted| {
        counted.pairer.tally.count_of(FindingKind::Resent)
    }),
    (
        "early_replies",
        "Replies that ask for more time",
        |counted| counted.pairer.tally.early,
    ),
    (
        "late_replies",
        "Final replies that came when their RPC counted as unanswered",
        |counted| counted.pairer.tally.late_replies,
    ),
    (
        "repeated_replies",
        "Final replies that came once more",
        |counted| counted.pairer.tally.repeated_replies,
    ),
    (
        "stray_replies",
        "Final replies whose request was not seen",
        |counted| counted.pairer.tally.orphan_replies,
    ),
    (
        "stray_bulk_messages",
        "Messages of bulk whose request was not seen, or whose RPC had ended",
        |counted| counted.pairer.tally.orphan_bulk + counted.pairer.tally.late_bulk,
    ),
    (
        "undecoded",
        "Messages on the portals of RPCs that are no RPC",
        |counted| counted.pairer.tally.malformed,
    ),
    (
        "evicted_rows",
        "Clients, targets, operations and jobs with few RPCs that made room for others, and are part of other since",
        |counted| counted.boards.iter().map(|board| board.evicted()).sum(),
    ),
];

impl Shared {
    pub(super) fn metrics(&self) -> String {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for board in &mut counted.boards {
            let by = board.by();
            families(&mut text, by, &board.look(Reader::Metrics));
        }
        for (name, help, value) in SINGLE {
            single(&mut text, name, help, "counter", value(&counted));
        }
        let outstanding = counted.pairer.outstanding() as u64;
        drop(counted);
        let help = "RPCs without a reply so far";
        single(&mut text, "outstanding", help, "gauge", outstanding);
        let missed = self.missed.load(Ordering::Relaxed);
        let help = "Messages that were not looked at";
        single(&mut text, "missed", help, "counter", missed);
        text
    }
}

fn families(text: &mut String, by: By, lines: &[Line<'_>]) {
    let label = by.name();
    for (part, help, value) in PARTS {
        let name = format!("finerail_rpc_{label}_{part}");
        head(text, &name, &format!("{help}, by {label}"), "counter");
        for line in lines {
            let row = escaped(line.name);
            // Writing to a String does not fail.
            let _written = writeln!(
                text,
                "{name}_total{{{label}=\"{row}\"}} {}",
                value(&line.sums)
            );
        }
    }
    let name = format!("finerail_rpc_{label}_latency_seconds");
    let help = format!("Time from request to final reply as seen here, by {label}");
    if by == By::Operation {
        head(text, &name, &help, "histogram");
        lines.iter().for_each(|line| histogram(text, &name, line));
        return;
    }
    let help = format!("{help}: the sum for the answered ones");
    head(text, &name, &help, "counter");
    for line in lines {
        let row = escaped(line.name);
        let seconds = seconds(line.sums.micros);
        let _written = writeln!(text, "{name}_total{{{label}=\"{row}\"}} {seconds}");
    }
}

fn histogram(text: &mut String, name: &str, line: &Line<'_>) {
    let (row, sums) = (escaped(line.name), &line.sums);
    let mut within = 0;
    // Writing to a String does not fail.
    for (bound, count) in TIME_BOUNDS.iter().zip(sums.by_time) {
        within += count;
        let bound = *bound as f64 / 1e6;
        let _written = writeln!(
            text,
            "{name}_bucket{{operation=\"{row}\",le=\"{bound}\"}} {within}"
        );
    }
    let (answered, seconds) = (sums.answered, seconds(sums.micros));
    let _written = writeln!(
        text,
        "{name}_bucket{{operation=\"{row}\",le=\"+Inf\"}} {answered}\n\
         {name}_sum{{operation=\"{row}\"}} {seconds}\n\
         {name}_count{{operation=\"{row}\"}} {answered}"
    );
}

/// Returns microseconds as seconds, exactly.
fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    // Writing to a String does not fail.
    let _written = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

fn single(text: &mut String, name: &str, help: &str, kind: &str, value: u64) {
    let name = format!("finerail_rpc_{name}");
    let ending = if kind == "counter" { "_total" } else { "" };
    head(text, &name, help, kind);
    // Writing to a String does not fail.
    let _written = writeln!(text, "{name}{ending} {value}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lnet_ptlrpc::Rpc;
    use lnet_types::Time;

    use super::*;
    use crate::rpcs::board::Board;
    use crate::rpcs::tests::rpc;

    fn text_of(by: By, rpcs: &[Rpc]) -> String {
        let mut board = Board::new(by);
        rpcs.iter().for_each(|rpc| board.add(rpc));
        let mut text = String::new();
        families(&mut text, by, &board.look(Reader::Metrics));
        text
    }

    #[test]
    fn names_cannot_end_a_label() {
        let text = text_of(By::Job, &[rpc(1)]);
        for line in [
            "rpcs_total{job=\"a \\\"job\\\"\"} 1\n",
            "bulk_bytes_total{job=\"a \\\"job\\\"\"} 10\n",
        ] {
            assert!(text.contains(&format!("finerail_rpc_job_{line}")), "{text}");
        }
        let error = "finerail_rpc_job_errors_total{job=\"a \\\"job\\\"\"} 1\n";
        assert!(text.contains(error), "{text}");
    }

    #[test]
    fn times_are_summed_and_those_of_operations_are_a_histogram() {
        let took = |millis| Rpc {
            ended: Some(Time::ZERO + Duration::from_millis(millis)),
            ..rpc(1)
        };
        let rpcs = [took(3), took(4), took(200_000), rpc(1)];
        let text = text_of(By::Operation, &rpcs);
        let named = |rest: &str| format!("finerail_rpc_operation_latency_seconds_{rest}");
        for line in [
            "bucket{operation=\"OBD_PING\",le=\"0.001\"} 0\n",
            "bucket{operation=\"OBD_PING\",le=\"0.003\"} 1\n",
            "bucket{operation=\"OBD_PING\",le=\"0.01\"} 2\n",
            "bucket{operation=\"OBD_PING\",le=\"100\"} 2\n",
            "bucket{operation=\"OBD_PING\",le=\"+Inf\"} 3\n",
            "sum{operation=\"OBD_PING\"} 200.007000\n",
            "count{operation=\"OBD_PING\"} 3\n",
        ] {
            assert!(text.contains(&named(line)), "{line} in {text}");
        }
        let text = text_of(By::Client, &rpcs);
        for line in ["latency_seconds_total", "answered_total"] {
            let value = if line == "answered_total" {
                "3"
            } else {
                "200.007000"
            };
            let line = format!("finerail_rpc_client_{line}{{client=\"0.0.0.1@tcp\"}} {value}\n");
            assert!(text.contains(&line), "{line} in {text}");
        }
    }
}

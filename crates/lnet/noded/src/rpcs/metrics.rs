//! The counts as lines of OpenMetrics, with a limited number of series.

use std::fmt::Write as _;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use lnet_ptlrpc::{Figures, OTHER, Summary};

use super::Shared;

/// The most clients, jobs and targets with series of their own.
pub(super) const OWN_MAX: usize = 100;

impl Shared {
    pub(super) fn metrics(&self) -> String {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for table in &counted.tables {
            let by = table.by().first().map_or("", |by| by.name());
            families(&mut text, by, &top(table));
        }
        let outstanding = counted.pairer.outstanding() as u64;
        drop(counted);
        single(
            &mut text,
            "outstanding",
            "RPCs without a reply so far",
            "gauge",
            outstanding,
        );
        let missed = self.missed.load(Ordering::Relaxed);
        single(
            &mut text,
            "missed",
            "Messages that were not looked at",
            "counter",
            missed,
        );
        text
    }
}

/// What a series shows.
#[derive(Clone, Copy, Default)]
struct Sums {
    rpcs: u64,
    errors: u64,
    unanswered: u64,
    bytes: u64,
}

impl Sums {
    fn add(&mut self, figures: &Figures) {
        self.rpcs += figures.rpcs;
        self.errors += figures.errors;
        self.unanswered += figures.unanswered;
        self.bytes = self.bytes.saturating_add(figures.bytes);
    }
}

/// Returns the rows with the most RPCs, and one row of all others.
fn top(table: &Summary) -> Vec<(String, Sums)> {
    let mut own: Vec<(String, Sums)> = Vec::new();
    let mut rest: Option<Sums> = None;
    for (key, figures) in table.rows() {
        let name = key.first().cloned().unwrap_or_default();
        if own.len() < OWN_MAX && name != OTHER {
            let mut sums = Sums::default();
            sums.add(figures);
            own.push((name, sums));
        } else {
            rest.get_or_insert_default().add(figures);
        }
    }
    own.extend(rest.map(|rest| (OTHER.to_owned(), rest)));
    own
}

fn families(text: &mut String, by: &str, rows: &[(String, Sums)]) {
    type Part = (&'static str, &'static str, fn(&Sums) -> u64);
    let parts: [Part; 4] = [
        ("rpcs", "RPCs that have ended", |sums| sums.rpcs),
        ("errors", "RPCs whose reply has an error", |sums| {
            sums.errors
        }),
        ("unanswered", "RPCs without a reply", |sums| sums.unanswered),
        ("bulk_bytes", "Bytes of bulk of RPCs", |sums| sums.bytes),
    ];
    for (part, help, value) in parts {
        let name = format!("finerail_rpc_{by}_{part}");
        // Writing to a String does not fail.
        let _written = writeln!(
            text,
            "# HELP {name} {help}, by {by}.\n# TYPE {name} counter"
        );
        for (row, sums) in rows {
            let row = row.replace('\\', "\\\\").replace('"', "\\\"");
            let _written = writeln!(text, "{name}_total{{{by}=\"{row}\"}} {}", value(sums));
        }
    }
}

fn single(text: &mut String, name: &str, help: &str, kind: &str, value: u64) {
    let name = format!("finerail_rpc_{name}");
    let ending = if kind == "counter" { "_total" } else { "" };
    // Writing to a String does not fail.
    let _written = writeln!(
        text,
        "# HELP {name} {help}.\n# TYPE {name} {kind}\n{name}{ending} {value}"
    );
}

#[cfg(test)]
mod tests {
    use lnet_ptlrpc::By;

    use super::*;
    use crate::rpcs::tests::rpc;

    #[test]
    fn others_are_one_series_and_no_rpc_is_lost() {
        let mut table = Summary::new(&[By::Client]);
        for client in 1..=150 {
            for _ in 0..client {
                table.add(&rpc(client));
            }
        }
        let rows = top(&table);
        assert_eq!(rows.len(), OWN_MAX + 1);
        assert_eq!(rows[0].0, "0.0.0.150@tcp");
        let (name, rest) = rows.last().unwrap();
        assert_eq!((name.as_str(), rest.rpcs), (OTHER, (1..=50).sum::<u64>()));
        let sum: u64 = rows.iter().map(|(_, sums)| sums.rpcs).sum();
        assert_eq!(sum, (1..=150).sum::<u64>());
    }

    #[test]
    fn names_cannot_end_a_label() {
        let mut table = Summary::new(&[By::Job]);
        table.add(&rpc(1));
        let mut text = String::new();
        families(&mut text, "job", &top(&table));
        assert!(
            text.contains("finerail_rpc_job_rpcs_total{job=\"a \\\"job\\\"\"} 1\n"),
            "{text}"
        );
        assert!(
            text.contains("finerail_rpc_job_bulk_bytes_total{job=\"a \\\"job\\\"\"} 10\n"),
            "{text}"
        );
        assert!(
            text.contains("finerail_rpc_job_errors_total{job=\"a \\\"job\\\"\"} 1\n"),
            "{text}"
        );
    }
}

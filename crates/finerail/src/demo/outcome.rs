//! The result of the demo: the table at its end, and the JSON beside its report.

use std::collections::BTreeMap;
use std::fmt;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::faults::FaultKind;
use super::watch::Track;

/// All values that the report shows.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) seed: u64,
    /// The description of the hosts.
    pub(super) world: String,
    /// Whether the files could be mounted, and if not, the reason.
    pub(super) mount: String,
    /// How long the compute processes worked, in milliseconds.
    pub(super) work_ms: u64,
    /// When payload last passed the routers at a rate that counts as progress, in milliseconds since the work began. The
    /// small files that are completed after the last large one carry little.
    pub(super) carried_ms: u64,
    /// Commands that the compute processes completed. The next field is the bytes of the files that they
    /// carried.
    pub(super) commands: u64,
    pub(super) bytes: u64,
    /// Commands that failed and were retried. The next field counts them by their reason.
    pub(super) retries: u64,
    pub(super) failures: BTreeMap<String, u64>,
    pub(super) faults: Vec<FaultOutcome>,
    /// The samples of the nodes; the I/O node is the first.
    pub(super) tracks: Vec<Track>,
    /// The output of `finerail explain` at several times.
    pub(super) explanations: Vec<Explanation>,
    /// The output of `finerail fgr plan` for each rail. The next field is the output of `finerail fgr check`
    /// for both.
    pub(super) plan: Vec<String>,
    pub(super) proof: String,
    /// The throughput of this machine's loopback in frames of 1 MiB between two threads, in bytes a second.
    pub(super) limit: f64,
    /// The congestion control of this measurement.
    pub(super) congestion: String,
    pub(super) verified: Verified,
}

/// A fault that occurred.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FaultOutcome {
    pub(super) kind: FaultKind,
    /// The part that the fault hit.
    pub(super) target: String,
    /// The start and the end, in milliseconds since the work began.
    pub(super) at_ms: u64,
    pub(super) until_ms: u64,
    /// The longest time without progress after the fault began, and its goal.
    pub(super) pause_ms: u64,
    pub(super) goal_ms: Option<u64>,
}

/// The explanation why a message takes its path.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Explanation {
    pub(super) when: String,
    pub(super) text: String,
}

/// The result of the verification.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Verified {
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) differences: Vec<String>,
}

impl FaultOutcome {
    /// Returns `met` or `missed`; an empty text if the fault has no goal.
    pub(super) fn verdict(&self) -> &'static str {
        match self.goal_ms {
            None => "",
            Some(goal) if self.pause_ms <= goal => "met",
            Some(_) => "missed",
        }
    }
}

impl Outcome {
    /// Returns the bytes a second that the compute processes carried.
    #[expect(clippy::cast_precision_loss, reason = "shown in MB/s")]
    pub(super) fn rate(&self) -> f64 {
        self.bytes as f64 * 1000.0 / self.carried_ms.max(1) as f64
    }

    /// Returns how the payload of the nodes follows from the bytes of the files, for readers.
    pub(super) fn reconciled(&self) -> String {
        let megabytes = |bytes: u64| bytes / 1_000_000;
        let (io_node, routers) = self.tracks.split_at(self.tracks.len().min(1));
        let sum = |tracks: &[Track]| megabytes(tracks.iter().map(moved).sum());
        format!(
            "The files that were written have {} MB. Each file is also read back to verify it, and attempts that failed \
             count too: {} MB through the I/O node, {} MB through the routers together. The difference of the two is \
             what the I/O node sent again, and what passed a router before it was killed and after its last sample.",
            megabytes(self.bytes),
            sum(io_node),
            sum(routers)
        )
    }

    fn fault_table(&self) -> Table {
        let mut table = table(["fault", "of", "at, s", "no progress for, s", "goal, s", ""]);
        for fault in &self.faults {
            table.add_row([
                fault.kind.describe().to_owned(),
                fault.target.clone(),
                seconds(fault.at_ms),
                seconds(fault.pause_ms),
                fault.goal_ms.map(seconds).unwrap_or_default(),
                fault.verdict().to_owned(),
            ]);
        }
        table
    }

    fn node_table(&self) -> Table {
        let mut table = table([
            "node",
            "payload, MB",
            "routes up at the end",
            "lowest health",
        ]);
        for track in &self.tracks {
            let last = track.points.last().cloned().unwrap_or_default();
            let health = track.points.iter().map(|point| point.health).min();
            table.add_row([
                track.name.clone(),
                (moved(track) / 1_000_000).to_string(),
                format!("{} of {}", last.routes_up, last.routes),
                health.unwrap_or_default().to_string(),
            ]);
        }
        table
    }
}

/// Returns the payload that a node moved, summed over all its restarts.
pub(super) fn moved(track: &Track) -> u64 {
    let step = |pair: &[super::watch::Point]| {
        let (before, after) = (pair[0].bytes, pair[1].bytes);
        after.checked_sub(before).unwrap_or(after)
    };
    track.points.windows(2).map(step).sum()
}

/// Formats milliseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
pub(super) fn seconds(ms: u64) -> String {
    format!("{:.1}", ms as f64 / 1000.0)
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.faults.is_empty() {
            writeln!(f, "{}\n", self.fault_table())?;
        }
        writeln!(f, "{}\n", self.node_table())?;
        writeln!(
            f,
            "{} commands carried {} MB in {} s ({:.0} MB/s; one hop of plain frames ({}) carries {:.0} MB/s here); {} \
             commands failed and were retried.",
            self.commands,
            self.bytes / 1_000_000,
            seconds(self.carried_ms),
            self.rate() / 1e6,
            self.congestion,
            self.limit / 1e6,
            self.retries
        )?;
        writeln!(f, "{}", self.reconciled())?;
        for (why, count) in &self.failures {
            writeln!(f, "  {count} ×  {why}")?;
        }
        if self.verified.differences.is_empty() {
            return writeln!(
                f,
                "Every byte is right: {} files, {} MB on the storage side.",
                self.verified.files,
                self.verified.bytes / 1_000_000
            );
        }
        writeln!(f, "The stored files differ from the written files:")?;
        for difference in &self.verified.differences {
            writeln!(f, "  {difference}")?;
        }
        Ok(())
    }
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_header(header);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

//! The table at the end of the demo.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;

use super::data::Amount;
use crate::bench::Loopback;

/// What a node counted, as it writes it with `--stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Stats {
    send_count: u64,
    recv_count: u64,
    route_count: u64,
    drop_count: u64,
}

impl Stats {
    /// Two lives of one node.
    pub(super) fn plus(self, other: &Self) -> Self {
        Self {
            send_count: self.send_count + other.send_count,
            recv_count: self.recv_count + other.recv_count,
            route_count: self.route_count + other.route_count,
            drop_count: self.drop_count + other.drop_count,
        }
    }
}

pub(super) fn read_stats(path: &Path) -> anyhow::Result<Stats> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} is not what a node writes", path.display()))
}

/// What the demo did.
pub(super) struct Report {
    pub(super) amount: Amount,
    pub(super) there: Transfer,
    pub(super) back: Transfer,
    /// The machine's loopback limit in this run.
    pub(super) limit: Loopback,
    pub(super) nodes: Vec<(&'static str, Stats)>,
    /// Whether the router was to be killed.
    pub(super) kill_router: bool,
}

/// One direction.
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    pub(super) took: Duration,
    /// The router was killed while it lasted.
    pub(super) router_killed: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.transfers())?;
        writeln!(f, "{}\n", self.messages())?;
        writeln!(
            f,
            "Raw loopback limit in this run (1 MiB framed writes between two processes, {}): {:.2} GB/s.",
            self.limit.congestion,
            self.limit.bytes_per_second / 1e9
        )?;
        writeln!(
            f,
            "The limit only moves bytes; storing also reads, digests and writes each of them, and a \
             router passes them on."
        )?;
        if self.kill_router {
            writeln!(f, "{}", self.killed())?;
        }
        writeln!(f, "Every digest is right.")
    }
}

impl Report {
    /// What the killing of the router came to.
    fn killed(&self) -> &'static str {
        match (self.there.router_killed, self.back.router_killed) {
            (true, true) => {
                "The router was killed and restarted on both ways; its messages are those since its last \
                 start, and what was under way in it was sent again."
            }
            (true, false) => {
                "The router was killed and restarted on the way there; the way back was over too soon. Its \
                 messages are those since its last start, and what was under way in it was sent again."
            }
            (false, true) => {
                "The router was killed and restarted on the way back; the way there was over too soon. Its \
                 messages are those since its last start, and what was under way in it was sent again."
            }
            (false, false) => {
                "The router was not killed: both ways were over too soon. Carry more, as with --large-mib."
            }
        }
    }

    fn transfers(&self) -> Table {
        let mut table = table(["", "files", "bytes", "seconds", "MB/s", "of the limit"]);
        for (name, transfer) in [("to storage", self.there), ("back", self.back)] {
            let seconds = transfer.took.as_secs_f64();
            #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
            let rate = self.amount.bytes as f64 / seconds;
            table.add_row([
                name.to_owned(),
                self.amount.files.to_string(),
                self.amount.bytes.to_string(),
                format!("{seconds:.2}"),
                format!("{:.0}", rate / 1e6),
                format!("{:.3}", rate / self.limit.bytes_per_second),
            ]);
        }
        table
    }

    fn messages(&self) -> Table {
        let mut table = table(["messages", "sent", "received", "forwarded", "dropped"]);
        for (name, stats) in &self.nodes {
            let numbers = [
                stats.send_count,
                stats.recv_count,
                stats.route_count,
                stats.drop_count,
            ];
            let cells = numbers.map(|number| number.to_string());
            table.add_row(std::iter::once((*name).to_owned()).chain(cells));
        }
        table
    }
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

//! The time without progress after each fault, as `finerail demo` measures it.

use std::fs;

use anyhow::{Context, ensure};
use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};

use super::chain::{Places, finerail};
use crate::verdict;

/// The faults of one demo.
#[derive(Serialize)]
pub(super) struct Faults(Vec<Fault>);

/// A fault, in the form of the demo's JSON.
#[derive(Serialize, Deserialize)]
struct Fault {
    kind: String,
    target: String,
    pause_ms: u64,
    goal_ms: Option<u64>,
}

/// The part of the demo's JSON that is read.
#[derive(Deserialize)]
struct Demo {
    faults: Vec<Fault>,
}

impl Faults {
    /// Runs the demo in its short form.
    pub(super) fn measure(places: &Places) -> anyhow::Result<Self> {
        let report = places.state().join("demo.html");
        let output = finerail()?
            .args(["demo", "--quick", "--report"])
            .arg(&report)
            .output()
            .context("cannot run the demo")?;
        ensure!(
            output.status.success(),
            "the demo failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let json = fs::read(report.with_extension("json")).context("the demo wrote no JSON")?;
        let demo: Demo = serde_json::from_slice(&json).context("the demo's JSON is another one")?;
        Ok(Self(demo.faults))
    }

    pub(super) fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["fault", "of", "no progress for", "target", ""]);
        for fault in &self.0 {
            let met = fault.goal_ms.map(|goal| verdict(fault.pause_ms <= goal));
            table.add_row([
                fault.kind.clone(),
                fault.target.clone(),
                format!("{} ms", fault.pause_ms),
                fault
                    .goal_ms
                    .map(|goal| format!("≤ {goal} ms"))
                    .unwrap_or_default(),
                met.unwrap_or_default().to_owned(),
            ]);
        }
        if let Some(column) = table.column_mut(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.to_string()
    }
}

//! `finerail-bench ctl`: reads and changes the configuration of a node with many interfaces and peers over its
//! control socket, as `lnetctl` does.
//!
//! ```text
//!  this thread ── request ──▶ control thread ── engine's lock ──▶ answer
//!        └── time of the whole          └── longest hold of the lock: no message moves meanwhile
//! ```

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use lnet_dlc::Dlc;
use lnet_dlc::protocol::{ImportMode, Request, RuleChange, Section, Show, UdspRule};
use lnet_node::{AcceptMode, Globals, Node, NodeOptions};
use lnet_noded::{ControlEndpoint, ControlOptions};
use serde::Serialize;

use super::verdict;

/// The number of local interfaces.
const INTERFACES: u8 = 16;
/// The number of peers, each with one interface.
const PEERS: u32 = 100_000;
/// The number of gateways, and of networks to which each of them has a route.
const GATEWAYS: u32 = 10;
const ROUTED_NETS: u32 = 1_000;
/// The number of selection rules.
const RULES: u32 = 1_000;

/// The number of peers in one imported document.
const PEERS_PER_IMPORT: u32 = 10_000;

/// The targets, in milliseconds.
const NET_SHOW_TARGET_MS: f64 = 10.0;
const HOLD_TARGET_MS: f64 = 1.0;
const IMPORT_TARGET_MS: f64 = 1000.0;
/// The target is higher because a whole import holds the lock once.
const IMPORT_HOLD_TARGET_MS: f64 = 10.0;

#[derive(clap::Args)]
#[command(after_help = "\
The node runs in this process and answers over its control socket, on one of its threads. The time of a
request ends with the last byte of its answer. The hold is the longest time for which the request had the
lock that messages need. Of several rounds the fastest counts. If other programs use the processors, a
hold includes a time slice of theirs, about 4 ms; the second example avoids this. The targets are for two
present-day cores.

Examples
  finerail-bench ctl --short --json
  chrt -f 10 finerail-bench ctl
")]
pub(super) struct CtlArgs {
    /// Measure each request once or twice instead of many rounds
    #[arg(long)]
    short: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result of one request.
#[derive(Serialize)]
struct Row {
    what: String,
    milliseconds: f64,
    target_milliseconds: Option<f64>,
    hold_milliseconds: f64,
    hold_target_milliseconds: Option<f64>,
    met: Option<bool>,
}

/// All results.
#[derive(Serialize)]
struct Report {
    interfaces: u8,
    peers: u32,
    rows: Vec<Row>,
}

/// Measures, and returns the text to print.
pub(super) fn run(args: &CtlArgs) -> anyhow::Result<String> {
    let report = measure(if args.short { 2 } else { 10 })?;
    if args.json {
        return Ok(serde_json::to_string_pretty(&report)? + "\n");
    }
    Ok(report.text())
}

fn measure(rounds: u32) -> anyhow::Result<Report> {
    let mut bed = Bed::new()?;
    let mut rows = vec![
        bed.show("net show", Section::Net, 0, rounds)?
            .within(NET_SHOW_TARGET_MS),
        bed.show("net show -v 4", Section::Net, 4, rounds)?
            .within(NET_SHOW_TARGET_MS),
        bed.import(rounds)?
            .within(IMPORT_TARGET_MS)
            .holding(IMPORT_HOLD_TARGET_MS),
        bed.import_refused(rounds)?,
    ];
    bed.add_peers()?;
    rows.extend([
        bed.show("peer show, 100,000 peers", Section::Peer, 0, rounds)?
            .holding(HOLD_TARGET_MS),
        bed.show("peer show -v 4, 100,000 peers", Section::Peer, 4, rounds)?
            .holding(HOLD_TARGET_MS),
        bed.import(rounds)?
            .named("the import with 100,000 peers")
            .within(IMPORT_TARGET_MS)
            .holding(IMPORT_HOLD_TARGET_MS),
        bed.rule(rounds)?.holding(HOLD_TARGET_MS),
    ]);
    Ok(Report {
        interfaces: INTERFACES,
        peers: PEERS,
        rows,
    })
}

/// A node in this process, and a client of its control socket.
struct Bed {
    dlc: Dlc,
    _endpoint: ControlEndpoint,
    node: Node,
    _directory: tempfile::TempDir,
}

impl Bed {
    fn new() -> anyhow::Result<Self> {
        let options = NodeOptions {
            accept: Some(AcceptMode::None),
            globals: Globals {
                // The node would dial gateways that do not exist.
                alive_router_check_interval: Duration::ZERO,
                ..Globals::default()
            },
            ..NodeOptions::default()
        };
        let config = lnet_config::parse(&interfaces()).context("the bench's own configuration")?;
        let node = lnet_noded::start(&config, options).context("cannot start a node")?;
        let directory = tempfile::tempdir().context("cannot make a directory for the socket")?;
        let path = directory.path().join("control.sock");
        let endpoint = ControlEndpoint::open(&node, &ControlOptions { path, group: None })?;
        Ok(Self {
            dlc: Dlc::connect(endpoint.path())?,
            _endpoint: endpoint,
            node: node.into_node(),
            _directory: directory,
        })
    }

    fn show(
        &mut self,
        what: &str,
        section: Section,
        verbosity: u8,
        rounds: u32,
    ) -> anyhow::Result<Row> {
        let request = Request::Show(Show::all(section, verbosity));
        let mut best = Best::default();
        for _ in 0..rounds {
            best.round(self, |bed| {
                let mut bytes = 0;
                bed.dlc
                    .request_pieces(&request, |piece| bytes += piece.len())?;
                anyhow::ensure!(bytes > 0, "{what} is empty");
                Ok(())
            })?;
        }
        Ok(best.row(what))
    }

    /// Measures an import of routes and rules. A second document removes them, which is not measured.
    fn import(&mut self, rounds: u32) -> anyhow::Result<Row> {
        let document = routes_and_rules();
        let mut best = Best::default();
        for _ in 0..rounds {
            best.round(self, |bed| bed.apply(&document, ImportMode::Add))?;
            self.apply(&document, ImportMode::Del)?;
        }
        Ok(best.row("import of 10,000 routes and 1,000 rules"))
    }

    /// Measures an import whose last route is rejected, so that all others are undone.
    fn import_refused(&mut self, rounds: u32) -> anyhow::Result<Row> {
        // Adds a last route: it uses a network that the node does not have.
        let document = routes_and_rules().replace(
            "udsp:\n",
            "- {net: tcp5000, gateway: 10.1.0.1@tcp4999}\nudsp:\n",
        );
        let mut best = Best::default();
        for _ in 0..rounds {
            best.round(self, |bed| {
                let done = bed.apply(&document, ImportMode::Add);
                anyhow::ensure!(done.is_err(), "a document with an error was imported");
                Ok(())
            })?;
        }
        Ok(best.row("the same, rejected and undone"))
    }

    /// Measures the addition of a rule about all peers. Its removal is not measured.
    fn rule(&mut self, rounds: u32) -> anyhow::Result<Row> {
        let all_peers = UdspRule {
            src: None,
            dst: Some("*.*.*.*@tcp".to_owned()),
            rte: None,
            priority: Some(1),
        };
        let add = RuleChange::Add {
            rule: all_peers,
            idx: None,
        };
        let mut best = Best::default();
        for _ in 0..rounds {
            best.round(self, |bed| {
                bed.dlc.request(&Request::Rule(add.clone()))?;
                Ok(())
            })?;
            self.dlc
                .request(&Request::Rule(RuleChange::Del { idx: None }))?;
        }
        Ok(best.row("udsp add, of 100,000 peers"))
    }

    fn add_peers(&mut self) -> anyhow::Result<()> {
        for first in (0..PEERS).step_by(PEERS_PER_IMPORT as usize) {
            let mut document = "peer:\n".to_owned();
            for number in first..first + PEERS_PER_IMPORT {
                let address = Ipv4Addr::from(FIRST_PEER + number);
                // Writing to a string cannot fail.
                let _infallible = writeln!(document, "- primary nid: {address}@tcp");
            }
            self.apply(&document, ImportMode::Add)?;
        }
        Ok(())
    }

    fn apply(&mut self, document: &str, mode: ImportMode) -> anyhow::Result<()> {
        self.dlc.request(&Request::Import {
            yaml: document.to_owned(),
            mode,
            partial: false,
            dry_run: false,
        })?;
        Ok(())
    }
}

/// 10.64.0.0.
const FIRST_PEER: u32 = 0x0a40_0000;
/// 10.1.0.1.
const FIRST_GATEWAY: u32 = 0x0a01_0001;

fn interfaces() -> String {
    let nids = (1..=INTERFACES).map(|host| format!("  - nid: 127.0.0.{host}@tcp\n"));
    format!(
        "net:\n- net type: tcp\n  local NI(s):\n{}",
        nids.collect::<String>()
    )
}

fn routes_and_rules() -> String {
    let mut document = "route:\n".to_owned();
    for net in 1..=ROUTED_NETS {
        for number in 0..GATEWAYS {
            let gateway = Ipv4Addr::from(FIRST_GATEWAY + number);
            let _infallible = writeln!(document, "- {{net: tcp{net}, gateway: {gateway}@tcp}}");
        }
    }
    document += "udsp:\n";
    for number in 0..RULES {
        let address = Ipv4Addr::from(FIRST_PEER + number);
        let _infallible = writeln!(document, "- {{dst: {address}@tcp, priority: {number}}}");
    }
    document
}

/// The fastest round, which shows what the machine can do without interference.
#[derive(Default)]
struct Best {
    time: Option<Duration>,
    hold: Option<Duration>,
}

impl Best {
    fn round(
        &mut self,
        bed: &mut Bed,
        request: impl FnOnce(&mut Bed) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let _before = bed.node.take_longest_hold();
        let begun = Instant::now();
        request(bed)?;
        let (time, hold) = (begun.elapsed(), bed.node.take_longest_hold());
        self.time = Some(self.time.map_or(time, |best| best.min(time)));
        self.hold = Some(self.hold.map_or(hold, |best| best.min(hold)));
        Ok(())
    }

    fn row(&self, what: &str) -> Row {
        let milliseconds = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64() * 1e3;
        Row {
            what: what.to_owned(),
            milliseconds: milliseconds(self.time),
            target_milliseconds: None,
            hold_milliseconds: milliseconds(self.hold),
            hold_target_milliseconds: None,
            met: None,
        }
    }
}

impl Row {
    fn named(self, what: &str) -> Self {
        let what = what.to_owned();
        Self { what, ..self }
    }

    fn within(self, target: f64) -> Self {
        Self {
            target_milliseconds: Some(target),
            met: Some(self.met.unwrap_or(true) && self.milliseconds <= target),
            ..self
        }
    }

    fn holding(self, target: f64) -> Self {
        Self {
            hold_target_milliseconds: Some(target),
            met: Some(self.met.unwrap_or(true) && self.hold_milliseconds <= target),
            ..self
        }
    }
}

impl Report {
    fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["what", "ms", "target", "hold ms", "target", ""]);
        let limit = |target: Option<f64>| target.map_or(String::new(), |ms| format!("≤ {ms:.0}"));
        for row in &self.rows {
            table.add_row([
                row.what.clone(),
                format!("{:.2}", row.milliseconds),
                limit(row.target_milliseconds),
                format!("{:.3}", row.hold_milliseconds),
                limit(row.hold_target_milliseconds),
                row.met.map(verdict).unwrap_or_default().to_owned(),
            ]);
        }
        for column in [1, 3] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        format!(
            "a node with {} interfaces; fastest of all rounds\n\n{}\n",
            self.interfaces,
            table.trim_fmt()
        )
    }
}

//! `finerail-bench metrics`: measures the cost of a scrape of a node's metrics.
//!
//! ```text
//!  this process:  node with 16 interfaces ── HTTP ── one scrape a second
//!                 CPU of the whole process from the request to the last byte
//! ```
//!
//! One scrape a second is the usual fastest rate. The endpoint relies on time between scrapes: it examines peers
//! beyond its limit in turns. The cost includes reading the text.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use lnet_config::PeerConfig;
use lnet_node::{AcceptMode, Node, NodeOptions};
use lnet_noded::{MetricsEndpoint, MetricsOptions};
use lnet_types::{Net, Nid};
use nix::sys::resource::{UsageWho, getrusage};
use serde::Serialize;

use super::child::cpu_of;

/// The number of the node's interfaces.
const NIS: u16 = 16;
/// The numbers of peer interfaces, one for each row.
const PEER_NIS: [u32; 2] = [1_000, 100_000];
/// The target: 1 % of a core at one scrape a second, in milliseconds.
const TARGET_MS: f64 = 10.0;
/// The time from one scrape to the next.
const PACE: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
#[command(after_help = "\
A node with 16 interfaces and the number of peers in the row is scraped once a second. The figure is
the CPU time of this process from the request to the last byte. 10 ms are 1 % of a core.

Examples
  finerail-bench metrics
  finerail-bench metrics --short --json
")]
pub(super) struct MetricsArgs {
    /// Measure for some seconds instead of half a minute
    #[arg(long)]
    short: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The results for one node.
#[derive(Serialize)]
struct Row {
    interfaces: u16,
    peer_interfaces: u32,
    series: usize,
    bytes: usize,
    cpu_milliseconds: f64,
    worst_cpu_milliseconds: f64,
    milliseconds: f64,
    target_milliseconds: f64,
    met: bool,
}

/// The result of one scrape.
struct Scrape {
    cpu: Duration,
    time: Duration,
    text: String,
}

/// Measures, and returns the text to print.
pub(super) fn run(args: &MetricsArgs) -> anyhow::Result<String> {
    let scrapes = if args.short { 3 } else { 15 };
    let rows: Vec<Row> = PEER_NIS
        .into_iter()
        .map(|peer_nis| measure(peer_nis, scrapes))
        .collect::<anyhow::Result<_>>()?;
    if args.json {
        return Ok(serde_json::to_string_pretty(&rows)? + "\n");
    }
    Ok(text(&rows))
}

fn measure(peer_nis: u32, count: usize) -> anyhow::Result<Row> {
    let node = node(peer_nis)?;
    let endpoint = MetricsEndpoint::open(&node, &MetricsOptions::at_port(0))?;
    // The first scrape examines all peers, so its cost is not that of a scrape each second.
    let first = scrape(endpoint.address())?;
    let mut scrapes = Vec::new();
    for _ in 0..count {
        thread::sleep(PACE);
        scrapes.push(scrape(endpoint.address())?);
    }
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let mut cpu: Vec<f64> = scrapes.iter().map(|scrape| millis(scrape.cpu)).collect();
    let mut time: Vec<f64> = scrapes.iter().map(|scrape| millis(scrape.time)).collect();
    cpu.sort_by(f64::total_cmp);
    time.sort_by(f64::total_cmp);
    let median = |sorted: &[f64]| sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    Ok(Row {
        interfaces: NIS,
        peer_interfaces: peer_nis,
        series: first
            .text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .count(),
        bytes: first.text.len(),
        cpu_milliseconds: median(&cpu),
        worst_cpu_milliseconds: cpu.last().copied().unwrap_or_default(),
        milliseconds: median(&time),
        target_milliseconds: TARGET_MS,
        met: median(&cpu) < TARGET_MS,
    })
}

/// Returns a node that does not listen, with peers that do not exist.
fn node(peer_nis: u32) -> anyhow::Result<Node> {
    let mut yaml = "net:\n".to_owned();
    for ni in 1..=NIS {
        // Writing to a string cannot fail.
        let _infallible = write!(
            yaml,
            "- net type: tcp{ni}\n  local NI(s):\n  - nid: 127.0.0.{ni}@tcp{ni}\n"
        );
    }
    let mut config = lnet_config::parse(&yaml)?;
    let peers = (0..peer_nis).map(|number| PeerConfig {
        nids: vec![Nid::from_number(Net::tcp(1), 0x0A00_0000 | number)],
        multi_rail: true,
    });
    config.peers = peers.collect();
    let options = NodeOptions {
        accept: Some(AcceptMode::None),
        ..NodeOptions::default()
    };
    let node = lnet_noded::start(&config, options).context("cannot start a node on loopback")?;
    Ok(node.into_node())
}

fn scrape(address: SocketAddr) -> anyhow::Result<Scrape> {
    let (begin, cpu) = (Instant::now(), cpu_time()?);
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: bench\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(Scrape {
        cpu: cpu_time()?.saturating_sub(cpu),
        time: begin.elapsed(),
        text,
    })
}

/// Returns the CPU time that this process has used, in user mode and in the system.
fn cpu_time() -> anyhow::Result<Duration> {
    Ok(cpu_of(&getrusage(UsageWho::RUSAGE_SELF)?))
}

fn text(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "peers", "series", "text", "CPU", "worst", "time", "target", "",
    ]);
    for row in rows {
        table.add_row([
            row.peer_interfaces.to_string(),
            row.series.to_string(),
            format!("{:.1} MB", row.bytes as f64 / 1e6),
            format!("{:.1} ms", row.cpu_milliseconds),
            format!("{:.1} ms", row.worst_cpu_milliseconds),
            format!("{:.1} ms", row.milliseconds),
            format!("< {:.0} ms", row.target_milliseconds),
            super::verdict(row.met).to_owned(),
        ]);
    }
    for column in 0..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!(
        "one scrape a second of a node with {NIS} interfaces\n\n{}\n",
        table.trim_fmt()
    )
}

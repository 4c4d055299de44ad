//! `finerail-bench router`: measures what a router carries beside one hop without a router, the cost of peers that
//! are idle, are discovered or get news, and the load of `finerail lst`.
//!
//! ```text
//!   limit      plain framed TCP, one hop, both CPUs
//!   routed     sender ──▶ router (either CPU) ──▶ target
//!   plain      the same through relays that examine no message, of one thread, of two, by splice(2): the limit of a router
//!   counted    routed messages of 4 KiB, at a router that counts RPCs and at one that does not
//!   idle       1,000 peers connected to a node, and silent
//!   discovery  node ── ping, push ──▶ 1,000 peers, which one process simulates on 127.1.y.z
//!   pushes     100,000 peers in the core alone, without sockets: the longest of its calls
//!   load       flow of 1 MiB reads ──▶ test node, in turns with GETs of `finerail-bench lnet`
//! ```

mod counted;
mod discovery;
mod holds;
mod load;
mod plain;
mod played;
pub(super) mod responder;

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use anyhow::Context;
use finerail::common::print_bytes;
use serde::Serialize;

use self::counted::Counted;
use self::discovery::Discovery;
use self::holds::Holds;
use self::load::Load;
pub(super) use self::load::serve as serve_tests;
use self::plain::Plain;
use super::lnet::PEER_CREDITS;
use super::lnet::crowd::Crowd;
use super::measure::{self, Effort};
use super::placement::{congestion_control, placements};
use super::report::PlacementReport;
use super::verdict;
use super::workload::Workload;

/// The number of idle peers, and of peers that are discovered.
const PEERS: usize = 1_000;
/// The workloads that go through the router, beside the limit of one hop.
const ROUTED: [Workload; 3] = [
    Workload::HopLarge,
    Workload::HopSmall,
    Workload::HopSmallBatched,
];

#[derive(clap::Args)]
#[command(after_help = "\
The limit of the first table is plain framed writev and readv over one hop, between processes on the same two
CPUs; through a router each byte is received and sent twice as often. The router may use both CPUs. Of the
longest calls the fastest round counts, because a call includes a time slice of other programs that use the
processors. These are calls of the state machine, without the cost of sockets.

Examples
  finerail-bench router
  finerail-bench router --short --json
")]
pub(super) struct RouterArgs {
    /// Measure for half a minute instead of minutes
    #[arg(long)]
    short: bool,
    /// Print one JSON document with the figures of every round
    #[arg(long)]
    json: bool,
    /// TCP congestion control of every socket [default: cubic if this process may choose it, otherwise
    /// reno]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
}

/// All results.
#[derive(Serialize)]
struct Report {
    congestion: String,
    peer_credits: u32,
    rounds: u16,
    routed: PlacementReport,
    plain: Plain,
    idle: Crowd,
    discovery: Discovery,
    pushes: Holds,
    counted: Counted,
    load: Load,
}

/// Measures and prints.
pub(super) fn run(args: &RouterArgs) -> anyhow::Result<()> {
    let report = measure(args)?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => report.text(),
    };
    Ok(print_bytes(text.as_bytes(), &mut io::stdout())?)
}

fn measure(args: &RouterArgs) -> anyhow::Result<Report> {
    let congestion = congestion_control(args.congestion.as_deref())?;
    let effort = effort(args.short);
    // The placements must be read before this thread is pinned.
    let placement = placements()?.into_iter().next();
    let placement = placement.context("no CPU may be used")?;
    let routed = measure::in_one_placement(placement.clone(), &congestion, &effort)?;
    Ok(Report {
        plain: Plain::measure(&placement, &congestion, &effort)?,
        counted: Counted::measure(&placement, &congestion, &effort)?,
        load: Load::measure(&placement, &congestion, &effort)?,
        idle: Crowd::measure(PEERS, &congestion, effort.measurement * IDLE_LOOK)?,
        discovery: Discovery::measure(PEERS, &placement, &congestion, args.short)?,
        pushes: Holds::measure(if args.short { 2 } else { 10 })?,
        peer_credits: PEER_CREDITS,
        rounds: effort.rounds,
        congestion,
        routed,
    })
}

/// The time for which the idle peers are observed, as a multiple of a measurement's length.
const IDLE_LOOK: u32 = 50;

fn effort(is_short: bool) -> Effort {
    let (rounds, measurement) = match is_short {
        true => (5, Duration::from_millis(100)),
        false => (15, Duration::from_millis(300)),
    };
    Effort {
        workloads: ROUTED.to_vec(),
        rounds,
        measurement,
        is_whole: false,
        spin: Duration::ZERO,
        peers: Vec::new(),
    }
}

impl Report {
    /// Returns the results as text.
    fn text(&self) -> String {
        let mut text = format!(
            "congestion control {}, peer_credits {}, medians of {} rounds, GB = 10^9 bytes\n\n{}",
            self.congestion,
            self.peer_credits,
            self.rounds,
            self.routed.text()
        );
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "\n{}", self.plain.text());
        let rows = [
            (self.counted.text(), self.counted.met),
            (self.load.text(), self.load.met),
            (self.idle.text(), self.idle.met),
            (self.discovery.text(), self.discovery.met),
            (self.pushes.text(), self.pushes.met),
        ];
        for (line, met) in rows {
            // Writing to a string cannot fail.
            let _infallible = writeln!(text, "\n{line}, {}", verdict(met));
        }
        text
    }
}

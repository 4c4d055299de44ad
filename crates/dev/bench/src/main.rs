//! `finerail-bench`: measures each figure beside the machine's own limit, in the same run.
//!
//! ```text
//!   initiator (this process)            peers (this program again, `peer ROLE`)
//!   ------------------------            ---------------------------------------------
//!   raw::Initiator  ── plain framed TCP ──▶ raw target
//!                   ── the same ──────────▶ raw relay ──▶ raw target
//!   lnet::Initiator ── PUT, GET ──────────▶ target
//!                   ── PUT ───────────────▶ router ─────▶ routed target
//!   raw::Fan, lnet::fan::Fan: several senders at once, with processes of their own
//! ```
//!
//! The two sides of a comparison run in turns, in the same round, with the same placement of processes on CPUs and
//! the same congestion control. The ratio of the two is the figure that applies to other machines. A missed target
//! is printed and never changes the exit code, because a machine may be slow or busy.

mod bmi;
mod child;
mod ctl;
mod dump;
mod fgr;
mod foreign;
mod lnet;
mod measure;
mod metrics;
mod path;
mod peer;
mod placement;
mod raw;
mod report;
mod router;
mod select;
mod workload;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use finerail::common::{self, LogArgs, Negative, print_bytes, spin};

/// Measure Finerail and this machine's own limit in the same run.
#[derive(Parser)]
#[command(
    name = "finerail-bench",
    version,
    propagate_version = true,
    max_term_width = 100
)]
struct Cli {
    #[command(flatten)]
    log: LogArgs,
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    /// LNet over TCP on loopback: throughput, message rate, round trip, one router, memory
    Lnet(LnetArgs),
    /// Fine-grained routing: plans, link loads, failures, compared with a naive loop
    Fgr(fgr::FgrArgs),
    /// Path selection: one selection compared with a loop over all pairs, and rules applied to 100,000 peers
    Select(select::SelectArgs),
    /// Control of a node: shows and imports, and how long they delay its messages
    Ctl(ctl::CtlArgs),
    /// BMI: the zoid method by stream and by process copy, and tcp, compared with queues, sockets and memory
    Bmi(bmi::BmiArgs),
    /// Routers and many peers: one more hop, discovery, pushes, and the load of `lst`
    Router(router::RouterArgs),
    /// Scraping metrics of a node with 1,000 and with 100,000 peers
    Metrics(metrics::MetricsArgs),
    /// Reading captures: bytes a second of one core, and memory
    Dump(dump::DumpArgs),
    /// Files over the whole path: large files, small files, names, the mount, and the cost of faults
    Path(path::PathArgs),
    /// The other end of a measurement, started by the bench
    #[command(hide = true)]
    Peer(peer::PeerArgs),
    /// A process that `finerail-bench bmi` starts
    #[command(hide = true)]
    BmiPeer(bmi::peer::BmiPeerArgs),
    /// A process that `finerail-bench path` starts
    #[command(hide = true)]
    PathPeer(path::peer::PathPeerArgs),
}

#[derive(Args)]
#[command(after_help = "\
The limit is plain framed writev and readv between processes placed on the same CPUs, measured
in turns with Finerail. Compare only figures of the same placement and congestion control.

Examples
  finerail-bench lnet
  finerail-bench lnet --short --json
  finerail-bench lnet --only round-trip --rounds 50
")]
struct LnetArgs {
    /// Measure for half a minute instead of minutes
    #[arg(long)]
    short: bool,
    /// Print one JSON document with the figures of every round
    #[arg(long)]
    json: bool,
    /// Number of rounds; the table has the medians [default: 15, with --short 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Measure only these workloads
    #[arg(long, value_enum, value_name = "WHAT")]
    only: Vec<workload::Workload>,
    /// TCP congestion control of every socket [default: cubic if this process may choose it, otherwise
    /// reno]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// How long both ends of the spinning round trip poll for work before they sleep
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = spin)]
    spin: Duration,
    /// Run UCX, libfabric and iperf3 in the same rounds, if they are installed
    #[arg(long)]
    peers: bool,
}

impl LnetArgs {
    fn effort(&self) -> anyhow::Result<measure::Effort> {
        let (rounds, measurement) = match self.short {
            true => (5, Duration::from_millis(60)),
            false => (15, Duration::from_millis(200)),
        };
        let workloads = match self.only.as_slice() {
            [] => workload::Workload::value_variants().to_vec(),
            only => only.to_vec(),
        };
        use foreign::Program::{Iperf, Libfabric, UcxTcp};
        let peers = match self.peers {
            true => foreign::installed(&[UcxTcp, Libfabric, Iperf])?,
            false => Vec::new(),
        };
        Ok(measure::Effort {
            workloads,
            rounds: self.rounds.unwrap_or(rounds),
            measurement,
            is_whole: self.only.is_empty(),
            spin: self.spin,
            peers,
        })
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(common::print_usage(&error)),
    };
    cli.log.start();
    run(&cli.subject).unwrap_or_else(|error| common::report("finerail-bench", &error))
}

fn run(subject: &Subject) -> anyhow::Result<ExitCode> {
    match subject {
        Subject::Lnet(args) => bench_lnet(args).map_err(|error| Negative(format!("{error:#}")))?,
        Subject::Fgr(args) => print_bytes(fgr::run(args)?.as_bytes(), &mut io::stdout())?,
        Subject::Select(args) => print_bytes(select::run(args)?.as_bytes(), &mut io::stdout())?,
        Subject::Ctl(args) => print_bytes(ctl::run(args)?.as_bytes(), &mut io::stdout())?,
        Subject::Dump(args) => print_bytes(dump::run(args)?.as_bytes(), &mut io::stdout())?,
        Subject::Metrics(args) => print_bytes(metrics::run(args)?.as_bytes(), &mut io::stdout())?,
        Subject::Bmi(args) => bmi::run(args).map_err(|error| Negative(format!("{error:#}")))?,
        Subject::Router(args) => {
            router::run(args).map_err(|error| Negative(format!("{error:#}")))?
        }
        Subject::Peer(args) => return Ok(peer::run(args)),
        Subject::BmiPeer(args) => return Ok(bmi::peer::run(args)),
        Subject::Path(args) => path::run(args).map_err(|error| Negative(format!("{error:#}")))?,
        Subject::PathPeer(args) => return Ok(path::peer::run(args)),
    }
    Ok(ExitCode::SUCCESS)
}

fn bench_lnet(args: &LnetArgs) -> anyhow::Result<()> {
    let congestion = placement::congestion_control(args.congestion.as_deref())?;
    let report = measure::everything(&congestion, &args.effort()?)?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => report.text(),
    };
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(())
}

/// Returns the word for the result of a target.
const fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

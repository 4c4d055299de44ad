//! `finerail-bench bmi`: measures the methods of BMI beside the parts that they consist of.
//!
//! ```text
//!  bench (this process)                 processes (this program again, `bmi-peer ROLE`)
//!  --------------------                 -----------------------------------------------------
//!  limits::Initiator ── queues, sockets, shared memory ──▶ limits
//!  lines on standard input ──▶ client ──▶ daemon  ◀──▶ server
//!                              client ──▶ daemon that trusts ◀──▶ server
//!                              client ──▶ daemon that copies ◀──▶ server
//!                              client ──────── TCP ─────────────▶ server
//! ```
//!
//! The bench itself sends no message. It writes tasks to the clients, one in each line, and reads how long they
//! took. Up to 64 clients can run their tasks at the same time.

mod bed;
mod client;
pub(super) mod limits;
mod machine;
mod measure;
mod memory;
pub(super) mod peer;
mod plain;
mod report;
mod rows;
mod server;
mod soak;
mod task;

use std::io;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use finerail::common::print_bytes;

use super::foreign::{self, Program};

/// Arguments of `finerail-bench bmi`.
#[derive(Args)]
#[command(after_help = "\
An exchange is a message to the server and its answer; one way is half of that. Clients run on one
CPU, daemon and server on another, then all on one. Every process belongs to this program; queues and
memory have their own names, so a daemon in service is not disturbed.

Examples
  finerail-bench bmi
  finerail-bench bmi --short --json
  finerail-bench bmi --soak 600
")]
pub(super) struct BmiArgs {
    /// Measure for half a minute instead of minutes
    #[arg(long)]
    short: bool,
    /// Print one JSON document with the figures of every round
    #[arg(long)]
    json: bool,
    /// Number of rounds; the tables have the medians [default: 9, with --short 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Measure only rows with these words in their name, without crowds and counts
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    /// Run UCX, libfabric and iperf3 in the same rounds, if they are installed
    #[arg(long)]
    peers: bool,
    /// Instead of measuring, let 8 clients exchange messages of all sizes for this time, check every
    /// byte, and fail if memory grows
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["short", "json", "rounds", "only", "peers"])]
    soak: Option<u32>,
}

/// Measures, or runs the soak, and prints.
pub(super) fn run(args: &BmiArgs) -> anyhow::Result<()> {
    let text = match args.soak {
        Some(seconds) => soak::run(Duration::from_secs(seconds.into()))?,
        None => measured(args)?,
    };
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(())
}

fn measured(args: &BmiArgs) -> anyhow::Result<String> {
    let (rounds, measurement, placement_max) = match args.short {
        true => (3, Duration::from_millis(40), Duration::from_secs(8)),
        false => (9, Duration::from_millis(150), Duration::from_secs(600)),
    };
    let peers = match args.peers {
        true => foreign::installed(&[
            Program::UcxMemory,
            Program::UcxTcp,
            Program::Libfabric,
            Program::Iperf,
        ])?,
        false => Vec::new(),
    };
    let report = measure::everything(&measure::Effort {
        short: args.short,
        rounds: args.rounds.unwrap_or(rounds),
        measurement,
        placement_max,
        only: args.only.clone(),
        peers,
    })?;
    ensure!(!report.is_empty(), "no row has these words in its name");
    Ok(match args.json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => report.text(),
    })
}

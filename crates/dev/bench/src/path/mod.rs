//! `finerail-bench path`: measures files over the whole path, beside the results of plain programs in the same
//! round.
//!
//! ```text
//!  path     client ─▶ daemon, forwarder ─▶ router ─▶ gateway ─▶ storage
//!  mount    program ─▶ mount ─▶ the same path
//!  hops     one by one: shared memory, plain frames over TCP, a plain program on the directory
//!  plain    client ─▶ relay ─▶ relay ─▶ server that makes system calls
//! ```
//!
//! `chain.rs` starts the path, `plain.rs` contains the plain program, `peer.rs` the client of both; `hops.rs`
//! measures hops, `rounds.rs` runs all sides in turns, `small.rs` measures small files, and `faults.rs` runs the
//! demo to measure faults.

mod chain;
mod faults;
mod hops;
pub(super) mod peer;
mod plain;
mod report;
mod rounds;
mod small;
mod task;

use std::io;
use std::path::PathBuf;

use finerail::common::print_bytes;

use self::chain::{Chain, Places};
use self::faults::Faults;
use self::report::Report;
use self::rounds::Bed;
use self::small::SmallFiles;
use crate::placement::congestion_control;

/// Arguments of `finerail-bench path`.
#[derive(clap::Args)]
#[command(after_help = "\
Every process of the path runs on this machine, on all CPUs. A single hop has the CPUs for itself. On the
whole path each byte is copied once for the I/O node, sent and received twice, and written; the plain
program does the same work and shows the limit of the CPUs. Storage is in memory if /dev/shm exists, so
that the disk has no influence. The gateway's log of replies is below TMPDIR, and a plain server writes
its log to the same disk. Times without progress are those of 'finerail demo --quick'.

Examples
  finerail-bench path
  finerail-bench path --short --json
  finerail-bench path --files 1000 --directory /scratch
")]
pub(super) struct PathArgs {
    /// Measure for some seconds with few files and without faults, instead of minutes
    #[arg(long)]
    short: bool,
    /// Print one JSON document with the figures of every round
    #[arg(long)]
    json: bool,
    /// Number of small files [default: 10000, with --short 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    files: Option<u32>,
    /// The directory of storage and mount [default: /dev/shm, or a temporary directory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// TCP congestion control of every socket [default: cubic if this process may choose it, otherwise
    /// reno]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
}

/// Measures and prints.
pub(super) fn run(args: &PathArgs) -> anyhow::Result<()> {
    let report = measure(args)?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => report.text(),
    };
    Ok(print_bytes(text.as_bytes(), &mut io::stdout())?)
}

fn measure(args: &PathArgs) -> anyhow::Result<Report> {
    let congestion = congestion_control(args.congestion.as_deref())?;
    let places = Places::make(args.directory.as_deref())?;
    let mut chain = Chain::start(&places, &congestion)?;
    let mut bed = Bed::start(&places, &congestion, args.short)?;
    let mount = chain.mount.as_ref().err().cloned();
    let (hops, rows) = bed.measure(&chain)?;
    let files = args.files.unwrap_or(if args.short { 200 } else { 10_000 });
    let small = SmallFiles::measure(&places, &mut chain, files)?;
    drop((bed, chain));
    let faults = match args.short {
        true => None,
        false => Some(Faults::measure(&places)?),
    };
    Ok(Report {
        congestion,
        mount,
        hops,
        rows,
        small,
        faults,
    })
}

//! `finerail fgr import`: makes a machine file from files that a site already has.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::ValueEnum;
use fgr::import::{Assumed, dragonfly, infiniband, node_table, read_nics, read_routers, slurm};
use fgr::rates::is_rate;

use crate::common::print_bytes;
use crate::machine::read;

/// Arguments of `finerail fgr import`.
#[derive(clap::Args)]
#[command(after_help = "\
Facts that the source does not contain are assumed. Comments at the top of the file list the assumptions, what is \
doubtful in the source, and what was left out with the reason: read and correct them, then give the file to --machine. \
Doubts and what was left out are also printed to standard error.

Examples:
  finerail fgr import slurm topology.yaml --routers routers.csv > machine.yaml
  finerail fgr import ibnetdiscover fabric.txt --rail 2 --name cluster > machine.yaml
  finerail fgr import dragonfly nodes.csv --links-per-pair 4 > machine.yaml
  finerail fgr import xtprocadmin nodes.txt --routers routers.csv > machine.yaml
")]
pub(crate) struct ImportArgs {
    /// The type of the file
    #[arg(value_enum, value_name = "KIND")]
    kind: Kind,
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The routers, as CSV with the header group,subgroup,blade,node,net and a line for each net of each
    /// node; all other nodes are clients
    #[arg(long, value_name = "FILE")]
    routers: Option<PathBuf>,
    /// The interfaces of nodes, as CSV with the header node,net,interface,address,rate and a line for each
    /// interface; net is empty towards clients, rate is in GB/s
    #[arg(long, value_name = "FILE")]
    nics: Option<PathBuf>,
    /// The machine's name
    #[arg(long, value_name = "NAME", default_value = "machine")]
    name: String,
    /// GB/s of a link, if the source does not say it
    #[arg(long, value_name = "GB/S", default_value_t = 25.0)]
    capacity: f64,
    /// Number of links between any two groups of a dragonfly
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    links_per_pair: u16,
    /// The number of the rail to use, from 1, if hosts have several adapters or ports: their names give the rail, and
    /// their leaf switches
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    rail: u16,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// Slurm's topology.conf or topology.yaml, plugins tree and block
    Slurm,
    /// The output of ibnetdiscover, also with -g
    Ibnetdiscover,
    /// CSV with node,group,switch, or with node,switch and Slingshot's names
    Dragonfly,
    /// The nodes of a Cray XC machine as xtprocadmin prints them
    Xtprocadmin,
}

/// Runs `finerail fgr import`.
pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    if !is_rate(args.capacity) {
        let capacity = args.capacity;
        bail!("--capacity: {capacity} GB/s is not a rate from 0.001 to 1,000,000 GB/s");
    }
    let assumed = Assumed {
        capacity: args.capacity,
        links_per_pair: args.links_per_pair,
    };
    let name = |path: &Path| path.display().to_string();
    let (file, text) = (name(&args.file), read(&args.file)?);
    let mut shape = match args.kind {
        Kind::Slurm => slurm(&file, &text, assumed),
        Kind::Ibnetdiscover => infiniband(&file, &text, args.rail, assumed),
        Kind::Dragonfly => dragonfly(&file, &text, assumed),
        Kind::Xtprocadmin => node_table(&file, &text, assumed),
    }?;
    let mut notes = io::stderr().lock();
    for warning in &shape.warnings {
        writeln!(notes, "warning: {warning}")?;
    }
    for skipped in &shape.skipped {
        writeln!(notes, "skipped: {skipped}")?;
    }
    drop(notes);
    let routers = match &args.routers {
        Some(path) => read_routers(&name(path), &read(path)?)?,
        None => Vec::new(),
    };
    if let Some(path) = &args.nics {
        shape.add_nics(read_nics(&name(path), &read(path)?)?)?;
    }
    let text = shape.machine_file(&args.name, &routers)?;
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

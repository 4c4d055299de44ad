//! `finerail fgr import`: makes a machine file from files that a site already has.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::ValueEnum;
use fgr::import::{Assumed, dragonfly, infiniband, read_routers, slurm};

use crate::common::print_bytes;
use crate::machine::read;

/// Arguments of `finerail fgr import`.
#[derive(clap::Args)]
#[command(after_help = "\
Facts that the source does not contain are assumed. Comments at the top of the file list the assumptions: \
read and correct them, then give the file to --machine.

Examples:
  finerail fgr import slurm topology.conf --routers routers.csv > machine.yaml
  finerail fgr import ibnetdiscover fabric.txt --rail 2 --name cluster > machine.yaml
  finerail fgr import dragonfly nodes.csv --links-per-pair 4 > machine.yaml
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
    /// The machine's name
    #[arg(long, value_name = "NAME", default_value = "machine")]
    name: String,
    /// GB/s of a link, if the source does not say it
    #[arg(long, value_name = "GB/S", default_value_t = 25.0)]
    capacity: f64,
    /// Number of links between any two groups of a dragonfly
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    links_per_pair: u16,
    /// The number of the adapter to use, from 1, if hosts have several
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    rail: u16,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// topology.conf of the plugins tree and block
    Slurm,
    /// The output of ibnetdiscover
    Ibnetdiscover,
    /// CSV with node,group,switch, or with node,switch and Slingshot's names
    Dragonfly,
}

/// Runs `finerail fgr import`.
pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    if !(args.capacity.is_finite() && args.capacity > 0.0) {
        bail!("--capacity: {} GB/s is not a capacity", args.capacity);
    }
    let assumed = Assumed {
        capacity: args.capacity,
        links_per_pair: args.links_per_pair,
    };
    let name = |path: &Path| path.display().to_string();
    let (file, text) = (name(&args.file), read(&args.file)?);
    let shape = match args.kind {
        Kind::Slurm => slurm(&file, &text, assumed),
        Kind::Ibnetdiscover => infiniband(&file, &text, args.rail, assumed),
        Kind::Dragonfly => dragonfly(&file, &text, assumed),
    }?;
    let routers = match &args.routers {
        Some(path) => read_routers(&name(path), &read(path)?)?,
        None => Vec::new(),
    };
    let text = shape.machine_file(&args.name, &routers)?;
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

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
What the source does not say is assumed, and stands as comments at the top of the file. Read it, correct
it, and give it to --machine.

Examples:
  finerail fgr import slurm topology.conf --routers routers.csv > machine.yaml
  finerail fgr import ibnetdiscover fabric.txt --rail 2 --name cluster > machine.yaml
  finerail fgr import dragonfly nodes.csv --links-per-pair 4 > machine.yaml
")]
pub(crate) struct ImportArgs {
    /// What the file is
    #[arg(value_enum, value_name = "KIND")]
    kind: Kind,
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The nodes that route, as CSV with the header group,subgroup,blade,node,net and a line for each net
    /// of each node; the others are clients
    #[arg(long, value_name = "FILE")]
    routers: Option<PathBuf>,
    /// The machine's name
    #[arg(long, value_name = "NAME", default_value = "machine")]
    name: String,
    /// GB/s of a link where the source names none
    #[arg(long, value_name = "GB/S", default_value_t = 25.0)]
    capacity: f64,
    /// Links between each two groups of a dragonfly
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    links_per_pair: u16,
    /// Which adapter of each host counts, from 1, where hosts have several
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    rail: u16,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// topology.conf of the plugins tree and block
    Slurm,
    /// What ibnetdiscover prints
    Ibnetdiscover,
    /// CSV with node,group,switch, or node,switch with Slingshot's names
    Dragonfly,
}

/// Runs `finerail fgr import`.
pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    if !(args.capacity.is_finite() && args.capacity > 0.0) {
        bail!("--capacity: {} GB/s is no capacity", args.capacity);
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

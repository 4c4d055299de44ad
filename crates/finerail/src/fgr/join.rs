//! `finerail fgr join`: joins several sites into one.

use std::path::PathBuf;
use std::process::ExitCode;

use fgr::config::Site;

use super::config::write_site;
use super::site::read_directory;

/// Arguments of `finerail fgr join`.
#[derive(clap::Args)]
#[command(after_help = "\
For clusters behind the same servers, and for nodes with an interface on each of several rails: configure \
each cluster or rail with nets of its own, then join them. Nodes with equal names are one node, which has \
the nets and routes of all. Contradictions are errors.

Example:
  finerail fgr config --machine rail1.yaml --client-net tcp100 --servers servers.csv -o rail1
  finerail fgr config --machine rail2.yaml --client-net tcp200 --servers servers.csv -o rail2
  finerail fgr join rail1 rail2 -o conf && finerail fgr check conf
")]
pub(crate) struct JoinArgs {
    /// Directories of 'finerail fgr config' or 'finerail fgr join'
    #[arg(value_name = "DIR", required = true, num_args = 2..)]
    directories: Vec<PathBuf>,
    /// Write the files into this directory; made if missing
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Runs `finerail fgr join`.
pub(crate) fn run(args: &JoinArgs) -> anyhow::Result<ExitCode> {
    let sites = args
        .directories
        .iter()
        .map(|directory| read_directory(directory));
    let sites: Vec<Site> = sites.collect::<anyhow::Result<_>>()?;
    write_site(&Site::join(&sites)?, &args.output, false)
}

//! `finerail site`: questions about a whole site, answered from a directory of what its nodes have.

mod check;
mod diff;
mod files;
mod reach;
mod what_if;

use std::process::ExitCode;

use clap::Subcommand;

/// Arguments of `finerail site`.
#[derive(clap::Args)]
#[command(after_help = "\
DIR holds, for each node, a file or a folder that is named like the node:
  node1.yaml               what lnetctl exports or shows, or a file of modprobe.d
  node1.json, node1.ip.txt the output of `ip -j addr`, or of `ip addr`
  node1/…                  several outputs
  node[0001-9408].yaml     one document for a class of nodes
  sosreport-node1-…/…      an unpacked sosreport
Backups (node1.yaml~, node1.yaml.bak, …) are passed over.
")]
pub(crate) struct SiteArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find what is wrong in a site: all lints, all nodes, by cause and role, worst first
    Check(check::CheckArgs),
    /// Say who reaches whom, by which gateways, there and back, and what would repair what does not
    Reach(reach::ReachArgs),
    /// Say which pairs a failure or a change costs their path or their redundancy, or moves, both directions
    WhatIf(what_if::WhatIfArgs),
    /// Compare the behaviour of two sites: which pairs and paths change, not which lines
    Diff(diff::DiffArgs),
}

/// Runs `finerail site`.
pub(crate) fn run(args: &SiteArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Check(args) => check::run(args),
        Command::Reach(args) => reach::run(args),
        Command::WhatIf(args) => what_if::run(args),
        Command::Diff(args) => diff::run(args),
    }
}

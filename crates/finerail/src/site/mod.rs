//! `finerail site`: answers questions about a whole site from a directory with the files of its nodes.

mod check;
mod diff;
mod files;
mod reach;
mod targets;
mod what_if;

use std::process::ExitCode;

use clap::Subcommand;

/// Arguments of `finerail site`.
#[derive(clap::Args)]
#[command(after_help = "\
DIR contains, for each node, a file or a folder with the name of the node:
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
    /// Find errors in a site: all lints for all nodes, grouped by cause and role, worst first
    Check(check::CheckArgs),
    /// Report which nodes reach which, by which gateways, in both directions, and how to repair missing paths
    Reach(reach::ReachArgs),
    /// Report which targets of a Lustre file system are out of reach of which class of clients
    Targets(targets::TargetsArgs),
    /// Report the pairs that lose their path or redundancy, or change their path, through a failure or a change
    WhatIf(what_if::WhatIfArgs),
    /// Compare the behaviour of two sites: the pairs and paths that change, not the lines
    Diff(diff::DiffArgs),
}

/// Runs `finerail site`.
pub(crate) fn run(args: &SiteArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Check(args) => check::run(args),
        Command::Reach(args) => reach::run(args),
        Command::Targets(args) => targets::run(args),
        Command::WhatIf(args) => what_if::run(args),
        Command::Diff(args) => diff::run(args),
    }
}

//! `finerail fgr`: plans, proves and configures fine-grained routing.

mod assign;
mod chain;
mod check;
mod compare;
mod config;
mod diff;
mod import;
mod input;
mod job;
mod join;
mod live;
mod output;
mod place;
mod plan;
mod rails;
mod report;
mod serves;
mod site;

pub(crate) use site::read_directory as read_site;

use std::process::ExitCode;

use clap::Subcommand;

use crate::shard::ShardFile;

/// Arguments of `finerail fgr`.
#[derive(clap::Args)]
pub(crate) struct FgrArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Choose a primary router and backups for every client and every net
    Plan(plan::PlanArgs),
    /// Show the routers of one client: coordinates, window, distances
    Assign(assign::AssignArgs),
    /// Compare the policies on a machine, and show the limits that no policy can beat
    Compare(compare::CompareArgs),
    /// Write the LNet configuration of every client, router and server
    Config(config::ConfigArgs),
    /// Prove that the routing of a site is correct, now and after every single failure
    Check(check::CheckArgs),
    /// Report the differences of running nodes from a plan, and the commands that remove them
    Diff(diff::DiffArgs),
    /// Make a machine file from Slurm's topology, ibnetdiscover, xtprocadmin, or a list of a dragonfly
    Import(import::ImportArgs),
    /// Plan a site whose clusters and servers are several routers apart
    Chain(chain::ChainArgs),
    /// Join the configurations of several clusters or rails
    Join(join::JoinArgs),
    /// Report the routers of a job, its bandwidth, and faster alternatives
    Job(job::JobArgs),
    /// Find placements of the router modules near the theoretical limits
    Place(place::PlaceArgs),
    /// Show which routers serve a cabinet, a group, or clients
    WhoServes(serves::WhoServesArgs),
    /// Show which clients a router serves
    Serves(serves::ServesArgs),
    /// Configure and prove the rails of an AI fabric, and show what a leaf switch costs
    Rails(rails::RailsArgs),
    /// Write the figures and pictures of a plan as one HTML file
    Report(report::ReportArgs),
}

/// Returns the result of all shares of `finerail fgr compare`, and whether it is positive, which it always is.
///
/// # Errors
///
/// The shares hold results of another command.
pub(crate) fn compared(file: &ShardFile) -> anyhow::Result<(String, bool)> {
    compare::merged(file)
}

/// Returns the best placements of all shares of `finerail fgr place`, and whether the result is positive, which
/// it always is.
///
/// # Errors
///
/// The shares hold results of another command.
pub(crate) fn placed(file: &ShardFile) -> anyhow::Result<(String, bool)> {
    place::merged(file)
}

/// Runs `finerail fgr`.
pub(crate) fn run(args: &FgrArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Plan(args) => plan::run(args),
        Command::Assign(args) => assign::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Config(args) => config::run(args),
        Command::Check(args) => check::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Import(args) => import::run(args),
        Command::Chain(args) => chain::run(args),
        Command::Join(args) => join::run(args),
        Command::Job(args) => job::run(args),
        Command::Place(args) => place::run(args),
        Command::WhoServes(args) => serves::run_who_serves(args),
        Command::Serves(args) => serves::run_serves(args),
        Command::Rails(args) => rails::run(args),
        Command::Report(args) => report::run(args),
    }
}

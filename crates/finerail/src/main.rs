//! `finerail`: the command line over the libraries.
//!
//! Arguments, tables, progress and exit codes live here; logic belongs in a library. Exit codes: 0 success, 1
//! the command ran and the result is negative (a check failed, a peer did not answer), 2 wrong usage or bad
//! input.

mod conform;
mod convert;
mod ctl;
mod demo;
mod doctor;
mod dump;
mod explain;
mod fgr;
mod files;
mod generate;
mod ip;
mod lint;
mod lst;
mod merge;
mod mount;
mod node;
mod ping;
mod rails;
mod rdma;
mod replay;
mod shard;
mod sim;
mod site;
mod store;
mod top;
mod watch_kernel;
mod zoid;

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};
use finerail::common::LogArgs;
use finerail::{common, machine, service};

/// User-space LNet: run nodes that interoperate with kernel nodes, inspect their traffic, transfer files.
#[derive(Parser)]
#[command(
    name = "finerail",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_help = EXIT_CODES
)]
pub(crate) struct Cli {
    #[command(flatten)]
    log: LogArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the whole path on this machine while parts of it fail, and verify every byte
    Demo(demo::DemoArgs),
    /// Run an LNet node in the foreground
    Node(node::NodeArgs),
    /// Inspect and change a running node: the commands of lnetctl
    #[command(infer_long_args = true)]
    Ctl(ctl::CtlArgs),
    /// Watch a running node: its interfaces, peers and routes, health and rates, live
    Top(top::TopArgs),
    /// Ask LNet nodes for their interfaces; needs no daemon and no module
    Ping(ping::PingArgs),
    /// Ask LNet nodes for all NIDs by which they are Multi-Rail peers; needs no daemon and no module
    Discover(ping::PingArgs),
    /// Check from outside that an LNet node follows the protocol; needs no daemon and no module
    Conform(conform::ConformArgs),
    /// Find out why this machine cannot use an LNet node; needs no daemon and no module
    Doctor(doctor::DoctorArgs),
    /// Print the LNet traffic in a packet capture, message by message
    Dump(dump::DumpArgs),
    /// Explain why a message takes its path, and try changes of that path
    Explain(Box<explain::ExplainArgs>),
    /// Replay the recorded inputs of a node, and explain its decisions
    Replay(replay::ReplayArgs),
    /// Find errors in the configurations of one node or of many
    Lint(lint::LintArgs),
    /// Watch the kernel's LNet: findings as they appear, and metrics for Prometheus
    WatchKernel(watch_kernel::WatchKernelArgs),
    /// Check a whole site, its paths, and the effects of failures, from the files of all nodes
    Site(site::SiteArgs),
    /// Convert options of the lnet module to YAML, and back
    Convert(convert::ConvertArgs),
    /// Store files on a storage node, and access them from other nodes
    Store(store::StoreArgs),
    /// Copy, list, compare and remove files at an address: on LNet, behind an I/O node, on this machine
    Files(files::FilesArgs),
    /// Mount files at an address as a directory of this machine
    Mount(mount::MountArgs),
    /// Put load on LNet nodes and measure them: test node and console of LNet selftest
    #[command(infer_long_args = true)]
    Lst(lst::LstArgs),
    /// Forward I/O between compute processes and a server on their I/O node
    Zoid(zoid::ZoidArgs),
    /// Plan, prove and configure fine-grained routing: which routers every client uses
    Fgr(fgr::FgrArgs),
    /// Run nodes on a virtual fabric with faults, and check the results
    Sim(sim::SimArgs),
    /// Join the shares of a sweep that several machines computed
    Merge(merge::MergeArgs),
    /// Print the completion script of a shell
    Completions(generate::CompletionsArgs),
    /// Write the man pages into a directory
    Man(generate::ManArgs),
}

/// The exit codes that all commands have but those that say otherwise.
const EXIT_CODES: &str = "\
Exit codes:
  0  the command is done, and what was asked holds
  1  what was asked does not hold: no answer, a finding, a difference, a failed operation
  2  wrong usage, or input that cannot be read

ctl has the exit codes of lnetctl; convert ends with 1 after wrong usage.";

/// The text that the program prints if it is called without arguments.
const WELCOME: &str = "\
Finerail: LNet in user space. First commands:

  finerail demo                                    The whole path on this machine, while parts of it fail
  finerail ping 192.168.1.2@tcp                    Ask an LNet node; needs no module and no root
  finerail lint lnet.conf                          Find errors in a configuration
  finerail explain --config lnet.conf --to NID     Explain why a message takes its path
  finerail node --config lnet.conf --port 9988     Run a node; finerail ctl net show shows its interfaces

finerail --help lists all commands; finerail COMMAND --help has examples.
";

/// Prints what is wrong with the arguments and returns the exit code. `ctl` and `convert` have exit codes of
/// their own for wrong usage.
fn usage(arguments: &[OsString], mut error: clap::Error) -> u8 {
    match common::command_of(arguments).and_then(OsStr::to_str) {
        Some("ctl") => ctl::usage(ctl::Tool::Lnetctl, &error),
        Some("convert") => convert::usage(&error),
        Some("bench") => {
            let tip = "benches are a program of their own: finerail-bench";
            let tip = ContextValue::StyledStrs(vec![tip.into()]);
            error.insert(ContextKind::Suggested, tip);
            common::print_usage(&error)
        }
        _ => common::print_usage(&error),
    }
}

fn main() -> ExitCode {
    let arguments = zoid::with_command(std::env::args_os().collect());
    let arguments = mount::with_command(arguments);
    let done = ctl::called_directly(&arguments).or_else(|| lst::called_directly(&arguments));
    if let Some(done) = done {
        return done.unwrap_or_else(|error| common::report("finerail", &error));
    }
    if arguments.len() <= 1 {
        let printed = common::print_bytes(WELCOME.as_bytes(), &mut io::stdout());
        return printed.map_or_else(
            |error| common::report("finerail", &error.into()),
            |()| ExitCode::SUCCESS,
        );
    }
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(usage(&arguments, error)),
    };
    cli.log.start();
    let result = match &cli.command {
        Command::Node(args) => node::run(args),
        Command::Ctl(args) => ctl::run(args),
        Command::Top(args) => top::run(args),
        Command::Ping(args) => ping::run(args, ping::Question::Ping),
        Command::Discover(args) => ping::run(args, ping::Question::Discover),
        Command::Conform(args) => conform::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Dump(args) => dump::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Lint(args) => lint::run(args),
        Command::WatchKernel(args) => watch_kernel::run(args),
        Command::Site(args) => site::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Store(args) => store::run(args),
        Command::Files(args) => files::run(args),
        Command::Mount(args) => mount::run(args, cli.log.filter()),
        Command::Lst(args) => lst::run(args),
        Command::Zoid(args) => zoid::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Fgr(args) => fgr::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Completions(args) => generate::completions(args),
        Command::Man(args) => generate::man_pages(args),
    };
    result.unwrap_or_else(|error| common::report("finerail", &error))
}

//! `finerail lst`: LNet selftest, with the commands of `lst`.
//!
//! ```text
//!   lst new_session ── starts ──▶ console process: node, test node, Console
//!   lst add_group …  ── words ──▶ $XDG_RUNTIME_DIR/finerail/lst/KEY.sock
//!                    ◀─ output, errors, exit code ──
//!   lst end_session  ───────────▶ ends the console
//!
//!   lst serve                     a test node in the foreground
//!   lst run FILE.yaml             flows of a file, in this process
//! ```
//!
//! Every command is a process of its own, and the commands share a session. The session lives in a console
//! process, which `new_session` starts and `end_session` ends. `LST_SESSION` in the environment says which
//! session a command belongs to, as with `lst`. A console also ends if no command came for the session's
//! timeout. The console is a test node too, so that groups may contain its NID. A command goes to the console
//! as it was typed, in one JSON line, and comes back as lines of output. The console parses it with the same
//! code as the process that sent it.

mod commands;
mod console;
mod flows;
mod list;
mod serve;
mod stat;
mod talk;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::common::{ConfigArgs, TransportArgs};

/// The short name of the program: called by it, the program acts as `finerail lst`, for scripts written for
/// `lst`.
const SHORT_NAME: &str = "lst";

/// Inserts the word `lst` into the arguments if the program was called as `lst`.
pub(crate) fn with_command(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().map(Path::new).and_then(Path::file_stem);
    if name.is_some_and(|name| name == SHORT_NAME) {
        arguments.insert(1, OsString::from(SHORT_NAME));
    }
    arguments
}

/// Arguments of `finerail lst`.
#[derive(clap::Args)]
#[command(after_help = "\
Example: read from two servers, with their test nodes and this one

  export LST_SESSION=$$
  finerail lst new_session read
  finerail lst add_group servers 192.168.10.[8,10]@tcp
  finerail lst add_group readers 192.168.10.1@tcp
  finerail lst add_batch bulk
  finerail lst add_test --batch bulk --concurrency 8 --from readers --to servers brw read size=1M
  finerail lst run bulk
  finerail lst stat --count 3 servers
  finerail lst end_session

Example: flows of a file, without a session

  finerail lst run flows.yaml
")]
pub(crate) struct LstArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[command(rename_all = "snake_case")]
enum Command {
    /// Begin a session: start its console
    NewSession(NewSessionArgs),
    #[command(flatten)]
    Session(SessionCommand),
    /// Run a batch, or the flows of a file (*.yaml) without a session
    Run(flows::RunArgs),
    /// Serve consoles and tests of other nodes, in the foreground
    Serve(serve::ServeArgs),
    /// The console process of a session
    #[command(hide = true)]
    Console(console::ConsoleArgs),
}

/// Arguments of `lst new_session`.
#[derive(clap::Args, Clone)]
struct NewSessionArgs {
    #[command(flatten)]
    session: NewSession,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    transport: TransportArgs,
}

#[derive(clap::Args, Clone)]
struct NewSession {
    /// Seconds without commands after which the session ends
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// Replace the session of this key, and take nodes out of sessions of other consoles
    #[arg(long)]
    force: bool,
    /// The name of the session, at most 31 bytes
    #[arg(value_name = "NAME")]
    name: String,
}

/// What the console process carries out.
#[derive(Parser)]
#[command(name = "lst", no_binary_name = true, disable_help_subcommand = true)]
struct Words {
    #[command(subcommand)]
    command: ConsoleCommand,
}

#[derive(Subcommand)]
#[command(rename_all = "snake_case")]
enum ConsoleCommand {
    NewSession(NewSession),
    Run {
        name: String,
    },
    #[command(flatten)]
    Session(SessionCommand),
}

/// Commands that act on an existing session.
#[derive(Subcommand)]
#[command(rename_all = "snake_case")]
enum SessionCommand {
    /// End the session at every node, and end its console
    EndSession,
    /// Show the session
    ShowSession,
    /// Make a group of nodes, and add the nodes to the session
    AddGroup {
        /// The name of the group
        #[arg(value_name = "NAME")]
        name: String,
        /// NIDs or expressions, such as 192.168.10.[8-12]@tcp
        #[arg(value_name = "NIDS", required = true)]
        nids: Vec<String>,
    },
    /// Remove a group that no test uses
    DelGroup {
        /// The name of the group
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Ask nodes of a group to rejoin the session, or remove nodes from the group
    UpdateGroup(commands::UpdateGroupArgs),
    /// List the groups, or the nodes of some
    ListGroup(list::ListGroupArgs),
    /// Make a batch without tests
    AddBatch {
        /// The name of the batch
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Remove a batch that does not run
    DelBatch {
        /// The name of the batch
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Add a test to a batch
    AddTest(commands::AddTestArgs),
    /// List the batches, or the tests and nodes of one
    ListBatch(list::ListBatchArgs),
    /// Stop a batch
    Stop {
        /// Cancel RPCs in flight
        #[arg(long)]
        force: bool,
        /// The batch
        #[arg(value_name = "NAME", default_value = "batch")]
        name: String,
    },
    /// Show whether a batch runs
    Query(commands::QueryArgs),
    /// Show rates and bandwidth of nodes repeatedly
    Stat(stat::StatArgs),
    /// Show the nodes with errors
    ShowError(stat::ShowErrorArgs),
    /// Ask nodes for their session
    Ping(stat::PingArgs),
}

/// Runs `finerail lst`.
pub(crate) fn run(args: &LstArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::NewSession(args) => talk::new_session(args),
        Command::Session(_) => talk::forward(),
        Command::Run(args) if is_file(&args.what) => flows::run(args),
        Command::Run(args) => talk::send(&["run".to_owned(), args.what.clone()]),
        Command::Serve(args) => serve::run(args),
        Command::Console(args) => console::run(args),
    }
}

fn is_file(what: &str) -> bool {
    let extension = Path::new(what).extension();
    extension.is_some_and(|extension| extension == "yaml" || extension == "yml")
}

//! `finerail lst`: LNet selftest, with the commands of `lst`.
//!
//! ```text
//!   lst COMMAND ── words ──▶ control socket of the node of this machine ── Host: Consoles, one for each key
//!               ◀─ lines, exit code ──
//!   lst new_session --config FILE
//!               ── starts ──▶ console process: node of FILE, its control socket lst/KEY.sock, Host
//!
//!   lst serve                     a test node in the foreground
//!   lst run FILE.yaml             flows of a file, in this process
//! ```
//!
//! Every command is a process of its own, and the commands share a session. The running node keeps it (`finerail node
//! --selftest`), as the kernel does; `LST_SESSION` in the environment says which session a command belongs to. Without
//! a running node, or with options that describe another node, `new_session` starts a console process, which is such
//! a node and ends with its session. A session also ends if no command came for its timeout. A command goes to the
//! console as it was typed. The console parses it with the same code as the process that sent it.

mod commands;
mod console;
mod flows;
mod host;
mod list;
mod serve;
mod stat;
mod talk;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};

use crate::common::{ConfigArgs, LogArgs, TransportArgs, command_of, print_usage};

pub(crate) use self::host::Host;

/// The short name of the program: called by it, the program acts as `finerail lst`, for scripts written for
/// `lst`.
const SHORT_NAME: &str = "lst";

/// The program under its short name.
#[derive(Parser)]
#[command(name = SHORT_NAME, version, about = ABOUT, infer_long_args = true, max_term_width = 100)]
struct Lst {
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    lst: LstArgs,
}

const ABOUT: &str = "Put load on LNet nodes and measure them";

/// Runs the whole command if the program was called as `lst`, or if it is asked for the names of its commands.
pub(crate) fn called_directly(arguments: &[OsString]) -> Option<anyhow::Result<ExitCode>> {
    let (name, words) = arguments.split_first()?;
    let is_short = Path::new(name).file_stem() == Some(OsStr::new(SHORT_NAME));
    let is_ours = is_short || words.first().is_some_and(|word| word == SHORT_NAME);
    let asked = words.get(usize::from(!is_short));
    if is_ours && asked.is_some_and(|word| word == "--list-commands" || word == "list-commands") {
        return Some(list_commands().map_err(Into::into));
    }
    if !is_short {
        return None;
    }
    Some(match Lst::try_parse_from(arguments) {
        Ok(Lst { log, lst }) => {
            log.start();
            run(&lst)
        }
        Err(error) => Ok(ExitCode::from(print_usage(&error))),
    })
}

fn list_commands() -> io::Result<ExitCode> {
    let lst = Lst::command();
    let commands = lst
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    for command in commands {
        writeln!(io::stdout(), "{}", command.get_name())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the words of the command line after `lst`.
fn words() -> Vec<String> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let name = arguments.first().map(Path::new).and_then(Path::file_stem);
    let first = match name.is_some_and(|name| name == SHORT_NAME) {
        true => 1,
        false => {
            let command = command_of(&arguments);
            let at = arguments
                .iter()
                .skip(1)
                .position(|word| Some(word.as_os_str()) == command);
            at.map_or(arguments.len(), |at| at + 2)
        }
    };
    let words = arguments.get(first..).unwrap_or_default().iter();
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Arguments of `finerail lst`.
#[derive(clap::Args)]
#[command(after_help = "\
Commands of a session are carried out by the node of this machine, if it was started with --selftest, \
or by a console process that new_session starts.

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
    /// Begin a session: on the node of this machine, or start a console for it
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
    #[arg(short, long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// Replace the session of this key, and take nodes out of sessions of other consoles
    #[arg(short, long)]
    force: bool,
    /// The name of the session, at most 31 bytes
    #[arg(value_name = "NAME")]
    name: String,
}

/// The default timeout of the answers to `lst run`, in seconds.
const RUN_TIMEOUT: u32 = 30;

/// What a console carries out.
#[derive(Parser)]
#[command(
    name = "lst",
    no_binary_name = true,
    disable_help_subcommand = true,
    infer_long_args = true
)]
struct Words {
    #[command(subcommand)]
    command: ConsoleCommand,
}

#[derive(Subcommand)]
#[command(rename_all = "snake_case")]
enum ConsoleCommand {
    NewSession(NewSession),
    Run {
        #[arg(short, long, default_value_t = RUN_TIMEOUT)]
        timeout: u32,
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
        #[arg(short, long)]
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
        Command::Session(command) => talk::send(&words(), command.own_time()),
        Command::Run(args) if is_file(&args.what) => flows::run(args),
        Command::Run(args) => {
            let timeout = format!("--timeout={}", args.timeout);
            let words = [
                "run".to_owned(),
                timeout,
                "--".to_owned(),
                args.what.clone(),
            ];
            talk::send(&words, Duration::from_secs(args.timeout.into()))
        }
        Command::Serve(args) => serve::run(args),
        Command::Console(args) => console::run(args),
    }
}

impl SessionCommand {
    /// Returns how long nodes may take to answer the command, if it says so itself.
    fn own_time(&self) -> Duration {
        let seconds = match self {
            Self::Ping(args) => args.timeout,
            Self::Stat(args) => args.timeout,
            _ => 0,
        };
        Duration::from_secs(seconds.into())
    }
}

fn is_file(what: &str) -> bool {
    let extension = Path::new(what).extension();
    extension.is_some_and(|extension| extension == "yaml" || extension == "yml")
}

//! `finerail ctl`, and the program called as `lnetctl` or `lctl`: the commands that administrators know, for a
//! running node.
//!
//! ```text
//!  args ── which request ──▶ talk ── control endpoint ──▶ the node
//!                             └── document, or errors with lnetctl's layouts and exit codes
//! ```

mod advice;
mod args;
mod change;
mod fault;
pub(crate) mod hosts;
mod lctl;
mod local;
mod routing;
mod session;
mod since;
mod talk;
mod udsp;
mod watch;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use lnet_dlc::protocol::{HealthTarget, Request, Section, Show, Tune};

use self::args::{
    DebugCommand, ExportArgs, GlobalCommand, Group, LnetCommand, NetCommand, NetSetArgs,
    PeerCommand, PeerSetArgs, RecordCommand, RecoveryArgs, RouteCommand, RoutingCommand, ShowArgs,
    StatsCommand, WatchArgs,
};
use self::lctl::args::LctlArgs;
use self::session::Session;
use self::talk::{Failed, Talk, UNKNOWN};
use crate::common::LogArgs;

/// Arguments of `finerail ctl`.
#[derive(clap::Args)]
#[command(after_help = "\
Example: show the interfaces and peers of a running node

  finerail ctl net show -v 2
  finerail ctl peer show --watch
  finerail ctl --node /run/finerail/control.sock export --backup

Without a command it reads commands from standard input, line by line: help, quit, and all \
those above. A script continues after a command that failed.

Exit codes are those of lnetctl: 0, or an errno modulo 256 (234 is -22); without a command, \
that of the first line that failed.
")]
pub(crate) struct CtlArgs {
    /// Socket of the node [default: finerail/control.sock in $XDG_RUNTIME_DIR, or in /run]
    #[arg(
        long,
        value_name = "SOCKET",
        env = "FINERAIL_CONTROL",
        hide_env_values = true
    )]
    node: Option<PathBuf>,
    #[command(flatten)]
    limit: LimitArgs,
    /// Without a command: read commands from standard input, line by line
    #[command(subcommand)]
    group: Option<Group>,
}

/// How long a node may take to answer.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct LimitArgs {
    /// Timeout of the node's answers, in seconds; the time of pings and discoveries is added
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=86_400)
    )]
    timeout: u32,
}

impl LimitArgs {
    /// Returns the node at a path, or at the default path, with this timeout.
    fn partner(self, node: Option<&Path>) -> Partner<'_> {
        Partner {
            node,
            patience: self.patience(),
        }
    }

    /// Returns the timeout.
    pub(crate) fn patience(self) -> Duration {
        Duration::from_secs(self.timeout.into())
    }
}

/// The node to talk to, and the timeout of its answers.
#[derive(Clone, Copy)]
pub(super) struct Partner<'a> {
    node: Option<&'a Path>,
    patience: Duration,
}

/// The tools whose names the program can be called by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    /// `finerail ctl` under the name `lnetctl`.
    Lnetctl,
    /// The commands of `lctl` that concern LNet.
    Lctl,
}

#[derive(Parser)]
#[command(name = "lnetctl", version, about = ABOUT, infer_long_args = true, max_term_width = 100)]
struct Lnetctl {
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    ctl: CtlArgs,
}

#[derive(Parser)]
#[command(
    name = "lctl",
    version,
    about = ABOUT,
    infer_long_args = true,
    infer_subcommands = true,
    max_term_width = 100
)]
struct Lctl {
    #[command(flatten)]
    log: LogArgs,
    /// Socket of the node [default: finerail/control.sock in $XDG_RUNTIME_DIR, or in /run]
    #[arg(
        long,
        value_name = "SOCKET",
        env = "FINERAIL_CONTROL",
        hide_env_values = true
    )]
    node: Option<PathBuf>,
    #[command(flatten)]
    limit: LimitArgs,
    #[command(flatten)]
    lctl: LctlArgs,
}

const ABOUT: &str = "Look at a running node of Finerail and change it";

/// A parsed command line.
struct Called {
    log: Option<LogArgs>,
    node: Option<PathBuf>,
    limit: LimitArgs,
    group: Option<Group>,
}

/// Runs the whole command if the program was called as one of the tools, or if `finerail ctl` is asked about
/// itself, such as for its version. Returns `None` in all other cases.
pub(crate) fn called_directly(arguments: &[OsString]) -> Option<anyhow::Result<ExitCode>> {
    let (name, words) = arguments.split_first()?;
    if let Some(tool) = Tool::of(name) {
        return Some(tool.run(words));
    }
    let (_, words) = words.split_first().filter(|(word, _)| *word == "ctl")?;
    let answered = about_itself(Tool::Lnetctl, words)?;
    Some(answered.map(|()| ExitCode::SUCCESS).map_err(Into::into))
}

impl Tool {
    /// Returns the tool that has the name of this program file, in whatever directory the file is.
    fn of(name: &OsStr) -> Option<Self> {
        let name = Path::new(name).file_stem()?;
        [Self::Lnetctl, Self::Lctl]
            .into_iter()
            .find(|tool| name == tool.name())
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lnetctl => "lnetctl",
            Self::Lctl => "lctl",
        }
    }

    /// Returns the command definition of the tool, for completion scripts.
    pub(crate) fn command(self) -> clap::Command {
        match self {
            Self::Lnetctl => Lnetctl::command(),
            Self::Lctl => Lctl::command(),
        }
    }

    /// Runs the command that the words after the program name describe. Returns the exit code.
    fn run(self, words: &[OsString]) -> anyhow::Result<ExitCode> {
        if let Some(answered) = about_itself(self, words) {
            answered?;
            return Ok(ExitCode::SUCCESS);
        }
        match self.parse(words) {
            Ok(called) => {
                if let Some(log) = &called.log {
                    log.start();
                }
                let partner = called.limit.partner(called.node.as_deref());
                run_called(self, called.group.as_ref(), partner)
            }
            Err(error) => Ok(ExitCode::from(usage(self, &error))),
        }
    }

    fn parse(self, words: &[impl AsRef<OsStr>]) -> Result<Called, clap::Error> {
        let words = words.iter().map(|word| word.as_ref().to_owned());
        let arguments = std::iter::once(self.name().into()).chain(words);
        Ok(match self {
            Self::Lnetctl => {
                let Lnetctl { log, ctl } = Lnetctl::try_parse_from(arguments)?;
                let CtlArgs { node, limit, group } = ctl;
                Called {
                    log: Some(log),
                    node,
                    limit,
                    group,
                }
            }
            Self::Lctl => {
                let Lctl {
                    log,
                    node,
                    limit,
                    lctl,
                } = Lctl::try_parse_from(arguments)?;
                Called {
                    log: Some(log),
                    node,
                    limit,
                    group: lctl.command.is_some().then_some(Group::Lctl(lctl)),
                }
            }
        })
    }
}

/// Answers a question about the tool itself, such as its version. No node is needed. `None` for any other
/// command.
fn about_itself(tool: Tool, words: &[impl AsRef<OsStr>]) -> Option<io::Result<()>> {
    let mut out = io::stdout();
    Some(match words.first()?.as_ref().to_str()? {
        "--version" | "version" => {
            let version = env!("CARGO_PKG_VERSION");
            writeln!(out, "{} {version} (finerail)", tool.name())
        }
        "--list-commands" | "list-commands" => local::list_commands(tool, &mut out),
        _ => return None,
    })
}

/// Prints what is wrong with the arguments. Returns the exit code of `lnetctl`: 0 for help, 255 for a command that
/// does not exist, 234 for all other errors.
pub(crate) fn usage(tool: Tool, error: &clap::Error) -> u8 {
    use clap::error::{ContextKind, ErrorKind};
    let unknown = match error.kind() {
        ErrorKind::InvalidSubcommand => error.get(ContextKind::InvalidSubcommand),
        // Clap reports this kind for an unknown word in the place of a subcommand.
        ErrorKind::UnknownArgument if error.get(ContextKind::SuggestedSubcommand).is_some() => {
            error.get(ContextKind::InvalidArg)
        }
        _ => None,
    };
    if let Some(word) = unknown {
        // If the output is closed, there is no other place to report the error.
        return talk::unknown(tool, &word.to_string()).unwrap_or(UNKNOWN);
    }
    let _unprinted = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => 0,
        _ => talk::USAGE,
    }
}

/// Runs `finerail ctl`.
pub(crate) fn run(args: &CtlArgs) -> anyhow::Result<ExitCode> {
    let partner = args.limit.partner(args.node.as_deref());
    run_called(Tool::Lnetctl, args.group.as_ref(), partner)
}

fn run_called(tool: Tool, group: Option<&Group>, partner: Partner<'_>) -> anyhow::Result<ExitCode> {
    let code = match group {
        None => session::run(&Session { tool, partner }),
        Some(group) => talk::exit(carry_out(group, &mut Talk::new(partner))),
    };
    code.map(ExitCode::from)
}

fn carry_out(group: &Group, talk: &mut Talk) -> Result<(), Failed> {
    match group {
        Group::Lnet(LnetCommand::Configure(args)) if args.large || args.all => {
            let (large, all) = (args.large, args.all);
            talk.print(&Request::Configure { large, all })
        }
        Group::Lnet(LnetCommand::Configure(_)) => talk.reach(),
        Group::Lnet(LnetCommand::Unconfigure) => talk.print(&Request::Unconfigure),
        Group::Set(args) => change::set(args, talk),
        Group::Import(args) => change::import_file(args, talk),
        Group::Net(NetCommand::Add(args)) => change::net_add(args, talk),
        Group::Net(NetCommand::Del(args)) => change::net_del(args, talk),
        Group::Route(RouteCommand::Add(args)) => change::route_add(args, talk),
        Group::Route(RouteCommand::Del(args)) => change::route_del(args, talk),
        Group::Peer(PeerCommand::Add(args)) => change::peer_add(args, talk),
        Group::Peer(PeerCommand::Del(args)) => change::peer_del(args, talk),
        Group::Net(NetCommand::Show(args)) => {
            let show = shown(Section::Net, &args.show);
            let net = args.net.clone();
            talk.watch(&args.show.watch, &Request::Show(Show { net, ..show }))
        }
        Group::Net(NetCommand::Set(args)) => net_set(args, talk),
        Group::Route(RouteCommand::Show(args)) => {
            let show = Show {
                net: args.net.clone(),
                gateway: args.gateway.clone(),
                hop: args.hop,
                priority: args.priority,
                ..shown(Section::Route, &args.show)
            };
            talk.watch(&args.show.watch, &Request::Show(show))
        }
        Group::Peer(PeerCommand::Show(args)) => {
            let show = shown(Section::Peer, &args.show);
            let nid = args.nid.clone();
            talk.watch(&args.show.watch, &Request::Show(Show { nid, ..show }))
        }
        Group::Peer(PeerCommand::List(watch)) => section(Section::PeerList, watch, talk),
        Group::Peer(PeerCommand::Set(args)) => peer_set(args, talk),
        Group::Routing(RoutingCommand::Show(watch)) => section(Section::Routing, watch, talk),
        Group::Global(GlobalCommand::Show(args)) => section(Section::Global, &args.watch, talk),
        Group::Stats(StatsCommand::Show(args)) => match &args.since {
            Some(since) => since::show(since, talk),
            None => section(Section::Statistics, &args.watch, talk),
        },
        Group::Stats(StatsCommand::Reset) => talk.print(&Request::ResetStatistics),
        Group::Export(args) => export(args, talk),
        Group::Ping(args) => talk.print(&Request::Ping {
            nids: hosts::resolved(&args.nids),
            source: args.source.clone(),
            timeout: args.timeout,
            discover: false,
        }),
        Group::Discover(args) => talk.print(&Request::Ping {
            nids: hosts::resolved(&args.nids),
            source: None,
            timeout: DISCOVERY_SECONDS,
            discover: true,
        }),
        Group::Watch(args) => watch::watch(args, talk),
        Group::Record(RecordCommand::Status) => talk.print(&Request::RecordStatus),
        Group::Record(RecordCommand::Stop) => talk.print(&Request::RecordStop),
        Group::Debug(command) => debug(command, talk),
        Group::Udsp(command) => udsp::carry_out(command, talk),
        Group::Fault(command) => fault::carry_out(command, talk),
        Group::CptOfNid(args) => local::cpt_of_nid(args),
        Group::ServiceId => local::service_id(),
        Group::SetupMrrouting => advice::mrrouting(talk),
        Group::SetupSysctl => advice::sysctl(talk),
        Group::Lctl(args) => lctl::carry_out(args, talk),
    }
}

/// Carries out one command of `lnetctl`, given as words, on the node at a control socket. Returns the exit code.
///
/// # Errors
///
/// Errors of standard output.
pub(crate) fn carry_out_on(
    socket: &Path,
    patience: Duration,
    words: &[String],
) -> anyhow::Result<u8> {
    let partner = Partner {
        node: Some(socket),
        patience,
    };
    let tool = Tool::Lnetctl;
    Session { tool, partner }.carry_out(words, &mut Talk::within_session(partner))
}

/// How long a peer may take to answer a discovery, in seconds.
const DISCOVERY_SECONDS: u32 = 5;

fn section(section: Section, watch: &WatchArgs, talk: &mut Talk) -> Result<(), Failed> {
    talk.watch(watch, &Request::Show(Show::all(section, 0)))
}

fn shown(section: Section, args: &ShowArgs) -> Show {
    Show::all(section, args.verbose.unwrap_or(0))
}

fn export(args: &ExportArgs, talk: &mut Talk) -> Result<(), Failed> {
    let request = Request::Export {
        backup: args.backup,
    };
    match &args.file {
        None => talk.print(&request),
        Some(path) => talk.write(&request, path),
    }
}

fn debug(command: &DebugCommand, talk: &mut Talk) -> Result<(), Failed> {
    match command {
        DebugCommand::Recovery(RecoveryArgs { local, .. }) => {
            let section = if *local {
                Section::LocalRecovery
            } else {
                Section::PeerRecovery
            };
            talk.print(&Request::Show(Show::all(section, 0)))
        }
        DebugCommand::Peer(args) => {
            let nid = Some(args.nid.clone());
            let everything = Show::all(Section::Peer, EVERYTHING);
            talk.print(&Request::Show(Show { nid, ..everything }))
        }
        DebugCommand::Nidlist(args) => local::nidlist(args),
    }
}

/// The highest verbosity.
const EVERYTHING: u8 = 4;

fn net_set(args: &NetSetArgs, talk: &mut Talk) -> Result<(), Failed> {
    let target = match (&args.nid, &args.net, args.all) {
        (Some(nid), _, _) => HealthTarget::Ni(nid.clone()),
        (None, Some(net), _) => HealthTarget::Net(net.clone()),
        (None, None, true) => HealthTarget::AllNis,
        (None, None, false) => return Err(Failed::plain("--nid, --net or --all is needed")),
    };
    let tune = Tune {
        nid: args.nid.clone(),
        net: args.net.clone().filter(|_| args.nid.is_none()),
        conns_per_peer: number_of("conns-per-peer", args.conns_per_peer.as_deref(), 127)?,
        lnd_timeout: number_of("lnd-timeout", args.lnd_timeout.as_deref(), i32::MAX)?,
    };
    if tune.lnd_timeout.is_some() && args.nid.is_some() {
        return Err(Failed::plain(
            "--lnd-timeout is set for a network, or for --all",
        ));
    }
    let is_tuned = tune.conns_per_peer.is_some() || tune.lnd_timeout.is_some();
    if is_tuned {
        talk.print(&Request::Tune(tune))?;
    }
    // As in `lnetctl`, -1 is a value that changes nothing.
    let is_given = args.conns_per_peer.is_some() || args.lnd_timeout.is_some();
    match args.health.as_deref() {
        None if is_given => Ok(()),
        None => Err(Failed::plain(
            "--health, --conns-per-peer or --lnd-timeout is needed",
        )),
        health => set_health(target, health, talk),
    }
}

/// Parses a number from 0 to `most`. As elsewhere in `lnetctl`, -1 means that the number is not given.
fn number_of<T, M>(name: &str, given: Option<&str>, most: M) -> Result<Option<T>, Failed>
where
    T: TryFrom<i64>,
    M: Into<i64>,
{
    let most = most.into();
    let Some(text) = given.filter(|text| *text != "-1") else {
        return Ok(None);
    };
    let value = text.parse().ok().filter(|value| (0..=most).contains(value));
    let value = value.and_then(|value| T::try_from(value).ok());
    value
        .map(Some)
        .ok_or_else(|| Failed::Plain(format!("Invalid {name} \"{text}\" (valid range 0-{most})")))
}

fn peer_set(args: &PeerSetArgs, talk: &mut Talk) -> Result<(), Failed> {
    if let Some(state) = &args.state {
        return set_state(args.nid.as_deref(), state, talk);
    }
    let target = match (&args.nid, args.all) {
        (Some(nid), _) => HealthTarget::PeerNi(nid.clone()),
        (None, true) => HealthTarget::AllPeerNis,
        (None, false) => return Err(Failed::plain("--nid or --all is needed")),
    };
    set_health(target, args.health.as_deref(), talk)
}

fn set_state(nid: Option<&str>, state: &str, talk: &mut Talk) -> Result<(), Failed> {
    let nid = nid
        .ok_or_else(|| Failed::plain("--nid is needed"))?
        .to_owned();
    let set: u32 = state
        .parse()
        .map_err(|_| Failed::plain(&format!("Invalid state \"{state}\": a number of bits")))?;
    let clear = !set;
    talk.print(&Request::SetPeerState { nid, set, clear })
}

fn set_health(target: HealthTarget, health: Option<&str>, talk: &mut Talk) -> Result<(), Failed> {
    let given = health.ok_or_else(|| Failed::plain("--health is needed: 0 to 1000"))?;
    let health = given.parse().ok().filter(|value| *value <= 1000);
    let health =
        health.ok_or_else(|| Failed::plain(&format!("Invalid health \"{given}\": 0 to 1000")))?;
    talk.print(&Request::SetHealth { target, health })
}

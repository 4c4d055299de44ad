//! `finerail ctl`, and the binary when it is called `lnetctl`: the commands that administrators know,
//! on a running node.
//!
//! ```text
//!  args ── which request ──▶ talk ── control endpoint ──▶ the node
//!                             └── document, or errors with lnetctl's layouts and exit codes
//! ```

mod advice;
mod args;
mod change;
mod fault;
mod hosts;
mod lctl;
mod local;
mod session;
mod talk;
mod udsp;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lnet_control::{HealthTarget, Request, Section, Show, Tune};

use self::args::{
    DebugCommand, ExportArgs, GlobalCommand, Group, LnetCommand, NetCommand, NetSetArgs,
    PeerCommand, PeerSetArgs, RecoveryArgs, RouteCommand, RoutingCommand, ShowArgs, StatsCommand,
    WatchArgs,
};
use self::session::Session;
use self::talk::{Failed, Talk, UNKNOWN};
use crate::common::command_of;

/// Arguments of `finerail ctl`.
#[derive(clap::Args)]
#[command(after_help = "\
Example: what a running node has

  finerail ctl net show -v 2
  finerail ctl peer show --watch
  finerail ctl --node /run/finerail/control.sock export --backup

Without a command it takes commands from standard input, line by line: help, quit, and all
those above. A script goes on after a command that failed.

Exit codes are those of lnetctl: 0, or an errno modulo 256 (234 is -22); without a command,
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
    /// Without a command: commands from standard input, line by line
    #[command(subcommand)]
    group: Option<Group>,
}

/// Called by this name, the program is `finerail ctl`.
const SHORT_NAME: &str = "lnetctl";
/// Called by this one, it has the few commands of the older tool that concern LNet.
const OLD_NAME: &str = "lctl";

/// The arguments, with what a call as `lnetctl` or `lctl` leaves out put in.
pub(crate) fn with_command(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().map(Path::new).and_then(Path::file_stem);
    let left_out: &[&str] = match name.and_then(OsStr::to_str) {
        Some(SHORT_NAME) => &["ctl"],
        Some(OLD_NAME) => &["ctl", "lctl"],
        _ => &[],
    };
    arguments.splice(1..1, left_out.iter().map(OsString::from));
    arguments
}

/// Answers what `lnetctl` is asked about itself, without a node.
pub(crate) fn about_itself(arguments: &[impl AsRef<OsStr>]) -> Option<io::Result<()>> {
    let mut out = io::stdout();
    Some(match arguments.get(2)?.as_ref().to_str()? {
        "--version" | "version" => {
            writeln!(out, "{SHORT_NAME} {} (finerail)", env!("CARGO_PKG_VERSION"))
        }
        "--list-commands" | "list-commands" => local::list_commands(&mut out),
        _ => return None,
    })
}

/// Whether these arguments are for this command.
pub(crate) fn is_called(arguments: &[OsString]) -> bool {
    command_of(arguments).is_some_and(|word| word == "ctl")
}

/// Says what is wrong with the arguments, with the exit codes of `lnetctl` (section 11.12 of
/// lnet-selection): 0 for help, 255 for a command that does not exist, 234 for the rest.
pub(crate) fn usage(error: &clap::Error) -> u8 {
    use clap::error::{ContextKind, ErrorKind};
    let unknown = match error.kind() {
        ErrorKind::InvalidSubcommand => error.get(ContextKind::InvalidSubcommand),
        // A word where a subcommand belongs.
        ErrorKind::UnknownArgument if error.get(ContextKind::SuggestedSubcommand).is_some() => {
            error.get(ContextKind::InvalidArg)
        }
        _ => None,
    };
    if let Some(word) = unknown {
        // Nothing can be done when nobody reads what is wrong.
        return talk::unknown(&word.to_string()).unwrap_or(UNKNOWN);
    }
    let _unprinted = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => 0,
        _ => talk::USAGE,
    }
}

pub(crate) fn run(args: &CtlArgs) -> anyhow::Result<ExitCode> {
    let node = args.node.as_deref();
    let code = match &args.group {
        None => session::run(&Session { prefix: &[], node }),
        Some(Group::Lctl { command: None }) => session::run(&Session {
            prefix: &["lctl"],
            node,
        }),
        Some(group) => talk::exit(carry_out(group, &mut Talk::new(node))),
    };
    code.map(ExitCode::from)
}

fn carry_out(group: &Group, talk: &mut Talk) -> Result<(), Failed> {
    match group {
        Group::Lnet(LnetCommand::Configure(_)) => talk.reach(),
        Group::Lnet(LnetCommand::Unconfigure) => change::unconfigure(talk),
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
            let (net, gateway) = (args.net.clone(), args.gateway.clone());
            let show = shown(Section::Route, &args.show);
            talk.watch(
                &args.show.watch,
                &Request::Show(Show {
                    net,
                    gateway,
                    ..show
                }),
            )
        }
        Group::Peer(PeerCommand::Show(args)) => {
            let show = shown(Section::Peer, &args.show);
            let nid = args.nid.clone();
            talk.watch(&args.show.watch, &Request::Show(Show { nid, ..show }))
        }
        Group::Peer(PeerCommand::List(watch)) => section(Section::PeerList, watch, talk),
        Group::Peer(PeerCommand::Set(args)) => peer_set(args, talk),
        Group::Routing(RoutingCommand::Show(watch)) => section(Section::Routing, watch, talk),
        Group::Global(GlobalCommand::Show(watch)) => section(Section::Global, watch, talk),
        Group::Stats(StatsCommand::Show(watch)) => section(Section::Statistics, watch, talk),
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
        Group::Debug(command) => debug(command, talk),
        Group::Udsp(command) => udsp::carry_out(command, talk),
        Group::Fault(command) => fault::carry_out(command, talk),
        Group::CptOfNid(args) => local::cpt_of_nid(args),
        Group::ServiceId => local::service_id(),
        Group::SetupMrrouting => advice::mrrouting(talk),
        Group::SetupSysctl => advice::sysctl(talk),
        Group::Lctl { command } => match command {
            Some(command) => lctl::carry_out(command, talk),
            None => Err(Failed::plain("no command is given")),
        },
    }
}

/// How long a peer may take to answer a discovery.
const DISCOVERY_SECONDS: u32 = 5;

fn section(section: Section, watch: &WatchArgs, talk: &mut Talk) -> Result<(), Failed> {
    talk.watch(watch, &Request::Show(show(section, 0)))
}

fn shown(section: Section, args: &ShowArgs) -> Show {
    show(section, args.verbose.unwrap_or(0))
}

fn show(section: Section, verbosity: u8) -> Show {
    Show {
        section,
        verbosity,
        net: None,
        nid: None,
        gateway: None,
        idx: None,
    }
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
            talk.print(&Request::Show(show(section, 0)))
        }
        DebugCommand::Peer(args) => {
            let nid = Some(args.nid.clone());
            let everything = show(Section::Peer, EVERYTHING);
            talk.print(&Request::Show(Show { nid, ..everything }))
        }
        DebugCommand::Nidlist(args) => local::nidlist(args),
    }
}

/// The verbosity that shows all there is.
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
    match args.health.as_deref() {
        None if is_tuned => Ok(()),
        None => Err(Failed::plain(
            "--health, --conns-per-peer or --lnd-timeout is needed",
        )),
        health => set_health(target, health, talk),
    }
}

/// A number from 0 to `most`; -1, as elsewhere, is one that is not given.
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
    let target = match (&args.nid, args.all) {
        (Some(nid), _) => HealthTarget::PeerNi(nid.clone()),
        (None, true) => HealthTarget::AllPeerNis,
        (None, false) => return Err(Failed::plain("--nid or --all is needed")),
    };
    set_health(target, args.health.as_deref(), talk)
}

fn set_health(target: HealthTarget, health: Option<&str>, talk: &mut Talk) -> Result<(), Failed> {
    let given = health.ok_or_else(|| Failed::plain("--health is needed: 0 to 1000"))?;
    let health = given.parse().ok().filter(|value| *value <= 1000);
    let health =
        health.ok_or_else(|| Failed::plain(&format!("Invalid health \"{given}\": 0 to 1000")))?;
    talk.print(&Request::SetHealth { target, health })
}

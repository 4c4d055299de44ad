//! Commands of a session. The console carries them out.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use lnet_selftest::console::{
    Answer, Distribution, NODES_MAX, Session, State, Test, parse_parameters,
};
use lnet_selftest::driver::Lease;
use lnet_types::expr::NidList;
use lnet_types::{Nid, ProcessId};

use super::host::Output;
use super::{ConsoleCommand, SessionCommand, list, stat};

/// Arguments of `lst update_group`.
#[derive(clap::Args)]
pub(super) struct UpdateGroupArgs {
    /// Ask nodes of the group that are not in the session to join it
    #[arg(short, long)]
    refresh: bool,
    /// Remove nodes in these states: active, busy, down, unknown, invalid (all except active)
    #[arg(short, long, value_name = "STATE", value_delimiter = ',')]
    clean: Vec<String>,
    /// Remove these nodes
    #[arg(short = 'm', long, value_name = "NIDS")]
    remove: Vec<String>,
    /// The group
    #[arg(value_name = "NAME")]
    name: String,
}

/// Arguments of `lst add_test`.
#[derive(clap::Args)]
#[command(after_help = "\
TEST is one of

  ping
  brw [read|write] [size=BYTES[K|M]] [check=none|simple|full|discard] [off=BYTES]

Finerail and the kernel release after 2.17 know discard; other nodes reject it.
")]
pub(super) struct AddTestArgs {
    /// The batch
    #[arg(short, long, value_name = "NAME", default_value = "batch")]
    batch: String,
    /// RPCs of each unit, one after another; -1: no limit
    #[arg(short = 'l', long = "loop", value_name = "COUNT", default_value_t = -1, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-1..))]
    repeat: i32,
    /// Units for each client and server
    #[arg(short, long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    concurrency: u32,
    /// The numbers of consecutive clients and servers that load each other
    #[arg(short, long, value_name = "CLIENTS:SERVERS", default_value = "1:1")]
    distribute: String,
    /// Whether a unit ends with its first error
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    stop_on_error: bool,
    /// The clients
    #[arg(short, long, value_name = "GROUP")]
    from: String,
    /// The servers
    #[arg(short, long, value_name = "GROUP")]
    to: String,
    /// The test
    #[arg(value_name = "TEST", required = true)]
    test: Vec<String>,
}

/// Arguments of `lst query`.
#[derive(clap::Args)]
pub(super) struct QueryArgs {
    /// A test of the batch, from 1
    #[arg(
        short,
        long,
        value_name = "NUMBER",
        default_value_t = 0,
        hide_default_value = true
    )]
    test: usize,
    /// The number of queries
    #[arg(short = 'l', long = "loop", value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Seconds between two queries
    #[arg(short, long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    delay: u32,
    /// Print a line for each client
    #[arg(short, long)]
    all: bool,
    /// The batch
    #[arg(value_name = "NAME", default_value = "batch")]
    name: String,
}

/// Carries out a command. Returns whether all nodes succeeded; the errors of the other nodes are in the output.
pub(super) fn carry_out(
    command: ConsoleCommand,
    lease: &Lease,
    out: &mut Output<'_>,
) -> anyhow::Result<bool> {
    match command {
        ConsoleCommand::NewSession(args) => {
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH)?;
            let stamp = i64::try_from(since_1970.as_millis())?;
            let mut console = lease.console();
            let session = console.new_session(&args.name, args.timeout, args.force, stamp)?;
            out.out(format_args!(
                "SESSION: {} FEATURES: 1 TIMEOUT: {} FORCE: {}",
                session.name,
                session.timeout_s,
                if session.force { "Yes" } else { "No" }
            ))?;
            Ok(true)
        }
        ConsoleCommand::Run { name, timeout } => {
            let timeout = Duration::from_secs(timeout.into());
            let failures = lease.console().run_within(&name, timeout)?;
            out.out(format_args!("{name} is running now"))?;
            told("run batch", &failures, out)
        }
        ConsoleCommand::Session(command) => on_session(command, lease, out),
    }
}

fn on_session(
    command: SessionCommand,
    lease: &Lease,
    out: &mut Output<'_>,
) -> anyhow::Result<bool> {
    match command {
        SessionCommand::EndSession => {
            let failures = lease.console().end_session()?;
            told("end session", &failures, out)
        }
        SessionCommand::ShowSession => list::session(lease.console().session()?, out),
        SessionCommand::AddGroup { name, nids } => {
            let nodes = expand(&nids)?;
            let failures = lease.console().add_group(&name, &nodes)?;
            out.out(format_args!("{} are added to session", nids.join(" ")))?;
            told("create session", &failures, out)
        }
        SessionCommand::DelGroup { name } => {
            lease.console().del_group(&name)?;
            out.out("Group is deleted")?;
            Ok(true)
        }
        SessionCommand::UpdateGroup(args) => update_group(&args, lease, out),
        SessionCommand::ListGroup(args) => list::groups(&args, lease.console().session()?, out),
        SessionCommand::AddBatch { name } => {
            lease.console().add_batch(&name)?;
            Ok(true)
        }
        SessionCommand::DelBatch { name } => {
            lease.console().del_batch(&name)?;
            Ok(true)
        }
        SessionCommand::AddTest(args) => add_test(&args, lease, out),
        SessionCommand::ListBatch(args) => list::batches(&args, lease.console().session()?, out),
        SessionCommand::Stop { force, name } => {
            let failures = lease.console().stop(&name, force)?;
            out.out("Batch is stopped")?;
            told("stop batch", &failures, out)
        }
        SessionCommand::Query(args) => query(&args, lease, out),
        SessionCommand::Stat(args) => stat::stat(&args, lease, out),
        SessionCommand::ShowError(args) => stat::show_error(&args, lease, out),
        SessionCommand::Ping(args) => stat::ping(&args, lease, out),
    }
}

fn update_group(
    args: &UpdateGroupArgs,
    lease: &Lease,
    out: &mut Output<'_>,
) -> anyhow::Result<bool> {
    let mut states = Vec::new();
    for name in &args.clean {
        match State::of_name(name) {
            Some(state) => states.push(state),
            None if name.eq_ignore_ascii_case("invalid") => {
                states.extend([State::Busy, State::Down, State::Unknown]);
            }
            None => bail!(
                "there is no state '{name}'; the states are active, busy, down, unknown, invalid"
            ),
        }
    }
    let nids = expand(&args.remove)?;
    if !args.refresh && states.is_empty() && nids.is_empty() {
        bail!("nothing to do: give --refresh, --clean or --remove");
    }
    let mut console = lease.console();
    let mut failures = Vec::new();
    if args.refresh {
        failures = console.refresh_group(&args.name)?;
    }
    if !states.is_empty() || !nids.is_empty() {
        console.clean_group(&args.name, &states, &nids)?;
    }
    drop(console);
    out.out("Group is updated")?;
    told("create session", &failures, out)
}

fn add_test(args: &AddTestArgs, lease: &Lease, out: &mut Output<'_>) -> anyhow::Result<bool> {
    let test = Test {
        kind: parse_parameters(&args.test)?,
        repeat: u32::try_from(args.repeat).ok(),
        concurrency: args.concurrency,
        stop_on_error: args.stop_on_error,
        distribution: Distribution::parse(&args.distribute)?,
        from: args.from.clone(),
        to: args.to.clone(),
    };
    let failures = lease.console().add_test(&args.batch, test)?;
    out.out("Test was added successfully")?;
    told("add test", &failures, out)
}

fn query(args: &QueryArgs, lease: &Lease, out: &mut Output<'_>) -> anyhow::Result<bool> {
    let mut is_good = true;
    for round in 0..args.repeat {
        if round > 0 {
            out.pause(Duration::from_secs(args.delay.into()))?;
        }
        let answers = lease.query(&args.name, args.test)?;
        let is_running = |answer: &Answer<_>| running(answer) == Some(true);
        if args.all {
            for answer in &answers {
                let text = match running(answer) {
                    Some(true) => "Running",
                    Some(false) => "Idle",
                    None => "Unknown",
                };
                out.out(format_args!("{} {text}", answer.0))?;
            }
        } else {
            let what = if args.test == 0 { "Batch" } else { "Test" };
            let text = if answers.iter().any(is_running) {
                "running"
            } else {
                "idle"
            };
            out.out(format_args!("{what} is {text}"))?;
        }
        let failures: Vec<Answer<()>> = answers
            .into_iter()
            .filter(|(_, answer)| answer.is_err())
            .map(|(nid, answer)| (nid, answer.map(drop)))
            .collect();
        is_good = told("query batch", &failures, out)?;
    }
    Ok(is_good)
}

fn running(answer: &Answer<lnet_selftest::wire::BatchReply>) -> Option<bool> {
    answer.1.as_ref().ok().map(|reply| reply.active > 0)
}

/// Reports the nodes that failed, and returns whether all succeeded.
pub(super) fn told(
    what: &str,
    failures: &[Answer<()>],
    out: &mut Output<'_>,
) -> anyhow::Result<bool> {
    for (nid, answer) in failures {
        if let Err(error) = answer {
            let node = ProcessId::lustre(*nid);
            out.err(&format!("{what} RPC failed on {node}: {error}"))?;
        }
    }
    Ok(failures.is_empty())
}

/// Returns the NIDs that these expressions describe.
pub(super) fn expand(texts: &[String]) -> anyhow::Result<Vec<Nid>> {
    let mut nids = Vec::new();
    for text in texts {
        let list: NidList = text
            .parse()
            .map_err(|error| anyhow::anyhow!("'{text}': {error}"))?;
        let all = list.expand(NODES_MAX);
        nids.extend(all.map_err(|error| anyhow::anyhow!("'{text}': {error}"))?);
    }
    Ok(nids)
}

/// Returns the nodes of each group or NID expression, with the name that is its title in tables.
pub(super) fn nodes(
    session: &Session,
    names: &[String],
) -> anyhow::Result<Vec<(String, Vec<Nid>)>> {
    let one = |name: &String| match session.group(name) {
        Ok(group) => Ok((name.clone(), group.nodes.clone())),
        Err(_) if name.contains('@') => Ok((name.clone(), expand(std::slice::from_ref(name))?)),
        Err(error) => Err(error.into()),
    };
    names.iter().map(one).collect()
}

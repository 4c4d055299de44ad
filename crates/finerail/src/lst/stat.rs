//! Shows counters of nodes: `stat`, `show_error`, `ping`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lnet_selftest::console::{Answer, Session};
use lnet_selftest::wire::StatReply;
use lnet_types::{Nid, ProcessId};

use super::commands::{expand, nodes, told};
use super::console::{Output, Shared};

/// Arguments of `lst stat`.
#[derive(clap::Args)]
pub(super) struct StatArgs {
    /// Print only bandwidth
    #[arg(long)]
    bw: bool,
    /// Print only rates
    #[arg(long)]
    rate: bool,
    /// Print what nodes received
    #[arg(long)]
    read: bool,
    /// Print what nodes sent
    #[arg(long)]
    write: bool,
    /// Print only the largest value
    #[arg(long)]
    max: bool,
    /// Print only the smallest value
    #[arg(long)]
    min: bool,
    /// Print only the average
    #[arg(long)]
    avg: bool,
    /// Print bandwidth in units of 1,000,000 bytes instead of 1,048,576
    #[arg(long)]
    mbs: bool,
    /// Seconds between two samples
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    delay: u32,
    /// The number of samples; without it, until the command is interrupted
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Groups or NIDs
    #[arg(value_name = "GROUP|NIDS", required = true)]
    names: Vec<String>,
}

/// Arguments of `lst show_error`.
#[derive(clap::Args)]
pub(super) struct ShowErrorArgs {
    /// Print only errors of the session's tests
    #[arg(long)]
    session: bool,
    /// Groups or NIDs
    #[arg(value_name = "GROUP|NIDS", required = true)]
    names: Vec<String>,
}

/// Arguments of `lst ping`.
#[derive(clap::Args)]
pub(super) struct PingArgs {
    /// All nodes of the session (the default)
    #[arg(long)]
    session: bool,
    /// The nodes of a group
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,
    /// These nodes
    #[arg(long, value_name = "NIDS")]
    nodes: Vec<String>,
    /// The clients of a batch
    #[arg(long, value_name = "NAME")]
    batch: Option<String>,
    /// The servers of the batch instead of the clients
    #[arg(long, requires = "batch")]
    server: bool,
    /// Timeout in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    timeout: u32,
    /// Groups or NIDs
    #[arg(value_name = "GROUP|NIDS")]
    names: Vec<String>,
}

pub(super) fn stat(args: &StatArgs, shared: &Shared, out: &mut Output<'_>) -> anyhow::Result<bool> {
    let groups = nodes(shared.console().session()?, &args.names)?;
    let look = |group: &(String, Vec<Nid>)| shared.console().stat(&group.1);
    let mut before = Vec::new();
    for group in &groups {
        before.push((Instant::now(), look(group)?));
    }
    let mut rounds = 0;
    let mut is_good = true;
    while args.count.is_none_or(|count| rounds < count) {
        rounds += 1;
        out.pause(Duration::from_secs(args.delay.into()))?;
        for (group, (since, old)) in groups.iter().zip(&mut before) {
            let new = look(group)?;
            let now = Instant::now();
            let seconds = now.duration_since(*since).as_secs_f64();
            is_good &= told("stat", &failures(&new), out)?;
            table(args, &group.0, &rates(old, &new, seconds), out)?;
            (*since, *old) = (now, new);
        }
    }
    Ok(is_good)
}

fn failures(answers: &[Answer<StatReply>]) -> Vec<Answer<()>> {
    let one = |(nid, answer): &Answer<StatReply>| {
        let error = answer.as_ref().err()?;
        Some((*nid, Err(error.clone())))
    };
    answers.iter().filter_map(one).collect()
}

/// The messages and bytes a second of a node; in each pair first received, then sent.
struct Rate {
    messages: [f64; 2],
    bytes: [f64; 2],
}

fn rates(old: &[Answer<StatReply>], new: &[Answer<StatReply>], seconds: f64) -> Vec<Rate> {
    let one = |((_, old), (_, new)): (&Answer<StatReply>, &Answer<StatReply>)| {
        let (old, new) = (&old.as_ref().ok()?.lnet, &new.as_ref().ok()?.lnet);
        let count = |old: u32, new: u32| f64::from(new.wrapping_sub(old)) / seconds;
        let length = |old: u64, new: u64| new.wrapping_sub(old) as f64 / seconds;
        Some(Rate {
            messages: [
                count(old.recv_count, new.recv_count),
                count(old.send_count, new.send_count),
            ],
            bytes: [
                length(old.recv_length, new.recv_length),
                length(old.send_length, new.send_length),
            ],
        })
    };
    old.iter().zip(new).filter_map(one).collect()
}

fn table(args: &StatArgs, name: &str, rates: &[Rate], out: &mut Output<'_>) -> anyhow::Result<()> {
    let (unit, label) = if args.mbs {
        (1e6, "MB/s")
    } else {
        (1_048_576.0, "MiB/s")
    };
    let directions = [
        ("R", args.read || !args.write),
        ("W", args.write || !args.read),
    ];
    if args.rate || !args.bw {
        out.out(format_args!("[LNet Rates of {name}]"))?;
        for (at, (letter, _)) in directions
            .iter()
            .enumerate()
            .filter(|(_, (_, asked))| *asked)
        {
            let values = rates.iter().map(|rate| rate.messages[at]).collect();
            out.out(line(args, letter, values, |value| {
                format!("{value:.0} RPC/s")
            }))?;
        }
    }
    if args.bw || !args.rate {
        out.out(format_args!("[LNet Bandwidth of {name}]"))?;
        for (at, (letter, _)) in directions
            .iter()
            .enumerate()
            .filter(|(_, (_, asked))| *asked)
        {
            let values = rates.iter().map(|rate| rate.bytes[at] / unit).collect();
            out.out(line(args, letter, values, |value| {
                format!("{value:.2} {label}")
            }))?;
        }
    }
    Ok(())
}

fn line(args: &StatArgs, letter: &str, values: Vec<f64>, show: impl Fn(f64) -> String) -> String {
    let count = values.len().max(1) as f64;
    let average = values.iter().sum::<f64>() / count;
    let least = values.iter().copied().reduce(f64::min).unwrap_or_default();
    let most = values.iter().copied().reduce(f64::max).unwrap_or_default();
    let all = !(args.avg || args.min || args.max);
    let parts = [
        ("Avg", average, args.avg || all),
        ("Min", least, args.min || all),
        ("Max", most, args.max || all),
    ];
    let parts = parts.into_iter().filter(|(.., asked)| *asked);
    let parts: Vec<String> = parts
        .map(|(name, value, _)| format!("{name}: {:<12}", show(value)))
        .collect();
    format!("[{letter}] {}", parts.join(" "))
        .trim_end()
        .to_owned()
}

pub(super) fn show_error(
    args: &ShowErrorArgs,
    shared: &Shared,
    out: &mut Output<'_>,
) -> anyhow::Result<bool> {
    let groups = nodes(shared.console().session()?, &args.names)?;
    let mut is_good = true;
    for (name, nids) in groups {
        let answers = shared.console().stat(&nids)?;
        is_good &= told("stat", &failures(&answers), out)?;
        out.out(&name)?;
        let mut bad = 0;
        for (nid, answer) in answers {
            let Ok(reply) = answer else { continue };
            let (tests, rpc) = (reply.framework, reply.rpc);
            let in_session = tests.bulk_errors > 0 || tests.ping_errors > 0;
            let in_rpc = rpc.errors > 0 || rpc.dropped > 0 || rpc.expired > 0;
            if !in_session && (args.session || !in_rpc) {
                continue;
            }
            bad += 1;
            let mut text = format!(
                "{}: [Session: {} brw errors, {} ping errors]",
                ProcessId::lustre(nid),
                tests.bulk_errors,
                tests.ping_errors
            );
            if !args.session {
                text += &format!(
                    " [RPC: {} errors, {} dropped, {} expired]",
                    rpc.errors, rpc.dropped, rpc.expired
                );
            }
            out.out(text)?;
        }
        match bad {
            0 => out.out(format_args!("No error nodes found in {name}"))?,
            _ => out.out(format_args!("Total {bad} error nodes in {name}"))?,
        }
    }
    Ok(is_good)
}

/// Returns the nodes that `lst ping` names, each once.
fn pinged(args: &PingArgs, session: &Session) -> anyhow::Result<Vec<Nid>> {
    let mut nids = Vec::new();
    for name in &args.group {
        nids.extend(&session.group(name)?.nodes);
    }
    nids.extend(expand(&args.nodes)?);
    if let Some(batch) = &args.batch {
        nids.extend(session.parties(batch, 0, !args.server)?);
    }
    for (_, named) in nodes(session, &args.names)? {
        nids.extend(named);
    }
    let is_named = [&args.group, &args.nodes, &args.names]
        .iter()
        .any(|names| !names.is_empty());
    if args.session || !(is_named || args.batch.is_some()) {
        nids.extend(session.nodes());
    }
    let mut seen = BTreeSet::new();
    nids.retain(|&nid| seen.insert(nid));
    Ok(nids)
}

pub(super) fn ping(args: &PingArgs, shared: &Shared, out: &mut Output<'_>) -> anyhow::Result<bool> {
    let mut console = shared.console();
    let nids = pinged(args, console.session()?)?;
    let timeout = Duration::from_secs(args.timeout.into());
    let answers = console.debug_within(&nids, timeout)?;
    let mut is_good = true;
    for (nid, answer) in answers {
        let state = console.session()?.state(nid);
        let node = ProcessId::lustre(nid);
        match answer {
            Ok(reply) => out.out(format_args!(
                "{node}: {} [session: {} id: {}]",
                state.name(),
                reply.name,
                reply.session
            ))?,
            Err(error) => {
                is_good = false;
                out.out(format_args!("{node}: {} [{error}]", state.name()))?;
            }
        }
    }
    Ok(is_good)
}

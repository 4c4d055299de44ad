//! Shows counters of nodes: `stat`, `show_error`, `ping`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lnet_selftest::console::{Answer, Session};
use lnet_selftest::driver::Lease;
use lnet_selftest::wire::StatReply;
use lnet_types::{Nid, ProcessId};

use super::commands::{expand, nodes, told};
use super::host::Output;

/// Arguments of `lst stat`.
#[derive(clap::Args)]
pub(super) struct StatArgs {
    /// Print only bandwidth
    #[arg(short, long)]
    bw: bool,
    /// Print only rates
    #[arg(short = 'a', long)]
    rate: bool,
    /// Print what nodes received
    #[arg(short, long)]
    read: bool,
    /// Print what nodes sent
    #[arg(short, long)]
    write: bool,
    /// Print only the largest value
    #[arg(short = 'x', long)]
    max: bool,
    /// Print only the smallest value
    #[arg(short = 'n', long)]
    min: bool,
    /// Print only the average
    #[arg(short = 'g', long)]
    avg: bool,
    /// Print bandwidth in units of 1,000,000 bytes instead of 1,048,576
    #[arg(short, long)]
    mbs: bool,
    /// Print messages of LNet (the default)
    #[arg(short, long)]
    lnet: bool,
    /// Print RPCs and bulk of selftest instead of messages of LNet
    #[arg(short = 'c', long)]
    rpc: bool,
    /// Seconds between two samples
    #[arg(short, long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    delay: u32,
    /// The number of samples; without it, until the command is interrupted
    #[arg(short = 'o', long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Timeout of each node's answer, in seconds
    #[arg(short, long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) timeout: u32,
    /// Groups or NIDs
    #[arg(value_name = "GROUP|NIDS", required = true)]
    names: Vec<String>,
}

/// Arguments of `lst show_error`.
#[derive(clap::Args)]
pub(super) struct ShowErrorArgs {
    /// Print only errors of the session's tests
    #[arg(short, long)]
    session: bool,
    /// Groups or NIDs
    #[arg(value_name = "GROUP|NIDS", required = true)]
    names: Vec<String>,
}

/// Arguments of `lst ping`.
#[derive(clap::Args)]
pub(super) struct PingArgs {
    /// All nodes of the session (the default)
    #[arg(short, long)]
    session: bool,
    /// The nodes of a group
    #[arg(short, long, value_name = "NAME")]
    group: Vec<String>,
    /// These nodes
    #[arg(short, long, value_name = "NIDS")]
    nodes: Vec<String>,
    /// The clients of a batch
    #[arg(short, long, value_name = "NAME")]
    batch: Option<String>,
    /// The servers of the batch instead of the clients
    #[arg(short = 'v', long, requires = "batch")]
    server: bool,
    /// Timeout of each node's answer, in seconds
    #[arg(short, long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) timeout: u32,
    /// Groups or NIDs
    #[arg(value_name = "GROUP|NIDS")]
    names: Vec<String>,
}

pub(super) fn stat(args: &StatArgs, lease: &Lease, out: &mut Output<'_>) -> anyhow::Result<bool> {
    let groups = nodes(lease.console().session()?, &args.names)?;
    let timeout = Duration::from_secs(args.timeout.into());
    let look =
        |group: &(String, Vec<Nid>)| lease.ask(|console| console.stat_question(&group.1, timeout));
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
            for source in Source::asked(args) {
                let rates = rates(source, old, &new, seconds);
                table(args, (source.name(), &group.0), &rates, out)?;
            }
            (*since, *old) = (now, new);
        }
    }
    Ok(is_good)
}

/// The counters that a table is made of.
#[derive(Clone, Copy)]
enum Source {
    Lnet,
    Rpc,
}

impl Source {
    fn asked(args: &StatArgs) -> Vec<Self> {
        match (args.lnet, args.rpc) {
            (true, true) => vec![Self::Lnet, Self::Rpc],
            (false, true) => vec![Self::Rpc],
            (_, false) => vec![Self::Lnet],
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Lnet => "LNet",
            Self::Rpc => "RPC",
        }
    }

    /// Returns the counts and bytes of a reply; in each pair first received, then sent.
    const fn counts(self, reply: &StatReply) -> ([u32; 2], [u64; 2]) {
        let (lnet, rpc) = (&reply.lnet, &reply.rpc);
        match self {
            Self::Lnet => (
                [lnet.recv_count, lnet.send_count],
                [lnet.recv_length, lnet.send_length],
            ),
            Self::Rpc => ([rpc.received, rpc.sent], [rpc.bulk_get, rpc.bulk_put]),
        }
    }
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

fn rates(
    source: Source,
    old: &[Answer<StatReply>],
    new: &[Answer<StatReply>],
    seconds: f64,
) -> Vec<Rate> {
    let one = |((_, old), (_, new)): (&Answer<StatReply>, &Answer<StatReply>)| {
        let (old, new) = (old.as_ref().ok()?, new.as_ref().ok()?);
        let ((old_count, old_length), (count, length)) = (source.counts(old), source.counts(new));
        let rate = |at: usize| f64::from(count[at].wrapping_sub(old_count[at])) / seconds;
        let bandwidth = |at: usize| length[at].wrapping_sub(old_length[at]) as f64 / seconds;
        Some(Rate {
            messages: [rate(0), rate(1)],
            bytes: [bandwidth(0), bandwidth(1)],
        })
    };
    old.iter().zip(new).filter_map(one).collect()
}

/// Prints the rates of a group, byte for byte as the tool does.
fn table(
    args: &StatArgs,
    (source, name): (&str, &str),
    rates: &[Rate],
    out: &mut Output<'_>,
) -> anyhow::Result<()> {
    let (unit, label) = if args.mbs {
        (1e6, "MB/s")
    } else {
        (1_048_576.0, "MiB/s")
    };
    let directions = [
        (0, "R", args.read || !args.write),
        (1, "W", args.write || !args.read),
    ];
    let directions = || directions.iter().filter(|(.., is_asked)| *is_asked);
    if args.rate || !args.bw {
        out.out(format_args!("[{source} Rates of {name}]"))?;
        for (at, letter, _) in directions() {
            let values = rates.iter().map(|rate| rate.messages[*at]).collect();
            let line = line(args, letter, values, |value| format!("{value:<8.0} RPC/s "));
            out.out(line.trim_end())?;
        }
    }
    if args.bw || !args.rate {
        out.out(format_args!("[{source} Bandwidth of {name}]"))?;
        for (at, letter, _) in directions() {
            let values = rates.iter().map(|rate| rate.bytes[*at] / unit).collect();
            let show = |value| format!("{value:<8.2} {label} ");
            out.out(line(args, letter, values, show))?;
        }
    }
    Ok(())
}

fn line(args: &StatArgs, letter: &str, values: Vec<f64>, show: impl Fn(f64) -> String) -> String {
    let count = values.len().max(1) as f64;
    // The sum of no values is -0.0.
    let average = values.iter().sum::<f64>().max(0.0) / count;
    let least = values.iter().copied().reduce(f64::min).unwrap_or_default();
    let most = values.iter().copied().reduce(f64::max).unwrap_or_default();
    let all = !(args.avg || args.min || args.max);
    let parts = [
        ("Avg", average, args.avg || all),
        ("Min", least, args.min || all),
        ("Max", most, args.max || all),
    ];
    let parts = parts.into_iter().filter(|(.., asked)| *asked);
    let parts: String = parts
        .map(|(name, value, _)| format!("{name}: {}", show(value)))
        .collect();
    format!("[{letter}] {parts}")
}

/// The timeout of each node's answer to `show_error`.
const STAT_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn show_error(
    args: &ShowErrorArgs,
    lease: &Lease,
    out: &mut Output<'_>,
) -> anyhow::Result<bool> {
    let groups = nodes(lease.console().session()?, &args.names)?;
    let mut is_good = true;
    for (name, nids) in groups {
        let answers = lease.ask(|console| console.stat_question(&nids, STAT_TIMEOUT))?;
        is_good &= told("stat", &failures(&answers), out)?;
        out.out(format_args!("{name}:"))?;
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
        out.out(format_args!("Total {bad} error nodes in {name}"))?;
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

pub(super) fn ping(args: &PingArgs, lease: &Lease, out: &mut Output<'_>) -> anyhow::Result<bool> {
    let nids = pinged(args, lease.console().session()?)?;
    let timeout = Duration::from_secs(args.timeout.into());
    let answers = lease.ask(|console| console.debug_question(&nids, timeout))?;
    let console = lease.console();
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

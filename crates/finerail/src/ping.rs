//! `finerail ping` and `finerail discover`: the pings of `lnetctl`, from a machine without a node.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use lnet_config::{Config, Globals, NetConfig, NiConfig};
use lnet_node::{
    AcceptMode, Node, NodeOptions, PingError, PingReply, Progress, SourcePorts, has_driver,
};
use lnet_types::{LndType, Nid};
use lnet_wire::PingFeatures;
use serde::Serialize;

use crate::common::{NEGATIVE, TransportArgs, complaint, print_bytes, read_config};
use crate::rdma::Unreached;
use crate::service::raise_on_signals;

/// Arguments of `finerail ping` and `finerail discover`.
#[derive(clap::Args, Clone)]
#[command(after_help = "\
Without --config a temporary endpoint sends the ping: one connection, no daemon. Nodes that accept \
only privileged source ports (the default of kernel nodes over tcp) need --privileged, which needs \
CAP_NET_BIND_SERVICE or root. Nodes on o2ib networks are dialled over RDMA.

Examples
  finerail ping 10.1.0.2@tcp --privileged
  finerail ping --port 9988 --count 10 127.0.0.2@tcp
  finerail ping 10.7.0.2@o2ib                           over InfiniBand, RoCE or Omni-Path
  finerail ping --config client.yaml 10.2.0.9@tcp1      through the routers of client.yaml
  finerail discover 10.1.0.2@tcp --privileged           all NIDs of the node as a Multi-Rail peer

Both leave no state in the node that answers. To store its NIDs in a running node: `finerail ctl discover`.
")]
pub(crate) struct PingArgs {
    /// The nodes to ping
    #[arg(required = true, value_name = "NID", value_delimiter = ',')]
    nids: Vec<Nid>,
    /// Number of pings to each node; more than one prints round-trip times
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Seconds between two pings
    #[arg(long, short, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// Timeout of each ping, in seconds
    #[arg(long, short, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    timeout: f64,
    /// Ping from this local NID. Over RDMA, peers see an endpoint at the address of a running node as a restart of that node
    #[arg(long, short, value_name = "NID")]
    source: Option<Nid>,
    /// Ping as the node of this configuration, with its networks and routes. Peers see this as a restart
    /// of that node, so do not use it while the node runs
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Connect from a source port below 1024, as nodes do; do not use the address of a running node
    #[arg(long)]
    privileged: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    transport: TransportArgs,
}

/// Exists while the kernel's LND for o2ib networks is loaded.
const KERNEL_MODULE: &str = "/sys/module/ko2iblnd";

/// A day, in seconds. A longer time is a typing error.
const SECONDS_MAX: f64 = 86_400.0;

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=SECONDS_MAX).contains(&value) => Ok(value),
        _ => Err(format!(
            "must be a number of seconds between 0 and {SECONDS_MAX}"
        )),
    }
}

/// The answers and failures of one NID.
struct Outcome {
    nid: Nid,
    replies: Vec<PingReply>,
    failures: Vec<PingError>,
}

/// The question that is asked about a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// Does the node answer, and which interfaces does it have?
    Ping,
    /// By which NIDs is the node one Multi-Rail peer?
    Discover,
}

pub(crate) fn run(args: &PingArgs, question: Question) -> anyhow::Result<ExitCode> {
    let interrupted = raise_on_signals().context("cannot register signal handlers")?;
    let (tell, told) = mpsc::channel();
    let asking = args.clone();
    // The pings run in a thread of their own, so that an interruption need not wait for an answer.
    thread::spawn(move || {
        if let Err(error) = ask_all(&asking, &tell) {
            // After an interruption there is no receiver.
            let _untold = tell.send(Step::Unable(error));
        }
    });
    let (outcomes, is_whole) = collect(args, &told, &interrupted)?;
    let text = if args.json {
        json(&outcomes)?
    } else {
        yaml(&outcomes, args.count > 1, question)
    };
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    let all_answered = outcomes.iter().all(|outcome| outcome.failures.is_empty());
    // An interruption is the usual end of a long series of pings. It counts as success only if a node has
    // answered.
    let is_done = is_whole || outcomes.iter().any(|outcome| !outcome.replies.is_empty());
    Ok(if all_answered && is_done {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NEGATIVE)
    })
}

/// The events of the series of pings.
enum Step {
    /// The ping to this NID begins.
    Asked(Nid),
    Answered(PingReply),
    Failed(PingError),
    /// The endpoint that sends the pings cannot be started.
    Unable(anyhow::Error),
}

fn ask_all(args: &PingArgs, tell: &Sender<Step>) -> anyhow::Result<()> {
    for &nid in &args.nids {
        let node = start_node(args, nid)?;
        ask(&node, nid, args, tell);
        node.shutdown(Duration::ZERO);
    }
    Ok(())
}

fn ask(node: &Node, nid: Nid, args: &PingArgs, tell: &Sender<Step>) {
    let timeout = Duration::from_secs_f64(args.timeout);
    for sent in 0..args.count {
        if sent > 0 {
            thread::sleep(Duration::from_secs_f64(args.interval));
        }
        let asked = tell.send(Step::Asked(nid));
        let step = match node.ping(nid, args.source, timeout) {
            Ok(reply) => {
                progress_line(args, nid, &reply);
                Step::Answered(reply)
            }
            Err(error) => {
                let cause = cause(node, nid, args);
                // Standard error is closed: there is no other place to report the error.
                let _unprinted = writeln!(io::stderr(), "finerail: {error}{cause}");
                Step::Failed(error)
            }
        };
        if asked.and_then(|()| tell.send(step)).is_err() {
            return;
        }
    }
}

/// Collects the results until all pings are done or the user interrupts; the second value is then `false`.
/// Reports a node that has not answered for [`SILENCE`].
fn collect(
    args: &PingArgs,
    told: &Receiver<Step>,
    interrupted: &AtomicBool,
) -> anyhow::Result<(Vec<Outcome>, bool)> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut waiting: Option<(Nid, Instant)> = None;
    while !interrupted.load(Ordering::Relaxed) {
        if let Some((nid, _)) = waiting.take_if(|(_, since)| since.elapsed() > SILENCE) {
            complaint(&format!(
                "waiting for {nid}, {} s at most (--timeout)",
                args.timeout
            ));
        }
        let step = match told.recv_timeout(LOOK) {
            Ok(step) => step,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok((outcomes, true)),
        };
        waiting = None;
        match (step, outcomes.last_mut()) {
            (Step::Unable(error), _) => return Err(error),
            (Step::Asked(nid), last) => {
                waiting = Some((nid, Instant::now()));
                if last.is_none_or(|last| last.nid != nid) {
                    outcomes.push(Outcome {
                        nid,
                        replies: Vec::new(),
                        failures: Vec::new(),
                    });
                }
            }
            (Step::Answered(reply), Some(last)) => last.replies.push(reply),
            (Step::Failed(error), Some(last)) => last.failures.push(error),
            (_, None) => {}
        }
    }
    Ok((outcomes, false))
}

/// How long a node may take to answer before its silence is reported.
const SILENCE: Duration = Duration::from_secs(2);
/// The interval at which interruption is checked.
const LOOK: Duration = Duration::from_millis(50);

/// Returns what the failed connection attempts show beyond the error number, with advice.
fn cause(node: &Node, nid: Nid, args: &PingArgs) -> String {
    if nid.net().lnd == LndType::O2IB
        && let Some(unreached) = Unreached::of(node)
    {
        return format!(" ({unreached})");
    }
    let port = args.transport.port;
    let failures = node.stats().socklnd.dial_failures;
    let text = match failures.keys().next().map(String::as_str) {
        Some("refused") => format!("no process listens on port {port} there"),
        Some("source_port_privilege") => {
            "source ports below 1024 need CAP_NET_BIND_SERVICE or root".to_owned()
        }
        Some("disconnected") if args.privileged || args.config.is_some() => {
            "it closed the connection during the handshake: it has no interface with this NID (perhaps \
             another network or another address), or is no LNet node"
                .to_owned()
        }
        Some("disconnected") => {
            "it closed the connection during the handshake: it may accept only privileged source \
             ports (--privileged), have no interface with this NID (perhaps another network or another \
             address), or be no LNet node"
                .to_owned()
        }
        Some("wrong_peer") => "the node there has another NID".to_owned(),
        Some(other) => other.replace('_', " "),
        None => return String::new(),
    };
    format!(" ({text})")
}

/// Prints each answer at once, if there are several. The lines go to standard error, so that standard output
/// has only the document.
fn progress_line(args: &PingArgs, nid: Nid, reply: &PingReply) {
    if args.count > 1 && !args.json {
        let line = format!("{nid}: {:.3} ms", milliseconds(reply.round_trip));
        let _unprinted = writeln!(io::stderr(), "{line}");
    }
}

fn start_node(args: &PingArgs, target: Nid) -> anyhow::Result<Node> {
    let options = args.transport.options();
    let privileged = NodeOptions {
        source_ports: Some(SourcePorts::Privileged),
        ..args.transport.options()
    };
    if let Some(path) = &args.config {
        let options = NodeOptions {
            progress: Progress::Caller,
            accept: Some(AcceptMode::None),
            ..if args.privileged { privileged } else { options }
        };
        return Ok(lnet_noded::start(&read_config(path)?, options)?.into_node());
    }
    let base = if args.privileged {
        privileged
    } else {
        args.transport.unprivileged_options()
    };
    let nid = endpoint_nid(target, args.source, args.transport.port)?;
    start_endpoint(nid, base).context("cannot start the endpoint that sends the ping")
}

/// Starts an endpoint that only dials, with one interface.
pub(crate) fn start_endpoint(nid: Nid, base: NodeOptions) -> anyhow::Result<Node> {
    let ni = NiConfig {
        nid: Some(nid),
        ..NiConfig::default()
    };
    let net = NetConfig {
        net: nid.net(),
        nis: vec![ni],
    };
    // The endpoint ends soon, so peers must not push to it.
    let globals = Globals {
        discovery: Some(false),
        ..Globals::default()
    };
    let config = Config {
        nets: vec![net],
        globals,
        ..Config::default()
    };
    let options = NodeOptions {
        progress: Progress::Caller,
        accept: Some(AcceptMode::None),
        one_shot: true,
        ..base
    };
    Ok(lnet_noded::start(&config, options)?.into_node())
}

/// Returns the NID of an endpoint that dials the target: that of `source`, or one with the local address that the system
/// would use.
pub(crate) fn endpoint_nid(target: Nid, source: Option<Nid>, port: u16) -> anyhow::Result<Nid> {
    if !has_driver(target.net()) {
        bail!(
            "{target} is on neither a tcp nor an o2ib network; only these can be reached directly (to use a node with routes: --config)"
        );
    }
    spare_kernel_node(target, source)?;
    match (source, target.ip()) {
        (Some(source), _) if source == target => {
            bail!("--source {source} is the node to ping: the endpoint would answer itself")
        }
        (Some(source), _) => Ok(source),
        (None, Some(address)) if target.net().lnd == LndType::O2IB && is_here(address) => {
            bail!("{target} is this machine: give another address of it with --source")
        }
        (None, Some(address)) => Ok(Nid::from_ip(target.net(), endpoint_address(address, port)?)),
        (None, None) => bail!("{target} has no address"),
    }
}

/// Returns whether the kernel may have a node on o2ib networks.
pub(crate) fn has_kernel_node() -> bool {
    Path::new(KERNEL_MODULE).exists()
}

/// Refuses to dial over RDMA from an address that the kernel's node may have, unless the user named the address.
pub(crate) fn spare_kernel_node(target: Nid, source: Option<Nid>) -> anyhow::Result<()> {
    let may_be_its = source.is_none() && has_kernel_node();
    if may_be_its && target.net().lnd == LndType::O2IB {
        bail!(
            "the kernel module ko2iblnd runs here, and its peers would take an endpoint at its address for a restart and \
             close its connections: use `lnetctl ping {target}`, or an address without a node with --source"
        );
    }
    Ok(())
}

/// Returns the local address that the system would use, but never the target's address. For an address of this
/// machine the system would choose the same address, and then the endpoint would answer instead of the node.
pub(crate) fn endpoint_address(target: IpAddr, port: u16) -> anyhow::Result<IpAddr> {
    let usual = local_address(target, port)?;
    if usual != target {
        return Ok(usual);
    }
    match target {
        IpAddr::V4(Ipv4Addr::LOCALHOST) => Ok(Ipv4Addr::new(127, 0, 0, 2).into()),
        IpAddr::V4(_) => Ok(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(Ipv6Addr::LOCALHOST) => {
            bail!("{target} is this machine: give another address of it with --source")
        }
        IpAddr::V6(_) => Ok(Ipv6Addr::LOCALHOST.into()),
    }
}

/// Returns the address of a local NID that was given as `--source`.
pub(crate) fn own_address(source: Nid) -> anyhow::Result<IpAddr> {
    let Some(address) = source.ip() else {
        bail!("--source {source} has no IP address");
    };
    if !is_here(address) {
        bail!(
            "--source {source} is not an address of this machine: see `ip address` for those that are"
        );
    }
    Ok(address)
}

/// Returns true if this machine has the address.
pub(crate) fn is_here(address: IpAddr) -> bool {
    let bound = UdpSocket::bind(SocketAddr::new(address, 0));
    !bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

/// Looks up the local address in the routing table: connecting a datagram socket sends nothing.
fn local_address(target: IpAddr, port: u16) -> anyhow::Result<IpAddr> {
    let any: IpAddr = match target {
        IpAddr::V4(_) => [0u8; 4].into(),
        IpAddr::V6(_) => [0u8; 16].into(),
    };
    let address = UdpSocket::bind(SocketAddr::new(any, 0)).and_then(|socket| {
        socket.connect(SocketAddr::new(target, port))?;
        socket.local_addr()
    });
    Ok(address
        .with_context(|| format!("this machine has no route to {target}"))?
        .ip())
}

/// Formats the answers like `lnetctl`. With `with_times`, adds the round-trip times.
fn yaml(outcomes: &[Outcome], with_times: bool, question: Question) -> String {
    let mut text = String::new();
    if outcomes.iter().any(|outcome| !outcome.replies.is_empty()) {
        text.push_str(match question {
            Question::Ping => "ping:\n",
            Question::Discover => "discover:\n",
        });
    }
    for outcome in outcomes {
        let Some(reply) = outcome.replies.last() else {
            continue;
        };
        match question {
            Question::Ping => push_reply(&mut text, outcome.nid, false, reply),
            Question::Discover if is_multi_rail(reply) => {
                push_reply(&mut text, reply.primary_nid, true, reply);
            }
            Question::Discover => push_reply(&mut text, outcome.nid, false, reply),
        }
        if with_times {
            push_times(&mut text, outcome);
        }
    }
    text
}

/// Returns whether a node that runs discovery would consider the peer Multi-Rail.
fn is_multi_rail(reply: &PingReply) -> bool {
    let both = PingFeatures::MULTI_RAIL | PingFeatures::DISCOVERY;
    reply.features.contains(both)
}

fn push_reply(text: &mut String, nid: Nid, multi_rail: bool, reply: &PingReply) {
    text.push_str(&format!(
        "- primary nid: {nid}\n  Multi-Rail: {multi_rail}\n  peer_ni:\n  - nid: {nid}\n"
    ));
    for ni in reply.nis.iter().filter(|ni| ni.nid != nid) {
        text.push_str(&format!("  - nid: {}\n", ni.nid));
    }
}

fn push_times(text: &mut String, outcome: &Outcome) {
    let times = Times::of(outcome);
    // Writing to a `String` cannot fail.
    let _ok = writeln!(
        text,
        "  round trip:\n    sent: {}\n    received: {}\n    min_ms: {:.3}\n    avg_ms: {:.3}\n    max_ms: {:.3}",
        times.sent, times.received, times.min_ms, times.avg_ms, times.max_ms
    );
}

#[derive(Serialize)]
struct Times {
    sent: usize,
    received: usize,
    min_ms: f64,
    avg_ms: f64,
    max_ms: f64,
}

impl Times {
    fn of(outcome: &Outcome) -> Self {
        let times: Vec<f64> = outcome
            .replies
            .iter()
            .map(|reply| milliseconds(reply.round_trip))
            .collect();
        let received = times.len();
        Self {
            sent: received + outcome.failures.len(),
            received,
            min_ms: times.iter().copied().fold(f64::INFINITY, f64::min),
            avg_ms: times.iter().sum::<f64>() / received.max(1) as f64,
            max_ms: times.iter().copied().fold(0.0, f64::max),
        }
    }
}

#[derive(Serialize)]
struct Document {
    nid: String,
    primary_nid: Option<String>,
    features: Option<u32>,
    router: Option<bool>,
    multi_rail: Option<bool>,
    nids: Vec<String>,
    round_trip: Option<Times>,
    errors: Vec<String>,
}

fn json(outcomes: &[Outcome]) -> anyhow::Result<String> {
    let documents: Vec<Document> = outcomes.iter().map(document).collect();
    Ok(serde_json::to_string_pretty(&documents)? + "\n")
}

fn document(outcome: &Outcome) -> Document {
    let last = outcome.replies.last();
    Document {
        nid: outcome.nid.to_string(),
        primary_nid: last.map(|reply| reply.primary_nid.to_string()),
        features: last.map(|reply| reply.features.bits()),
        router: last.map(|reply| !reply.features.contains(PingFeatures::RTE_DISABLED)),
        multi_rail: last.map(is_multi_rail),
        nids: last
            .map(|reply| reply.nis.iter().map(|ni| ni.nid.to_string()).collect())
            .unwrap_or_default(),
        round_trip: last.map(|_| Times::of(outcome)),
        errors: outcome.failures.iter().map(ToString::to_string).collect(),
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

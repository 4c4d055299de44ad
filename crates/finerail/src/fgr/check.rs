//! `finerail fgr check`: proves that a site routes as it should, now and after every single failure.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, ensure};
use fgr::check::{Direction, FailureKind, Finding, Outage, Report, Rollout, check, rollout};
use fgr::config::{AfterReturn, Nids, Site, Timing};
use fgr::diff::differences;
use lnet_config::{NetConfig, NiConfig};
use lnet_types::Net;
use lnet_types::expr::NetExpr;

use super::output::counted;
use super::site::{one_site, read_directory, read_files, read_parts, timing};
use crate::common::{NEGATIVE, print_bytes};

/// The limit of printed findings of each severity.
const SHOWN: usize = 50;

/// Arguments of `finerail fgr check`.
#[derive(clap::Args)]
#[command(after_help = "\
The command proves that
  - every client reaches every net through a primary router and a backup;
  - requests of clients and messages that servers start arrive now, after the failure of any single
    router, blade or router adapter, and when it returns;
  - every route is up;
  - in chains of routers, all of this holds over every router on the way. LNet does not notice the
    failure of an adapter behind the first router of a chain: such failures are warnings;
  - the documents of single nodes (nodes/) agree with the classes;
  - the configurations can be rolled out in an order in which no message is lost.
It also prints how long a failure stays unnoticed, and how many pairs of a client and a server lose \
messages during that time.

Exit code: 0 all of this is proved, 1 it is not, 2 wrong inputs.

Examples:
  finerail fgr config --machine synthetic:6x8x4:2x3x1 --client-net tcp100 -o conf
  finerail fgr check conf
  finerail fgr check --server-nets 'o2ib[201-236]' exports/*.yaml --planned conf
")]
pub(crate) struct CheckArgs {
    /// A directory of 'finerail fgr config', or configurations of nodes with their NIDs
    #[arg(value_name = "DIR|FILE", required = true)]
    paths: Vec<PathBuf>,
    /// Nets of the servers, if files are given: o2ib201 or o2ib[201-236]
    #[arg(long, value_name = "NETS", value_delimiter = ' ')]
    server_nets: Vec<NetExpr>,
    /// Options of the lnet module of the nodes, if files are given: they set how nodes check their
    /// gateways; without this file the defaults of LNet
    #[arg(long, value_name = "FILE")]
    module_options: Option<PathBuf>,
    /// Also compare files with this plan: a directory of 'finerail fgr config'
    #[arg(long, value_name = "DIR")]
    planned: Option<PathBuf>,
    /// The directory of the active configuration; without it the nodes have no routes yet
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

/// Runs `finerail fgr check`.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let (mut site, disagreements) = match &args.paths[..] {
        [directory] if directory.is_dir() => read_parts(directory)?,
        _ if args.server_nets.is_empty() => {
            bail!("give the nets of the servers, such as --server-nets 'o2ib[201-236]'")
        }
        files => (read_files(files, &args.server_nets)?, Vec::new()),
    };
    if let Some(path) = &args.module_options {
        site.timing = timing(path)?;
    }
    let planned = args.planned.as_deref().map(read_directory).transpose()?;
    if let (Some(planned), Some(path)) = (&planned, &args.planned) {
        one_of_plan(planned, &site, path)?;
    }
    let old = match &args.from {
        Some(directory) => read_directory(directory)?,
        None => Site::default(),
    };
    if let Some(directory) = &args.from {
        one_site([(&args.paths[0], &site), (directory, &old)])?;
    }
    let report = check(&site);
    let shared = site.shared_nids();
    let mut text = String::new();
    list("error", &shared, &mut text)?;
    list("error: nodes", &disagreements, &mut text)?;
    findings(&report, shared.is_empty(), &mut text)?;
    let as_planned = match &planned {
        Some(planned) => compare(planned, &site, &mut text)?,
        None => true,
    };
    let order = rollout(&old, &site);
    steps(&order, &mut text)?;
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    let holds = disagreements.is_empty()
        && shared.is_empty()
        && report.is_proved()
        && report.pairs > 0
        && as_planned
        && order.open.is_empty();
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NEGATIVE)
    })
}

/// Writes what was found and the verdict. Of a site in which nodes share NIDs nothing is proved.
fn findings(report: &Report, is_clear: bool, out: &mut String) -> std::fmt::Result {
    let (errors, doubts): (Vec<&Finding>, Vec<&Finding>) = report
        .findings
        .iter()
        .partition(|finding| finding.is_error());
    list("error", &errors, out)?;
    let is_unwatched = |finding: &&Finding| matches!(finding, Finding::Unwatched { .. });
    let (unwatched, others): (Vec<&Finding>, Vec<&Finding>) =
        doubts.iter().copied().partition(is_unwatched);
    list("warning", &others, out)?;
    list("warning", &adapters(&unwatched), out)?;
    if report.pairs == 0 {
        return writeln!(
            out,
            "nothing to prove: no client and server are connected by a router"
        );
    }
    let verdict = match (errors.is_empty() && is_clear, unwatched.first()) {
        (false, _) => "not proved",
        (true, None) => {
            "proved: requests and what servers start arrive, now and after any single failure"
        }
        (true, Some(_)) => {
            "proved: requests and what servers start arrive, now and after the failure of any single router; not after \
             the failures of adapters in the warnings"
        }
    };
    let (pairs, states) = (
        counted(report.pairs, "pair"),
        counted(report.states, "state"),
    );
    writeln!(out, "{verdict} ({pairs}, {states} of classes)")?;
    outages(report, out)
}

/// Joins the failures of adapters in chains that lose the same messages.
fn adapters(unwatched: &[&Finding]) -> Vec<String> {
    let mut failures: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for finding in unwatched {
        if let Finding::Unwatched {
            client,
            server,
            net,
            direction,
            failure,
        } = finding
        {
            let what = format!("{client} and {server} on {net}: {direction}");
            failures.entry(what).or_default().push(failure.to_string());
        }
    }
    let words = failures.into_iter().map(|(what, failures)| {
        let (count, first) = (failures.len(), &failures[0]);
        let adapters = match count {
            1 => format!("the {first}"),
            _ => format!("one of {count} adapters, such as the {first}"),
        };
        format!(
            "{what} are lost from the failure of {adapters}, until it is repaired: LNet watches the far side of a router \
             over one hop only"
        )
    });
    words.collect()
}

/// Writes what failures cost until the nodes notice them.
fn outages(report: &Report, out: &mut String) -> std::fmt::Result {
    let Timing {
        check_interval: interval,
        ping_timeout,
        transaction_timeout,
    } = report.timing;
    writeln!(
        out,
        "gateways are checked every {interval} s; for one that hangs, kernel nodes wait {transaction_timeout} s and \
         Finerail {ping_timeout} s; lost by the worst failure:"
    )?;
    for kind in FailureKind::ALL {
        for direction in Direction::ALL {
            let mut outages = report.outages.iter();
            let of =
                |outage: &&Outage| (outage.failure.kind, outage.direction) == (kind, direction);
            if let Some(outage) = outages.find(of) {
                line(outage, out)?;
            }
        }
    }
    writeln!(
        out,
        "  a client, a server, or the adapter of one: its own messages until it is repaired"
    )?;
    let AfterReturn {
        finerail,
        finerail_unlimited,
    } = report.timing.after_return();
    writeln!(
        out,
        "parts that return are used again within {interval} s; after the return of a silent adapter messages may be late \
         or lost:\n  for {finerail} s with Finerail on Linux 6.15 and later; for {finerail_unlimited} s on older kernels, \
         which cannot limit the pauses of TCP; kernel nodes dial again up to a minute later"
    )?;
    start(report, out)
}

/// Writes what the first clients wait for when all nodes start.
fn start(report: &Report, out: &mut String) -> std::fmt::Result {
    let (nets, interval) = (report.waits_at_start.len(), report.timing.check_interval);
    if nets == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "at the start, on {}: with kernel routers, servers reach the first client at their next check, within \
         {interval} s, and its first mount waits for this and for its own retry",
        counted(nets, "net")
    )?;
    write!(
        out,
        "  Finerail routers with the files of --per-node ask each other, so that no client waits"
    )?;
    match report.waits_alone.len() {
        0 => writeln!(out),
        alone => writeln!(
            out,
            ", but on {} with a single router",
            counted(alone, "net")
        ),
    }
}

fn line(outage: &Outage, out: &mut String) -> std::fmt::Result {
    let (failure, direction) = (&outage.failure, outage.direction);
    let pairs = counted(outage.pairs, "pair");
    write!(out, "  {failure}: {direction}, {pairs}, ")?;
    match outage.unnoticed {
        Some(unnoticed) => {
            let (shown, kernel, finerail) =
                (unnoticed.shown, unnoticed.kernel(), unnoticed.finerail);
            write!(out, "{shown} s")?;
            match unnoticed.kernel_silent {
                _ if kernel == finerail => write!(out, ", {kernel} s if it fails silently")?,
                power if power < kernel => write!(
                    out,
                    "; silently: kernel nodes {kernel} s ({power} s without power), Finerail {finerail} s"
                )?,
                _ => write!(
                    out,
                    "; silently: kernel nodes {kernel} s, Finerail {finerail} s"
                )?,
            }
            match outage.lasting {
                0 => writeln!(out),
                lasting => writeln!(out, "; {lasting} of them until it is repaired"),
            }
        }
        None => writeln!(out, "until it is repaired"),
    }
}

fn list<T: std::fmt::Display>(kind: &str, found: &[T], out: &mut String) -> std::fmt::Result {
    for finding in found.iter().take(SHOWN) {
        writeln!(out, "{kind}: {finding}")?;
    }
    match found.len().checked_sub(SHOWN) {
        Some(more @ 1..) => writeln!(out, "{kind}: and {more} more"),
        _ => Ok(()),
    }
}

/// Refuses a plan that has none of the nodes, as one of another site has none.
fn one_of_plan(planned: &Site, site: &Site, path: &Path) -> anyhow::Result<()> {
    let nids = site.nodes.iter().flat_map(|node| node.nids.iter());
    ensure!(
        !planned.nodes_by_nid(nids).is_empty(),
        "{} is not a plan of this site: no node of it has a NID of these nodes",
        path.display()
    );
    Ok(())
}

/// Returns whether the nodes route as planned, and writes the differences of those that do not.
fn compare(planned: &Site, site: &Site, out: &mut String) -> Result<bool, std::fmt::Error> {
    let mut as_planned = true;
    let by_nid = planned.nodes_by_nid(site.nodes.iter().flat_map(|node| node.nids.iter()));
    for node in &site.nodes {
        let Some(intended) = node.nids.iter().find_map(|nid| by_nid.get(&nid)) else {
            as_planned = false;
            writeln!(
                out,
                "error: {}: the plan has no node with its NIDs",
                node.name
            )?;
            continue;
        };
        // Only routing is compared: nodes were read without buffers and tunables, and interfaces by their NIDs.
        let nids = intended.nids.clone();
        let mut intended = planned.plan_of(intended, false);
        intended.buffers = lnet_config::Buffers::default();
        intended.nets = by_nids(&nids);
        let mut running = site.class_of(node).document();
        running.nets = by_nids(&node.nids);
        let found = differences(&intended, &running);
        for difference in found.iter().filter(|found| !found.is_left_alone) {
            as_planned = false;
            writeln!(out, "error: {}: {}", node.name, difference.what)?;
        }
    }
    Ok(as_planned)
}

/// Returns the nets of these NIDs.
fn by_nids(nids: &Nids) -> Vec<NetConfig> {
    let mut nets: BTreeMap<Net, NetConfig> = BTreeMap::new();
    for nid in nids.iter() {
        let net = nets.entry(nid.net()).or_insert_with(|| NetConfig {
            net: nid.net(),
            nis: Vec::new(),
        });
        net.nis.push(NiConfig {
            nid: Some(nid),
            ..NiConfig::default()
        });
    }
    nets.into_values().collect()
}

fn steps(order: &Rollout, out: &mut String) -> std::fmt::Result {
    writeln!(out, "roll-out, nodes of a step in any order:")?;
    for (number, step) in (1..).zip(&order.steps) {
        let nodes = counted(step.nodes, step.role.name());
        match &step.class {
            Some(class) => writeln!(out, "  {number}. {nodes} of {class}")?,
            None => writeln!(out, "  {number}. {nodes}")?,
        }
    }
    let open: Vec<&Finding> = order.open.iter().collect();
    list("error: during the roll-out", &open, out)
}

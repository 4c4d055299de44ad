//! `finerail fgr diff`: reports the differences between running nodes and the plan, and the commands that
//! remove them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use fgr::config::{NodeRole, Site, SiteNode, nids};
use fgr::diff::{Difference, differences};
use lnet_config::Config;
use lnet_types::Net;

use super::live::{self, Live};
use super::output::counted;
use super::site::{has_documents, one_site, read_directory};
use crate::common::{NEGATIVE, print_bytes, read_config};

/// Arguments of `finerail fgr diff`.
#[derive(clap::Args)]
#[command(after_help = "\
A node is found in the plan by its NIDs. Differences of interfaces, their tunables, peers, routes, selection \
rules and parameters are printed as comments; the commands that remove them follow. Of tunables those of the \
plan are compared. Peers are compared if the plan has documents of single nodes (config --per-node). Nodes \
with the kernel module have no control socket: give their exports.

Example:
  lnetctl export > nid00020.yaml
  finerail fgr diff conf nid00020.yaml
  finerail fgr config --machine machine.yaml --failed c7-2c2s0 -o today
  finerail fgr diff today conf          # the commands for the time while that blade is down
  finerail fgr diff conf --live /run/finerail/*.sock --apply

--apply changes nodes in an order of steps without losses, and none if there is no such order; --despite-losses \
changes them all the same, and the losses are named.

Exit code: 0 nothing differs, 1 something differs, 2 wrong inputs.
")]
pub(crate) struct DiffArgs {
    /// The plan: a directory of 'finerail fgr config'
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Outputs of 'lnetctl export' of nodes; or a second plan: prints the commands that change it into
    /// the first
    #[arg(value_name = "EXPORT", required = true)]
    exports: Vec<PathBuf>,
    /// The arguments after the plan are control sockets of running nodes
    #[arg(long)]
    live: bool,
    /// With --live: change the nodes into the plan, first those whose change loses no message, and compare each node
    /// again after its commands. The same command continues a roll-out that ended early
    #[arg(long, requires = "live")]
    apply: bool,
    /// With --apply: change the nodes even if messages are lost during every order of steps. The losses are named
    #[arg(long, requires = "apply")]
    despite_losses: bool,
}

/// Prints the differences between two plans. Nodes with the same differences share one entry.
fn plans(planned: &Site, other: &Site, with_peers: bool) -> anyhow::Result<ExitCode> {
    let others: BTreeMap<&str, &SiteNode> = by_name(other);
    let mut groups: BTreeMap<(usize, usize, String), Vec<&str>> = BTreeMap::new();
    let mut text = String::new();
    for node in &planned.nodes {
        match others.get(node.name.as_str()) {
            Some(is) => {
                let own = of_node((planned, node), (other, is), with_peers)?;
                let group = groups.entry((node.class, is.class, own)).or_default();
                group.push(&node.name);
            }
            None => writeln!(text, "# {}: missing", node.name)?,
        }
    }
    let known = by_name(planned);
    for node in other
        .nodes
        .iter()
        .filter(|node| !known.contains_key(node.name.as_str()))
    {
        writeln!(text, "# {}: not in the plan", node.name)?;
    }
    for ((class, is, own), nodes) in groups {
        let (class, is) = (&planned.classes[class], &other.classes[is]);
        let mut wanted = class.document();
        let intervals = &mut wanted.globals;
        intervals.alive_router_check_interval = Some(planned.timing.check_interval);
        intervals.router_ping_timeout = Some(planned.timing.ping_timeout);
        let mut document = is.document();
        let intervals = &mut document.globals;
        intervals.alive_router_check_interval = Some(other.timing.check_interval);
        intervals.router_ping_timeout = Some(other.timing.ping_timeout);
        let found = differences(&wanted, &document);
        if found.is_empty() && own.is_empty() {
            continue;
        }
        let (count, first) = (nodes.len(), nodes[0]);
        writeln!(
            text,
            "# {} ({}, such as {first}): {}",
            counted(count, "node"),
            class.name,
            if count == 1 { "differs" } else { "differ" }
        )?;
        text.push_str(&own);
        write_differences(found, &mut text)?;
    }
    let differs = !text.is_empty();
    if !differs {
        let nodes = counted(planned.nodes.len(), "node");
        writeln!(text, "# no difference: {nodes}")?;
    }
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(if differs {
        ExitCode::from(NEGATIVE)
    } else {
        ExitCode::SUCCESS
    })
}

/// Returns what differs between two plans of one node beside its class: its addresses and its peers.
fn of_node(
    (planned, node): (&Site, &SiteNode),
    (other, is): (&Site, &SiteNode),
    with_peers: bool,
) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    if node.nids != is.nids {
        let nets =
            |node: &SiteNode| -> BTreeSet<Net> { node.nids.iter().map(|nid| nid.net()).collect() };
        let common: BTreeSet<Net> = nets(node).intersection(&nets(is)).copied().collect();
        let on_common = |node: &SiteNode| -> Vec<String> {
            let nids = node.nids.iter().filter(|nid| common.contains(&nid.net()));
            nids.map(|nid| nid.to_string()).collect()
        };
        let (wanted, is) = (on_common(node), on_common(is));
        if wanted != is {
            let (wanted, is) = (wanted.join(" "), is.join(" "));
            writeln!(
                text,
                "# NIDs {is}, planned {wanted}: change the addresses of the interfaces"
            )?;
        }
    }
    if with_peers && planned.class_of(node).role == NodeRole::Router {
        let peers = |site: &Site, node: &SiteNode| Config {
            peers: site.plan_of(node, true).peers,
            ..Config::default()
        };
        write_differences(
            differences(&peers(planned, node), &peers(other, is)),
            &mut text,
        )?;
    }
    Ok(text)
}

fn by_name(site: &Site) -> BTreeMap<&str, &SiteNode> {
    site.nodes
        .iter()
        .map(|node| (node.name.as_str(), node))
        .collect()
}

/// Writes the verdict on one node, and its differences. Returns whether it is not as planned.
pub(super) fn write_node(
    name: &str,
    found: Vec<Difference>,
    text: &mut String,
) -> Result<bool, std::fmt::Error> {
    let differs = found.iter().any(|found| !found.is_left_alone);
    let verdict = if differs { "differs" } else { "as planned" };
    writeln!(text, "# {name}: {verdict}")?;
    write_differences(found, text)?;
    Ok(differs)
}

fn write_differences(found: Vec<Difference>, text: &mut String) -> std::fmt::Result {
    for difference in found {
        writeln!(text, "# {}", difference.what)?;
        for command in difference.commands {
            writeln!(text, "{command}")?;
        }
    }
    Ok(())
}

/// Runs `finerail fgr diff`.
pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let site = read_directory(&args.plan)?;
    let with_peers = has_documents(&args.plan);
    if args.live {
        let how = match (args.apply, args.despite_losses) {
            (false, _) => Live::Show,
            (true, false) => Live::Apply,
            (true, true) => Live::ApplyDespiteLosses,
        };
        return live::run(&site, with_peers, &args.exports, how);
    }
    if let [directory] = &args.exports[..]
        && directory.is_dir()
    {
        let with_peers = with_peers && has_documents(directory);
        let other = read_directory(directory)?;
        one_site([(&args.plan, &site), (directory, &other)])?;
        return plans(&site, &other, with_peers);
    }
    let mut text = String::new();
    let mut differs = false;
    let running = args
        .exports
        .iter()
        .map(|path| Ok((path, read_config(path)?)));
    let running: Vec<(&PathBuf, Config)> = running.collect::<anyhow::Result<_>>()?;
    let by_nid = site.nodes_by_nid(running.iter().flat_map(|(_, config)| nids(config)));
    for (path, running) in &running {
        let Some(node) = nids(running).iter().find_map(|nid| by_nid.get(nid)) else {
            bail!(
                "{}: the plan has no node with one of its NIDs",
                path.display()
            );
        };
        let class = site.class_of(node);
        let found = differences(&site.plan_of(node, with_peers), running);
        differs |= write_node(&format!("{} ({})", node.name, class.name), found, &mut text)?;
    }
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(if differs {
        ExitCode::from(NEGATIVE)
    } else {
        ExitCode::SUCCESS
    })
}

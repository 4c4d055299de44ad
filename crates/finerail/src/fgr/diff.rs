//! `finerail fgr diff`: reports the differences between running nodes and the plan, and the commands that
//! remove them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use fgr::config::{Site, SiteNode, nids};
use fgr::diff::{Difference, differences};
use lnet_config::Config;

use super::live;
use super::site::read_directory;
use crate::common::{NEGATIVE, print_bytes, read_config};

/// Arguments of `finerail fgr diff`.
#[derive(clap::Args)]
#[command(after_help = "\
A node is found in the plan by its NIDs. Differences of nets, routes, selection rules and parameters are \
printed as comments; the commands that remove them follow. Nodes with the kernel module have no control \
socket: give their exports.

Example:
  lnetctl export > nid00020.yaml
  finerail fgr diff conf nid00020.yaml
  finerail fgr config --machine machine.yaml --failed c7-2c2s0 -o today
  finerail fgr diff today conf          # the commands for the time while that blade is down
  finerail fgr diff conf --live /run/finerail/*.sock --apply

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
}

/// Prints the differences between two plans. Nodes with the same differences share one entry.
fn plans(planned: &Site, other: &Site) -> anyhow::Result<ExitCode> {
    let others: BTreeMap<&str, &SiteNode> = by_name(other);
    let mut groups: BTreeMap<(usize, usize), Vec<&str>> = BTreeMap::new();
    let mut text = String::new();
    for node in &planned.nodes {
        match others.get(node.name.as_str()) {
            Some(is) => groups
                .entry((node.class, is.class))
                .or_default()
                .push(&node.name),
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
    for ((class, is), nodes) in groups {
        let (class, is) = (&planned.classes[class], &other.classes[is]);
        let found = differences(&class.document(), &is.document());
        if found.is_empty() {
            continue;
        }
        let (count, first) = (nodes.len(), nodes[0]);
        writeln!(
            text,
            "# {count} nodes ({}, such as {first}): differs",
            class.name
        )?;
        write_differences(found, &mut text)?;
    }
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(if text.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NEGATIVE)
    })
}

fn by_name(site: &Site) -> BTreeMap<&str, &SiteNode> {
    site.nodes
        .iter()
        .map(|node| (node.name.as_str(), node))
        .collect()
}

pub(super) fn write_differences(found: Vec<Difference>, text: &mut String) -> std::fmt::Result {
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
    if args.live {
        return live::run(&site, &args.exports, args.apply);
    }
    if let [directory] = &args.exports[..]
        && directory.is_dir()
    {
        return plans(&site, &read_directory(directory)?);
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
        let found = differences(&class.document(), running);
        differs |= found.iter().any(|found| !found.commands.is_empty());
        let verdict = if found.is_empty() {
            "as planned"
        } else {
            "differs"
        };
        writeln!(text, "# {} ({}): {verdict}", node.name, class.name)?;
        write_differences(found, &mut text)?;
    }
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(if differs {
        ExitCode::from(NEGATIVE)
    } else {
        ExitCode::SUCCESS
    })
}

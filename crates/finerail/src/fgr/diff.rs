//! `finerail fgr diff`: what differs on running nodes, and what to run there.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use fgr::config::nids;
use fgr::diff::differences;

use super::site::read_directory;
use crate::common::{NOT_SO, print_bytes, read_config};

/// Arguments of `finerail fgr diff`.
#[derive(clap::Args)]
#[command(after_help = "\
A node is found in the plan by its NIDs. Differences are comments, the commands to run follow them.
Exit code 0 when nothing differs, 1 when something does, 2 for inputs that are wrong.

Example:
  lnetctl export > nid00020.yaml
  finerail fgr diff conf nid00020.yaml
")]
pub(crate) struct DiffArgs {
    /// The plan: a directory that 'finerail fgr config' wrote
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// What 'lnetctl export' printed on nodes
    #[arg(value_name = "EXPORT", required = true)]
    exports: Vec<PathBuf>,
}

/// Runs `finerail fgr diff`.
pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let site = read_directory(&args.plan)?;
    let mut text = String::new();
    let mut differs = false;
    let by_nid = site.nodes_by_nid();
    for path in &args.exports {
        let running = read_config(path)?;
        let Some(node) = nids(&running).iter().find_map(|nid| by_nid.get(nid)) else {
            bail!(
                "{}: the plan has no node with one of its NIDs",
                path.display()
            );
        };
        let class = site.class_of(node);
        let found = differences(&class.config, &running);
        differs |= found.iter().any(|found| !found.commands.is_empty());
        let verdict = if found.is_empty() {
            "as planned"
        } else {
            "differs"
        };
        writeln!(text, "# {} ({}): {verdict}", node.name, class.name)?;
        for difference in found {
            writeln!(text, "# {}", difference.what)?;
            for command in difference.commands {
                writeln!(text, "{command}")?;
            }
        }
        for rule in &class.rules {
            writeln!(
                text,
                "# planned, see 'lnetctl udsp show': lnetctl udsp add {rule}"
            )?;
        }
    }
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(if differs {
        ExitCode::from(NOT_SO)
    } else {
        ExitCode::SUCCESS
    })
}

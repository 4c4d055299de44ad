//! `finerail fgr chain`: plans a site whose clusters and servers are several routers apart.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use comfy_table::{Table, presets};
use fgr::chain::{Chain, Way, read_chain};
use fgr::config::Timing;

use super::config::write_site;
use crate::common::print_bytes;
use crate::machine::read;

/// Arguments of `finerail fgr chain`.
#[derive(clap::Args)]
#[command(after_help = "\
The description lists groups of equal nodes, each with its role and its nets:
  site: laboratory
  rates: 'measured: lst with 8 threads'
  groups:
    - nodes: cn[1-3]
      role: client
      on: [{net: o2ib1, first: 192.168.128.101, interface: ib0, rate: 12.5}]
    - nodes: cr[4-5]
      role: router
      on:
        - {net: o2ib1, first: 192.168.128.4, interface: ib0, rate: 12.5}
        - {net: o2ib200, first: 172.9.3.4, interface: ib1, rate: 25, tunables: {peer_credits: 32}}
    - nodes: oss[1-2]
      role: server
      on: [{net: o2ib200, first: 172.9.3.101, interface: ib0, rate: 25}]
first is the address of the first node, rate the GB/s of a node on that net, over all its adapters there. \
rates is optional and says where they come from: published, measured or assumed, and the source. A group may also have tunables and lnd-tunables on a net, with the keys of a configuration.

Each node gets routes to every net by all routers on a shortest way, with equal priority: LNet shares the \
messages equally. The output shows each stage with what its routers carry together; a router counts with \
its slower side.

Example:
  finerail fgr chain site.yaml -o conf && finerail fgr check conf

Exit code: 0 every cluster has a way to every net of servers, 1 one has none, 2 wrong inputs.
")]
pub(crate) struct ChainArgs {
    /// The description of the site
    #[arg(value_name = "FILE")]
    site: PathBuf,
    /// Write the configuration of every node into this directory, as 'finerail fgr config' does
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// With --output: also write nodes/NAME.yaml for every node
    #[arg(long, requires = "output")]
    per_node: bool,
}

/// Runs `finerail fgr chain`.
pub(crate) fn run(args: &ChainArgs) -> anyhow::Result<ExitCode> {
    let path = args.site.display().to_string();
    let chain = read_chain(&path, &read(&args.site)?)?;
    let ways = chain.ways();
    print_bytes(in_words(&chain, &ways)?.as_bytes(), &mut io::stdout())?;
    if ways.iter().any(|way| way.stages.is_empty()) {
        return Ok(ExitCode::FAILURE);
    }
    match &args.output {
        Some(directory) => write_site(&chain.site(Timing::PLANNED), directory, args.per_node),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn in_words(chain: &Chain, ways: &[Way]) -> Result<String, std::fmt::Error> {
    let Chain { name, rates, .. } = chain;
    let mut text = format!("{name}\nrates {rates}\n");
    for way in ways {
        let (clients, servers) = (way.clients, way.servers);
        let Some(narrowest) = way.narrowest() else {
            writeln!(text, "error: no way from {clients} to {servers}")?;
            continue;
        };
        let (rate, from, to) = (narrowest.rate, narrowest.from, narrowest.to);
        writeln!(
            text,
            "{clients} to {servers}: {rate} GB/s, limited by the routers between {from} and {to}"
        )?;
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "from",
            "to",
            "routers",
            "count",
            "GB/s",
            "without one",
            "idle GB/s of faster sides",
        ]);
        for stage in &way.stages {
            table.add_row([
                stage.from.to_string(),
                stage.to.to_string(),
                stage.routers.join(","),
                stage.count.to_string(),
                stage.rate.to_string(),
                format!("{:.1}", stage.rate_without_one()),
                stage.idle.to_string(),
            ]);
        }
        writeln!(text, "{}", table.trim_fmt())?;
        for stage in way.stages.iter().filter(|stage| stage.count == 1) {
            let (from, to) = (stage.from, stage.to);
            writeln!(text, "warning: one router alone joins {from} and {to}")?;
        }
    }
    Ok(text)
}

//! `finerail fgr rails`: configures and proves the rails of an AI fabric.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets};
use fgr::hosts;
use fgr::import::{RailHosts, rail_hosts};
use fgr::rails::{LeafLoss, RailFacts, RailForm, RailPlan, RailProof, RailScheme, prove};
use fgr::report::rails_html;
use lnet_types::Net;
use serde::Serialize;

use super::config::write_site;
use super::input::list_or_file;
use super::output::counted;
use super::report::{this_command, write};
use crate::common::{NEGATIVE, print_bytes};
use crate::machine::read;

/// Arguments of `finerail fgr rails`.
#[derive(clap::Args)]
#[command(after_help = "\
For fabrics in which every host has an adapter on each of several rails, such as GPU clusters, and in which \
servers are on the same fabric. The names of adapters and their leaf switches give the rails. The command \
explains nets, interfaces and rules of each rail, proves that clients and servers meet, that no rail is idle and \
no rule without effect, and lists what the end of each leaf switch costs. The exit code is 1 if something is \
not proved.

Host h of the listing, in natural order, has the h-th address after that of --addresses on rail 1, and 65536 more \
on each next rail.

Examples:
  finerail fgr rails fabric.txt --servers 'oss[01-08]' --numa 0,0,0,0,1,1,1,1 -o conf
  finerail fgr rails fabric.txt --servers @servers.txt --form pairs --net o2ib --report rails.html
")]
pub(crate) struct RailsArgs {
    /// The output of ibnetdiscover
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The servers: a host list, or @FILE with one; all other hosts are clients
    #[arg(long, value_name = "LIST")]
    servers: String,
    /// How the rails are kept apart
    #[arg(long, value_enum, value_name = "FORM", default_value_t = FormArg::Nets)]
    form: FormArg,
    /// The net of rail 1, whose successors are the nets of the others; in the form pairs the only net
    #[arg(long, value_name = "NET", default_value = "o2ib1")]
    net: Net,
    /// The address before that of the first host on rail 1; it ends in .0.0
    #[arg(long, value_name = "ADDRESS", default_value = "10.1.0.0")]
    addresses: Ipv4Addr,
    /// The interface of rail 1; the others have the next numbers
    #[arg(long, value_name = "NAME", default_value = "ib0")]
    interface: String,
    /// The NUMA node (CPU partition) beside the adapter and the GPU of each rail
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    numa: Vec<u32>,
    /// Write the configurations into this directory; made if missing
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// With --output, also write nodes/NAME.yaml for every node, with its NIDs
    #[arg(long, requires = "output")]
    per_node: bool,
    /// Write the rails, their proof and the failures of leaf switches as one HTML file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormArg {
    /// A net for each rail
    Nets,
    /// One net; selection rules (lnetctl udsp) lead each rail to a rail of the peer
    Pairs,
}

/// A rail.
#[derive(Serialize)]
struct Rail {
    rail: usize,
    adapters: Vec<String>,
    net: String,
    interface: String,
    numa: Option<u32>,
    leaves: usize,
    clients: usize,
    servers: usize,
}

/// Hosts with the same configuration.
#[derive(Serialize)]
struct Hosts {
    class: String,
    hosts: usize,
    nets: Vec<String>,
    rules: Vec<String>,
}

/// What the end of a leaf switch costs.
#[derive(Serialize)]
struct Leaf {
    leaf: String,
    rails: BTreeSet<usize>,
    hosts: usize,
    pairs_reduced: u64,
    /// Fewest rails that a pair keeps, and its rails before.
    rails_left: Option<(usize, usize)>,
    pairs_lost: u64,
}

/// The whole answer.
#[derive(Serialize)]
struct Answer {
    proved: bool,
    pairs: u64,
    rails: Vec<Rail>,
    classes: Vec<Hosts>,
    findings: Vec<String>,
    /// Rails that carry nothing towards some peers, which lack them.
    uneven: Vec<String>,
    leaves: Vec<Leaf>,
    warnings: Vec<String>,
    skipped: Vec<String>,
}

/// Runs `finerail fgr rails`.
pub(crate) fn run(args: &RailsArgs) -> anyhow::Result<ExitCode> {
    let listing = rail_hosts(&args.file.display().to_string(), &read(&args.file)?)?;
    let servers = hosts(&list_or_file(&args.servers)?)?;
    let scheme = RailScheme {
        form: match args.form {
            FormArg::Nets => RailForm::Nets,
            FormArg::Pairs => RailForm::Pairs,
        },
        net: args.net,
        addresses: args.addresses,
        interface: args.interface.clone(),
        partitions: args.numa.clone(),
    };
    let plan = RailPlan::new(&listing, &servers, &scheme)?;
    let proof = prove(&plan);
    if let Some(path) = &args.report {
        let page = rails_html(&listing, &plan, &proof, &this_command());
        write(path, &page)?;
    }
    let answer = answer(&listing, &plan, proof);
    let text = match args.json {
        true => serde_json::to_string_pretty(&answer)? + "\n",
        false => {
            let mut notes = io::stderr().lock();
            for warning in &answer.warnings {
                writeln!(notes, "warning: {warning}")?;
            }
            for skipped in &answer.skipped {
                writeln!(notes, "skipped: {skipped}")?;
            }
            text(&answer)?
        }
    };
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    if let Some(output) = &args.output {
        write_site(&plan.site, output, args.per_node)?;
    }
    Ok(match answer.proved {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NEGATIVE),
    })
}

fn answer(listing: &RailHosts, plan: &RailPlan, proof: RailProof) -> Answer {
    let rails = plan.facts(listing).into_iter().map(Rail::from);
    let classes = plan
        .site
        .classes
        .iter()
        .enumerate()
        .map(|(index, class)| Hosts {
            class: class.name.clone(),
            hosts: plan
                .site
                .nodes
                .iter()
                .filter(|node| node.class == index)
                .count(),
            nets: class
                .config
                .nets
                .iter()
                .map(|net| net.net.to_string())
                .collect(),
            rules: class.rules.iter().map(ToString::to_string).collect(),
        });
    let leaf = |loss: LeafLoss| Leaf {
        leaf: loss.leaf,
        rails: loss.rails,
        hosts: loss.hosts,
        pairs_reduced: loss.reduced,
        rails_left: loss.left,
        pairs_lost: loss.lost,
    };
    Answer {
        proved: proof.findings.is_empty(),
        pairs: proof.pairs,
        rails: rails.collect(),
        classes: classes.collect(),
        findings: proof.findings.iter().map(ToString::to_string).collect(),
        uneven: proof.uneven.iter().map(ToString::to_string).collect(),
        leaves: proof.leaves.into_iter().map(leaf).collect(),
        warnings: listing.warnings.clone(),
        skipped: listing.skipped.clone(),
    }
}

impl From<RailFacts> for Rail {
    fn from(facts: RailFacts) -> Self {
        Self {
            rail: facts.rail,
            adapters: facts.adapters,
            net: facts.net.to_string(),
            interface: facts.interface,
            numa: facts.partition,
            leaves: facts.leaves,
            clients: facts.clients,
            servers: facts.servers,
        }
    }
}

fn text(answer: &Answer) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    let mut rails = table(&[
        "rail",
        "adapters",
        "net",
        "interface",
        "NUMA",
        "leaves",
        "clients",
        "servers",
    ]);
    for rail in &answer.rails {
        rails.add_row([
            rail.rail.to_string(),
            rail.adapters.join(" "),
            rail.net.clone(),
            rail.interface.clone(),
            rail.numa
                .map_or_else(|| "-".to_owned(), |numa| numa.to_string()),
            rail.leaves.to_string(),
            rail.clients.to_string(),
            rail.servers.to_string(),
        ]);
    }
    right(&mut rails, 4);
    writeln!(out, "{}", rails.trim_fmt())?;
    for class in &answer.classes {
        writeln!(
            out,
            "{}: {} on {}",
            class.class,
            counted(class.hosts, "host"),
            class.nets.join(" ")
        )?;
        for rule in &class.rules {
            writeln!(out, "  lnetctl udsp add {rule}")?;
        }
    }
    match answer.proved {
        true => writeln!(
            out,
            "proved: clients and servers meet, no rail is idle, no rule is without effect ({})",
            counted(answer.pairs, "pair")
        )?,
        false => writeln!(
            out,
            "not proved, {}:",
            counted(answer.findings.len(), "finding")
        )?,
    }
    for finding in &answer.findings {
        writeln!(out, "  {finding}")?;
    }
    if !answer.uneven.is_empty() {
        writeln!(
            out,
            "hosts that lack a rail leave it idle on their peers, which use it towards others:"
        )?;
    }
    for finding in &answer.uneven {
        writeln!(out, "  {finding}")?;
    }
    leaves(answer, &mut out)?;
    Ok(out)
}

fn leaves(answer: &Answer, out: &mut String) -> std::fmt::Result {
    writeln!(out, "if a leaf switch fails, until it is repaired:")?;
    let mut leaves = table(&[
        "leaf",
        "rail",
        "hosts",
        "pairs with fewer rails",
        "rails left",
        "pairs lost",
    ]);
    for leaf in &answer.leaves {
        let rails: Vec<String> = leaf.rails.iter().map(usize::to_string).collect();
        let left = leaf.rails_left.map(|(left, of)| format!("{left} of {of}"));
        leaves.add_row([
            leaf.leaf.clone(),
            rails.join(" "),
            leaf.hosts.to_string(),
            leaf.pairs_reduced.to_string(),
            left.unwrap_or_else(|| "-".to_owned()),
            leaf.pairs_lost.to_string(),
        ]);
    }
    right(&mut leaves, 1);
    writeln!(out, "{}", leaves.trim_fmt())
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    table
}

fn right(table: &mut Table, from: usize) {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

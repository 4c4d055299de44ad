//! `finerail fgr job`: the bandwidth that one job gets from the routers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use fgr::config::read_servers;
use fgr::job::{Bandwidth, Job, JobReport, Limit, ROUTER_RATE};
use fgr::links::{LinkNames, in_digits};
use fgr::rates::{Known, is_rate};
use fgr::topology::Fabric;
use fgr::{Machine, Origin, Plan, read_plan};
use lnet_types::Net;
use lnet_types::expr::NetExpr;
use serde::Serialize;

use super::input::{PlanningArgs, list_or_file};
use super::output::counted;
use super::serves::{clients_called, names};
use crate::common::print_bytes;
use crate::machine::read;

/// The limit of printed routers. JSON has all routers.
const SHOWN: usize = 12;

/// The options that decide how a plan is made. A plan that is read from a file does not accept them.
const PLANNING: [&str; 15] = [
    "policy",
    "backups",
    "disjoint",
    "tie",
    "by",
    "side",
    "block",
    "efficiency",
    "cut",
    "cap",
    "run",
    "limit",
    "limit_read",
    "failed",
    "whole",
];

/// Arguments of `finerail fgr job`.
#[derive(clap::Args)]
#[command(after_help = "\
Assumptions: every client of the job writes the same amount to each target, and no other job runs. The \
rates of a router and of a client's adapter are assumed, too: give the measured rates with --router-rate \
and --client-rate.

Examples:
  finerail fgr job --machine titan.map --modules modules.csv --nodes 20-1027 --targets 'o2ib[201-218]'
  finerail fgr job --machine titan.map --modules modules.csv --plan plan/plan.yaml \\
      --nodes \"$SLURM_JOB_NODELIST\" --targets OST0001,OST0002 --servers osts.csv --json
")]
pub(crate) struct JobArgs {
    #[command(flatten)]
    planning: PlanningArgs,
    /// The active plan: the plan.yaml of 'finerail fgr plan'; without it a new plan is made with --policy
    /// and --failed
    #[arg(long, value_name = "FILE", conflicts_with_all = PLANNING)]
    plan: Option<PathBuf>,
    /// The job's nodes: a host list, numbers, ranges of numbers, NIDs, areas as in who-serves; or @FILE with such a list
    #[arg(long, value_name = "LIST")]
    nodes: String,
    /// The targets of the job: nets (o2ib201, o2ib[201-218]) or names of --servers [default: every net]
    #[arg(long, value_name = "LIST")]
    targets: Option<String>,
    /// Servers or OSTs, NAME,NID a line: the meaning of --targets that are not nets
    #[arg(long, value_name = "FILE")]
    servers: Option<PathBuf>,
    /// GB/s that one router forwards, if measured [default: those of the slower side of its interfaces; without
    /// rates in the machine file 2.6]
    #[arg(long, value_name = "GB/S")]
    router_rate: Option<f64>,
    /// GB/s that one client sends or receives [default: 10.4 on a torus or mesh (Gemini), otherwise 25 (a port
    /// of 200 Gbit/s)]
    #[arg(long, value_name = "GB/S")]
    client_rate: Option<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How a rate is known that the user gave.
const GIVEN: &str = "given";

/// GB/s that a node injects into Gemini.
const GEMINI: f64 = 10.4;

/// GB/s of one port of 200 Gbit/s.
const PORT: f64 = 25.0;

/// The result for one job.
#[derive(Serialize)]
struct Answer {
    clients: usize,
    nets: Vec<String>,
    /// The rate of `--router-rate`, or the one of routers without described interfaces.
    router_rate_gb_s: f64,
    /// How the rate is known: `published`, `measured` or `assumed`.
    router_rate_known: &'static str,
    client_rate_gb_s: f64,
    client_rate_known: &'static str,
    efficiency: f64,
    write: Rate,
    read: Rate,
    routers: Vec<Used>,
    better_targets: Option<Instead>,
    better_nodes: Option<Instead>,
}

#[derive(Serialize)]
struct Rate {
    gb_s: f64,
    limit: &'static str,
    hottest_links: Vec<Hot>,
}

#[derive(Serialize)]
struct Hot {
    link: String,
    units: f64,
    gb_s: f64,
}

#[derive(Serialize)]
struct Used {
    net: String,
    node: u32,
    /// The name of the router; the number if it has no name.
    name: String,
    blade: String,
    clients: f64,
}

#[derive(Serialize)]
struct Instead {
    /// Nets, or ranges of node numbers, that the job should use instead.
    instead: Vec<String>,
    /// The names from `--servers` that are on these nets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<String>,
    write_gb_s: f64,
}

/// Runs `finerail fgr job`.
pub(crate) fn run(args: &JobArgs) -> anyhow::Result<ExitCode> {
    let rates = [
        ("--router-rate", args.router_rate),
        ("--client-rate", args.client_rate),
    ];
    for (option, rate) in rates {
        if let Some(rate) = rate.filter(|rate| !is_rate(*rate)) {
            bail!("{option}: {rate} GB/s is not a rate from 0.001 to 1,000,000 GB/s");
        }
    }
    let (machine, plan) = planned(args)?;
    let servers = servers(args, &machine)?;
    let nodes = clients_called(&machine, &list_or_file(&args.nodes)?).context("--nodes")?;
    let nets = targets(args, &machine, &servers)?;
    let job = Job {
        machine: &machine,
        plan: &plan,
        clients: &nodes,
        nets: &nets,
        router_rate: args.router_rate,
        client_rate: args.client_rate.unwrap_or(match machine.fabric {
            Fabric::Grid(..) => GEMINI,
            _ => PORT,
        }),
    };
    let report = job.report();
    let report = report.ok_or_else(|| anyhow!("a job needs nodes, and targets that hold data"))?;
    let mut answer = answer(&job, &report, &servers);
    if args.client_rate.is_some() {
        answer.client_rate_known = GIVEN;
    }
    let text = if args.json {
        serde_json::to_string_pretty(&answer)? + "\n"
    } else {
        in_words(&answer)?
    };
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

fn planned(args: &JobArgs) -> anyhow::Result<(Machine, Plan)> {
    let Some(path) = &args.plan else {
        return args.planning.plan();
    };
    let machine = args.planning.machine.read()?;
    let plan = read_plan(&path.display().to_string(), &read(path)?, &machine)?;
    Ok((machine, plan))
}

/// The nets of each server, by index.
type Servers = BTreeMap<String, Vec<usize>>;

fn servers(args: &JobArgs, machine: &Machine) -> anyhow::Result<Servers> {
    let Some(path) = &args.servers else {
        return Ok(Servers::new());
    };
    let mut found = Servers::new();
    for server in read_servers(&path.display().to_string(), &read(path)?)? {
        let nets = server.nids.iter().map(|nid| net_index(machine, nid.net()));
        let nets = nets.collect::<anyhow::Result<_>>();
        found.insert(server.name.clone(), nets.context(server.name)?);
    }
    Ok(found)
}

fn net_index(machine: &Machine, net: Net) -> anyhow::Result<usize> {
    let found = machine.nets.binary_search_by_key(&net, |entry| entry.net);
    found.map_err(|_| anyhow!("no router of {} leads to {net}", machine.name))
}

/// Returns the nets of the targets, by index, in ascending order.
fn targets(args: &JobArgs, machine: &Machine, servers: &Servers) -> anyhow::Result<Vec<usize>> {
    let Some(list) = &args.targets else {
        return Ok(machine.data_nets().collect());
    };
    let mut nets = Vec::new();
    for name in fgr::hosts(&list_or_file(list)?).context("--targets")? {
        if let Some(known) = servers.get(&name) {
            nets.extend(known);
        } else if let Ok(expression) = name.parse::<NetExpr>() {
            let found =
                (0..machine.nets.len()).filter(|&n| expression.matches(machine.nets[n].net));
            let before = nets.len();
            nets.extend(found);
            if nets.len() == before {
                bail!("--targets: no router of {} leads to {name}", machine.name);
            }
        } else {
            bail!("--targets: '{name}' is neither a net nor a name of --servers");
        }
    }
    nets.sort_unstable();
    nets.dedup();
    Ok(nets)
}

fn answer(job: &Job<'_>, report: &JobReport, servers: &Servers) -> Answer {
    let machine = job.machine;
    let net_name = |&net: &usize| machine.nets[net].net.to_string();
    let routers = report.routers.iter().map(|used| {
        let router = &machine.routers[usize::from(used.router)];
        Used {
            net: net_name(&router.net.into()),
            node: router.id,
            name: machine.router_name(router.id),
            blade: machine.modules[usize::from(router.module)].blade.clone(),
            clients: used.clients,
        }
    });
    let links = LinkNames::new(machine);
    Answer {
        clients: job.clients.len(),
        nets: job.nets.iter().map(net_name).collect(),
        router_rate_gb_s: job.router_rate.unwrap_or(ROUTER_RATE),
        router_rate_known: match job.router_rate {
            Some(_) => GIVEN,
            None => Known::Assumed.name(),
        },
        client_rate_gb_s: job.client_rate,
        client_rate_known: match machine.fabric {
            // The rate of Titan's interconnect.
            Fabric::Grid(..) if machine.origin == Origin::Published => Known::Published.name(),
            _ => Known::Assumed.name(),
        },
        efficiency: report.efficiency,
        write: rate(&links, &report.write),
        read: rate(&links, &report.read),
        routers: routers.collect(),
        better_targets: report.better_nets.as_ref().map(|better| Instead {
            instead: better.instead.iter().map(net_name).collect(),
            servers: on_nets(servers, &better.instead),
            write_gb_s: better.rate,
        }),
        better_nodes: report.better_nodes.as_ref().map(|better| Instead {
            instead: vec![names(machine, &better.instead)],
            servers: Vec::new(),
            write_gb_s: better.rate,
        }),
    }
}

/// Returns the servers whose nets are all in `nets`.
fn on_nets(servers: &Servers, nets: &[usize]) -> Vec<String> {
    let among = servers
        .iter()
        .filter(|(_, its)| its.iter().all(|net| nets.contains(net)));
    among.map(|(name, _)| name.clone()).collect()
}

fn rate(names: &LinkNames<'_>, bandwidth: &Bandwidth) -> Rate {
    let hottest = bandwidth.hottest.iter().map(|&(link, units, gb_s)| Hot {
        link: names.name(link),
        units,
        gb_s,
    });
    Rate {
        gb_s: bandwidth.rate,
        limit: match bandwidth.limit {
            Limit::Router => "router",
            Limit::Link => "link",
            Limit::Client => "clients",
        },
        hottest_links: hottest.collect(),
    }
}

fn hottest_in_words(rate: &Rate, text: &mut String) -> std::fmt::Result {
    for Hot { link, units, gb_s } in &rate.hottest_links {
        writeln!(
            text,
            "  link {link}: {} units on {gb_s} GB/s",
            in_digits(*units)
        )?;
    }
    Ok(())
}

fn in_words(answer: &Answer) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let nodes: BTreeSet<u32> = answer.routers.iter().map(|used| used.node).collect();
    let routers = answer.routers.len();
    let counts = [
        counted(answer.clients, "client"),
        counted(answer.nets.len(), "net"),
        counted(nodes.len(), "router"),
    ];
    writeln!(text, "{}", counts.join(", "))?;
    for (name, rate) in [("write", &answer.write), ("read", &answer.read)] {
        let limit = match rate.limit {
            "router" => "busiest router",
            "link" => "hottest link",
            _ => "adapters of the clients",
        };
        writeln!(
            text,
            "{name}: {:.1} GB/s, limited by the {limit}",
            rate.gb_s
        )?;
        hottest_in_words(rate, &mut text)?;
    }
    let (efficiency, each) = (answer.efficiency * 100.0, answer.router_rate_gb_s);
    let client = answer.client_rate_gb_s;
    writeln!(
        text,
        "{efficiency:.0} % of the routers' bandwidth, at {each} GB/s a router ({}) and {client} GB/s a client ({})",
        answer.router_rate_known, answer.client_rate_known
    )?;
    for Used {
        net,
        name,
        blade,
        clients,
        ..
    } in answer.routers.iter().take(SHOWN)
    {
        writeln!(
            text,
            "  router {name} ({blade}) to {net}: {clients:.1} clients"
        )?;
    }
    if let Some(more @ 1..) = routers.checked_sub(SHOWN) {
        writeln!(text, "  and {more} more")?;
    }
    for (what, better) in [
        ("targets", &answer.better_targets),
        ("nodes", &answer.better_nodes),
    ] {
        match better {
            None => writeln!(text, "better {what}: none found")?,
            Some(Instead {
                instead,
                servers,
                write_gb_s,
            }) => {
                let names = if servers.is_empty() { instead } else { servers };
                writeln!(
                    text,
                    "better {what}, {write_gb_s:.1} GB/s: {}",
                    names.join(",")
                )?;
            }
        }
    }
    Ok(text)
}

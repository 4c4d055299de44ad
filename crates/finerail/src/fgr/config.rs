//! `finerail fgr config`: writes the LNet configuration of every node.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use fgr::config::{
    BackupPriority, Form, ModprobeRefusal, NetTunables, Scheme, Server, Site, Slots, Timing,
    read_nodes, read_servers,
};
use fgr::{Machine, Plan};
use lnet_types::Net;

use super::input::PlanningArgs;
use super::output::{self, counted};
use crate::common::open;
use crate::machine::read;

/// Arguments of `finerail fgr config`.
#[derive(clap::Args)]
#[command(after_help = "\
The command writes
  classes/NAME.yaml   for lnetctl import
  module.conf         for modprobe.d, in addition to the YAML: how nodes check their gateways
  classes/NAME.conf   for modprobe.d, instead of both, if the kernel accepts it
  nodes.csv           the class and the NIDs of every node; consecutive nodes share a line:
                      nid[00020-00051] with 10.1.0.[20-51]@tcp[101-112]
  inventory.yaml      for Ansible
docs/router-failures.md describes the effects of a router failure, and of these options on it.

Example:
  finerail fgr config --machine synthetic:6x8x4:2x3x1 --client-net tcp100 --client-interface hsn0 \\
      --servers-per-net 2 -o conf
")]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    planning: PlanningArgs,
    #[command(flatten)]
    scheme: SchemeArgs,
    /// Write the files into this directory; made if missing
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Also write nodes/NAME.yaml for every node, with its NIDs instead of names of interfaces, and for routers with
    /// other routers as peers, whom routers of Finerail ask whether a net works
    #[arg(long)]
    per_node: bool,
}

/// How nodes are addressed, and how routes are preferred.
#[derive(clap::Args, Clone)]
pub(crate) struct SchemeArgs {
    /// The net whose successors are the nets of the slots: gni100 gives gni101, gni102, ... to the clients; in
    /// the multi-rail form the only net of the clients
    #[arg(long, value_name = "NET", default_value = "gni100")]
    client_net: Net,
    /// The interface of clients, and of routers to clients
    #[arg(long, value_name = "NAME", default_value = "ipogif0")]
    client_interface: String,
    /// The interface of servers, and of routers to servers
    #[arg(long, value_name = "NAME", default_value = "ib0")]
    server_interface: String,
    /// Address of node 0 on the clients' nets, if they have IP addresses; node N has the Nth address after it
    #[arg(long, value_name = "ADDRESS", default_value = "10.1.0.0")]
    client_addresses: Ipv4Addr,
    /// Address of node 0 on the servers' nets; router node N has the Nth address after it
    #[arg(long, value_name = "ADDRESS", default_value = "10.2.0.0")]
    router_addresses: Ipv4Addr,
    /// The servers, NAME,NID a line; without it synthetic servers
    #[arg(long, value_name = "FILE")]
    servers: Option<PathBuf>,
    /// The number of synthetic servers on each net
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    servers_per_net: u16,
    /// The address before that of the first synthetic server
    #[arg(long, value_name = "ADDRESS", default_value = "10.3.0.0")]
    server_addresses: Ipv4Addr,
    /// Tunables of the clients' nets on all their nodes, those of LNet and of the LND:
    /// peer_credits=32,credits=1024,conns_per_peer=4
    #[arg(long, value_name = "NAME=N,...")]
    client_tunables: Option<NetTunables>,
    /// The same of the servers' nets: peer_credits=32,peercredits_hiw=16,concurrent_sends=64
    #[arg(long, value_name = "NAME=N,...")]
    server_tunables: Option<NetTunables>,
    /// The form of the configuration: how clients use only their own routers
    #[arg(long, value_enum, value_name = "FORM", default_value_t = FormArg::SlotNets)]
    form: FormArg,
    /// With slot nets: the nets of a client
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = SlotsArg::All)]
    slots: SlotsArg,
    /// Priorities of backups
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Backups::Ranked)]
    backup_priorities: Backups,
    /// Seconds between two pings of a gateway (alive_router_check_interval)
    #[arg(long, value_name = "SECONDS", default_value_t = Timing::PLANNED.check_interval)]
    check_interval: u32,
    /// Timeout of such a ping, in seconds (router_ping_timeout): how long nodes of Finerail wait for a gateway
    #[arg(long, value_name = "SECONDS", default_value_t = Timing::PLANNED.ping_timeout)]
    ping_timeout: u32,
    /// Time for a message with all its attempts, in seconds (transaction_timeout): how long kernel nodes wait for a
    /// gateway that hangs, and every node for any answer; LNet's default is 150
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = Timing::PLANNED.transaction_timeout,
        value_parser = clap::value_parser!(u32).range(i64::from(Timing::TRANSACTION_TIMEOUT_MIN)..=86_400)
    )]
    transaction_timeout: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormArg {
    /// Discovery off, one net of clients for each slot of routers
    SlotNets,
    /// Discovery on, one net of clients; selection rules (lnetctl udsp) choose the routers
    MultiRail,
}

#[derive(Clone, Copy, ValueEnum)]
enum SlotsArg {
    /// All nets, so that another plan changes only routes
    All,
    /// Only the nets that its routes use: for nets with more routers than LNet accepts interfaces
    Used,
}

#[derive(Clone, Copy, ValueEnum)]
enum Backups {
    /// 1, 2, ... in the order of the plan
    Ranked,
    /// 1 for all: they share the load of a failed primary
    Equal,
}

impl SchemeArgs {
    fn scheme(&self) -> Scheme {
        Scheme {
            client_net: self.client_net,
            client_interface: self.client_interface.clone(),
            server_interface: self.server_interface.clone(),
            client_addresses: self.client_addresses,
            server_addresses: self.router_addresses,
            backups: match self.backup_priorities {
                Backups::Equal => BackupPriority::Equal,
                Backups::Ranked => BackupPriority::Ranked,
            },
            form: match self.form {
                FormArg::SlotNets => Form::SlotNets,
                FormArg::MultiRail => Form::MultiRail,
            },
            slots: match self.slots {
                SlotsArg::All => Slots::All,
                SlotsArg::Used => Slots::Used,
            },
            timing: Timing {
                check_interval: self.check_interval,
                ping_timeout: self.ping_timeout,
                transaction_timeout: self.transaction_timeout,
            },
        }
    }

    /// Returns the configuration of every node of the plan. Without `--servers` the servers are
    /// synthetic, and a note on standard error says so.
    pub(crate) fn site(&self, machine: &Machine, plan: &Plan) -> anyhow::Result<Site> {
        let servers = self.servers(machine)?;
        let mut site = Site::new(machine, plan, &self.scheme(), &servers)?;
        let is_behind = |net: Net| machine.nets.iter().any(|entry| entry.net == net);
        if let Some(tunables) = &self.client_tunables {
            let tuned = site.tune(tunables, |net| !is_behind(net));
            tuned.context("--client-tunables")?;
        }
        if let Some(tunables) = &self.server_tunables {
            let tuned = site.tune(tunables, is_behind);
            tuned.context("--server-tunables")?;
        }
        Ok(site)
    }

    fn servers(&self, machine: &Machine) -> anyhow::Result<Vec<Server>> {
        if let Some(path) = &self.servers {
            return Ok(read_servers(&path.display().to_string(), &read(path)?)?);
        }
        let each = self.servers_per_net;
        writeln!(
            io::stderr(),
            "note: the servers are synthetic, {each} on each net; give the real servers with --servers"
        )?;
        let nets = machine.nets.iter().map(|entry| entry.net);
        Ok(Server::synthetic(nets, each, self.server_addresses)?)
    }
}

/// Returns the paths of the files that the command wrote into a directory: those that its `nodes.csv` names, and none
/// without it.
fn written(directory: &Path) -> anyhow::Result<BTreeSet<String>> {
    let list = directory.join("nodes.csv");
    if !list.exists() {
        return Ok(BTreeSet::new());
    }
    let mut paths: BTreeSet<String> = ["module.conf", "nodes.csv", "inventory.yaml"]
        .map(str::to_owned)
        .into();
    let file = open(&list).with_context(|| format!("cannot read {}", list.display()))?;
    for line in read_nodes(&list.display().to_string(), file)? {
        let class = ["yaml", "conf", "udsp"].map(|end| format!("classes/{}.{end}", line.class));
        paths.extend(class);
        paths.insert(format!("nodes/{}.yaml", line.name));
    }
    Ok(paths)
}

/// Runs `finerail fgr config`.
pub(crate) fn run(args: &ConfigArgs) -> anyhow::Result<ExitCode> {
    let scheme = args.scheme.scheme();
    let (machine, plan) = args
        .planning
        .plan_if(|machine| Ok(scheme.check(machine)?))?;
    let site = args.scheme.site(&machine, &plan)?;
    write_site(&site, &args.output, args.per_node)
}

/// Writes the files of a site.
pub(super) fn write_site(site: &Site, output: &Path, per_node: bool) -> anyhow::Result<ExitCode> {
    if let Some(shared) = site.shared_nids().first() {
        bail!("{shared}: correct the addresses of one of them");
    }
    let own = written(output)?;
    output::prepare(output, &["classes", "nodes"], |path| own.contains(path))?;
    drop(own);
    // First the list of what is this command's own, so that the command can be repeated wherever it ends.
    output::write_file(&output.join("nodes.csv"), |out| site.write_nodes(out))?;
    let mut refused = Vec::new();
    for class in &site.classes {
        let made = site.class_files(class);
        for (path, text) in &made.files {
            write(output, path, text)?;
        }
        refused.extend(made.refused);
    }
    write(output, "module.conf", &site.module_options())?;
    output::write_file(&output.join("inventory.yaml"), |out| {
        site.write_inventory(out)
    })?;
    if per_node {
        for (path, text) in site.node_files() {
            write(output, &path, &text)?;
        }
    }
    say_refused(&refused)?;
    let (nodes, classes) = (
        counted(site.nodes.len(), "node"),
        counted(site.classes.len(), "class"),
    );
    writeln!(io::stdout(), "{nodes} in {classes}: {}", output.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints one line for each reason, whatever the number of classes that share it.
fn say_refused(refused: &[ModprobeRefusal]) -> io::Result<()> {
    let mut lengths: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut others: BTreeMap<String, usize> = BTreeMap::new();
    for why in refused {
        match why {
            ModprobeRefusal::TooLong { parameter, length } => {
                lengths.entry(parameter).or_default().push(*length);
            }
            why => *others.entry(why.to_string()).or_default() += 1,
        }
    }
    let mut errors = io::stderr().lock();
    for (why, count) in others {
        writeln!(errors, "note: {}: {why}; use the YAML", formless(count))?;
    }
    for (parameter, lengths) in lengths {
        let (count, max) = (lengths.len(), ModprobeRefusal::MAX_PARAMETER);
        let longest = lengths.iter().max().copied().unwrap_or_default();
        writeln!(
            errors,
            "note: {}: {parameter} has up to {longest} characters; a kernel accepts at most {max}; use the YAML",
            formless(count)
        )?;
    }
    Ok(())
}

/// Says that this many classes have no form as module options.
fn formless(classes: usize) -> String {
    match classes {
        1 => "1 class has no modprobe.d form".to_owned(),
        _ => format!("{classes} classes have no modprobe.d form"),
    }
}

fn write(directory: &Path, path: &str, text: &str) -> anyhow::Result<()> {
    let path = directory.join(path);
    let parent = path.parent().unwrap_or(directory);
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    sys::write_file(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

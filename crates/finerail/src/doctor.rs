//! `finerail doctor`: finds out what keeps this machine from using a node.

mod mount;
mod own;
mod rdma;

use std::io::{self, IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use lnet_conform::{
    Diagnosis, Examination, Finding, NAME_UNKNOWN, NO_WAY, SetupError, Step, Subject, examine,
    examine_through,
};
use lnet_core::Globals;
use lnet_node::NodeOptions;
use lnet_types::{LndType, Nid};
use serde::Serialize;

use crate::common::{NEGATIVE, complaint, print_bytes};
use crate::ctl::hosts::{name_in, nid_of};
use crate::ping::{endpoint_address, endpoint_nid, own_address, seconds, spare_kernel_node};
use own::Own;

/// Arguments of `finerail doctor`.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Each finding has a name, an observation, and advice; docs/doctor.md lists all of them. The output also \
names what could not be tested from here. The doctor sends only what correct nodes send; a kernel logs \
at most that it rejected a connection.

Nodes that accept only privileged source ports (the default of kernel nodes) need --privileged, \
which needs CAP_NET_BIND_SERVICE or root. Without it only the path to the port is examined.

A node on an o2ib network is dialled over RDMA, at service 987, and pinged; that needs no privilege. Release, \
identity and sizes are examined over tcp only.

With --config the doctor also examines the document of this machine's own node (YAML, or options of the \
kernel module): it compares it with the interfaces and routes of this machine, and takes the port, the \
source address and the gateways from it.

Examples
  finerail doctor --privileged 10.1.0.2@tcp
  finerail doctor --port 9988 127.0.0.2@tcp
  finerail doctor --privileged --listen mds1@tcp        can the node connect to this machine?
  finerail doctor --ports 988,1018,1023 --json 10.1.0.2@tcp
  finerail doctor 10.7.0.2@o2ib                         over InfiniBand, RoCE or Omni-Path
  finerail doctor --privileged --gateway 10.1.0.9@tcp 10.2.0.2@o2ib       through a router
  finerail doctor --privileged --config /etc/lnet.conf mgs1@tcp           as this machine's node would

Exit code: 0 nothing is wrong, 1 findings, 2 wrong usage.
"
)]
pub(crate) struct DoctorArgs {
    #[command(subcommand)]
    command: Option<DoctorCommand>,
    /// The nodes to examine; host names can stand for addresses
    #[arg(required = true, value_name = "NID", value_delimiter = ',')]
    nids: Vec<String>,
    /// TCP port of the nodes [default: accept_port of --config, or 988]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Test whether these TCP ports can be reached, too
    #[arg(
        long,
        value_name = "PORT",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    ports: Vec<u16>,
    /// Connect from source ports below 1024, as kernel nodes do
    #[arg(long)]
    privileged: bool,
    /// Listen for a moment, to test whether the node can connect to this machine. The node then has a peer
    /// with this address
    #[arg(long, requires = "privileged")]
    listen: bool,
    /// Examine the nodes through this router, after the router itself
    #[arg(long, short, value_name = "NID", value_delimiter = ',', conflicts_with_all = ["config", "listen", "ports"])]
    gateway: Vec<Nid>,
    /// The document of this machine's own node: examine it, and examine the nodes as it would reach them, those on other
    /// networks through the gateways of its routes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "ports"])]
    config: Option<PathBuf>,
    /// Connect from the address of this local NID. Over RDMA, peers see that at the address of a running node as a restart of
    /// that node
    #[arg(long, short, value_name = "NID")]
    source: Option<Nid>,
    /// Timeout of each step, in seconds
    #[arg(long, short, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    timeout: f64,
    /// The site's transaction_timeout, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 150)]
    transaction_timeout: u32,
    /// The site's retry_count
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    retry_count: u32,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Checks of something larger than a node.
#[derive(clap::Subcommand)]
enum DoctorCommand {
    /// Find out whether this machine can mount a Lustre file system, without mounting it
    Mount(mount::MountArgs),
}

/// Runs `finerail doctor`.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    if let Some(DoctorCommand::Mount(args)) = &args.command {
        return mount::run(args);
    }
    if args.timeout == 0.0 {
        bail!("--timeout 0 leaves no time to answer");
    }
    let targets = args.targets()?;
    let own = args.config.as_deref().map(Own::read).transpose()?;
    if let Some(own) = own.as_ref().filter(|_| !args.json) {
        print_bytes(own.text().as_bytes(), &mut io::stdout())?;
    }
    let mut examined_nodes: Vec<Examined> = Vec::new();
    for target in targets {
        let resolved = args.resolve(target)?;
        let nid = resolved.name();
        if examined_nodes.iter().any(|node| node.nid == nid) {
            complaint(&format!("{nid} is given more than once, and examined once"));
            continue;
        }
        for examined in args.examine_node(resolved, own.as_ref())? {
            if !args.json {
                print_bytes(examined.text().as_bytes(), &mut io::stdout())?;
            }
            examined_nodes.push(examined);
        }
    }
    if args.json {
        let nodes = examined_nodes.iter().map(Examined::row);
        let rows: Vec<Row<'_>> = own.iter().map(Own::row).chain(nodes).collect();
        let text = serde_json::to_string_pretty(&rows)? + "\n";
        print_bytes(text.as_bytes(), &mut io::stdout())?;
    }
    let healthy = examined_nodes
        .iter()
        .all(|node| node.diagnosis.findings.is_empty());
    Ok(if healthy && own.is_none_or(|own| own.is_right()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NEGATIVE)
    })
}

impl DoctorArgs {
    /// Returns the targets of the command line. Wrong usage is reported before any node is examined.
    fn targets(&self) -> anyhow::Result<Vec<Target<'_>>> {
        let texts = self.nids.iter();
        let targets = texts.map(|text| match name_in(text) {
            Some((name, _)) => Ok(Target::Name { name, text }),
            None => Ok(Target::Nid(self.reachable(text.parse()?)?)),
        });
        targets.collect()
    }

    /// Examines a node; through gateways if there are some, with a report about each gateway before it.
    fn examine_node(&self, resolved: Resolved, own: Option<&Own>) -> anyhow::Result<Vec<Examined>> {
        let (nid, told) = match resolved {
            Resolved::Given(nid) => (nid, None),
            Resolved::Found(nid, told) => (nid, Some(told)),
            Resolved::Unknown(text, finding) => return Ok(vec![Examined::unknown(text, finding)]),
        };
        let gateways = self.gateways(nid, own);
        let mut examined = match &gateways[..] {
            [] => vec![self.directly(nid, own)?],
            gateways => {
                let through = gateways
                    .iter()
                    .map(|&gateway| self.through(nid, gateway, own));
                let through: Vec<Vec<Examined>> = through.collect::<anyhow::Result<_>>()?;
                through.into_iter().flatten().collect()
            }
        };
        if let (Some(seen), Some(node)) = (told, examined.last_mut()) {
            let name = "name";
            let tested = true;
            node.diagnosis.steps.insert(0, Step { name, tested, seen });
        }
        Ok(examined)
    }

    /// Returns the gateways to a node: those that were given, or those of the routes to its network.
    fn gateways(&self, nid: Nid, own: Option<&Own>) -> Vec<Nid> {
        let known = own.into_iter().flat_map(|own| own.gateways(nid));
        let mut gateways: Vec<Nid> = self.gateway.iter().copied().chain(known).collect();
        gateways.sort_unstable();
        gateways.dedup();
        gateways
    }

    fn directly(&self, nid: Nid, own: Option<&Own>) -> anyhow::Result<Examined> {
        if nid.net().lnd == LndType::O2IB {
            return self.over_rdma(nid, own);
        }
        let examination = match self.checked(nid, own)? {
            Ok(examination) => examination,
            Err(unreached) => return Ok(unreached),
        };
        let mut diagnosis = examine(&examination, |step| self.announce(nid, step))?;
        diagnosis.findings.extend(self.of_own(nid, own));
        Ok(Examined::new(nid, examination.subject, diagnosis))
    }

    fn over_rdma(&self, nid: Nid, own: Option<&Own>) -> anyhow::Result<Examined> {
        spare_kernel_node(nid, self.source)?;
        let port = NodeOptions::LNET_PORT;
        let known = own.and_then(|own| own.source(nid, port));
        let given = self.source.map(own_address).transpose()?;
        let source = given.or(known);
        let source = source.map(|address| Nid::from_ip(nid.net(), address));
        let here = match self.or_no_way(nid, endpoint_nid(nid, source, port))? {
            Ok(here) => here,
            Err(unreached) => return Ok(unreached),
        };
        let timeout = Duration::from_secs_f64(self.timeout);
        let announce = |step: &str| self.announce(nid, step);
        let mut diagnosis = rdma::examine(nid, here, timeout, announce);
        diagnosis.findings.extend(self.of_own(nid, own));
        Ok(Examined {
            nid: nid.to_string(),
            subject: None,
            diagnosis,
        })
    }

    /// Returns what the own document has wrong for a node that is dialled directly.
    fn of_own(&self, nid: Nid, own: Option<&Own>) -> Vec<Finding> {
        own.map_or_else(Vec::new, |own| own.findings_for(nid, self.port(Some(own))))
    }

    fn through(&self, nid: Nid, gateway: Nid, own: Option<&Own>) -> anyhow::Result<Vec<Examined>> {
        let examination = match self.checked(examinable(gateway)?, own)? {
            Ok(examination) => examination,
            Err(unreached) => return Ok(vec![unreached]),
        };
        let subject = examination.subject;
        let announce = |step| self.announce(gateway, step);
        let [mut near, far] = examine_through(&examination, nid, announce)?;
        near.findings.extend(self.of_own(gateway, own));
        Ok(vec![
            Examined::new(gateway, subject, near),
            Examined::new(nid, subject, far),
        ])
    }

    /// Returns the examination of a node, or the finding that the system has no route to the address, so that the
    /// other nodes are still examined.
    fn checked(
        &self,
        nid: Nid,
        own: Option<&Own>,
    ) -> anyhow::Result<Result<Examination, Examined>> {
        self.or_no_way(nid, self.examination(nid, own))
    }

    fn or_no_way<T>(
        &self,
        nid: Nid,
        result: anyhow::Result<T>,
    ) -> anyhow::Result<Result<T, Examined>> {
        match result {
            Err(error) if self.source.is_none() && error.is::<io::Error>() => {
                let kind = &NO_WAY;
                let seen = format!("{error:#}");
                let finding = Finding { kind, seen };
                Ok(Err(Examined::unknown(nid.to_string(), finding)))
            }
            result => result.map(Ok),
        }
    }

    /// Returns a NID that can be examined. Behind a router a node may be on a network of any kind.
    fn reachable(&self, nid: Nid) -> anyhow::Result<Nid> {
        match self.gateway.is_empty() && self.config.is_none() {
            true if nid.net().lnd == LndType::O2IB => of_one_interface(nid),
            true => examinable(nid),
            false => Ok(nid),
        }
    }

    fn resolve(&self, target: Target<'_>) -> anyhow::Result<Resolved> {
        let (name, text) = match target {
            Target::Nid(nid) => return Ok(Resolved::Given(nid)),
            Target::Name { name, text } => (name, text.to_owned()),
        };
        let (sender, receiver) = mpsc::channel();
        let asked = text.clone();
        // The resolver has no timeout that can be chosen, so it runs in a thread of its own. A late answer
        // finds no receiver.
        thread::spawn(move || sender.send(nid_of(&asked)));
        let found = receiver.recv_timeout(Duration::from_secs_f64(self.timeout));
        let seen = match found.map(|found| found.parse::<Nid>()) {
            Ok(Ok(nid)) => {
                let nid = self.reachable(nid).with_context(|| text.clone())?;
                return Ok(Resolved::Found(nid, format!("{text} is {nid}")));
            }
            Ok(Err(_)) => format!("{name} has no address"),
            Err(_) => format!("no name server returned the address of {name} in time"),
        };
        let kind = &NAME_UNKNOWN;
        Ok(Resolved::Unknown(text, Finding { kind, seen }))
    }

    /// Returns the port of the nodes.
    fn port(&self, own: Option<&Own>) -> u16 {
        let port = self.port.or_else(|| own?.port());
        port.unwrap_or(NodeOptions::LNET_PORT)
    }

    fn examination(&self, nid: Nid, own: Option<&Own>) -> anyhow::Result<Examination> {
        let port = self.port(own);
        let address = nid.ip().filter(|_| nid.net().lnd == LndType::TCP);
        let address = address.ok_or(SetupError::NotTcp(nid))?;
        let source = match self.source {
            Some(source) if source == nid => bail!("--source {source} is the node to examine"),
            Some(source) => own_address(source)?,
            None => match own.and_then(|own| own.source(nid, port)) {
                Some(source) => source,
                None => endpoint_address(address, port)?,
            },
        };
        let globals = Globals {
            transaction_timeout: Duration::from_secs(self.transaction_timeout.into()),
            retry_count: self.retry_count,
            ..Globals::default()
        };
        Ok(Examination {
            subject: Subject {
                nid,
                address: SocketAddr::new(address, port),
                source,
                privileged: self.privileged,
                timeout: Duration::from_secs_f64(self.timeout),
            },
            ports: self.ports.clone(),
            listen: self.listen,
            lnd_timeout: globals.lnd_timeout(),
        })
    }

    /// Shows on a terminal which step runs, because a step may take its whole timeout.
    fn announce(&self, nid: Nid, step: &str) {
        let mut terminal = io::stderr();
        if terminal.is_terminal() {
            // Standard error is closed: there is no other place to report this.
            let _unprinted = writeln!(terminal, "{nid}: {step} ...");
        }
    }
}

/// Returns a NID if a node with it can be examined or checked.
pub(crate) fn examinable(nid: Nid) -> anyhow::Result<Nid> {
    match nid.net().lnd {
        LndType::TCP => of_one_interface(nid),
        _ => Err(SetupError::NotTcp(nid).into()),
    }
}

/// Returns a NID if its address can be that of an interface.
pub(crate) fn of_one_interface(nid: Nid) -> anyhow::Result<Nid> {
    let address = nid.ip().ok_or(SetupError::NotTcp(nid))?;
    let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    if address.is_unspecified() || address.is_multicast() || is_broadcast {
        bail!("{nid} is not the NID of a node: {address} is not the address of one interface");
    }
    Ok(nid)
}

/// An argument of the command line.
enum Target<'a> {
    /// A NID.
    Nid(Nid),
    /// The name of a host, and the argument that contains the name.
    Name { name: &'a str, text: &'a str },
}

/// The meaning of an argument of the command line.
enum Resolved {
    /// The argument is a NID.
    Given(Nid),
    /// The argument is the name of a host with this NID; the text reports the NID.
    Found(Nid, String),
    /// The argument is a name without an address.
    Unknown(String, Finding),
}

impl Resolved {
    /// Returns the name of the node in the report.
    fn name(&self) -> String {
        match self {
            Self::Given(nid) | Self::Found(nid, _) => nid.to_string(),
            Self::Unknown(text, _) => text.clone(),
        }
    }
}

/// An examined node, and the findings.
struct Examined {
    nid: String,
    subject: Option<Subject>,
    diagnosis: Diagnosis,
}

impl Examined {
    fn new(nid: Nid, subject: Subject, diagnosis: Diagnosis) -> Self {
        Self {
            nid: nid.to_string(),
            subject: Some(subject),
            diagnosis,
        }
    }

    fn unknown(nid: String, finding: Finding) -> Self {
        let findings = vec![finding];
        let steps = Vec::new();
        Self {
            nid,
            subject: None,
            diagnosis: Diagnosis { steps, findings },
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", self.nid);
        for Step { name, tested, seen } in &self.diagnosis.steps {
            text.push_str(&Self::step_text(name, *tested, seen));
        }
        for Finding { kind, seen } in &self.diagnosis.findings {
            text.push_str(&format!(
                "{} {}: {seen}\n    {}\n    to do: {}\n",
                kind.severity, kind.name, kind.finds, kind.helps
            ));
        }
        text + &Self::end_text(&self.nid, self.diagnosis.findings.len())
    }

    /// Returns the line of a step.
    fn step_text(name: &str, tested: bool, seen: &str) -> String {
        let not = if tested { "" } else { "not tested: " };
        format!("  {name:<13} {not}{seen}\n")
    }

    /// Returns the last line of a report.
    fn end_text(name: &str, findings: usize) -> String {
        match findings {
            0 => format!("{name}: no findings\n"),
            1 => format!("{name}: 1 finding\n"),
            several => format!("{name}: {several} findings\n"),
        }
    }

    fn row(&self) -> Row<'_> {
        let step = |step: &Step| StepRow {
            step: step.name,
            tested: step.tested,
            seen: step.seen.clone(),
        };
        let finding = |finding: &Finding| FindingRow {
            name: finding.kind.name,
            severity: finding.kind.severity.to_string(),
            seen: finding.seen.clone(),
            means: finding.kind.finds,
            to_do: finding.kind.helps.to_owned(),
        };
        Row {
            nid: &self.nid,
            address: self.subject.map(|subject| subject.address),
            source: self.subject.map(|subject| subject.source.to_string()),
            privileged: self.subject.is_some_and(|subject| subject.privileged),
            steps: self.diagnosis.steps.iter().map(step).collect(),
            findings: self.diagnosis.findings.iter().map(finding).collect(),
        }
    }
}

#[derive(Serialize)]
struct Row<'a> {
    nid: &'a str,
    address: Option<SocketAddr>,
    source: Option<String>,
    privileged: bool,
    steps: Vec<StepRow>,
    findings: Vec<FindingRow>,
}

#[derive(Serialize)]
struct StepRow {
    step: &'static str,
    tested: bool,
    seen: String,
}

#[derive(Serialize)]
struct FindingRow {
    name: &'static str,
    severity: String,
    seen: String,
    means: &'static str,
    to_do: String,
}

//! `finerail conform`: checks whether a node follows the protocol.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use lnet_conform::{
    ATTACKS, CHECKS, Check, Exchange, NodeUnderTest, O2IB_CHECKS, O2ibNode, Outcome, Risk,
    SetupError, Subject, Verdict, Way,
};
use lnet_node::NodeOptions;
use lnet_types::{LndType, Nid};
use lnet_wire::o2ib::SERVICE;
use serde::Serialize;

use crate::common::{NEGATIVE, Negative, print_bytes};
use crate::doctor::{examinable, of_one_interface};
use crate::ping::{endpoint_address, endpoint_nid, is_here, own_address, seconds};

/// Arguments of `finerail conform`.
#[derive(clap::Args)]
#[command(after_help = "\
Each check has a name, and the rules of docs/protocol that it checks. Without --intrusive \
only those checks run that send what correct nodes send, and that leave no state in the node: these are safe \
for a server in production. The others send malformed input, which a kernel logs, and make the node close \
connections.

A check that fails is repeated once. If the second result differs, the check is 'unsteady' and does not \
count as failed.

A node that accepts only privileged source ports (the default of kernel nodes over tcp) needs --privileged, \
which needs CAP_NET_BIND_SERVICE or root.

A node on an o2ib network is checked over RDMA, as an acceptor: what the node does as a dialler is not checked. Peers \
see a checker at the address of a running node as a restart of that node.

Examples
  finerail conform --privileged 10.1.0.2@tcp
  finerail conform --intrusive --port 9988 127.0.0.2@tcp
  finerail conform --only ping-valid,push-ack --intrusive --json 10.1.0.2@tcp
  finerail conform --intrusive 10.7.0.2@o2ib                 over InfiniBand, RoCE or Omni-Path
  finerail conform --list
  finerail conform --hostile --port 9988 127.0.0.2@tcp       what does a node of your own survive?

Exit code: 0 no check failed twice, 1 a check did or the node did not answer, 2 wrong usage.
")]
pub(crate) struct ConformArgs {
    /// The node to check
    #[arg(required_unless_present = "list")]
    nid: Option<Nid>,
    /// Run also the checks that a kernel logs, that make the node close connections, or that leave a peer in the node
    #[arg(long)]
    intrusive: bool,
    /// Attack the node in place of checking it: bounded floods, forged answers, replies that are not read, half-open
    /// connections. An attack passes if the node still answers. Only for a node of your own
    #[arg(long, conflicts_with = "intrusive")]
    hostile: bool,
    /// With --hostile: the node on another machine is your own
    #[arg(long, requires = "hostile")]
    own: bool,
    /// Run only these checks
    #[arg(long, value_name = "CHECK", value_delimiter = ',')]
    only: Vec<String>,
    /// Connect from source ports below 1024, as kernel nodes do; do not use the address of a running node
    #[arg(long)]
    privileged: bool,
    /// Connect from the address of this local NID
    #[arg(long, short, value_name = "NID")]
    source: Option<Nid>,
    /// TCP port of the node
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = NodeOptions::LNET_PORT,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    port: u16,
    /// Timeout of each check, in seconds; nodes close a silent connection after five
    #[arg(long, short, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    timeout: f64,
    /// Print the bytes of every check, not only of those that fail
    #[arg(long, short, conflicts_with = "json")]
    verbose: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Print all checks, one a line, and exit
    #[arg(long, conflicts_with_all = ["nid", "only"])]
    list: bool,
}

/// Runs `finerail conform`.
pub(crate) fn run(args: &ConformArgs) -> anyhow::Result<ExitCode> {
    let Some(nid) = args.nid else {
        let tables: &[&[Check]] = if args.hostile {
            &[&ATTACKS]
        } else {
            &[CHECKS, O2IB_CHECKS]
        };
        print_bytes(list(tables, args.json)?.as_bytes(), &mut io::stdout())?;
        return Ok(ExitCode::SUCCESS);
    };
    if args.timeout == 0.0 {
        bail!("--timeout 0 leaves no time to answer");
    }
    let chosen = args.chosen(nid)?;
    if args.hostile && !args.own && nid.ip().is_some_and(|address| !is_here(address)) {
        bail!(
            "{nid} is on another machine: --hostile loads a node, and needs --own if that node is your own"
        );
    }
    let mut target = Target::reach(args.subject(nid)?).map_err(|error| match error {
        SetupError::NotTcp(_) | SetupError::NotO2ib(_) | SetupError::Device(_) => error.into(),
        _ => anyhow::Error::new(Negative(error.to_string())),
    })?;
    let mut results = Vec::new();
    let count = chosen.len();
    for (index, check) in chosen.into_iter().enumerate() {
        args.announce(index, count, check);
        let result = Made {
            check,
            outcome: args.make(&mut target, check),
        };
        if !args.json {
            print_bytes(result.text(args.verbose).as_bytes(), &mut io::stdout())?;
        }
        results.push(result);
    }
    let report = Report::new(&target, &results);
    let text = if args.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        report.summary()
    };
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(match report.failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(NEGATIVE),
    })
}

/// The node that is checked, and how it is reached.
enum Target {
    Tcp(NodeUnderTest),
    O2ib(O2ibNode),
}

impl Target {
    fn reach(subject: Subject) -> Result<Self, SetupError> {
        match subject.nid.net().lnd {
            LndType::O2IB => O2ibNode::dial(subject).map(Self::O2ib),
            _ => NodeUnderTest::new(subject).map(Self::Tcp),
        }
    }

    fn run(&mut self, check: &Check) -> Outcome {
        match self {
            Self::Tcp(node) => node.run(check),
            Self::O2ib(node) => node.run(check),
        }
    }

    const fn subject(&self) -> &Subject {
        match self {
            Self::Tcp(node) => node.subject(),
            Self::O2ib(node) => node.subject(),
        }
    }

    fn source_nid(&self) -> Nid {
        match self {
            Self::Tcp(node) => node.source_nid(),
            Self::O2ib(node) => node.source_nid(),
        }
    }
}

impl ConformArgs {
    fn chosen(&self, nid: Nid) -> anyhow::Result<Vec<&'static Check>> {
        let table = self.table(nid)?;
        for name in &self.only {
            if !table.iter().any(|check| check.id == name) {
                let lnd = nid.net().lnd;
                bail!("there is no check '{name}' of {lnd} networks; --list prints all checks");
            }
        }
        let is_chosen =
            |check: &&Check| self.only.is_empty() || self.only.iter().any(|name| name == check.id);
        Ok(table.iter().filter(is_chosen).collect())
    }

    /// Returns the table that the names of checks come from.
    fn table(&self, nid: Nid) -> anyhow::Result<&'static [Check]> {
        match (self.hostile, nid.net().lnd) {
            (true, LndType::O2IB) => bail!("--hostile attacks nodes on tcp networks only"),
            (true, _) => Ok(&ATTACKS),
            (false, LndType::O2IB) => Ok(O2IB_CHECKS),
            (false, _) => Ok(CHECKS),
        }
    }

    fn subject(&self, nid: Nid) -> anyhow::Result<Subject> {
        if nid.net().lnd == LndType::O2IB {
            return self.rdma_subject(nid);
        }
        let Some(address) = examinable(nid)?.ip() else {
            return Err(SetupError::NotTcp(nid).into());
        };
        let source = match self.source {
            Some(source) if source == nid => bail!("--source {source} is the node to check"),
            Some(source) => own_address(source)?,
            None => endpoint_address(address, self.port)?,
        };
        Ok(Subject {
            nid,
            address: SocketAddr::new(address, self.port),
            source,
            privileged: self.privileged,
            timeout: Duration::from_secs_f64(self.timeout),
        })
    }

    fn rdma_subject(&self, nid: Nid) -> anyhow::Result<Subject> {
        if self.privileged || self.port != NodeOptions::LNET_PORT {
            bail!("--privileged and --port are for tcp networks: {nid} is dialled over RDMA");
        }
        let own = endpoint_nid(of_one_interface(nid)?, self.source, self.port)?;
        let Some(address) = nid.ip() else {
            return Err(SetupError::NotO2ib(nid).into());
        };
        let source = own_address(own)?;
        if own.net() != nid.net() || source == address {
            bail!("--source {own} must be another address on {}", nid.net());
        }
        Ok(Subject {
            nid,
            address: SocketAddr::new(address, SERVICE),
            source,
            privileged: false,
            timeout: Duration::from_secs_f64(self.timeout),
        })
    }

    fn make(&self, target: &mut Target, check: &Check) -> Option<Outcome> {
        let may = self.intrusive || self.hostile || check.risk == Risk::Safe;
        may.then(|| target.run(check))
    }

    /// Shows on a terminal which check runs, because JSON is printed only at the end.
    fn announce(&self, index: usize, count: usize, check: &Check) {
        let mut terminal = io::stderr();
        if self.json && terminal.is_terminal() {
            // Standard error is closed: there is no other place to report this.
            let _unprinted = writeln!(terminal, "{}/{count} {}", index + 1, check.id);
        }
    }
}

/// A check and its outcome. `None`: the check was not made because it is intrusive and `--intrusive` was not
/// given.
struct Made {
    check: &'static Check,
    outcome: Option<Outcome>,
}

/// The reason why an intrusive check was not made.
const NOT_ALLOWED: &str = "intrusive: --intrusive";

impl Made {
    /// Returns the result in one or two words, and the reason if there is one.
    fn result(&self) -> (&'static str, Option<&str>) {
        match self.outcome.as_ref().map(|outcome| &outcome.verdict) {
            Some(Verdict::Passed) => ("passed", None),
            Some(Verdict::Failed(why)) => ("failed", Some(why)),
            Some(Verdict::Unsteady(why)) => ("unsteady", Some(why)),
            Some(Verdict::NotApplicable(why)) => ("not applicable", Some(why)),
            None => ("not applicable", Some(NOT_ALLOWED)),
        }
    }

    /// Returns the line of the check, the reason, and the bytes. Empty if the check was not made.
    fn text(&self, verbose: bool) -> String {
        let Some(outcome) = &self.outcome else {
            return String::new();
        };
        let (result, why) = self.result();
        let Check {
            id, rules, title, ..
        } = self.check;
        let mut text = format!("{result:<15} {id:<24} {rules:<16} {title}\n");
        if let Some(why) = why {
            text.push_str(&format!("    {why}\n"));
        }
        if verbose || matches!(outcome.verdict, Verdict::Failed(_) | Verdict::Unsteady(_)) {
            outcome
                .observed
                .iter()
                .for_each(|observed| dump(observed, &mut text));
        }
        text
    }
}

/// Writes the bytes of an exchange, sixteen a line.
fn dump(exchange: &Exchange, text: &mut String) {
    let Exchange {
        connection,
        way,
        bytes,
        length,
    } = exchange;
    let what = match way {
        Way::Sent => format!("sent {length} bytes"),
        Way::Received => format!("received {length} bytes"),
        Way::Closed => "closed by the node".to_owned(),
    };
    // Writing to a `String` cannot fail.
    let _ok = writeln!(text, "    connection {connection}: {what}");
    for (index, line) in bytes.chunks(16).enumerate() {
        let _ok = writeln!(text, "      {:04x}  {}", 16 * index, hex(line, " "));
    }
    if bytes.len() < *length {
        let _ok = writeln!(text, "      and {} more", length - bytes.len());
    }
}

fn hex(bytes: &[u8], between: &str) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(between)
}

#[derive(Serialize)]
struct Report {
    nid: String,
    address: SocketAddr,
    source: String,
    /// Over RDMA, the source port is below 1024 if the system permits that.
    #[serde(skip_serializing_if = "Option::is_none")]
    privileged: Option<bool>,
    passed: usize,
    failed: usize,
    unsteady: usize,
    not_applicable: usize,
    checks: Vec<CheckRow>,
    #[serde(skip)]
    not_allowed: usize,
}

#[derive(Serialize)]
struct CheckRow {
    id: &'static str,
    network: String,
    rules: &'static str,
    title: &'static str,
    intrusive: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    milliseconds: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    observed: Vec<ExchangeRow>,
}

#[derive(Serialize)]
struct ExchangeRow {
    connection: usize,
    way: &'static str,
    length: usize,
    /// The first bytes of the exchange, in hexadecimal.
    bytes: String,
}

impl Report {
    fn new(target: &Target, results: &[Made]) -> Self {
        let count = |result| {
            results
                .iter()
                .filter(|one| one.result().0 == result)
                .count()
        };
        let subject = target.subject();
        Self {
            nid: subject.nid.to_string(),
            address: subject.address,
            source: target.source_nid().to_string(),
            privileged: matches!(target, Target::Tcp(_)).then_some(subject.privileged),
            passed: count("passed"),
            failed: count("failed"),
            unsteady: count("unsteady"),
            not_applicable: count("not applicable"),
            checks: results.iter().map(CheckRow::made).collect(),
            not_allowed: results.iter().filter(|one| one.outcome.is_none()).count(),
        }
    }

    fn summary(&self) -> String {
        let Self {
            nid,
            passed,
            failed,
            unsteady,
            not_allowed,
            ..
        } = self;
        let not_applicable = self.not_applicable - not_allowed;
        let mut text =
            format!("{nid}: {passed} passed, {failed} failed, {not_applicable} not applicable");
        if *unsteady > 0 {
            text.push_str(&format!(
                "; {unsteady} unsteady: failed once, and not when repeated"
            ));
        }
        if *not_allowed > 0 {
            text.push_str(&format!(
                "; {not_allowed} intrusive checks did not run (--intrusive)"
            ));
        }
        text + "\n"
    }
}

impl CheckRow {
    fn of(check: &Check) -> Self {
        Self {
            id: check.id,
            network: check.lnd().to_string(),
            rules: check.rules,
            title: check.title,
            intrusive: check.risk == Risk::Intrusive,
            result: None,
            reason: None,
            milliseconds: None,
            observed: Vec::new(),
        }
    }

    fn made(made: &Made) -> Self {
        let (result, reason) = made.result();
        let outcome = made.outcome.as_ref();
        let observed = outcome.map(|outcome| outcome.observed.iter().map(row).collect());
        Self {
            result: Some(result),
            reason: reason.map(str::to_owned),
            milliseconds: outcome.map(|outcome| outcome.elapsed.as_secs_f64() * 1_000.0),
            observed: observed.unwrap_or_default(),
            ..Self::of(made.check)
        }
    }
}

fn row(exchange: &Exchange) -> ExchangeRow {
    ExchangeRow {
        connection: exchange.connection,
        way: match exchange.way {
            Way::Sent => "sent",
            Way::Received => "received",
            Way::Closed => "closed",
        },
        length: exchange.length,
        bytes: hex(&exchange.bytes, ""),
    }
}

/// Lists all checks, one a line or as JSON.
fn list(tables: &[&[Check]], json: bool) -> anyhow::Result<String> {
    let all = tables.iter().copied().flatten();
    if json {
        let rows: Vec<CheckRow> = all.map(CheckRow::of).collect();
        return Ok(serde_json::to_string_pretty(&rows)? + "\n");
    }
    let line = |check: &Check| {
        let risk = match check.risk {
            Risk::Safe => "safe",
            Risk::Intrusive => "intrusive",
        };
        let Check {
            id, rules, title, ..
        } = check;
        format!("{id:<24} {rules:<16} {risk:<10} {title}\n")
    };
    Ok(all.map(line).collect())
}

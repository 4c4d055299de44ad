//! `finerail watch-kernel`: reads what the kernel's LNet shows on a timer, reports what the lints find in it, and serves
//! it to Prometheus with the names that a node of Finerail has.
//!
//! ```text
//!  lnetctl … show -v, lctl get_param, ip addr      (or the files of a folder)
//!      ─▶ one document ─┬─▶ lints, with the counters that rose since the last reading ─▶ new findings on standard output
//!                       └─▶ page of metrics ─▶ GET /metrics
//! ```

mod page;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use lnet_config::Document;
use lnet_noded::MetricsEndpoint;
use lnet_site::lint::{Finding, Input, Severity, lint_since};
use lnet_site::{NodeText, SiteFile, gather};

use crate::common::{NEGATIVE, complaint, metrics_address, print_bytes, read_text};
use crate::node::wait_time;
use crate::service::StopSignals;
use page::Page;

/// Arguments of `finerail watch-kernel`.
#[derive(clap::Args)]
#[command(after_help = "\
The metrics have the names of those of a node of Finerail (docs/monitoring.md), so that one dashboard shows both; \
lnet_findings counts what the lints find, by code and severity. A finding is printed when it appears.

Examples:
  finerail watch-kernel --metrics 9123
  finerail watch-kernel --once                      print the findings of this node, and end
  finerail watch-kernel --files outputs/ --once     of files: the outputs of lnetctl, lctl and ip addr

Exit code: 0 the command was stopped, or found no errors; 1 with --once, errors were found; 2 wrong usage, or LNet \
shows nothing.
")]
pub(crate) struct WatchKernelArgs {
    /// The time between two readings, such as 60s or 5m
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = wait_time)]
    interval: Duration,
    /// Serve metrics for Prometheus at http://ADDRESS/metrics: ADDRESS:PORT, or a PORT of 127.0.0.1
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,
    /// Read the files of this directory in place of running commands
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// Read once, print all findings, and end
    #[arg(long, conflicts_with = "metrics")]
    once: bool,
}

/// The name of the node in findings, and the folder of its outputs.
const NAME: &str = "kernel";

/// The commands, each with the name of its output.
const COMMANDS: [(&str, &[&str]); 8] = [
    ("net.yaml", &["lnetctl", "net", "show", "-v", "4"]),
    ("peer.yaml", &["lnetctl", "peer", "show", "-v", "4"]),
    ("route.yaml", &["lnetctl", "route", "show", "-v"]),
    ("routing.yaml", &["lnetctl", "routing", "show"]),
    ("global.yaml", &["lnetctl", "global", "show"]),
    ("stats.yaml", &["lnetctl", "stats", "show"]),
    (
        "params.txt",
        &["lctl", "get_param", "peers", "routes", "nis"],
    ),
    ("ip_addr.json", &["ip", "-j", "addr"]),
];

/// How long a command may take. A kernel that hangs must not stop the watch.
const PATIENCE: Duration = Duration::from_secs(20);

/// The most bytes that are read of an output.
const OUTPUT_MAX: u64 = 16 << 20;

/// The most files that are read of a directory.
const FILES_MAX: usize = 256;

/// A reading of the kernel's LNet.
struct Reading {
    node: NodeText,
    findings: Vec<Finding>,
    document: Document,
}

/// Runs `finerail watch-kernel`.
pub(crate) fn run(args: &WatchKernelArgs) -> anyhow::Result<ExitCode> {
    if args.interval.is_zero() {
        bail!("--interval 0s leaves no time between two readings");
    }
    let mut told = BTreeSet::new();
    let reading = args.read(None, &mut told)?;
    if args.once {
        tell(&reading.findings, &BTreeSet::new())?;
        if reading.findings.is_empty() {
            print_bytes(b"no findings\n", &mut io::stdout())?;
        }
        let mut findings = reading.findings.iter();
        let is_wrong = findings.any(|finding| finding.severity == Severity::Error);
        return Ok(if is_wrong {
            ExitCode::from(NEGATIVE)
        } else {
            ExitCode::SUCCESS
        });
    }
    let mut signals = StopSignals::register()?;
    let page = Arc::new(Mutex::new(String::new()));
    let served = Arc::clone(&page);
    let text = move || {
        served
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    };
    let endpoint = args
        .metrics
        .map(|address| MetricsEndpoint::open_text(address, text));
    let endpoint = endpoint.transpose()?;
    if let Some(endpoint) = &endpoint {
        print_bytes(
            format!("ready: metrics at {}\n", endpoint.address()).as_bytes(),
            &mut io::stdout(),
        )?;
    }
    let mut known = BTreeSet::new();
    let (mut earlier, mut complained) = (None, None);
    let mut next = Ok(reading);
    let mut found = Vec::new();
    loop {
        let made = match next {
            Ok(Reading {
                node,
                findings,
                document,
            }) => {
                (earlier, complained) = (Some(node), None);
                let page = Page::of(&document, &findings, seconds_now());
                found = findings;
                page
            }
            Err(error) => {
                let text = format!("{error:#}");
                if complained.as_ref() != Some(&text) {
                    complaint(&text);
                    complained = Some(text);
                }
                Page::unread(seconds_now())
            }
        };
        *page.lock().unwrap_or_else(PoisonError::into_inner) = made;
        // Who reads a finding can look at the page at once.
        tell(&found, &known)?;
        known = found.iter().map(identity).collect();
        if signals.wait_at_most(args.interval) {
            return Ok(ExitCode::SUCCESS);
        }
        next = args.read(earlier.as_ref(), &mut told);
    }
}

impl WatchKernelArgs {
    /// Reads what LNet shows, and compares its counters with those of an earlier reading. Says what was passed over unless
    /// it is in `told`.
    fn read(
        &self,
        earlier: Option<&NodeText>,
        told: &mut BTreeSet<String>,
    ) -> anyhow::Result<Reading> {
        let (files, passed_over) = match &self.files {
            Some(directory) => of_directory(directory)?,
            None => (of_commands()?, Vec::new()),
        };
        for what in passed_over {
            if told.len() < FILES_MAX && told.insert(what.clone()) {
                complaint(&format!("passed over: {what}"));
            }
        }
        let gathered = gather(&files);
        let node = gathered.nodes.into_iter().next();
        let node = node.context("nothing that was read shows an LNet configuration")?;
        let input = Input {
            name: NAME,
            text: &node.text,
            interfaces: node.interfaces.as_deref(),
            port: node.port,
        };
        let findings = lint_since(&[input], |_| earlier.map(|node| node.text.as_str()))?.findings;
        let survey = lnet_config::survey(&node.text);
        let document = survey.map(|survey| survey.document).unwrap_or_default();
        Ok(Reading {
            node,
            findings,
            document,
        })
    }
}

/// Prints the findings that were not known before, one a line.
fn tell(findings: &[Finding], known: &BTreeSet<(&'static str, String)>) -> io::Result<()> {
    let new = findings
        .iter()
        .filter(|finding| !known.contains(&identity(finding)));
    let lines = new.map(|finding| {
        let Finding {
            severity,
            code,
            reason,
            fix,
            ..
        } = finding;
        let text = format!("{severity}[{code}] {reason}; fix: {fix}");
        format!("{}\n", files_lnet::Printable::text(&text))
    });
    print_bytes(lines.collect::<String>().as_bytes(), &mut io::stdout())
}

/// Returns what makes two findings of different readings the same. Reasons contain counters, which change.
fn identity(finding: &Finding) -> (&'static str, String) {
    let reason = finding
        .reason
        .chars()
        .filter(|one| !one.is_ascii_digit() || finding.key.is_empty());
    (
        finding.code,
        format!("{} {}", finding.key, reason.collect::<String>()),
    )
}

fn seconds_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// Runs the commands. A command that fails is left out: an older `lnetctl` lacks some of them.
fn of_commands() -> anyhow::Result<Vec<SiteFile>> {
    let mut files = Vec::new();
    let mut failures: Vec<Failure> = Vec::new();
    for (name, words) in COMMANDS {
        match output(words) {
            Ok(text) => files.push(SiteFile {
                path: format!("{NAME}/{name}"),
                text,
            }),
            Err(error) => failures.push((words, format!("{error:#}"))),
        }
    }
    let shows = files.iter().any(|file| file.path.ends_with("/net.yaml"));
    if !shows {
        bail!(
            "LNet of the kernel shows nothing here: {}; start it (modprobe lnet; lnetctl lnet configure --all), or read \
             the outputs of another machine with --files DIR",
            folded(&failures)
        );
    }
    Ok(files)
}

/// A command that failed, and why.
type Failure = (&'static [&'static str], String);

/// Returns one text for each program and reason.
fn folded(failures: &[Failure]) -> String {
    let mut groups: Vec<(Failure, usize)> = Vec::new();
    for (words, why) in failures {
        let same = groups
            .iter_mut()
            .find(|((first, reason), _)| first.first() == words.first() && reason == why);
        match same {
            Some((_, others)) => *others += 1,
            None => groups.push(((words, why.clone()), 0)),
        }
    }
    let texts = groups.iter().map(|((words, why), others)| {
        let program = words.first().copied().unwrap_or_default();
        match others {
            _ if why == MISSING => format!("{program}: {why}"),
            0 => format!("{}: {why}", words.join(" ")),
            _ => format!("{} and {others} other commands: {why}", words.join(" ")),
        }
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// Why a command cannot be run if there is no such program.
const MISSING: &str = "not installed, or not in PATH";

fn output(words: &[&str]) -> anyhow::Result<String> {
    let Some((program, arguments)) = words.split_first() else {
        bail!("no command");
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let spawned = command.stdout(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow!(MISSING),
        _ => error.into(),
    })?;
    let out = child.stdout.take().context("no output")?;
    let (sender, receiver) = mpsc::channel();
    // The thread ends with the child, which is killed if it takes too long.
    thread::spawn(move || {
        let mut text = String::new();
        let read = out.take(OUTPUT_MAX).read_to_string(&mut text);
        sender.send(read.map(|_| text))
    });
    let text = receiver.recv_timeout(PATIENCE);
    if text.is_err() {
        // The child has ended meanwhile.
        let _ended = child.kill();
    }
    let status = child.wait()?;
    let text = text.map_err(|_| anyhow!("no end within {} s", PATIENCE.as_secs()))??;
    if !status.success() {
        bail!("{status}");
    }
    Ok(text)
}

/// Reads the files of a directory as the outputs of one node. Also returns what was passed over, and why: what is no text
/// is no output.
fn of_directory(directory: &Path) -> anyhow::Result<(Vec<SiteFile>, Vec<String>)> {
    let shown = directory.display();
    let paths = list(directory).with_context(|| format!("cannot read {shown}"))?;
    let mut passed_over = Vec::new();
    if paths.len() > FILES_MAX {
        let more = paths.len() - FILES_MAX;
        passed_over.push(format!("{shown}: {more} files after the first {FILES_MAX}"));
    }
    let mut files = Vec::new();
    for path in paths.iter().take(FILES_MAX) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match read_text(path) {
            Ok(text) => files.push(SiteFile {
                path: format!("{NAME}/{name}"),
                text,
            }),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                passed_over.push(format!("{}: {error}", path.display()));
            }
            Err(error) => {
                let shown = path.display();
                return Err(error).with_context(|| format!("cannot read {shown}"));
            }
        }
    }
    Ok((files, passed_over))
}

/// Returns the paths of the files in a directory, sorted.
fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.is_file());
    paths.sort_unstable();
    Ok(paths)
}

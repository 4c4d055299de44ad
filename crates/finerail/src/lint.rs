//! `finerail lint`: reports problems in configurations.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use files_lnet::Printable;
use lnet_site::lint::{Input, Report, lint_since, list};

use crate::common::{BAD_INPUT, NEGATIVE, complaint, print_bytes, read_standard_input, read_text};

/// Arguments of `finerail lint`.
#[derive(clap::Args)]
#[command(after_help = "\
On the node: lnetctl export > node.yaml; ip -j addr > node.json; rdma -j link >> node.json

Examples:
  finerail lint /etc/lnet.conf
  finerail lint node.yaml --interfaces node.json
  finerail lint client.yaml router.yaml --interfaces router.yaml=router.json
  finerail lint --sarif site/*.yaml > lint.sarif
  dmesg | finerail lint -                                      what its messages mean
  lnetctl stats show > 1; sleep 60; lnetctl stats show | finerail lint - --since 1     what fails now

Exit code: 0 no errors, 1 errors were found, 2 wrong usage, or a file cannot be read or is no YAML; the \
findings of the other files are printed nevertheless.
")]
pub(crate) struct LintArgs {
    /// A node's configuration: YAML that lnetctl exports, shows or imports, or a file of modprobe.d; or a log, or what
    /// modprobe, mount, lnetctl or dnf printed; `-`: standard input; several are checked one by one and against each other
    #[arg(value_name = "FILE", required_unless_present = "list")]
    files: Vec<PathBuf>,
    /// A node's interfaces, the output of `ip -j addr` or `ip addr`, and behind it, for nodes with o2ib networks, that of
    /// `rdma -j link` or `rdma link`, and for nodes in user space the limit of locked memory (`/proc/PID/limits`, a unit of
    /// systemd); with several configurations, FILE= names the node's configuration; repeatable
    #[arg(long, value_name = "[FILE=]INTERFACES")]
    interfaces: Vec<String>,
    /// An earlier reading of the same node (stats show, net show -v, peer show -v): report the counters that rose since,
    /// in place of the totals. A file with two readings, one after the other, needs no --since
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "sarif")]
    json: bool,
    /// Print SARIF 2.1.0, which code hosts and editors show next to the lines
    #[arg(long)]
    sarif: bool,
    /// Print all lints, one a line, and exit
    #[arg(long, conflicts_with_all = ["files", "interfaces", "since", "json", "sarif"])]
    list: bool,
}

/// The lint code for a text that is not a configuration at all.
const UNREADABLE: &str = "unreadable";

/// The text of a configuration and of its interfaces, as read from the files.
struct Texts {
    name: String,
    text: String,
    interfaces: Option<String>,
    /// An earlier reading of the same node.
    earlier: Option<String>,
}

/// Runs `finerail lint`.
pub(crate) fn run(args: &LintArgs) -> anyhow::Result<ExitCode> {
    if args.list {
        print_bytes(list().as_bytes(), &mut io::stdout())?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.since.is_some() && args.files.len() != 1 {
        bail!("--since takes one configuration: the later reading of the same node");
    }
    let (texts, mut unread) = args.read()?;
    if texts.is_empty()
        && let Some(error) = unread.pop()
    {
        return Err(error);
    }
    for error in &unread {
        complaint(&format!("{error:#}"));
    }
    let inputs: Vec<Input<'_>> = texts.iter().map(Texts::input).collect();
    let earlier = |name: &str| {
        let mut texts = texts.iter();
        texts.find(|text| text.name == name)?.earlier.as_deref()
    };
    let report = lint_since(&inputs, earlier)?;
    print_bytes(args.printed(&report)?.as_bytes(), &mut io::stdout())?;
    let mut findings = report.findings.iter();
    let is_hidden = findings.any(|finding| finding.code == UNREADABLE) || !unread.is_empty();
    Ok(if is_hidden {
        ExitCode::from(BAD_INPUT)
    } else if report.errors == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NEGATIVE)
    })
}

impl LintArgs {
    /// Reads all files. Returns the texts, and the errors of the files that cannot be read.
    fn read(&self) -> anyhow::Result<(Vec<Texts>, Vec<anyhow::Error>)> {
        let mut texts: Vec<Texts> = Vec::new();
        let mut unread = Vec::new();
        for (at, path) in self.files.iter().enumerate() {
            let name = path.display().to_string();
            if self.files.iter().take(at).any(|other| other == path) {
                bail!("{name} is given twice");
            }
            match read(path) {
                Ok(text) => texts.push(Texts::new(name, text)),
                Err(error) => unread.push(error),
            }
        }
        if let (Some(since), Some(text)) = (&self.since, texts.first_mut()) {
            text.earlier = Some(read(since)?);
        }
        for argument in &self.interfaces {
            let Some((at, path)) = owner(&texts, &self.files, argument)? else {
                continue;
            };
            // `texts` is empty if the only configuration could not be read.
            let Some(owner) = texts.get_mut(at) else {
                continue;
            };
            if owner.interfaces.replace(read(Path::new(path))?).is_some() {
                bail!("the interfaces of {} are given twice", owner.name);
            }
        }
        Ok((texts, unread))
    }

    fn printed(&self, report: &Report) -> anyhow::Result<String> {
        if self.json {
            return Ok(serde_json::to_string_pretty(report)? + "\n");
        }
        if self.sarif {
            return Ok(serde_json::to_string_pretty(&report.sarif())? + "\n");
        }
        let text = report.to_text();
        // Names and rules come from files: control characters must not reach the terminal.
        let lines = text.lines();
        Ok(lines
            .map(|line| format!("{}\n", Printable::text(line)))
            .collect())
    }
}

/// The key at which another reading of counters begins in a file.
const READING: &str = "statistics:";

impl Texts {
    /// Takes a text of one reading, or of several, of which the last one is checked and the first one is the earlier
    /// reading. Lines keep their numbers.
    fn new(name: String, text: String) -> Self {
        let starts = |line: &&str| line.starts_with(READING);
        let readings = text.lines().filter(starts).count();
        let (mut earlier, mut last, mut seen) = (String::new(), String::new(), 0);
        for line in text.lines() {
            seen += usize::from(starts(&line));
            let line = if line == "---" { "" } else { line };
            if seen < 2 {
                earlier += &format!("{line}\n");
            }
            last += &if seen < readings {
                "\n".to_owned()
            } else {
                format!("{line}\n")
            };
        }
        let (text, earlier) = match readings {
            0 | 1 => (text, None),
            _ => (last, Some(earlier)),
        };
        Self {
            name,
            text,
            interfaces: None,
            earlier,
        }
    }

    fn input(&self) -> Input<'_> {
        Input {
            name: &self.name,
            text: &self.text,
            interfaces: self.interfaces.as_deref(),
            port: None,
        }
    }
}

/// Reads a text. Rejects an empty one: the program that should have written it has failed, so a check of it
/// would prove nothing.
fn read(path: &Path) -> anyhow::Result<String> {
    if path.is_dir() {
        let name = path.display();
        bail!("{name} is a directory: `finerail site check {name}` looks at the files of a site");
    }
    let (text, name) = match path.as_os_str() == "-" {
        true => (read_standard_input(), "standard input".to_owned()),
        false => (read_text(path), path.display().to_string()),
    };
    let text = text.with_context(|| format!("cannot read {name}"))?;
    if text.trim().is_empty() {
        bail!("{name} is empty: there is nothing to check");
    }
    Ok(text)
}

/// Finds the configuration that an argument of `--interfaces` belongs to. Returns its index in `texts` and the
/// file of the interfaces; `None` if that configuration could not be read.
fn owner<'a>(
    texts: &[Texts],
    files: &[PathBuf],
    argument: &'a str,
) -> anyhow::Result<Option<(usize, &'a str)>> {
    for file in files {
        let name = file.display().to_string();
        let rest = argument.strip_prefix(&name);
        if let Some(path) = rest.and_then(|rest| rest.strip_prefix('=')) {
            let at = texts.iter().position(|text| text.name == name);
            return Ok(at.map(|at| (at, path)));
        }
    }
    if files.len() > 1 {
        bail!("--interfaces {argument}: with several configurations write FILE={argument}");
    }
    Ok(Some((0, argument)))
}

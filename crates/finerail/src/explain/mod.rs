//! `finerail explain`: explains why a message takes its path, and what would change the path.

mod changes;
mod page;
mod places;
mod render;
mod targets;

use std::env;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;
use lnet_config::machine::Machine;
use lnet_core::UsedPaths;
use lnet_dlc::Dlc;
use lnet_dlc::protocol::Request;
use lnet_explain::{
    Change, Code, Decision, Difference, Explanation, Imported, Node, Question, Reverse, Settings,
    Severity, Source, explain, import, reverse, what_if,
};
use lnet_policy::Profile;
use lnet_site::lint;
use lnet_types::Nid;
use serde::Serialize;

use self::changes::ChangeArgs;
use self::page::Page;
use crate::common::{
    NEGATIVE, ProfileName, complaint, default_control_path, print_bytes, read_limited,
    read_targets, read_text,
};
use crate::top::wants_colours;

/// Arguments of `finerail explain`.
#[derive(clap::Args)]
#[command(after_help = "\
On the node: lnetctl export > node.yaml, or for all details
  (lnetctl net show -v 4; lnetctl peer show -v 4; lnetctl route show -v; lnetctl global show;
   lnetctl udsp show) > node.yaml; ip -j addr > node.json

Examples:
  finerail explain --config node.yaml --to 10.0.0.2@tcp
  finerail explain --config node.yaml --interfaces node.json --to 10.0.0.2@tcp --fail eth0
  finerail explain --config node.yaml --to 10.0.0.2@tcp --add-rule '--src tcp1 --priority 0'
  finerail explain --node --to 10.0.0.2@tcp
  finerail explain --node --targets fs1.json

Without -v it prints the path, the reason, problems, and changes that lead to another path.

An error that is printed, such as an interface that is down under the path, blocks it.

Exit code: 0 there is a path (with --targets, to every node), 1 none or a blocked one, 2 wrong usage or bad input.
")]
pub(crate) struct ExplainArgs {
    /// The output of lnetctl on the node: an export, or outputs of show; several files are combined. Or a file of modprobe.d
    #[arg(long, value_name = "FILE", num_args = 1.., required_unless_present_any = ["state", "node"])]
    config: Vec<PathBuf>,
    /// The complete state of a running node, as JSON: the explanation is then exact
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "interfaces"])]
    state: Option<PathBuf>,
    /// Get the state of the node that is controlled over this Unix socket: the explanation is then exact
    /// [default: the socket of `finerail ctl`]
    #[arg(
        long,
        value_name = "SOCKET",
        num_args = 0..=1,
        conflicts_with_all = ["config", "interfaces", "state"]
    )]
    node: Option<Option<PathBuf>>,
    /// The destination
    #[arg(long, value_name = "NID", required_unless_present = "targets")]
    to: Option<Nid>,
    /// Instead of one destination, all nodes of the MGS and the targets in this file, which `finerail doctor mount --save`
    /// writes: a line for each
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "peer_config"])]
    targets: Option<PathBuf>,
    /// Send from this local NID
    #[arg(long, value_name = "NID")]
    from: Option<Nid>,
    /// Payload of each message, in bytes
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=1 << 20)
    )]
    size: u32,
    /// The number of sends to predict
    #[arg(
        long,
        value_name = "N",
        default_value_t = 12,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    sends: u32,
    /// Select like the design documents, or like shipping kernels [default: that of the state, or design]
    #[arg(long, value_enum)]
    profile: Option<ProfileName>,
    /// What a resend must not reuse: the pair of interfaces, or each of the two [default: that of the state, or pair]
    #[arg(long, value_enum)]
    used_paths: Option<UsedPathsName>,
    /// The node's interfaces: the output of `ip -j addr` or `ip addr`
    #[arg(long, value_name = "FILE")]
    interfaces: Option<PathBuf>,
    /// The output of lnetctl on the destination: explains the reverse path too
    #[arg(long, value_name = "FILE", num_args = 1..)]
    peer_config: Vec<PathBuf>,
    /// Print also the candidates of each decision, the next sends, resends, rules and health; twice: also the resends of
    /// the other profile, and all assumptions
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Print all results as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    changes: ChangeArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum UsedPathsName {
    /// Only the same pair of local and peer interface
    Pair,
    /// Each used local interface and each used peer interface
    Literal,
}

/// The limit of bytes of a state file. The state of 100,000 peers has about 40 MB.
const STATE_BYTES_MAX: u64 = 256 << 20;

/// The whole result as JSON.
#[derive(Serialize)]
struct Report<'a> {
    explanation: &'a Explanation,
    difference: Option<&'a Difference>,
    reverse: Option<&'a Reverse>,
    places: &'a [lint::Finding],
    left_out: &'a [String],
}

/// Runs `finerail explain`.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let texts = Texts::read(args)?;
    let settings = args.settings(&texts)?;
    let node = args.node(&texts, &settings)?;
    let mut question = Question {
        to: args.to.unwrap_or(Nid::LOOPBACK),
        from: args.from,
        size: args.size,
        sends: args.sends,
    };
    if node.state.nis.is_empty() && !args.changes.adds_interfaces() {
        anyhow::bail!(
            "the input has no local NI: give the output of `lnetctl export` or `lnetctl net show -v 4` on the node"
        );
    }
    if let Some(from) = args.from
        && !args.changes.adds_interfaces()
        && !node.state.nis.iter().any(|ni| ni.nid == from)
    {
        let nids: Vec<String> = node.state.nis.iter().map(|ni| ni.nid.to_string()).collect();
        anyhow::bail!(
            "--from {from}: the node has no such NID; it has {}",
            nids.join(", ")
        );
    }
    let changes = args.changes.read(node.state.config.globals.profile)?;
    if let Some(path) = &args.targets {
        question.sends = 1;
        return explain_targets(args, &texts, &node, (path, &question, &changes));
    }
    let explanation = explain(&node, &question)?;
    let difference = match changes.as_slice() {
        [] => None,
        changes => Some(what_if(&node, &question, changes)?),
    };
    let last = difference.as_ref().map_or(&explanation, |d| &d.after);
    let back = ExplainArgs::way_back(&texts.peer, (&node, &settings), last, &question)?;
    let places = places::findings(&texts, last.answer.path.as_ref(), question.to)?;
    let report = Report {
        explanation: &explanation,
        difference: difference.as_ref(),
        reverse: back.as_ref(),
        places: &places,
        left_out: &node.facts.left_out,
    };
    print(&report, args)?;
    Ok(match passes(last, &report) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NEGATIVE),
    })
}

/// Returns whether messages pass: there is a path, and no error is known of its two ends.
fn passes(explanation: &Explanation, report: &Report<'_>) -> bool {
    let Some(path) = &explanation.answer.path else {
        return false;
    };
    let blocks = |one: &lnet_explain::Finding| match one.code {
        // An import stops there, whatever the path.
        Code::InterfaceMissing | Code::PeerMissing | Code::AsymmetricRoute => true,
        Code::InterfaceDown => path.interface.as_ref() == Some(&one.subject),
        _ => false,
    };
    let back = report.reverse.map(|back| &back.explanation.findings);
    let mut findings = explanation
        .findings
        .iter()
        .chain(back.into_iter().flatten());
    let mut places = report.places.iter();
    !findings.any(|one| one.severity == Severity::Error && blocks(one))
        && !places.any(|one| one.severity == lint::Severity::Error)
}

/// Explains the paths to the targets in a file.
fn explain_targets(
    args: &ExplainArgs,
    texts: &Texts,
    node: &Node,
    (path, question, changes): (&Path, &Question, &[Change]),
) -> anyhow::Result<ExitCode> {
    let mut ways = targets::ways(node, &read_targets(path)?, question, changes)?;
    ways.look(texts)?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&ways)? + "\n",
        false => ways.to_text(),
    };
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(match ways.is_whole() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NEGATIVE),
    })
}

impl ExplainArgs {
    fn settings(&self, texts: &Texts) -> anyhow::Result<Settings> {
        let interfaces = texts.interfaces.as_ref();
        let machine =
            interfaces.map(|(name, text)| Machine::parse(text).with_context(|| name.clone()));
        let machine = machine.transpose()?;
        Ok(Settings {
            profile: self.profile(),
            used_paths: self.used_paths().unwrap_or_default(),
            machine,
        })
    }

    fn profile(&self) -> Option<Profile> {
        self.profile.map(Profile::from)
    }

    fn used_paths(&self) -> Option<UsedPaths> {
        self.used_paths.map(|name| match name {
            UsedPathsName::Pair => UsedPaths::Pair,
            UsedPathsName::Literal => UsedPaths::Literal,
        })
    }

    fn node(&self, texts: &Texts, settings: &Settings) -> anyhow::Result<Node> {
        let mut node = match (&self.node, &self.state) {
            (Some(socket), _) => ask_node(socket.as_deref())?,
            (None, Some(path)) => read_state(path)?,
            (None, None) => {
                let Imported { node, warnings } = read_node(&texts.own, settings)?;
                warnings.iter().for_each(|warning| complaint(warning));
                return Ok(node);
            }
        };
        let globals = &mut node.state.config.globals;
        globals.profile = self.profile().unwrap_or(globals.profile);
        globals.used_paths = self.used_paths().unwrap_or(globals.used_paths);
        Ok(node)
    }

    fn way_back(
        peer: &[Named],
        (node, settings): (&Node, &Settings),
        forward: &Explanation,
        question: &Question,
    ) -> anyhow::Result<Option<Reverse>> {
        if peer.is_empty() {
            return Ok(None);
        }
        let settings = Settings {
            machine: None,
            ..settings.clone()
        };
        let peer = read_node(peer, &settings)?.node;
        Ok(reverse(node, &peer, forward, question)?)
    }
}

/// Formats selections that a node made in the past, with the tables that led to them.
pub(crate) fn decisions_text(decisions: &[Decision]) -> String {
    let mut page = Page::new(is_coloured(), columns());
    for one in decisions {
        render::decision(&mut page, one);
    }
    page.into_text()
}

/// Asks the running node for its current state.
fn ask_node(socket: Option<&Path>) -> anyhow::Result<Node> {
    let named = socket.map(Path::to_owned);
    let named = named.or_else(|| env::var_os("FINERAIL_CONTROL").map(PathBuf::from));
    let socket = named.unwrap_or_else(default_control_path);
    let mut dlc = Dlc::connect(&socket)?;
    let text = dlc
        .request(&Request::SelectionState)
        .with_context(|| format!("the node at {}", socket.display()))?;
    Node::from_json(&text).with_context(|| socket.display().to_string())
}

fn read_state(path: &Path) -> anyhow::Result<Node> {
    let name = path.display().to_string();
    let text = read_limited(path, STATE_BYTES_MAX);
    let text = text.with_context(|| format!("cannot read {name}"))?;
    if text.len() as u64 > STATE_BYTES_MAX {
        anyhow::bail!(
            "{name}: longer than {} MiB, the limit of a state",
            STATE_BYTES_MAX >> 20
        );
    }
    Node::from_json(&text).with_context(|| name)
}

fn read_node(texts: &[Named], settings: &Settings) -> anyhow::Result<Imported> {
    let sources: Vec<Source<'_>> = texts
        .iter()
        .map(|(name, text)| Source { name, text })
        .collect();
    import(&sources, settings).map_err(|error| anyhow::anyhow!("{error}"))
}

/// The name of a file, and its text.
type Named = (String, String);

/// The files of the arguments.
struct Texts {
    own: Vec<Named>,
    peer: Vec<Named>,
    interfaces: Option<Named>,
}

impl Texts {
    fn read(args: &ExplainArgs) -> anyhow::Result<Self> {
        let read = |path: &PathBuf| -> anyhow::Result<Named> {
            let name = path.display().to_string();
            let text = read_text(path).with_context(|| format!("cannot read {name}"))?;
            Ok((name, text))
        };
        Ok(Self {
            own: args
                .config
                .iter()
                .map(read)
                .collect::<anyhow::Result<_>>()?,
            peer: args
                .peer_config
                .iter()
                .map(read)
                .collect::<anyhow::Result<_>>()?,
            interfaces: args.interfaces.as_ref().map(read).transpose()?,
        })
    }
}

fn print(report: &Report<'_>, args: &ExplainArgs) -> anyhow::Result<()> {
    let text = if args.json {
        serde_json::to_string_pretty(report)? + "\n"
    } else {
        let mut page = Page::new(is_coloured(), columns());
        match report.difference {
            None => {
                render::explanation(&mut page, report.explanation, report.left_out, args.verbose)
            }
            Some(difference) => render::difference(&mut page, report.explanation, difference),
        }
        render::places(&mut page, report.places);
        if let Some(reverse) = report.reverse {
            render::reverse(&mut page, reverse);
        }
        page.into_text()
    };
    Ok(print_bytes(text.as_bytes(), &mut io::stdout())?)
}

/// Returns whether the output is a terminal that can show colours, and the user wants colours.
fn is_coloured() -> bool {
    let variable = |name: &str| env::var_os(name).map(|value| value.into_string());
    io::stdout().is_terminal() && wants_colours(variable)
}

/// Returns the width of the page: the terminal's width within the limits of readable lines, and 100 columns for
/// a file or a pipe.
fn columns() -> usize {
    if !io::stdout().is_terminal() {
        return WIDTH;
    }
    match ratatui::crossterm::terminal::size() {
        Ok((columns, _)) if columns > 0 => usize::from(columns).clamp(WIDTH_MIN, WIDTH_MAX),
        _ => WIDTH,
    }
}

/// The width without a terminal, in columns.
const WIDTH: usize = 100;
/// The smallest width. It has room for a NID and its indentation; a narrower terminal breaks the lines itself.
const WIDTH_MIN: usize = 40;
/// The largest width. Longer lines are hard to read.
const WIDTH_MAX: usize = 120;

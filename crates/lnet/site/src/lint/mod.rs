//! Finds mistakes in the LNet configurations of one node or of many nodes.
//!
//! Tags in comments cite the rules of path selection, health and policies in `docs/selection`.
//!
//! ```text
//!  documents ────────┐                   ┌─▶ lints of one node  ─┐
//!  (YAML, options)   ├─▶ Source ─▶ Node ─┤                       ├─▶ Report ─▶ text, JSON, SARIF
//!  ip -j addr ───────┘   places          └─▶ lints across nodes ─┘
//! ```
//!
//! Every lint is a pure function of the documents. A finding has the stable code of its lint ([`LINTS`]), the
//! place, the reason in one sentence, and advice. A lint that would have to guess reports nothing. For example,
//! NIDs that follow from the addresses of interfaces are known only with the output of `ip -j addr`; without this
//! output no lint concludes which node has which NID.
//!
//! This crate opens no file and no socket, chooses no path, and does not depend on the code that chooses paths.

mod catalogue;
mod finding;
mod lints;
mod node;
mod sarif;
mod settings;
mod source;
mod text;

use serde::Serialize;

pub use catalogue::{LINTS, Lint, Severity, list, markdown};
pub use finding::{Finding, Report, Shown};
pub use lints::is_virtual;
pub use settings::{OwnNi, Settings, settings};
pub use source::LintError;

pub(crate) use catalogue::NID_CLAIMED_TWICE;

use crate::lint::node::Node;
use crate::lint::source::Source;

/// The configuration of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Input<'a> {
    /// The name in findings: the name of the file.
    pub name: &'a str,
    /// The document: an export or output of `lnetctl`, a file for its import, or options of the kernel module.
    pub text: &'a str,
    /// The interfaces of the node, if they are known: the output of `ip -j addr`.
    pub interfaces: Option<&'a str>,
    /// The port that options of the module name beside a document that is no file of options.
    pub port: Option<u16>,
}

/// Runs all lints on each configuration, and on all configurations together.
///
/// ```
/// use lnet_site::lint::{Input, lint};
///
/// let text = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp}]}]\n\
///             route: [{net: o2ib, gateway: 10.0.9.9@tcp1, hop: 1}]\n";
/// let report = lint(&[Input { name: "node.yaml", text, interfaces: None, port: None }])?;
/// assert_eq!(report.findings[0].code, "gateway-not-local");
/// assert_eq!((report.findings[0].line, report.errors), (2, 1));
/// # Ok::<(), lnet_site::lint::LintError>(())
/// ```
///
/// # Errors
///
/// Returns an error for the first `interfaces` text that is no output of `ip -j addr`. A document that cannot be
/// imported or cannot be read is no error but a finding.
pub fn lint(inputs: &[Input<'_>]) -> Result<Report, LintError> {
    lint_classes(inputs, |_| 1)
}

/// Runs all lints like [`lint`], and compares counters with earlier readings: `earlier(name)` is the text of an earlier
/// reading of the node with this name. What rose in between is reported in place of the totals. A text that cannot be
/// read counts as no reading.
///
/// # Errors
///
/// Returns an error like [`lint`].
pub fn lint_since<'t>(
    inputs: &[Input<'_>],
    earlier: impl Fn(&str) -> Option<&'t str>,
) -> Result<Report, LintError> {
    let mut sources = read(inputs)?;
    for source in &mut sources {
        let survey = earlier(source.name).and_then(|text| lnet_config::survey(text).ok());
        source.earlier = survey.map(|survey| survey.document);
    }
    Ok(report(inputs, &sources, |_| 1))
}

/// Runs all lints like [`lint`], but the document with index `i` stands for `count(i)` nodes. The count matters for
/// lints that compare a node with most other nodes.
///
/// # Errors
///
/// Returns an error like [`lint`].
pub fn lint_classes(
    inputs: &[Input<'_>],
    count: impl Fn(usize) -> usize,
) -> Result<Report, LintError> {
    Ok(report(inputs, &read(inputs)?, count))
}

/// A finding about one node, with the NI that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedFinding {
    /// The index of the node among the inputs.
    pub node: usize,
    /// The NI; `None` if the finding is about the whole node.
    pub ni: Option<OwnNi>,
    /// The finding.
    pub finding: Finding,
}

/// Runs all lints like [`lint_classes`], and returns the findings of the lints that decide whether messages arrive although
/// a path is there: the interface and the subnet under an NI, its NID, and the port.
///
/// # Errors
///
/// Returns an error like [`lint`].
pub fn lint_places(
    inputs: &[Input<'_>],
    count: impl Fn(usize) -> usize,
) -> Result<Vec<PlacedFinding>, LintError> {
    let sources = read(inputs)?;
    let nodes = nodes(&sources, count);
    let mut placed = Vec::new();
    for finding in lints::all(&nodes) {
        if !PLACES.contains(&finding.code) {
            continue;
        }
        let named = nodes
            .iter()
            .position(|node| node.source.name == finding.file);
        let Some(at) = named else {
            continue;
        };
        let ni = nodes.get(at).and_then(|node| node.ni_of(&finding.key));
        placed.push(PlacedFinding {
            node: at,
            ni: ni.map(OwnNi::from),
            finding,
        });
    }
    Ok(placed)
}

/// The lints of [`lint_places`].
const PLACES: [&str; 10] = [
    "import-refused",
    "loopback-interface",
    "virtual-interface",
    "nid-not-of-interface",
    "wrong-interface",
    "outside-subnet",
    "nid-claimed-twice",
    "prefix-differs",
    "port-differs",
    "option-mistaken",
];

fn nodes<'s>(sources: &'s [Source<'s>], count: impl Fn(usize) -> usize) -> Vec<Node<'s>> {
    let nodes = sources.iter().zip(0..);
    let nodes = nodes.map(|(source, at)| Node::new(source, count(at)));
    nodes.collect()
}

fn read<'a>(inputs: &[Input<'a>]) -> Result<Vec<Source<'a>>, LintError> {
    inputs.iter().map(Source::read).collect()
}

fn report(inputs: &[Input<'_>], sources: &[Source<'_>], count: impl Fn(usize) -> usize) -> Report {
    Report::new(inputs, lints::all(&nodes(sources, count)))
}

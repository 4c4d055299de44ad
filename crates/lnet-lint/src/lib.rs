//! What is wrong in the LNet configurations of one node or of many.
//!
//! "lnet-selection" in these pages is the description of path selection, health and policies.
//!
//! ```text
//!  documents ────────┐                   ┌─▶ lints of one node  ─┐
//!  (YAML, options)   ├─▶ Source ─▶ Node ─┤                       ├─▶ Report ─▶ text, JSON, SARIF
//!  ip -j addr ───────┘   places          └─▶ lints across nodes ─┘
//! ```
//!
//! Every lint is a pure function of what the documents say. It finds a cause by its stable code ([`LINTS`]), names the
//! place, the reason in one sentence and what helps. A lint that would have to guess keeps quiet: NIDs that follow
//! from the addresses of interfaces are known only with the output of `ip -j addr`, and without them nothing is said
//! of who has which NID.
//!
//! It opens no file and no socket, chooses no path, and does not depend on the code that does.

mod catalogue;
mod finding;
mod lints;
mod node;
mod sarif;
mod source;
mod text;

use serde::Serialize;

pub use catalogue::{LINTS, Lint, Severity, list, markdown};
pub use finding::{Finding, Report, Shown};
pub use source::LintError;

use crate::node::Node;
use crate::source::Source;

/// A node's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Input<'a> {
    /// What findings call it: the name of its file.
    pub name: &'a str,
    /// The document: what `lnetctl` exports, shows or imports, or options of the kernel module.
    pub text: &'a str,
    /// The node's interfaces, if they are known: the output of `ip -j addr`.
    pub interfaces: Option<&'a str>,
}

/// Looks for everything that is wrong, in each configuration and between them.
///
/// ```
/// use lnet_lint::{Input, lint};
///
/// let text = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp}]}]\n\
///             route: [{net: o2ib, gateway: 10.0.9.9@tcp1, hop: 1}]\n";
/// let report = lint(&[Input { name: "node.yaml", text, interfaces: None }])?;
/// assert_eq!(report.findings[0].code, "gateway-not-local");
/// assert_eq!((report.findings[0].line, report.errors), (2, 1));
/// # Ok::<(), lnet_lint::LintError>(())
/// ```
///
/// # Errors
///
/// For the first output of `ip -j addr` that is none. A document that cannot be put in force, or not be read at all,
/// is a finding.
pub fn lint(inputs: &[Input<'_>]) -> Result<Report, LintError> {
    lint_classes(inputs, |_| 1)
}

/// The same where a document stands for as many nodes as `count` says of its index, and counts as many where it is asked
/// what most nodes have.
///
/// # Errors
///
/// As [`lint`].
pub fn lint_classes(
    inputs: &[Input<'_>],
    count: impl Fn(usize) -> usize,
) -> Result<Report, LintError> {
    let sources: Result<Vec<Source<'_>>, LintError> = inputs.iter().map(Source::read).collect();
    let sources = sources?;
    let nodes = sources.iter().zip(0..);
    let nodes = nodes.map(|(source, at)| Node::new(source, count(at)));
    let nodes: Vec<Node<'_>> = nodes.collect();
    Ok(Report::new(inputs, lints::all(&nodes)))
}

//! A node from what `lnetctl` prints of it: an export, or the outputs of its `show` commands.
//!
//! Several outputs are put together: what one of them does not say of an interface or a peer another one may.
//! What none says is assumed, and the assumption is kept ([`Assumed`]). What cannot be (a NID twice, a route
//! to a local net) is left out, and that is kept, too: kernels print such things, and the rest still answers.

mod build;
mod merge;

use lnet_config::machine::Machine;
use lnet_config::{ConfigError, Document};
use lnet_core::UsedPaths;
use lnet_policy::Profile;
use thiserror::Error;

use crate::node::Node;

/// A text and where it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its name in complaints.
    pub name: &'a str,
    /// What `lnetctl` printed.
    pub text: &'a str,
}

/// What outputs do not say and whoever asks decides.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How the node selects; as the outputs say if nothing is given, and by design if they do not.
    pub profile: Option<Profile>,
    /// What resends remember.
    pub used_paths: UsedPaths,
    /// The machine's interfaces, if they are known.
    pub machine: Option<Machine>,
}

/// A text that is not what `lnetctl` prints.
#[derive(Clone, Debug, Error)]
#[error("{}", .error.render(.name))]
pub struct ImportError {
    /// Which text.
    pub name: String,
    /// What is wrong, and where.
    pub error: Box<ConfigError>,
}

/// What was read.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The node.
    pub node: Node,
    /// What was not understood and passed over, with its place.
    pub warnings: Vec<String>,
}

/// Reads the outputs of one node.
///
/// ```
/// use lnet_explain::{Question, Settings, Source, explain, import};
///
/// let text = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp, interfaces: {0: eth0}}]}]";
/// let source = Source { name: "net.yaml", text };
/// let node = import(&[source], &Settings::default())?.node;
/// let question = Question { to: "10.0.0.9@tcp".parse()?, from: None, size: 0, sends: 1 };
/// let path = explain(&node, &question)?.answer.path.unwrap();
/// assert_eq!(path.to_string(), "10.0.0.1@tcp (eth0) → 10.0.0.9@tcp");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The first text that cannot be read, and why.
pub fn import(sources: &[Source<'_>], settings: &Settings) -> Result<Imported, ImportError> {
    let mut whole = Document::default();
    let mut warnings = Vec::new();
    for source in sources {
        let reading = lnet_config::read(source.text).map_err(|error| ImportError {
            name: source.name.to_owned(),
            error: Box::new(error),
        })?;
        let named = reading
            .warnings
            .iter()
            .map(|warning| warning.render(source.name));
        warnings.extend(named);
        merge::into(&mut whole, reading.document);
    }
    Ok(Imported {
        node: build::node(&whole, settings),
        warnings,
    })
}

/// The node that a document describes, as [`import`] builds it.
#[must_use]
pub fn from_document(document: &Document, settings: &Settings) -> Node {
    build::node(document, settings)
}

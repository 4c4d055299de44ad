//! All that is wrong with a document at once, and all that can be read of it.

use std::collections::BTreeSet;

use crate::document::Document;
use crate::error::{ConfigError, Problem};
use crate::places::Places;
use crate::read::{self, Purpose, Reader};
use crate::{routes, yaml};

/// What [`survey`] found.
#[derive(Debug)]
pub struct Survey<'a> {
    /// What could be read, as [`crate::read`] gives it: without values that are refused, and without the entries of
    /// lists that mean nothing without them.
    pub document: Document,
    /// Where it stands.
    pub places: Places<'a>,
    /// What an import refuses, sections before routes; at most a hundred complaints. Not among them is what the
    /// document shows as it was read: rules that cannot be in force ([`Document::rules`]), gateways on networks that
    /// are not local, keys that are not understood, requests and answers.
    pub refused: Vec<ConfigError>,
    /// How many complaints there were beyond those.
    pub more_refused: usize,
    /// Keys that are not understood, in the order of the document; at most a hundred.
    pub unknown: Vec<ConfigError>,
    /// How many there were beyond those.
    pub more_unknown: usize,
    incomplete: BTreeSet<&'static str>,
}

impl Survey<'_> {
    /// Whether entries of a section, such as `route`, were refused, so that nothing follows from what is not there.
    #[must_use]
    pub fn lacks(&self, section: &str) -> bool {
        self.incomplete.contains(section)
    }
}

/// Reads a document that is to be judged, and goes on behind everything that is wrong.
///
/// ```
/// let text = "route:\n- {net: tcp1, gateway: 10.0.0.300@tcp}\n- {net: tcp1, gateway: 10.0.0.9@tcp, hop: 0}\n";
/// let survey = lnet_config::survey(text)?;
/// let lines: Vec<usize> = survey.refused.iter().map(|error| error.line()).collect();
/// assert_eq!(lines, [2, 3]);
/// assert_eq!(survey.document.routes.len(), 1);
/// # Ok::<(), lnet_config::ConfigError>(())
/// ```
///
/// # Errors
///
/// When the text is not YAML.
pub fn survey(source: &str) -> Result<Survey<'_>, ConfigError> {
    let failed = |fault| ConfigError::new(source, fault);
    let (root, twice) = yaml::load_all(source).map_err(failed)?;
    let mut reader = Reader::new(Purpose::Survey);
    reader.refused = twice;
    let sections = reader.attempt(|reader| read::sections(&root, reader));
    let sections = sections.map_err(failed)?.unwrap_or_default();
    let unfit = routes::faults(&sections);
    for fault in unfit.filter(|fault| !matches!(fault.problem(), Problem::GatewayNotLocal(_))) {
        reader.refused.note(fault);
    }
    let refused = reader.refused.first.iter().map(crate::error::Fault::place);
    let refused: Vec<_> = refused.collect();
    Ok(Survey {
        document: sections.into_document(),
        places: Places::of(source, root).without(reader.kept, refused),
        more_refused: reader.refused.more,
        refused: reader.refused.errors(source),
        more_unknown: reader.warnings.more,
        unknown: reader.warnings.errors(source),
        incomplete: reader.incomplete,
    })
}

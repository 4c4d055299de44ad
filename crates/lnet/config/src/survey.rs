//! All problems of a document, and everything that can be read of it.

use std::collections::BTreeSet;

use crate::document::Document;
use crate::error::{ConfigError, Problem};
use crate::places::Places;
use crate::read::{self, Purpose, Reader};
use crate::{routes, yaml};

/// The result of [`survey`].
#[derive(Debug)]
pub struct Survey<'a> {
    /// The part that could be read, in the form of [`crate::read`]: without rejected values, and
    /// without list entries that are meaningless without a rejected value.
    pub document: Document,
    /// The places of its values.
    pub places: Places<'a>,
    /// The errors of an import, sections before routes; at most a hundred. Not included are
    /// problems that the document shows as it was read: rules that cannot take effect
    /// ([`Document::rules`]), gateways on networks that are not local, unknown keys, requests and
    /// answers.
    pub rejected: Vec<ConfigError>,
    /// The number of further errors.
    pub more_rejected: usize,
    /// Unknown keys in the order of the document; at most a hundred.
    pub unknown: Vec<ConfigError>,
    /// The number of further unknown keys.
    pub more_unknown: usize,
    incomplete: BTreeSet<&'static str>,
}

impl Survey<'_> {
    /// Returns true if entries of a section, such as `route`, were rejected. The absence of an
    /// entry then proves nothing.
    #[must_use]
    pub fn lacks(&self, section: &str) -> bool {
        self.incomplete.contains(section)
    }
}

/// Reads a document for a checker, and continues after every problem.
///
/// ```
/// let text = "route:\n- {net: tcp1, gateway: 10.0.0.300@tcp}\n- {net: tcp1, gateway: 10.0.0.9@tcp, hop: 0}\n";
/// let survey = lnet_config::survey(text)?;
/// let lines: Vec<usize> = survey.rejected.iter().map(|error| error.line()).collect();
/// assert_eq!(lines, [2, 3]);
/// assert_eq!(survey.document.routes.len(), 1);
/// # Ok::<(), lnet_config::ConfigError>(())
/// ```
///
/// # Errors
///
/// Text that is not YAML.
pub fn survey(source: &str) -> Result<Survey<'_>, ConfigError> {
    let failed = |fault| ConfigError::new(source, fault);
    let (root, twice) = yaml::load_all(source).map_err(failed)?;
    let mut reader = Reader::new(Purpose::Survey);
    reader.rejected = twice;
    let sections = reader.attempt(|reader| read::sections(&root, reader));
    let sections = sections.map_err(failed)?.unwrap_or_default();
    let unfit = routes::faults(&sections);
    for fault in unfit.filter(|fault| !matches!(fault.problem(), Problem::GatewayNotLocal(_))) {
        reader.rejected.note(fault);
    }
    let rejected = reader.rejected.first.iter().map(crate::error::Fault::place);
    let rejected: Vec<_> = rejected.collect();
    Ok(Survey {
        document: sections.into_document(),
        places: Places::of(source, root).without(reader.kept, rejected),
        more_rejected: reader.rejected.more,
        rejected: reader.rejected.errors(source),
        more_unknown: reader.warnings.more,
        unknown: reader.warnings.errors(source),
        incomplete: reader.incomplete,
    })
}

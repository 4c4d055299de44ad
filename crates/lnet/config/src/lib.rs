//! The YAML documents that `lnetctl` reads and writes: `/etc/lnet.conf`, exports, imports.
//!
//! ```text
//!            yaml            read                routes
//!  text ──▶ nodes ──▶ sections, value ──▶ routes against ──▶ Document ──▶ to_yaml ──▶ text
//!           with      by value, with      networks and         │  ▲
//!           places    places              own NIDs             ▼  │
//!                 \________|__________________/               Config
//!                          ▼
//!              ConfigError: line, column, key, reason, correct form
//! ```
//!
//! There are three ways to read:
//!
//! * [`parse`] reads a document that will take effect. It returns a [`Config`] of the sections
//!   `net`, `ip2nets`, `route`, `peer`, `routing`, `buffers`, `global`, `numa` and `udsp`
//!   (`docs/selection/configuration.md`). It ignores fields that an export prints and an import cannot set
//!   (statistics, status, health). It rejects unknown keys, keys given twice, values out of range
//!   and rules without effect, so that no part of a configuration is ignored silently.
//! * [`read`] reads a document for display. It returns a [`Document`] with everything that
//!   `lnetctl` prints at any verbosity, and reports unknown keys as warnings.
//! * [`survey`] reads a document for a checker. It returns everything that can be read, and
//!   everything that [`parse`] would reject.
//!
//! ```
//! let text = "net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: eth0}\n";
//! let config = lnet_config::parse(text)?;
//! assert_eq!(config.nets[0].nis[0].interfaces, ["eth0"]);
//! assert_eq!(lnet_config::parse(&config.to_yaml())?, config);
//!
//! let error = lnet_config::parse("net:\n- net typ: tcp\n").unwrap_err();
//! assert_eq!((error.line(), error.column()), (2, 3));
//! assert!(error.to_string().contains("invalid key 'net typ'"));
//! # Ok::<(), lnet_config::ConfigError>(())
//! ```
//!
//! A document may be a part of a configuration, such as a `route` section for a running node.
//! Routes are therefore checked against the local networks only if the document has networks.
//!
//! Limits: the crate opens no file and no socket, and does not know the interfaces of a machine.
//! Input is untrusted: its size, the number of its nodes and their nesting are limited. YAML
//! anchors, which could multiply the input, are rejected.

mod diff;
mod document;
mod error;
mod ip2nets;
pub mod machine;
mod model;
pub mod modprobe;
mod parameters;
mod peer_list;
pub mod pinned;
mod places;
mod read;
mod reply;
mod request;
mod routes;
mod since;
mod stats;
mod survey;
mod udsp;
mod write;
mod yaml;

pub use diff::{ApplyError, Change, NiName, deletion, diff};
pub use document::{
    CptPools, DeadRule, DerivedGlobals, Document, NetShow, NiShow, PeerNiShow, PeerShow, RouteShow,
    RouteType, Status, UdspInfo,
};
pub use error::{ConfigError, Problem};
pub use ip2nets::{Ip2Nets, IpPattern, NoRuleApplies};
pub use model::{
    Buffers, Config, LndTunables, NetConfig, NiConfig, PeerConfig, RouteConfig, Tunables,
};
pub use parameters::{Globals, PARAMETERS, Parameter};
pub use peer_list::PeerListError;
pub use places::{Places, Position, Step};
pub use reply::{ErrorBlock, ErrorLayout, PeerReply, Reply};
pub use request::Request;
pub use since::Since;
pub use stats::{
    Latency, MessageStats, NiHealth, NodeStats, PeerCredits, PeerNiHealth, Pool, Traffic,
};
pub use survey::{Survey, survey};
pub use udsp::{UdspAction, UdspEntry};
pub use write::{DIFFERENCES, Difference, Verbosity};

use lnet_policy::RuleList;

use error::Fault;
use read::{Purpose, Reader};

/// The file that the `lnet` service loads.
// [CONF-10]
pub const DEFAULT_PATH: &str = "/etc/lnet.conf";

/// Bytes of the largest document that [`parse`] accepts. An export with full statistics needs about
/// 1 KiB for each interface, so a document can have sixteen thousand.
pub const MAX_BYTES: usize = 16 << 20;

/// Reads a configuration that will take effect.
///
/// # Errors
///
/// The first problem with its place: text that is not YAML, an unknown key, an invalid value, or a
/// contradiction (a route to a local network, one NID twice).
pub fn parse(source: &str) -> Result<Config, ConfigError> {
    let (document, rules) = import(source).map_err(|fault| ConfigError::new(source, fault))?;
    let document = Document {
        udsp: Vec::new(),
        ..document
    };
    let (config, _) = document.config();
    Ok(Config { rules, ..config })
}

/// Reads a configuration for a node that has one already, as [`parse`] does. The document keeps the
/// indices of new rules and the NIDs of peers as they are listed, which [`deletion`] needs.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_document(source: &str) -> Result<Document, ConfigError> {
    let (document, _) = import(source).map_err(|fault| ConfigError::new(source, fault))?;
    Ok(document)
}

fn import(source: &str) -> Result<(Document, RuleList), Fault> {
    let root = yaml::load(source)?;
    let mut sections = read::sections(&root, &mut Reader::new(Purpose::Import))?;
    routes::check(&sections)?;
    let rules = std::mem::take(&mut sections.rules);
    Ok((sections.into_document(), rules))
}

/// The result of [`read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The document.
    pub document: Document,
    /// Unknown keys in the order of the document; at most a hundred.
    pub warnings: Vec<ConfigError>,
    /// The number of further warnings.
    pub more_warnings: usize,
}

/// Reads a document for display: an export, an output of `show` at any verbosity, an answer to a
/// request, an error.
///
/// # Errors
///
/// As [`parse`], except unknown keys, rules without effect and invalid routes, because a node
/// prints whatever it has.
pub fn read(source: &str) -> Result<Reading, ConfigError> {
    let mut reader = Reader::new(Purpose::Show);
    let sections = yaml::load(source).and_then(|root| read::sections(&root, &mut reader));
    let sections = sections.map_err(|fault| ConfigError::new(source, fault))?;
    Ok(Reading {
        document: sections.into_document(),
        more_warnings: reader.warnings.more,
        warnings: reader.warnings.errors(source),
    })
}

#[cfg(test)]
mod tests;

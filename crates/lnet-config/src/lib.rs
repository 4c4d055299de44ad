//! The YAML documents that `lnetctl` reads and writes: `/etc/lnet.conf`, exports, imports.
//!
//! ```text
//!            yaml            read                routes
//!  text ──▶ nodes ──▶ sections, value ──▶ routes against ──▶ Document ──▶ to_yaml ──▶ text
//!           with      by value, with      networks and         │  ▲
//!           places    places              own NIDs             ▼  │
//!                 \________|__________________/               Config
//!                          ▼
//!              ConfigError: line, column, key, reason, what would be right
//! ```
//!
//! Three ways to read. [`parse`] is for what is to be put in force: it gives a [`Config`] of the
//! sections `net`, `ip2nets`, `route`, `peer`, `routing`, `buffers`, `global`, `numa` and `udsp`
//! (selection, section 6.2), passes over what an export prints but an import cannot set (statistics,
//! status, health), and refuses everything else: unknown keys, keys given twice, values out of range,
//! rules that cannot have an effect, because a configuration that is silently only half in force is
//! worse than none. [`read`] is for what is to be looked at: it gives a [`Document`], with everything
//! that `lnetctl` prints at any verbosity, and reports unknown keys as warnings. [`survey`] is for what
//! is to be judged: it gives all that can be read, and all that [`parse`] would refuse.
//!
//! A document may also be a part of a configuration, such as one `route` section for a running node.
//! Whether routes fit the local networks is therefore checked only where the document has networks.
//!
//! This crate opens no file and no socket, and does not know which interfaces a machine has. Input is
//! untrusted: its size, the number of its nodes and their nesting are limited, and YAML anchors, which
//! could multiply it, are not supported.

mod diff;
mod document;
mod error;
mod ip2nets;
pub mod machine;
mod model;
pub mod modprobe;
mod peer_list;
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
    Buffers, Config, Globals, LndTunables, NetConfig, NiConfig, PeerConfig, RouteConfig, Tunables,
};
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

/// The file that the `lnet` service loads (selection, section 6.7).
pub const DEFAULT_PATH: &str = "/etc/lnet.conf";

/// Bytes of the largest document that [`parse`] takes. An export with full statistics needs about
/// 1 KiB an interface, so this holds sixteen thousand of them.
pub const MAX_BYTES: usize = 16 << 20;

/// Reads a document that is to be put in force.
///
/// # Errors
///
/// The first thing that is wrong, with its place: the text is not YAML, has a key or value that is not
/// understood, or says something that cannot be (a route to a local network, one NID twice).
pub fn parse(source: &str) -> Result<Config, ConfigError> {
    let (document, rules) = import(source).map_err(|fault| ConfigError::new(source, fault))?;
    let document = Document {
        udsp: Vec::new(),
        ..document
    };
    let (config, _) = document.config();
    Ok(Config { rules, ..config })
}

/// Reads a document that is to be put in force on a node that has a configuration already, as
/// [`parse`] does: with the places where rules are to be inserted, and the NIDs of peers as they are
/// listed, which [`deletion`] looks at.
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

/// What [`read`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The document.
    pub document: Document,
    /// Keys that are not understood, in the order of the document; at most a hundred.
    pub warnings: Vec<ConfigError>,
    /// How many warnings there were beyond those.
    pub more_warnings: usize,
}

/// Reads a document that is to be looked at: an export, an output of `show` at any verbosity, an
/// answer to a request, an error.
///
/// # Errors
///
/// As [`parse`], without unknown keys, rules without effect and routes that do not fit: a node prints
/// what it has.
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

//! Documents with requests to a node: `import --exec`: [CONF-6].

use lnet_types::Nid;

use crate::error::{ConfigError, Fault};
use crate::{read, yaml};

/// A request of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Ping these NIDs.
    Ping(Vec<Nid>),
    /// Discover the peers with these NIDs.
    Discover(Vec<Nid>),
}

impl Request {
    /// Reads `ping: {nids: {0: NID, 1: NID}}` and `discover` likewise, in the order of the document.
    ///
    /// # Errors
    ///
    /// The first problem, with its place. Sections of a configuration are invalid keys here.
    pub fn parse(source: &str) -> Result<Vec<Self>, ConfigError> {
        let requests = || -> Result<_, Fault> { read::requests(&yaml::load(source)?) };
        requests().map_err(|fault| ConfigError::new(source, fault))
    }
}

//! Why a directory cannot be looked at as a site.

use fgr::HostListError;
use thiserror::Error;

/// Why a directory cannot be looked at as a site.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SiteError {
    /// A name that is no host list.
    #[error("{0} is no list of hosts, as in node[001-128]")]
    Name(String, #[source] HostListError),
    /// More nodes than are taken.
    #[error("more than {0} nodes under one name")]
    TooLarge(usize),
    /// No node at all.
    #[error("no node: give one file or folder a node, such as node1.yaml or node[001-128].yaml")]
    Empty,
    /// Interfaces that are none.
    #[error(transparent)]
    Interfaces(#[from] lnet_lint::LintError),
}

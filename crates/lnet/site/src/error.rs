//! The reasons why a directory cannot be read as a site.

use fgr::HostListError;
use thiserror::Error;

/// A reason why a directory cannot be read as a site.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SiteError {
    /// The name of a file or folder is no host list.
    #[error("{0} is not a list of hosts, such as node[001-128]")]
    Name(String, #[source] HostListError),
    /// A name stands for more nodes than the limit.
    #[error("more than {0} nodes under one name")]
    TooLarge(usize),
    /// The directory describes no node.
    #[error("no node: give one file or folder a node, such as node1.yaml or node[001-128].yaml")]
    Empty,
    /// A list of interfaces cannot be read.
    #[error(transparent)]
    Interfaces(#[from] crate::lint::LintError),
}

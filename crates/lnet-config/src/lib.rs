//! The YAML documents that `lnetctl` reads and writes: `/etc/lnet.conf`, exports, imports.
//!
//! ```text
//!            yaml            read              routes
//!  text ──▶ nodes ──▶ sections, value ──▶ routes against ──▶ Config ──▶ to_yaml ──▶ text
//!           with      by value, with      networks and
//!           places    places              own NIDs
//!                 \________|__________________/
//!                          ▼
//!              ConfigError: line, column, key, reason, what would be right
//! ```
//!
//! [`parse`] takes the sections `net`, `route`, `peer`, `routing`, `buffers`, `global` and `numa`
//! (selection, section 6.2). What an export prints but an import cannot set (statistics, status,
//! health) is passed over, so that an export can be read back. Everything else is refused: unknown
//! keys, keys given twice, values out of range, and the sections whose behaviour this version does not
//! have, because a configuration that is silently only half in force is worse than none.
//!
//! A document may also be a part of a configuration, such as one `route` section for a running node.
//! Whether routes fit the local networks is therefore checked only where the document has networks.
//!
//! This crate opens no file and no socket, and does not know which interfaces a machine has. Input is
//! untrusted: its size, the number of its nodes and their nesting are limited, and YAML anchors, which
//! could multiply it, are not supported.

mod error;
mod model;
mod read;
mod routes;
mod write;
mod yaml;

pub use error::{ConfigError, Problem};
pub use model::{
    Buffers, Config, Globals, LndTunables, NetConfig, NiConfig, PeerConfig, RouteConfig, Tunables,
};

use error::Fault;

/// The file that the `lnet` service loads (selection, section 6.7).
pub const DEFAULT_PATH: &str = "/etc/lnet.conf";

/// Bytes of the largest document that [`parse`] takes. An export with full statistics needs about
/// 1 KiB an interface, so this holds sixteen thousand of them.
pub const MAX_BYTES: usize = 16 << 20;

/// Reads a document.
///
/// # Errors
///
/// The first thing that is wrong, with its place: the text is not YAML, has a key or value that is not
/// understood, or says something that cannot be (a route to a local network, one NID twice).
pub fn parse(source: &str) -> Result<Config, ConfigError> {
    read_document(source).map_err(|fault| ConfigError::new(source, fault))
}

fn read_document(source: &str) -> Result<Config, Fault> {
    let root = yaml::load(source)?;
    let document = read::document(&root)?;
    routes::check(&document)?;
    Ok(document.into_config())
}

#[cfg(test)]
mod tests;

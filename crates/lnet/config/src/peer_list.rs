//! Peers as a command line names them: a primary NID and a list of expressions.

use std::collections::BTreeSet;

use lnet_types::Nid;
use lnet_types::expr::{ExpandError, NidList, ParseExprError};
use thiserror::Error;

use crate::model::PeerConfig;

/// Why a primary NID and a list do not name a peer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PeerListError {
    /// No NID at all.
    #[error("missing required primary NID")]
    NoPrimary,
    /// The primary NID is an invalid text, or several NIDs.
    #[error("unsupported primary NID")]
    BadPrimary,
    /// The list has a text that is not a NID.
    #[error("Unable to parse nidlist: {0}")]
    Unparsable(#[from] ParseExprError),
    /// More NIDs than one command may name.
    #[error("too many NIDs: {0}")]
    TooMany(#[from] ExpandError),
    /// Loopback, or the wildcard.
    #[error("{0} cannot be a peer")]
    NotAPeer(Nid),
}

impl PeerConfig {
    /// The most NIDs of one command.
    // [CONF-7]
    pub const MAX_NIDS: usize = 128;

    /// The peer of `peer add --prim_nid PRIMARY --nid LIST`: the primary NID first, then the NIDs
    /// of the list in their order, each once. Ranges are expanded.
    ///
    /// # Errors
    ///
    /// [`PeerListError`].
    ///
    /// ```
    /// use lnet_config::PeerConfig;
    ///
    /// let peer = PeerConfig::from_lists(Some("10.0.0.1@tcp"), "10.0.0.[1-3]@tcp,5@gni", true)?;
    /// assert_eq!(peer.nids.len(), 4);
    /// # Ok::<(), lnet_config::PeerListError>(())
    /// ```
    pub fn from_lists(
        primary: Option<&str>,
        list: &str,
        multi_rail: bool,
    ) -> Result<Self, PeerListError> {
        let primary = primary.ok_or(PeerListError::NoPrimary)?;
        let primary: Nid = primary.parse().map_err(|_| PeerListError::BadPrimary)?;
        let mut nids = vec![primary];
        if !list.is_empty() {
            nids.extend(list.parse::<NidList>()?.expand(Self::MAX_NIDS)?);
        }
        if let Some(&nid) = nids.iter().find(|nid| nid.is_any() || nid.is_loopback()) {
            return Err(PeerListError::NotAPeer(nid));
        }
        let mut seen = BTreeSet::new();
        nids.retain(|nid| seen.insert(*nid));
        Ok(Self { nids, multi_rail })
    }
}

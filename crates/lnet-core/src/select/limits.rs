//! What a resend may use (section 2.2 of lnet-selection, patches 3 and 7 of the design).
//!
//! In the `design` profile a resend uses only what is in full health, and not again what it has used:
//!
//! | used paths | excluded | also |
//! |---|---|---|
//! | `Pair` | the very pair of local and peer interface | unused interfaces come before used ones |
//! | `Literal` | each local and each peer interface that was used | |
//!
//! Where there is no choice of the peer interface (cases A1D, A2D, B1D, B2D) the local interface is
//! always taken literally. In the `lustre` profile a resend may use anything.

use lnet_policy::Profile;
use lnet_types::Nid;

use super::observe::Exclusion;
use crate::config::{Globals, UsedPaths};
use crate::io::NiId;
use crate::ni::Ni;
use crate::peer::{PeerNi, PeerNiId};

/// What a resend knows of the attempts before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry<'a> {
    /// Over which pairs it went.
    pub(crate) used: &'a [(NiId, PeerNiId)],
    /// The peer NI that the caller or the LND wants next.
    pub(crate) named: Option<PeerNiId>,
}

/// The limits of one selection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits<'a> {
    used: &'a [(NiId, PeerNiId)],
    named: Option<PeerNiId>,
    literal: bool,
    active: bool,
}

impl<'a> Limits<'a> {
    pub(super) fn new(globals: &Globals, retry: Option<&Retry<'a>>) -> Self {
        let active = retry.is_some() && globals.profile == Profile::Design;
        let retry = retry.filter(|_| active);
        Self {
            used: retry.map_or(&[], |retry| retry.used),
            named: retry.and_then(|retry| retry.named),
            literal: globals.used_paths == UsedPaths::Literal,
            active,
        }
    }

    pub(super) fn are_active(&self) -> bool {
        self.active
    }

    /// The peer NI that comes before all others if it is well.
    pub(super) fn named(&self) -> Option<PeerNiId> {
        self.named
    }

    pub(super) fn has_used_ni(&self, id: NiId) -> bool {
        self.used.iter().any(|&(ni, _)| ni == id)
    }

    pub(super) fn has_used_peer_ni(&self, id: PeerNiId) -> bool {
        self.used.iter().any(|&(_, peer_ni)| peer_ni == id)
    }

    /// Whether a local interface may be used towards a NID that is not chosen but given.
    pub(super) fn check_ni(&self, ni: &Ni, nid: Nid) -> Result<(), Exclusion> {
        check_address(ni, nid)?;
        if !self.active {
            return Ok(());
        }
        if !ni.is_optimal() {
            return Err(Exclusion::NotOptimal);
        }
        if self.has_used_ni(ni.id) {
            return Err(Exclusion::Used);
        }
        Ok(())
    }

    /// Whether a peer NI may be used from this local interface, or from any if none is chosen yet.
    pub(super) fn check_peer_ni(
        &self,
        ni: Option<&Ni>,
        id: PeerNiId,
        peer_ni: &PeerNi,
    ) -> Result<(), Exclusion> {
        if let Some(ni) = ni {
            check_address(ni, peer_ni.nid)?;
        }
        if !self.active {
            return Ok(());
        }
        if !peer_ni.is_optimal() {
            return Err(Exclusion::NotOptimal);
        }
        let used = match ni {
            _ if self.named == Some(id) => false,
            Some(ni) if !self.literal => self.used.contains(&(ni.id, id)),
            None if !self.literal => false,
            _ => self.has_used_peer_ni(id),
        };
        if used {
            return Err(Exclusion::Used);
        }
        Ok(())
    }

    /// Whether a local interface may be used together with one of these peer NIs.
    pub(super) fn check_pairing<'p>(
        &self,
        ni: &Ni,
        mut peer_nis: impl Iterator<Item = (PeerNiId, &'p PeerNi)>,
    ) -> Result<(), Exclusion> {
        if self.active && !ni.is_optimal() {
            return Err(Exclusion::NotOptimal);
        }
        if self.active && self.literal && self.has_used_ni(ni.id) {
            return Err(Exclusion::Used);
        }
        if peer_nis.any(|(id, peer_ni)| self.check_peer_ni(Some(ni), id, peer_ni).is_ok()) {
            return Ok(());
        }
        Err(Exclusion::NoCounterpart)
    }
}

/// An interface with a 4-byte address and one with a 16-byte address have no connection, and neither form of a
/// header names both (sections 2.4 and 4.2).
fn check_address(ni: &Ni, nid: Nid) -> Result<(), Exclusion> {
    if ni.nid.is_large() == nid.is_large() {
        Ok(())
    } else {
        Err(Exclusion::OtherAddressSize)
    }
}

//! The limits of a resend. The rules are in `docs/selection/resend.md`.
//!
//! In the `design` profile a resend uses only interfaces in full health, and avoids the paths of earlier attempts:
//!
//! | used paths | excluded | also |
//! |---|---|---|
//! | `Pair` | the very pair of local and peer interface | unused interfaces come before used ones |
//! | `Literal` | each local and each peer interface that was used | |
//!
//! If the peer interface is given and not chosen (cases A1D, A2D, B1D, B2D), a used local interface is always
//! excluded. In the `lustre` profile a resend may use anything.

use lnet_policy::Profile;
use lnet_types::Nid;

use crate::fabric::ni::Ni;
use crate::fabric::peer::PeerNi;
use crate::fabric::select::observe::Exclusion;
use crate::ground::config::UsedPaths;
use crate::ground::globals::Globals;
use crate::ground::ids::PeerNiId;
use crate::ground::io::NiId;

/// What a resend knows about earlier attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry<'a> {
    /// The pairs of interfaces that earlier attempts used.
    pub(crate) used: &'a [(NiId, PeerNiId)],
    /// The peer NI that the caller or the LND asks for.
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

    /// Returns the peer NI that comes before all others if it is up and in full health.
    // [RESEND-25]
    pub(super) fn named(&self) -> Option<PeerNiId> {
        self.named
    }

    pub(super) fn has_used_ni(&self, id: NiId) -> bool {
        self.used.iter().any(|&(ni, _)| ni == id)
    }

    pub(super) fn has_used_peer_ni(&self, id: PeerNiId) -> bool {
        self.used.iter().any(|&(_, peer_ni)| peer_ni == id)
    }

    /// Checks whether a local interface may be used towards a given NID.
    // [RESEND-20]
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

    /// Checks whether a peer NI may be used from this local interface, or from any if none is chosen yet.
    // [RESEND-20] [RESEND-21]
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

    /// Checks whether a local interface may be used together with at least one of these peer NIs.
    // [RESEND-22]
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

/// Checks that both ends have addresses of the same size. No connection joins a 4-byte address and a 16-byte address,
/// and no form of header names both.
// [PATH-13]
fn check_address(ni: &Ni, nid: Nid) -> Result<(), Exclusion> {
    if ni.nid.is_large() == nid.is_large() {
        Ok(())
    } else {
        Err(Exclusion::OtherAddressSize)
    }
}

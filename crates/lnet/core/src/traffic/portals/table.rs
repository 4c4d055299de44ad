//! Portals, their match entries, and the PUTs that lazy portals hold.
//!
//! ```text
//!  portal ── match entries in order ── memory descriptor, one each
//!     └── if lazy: PUTs that no entry accepted, in the order of their arrival
//! ```

use std::collections::VecDeque;

use lnet_types::Nid;
use lnet_wire::{LNET_PORTAL, PORTALS};
use rustc_hash::FxHashMap;

use crate::ground::io::RxId;
use crate::ground::md::{MdHandle, MeHandle, MeSpec};
use crate::ground::status::DropReason;
use crate::traffic::portals::calls::PortalError;
use crate::traffic::portals::descriptor::Mds;
use crate::traffic::portals::matching::{Match, Me, Portal, PortalKind, Wanted};

/// The limit of PUTs that one lazy portal holds. Each of them also blocks a connection.
// [DATA-17]
pub const MAX_HELD_PER_PORTAL: usize = 4096;

/// All portals of a node.
#[derive(Debug)]
pub(crate) struct Portals {
    list: Vec<Portal>,
    lazy: Vec<Lazy>,
    entries: FxHashMap<MeHandle, Me>,
    /// The last handle. Handles count up and are never reused.
    last: u64,
}

/// The lazy state of a portal.
#[derive(Clone, Debug, Default)]
struct Lazy {
    enabled: bool,
    held: VecDeque<RxId>,
}

impl Portals {
    pub(crate) fn new() -> Self {
        Self {
            list: (0..PORTALS).map(|_| Portal::default()).collect(),
            lazy: vec![Lazy::default(); PORTALS as usize],
            entries: FxHashMap::default(),
            last: 0,
        }
    }

    /// Rejects a portal that programs may not use.
    pub(in crate::traffic) fn check(&self, portal: u32) -> Result<(), PortalError> {
        if portal == LNET_PORTAL || portal as usize >= self.list.len() {
            return Err(PortalError::InvalidPortal(portal));
        }
        Ok(())
    }

    /// Adds a match entry without memory.
    pub(crate) fn attach(&mut self, spec: MeSpec) -> Result<MeHandle, PortalError> {
        let invalid = PortalError::InvalidPortal(spec.portal);
        let portal = self.list.get_mut(spec.portal as usize).ok_or(invalid)?;
        if !portal.takes(PortalKind::of(&spec)) {
            return Err(PortalError::PortalKind(spec.portal));
        }
        self.last += 1;
        let handle = MeHandle(self.last);
        self.entries.insert(handle, Me::new(spec));
        portal.insert(handle, &spec);
        Ok(handle)
    }

    /// Returns the parameters of a match entry.
    pub(in crate::traffic) fn spec(&self, me: MeHandle) -> Option<&MeSpec> {
        Some(&self.entries.get(&me)?.spec)
    }

    /// Returns the descriptor of a match entry.
    pub(in crate::traffic) fn md_of(&self, me: MeHandle) -> Option<MdHandle> {
        self.entries.get(&me)?.md
    }

    /// Rejects a match entry to which no memory can be attached.
    pub(in crate::traffic) fn check_free(&self, me: MeHandle) -> Result<(), PortalError> {
        let entry = self.entries.get(&me).ok_or(PortalError::UnknownHandle)?;
        match entry.md {
            Some(_) => Err(PortalError::EntryInUse),
            None => Ok(()),
        }
    }

    /// Attaches memory to a match entry.
    pub(in crate::traffic) fn give(&mut self, me: MeHandle, md: MdHandle) {
        if let Some(entry) = self.entries.get_mut(&me) {
            entry.md = Some(md);
        }
    }

    /// Detaches the memory from a match entry, and removes the entry if it is to be removed with its memory. Returns
    /// false if the entry does not exist.
    #[must_use]
    pub(in crate::traffic) fn detach(&mut self, me: MeHandle) -> bool {
        let Some(entry) = self.entries.get_mut(&me) else {
            return false;
        };
        entry.md = None;
        if entry.spec.unlink_with_md {
            self.remove(me);
        }
        true
    }

    /// Removes a match entry if it exists.
    pub(in crate::traffic) fn remove(&mut self, me: MeHandle) {
        if let Some(entry) = self.entries.remove(&me)
            && let Some(portal) = self.list.get_mut(entry.spec.portal as usize)
        {
            portal.remove(me, &entry.spec);
        }
    }

    /// Searches a portal for the entry that accepts a message. `aliases` are the other NIDs of the initiator's peer.
    // [TYPE-9]
    pub(in crate::traffic) fn search(
        &self,
        mds: &Mds,
        portal: u32,
        wanted: &Wanted,
        aliases: &[Nid],
    ) -> Result<Match, DropReason> {
        let portal = self.list.get(portal as usize);
        let portal = portal.ok_or(DropReason::BadPortal)?;
        for handle in portal.candidates(wanted, aliases) {
            if let Some(outcome) = self.offer(mds, handle, wanted, aliases) {
                return outcome;
            }
        }
        Err(DropReason::NoMatch)
    }

    /// Offers a message to one entry; `None` if the entry does not accept it.
    pub(in crate::traffic) fn offer(
        &self,
        mds: &Mds,
        me: MeHandle,
        wanted: &Wanted,
        aliases: &[Nid],
    ) -> Option<Result<Match, DropReason>> {
        self.entries.get(&me)?.offer(mds, wanted, aliases)
    }

    /// Makes a portal lazy or ordinary. Returns the PUTs that the portal held, if it becomes ordinary.
    pub(in crate::traffic) fn set_lazy(&mut self, portal: u32, enabled: bool) -> VecDeque<RxId> {
        let Some(lazy) = self.lazy.get_mut(portal as usize) else {
            return VecDeque::new();
        };
        lazy.enabled = enabled;
        if enabled {
            VecDeque::new()
        } else {
            std::mem::take(&mut lazy.held)
        }
    }

    /// Returns whether the portal is lazy.
    pub(in crate::traffic) fn is_lazy(&self, portal: u32) -> bool {
        let lazy = self.lazy.get(portal as usize);
        lazy.is_some_and(|lazy| lazy.enabled)
    }

    /// Returns whether a lazy portal can hold one more PUT.
    pub(in crate::traffic) fn has_room(&self, portal: u32) -> bool {
        let lazy = self.lazy.get(portal as usize);
        lazy.is_some_and(|lazy| lazy.held.len() < MAX_HELD_PER_PORTAL)
    }

    /// Adds a PUT to the end of a lazy portal's queue.
    // [DATA-17]
    pub(in crate::traffic) fn hold(&mut self, portal: u32, put: RxId) {
        if let Some(lazy) = self.lazy.get_mut(portal as usize) {
            lazy.held.push_back(put);
        }
    }

    /// Removes a PUT from a lazy portal's queue.
    pub(in crate::traffic) fn forget_held(&mut self, portal: u32, put: RxId) {
        if let Some(lazy) = self.lazy.get_mut(portal as usize) {
            lazy.held.retain(|held| *held != put);
        }
    }

    /// Takes all PUTs that a portal holds. The caller puts back those that no descriptor accepts, by
    /// [`Portals::hold`].
    pub(in crate::traffic) fn take_held(&mut self, portal: u32) -> VecDeque<RxId> {
        let lazy = self.lazy.get_mut(portal as usize);
        lazy.map(|lazy| std::mem::take(&mut lazy.held))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use lnet_types::ProcessId;

    use super::*;
    use crate::ground::md::InsertPosition;

    fn spec(portal: u32, unlink_with_md: bool) -> MeSpec {
        MeSpec {
            portal,
            match_id: ProcessId::ANY,
            match_bits: 7,
            ignore_bits: 0,
            unlink_with_md,
            position: InsertPosition::After,
        }
    }

    #[test]
    fn an_entry_has_one_descriptor_at_a_time_and_goes_with_it_if_that_was_asked() {
        let mut portals = Portals::new();
        let [goes, stays] = [true, false].map(|goes| portals.attach(spec(30, goes)).unwrap());
        for me in [goes, stays] {
            assert_eq!(portals.check_free(me), Ok(()));
            portals.give(me, MdHandle(1));
            assert_eq!(portals.check_free(me), Err(PortalError::EntryInUse));
            assert!(portals.detach(me));
        }
        assert_eq!(portals.check_free(goes), Err(PortalError::UnknownHandle));
        assert_eq!(portals.check_free(stays), Ok(()));
        assert!(!portals.detach(goes));
    }

    #[test]
    fn the_first_entry_decides_of_which_kind_all_are() {
        let mut portals = Portals::new();
        portals.attach(spec(30, true)).unwrap();
        let unique = MeSpec {
            match_id: ProcessId::lustre("10.0.0.1@tcp".parse().unwrap()),
            ..spec(30, true)
        };
        assert_eq!(portals.attach(unique), Err(PortalError::PortalKind(30)));
        let beyond = portals.attach(spec(PORTALS, true));
        assert_eq!(beyond, Err(PortalError::InvalidPortal(PORTALS)));
    }

    #[test]
    fn an_ordinary_portal_gives_back_what_it_held_while_it_was_lazy() {
        let mut portals = Portals::new();
        assert!(portals.set_lazy(30, true).is_empty());
        for put in 0..MAX_HELD_PER_PORTAL as u64 {
            assert!(portals.has_room(30));
            portals.hold(30, RxId(put));
        }
        assert!(!portals.has_room(30));
        portals.forget_held(30, RxId(1));
        let held = portals.set_lazy(30, false);
        assert_eq!((held[0], held[1]), (RxId(0), RxId(2)));
        assert!(!portals.is_lazy(30) && portals.take_held(30).is_empty());
    }
}

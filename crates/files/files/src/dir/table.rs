//! The objects that handles name, and their open descriptors.
//!
//! ```text
//! handle   0 (4) · start of this program (8) · slot (4) · generation (4) · 0 (12)        32 bytes
//! ```
//!
//! The identity of an object is its file system, file number and time of creation. A new file with the number of
//! a removed file is therefore another object. The table keeps the last known place of an object, as the slot of its
//! directory and a name, to reopen the object after its descriptor was closed. Slot 0 is the root and stays open.
//!
//! The numbers of objects and of descriptors are limited. Each has a queue. If the entry at the front was used since
//! its last examination, it goes to the back. Otherwise the object is forgotten, or the descriptor closed. A
//! directory of known objects is never forgotten, and neither is an object that is held for a client (`holds.rs`).

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::dir::holds::Holds;
use crate::dir::identity::Acting;
use crate::{Errno, Handle, Kind};

/// What identifies an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) filesystem: u64,
    pub(crate) file: u64,
    pub(crate) born: (i64, u32),
}

/// What a descriptor permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// Access to attributes and to names in a directory.
    Path,
    /// Also reading of the content.
    Read,
    /// Reading and writing of the content.
    Write,
}

/// An open object.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) fd: OwnedFd,
    pub(crate) access: Access,
    /// The identity that opened the object; has no meaning for [`Access::Path`].
    pub(crate) acting: Acting,
}

/// A slot, and a number that distinguishes the objects that use the slot one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id {
    slot: u32,
    generation: u32,
}

#[cfg(test)]
impl Id {
    /// Returns the id of the first object of a slot.
    pub(crate) fn of_slot(slot: u32) -> Self {
        Self {
            slot,
            generation: 0,
        }
    }
}

/// A name in a directory.
pub(crate) type Spot = (Id, Box<[u8]>);

/// An object that a handle named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub(crate) id: Id,
    pub(crate) identity: Identity,
    pub(crate) kind: Kind,
}

/// How to reopen an object: from an open directory, along names.
pub(crate) struct Way {
    pub(crate) from: Arc<Open>,
    pub(crate) names: Vec<Box<[u8]>>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    node: Option<Node>,
}

struct Node {
    identity: Identity,
    kind: Kind,
    spot: Option<Spot>,
    children: u32,
    open: Option<Arc<Open>>,
    used: bool,
    open_used: bool,
    /// Number of clients for which the object is held: it keeps its descriptor and is not forgotten.
    holders: u32,
    /// Whether the last name was removed while the object was held.
    is_nameless: bool,
}

/// The id of the root.
pub(crate) const ROOT: Id = Id {
    slot: 0,
    generation: 0,
};
/// Limit of the depth of a tree: no path of Linux has more components.
const DEPTH_MAX: usize = 2048;
/// Limit of the queue entries of forgotten objects beyond the number of valid entries.
const QUEUE_SLACK: usize = 64;

/// The objects that this program knows.
pub(crate) struct Table {
    start: [u8; 8],
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_identity: FxHashMap<Identity, Id>,
    /// Objects in the order of their next examination, without the root. Some of them may be forgotten already.
    known: VecDeque<Id>,
    /// Objects with a descriptor, in the order of their next examination.
    opened: VecDeque<Id>,
    open_count: usize,
    objects_max: usize,
    descriptors_max: usize,
    pub(crate) holds: Holds,
}

impl Table {
    /// Creates a table that contains the root.
    pub(crate) fn new(
        start: [u8; 8],
        root: Open,
        identity: Identity,
        objects_max: usize,
        descriptors_max: usize,
        held_max: usize,
    ) -> Self {
        let mut node = Node::new(identity, Kind::Directory);
        node.open = Some(Arc::new(root));
        Self {
            start,
            slots: vec![Slot {
                generation: 0,
                node: Some(node),
            }],
            free: Vec::new(),
            by_identity: FxHashMap::from_iter([(identity, ROOT)]),
            known: VecDeque::new(),
            opened: VecDeque::new(),
            open_count: 0,
            objects_max,
            descriptors_max,
            holds: Holds::new(held_max),
        }
    }

    /// Returns the object that a handle names.
    pub(crate) fn find(&mut self, handle: Handle) -> Result<Object, Errno> {
        let id = self.id_of(handle).ok_or(Errno::ESTALE)?;
        let node = self.node(id).ok_or(Errno::ESTALE)?;
        node.used = true;
        let (identity, kind) = (node.identity, node.kind);
        Ok(Object { id, identity, kind })
    }

    /// Returns the descriptor of an object, if the object has one.
    pub(crate) fn open(&mut self, id: Id) -> Option<Arc<Open>> {
        let node = self.node(id)?;
        node.open_used = true;
        node.open.clone()
    }

    /// Returns how to reopen an object; `None` if its place is not known.
    pub(crate) fn way(&mut self, id: Id) -> Option<Way> {
        let (mut at, mut names) = (id, Vec::new());
        while names.len() < DEPTH_MAX {
            let node = self.node(at)?;
            if at != id
                && let Some(from) = node.open.clone()
            {
                names.reverse();
                return Some(Way { from, names });
            }
            let (parent, name) = node.spot.clone()?;
            names.push(name);
            at = parent;
        }
        None
    }

    /// Returns the path from the root to the last known place of an object; `None` if its place is not known.
    pub(crate) fn path(&mut self, id: Id) -> Option<Vec<u8>> {
        let (mut at, mut names) = (id, Vec::new());
        while at != ROOT {
            if names.len() == DEPTH_MAX {
                return None;
            }
            let (parent, name) = self.node(at)?.spot.clone()?;
            names.push(name);
            at = parent;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    /// Records the place of an object.
    pub(crate) fn note(&mut self, identity: Identity, kind: Kind, spot: Spot) -> (Object, Handle) {
        let id = match self.by_identity.get(&identity) {
            Some(&id) => id,
            None => self.insert(identity, kind),
        };
        self.put(id, Some(spot));
        if let Some(node) = self.node(id) {
            node.used = true;
        }
        (Object { id, identity, kind }, self.handle_of(id))
    }

    /// Keeps a descriptor of an object, unless the present descriptor permits more.
    pub(crate) fn keep(&mut self, id: Id, open: Arc<Open>) {
        let Some(node) = self.node(id) else { return };
        node.open_used = true;
        match &node.open {
            Some(kept) if kept.access > open.access => {}
            Some(_) => node.open = Some(open),
            None => {
                node.open = Some(open);
                self.open_count += 1;
                self.opened.push_back(id);
                self.close_some();
            }
        }
    }

    /// Records that a name was removed. With `last`, the object has no other name.
    pub(crate) fn removed(&mut self, identity: Identity, spot: (Id, &[u8]), last: bool) {
        let Some(&id) = self.by_identity.get(&identity) else {
            return;
        };
        if last {
            match self.node(id) {
                Some(node) if node.holders > 0 => {
                    node.is_nameless = true;
                    self.put(id, None);
                }
                _ => self.forget(id),
            }
        } else if self.node(id).is_some_and(|node| node.is_at(spot)) {
            self.put(id, None);
        }
    }

    /// Records a new place of an object, if the object is known.
    pub(crate) fn moved(&mut self, identity: Identity, spot: Spot) {
        if let Some(&id) = self.by_identity.get(&identity) {
            self.put(id, Some(spot));
        }
    }

    /// Holds an object for one more client. Returns `false` if the object is not known.
    pub(crate) fn hold(&mut self, id: Id, open: Arc<Open>) -> bool {
        let Some(node) = self.node(id) else {
            return false;
        };
        node.holders += 1;
        self.keep(id, open);
        true
    }

    /// Ends the hold of one client. Forgets an object that has no name any longer.
    pub(crate) fn release(&mut self, id: Id) {
        let Some(node) = self.node(id) else { return };
        node.holders = node.holders.saturating_sub(1);
        if node.holders == 0 && node.is_nameless {
            self.forget(id);
        }
    }

    fn node(&mut self, id: Id) -> Option<&mut Node> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation == id.generation {
            slot.node.as_mut()
        } else {
            None
        }
    }

    fn id_of(&self, handle: Handle) -> Option<Id> {
        if handle == Handle::ROOT {
            return Some(ROOT);
        }
        let rest = handle.0.strip_prefix(&[0; 4])?.strip_prefix(&self.start)?;
        let (slot, rest) = rest.split_first_chunk()?;
        let (generation, rest) = rest.split_first_chunk()?;
        let id = Id {
            slot: u32::from_le_bytes(*slot),
            generation: u32::from_le_bytes(*generation),
        };
        (id != ROOT && rest == [0; 12]).then_some(id)
    }

    fn handle_of(&self, id: Id) -> Handle {
        if id == ROOT {
            return Handle::ROOT;
        }
        let mut bytes = [0; 32];
        bytes[4..12].copy_from_slice(&self.start);
        bytes[12..16].copy_from_slice(&id.slot.to_le_bytes());
        bytes[16..20].copy_from_slice(&id.generation.to_le_bytes());
        Handle(bytes)
    }

    fn insert(&mut self, identity: Identity, kind: Kind) -> Id {
        self.forget_some();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            // `objects_max` limits the number of slots far below 2^32.
            (self.slots.len() - 1) as u32
        });
        let place = &mut self.slots[slot as usize];
        place.node = Some(Node::new(identity, kind));
        let generation = place.generation;
        let id = Id { slot, generation };
        self.by_identity.insert(identity, id);
        self.known.push_back(id);
        id
    }

    /// Sets or clears the place of an object. The root never has a place.
    fn put(&mut self, id: Id, spot: Option<Spot>) {
        let spot = spot.filter(|(parent, _)| *parent != id && id != ROOT);
        if let Some((parent, _)) = &spot
            && let Some(parent) = self.node(*parent)
        {
            parent.children += 1;
        }
        let Some(node) = self.node(id) else { return };
        node.is_nameless &= spot.is_none();
        if let Some((parent, _)) = std::mem::replace(&mut node.spot, spot)
            && let Some(parent) = self.node(parent)
        {
            parent.children = parent.children.saturating_sub(1);
        }
    }

    /// Closes descriptors until their number is within the limit.
    fn close_some(&mut self) {
        while self.open_count > self.descriptors_max + self.holds.count() {
            let Some(id) = self.opened.pop_front() else {
                return;
            };
            match self.node(id) {
                Some(node) if node.open_used || node.holders > 0 => {
                    node.open_used = false;
                    self.opened.push_back(id);
                }
                Some(node) => {
                    self.open_count -= usize::from(node.open.take().is_some());
                }
                None => {}
            }
        }
        if self.opened.len() > 2 * self.open_count + QUEUE_SLACK {
            let slots = &self.slots;
            self.opened.retain(|id| lives(slots, *id));
        }
    }

    /// Forgets objects until their number is within the limit.
    fn forget_some(&mut self) {
        // Two rounds suffice: the first clears `used`, and leaves of the tree can always be forgotten then.
        let mut looks = 2 * self.known.len();
        while self.by_identity.len() > self.objects_max && looks > 0 {
            looks -= 1;
            let Some(id) = self.known.pop_front() else {
                return;
            };
            match self.node(id) {
                Some(node) if node.used || node.children > 0 || node.holders > 0 => {
                    node.used = false;
                    self.known.push_back(id);
                }
                Some(_) => self.forget(id),
                None => {}
            }
        }
        if self.known.len() > 2 * self.by_identity.len() + QUEUE_SLACK {
            let slots = &self.slots;
            self.known.retain(|id| lives(slots, *id));
        }
    }

    fn forget(&mut self, id: Id) {
        if id == ROOT || self.node(id).is_none() {
            return;
        }
        self.put(id, None);
        let slot = &mut self.slots[id.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        if let Some(node) = slot.node.take() {
            self.open_count -= usize::from(node.open.is_some());
            self.by_identity.remove(&node.identity);
            self.free.push(id.slot);
        }
    }
}

impl Node {
    fn new(identity: Identity, kind: Kind) -> Self {
        Self {
            identity,
            kind,
            spot: None,
            children: 0,
            open: None,
            used: true,
            open_used: true,
            holders: 0,
            is_nameless: false,
        }
    }

    fn is_at(&self, spot: (Id, &[u8])) -> bool {
        matches!(&self.spot, Some((parent, name)) if *parent == spot.0 && **name == *spot.1)
    }
}

fn lives(slots: &[Slot], id: Id) -> bool {
    slots[id.slot as usize].generation == id.generation
}

#[cfg(test)]
mod tests;

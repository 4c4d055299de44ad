//! Which objects handles name, and which of them are open.
//!
//! ```text
//! handle   0 (4) · start of this program (8) · slot (4) · generation (4) · 0 (12)        32 bytes
//! ```
//!
//! An object is known by file system, file number and time of birth, so that a new file that got the number of
//! a removed one is another object. It has the place where it was seen last, as the slot of its directory
//! and a name, by which it is opened again after its descriptor was closed. Slot 0 is the root and stays open.
//!
//! Both the objects and the descriptors are limited. Each has a queue; what comes to its front and was used
//! since the last time goes to the back, else it is forgotten or closed. A directory of known objects stays
//! known.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use files::{Errno, Handle, Kind};
use rustc_hash::FxHashMap;

use crate::identity::Acting;

/// What an object is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) filesystem: u64,
    pub(crate) file: u64,
    pub(crate) born: (i64, u32),
}

/// What a descriptor can be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// Names in it, attributes.
    Path,
    /// Reading the content too.
    Read,
    /// Reading and writing.
    Write,
}

/// An open object.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) fd: OwnedFd,
    pub(crate) access: Access,
    /// As whom it was opened; does not matter for [`Access::Path`].
    pub(crate) acting: Acting,
}

/// A slot, and which of the objects that used it one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id {
    slot: u32,
    generation: u32,
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

/// How an object is opened again: from an open directory, along names.
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
}

/// The root.
pub(crate) const ROOT: Id = Id {
    slot: 0,
    generation: 0,
};
/// Deepest tree: no path of Linux has more components.
const DEPTH_MAX: usize = 2048;
/// Entries of a queue that may name what is gone, besides as many as there are others.
const QUEUE_SLACK: usize = 64;

/// The objects that are known.
pub(crate) struct Table {
    start: [u8; 8],
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_identity: FxHashMap<Identity, Id>,
    /// The objects in the order of their next examination. Some may be gone; the root is not among them.
    known: VecDeque<Id>,
    /// Those with a descriptor, likewise.
    opened: VecDeque<Id>,
    open_count: usize,
    objects_max: usize,
    descriptors_max: usize,
}

impl Table {
    /// A table that knows the root.
    pub(crate) fn new(
        start: [u8; 8],
        root: Open,
        identity: Identity,
        objects_max: usize,
        descriptors_max: usize,
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
        }
    }

    /// The object that a handle names.
    pub(crate) fn find(&mut self, handle: Handle) -> Result<Object, Errno> {
        let id = self.id_of(handle).ok_or(Errno::ESTALE)?;
        let node = self.node(id).ok_or(Errno::ESTALE)?;
        node.used = true;
        let (identity, kind) = (node.identity, node.kind);
        Ok(Object { id, identity, kind })
    }

    /// The descriptor of an object, where it has one.
    pub(crate) fn open(&mut self, id: Id) -> Option<Arc<Open>> {
        let node = self.node(id)?;
        node.open_used = true;
        node.open.clone()
    }

    /// How to open an object again; `None` where no place of it is known.
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

    /// The names from the root to where an object was seen last; `None` where no place of it is known.
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

    /// Notes that an object was seen at a place.
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

    /// Keeps a descriptor of an object, unless the one that is kept can do more.
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

    /// Notes that a name is gone. With `last` the object has no other name.
    pub(crate) fn removed(&mut self, identity: Identity, spot: (Id, &[u8]), last: bool) {
        let Some(&id) = self.by_identity.get(&identity) else {
            return;
        };
        if last {
            self.forget(id);
        } else if self.node(id).is_some_and(|node| node.is_at(spot)) {
            self.put(id, None);
        }
    }

    /// Notes that an object, if it is known, has another place.
    pub(crate) fn moved(&mut self, identity: Identity, spot: Spot) {
        if let Some(&id) = self.by_identity.get(&identity) {
            self.put(id, Some(spot));
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
            // The number of objects is limited far below 2^32.
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

    /// Gives an object a place, or none. The root keeps none.
    fn put(&mut self, id: Id, spot: Option<Spot>) {
        let spot = spot.filter(|(parent, _)| *parent != id && id != ROOT);
        if let Some((parent, _)) = &spot
            && let Some(parent) = self.node(*parent)
        {
            parent.children += 1;
        }
        let Some(node) = self.node(id) else { return };
        if let Some((parent, _)) = std::mem::replace(&mut node.spot, spot)
            && let Some(parent) = self.node(parent)
        {
            parent.children = parent.children.saturating_sub(1);
        }
    }

    /// Closes descriptors until there are as few as there may be.
    fn close_some(&mut self) {
        while self.open_count > self.descriptors_max {
            let Some(id) = self.opened.pop_front() else {
                return;
            };
            match self.node(id) {
                Some(node) if node.open_used => {
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

    /// Forgets objects until there is room for one more.
    fn forget_some(&mut self) {
        // Leaves of the tree can always be forgotten, after each was passed over once.
        let mut looks = 2 * self.known.len();
        while self.by_identity.len() > self.objects_max && looks > 0 {
            looks -= 1;
            let Some(id) = self.known.pop_front() else {
                return;
            };
            match self.node(id) {
                Some(node) if node.used || node.children > 0 => {
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

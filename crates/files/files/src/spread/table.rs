//! The objects that the handles of a spread name, with their names and their handles at each gateway.
//!
//! ```text
//! handle   0 (4) · start of this spread (8) · slot (4) · generation (4) · 0 (12)         32 bytes
//! ```
//!
//! The table has the last known names of each object. A name is the slot of its directory and one component, so a
//! renamed directory takes everything below it along. Slot 0 is the root. The size of the table is limited: it
//! forgets the least recently used objects, except directories of known objects.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::{Errno, Handle, Kind, Timestamp};

/// What identifies an object at every gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) kind: Kind,
    pub(crate) filesystem: u64,
    pub(crate) file: u64,
    pub(crate) born: Timestamp,
}

impl Identity {
    /// Returns whether both are the same object. If a server does not know the time of creation, only type and number
    /// decide.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let unknown = Timestamp::default();
        let is_born = self.born == other.born || self.born == unknown || other.born == unknown;
        (self.kind, self.filesystem, self.file) == (other.kind, other.filesystem, other.file)
            && is_born
    }

    fn number(&self) -> (u64, u64) {
        (self.filesystem, self.file)
    }
}

/// A slot, and a number that distinguishes the objects that use the slot one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id {
    slot: u32,
    generation: u32,
}

/// The id of the root.
pub(crate) const ROOT: Id = Id {
    slot: 0,
    generation: 0,
};

/// A name in a directory.
pub(crate) type Spot = (Id, Box<[u8]>);

/// The components of a path from the root.
pub(crate) type Way = Vec<Box<[u8]>>;

/// A gateway that has executed changes of an object and not committed them yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dirty {
    pub(crate) gateway: usize,
    /// The boot of the gateway's machine that executed the change.
    pub(crate) boot: u64,
    /// Number of the last change. Grows with each change.
    change: u64,
}

#[derive(Debug)]
struct Node {
    identity: Identity,
    links: u32,
    /// Known names. The newest is the last.
    spots: Vec<Spot>,
    /// Number of known names in this directory.
    children: u32,
    handles: Box<[Option<Handle>]>,
    dirty: Vec<Dirty>,
    used: bool,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    node: Option<Node>,
}

/// Limit of the known names of one file.
const SPOTS_MAX: usize = 8;
/// Limit of the depth of a tree: no path of Linux has more components.
const DEPTH_MAX: usize = 2048;
/// Limit of the queue entries of forgotten objects beyond the number of known objects.
const QUEUE_SLACK: usize = 64;

/// The objects that a spread knows.
#[derive(Debug)]
pub(crate) struct Table {
    start: [u8; 8],
    gateways: usize,
    objects_max: usize,
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_number: FxHashMap<(u64, u64), Id>,
    by_spot: FxHashMap<Spot, Id>,
    known: VecDeque<Id>,
    changes: u64,
    /// Gateways with uncommitted changes of forgotten objects.
    forgotten_dirty: Vec<usize>,
}

impl Table {
    pub(crate) fn new(start: [u8; 8], gateways: usize, objects_max: usize) -> Self {
        let root = Identity {
            kind: Kind::Directory,
            filesystem: 0,
            file: 0,
            born: Timestamp::default(),
        };
        let mut node = Node::new(root, 0);
        node.handles = vec![Some(Handle::ROOT); gateways].into();
        let slot = Slot {
            generation: 0,
            node: Some(node),
        };
        Self {
            start,
            gateways,
            objects_max,
            slots: vec![slot],
            free: Vec::new(),
            by_number: FxHashMap::default(),
            by_spot: FxHashMap::default(),
            known: VecDeque::new(),
            changes: 0,
            forgotten_dirty: Vec::new(),
        }
    }

    /// Sets the identity of the root, once a gateway has answered.
    pub(crate) fn name_root(&mut self, identity: Identity) {
        if let Some(root) = self.node_mut(ROOT) {
            root.identity = identity;
            self.by_number.insert(identity.number(), ROOT);
        }
    }

    /// Returns the object that a handle names.
    pub(crate) fn find(&mut self, handle: Handle) -> Result<(Id, Identity), Errno> {
        let id = self.id_of(handle).ok_or(Errno::ESTALE)?;
        let node = self.node_mut(id).ok_or(Errno::ESTALE)?;
        node.used = true;
        Ok((id, node.identity))
    }

    /// Returns the handle by which callers name an object.
    pub(crate) fn handle_of(&self, id: Id) -> Handle {
        if id == ROOT {
            return Handle::ROOT;
        }
        let mut bytes = [0; 32];
        bytes[4..12].copy_from_slice(&self.start);
        bytes[12..16].copy_from_slice(&id.slot.to_le_bytes());
        bytes[16..20].copy_from_slice(&id.generation.to_le_bytes());
        Handle(bytes)
    }

    /// Returns the handle of an object at a gateway; `None` if it is not known.
    pub(crate) fn at_gateway(&self, id: Id, gateway: usize) -> Option<Handle> {
        self.node(id)?.handles[gateway]
    }

    /// Records the handle of an object at a gateway; `None` if the gateway may use another handle now.
    pub(crate) fn set_at_gateway(&mut self, id: Id, gateway: usize, handle: Option<Handle>) {
        if id == ROOT {
            return;
        }
        if let Some(node) = self.node_mut(id) {
            node.handles[gateway] = handle;
        }
    }

    /// Returns the object that has a name, as far as this client knows.
    pub(crate) fn at_spot(&self, directory: Id, name: &[u8]) -> Option<Identity> {
        let id = self.by_spot.get(&(directory, name.into()))?;
        Some(self.node(*id)?.identity)
    }

    /// Returns the known paths of an object, the newest first.
    pub(crate) fn ways(&self, id: Id) -> Vec<Way> {
        let spots = self.node(id).map_or(&[][..], |node| &node.spots);
        let way = |spot: &Spot| self.way(spot);
        spots.iter().rev().filter_map(way).collect()
    }

    fn way(&self, (parent, name): &Spot) -> Option<Way> {
        let (mut at, mut way) = (*parent, vec![name.clone()]);
        while at != ROOT {
            let (parent, name) = self.node(at)?.spots.last()?;
            way.push(name.clone());
            at = *parent;
            if way.len() > DEPTH_MAX {
                return None;
            }
        }
        way.reverse();
        Some(way)
    }

    /// Records an object that a gateway returned, with its number of names.
    pub(crate) fn note(
        &mut self,
        identity: Identity,
        links: u32,
        spot: Option<(Id, &[u8])>,
        at: (usize, Handle),
    ) -> Id {
        let id = self.known_or_new(identity);
        if let Some(node) = self.node_mut(id) {
            node.used = true;
            node.links = links;
        }
        self.set_at_gateway(id, at.0, Some(at.1));
        if let Some((directory, name)) = spot {
            self.put(id, (directory, name.into()));
        }
        id
    }

    /// Records the number of names of an object.
    pub(crate) fn see_links(&mut self, id: Id, links: u32) {
        if let Some(node) = self.node_mut(id) {
            node.links = links;
        }
    }

    /// Records that `identity` has lost a name. Forgets the object if this was its last name.
    pub(crate) fn removed(&mut self, identity: &Identity, directory: Id, name: &[u8]) {
        let spot = (directory, name.into());
        let Some(id) = self.holder(&spot, identity) else {
            return;
        };
        self.forget_spot(&spot);
        if let Some(node) = self.node_mut(id) {
            node.links = node.links.saturating_sub(1);
            if node.links == 0 || identity.kind == Kind::Directory {
                self.forget(id);
            }
        }
    }

    /// Records that `identity` was renamed. The object that had the new name loses it, or gets the old name in an
    /// exchange.
    pub(crate) fn moved(&mut self, identity: &Identity, from: Spot, to: Spot, is_exchange: bool) {
        let Some(id) = self.holder(&from, identity) else {
            // The table does not know the renamed object, so the objects of both names are now unknown.
            self.forget_spot(&from);
            self.forget_spot(&to);
            return;
        };
        let other = self.by_spot.get(&to).copied();
        if other == Some(id) {
            return;
        }
        self.forget_spot(&from);
        match other.and_then(|other| Some((other, self.node(other)?.identity))) {
            Some((other, _)) if is_exchange => {
                self.forget_spot(&to);
                self.put(other, from);
            }
            Some((_, identity)) => self.removed(&identity, to.0, &to.1),
            None => {}
        }
        self.put(id, to);
    }

    /// Records that the object of a name is unknown.
    pub(crate) fn forget_spot(&mut self, spot: &Spot) {
        let Some(id) = self.by_spot.remove(spot) else {
            return;
        };
        if let Some(node) = self.node_mut(id) {
            node.spots.retain(|kept| kept != spot);
        }
        if let Some(parent) = self.node_mut(spot.0) {
            parent.children = parent.children.saturating_sub(1);
        }
    }

    /// Records that a gateway has changed an object.
    pub(crate) fn changed(&mut self, id: Id, gateway: usize, boot: u64) {
        self.changes += 1;
        let change = self.changes;
        let Some(node) = self.node_mut(id) else {
            return;
        };
        let is_there = |dirty: &&mut Dirty| (dirty.gateway, dirty.boot) == (gateway, boot);
        match node.dirty.iter_mut().find(is_there) {
            Some(dirty) => dirty.change = change,
            None => node.dirty.push(Dirty {
                gateway,
                boot,
                change,
            }),
        }
    }

    /// Returns the gateways that have not committed all changes of an object.
    pub(crate) fn dirty(&self, id: Id) -> Vec<Dirty> {
        self.node(id)
            .map_or_else(Vec::new, |node| node.dirty.clone())
    }

    /// Returns the gateways that may have uncommitted changes of forgotten objects.
    pub(crate) fn forgotten_dirty(&self) -> &[usize] {
        &self.forgotten_dirty
    }

    /// Records that a change from [`Table::dirty`] is committed or lost.
    pub(crate) fn settled(&mut self, id: Id, dirty: &Dirty) {
        if let Some(node) = self.node_mut(id) {
            node.dirty.retain(|kept| kept != dirty);
        }
    }

    fn holder(&self, spot: &Spot, identity: &Identity) -> Option<Id> {
        let id = *self.by_spot.get(spot)?;
        self.node(id)?.identity.is_same(identity).then_some(id)
    }

    fn known_or_new(&mut self, identity: Identity) -> Id {
        if let Some(&id) = self.by_number.get(&identity.number()) {
            match self.node_mut(id) {
                Some(node) if node.identity.is_same(&identity) => return id,
                // The number was reused: its earlier object no longer exists.
                _ => self.forget(id),
            }
        }
        self.forget_some();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            // `objects_max` limits the number of slots far below 2^32.
            (self.slots.len() - 1) as u32
        });
        let place = &mut self.slots[slot as usize];
        place.node = Some(Node::new(identity, self.gateways));
        let generation = place.generation;
        let id = Id { slot, generation };
        self.by_number.insert(identity.number(), id);
        self.known.push_back(id);
        id
    }

    /// Gives an object a name. A directory has only one name.
    fn put(&mut self, id: Id, spot: Spot) {
        if id == ROOT || spot.0 == id || self.by_spot.get(&spot) == Some(&id) {
            return;
        }
        self.forget_spot(&spot);
        let Some(node) = self.node(id) else { return };
        let names_max = match node.identity.kind {
            Kind::Directory => 1,
            _ => SPOTS_MAX,
        };
        while let Some(oldest) = self.node(id).filter(|node| node.spots.len() >= names_max) {
            let oldest = oldest.spots[0].clone();
            self.forget_spot(&oldest);
        }
        let Some(parent) = self.node_mut(spot.0) else {
            return;
        };
        parent.children += 1;
        self.by_spot.insert(spot.clone(), id);
        if let Some(node) = self.node_mut(id) {
            node.spots.push(spot);
        }
    }

    fn forget(&mut self, id: Id) {
        if id == ROOT {
            return;
        }
        while let Some(spot) = self.node(id).and_then(|node| node.spots.last().cloned()) {
            self.forget_spot(&spot);
        }
        let slot = &mut self.slots[id.slot as usize];
        if slot.generation != id.generation {
            return;
        }
        let Some(node) = slot.node.take() else { return };
        slot.generation = slot.generation.wrapping_add(1);
        self.by_number.remove(&node.identity.number());
        self.free.push(id.slot);
    }

    /// Forgets objects until there is space for one more.
    fn forget_some(&mut self) {
        // Two rounds suffice: the first clears `used`, and leaves of the tree can always be forgotten then.
        let mut looks = 2 * self.known.len();
        while self.by_number.len() >= self.objects_max && looks > 0 {
            looks -= 1;
            let Some(id) = self.known.pop_front() else {
                return;
            };
            match self.node_mut(id) {
                Some(node) if node.used || node.children > 0 => {
                    node.used = false;
                    self.known.push_back(id);
                }
                Some(node) => {
                    let dirty = std::mem::take(&mut node.dirty);
                    let gateways = dirty.iter().map(|dirty| dirty.gateway);
                    self.forgotten_dirty.extend(gateways);
                    self.forgotten_dirty.sort_unstable();
                    self.forgotten_dirty.dedup();
                    self.forget(id);
                }
                None => {}
            }
        }
        if self.known.len() > 2 * self.by_number.len() + QUEUE_SLACK {
            let slots = &self.slots;
            self.known
                .retain(|id| slots[id.slot as usize].generation == id.generation);
        }
    }

    fn node(&self, id: Id) -> Option<&Node> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.node
            .as_ref()
            .filter(|_| slot.generation == id.generation)
    }

    fn node_mut(&mut self, id: Id) -> Option<&mut Node> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.node
            .as_mut()
            .filter(|_| slot.generation == id.generation)
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
}

impl Node {
    fn new(identity: Identity, gateways: usize) -> Self {
        Self {
            identity,
            links: 1,
            spots: Vec::new(),
            children: 0,
            handles: vec![None; gateways].into(),
            dirty: Vec::new(),
            used: true,
        }
    }
}

#[cfg(test)]
mod tests;

//! Which objects the handles of a spread name, where they stand, and what each gateway calls them.
//!
//! ```text
//! handle   0 (4) · start of this spread (8) · slot (4) · generation (4) · 0 (12)         32 bytes
//! ```
//!
//! An object has the names by which this client saw it last, each as the slot of its directory and one component, so
//! that a directory that is renamed takes along all below it. Slot 0 is the root. The table is bounded: what was
//! not used for longest is forgotten, except directories of known objects.

use std::collections::VecDeque;

use files::{Errno, Handle, Kind, Timestamp};
use rustc_hash::FxHashMap;

/// What an object is known by at every gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) kind: Kind,
    pub(crate) filesystem: u64,
    pub(crate) file: u64,
    pub(crate) born: Timestamp,
}

impl Identity {
    /// Whether both are one object. Where a server does not know when an object was made, its number decides.
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

/// A slot, and which of the objects that used it one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id {
    slot: u32,
    generation: u32,
}

/// The root.
pub(crate) const ROOT: Id = Id {
    slot: 0,
    generation: 0,
};

/// A name in a directory.
pub(crate) type Spot = (Id, Box<[u8]>);

/// The components of a path from the root.
pub(crate) type Way = Vec<Box<[u8]>>;

/// A gateway through which an object was changed and that has not brought the change to the disk yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dirty {
    pub(crate) gateway: usize,
    /// Which start of the gateway's machine took the change.
    pub(crate) boot: u64,
    /// Grows with each change.
    change: u64,
}

#[derive(Debug)]
struct Node {
    identity: Identity,
    links: u32,
    /// The newest last.
    spots: Vec<Spot>,
    /// How many spots of others are in this directory.
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

/// Most names that are remembered of one file.
const SPOTS_MAX: usize = 8;
/// Deepest tree: no path of Linux has more components.
const DEPTH_MAX: usize = 2048;
/// Entries of the queue that may name what is gone, besides as many as there are others.
const QUEUE_SLACK: usize = 64;

/// The objects that are known.
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
    /// Gateways of changed objects that were forgotten.
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

    /// Says what the root is, once a gateway has said so.
    pub(crate) fn name_root(&mut self, identity: Identity) {
        if let Some(root) = self.node_mut(ROOT) {
            root.identity = identity;
            self.by_number.insert(identity.number(), ROOT);
        }
    }

    /// The object that a handle names.
    pub(crate) fn find(&mut self, handle: Handle) -> Result<(Id, Identity), Errno> {
        let id = self.id_of(handle).ok_or(Errno::ESTALE)?;
        let node = self.node_mut(id).ok_or(Errno::ESTALE)?;
        node.used = true;
        Ok((id, node.identity))
    }

    /// The handle by which callers name an object.
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

    /// What a gateway calls an object, as far as that is known.
    pub(crate) fn at_gateway(&self, id: Id, gateway: usize) -> Option<Handle> {
        self.node(id)?.handles[gateway]
    }

    /// Notes what a gateway calls an object; `None`: that it may call it something else by now.
    pub(crate) fn set_at_gateway(&mut self, id: Id, gateway: usize, handle: Option<Handle>) {
        if id == ROOT {
            return;
        }
        if let Some(node) = self.node_mut(id) {
            node.handles[gateway] = handle;
        }
    }

    /// The object that has a name, as far as this client knows.
    pub(crate) fn at_spot(&self, directory: Id, name: &[u8]) -> Option<Identity> {
        let id = self.by_spot.get(&(directory, name.into()))?;
        Some(self.node(*id)?.identity)
    }

    /// The known paths of an object, the newest first.
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

    /// Notes an object that a gateway showed, with its number of names.
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

    /// Notes the number of names of an object.
    pub(crate) fn see_links(&mut self, id: Id, links: u32) {
        if let Some(node) = self.node_mut(id) {
            node.links = links;
        }
    }

    /// Notes that `identity` has lost a name. Its last name takes it along.
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

    /// Notes that `identity` was renamed. What had the new name has lost it, or has the old one now.
    pub(crate) fn moved(&mut self, identity: &Identity, from: Spot, to: Spot, is_exchange: bool) {
        let Some(id) = self.holder(&from, identity) else {
            // Who knows what had these names?
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

    /// Notes that it is not known any longer what has a name.
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

    /// Notes that a gateway has changed an object.
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

    /// The gateways that have not brought all changes of an object to the disk.
    pub(crate) fn dirty(&self, id: Id) -> Vec<Dirty> {
        self.node(id)
            .map_or_else(Vec::new, |node| node.dirty.clone())
    }

    /// The gateways of which that is not known, because the objects were forgotten.
    pub(crate) fn forgotten_dirty(&self) -> &[usize] {
        &self.forgotten_dirty
    }

    /// Notes that the changes that [`Table::dirty`] told of are on the disk, or lost.
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
                // Another object has the number of one that is gone.
                _ => self.forget(id),
            }
        }
        self.forget_some();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            // The number of objects is limited far below 2^32.
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

    /// Gives an object a name. A directory has one only.
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

    /// Forgets objects until there is room for one more.
    fn forget_some(&mut self) {
        // Leaves of the tree can always be forgotten, after each was passed over once.
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

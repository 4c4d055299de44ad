//! The table of the nodes, queues and inboxes of this process, which C programs name by numbers.
//!
//! ```text
//!  handle:  | forks (8 bits) | generation (24 bits) | slot (32 bits) |
//! ```
//!
//! A generation belongs to one thing, so a closed handle does not reach what takes its slot later; it comes again after
//! 2^24 others. A child that `fork(2)` made has a table of its own: what it inherited belongs to its parent, with
//! threads that the child does not have and locks that one of them may have held.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use lnet_node::Node;
use slab::Slab;
use sys::ForkMark;

use crate::failure::Failure;
use crate::queue::Queue;
use crate::whole::OpenInbox;

/// A thing that a handle names.
#[derive(Clone)]
pub(crate) enum Thing {
    Node(Arc<Node>),
    Queue(Arc<Queue>),
    Inbox(Arc<OpenInbox>),
}

/// The things of a process.
struct Process {
    mark: ForkMark,
    /// How often a parent of this process has forked after it used this library.
    forks: u8,
    table: RwLock<Table>,
    child: OnceLock<Box<Process>>,
}

#[derive(Default)]
struct Table {
    slots: Slab<(u32, Thing)>,
    generation: u32,
}

impl Process {
    fn new(forks: u8) -> Self {
        Self {
            mark: ForkMark::new(),
            forks,
            table: RwLock::default(),
            child: OnceLock::new(),
        }
    }

    fn own() -> &'static Self {
        static FIRST: OnceLock<Process> = OnceLock::new();
        let mut process = FIRST.get_or_init(|| Self::new(0));
        while !process.mark.is_own() {
            let forks = process.forks.wrapping_add(1);
            process = process.child.get_or_init(|| Box::new(Self::new(forks)));
        }
        process
    }

    fn slot_of(&self, handle: u64) -> Option<(usize, u32)> {
        let [forks, rest @ ..] = handle.to_be_bytes();
        let [g1, g2, g3, slot @ ..] = rest;
        let generation = u32::from_be_bytes([0, g1, g2, g3]);
        (forks == self.forks).then_some((u32::from_be_bytes(slot) as usize, generation))
    }
}

/// Registers a thing. Returns its handle.
pub(crate) fn register(thing: Thing) -> u64 {
    let process = Process::own();
    let mut table = process
        .table
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    // Never 0, so that no handle is.
    table.generation = table.generation % 0x00FF_FFFF + 1;
    let generation = table.generation;
    let slot = table.slots.insert((generation, thing));
    u64::from(process.forks) << 56 | u64::from(generation) << 32 | slot as u64 & 0xFFFF_FFFF
}

fn look<R>(handle: u64, kind: &str, of: impl Fn(&Thing) -> Option<R>) -> Result<R, Failure> {
    let process = Process::own();
    let table = process.table.read().unwrap_or_else(PoisonError::into_inner);
    process
        .slot_of(handle)
        .and_then(|(slot, generation)| {
            let (own, thing) = table.slots.get(slot)?;
            (*own == generation).then(|| of(thing))?
        })
        .ok_or_else(|| Failure::bad_handle(kind))
}

/// Returns the node that a handle names.
pub(crate) fn node(handle: u64) -> Result<Arc<Node>, Failure> {
    look(handle, "node", |thing| match thing {
        Thing::Node(node) => Some(Arc::clone(node)),
        _ => None,
    })
}

/// Returns the queue that a handle names.
pub(crate) fn queue(handle: u64) -> Result<Arc<Queue>, Failure> {
    look(handle, "queue", |thing| match thing {
        Thing::Queue(queue) => Some(Arc::clone(queue)),
        _ => None,
    })
}

/// Returns the inbox that a handle names.
pub(crate) fn inbox(handle: u64) -> Result<Arc<OpenInbox>, Failure> {
    look(handle, "inbox", |thing| match thing {
        Thing::Inbox(inbox) => Some(Arc::clone(inbox)),
        _ => None,
    })
}

/// Removes what a handle names from the table. The caller has looked up that it is of the right kind; if two threads do
/// this at the same time, one of them fails.
pub(crate) fn forget(handle: u64, kind: &str) -> Result<(), Failure> {
    let process = Process::own();
    let mut table = process
        .table
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    let slot = process.slot_of(handle).and_then(|(slot, generation)| {
        let (own, _) = table.slots.get(slot)?;
        (*own == generation).then_some(slot)
    });
    let removed = slot.and_then(|slot| table.slots.try_remove(slot));
    drop(table);
    removed.map(|_| ()).ok_or_else(|| Failure::bad_handle(kind))
}

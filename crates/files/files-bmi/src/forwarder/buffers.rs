//! Memory for messages. The method of the peer allocates the memory. Buffers are kept for later messages, because to
//! zero new memory each time would cost as much as a copy.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bmi::{Address, Bmi};
use rustc_hash::FxHashMap;

use super::exchange::Held;
use crate::counters::Counters;

pub(super) struct Buffers {
    bmi: Arc<Bmi>,
    counters: Arc<Counters>,
    /// Length of the buffers that are kept, in bytes.
    length: usize,
    /// Limit of the number of buffers that are kept.
    max: usize,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    /// Free buffers by the scheme of their method.
    buffers: FxHashMap<String, Vec<Held>>,
    /// Schemes of the buffers in use, by the address of their first byte.
    schemes: FxHashMap<usize, String>,
    kept: usize,
}

/// Buffers of up to this many bytes are not kept.
const SHORT: usize = 64 << 10;

impl Buffers {
    /// Creates an empty store. `length` is the length of the longest buffer, `max` the limit of the buffers that are
    /// kept.
    pub(super) fn new(bmi: Arc<Bmi>, counters: Arc<Counters>, length: usize, max: usize) -> Self {
        Self {
            bmi,
            counters,
            length,
            max,
            free: Mutex::default(),
        }
    }

    /// Returns at least `length` bytes for messages with a peer. Their contents are unspecified.
    pub(super) fn take(&self, peer: Address, length: usize) -> Option<Held> {
        if length <= SHORT || length > self.length {
            return self.fresh(peer, length);
        }
        let name = self.bmi.peer_name(peer).unwrap_or_default();
        let scheme = name.split("://").next().unwrap_or_default();
        let mut free = self.lock();
        if let Some(held) = free.buffers.get_mut(scheme).and_then(Vec::pop) {
            free.kept -= 1;
            free.schemes.insert(key(&held), scheme.to_owned());
            return Some(held);
        }
        drop(free);
        let held = self.fresh(peer, self.length)?;
        self.lock().schemes.insert(key(&held), scheme.to_owned());
        Some(held)
    }

    fn fresh(&self, peer: Address, length: usize) -> Option<Held> {
        match self.bmi.allocate(peer, length) {
            Ok(buffer) => Some(Held::from(buffer)),
            Err(error) => {
                tracing::debug!(%error, length, "a buffer is allocated on the heap");
                self.counters.buffers_of_the_heap.up();
                Held::of_the_heap(length)
            }
        }
    }

    /// Takes a buffer back.
    pub(super) fn give(&self, mut held: Held) {
        let mut free = self.lock();
        let Some(scheme) = free.schemes.remove(&key(&held)) else {
            return;
        };
        let is_method = held.memory == bmi::Memory::PreAllocated;
        if is_method && free.kept < self.max && held.span.is_unique() {
            free.kept += 1;
            free.buffers.entry(scheme).or_default().push(held);
        }
    }

    /// Frees all buffers that are kept: the memory of a method may disappear with its daemon.
    pub(super) fn forget(&self) {
        let mut free = self.lock();
        free.kept = 0;
        let gone = std::mem::take(&mut free.buffers);
        free.schemes.clear();
        drop(free);
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(held: &Held) -> usize {
    held.span.addresses().start
}

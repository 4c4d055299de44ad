//! A slab whose keys expire: a key names one value of a slot, and never a later value of the same slot.
//!
//! ```text
//!  key:  | generation (32 bits) | slot (32 bits) |
//! ```
//!
//! The driver may answer late or twice, and a queue may hold the key of a removed value. Such a key must not reach the
//! next value in the same slot, so every lookup compares the generation. The generation wraps after 2^32 insertions,
//! long after the last answer to the first value.

use std::marker::PhantomData;

use slab::Slab;

use crate::ground::io::{RxId, TxId};

/// A key of a [`Table`].
pub(crate) trait Key: Copy {
    /// Returns the key with these bits.
    fn from_raw(raw: u64) -> Self;
    /// Returns the key's bits.
    fn raw(self) -> u64;
}

impl Key for RxId {
    fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    fn raw(self) -> u64 {
        self.0
    }
}

impl Key for TxId {
    fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    fn raw(self) -> u64 {
        self.0
    }
}

/// Values that are found by key.
#[derive(Debug)]
pub(crate) struct Table<K, T> {
    slots: Slab<Slot<T>>,
    generation: u32,
    key: PhantomData<K>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: T,
}

impl<K, T> Default for Table<K, T> {
    fn default() -> Self {
        Self {
            slots: Slab::new(),
            generation: 0,
            key: PhantomData,
        }
    }
}

impl<K: Key, T> Table<K, T> {
    pub(crate) fn insert(&mut self, value: T) -> K {
        self.generation = self.generation.wrapping_add(1);
        let slot = self.slots.insert(Slot {
            generation: self.generation,
            value,
        });
        key_of(self.generation, slot)
    }

    /// Returns the key that the next inserted value gets.
    pub(crate) fn next_key(&self) -> K {
        key_of(self.generation.wrapping_add(1), self.slots.vacant_key())
    }

    pub(crate) fn get(&self, key: K) -> Option<&T> {
        let slot = self.slots.get(slot_of(key))?;
        (slot.generation == generation_of(key)).then_some(&slot.value)
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut T> {
        let slot = self.slots.get_mut(slot_of(key))?;
        (slot.generation == generation_of(key)).then_some(&mut slot.value)
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<T> {
        self.get(key)?;
        self.slots.try_remove(slot_of(key)).map(|slot| slot.value)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().map(|(_, slot)| &mut slot.value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        self.slots
            .iter()
            .map(|(index, slot)| (key_of(slot.generation, index), &slot.value))
    }

    /// Returns the value in the slot with this number, whatever its generation.
    pub(crate) fn at(&self, index: usize) -> Option<(K, &T)> {
        self.slots
            .get(index)
            .map(|slot| (key_of(slot.generation, index), &slot.value))
    }

    /// Returns a slot number that is above the numbers of all values.
    pub(crate) fn end(&self) -> usize {
        self.slots.capacity()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

fn key_of<K: Key>(generation: u32, slot: usize) -> K {
    K::from_raw(u64::from(generation) << 32 | slot as u64 & 0xFFFF_FFFF)
}

fn slot_of<K: Key>(key: K) -> usize {
    (key.raw() & 0xFFFF_FFFF) as usize
}

fn generation_of<K: Key>(key: K) -> u32 {
    (key.raw() >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_reach_the_next_value_in_its_slot() {
        let mut table: Table<TxId, &str> = Table::default();
        let first = table.insert("first");
        assert_eq!(table.remove(first), Some("first"));
        let second = table.insert("second");

        assert_eq!(table.get(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get(second), Some(&"second"));
    }

    #[test]
    fn a_made_up_key_finds_nothing() {
        let mut table: Table<RxId, u8> = Table::default();
        table.insert(1);
        assert_eq!(table.get(RxId(u64::MAX)), None);
        assert_eq!(table.get(RxId(0)), None);
    }
}

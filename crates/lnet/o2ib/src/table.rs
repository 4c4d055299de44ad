//! A table whose keys are never reused: a key from outside names the object that it was made for, or nothing.

use slab::Slab;

/// Objects by keys. The lower half of a key is a slot, the upper half the number of the object.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Slab<(u32, T)>,
    next: u32,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            slots: Slab::new(),
            next: 1,
        }
    }
}

impl<T> Table<T> {
    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let number = self.next;
        // After four thousand million objects in one table, a stale key may name another object.
        self.next = self.next.wrapping_add(1).max(1);
        let slot = self.slots.insert((number, value));
        u64::from(number) << 32 | slot as u64
    }

    pub(crate) fn get(&self, key: u64) -> Option<&T> {
        let (number, value) = self.slots.get(slot(key))?;
        (*number == number_of(key)).then_some(value)
    }

    pub(crate) fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let (number, value) = self.slots.get_mut(slot(key))?;
        (*number == number_of(key)).then_some(value)
    }

    pub(crate) fn remove(&mut self, key: u64) -> Option<T> {
        self.get(key)?;
        self.slots.try_remove(slot(key)).map(|(_, value)| value)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let entries = self.slots.iter();
        entries.map(|(slot, (number, value))| (u64::from(*number) << 32 | slot as u64, value))
    }

    pub(crate) fn keys(&self) -> Vec<u64> {
        self.iter().map(|(key, _)| key).collect()
    }
}

fn slot(key: u64) -> usize {
    // The lower half of the key.
    (key & u64::from(u32::MAX)) as usize
}

fn number_of(key: u64) -> u32 {
    // The upper half of the key.
    (key >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_nothing_after_its_object_is_gone_although_the_slot_is_used_again() {
        let mut table = Table::default();
        let first = table.insert('a');
        assert_eq!(table.remove(first), Some('a'));
        let second = table.insert('b');
        assert_eq!(slot(first), slot(second));
        assert_eq!((table.get(first), table.get(second)), (None, Some(&'b')));
        assert_eq!(table.remove(first), None);
        assert_eq!(table.keys(), [second]);
        assert_eq!(table.get(u64::MAX), None);
    }
}

//! A map that forgets its oldest entries.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::REMEMBERED_MAX;

/// At most [`REMEMBERED_MAX`] values by number.
#[derive(Debug)]
pub(super) struct Remembered<V> {
    /// The values, each with the number of its place in the order.
    map: FxHashMap<u64, (u64, V)>,
    /// Places and keys, the oldest first, with some that were removed between them.
    order: VecDeque<(u64, u64)>,
    next: u64,
}

impl<V> Default for Remembered<V> {
    fn default() -> Self {
        Self {
            map: FxHashMap::default(),
            order: VecDeque::new(),
            next: 0,
        }
    }
}

impl<V> Remembered<V> {
    /// Remembers a value in place of an older one of the same key.
    pub(super) fn insert(&mut self, key: u64, value: V) {
        self.next += 1;
        self.map.insert(key, (self.next, value));
        self.order.push_back((self.next, key));
        while self.map.len() > REMEMBERED_MAX
            && let Some((place, key)) = self.order.pop_front()
        {
            if self.map.get(&key).is_some_and(|(of, _)| *of == place) {
                self.map.remove(&key);
            }
        }
        if self.order.len() > 2 * REMEMBERED_MAX {
            let map = &self.map;
            self.order
                .retain(|(place, key)| map.get(key).is_some_and(|(of, _)| of == place));
        }
    }

    pub(super) fn get(&self, key: u64) -> Option<&V> {
        self.map.get(&key).map(|(_, value)| value)
    }

    pub(super) fn remove(&mut self, key: u64) {
        self.map.remove(&key);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.map.values().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = REMEMBERED_MAX as u64;

    #[test]
    fn the_oldest_are_forgotten_and_what_comes_again_is_young() {
        let mut remembered = Remembered::default();
        (0..MOST).for_each(|key| remembered.insert(key, key));
        remembered.insert(0, 7);
        remembered.insert(MOST, 8);
        assert_eq!((remembered.get(0), remembered.get(1)), (Some(&7), None));
        assert_eq!(remembered.get(MOST), Some(&8));
    }

    #[test]
    fn keys_that_come_and_go_for_ever_take_no_memory() {
        let mut remembered = Remembered::default();
        remembered.insert(1 << 40, 0);
        for key in 0..5 * MOST {
            remembered.insert(key, key);
            remembered.remove(key);
            remembered.insert(MOST * 9, key);
        }
        assert_eq!(
            (remembered.map.len(), remembered.get(1 << 40)),
            (2, Some(&0))
        );
        assert!(remembered.order.len() <= 2 * REMEMBERED_MAX + 1);
    }
}

//! Counts of changes, by which a test notices that what it asked for is out of date.

use std::hash::{BuildHasher, BuildHasherDefault};

use rustc_hash::FxHasher;

use super::queue::Key;

/// The number of counts that the keys share.
const COUNTS: usize = 64;

/// How often operations became ready to be attempted. A test that is told of another key's change asks once
/// more than necessary.
#[derive(Debug)]
pub(super) struct Changes {
    all: u64,
    /// Changes that concern every key.
    general: u64,
    of_keys: [u64; COUNTS],
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            all: 0,
            general: 0,
            of_keys: [0; COUNTS],
        }
    }
}

impl Changes {
    /// Counts a change of the operations of one key.
    pub(super) fn note(&mut self, key: Key) {
        self.all += 1;
        self.of_keys[place(key)] += 1;
    }

    /// Counts a change of operations of any key.
    pub(super) fn note_general(&mut self) {
        self.all += 1;
        self.general += 1;
    }

    /// Returns the number of all changes.
    pub(super) fn all(&self) -> u64 {
        self.all
    }

    /// Returns a number that changes whenever operations of one of the keys do; `None`: of any key.
    pub(super) fn of(&self, keys: Option<&[Key]>) -> u64 {
        let Some(keys) = keys else {
            return self.all;
        };
        let counts = keys.iter().map(|&key| self.of_keys[place(key)]);
        self.general + counts.sum::<u64>()
    }
}

fn place(key: Key) -> usize {
    let hash = BuildHasherDefault::<FxHasher>::default().hash_one(key);
    // The upper bits are the better ones. Below COUNTS, so it fits.
    (hash >> 58) as usize
}

#[cfg(test)]
mod tests {
    use bmi::Tag;

    use super::*;

    #[test]
    fn a_change_is_noticed_by_whom_it_concerns() {
        let mut changes = Changes::default();
        let keys: Vec<Key> = (0..1000).map(|tag| Key::Recv(Tag(tag))).collect();
        let own = &keys[..1];
        let before = changes.of(Some(own));
        let others = keys.iter().filter(|&&key| place(key) != place(keys[0]));
        let others: Vec<Key> = others.copied().collect();
        assert!(others.len() > 900, "the keys are spread");
        others.iter().for_each(|&key| changes.note(key));
        assert_eq!(changes.of(Some(own)), before);
        assert_eq!(changes.of(None), others.len() as u64);
        changes.note(keys[0]);
        assert_eq!(changes.of(Some(own)), before + 1);
        changes.note_general();
        assert_eq!(changes.of(Some(own)), before + 2);
    }
}

//! The locks on one file. Does no I/O.

use crate::Lock;

/// The locks on one file, with their owners.
#[derive(Debug)]
pub(crate) struct HeldLocks<W> {
    /// Locks of one owner never overlap. Neighbours of one kind are one lock.
    held: Vec<(W, Lock)>,
}

impl<W> Default for HeldLocks<W> {
    fn default() -> Self {
        Self { held: Vec::new() }
    }
}

impl<W: Copy + PartialEq> HeldLocks<W> {
    pub(crate) fn count(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(W, Lock)> {
        self.held.iter()
    }

    /// Returns the number of locks of an owner.
    pub(crate) fn count_of(&self, who: W) -> usize {
        self.held.iter().filter(|(owner, _)| *owner == who).count()
    }

    /// Returns the locks of others that conflict.
    #[cfg(any(test, feature = "dir"))]
    pub(crate) fn conflicts<'a>(
        &'a self,
        who: W,
        lock: &'a Lock,
    ) -> impl Iterator<Item = &'a (W, Lock)> {
        let conflicts = move |(owner, held): &&(W, Lock)| *owner != who && held.conflicts(lock);
        self.held.iter().filter(conflicts)
    }

    /// Locks bytes for an owner, in place of the owner's earlier locks on them.
    pub(crate) fn lock(&mut self, who: W, mut lock: Lock) {
        self.unlock(who, &lock);
        // Both neighbours, if there are two, become parts of the new lock.
        self.held.retain(|(owner, held)| {
            let touches = held.last.checked_add(1) == Some(lock.first)
                || lock.last.checked_add(1) == Some(held.first);
            let joins = *owner == who && held.is_exclusive == lock.is_exclusive && touches;
            if joins {
                lock.first = lock.first.min(held.first);
                lock.last = lock.last.max(held.last);
            }
            !joins
        });
        self.held.push((who, lock));
    }

    /// Unlocks bytes of an owner. What remains of a lock on both sides stays locked.
    pub(crate) fn unlock(&mut self, who: W, bytes: &Lock) {
        let mut rest = Vec::new();
        self.held.retain(|(owner, held)| {
            let is_cut = *owner == who && held.overlaps(bytes);
            if is_cut && held.first < bytes.first {
                let last = bytes.first - 1;
                rest.push((who, Lock { last, ..*held }));
            }
            if is_cut && held.last > bytes.last {
                let first = bytes.last + 1;
                rest.push((who, Lock { first, ..*held }));
            }
            !is_cut
        });
        self.held.append(&mut rest);
    }

    /// Removes the locks of some owners.
    #[cfg(any(test, feature = "dir"))]
    pub(crate) fn remove(&mut self, is_theirs: impl Fn(W) -> bool) {
        self.held.retain(|(owner, _)| !is_theirs(*owner));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Number of bytes of the model.
    const BYTES: u64 = 12;

    fn lock(first: u64, last: u64, is_exclusive: bool) -> Lock {
        Lock {
            owner: 0,
            process: 0,
            is_exclusive,
            first,
            last,
        }
    }

    /// The locks of each owner on each byte: `None`, shared or exclusive.
    type Model = [[Option<bool>; BYTES as usize]; 3];

    fn seen(held: &HeldLocks<usize>) -> Model {
        let mut model = Model::default();
        for (who, lock) in held.iter() {
            for byte in lock.first..=lock.last.min(BYTES - 1) {
                assert_eq!(model[*who][byte as usize], None, "{held:?}");
                model[*who][byte as usize] = Some(lock.is_exclusive);
            }
        }
        model
    }

    proptest! {
        #[test]
        fn locks_are_those_of_each_byte(
            steps in prop::collection::vec((0..3_usize, 0..BYTES, 0..BYTES, any::<Option<bool>>()), 1..60)
        ) {
            let (mut held, mut model) = (HeldLocks::default(), Model::default());
            for (who, one, other, mode) in steps {
                let wanted = lock(one.min(other), one.max(other), mode.unwrap_or(true));
                let bytes = wanted.first as usize..=wanted.last as usize;
                match mode {
                    None => {
                        held.unlock(who, &wanted);
                        model[who][bytes].fill(None);
                    }
                    Some(is_exclusive) => {
                        let blocks = |owner: usize, byte: usize| {
                            let theirs = model[owner][byte];
                            owner != who && theirs.is_some_and(|theirs| theirs || is_exclusive)
                        };
                        let is_blocked = (0..3).any(|owner| bytes.clone().any(|byte| blocks(owner, byte)));
                        prop_assert_eq!(held.conflicts(who, &wanted).next().is_some(), is_blocked);
                        if !is_blocked {
                            held.lock(who, wanted);
                            model[who][bytes].fill(Some(is_exclusive));
                        }
                    }
                }
                prop_assert_eq!(seen(&held), model);
                prop_assert!(held.count() <= 3 * BYTES as usize);
            }
        }
    }

    #[test]
    fn neighbours_of_one_kind_are_one_lock() {
        let mut held = HeldLocks::default();
        for byte in [0, 2, 1, 3] {
            held.lock(1, lock(byte, byte, true));
        }
        held.lock(1, lock(4, u64::MAX, false));
        let locks: Vec<Lock> = held.iter().map(|(_, lock)| *lock).collect();
        assert_eq!(locks, [lock(0, 3, true), lock(4, u64::MAX, false)]);
        held.remove(|who| who == 1);
        assert_eq!(held.count(), 0);
    }
}

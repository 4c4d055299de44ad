//! The allocator of the unexpected region: first fit over a map of free extents, in units of 64 bytes.
//!
//! ```text
//! offset 0       8192     16384            24576                          size
//!   │ message A   │ free   │ message B      │ free                           │
//!                 └ free[8192] = 8192       └ free[24576] = size − 24576
//! ```
//!
//! R5 requires exactness: a region of 1 MiB holds exactly 128 slots of 8192 bytes, and a gap that fits a slot
//! is found. Allocators with size classes (such as `offset-allocator`) look for a free extent of the next
//! larger class: they would not use a gap of 5056 bytes for a message of 5000. There is at most one free
//! extent more than there are messages, so a map is fast enough. First fit keeps messages at the front of the
//! region, whose pages are already touched.
//!
//! The allocator never accesses the region: its metadata are outside.

use std::collections::BTreeMap;

use crate::zbmi::config::SLOT_UNIT;

/// A reserved piece of the unexpected region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The offset of the first byte.
    pub(crate) offset: u64,
    /// The length in bytes, a positive multiple of [`SLOT_UNIT`].
    pub(crate) len: u64,
}

#[derive(Debug)]
pub(crate) struct Pool {
    /// Length by offset; free extents never touch each other.
    free: BTreeMap<u64, u64>,
    used: u64,
}

/// Returns the slot length for a message. Every message has at least one unit, because its offset is its id.
pub(crate) fn slot_len(size: u64) -> Option<u64> {
    size.max(1).checked_next_multiple_of(SLOT_UNIT)
}

impl Pool {
    pub(crate) fn new(size: u64) -> Self {
        let usable = size / SLOT_UNIT * SLOT_UNIT;
        let free = (usable > 0).then_some((0, usable)).into_iter().collect();
        Self { free, used: 0 }
    }

    /// Returns the number of bytes in use.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Allocates the first gap that fits a message of this size.
    pub(crate) fn allocate(&mut self, size: u64) -> Option<Slot> {
        let len = slot_len(size)?;
        let (&offset, &gap) = self.free.iter().find(|&(_, &gap)| gap >= len)?;
        self.free.remove(&offset);
        if gap > len {
            self.free.insert(offset + len, gap - len);
        }
        self.used += len;
        Some(Slot { offset, len })
    }

    /// Frees a slot of [`Pool::allocate`] and joins it with its free neighbours.
    pub(crate) fn release(&mut self, slot: Slot) {
        self.used -= slot.len;
        let Slot {
            mut offset,
            mut len,
        } = slot;
        if let Some(after) = self.free.remove(&(offset + len)) {
            len += after;
        }
        if let Some((&before, &gap)) = self.free.range(..offset).next_back()
            && before + gap == offset
        {
            offset = before;
            len += gap;
        }
        self.free.insert(offset, len);
    }

    /// Returns the free extents in order.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = Slot> {
        self.free.iter().map(|(&offset, &len)| Slot { offset, len })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn r05_one_mebibyte_is_exactly_128_slots_of_8192_bytes() {
        let mut pool = Pool::new(1 << 20);
        let slots: Vec<Slot> = (0..128).map(|_| pool.allocate(8192).unwrap()).collect();
        assert_eq!(pool.allocate(0), None);
        assert_eq!(pool.used(), 1 << 20);
        slots.into_iter().for_each(|slot| pool.release(slot));
        assert_eq!(
            pool.gaps().collect::<Vec<_>>(),
            [Slot {
                offset: 0,
                len: 1 << 20
            }]
        );
    }

    #[test]
    fn a_gap_of_exactly_the_size_is_found() {
        let mut pool = Pool::new(1 << 16);
        let slots: Vec<Slot> = std::iter::from_fn(|| pool.allocate(5000)).collect();
        pool.release(slots[3]);
        assert_eq!(pool.allocate(5000), Some(slots[3]));
    }

    // [MEM-20]
    #[test]
    fn an_empty_message_has_a_slot_of_its_own() {
        let mut pool = Pool::new(128);
        assert_ne!(pool.allocate(0), pool.allocate(0));
        assert_eq!(pool.allocate(0), None);
    }

    proptest! {
        #[test]
        fn slots_never_overlap_and_gaps_never_touch(
            steps in prop::collection::vec((0_u64..600, any::<prop::sample::Index>()), 1..200),
        ) {
            let mut pool = Pool::new(4096);
            let mut slots: Vec<Slot> = Vec::new();
            for (size, index) in steps {
                if size < 300 && !slots.is_empty() {
                    pool.release(slots.swap_remove(index.index(slots.len())));
                } else if let Some(slot) = pool.allocate(size) {
                    slots.push(slot);
                }
                let mut all: Vec<Slot> = slots.iter().copied().chain(pool.gaps()).collect();
                all.sort_by_key(|slot| slot.offset);
                let mut end = 0;
                for slot in &all {
                    prop_assert_eq!(slot.offset, end);
                    end += slot.len;
                }
                prop_assert_eq!(end, 4096);
                let gaps: Vec<Slot> = pool.gaps().collect();
                prop_assert!(gaps.windows(2).all(|two| two[0].offset + two[0].len < two[1].offset));
            }
        }
    }
}

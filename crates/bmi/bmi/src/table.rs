//! Slots that are named by index and generation.

use crate::id::{Address, ContextId, OpId};

/// A table of values. A name is not used again until its slot has been used 2³¹ times.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    /// Empty slots; the one emptied last is at the end, because it is still in the cache.
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// A name that tables give out.
pub(crate) trait Name: Copy {
    fn of(number: i64) -> Option<Self>;
    fn number(self) -> i64;
}

impl Name for OpId {
    fn of(number: i64) -> Option<OpId> {
        OpId::from_number(number)
    }
    fn number(self) -> i64 {
        self.number()
    }
}

impl Name for Address {
    fn of(number: i64) -> Option<Address> {
        Address::from_number(number)
    }
    fn number(self) -> i64 {
        self.number()
    }
}

impl Name for ContextId {
    fn of(number: i64) -> Option<ContextId> {
        ContextId::from_number(number)
    }
    fn number(self) -> i64 {
        self.number()
    }
}

/// The last generation, followed by the first: generations fit in 31 bits and are never 0.
const GENERATION_MAX: u32 = i32::MAX as u32;

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Table<T> {
    /// Inserts a value. `None` if the table holds 2³² values.
    pub(crate) fn insert<N: Name>(&mut self, value: T) -> Option<N> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.add_slot()?,
        };
        let slot = self.slots.get_mut(index as usize)?;
        slot.value = Some(value);
        N::of(i64::from(slot.generation) << 32 | i64::from(index))
    }

    fn add_slot(&mut self) -> Option<u32> {
        let index = u32::try_from(self.slots.len()).ok()?;
        self.slots.push(Slot {
            generation: 1,
            value: None,
        });
        Some(index)
    }

    pub(crate) fn get<N: Name>(&self, name: N) -> Option<&T> {
        let (index, generation) = parts(name);
        let slot = self.slots.get(index as usize)?;
        slot.value
            .as_ref()
            .filter(|_| slot.generation == generation)
    }

    pub(crate) fn get_mut<N: Name>(&mut self, name: N) -> Option<&mut T> {
        let (index, generation) = parts(name);
        let slot = self.slots.get_mut(index as usize)?;
        let current = slot.generation;
        slot.value.as_mut().filter(|_| current == generation)
    }

    /// Removes a value; its name is stale from now on.
    // [ADDR-7]
    pub(crate) fn remove<N: Name>(&mut self, name: N) -> Option<T> {
        let (index, generation) = parts(name);
        let slot = self.slots.get_mut(index as usize)?;
        if slot.generation != generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = generation % GENERATION_MAX + 1;
        self.free.push(index);
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

fn parts<N: Name>(name: N) -> (u32, u32) {
    let number = name.number();
    // The masks and the shift leave 32 bits each.
    ((number & 0xffff_ffff) as u32, (number >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    // [ADDR-7]
    #[test]
    fn a_name_is_stale_once_its_thing_was_taken() {
        let mut table = Table::default();
        let first: OpId = table.insert('a').unwrap();
        assert_eq!(table.remove(first), Some('a'));
        let second: OpId = table.insert('b').unwrap();
        assert_ne!(first, second);
        assert_eq!(table.get(first), None);
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get(second), Some(&'b'));
        assert_eq!(table.len(), 1);
    }

    // [ADDR-7]
    #[test]
    fn generations_stay_positive_when_they_begin_anew() {
        let mut table = Table::default();
        let mut name: OpId = table.insert(()).unwrap();
        table.slots[0].generation = GENERATION_MAX;
        assert_eq!(table.remove(name), None);
        name = OpId::from_number(i64::from(GENERATION_MAX) << 32).unwrap();
        table.remove(name).unwrap();
        let next: OpId = table.insert(()).unwrap();
        assert_eq!(next.number(), 1 << 32);
    }

    #[test]
    fn a_number_that_was_never_given_out_names_nothing() {
        let mut table = Table::default();
        let _one: OpId = table.insert(()).unwrap();
        for number in [1, 2, 5 << 32, (1 << 32) + 1, i64::MAX] {
            let name = OpId::from_number(number).unwrap();
            assert_eq!(table.get(name), None, "{number}");
        }
        assert_eq!(OpId::from_number(0), None);
        assert_eq!(OpId::from_number(-1), None);
    }
}

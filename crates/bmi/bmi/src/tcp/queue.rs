//! Queues by tag: first in, first out among equal tags, without an allocation per message.
//!
//! ```text
//!   tag ──▶ (first, last)          nodes:  [ value, next ] [ value, next ] [ free, next ] …
//! ```

use rustc_hash::FxHashMap;

/// Values in order, one queue for each tag.
#[derive(Debug)]
pub(crate) struct TagQueues<T> {
    ends: FxHashMap<i32, Ends>,
    nodes: Vec<Node<T>>,
    free: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: usize,
    last: usize,
}

#[derive(Debug)]
struct Node<T> {
    value: Option<T>,
    next: Option<usize>,
}

impl<T> Default for TagQueues<T> {
    fn default() -> TagQueues<T> {
        TagQueues {
            ends: FxHashMap::default(),
            nodes: Vec::new(),
            free: None,
        }
    }
}

impl<T> TagQueues<T> {
    pub(crate) fn push_back(&mut self, tag: i32, value: T) {
        let node = self.node(value, None);
        match self.ends.get_mut(&tag) {
            Some(ends) => {
                self.nodes[ends.last].next = Some(node);
                ends.last = node;
            }
            None => {
                let ends = Ends {
                    first: node,
                    last: node,
                };
                self.ends.insert(tag, ends);
            }
        }
    }

    /// Inserts a value before the first value for which `later` is true.
    pub(crate) fn insert_before(&mut self, tag: i32, value: T, later: impl Fn(&T) -> bool) {
        let mut before = None;
        let mut at = self.ends.get(&tag).map(|ends| ends.first);
        while let Some(index) = at
            && !self.nodes[index].value.as_ref().is_some_and(&later)
        {
            before = at;
            at = self.nodes[index].next;
        }
        match (before, at) {
            (_, None) => self.push_back(tag, value),
            (None, next) => {
                let node = self.node(value, next);
                if let Some(ends) = self.ends.get_mut(&tag) {
                    ends.first = node;
                }
            }
            (Some(before), next) => {
                let node = self.node(value, next);
                self.nodes[before].next = Some(node);
            }
        }
    }

    pub(crate) fn pop_front(&mut self, tag: i32) -> Option<T> {
        self.remove(tag, |_| true)
    }

    /// Removes the first value of a tag for which `wanted` is true.
    pub(crate) fn remove(&mut self, tag: i32, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut before = None;
        let mut at = self.ends.get(&tag)?.first;
        while !self.nodes[at].value.as_ref().is_some_and(&wanted) {
            before = Some(at);
            at = self.nodes[at].next?;
        }
        let next = self.nodes[at].next;
        match before {
            Some(before) => self.nodes[before].next = next,
            None => match next {
                Some(next) => self.ends.get_mut(&tag)?.first = next,
                None => {
                    self.ends.remove(&tag);
                }
            },
        }
        if next.is_none()
            && let (Some(before), Some(ends)) = (before, self.ends.get_mut(&tag))
        {
            ends.last = before;
        }
        self.release(at)
    }

    /// Removes every value for which `unwanted` is true, of any tag.
    pub(crate) fn drain(&mut self, unwanted: impl Fn(&T) -> bool) -> Vec<T> {
        let tags: Vec<i32> = self.ends.keys().copied().collect();
        let mut taken = Vec::new();
        for tag in tags {
            while let Some(value) = self.remove(tag, &unwanted) {
                taken.push(value);
            }
        }
        taken
    }

    fn node(&mut self, value: T, next: Option<usize>) -> usize {
        let node = Node {
            value: Some(value),
            next,
        };
        match self.free {
            Some(index) => {
                self.free = self.nodes[index].next;
                self.nodes[index] = node;
                index
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        }
    }

    fn release(&mut self, index: usize) -> Option<T> {
        let value = self.nodes[index].value.take();
        self.nodes[index].next = self.free;
        self.free = Some(index);
        value
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(i32),
        Pop(i32),
        Remove(i32, u32),
        Insert(i32, u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        let tag = 0..3_i32;
        prop_oneof![
            tag.clone().prop_map(Step::Push),
            tag.clone().prop_map(Step::Pop),
            (tag.clone(), 0..40_u32).prop_map(|(tag, value)| Step::Remove(tag, value)),
            (tag, 0..40_u32).prop_map(|(tag, value)| Step::Insert(tag, value)),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_a_map_of_queues(steps in prop::collection::vec(step(), 0..200)) {
            let mut queues = TagQueues::default();
            let mut model: BTreeMap<i32, VecDeque<u32>> = BTreeMap::new();
            for (number, step) in (0_u32..).zip(steps) {
                match step {
                    Step::Push(tag) => {
                        queues.push_back(tag, number);
                        model.entry(tag).or_default().push_back(number);
                    }
                    Step::Pop(tag) => {
                        let expected = model.get_mut(&tag).and_then(VecDeque::pop_front);
                        prop_assert_eq!(queues.pop_front(tag), expected);
                    }
                    Step::Remove(tag, value) => {
                        let queue = model.entry(tag).or_default();
                        let place = queue.iter().position(|&other| other == value);
                        let expected = place.and_then(|place| queue.remove(place));
                        prop_assert_eq!(queues.remove(tag, |&other| other == value), expected);
                    }
                    Step::Insert(tag, value) => {
                        let queue = model.entry(tag).or_default();
                        let place = queue.iter().position(|&other| other > value);
                        queue.insert(place.unwrap_or(queue.len()), value);
                        queues.insert_before(tag, value, |&other| other > value);
                    }
                }
            }
            let mut left = queues.drain(|_| true);
            let mut expected: Vec<u32> = model.into_values().flatten().collect();
            left.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(left, expected);
        }
    }

    #[test]
    fn nodes_are_used_again() {
        let mut queues = TagQueues::default();
        for round in 0..1000 {
            queues.push_back(round, round);
            assert_eq!(queues.pop_front(round), Some(round));
        }
        assert_eq!(queues.nodes.len(), 1);
    }
}

//! The order of operations, and which operations are executed as one.
//!
//! Jobs take turns. Within a job, its clients take turns, each for a quantum. A busy client therefore delays another
//! client by one turn only, and a job with many clients gets no more than a job with few.

use std::collections::{BTreeSet, VecDeque};

use files::{Caller, Handle};
use rustc_hash::FxHashMap;

/// The owner of a turn: a job and one of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) job: u32,
    pub(super) client: u64,
}

/// Entries of many owners, who take turns.
pub(super) struct Turns<T> {
    /// Jobs with entries. The first job has the turn.
    jobs: VecDeque<u32>,
    /// The clients with entries of each job. The first client has the turn.
    clients: FxHashMap<u32, VecDeque<u64>>,
    entries: FxHashMap<Owner, VecDeque<T>>,
    quantum: usize,
    /// Number of entries that remain of the quantum.
    left: usize,
    length: usize,
}

impl<T> Turns<T> {
    pub(super) fn new(quantum: usize) -> Self {
        Self {
            jobs: VecDeque::new(),
            clients: FxHashMap::default(),
            entries: FxHashMap::default(),
            quantum: quantum.max(1),
            left: quantum.max(1),
            length: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn push(&mut self, owner: Owner, entry: T) {
        let entries = self.entries.entry(owner).or_default();
        if entries.is_empty() {
            let clients = self.clients.entry(owner.job).or_default();
            if clients.is_empty() {
                self.jobs.push_back(owner.job);
            }
            clients.push_back(owner.client);
        }
        entries.push_back(entry);
        self.length += 1;
    }

    /// Returns the entry whose turn it is.
    pub(super) fn front(&self) -> Option<&T> {
        self.entries.get(&self.first()?)?.front()
    }

    /// Removes and returns the entry whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        let owner = self.first()?;
        let entries = self.entries.get_mut(&owner)?;
        let entry = entries.pop_front()?;
        let is_empty = entries.is_empty();
        self.length -= 1;
        self.left -= 1;
        if is_empty {
            self.entries.remove(&owner);
        }
        if is_empty || self.left == 0 {
            self.pass_on(owner, is_empty);
        }
        Some(entry)
    }

    fn first(&self) -> Option<Owner> {
        let job = *self.jobs.front()?;
        let client = *self.clients.get(&job)?.front()?;
        Some(Owner { job, client })
    }

    /// Passes the turn to the next job, and within this job to the next client.
    fn pass_on(&mut self, owner: Owner, is_empty: bool) {
        self.left = self.quantum;
        self.jobs.pop_front();
        let Some(clients) = self.clients.get_mut(&owner.job) else {
            return;
        };
        clients.pop_front();
        if !is_empty {
            clients.push_back(owner.client);
        }
        if clients.is_empty() {
            self.clients.remove(&owner.job);
        } else {
            self.jobs.push_back(owner.job);
        }
    }
}

/// One contiguous part of a file that is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stretch {
    pub(super) is_write: bool,
    pub(super) handle: Handle,
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// A task to execute.
pub(super) trait Task {
    fn owner(&self) -> Owner;
    fn caller(&self) -> &Caller;
    /// Returns the part of the file that the task reads or writes; `None` if it is not exactly one part.
    fn stretch(&self) -> Option<Stretch>;
}

/// Tasks in the order of their execution.
pub(super) struct Queue<T> {
    turns: Turns<u64>,
    tasks: FxHashMap<u64, T>,
    places: BTreeSet<(Stretch, u64)>,
    next: u64,
    batch: usize,
}

/// Limit of the bytes that are read or written as one.
const BATCH_BYTES: u64 = 16 << 20;

impl<T: Task> Queue<T> {
    /// Creates an empty queue. `batch` is the limit of the tasks that are executed as one.
    pub(super) fn new(quantum: usize, batch: usize) -> Self {
        Self {
            turns: Turns::new(quantum),
            tasks: FxHashMap::default(),
            places: BTreeSet::new(),
            next: 0,
            batch: batch.max(1),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn push(&mut self, task: T) {
        self.next += 1;
        if let Some(stretch) = task.stretch().filter(|_| self.batch > 1) {
            self.places.insert((stretch, self.next));
        }
        self.turns.push(task.owner(), self.next);
        self.tasks.insert(self.next, task);
    }

    /// Returns the next tasks: one, or several that continue one another, in the order of their offsets.
    pub(super) fn pop(&mut self) -> Option<Vec<T>> {
        let first = loop {
            let number = self.turns.pop()?;
            // A task that was executed together with another one leaves its entry in `turns`.
            if let Some(task) = self.take(number) {
                break task;
            }
        };
        let mut batch = VecDeque::from([first]);
        let mut bytes = batch[0].stretch().map_or(0, |stretch| stretch.length);
        while batch.len() < self.batch
            && let Some((task, is_before)) = self.neighbour(&batch, bytes)
        {
            bytes += task.stretch().map_or(0, |stretch| stretch.length);
            match is_before {
                true => batch.push_front(task),
                false => batch.push_back(task),
            }
        }
        Some(batch.into())
    }

    fn take(&mut self, number: u64) -> Option<T> {
        let task = self.tasks.remove(&number)?;
        if let Some(stretch) = task.stretch() {
            self.places.remove(&(stretch, number));
        }
        Some(task)
    }

    /// Removes and returns a task that ends at the start of the batch or starts at its end, and whether it comes
    /// before.
    fn neighbour(&mut self, batch: &VecDeque<T>, bytes: u64) -> Option<(T, bool)> {
        if self.places.is_empty() {
            return None;
        }
        let (first, last) = (batch.front()?.stretch()?, batch.back()?.stretch()?);
        let end = last.offset + last.length;
        let fits = |stretch: &Stretch| bytes + stretch.length <= BATCH_BYTES;
        let at = |offset, length| Stretch {
            offset,
            length,
            ..last
        };
        let behind = self
            .places
            .range((at(end, 0), 0)..=(at(end, u64::MAX), u64::MAX));
        let before = self.places.range(..(at(first.offset, 0), 0)).next_back();
        let before = before.filter(|(stretch, _)| {
            let same = (stretch.is_write, stretch.handle) == (first.is_write, first.handle);
            same && stretch.offset + stretch.length == first.offset
        });
        let candidates = behind
            .map(|place| (place, false))
            .chain(before.map(|place| (place, true)));
        let caller = batch.front()?.caller();
        let found =
            candidates
                .filter(|((stretch, _), _)| fits(stretch))
                .find(|((_, number), _)| {
                    self.tasks
                        .get(number)
                        .is_some_and(|task| task.caller() == caller)
                });
        let ((_, number), is_before) = found?;
        let number = *number;
        Some((self.take(number)?, is_before))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Piece {
        owner: Owner,
        caller: Caller,
        stretch: Option<Stretch>,
    }

    impl Task for Piece {
        fn owner(&self) -> Owner {
            self.owner
        }
        fn caller(&self) -> &Caller {
            &self.caller
        }
        fn stretch(&self) -> Option<Stretch> {
            self.stretch
        }
    }

    fn owner(job: u32, client: u64) -> Owner {
        Owner { job, client }
    }

    fn piece(client: u64, is_write: bool, offset: u64, length: u64) -> Piece {
        Piece {
            owner: owner(0, client),
            caller: Caller::default(),
            stretch: Some(Stretch {
                is_write,
                handle: Handle::ROOT,
                offset,
                length,
            }),
        }
    }

    #[test]
    fn one_that_never_stops_delays_others_by_a_turn() {
        let mut turns = Turns::new(2);
        for number in 0..1000 {
            turns.push(owner(1, 1), ("greedy", number));
        }
        turns.push(owner(1, 2), ("modest", 0));
        turns.push(owner(2, 3), ("other job", 0));
        let first: Vec<_> = std::iter::from_fn(|| turns.pop()).take(6).collect();
        let names: Vec<_> = first.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            [
                "greedy",
                "greedy",
                "other job",
                "modest",
                "greedy",
                "greedy"
            ]
        );
        assert_eq!(turns.len(), 996);
    }

    proptest! {
        #[test]
        fn everything_comes_out_once_and_each_owners_in_order(
            entries in prop::collection::vec((0..3_u32, 0..4_u64), 0..100), quantum in 1..5_usize,
        ) {
            let mut turns = Turns::new(quantum);
            for (number, &(job, client)) in entries.iter().enumerate() {
                turns.push(owner(job, client), (owner(job, client), number));
            }
            let out: Vec<_> = std::iter::from_fn(|| turns.pop()).collect();
            prop_assert_eq!(out.len(), entries.len());
            for (job, client) in entries {
                let mut own = out.iter().filter(|(of, _)| *of == owner(job, client));
                prop_assert!(own.by_ref().is_sorted_by_key(|(_, number)| *number));
            }
            prop_assert_eq!(turns.len(), 0);
        }

        #[test]
        fn batches_continue_one_another_and_nothing_is_lost(
            places in prop::collection::vec((0..2_u64, any::<bool>(), 0..12_u64, 1..4_u64), 0..40),
            batch in 1..6_usize,
        ) {
            let mut queue = Queue::new(3, batch);
            for &(client, is_write, offset, length) in &places {
                queue.push(piece(client, is_write, offset, length));
            }
            let mut count = 0;
            while let Some(tasks) = queue.pop() {
                prop_assert!((1..=batch).contains(&tasks.len()));
                count += tasks.len();
                for pair in tasks.windows(2) {
                    let (one, next) = (pair[0].stretch.unwrap(), pair[1].stretch.unwrap());
                    prop_assert_eq!(one.is_write, next.is_write);
                    prop_assert_eq!(one.offset + one.length, next.offset);
                }
            }
            prop_assert_eq!(count, places.len());
            prop_assert_eq!((queue.len(), queue.places.len()), (0, 0));
        }
    }

    #[test]
    fn adjacent_pieces_of_several_clients_are_one() {
        let mut queue = Queue::new(8, 16);
        for (client, offset) in [(1, 20), (2, 0), (3, 10), (4, 40)] {
            queue.push(piece(client, true, offset, 10));
        }
        queue.push(piece(5, false, 30, 10));
        let batch = queue.pop().unwrap();
        let offsets: Vec<_> = batch
            .iter()
            .map(|task| task.stretch.unwrap().offset)
            .collect();
        assert_eq!(offsets, [0, 10, 20]);
    }

    #[test]
    fn those_of_other_callers_are_not_joined() {
        let mut queue = Queue::new(8, 16);
        queue.push(piece(1, true, 0, 10));
        let mut other = piece(1, true, 10, 10);
        other.caller.uid = 5;
        queue.push(other);
        assert_eq!(queue.pop().unwrap().len(), 1);
        assert_eq!(queue.pop().unwrap().len(), 1);
    }
}

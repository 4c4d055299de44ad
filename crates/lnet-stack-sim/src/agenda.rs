//! What happens when: earliest first, at the same time in the order of planning.

use std::collections::BTreeMap;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// Something may have come to the end of a line; the line and the end, 0 or 1.
    Arrival(u64, usize),
    /// A writer that was told that a line is full is told that there is room again.
    Room(u64, usize),
    /// A connection request is at its target.
    Dialled(u64),
    /// A machine goes on.
    Step(u32),
    /// A program begins an operation.
    Operation(u32),
    /// A fault begins.
    FaultBegins(u32),
    /// A machine falls, because a connection request has arrived; the fault.
    Falls(u32),
    /// A fault is over.
    FaultEnds(u32),
    /// The checkers look around.
    Look,
}

/// The plan of a run.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    planned: BTreeMap<(u64, u64), Happening>,
    next: u64,
}

impl Agenda {
    pub(crate) fn plan(&mut self, at: u64, what: Happening) {
        self.next += 1;
        self.planned.insert((at, self.next), what);
    }

    pub(crate) fn next(&mut self) -> Option<(u64, Happening)> {
        self.planned
            .pop_first()
            .map(|((at, _), happening)| (at, happening))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_the_first_planned_of_those_at_the_same_time() {
        let mut agenda = Agenda::default();
        agenda.plan(5, Happening::Look);
        agenda.plan(3, Happening::Step(1));
        agenda.plan(3, Happening::Step(0));
        assert_eq!(agenda.next(), Some((3, Happening::Step(1))));
        assert_eq!(agenda.next(), Some((3, Happening::Step(0))));
        assert_eq!(agenda.next(), Some((5, Happening::Look)));
        assert_eq!(agenda.next(), None);
    }
}

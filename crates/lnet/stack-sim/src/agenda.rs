//! The queue of future events: the earliest first, and events at the same time in the order of planning.

use std::collections::BTreeMap;

/// An event of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// A parcel may have reached an end of a line; the line, and the end (0 or 1).
    Arrival(u64, usize),
    /// A writer that found a line full is told that the line has room again; the line, and the writer's end.
    Room(u64, usize),
    /// A connection request has reached its target; the line.
    Dialled(u64),
    /// A machine continues.
    Step(u32),
    /// A program begins an operation.
    Operation(u32),
    /// A fault begins.
    FaultBegins(u32),
    /// A handshake triggers a fault, because a connection request has arrived; the fault.
    Falls(u32),
    /// A fault ends.
    FaultEnds(u32),
    /// The checkers examine all machines.
    Look,
}

/// The planned events of a run.
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

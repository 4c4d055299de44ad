//! The steps of a schedule, and how often each is drawn.

use proptest::prelude::*;

use super::CLIENTS;
use super::reference::Ms;
use crate::zbmi::*;

/// A step. An `nth` selects one of the existing items, if there are any.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Call {
        client: usize,
        way: Direction,
        tag: i32,
        size: u64,
        wait: Ms,
    },
    Unexpected {
        client: usize,
        class: u8,
        wait: Ms,
    },
    Test {
        client: usize,
        entries: Vec<TestEntry>,
        wait: Ms,
    },
    Wake {
        nth: usize,
    },
    Post {
        client: usize,
        way: Direction,
        tag: i32,
        size: u64,
        not_immediate: bool,
    },
    Cancel {
        nth: usize,
    },
    Finish {
        nth: usize,
    },
    Abort {
        nth: usize,
    },
    Progress {
        nth: usize,
    },
    ServerTest {
        ids: Option<Vec<usize>>,
        capacity: usize,
        wait: Ms,
        wake: bool,
    },
    Fetch {
        class: u8,
        capacity: usize,
        wait: Ms,
    },
    Free {
        nth: usize,
    },
    ServerWake,
    Lose {
        client: usize,
    },
    ServerLeaves {
        how: Departure,
    },
    Pass {
        duration: Ms,
    },
}

fn way() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::ToServer), Just(Direction::ToClient)]
}

fn wait() -> impl Strategy<Value = Ms> {
    prop_oneof![2 => Just(0), 2 => Just(10), 1 => Just(40), 1 => 1_u64..100]
}

fn entry() -> impl Strategy<Value = TestEntry> {
    let expected = (way(), 0..2).prop_map(|(way, tag)| TestKind::Expected(way, Tag(tag)));
    let kind = prop_oneof![3 => expected, 1 => Just(TestKind::Unexpected { size: 8 })];
    (kind, 0_u32..3).prop_map(|(kind, multiplicity)| TestEntry { kind, multiplicity })
}

fn of_clients() -> impl Strategy<Value = Step> {
    let client = 0..CLIENTS;
    prop_oneof![
        6 => (client.clone(), way(), 0..2, 0_u64..4, wait())
            .prop_map(|(client, way, tag, size, wait)| Step::Call { client, way, tag, size, wait }),
        3 => (client.clone(), 0_u8..2, wait())
            .prop_map(|(client, class, wait)| Step::Unexpected { client, class, wait }),
        3 => (client.clone(), prop::collection::vec(entry(), 1..4), wait())
            .prop_map(|(client, entries, wait)| Step::Test { client, entries, wait }),
        1 => any::<usize>().prop_map(|nth| Step::Wake { nth }),
        6 => any::<usize>().prop_map(|nth| Step::Finish { nth }),
        1 => any::<usize>().prop_map(|nth| Step::Abort { nth }),
        1 => any::<usize>().prop_map(|nth| Step::Progress { nth }),
        1 => client.prop_map(|client| Step::Lose { client }),
    ]
}

fn of_the_server() -> impl Strategy<Value = Step> {
    let ids = prop::option::of(prop::collection::vec(any::<usize>(), 1..4));
    let how = prop_oneof![Just(Departure::Orderly), Just(Departure::Broken)];
    prop_oneof![
        16 => (0..CLIENTS, way(), 0..2, 1_u64..4, any::<bool>()).prop_map(
            |(client, way, tag, size, not_immediate)| {
                Step::Post { client, way, tag, size, not_immediate }
            }
        ),
        4 => any::<usize>().prop_map(|nth| Step::Cancel { nth }),
        8 => (ids, 1_usize..3, wait(), any::<bool>())
            .prop_map(|(ids, capacity, wait, wake)| Step::ServerTest { ids, capacity, wait, wake }),
        4 => (0_u8..2, 1_usize..3, wait())
            .prop_map(|(class, capacity, wait)| Step::Fetch { class, capacity, wait }),
        4 => any::<usize>().prop_map(|nth| Step::Free { nth }),
        1 => Just(Step::ServerWake),
        1 => how.prop_map(|how| Step::ServerLeaves { how }),
    ]
}

/// Draws a hold time and the steps.
pub(super) fn schedule() -> impl Strategy<Value = (Ms, Vec<Step>)> {
    let pass = prop_oneof![Just(1_u64), Just(2), Just(10), 1_u64..80];
    let step = prop_oneof![
        4 => of_clients(),
        4 => of_the_server(),
        1 => pass.prop_map(|duration| Step::Pass { duration }),
    ];
    (
        prop_oneof![Just(0), Just(2)],
        prop::collection::vec(step, 1..120),
    )
}

//! Tests of dialling, rule by rule: [SET-1], [SET-2], [SET-7], [SET-8], [SET-11].

use proptest::prelude::*;

use super::*;

const MIN: Duration = Duration::from_secs(1);
const MAX: Duration = Duration::from_secs(60);
const V3: HelloVersion = HelloVersion::V3;
const NOW: Time = Time::from_secs(100);

/// Returns the order in which `missing` asks for connections if each of them is made.
fn order(mut counts: TypeCounts, typed: bool, pairs: usize) -> Vec<Ctype> {
    let mut order = Vec::new();
    while let Some(ctype) = counts.missing(typed, pairs) {
        match ctype {
            Ctype::CONTROL => counts.control += 1,
            Ctype::BULK_IN => counts.bulk_in += 1,
            _ => counts.bulk_out += 1,
        }
        order.push(ctype);
    }
    order
}

// [SET-1]
#[test]
fn control_comes_first_then_bulk_in_and_bulk_out_in_turns() {
    let (control, bulk_in, bulk_out) = (Ctype::CONTROL, Ctype::BULK_IN, Ctype::BULK_OUT);
    let none = TypeCounts::default();
    assert_eq!(order(none, true, 1), [control, bulk_in, bulk_out]);
    assert_eq!(
        order(none, true, 2),
        [control, bulk_in, bulk_out, bulk_in, bulk_out]
    );
}

// [SET-2]
#[test]
fn connections_that_the_peer_dialled_count() {
    let theirs = TypeCounts {
        control: 1,
        bulk_out: 2,
        ..TypeCounts::default()
    };
    assert_eq!(order(theirs, true, 2), [Ctype::BULK_IN, Ctype::BULK_IN]);
}

#[test]
fn an_untyped_node_wants_one_connection_that_carries_messages() {
    assert_eq!(order(TypeCounts::default(), false, 3), [Ctype::CONTROL]);
    let bulk_out = TypeCounts {
        bulk_out: 1,
        ..TypeCounts::default()
    };
    assert_eq!(order(bulk_out, false, 3), []);
    let bulk_in = TypeCounts {
        bulk_in: 1,
        ..TypeCounts::default()
    };
    assert_eq!(order(bulk_in, false, 3), [Ctype::CONTROL]);
}

// [SET-11]
#[test]
fn the_pause_after_failures_doubles_to_its_limit_and_a_success_ends_it() {
    let mut dialler = Dialler::default();
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        dialler.failed(NOW, MIN, MAX);
        let end = NOW + Duration::from_secs(seconds);
        let before = Time::from_nanos(end.as_nanos() - 1);
        assert!(!dialler.may_begin(before), "{seconds}");
        assert!(dialler.may_begin(end), "{seconds}");
    }
    dialler.connected();
    assert!(dialler.may_begin(NOW));
    dialler.failed(NOW, MIN, MAX);
    assert!(dialler.may_begin(NOW + MIN));
}

// [SET-7]
#[test]
fn a_refusal_waits_half_a_second_to_a_second() {
    for jitter in [0, 1, 499_999_999, 500_000_000, u64::MAX] {
        let mut dialler = Dialler::default();
        dialler.begin(NOW, MAX);
        let after = dialler.refused(NOW, V3, V3, TypeCounts::default(), jitter);
        assert_eq!(after, AfterRejection::Wait);
        assert!(!dialler.is_due(NOW + Duration::from_millis(499)));
        assert!(dialler.is_due(NOW + Duration::from_secs(1)));
    }
}

fn refuse_three_times(counts: TypeCounts) -> (Dialler, AfterRejection) {
    let mut dialler = Dialler::default();
    dialler.begin(NOW, MAX);
    dialler.refused(NOW, V3, V3, counts, 0);
    dialler.refused(NOW, V3, V3, counts, 0);
    let last = dialler.refused(NOW, V3, V3, counts, 0);
    (dialler, last)
}

// [SET-8]
#[test]
fn without_a_connection_of_each_type_a_pass_goes_on_after_three_refusals() {
    let (dialler, last) = refuse_three_times(TypeCounts::default());
    assert_eq!(last, AfterRejection::Wait);
    assert!(dialler.is_waiting());
    assert_eq!(dialler.why_late(), DialFailure::DeclinedTooOften);
}

// [SET-17]
#[test]
fn a_peer_that_restarts_again_and_again_is_dialled_after_growing_pauses() {
    let (min, max) = (Duration::from_secs(1), Duration::from_secs(5));
    let mut dialler = Dialler::default();
    let mut now = NOW;
    for pause in [1, 2, 4, 5, 5] {
        assert!(dialler.may_begin(now));
        dialler.begin(now, MAX);
        dialler.connected();
        assert!(!dialler.restarted() && !dialler.restarted());
        assert!(dialler.restarted());
        dialler.failed(now, min, max);
        let pause = Duration::from_secs(pause);
        assert!(!dialler.may_begin(now + (pause - Duration::from_nanos(1))));
        now = now + pause;
    }
    dialler.begin(now, MAX);
    dialler.connected();
    dialler.rest();
    dialler.failed(now, min, max);
    assert!(dialler.may_begin(now + Duration::from_secs(5)));
    dialler.connected();
    dialler.failed(now, min, max);
    assert!(dialler.may_begin(now + min));
}

// [SET-8]
#[test]
fn three_refusals_with_one_connection_of_each_type_are_enough_for_good() {
    let each = TypeCounts {
        control: 1,
        bulk_in: 1,
        bulk_out: 1,
        any: 0,
    };
    let (mut dialler, last) = refuse_three_times(each);
    assert_eq!(last, AfterRejection::Content);
    assert!(!dialler.may_begin(NOW + MAX));
    dialler.lost(false);
    assert!(dialler.may_begin(NOW + MAX));
}

#[test]
fn a_connection_that_the_peer_dialled_clears_its_refusals() {
    let mut dialler = Dialler::default();
    dialler.begin(NOW, MAX);
    for _ in 0..10 {
        dialler.refused(NOW, V3, V3, TypeCounts::default(), 0);
        dialler.met();
        let after = dialler.refused(NOW, V3, V3, TypeCounts::default(), 0);
        assert_eq!(after, AfterRejection::Wait);
        dialler.met();
    }
}

// [HELLO-17]
#[test]
fn another_version_is_tried_at_once_and_remembered_while_there_is_a_connection() {
    let mut dialler = Dialler::default();
    dialler.begin(NOW, MAX);
    let after = dialler.refused(NOW, HelloVersion::V2, V3, TypeCounts::default(), 0);
    assert_eq!(after, AfterRejection::AtOnce);
    assert_eq!(dialler.version(), Some(HelloVersion::V2));
    dialler.lost(false);
    assert_eq!(dialler.version(), Some(HelloVersion::V2));
    dialler.lost(true);
    assert_eq!(dialler.version(), None);
}

proptest! {
    #[test]
    fn a_pass_always_ends_with_what_is_wanted(
        any in 0_usize..3, control in 0_usize..4, bulk_in in 0_usize..9, bulk_out in 0_usize..9,
        pairs in 1_usize..8,
    ) {
        let have = TypeCounts { any, control, bulk_in, bulk_out };
        let dialled = order(have, true, pairs);
        let of = |ctype| dialled.iter().filter(|one| **one == ctype).count();
        prop_assert_eq!(of(Ctype::CONTROL), usize::from(control == 0));
        prop_assert_eq!(of(Ctype::BULK_IN), pairs.saturating_sub(bulk_in));
        prop_assert_eq!(of(Ctype::BULK_OUT), pairs.saturating_sub(bulk_out));
    }
}

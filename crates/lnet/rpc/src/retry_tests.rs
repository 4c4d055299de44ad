//! Tests of the client's side of a call.

use proptest::prelude::*;

use super::*;

const SCHEDULE: Schedule = Schedule {
    attempt: Duration::from_secs(5),
    backoff: Duration::from_secs(1),
    backoff_max: Duration::from_secs(4),
    seed: 7,
};

fn at(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

fn state(idempotence: Idempotence) -> CallState {
    CallState::new(SCHEDULE, idempotence, at(0), at(60))
}

#[test]
fn an_attempt_without_a_sign_of_life_is_repeated_after_the_pause() {
    let mut call = state(Idempotence::Once);
    assert_eq!(call.next(at(0), true), Step::Send(1));
    assert_eq!(call.next(at(1), true), Step::Wait(at(5)));
    let Step::Wait(due) = call.next(at(5), true) else {
        panic!("the attempt's time is over")
    };
    assert!(due > at(5) && due <= at(6));
    assert_eq!(call.next(due, true), Step::Send(2));
}

#[test]
fn a_sign_of_life_keeps_the_attempt_going() {
    let mut call = state(Idempotence::Once);
    call.next(at(0), true);
    call.alive(1, at(4));
    assert_eq!(call.next(at(5), true), Step::Wait(at(9)));
}

#[test]
fn after_a_lost_path_the_next_attempt_comes_with_the_shortest_pause() {
    let mut call = state(Idempotence::Once);
    call.next(at(0), true);
    call.path_lost(at(2));
    let Step::Wait(due) = call.next(at(2), true) else {
        panic!("a pause comes first")
    };
    assert!(due > at(2) && due <= at(3));
    assert_eq!(call.next(due, true), Step::Send(2));
    for attempt in 2..5 {
        call.lost(attempt, at(10));
        call.path_lost(at(10));
        assert_eq!(call.next(at(11), true), Step::Send(attempt + 1));
    }
}

#[test]
fn a_call_that_was_answered_does_not_ask_again_after_a_lost_path() {
    let mut call = state(Idempotence::Once);
    call.next(at(0), true);
    call.replied(1, Outcome::Done, at(1));
    call.path_lost(at(1));
    assert_eq!(call.next(at(1), true), Step::End(End::Replied));
}

#[test]
fn the_memory_is_asked_back_once_before_the_next_attempt() {
    let mut call = state(Idempotence::Once);
    call.next(at(0), true);
    call.lost(1, at(0));
    assert_eq!(call.next(at(2), false), Step::Reclaim);
    assert_eq!(call.next(at(2), false), Step::Wait(at(60)));
    assert_eq!(call.next(at(3), true), Step::Send(2));
}

#[test]
fn an_answered_call_ends_when_its_memory_is_back() {
    let mut call = state(Idempotence::Once);
    call.next(at(0), true);
    assert!(call.replied(1, Outcome::Done, at(1)));
    assert!(!call.replied(1, Outcome::Done, at(1)), "one reply is taken");
    assert_eq!(call.next(at(1), false), Step::Reclaim);
    assert_eq!(call.next(at(1), false), Step::Wait(at(60)));
    assert_eq!(call.next(at(2), true), Step::End(End::Replied));
}

#[test]
fn memory_that_does_not_come_back_is_waited_for_until_the_deadline() {
    let mut call = state(Idempotence::Once);
    call.next(at(0), true);
    call.replied(1, Outcome::Done, at(1));
    assert_eq!(call.next(at(1), false), Step::Reclaim);
    assert_eq!(call.next(at(60), false), Step::End(End::Deadline));
}

#[test]
fn a_late_reply_of_an_earlier_attempt_ends_the_call() {
    let mut call = state(Idempotence::Once);
    call.next(at(0), true);
    call.lost(1, at(0));
    assert_eq!(call.next(at(2), true), Step::Send(2));
    call.replied(1, Outcome::Done, at(3));
    assert_eq!(call.next(at(3), true), Step::End(End::Replied));
}

#[test]
fn after_a_restart_an_idempotent_call_reconnects() {
    let mut call = state(Idempotence::Idempotent);
    call.next(at(0), true);
    call.replied(1, Outcome::WrongIncarnation, at(1));
    assert_eq!(call.next(at(1), true), Step::Connect);
    call.reconnected(at(2));
    assert_eq!(call.next(at(2), true), Step::Send(2));
    call.replied(1, Outcome::Done, at(3));
    assert_eq!(
        call.next(at(3), true),
        Step::Wait(at(7)),
        "the old session is void"
    );
}

#[test]
fn after_a_restart_any_other_call_fails_clearly() {
    let mut call = state(Idempotence::Once);
    call.next(at(0), true);
    call.replied(1, Outcome::WrongIncarnation, at(1));
    assert_eq!(call.next(at(1), true), Step::End(End::Restarted));
}

#[test]
fn a_busy_server_is_asked_again_later() {
    let mut call = state(Idempotence::Once);
    call.next(at(0), true);
    call.replied(1, Outcome::Busy, at(0));
    assert!(matches!(call.next(at(0), true), Step::Wait(until) if until <= at(1)));
}

proptest! {
    #[test]
    fn a_call_ends_at_its_deadline_whatever_happens(
        inputs in prop::collection::vec((0..6_u8, 0..3000_u64, 0..4_u32), 0..200),
        idempotent in any::<bool>(),
    ) {
        let idempotence = if idempotent { Idempotence::Idempotent } else { Idempotence::Once };
        let mut call = state(idempotence);
        let mut now = at(0);
        for (input, millis, attempt) in inputs {
            now = now + Duration::from_millis(millis);
            match input {
                0 => call.lost(attempt, now),
                1 => call.alive(attempt, now),
                2 => drop(call.replied(attempt, Outcome::Busy, now)),
                3 => drop(call.replied(attempt, Outcome::WrongIncarnation, now)),
                4 => call.reconnected(now),
                _ => {}
            }
            if let Step::Wait(until) = call.next(now, input != 5) {
                prop_assert!(until > now && until <= at(60));
            }
        }
        let ended = matches!(call.next(at(60), true), Step::End(_));
        prop_assert!(ended);
    }

    #[test]
    fn pauses_grow_to_the_cap_and_never_beyond(seed in any::<u64>(), attempt in 1..100_u32) {
        let pause = Schedule { seed, ..SCHEDULE }.pause(attempt);
        prop_assert!(pause >= SCHEDULE.backoff / 2);
        prop_assert!(pause <= SCHEDULE.backoff_max);
    }
}

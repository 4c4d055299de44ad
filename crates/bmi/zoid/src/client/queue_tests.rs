//! The order of operations, and which operations tests ask about.

use super::*;

fn id(number: i64) -> OpId {
    // The ids in these tests are positive.
    OpId::from_number(number).unwrap()
}

fn request(number: i64, kind: RequestKind, tag: i32) -> Request {
    Request {
        op: id(number),
        context: bmi::ContextId::from_number(1).unwrap(),
        peer: bmi::Peer(0),
        kind,
        tag: Tag(tag),
        segments: Segments::new(),
        total: 10,
        memory: bmi::Memory::External,
    }
}

/// Returns a queue with these receives, all queued, given by id and tag.
fn queue(receives: &[(i64, i32)]) -> Queue {
    let mut queue = Queue::default();
    for &(number, tag) in receives {
        queue.add(&request(number, RequestKind::Receive, tag));
        assert_eq!(queue.wait(id(number)), Waits::Queued);
    }
    queue
}

#[test]
fn r43_only_the_oldest_of_a_key_is_attempted() {
    let mut queue = queue(&[(1, 7), (2, 7), (3, 8)]);
    let key = Key::Recv(Tag(7));
    assert_eq!(queue.begin(key).unwrap().id, id(1));
    assert!(queue.begin(key).is_none());
    assert_eq!(queue.begin(Key::Recv(Tag(8))).unwrap().id, id(3));
    assert_eq!(queue.wait(id(1)), Waits::Queued);
    assert_eq!(queue.begin(key).unwrap().id, id(1));
    queue.remove(id(1));
    assert_eq!(queue.begin(key).unwrap().id, id(2));
}

#[test]
fn r43_a_new_operation_is_the_oldest_only_when_none_of_its_key_waits() {
    let mut queue = queue(&[(1, 7)]);
    let second = queue.add(&request(2, RequestKind::Receive, 7));
    let other = queue.add(&request(3, RequestKind::Send, 7));
    assert!(!queue.is_oldest(&second));
    assert!(queue.is_oldest(&other));
    queue.remove(id(1));
    assert!(queue.is_oldest(&second));
}

// [ZOID-22]
#[test]
fn r43_a_test_of_one_covers_the_older_ones_of_its_key() {
    let queue = queue(&[(1, 7), (2, 8), (3, 7), (4, 7)]);
    let (asked, complete) = queue.covering(&[id(3)]);
    assert!(complete);
    let ops = vec![(Tag(7), 10); 2];
    let key = Key::Recv(Tag(7));
    assert_eq!(asked, [Asked { key, ops }]);
}

#[test]
fn r36_all_operations_are_asked_for_by_key() {
    let mut queue = queue(&[(1, 7), (2, 8), (3, 7)]);
    queue.add(&request(4, RequestKind::SendUnexpected(Class(2)), 9));
    queue.wait(id(4));
    let counts: Vec<(Key, usize)> = queue
        .all()
        .into_iter()
        .map(|asked| (asked.key, asked.ops.len()))
        .collect();
    let expected = [
        (Key::Recv(Tag(7)), 2),
        (Key::Recv(Tag(8)), 1),
        (Key::Unexpected(Class(2)), 1),
    ];
    assert_eq!(counts, expected);
}

#[test]
fn r37_a_cancelled_operation_is_not_asked_for() {
    let mut queue = queue(&[(1, 7), (2, 7)]);
    assert_eq!(queue.cancel(id(1)), Cancel::Removed);
    assert_eq!(queue.all()[0].ops.len(), 1);
    assert_eq!(queue.cancel(id(1)), Cancel::Unknown);
    assert_eq!(queue.begin(Key::Recv(Tag(7))).unwrap().id, id(2));
}

#[test]
fn a_cancel_during_an_attempt_counts_when_the_attempt_fails() {
    let mut queue = queue(&[(1, 7)]);
    queue.begin(Key::Recv(Tag(7))).unwrap();
    assert_eq!(queue.cancel(id(1)), Cancel::Noted);
    assert_eq!(queue.wait(id(1)), Waits::Cancelled);
    assert!(!queue.has(Key::Recv(Tag(7))));
}

#[test]
fn nothing_of_a_key_is_asked_for_while_its_oldest_is_attempted() {
    let mut queue = queue(&[(1, 7), (2, 7)]);
    queue.begin(Key::Recv(Tag(7))).unwrap();
    assert_eq!(queue.all(), []);
}

#[test]
fn the_condemned_are_taken_in_the_order_of_their_posts() {
    let mut queue = queue(&[(3, 7), (1, 8), (2, 9)]);
    queue.add(&request(4, RequestKind::SendUnexpected(Class(0)), 9));
    queue.wait(id(4));
    queue.begin(Key::Recv(Tag(8))).unwrap();
    let expected = |kind| !matches!(kind, RequestKind::SendUnexpected(_));
    assert_eq!(queue.take(expected), [id(3), id(2)]);
    let kept = [Key::Recv(Tag(8)), Key::Unexpected(Class(0))];
    assert!(kept.iter().all(|key| queue.has(*key)));
    assert!(!queue.has(Key::Recv(Tag(7))) && !queue.has(Key::Recv(Tag(9))));
}

#[test]
fn r39_a_test_does_not_cover_an_operation_that_is_being_attempted() {
    let mut queue = Queue::default();
    for (number, tag) in [(1, 7), (2, 7), (3, 8)] {
        queue.add(&request(number, RequestKind::Receive, tag));
        queue.wait(id(number));
    }
    queue.begin(Key::Recv(Tag(8))).unwrap();
    let (asked, complete) = queue.covering(&[id(2), id(3)]);
    assert_eq!(asked.len(), 1);
    assert!(!complete, "it may be queued again while the test sleeps");
    queue.wait(id(3));
    assert!(queue.covering(&[id(2), id(3)]).1);
}

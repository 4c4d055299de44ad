//! Posts that do not wait: one thread has several messages under way, and everything else is as ever.

use std::time::Duration;

use bmi::{Completion, Error, OpId, Setting};
use zoid::setting;

use crate::bed::{Bed, End, LIMIT, immediate, pattern, pending};

/// Messages under way at once.
const LANES: i32 = 8;

/// Both sides, and neither's posts wait.
fn meet(bed: &Bed) -> (End, End) {
    let (server, client) = bed.meet();
    for side in [&server, &client] {
        side.bmi.set(None, &setting::PIPELINED).unwrap();
    }
    client.bmi.set(None, &Setting::PostTimeout(LIMIT)).unwrap();
    (server, client)
}

/// Tests all operations until every one has completed, and returns them in the order of `ops`.
fn finish_all(side: &End, ops: &[OpId]) -> Vec<Completion> {
    let mut done: Vec<Option<Completion>> = ops.iter().map(|_| None).collect();
    while done.iter().any(Option::is_none) {
        let open: Vec<usize> = (0..ops.len()).filter(|&at| done[at].is_none()).collect();
        let asked: Vec<OpId> = open.iter().map(|&at| ops[at]).collect();
        let found = side.bmi.test_some(&asked, LIMIT).unwrap();
        assert!(!found.is_empty(), "nothing completed");
        for (place, completion) in found {
            done[open[place]] = Some(completion);
        }
    }
    done.into_iter().flatten().collect()
}

fn both_ways(bed: &Bed) {
    let (server, client) = meet(bed);
    let long = 300_000;
    let content = |tag: i32| pattern(long - tag as usize);
    let receives: Vec<OpId> = (0..LANES)
        .map(|tag| pending(server.receive_into(tag, long)))
        .collect();
    let sends: Vec<OpId> = (0..LANES)
        .map(|tag| pending(client.send(tag, content(tag))))
        .collect();
    assert!(
        finish_all(&client, &sends)
            .iter()
            .all(|done| done.result.is_ok())
    );
    for (tag, done) in (0..LANES).zip(finish_all(&server, &receives)) {
        let len = done.result.unwrap();
        assert_eq!(done.payload.into_buffer()[..len], content(tag));
    }
    let receives: Vec<OpId> = (0..LANES)
        .map(|tag| pending(client.receive_into(tag, long)))
        .collect();
    let sends: Vec<OpId> = (0..LANES)
        .map(|tag| pending(server.send(tag, content(tag))))
        .collect();
    for (tag, done) in (0..LANES).zip(finish_all(&client, &receives)) {
        let len = done.result.unwrap();
        assert_eq!(done.payload.into_buffer()[..len], content(tag));
    }
    assert!(
        finish_all(&server, &sends)
            .iter()
            .all(|done| done.result.is_ok())
    );
    // Each was asked for once: nothing was refused and tried again.
    let asked = client.counters.read().exchanges;
    assert!(
        asked <= 2 * LANES as u64 + 1,
        "{asked} calls were forwarded"
    );
}

#[test]
fn one_thread_has_several_messages_under_way_in_both_directions() {
    both_ways(&Bed::new());
}

#[test]
fn so_it_has_where_the_client_copies_into_the_segment() {
    both_ways(&Bed::with(|options| options.trust_clients = true));
}

#[test]
fn messages_of_one_tag_arrive_in_the_order_of_their_posts() {
    const MESSAGES: u8 = 100;
    let bed = Bed::new();
    let (server, client) = meet(&bed);
    let sends: Vec<OpId> = (0..MESSAGES)
        .map(|number| pending(client.send(1, vec![number; 9])))
        .collect();
    let receives: Vec<OpId> = (0..MESSAGES)
        .map(|_| pending(server.receive_into(1, 9)))
        .collect();
    std::thread::scope(|scope| {
        scope.spawn(|| finish_all(&client, &sends));
        for (number, done) in (0..MESSAGES).zip(finish_all(&server, &receives)) {
            assert_eq!(done.payload.into_buffer()[..], [number; 9]);
        }
    });
}

#[test]
fn a_test_that_does_not_wait_brings_operations_on() {
    let bed = Bed::new();
    let (server, client) = meet(&bed);
    let received = pending(server.receive_into(1, 8));
    let op = pending(client.send(1, vec![5; 8]));
    let began = std::time::Instant::now();
    while client.bmi.test(op, Duration::ZERO).unwrap().is_none() {
        assert!(began.elapsed() < LIMIT, "nothing moves");
    }
    assert_eq!(server.wait(received).result, Ok(8));
}

#[test]
fn a_cancelled_post_ends_though_the_daemon_still_looks_for_its_counterpart() {
    let bed = Bed::new();
    let (server, client) = meet(&bed);
    let (send, receive) = (client.send(1, vec![1; 8]), client.receive_into(2, 8));
    for op in [pending(send), pending(receive)] {
        client.bmi.cancel(op).unwrap();
        assert_eq!(client.wait(op).result, Err(Error::Cancel));
    }
    let received = pending(server.receive_into(1, 8));
    assert!(
        server
            .bmi
            .test(received, Duration::from_millis(50))
            .unwrap()
            .is_none()
    );
    let op = pending(client.send(1, vec![2; 8]));
    assert_eq!(client.wait(op).result, Ok(8));
    assert_eq!(server.wait(received).payload.into_buffer()[..], [2; 8]);
}

#[test]
fn posts_wait_again_when_the_program_says_so() {
    let bed = Bed::new();
    let (server, client) = meet(&bed);
    let first = pending(server.receive_into(1, 8));
    client.bmi.set(None, &setting::UNPIPELINED).unwrap();
    assert_eq!(immediate(client.send(1, vec![1; 8])).0, 8);
    assert_eq!(server.wait(first).result, Ok(8));
}

#[test]
fn what_was_under_way_when_the_daemon_went_fails_or_finds_the_next_one() {
    let mut bed = Bed::new();
    let (server, client) = meet(&bed);
    let mut ops: Vec<OpId> = (0..LANES)
        .map(|tag| pending(client.send(tag, vec![3; 100])))
        .collect();
    bed.restart();
    let hello = client.unexpected(0, b"here again");
    ops.push(pending(hello));
    for done in finish_all(&client, &ops[LANES as usize..]) {
        assert_eq!(done.result, Ok(10));
    }
    drop(server);
    client.bmi.finalize();
}

#[test]
fn eight_threads_share_what_is_under_way() {
    const ROUNDS: u8 = 50;
    let bed = Bed::with(|options| options.trust_clients = true);
    let (server, client) = meet(&bed);
    let (server, client) = (&server, &client);
    std::thread::scope(|scope| {
        for tag in 0..LANES {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let (result, payload) = server.finish(server.receive_into(tag, 5000));
                    assert_eq!(result, Ok(5000));
                    assert!(payload.into_buffer().iter().all(|&byte| byte == round));
                }
            });
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    assert_eq!(
                        client.finish(client.send(tag, vec![round; 5000])).0,
                        Ok(5000)
                    );
                }
            });
        }
    });
}

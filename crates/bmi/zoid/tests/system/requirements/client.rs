//! Requirements from the point of view of the client.

use std::time::{Duration, Instant};

use bmi::{Bmi, Buffer, Class, Error, Post, Question, Setting, Tag};
use zoid::Zoid;

use crate::bed::{Bed, End, LIMIT, immediate, pattern, pending};

const SHORT: Duration = Duration::from_millis(50);

#[test]
fn r02_an_unexpected_message_of_the_limit_is_accepted_and_one_byte_more_is_not() {
    for limit in [4096, 8192, 65536] {
        let bed = Bed::with(|options| options.max_unexpected = limit as u64);
        let (_server, client) = bed.greeted_pair();
        let before = client.counters.read().frames_sent;
        let size = client.bmi.get(Some(client.peer), Question::UnexpectedSize);
        assert_eq!(size, Ok(limit as u64));
        let post = |len: usize| {
            let buffer = Buffer::from(vec![0; len]);
            let (bmi, context, peer) = (&client.bmi, client.context, client.peer);
            bmi.post_send_unexpected(context, peer, buffer, Tag(1), Class(0), 0)
        };
        assert_eq!(post(limit + 1).unwrap_err().error, Error::MsgSize);
        assert_eq!(client.counters.read().frames_sent, before);
        immediate(post(limit).unwrap());
    }
}

#[test]
fn r05_r24_r25_128_unexpected_messages_fit_and_the_129th_waits_for_memory() {
    let bed = Bed::new();
    let server = bed.serve();
    let client = bed.join();
    for tag in 0..128 {
        immediate(client.unexpected(tag, &[7; 8192]));
    }
    let last = pending(client.unexpected(128, &[7; 8192]));
    assert!(client.bmi.test(last, SHORT).unwrap().is_none());
    drop(server.next_unexpected());
    assert_eq!(client.wait(last).result, Ok(8192));
    for tag in 1..129 {
        assert_eq!(server.next_unexpected().tag, Tag(tag));
    }
}

#[test]
fn r08_unexpected_messages_travel_from_clients_to_the_server_only() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let post =
        server
            .bmi
            .post_send_unexpected(server.context, server.peer, vec![1], Tag(1), Class(0), 0);
    assert_eq!(post.unwrap_err().error, Error::OpNotSupp);
    let began = Instant::now();
    let found = client.bmi.test_unexpected(Class(0), 1, 100 * LIMIT);
    assert!(found.unwrap().is_empty());
    assert!(began.elapsed() < LIMIT);
}

#[test]
fn r11_an_operation_is_reported_in_its_context_and_survives_it() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    for end in [&client, &server] {
        let (kept, closed) = (
            pending(end.receive_into(1, 8)),
            pending(end.receive_into(2, 8)),
        );
        let other = end.bmi.open_context().unwrap();
        end.bmi.cancel(kept).unwrap();
        assert!(end.bmi.test_context(other, 4, SHORT).unwrap().is_empty());
        assert_eq!(
            end.bmi.test_context(end.context, 4, LIMIT).unwrap()[0].op,
            kept
        );
        end.bmi.close_context(end.context);
        end.bmi.cancel(closed).unwrap();
        let done = end.bmi.test(closed, LIMIT).unwrap().unwrap();
        assert_eq!(done.result, Err(Error::Cancel));
    }
}

/// A server that has gone, and no other comes: what waits for it ends.
// [DEATH-17]
#[test]
fn operations_do_not_wait_for_ever_for_a_server_that_does_not_come() {
    for single_thread in [false, true] {
        let bed = Bed::new();
        let server = bed.serve();
        let client = End::client(zoid::Options {
            server_timeout: Some(Duration::from_millis(200)),
            single_thread,
            ..bed.options()
        });
        server.greeted_by(&client);
        let op = pending(client.receive_into(1, 8));
        assert!(
            client
                .bmi
                .test(op, Duration::from_millis(400))
                .unwrap()
                .is_none()
        );
        let result = std::thread::scope(|scope| {
            // One long wait, which must not outlast the limit.
            let tested = scope.spawn(|| client.bmi.test(op, LIMIT).unwrap());
            server.bmi.finalize();
            tested.join().unwrap().unwrap().result
        });
        assert_eq!(result, Err(Error::ConnReset));
        let later = pending(client.receive_into(1, 8));
        let result = client.bmi.test(later, LIMIT).unwrap().unwrap().result;
        assert_eq!(result, Err(Error::ConnReset));
        let next = bed.serve();
        let op = pending(client.receive_into(1, 8));
        let to = next.greeted_by(&client);
        let sent = next.bmi.post_send(next.context, to, vec![1; 8], Tag(1), 0);
        pending(sent.unwrap());
        assert_eq!(client.wait(op).result, Ok(8));
    }
}

/// Server and daemon die together, and only the daemon comes back.
// [DEATH-17]
#[test]
fn operations_do_not_wait_for_ever_for_a_server_that_went_with_its_daemon() {
    for single_thread in [false, true] {
        let mut bed = Bed::new();
        let server = bed.serve();
        let client = End::client(zoid::Options {
            server_timeout: Some(Duration::from_millis(200)),
            single_thread,
            ..bed.options()
        });
        server.greeted_by(&client);
        bed.stop();
        server.bmi.finalize();
        bed.start();
        let op = pending(client.receive_into(1, 8));
        let result = client.bmi.test(op, LIMIT).unwrap().unwrap().result;
        assert_eq!(result, Err(Error::ConnReset));
    }
}

/// Threads test a context each, all at once, and whichever of them hears of a completion, the thread of its
/// context collects it.
#[test]
fn r11_threads_with_contexts_of_their_own_collect_their_own_operations() {
    const THREADS: i32 = 4;
    const ROUNDS: usize = 50;
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    for (receiver, sender) in [(&server, &client), (&client, &server)] {
        std::thread::scope(|scope| {
            for tag in 10..10 + THREADS {
                scope.spawn(move || {
                    let context = receiver.bmi.open_context().unwrap();
                    for _ in 0..ROUNDS {
                        let room = vec![0; 64];
                        let post =
                            receiver
                                .bmi
                                .post_receive(context, receiver.peer, room, Tag(tag), 0);
                        if let Post::Pending(op) = post.unwrap() {
                            let found = receiver
                                .bmi
                                .test_context_until(context, 4, LIMIT, &|| false);
                            let found = found.unwrap();
                            assert_eq!(found.first().map(|done| done.op), Some(op));
                        }
                    }
                });
            }
            for round in 0..ROUNDS * THREADS as usize {
                let tag = 10 + (round as i32 * 7) % THREADS;
                let sent = sender.finish(sender.send(tag, vec![1; 64]));
                assert_eq!(sent.0, Ok(64));
            }
        });
    }
}

#[test]
fn r14_r20_a_test_without_result_is_one_exchange() {
    let bed = Bed::new();
    let (_server, client) = bed.greeted_pair();
    let op = pending(client.receive_into(1, 8));
    for wait in [Duration::from_millis(10), Duration::from_secs(1)] {
        let before = client.counters.read();
        let began = Instant::now();
        assert!(client.bmi.test(op, wait).unwrap().is_none());
        assert!(began.elapsed() >= wait);
        let after = client.counters.read();
        assert_eq!(after.exchanges - before.exchanges, 1);
        assert_eq!(after.tests - before.tests, 1);
    }
}

#[test]
fn r15_r29_a_post_with_a_timeout_waits_for_its_counterpart_in_one_exchange() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let timeout = Setting::PostTimeout(LIMIT);
    client.bmi.set(Some(client.peer), &timeout).unwrap();
    let before = client.counters.read();
    std::thread::scope(|scope| {
        let post = scope.spawn(|| immediate(client.receive_into(1, 8)).0);
        // The post is with the daemon once its frame is sent.
        while client.counters.read().exchanges == before.exchanges {
            std::thread::yield_now();
        }
        assert_eq!(server.finish(server.send(1, vec![5; 8])).0, Ok(8));
        assert_eq!(post.join().unwrap(), 8);
    });
    assert_eq!(client.counters.read().exchanges - before.exchanges, 1);
}

#[test]
fn r15_r34_without_a_counterpart_the_post_is_pending_after_its_time() {
    let bed = Bed::new();
    let (_server, client) = bed.greeted_pair();
    let wait = Duration::from_millis(200);
    client.bmi.set(None, &Setting::PostTimeout(wait)).unwrap();
    for post in [
        (|client: &End| client.receive_into(1, 8)) as fn(&End) -> Post,
        |client| client.send(1, vec![1; 8]),
    ] {
        let began = Instant::now();
        pending(post(&client));
        assert!(began.elapsed() >= wait);
    }
}

#[test]
fn r16_only_the_one_address_resolves_and_always_to_the_same() {
    let bed = Bed::new();
    let client = bed.join();
    assert_eq!(client.bmi.lookup("zoid://"), Ok(client.peer));
    for bad in ["zoid:", "zoid:///", "zoid://x", "ZOID://", "", "zoid:// "] {
        assert_eq!(client.bmi.lookup(bad), Err(Error::Inval), "{bad}");
    }
    let server = bed.serve();
    let to_itself = server
        .bmi
        .post_send(server.context, server.peer, vec![1], Tag(1), 0);
    assert_eq!(to_itself.unwrap_err().error, Error::Inval);
}

#[test]
fn r21_r26_r33_posts_without_counterpart_wait_in_the_client() {
    let bed = Bed::new();
    let (_server, client) = bed.greeted_pair();
    let ops: Vec<_> = (0..1000)
        .map(|tag| pending(client.receive_into(tag, 8)))
        .collect();
    pending(client.send(1, vec![1; 8]));
    let found = client.bmi.test_some(&ops, Duration::ZERO).unwrap();
    assert!(found.is_empty());
}

#[test]
fn r27_an_operation_survives_refusals_and_then_completes() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let op = pending(client.send(1, vec![9; 8]));
    for _ in 0..3 {
        assert!(client.bmi.test(op, SHORT).unwrap().is_none());
    }
    let post = server.receive_into(1, 8);
    assert_eq!(client.wait(op).result, Ok(8));
    let (result, payload) = server.finish(post);
    assert_eq!((result, &*payload.into_buffer()), (Ok(8), &[9; 8][..]));
}

#[test]
fn r28_a_send_whose_receive_is_posted_completes_at_once() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let op = pending(server.receive_into(1, 100));
    assert_eq!(immediate(client.send(1, vec![3; 60])).0, 60);
    assert_eq!(server.wait(op).result, Ok(60));
}

#[test]
fn r30_a_refused_message_moves_no_payload() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let len = 128 << 20;
    let buffer = Buffer::zeroed(len).unwrap();
    let before = client.counters.read().bytes_sent;
    let op = pending(client.send(1, buffer));
    for _ in 0..99 {
        assert!(client.bmi.test(op, Duration::ZERO).unwrap().is_none());
    }
    let refused = client.counters.read().bytes_sent - before;
    assert!(refused < 100 * 256, "{refused}");
    let post = server.receive_into(1, len);
    let before = client.counters.read().bytes_sent;
    assert_eq!(client.wait(op).result, Ok(len));
    assert_eq!(server.finish(post).0, Ok(len));
    let moved = client.counters.read().bytes_sent - before;
    assert!(moved < (len + 8192) as u64, "{moved}");
}

#[test]
fn r32_r31_a_waiting_message_is_received_at_once_into_several_segments() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let bytes = pattern(100);
    let op = pending(server.send(1, bytes.clone()));
    let parts: Vec<Buffer> = [40, 30, 60].map(|len| client.memory(len)).into();
    let (len, payload) = immediate(client.receive(1, parts));
    assert_eq!(len, 100);
    let mut expected = bytes;
    expected.resize(130, 0);
    let parts = payload.into_buffers();
    assert_eq!(
        parts
            .iter()
            .map(|part| &part[..])
            .collect::<Vec<_>>()
            .concat(),
        expected
    );
    assert_eq!(server.wait(op).result, Ok(100));
}

#[test]
fn r35_cancel_sends_nothing_and_consumes_nothing() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let op = pending(client.receive(1, vec![8; 8]));
    let before = client.counters.read().frames_sent;
    client.bmi.cancel(op).unwrap();
    assert_eq!(client.counters.read().frames_sent, before);
    let sent = server.send(1, vec![5; 8]);
    let done = client.wait(op);
    assert_eq!((done.result, done.user), (Err(Error::Cancel), 7));
    assert_eq!(&*done.payload.into_buffer(), &[8; 8]);
    assert_eq!(client.finish(client.receive_into(1, 8)).0, Ok(8));
    assert_eq!(server.finish(sent).0, Ok(8));
}

#[test]
fn r36_a_post_ends_the_sleep_of_a_test_of_the_context() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let idle = pending(client.receive_into(1, 8));
    std::thread::scope(|scope| {
        let tests = client.counters.read().tests;
        let sleeper = scope.spawn(|| client.bmi.test_context(client.context, 4, LIMIT).unwrap());
        while client.counters.read().tests == tests {
            std::thread::yield_now();
        }
        let op = pending(client.receive_into(2, 8));
        let sent = server.send(2, vec![5; 8]);
        let found = sleeper.join().unwrap();
        assert_eq!(found.iter().map(|done| done.op).collect::<Vec<_>>(), [op]);
        assert_eq!(server.finish(sent).0, Ok(8));
    });
    client.bmi.cancel(idle).unwrap();
}

#[test]
fn r38_a_cancelled_operation_does_not_shift_what_is_ready() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let ops: Vec<_> = (1..=3)
        .map(|tag| pending(client.receive_into(tag, 8)))
        .collect();
    client.bmi.cancel(ops[0]).unwrap();
    let sent = server.send(2, vec![5; 8]);
    assert_eq!(client.wait(ops[1]).result, Ok(8));
    assert_eq!(client.wait(ops[0]).result, Err(Error::Cancel));
    assert!(client.bmi.test(ops[2], Duration::ZERO).unwrap().is_none());
    assert_eq!(server.finish(sent).0, Ok(8));
}

#[test]
fn r42_a_test_returns_at_most_its_capacity_and_keeps_the_rest() {
    let bed = Bed::new();
    let (_server, client) = bed.greeted_pair();
    let mut ops: Vec<_> = (0..5)
        .map(|tag| pending(client.receive_into(tag, 8)))
        .collect();
    for op in &ops {
        client.bmi.cancel(*op).unwrap();
    }
    let mut seen = Vec::new();
    for _ in 0..5 {
        let found = client.bmi.test_context(client.context, 1, LIMIT).unwrap();
        assert_eq!(found.len(), 1);
        seen.push(found[0].op);
    }
    seen.sort_unstable();
    ops.sort_unstable();
    assert_eq!(seen, ops);
}

#[test]
fn r42_each_result_stands_with_its_operation() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    // In the order of the posts: one that stays, and four of which one is cancelled.
    let expected = [
        None,
        Some(Ok(1)),
        Some(Err(Error::Cancel)),
        Some(Ok(3)),
        Some(Ok(4)),
    ];
    let ops = [0, 1, 2, 3, 4].map(|number: i32| {
        let (bmi, context, peer) = (&client.bmi, client.context, client.peer);
        let user = 100 + number.unsigned_abs();
        let post = bmi.post_receive(context, peer, client.memory(8), Tag(number), user.into());
        pending(post.unwrap())
    });
    client.bmi.cancel(ops[2]).unwrap();
    let sent = [1, 3, 4].map(|number| server.send(number, pattern(number as usize)));
    let asked = [ops[4], ops[3], ops[0], ops[2], ops[1]];
    let mut found = [const { None }; 5];
    while found.iter().flatten().count() < 4 {
        for (index, done) in client.bmi.test_some(&asked, LIMIT).unwrap_or_default() {
            let number = ops.iter().position(|op| *op == done.op).unwrap();
            assert_eq!(asked[index], done.op);
            assert_eq!(done.user, 100 + number as u64);
            if let Ok(len) = done.result {
                assert_eq!(done.payload.into_buffer()[..len], pattern(len));
            }
            assert_eq!(found[number].replace(done.result), None);
        }
    }
    assert_eq!(found, expected);
    for sent in sent {
        assert!(server.finish(sent).0.is_ok());
    }
}

#[test]
fn r43_a_new_post_does_not_overtake_an_older_one_of_its_tag() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let first = pending(client.send(1, vec![1; 8]));
    let receive = server.receive_into(1, 8);
    let second = client.send(1, vec![2; 8]);
    assert_eq!(&*server.finish(receive).1.into_buffer(), &[1; 8]);
    assert_eq!(client.wait(first).result, Ok(8));
    let receive = server.receive_into(1, 8);
    assert_eq!(client.finish(second).0, Ok(8));
    assert_eq!(&*server.finish(receive).1.into_buffer(), &[2; 8]);
}

#[test]
fn r45_r13_memory_is_aligned_and_zeroed_on_both_sides() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    for end in [&server, &client] {
        for len in 0..=4097 {
            let mut buffer = end.memory(len);
            assert_eq!(buffer.addresses().start % 16, 0, "{len}");
            assert!(buffer.iter().all(|byte| *byte == 0), "{len}");
            // The next owner gets it zeroed.
            buffer.fill(0xff);
        }
    }
}

// [DEATH-31]
#[test]
fn a_client_without_a_daemon_is_refused_after_its_time() {
    let bed = Bed::new();
    let options = zoid::Options {
        socket: Some(bed.socket().with_file_name("nobody")),
        client_connect: SHORT,
        ..bed.options()
    };
    let bmi = Bmi::builder().method(Zoid::new(options)).start().unwrap();
    assert_eq!(bmi.lookup("zoid://"), Err(Error::ConnRefused));
}

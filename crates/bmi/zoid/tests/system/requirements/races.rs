//! Two threads and one operation: each order of events is forced, or tried often.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bmi::{Class, Error, Payload, Post, Setting, Tag};
use zoid_proto::ctl::{Completion, PostOutcome, Reply, Request, RequestHeader, TestReply};
use zoid_proto::{Array, Extent, List};

use crate::bed::{Bed, LIMIT, immediate, pattern, pending};
use crate::plugin::{Desk, Plugin, TOTAL, UNEXPECTED};

/// Answers a test with these completions.
fn report(desk: &Desk, to: &RequestHeader, completions: &[Completion]) {
    let reply = Reply::Test(TestReply {
        unexpected_pending: false,
        woken: false,
        completions: List::new(completions),
    });
    desk.answer(to, &reply);
}

/// Returns a plugin that reports the completion of a receive before it answers the post. It answers when the
/// next test shows that the report was processed.
fn reports_before_it_answers() -> Plugin {
    let mut posted: Option<(RequestHeader, u64)> = None;
    let mut reported = false;
    Plugin::new(move |desk, header, request| match request {
        Request::UnexpectedTest(_) => desk.greet(header),
        Request::PostRecv(post) => {
            let Array::Inline(segments) = &post.segments else {
                panic!("{post:?}");
            };
            let place: Extent = segments.item(0).unwrap();
            desk.fill(place, &pattern(8));
            (posted, reported) = (Some((*header, post.bmi_id)), false);
        }
        Request::Test(_) if reported => {
            if let Some((post, _)) = posted.take() {
                let outcome = PostOutcome::Registered { plugin_id: 1 };
                desk.answer(&post, &Reply::Post(outcome));
            }
            report(desk, header, &[]);
        }
        Request::Test(_) => {
            let done = posted.map(|(_, bmi_id)| Completion {
                bmi_id,
                outcome: Ok(8),
            });
            reported = done.is_some();
            report(desk, header, done.as_slice());
        }
        _ => {}
    })
}

#[test]
fn r59_a_completion_that_a_test_learns_before_the_post_has_its_reply_is_collected_once() {
    let plugin = reports_before_it_answers();
    let server = plugin.serve();
    for (round, inside) in [(0, true), (1, false)] {
        let memory = match inside {
            true => server.memory(16),
            false => server.outside(16),
        };
        let user = 1000 + round;
        let (op, done) = std::thread::scope(|scope| {
            let post = scope.spawn(|| {
                let (bmi, context, peer) = (&server.bmi, server.context, server.peer);
                pending(
                    bmi.post_receive(context, peer, memory, Tag(1), user)
                        .unwrap(),
                )
            });
            let mut found = Vec::new();
            while found.is_empty() || !post.is_finished() {
                let wait = Duration::from_millis(10);
                found.extend(server.bmi.test_context(server.context, 4, wait).unwrap());
            }
            let op = post.join().unwrap();
            assert_eq!(found.len(), 1);
            (op, found.pop().unwrap())
        });
        assert_eq!((done.op, done.result, done.user), (op, Ok(8), user));
        assert_eq!(done.payload.into_buffer()[..8], pattern(8));
        let again = server.bmi.test_context(server.context, 4, Duration::ZERO);
        assert!(again.unwrap().is_empty());
        let stale = server.bmi.test(op, Duration::ZERO);
        assert_eq!(stale.err(), Some(Error::Inval));
    }
    let counts = server.counters.read();
    assert_eq!(counts.protocol_errors, 0);
    assert_eq!(counts.memory_taken, counts.memory_returned);
    assert_eq!(server.bmi.stray_completions(), 0);
}

#[test]
fn r61_a_cancel_that_crosses_the_completion_leaves_one_end_of_the_operation() {
    for outcome in [Ok(8), Err(zoid_proto::Status::CANCELLED)] {
        let mut ended = Vec::new();
        let plugin = Plugin::new(move |desk, header, request| match request {
            Request::UnexpectedTest(_) => desk.greet(header),
            Request::PostRecv(post) => {
                let plugin_id = post.bmi_id;
                let outcome = PostOutcome::Registered { plugin_id };
                desk.answer(header, &Reply::Post(outcome));
            }
            // The result is decided when the cancel arrives; there may be two cancels.
            Request::Cancel { plugin_id } if ended.is_empty() => ended.push(Completion {
                bmi_id: *plugin_id,
                outcome,
            }),
            Request::Test(_) => report(desk, header, &std::mem::take(&mut ended)),
            _ => {}
        });
        let server = plugin.serve();
        let op = pending(server.receive_into(1, 8));
        server.bmi.cancel(op).unwrap();
        server.bmi.cancel(op).unwrap();
        let done = server.wait(op);
        let expected = outcome.map(|_| 8).map_err(|_| Error::Cancel);
        assert_eq!((done.result, done.user), (expected, 7));
        assert_eq!(server.bmi.cancel(op), Ok(()));
        assert_eq!(server.bmi.stray_completions(), 0);
    }
}

#[test]
fn r61_cancels_and_messages_that_race_end_every_operation_once_on_each_side() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let rounds = if crate::bed::is_long() { 3000 } else { 150 };
    let (mut cancelled, mut moved) = (0, 0);
    for _ in 0..rounds {
        let receive = pending(server.receive_into(1, 8));
        let (receive, send) = std::thread::scope(|scope| {
            let cancel = scope.spawn(|| {
                server.bmi.cancel(receive).unwrap();
                server.wait(receive).result
            });
            let send = match client.send(1, vec![1; 8]) {
                Post::Immediate(len, _) => Ok(len),
                Post::Pending(op) => {
                    client.bmi.cancel(op).unwrap();
                    client.wait(op).result
                }
            };
            (cancel.join().unwrap(), send)
        });
        assert_eq!(receive, send);
        match send {
            Ok(8) => moved += 1,
            Err(Error::Cancel) => cancelled += 1,
            other => panic!("{other:?}"),
        }
    }
    println!("{moved} moved, {cancelled} cancelled");
    for end in [&server, &client] {
        assert_eq!(end.bmi.stray_completions(), 0);
        assert_eq!(end.counters.read().protocol_errors, 0);
    }
}

#[test]
fn r62_cancels_and_freed_memory_that_race_end_every_operation_once() {
    let bed = Bed::with(|options| options.total = options.unexpected + (64 << 10));
    let (server, client) = bed.greeted_pair();
    let rounds = if crate::bed::is_long() { 2000 } else { 100 };
    for round in 0..rounds {
        let all = server.memory(64 << 10);
        let ops: Vec<_> = (0..3)
            .map(|tag| pending(server.receive(tag, server.outside(20_000))))
            .collect();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(all));
            scope.spawn(|| server.bmi.cancel(ops[round % 3]).unwrap());
        });
        for (tag, op) in (0..).zip(&ops) {
            let expected = match tag as usize == round % 3 {
                true => Err(Error::Cancel),
                false => {
                    client.finish(client.send(tag, pattern(500))).0.unwrap();
                    Ok(500)
                }
            };
            assert_eq!(server.wait(*op).result, expected, "round {round}");
        }
        let counts = server.counters.read();
        assert_eq!(counts.memory_taken, counts.memory_returned, "round {round}");
    }
    assert_eq!(server.bmi.stray_completions(), 0);
}

#[test]
fn r62_a_cancel_amid_the_registration_that_freed_memory_allows_reaches_the_plugin() {
    let (told, posting) = std::sync::mpsc::channel();
    let mut posted = None;
    let mut ended = Vec::new();
    let plugin = Plugin::new(move |desk, header, request| match request {
        Request::UnexpectedTest(_) => desk.greet(header),
        Request::PostRecv(post) => {
            posted = Some((*header, post.bmi_id));
            told.send(()).unwrap();
        }
        // The post is answered once the test, which follows the cancel, has arrived.
        Request::Test(_) | Request::Wake if posted.is_some() => {
            let (post, plugin_id) = posted.take().unwrap();
            let outcome = PostOutcome::Registered { plugin_id };
            desk.answer(&post, &Reply::Post(outcome));
            if matches!(request, Request::Test(_)) {
                report(desk, header, &[]);
            }
        }
        Request::Cancel { plugin_id } => ended.push(Completion {
            bmi_id: *plugin_id,
            outcome: Err(zoid_proto::Status::CANCELLED),
        }),
        Request::Test(_) => report(desk, header, &std::mem::take(&mut ended)),
        _ => {}
    });
    let server = plugin.serve();
    let all = server.memory((TOTAL - UNEXPECTED) as usize);
    let op = pending(server.receive(1, server.outside(20_000)));
    std::thread::scope(|scope| {
        scope.spawn(|| drop(all));
        posting.recv_timeout(LIMIT).unwrap();
        server.bmi.cancel(op).unwrap();
        // The plugin does not know it yet: a test of any operations makes it answer.
        let began = Instant::now();
        let found = loop {
            assert!(began.elapsed() < LIMIT, "the cancel was lost");
            let wait = Duration::from_millis(10);
            let found = server.bmi.test_context(server.context, 4, wait).unwrap();
            if !found.is_empty() {
                break found;
            }
        };
        assert_eq!((found[0].op, found[0].result), (op, Err(Error::Cancel)));
    });
    let counts = server.counters.read();
    assert_eq!(counts.memory_taken, counts.memory_returned);
}

#[test]
fn posts_race_with_tests_of_the_context_in_both_roles() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let rounds = if crate::bed::is_long() { 5000 } else { 300 };
    for (poster, other) in [(&server, &client), (&client, &server)] {
        let users = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while users.lock().unwrap().len() < rounds {
                        let wait = Duration::from_millis(20);
                        let found = poster.bmi.test_context(poster.context, 2, wait);
                        for done in found.unwrap() {
                            assert_eq!(done.result, Ok(8));
                            users.lock().unwrap().push(done.user);
                        }
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..rounds {
                    assert_eq!(other.finish(other.send(1, vec![1; 8])).0, Ok(8));
                }
            });
            for user in 0..rounds as u64 {
                let (bmi, context, peer) = (&poster.bmi, poster.context, poster.peer);
                let post = bmi.post_receive(context, peer, poster.memory(8), Tag(1), user);
                if let Post::Immediate(..) = post.unwrap() {
                    users.lock().unwrap().push(user);
                }
            }
        });
        let mut users = users.into_inner().unwrap();
        users.sort_unstable();
        assert_eq!(users, (0..rounds as u64).collect::<Vec<_>>());
        assert_eq!(poster.bmi.stray_completions(), 0);
    }
}

// [BMI-52]
#[test]
fn finalize_ends_every_call_that_sleeps_in_both_roles() {
    let bed = Bed::new();
    for ends_server in [true, false] {
        let (server, client) = bed.greeted_pair();
        let end = if ends_server { &server } else { &client };
        let op = pending(end.receive_into(1, 8));
        let timeout = Setting::PostTimeout(10 * LIMIT);
        end.bmi.set(None, &timeout).unwrap();
        let (bmi, context) = (&end.bmi, end.context);
        std::thread::scope(|scope| {
            let before = end.counters.read();
            let sleepers = [
                scope.spawn(|| bmi.test(op, 10 * LIMIT).err()),
                scope.spawn(|| bmi.test_context(context, 1, 10 * LIMIT).err()),
                scope.spawn(|| match end.peer {
                    // A client that waits in a post; a server's posts do not wait.
                    peer if !ends_server => {
                        let post =
                            bmi.post_receive(context, peer, Payload::from(vec![0; 8]), Tag(2), 0);
                        Some(post.err().map_or(Error::Again, |refused| refused.error))
                    }
                    _ => bmi.test_unexpected(Class(0), 1, 10 * LIMIT).err(),
                }),
            ];
            // All of them sleep once each has asked.
            let asked = |now: zoid::Counts| {
                now.commands + now.exchanges - before.commands - before.exchanges
            };
            while asked(end.counters.read()) < 3 {
                std::thread::yield_now();
            }
            bmi.finalize();
            for sleeper in sleepers {
                assert_eq!(sleeper.join().unwrap(), Some(Error::NetDown));
            }
        });
        drop((server, client));
    }
    // Later processes work.
    let (server, client) = bed.greeted_pair();
    let op = pending(server.receive_into(1, 8));
    immediate(client.send(1, vec![1; 8]));
    assert_eq!(server.wait(op).result, Ok(8));
}

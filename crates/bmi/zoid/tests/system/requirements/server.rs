//! Requirements from the point of view of the server.

use std::time::{Duration, Instant};

use bmi::{Bmi, Buffer, Class, Error, Tag};
use zoid::{Options, Zoid};

use crate::bed::{Bed, End, LIMIT, immediate, pattern, pending};

/// Returns the number of allocated bytes of the pool.
fn used(end: &End) -> u64 {
    let counts = end.counters.read();
    counts.memory_taken - counts.memory_returned
}

/// Waits for an action of another thread.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LIMIT, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn r12_r48_r54_r55_only_memory_from_outside_is_copied_once() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let base = used(&server);
    let bytes = pattern(3000);
    for (copies, outside) in [(0, false), (1, true)] {
        let before = server.counters.read().copies;
        let room = if outside {
            vec![server.outside(1000), server.outside(2500)]
        } else {
            vec![server.memory(1000), server.memory(2500)]
        };
        let op = pending(server.receive(1, room));
        immediate(client.send(1, bytes.clone()));
        let done = server.wait(op);
        assert_eq!(done.result, Ok(3000));
        let parts = done.payload.into_buffers();
        assert_eq!([&parts[0][..], &parts[1][..2000]].concat(), bytes);
        assert_eq!(&parts[1][2000..], &[0; 500]);
        assert_eq!(server.counters.read().copies - before, copies);
        // The other direction, also from a list.
        let before = server.counters.read().copies;
        let list = [&bytes[..1000], &bytes[1000..]].map(|part| {
            let mut buffer = match outside {
                true => server.outside(part.len()),
                false => server.memory(part.len()),
            };
            buffer.copy_from_slice(part);
            buffer
        });
        let sent = pending(server.send(1, Vec::from(list)));
        let (len, payload) = immediate(client.receive_into(1, 3000));
        assert_eq!((len, &*payload.into_buffer()), (3000, &bytes[..]));
        assert_eq!(server.wait(sent).result, Ok(3000));
        assert_eq!(server.counters.read().copies - before, copies);
    }
    assert_eq!(used(&server), base);
}

#[test]
fn r47_r65_a_sleeping_test_delays_nobody_and_reply_queues_are_reused() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let idle = pending(server.receive_into(99, 8));
    std::thread::scope(|scope| {
        let commands = server.counters.read().commands;
        let sleeper = scope.spawn(|| server.bmi.test(idle, LIMIT).unwrap());
        while server.counters.read().commands == commands {
            std::thread::yield_now();
        }
        for tag in 0..20 {
            pending(server.receive_into(tag, 8));
        }
        immediate(client.send(99, vec![1; 8]));
        assert!(sleeper.join().unwrap().is_some());
    });
    assert_eq!(server.counters.read().reply_queues, 2);
}

#[test]
fn r50_a_server_waits_for_the_daemon_for_its_time_and_leaves_nothing_behind() {
    let bed = Bed::with(|options| options.prefault = zoidd::Prefault::Off);
    // Descriptors and threads of this process, which includes the daemon.
    let held = || {
        let count = |of| {
            std::fs::read_dir(format!("/proc/self/{of}"))
                .unwrap()
                .count()
        };
        (count("fd"), count("task"))
    };
    let before = held();
    for _ in 0..100 {
        drop(bed.serve());
    }
    // The daemon closes the last one's descriptors after FINI.
    eventually("nothing is left", || held() == before);
    let nowhere = Options {
        instance: "nobody-is-here".parse().unwrap(),
        server_connect: Some(Duration::from_millis(300)),
        ..bed.options()
    };
    let began = Instant::now();
    let server = Bmi::builder()
        .method(Zoid::new(nowhere))
        .listen("zoid://")
        .start();
    assert_eq!(server.err(), Some(Error::ConnRefused));
    assert!(began.elapsed() >= Duration::from_millis(300));
}

#[test]
fn r52_r53_unexpected_messages_come_in_order_as_they_lie_in_the_segment() {
    let bed = Bed::new();
    let server = bed.serve();
    let client = bed.join();
    let from = server.greeted_by(&client);
    for tag in 0..5 {
        client.unexpected(tag, &pattern(100 + tag as usize));
    }
    let first = server.bmi.test_unexpected(Class(0), 2, LIMIT).unwrap();
    assert_eq!(first.len(), 2);
    let mut rest = Vec::new();
    while rest.len() < 3 {
        rest.extend(server.bmi.test_unexpected(Class(0), 8, LIMIT).unwrap());
    }
    for (tag, message) in first.iter().chain(&rest).enumerate() {
        assert_eq!((message.tag, message.from), (Tag(tag as i32), from));
        assert_eq!(&*message.data, pattern(100 + tag));
    }
    // Without a free slot it waits, for the given time only.
    let (began, wait) = (Instant::now(), Duration::from_millis(200));
    let none = server.bmi.test_unexpected(Class(0), 8, wait).unwrap();
    assert!(none.is_empty() && (wait..LIMIT).contains(&began.elapsed()));
    assert_eq!(server.counters.read().copies, 0);
}

#[test]
fn r56_r60_r66_posts_without_temporary_memory_wait_until_some_is_freed() {
    let bed = Bed::with(|options| options.total = options.unexpected + (64 << 10));
    let (server, client) = bed.greeted_pair();
    let all = server.memory(64 << 10);
    let ops: Vec<_> = (0..3)
        .map(|tag| pending(server.receive(tag, server.outside(20_000))))
        .collect();
    assert_eq!(server.counters.read().waited_for_memory, 3);
    drop(all);
    for (tag, op) in (0..).zip(ops) {
        immediate(client.send(tag, pattern(9000)));
        let done = server.wait(op);
        assert_eq!(done.result, Ok(9000));
        let buffer = done.payload.into_buffer();
        assert_eq!(
            (&buffer[..9000], &buffer[9000..]),
            (&pattern(9000)[..], &[0; 11_000][..])
        );
    }
    assert_eq!(used(&server), 0);
    // The last two wait for memory that the others free when they complete.
    let ops: Vec<_> = (0..5)
        .map(|tag| pending(server.receive(tag, server.outside(20_000))))
        .collect();
    assert_eq!(server.counters.read().waited_for_memory, 5);
    for (tag, op) in (0..).zip(ops) {
        assert_eq!(client.finish(client.send(tag, pattern(100))).0, Ok(100));
        assert_eq!(server.wait(op).result, Ok(100));
    }
    assert_eq!(used(&server), 0);
    let larger = server.outside((64 << 10) + 1);
    let (bmi, context, peer) = (&server.bmi, server.context, server.peer);
    let never = bmi.post_receive(context, peer, larger, Tag(1), 0);
    assert_eq!(never.unwrap_err().error, Error::NoMem);
}

#[test]
fn r57_a_server_post_completes_at_once_against_a_waiting_client() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let timeout = bmi::Setting::PostTimeout(LIMIT);
    client.bmi.set(None, &timeout).unwrap();
    std::thread::scope(|scope| {
        let exchanges = client.counters.read().exchanges;
        let received = scope.spawn(|| immediate(client.receive_into(1, 8)).0);
        while client.counters.read().exchanges == exchanges {
            std::thread::yield_now();
        }
        assert_eq!(server.finish(server.send(1, vec![1; 8])).0, Ok(8));
        assert_eq!(received.join().unwrap(), 8);
    });
}

#[test]
fn r61_r67_a_registered_operation_is_cancelled_through_the_plugin() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let op = pending(server.receive(1, vec![8; 8]));
    server.bmi.cancel(op).unwrap();
    let done = server.wait(op);
    assert_eq!((done.result, done.user), (Err(Error::Cancel), 7));
    assert_eq!(&*done.payload.into_buffer(), &[8; 8]);
    assert_eq!(used(&server), 0);
    let op = pending(server.receive_into(1, 8));
    immediate(client.send(1, vec![1; 8]));
    server.bmi.cancel(op).unwrap();
    assert_eq!(server.wait(op).result, Ok(8));
}

#[test]
fn r66_a_short_message_leaves_later_segments_and_a_failed_one_leaves_all() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let room = || [10, 20, 30].map(|len| Buffer::from(vec![0xee; len]));
    let joined = |payload: bmi::Payload| {
        let parts = payload.into_buffers();
        parts
            .iter()
            .flat_map(|part| part.to_vec())
            .collect::<Vec<u8>>()
    };
    for (len, expected) in [
        (0, Ok(0)),
        (10, Ok(10)),
        (13, Ok(13)),
        (61, Err(Error::MsgSize)),
    ] {
        let op = pending(server.receive(1, Vec::from(room())));
        let (bmi, context, peer) = (&client.bmi, client.context, client.peer);
        let sent = bmi.post_send(context, peer, pattern(len), Tag(1), 0);
        assert_eq!(
            sent.map(|post| immediate(post).0)
                .map_err(|refused| refused.error),
            expected
        );
        let done = server.wait(op);
        assert_eq!(done.result, expected);
        let mut untouched = vec![0xee; 60];
        let moved = expected.unwrap_or(0);
        untouched[..moved].copy_from_slice(&pattern(moved));
        assert_eq!(joined(done.payload), untouched, "{len}");
    }
    assert_eq!(used(&server), 0);
}

#[test]
fn r62_r63_an_operation_that_waits_for_memory_is_cancelled_here() {
    let bed = Bed::with(|options| options.total = options.unexpected + (64 << 10));
    let (server, _client) = bed.greeted_pair();
    let _all = server.memory(64 << 10);
    let ops: Vec<_> = (0..3)
        .map(|tag| pending(server.receive(tag, server.outside(20_000))))
        .collect();
    let before = server.counters.read().commands;
    server.bmi.cancel(ops[1]).unwrap();
    let began = Instant::now();
    let found = server.bmi.test_context(server.context, 4, LIMIT).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].op, found[0].result), (ops[1], Err(Error::Cancel)));
    assert!(began.elapsed() < LIMIT / 2);
    assert_eq!(server.counters.read().commands, before);
}

#[test]
fn r64_any_thread_collects_what_another_posted() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    std::thread::scope(|scope| {
        let commands = server.counters.read().commands;
        let sleeper = scope.spawn(|| {
            let found = server.bmi.test_context(server.context, 1, LIMIT);
            found.unwrap().into_iter().next().map(|done| done.op)
        });
        while server.counters.read().commands == commands {
            std::thread::yield_now();
        }
        let op = pending(server.receive_into(1, 8));
        immediate(client.send(1, vec![1; 8]));
        assert_eq!(sleeper.join().unwrap(), Some(op));
    });
}

#[test]
fn r68_memory_that_is_not_the_segments_is_refused_as_preallocated() {
    let bed = Bed::new();
    let (server, _client) = bed.greeted_pair();
    let outside = Buffer::zeroed(64).unwrap().into_span();
    let segments = [outside].into_iter().collect();
    let lie = bmi::Payload::from_spans(segments, bmi::Memory::PreAllocated);
    let (bmi, context, peer) = (&server.bmi, server.context, server.peer);
    let post = bmi.post_receive(context, peer, lie, Tag(1), 0);
    assert_eq!(post.unwrap_err().error, Error::Inval);
    assert_eq!(used(&server), 0);
}

#[test]
fn r69_each_client_has_its_own_address() {
    let bed = Bed::new();
    let server = bed.serve();
    let clients: Vec<End> = (0..8).map(|_| bed.join()).collect();
    let mut peers: Vec<_> = clients
        .iter()
        .map(|client| server.greeted_by(client))
        .collect();
    assert_eq!(server.greeted_by(&clients[3]), peers[3]);
    peers.sort_unstable();
    peers.dedup();
    assert_eq!(peers.len(), 8);
}

// [CTL-12]
#[test]
fn a12_a_second_server_is_refused_while_the_first_lives() {
    let bed = Bed::new();
    let _first = bed.serve();
    let second = Bmi::builder()
        .method(Zoid::new(bed.options()))
        .listen("zoid://")
        .start();
    assert_eq!(second.err(), Some(Error::Busy));
}

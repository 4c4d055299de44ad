//! Requirements about threads: of a client, of the server, of both.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bmi::{Class, Error, Post, Tag};

use crate::bed::{Bed, End, LIMIT, pattern, pending};

const THREADS: i32 = 8;
const ROUNDS: i32 = 40;

#[test]
fn r09_eight_threads_of_one_client_do_not_mind_one_another() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let exchange = |tag: i32, client: &End, server: &End| {
        for round in 0..ROUNDS {
            let bytes = pattern(100 * tag as usize + round as usize);
            let receive = server.receive_into(tag, 2000);
            assert_eq!(
                client.finish(client.send(tag, bytes.clone())).0,
                Ok(bytes.len())
            );
            let (len, payload) = server.finish(receive);
            assert_eq!(payload.into_buffer()[..len.unwrap()], bytes);
            let sent = server.send(tag, bytes.clone());
            let (len, payload) = client.finish(client.receive_into(tag, 2000));
            assert_eq!(payload.into_buffer()[..len.unwrap()], bytes);
            assert_eq!(server.finish(sent).0, Ok(bytes.len()));
        }
    };
    std::thread::scope(|scope| {
        for tag in 0..THREADS {
            let (client, server) = (&client, &server);
            scope.spawn(move || exchange(tag, client, server));
        }
    });
    assert_eq!(client.counters.read().protocol_errors, 0);
}

// [ZOID-65]
#[test]
fn parties_that_spin_exchange_messages_and_sleep_when_there_are_none() {
    let spin = Duration::from_millis(1);
    let bed = Bed::with(|options| options.spin = spin).spinning(spin);
    let (server, client) = bed.greeted_pair();
    std::thread::scope(|scope| {
        scope.spawn(|| echo(&server, 5, 1, 50));
        for _ in 0..50 {
            assert_eq!(client.finish(client.send(5, vec![1; 8])).0, Ok(8));
            assert_eq!(client.finish(client.receive_into(5, 64)).0, Ok(8));
        }
    });
    // Each of these lasts longer than the spinning.
    let idle = pending(client.receive_into(6, 8));
    let (tests, wait) = (client.counters.read().tests, 20 * spin);
    assert!(client.bmi.test(idle, wait).unwrap().is_none());
    assert!(
        server
            .bmi
            .test_context(server.context, 1, wait)
            .unwrap()
            .is_empty()
    );
    assert_eq!(client.counters.read().tests, tests + 1);
}

/// Echoes messages of one tag until `total` have arrived, with `lanes` receives posted.
fn echo(server: &End, tag: i32, lanes: usize, total: usize) {
    let mut receives: VecDeque<_> = (0..lanes).map(|_| server.receive_into(tag, 64)).collect();
    for echoed in 0..total {
        let (len, payload) = server.finish(receives.pop_front().unwrap());
        let mut bytes = payload.into_buffer().to_vec();
        bytes.truncate(len.unwrap());
        let sent = server.send(tag, bytes);
        if echoed + lanes < total {
            receives.push_back(server.receive_into(tag, 64));
        }
        assert_eq!(server.finish(sent).0, Ok(8));
    }
}

#[test]
fn r36_threads_of_one_client_with_one_tag_wait_for_each_other_without_a_timer() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let (threads, rounds) = (4, 100);
    std::thread::scope(|scope| {
        scope.spawn(|| echo(&server, 5, threads, threads * rounds));
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..rounds {
                    assert_eq!(client.finish(client.send(5, vec![1; 8])).0, Ok(8));
                    assert_eq!(client.finish(client.receive_into(5, 64)).0, Ok(8));
                }
            });
        }
    });
    let counts = client.counters.read();
    assert_eq!(counts.fixed_pauses, 0, "{counts:?}");
}

// [ZOID-38]
#[test]
fn r64_a_test_by_id_ends_when_a_test_of_all_was_told_of_its_operation() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let op = pending(server.receive_into(1, 8));
    std::thread::scope(|scope| {
        let commands = || server.counters.read().commands;
        let before = commands();
        // The first to sleep is the first to be answered.
        let of_all = scope.spawn(|| server.bmi.test_context(server.context, 1, LIMIT).unwrap());
        while commands() == before {
            std::thread::yield_now();
        }
        let before = commands();
        let began = Instant::now();
        let by_id = scope.spawn(|| server.bmi.test(op, LIMIT));
        while commands() == before {
            std::thread::yield_now();
        }
        assert_eq!(client.finish(client.send(1, vec![1; 8])).0, Ok(8));
        // One of them collects it; the other has nothing left to wait for.
        match by_id.join().unwrap() {
            Ok(done) => assert!(done.is_some()),
            Err(error) => assert_eq!(error, Error::Inval),
        }
        assert!(began.elapsed() < LIMIT);
        server
            .bmi
            .post_receive(server.context, server.peer, server.memory(8), Tag(2), 0)
            .unwrap();
        assert_eq!(client.finish(client.send(2, vec![1; 8])).0, Ok(8));
        assert_eq!(of_all.join().unwrap().len(), 1);
    });
}

#[test]
fn r59_whoever_tests_first_sees_the_ids_that_posts_return() {
    // Without holds no post completes at once, because no client waits in a post.
    let bed = Bed::with(|options| options.hold = Duration::ZERO);
    let (server, client) = bed.greeted_pair();
    let posts = 200;
    let collected = Mutex::new(BTreeSet::new());
    let posted = std::thread::scope(|scope| {
        // Completions are collected before their posts may have returned.
        for _ in 0..2 {
            scope.spawn(|| {
                while collected.lock().unwrap().len() < posts {
                    let wait = Duration::from_millis(20);
                    let found = server.bmi.test_context(server.context, 3, wait).unwrap();
                    for done in found {
                        assert_eq!(done.result, Ok(8));
                        assert!(collected.lock().unwrap().insert(done.op));
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..posts {
                assert_eq!(client.finish(client.send(1, vec![1; 8])).0, Ok(8));
            }
        });
        let mut posted = BTreeSet::new();
        for _ in 0..posts {
            assert!(posted.insert(pending(server.receive_into(1, 8))));
        }
        posted
    });
    assert_eq!(*collected.lock().unwrap(), posted);
    // Their slots are reused, and their ids are stale.
    let op = pending(server.receive_into(3, 8));
    assert!(!posted.contains(&op));
    for stale in posted {
        let tested = server.bmi.test(stale, Duration::ZERO);
        assert_eq!(tested.err(), Some(Error::Inval));
        assert_eq!(server.bmi.cancel(stale), Ok(()));
    }
    assert!(server.bmi.test(op, Duration::ZERO).unwrap().is_none());
}

// [OPT-9]
#[test]
fn a_test_does_not_sleep_on_for_operations_whose_address_was_dropped() {
    // No heartbeat ends the sleep for another reason.
    let bed = Bed::with(|options| options.heartbeat = 10 * LIMIT);
    // A test that has asked may not sleep yet; some do.
    for _ in 0..10 {
        let (_server, client) = bed.greeted_pair();
        let op = pending(client.receive_into(1, 8));
        std::thread::scope(|scope| {
            let tests = client.counters.read().tests;
            let began = Instant::now();
            let sleeper = scope.spawn(|| client.bmi.test(op, LIMIT).unwrap());
            while client.counters.read().tests == tests {
                std::thread::yield_now();
            }
            let drop_address = bmi::Setting::DropAddress;
            client.bmi.set(Some(client.peer), &drop_address).unwrap();
            let done = sleeper.join().unwrap().unwrap();
            assert_eq!(done.result, Err(Error::ConnReset));
            assert!(began.elapsed() < LIMIT);
        });
    }
}

#[test]
fn r65_other_commands_are_answered_while_a_test_sleeps() {
    let bed = Bed::new();
    let (server, _client) = bed.greeted_pair();
    let idle = pending(server.receive_into(99, 8));
    std::thread::scope(|scope| {
        let commands = server.counters.read().commands;
        let sleeper = scope.spawn(|| server.bmi.test(idle, LIMIT).unwrap());
        while server.counters.read().commands == commands {
            std::thread::yield_now();
        }
        // The machine may be busy, but not every time.
        let quickest = (0..100).map(|tag| {
            let began = Instant::now();
            pending(server.receive_into(tag, 8));
            began.elapsed()
        });
        assert!(quickest.min().unwrap() < Duration::from_millis(50));
        assert!(!sleeper.is_finished());
        server.bmi.cancel(idle).unwrap();
        assert_eq!(sleeper.join().unwrap().unwrap().result, Err(Error::Cancel));
    });
}

/// The state that the threads of [`r70_sixteen_threads_of_the_server_mix_every_call`] share.
struct Mix {
    server: End,
    over: AtomicBool,
    received: AtomicU64,
    tags: Mutex<Vec<i32>>,
}

impl Mix {
    /// Posts with both kinds of memory, cancelled or awaited.
    fn post(&self, tag: i32) {
        for round in 0..ROUNDS {
            let len = 1000 + 3000 * (round as usize % 7);
            let memory = match round % 2 {
                0 => self.server.outside(len),
                _ => match self.server.bmi.allocate(self.server.peer, len) {
                    Ok(memory) => memory,
                    Err(_) => continue,
                },
            };
            let result = match self.server.receive(tag, memory) {
                Post::Immediate(len, _) => Ok(len),
                Post::Pending(op) => {
                    if round % 3 == 0 {
                        self.server.bmi.cancel(op).unwrap();
                    }
                    self.server.wait(op).result
                }
            };
            assert!(matches!(result, Ok(500) | Err(Error::Cancel)), "{result:?}");
            self.received
                .fetch_add(u64::from(result.is_ok()), Ordering::Relaxed);
        }
    }

    /// Allocates and frees less than half of the memory, so that posts wait but do not starve.
    fn churn(&self) {
        while !self.over.load(Ordering::Relaxed) {
            let taken: Vec<_> = (0..2)
                .map_while(|_| self.server.bmi.allocate(self.server.peer, 4000).ok())
                .collect();
            drop(taken);
        }
    }

    /// Fetches unexpected messages, each in one thread.
    fn fetch(&self) {
        while !self.over.load(Ordering::Relaxed) {
            let wait = Duration::from_millis(10);
            let found = self.server.bmi.test_unexpected(Class(0), 3, wait).unwrap();
            let tags = found.iter().map(|message| message.tag.0);
            self.tags.lock().unwrap().extend(tags);
        }
    }
}

#[test]
fn r70_sixteen_threads_of_the_server_mix_every_call() {
    let bed = Bed::with(|options| options.total = options.unexpected + (64 << 10));
    let (server, client) = bed.greeted_pair();
    let mix = Mix {
        server,
        over: AtomicBool::new(false),
        received: AtomicU64::new(0),
        tags: Mutex::default(),
    };
    let sent = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| mix.churn());
            scope.spawn(|| mix.fetch());
        }
        let mix = &mix;
        let posts: Vec<_> = (0..8)
            .map(|tag| scope.spawn(move || mix.post(tag)))
            .collect();
        for tag in 0..8 {
            let (client, sent, over) = (&client, &sent, &mix.over);
            scope.spawn(move || {
                let mut number = 0;
                while !over.load(Ordering::Relaxed) {
                    immediate_or_later(client, tag, over, sent);
                    let announced = client.unexpected(tag * 10_000 + number, b"news");
                    number += i32::from(client.finish(announced).0.is_ok());
                }
            });
        }
        for post in posts {
            post.join().unwrap();
        }
        mix.over.store(true, Ordering::Relaxed);
    });
    assert_eq!(
        mix.received.load(Ordering::Relaxed),
        sent.load(Ordering::Relaxed)
    );
    let mut tags = mix.tags.into_inner().unwrap();
    let total = tags.len();
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), total, "a message was delivered twice");
    let counts = mix.server.counters.read();
    assert_eq!(counts.memory_taken, counts.memory_returned);
    assert!(counts.waited_for_memory > 0);
}

/// Sends 500 bytes, unless the server's threads end before.
fn immediate_or_later(client: &End, tag: i32, over: &AtomicBool, sent: &AtomicU64) {
    let op = match client.send(tag, vec![1; 500]) {
        Post::Immediate(..) => {
            sent.fetch_add(1, Ordering::Relaxed);
            return;
        }
        Post::Pending(op) => op,
    };
    loop {
        if over.load(Ordering::Relaxed) {
            client.bmi.cancel(op).unwrap();
        }
        let tested = client.bmi.test(op, Duration::from_millis(10)).unwrap();
        if let Some(done) = tested {
            sent.fetch_add(u64::from(done.result.is_ok()), Ordering::Relaxed);
            return;
        }
    }
}

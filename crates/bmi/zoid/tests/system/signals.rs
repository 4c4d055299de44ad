//! Signals with a handler: waits continue, or end if the program has asked for that; transfers continue in
//! both cases.

use std::sync::mpsc;
use std::time::Duration;

use bmi::{Bmi, Class, Error, Setting};
use nix::sys::pthread::{pthread_kill, pthread_self};
use nix::sys::signal::Signal;
use zoid::{Options, Zoid, setting};

use crate::bed::{Bed, End, LIMIT, immediate, pattern, pending};
use crate::pipelined::{STUCK, grant, next, with_daemon_of};

/// The time between two signals.
const MOMENT: Duration = Duration::from_millis(1);

/// How many signals a continued wait survives.
const MANY: usize = 100;

/// Installs a handler, without which the signal would kill the process.
fn handle() {
    let flag = std::sync::Arc::default();
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, flag).unwrap();
}

/// Sends signals to the thread that runs `wait` until it ends, or `at_most` signals; then calls `end` to end
/// it.
fn pester<T: Send>(at_most: usize, end: impl FnOnce(), wait: impl FnOnce() -> T + Send) -> T {
    handle();
    let (say, hear) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            say.send(pthread_self()).unwrap();
            wait()
        });
        let thread = hear.recv().unwrap();
        for _ in 0..at_most {
            if waiter.is_finished() {
                break;
            }
            pthread_kill(thread, Signal::SIGUSR1).unwrap();
            std::thread::park_timeout(MOMENT);
        }
        end();
        waiter.join().unwrap()
    })
}

/// Starts both sides with the option; the client's posts wait.
fn interruptible(bed: &Bed) -> (End, End) {
    let options = Options {
        interruptible: true,
        ..bed.options()
    };
    let mut server = End::server(options.clone());
    let client = End::client(options);
    server.peer = server.greeted_by(&client);
    (server, client)
}

// [ZOID-61]
#[test]
fn by_default_every_wait_goes_on_after_a_signal() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let nothing = || {};
    let op = pending(server.receive_into(1, 8));
    let send = || drop(immediate(client.send(1, vec![1; 8])));
    let done = pester(MANY, send, || server.bmi.test(op, LIMIT).unwrap());
    assert_eq!(done.unwrap().result, Ok(8));
    let send = || drop(immediate(client.unexpected(2, b"late")));
    assert_eq!(
        &*pester(MANY, send, || server.next_unexpected()).data,
        b"late"
    );
    let op = pending(client.receive_into(3, 8));
    let send = || drop(server.finish(server.send(3, vec![3; 8])));
    let done = pester(MANY, send, || client.bmi.test(op, LIMIT).unwrap());
    assert_eq!(done.unwrap().result, Ok(8));
    client.bmi.set(None, &Setting::PostTimeout(LIMIT)).unwrap();
    let send = || drop(server.finish(server.send(4, vec![4; 8])));
    let post = pester(MANY, send, || client.receive_into(4, 8));
    assert_eq!(immediate(post).0, 8);
    // A test whose operations the daemon does not know: it sleeps in this process.
    let found = pester(MANY, nothing, || {
        client
            .bmi
            .test_context(client.context, 1, Duration::from_millis(500))
    });
    assert!(found.unwrap().is_empty());
}

// [ZOID-62]
#[test]
fn a_server_that_asks_for_it_is_interrupted_in_every_test() {
    let bed = Bed::new();
    let (server, client) = interruptible(&bed);
    let nothing = || {};
    let op = pending(server.receive_into(1, 8));
    let (bmi, context) = (&server.bmi, server.context);
    let found = pester(usize::MAX, nothing, || bmi.test(op, LIMIT).unwrap());
    assert!(found.is_none());
    let found = pester(usize::MAX, nothing, || bmi.test_some(&[op], LIMIT).unwrap());
    assert!(found.is_empty());
    let found = pester(usize::MAX, nothing, || {
        bmi.test_context(context, 1, LIMIT).unwrap()
    });
    assert!(found.is_empty());
    let found = pester(usize::MAX, nothing, || {
        bmi.test_unexpected(Class(0), 1, LIMIT).unwrap()
    });
    assert!(found.is_empty());
    // Nothing was lost.
    immediate(client.send(1, vec![1; 8]));
    assert_eq!(server.wait(op).result, Ok(8));
    // Uninterruptible again.
    server.bmi.set(None, &setting::UNINTERRUPTIBLE).unwrap();
    let send = || drop(immediate(client.unexpected(2, b"late")));
    assert_eq!(
        &*pester(MANY, send, || server.next_unexpected()).data,
        b"late"
    );
}

// [ZOID-62]
#[test]
fn a_server_whose_operation_waits_for_memory_is_interrupted_too() {
    let bed = Bed::with(|options| options.total = options.unexpected + (64 << 10));
    let (server, _client) = interruptible(&bed);
    let _all = server.memory(64 << 10);
    let op = pending(server.receive(1, server.outside(20_000)));
    let found = pester(usize::MAX, || {}, || server.bmi.test(op, LIMIT).unwrap());
    assert!(found.is_none());
}

// [ZOID-62]
#[test]
fn a_client_that_asks_for_it_is_interrupted_in_tests_and_posts() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    client.bmi.set(None, &setting::INTERRUPTIBLE).unwrap();
    let nothing = || {};
    let (bmi, context) = (&client.bmi, client.context);
    let op = pending(client.receive_into(1, 8));
    let found = pester(usize::MAX, nothing, || bmi.test(op, LIMIT).unwrap());
    assert!(found.is_none());
    let found = pester(usize::MAX, nothing, || {
        bmi.test_context(context, 1, LIMIT).unwrap()
    });
    assert!(found.is_empty());
    bmi.set(None, &Setting::PostTimeout(LIMIT)).unwrap();
    let receive = pester(usize::MAX, nothing, || client.receive_into(2, 8));
    let send = pester(usize::MAX, nothing, || client.send(3, vec![3; 8]));
    let (receive, send) = (pending(receive), pending(send));
    // Another thread reads, so this one waits for the reader.
    let found = std::thread::scope(|scope| {
        let reader = scope.spawn(|| bmi.test(op, LIMIT).unwrap());
        let found = pester(usize::MAX, nothing, || bmi.test(receive, LIMIT).unwrap());
        server.finish(server.send(1, vec![1; 8])).0.unwrap();
        assert_eq!(reader.join().unwrap().unwrap().result, Ok(8));
        found
    });
    assert!(found.is_none());
    // Nothing was lost.
    let sent = server.send(2, vec![2; 8]);
    assert_eq!(client.wait(receive).result, Ok(8));
    assert_eq!(server.finish(sent).0, Ok(8));
    let room = server.receive_into(3, 8);
    assert_eq!(client.wait(send).result, Ok(8));
    assert_eq!(server.finish(room).0, Ok(8));
}

// [ZOID-63]
#[test]
fn no_signal_breaks_a_message_apart() {
    let bed = Bed::new();
    let (server, client) = interruptible(&bed);
    let bytes = pattern(20_000_000);
    let (post, (received, payload)) = std::thread::scope(|scope| {
        let room = scope.spawn(|| server.finish(server.receive_into(1, 20_000_000)));
        client.bmi.set(None, &Setting::PostTimeout(LIMIT)).unwrap();
        let post = pester(
            usize::MAX,
            || {},
            || client.finish(client.send(1, bytes.clone())).0,
        );
        (post, room.join().unwrap())
    });
    assert_eq!((post, received), (Ok(bytes.len()), Ok(bytes.len())));
    assert!(*payload.into_buffer() == bytes);
    assert_eq!(client.counters.read().reconnects, 0);
}

// [ZOID-62]
#[test]
fn who_waits_for_a_daemon_is_interrupted() {
    let nowhere = || Options {
        instance: "nobody-is-here".parse().unwrap(),
        interruptible: true,
        client_connect: LIMIT,
        ..Options::default()
    };
    let start = || {
        let builder = Bmi::builder().method(Zoid::new(nowhere()));
        builder.listen("zoid://").start().err()
    };
    assert_eq!(pester(usize::MAX, || {}, start), Some(Error::Intr));
    let client = Bmi::builder().method(Zoid::new(nowhere())).start().unwrap();
    let lookup = || client.lookup("zoid://").err();
    assert_eq!(pester(usize::MAX, || {}, lookup), Some(Error::Intr));
}

// [DEATH-24]
#[test]
fn signals_do_not_make_a_send_wait_longer_for_a_daemon_that_stands_still() {
    let (over, is_over) = mpsc::channel::<()>();
    let alone = Options {
        single_thread: true,
        ..Options::default()
    };
    let (client, daemon) = with_daemon_of(100, alone, move |stream| {
        grant(stream, next(stream).0.request, 1);
        let _gone = is_over.recv();
    });
    let op = pending(client.send(1, vec![1; STUCK]));
    let began = std::time::Instant::now();
    let end = || drop(over);
    let done = pester(20_000, end, || client.bmi.test(op, LIMIT).unwrap());
    assert_eq!(done.map(|done| done.result), Some(Err(Error::ConnReset)));
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "as long as they came"
    );
    daemon.join().unwrap();
}

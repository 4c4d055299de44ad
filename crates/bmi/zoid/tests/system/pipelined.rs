//! Posts that do not wait: one thread has several messages under way, and everything else is as ever.

use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bmi::{Completion, Error, OpId, Setting};
use tempfile::TempDir;
use zoid::{Options, setting};
use zoid_proto::Status;
use zoid_proto::fwd::{Caps, Frame, FrameHeader, FrameType, Grant, MAX_CHUNK, Place, Welcome};

use crate::bed::{Bed, End, LIMIT, immediate, pattern, pending};
use crate::stub::{read, say, welcome};

/// Messages under way at once.
const LANES: i32 = 8;

/// Both sides, and neither's posts wait.
fn pipelined_pair(bed: &Bed) -> (End, End) {
    let (server, client) = bed.greeted_pair();
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
    let (server, client) = pipelined_pair(bed);
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

// [ZOID-64]
#[test]
fn one_thread_has_several_messages_under_way_in_both_directions() {
    both_ways(&Bed::new());
}

#[test]
fn so_it_has_where_the_daemon_copies_out_of_and_into_the_clients_memory() {
    both_ways(&Bed::with(|options| {
        options.client_memory = zoidd::ClientMemory::On
    }));
}

// [ZOID-18]
#[test]
fn messages_of_one_tag_arrive_in_the_order_of_their_posts() {
    const MESSAGES: u8 = 100;
    let bed = Bed::new();
    let (server, client) = pipelined_pair(&bed);
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

// [BMI-23]
#[test]
fn a_test_that_does_not_wait_brings_operations_on() {
    let bed = Bed::new();
    let (server, client) = pipelined_pair(&bed);
    let received = pending(server.receive_into(1, 8));
    let op = pending(client.send(1, vec![5; 8]));
    let began = Instant::now();
    while client.bmi.test(op, Duration::ZERO).unwrap().is_none() {
        assert!(began.elapsed() < LIMIT, "nothing moves");
    }
    assert_eq!(server.wait(received).result, Ok(8));
}

// [ZOID-19]
#[test]
fn a_cancelled_post_ends_though_the_daemon_still_looks_for_its_counterpart() {
    let bed = Bed::new();
    let (server, client) = pipelined_pair(&bed);
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

// [ZOID-64]
#[test]
fn posts_wait_again_when_the_program_says_so() {
    let bed = Bed::new();
    let (server, client) = pipelined_pair(&bed);
    let first = pending(server.receive_into(1, 8));
    client.bmi.set(None, &setting::UNPIPELINED).unwrap();
    assert_eq!(immediate(client.send(1, vec![1; 8])).0, 8);
    assert_eq!(server.wait(first).result, Ok(8));
}

#[test]
fn what_was_under_way_when_the_daemon_went_fails_or_finds_the_next_one() {
    let mut bed = Bed::new();
    let (server, client) = pipelined_pair(&bed);
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
    let bed = Bed::new();
    let (server, client) = pipelined_pair(&bed);
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

fn with_daemon(script: impl FnOnce(&UnixStream) + Send + 'static) -> (End, JoinHandle<()>) {
    with_daemon_of(60_000, Options::default(), script)
}

/// A client of a daemon that `script` is, once it has answered the introduction; the daemon ends with
/// the script, name and all.
pub(crate) fn with_daemon_of(
    heartbeat_ms: u32,
    options: Options,
    script: impl FnOnce(&UnixStream) + Send + 'static,
) -> (End, JoinHandle<()>) {
    let directory = TempDir::new().unwrap();
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let daemon = std::thread::spawn(move || {
        let _named = directory;
        let (stream, _) = listener.accept().unwrap();
        let (hello, _) = read(&stream).unwrap();
        let Frame::Welcome(welcome) = welcome() else {
            panic!("no welcome");
        };
        let caps = Caps::MULTIPLEX | Caps::REATTACH;
        let welcome = Frame::Welcome(Welcome {
            caps,
            heartbeat_ms,
            ..welcome
        });
        say(&stream, hello.request, Status::NONE, &welcome, &[]).unwrap();
        script(&stream);
    });
    let client = End::client(Options {
        socket: Some(socket),
        pipelined: true,
        ..options
    });
    (client, daemon)
}

/// The next frame that is about a message.
pub(crate) fn next(stream: &UnixStream) -> (FrameHeader, Vec<u8>) {
    loop {
        let (header, body) = read(stream).unwrap();
        if header.frame_type != FrameType::PING {
            return (header, body);
        }
    }
}

pub(crate) fn grant(stream: &UnixStream, request: u32, grant: u64) {
    let place = Place::Stream;
    let frame = Frame::Grant(Grant { grant, place });
    say(stream, request, Status::NONE, &frame, &[]).unwrap();
}

/// More than any socket holds, in one frame.
pub(crate) const STUCK: usize = MAX_CHUNK as usize;

#[test]
fn a_long_message_to_a_slow_daemon_does_not_keep_others_from_their_answers() {
    let (over, is_over) = std::sync::mpsc::channel::<()>();
    // The method's own thread would help out, half a second later.
    let alone = Options {
        single_thread: true,
        ..Options::default()
    };
    let (client, daemon) = with_daemon_of(60_000, alone, move |stream| {
        let [one, two, long] = [(); 3].map(|()| next(stream).0.request);
        for short in [one, two] {
            grant(stream, short, short.into());
            assert_eq!(next(stream).0.payload_len, 8);
            std::io::Read::read_exact(&mut &*stream, &mut [0; 8]).unwrap();
        }
        grant(stream, long, long.into());
        // It comes, and is left where it is.
        assert_eq!(next(stream).0.payload_len, STUCK as u64);
        for short in [one, two] {
            say(stream, short, Status::DONE, &Frame::SendDone, &[]).unwrap();
        }
        let _gone = is_over.recv();
    });
    let short = [1, 2].map(|tag| pending(client.send(tag, vec![1; 8])));
    pending(client.send(3, vec![2; STUCK]));
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for op in short {
            let (client, done) = (&client, done.clone());
            scope.spawn(move || {
                // One of them sends the long one, and is late.
                if let Some(ended) = client.bmi.test(op, LIMIT).unwrap() {
                    let _heard = done.send(ended.result);
                }
            });
        }
        let first = is_done.recv_timeout(LIMIT / 2);
        drop(over);
        assert_eq!(first, Ok(Ok(8)));
    });
    daemon.join().unwrap();
}

#[test]
fn so_many_are_under_way_that_their_answers_fit_and_the_others_wait() {
    let (client, daemon) = with_daemon(move |stream| {
        let frames = std::iter::repeat_with(|| next(stream).0.frame_type);
        let asked = frames.take_while(|kind| *kind != FrameType::WAKE).count();
        assert_eq!(asked, 64);
    });
    let sends: Vec<OpId> = (0..200)
        .map(|tag| pending(client.send(tag, vec![1; 8])))
        .collect();
    // That shows the daemon that nothing more comes.
    client.bmi.cancel(sends[0]).unwrap();
    daemon.join().unwrap();
    client.bmi.finalize();
}

#[test]
fn a_client_can_end_while_its_own_thread_sends_to_a_daemon_that_does_not_read() {
    let (comes, it_comes) = std::sync::mpsc::channel();
    let (over, is_over) = std::sync::mpsc::channel::<()>();
    let (client, daemon) = with_daemon_of(12_000, Options::default(), move |stream| {
        grant(stream, next(stream).0.request, 1);
        assert_eq!(next(stream).0.frame_type, FrameType::DATA);
        comes.send(()).unwrap();
        let _gone = is_over.recv();
    });
    pending(client.send(1, vec![1; STUCK]));
    it_comes.recv().unwrap();
    let began = Instant::now();
    client.bmi.finalize();
    assert!(began.elapsed() < LIMIT / 2, "it waited for the daemon");
    drop(over);
    daemon.join().unwrap();
}

// [DEATH-21]
#[test]
fn what_may_have_arrived_when_the_daemon_died_for_good_fails_all_at_once() {
    const SENDS: i32 = 60;
    // One driver, so that nobody shares its waits.
    let alone = Options {
        single_thread: true,
        ..Options::default()
    };
    let (client, daemon) = with_daemon_of(60_000, alone, move |stream| {
        let asked: Vec<_> = (0..SENDS).map(|_| next(stream).0.request).collect();
        for request in asked {
            grant(stream, request, request.into());
        }
        for _ in 0..SENDS {
            let (header, _) = next(stream);
            let mut bytes = vec![0; header.payload_len as usize];
            std::io::Read::read_exact(&mut &*stream, &mut bytes).unwrap();
        }
    });
    let sends: Vec<OpId> = (0..SENDS)
        .map(|tag| pending(client.send(tag, vec![1; 8])))
        .collect();
    let began = Instant::now();
    for done in finish_all(&client, &sends) {
        assert_eq!(done.result, Err(Error::ConnReset));
    }
    let each = began.elapsed() / SENDS as u32;
    assert!(each < Duration::from_millis(500), "they wait one by one");
    daemon.join().unwrap();
}

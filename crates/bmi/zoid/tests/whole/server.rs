//! Losses from the point of view of the server.

use std::time::{Duration, Instant};

use bmi::{Class, Error, Memory, Payload, Post, Question, Setting, Tag, Unexpected};
use zoid::question;

use crate::bed::{Bed, End, LIMIT, immediate, pending};

/// Sends a message as soon as there is a daemon, and returns it as the server received it.
fn greet(server: &End, client: &End) -> Unexpected {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < LIMIT);
        let (bmi, context, peer) = (&client.bmi, client.context, client.peer);
        let bytes = b"again".to_vec();
        let post = bmi.post_send_unexpected(context, peer, bytes, Tag(5), Class(0), 0);
        if let Ok(Post::Pending(op)) = post {
            client.wait(op).result.unwrap();
        } else if post.is_err() {
            continue;
        }
        loop {
            assert!(began.elapsed() < LIMIT);
            let wait = Duration::from_millis(50);
            let found = server.bmi.test_unexpected(Class(0), 1, wait).unwrap();
            if let Some(message) = found.into_iter().next() {
                return message;
            }
        }
    }
}

// [DEATH-20]
#[test]
fn a_post_without_a_daemon_is_refused_because_of_that() {
    let bed = Bed::new();
    let (server, _client) = bed.greeted_pair();
    drop(bed);
    let (bmi, context, peer) = (&server.bmi, server.context, server.peer);
    let post = || bmi.post_receive(context, peer, vec![0; 8], Tag(1), 0);
    // The first post notices the loss.
    if let Ok(Post::Pending(op)) = post() {
        assert_eq!(server.wait(op).result, Err(Error::NetDown));
    }
    for _ in 0..3 {
        assert_eq!(post().unwrap_err().error, Error::NetDown);
    }
}

// [MEM-7]
#[test]
fn memory_of_a_segment_that_is_gone_is_copied_and_messages_in_it_stay_readable() {
    let mut bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    immediate(client.unexpected(3, b"to be kept"));
    let kept = server.next_unexpected();
    let memory = server.memory(64);
    bed.restart();
    let from = greet(&server, &client).from;
    let before = server.counters.read().copies;
    let payload = Payload::from(memory);
    assert_eq!(payload.memory(), Memory::PreAllocated);
    let (bmi, context) = (&server.bmi, server.context);
    let posted = bmi.post_receive(context, from, payload, Tag(1), 0).unwrap();
    client.finish(client.send(1, vec![9; 64])).0.unwrap();
    let (result, payload) = server.finish(posted);
    assert_eq!(result, Ok(64));
    assert_eq!(&*payload.into_buffer(), &[9; 64]);
    assert_eq!(server.counters.read().copies, before + 1);
    assert_eq!(&*kept.data, b"to be kept");
}

#[test]
fn r68_memory_that_is_in_no_segment_is_refused_as_pre_allocated() {
    let mut bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let _held = server.memory(64);
    bed.restart();
    let from = greet(&server, &client).from;
    let buffer = bmi::Buffer::zeroed(64).unwrap();
    let spans = [buffer.into_span()].into_iter().collect();
    let payload = Payload::from_spans(spans, Memory::PreAllocated);
    let (bmi, context) = (&server.bmi, server.context);
    let refused = bmi.post_receive(context, from, payload, Tag(1), 0);
    assert_eq!(refused.unwrap_err().error, Error::Inval);
}

// [OPT-10]
#[test]
fn a_connection_that_the_server_closes_fails_its_operations_and_may_be_made_anew() {
    let bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let op = pending(server.receive_into(1, 8));
    server
        .bmi
        .set(Some(server.peer), &Setting::CloseConnection)
        .unwrap();
    assert_eq!(server.wait(op).result, Err(Error::ConnReset));
    let gone = server.bmi.get(Some(server.peer), Question::IsDisconnected);
    assert_eq!(gone, Ok(1));
    let again = greet(&server, &client);
    assert_ne!(again.from, server.peer);
    assert_eq!(client.counters.read().reconnects, 1);
}

// [OPT-9]
#[test]
fn r69_operations_with_a_forgotten_client_fail_wherever_they_are() {
    let bed = Bed::with(|options| options.total = (1 << 20) + (160 << 20));
    let (server, client) = bed.greeted_pair();
    let registered = pending(server.receive_into(1, 8));
    let _all = server.memory(100 << 20);
    let waiting = pending(server.receive(2, server.outside(100 << 20)));
    let forget = server.bmi.set(Some(server.peer), &Setting::DropAddress);
    forget.unwrap();
    assert_eq!(server.wait(waiting).result, Err(Error::ConnReset));
    assert_eq!(server.wait(registered).result, Err(Error::ConnReset));
    assert_eq!(server.counters.read().protocol_errors, 0);
    assert_eq!(server.bmi.stray_completions(), 0);
    let again = greet(&server, &client);
    assert_ne!(again.from, server.peer);
}

// [WATCH-5]
#[test]
fn both_sides_tell_whether_there_is_a_daemon_and_which() {
    let mut bed = Bed::new();
    let (server, client) = bed.greeted_pair();
    let epoch = |end: &End| end.bmi.get(Some(end.peer), question::EPOCH).unwrap();
    let first = epoch(&server);
    assert_ne!(first, 0);
    assert_eq!(epoch(&client), first);
    bed.restart();
    greet(&server, &client);
    assert_ne!(epoch(&server), first);
    assert_eq!(epoch(&client), epoch(&server));
    drop(bed);
    let wait = Duration::from_millis(1);
    while server.bmi.get(Some(server.peer), question::LINK) != Ok(0) {
        server.bmi.test_unexpected(Class(0), 1, wait).unwrap();
    }
}

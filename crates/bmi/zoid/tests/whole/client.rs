//! Losses from the point of view of the client.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bmi::{Class, Error, Tag};
use zoid::Options;
use zoid_proto::fwd::{Caps, Frame, FrameHeader, Hello, PROTOCOL_VERSION};

use crate::bed::{Bed, End, immediate, pending};
use crate::proxy::Proxy;

/// Starts a client whose connection is lost with the answer to its second send.
fn unlucky(bed: &Bed) -> (Proxy, End) {
    let proxy = Proxy::losing(&bed.socket(), 1);
    let socket = Some(proxy.socket.clone());
    let client = End::client(Options {
        socket,
        ..bed.options()
    });
    (proxy, client)
}

// [DEATH-5]
#[test]
fn a_send_of_unknown_end_is_repeated_and_arrives_once_when_the_daemon_keeps_the_place() {
    let bed = Bed::with(|options| options.reattach = Duration::from_secs(60));
    let server = bed.serve();
    let (_proxy, client) = unlucky(&bed);
    let from = server.greeted_by(&client);
    immediate(client.unexpected(1, b"once"));
    immediate(client.unexpected(2, b"after"));
    for tag in [1, 2] {
        let message = server.next_unexpected();
        assert_eq!((message.from, message.tag), (from, Tag(tag)));
    }
    assert_eq!(client.counters.read().reconnects, 1);
}

// [DEATH-6]
#[test]
fn a_send_of_unknown_end_fails_rather_than_arrive_twice_when_nobody_knows_it() {
    let bed = Bed::new();
    let server = bed.serve();
    let (_proxy, client) = unlucky(&bed);
    server.greeted_by(&client);
    let (bmi, context, peer) = (&client.bmi, client.context, client.peer);
    let send = |tag| bmi.post_send_unexpected(context, peer, vec![1], Tag(tag), Class(0), 0);
    assert_eq!(send(1).unwrap_err().error, Error::ConnReset);
    send(2).unwrap();
    for tag in [1, 2] {
        assert_eq!(server.next_unexpected().tag, Tag(tag));
    }
}

#[test]
fn r43_sends_of_unknown_end_that_nobody_waits_for_arrive_once_and_in_order() {
    const TAGS: i32 = 40;
    let bed = Bed::with(|options| {
        options.reattach = Duration::from_secs(60);
        options.bulk_slots = 1;
    });
    let server = bed.serve();
    let proxy = Proxy::losing(&bed.socket(), 5);
    let client = End::client(Options {
        socket: Some(proxy.socket.clone()),
        ..bed.options()
    });
    let from = server.greeted_by(&client);
    client.bmi.set(None, &zoid::setting::PIPELINED).unwrap();
    let post = |tag, number| {
        let (bmi, context, bytes) = (&client.bmi, client.context, vec![number; 3000]);
        let class = Class(tag as u8);
        bmi.post_send_unexpected(context, client.peer, bytes, Tag(tag), class, 0)
    };
    let each = |number| move |tag| (tag, number);
    let all = (0..TAGS).map(each(1)).chain((0..TAGS).map(each(2)));
    let ops: Vec<_> = all
        .map(|(tag, number)| pending(post(tag, number).unwrap()))
        .collect();
    for op in ops {
        assert_eq!(client.wait(op).result, Ok(3000));
    }
    for tag in 0..TAGS {
        let class = Class(tag as u8);
        let found = server.bmi.test_unexpected(class, 8, Duration::ZERO);
        let found = found.unwrap();
        let numbers: Vec<_> = found.iter().map(|one| (one.from, one.data[0])).collect();
        assert_eq!(numbers, [(from, 1), (from, 2)]);
    }
    assert_eq!(client.counters.read().reconnects, 1);
}

/// Attaches a client that then sends nothing, and waits until the daemon disconnects it.
fn be_silent(bed: &Bed) {
    let mut stream = UnixStream::connect(bed.socket()).unwrap();
    let hello = Frame::Hello(Hello {
        version_min: PROTOCOL_VERSION,
        version_max: PROTOCOL_VERSION,
        caps: Caps::MULTIPLEX,
        uuid: [7; 16],
        unix_pid: std::process::id(),
        previous_epoch: 0,
        previous_pid: -1,
        job: 0,
    });
    let mut bytes = vec![0; hello.encoded_len()];
    let header = FrameHeader::new(hello.frame_type(), 0);
    hello.encode(header, &mut bytes).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
}

// [ZOID-60] [DEATH-7]
#[test]
fn r14_a_client_without_a_thread_may_compute_longer_than_any_heartbeat() {
    let bed = Bed::with(|options| options.heartbeat = Duration::from_secs(1));
    let server = bed.serve();
    let client = End::client(Options {
        single_thread: true,
        ..bed.options()
    });
    let from = server.greeted_by(&client);
    let (bmi, context) = (&server.bmi, server.context);
    let posted = bmi.post_receive(context, from, vec![0; 8], Tag(1), 0);
    let op = pending(posted.unwrap());
    be_silent(&bed);
    immediate(client.send(1, vec![5; 8]));
    assert_eq!(server.wait(op).result, Ok(8));
    assert_eq!(client.counters.read().reconnects, 0);
}

#[test]
fn the_end_of_a_client_without_a_thread_is_noticed() {
    let bed = Bed::new();
    let server = bed.serve();
    let client = End::client(Options {
        single_thread: true,
        ..bed.options()
    });
    let from = server.greeted_by(&client);
    let (bmi, context) = (&server.bmi, server.context);
    let posted = bmi.post_receive(context, from, vec![0; 8], Tag(1), 0);
    let op = pending(posted.unwrap());
    drop(client);
    assert_eq!(server.wait(op).result, Err(Error::ConnReset));
}

//! Messages that the daemon copies directly from and to the client's memory. Client and daemon are one
//! process here, so the kernel always allows it; `processes` tests cases in which it does not.

use bmi::{Buffer, Error, Post, Tag};
use zoid::ClientMemory;
use zoidd::ClientMemory as Wish;

use crate::bed::{Bed, End, immediate, pattern, pending};

/// The shortest message that is copied.
const SHORTEST: usize = 64 << 10;

fn bed() -> Bed {
    Bed::with(|options| options.client_memory = Wish::On)
}

fn copies(bed: &Bed) -> f64 {
    bed.metric("zoidd_client_memory_copies_total")
}

// [FWD-41]
#[test]
fn the_daemon_copies_unless_it_is_told_not_to() {
    let default = zoidd::Options::default().client_memory;
    assert_eq!(default, Wish::Auto);
    let bed = Bed::with(|options| options.client_memory = default);
    let (server, client) = bed.greeted_pair();
    both_ways(&server, &client, &[SHORTEST]);
    assert!(copies(&bed) > 0.0);
}

/// Sends a message of each size each way, to a waiting receive and before one.
fn both_ways(server: &End, client: &End, sizes: &[usize]) {
    for (at, &len) in sizes.iter().enumerate() {
        let tag = i32::try_from(at).unwrap() * 4;
        let bytes = pattern(len);
        let receives = server.receive_into(tag, len);
        let (sent, _) = client.finish(client.send(tag, bytes.clone()));
        assert_eq!(sent, Ok(len));
        let (received, payload) = server.finish(receives);
        assert_eq!(received, Ok(len));
        assert!(*payload.into_buffer() == bytes, "{len} to the server");

        let late = client.send(tag + 1, bytes.clone());
        let receives = server.receive_into(tag + 1, len);
        assert_eq!(client.finish(late).0, Ok(len));
        assert_eq!(server.finish(receives).0, Ok(len));

        let sends = server.send(tag + 2, bytes.clone());
        let (received, payload) = client.finish(client.receive_into(tag + 2, len));
        assert_eq!(received, Ok(len));
        assert!(*payload.into_buffer() == bytes, "{len} to the client");
        assert_eq!(server.finish(sends).0, Ok(len));

        let late = client.receive_into(tag + 3, len + 5);
        let sends = server.send(tag + 3, bytes.clone());
        let (received, payload) = client.finish(late);
        assert_eq!(received, Ok(len));
        let buffer = payload.into_buffer();
        assert!(buffer[..len] == bytes && buffer[len..] == [0; 5]);
        assert_eq!(server.finish(sends).0, Ok(len));
    }
}

const SIZES: [usize; 10] = [
    0,
    1,
    8192,
    SHORTEST - 1,
    SHORTEST,
    SHORTEST + 1,
    1 << 20,
    (4 << 20) - 1,
    (4 << 20) + 1,
    9 << 20,
];

// [FWD-41]
#[test]
fn long_messages_are_copied_and_short_ones_are_streamed() {
    let bed = bed();
    let (server, client) = bed.greeted_pair();
    both_ways(&server, &client, &SIZES);
    let long = SIZES.iter().filter(|len| **len >= SHORTEST).count();
    assert_eq!(copies(&bed), 4.0 * long as f64);
    assert_eq!(client.counters.read().memory_shown, 4 * long as u64);
    let bytes: usize = SIZES.iter().filter(|len| **len >= SHORTEST).sum();
    assert_eq!(
        bed.metric("zoidd_client_memory_bytes_total"),
        4.0 * bytes as f64
    );
    // R30: apart from control frames, no byte of these goes over the stream.
    let streamed: usize = SIZES.iter().filter(|len| **len < SHORTEST).sum();
    let wire = bed.metric("zoidd_wire_bytes_in_total");
    assert!(wire < 2.0 * streamed as f64 + 40_000.0, "{wire}");
}

#[test]
fn posts_that_do_not_wait_are_copied_too() {
    let bed = bed().pipelined();
    let (server, client) = (bed.serve(), bed.join());
    let server = {
        let mut server = server;
        let (sent, _) = client.finish(client.unexpected(0, b"hello"));
        assert_eq!(sent, Ok(5));
        server.peer = server.next_unexpected().from;
        server
    };
    both_ways(&server, &client, &SIZES);
    assert!(copies(&bed) > 0.0);
}

#[test]
fn unexpected_messages_and_memory_from_outside_are_copied_too() {
    const LEN: usize = 200_000;
    let bed = Bed::with(|options| {
        options.client_memory = Wish::On;
        options.unexpected = 1 << 20;
        options.max_unexpected = LEN as u64;
    });
    let (server, client) = bed.greeted_pair();
    let bytes = pattern(LEN);
    assert_eq!(immediate(client.unexpected(3, &bytes)).0, LEN);
    let got = server.next_unexpected();
    assert!(got.tag == Tag(3) && *got.data == bytes);
    let receives = server.receive(4, server.outside(LEN));
    immediate(client.send(4, bytes.clone()));
    let (received, payload) = server.finish(receives);
    assert_eq!(received, Ok(LEN));
    assert!(*payload.into_buffer() == bytes);
    let mut memory = server.memory(LEN);
    memory.copy_from_slice(&bytes);
    let sends = server.send(5, memory);
    let (_, payload) = immediate(client.receive_into(5, LEN));
    assert!(*payload.into_buffer() == bytes);
    assert_eq!(server.finish(sends).0, Ok(LEN));
    assert_eq!(copies(&bed), 3.0);
}

#[test]
fn with_a_credit_an_unexpected_message_goes_along_with_its_request() {
    const LEN: usize = 100_000;
    let bed = Bed::with(|options| {
        options.client_memory = Wish::On;
        options.max_unexpected = LEN as u64;
        options.credits = 1;
    });
    let (server, client) = bed.greeted_pair();
    let bytes = pattern(LEN);
    assert_eq!(client.finish(client.unexpected(3, &bytes)).0, Ok(LEN));
    assert!(*server.next_unexpected().data == bytes);
}

#[test]
fn lists_are_copied_piece_by_piece() {
    let bed = bed();
    let (server, client) = bed.greeted_pair();
    let lens = [1, 0, 70_000, 4096, 3, 100_000];
    let total: usize = lens.iter().sum();
    let list = || -> Vec<Buffer> { lens.iter().map(|len| client.outside(*len)).collect() };
    let mut sent = list();
    let bytes = pattern(total);
    let mut at = 0;
    for piece in &mut sent {
        let len = piece.len();
        piece.copy_from_slice(&bytes[at..at + len]);
        at += len;
    }
    let receives = server.receive_into(1, total);
    immediate(client.send(1, sent));
    let (_, payload) = server.finish(receives);
    assert!(*payload.into_buffer() == bytes);
    let sends = server.send(2, bytes.clone());
    let (_, payload) = immediate(client.receive(2, list()));
    let parts = payload.into_buffers();
    let got: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
    assert!(got == bytes);
    assert_eq!(server.finish(sends).0, Ok(total));
    assert_eq!(copies(&bed), 2.0);
}

// [FWD-47]
#[test]
fn ten_thousand_pieces_go_by_the_stream() {
    let bed = bed();
    let (server, client) = bed.greeted_pair();
    let pieces = 10_000;
    let total = pieces * 8;
    let bytes = pattern(total);
    let list: Vec<Buffer> = bytes.chunks(8).map(Buffer::from).collect();
    let receives = server.receive_into(1, total);
    immediate(client.send(1, list));
    assert!(*server.finish(receives).1.into_buffer() == bytes);
    let sends = server.send(2, bytes.clone());
    let into: Vec<Buffer> = (0..pieces).map(|_| client.outside(8)).collect();
    let (_, payload) = immediate(client.receive(2, into));
    let got: Vec<u8> = payload
        .into_buffers()
        .iter()
        .flat_map(|part| part.to_vec())
        .collect();
    assert!(got == bytes);
    assert_eq!(server.finish(sends).0, Ok(total));
    assert_eq!(copies(&bed), 0.0);
    let declined = "zoidd_client_memory_fallbacks_total{reason=\"declined\"}";
    assert_eq!(bed.metric(declined), 1.0);
}

// [FWD-41]
#[test]
fn who_refuses_and_who_is_not_asked_gets_the_stream() {
    for (wish, client_memory) in [
        (Wish::On, ClientMemory::Reject),
        (Wish::Off, ClientMemory::Offer),
    ] {
        let bed = Bed::with(|options| options.client_memory = wish);
        let mut server = bed.serve();
        let mut options = bed.options();
        options.client_memory = client_memory;
        let client = End::client(options);
        server.peer = server.greeted_by(&client);
        both_ways(&server, &client, &[1 << 20]);
        assert_eq!(copies(&bed), 0.0);
        let not_offered = "zoidd_client_memory_fallbacks_total{reason=\"not_offered\"}";
        let asked = if wish == Wish::On { 1.0 } else { 0.0 };
        assert_eq!(bed.metric(not_offered), asked);
    }
}

// [FWD-41]
#[test]
fn clients_over_tcp_are_not_asked() {
    let bed = Bed::with(|options| {
        options.client_memory = Wish::On;
        options.listen = Some("127.0.0.1:0".parse().unwrap());
    });
    let server = bed.serve();
    let client = bmi::conformance::Bed::client(&bed);
    let context = client.open_context().unwrap();
    let to = client
        .lookup(&bmi::conformance::Bed::address(&bed, &server.bmi))
        .unwrap();
    let posted = client.post_send(context, to, Buffer::from(&*pattern(1 << 20)), Tag(1), 0);
    assert!(matches!(posted.unwrap(), Post::Pending(_)));
    let no_reason = bed
        .metrics()
        .into_iter()
        .filter(|metric| metric.name.contains("client_memory_fallbacks") && metric.value > 0.0);
    assert_eq!(no_reason.count(), 0);
}

#[test]
fn a_receive_that_is_cancelled_is_not_copied_into() {
    let bed = bed();
    let (server, client) = bed.greeted_pair();
    let op = pending(client.receive_into(1, 1 << 20));
    client.bmi.cancel(op).unwrap();
    assert_eq!(client.wait(op).result, Err(Error::Cancel));
    let sends = pending(server.send(1, pattern(1 << 20)));
    let (received, payload) = client.finish(client.receive_into(1, 1 << 20));
    assert_eq!(received, Ok(1 << 20));
    assert!(*payload.into_buffer() == pattern(1 << 20));
    assert_eq!(server.wait(sends).result, Ok(1 << 20));
    assert_eq!(copies(&bed), 1.0);
}

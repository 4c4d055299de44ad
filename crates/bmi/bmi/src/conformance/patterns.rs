//! Tests of common communication patterns.

use std::collections::HashSet;
use std::thread;

use super::{Bed, MEMORIES, Must, NAP, add_client, connected_pair, greeting, pattern};
use crate::{Memory, Payload, Post, Question, Tag};

/// Sends a message there and back in every power of two up to 4 MiB, each receive posted before its send;
/// then unexpected messages up to their limit.
// [TCP-11]
pub fn pingpong_of_all_sizes(bed: &impl Bed) {
    for memory in MEMORIES {
        let (server, client) = connected_pair(bed, memory);
        let limit = client.bmi.get(Some(client.peer), Question::UnexpectedSize);
        let limit = limit.must("the limit") as usize;
        let sizes = || (0..=22).map(|power| 1_usize << power);
        thread::scope(|scope| {
            scope.spawn(|| {
                for size in sizes() {
                    let bytes = server.receive(Tag(1), size);
                    server.send(Tag(2), &bytes);
                }
                for size in sizes().filter(|&size| size <= limit) {
                    let bytes = server.next_unexpected().data;
                    assert_eq!(bytes.len(), size);
                    server.send(Tag(2), &bytes);
                }
            });
            for size in sizes() {
                let bytes = pattern(size as u64, size);
                let back = client.post_receive(Tag(2), client.room(size), 0);
                client.send(Tag(1), &bytes);
                let (result, payload) = client.wait_for(back);
                assert_eq!(result, Ok(size));
                assert!(
                    *payload.into_buffer() == *bytes,
                    "{size} bytes came back with other contents"
                );
            }
            for size in sizes().filter(|&size| size <= limit) {
                let bytes = pattern(size as u64, size);
                let back = client.post_receive(Tag(2), client.room(size), 0);
                client.succeed(client.unexpected(Tag(3), &bytes));
                let (result, payload) = client.wait_for(back);
                assert_eq!(result, Ok(size));
                assert!(
                    *payload.into_buffer() == *bytes,
                    "{size} bytes came back with other contents"
                );
            }
        });
    }
}

/// Four clients and a server post all operations first and complete them afterwards.
pub fn many_clients_are_served_at_once(bed: &impl Bed) {
    const MESSAGES: i32 = 20;
    const LEN: usize = 100_000;
    let (server, first) = connected_pair(bed, Memory::External);
    let mut clients = vec![(server.peer, first)];
    for _ in 1..4 {
        let client = add_client(bed, &server.bmi, Memory::External);
        clients.push((greeting(&server.bmi, &client).from, client));
    }
    let mut pending = HashSet::new();
    for (seed, (peer, _)) in (0_u64..).zip(&clients) {
        for tag in 0..MESSAGES {
            let user = seed << 32 | tag as u64;
            let post =
                server
                    .bmi
                    .post_receive(server.context, *peer, server.room(LEN), Tag(tag), user);
            pending.insert(super::pending(post.must("a receive")));
        }
    }
    thread::scope(|scope| {
        for (seed, (_, client)) in (0_u64..).zip(&clients) {
            scope.spawn(move || {
                let post = |tag| {
                    let bytes = pattern(seed << 32 | tag as u64, LEN);
                    client.post_send(Tag(tag), client.buffer(&bytes), 0)
                };
                let posts: Vec<Post> = (0..MESSAGES).map(post).collect();
                for post in posts {
                    assert_eq!(client.wait_for(post).0, Ok(LEN));
                }
            });
        }
        while !pending.is_empty() {
            let done = server
                .bmi
                .test_context(server.context, 16, NAP)
                .must("a test");
            for completion in done {
                assert!(
                    pending.remove(&completion.op),
                    "collected twice, or never posted"
                );
                assert_eq!(completion.result, Ok(LEN));
                assert!(*completion.payload.into_buffer() == *pattern(completion.user, LEN));
            }
        }
    });
}

/// A client asks with 25 unexpected bytes, receives 1600 bytes, then data in pieces of 256 KiB. The server is
/// one loop over unexpected messages and completed operations.
pub fn file_reads_are_served(bed: &impl Bed) {
    const PIECE: usize = 256 << 10;
    const PIECES: u64 = 4;
    const READS: i32 = 5;
    let (server, client) = connected_pair(bed, Memory::External);
    thread::scope(|scope| {
        scope.spawn(|| serve_reads(&server, READS, PIECES, PIECE));
        for read in 0..READS {
            let answer = client.post_receive(Tag(read), client.room(1600), 0);
            let pieces: Vec<Post> = (0..PIECES)
                .map(|piece| client.post_receive(Tag(read + 1000), client.room(PIECE), piece))
                .collect();
            client.succeed(client.unexpected(Tag(read), &[read as u8; 25]));
            assert_eq!(client.wait_for(answer).0, Ok(1600));
            for (number, piece) in (0..PIECES).zip(pieces) {
                let (result, payload) = client.wait_for(piece);
                assert_eq!(result, Ok(PIECE));
                assert!(*payload.into_buffer() == *pattern(number, PIECE));
            }
        }
    });
}

/// The server of [`file_reads_are_served`]: the user value of an operation says which step follows.
fn serve_reads(server: &super::End, reads: i32, pieces: u64, piece_len: usize) {
    let mut served = 0;
    let next = |tag: i32, step: u64| {
        let (tag, payload): (i32, Payload) = match step {
            0 => (tag, server.room(1600).into()),
            step => (
                tag + 1000,
                server.buffer(&pattern(step - 1, piece_len)).into(),
            ),
        };
        let user = step << 32 | tag as u64;
        match server.post_send(Tag(tag), payload, user) {
            Post::Immediate(..) => Some(step + 1),
            Post::Pending(_) => None,
        }
    };
    let advance = |tag: i32, mut step: u64| {
        while step <= pieces {
            match next(tag, step) {
                Some(following) => step = following,
                None => return false,
            }
        }
        true
    };
    while served < reads {
        let requests = server
            .bmi
            .test_unexpected(crate::Class(0), 8, std::time::Duration::ZERO);
        for request in requests.must("a test") {
            assert_eq!(request.data.len(), 25);
            served += i32::from(advance(request.tag.0, 0));
        }
        for done in server
            .bmi
            .test_context(server.context, 8, NAP)
            .must("a test")
        {
            done.result.must("a send");
            let (step, tag) = (done.user >> 32, (done.user & 0xffff_ffff) as i32);
            served += i32::from(advance(tag % 1000, step + 1));
        }
    }
}

/// Eight threads of one client, each with a context of its own, exchange messages with eight threads of one
/// server.
// [BMI-55]
pub fn threads_share_an_interface(bed: &impl Bed) {
    const ROUNDS: u64 = 100;
    let (server, client) = connected_pair(bed, Memory::External);
    thread::scope(|scope| {
        for thread in 0..8_i32 {
            let (server, client) = (&server, &client);
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let bytes = server.receive(Tag(thread), 40_000);
                    server.send(Tag(thread), &bytes);
                }
            });
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let len = (round as usize * 397) % 40_000;
                    let bytes = pattern(round, len);
                    let back = client.post_receive(Tag(thread), client.room(len), 0);
                    client.send(Tag(thread), &bytes);
                    let (result, payload) = client.wait_for(back);
                    assert_eq!(result, Ok(len));
                    assert!(*payload.into_buffer() == *bytes);
                }
            });
        }
    });
    assert_eq!(
        server.bmi.stray_completions() + client.bmi.stray_completions(),
        0
    );
}

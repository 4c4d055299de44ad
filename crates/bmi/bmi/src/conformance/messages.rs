//! Tests of messages.

use std::thread;
use std::time::{Duration, Instant};

use super::{Bed, LIMIT, MEMORIES, Must, NAP, connected_pair, next_unexpected, pattern, pending};
use crate::{Buffer, Class, Error, Memory, Post, Tag};

/// The basic pair of programs: a request with the wanted size, an acknowledgement, then a message that is
/// shorter than its receive and completes that receive once.
// [BMI-11] [ADDR-6]
pub fn a_short_message_completes_a_longer_receive(bed: &impl Bed) {
    const SENT: usize = 15_000;
    const ROOM: usize = 32_000;
    for memory in MEMORIES {
        let (server, client) = connected_pair(bed, memory);
        thread::scope(|scope| {
            scope.spawn(|| {
                let request = server.next_unexpected();
                assert_eq!(&*request.data, &(SENT as u64).to_le_bytes());
                assert_eq!(request.from, server.peer);
                let name = server.bmi.peer_name(request.from).must("a known peer");
                assert!(!name.is_empty());
                server.send(request.tag, b"ok");
                let receive = server.post_receive(Tag(7), server.room(ROOM), 99);
                let (result, payload) = server.wait_for(receive);
                assert_eq!(result, Ok(SENT));
                let bytes = payload.into_buffer();
                assert_eq!(&bytes[..SENT], pattern(1, SENT));
                assert_eq!(&bytes[SENT..], &[0; ROOM - SENT]);
            });
            let request = client.unexpected(Tag(5), &(SENT as u64).to_le_bytes());
            client.succeed(request);
            assert_eq!(client.receive(Tag(5), 100), b"ok");
            client.send(Tag(7), &pattern(1, SENT));
        });
    }
}

/// Three segments of 8, 16 and 24 KiB are sent and received as two halves, then the same in the other
/// direction. The user values come back unchanged.
// [BMI-14]
pub fn lists_and_single_buffers_are_one_message(bed: &impl Bed) {
    const KIB: usize = 1024;
    for memory in MEMORIES {
        let (server, client) = connected_pair(bed, memory);
        let bytes = pattern(2, 48 * KIB);
        thread::scope(|scope| {
            scope.spawn(|| {
                let halves = vec![server.room(24 * KIB), server.room(0), server.room(24 * KIB)];
                let (result, payload) =
                    server.wait_for(server.post_receive(Tag(1), halves, u64::MAX));
                assert_eq!(result, Ok(48 * KIB));
                let halves = payload.into_buffers();
                assert_eq!([&*halves[0], &*halves[2]].concat(), bytes);
                server.send(Tag(2), &bytes);
            });
            let lens = [8 * KIB, 16 * KIB, 24 * KIB];
            let mut rest = &bytes[..];
            let list: Vec<Buffer> = lens
                .iter()
                .map(|&len| {
                    let (part, tail) = rest.split_at(len);
                    rest = tail;
                    client.buffer(part)
                })
                .collect();
            let (result, _) = client.wait_for(client.post_send(Tag(1), list, 3));
            assert_eq!(result, Ok(48 * KIB));
            let list: Vec<Buffer> = lens.iter().map(|&len| client.room(len + 1)).collect();
            let (result, payload) = client.wait_for(client.post_receive(Tag(2), list, 4));
            assert_eq!(result, Ok(48 * KIB));
            let mut joined: Vec<u8> = payload
                .into_buffers()
                .iter()
                .flat_map(|b| b.to_vec())
                .collect();
            assert_eq!(joined.split_off(48 * KIB), [0; 3]);
            assert_eq!(joined, bytes);
        });
    }
}

/// Two short messages have the same tag: one arrives before its receive is posted, one after. They are
/// received in order, and the gaps between the segments of a list are untouched.
// [BMI-10]
pub fn early_messages_wait_in_order(bed: &impl Bed) {
    let (server, client) = connected_pair(bed, Memory::External);
    let gapped = |end: &super::End| vec![end.room(3), end.room(3)];
    thread::scope(|scope| {
        scope.spawn(|| {
            let first = client.post_send(Tag(9), client.buffer(b"abcdef"), 0);
            // The signal to continue may arrive before the first message is matched.
            assert_eq!(client.receive(Tag(1), 0), b"");
            let second = client.post_send(Tag(9), client.buffer(b"ghijkl"), 0);
            assert_eq!(client.wait_for(first).0, Ok(6));
            assert_eq!(client.wait_for(second).0, Ok(6));
        });
        let nothing = server
            .bmi
            .test_context(server.context, 8, NAP)
            .must("a test");
        assert!(nothing.is_empty());
        let first = server.post_receive(Tag(9), gapped(&server), 1);
        let second = server.post_receive(Tag(9), gapped(&server), 2);
        server.send(Tag(1), b"");
        for (post, expected) in [(first, b"abcdef"), (second, b"ghijkl")] {
            let (result, payload) = server.wait_for(post);
            assert_eq!(result, Ok(6));
            assert_eq!(payload.into_buffers().concat(), expected);
        }
    });
}

trait Concat {
    fn concat(&self) -> Vec<u8>;
}

impl Concat for Vec<Buffer> {
    fn concat(&self) -> Vec<u8> {
        self.iter()
            .flat_map(|buffer| buffer.iter().copied())
            .collect()
    }
}

/// A message that is longer than its receive fails at the receiver and uses up the receive; the next pair
/// matches. The send fails too, unless it has completed before.
// [BMI-12] [TCP-11]
pub fn a_long_message_is_an_error_at_the_receiver(bed: &impl Bed) {
    for len in [10, 2 << 20] {
        let (server, client) = connected_pair(bed, Memory::External);
        thread::scope(|scope| {
            scope.spawn(|| {
                // A method that asks the receiver first may reject the post itself.
                let long = client.buffer(&pattern(3, len));
                let long = client
                    .bmi
                    .post_send(client.context, client.peer, long, Tag(1), 0);
                let result = match long {
                    Ok(post) => client.wait_for(post).0,
                    Err(rejected) => Err(rejected.error),
                };
                let short = len <= 10;
                assert!(
                    result == Err(Error::MsgSize) || short && result == Ok(len),
                    "{result:?}"
                );
                client.send(Tag(1), b"next");
            });
            let post = server.post_receive(Tag(1), server.room(len - 1), 0);
            let (result, payload) = server.wait_for(post);
            assert_eq!(result, Err(Error::MsgSize));
            assert!(payload.into_buffer().iter().all(|&byte| byte == 0));
            assert_eq!(server.receive(Tag(1), 10), b"next");
        });
    }
}

/// Messages of no bytes match: expected, unexpected, and as an empty list.
// [BMI-13]
pub fn messages_of_no_bytes_match(bed: &impl Bed) {
    let (server, client) = connected_pair(bed, Memory::External);
    thread::scope(|scope| {
        scope.spawn(|| {
            let message = server.next_unexpected();
            assert_eq!((message.tag, message.data.len()), (Tag(3), 0));
            assert_eq!(server.receive(Tag(1), 0), b"");
            assert_eq!(server.receive(Tag(1), 5), b"");
            server.succeed(server.post_send(Tag(2), Vec::<Buffer>::new(), 0));
        });
        client.succeed(client.unexpected(Tag(3), b""));
        client.send(Tag(1), b"");
        client.send(Tag(1), b"");
        let (result, _) = client.wait_for(client.post_receive(Tag(2), Vec::<Buffer>::new(), 0));
        assert_eq!(result, Ok(0));
    });
}

/// The smallest and the largest tag are legal and match only themselves.
// [BMI-15]
pub fn the_extreme_tags_are_tags(bed: &impl Bed) {
    const TAGS: [i32; 5] = [i32::MIN, -1, 0, 1, i32::MAX];
    let (server, client) = connected_pair(bed, Memory::External);
    let posts: Vec<Post> = TAGS
        .iter()
        .rev()
        .map(|&tag| server.post_receive(Tag(tag), server.room(4), 0))
        .collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            for tag in TAGS {
                client.send(Tag(tag), &tag.to_le_bytes());
            }
            client.succeed(client.unexpected(Tag(i32::MIN), b"x"));
        });
        for (post, tag) in posts.into_iter().zip(TAGS.iter().rev()) {
            let (result, payload) = server.wait_for(post);
            assert_eq!(result, Ok(4));
            assert_eq!(&*payload.into_buffer(), &tag.to_le_bytes());
        }
        assert_eq!(server.next_unexpected().tag, Tag(i32::MIN));
    });
}

/// A test for one class does not return messages of another; within a class, messages arrive in order.
// [BMI-16]
pub fn unexpected_classes_are_apart(bed: &impl Bed) {
    let (server, client) = connected_pair(bed, Memory::External);
    thread::scope(|scope| {
        scope.spawn(|| {
            for (class, text) in [(255, "a"), (0, "b"), (255, "c"), (1, "d")] {
                let post = client.bmi.post_send_unexpected(
                    client.context,
                    client.peer,
                    client.buffer(text.as_bytes()),
                    Tag(0),
                    Class(class),
                    0,
                );
                client.succeed(post.must("an unexpected send"));
            }
        });
        for (class, text) in [(1, "d"), (255, "a"), (255, "c"), (0, "b")] {
            let message = next_unexpected(&server.bmi, Class(class));
            assert_eq!(&*message.data, text.as_bytes());
        }
        for class in [0, 1, 2, 255] {
            let found = server.bmi.test_unexpected(Class(class), 5, Duration::ZERO);
            assert!(found.must("a test").is_empty());
        }
    });
}

/// A cancelled receive is collected once, with the error. Its memory is untouched, and it does not match a
/// later message. Cancelling a completed or collected operation changes nothing.
// [BMI-40]
pub fn a_cancelled_operation_is_collected_once(bed: &impl Bed) {
    let (server, client) = connected_pair(bed, Memory::External);
    for end in [&server, &client] {
        let receive = end.post_receive(Tag(1), end.buffer(b"untouched"), 17);
        let op = pending(receive);
        end.bmi.cancel(op).must("cancel");
        end.bmi.cancel(op).must("cancel twice");
        let done = end.wait(op);
        assert_eq!((done.result, done.user), (Err(Error::Cancel), 17));
        assert_eq!(&*done.payload.into_buffer(), b"untouched");
        end.bmi.cancel(op).must("cancel of a collected operation");
        assert_eq!(end.bmi.test(op, Duration::ZERO).err(), Some(Error::Inval));
    }
    thread::scope(|scope| {
        scope.spawn(|| client.send(Tag(1), b"later"));
        assert_eq!(server.receive(Tag(1), 9), b"later");
    });
    let big = server.post_send(Tag(4), server.room(2 << 20), 18);
    if let Post::Pending(op) = big {
        server.bmi.cancel(op).must("cancel");
        let done = server.wait(op);
        assert_eq!((done.result, done.user), (Err(Error::Cancel), 18));
    }
    thread::scope(|scope| {
        scope.spawn(|| server.send(Tag(4), b"after"));
        assert_eq!(client.receive(Tag(4), 2 << 20), b"after");
    });
}

/// Programs call `test_unexpected` without a wait, then `test_context` with a long one: the second call must
/// not sleep while an unexpected message waits.
// [BMI-28]
pub fn a_test_of_a_context_ends_for_an_unexpected_message(bed: &impl Bed) {
    let (server, client) = connected_pair(bed, Memory::External);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let begin = Instant::now();
            let found = server.bmi.test_context(server.context, 4, 2 * LIMIT);
            assert!(found.must("a test").is_empty());
            assert!(
                begin.elapsed() < LIMIT,
                "the test did not end at an unexpected message"
            );
        });
        client.succeed(client.unexpected(Tag(1), b"wake up"));
        sleeper.join().must("the sleeper");
        // The message has already arrived.
        let found = server.bmi.test_context(server.context, 4, LIMIT);
        assert!(found.must("a test").is_empty());
        assert_eq!(&*server.next_unexpected().data, b"wake up");
    });
}

/// Ten thousand receives with ten thousand tags are posted, then the sends. Each completes once, with its own
/// bytes and its own user value.
// [BMI-4] [BMI-20]
pub fn ten_thousand_operations_complete_once(bed: &impl Bed) {
    const COUNT: u64 = 10_000;
    let (server, client) = connected_pair(bed, Memory::External);
    let tag = |number: u64| Tag(number as i32 - 5000);
    for number in 0..COUNT {
        let post = server.post_receive(tag(number), server.room(8), number);
        assert!(matches!(post, Post::Pending(_)));
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            let posts = (0..COUNT).rev().map(|number| {
                client.post_send(tag(number), client.buffer(&number.to_le_bytes()), number)
            });
            for post in posts.collect::<Vec<_>>() {
                assert_eq!(client.wait_for(post).0, Ok(8));
            }
        });
        let mut seen = vec![false; COUNT as usize];
        let deadline = Instant::now() + LIMIT;
        while seen.iter().any(|seen| !seen) {
            let done = server
                .bmi
                .test_context(server.context, 64, NAP)
                .must("a test");
            for completion in done {
                assert_eq!(completion.result, Ok(8));
                let bytes = completion.payload.into_buffer();
                assert_eq!(&*bytes, &completion.user.to_le_bytes());
                assert!(!std::mem::replace(
                    &mut seen[completion.user as usize],
                    true
                ));
            }
            assert!(Instant::now() < deadline, "not all completed");
        }
    });
    assert_eq!(server.bmi.stray_completions(), 0);
}

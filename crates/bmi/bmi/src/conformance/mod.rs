//! The behaviours that every method must show, as functions of a [`Bed`].
//!
//! A method's tests implement [`Bed`], which starts the two sides, and call
//! [`conformance_tests!`](crate::conformance_tests), which creates a test for each behaviour. The first
//! behaviours are those of BMI's own test programs; the others go beyond them.
//!
//! Each function panics if the method misbehaves, because a test fails by panicking. Only tests may use this
//! module.

mod arguments;
mod messages;
mod patterns;

use std::time::{Duration, Instant};

use crate::{
    Address, Bmi, Buffer, Class, Completion, ContextId, Error, Memory, OpId, Payload, Post,
    Rejected, Tag, Unexpected,
};

pub use arguments::{
    addresses_are_checked_and_stable, contexts_are_sixteen, finalize_ends_a_sleeping_test,
    ids_that_name_nothing_are_refused, limits_are_inclusive, options_are_answered,
    references_are_counted,
};
pub use messages::{
    a_cancelled_operation_is_collected_once, a_long_message_is_an_error_at_the_receiver,
    a_short_message_completes_a_longer_receive, a_test_of_a_context_ends_for_an_unexpected_message,
    early_messages_wait_in_order, lists_and_single_buffers_are_one_message,
    messages_of_no_bytes_match, ten_thousand_operations_complete_once, the_extreme_tags_are_tags,
    unexpected_classes_are_apart,
};
pub use patterns::{
    file_reads_are_served, many_clients_are_served_at_once, pingpong_of_all_sizes,
    threads_share_an_interface,
};

/// Starts the two sides of a method.
pub trait Bed {
    /// Starts a server that listens. The suite uses one at a time.
    fn server(&self) -> Bmi;

    /// Starts a client on the same machine. The suite may start many.
    fn client(&self) -> Bmi;

    /// Returns the address that a client looks up to reach the server.
    fn address(&self, server: &Bmi) -> String;
}

/// The longest wait before the suite reports a hang.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// The wait of one test call of the suite.
pub(crate) const NAP: Duration = Duration::from_millis(50);

/// One end of a conversation.
pub(crate) struct End {
    pub(crate) bmi: Bmi,
    pub(crate) context: ContextId,
    pub(crate) peer: Address,
    pub(crate) memory: Memory,
}

/// Starts a server and a client and exchanges a greeting.
pub(crate) fn connected_pair(bed: &impl Bed, memory: Memory) -> (End, End) {
    let server = bed.server();
    let context = server.open_context().must("the first context");
    let client = add_client(bed, &server, memory);
    let hello = greeting(&server, &client);
    let server = End {
        bmi: server,
        context,
        peer: hello.from,
        memory,
    };
    (server, client)
}

/// Starts one more client.
pub(crate) fn add_client(bed: &impl Bed, server: &Bmi, memory: Memory) -> End {
    let bmi = bed.client();
    let peer = bmi
        .lookup(&bed.address(server))
        .must("the address of the server");
    let context = bmi.open_context().must("the first context");
    End {
        bmi,
        context,
        peer,
        memory,
    }
}

/// Sends a greeting from a client to a server, from which the server learns the client's address.
pub(crate) fn greeting(server: &Bmi, client: &End) -> Unexpected {
    let mut post = Some(client.unexpected(Tag(0), b"hello"));
    let deadline = Instant::now() + LIMIT;
    let mut heard = None;
    while heard.is_none() || post.is_some() {
        assert!(Instant::now() < deadline, "the greeting was not delivered");
        let found = server.test_unexpected(Class(0), 1, Duration::from_millis(1));
        heard = heard.or(found.must("a test").pop());
        post = match post {
            Some(Post::Pending(op)) => {
                let tested = client.bmi.test(op, Duration::ZERO).must("a test");
                tested.is_none().then_some(Post::Pending(op))
            }
            Some(Post::Immediate(..)) | None => None,
        };
    }
    heard.must("the server received the greeting")
}

impl End {
    /// Returns memory of this end's kind that holds these bytes.
    pub(crate) fn buffer(&self, bytes: &[u8]) -> Buffer {
        let mut buffer = self.room(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Returns memory of this end's kind.
    pub(crate) fn room(&self, len: usize) -> Buffer {
        match self.memory {
            Memory::PreAllocated => self.bmi.allocate(self.peer, len).must("memory"),
            Memory::External => Buffer::zeroed(len).must("memory"),
        }
    }

    pub(crate) fn unexpected(&self, tag: Tag, bytes: &[u8]) -> Post {
        self.bmi
            .post_send_unexpected(
                self.context,
                self.peer,
                self.buffer(bytes),
                tag,
                Class(0),
                0,
            )
            .must("an unexpected send is posted")
    }

    pub(crate) fn post_send(&self, tag: Tag, payload: impl Into<Payload>, user: u64) -> Post {
        self.bmi
            .post_send(self.context, self.peer, payload, tag, user)
            .must("a send is posted")
    }

    pub(crate) fn post_receive(&self, tag: Tag, payload: impl Into<Payload>, user: u64) -> Post {
        self.bmi
            .post_receive(self.context, self.peer, payload, tag, user)
            .must("a receive is posted")
    }

    /// Tests until an operation completes. Returns its result and memory.
    pub(crate) fn wait_for(&self, post: Post) -> (Result<usize, Error>, Payload) {
        match post {
            Post::Immediate(count, payload) => (Ok(count), payload),
            Post::Pending(op) => {
                let completion = self.wait(op);
                (completion.result, completion.payload)
            }
        }
    }

    /// Waits for an operation that must succeed. Returns its size.
    pub(crate) fn succeed(&self, post: Post) -> usize {
        self.wait_for(post).0.must("success")
    }

    pub(crate) fn wait(&self, op: OpId) -> Completion {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(completion) = self.bmi.test(op, NAP).must("a test") {
                assert_eq!(completion.op, op);
                return completion;
            }
            assert!(Instant::now() < deadline, "{op:?} did not complete");
        }
    }

    pub(crate) fn send(&self, tag: Tag, bytes: &[u8]) {
        let post = self.post_send(tag, self.buffer(bytes), 0);
        assert_eq!(self.wait_for(post).0, Ok(bytes.len()), "a send");
    }

    /// Receives a message of at most `len` bytes.
    pub(crate) fn receive(&self, tag: Tag, len: usize) -> Vec<u8> {
        let post = self.post_receive(tag, self.room(len), 0);
        let (result, payload) = self.wait_for(post);
        let mut bytes = payload.into_buffer().to_vec();
        bytes.truncate(result.must("a receive"));
        bytes
    }

    /// Waits for the next unexpected message of class 0.
    pub(crate) fn next_unexpected(&self) -> Unexpected {
        next_unexpected(&self.bmi, Class(0))
    }
}

/// Waits for the next unexpected message of a class.
pub(crate) fn next_unexpected(bmi: &Bmi, class: Class) -> Unexpected {
    let deadline = Instant::now() + LIMIT;
    loop {
        let mut found = bmi.test_unexpected(class, 1, NAP).must("a test");
        if let Some(message) = found.pop() {
            return message;
        }
        assert!(Instant::now() < deadline, "no unexpected message came");
    }
}

/// Returns bytes that differ from place to place and from seed to seed.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Both kinds of memory.
pub(crate) const MEMORIES: [Memory; 2] = [Memory::External, Memory::PreAllocated];

/// Returns the error of a post that must be rejected.
pub(crate) fn rejection(post: Result<Post, Rejected>) -> Error {
    let rejected = post.err();
    rejected.must("a rejected post").error
}

/// Returns the operation of a post that must be pending.
pub(crate) fn pending(post: Post) -> OpId {
    let op = match post {
        Post::Pending(op) => Some(op),
        Post::Immediate(..) => None,
    };
    op.must("a pending operation")
}

/// Unwraps a value without which the test has failed.
pub(crate) trait Must<T> {
    /// Returns the value, or panics with `what`.
    fn must(self, what: &str) -> T;
}

impl<T> Must<T> for Option<T> {
    fn must(self, what: &str) -> T {
        // A failed test panics; only tests use this module.
        self.expect(what)
    }
}

impl<T, E: std::fmt::Debug> Must<T> for Result<T, E> {
    fn must(self, what: &str) -> T {
        // A failed test panics; only tests use this module.
        self.expect(what)
    }
}

/// Creates a test of every behaviour that a method must show. The argument creates a
/// [`Bed`](crate::conformance::Bed), a new one for each test.
#[macro_export]
macro_rules! conformance_tests {
    ($bed:expr) => {
        $crate::conformance_tests! { $bed =>
            a_short_message_completes_a_longer_receive
            lists_and_single_buffers_are_one_message
            early_messages_wait_in_order
            a_long_message_is_an_error_at_the_receiver
            messages_of_no_bytes_match
            the_extreme_tags_are_tags
            unexpected_classes_are_apart
            a_cancelled_operation_is_collected_once
            a_test_of_a_context_ends_for_an_unexpected_message
            ten_thousand_operations_complete_once
            pingpong_of_all_sizes
            many_clients_are_served_at_once
            file_reads_are_served
            threads_share_an_interface
            contexts_are_sixteen
            ids_that_name_nothing_are_refused
            addresses_are_checked_and_stable
            limits_are_inclusive
            options_are_answered
            references_are_counted
            finalize_ends_a_sleeping_test
        }
    };
    ($bed:expr => $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $crate::conformance::$name(&$bed);
            }
        )*
    };
}

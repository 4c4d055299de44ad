//! The behaviours that every method must show, as functions of a [`Bed`].
//!
//! A method's tests implement [`Bed`], say how the two sides are started, and call
//! [`conformance_tests!`](crate::conformance_tests), which makes a test of each behaviour. They
//! re-create what the programs do that BMI has been tested with for twenty years, and then what
//! those programs never tried.
//!
//! Each function panics where the method misbehaves: that is how a test fails. So nothing but
//! tests may use this module.

mod arguments;
mod messages;
mod patterns;

use std::time::{Duration, Instant};

use crate::{
    Address, Bmi, Buffer, Class, Completion, ContextId, Error, Memory, OpId, Payload, Post,
    Refused, Tag, Unexpected,
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

/// How the two sides of a method are started.
pub trait Bed {
    /// A server, listening. There is one at a time.
    fn server(&self) -> Bmi;

    /// A client on the same machine. There may be many.
    fn client(&self) -> Bmi;

    /// The address that a client looks up to reach the server.
    fn address(&self, server: &Bmi) -> String;
}

/// How long anything may take before the suite calls it a hang.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// How long one test call of the suite sleeps.
pub(crate) const NAP: Duration = Duration::from_millis(50);

/// One side of a conversation.
pub(crate) struct End {
    pub(crate) bmi: Bmi,
    pub(crate) context: ContextId,
    pub(crate) peer: Address,
    pub(crate) memory: Memory,
}

/// A server and a client that have heard of each other.
pub(crate) fn meet(bed: &impl Bed, memory: Memory) -> (End, End) {
    let server = bed.server();
    let context = server.open_context().must("the first context");
    let client = join(bed, &server, memory);
    let hello = greeting(&server, &client);
    let server = End {
        bmi: server,
        context,
        peer: hello.from,
        memory,
    };
    (server, client)
}

/// One more client.
pub(crate) fn join(bed: &impl Bed, server: &Bmi, memory: Memory) -> End {
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

/// Lets a client introduce itself to a server.
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
    heard.must("the loop ended with it")
}

impl End {
    /// Memory of this side's kind with these bytes.
    pub(crate) fn buffer(&self, bytes: &[u8]) -> Buffer {
        let mut buffer = self.room(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Memory of this side's kind.
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

    /// The result of an operation and its memory, by testing for it.
    pub(crate) fn finish(&self, post: Post) -> (Result<usize, Error>, Payload) {
        match post {
            Post::Immediate(count, payload) => (Ok(count), payload),
            Post::Pending(op) => {
                let completion = self.wait(op);
                (completion.result, completion.payload)
            }
        }
    }

    /// The size of an operation that must succeed.
    pub(crate) fn succeed(&self, post: Post) -> usize {
        self.finish(post).0.must("success")
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
        assert_eq!(self.finish(post).0, Ok(bytes.len()), "a send");
    }

    /// Receives a message of at most `len` bytes.
    pub(crate) fn receive(&self, tag: Tag, len: usize) -> Vec<u8> {
        let post = self.post_receive(tag, self.room(len), 0);
        let (result, payload) = self.finish(post);
        let mut bytes = payload.into_buffer().to_vec();
        bytes.truncate(result.must("a receive"));
        bytes
    }

    /// The next unexpected message of class 0.
    pub(crate) fn next_unexpected(&self) -> Unexpected {
        next_unexpected(&self.bmi, Class(0))
    }
}

/// The next unexpected message of a class.
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

/// Bytes that differ from place to place and from seed to seed.
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

/// The error of a post that must be refused.
pub(crate) fn refusal(post: Result<Post, Refused>) -> Error {
    let refused = post.err();
    refused.must("a refusal").error
}

/// The operation of a post that cannot be finished yet.
pub(crate) fn pending(post: Post) -> OpId {
    let op = match post {
        Post::Pending(op) => Some(op),
        Post::Immediate(..) => None,
    };
    op.must("nothing to match it")
}

/// What a behaviour depends on: without it the test has failed.
pub(crate) trait Must<T> {
    /// The value; `what` says what was to be there.
    fn must(self, what: &str) -> T;
}

impl<T> Must<T> for Option<T> {
    fn must(self, what: &str) -> T {
        // A failed test panics; this module is for tests.
        self.expect(what)
    }
}

impl<T, E: std::fmt::Debug> Must<T> for Result<T, E> {
    fn must(self, what: &str) -> T {
        // A failed test panics; this module is for tests.
        self.expect(what)
    }
}

/// Makes a test of every behaviour that a method must show. The argument makes a
/// [`Bed`](crate::conformance::Bed), anew for each test.
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

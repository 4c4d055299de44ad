//! The types at the engine's interface: ids, requests, outputs.
//!
//! None of these is a byte format. Directions of messages are seen from outside ([`Direction`]): a client's
//! send and the server's receive have the same direction. Offsets count from the end of the segment's header
//! page; the unexpected region comes first.

use std::sync::Arc;
use std::time::Duration;

/// The small number, 0 and up, by which the server addresses a client of this daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub u32);

/// One attachment of a client: its pid, and a number that tells successive clients with this pid apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// The pid.
    pub pid: Pid,
    /// Counts the attachments of all clients; unique within one engine until it wraps at 2^32.
    pub generation: u32,
}

/// The id of a client's call, chosen by the client; unique among its outstanding calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

/// A job; jobs share the I/O node fairly ([`crate::zbmi::Config::job_weights`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

/// One attachment of the server; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

/// The id of a server's command that waits for its reply, chosen by the caller; unique among the outstanding
/// ones, and not reused while an answer may be in flight. A reply slot with the command's sequence number is
/// such an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// The server's id of its operation. The engine returns it unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BmiId(pub u64);

/// The engine's id of a server's operation: positive, below 2^63, never reused, so stale ids are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId(pub u64);

/// The id of a transfer between a client and the segment; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId(pub u64);

/// The tag of a message; every value is legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub i32);

/// A class of unexpected messages; 0 is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(pub u8);

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// A client sends, the server receives.
    ToServer,
    /// The server sends, a client receives.
    ToClient,
}

/// A range of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment {
    /// The offset of the first byte, from the end of the header page.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
}

/// Why something failed, by BMI's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Errno {
    /// EINVAL: an argument is invalid.
    #[error("invalid argument")]
    Invalid,
    /// EMSGSIZE: above a limit, or larger than the buffer at the other end.
    #[error("message too long")]
    MessageSize,
    /// EPROTO: the client broke the protocol's rules.
    #[error("protocol error")]
    Protocol,
    /// EBUSY: a server is attached, or the table of clients is full.
    #[error("busy")]
    Busy,
    /// ECONNRESET: the other side is gone, or its transfer stalled.
    #[error("connection reset by peer")]
    ConnectionReset,
    /// ENETRESET: no such session.
    #[error("session reset")]
    NetReset,
    /// ENETDOWN: the daemon shuts down, or the server detached.
    #[error("network is down")]
    NetDown,
    /// ETRYAGAIN: the daemon drains; retry later, perhaps at its successor.
    #[error("try again")]
    TryAgain,
    /// ECANCEL: cancelled by the server.
    #[error("operation cancelled")]
    Canceled,
    /// ENOMEM: the table of posts is full.
    #[error("no memory")]
    NoMemory,
}

/// The parameters of a client that attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attach {
    /// Chosen by the client process; identifies a returning client.
    pub uuid: [u8; 16],
    /// Its job.
    pub job: JobId,
    /// Its previous attachment.
    pub previous: Option<PreviousStay>,
}

/// What a returning client remembers of its previous attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousStay {
    /// The daemon's epoch at that time ([`crate::zbmi::Config::epoch`]).
    pub epoch: u64,
    /// Its pid at that time.
    pub pid: Pid,
}

/// An accepted client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The client's id from now on.
    pub peer: Peer,
    /// Unexpected slots reserved for it.
    pub credits: u32,
    /// Whether it has its former pid and the server's operations for it survived.
    pub reattached: bool,
}

/// How a client or the server left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// With BYE or FINI.
    Orderly,
    /// Its connection broke, its process died, or it was silent.
    Broken,
}

/// The kind of message that a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SendKind {
    /// A message to a posted receive with the same tag.
    Expected,
    /// A message to memory of the unexpected region.
    Unexpected {
        /// The stream of unexpected messages.
        class: Class,
        /// Whether the payload follows the request at once, against a credit. The answer is then an
        /// [`Output::Grant`] or a rejection before the engine's call returns; the request never waits.
        inline: bool,
    },
}

/// A client's zbmi_send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// Expected or unexpected.
    pub kind: SendKind,
    /// The message's tag.
    pub tag: Tag,
    /// Its length in bytes.
    pub total: u64,
    /// How long to wait for a buffer; zero: no wait (R29).
    pub timeout: Duration,
    /// The client's number of this operation, the same in every attempt; a send repeated after a lost
    /// connection is recognised by it. 0: none.
    pub order: u64,
}

/// A client's zbmi_recv.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvRequest {
    /// The message's tag.
    pub tag: Tag,
    /// The size of the client's buffer in bytes.
    pub capacity: u64,
    /// How long to wait for a message; zero: no wait (R34).
    pub timeout: Duration,
}

/// What an entry of a zbmi_test asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestKind {
    /// Expected operations of this key.
    Expected(Direction, Tag),
    /// Unexpected sends of this many bytes each.
    Unexpected {
        /// The length of each message in bytes.
        size: u64,
    },
}

/// One entry of a zbmi_test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestEntry {
    /// What it asks about.
    pub kind: TestKind,
    /// The number of equal operations that the client has pending.
    pub multiplicity: u32,
}

/// A client's zbmi_test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRequest {
    /// In the client's order: of several entries with one key, the first are flagged first.
    pub entries: Vec<TestEntry>,
    /// How long to sleep if nothing is ready; zero: no wait.
    pub timeout: Duration,
}

/// The answer to a client's request that ends without a transfer to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The send has completed: SEND_DONE with status 1.
    Sent,
    /// There is no counterpart now: SEND_DONE with −ENOMEM, or RECV_REPLY with 0. The client retries later.
    NotNow,
    /// The number of ready operations of each entry, in the request's order; all 0 at the timeout:
    /// TEST_REPLY.
    Ready(Vec<u32>),
    /// The request failed, permanently except for [`Errno::TryAgain`], which a client treats like `NotNow`.
    Failed(Errno),
}

/// A transfer between a client and the segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The id that the caller's reports carry.
    pub grant: GrantId,
    /// The client.
    pub peer: Peer,
    /// The request it answers.
    pub request: RequestId,
    /// The places in the segment, in order. The lengths are positive; their sum is `total`.
    pub segments: Arc<[Segment]>,
    /// The number of bytes to move; may be 0.
    pub total: u64,
    /// The payload is already in flight ([`SendKind::Unexpected`]), so the client receives no GRANT.
    pub inline: bool,
}

/// An operation of the server: POST_SEND, POST_RECV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// [`Direction::ToClient`] is a send, [`Direction::ToServer`] a receive.
    pub direction: Direction,
    /// The server's id of the operation.
    pub bmi: BmiId,
    /// The client. A carrier that has only a pid gets the rest from [`crate::zbmi::Engine::peer`].
    pub peer: Peer,
    /// The tag.
    pub tag: Tag,
    /// The buffer, within the expected region. Empty segments are legal and skipped.
    pub segments: Vec<Segment>,
    /// The sum of the segments' lengths in bytes.
    pub total: u64,
    /// Answer at once, even if a call waits (R60).
    pub not_immediate: bool,
}

/// The operations that a TEST of the server is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// These.
    Ids(Vec<PluginId>),
    /// Any completed operations, at most this many (R64).
    Any(usize),
}

/// The server's TEST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTest {
    /// Which operations.
    pub selection: Selection,
    /// How long to sleep if none has completed.
    pub timeout: Duration,
    /// Return early if an unexpected message can be fetched.
    pub wake_on_unexpected: bool,
}

/// The server's UNEXP_TEST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnexpTest {
    /// The most messages to return.
    pub capacity: usize,
    /// The class.
    pub class: Class,
    /// How long to sleep if there is none.
    pub timeout: Duration,
}

/// A completed operation of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The server's id of the operation.
    pub bmi: BmiId,
    /// The engine's id of the operation, which is invalid from now on.
    pub plugin: PluginId,
    /// The number of bytes moved, or the error.
    pub result: Result<u64, Errno>,
}

/// An unexpected message handed to the server, which owns the memory until UNEXP_FREE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender, which may be gone.
    pub peer: Peer,
    /// Its tag.
    pub tag: Tag,
    /// Its class.
    pub class: Class,
    /// Its offset in the unexpected region; also its id for UNEXP_FREE.
    pub offset: u64,
    /// Its length in bytes.
    pub size: u64,
}

/// The reply to a command of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Answers a post: registered, to be collected by a TEST.
    Registered(PluginId),
    /// Answers a post: completed, with this many bytes; there is nothing to collect.
    Immediate(u64),
    /// Answers a post: the table of operations is full (plugin id 0).
    NoMemory,
    /// Answers TEST.
    Completions {
        /// The completed operations.
        completions: Vec<Completion>,
        /// Whether an unexpected message can be fetched.
        unexpected_pending: bool,
        /// Whether WAKE ended the sleep.
        woken: bool,
    },
    /// Answers UNEXP_TEST.
    Messages {
        /// In order of arrival.
        messages: Vec<Message>,
        /// Whether WAKE ended the sleep.
        woken: bool,
    },
    /// The command failed.
    Failed(Errno),
}

/// An action that the engine requests. Returned by [`crate::zbmi::Engine::poll_output`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Let the client send (GRANT), and store the payload in these segments. Report with
    /// `transfer_progressed`, then with `transfer_arrived` or `transfer_aborted`.
    Grant(Transfer),
    /// Send these segments to the client (RECV_REPLY and DATA). Report with `transfer_progressed`,
    /// then `transfer_acknowledged`.
    Deliver(Transfer),
    /// Stop the transfer: from now on it may not touch the segment, and no report is needed. For a Grant:
    /// discard the rest of the payload if it arrives. For a Deliver: complete the current frame with zeros
    /// and send no further one. If the client is still attached, an [`Output::Reply`] with the error follows.
    /// The engine reuses the segments at once.
    Stop {
        /// The transfer.
        grant: GrantId,
        /// The client.
        peer: Peer,
    },
    /// The result of a client's request (SEND_DONE, RECV_REPLY, TEST_REPLY).
    Reply {
        /// The client.
        peer: Peer,
        /// Its request.
        request: RequestId,
        /// The answer.
        reply: Reply,
    },
    /// The client may send this many more messages inline (EVENT 4).
    Credits {
        /// The client.
        peer: Peer,
        /// The number of further credits.
        count: u32,
    },
    /// The reply to a command of the server.
    Answer {
        /// The session.
        session: Session,
        /// The command.
        call: CallId,
        /// The answer. If it cannot be delivered, pass it to `undelivered`.
        answer: Answer,
    },
    /// Draining is complete: no transfer runs, and none will start.
    Drained,
}

//! What crosses the border of the engine: names, requests, outputs.
//!
//! Nothing here is a protocol's byte. Message directions are seen from outside ([`Direction`]), so that
//! a client's send and the server's receive have the same one. Offsets are those of the segment:
//! relative to the end of its header page, the unexpected region first.

use std::sync::Arc;
use std::time::Duration;

/// A client at this daemon, as the server addresses it: a small number, 0 and up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub u32);

/// One stay of a client: its pid, and which of the clients that ever had this pid it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// The pid.
    pub pid: Pid,
    /// Counts the attachments of all clients; unique within one engine (until it wraps at 2^32).
    pub generation: u32,
}

/// A client's call, chosen by the client; unique among its outstanding calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

/// Jobs share the I/O node fairly ([`crate::Config::job_weights`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

/// One stay of the server; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

/// A command of the server that awaits its reply, named by the caller; unique among the outstanding
/// ones, and never used again while an answer may still be on its way (a reply slot with the
/// command's sequence number is such a name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// The server's name for its operation. The engine only hands it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BmiId(pub u64);

/// The engine's name for an operation of the server: positive, below 2^63, never used twice, so a
/// stale one is always noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId(pub u64);

/// A transfer between a client and the segment; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId(pub u64);

/// A message's tag; every value is legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub i32);

/// A class of unexpected messages; 0 is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(pub u8);

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// A client sends, the server receives.
    ToServer,
    /// The server sends, a client receives.
    ToClient,
}

/// A piece of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment {
    /// First byte, relative to the end of the header page.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// Why something failed, under BMI's names (section 1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Errno {
    /// EINVAL: an argument is wrong.
    #[error("invalid argument")]
    Invalid,
    /// EMSGSIZE: above a limit, or larger than the buffer at the other end.
    #[error("message too long")]
    MessageSize,
    /// EPROTO: the client broke the protocol's rules.
    #[error("protocol error")]
    Protocol,
    /// EBUSY: there is a server, or there are as many clients as allowed.
    #[error("busy")]
    Busy,
    /// ECONNRESET: the other end is gone, or its transfer stalled.
    #[error("connection reset by peer")]
    ConnectionReset,
    /// ENETRESET: no such session (any more).
    #[error("session reset")]
    NetReset,
    /// ENETDOWN: the daemon is going down, or the server said farewell.
    #[error("network is down")]
    NetDown,
    /// ETRYAGAIN: the daemon drains; not now, perhaps at its successor.
    #[error("try again")]
    TryAgain,
    /// ECANCEL: cancelled by the server.
    #[error("operation cancelled")]
    Canceled,
    /// ENOMEM: the table of posts is full.
    #[error("no memory")]
    NoMemory,
}

/// A client that wants to attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attach {
    /// Chosen by the client process; what proves that a returning client is the same one.
    pub uuid: [u8; 16],
    /// Its job.
    pub job: JobId,
    /// Where it was attached before.
    pub previous: Option<PreviousStay>,
}

/// What a returning client remembers of its last stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousStay {
    /// The daemon's epoch then ([`crate::Config::epoch`]).
    pub epoch: u64,
    /// Its pid then.
    pub pid: Pid,
}

/// An accepted client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Its name from now on.
    pub peer: Peer,
    /// Unexpected slots reserved for it (section 4.6).
    pub credits: u32,
    /// It has its former pid, and the server's operations for it survived.
    pub reattached: bool,
}

/// How a client or the server left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It said so: BYE, FINI.
    Farewell,
    /// Its connection broke, its process is gone, it is silent.
    Broken,
}

/// What kind of message a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SendKind {
    /// Into a posted receive with the same tag.
    Expected,
    /// Into memory of the unexpected region.
    Unexpected {
        /// Which stream of unexpected messages.
        class: Class,
        /// The payload follows the request at once, against a credit: the answer is an
        /// [`Output::Grant`] or a refusal before the engine's call returns, never a wait.
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
    /// How long to wait for a buffer; zero: not at all (R29).
    pub timeout: Duration,
    /// The client's number of this operation, the same at every attempt; what makes a repetition after
    /// a broken link harmless. 0: none, never remembered.
    pub order: u64,
}

/// A client's zbmi_recv.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvRequest {
    /// The message's tag.
    pub tag: Tag,
    /// Bytes that the client's buffer takes.
    pub capacity: u64,
    /// How long to wait for a message; zero: not at all (R34).
    pub timeout: Duration,
}

/// What one entry of a zbmi_test asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestKind {
    /// Expected operations of this key.
    Expected(Direction, Tag),
    /// Unexpected sends of this many bytes each.
    Unexpected {
        /// Bytes of each message.
        size: u64,
    },
}

/// One entry of a zbmi_test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestEntry {
    /// What it asks about.
    pub kind: TestKind,
    /// How many equal operations the client has pending.
    pub multiplicity: u32,
}

/// A client's zbmi_test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRequest {
    /// In the client's order: when several have one key, the first are flagged first.
    pub entries: Vec<TestEntry>,
    /// How long to sleep when nothing is ready; zero: not at all.
    pub timeout: Duration,
}

/// What a client gets for a request that ends without a transfer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The send is done: SEND_DONE with status 1.
    Sent,
    /// Nothing to pair it with, now: SEND_DONE with −ENOMEM, or RECV_REPLY with 0. The client tries
    /// again later.
    NotNow,
    /// How many of each entry are ready, in the request's order; all 0 at its timeout: TEST_REPLY.
    Ready(Vec<u32>),
    /// It failed for good, except [`Errno::TryAgain`], which a client treats like `NotNow`.
    Failed(Errno),
}

/// A transfer between a client and the segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its name, which the caller's reports carry.
    pub grant: GrantId,
    /// The client.
    pub peer: Peer,
    /// The request it answers.
    pub request: RequestId,
    /// Where in the segment, in order. The lengths are positive and sum to `total` exactly.
    pub segments: Arc<[Segment]>,
    /// Bytes to move; may be 0.
    pub total: u64,
    /// The payload is on its way already ([`SendKind::Unexpected`]): the client is not told.
    pub inline: bool,
}

/// An operation of the server: POST_SEND, POST_RECV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// [`Direction::ToClient`] is a send, [`Direction::ToServer`] a receive.
    pub direction: Direction,
    /// The server's name for it.
    pub bmi: BmiId,
    /// The client. Where the carrier has only a pid, [`crate::Engine::peer`] gives the rest.
    pub peer: Peer,
    /// The tag.
    pub tag: Tag,
    /// The buffer, within the expected region. Empty pieces are legal and skipped.
    pub segments: Vec<Segment>,
    /// Bytes of all segments.
    pub total: u64,
    /// Answer at once, whatever waits (R60).
    pub not_immediate: bool,
}

/// Which operations a TEST of the server is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// These.
    Ids(Vec<PluginId>),
    /// Any completed ones, at most this many (R64).
    Any(usize),
}

/// The server's TEST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTest {
    /// Which operations.
    pub selection: Selection,
    /// How long to sleep when none is complete.
    pub timeout: Duration,
    /// Return early when an unexpected message is there to be fetched.
    pub wake_on_unexpected: bool,
}

/// The server's UNEXP_TEST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnexpTest {
    /// The most messages to return.
    pub capacity: usize,
    /// Of which class.
    pub class: Class,
    /// How long to sleep when there is none.
    pub timeout: Duration,
}

/// An operation of the server that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The server's name for it.
    pub bmi: BmiId,
    /// The engine's name for it, which is void from now on.
    pub plugin: PluginId,
    /// Bytes moved, or why none are to be believed.
    pub result: Result<u64, Errno>,
}

/// An unexpected message handed to the server; its memory is the server's until UNEXP_FREE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who sent it; it may be gone.
    pub peer: Peer,
    /// Its tag.
    pub tag: Tag,
    /// Its class.
    pub class: Class,
    /// Where it stands, within the unexpected region; also its name for UNEXP_FREE.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
}

/// The reply to a command of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To POST_*: registered, to be collected by a TEST.
    Registered(PluginId),
    /// To POST_*: done, this many bytes; there is nothing to collect.
    Immediate(u64),
    /// To POST_*: the table of operations is full (plugin id 0).
    NoMemory,
    /// To TEST.
    Completions {
        /// What has ended.
        completions: Vec<Completion>,
        /// An unexpected message is there to be fetched.
        unexpected_pending: bool,
        /// Ended by WAKE.
        woken: bool,
    },
    /// To UNEXP_TEST.
    Messages {
        /// In order of arrival.
        messages: Vec<Message>,
        /// Ended by WAKE.
        woken: bool,
    },
    /// The command failed.
    Failed(Errno),
}

/// Something that the engine wants done. Taken with [`crate::Engine::poll_output`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Let the client send (GRANT), and put what it sends into these segments. Report with
    /// `transfer_progressed`, then one of `transfer_arrived`, `transfer_aborted`.
    Grant(Transfer),
    /// Send these segments to the client (RECV_REPLY and DATA). Report with `transfer_progressed`,
    /// then `transfer_acknowledged`.
    Deliver(Transfer),
    /// Nothing more of this transfer may touch the segment from now on, and nothing need be reported.
    /// Of a Grant: read the rest of the payload into nowhere, should it come. Of a Deliver: end the
    /// frame that has begun with zeros, send no further one. A [`Output::Reply`] with the error
    /// follows if the client is still there. The engine holds the segment free for others at once.
    Stop {
        /// Which transfer.
        grant: GrantId,
        /// Whose.
        peer: Peer,
    },
    /// The end of a client's request (SEND_DONE, RECV_REPLY, TEST_REPLY).
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
        /// How many more.
        count: u32,
    },
    /// The reply to a command of the server.
    Answer {
        /// The session.
        session: Session,
        /// The command.
        call: CallId,
        /// The answer. One that cannot be delivered goes back with `undelivered`.
        answer: Answer,
    },
    /// Draining has ended: no transfer is running, and none will start.
    Drained,
}

//! The method trait: the part below the interface that transports messages.
//!
//! ```text
//!   program ── Bmi ── post ──▶ Method ── … ──▶ the peer
//!                └── test ──▶   │
//!                ◀─ complete ───┘  (Completions, at any time, on any thread)
//! ```

use std::sync::Arc;
use std::time::Duration;

use sys::span::Span;

use crate::error::Error;
use crate::id::{Class, ContextId, OpId, Tag};
use crate::ops::Ops;
use crate::option::{Question, Setting};
use crate::payload::{Memory, Segments};

/// Creates a method when it is first needed; an entry in the list of methods.
pub trait Factory: Send + Sync {
    /// Returns the name in a list of methods, such as `bmi_tcp`.
    fn name(&self) -> &'static str;

    /// Returns the part of the method's addresses before `://`, such as `tcp`.
    fn scheme(&self) -> &'static str;

    /// Returns whether this factory serves an address with its scheme. Several factories may have the same
    /// scheme, each for its own addresses; the first that returns true gets the address.
    fn serves(&self, address: &str) -> bool {
        let _ = address;
        true
    }

    /// Starts the method: opens its listening socket, connects to its daemon.
    ///
    /// # Errors
    ///
    /// Whatever keeps the method from working, such as [`Error::AddrInUse`] or [`Error::ConnRefused`].
    fn start(&self, setup: Setup) -> Result<Arc<dyn Method>, Error>;
}

/// The parameters of a method's start.
#[derive(Debug)]
pub struct Setup {
    /// The role of this process.
    pub role: Role,
    /// Listen only on the host of the listen address, not on every address of this machine.
    pub bind_specific: bool,
    /// Receives completed operations.
    pub completions: Completions,
}

/// The role of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Looks peers up; nobody looks it up.
    Client,
    /// Peers look it up, and it may look up peers.
    Server {
        /// The part of the listen address that has the method's scheme, such as
        /// `tcp://node7:3334`.
        listen: String,
    },
}

/// A transport of messages.
///
/// # Contract
///
/// The interface ([`crate::Bmi`]) checks every argument whose meaning is the same for all methods: ids,
/// contexts, sizes against [`Method::limits`], lists against their totals. It stores ids, user values,
/// contexts and completed operations that nobody has collected yet. A method stores what is in flight, and
/// nothing of an operation after completing it.
///
/// * **Post.** [`Method::post`] borrows the [`Request`]. It has three outcomes. The operation completes in
///   the post
///   ([`Posted::Immediate`]). Or the method clones the spans, remembers the operation under [`Request::op`] and returns
///   [`Posted::Pending`]. Or it returns an error and forgets the request. A post may sleep only if an option of the
///   method asks for that.
/// * **Complete.** Each pending operation is completed by exactly one [`Completions::complete`], from any
///   thread, even
///   before `post` has returned. Before that call the method drops its clones of the spans; afterwards it does not touch
///   the memory. The method may hold locks of its own: the lock inside `complete` and `is_satisfied` is never held while
///   a method is called.
/// * **Test.** [`Method::test`] makes progress. It returns if [`Wanted::is_satisfied`], if an unexpected
///   message waits
///   and [`Wanted::unexpected_ends_wait`], after a [`Method::wake`] or [`Method::close`], or at the end of the wait. It
///   may return earlier for any reason and is then called again with the rest of the time. Without time it polls once.
///   It does not sleep if `is_satisfied` already, and it does not spin. Many threads may be in it at once.
///   [`Error::Intr`] ends the program's test, too, with the results so far; a method returns it if a signal interrupted
///   the sleep and an option of the method asks for that.
/// * **Wake.** After [`Method::wake`] every thread that sleeps in `test` or `test_unexpected` returns soon.
///   This includes
///   a thread that has checked `is_satisfied` and is about to sleep: a wake between the two must not be lost. A spurious
///   wake costs little.
/// * **Cancel.** A cancel is a request. The method completes the operation with [`Error::Cancel`], or with
///   its own
///   result if data already moves; in both cases once.
/// * **Peers** are numbers that the method chooses. A peer that is looked up again, or that sends another
///   unexpected
///   message, keeps its number until [`Method::forget`].
/// * **Close.** After [`Method::close`] the method touches no memory of any operation and completes nothing;
///   every call
///   returns [`Error::NetDown`] at once.
pub trait Method: Send + Sync {
    /// Returns the method's properties. They never change.
    fn traits(&self) -> Traits;

    /// Returns the sizes of the largest messages, in bytes, inclusive. They may depend on a negotiation with
    /// the peer.
    fn limits(&self) -> Limits;

    /// Returns the peer of an address, which begins with the method's scheme and `://`. Resolves names, but
    /// does not wait for the peer.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: not an address of this method.
    fn lookup(&self, address: &str) -> Result<Peer, Error>;

    /// Returns a printable name of a peer, in particular of one that was not looked up.
    fn peer_name(&self, peer: Peer) -> String;

    /// Returns whether the first `bits` bits of a peer's address equal those of `wildcard`.
    ///
    /// # Errors
    ///
    /// [`Error::NoSys`]: the method's addresses have no ranges. [`Error::Inval`]: `wildcard` is not a valid
    /// range.
    fn in_range(&self, peer: Peer, wildcard: &str, bits: u32) -> Result<bool, Error> {
        let _ = (peer, wildcard, bits);
        Err(Error::NoSys)
    }

    /// Begins a send or a receive.
    ///
    /// # Errors
    ///
    /// Nothing was posted, and [`Request::op`] will never be completed.
    fn post(&self, request: &Request) -> Result<Posted, Error>;

    /// Requests the cancellation of a pending operation. An operation that the method does not know is
    /// ignored.
    ///
    /// # Errors
    ///
    /// [`Error::NoSys`]: the method cannot cancel.
    fn cancel(&self, op: OpId) -> Result<(), Error>;

    /// Makes progress for at most `wait`.
    ///
    /// # Errors
    ///
    /// The method as a whole failed. The failure of one operation is reported by its completion.
    fn test(&self, wanted: &Wanted<'_>, wait: Duration) -> Result<(), Error>;

    /// Makes progress for at most `wait`, and appends at most `capacity` unexpected messages of the class to
    /// `messages`, oldest first. Returns as soon as there is one. A method that receives no unexpected
    /// messages returns at once.
    ///
    /// # Errors
    ///
    /// The method as a whole failed.
    fn test_unexpected(
        &self,
        class: Class,
        capacity: usize,
        wait: Duration,
        messages: &mut Vec<Received>,
    ) -> Result<(), Error>;

    /// Returns whether an unexpected message of any class waits to be collected.
    fn unexpected_waiting(&self) -> bool;

    /// Ends the sleep of every thread in `test` and `test_unexpected`.
    fn wake(&self);

    /// Allocates memory for messages with a peer: zeroed, aligned to a page, or to at least 16 bytes if the
    /// method has memory of its own, and freed when the last clone of the span is dropped (by the `drop` of
    /// the span's keeper).
    ///
    /// # Errors
    ///
    /// [`Error::NoMem`].
    fn allocate(&self, peer: Peer, len: usize) -> Result<Span, Error> {
        let _ = peer;
        Ok(Span::pages(len)?)
    }

    /// Sets an option of one peer or, without a peer, of the method. A method accepts options that it does
    /// not know.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: invalid value.
    fn set(&self, peer: Option<Peer>, setting: &Setting) -> Result<(), Error>;

    /// Returns a property of one peer or, without a peer, of the method.
    ///
    /// # Errors
    ///
    /// [`Error::NoSys`]: the method does not know the answer.
    fn get(&self, peer: Option<Peer>, question: Question) -> Result<u64, Error>;

    /// Returns whether the interface may forget a peer without references, which is the case once the peer is
    /// disconnected.
    fn may_forget(&self, peer: Peer) -> bool;

    /// Forgets a peer. Its pending operations fail with [`Error::ConnReset`].
    fn forget(&self, peer: Peer);

    /// Closes the method; see "Close" in the contract of this trait.
    fn close(&self);
}

/// Properties of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// This side can receive unexpected messages.
    pub receives_unexpected: bool,
}

/// The largest messages of a method, in bytes, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest expected message.
    pub expected: usize,
    /// The largest unexpected message.
    pub unexpected: usize,
}

/// A peer, by a number that the method chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(pub u64);

/// A send or a receive as a method sees it.
#[derive(Debug)]
pub struct Request {
    /// The id under which the operation is completed.
    pub op: OpId,
    /// The context whose tests may collect it.
    pub context: ContextId,
    /// The other side.
    pub peer: Peer,
    /// What to do.
    pub kind: RequestKind,
    /// Matched together with the peer and the direction; delivered with an unexpected message.
    pub tag: Tag,
    /// The memory, in order. Segments may be empty, and the list may be empty.
    pub segments: Segments,
    /// The sum of the lengths of the segments.
    pub total: usize,
    /// Where the memory came from, according to the program. A method that depends on this must check it.
    pub memory: Memory,
}

/// The operation that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Send to a receive of the same tag.
    Send,
    /// Receive a message that was sent with the same tag.
    Receive,
    /// Send to a process that tests for unexpected messages of this class.
    SendUnexpected(Class),
}

/// The outcome of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// The operation has completed with this number of bytes. It must not be completed again.
    Immediate(usize),
    /// The operation will be completed later.
    Pending,
}

/// An unexpected message.
#[derive(Debug)]
pub struct Received {
    /// The sender.
    pub peer: Peer,
    /// Its tag.
    pub tag: Tag,
    /// Its bytes. The memory is freed when the last clone of the span is dropped.
    pub data: Span,
}

/// Receives the results of a method's operations.
#[derive(Clone, Debug)]
pub struct Completions {
    ops: Arc<Ops>,
}

impl Completions {
    pub(crate) fn new(ops: Arc<Ops>) -> Completions {
        Completions { ops }
    }

    /// Completes an operation with the number of bytes sent or received, or with the error.
    ///
    /// Ignores and counts an operation that is not pending.
    pub fn complete(&self, op: OpId, result: Result<usize, Error>) {
        self.ops.complete(op, result);
    }
}

/// What a test waits for.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    pub(crate) which: Which<'a>,
    pub(crate) unexpected_ends_wait: bool,
    pub(crate) met: &'a dyn Fn() -> bool,
}

/// The operations that a test waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// These. All were pending operations of the method when the test began.
    These(&'a [OpId]),
    /// Any operations of a context. A method may complete others meanwhile; it then ends the sleep of the
    /// tests that wait for those.
    Any {
        /// The context.
        context: ContextId,
        /// The most that the program takes.
        capacity: usize,
    },
}

impl Wanted<'_> {
    /// Returns the operations.
    #[must_use]
    pub fn which(&self) -> Which<'_> {
        self.which
    }

    /// Returns whether one of the operations has completed and can be collected. Cheap enough to call before
    /// every sleep. Takes a lock that is never held while a method is called.
    #[must_use]
    pub fn is_satisfied(&self) -> bool {
        (self.met)()
    }

    /// Returns whether the test also ends when an unexpected message waits.
    #[must_use]
    pub fn unexpected_ends_wait(&self) -> bool {
        self.unexpected_ends_wait
    }
}

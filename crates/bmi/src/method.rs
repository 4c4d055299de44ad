//! What a method is: the part below the interface that knows how messages travel.
//!
//! ```text
//!   program ── Bmi ── post ──▶ Method ── … ──▶ the peer
//!                └── test ──▶   │
//!                ◀─ complete ───┘  (Completions, at any time, on any thread)
//! ```
//!
//! # The contract
//!
//! The interface ([`crate::Bmi`]) has checked every argument that means the same for all methods:
//! ids, contexts, sizes against [`Method::limits`], lists against their totals. It keeps ids, user
//! values, contexts and completed operations that nobody has collected yet. A method keeps what
//! is in flight, and nothing of an operation after it has completed it.
//!
//! * **Post.** [`Method::post`] borrows the [`Request`]. It either finishes it
//!   ([`Posted::Immediate`]), or clones the spans, remembers it under [`Request::op`] and answers
//!   [`Posted::Pending`], or refuses it with an error and forgets it. It may sleep only where an
//!   option of the method asks for that.
//! * **Complete.** A pending operation is completed by exactly one
//!   [`Completions::complete`], from any thread, even before `post` has returned. Before that call
//!   the method has dropped its clones of the spans and will not touch the memory again. It may
//!   hold locks of its own: `complete` and `is_met` take one under which no method is called.
//! * **Test.** [`Method::test`] makes progress. It returns when [`Wanted::is_met`], when an
//!   unexpected message waits and [`Wanted::unexpected_ends_wait`], after a [`Method::wake`] or
//!   [`Method::close`], or when the time is over; it may return earlier for any reason of its own,
//!   and is then called again with what is left of the time. With no time it polls once. It does
//!   not sleep when `is_met` already, and it does not sleep busily. Many threads may be in it.
//!   [`Error::Intr`] ends the program's test, too, with what there is: where an option of the
//!   method asks for it, a signal ended the sleep.
//! * **Wake.** After [`Method::wake`] every thread that sleeps in `test` or `test_unexpected`
//!   returns soon. So does a thread that has already looked at `is_met` and not yet gone to sleep:
//!   a wake between the two may not be lost. A spurious wake costs little.
//! * **Cancel.** A request, not a command: the method completes the operation with
//!   [`Error::Cancel`] or, when data already moves, lets it take its course. It completes it once
//!   either way.
//! * **Peers** are numbers of the method's choosing. A peer that is looked up again, or that sends
//!   another unexpected message, has the same number until [`Method::forget`].
//! * **Close.** After [`Method::close`] the method touches no memory of any operation, completes
//!   nothing, and every call returns [`Error::NetDown`] at once.

use std::sync::Arc;
use std::time::Duration;

use sys::span::Span;

use crate::error::Error;
use crate::id::{Class, OpId, Tag};
use crate::ops::Ops;
use crate::option::{Question, Setting};
use crate::payload::{Memory, Segments};

/// Makes a method when it is first needed. What stands in a list of methods.
pub trait Factory: Send + Sync {
    /// The name in a list of methods, such as `bmi_tcp`.
    fn name(&self) -> &'static str;

    /// What the addresses of the method begin with, before `://`, such as `tcp`.
    fn scheme(&self) -> &'static str;

    /// Whether an address of the scheme is this factory's. Several factories of one scheme are several
    /// methods, each for its own addresses; the first that says yes gets the address.
    fn serves(&self, address: &str) -> bool {
        let _ = address;
        true
    }

    /// Makes the method ready: opens what it listens on, finds its daemon.
    ///
    /// # Errors
    ///
    /// Whatever keeps the method from working, such as [`Error::AddrInUse`] or
    /// [`Error::ConnRefused`].
    fn start(&self, setup: Setup) -> Result<Arc<dyn Method>, Error>;
}

/// What a method is started with.
#[derive(Debug)]
pub struct Setup {
    /// Which side this process is on.
    pub role: Role,
    /// Listen on exactly the host of the listen address, not on every one of this machine.
    pub bind_specific: bool,
    /// Where completed operations go.
    pub completions: Completions,
}

/// Which side a process is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It begins conversations.
    Client,
    /// It is looked up by others, too.
    Server {
        /// The part of the listen address that has the method's scheme, such as
        /// `tcp://node7:3334`.
        listen: String,
    },
}

/// A way for messages to travel. The module says what it promises and what it is promised.
pub trait Method: Send + Sync {
    /// What the interface must know about it. The answer never changes.
    fn traits(&self) -> Traits;

    /// The largest messages, in bytes, inclusive. They may depend on what was negotiated.
    fn limits(&self) -> Limits;

    /// The peer of an address, which begins with the method's scheme and `://`. Resolves, but
    /// does not wait for the peer.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: not an address of this method.
    fn lookup(&self, address: &str) -> Result<Peer, Error>;

    /// A printable name of a peer, most of all of one that was not looked up.
    fn peer_name(&self, peer: Peer) -> String;

    /// Whether a peer's address equals `wildcard` in its first `bits` bits.
    ///
    /// # Errors
    ///
    /// [`Error::NoSys`]: the method's addresses have no bits. [`Error::Inval`]: not a range.
    fn in_range(&self, peer: Peer, wildcard: &str, bits: u32) -> Result<bool, Error> {
        let _ = (peer, wildcard, bits);
        Err(Error::NoSys)
    }

    /// Hands over a send or a receive.
    ///
    /// # Errors
    ///
    /// Nothing was posted, and [`Request::op`] will never be completed.
    fn post(&self, request: &Request) -> Result<Posted, Error>;

    /// Asks for the end of a pending operation. One that the method does not have (any more) is
    /// no error.
    ///
    /// # Errors
    ///
    /// [`Error::NoSys`]: the method cannot cancel.
    fn cancel(&self, op: OpId) -> Result<(), Error>;

    /// Makes progress for at most `wait`.
    ///
    /// # Errors
    ///
    /// The method as a whole failed. What befell one operation is in its completion.
    fn test(&self, wanted: &Wanted<'_>, wait: Duration) -> Result<(), Error>;

    /// Makes progress for at most `wait`, and moves at most `capacity` unexpected messages of the
    /// class, oldest first, to the end of `messages`. Returns as soon as there is one. A method
    /// that receives none returns at once.
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

    /// Whether an unexpected message, of whatever class, waits to be collected.
    fn unexpected_waiting(&self) -> bool;

    /// Ends the sleep of every thread that is in `test` or `test_unexpected`.
    fn wake(&self);

    /// Memory for messages with a peer: zeroed, aligned to at least 16 bytes, freed when the last
    /// clone of the span goes (let the keeper's `drop` do it).
    ///
    /// # Errors
    ///
    /// [`Error::NoMem`].
    fn allocate(&self, peer: Peer, len: usize) -> Result<Span, Error> {
        let _ = peer;
        Ok(Span::zeroed(len)?)
    }

    /// Changes an option, for one peer or, without, for all. A method accepts the options that it
    /// does not know.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: not with this value.
    fn set(&self, peer: Option<Peer>, setting: &Setting) -> Result<(), Error>;

    /// Answers a question, about one peer or, without, about the method.
    ///
    /// # Errors
    ///
    /// [`Error::NoSys`]: the method does not know the answer.
    fn get(&self, peer: Option<Peer>, question: Question) -> Result<u64, Error>;

    /// Whether the interface may forget a peer to which nobody refers: it is disconnected.
    fn may_forget(&self, peer: Peer) -> bool;

    /// Forgets a peer. Operations on it that are pending fail with [`Error::ConnReset`].
    fn forget(&self, peer: Peer);

    /// The end, see the module.
    fn close(&self);
}

/// Properties of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// All contexts are one: an operation may be collected by a test of any context.
    pub single_context: bool,
    /// This side may get unexpected messages.
    pub receives_unexpected: bool,
}

/// The largest messages of a method, in bytes, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of an expected message.
    pub expected: usize,
    /// Of an unexpected message.
    pub unexpected: usize,
}

/// A method's number for somebody to talk to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(pub u64);

/// A send or a receive as a method sees it.
#[derive(Debug)]
pub struct Request {
    /// The name under which it is completed.
    pub op: OpId,
    /// The other side.
    pub peer: Peer,
    /// What it is.
    pub kind: Kind,
    /// Matched together with the peer and the direction; carried along for unexpected messages.
    pub tag: Tag,
    /// The memory, in order. Segments may have no bytes, and there may be no segment.
    pub segments: Segments,
    /// The sum of the lengths of the segments.
    pub total: usize,
    /// Where all of the memory came from, as the program says: to be checked where it matters.
    pub memory: Memory,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Send to a receive of the same tag.
    Send,
    /// Receive what was sent with the same tag.
    Receive,
    /// Send to whoever asks for unexpected messages of this class.
    SendUnexpected(Class),
}

/// How a post ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// Finished, with this number of bytes sent or received. It is not completed any more.
    Immediate(usize),
    /// To be completed.
    Pending,
}

/// An unexpected message.
#[derive(Debug)]
pub struct Received {
    /// Who sent it.
    pub peer: Peer,
    /// Its tag.
    pub tag: Tag,
    /// Its bytes, exactly. The memory is released when the last clone of the span goes.
    pub data: Span,
}

/// Where a method reports what has become of its operations.
#[derive(Clone, Debug)]
pub struct Completions {
    ops: Arc<Ops>,
}

impl Completions {
    pub(crate) fn new(ops: Arc<Ops>) -> Completions {
        Completions { ops }
    }

    /// Completes an operation: with the number of bytes sent or received, or with why it failed.
    ///
    /// An operation that is not pending is left alone, and counted.
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

/// The operations that a test asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// These, all of them pending operations of the method when the test began.
    These(&'a [OpId]),
    /// Whichever operations of the method, so many at most.
    Any {
        /// How many the program takes.
        capacity: usize,
    },
}

impl Wanted<'_> {
    /// The operations.
    #[must_use]
    pub fn which(&self) -> Which<'_> {
        self.which
    }

    /// Whether one of them has completed and can be collected. Cheap enough to ask before every
    /// sleep. Takes a lock under which nothing of a method is called.
    #[must_use]
    pub fn is_met(&self) -> bool {
        (self.met)()
    }

    /// Whether the test also ends when an unexpected message waits.
    #[must_use]
    pub fn unexpected_ends_wait(&self) -> bool {
        self.unexpected_ends_wait
    }
}

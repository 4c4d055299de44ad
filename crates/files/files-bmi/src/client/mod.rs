//! The client: a file system that uses a forwarder.

mod attempt;
mod bulk;
mod slots;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bmi::{Address, Bmi, Buffer, ContextId, Error, OpId, Payload, Question, Setting};
use files::transfer::filled;
use files::wire::encode_request;
use files::{Caller, Data, Errno, FileSystem, Handle, OUTCOME_UNKNOWN, Reply, Request, Segment};
use sys::span::Span;

use self::attempt::{Attempt, Ended};
use self::bulk::{Bulk, Spare};
use self::slots::{Place, Slots};
use crate::PIPELINED;
use crate::counters::ClientCounters;
use crate::options::{ClientOptions, SLOTS_MAX};
use crate::proto::{CallHead, ClientName, PIECE_FIRST, PIECE_MIN};

/// The file system of a forwarder. Any number of threads may use it.
///
/// A call survives the loss of the daemon, of the forwarder and of connections, until the deadline of the call.
pub struct BmiFiles {
    bmi: Arc<Bmi>,
    context: ContextId,
    server: Address,
    options: ClientOptions,
    name: ClientName,
    slots: Slots,
    /// The epoch of the forwarder that answered last; 0 for none.
    epoch: AtomicU64,
    /// The limit of a piece that this forwarder accepts, in bytes.
    piece: AtomicU32,
    /// Memory of pieces of data.
    spare: Spare,
    /// Memory of replies.
    replies: Spare,
    /// Operations that were cancelled and have not completed yet.
    left: Mutex<Vec<OpId>>,
    counters: ClientCounters,
}

/// How long posts wait in the daemon: an hour.
const POST_TIMEOUT: Duration = Duration::from_secs(3600);
/// First and last pause between attempts. Each pause is twice the one before, up to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// One call with all its attempts.
struct Call<'a> {
    request: &'a Request,
    message: Vec<u8>,
    place: Place,
    epoch: u64,
    deadline: Instant,
    /// Whether an earlier attempt may have arrived.
    repeats: bool,
    attempt: u32,
}

impl BmiFiles {
    /// Returns the file system of the forwarder at `address`, such as `zoid://` or `tcp://node7:3334`. The caller may
    /// use `bmi` for other purposes too.
    ///
    /// # Errors
    ///
    /// The error of the lookup of the address, [`Error::Busy`] if no context is free, [`Error::Io`] if the system
    /// provides no random numbers.
    pub fn connect(bmi: Arc<Bmi>, address: &str, options: ClientOptions) -> Result<Self, Error> {
        let server = bmi.lookup(address)?;
        bmi.set(Some(server), &PIPELINED)?;
        bmi.set(Some(server), &Setting::PostTimeout(POST_TIMEOUT))?;
        let mut name = ClientName::default();
        getrandom::fill(&mut name).map_err(|_| Error::Io)?;
        Ok(Self {
            context: bmi.open_context()?,
            bmi,
            server,
            options,
            name,
            slots: Slots::new(options.slots.clamp(1, SLOTS_MAX)),
            epoch: AtomicU64::new(0),
            piece: AtomicU32::new(PIECE_FIRST),
            spare: Spare::default(),
            replies: Spare::default(),
            left: Mutex::default(),
            counters: ClientCounters::default(),
        })
    }

    /// Returns the counters of this client.
    #[must_use]
    pub fn counters(&self) -> &ClientCounters {
        &self.counters
    }

    /// Returns zeroed memory. Files are written from it and read into it without a copy in this process.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub fn buffer(&self, length: usize) -> Result<Buffer, Errno> {
        let buffer = self.bmi.allocate(self.server, length);
        buffer.map_err(|_| Errno::ENOMEM)
    }

    /// Writes a buffer to one place of a file, without a copy in this process. Returns the buffer and the number of
    /// bytes written. The number is less than the length only if an error, such as a full disk, occurred in the
    /// middle.
    ///
    /// # Errors
    ///
    /// Those of [`FileSystem::write`].
    pub fn write_buffer(
        &self,
        caller: &Caller,
        handle: Handle,
        offset: u64,
        buffer: Buffer,
    ) -> (Buffer, Result<usize, Errno>) {
        let segments = whole(offset, &buffer);
        let request = Request::Write { handle, segments };
        self.with_buffer(caller, &request, buffer, Bulk::from_span)
    }

    /// Reads one place of a file into a buffer, without a copy in this process. Returns the buffer and the number of
    /// bytes read. The number is less than the length only at the end of the file.
    ///
    /// # Errors
    ///
    /// Those of [`FileSystem::read`].
    pub fn read_buffer(
        &self,
        caller: &Caller,
        handle: Handle,
        offset: u64,
        buffer: Buffer,
    ) -> (Buffer, Result<usize, Errno>) {
        let segments = whole(offset, &buffer);
        let request = Request::Read { handle, segments };
        self.with_buffer(caller, &request, buffer, Bulk::into_span)
    }

    fn with_buffer(
        &self,
        caller: &Caller,
        request: &Request,
        buffer: Buffer,
        bulk: impl FnOnce(Span) -> Bulk<'static, 'static>,
    ) -> (Buffer, Result<usize, Errno>) {
        let memory = buffer.memory();
        let span = buffer.into_span();
        let counted = request
            .check()
            .and_then(|()| caller.check())
            .and_then(|()| {
                match self.carry(caller, request, &mut bulk(span.clone()))? {
                    // The request has one segment, as long as the buffer.
                    Reply::Counts(counts) => Ok(counts.iter().sum::<u64>() as usize),
                    _ => Err(Errno::EPROTO),
                }
            });
        let payload = Payload::from_spans([span].into_iter().collect(), memory);
        (payload.into_buffer(), counted)
    }

    fn carry(
        &self,
        caller: &Caller,
        request: &Request,
        bulk: &mut Bulk<'_, '_>,
    ) -> Result<Reply, Errno> {
        // The call must carry the epoch of a forwarder. Otherwise a later forwarder could not decide whether it can
        // know of an earlier attempt.
        if !request.is_idempotent() && self.epoch.load(Ordering::Relaxed) == 0 {
            self.exchange(caller, &Request::Null, &mut Bulk::None)?;
        }
        let reply = self.exchange(caller, request, bulk)?;
        check_reply(request, reply)
    }

    fn exchange(
        &self,
        caller: &Caller,
        request: &Request,
        bulk: &mut Bulk<'_, '_>,
    ) -> Result<Reply, Errno> {
        self.counters.calls.up();
        self.collect_left();
        let deadline = Instant::now() + self.options.deadline;
        let Some(taken) = self.slots.take(deadline) else {
            self.counters.timed_out.up();
            return Err(Errno::ETIMEDOUT);
        };
        let mut call = Call {
            request,
            message: encode_request(caller, request),
            place: taken.place(),
            epoch: self.epoch.load(Ordering::Relaxed),
            deadline,
            repeats: false,
            attempt: 0,
        };
        let result = self.until_answered(&mut call, bulk);
        drop(taken);
        result
    }

    /// Makes attempts until one of them is answered or the deadline is reached.
    fn until_answered(&self, call: &mut Call<'_>, bulk: &mut Bulk<'_, '_>) -> Result<Reply, Errno> {
        let mut pause = PAUSES.0;
        loop {
            self.counters.attempts.up();
            match Attempt::new(self, call).run(bulk) {
                Ended::Answered(reply) => return reply,
                Ended::ShorterPieces => {}
                Ended::Refused(errno) => return Err(errno),
                Ended::Lost { maybe_arrived } => {
                    self.counters.lost.up();
                    call.repeats |= maybe_arrived;
                    if Instant::now() + pause >= call.deadline {
                        return Err(self.given_up(call));
                    }
                    thread::sleep(pause);
                    pause = PAUSES.1.min(pause * 2);
                }
            }
            call.attempt += 1;
        }
    }

    fn given_up(&self, call: &Call<'_>) -> Errno {
        if call.repeats && !call.request.is_idempotent() {
            self.counters.outcome_unknown.up();
            return OUTCOME_UNKNOWN;
        }
        self.counters.timed_out.up();
        Errno::ETIMEDOUT
    }

    /// Keeps an operation that was cancelled and has not completed, to collect its completion later.
    fn leave(&self, op: OpId) {
        self.left
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(op);
    }

    fn collect_left(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.retain(|op| matches!(self.bmi.test(*op, Duration::ZERO), Ok(None)));
    }

    /// Returns the limit of a piece that both ends accept, in bytes.
    fn piece(&self) -> u32 {
        let largest = self.bmi.get(None, Question::MaxSize).unwrap_or(0);
        // A message also has room for a head and a reply.
        let largest = largest.saturating_sub(64 << 10);
        let largest = u32::try_from(largest).unwrap_or(u32::MAX);
        self.piece
            .load(Ordering::Relaxed)
            .min(largest.max(PIECE_MIN))
    }

    fn head(&self, call: &Call<'_>) -> CallHead {
        CallHead {
            repeats: call.repeats,
            is_long: false,
            slot: call.place.slot,
            sequence: call.place.sequence,
            attempt: call.attempt,
            client: self.name,
            epoch: call.epoch,
            job: self.options.job,
            room: call.request.reply_max() as u32,
            piece: self.piece(),
            request: 0,
            data: 0,
        }
    }
}

impl FileSystem for BmiFiles {
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        request.check()?;
        caller.check()?;
        data.check(request)?;
        let mut bulk = match data {
            Data::Write(memory) if request.write_length() > 0 => Bulk::Write(memory),
            Data::Read(memory) if request.read_length() > 0 => Bulk::Read(memory),
            _ => Bulk::None,
        };
        self.carry(caller, request, &mut bulk)
    }
}

impl Drop for BmiFiles {
    fn drop(&mut self) {
        self.bmi.close_context(self.context);
    }
}

/// Returns the segment that covers a whole buffer at one place of a file.
fn whole(offset: u64, buffer: &Buffer) -> Vec<Segment> {
    let length = buffer.len() as u64;
    vec![Segment { offset, length }]
}

/// Checks that the counts of a reply fit the segments of its request.
fn check_reply(request: &Request, reply: Reply) -> Result<Reply, Errno> {
    if let (
        Request::Read { segments, .. } | Request::Write { segments, .. },
        Reply::Counts(counts),
    ) = (request, &reply)
    {
        let fits = counts.len() == segments.len()
            && segments
                .iter()
                .zip(counts)
                .all(|(segment, count)| *count <= segment.length);
        let end: u64 = segments.iter().map(|segment| segment.length).sum();
        if !fits || filled(segments, counts) > end {
            return Err(Errno::EPROTO);
        }
    }
    Ok(reply)
}

//! The client: a file system whose operations a gateway carries out.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use files::transfer::{Transfer, filled, gather, gather_into, scatter};
use files::wire::{decode_reply, encode_request};
use files::{Caller, Data, Errno, FileSystem, OUTCOME_UNKNOWN, Reply, Request, Segment};
use lnet_rpc::{Bulk, CallError, Client, Idempotence, REQUEST_BODY_MAX, Response};

use super::{FILE, LONG_FILE, PIECE, SEGMENTS, SHORT_FILE, join};

/// Calls of one read or write under way at once. While one call waits for an answer or a disk, others move
/// bytes.
const SIDE_BY_SIDE: usize = 4;

/// The file system behind a gateway on the network. Any number of threads may use it at once.
pub struct RemoteFiles {
    client: Client,
    deadline: Duration,
}

impl RemoteFiles {
    /// Makes a file system of the gateway that `client` calls. Each call completes within `deadline`. A call
    /// without an answer fails with `ETIMEDOUT`, or with [`OUTCOME_UNKNOWN`] if it may have been executed and
    /// must not be repeated.
    #[must_use]
    pub fn new(client: Client, deadline: Duration) -> Self {
        Self { client, deadline }
    }

    fn exchange(
        &self,
        caller: &Caller,
        request: &Request,
        bulk: Bulk,
    ) -> Result<(Reply, Vec<u8>), Errno> {
        let message = encode_request(caller, request);
        let is_long = message.len() > REQUEST_BODY_MAX;
        let (opcode, body, bulk) = match bulk {
            _ if !is_long => (FILE, message, bulk),
            Bulk::None => (LONG_FILE, Vec::new(), Bulk::Send(Bytes::from(message))),
            _ => return Err(Errno::EMSGSIZE),
        };
        let idempotence = if request.is_idempotent() {
            Idempotence::Idempotent
        } else {
            Idempotence::Once
        };
        let Response { body, bulk } = self.send(opcode, body, bulk, idempotence)?;
        let is_in_bulk = body.is_empty();
        let reply = decode_reply(if is_in_bulk { &bulk } else { &body });
        let reply = reply.map_err(|_| Errno::EPROTO)??;
        Ok((reply, bulk))
    }

    fn send(
        &self,
        opcode: u32,
        body: Vec<u8>,
        bulk: Bulk,
        idempotence: Idempotence,
    ) -> Result<Response, Errno> {
        let call = lnet_rpc::Request {
            opcode,
            body,
            bulk,
            idempotence,
            deadline: self.deadline,
        };
        let response = self.client.call(call);
        response.map_err(|error| errno_of(&error, idempotence))
    }

    /// Makes a call for a read, or for a write with its bytes in the body. Returns the reply and the bytes that were read.
    fn exchange_short(&self, body: Vec<u8>, bulk: Bulk) -> Result<(Reply, Vec<u8>), Errno> {
        let response = self.send(SHORT_FILE, body, bulk, Idempotence::Idempotent)?;
        let (reply, bytes) = super::split(&response.body).ok_or(Errno::EPROTO)?;
        let reply = decode_reply(reply).map_err(|_| Errno::EPROTO)??;
        if bytes.is_empty() {
            return Ok((reply, response.bulk));
        }
        self.client.reuse(response.bulk);
        Ok((reply, bytes.to_vec()))
    }

    /// Reads with several calls at once, each into its own part of the memory.
    fn read(
        &self,
        caller: &Caller,
        request: &Request,
        segments: &[Segment],
        memory: &mut [IoSliceMut<'_>],
    ) -> Result<Reply, Errno> {
        let mut transfer = Transfer::new(segments);
        let parts = Part::all(&transfer);
        let rooms = split(memory, &parts);
        let jobs: Vec<_> = parts.iter().zip(rooms).collect();
        let results = side_by_side(jobs, |(part, mut room)| {
            let (counts, bytes) = self.read_part(caller, request, part)?;
            if (bytes.len() as u64) < filled(&part.segments, &counts) {
                return Err(Errno::EPROTO);
            }
            scatter(&mut room, 0, &bytes);
            self.client.reuse(bytes);
            Ok(counts)
        });
        for (part, counts) in parts.iter().zip(results) {
            transfer.done(&part.range, &counts?)?;
        }
        Ok(Reply::Counts(transfer.into_counts()))
    }

    /// Writes with several calls at once. The bytes that were written before the first failure count.
    fn write(
        &self,
        caller: &Caller,
        request: &Request,
        segments: &[Segment],
        memory: &[IoSlice<'_>],
    ) -> Result<Reply, Errno> {
        let mut transfer = Transfer::new(segments);
        let parts = Part::all(&transfer);
        let results = side_by_side(parts.iter().collect(), |part: &Part| {
            let mut bytes = self.client.spare_memory();
            gather_into(&mut bytes, memory, &part.range);
            let bytes = Bytes::from(bytes);
            let done = self.write_part(caller, request, part, bytes.clone());
            self.client.reuse_sent(bytes);
            done
        });
        for (part, counts) in parts.iter().zip(results) {
            match counts {
                Ok(counts) => transfer.done(&part.range, &counts)?,
                Err(errno) if part.range.start == 0 => return Err(errno),
                Err(_) => break,
            }
            if !transfer.is_done_to(part.range.end) {
                break;
            }
        }
        Ok(Reply::Counts(transfer.into_counts()))
    }

    /// Makes one call of a read.
    fn read_part(
        &self,
        caller: &Caller,
        request: &Request,
        part: &Part,
    ) -> Result<(Vec<u64>, Vec<u8>), Errno> {
        let message = encode_request(caller, &part.of(request)?);
        let bulk = Bulk::Receive(part.length());
        match self.exchange_short(join(&message, &[]), bulk)? {
            (Reply::Counts(counts), bytes) => Ok((counts, bytes)),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Makes one call of a write.
    fn write_part(
        &self,
        caller: &Caller,
        request: &Request,
        part: &Part,
        bytes: Bytes,
    ) -> Result<Vec<u64>, Errno> {
        let request = part.of(request)?;
        let message = encode_request(caller, &request);
        let (reply, _) = if SHORT_HEAD + message.len() + bytes.len() <= REQUEST_BODY_MAX {
            self.exchange_short(join(&message, &bytes), Bulk::None)?
        } else {
            self.exchange(caller, &request, Bulk::Send(bytes))?
        };
        match reply {
            Reply::Counts(counts) => Ok(counts),
            _ => Err(Errno::EPROTO),
        }
    }
}

/// Bytes of a body before the message and the bytes of a file.
const SHORT_HEAD: usize = 4;

/// The part of a read or write that one call moves.
struct Part {
    /// The range of the memory, in bytes from its start.
    range: Range<u64>,
    /// The segments of the file.
    segments: Vec<Segment>,
}

impl Part {
    /// Returns the parts of a transfer, in their order.
    fn all(transfer: &Transfer<'_>) -> Vec<Self> {
        let mut parts = Vec::new();
        for piece in transfer.pieces(PIECE) {
            let mut start = piece.start;
            for segments in transfer.cut(&piece).chunks(SEGMENTS) {
                let length = segments.iter().map(|segment| segment.length).sum::<u64>();
                parts.push(Self {
                    range: start..start + length,
                    segments: segments.to_vec(),
                });
                start += length;
            }
        }
        parts
    }

    /// Returns the request for this part of a read or write.
    fn of(&self, request: &Request) -> Result<Request, Errno> {
        let segments = self.segments.clone();
        match *request {
            Request::Read { handle, .. } => Ok(Request::Read { handle, segments }),
            Request::Write { handle, .. } => Ok(Request::Write { handle, segments }),
            _ => Err(Errno::EINVAL),
        }
    }

    fn length(&self) -> u32 {
        // At most `PIECE`, so the length fits into 32 bits.
        (self.range.end - self.range.start) as u32
    }
}

/// Runs the jobs, some of them at the same time, and returns the results in the order of the jobs. After a
/// failure no further job is begun.
fn side_by_side<J: Send, R: Send>(
    jobs: Vec<J>,
    work: impl Fn(J) -> Result<R, Errno> + Sync,
) -> Vec<Result<R, Errno>> {
    if jobs.len() <= 1 {
        return jobs.into_iter().map(work).collect();
    }
    let workers = jobs.len().min(SIDE_BY_SIDE);
    let queue = Mutex::new(jobs.into_iter().enumerate());
    let results = Mutex::new(Vec::new());
    let has_failed = AtomicBool::new(false);
    let run = || {
        while !has_failed.load(Ordering::Relaxed) {
            let next = lock(&queue).next();
            let Some((number, job)) = next else { return };
            let result = work(job);
            has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
            lock(&results).push((number, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..workers {
            // If no thread can be started, this thread runs all the jobs.
            let _spawned = thread::Builder::new().spawn_scoped(scope, run);
        }
        run();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Splits the memory into the memory of each part. The parts follow each other without a gap.
fn split<'a>(memory: &'a mut [IoSliceMut<'_>], parts: &[Part]) -> Vec<Vec<IoSliceMut<'a>>> {
    let mut memory = memory.iter_mut().map(|part| &mut **part);
    let mut rest: &mut [u8] = &mut [];
    let mut take = |mut length: usize| {
        let mut room = Vec::new();
        while length > 0 {
            if rest.is_empty() {
                match memory.next() {
                    Some(next) => rest = next,
                    None => break,
                }
            }
            let whole = std::mem::take(&mut rest);
            let (now, later) = whole.split_at_mut(length.min(whole.len()));
            length -= now.len();
            room.push(IoSliceMut::new(now));
            rest = later;
        }
        room
    };
    parts
        .iter()
        .map(|part| take(part.length() as usize))
        .collect()
}

impl FileSystem for RemoteFiles {
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        request.check()?;
        caller.check()?;
        data.check(request)?;
        match (request, data) {
            (Request::Read { segments, .. }, Data::Read(memory)) if request.read_length() > 0 => {
                self.read(caller, request, segments, memory)
            }
            (Request::Write { segments, .. }, Data::Write(memory))
                if request.write_length() > 0 =>
            {
                self.write(caller, request, segments, memory)
            }
            (Request::Append { length, .. }, Data::Write(memory)) if *length > 0 => {
                let bytes = gather(memory, &(0..*length));
                let bulk = Bulk::Send(Bytes::from(bytes));
                Ok(self.exchange(caller, request, bulk)?.0)
            }
            _ => Ok(self.exchange(caller, request, room_for_reply(request))?.0),
        }
    }
}

/// Returns room for a reply that may be longer than a body.
fn room_for_reply(request: &Request) -> Bulk {
    match request {
        Request::ReadDir { .. }
        | Request::ReadLink { .. }
        | Request::GetXattr { .. }
        | Request::ListXattr { .. } => Bulk::Receive(request.reply_max() as u32),
        _ => Bulk::None,
    }
}

fn errno_of(error: &CallError, idempotence: Idempotence) -> Errno {
    match error {
        CallError::Remote { errno, .. } => Errno::from_raw(*errno),
        CallError::Refused | CallError::BadRequest(_) => Errno::EMSGSIZE,
        CallError::BadReply => Errno::EPROTO,
        CallError::Closed => Errno::ESHUTDOWN,
        _ if idempotence == Idempotence::Once => OUTCOME_UNKNOWN,
        CallError::Node(_) => Errno::EIO,
        _ => Errno::ETIMEDOUT,
    }
}

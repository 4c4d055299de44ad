//! What workers do: they execute operations on the file system, several as one if they continue one another.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;

use bmi::{Address, Buffer};
use files::transfer::Transfer;
use files::{Caller, Data, Errno, FileSystem, Handle, Reply, Request, Segment};

use super::buffers::Buffers;
use super::exchange::{Exchange, Held, Ready, read_need};
use super::schedule::{Owner, Stretch, Task as Scheduled};
use crate::counters::Counters;
use crate::proto::{ANSWER_BYTES, DATA_BYTES};

/// A task for a worker.
pub(super) struct Task {
    pub(super) exchange: u64,
    owner: Owner,
    from: Address,
    caller: Arc<Caller>,
    what: What,
}

enum What {
    /// A whole operation: the request, short data to write, and the memory with the data of an append.
    Operation(Arc<Request>, Vec<u8>, Option<(u64, Held)>),
    Write(Piece, Ready),
    Read(Piece),
}

/// A piece of a read or write.
struct Piece {
    handle: Handle,
    range: Range<u64>,
    segments: Vec<Segment>,
    /// Bytes of memory that a read of the piece needs.
    need: u64,
}

/// The result of a task.
pub(super) enum Done {
    /// The reply, and the memory that the task used.
    Operation(Result<Reply, Errno>, Option<(u64, Held)>),
    /// Number of bytes written of each segment of the piece.
    Write(Ready, Result<Vec<u64>, Errno>),
    Read(ReadDone),
}

/// The result of a read.
pub(super) struct ReadDone {
    pub(super) range: Range<u64>,
    /// Bytes of memory that the piece uses.
    pub(super) need: u64,
    /// Memory for a head, the data read, and the reply. `None` if there was no memory.
    pub(super) buffer: Option<Buffer>,
    /// Number of bytes read of each segment of the piece.
    pub(super) result: Result<Vec<u64>, Errno>,
}

impl Task {
    /// Returns the task for the whole operation of an exchange.
    pub(super) fn operation(id: u64, exchange: &mut Exchange, held: Option<(u64, Held)>) -> Self {
        let data = std::mem::take(&mut exchange.data);
        let what = What::Operation(Arc::clone(&exchange.request), data, held);
        Self::new(id, exchange, what)
    }

    pub(super) fn write(id: u64, exchange: &Exchange, ready: Ready) -> Self {
        let piece = Piece::new(exchange, ready.range.clone());
        Self::new(id, exchange, What::Write(piece, ready))
    }

    pub(super) fn read(id: u64, exchange: &Exchange, range: Range<u64>) -> Self {
        let piece = Piece::new(exchange, range);
        Self::new(id, exchange, What::Read(piece))
    }

    /// Returns the range of a read, and the memory that it needs.
    #[cfg(test)]
    pub(super) fn read_range(&self) -> Option<(Range<u64>, u64)> {
        match &self.what {
            What::Read(piece) => Some((piece.range.clone(), piece.need)),
            What::Operation(..) | What::Write(..) => None,
        }
    }

    fn new(id: u64, exchange: &Exchange, what: What) -> Self {
        Self {
            exchange: id,
            owner: exchange.owner(),
            from: exchange.from,
            caller: Arc::clone(&exchange.caller),
            what,
        }
    }
}

impl Piece {
    fn new(exchange: &Exchange, range: Range<u64>) -> Self {
        let handle = match &*exchange.request {
            Request::Read { handle, .. } | Request::Write { handle, .. } => *handle,
            _ => Handle::ROOT,
        };
        let segments = exchange.segments();
        Self {
            handle,
            segments: Transfer::new(segments).cut(&range),
            need: read_need(range.end - range.start, segments.len()),
            range,
        }
    }

    fn length(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }

    fn write(&self) -> Request {
        Request::Write {
            handle: self.handle,
            segments: self.segments.clone(),
        }
    }

    fn read(&self) -> Request {
        Request::Read {
            handle: self.handle,
            segments: self.segments.clone(),
        }
    }
}

impl Scheduled for Task {
    fn owner(&self) -> Owner {
        self.owner
    }

    fn caller(&self) -> &Caller {
        &self.caller
    }

    fn stretch(&self) -> Option<Stretch> {
        let (is_write, piece) = match &self.what {
            What::Operation(..) => return None,
            What::Write(piece, _) => (true, piece),
            What::Read(piece) => (false, piece),
        };
        let [segment] = &piece.segments[..] else {
            return None;
        };
        Some(Stretch {
            is_write,
            handle: piece.handle,
            offset: segment.offset,
            length: segment.length,
        })
    }
}

/// Executes one task, or several tasks that continue one another. Returns the result of each with its exchange.
pub(super) fn execute(
    files: &dyn FileSystem,
    buffers: &Buffers,
    counters: &Counters,
    tasks: Vec<Task>,
) -> Vec<(u64, Done)> {
    if tasks.len() > 1 {
        counters.merged_operations.up();
        counters.merged_pieces.add(tasks.len() as u64);
    }
    let is_write = matches!(
        tasks.first(),
        Some(Task {
            what: What::Write(..),
            ..
        })
    );
    let is_read = matches!(
        tasks.first(),
        Some(Task {
            what: What::Read(_),
            ..
        })
    );
    counters.operations.up();
    if is_write {
        return write(files, tasks);
    }
    if is_read {
        return read(files, buffers, tasks);
    }
    let one = |task: Task| (task.exchange, operation(files, task));
    tasks.into_iter().map(one).collect()
}

fn operation(files: &dyn FileSystem, task: Task) -> Done {
    let What::Operation(request, data, held) = task.what else {
        return Done::Operation(Err(Errno::EIO), None);
    };
    match held {
        Some((bytes, held)) => {
            let buffer = held.into_buffer();
            let length = request.write_length() as usize;
            let result = match buffer.get(DATA_BYTES..DATA_BYTES + length) {
                Some(data) => {
                    files.call(&task.caller, &request, Data::Write(&[IoSlice::new(data)]))
                }
                None => Err(Errno::EIO),
            };
            Done::Operation(result, Some((bytes, Held::from(buffer))))
        }
        None if request.write_length() > 0 => {
            let memory = [IoSlice::new(&data)];
            let result = files.call(&task.caller, &request, Data::Write(&memory));
            Done::Operation(result, None)
        }
        None => Done::Operation(files.call(&task.caller, &request, Data::None), None),
    }
}

fn write(files: &dyn FileSystem, tasks: Vec<Task>) -> Vec<(u64, Done)> {
    let mut pieces = Vec::with_capacity(tasks.len());
    let mut caller = Arc::default();
    for task in tasks {
        if let What::Write(piece, ready) = task.what {
            caller = task.caller;
            pieces.push((task.exchange, piece, ready.bytes, ready.held.into_buffer()));
        }
    }
    let memory: Vec<IoSlice<'_>> = pieces
        .iter()
        .filter_map(|(_, piece, _, buffer)| buffer.get(DATA_BYTES..DATA_BYTES + piece.length()))
        .map(IoSlice::new)
        .collect();
    let together = joined(pieces.iter().map(|(_, piece, ..)| piece)).map(|(handle, segments)| {
        let request = Request::Write { handle, segments };
        files.call(&caller, &request, Data::Write(&memory))
    });
    let done: Vec<_> = match split(together, pieces.iter().map(|(_, piece, ..)| piece)) {
        Some(counts) => counts.into_iter().map(|count| Ok(vec![count])).collect(),
        None => {
            let each = pieces.iter().zip(&memory).map(|((_, piece, ..), memory)| {
                let memory = [IoSlice::new(memory)];
                counts(files.call(&caller, &piece.write(), Data::Write(&memory)))
            });
            each.collect()
        }
    };
    drop(memory);
    let ended = pieces.into_iter().zip(done);
    let ended = ended.map(|((id, piece, bytes, buffer), result)| {
        let ready = Ready {
            range: piece.range,
            bytes,
            held: Held::from(buffer),
        };
        (id, Done::Write(ready, result))
    });
    ended.collect()
}

fn read(files: &dyn FileSystem, buffers: &Buffers, tasks: Vec<Task>) -> Vec<(u64, Done)> {
    let mut caller = Arc::default();
    let mut pieces = Vec::with_capacity(tasks.len());
    for task in tasks {
        if let What::Read(piece) = task.what {
            caller = task.caller;
            let held = buffers.take(task.from, piece.need as usize);
            pieces.push((task.exchange, piece, held.map(Held::into_buffer)));
        }
    }
    let has_all = pieces.iter().all(|(_, _, buffer)| buffer.is_some());
    let together = joined(pieces.iter().map(|(_, piece, _)| piece)).filter(|_| has_all);
    let together = together.map(|(handle, segments)| {
        let mut memory: Vec<IoSliceMut<'_>> = pieces
            .iter_mut()
            .filter_map(|(_, piece, buffer)| room(piece, buffer))
            .collect();
        let request = Request::Read { handle, segments };
        files.call(&caller, &request, Data::Read(&mut memory))
    });
    let together = split(together, pieces.iter().map(|(_, piece, _)| piece));
    let mut together = together.map(Vec::into_iter);
    let ended = pieces.into_iter().map(|(id, piece, mut buffer)| {
        let result = match &mut together {
            Some(counts) => Ok(vec![counts.next().unwrap_or(0)]),
            None => match room(&piece, &mut buffer) {
                Some(memory) => {
                    counts(files.call(&caller, &piece.read(), Data::Read(&mut [memory])))
                }
                None => Err(Errno::ENOMEM),
            },
        };
        let done = ReadDone {
            range: piece.range,
            need: piece.need,
            buffer,
            result,
        };
        (id, Done::Read(done))
    });
    ended.collect()
}

/// Returns the memory for the data of a piece: behind the head of its message.
fn room<'a>(piece: &Piece, buffer: &'a mut Option<Buffer>) -> Option<IoSliceMut<'a>> {
    let room = buffer
        .as_mut()?
        .get_mut(ANSWER_BYTES..ANSWER_BYTES + piece.length())?;
    Some(IoSliceMut::new(room))
}

fn counts(result: Result<Reply, Errno>) -> Result<Vec<u64>, Errno> {
    match result? {
        Reply::Counts(counts) => Ok(counts),
        _ => Err(Errno::EPROTO),
    }
}

/// Returns the pieces, which continue one another, as one segment; `None` for a single piece.
fn joined<'a>(mut pieces: impl Iterator<Item = &'a Piece>) -> Option<(Handle, Vec<Segment>)> {
    let first = pieces.next()?;
    let mut whole = *first.segments.first()?;
    let mut count = 1;
    for piece in pieces {
        whole.length += piece.segments.first()?.length;
        count += 1;
    }
    (count > 1).then(|| (first.handle, vec![whole]))
}

/// Returns the number of bytes transferred for each piece. Returns `None` if the pieces must be executed one by one:
/// after a failed or short transfer of the whole, each piece needs a result of its own.
fn split<'a>(
    together: Option<Result<Reply, Errno>>,
    pieces: impl Iterator<Item = &'a Piece>,
) -> Option<Vec<u64>> {
    let Some(Ok(Reply::Counts(counts))) = together else {
        return None;
    };
    let lengths: Vec<u64> = pieces
        .map(|piece| piece.range.end - piece.range.start)
        .collect();
    (counts == [lengths.iter().sum::<u64>()]).then_some(lengths)
}

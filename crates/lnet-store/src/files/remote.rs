//! The client: a file system that is behind a gateway.

use std::io::{IoSlice, IoSliceMut};
use std::time::Duration;

use bytes::Bytes;
use files::transfer::{Transfer, filled, gather, scatter};
use files::wire::{REPLY_MAX, decode_reply, encode_request};
use files::{Caller, Data, Errno, FileSystem, OUTCOME_UNKNOWN, Reply, Request, Segment};
use lnet_rpc::{Bulk, CallError, Client, Idempotence, REQUEST_BODY_MAX, Response};

use super::{FILE, LONG_FILE, PIECE, SEGMENTS};

/// The file system of a gateway on the network. Any number of threads may use it.
pub struct RemoteFiles {
    client: Client,
    deadline: Duration,
}

impl RemoteFiles {
    /// The gateway that `client` calls. Each call ends within `deadline`: with `ETIMEDOUT`, or with
    /// [`OUTCOME_UNKNOWN`] where it may have been executed and must not be repeated.
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
        let call = lnet_rpc::Request {
            opcode,
            body,
            bulk,
            idempotence,
            deadline: self.deadline,
        };
        let response = self.client.call(call);
        let Response { body, bulk } = response.map_err(|error| errno_of(&error, idempotence))?;
        let is_in_bulk = body.is_empty();
        let reply = decode_reply(if is_in_bulk { &bulk } else { &body });
        let reply = reply.map_err(|_| Errno::EPROTO)??;
        Ok((reply, bulk))
    }

    fn read(
        &self,
        caller: &Caller,
        request: &Request,
        segments: &[Segment],
        memory: &mut [IoSliceMut<'_>],
    ) -> Result<Reply, Errno> {
        let mut transfer = Transfer::new(segments);
        for piece in transfer.pieces(PIECE) {
            let parts = transfer.cut(&piece);
            let mut position = piece.start;
            for parts in parts.chunks(SEGMENTS) {
                let length = parts.iter().map(|part| part.length).sum::<u64>();
                let bulk = Bulk::Receive(length as u32);
                let (counts, bytes) = self.part(caller, request, parts, bulk)?;
                if (bytes.len() as u64) < filled(parts, &counts) {
                    return Err(Errno::EPROTO);
                }
                scatter(memory, position, &bytes);
                transfer.done(&(position..position + length), &counts)?;
                position += length;
            }
        }
        Ok(Reply::Counts(transfer.into_counts()))
    }

    fn write(
        &self,
        caller: &Caller,
        request: &Request,
        segments: &[Segment],
        memory: &[IoSlice<'_>],
    ) -> Result<Reply, Errno> {
        let mut transfer = Transfer::new(segments);
        for piece in transfer.pieces(PIECE) {
            let parts = transfer.cut(&piece);
            let mut position = piece.start;
            for parts in parts.chunks(SEGMENTS) {
                let length = parts.iter().map(|part| part.length).sum::<u64>();
                let range = position..position + length;
                position = range.end;
                let bulk = Bulk::Send(Bytes::from(gather(memory, &range)));
                match self.part(caller, request, parts, bulk) {
                    Ok((counts, _)) => transfer.done(&range, &counts)?,
                    // What was written before counts.
                    Err(errno) if range.start == 0 => return Err(errno),
                    Err(_) => return Ok(Reply::Counts(transfer.into_counts())),
                }
                if !transfer.is_done_to(range.end) {
                    return Ok(Reply::Counts(transfer.into_counts()));
                }
            }
        }
        Ok(Reply::Counts(transfer.into_counts()))
    }

    /// One call of a read or write.
    fn part(
        &self,
        caller: &Caller,
        request: &Request,
        parts: &[Segment],
        bulk: Bulk,
    ) -> Result<(Vec<u64>, Vec<u8>), Errno> {
        let segments = parts.to_vec();
        let request = match *request {
            Request::Read { handle, .. } => Request::Read { handle, segments },
            Request::Write { handle, .. } => Request::Write { handle, segments },
            _ => return Err(Errno::EINVAL),
        };
        match self.exchange(caller, &request, bulk)? {
            (Reply::Counts(counts), bytes) => Ok((counts, bytes)),
            _ => Err(Errno::EPROTO),
        }
    }
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

/// Room for what may be longer than a reply's body.
fn room_for_reply(request: &Request) -> Bulk {
    match request {
        Request::ReadDir { .. }
        | Request::ReadLink { .. }
        | Request::GetXattr { .. }
        | Request::ListXattr { .. } => Bulk::Receive(REPLY_MAX as u32),
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

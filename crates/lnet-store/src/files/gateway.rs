//! The gateway: carries file operations out for clients on the network.

use std::io::{IoSlice, IoSliceMut};

use files::transfer::{Transfer, filled};
use files::wire::{REQUEST_MAX, decode_request, encode_reply};
use files::{Caller, Data, Errno, Export, FileSystem, Handle, Reply, Request, Segment};
use lnet_rpc::{BulkError, BulkKind, Call, Handler, REPLY_BODY_MAX};

use super::{FILE, LONG_FILE, PIECE};

/// Carries out file operations on a file system; give it to [`lnet_rpc::Server::start`].
///
/// Each worker of the server holds at most [`PIECE`] bytes of a file. The caller's identity is what the client
/// says: what to believe of it is configured in the file system.
pub struct FileGateway<F> {
    files: F,
    coherent: Vec<u8>,
}

/// Why a call has no reply of the protocol.
struct Failed(Errno);

impl From<BulkError> for Failed {
    fn from(error: BulkError) -> Self {
        Self(Errno::from_raw(error.errno()))
    }
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Self {
        Self(errno)
    }
}

impl<F: FileSystem> FileGateway<F> {
    /// A gateway to `files`.
    pub fn new(files: F) -> Self {
        let coherent = Vec::new();
        Self { files, coherent }
    }

    /// Declares that `files` is the coherent file system of this name, which other gateways show too: what one has
    /// changed, all show at once. Clients change between gateways that say the same name.
    #[must_use]
    pub fn coherent(mut self, name: &[u8]) -> Self {
        self.coherent = name.to_vec();
        self
    }

    fn execute(&self, call: &mut Call<'_>) -> Result<Vec<u8>, Failed> {
        let message = match call.opcode() {
            FILE => call.body().to_vec(),
            LONG_FILE if call.bulk_len() as usize <= REQUEST_MAX => fetch(call)?,
            LONG_FILE => return Err(Failed(Errno::EMSGSIZE)),
            _ => return Err(Failed(Errno::ENOSYS)),
        };
        let reply = match decode_request(&message) {
            Ok((caller, request)) => self.carry_out(call, &caller, &request)?,
            Err(malformed) => Err(malformed.errno()),
        };
        answer(call, encode_reply(&reply))
    }

    /// The outer error is one of the transport.
    fn carry_out(
        &self,
        call: &mut Call<'_>,
        caller: &Caller,
        request: &Request,
    ) -> Result<Result<Reply, Errno>, Failed> {
        let length = request.read_length().max(request.write_length());
        if length > 0 && (length > PIECE || u64::from(call.bulk_len()) != length) {
            return Err(Failed(Errno::EPROTO));
        }
        match request {
            Request::Read { segments, .. } if length > 0 => {
                self.read(call, caller, request, segments)
            }
            Request::Write { handle, segments } if length > 0 => {
                self.write(call, caller, *handle, segments)
            }
            Request::Append { .. } if length > 0 => {
                let bytes = fetch(call)?;
                let memory = [IoSlice::new(&bytes)];
                Ok(self.files.call(caller, request, Data::Write(&memory)))
            }
            _ => Ok(self
                .files
                .call(caller, request, Data::None)
                .map(|reply| self.complete(reply))),
        }
    }

    /// Adds what the gateway knows to what its file system says.
    fn complete(&self, reply: Reply) -> Reply {
        match reply {
            Reply::Export(export) => Reply::Export(Export {
                coherent: self.coherent.clone(),
                ..export
            }),
            reply => reply,
        }
    }

    fn read(
        &self,
        call: &mut Call<'_>,
        caller: &Caller,
        request: &Request,
        segments: &[Segment],
    ) -> Result<Result<Reply, Errno>, Failed> {
        let mut bytes = vec![0; request.read_length() as usize];
        let mut memory = [IoSliceMut::new(&mut bytes)];
        let result = self.files.call(caller, request, Data::Read(&mut memory));
        if let Ok(Reply::Counts(counts)) = &result {
            let length = filled(segments, counts);
            send(call, &bytes[..length as usize])?;
        }
        Ok(result)
    }

    /// Writes each piece while the next ones are on their way.
    fn write(
        &self,
        call: &mut Call<'_>,
        caller: &Caller,
        handle: Handle,
        segments: &[Segment],
    ) -> Result<Result<Reply, Errno>, Failed> {
        let mut transfer = Transfer::new(segments);
        let mut failed = None;
        call.read_bulk::<Failed>(|offset, bytes| {
            let start = u64::from(offset);
            let piece = start..start + bytes.len() as u64;
            // Nothing behind a failure is written, but the client may send on.
            if failed.is_none() && transfer.is_done_to(start) {
                let segments = transfer.cut(&piece);
                let request = Request::Write { handle, segments };
                let memory = [IoSlice::new(bytes)];
                match self.files.call(caller, &request, Data::Write(&memory)) {
                    Ok(Reply::Counts(counts)) => transfer.done(&piece, &counts)?,
                    Ok(_) => return Err(Failed(Errno::EPROTO)),
                    Err(errno) => failed = Some(errno),
                }
            }
            Ok(())
        })?;
        let counts = transfer.into_counts();
        Ok(match failed {
            Some(errno) if counts.iter().all(|&count| count == 0) => Err(errno),
            _ => Ok(Reply::Counts(counts)),
        })
    }
}

impl<F: FileSystem + 'static> Handler for FileGateway<F> {
    fn call(&self, call: &mut Call<'_>) -> lnet_rpc::Reply {
        match self.execute(call) {
            Ok(body) => lnet_rpc::Reply::ok(body),
            Err(Failed(errno)) => lnet_rpc::Reply::error(errno as i32, Vec::new()),
        }
    }
}

/// Takes all that the client sends.
fn fetch(call: &mut Call<'_>) -> Result<Vec<u8>, Failed> {
    let mut bytes = Vec::with_capacity(call.bulk_len() as usize);
    call.read_bulk::<Failed>(|_, piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes)
}

fn send(call: &mut Call<'_>, bytes: &[u8]) -> Result<(), Failed> {
    // At most `PIECE`, or what the client has room for.
    let length = u32::try_from(bytes.len()).map_err(|_| Errno::EMSGSIZE)?;
    call.write_bulk::<Failed>(length, |offset, piece| {
        let start = offset as usize;
        piece.copy_from_slice(&bytes[start..start + piece.len()]);
        Ok(())
    })
}

/// A long reply goes into the room that the client offers.
fn answer(call: &mut Call<'_>, reply: Vec<u8>) -> Result<Vec<u8>, Failed> {
    if reply.len() <= REPLY_BODY_MAX {
        return Ok(reply);
    }
    if call.bulk() != BulkKind::Write || reply.len() > call.bulk_len() as usize {
        return Err(Failed(Errno::EMSGSIZE));
    }
    send(call, &reply)?;
    Ok(Vec::new())
}

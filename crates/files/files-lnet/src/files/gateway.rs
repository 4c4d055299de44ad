//! The gateway, which carries out file operations for clients on the network.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;

use files::transfer::{Transfer, filled};
use files::wire::{REQUEST_MAX, decode_request, encode_reply};
use files::{Caller, Data, Errno, Export, FileSystem, Handle, Located, Reply, Request, Segment};
use lnet_rpc::{
    BulkError, BulkKind, Call, ClientId, Entropy, Handler, REPLY_BODY_MAX, Restored, Session,
};

use super::busy::{Busy, Held, Key};
use super::evidence::{self, Subject};
use super::log::{LogError, ReplyLog};
use super::sealed::Sealed;
use super::{FILE, LONG_FILE, PIECE, SHORT_FILE, SHORT_READ, Step, join, split};

/// A gateway that carries out file operations on a file system; a handler for [`lnet_rpc::Server::start`].
///
/// Each worker of the server holds at most [`PIECE`] bytes of a file. The caller's identity is what the client
/// claims; the file system's configuration says how much of that claim it believes.
pub struct FileGateway<F> {
    files: Sealed<F>,
    coherent: Vec<u8>,
    once: Option<Once<Sealed<F>>>,
    on_step: Option<Box<dyn Fn(Step) + Send + Sync>>,
}

/// The parts that make operations run once across restarts.
struct Once<F> {
    log: Arc<ReplyLog>,
    busy: Busy,
    path_of: fn(&F, Handle) -> Option<Vec<u8>>,
}

/// The error of a call that has no reply of the file protocol.
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
    /// Makes a gateway to `files`. The key with which the gateway checks handles comes from `entropy`.
    pub fn new(files: F, entropy: &Entropy) -> Self {
        Self {
            files: Sealed::new(files, entropy),
            coherent: Vec::new(),
            once: None,
            on_step: None,
        }
    }

    /// Declares that `files` is the coherent file system with this name, which other gateways serve, too. A
    /// change by one gateway shows at once at all of them. Clients may change between gateways with the same
    /// name. Declare this before [`FileGateway::remember`]: if other gateways change the files, the files do
    /// not show the outcome of an operation after a crash.
    #[must_use]
    pub fn coherent(mut self, name: &[u8]) -> Self {
        self.coherent = name.to_vec();
        self
    }

    /// Makes operations that are not idempotent run once, also across restarts of the gateway, with the help of
    /// `log`. First settles the calls that an earlier life left in the log.
    ///
    /// # Errors
    ///
    /// The log cannot be written.
    pub fn remember(mut self, log: Arc<ReplyLog>) -> Result<Self, LogError>
    where
        F: Located,
    {
        let is_shared = !self.coherent.is_empty();
        let decide = |intent: &[u8]| match is_shared {
            true => evidence::unknown(),
            false => evidence::decide_outcome(&self.files, intent),
        };
        let refresh = |intent: &[u8], reply| evidence::refresh(&self.files, intent, reply);
        log.settle(decide, refresh)?;
        self.once = Some(Once {
            log,
            busy: Busy::default(),
            path_of: Located::path_of,
        });
        Ok(self)
    }

    /// Calls `on_step` at each step of an operation that must run once. Serves tests that end the process
    /// there.
    #[doc(hidden)]
    #[must_use]
    pub fn on_step(mut self, on_step: impl Fn(Step) + Send + Sync + 'static) -> Self {
        self.on_step = Some(Box::new(on_step));
        self
    }

    fn pass(&self, step: Step) {
        if let Some(on_step) = &self.on_step {
            on_step(step);
        }
    }

    fn execute(&self, call: &mut Call<'_>) -> Result<Vec<u8>, Failed> {
        if let Some(once) = &self.once {
            once.log.write_news();
        }
        let fetched;
        let message = match call.opcode() {
            SHORT_FILE => return self.execute_short(call),
            FILE => call.body(),
            LONG_FILE if call.bulk_len() as usize <= REQUEST_MAX => {
                fetched = fetch(call)?;
                &fetched[..]
            }
            LONG_FILE => return Err(Failed(Errno::EMSGSIZE)),
            _ => return Err(Failed(Errno::ENOSYS)),
        };
        let (caller, request) = match decode_request(message) {
            Ok(decoded) => decoded,
            Err(malformed) => return Ok(encode_reply(&Err(malformed.errno()))),
        };
        check_length(call, &request)?;
        let Some(once) = &self.once else {
            let reply = self.carry_out(call, &caller, &request)?;
            return answer(call, encode_reply(&reply));
        };
        if !request.is_idempotent() {
            return self.run_once(call, once, &caller, &request);
        }
        let _held = self.beside(once, &caller, &request);
        let reply = self.carry_out(call, &caller, &request)?;
        answer(call, encode_reply(&reply))
    }

    /// Carries out a read, or a write whose bytes are in the body.
    fn execute_short(&self, call: &mut Call<'_>) -> Result<Vec<u8>, Failed> {
        let (message, written) = split(call.body()).ok_or(Errno::EPROTO)?;
        let (caller, request) = match decode_request(message) {
            Ok(decoded) => decoded,
            Err(malformed) => return Ok(join(&encode_reply(&Err(malformed.errno())), &[])),
        };
        let mut bytes = Vec::new();
        let reply = match &request {
            // The client may have gone to another gateway.
            Request::Write { .. } if call.is_over() => Err(Errno::ETIMEDOUT),
            Request::Write { handle, segments }
                if written.len() as u64 == request.write_length() =>
            {
                let mut transfer = Transfer::new(segments);
                let piece = 0..written.len() as u64;
                let done = self.write_piece(&caller, *handle, &mut transfer, piece, written)?;
                done.map(|()| Reply::Counts(transfer.into_counts()))
            }
            Request::Read { segments, .. } if written.is_empty() && request.read_length() > 0 => {
                check_length(call, &request)?;
                self.read(call, &caller, &request, segments, Some(&mut bytes))?
            }
            _ => return Err(Failed(Errno::EPROTO)),
        };
        Ok(join(&encode_reply(&reply), &bytes))
    }

    /// Keeps a request away from the names and objects that show the outcome of an operation that runs once.
    fn beside<'a>(
        &self,
        once: &'a Once<Sealed<F>>,
        caller: &Caller,
        request: &Request,
    ) -> Held<'a> {
        match request {
            Request::Create { .. } => {
                let subject = Subject::of(&self.files, caller, request);
                once.busy.alone(subject.keys())
            }
            Request::SetAttr { handle, .. }
            | Request::Allocate { handle, .. }
            | Request::SetXattr { handle, .. } => {
                once.busy.beside_others(vec![Key::Object(*handle)])
            }
            _ => once.busy.beside_others(Vec::new()),
        }
    }

    fn run_once(
        &self,
        call: &mut Call<'_>,
        once: &Once<Sealed<F>>,
        caller: &Caller,
        request: &Request,
    ) -> Result<Vec<u8>, Failed> {
        // Fetch the data before any lock is held, because the client may be slow.
        let data = match request {
            Request::Append { length: 1.., .. } => fetch(call)?,
            _ => Vec::new(),
        };
        let body = self.log_and_run(call, once, caller, request, &data);
        self.pass(Step::BeforeAnswer);
        Ok(body)
    }

    fn log_and_run(
        &self,
        call: &Call<'_>,
        once: &Once<Sealed<F>>,
        caller: &Caller,
        request: &Request,
        data: &[u8],
    ) -> Vec<u8> {
        let subject = Subject::of(&self.files, caller, request);
        let _held = once.busy.alone(subject.keys());
        let path_of = |handle| (once.path_of)(&self.files, handle);
        let intent = subject.intent(&self.files, &path_of, caller, request, data);
        self.pass(Step::BeforeIntent);
        let (client, xid) = (call.client(), call.xid());
        let written = once.log.intend(client, xid, call.lowest(), intent);
        if written.is_err() {
            return encode_reply(&Err(Errno::EIO));
        }
        self.pass(Step::AfterIntent);
        let memory = [IoSlice::new(data)];
        let data = match data {
            [] => Data::None,
            _ => Data::Write(&memory),
        };
        let body = encode_reply(&self.carry_out_in_time(call, caller, request, data));
        self.pass(Step::AfterOperation);
        let reply = lnet_rpc::Reply::ok(body.clone());
        once.log.reply(client, xid, &reply);
        self.pass(Step::AfterReply);
        body
    }

    /// Carries out a request. The outer error is an error of the transport, the inner error one of the file
    /// system.
    fn carry_out(
        &self,
        call: &mut Call<'_>,
        caller: &Caller,
        request: &Request,
    ) -> Result<Result<Reply, Errno>, Failed> {
        let length = request.read_length().max(request.write_length());
        match request {
            Request::Read { segments, .. } if length > 0 => {
                self.read(call, caller, request, segments, None)
            }
            Request::Write { handle, segments } if length > 0 => {
                self.write(call, caller, *handle, segments)
            }
            Request::Append { .. } if length > 0 => {
                let bytes = fetch(call)?;
                let memory = [IoSlice::new(&bytes)];
                Ok(self.carry_out_in_time(call, caller, request, Data::Write(&memory)))
            }
            _ => Ok(self
                .carry_out_in_time(call, caller, request, Data::None)
                .map(|reply| self.complete(reply))),
        }
    }

    /// Carries out a request, unless the request is a change or about a lock, and the client has stopped waiting: the
    /// client may have gone to another gateway.
    fn carry_out_in_time(
        &self,
        call: &Call<'_>,
        caller: &Caller,
        request: &Request,
        data: Data<'_>,
    ) -> Result<Reply, Errno> {
        if (request.is_change() || request.is_of_locks()) && call.is_over() {
            return Err(Errno::ETIMEDOUT);
        }
        self.files.call(caller, request, data)
    }

    /// Adds what the gateway knows to the reply of its file system.
    fn complete(&self, reply: Reply) -> Reply {
        match reply {
            Reply::Export(export) => Reply::Export(Export {
                coherent: self.coherent.clone(),
                remembers: self.once.is_some(),
                ..export
            }),
            reply => reply,
        }
    }

    /// Reads, and sends the bytes. Up to [`SHORT_READ`] bytes of one segment go into `short` instead.
    fn read(
        &self,
        call: &mut Call<'_>,
        caller: &Caller,
        request: &Request,
        segments: &[Segment],
        short: Option<&mut Vec<u8>>,
    ) -> Result<Result<Reply, Errno>, Failed> {
        if let (&Request::Read { handle, .. }, &[segment]) = (request, segments) {
            return self.read_one(call, caller, handle, segment, short);
        }
        let mut bytes = vec![0; request.read_length() as usize];
        let mut memory = [IoSliceMut::new(&mut bytes)];
        let result = self.files.call(caller, request, Data::Read(&mut memory));
        if let Ok(Reply::Counts(counts)) = &result {
            let length = filled(segments, counts);
            send(call, &bytes[..length as usize])?;
        }
        Ok(result)
    }

    /// Reads each piece into the memory that the piece is sent from, while other pieces are on their way. Sends
    /// as many bytes as the file had at the beginning. If the file is truncated meanwhile, the missing bytes
    /// are sent as zeros, and the count does not include them.
    fn read_one(
        &self,
        call: &mut Call<'_>,
        caller: &Caller,
        handle: Handle,
        Segment { offset, length }: Segment,
        short: Option<&mut Vec<u8>>,
    ) -> Result<Result<Reply, Errno>, Failed> {
        let size = match self.files.getattr(caller, handle) {
            Ok(attributes) => attributes.size,
            Err(errno) => return Ok(Err(errno)),
        };
        let length = length.min(size.saturating_sub(offset));
        if length == 0 {
            // Read even so: the file system must still decide whether the caller may read.
            let read = self.files.read(caller, handle, offset, &mut []);
            return Ok(read.map(|_| Reply::Counts(vec![0])));
        }
        if let Some(short) = short.filter(|_| length <= SHORT_READ) {
            short.resize(length as usize, 0);
            let read = self.files.read(caller, handle, offset, short);
            short.truncate(*read.as_ref().unwrap_or(&0));
            return Ok(read.map(|count| Reply::Counts(vec![count as u64])));
        }
        let (mut count, mut failed) = (0, None);
        // At most `PIECE`, so the length fits into 32 bits.
        call.write_bulk::<Failed>(length as u32, |start, piece| {
            let start = u64::from(start);
            let read = match failed {
                None => self.files.read(caller, handle, offset + start, piece),
                Some(_) => Ok(0),
            };
            let read = read.unwrap_or_else(|errno| {
                failed = Some(errno);
                0
            });
            // The memory may hold bytes of other files, which the client must not see.
            piece[read..].fill(0);
            if count == start {
                count += read as u64;
            }
            Ok(())
        })?;
        Ok(match failed {
            Some(errno) => Err(errno),
            None => Ok(Reply::Counts(vec![count])),
        })
    }

    /// Writes each piece while the next pieces are on their way.
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
            // After a failure nothing more is written, but the client may continue to send.
            if failed.is_none() && transfer.is_done_to(start) {
                let written = self.write_piece(caller, handle, &mut transfer, piece, bytes)?;
                failed = written.err();
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

impl<F: FileSystem> FileGateway<F> {
    /// Writes a part of a transfer. The outer error is one of the protocol, the inner one that of the file system.
    fn write_piece(
        &self,
        caller: &Caller,
        handle: Handle,
        transfer: &mut Transfer<'_>,
        piece: Range<u64>,
        bytes: &[u8],
    ) -> Result<Result<(), Errno>, Failed> {
        let segments = transfer.cut(&piece);
        let request = Request::Write { handle, segments };
        let memory = [IoSlice::new(bytes)];
        let busy = self.once.as_ref().map(|once| &once.busy);
        let _held = busy.map(|busy| busy.beside_others(vec![Key::Object(handle)]));
        match self.files.call(caller, &request, Data::Write(&memory)) {
            Ok(Reply::Counts(counts)) => transfer.done(&piece, &counts)?,
            Ok(_) => return Err(Failed(Errno::EPROTO)),
            Err(errno) => return Ok(Err(errno)),
        }
        Ok(Ok(()))
    }
}

impl<F: FileSystem + 'static> Handler for FileGateway<F> {
    fn call(&self, call: &mut Call<'_>) -> lnet_rpc::Reply {
        match self.execute(call) {
            Ok(body) => lnet_rpc::Reply::ok(body),
            Err(Failed(errno)) => lnet_rpc::Reply::error(errno as i32, Vec::new()),
        }
    }

    fn restore(&self) -> Option<Restored> {
        self.once.as_ref().map(|once| once.log.restored())
    }

    fn session_opened(&self, session: &Session) {
        if let Some(once) = &self.once {
            once.log.came(session);
        }
    }

    fn session_ended(&self, client: ClientId) {
        if let Some(once) = &self.once {
            once.log.gone(client);
        }
    }
}

/// Checks that the call has as many bytes of bulk as the request says, and at most `PIECE`.
fn check_length(call: &Call<'_>, request: &Request) -> Result<(), Failed> {
    let length = request.read_length().max(request.write_length());
    if length > 0 && (length > PIECE || u64::from(call.bulk_len()) != length) {
        return Err(Failed(Errno::EPROTO));
    }
    Ok(())
}

/// Fetches all the bytes that the client sends.
fn fetch(call: &mut Call<'_>) -> Result<Vec<u8>, Failed> {
    let mut bytes = Vec::with_capacity(call.bulk_len() as usize);
    call.read_bulk::<Failed>(|_, piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes)
}

fn send(call: &mut Call<'_>, bytes: &[u8]) -> Result<(), Failed> {
    // At most `PIECE`, or the room that the client has.
    let length = u32::try_from(bytes.len()).map_err(|_| Errno::EMSGSIZE)?;
    call.write_bulk::<Failed>(length, |offset, piece| {
        let start = offset as usize;
        piece.copy_from_slice(&bytes[start..start + piece.len()]);
        Ok(())
    })
}

/// Returns the body of the reply. Sends a reply that is too long for a body as bulk, into the room that the
/// client offers.
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

//! A scripted daemon for clients, frame by frame, which records what it receives.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use zoid::Options;
use zoid_proto::fwd::{
    Caps, Data, Frame, FrameHeader, FrameType, Grant, Place, Readiness, RecvReply, TestEntry,
    Welcome,
};
use zoid_proto::{List, Status};

use crate::bed::End;

/// The answer to a forwarded call.
pub(crate) enum Reply {
    /// A status and nothing else.
    Refused(Status),
    /// The message is granted a buffer and accepted.
    Taken,
    /// A message.
    Message(Vec<u8>),
    /// The number of ready operations of each entry.
    Ready(Vec<u32>),
    /// The same, said after the next test for which nothing is ready.
    ReadyLater(Vec<u32>),
    /// The connection is closed.
    Hangup,
}

/// A forwarded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Send { tag: i32 },
    Receive { tag: i32 },
    Test(Vec<TestEntry>),
}

/// The daemon, and its records.
pub(crate) struct Stub {
    directory: TempDir,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// All frames after HELLO.
    frames: Vec<FrameType>,
    calls: Vec<Call>,
}

impl Stub {
    /// Answers every call according to `script`.
    pub(crate) fn new(script: impl FnMut(&Call) -> Reply + Send + 'static) -> Stub {
        let directory = TempDir::new().unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let seen = Arc::<Mutex<Seen>>::default();
        let told = Arc::clone(&seen);
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            // The conversation ends when the client is gone.
            let _over = serve(&stream, &told, script);
        });
        Stub { directory, seen }
    }

    pub(crate) fn client(&self) -> End {
        End::client(Options {
            socket: Some(self.directory.path().join("socket")),
            ..Options::default()
        })
    }

    /// Returns the calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.seen.lock().unwrap().calls.clone()
    }

    /// Returns the frames so far, without heartbeats.
    pub(crate) fn frames(&self) -> Vec<FrameType> {
        let seen = self.seen.lock().unwrap();
        let alive = [FrameType::PING, FrameType::PONG];
        let frames = seen.frames.iter().copied();
        frames.filter(|kind| !alive.contains(kind)).collect()
    }
}

fn serve(
    stream: &UnixStream,
    seen: &Mutex<Seen>,
    mut script: impl FnMut(&Call) -> Reply,
) -> std::io::Result<()> {
    let mut later = None;
    loop {
        let (header, body) = read(stream)?;
        let frame = Frame::decode(&header, &body).unwrap();
        if header.frame_type != FrameType::HELLO {
            seen.lock().unwrap().frames.push(header.frame_type);
        }
        let (call, total) = match frame {
            Frame::Hello(_) => {
                say(stream, header.request, Status::NONE, &welcome(), &[])?;
                continue;
            }
            Frame::Ping => {
                say(stream, header.request, Status::NONE, &Frame::Pong, &[])?;
                continue;
            }
            Frame::SendReq(ask) => (Call::Send { tag: ask.tag }, ask.total),
            Frame::RecvReq(ask) => (Call::Receive { tag: ask.tag }, 0),
            Frame::TestReq(ask) => (Call::Test(ask.entries.iter().collect()), 0),
            _ => continue,
        };
        seen.lock().unwrap().calls.push(call.clone());
        match script(&call) {
            Reply::Hangup => return Ok(()),
            Reply::ReadyLater(counts) => later = Some((header.request, call, counts)),
            Reply::Ready(counts) => {
                let is_idle = counts.iter().all(|count| *count == 0);
                answer(stream, header.request, &call, total, Reply::Ready(counts))?;
                if let Some((request, call, counts)) = later.take_if(|_| is_idle) {
                    answer(stream, request, &call, 0, Reply::Ready(counts))?;
                }
            }
            reply => answer(stream, header.request, &call, total, reply)?,
        }
    }
}

fn answer(
    mut stream: &UnixStream,
    request: u32,
    call: &Call,
    total: u64,
    reply: Reply,
) -> std::io::Result<()> {
    let place = Place::Stream;
    match (call, reply) {
        (Call::Send { .. }, Reply::Refused(status)) => {
            say(stream, request, status, &Frame::SendDone, &[])
        }
        (Call::Send { .. }, _) => {
            let grant = Frame::Grant(Grant { grant: 1, place });
            say(stream, request, Status::NONE, &grant, &[])?;
            let mut left = total;
            loop {
                let (header, _) = read(stream)?;
                let mut bytes = vec![0; header.payload_len as usize];
                stream.read_exact(&mut bytes)?;
                left -= header.payload_len;
                if left == 0 {
                    break;
                }
            }
            say(stream, request, Status::DONE, &Frame::SendDone, &[])
        }
        (Call::Receive { .. }, Reply::Message(bytes)) => {
            let total = bytes.len() as u64;
            let reply = Frame::RecvReply(RecvReply {
                total,
                grant: 1,
                place,
            });
            say(stream, request, Status::DONE, &reply, &[])?;
            let data = Frame::Data(Data {
                grant: 1,
                offset: 0,
            });
            say(stream, request, Status::NONE, &data, &bytes)
        }
        (Call::Receive { .. }, Reply::Refused(status)) => {
            let reply = Frame::RecvReply(RecvReply::NOTHING);
            say(stream, request, status, &reply, &[])
        }
        (Call::Test(_), Reply::Ready(counts)) => {
            let reply = Frame::TestReply(Readiness {
                ready: counts.iter().sum(),
                counts: List::new(&counts),
            });
            say(stream, request, Status::NONE, &reply, &[])
        }
        (call, _) => panic!("no answer to {call:?}"),
    }
}

pub(crate) fn welcome() -> Frame<'static> {
    Frame::Welcome(Welcome {
        pid: 0,
        epoch: 1,
        server_session: 1,
        max_unexpected: 8192,
        max_expected: 4 << 20,
        heartbeat_ms: 60_000,
        credits: 0,
        caps: Caps::MULTIPLEX,
        version: 1,
    })
}

pub(crate) fn read(mut stream: &UnixStream) -> std::io::Result<(FrameHeader, Vec<u8>)> {
    let mut bytes = [0; FrameHeader::LEN];
    stream.read_exact(&mut bytes)?;
    let header = FrameHeader::decode(&bytes).unwrap();
    let mut body = vec![0; header.body_len as usize];
    stream.read_exact(&mut body)?;
    Ok((header, body))
}

pub(crate) fn say(
    mut stream: &UnixStream,
    request: u32,
    status: Status,
    frame: &Frame<'_>,
    payload: &[u8],
) -> std::io::Result<()> {
    let header = FrameHeader {
        payload_len: payload.len() as u64,
        ..FrameHeader::new(frame.frame_type(), request).with_status(status)
    };
    let mut bytes = vec![0; frame.encoded_len()];
    frame.encode(header, &mut bytes).unwrap();
    stream.write_all(&bytes)?;
    stream.write_all(payload)
}

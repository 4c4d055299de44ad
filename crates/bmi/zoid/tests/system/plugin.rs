//! A scripted daemon for servers: a segment, a control queue, and a script that answers each command as it
//! likes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bmi::Error;
use sys::{Mapping, MessageQueue, QueueAccess, QueueShape, SharedMemory};
use tempfile::TempDir;
use testkit::QueueTurn;
use zoid::Options;
use zoid_proto::ctl::{InitReply, Reply, ReplyHeader, Request, RequestHeader};
use zoid_proto::{DaemonState, Extent, Instance, List, SEGMENT_HEADER_LEN, SegmentHeader, Status};

use crate::bed::{End, LIMIT};

pub(crate) const TOTAL: u64 = 256 << 10;
pub(crate) const UNEXPECTED: u64 = 64 << 10;
const EPOCH: u64 = 7;
const SESSION: u64 = 9;

/// The daemon, as the test sees it.
pub(crate) struct Plugin {
    instance: Instance,
    directory: TempDir,
    over: Arc<AtomicBool>,
    running: Option<JoinHandle<()>>,
    _turn: QueueTurn,
}

/// The daemon, as the script sees it.
pub(crate) struct Desk {
    instance: Instance,
    mapping: Mapping,
    replies: RefCell<HashMap<u32, MessageQueue>>,
}

/// Marks the daemon as dead if the script fails, so that nobody waits for it.
struct Dies(Mapping);

impl Drop for Dies {
    fn drop(&mut self) {
        self.0
            .store_u32(SegmentHeader::STATE_AT, DaemonState::DEAD.0);
    }
}

impl Plugin {
    /// Attaches servers, and passes every other command to `script`.
    pub(crate) fn new(
        mut script: impl FnMut(&Desk, &RequestHeader, &Request<'_>) + Send + 'static,
    ) -> Plugin {
        Plugin::raw(1, move |desk, header, request| match request {
            Request::Init(_) => desk.answer(header, &Reply::Init(INIT)),
            Request::Fini => desk.answer(header, &Reply::Empty),
            _ => script(desk, header, request),
        })
    }

    /// Passes every command to `script`; the segment has this layout version.
    pub(crate) fn raw(
        layout: u32,
        mut script: impl FnMut(&Desk, &RequestHeader, &Request<'_>) + Send + 'static,
    ) -> Plugin {
        let turn = QueueTurn::take();
        let instance: Instance = format!("v{}", std::process::id()).parse().unwrap();
        let shape = QueueShape {
            messages: 10,
            message_bytes: 4096,
        };
        let name = instance.control_queue();
        let control = MessageQueue::create(&name, QueueAccess::Receive, shape).unwrap();
        let object = SharedMemory::create(&instance.segment(), 4096 + TOTAL).unwrap();
        object.write_at(0, &segment_header(layout)).unwrap();
        let desk = Desk {
            instance: instance.clone(),
            mapping: object.map(SEGMENT_HEADER_LEN + TOTAL as usize).unwrap(),
            replies: RefCell::default(),
        };
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let running = std::thread::spawn(move || {
            let _end = Dies(desk.mapping.clone());
            let mut bytes = [0; 4096];
            while !ended.load(Ordering::Relaxed) {
                if let Ok(len) = control.receive(&mut bytes, Duration::from_millis(20)) {
                    let header = RequestHeader::decode(&bytes[..len]).unwrap();
                    let request = Request::decode(&header, &bytes[..len]).unwrap();
                    script(&desk, &header, &request);
                }
            }
        });
        Plugin {
            instance,
            directory: TempDir::new().unwrap(),
            over,
            running: Some(running),
            _turn: turn,
        }
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            instance: self.instance.clone(),
            socket: Some(self.directory.path().join("socket")),
            server_connect: Some(LIMIT),
            ..Options::default()
        }
    }

    /// Returns the error of a server that tries to attach.
    pub(crate) fn refuses(&self) -> Error {
        let zoid = zoid::Zoid::new(self.options());
        let server = bmi::Bmi::builder().method(zoid).listen("zoid://").start();
        match server {
            Ok(_) => panic!("the server was not refused"),
            Err(error) => error,
        }
    }

    /// Starts a server that knows client 0. The script must answer its first test for unexpected messages
    /// with [`Desk::greet`].
    pub(crate) fn serve(&self) -> End {
        let mut server = End::server(self.options());
        server.peer = server.next_unexpected().from;
        server
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let ran = self.running.take().map(JoinHandle::join);
        // They exist, whatever has failed.
        let _removed = sys::unlink_queue(&self.instance.control_queue());
        let _removed = sys::unlink_shared_memory(&self.instance.segment());
        if !std::thread::panicking() {
            ran.unwrap().expect("the script holds");
        }
    }
}

pub(crate) const INIT: InitReply = InitReply {
    session: SESSION,
    epoch: EPOCH,
    total: TOTAL,
    unexpected: UNEXPECTED,
    max_unexpected: 8192,
    max_expected: 128 << 10,
    heartbeat_ms: 60_000,
    pset_capacity: 8,
};

impl Desk {
    pub(crate) fn answer(&self, to: &RequestHeader, reply: &Reply<'_>) {
        let mut message = [0; 4096];
        let len = reply.encode(self.header(to), &mut message).unwrap();
        self.put(to, &message[..len]);
    }

    pub(crate) fn reject(&self, to: &RequestHeader, status: Status) {
        let mut message = [0; ReplyHeader::LEN];
        let header = ReplyHeader::rejection(to, status, EPOCH);
        header.encode(&mut message).unwrap();
        self.put(to, &message);
    }

    /// Sends a reply in bytes, for a test that changes some of them.
    pub(crate) fn put(&self, to: &RequestHeader, message: &[u8]) {
        let slot = to.slot.expect("a command that is answered");
        let mut replies = self.replies.borrow_mut();
        let queue = replies.entry(slot).or_insert_with(|| {
            let name = self.instance.reply_queue(std::process::id(), slot);
            MessageQueue::open(&name, QueueAccess::Send).unwrap()
        });
        queue.try_send(message).unwrap();
    }

    pub(crate) fn header(&self, to: &RequestHeader) -> ReplyHeader {
        ReplyHeader {
            session: SESSION,
            ..ReplyHeader::rejection(to, Status::NONE, EPOCH)
        }
    }

    /// Hands out one message of client 0.
    pub(crate) fn greet(&self, to: &RequestHeader) {
        let message = zoid_proto::ctl::UnexpectedMessage {
            peer: 0,
            tag: 0,
            class: 0,
            generation: 0,
            offset: 0,
            size: 5,
        };
        self.answer(to, &Reply::UnexpectedTest(List::new(&[message])));
    }

    /// Writes into the segment like a client's message.
    pub(crate) fn fill(&self, place: Extent, bytes: &[u8]) {
        let offset = SEGMENT_HEADER_LEN + place.offset as usize;
        let span = self.mapping.span(offset, bytes.len()).unwrap();
        span.copy_in(bytes);
    }
}

/// Returns the beginning of the header page with this layout version.
fn segment_header(layout: u32) -> Vec<u8> {
    let mut bytes = b"ZBMISHM1".to_vec();
    bytes.extend(layout.to_le_bytes());
    bytes.extend(4096_u32.to_le_bytes());
    for word in [TOTAL, UNEXPECTED, 8192, 128 << 10, EPOCH] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(std::process::id().to_le_bytes());
    // State: ready.
    bytes.extend(1_u32.to_le_bytes());
    bytes.resize(SEGMENT_HEADER_LEN, 0);
    bytes
}

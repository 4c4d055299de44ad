//! A server that is nothing but commands.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sys::{Mapping, MessageQueue, QueueAccess, QueueShape, SharedMemory, unlink_queue};
use zoid_proto::ctl::{
    Completion, Init, InitReply, Post, PostOutcome, Reply, ReplyHeader, Request, RequestHeader,
    Test, TestSelection, UnexpectedMessage, UnexpectedTest,
};
use zoid_proto::{Array, Extent, Instance, List, SEGMENT_HEADER_LEN, SegmentHeader, Status};

use super::{LONG, Process};

/// How long a reply is waited for until the daemon is looked at again.
const SLICE: Duration = Duration::from_millis(100);

/// An attached server, or one that only has queues.
pub struct Server {
    instance: Instance,
    /// The daemon's process.
    daemon: u32,
    process: u32,
    control: MessageQueue,
    replies: BTreeMap<u32, MessageQueue>,
    pub session: u64,
    pub init: Option<InitReply>,
    sequence: u64,
    pub mapping: Mapping,
}

impl Server {
    pub fn attach(daemon: &Process) -> Self {
        Self::attach_as(daemon, std::process::id()).unwrap()
    }

    /// Under the identity of another process, which the daemon will watch.
    pub fn attach_as(daemon: &Process, process: u32) -> Result<Self, Status> {
        let mut server = Self::unattached(daemon, process);
        let name = server.instance.reply_queue(process, 0);
        let init = Request::Init(Init {
            unix_pid: process,
            uid: 0,
            library_version: 1,
            reply_queue: &name,
        });
        let (header, bytes) = server.call(0, &init);
        if header.status.is_error() {
            return Err(header.status);
        }
        let Reply::Init(reply) = Reply::decode(&header, &bytes).unwrap() else {
            panic!("{header:?}");
        };
        server.session = reply.session;
        server.init = Some(reply);
        Ok(server)
    }

    /// Queues and mapping, and nothing said.
    pub fn unattached(daemon: &Process, process: u32) -> Self {
        let instance = daemon.instance.clone();
        let control = MessageQueue::open(&instance.control_queue(), QueueAccess::Send).unwrap();
        let object = SharedMemory::open(&instance.segment()).unwrap();
        let length = usize::try_from(object.size().unwrap()).unwrap();
        let mut server = Self {
            instance,
            daemon: daemon.id(),
            process,
            control,
            replies: BTreeMap::new(),
            session: 0,
            init: None,
            sequence: 0,
            mapping: object.map(length).unwrap(),
        };
        server.open_slot(0);
        server
    }

    pub fn open_slot(&mut self, slot: u32) {
        let name = self.instance.reply_queue(self.process, slot);
        let _absent = unlink_queue(&name);
        let shape = QueueShape {
            messages: 2,
            message_bytes: 4096,
        };
        let queue = MessageQueue::create(&name, QueueAccess::Receive, shape).unwrap();
        self.replies.insert(slot, queue);
    }

    /// The header page.
    pub fn header(&self) -> SegmentHeader {
        let mut page = [0; SEGMENT_HEADER_LEN];
        self.mapping
            .span(0, SEGMENT_HEADER_LEN)
            .unwrap()
            .copy_out(&mut page);
        SegmentHeader::decode(&page).unwrap()
    }

    /// Sends bytes as they are.
    pub fn raw(&self, message: &[u8]) {
        self.control.send(message, LONG).unwrap();
    }

    pub fn ask(&mut self, slot: Option<u32>, request: &Request<'_>) -> u64 {
        self.sequence += 1;
        let header = RequestHeader {
            opcode: request.opcode(),
            len: 0,
            slot,
            session: self.session,
            sequence: self.sequence,
            spilled: false,
        };
        let mut message = vec![0; request.encoded_len()];
        let length = request.encode(header, &mut message).unwrap();
        self.raw(&message[..length]);
        self.sequence
    }

    pub fn hear(&self, slot: u32, limit: Duration) -> Option<(ReplyHeader, Vec<u8>)> {
        let mut bytes = vec![0; 4096];
        let length = self.replies[&slot].receive(&mut bytes, limit).ok()?;
        bytes.truncate(length);
        Some((ReplyHeader::decode(&bytes).unwrap(), bytes))
    }

    pub fn call(&mut self, slot: u32, request: &Request<'_>) -> (ReplyHeader, Vec<u8>) {
        let sequence = self.ask(Some(slot), request);
        loop {
            let (header, bytes) = self.hear_while_it_lives(slot).expect("no reply");
            // Others are the late replies to commands that a test had spoilt.
            if header.sequence == sequence {
                return (header, bytes);
            }
        }
    }

    /// The next reply; `None` when the daemon dies, because nobody answers on a queue then.
    fn hear_while_it_lives(&self, slot: u32) -> Option<(ReplyHeader, Vec<u8>)> {
        let began = Instant::now();
        loop {
            let is_dead = sys::process_start(self.daemon).is_none();
            if let Some(heard) = self.hear(slot, SLICE) {
                return Some(heard);
            }
            if is_dead || began.elapsed() > LONG {
                return None;
            }
        }
    }

    /// The bytes of the segment behind its header.
    pub fn memory(&self, offset: u64, len: usize) -> sys::span::Span {
        let offset = usize::try_from(offset).unwrap() + SEGMENT_HEADER_LEN;
        self.mapping.span(offset, len).unwrap()
    }

    fn post<'a>(&self, peer: i32, tag: i32, bmi_id: u64, segments: &'a [Extent]) -> Post<'a> {
        Post {
            bmi_id,
            peer,
            tag,
            not_immediate: false,
            total: segments.iter().map(|extent| extent.len).sum(),
            segments: Array::Inline(List::new(segments)),
        }
    }

    fn posted(&mut self, request: &Request<'_>) -> Result<PostOutcome, Status> {
        let (header, bytes) = self.call(0, request);
        if header.status.is_error() {
            return Err(header.status);
        }
        match Reply::decode(&header, &bytes).unwrap() {
            Reply::Post(outcome) => Ok(outcome),
            other => panic!("{other:?}"),
        }
    }

    pub fn post_recv(
        &mut self,
        peer: i32,
        tag: i32,
        bmi_id: u64,
        segments: &[Extent],
    ) -> Result<PostOutcome, Status> {
        let post = self.post(peer, tag, bmi_id, segments);
        self.posted(&Request::PostRecv(post))
    }

    pub fn post_send(
        &mut self,
        peer: i32,
        tag: i32,
        bmi_id: u64,
        segments: &[Extent],
    ) -> Result<PostOutcome, Status> {
        let post = self.post(peer, tag, bmi_id, segments);
        self.posted(&Request::PostSend(post))
    }

    /// TEST for any operation.
    pub fn test(&mut self, timeout_ms: u32) -> Vec<Completion> {
        let request = Request::Test(Test {
            timeout_ms,
            wake_on_unexpected: false,
            selection: TestSelection::Any { capacity: 64 },
        });
        let (header, bytes) = self.call(0, &request);
        match Reply::decode(&header, &bytes).unwrap() {
            Reply::Test(reply) => reply.completions.iter().collect(),
            other => panic!("{other:?} {header:?}"),
        }
    }

    pub fn unexpected(&mut self, capacity: u32, idle_ms: u32) -> Vec<UnexpectedMessage> {
        let request = Request::UnexpectedTest(UnexpectedTest {
            capacity,
            class: 0,
            idle_ms,
        });
        let (header, bytes) = self.call(0, &request);
        match Reply::decode(&header, &bytes).unwrap() {
            Reply::UnexpectedTest(list) => list.iter().collect(),
            other => panic!("{other:?} {header:?}"),
        }
    }

    pub fn free(&mut self, offset: u64) {
        self.ask(None, &Request::UnexpectedFree { offset });
    }

    pub fn fini(&mut self) {
        let (header, _) = self.call(0, &Request::Fini);
        assert_eq!(header.status, Status::NONE);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for slot in self.replies.keys() {
            let _absent = unlink_queue(&self.instance.reply_queue(self.process, *slot));
        }
    }
}

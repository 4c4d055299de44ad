//! A client that sends and receives raw frames.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use zoid_proto::Status;
use zoid_proto::fwd::{
    Caps, Data, Frame, FrameFlags, FrameHeader, FrameType, Hello, MessageKind, RecvReq, SendInline,
    SendReq, TestEntry, TestReq, Welcome,
};

use super::{LONG, Process};

trait Stream: Read + Write + Send {}
impl Stream for UnixStream {}
impl Stream for TcpStream {}

/// A connection that counts its bytes.
pub struct Client {
    stream: Box<dyn Stream>,
    next: u32,
    pub bytes_out: usize,
    pub bytes_in: usize,
    pub pid: i32,
}

/// A received frame.
#[derive(Debug)]
pub struct Got {
    pub header: FrameHeader,
    pub body: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Got {
    pub fn frame(&self) -> Frame<'_> {
        Frame::decode(&self.header, &self.body).unwrap()
    }
}

pub fn introduction() -> Hello {
    let mut uuid = [0; 16];
    std::fs::File::open("/dev/urandom")
        .unwrap()
        .read_exact(&mut uuid)
        .unwrap();
    Hello {
        version_min: 1,
        version_max: 1,
        caps: Caps::MULTIPLEX,
        uuid,
        unix_pid: std::process::id(),
        previous_epoch: 0,
        previous_pid: -1,
        job: 0,
    }
}

pub fn encode(header: FrameHeader, frame: &Frame<'_>, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader {
        payload_len: payload.len() as u64,
        ..header
    };
    let mut bytes = vec![0; frame.encoded_len()];
    frame.encode(header, &mut bytes).unwrap();
    bytes.extend(payload);
    bytes
}

impl Client {
    /// Connects and sends nothing.
    pub fn connect(daemon: &Process) -> Self {
        let stream = UnixStream::connect(daemon.socket()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self::of(Box::new(stream))
    }

    pub fn connect_tcp(daemon: &Process) -> Self {
        let stream = TcpStream::connect(daemon.address()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self::of(Box::new(stream))
    }

    fn of(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            next: 1,
            bytes_out: 0,
            bytes_in: 0,
            pid: -1,
        }
    }

    /// Connects and attaches.
    pub fn attach(daemon: &Process) -> Self {
        let mut client = Self::connect(daemon);
        client.hello(introduction()).unwrap();
        client
    }

    pub fn hello(&mut self, hello: Hello) -> Result<Welcome, Status> {
        self.say(
            FrameHeader::new(FrameType::HELLO, 1),
            &Frame::Hello(hello),
            &[],
        );
        let got = self.hear();
        let Frame::Welcome(welcome) = got.frame() else {
            panic!("{got:?}");
        };
        if got.header.status.is_error() {
            return Err(got.header.status);
        }
        self.pid = welcome.pid;
        Ok(welcome)
    }

    pub fn raw(&mut self, bytes: &[u8]) -> bool {
        self.bytes_out += bytes.len();
        self.stream.write_all(bytes).is_ok()
    }

    pub fn say(&mut self, header: FrameHeader, frame: &Frame<'_>, payload: &[u8]) {
        assert!(self.raw(&encode(header, frame, payload)), "connection lost");
    }

    /// Reads the next frame; `None` at the end of the stream.
    pub fn next(&mut self) -> Option<Got> {
        let mut head = [0; FrameHeader::LEN];
        self.stream.read_exact(&mut head).ok()?;
        let header = FrameHeader::decode(&head).unwrap();
        let mut body = vec![0; header.body_len as usize];
        self.stream.read_exact(&mut body).ok()?;
        let mut payload = vec![0; usize::try_from(header.payload_len).unwrap()];
        self.stream.read_exact(&mut payload).ok()?;
        self.bytes_in += head.len() + body.len() + payload.len();
        Some(Got {
            header,
            body,
            payload,
        })
    }

    /// Reads the next frame that is not about the connection itself; answers PINGs.
    pub fn hear(&mut self) -> Got {
        loop {
            let got = self.next().expect("the daemon closed the connection");
            match got.header.frame_type {
                FrameType::PING => {
                    self.say(FrameHeader::new(FrameType::PONG, 0), &Frame::Pong, &[])
                }
                FrameType::EVENT | FrameType::PONG => {}
                _ => return got,
            }
        }
    }

    /// Returns whether the daemon closes the connection; drops frames before that.
    pub fn is_closed(&mut self) -> bool {
        while self.next().is_some() {}
        true
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    pub fn ask_send(&mut self, kind: MessageKind, tag: i32, total: u64, timeout_ms: u32) -> u32 {
        let request = self.number();
        let send = SendReq {
            kind,
            class: 0,
            tag,
            total,
            timeout_ms,
            order: u64::from(request),
        };
        let header = FrameHeader::new(FrameType::SEND_REQ, request);
        self.say(header, &Frame::SendReq(send), &[]);
        request
    }

    /// Returns the grant of a request, or the status with which the request ended.
    pub fn granted(&mut self) -> Result<u64, Status> {
        let got = self.hear();
        match got.frame() {
            Frame::Grant(grant) => Ok(grant.grant),
            Frame::SendDone => Err(got.header.status),
            other => panic!("{other:?}"),
        }
    }

    /// Sends a whole message in one DATA frame.
    pub fn data(&mut self, grant: u64, payload: &[u8]) {
        self.piece(grant, 0, payload);
    }

    pub fn piece(&mut self, grant: u64, offset: usize, payload: &[u8]) {
        let data = Frame::Data(Data {
            grant,
            offset: offset as u64,
        });
        self.say(FrameHeader::new(FrameType::DATA, 0), &data, payload);
    }

    pub fn send_done(&mut self) -> Status {
        let got = self.hear();
        assert_eq!(got.header.frame_type, FrameType::SEND_DONE, "{got:?}");
        got.header.status
    }

    /// Performs a complete zbmi_send.
    pub fn send(&mut self, kind: MessageKind, tag: i32, payload: &[u8], timeout_ms: u32) -> Status {
        self.ask_send(kind, tag, payload.len() as u64, timeout_ms);
        match self.granted() {
            Err(status) => status,
            Ok(grant) => {
                let mut offset = 0;
                for piece in payload.chunks(4 << 20) {
                    self.piece(grant, offset, piece);
                    offset += piece.len();
                }
                if payload.is_empty() {
                    self.data(grant, &[]);
                }
                self.send_done()
            }
        }
    }

    pub fn unexpected(&mut self, tag: i32, payload: &[u8]) -> Status {
        self.send(MessageKind::Unexpected, tag, payload, 0)
    }

    /// Sends an unexpected message against a credit.
    pub fn inline(&mut self, tag: i32, payload: &[u8]) -> Status {
        let request = self.number();
        let send = SendReq {
            kind: MessageKind::Unexpected,
            class: 0,
            tag,
            total: payload.len() as u64,
            timeout_ms: 0,
            order: 0,
        };
        let header = FrameHeader {
            flags: FrameFlags::INLINE,
            ..FrameHeader::new(FrameType::SEND_REQ, request)
        };
        self.say(header, &Frame::SendReq(send), payload);
        self.send_done()
    }

    /// Sends a message with its request, of either kind.
    pub fn ask_inline(
        &mut self,
        kind: MessageKind,
        tag: i32,
        message: &[u8],
        timeout_ms: u32,
    ) -> u32 {
        let request = self.number();
        let send = SendReq {
            kind,
            class: 0,
            tag,
            total: message.len() as u64,
            timeout_ms,
            order: u64::from(request),
        };
        let frame = Frame::SendInline(SendInline {
            request: send,
            message,
        });
        self.say(
            FrameHeader::new(FrameType::SEND_INLINE, request),
            &frame,
            &[],
        );
        request
    }

    pub fn ask_recv(&mut self, tag: i32, capacity: u64, timeout_ms: u32) -> u32 {
        let request = self.number();
        let recv = RecvReq {
            tag,
            capacity,
            timeout_ms,
            order: 0,
        };
        let header = FrameHeader::new(FrameType::RECV_REQ, request);
        self.say(header, &Frame::RecvReq(recv), &[]);
        request
    }

    /// Performs a complete zbmi_recv.
    pub fn recv(&mut self, tag: i32, capacity: u64, timeout_ms: u32) -> Result<Vec<u8>, Status> {
        self.ask_recv(tag, capacity, timeout_ms);
        self.received()
    }

    pub fn received(&mut self) -> Result<Vec<u8>, Status> {
        let got = self.hear();
        let Frame::RecvReply(reply) = got.frame() else {
            panic!("{got:?}");
        };
        if got.header.status != Status::DONE {
            return Err(got.header.status);
        }
        let (grant, total) = (reply.grant, usize::try_from(reply.total).unwrap());
        let mut message = Vec::new();
        while message.len() < total {
            let piece = self.hear();
            let Frame::Data(data) = piece.frame() else {
                panic!("{piece:?}");
            };
            assert_eq!((data.grant, data.offset), (grant, message.len() as u64));
            message.extend(piece.payload);
        }
        self.acknowledge(grant, Status::DONE);
        Ok(message)
    }

    pub fn acknowledge(&mut self, grant: u64, status: Status) {
        let header = FrameHeader::new(FrameType::RECV_ACK, 0).with_status(status);
        self.say(header, &Frame::RecvAck { grant }, &[]);
    }

    /// Performs a complete zbmi_test.
    pub fn test(&mut self, entries: &[TestEntry], timeout_ms: u32) -> Vec<u32> {
        let request = self.number();
        let test = TestReq {
            timeout_ms,
            entries: zoid_proto::List::new(entries),
        };
        let header = FrameHeader::new(FrameType::TEST_REQ, request);
        self.say(header, &Frame::TestReq(test), &[]);
        let got = self.hear();
        let Frame::TestReply(reply) = got.frame() else {
            panic!("{got:?}");
        };
        reply.counts.iter().collect()
    }

    /// Returns whether the daemon still answers.
    pub fn ping(&mut self) -> bool {
        let header = FrameHeader::new(FrameType::PING, 7);
        if !self.raw(&encode(header, &Frame::Ping, &[])) {
            return false;
        }
        while let Some(got) = self.next() {
            if got.header.frame_type == FrameType::PONG {
                return true;
            }
        }
        false
    }
}

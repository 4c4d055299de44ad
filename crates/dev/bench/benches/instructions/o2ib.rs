//! The o2ib LND between a program and a device that only keeps what is posted.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;

use lnd::{Disposition, Failure, NiId, RxId, SendRequest, TxId, Upper};
use lnet_o2ib::{
    ConnId, Device, DeviceError, DeviceEvent, LndNi, Mapped, MappingId, NiTuning, O2ibConfig,
    O2iblnd, PortState, RequestId, Shape, Sink, Source, Write,
};
use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::o2ib::{Body, Envelope, MESSAGE_MAX, Message, Parameters};
use lnet_wire::{Handle, Header, Put};

use crate::pair::NOW;

const NI: NiId = NiId(1);
/// Enough for a batch without a credit that comes back.
const DEPTH: u8 = 64;
/// The incarnations of the two ends.
const OURS: u64 = 1;
const THEIRS: u64 = 2;
const LENGTH: usize = 64;

/// The memory of a payload.
#[derive(Clone)]
pub(crate) struct Piece(Rc<Cell<[u8; LENGTH]>>);

impl Source for Piece {
    fn len(&self) -> usize {
        LENGTH
    }

    fn copy_out(&self, to: &mut [u8]) {
        to.copy_from_slice(&self.0.get()[..to.len()]);
    }
}

impl Sink for Piece {
    fn len(&self) -> usize {
        LENGTH
    }

    fn copy_in(&self, at: usize, from: &[u8]) {
        let mut bytes = self.0.get();
        bytes[at..at + from.len()].copy_from_slice(from);
        self.0.set(bytes);
    }
}

/// A device that keeps the last message.
pub(crate) struct Sheet {
    message: Vec<u8>,
    conn: ConnId,
    tickets: Vec<u64>,
}

impl Device for Sheet {
    type Source = Piece;
    type Sink = Piece;

    fn listen(&mut self, _: Ipv4Addr) -> Result<(), DeviceError> {
        Ok(())
    }

    fn unlisten(&mut self, _: Ipv4Addr) {}

    fn port_state(&self, _: Ipv4Addr) -> PortState {
        PortState::Up
    }

    fn sends_max(&self, _: Ipv4Addr) -> u32 {
        u32::MAX
    }

    fn resolve(&mut self, conn: ConnId, _: Ipv4Addr, _: Ipv4Addr) -> Result<(), DeviceError> {
        self.conn = conn;
        Ok(())
    }

    fn connect(&mut self, _: ConnId, _: Shape, _: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }

    fn accept(&mut self, _: RequestId, _: ConnId, _: Shape, _: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }

    fn reject(&mut self, _: RequestId, _: &[u8]) {}

    fn post_receive(&mut self, _: ConnId, _: u32) -> Result<(), DeviceError> {
        Ok(())
    }

    fn post_send(
        &mut self,
        _: ConnId,
        _: &[Write],
        message: &[u8],
        ticket: u64,
    ) -> Result<(), DeviceError> {
        self.message.clear();
        self.message.extend_from_slice(message);
        self.tickets.push(ticket);
        Ok(())
    }

    fn map_source(&mut self, _: ConnId, _: &Piece) -> Result<Mapped, DeviceError> {
        Err(DeviceError(String::new()))
    }

    fn map_sink(&mut self, _: ConnId, _: &Piece) -> Result<Mapped, DeviceError> {
        Err(DeviceError(String::new()))
    }

    fn unmap(&mut self, _: MappingId) {}

    fn disconnect(&mut self, _: ConnId) {}
}

/// A program that wants every payload.
pub(crate) struct Program {
    memory: Piece,
    next: u64,
    pub(crate) received: usize,
    pub(crate) sent: usize,
}

impl Upper for Program {
    type Destination = Piece;
    type Payload = Piece;

    fn header(&mut self, _: NiId, _: ProcessId, _: &Header, _: Time) -> Disposition<Piece> {
        self.next += 1;
        Disposition::Receive {
            rx: RxId(self.next),
            destination: Some(self.memory.clone()),
        }
    }

    fn received(&mut self, _: RxId, result: Result<(), Failure>, _: Time) {
        self.received += usize::from(result.is_ok());
    }

    fn sent(&mut self, _: TxId, result: Result<(), Failure>, _: Time) {
        self.sent += usize::from(result.is_ok());
    }

    fn peer_changed(&mut self, _: NiId, _: ProcessId, _: bool, _: Option<u64>, _: Time) {}
}

/// A node with a connection to a peer, and the bytes that the peer sends.
pub(crate) struct Rdma {
    lnd: O2iblnd<Sheet>,
    pub(crate) program: Program,
    conn: ConnId,
    immediate: Vec<u8>,
    requests: Vec<SendRequest<Piece>>,
}

impl Rdma {
    /// Returns a node that has sent and received enough that everything which grows has grown, with `count` messages to
    /// send.
    pub(crate) fn warm(count: usize) -> Box<Self> {
        let sheet = Sheet {
            message: Vec::with_capacity(MESSAGE_MAX),
            conn: ConnId(0),
            tickets: Vec::with_capacity(DEPTH.into()),
        };
        let mut lnd = O2iblnd::new(O2ibConfig::default(), sheet);
        let tuning = NiTuning {
            peer_credits: DEPTH,
            ..NiTuning::default()
        };
        lnd.add_ni(LndNi {
            ni: NI,
            nid: own(),
            tuning,
            incarnation: OURS,
        })
        .unwrap();
        let mut rdma = Box::new(Self {
            lnd,
            program: Program {
                memory: Piece(Rc::new(Cell::new([0; LENGTH]))),
                next: 0,
                received: 0,
                sent: 0,
            },
            conn: ConnId(0),
            immediate: said(Body::Immediate {
                header: header(peer(), own()),
                payload: &[7; LENGTH],
            }),
            requests: Vec::new(),
        });
        rdma.connect();
        for _ in 0..8 {
            rdma.prepare(32);
            rdma.send();
            rdma.receive(32);
            rdma.give_back();
        }
        rdma.prepare(count);
        (rdma.program.sent, rdma.program.received) = (0, 0);
        rdma
    }

    fn connect(&mut self) {
        self.prepare(1);
        let request = self.requests.pop().unwrap();
        self.lnd.send(request, NOW, &mut self.program);
        self.conn = self.lnd.driver().conn;
        let conn = self.conn;
        self.event(DeviceEvent::Resolved(conn));
        let connack = said(Body::Connack(Parameters {
            queue_depth: DEPTH.into(),
            fragments: 257,
            message_size: MESSAGE_MAX as u32,
        }));
        self.event(DeviceEvent::Established(conn, &connack));
        self.complete();
        self.give_back();
    }

    fn event(&mut self, event: DeviceEvent<'_>) {
        self.lnd.event(event, NOW, &mut self.program);
    }

    fn prepare(&mut self, count: usize) {
        for _ in 0..count {
            self.program.next += 1;
            self.requests.push(SendRequest {
                tx: TxId(self.program.next),
                ni: NI,
                to: ProcessId::lustre(peer()),
                header: header(own(), peer()),
                payload: Some(self.program.memory.clone()),
                deadline: NOW + std::time::Duration::from_secs(50),
            });
        }
    }

    /// Sends what is prepared, up to the completions.
    pub(crate) fn send(&mut self) {
        for request in std::mem::take(&mut self.requests) {
            self.lnd.send(request, NOW, &mut self.program);
        }
        self.complete();
    }

    /// Lets the device say that everything was sent.
    fn complete(&mut self) {
        let conn = self.conn;
        while let Some(ticket) = self.lnd.device().tickets.pop() {
            let result = Ok(());
            self.event(DeviceEvent::Sent {
                conn,
                ticket,
                result,
            });
        }
    }

    /// Receives messages.
    pub(crate) fn receive(&mut self, count: usize) {
        let bytes = std::mem::take(&mut self.immediate);
        let conn = self.conn;
        for buffer in 0..count {
            self.event(DeviceEvent::Received {
                conn,
                buffer: buffer as u32,
                bytes: &bytes,
            });
        }
        self.immediate = bytes;
    }

    /// Lets the peer give all credits back.
    fn give_back(&mut self) {
        self.complete();
        let used = self
            .lnd
            .connections()
            .map(|view| u16::from(DEPTH) - view.credits);
        let credits = used.max().unwrap_or_default() as u8;
        let mut noop = said(Body::Noop);
        noop[7] = credits;
        let conn = self.conn;
        self.event(DeviceEvent::Received {
            conn,
            buffer: 0,
            bytes: &noop,
        });
        self.complete();
    }
}

fn own() -> Nid {
    "10.7.0.1@o2ib".parse().unwrap()
}

fn peer() -> Nid {
    "10.7.0.2@o2ib".parse().unwrap()
}

fn header(from: Nid, to: Nid) -> Header {
    Header {
        dest_nid: to,
        src_nid: from,
        dest_pid: ProcessId::LUSTRE_PID,
        src_pid: ProcessId::LUSTRE_PID,
        payload_length: LENGTH as u32,
        body: lnet_wire::Body::Put(Put {
            ack_wmd: Handle::NONE,
            match_bits: 1,
            hdr_data: 0,
            ptl_index: 30,
            offset: 0,
        }),
    }
}

/// A message of the peer.
fn said(body: Body<'_>) -> Vec<u8> {
    let envelope = Envelope {
        credits: 0,
        source: peer(),
        source_incarnation: THEIRS,
        destination: own(),
        destination_incarnation: OURS,
    };
    let mut bytes = vec![0; MESSAGE_MAX];
    let length = Message { envelope, body }.encode(&mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

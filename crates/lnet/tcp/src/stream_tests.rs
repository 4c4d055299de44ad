//! Tests the two halves of a connection against each other, over a stream that splits the bytes anywhere.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use lnd::{Disposition, Failure, NiId, RxId, TxId, Upper};
use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{Body, ByteOrder, Ctype, Handle, Header, HelloVersion, KsockHeader, Put};
use proptest::prelude::*;
use sys::span::Span;
use sys::{Gather, Scatter};

use crate::SendRequest;
use crate::connection::{Connection, Terms};
use crate::job::{Batch, Destination, Job, Outcome, STAGED_MAX, Source, Staging, Work};
use crate::network::Stream;
use crate::receive::{Paused, WINDOW_MAX};
use crate::stats::{CloseReason, SocklndStats};
use crate::transmit::Departed;

/// A stream to itself. Each read and write moves as many bytes as the next step says, which may be none.
///
/// Each direction has its own copy of the steps: if both took turns in one list, a writer could get only the zeros,
/// without end.
struct Pipe(Mutex<Flow>);

struct Flow {
    bytes: Vec<u8>,
    reads: VecDeque<usize>,
    writes: VecDeque<usize>,
}

impl Pipe {
    fn new(bytes: Vec<u8>, steps: Vec<usize>) -> Arc<Pipe> {
        Arc::new(Pipe(Mutex::new(Flow {
            bytes,
            reads: steps.clone().into(),
            writes: steps.into(),
        })))
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }
}

fn next(steps: &mut VecDeque<usize>) -> usize {
    steps.rotate_left(1);
    *steps.back().unwrap()
}

impl Stream for Pipe {
    fn read(&self, room: &mut Scatter<'_>) -> io::Result<usize> {
        let mut flow = self.0.lock().unwrap();
        let limit = next(&mut flow.reads).min(flow.bytes.len());
        if limit == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = room.fill_from(&flow.bytes[..limit]);
        flow.bytes.drain(..count);
        Ok(count)
    }

    fn write(&self, bytes: &Gather<'_>, _more: bool) -> io::Result<usize> {
        let mut flow = self.0.lock().unwrap();
        let limit = next(&mut flow.writes);
        if limit == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(bytes.append_to(&mut flow.bytes, limit))
    }

    fn end_writing(&self) -> io::Result<()> {
        Ok(())
    }

    fn unacknowledged(&self) -> u64 {
        0
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        Err(ErrorKind::NotConnected.into())
    }
}

fn connection(pipe: &Arc<Pipe>, version: HelloVersion, ctype: Ctype) -> Connection<Pipe> {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let terms = Terms {
        peer: 0,
        ni: NiId(0),
        id: ProcessId::ANY,
        ctype,
        version,
        order: ByteOrder::Little,
        local: nowhere,
        remote: nowhere,
        dialled: false,
    };
    Connection::new(Arc::clone(pipe), 1, terms, Time::ZERO)
}

fn run(pipe: &Arc<Pipe>, work: Work, staging: &mut Staging) -> (Work, Outcome) {
    let mut job = Job {
        slot: 0,
        serial: 1,
        stream: Arc::clone(pipe),
        work,
        outcome: Outcome::NONE,
    };
    job.run(staging);
    (job.work, job.outcome)
}

/// Writes once.
fn write(
    pipe: &Arc<Pipe>,
    tx: &mut Connection<Pipe>,
    stats: &mut SocklndStats,
    departed: &mut impl FnMut(Departed),
) {
    let work = tx.write(Batch::default());
    let (_, outcome) = run(pipe, work, &mut Staging::default());
    tx.has_written(outcome, stats, Time::ZERO, departed)
        .unwrap();
}

/// Reads once.
fn read(
    pipe: &Arc<Pipe>,
    rx: &mut Connection<Pipe>,
    staging: &mut Staging,
    stats: &mut SocklndStats,
    upper: &mut impl crate::Above,
) -> Result<Option<Paused>, CloseReason> {
    let work = rx.read();
    let (Work::Read(room), outcome) = run(pipe, work, staging) else {
        return Ok(None);
    };
    let read = rx.has_read(outcome, &room, staging, stats, Time::ZERO, upper);
    read.map(|(paused, _)| paused)
}

/// A node that sends its payloads, and accepts of each message as much as `wanted` says.
struct Ends {
    payloads: Vec<Vec<u8>>,
    wanted: Vec<Option<u32>>,
    hold: bool,
    landings: Vec<Span>,
    received: Vec<RxId>,
    sent: Vec<TxId>,
}

impl Ends {
    fn destination(&self, rx: RxId) -> Option<Destination> {
        let destination = &self.landings[rx.0 as usize];
        (!destination.is_empty()).then(|| destination.clone().into())
    }
}

impl Upper for Ends {
    type Destination = Destination;
    type Payload = Source;

    fn header(
        &mut self,
        _: NiId,
        _: ProcessId,
        header: &Header,
        _: Time,
    ) -> Disposition<Self::Destination> {
        let index = self.landings.len();
        assert_eq!(
            header.payload_length as usize,
            self.payloads[index].len(),
            "out of order"
        );
        let wanted = self.wanted[index].map(|wanted| wanted.min(header.payload_length));
        let destination = Span::zeroed(wanted.unwrap_or(0) as usize).unwrap();
        self.landings.push(destination);
        let rx = RxId(index as u64);
        match wanted {
            Some(_) if self.hold => Disposition::Hold(rx),
            Some(_) => Disposition::Receive {
                rx,
                destination: self.destination(rx),
            },
            None => Disposition::Drop,
        }
    }

    fn received(&mut self, rx: RxId, result: Result<(), Failure>, _: Time) {
        assert_eq!(result, Ok(()));
        self.received.push(rx);
    }

    fn sent(&mut self, _: TxId, _: Result<(), Failure>, _: Time) {}

    fn peer_changed(&mut self, _: NiId, _: ProcessId, _: bool, _: Option<u64>, _: Time) {}
}

fn request(index: usize, payload: &[u8]) -> SendRequest {
    let nid: Nid = "10.0.0.1@tcp".parse().unwrap();
    let put = Put {
        ack_wmd: Handle::NONE,
        match_bits: 0,
        hdr_data: index as u64,
        ptl_index: 0,
        offset: 0,
    };
    // Use both kinds of memory.
    let source = if index.is_multiple_of(2) {
        Source::Shared(payload.to_vec().into())
    } else {
        Source::Span(Span::from(payload.to_vec()))
    };
    SendRequest {
        tx: TxId(index as u64),
        ni: NiId(0),
        to: ProcessId::lustre(nid),
        header: Header {
            dest_nid: nid,
            src_nid: nid,
            dest_pid: 12345,
            src_pid: 12345,
            payload_length: u32::try_from(payload.len()).unwrap(),
            body: Body::Put(put),
        },
        payload: (!payload.is_empty()).then_some(source),
        deadline: Time::from_secs(1),
    }
}

/// Moves all messages from a transmitter to a receiver; returns the counters.
fn carry(
    version: HelloVersion,
    ctype: Ctype,
    ends: &mut Ends,
    steps: Vec<usize>,
    keepalive_every: usize,
) -> SocklndStats {
    let mut stats = SocklndStats::default();
    let pipe = Pipe::new(Vec::new(), steps);
    let mut tx = connection(&pipe, version, ctype);
    let mut rx = connection(&pipe, version, ctype);
    let mut staging = Staging::default();
    let mut queued = 0;
    while ends.landings.len() < ends.payloads.len()
        || rx.rx.is_waiting_for_bytes()
        || rx.paused
        || !tx.tx.is_empty()
    {
        if queued < ends.payloads.len() {
            let request = request(queued, &ends.payloads[queued]);
            tx.tx.push(version, request).unwrap();
            queued += 1;
            if queued % keepalive_every == 0 {
                tx.tx.push_noop(&KsockHeader::KEEPALIVE);
            }
        }
        if !tx.tx.is_empty() {
            write(&pipe, &mut tx, &mut stats, &mut |gone| {
                ends.sent.push(gone.tx);
            });
        }
        let mut paused = read(&pipe, &mut rx, &mut staging, &mut stats, ends).unwrap();
        while let Some(Paused::Held(held)) = paused {
            rx.rx.resume(ends.destination(held));
            paused = rx.go_on(&mut stats, Time::ZERO, ends).unwrap();
        }
    }
    assert_eq!(tx.tx.bytes(), 0);
    stats
}

fn messages() -> impl Strategy<Value = Vec<(usize, Option<u32>)>> {
    let length = prop_oneof![Just(0_usize), 1..200_usize, 1000..5000_usize];
    let wanted = prop_oneof![
        3 => Just(Some(u32::MAX)),
        1 => Just(None),
        1 => (0_u32..3000).prop_map(Some),
    ];
    prop::collection::vec((length, wanted), 1..20)
}

proptest! {
    // [FRAME-16]
    #[test]
    fn whatever_is_split_wherever_every_message_arrives_once_and_in_order(
        messages in messages(),
        mut steps in prop::collection::vec(0_usize..400, 1..30),
        version in prop_oneof![Just(HelloVersion::V3), Just(HelloVersion::V4)],
        ctype in prop_oneof![Just(Ctype::CONTROL), Just(Ctype::BULK_IN)],
        hold in any::<bool>(),
        keepalive_every in 1_usize..4,
    ) {
        // The steps must contain a number above 0, or the stream would never move a byte.
        steps.push(97);
        let payloads: Vec<Vec<u8>> = messages
            .iter()
            .enumerate()
            .map(|(index, &(bytes, _))| (0..bytes).map(|at| (at * 7 + index) as u8).collect())
            .collect();
        let mut ends = Ends {
            payloads: payloads.clone(),
            wanted: messages.iter().map(|message| message.1).collect(),
            hold,
            landings: Vec::new(),
            received: Vec::new(),
            sent: Vec::new(),
        };
        let stats = carry(version, ctype, &mut ends, steps, keepalive_every);
        for (index, destination) in ends.landings.iter().enumerate() {
            prop_assert_eq!(destination.to_vec(), &payloads[index][..destination.len()]);
        }
        let wanted = (0..).zip(&messages).filter(|(_, message)| message.1.is_some());
        let wanted: Vec<_> = wanted.map(|(index, _)| RxId(index)).collect();
        prop_assert_eq!(&ends.received, &wanted);
        let all: Vec<_> = (0..messages.len()).map(|index| TxId(index as u64)).collect();
        prop_assert_eq!(&ends.sent, &all);
        prop_assert_eq!(stats.frames_in, stats.frames_out);
        prop_assert_eq!(stats.bytes_in, stats.bytes_out);
        prop_assert_eq!(stats.keepalives_in, (messages.len() / keepalive_every) as u64);
        let landed: usize = ends.landings.iter().map(Span::len).sum();
        let total: usize = payloads.iter().map(Vec::len).sum();
        prop_assert_eq!(stats.discarded_payload_bytes, (total - landed) as u64);
    }

    // [LIMIT-1]
    #[test]
    fn hostile_bytes_never_panic_the_receiver(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        frame_type in prop_oneof![Just(0xC0_u8), Just(0xC1), any::<u8>()],
        message_type in 0_u8..6,
    ) {
        let mut bytes = bytes;
        for (at, value) in [(0, frame_type), (1, 0), (2, 0), (3, 0), (48, message_type)] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        let pipe = Pipe::new(bytes, vec![31]);
        let mut stats = SocklndStats::default();
        let mut rx = connection(&pipe, HelloVersion::V3, Ctype::BULK_IN);
        let mut staging = Staging::default();
        while read(&pipe, &mut rx, &mut staging, &mut stats, &mut Discarder) == Ok(None) {
            if pipe.bytes().is_empty() {
                break;
            }
        }
    }
}

struct Discarder;

impl Upper for Discarder {
    type Destination = Destination;
    type Payload = Source;

    fn header(&mut self, _: NiId, _: ProcessId, _: &Header, _: Time) -> Disposition<Destination> {
        Disposition::Drop
    }

    fn received(&mut self, _: RxId, _: Result<(), Failure>, _: Time) {}

    fn sent(&mut self, _: TxId, _: Result<(), Failure>, _: Time) {}

    fn peer_changed(&mut self, _: NiId, _: ProcessId, _: bool, _: Option<u64>, _: Time) {}
}

/// Returns the counters after reading messages of these lengths, all of which wait in the stream.
fn reads_of(lengths: &[usize], ctype: Ctype) -> SocklndStats {
    let payloads: Vec<Vec<u8>> = lengths.iter().map(|&length| vec![7; length]).collect();
    let mut ends = Ends {
        wanted: vec![Some(u32::MAX); payloads.len()],
        payloads,
        hold: false,
        landings: Vec::new(),
        received: Vec::new(),
        sent: Vec::new(),
    };
    let version = HelloVersion::V3;
    let pipe = Pipe::new(Vec::new(), vec![usize::MAX >> 1]);
    let mut stats = SocklndStats::default();
    let mut tx = connection(&pipe, version, ctype);
    for (index, payload) in ends.payloads.iter().enumerate() {
        tx.tx.push(version, request(index, payload)).unwrap();
    }
    while !tx.tx.is_empty() {
        write(&pipe, &mut tx, &mut stats, &mut |_| {});
    }
    let mut rx = connection(&pipe, version, ctype);
    let mut staging = Staging::default();
    while ends.received.len() < lengths.len() {
        read(&pipe, &mut rx, &mut staging, &mut stats, &mut ends).unwrap();
    }
    stats
}

#[test]
fn large_payload_is_never_copied_behind_large_payload() {
    let stats = reads_of(&[1 << 20, 16_385, 1 << 20, 100_000], Ctype::BULK_IN);
    assert_eq!(stats.copied_payload_bytes, 0);
    assert!(stats.reads <= 5, "one read a message: {}", stats.reads);
}

#[test]
fn small_payload_is_copied_once_and_read_many_messages_at_a_time() {
    let stats = reads_of(&[64; 1000], Ctype::CONTROL);
    // If a read ends inside a payload, the rest of the payload is read directly into its memory.
    let copied = 63_000..=64_000;
    assert!(copied.contains(&stats.copied_payload_bytes), "{stats:?}");
    assert!(stats.reads <= 4, "{} reads", stats.reads);
}

#[test]
fn a_large_message_behind_small_ones_has_no_more_copied_than_what_was_staged() {
    let stats = reads_of(&[4096, 4096, 1 << 20, 1 << 20], Ctype::BULK_IN);
    let small = 2 * 4096;
    assert!(stats.copied_payload_bytes > small, "{stats:?}");
    assert!(stats.copied_payload_bytes <= small + STAGED_MAX as u64);
}

#[test]
fn what_a_write_has_under_way_neither_expires_nor_is_overtaken() {
    let pipe = Pipe::new(Vec::new(), vec![10_000]);
    let mut tx = connection(&pipe, HelloVersion::V3, Ctype::CONTROL);
    for index in 0..2 {
        tx.tx
            .push(HelloVersion::V3, request(index, &[1; 50]))
            .unwrap();
    }
    let work = tx.write(Batch::default());
    assert!(!tx.may_write(), "one write at a time");
    tx.tx.push(HelloVersion::V3, request(2, &[2; 50])).unwrap();
    tx.tx.push_noop(&KsockHeader::ack(7));
    let mut expired = Vec::new();
    let late = Time::from_secs(9);
    tx.tx.expire(late, &mut |gone| expired.push(gone.tx));
    assert_eq!(expired, [TxId(2)]);
    let (_, outcome) = run(&pipe, work, &mut Staging::default());
    let mut gone = Vec::new();
    let mut stats = SocklndStats::default();
    let mut departed = |departed: Departed| gone.push(departed.tx);
    tx.has_written(outcome, &mut stats, late, &mut departed)
        .unwrap();
    assert_eq!(gone, [TxId(0), TxId(1)]);
    assert_eq!(tx.tx.bytes(), 24, "the acknowledgement");
}

#[test]
fn readiness_that_comes_while_a_job_is_under_way_is_not_lost() {
    let pipe = Pipe::new(Vec::new(), vec![5]);
    let mut it = connection(&pipe, HelloVersion::V3, Ctype::CONTROL);
    it.tx.push(HelloVersion::V3, request(0, &[1; 50])).unwrap();
    let work = it.write(Batch::default());
    let (_, outcome) = run(&pipe, work, &mut Staging::default());
    assert!(outcome.is_short());
    it.note(crate::Readiness {
        writable: true,
        ..crate::Readiness::default()
    });
    let mut stats = SocklndStats::default();
    it.has_written(outcome, &mut stats, Time::ZERO, &mut |_| {})
        .unwrap();
    assert!(it.may_write(), "the stream said so after the write");

    let work = it.read();
    assert!(!it.may_read(), "one read at a time");
    let mut staging = Staging::default();
    let (Work::Read(room), outcome) = run(&pipe, work, &mut staging) else {
        return;
    };
    let read = it.has_read(
        outcome,
        &room,
        &mut staging,
        &mut stats,
        Time::ZERO,
        &mut Discarder,
    );
    assert_eq!(read, Ok((None, true)), "it is read again");
}

#[test]
fn what_is_cancelled_while_a_read_of_it_is_under_way_is_thrown_away() {
    let payloads = vec![vec![1; 50_000], vec![2; 50_000]];
    let pipe = Pipe::new(Vec::new(), vec![20_000, usize::MAX >> 1]);
    let mut it = connection(&pipe, HelloVersion::V3, Ctype::BULK_IN);
    let mut ends = Ends {
        wanted: vec![Some(u32::MAX); 2],
        payloads,
        hold: false,
        landings: Vec::new(),
        received: Vec::new(),
        sent: Vec::new(),
    };
    for (index, payload) in ends.payloads.iter().enumerate() {
        it.tx
            .push(HelloVersion::V3, request(index, payload))
            .unwrap();
    }
    let mut stats = SocklndStats::default();
    while !it.tx.is_empty() {
        write(&pipe, &mut it, &mut stats, &mut |_| {});
    }
    let mut staging = Staging::default();
    read(&pipe, &mut it, &mut staging, &mut stats, &mut ends).unwrap();
    assert_eq!(ends.landings.len(), 1, "its payload is being read");
    let work = it.read();
    let (Work::Read(room), outcome) = run(&pipe, work, &mut staging) else {
        return;
    };
    assert!(it.rx.cancel(RxId(0)));
    let now = Time::ZERO;
    it.has_read(outcome, &room, &mut staging, &mut stats, now, &mut ends)
        .unwrap();
    while ends.received.is_empty() {
        read(&pipe, &mut it, &mut staging, &mut stats, &mut ends).unwrap();
    }
    assert_eq!(ends.received, [RxId(1)]);
    assert_eq!(ends.landings[1].to_vec(), ends.payloads[1]);
    assert_eq!(stats.discarded_payload_bytes, 50_000);
}

// [ZC-9]
#[test]
fn an_acknowledgement_overtakes_messages_but_splits_none() {
    let pipe = Pipe::new(Vec::new(), vec![10, 0, 10_000]);
    let mut stats = SocklndStats::default();
    let mut tx = connection(&pipe, HelloVersion::V3, Ctype::CONTROL);
    tx.tx.push(HelloVersion::V3, request(0, &[1; 50])).unwrap();
    tx.tx.push(HelloVersion::V3, request(1, &[2; 50])).unwrap();
    write(&pipe, &mut tx, &mut stats, &mut |_| {});
    assert!(!tx.may_write(), "the stream is full");
    tx.tx.push_noop(&KsockHeader::ack(7));
    tx.tx.push_noop(&KsockHeader::ack(8));
    assert_eq!(tx.tx.bytes(), 2 * 146 + 48 - 10);
    write(&pipe, &mut tx, &mut stats, &mut |_| {});
    write(&pipe, &mut tx, &mut stats, &mut |_| {});
    let bytes = pipe.bytes();
    assert_eq!(bytes[146..170], KsockHeader::ack(7).to_bytes());
    assert_eq!(bytes[170..194], KsockHeader::ack(8).to_bytes());
    assert_eq!(bytes[194..218], KsockHeader::LNET.to_bytes());
    assert_eq!(bytes.len(), 2 * 146 + 48);
}

#[test]
fn an_idle_connection_costs_less_than_a_kibibyte() {
    let connection = std::mem::size_of::<Connection<std::net::TcpStream>>();
    let peer = std::mem::size_of::<crate::peer::Peer>();
    let key = std::mem::size_of::<crate::peer::PeerKey>();
    // Table entries: two slabs, a hash table that is at worst half empty, one timer.
    let tables = 16 + 8 + 2 * (key + 16) + 64;
    assert!(
        connection + peer + tables < 1024,
        "{connection} + {peer} + {tables}"
    );
    assert_eq!(WINDOW_MAX, 120);
}

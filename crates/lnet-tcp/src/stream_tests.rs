//! The two halves of a connection against each other, over a stream that splits everything anywhere.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};

use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{Body, ByteOrder, Handle, Header, HelloVersion, KsockHeader, Put};
use proptest::prelude::*;

use crate::receive::{Paused, Receiver, Surroundings, WINDOW_MAX};
use crate::stats::SocklndStats;
use crate::transmit::{Transmitter, Written};
use crate::upper::{Disposition, Failure, NiKey, RxToken, SendRequest, TxToken, Upper};

/// A pipe whose reads and writes move as many bytes as its steps say, or none.
///
/// Each direction goes through the steps by itself: taken in turns from one row, a writer could
/// meet the same zeros for ever.
struct Pipe {
    bytes: VecDeque<u8>,
    reads: VecDeque<usize>,
    writes: VecDeque<usize>,
}

impl Pipe {
    fn new(bytes: VecDeque<u8>, steps: Vec<usize>) -> Pipe {
        Pipe {
            bytes,
            reads: steps.clone().into(),
            writes: steps.into(),
        }
    }
}

fn next(steps: &mut VecDeque<usize>) -> usize {
    steps.rotate_left(1);
    *steps.back().unwrap()
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let limit = next(&mut self.reads).min(self.bytes.len());
        if limit == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut left = limit;
        for slice in slices {
            let count = slice.len().min(left);
            for (to, from) in slice.iter_mut().zip(self.bytes.drain(..count)) {
                *to = from;
            }
            left -= count;
        }
        Ok(limit - left)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let limit = next(&mut self.writes);
        if limit == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let offered = slices.iter().flat_map(|slice| slice.iter().copied());
        let before = self.bytes.len();
        self.bytes.extend(offered.take(limit));
        Ok(self.bytes.len() - before)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends its payloads, and takes of each message what `wanted` says.
struct Ends {
    payloads: Vec<Vec<u8>>,
    wanted: Vec<Option<u32>>,
    hold: bool,
    landings: Vec<Vec<u8>>,
    received: Vec<RxToken>,
    sent: Vec<TxToken>,
}

impl Upper for Ends {
    fn header(&mut self, _: NiKey, _: ProcessId, header: &Header, _: Time) -> Disposition {
        let index = self.landings.len();
        assert_eq!(
            header.payload_length as usize,
            self.payloads[index].len(),
            "out of order"
        );
        let wanted = self.wanted[index].map(|wanted| wanted.min(header.payload_length));
        self.landings.push(vec![0; wanted.unwrap_or(0) as usize]);
        let rx = RxToken(index as u64);
        match wanted {
            Some(_) if self.hold => Disposition::Hold(rx),
            Some(wanted) => Disposition::Receive { rx, wanted },
            None => Disposition::Discard,
        }
    }

    fn landing(&mut self, rx: RxToken) -> &mut [u8] {
        &mut self.landings[rx.0 as usize]
    }

    fn received(&mut self, rx: RxToken, result: Result<(), Failure>, _: Time) {
        assert_eq!(result, Ok(()));
        self.received.push(rx);
    }

    fn payload(&self, tx: TxToken) -> &[u8] {
        &self.payloads[tx.0 as usize]
    }

    fn sent(&mut self, _: TxToken, _: Result<(), Failure>, _: Time) {}

    fn peer_changed(&mut self, _: NiKey, _: ProcessId, _: bool, _: Time) {}
}

fn request(index: usize, bytes: usize) -> SendRequest {
    let nid: Nid = "10.0.0.1@tcp".parse().unwrap();
    let put = Put {
        ack_wmd: Handle::NONE,
        match_bits: 0,
        hdr_data: index as u64,
        ptl_index: 0,
        offset: 0,
    };
    SendRequest {
        tx: TxToken(index as u64),
        ni: NiKey(0),
        to: ProcessId::lustre(nid),
        header: Header {
            dest_nid: nid,
            src_nid: nid,
            dest_pid: 12345,
            src_pid: 12345,
            payload_length: u32::try_from(bytes).unwrap(),
            body: Body::Put(put),
        },
        deadline: Time::from_secs(1),
    }
}

/// Moves everything from a transmitter to a receiver; returns the counters.
fn carry(
    version: HelloVersion,
    ends: &mut Ends,
    steps: Vec<usize>,
    keepalive_every: usize,
) -> SocklndStats {
    let mut stats = SocklndStats::default();
    let mut pipe = Pipe::new(VecDeque::new(), steps);
    let (mut tx, mut acks) = (Transmitter::default(), Transmitter::default());
    let mut rx = Receiver::new(version, ByteOrder::Little);
    let mut scratch = [0; 700];
    let mut queued = 0;
    while ends.landings.len() < ends.payloads.len()
        || rx.is_waiting_for_bytes()
        || rx.is_held()
        || !tx.is_empty()
    {
        if queued < ends.payloads.len() {
            tx.push(version, &request(queued, ends.payloads[queued].len()))
                .unwrap();
            queued += 1;
            if queued % keepalive_every == 0 {
                tx.push_noop(&KsockHeader::KEEPALIVE);
            }
        }
        let mut departed =
            |ends: &mut Ends, gone: crate::transmit::Departed| ends.sent.push(gone.tx);
        let written = tx
            .write(&mut pipe, ends, &mut stats, &mut departed)
            .unwrap();
        assert_eq!(written == Written::All, tx.is_empty());
        let mut around = Surroundings {
            ni: NiKey(0),
            peer: ProcessId::ANY,
            scratch: &mut scratch,
            stats: &mut stats,
            now: Time::ZERO,
        };
        if let Paused::Held(held) = rx
            .read(&mut pipe, false, &mut acks, &mut around, ends)
            .unwrap()
        {
            rx.resume(ends.wanted[held.0 as usize]);
        }
    }
    assert_eq!(tx.bytes(), 0);
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
    #[test]
    fn whatever_is_split_wherever_every_message_arrives_once_and_in_order(
        messages in messages(),
        mut steps in prop::collection::vec(0_usize..400, 1..30),
        version in prop_oneof![Just(HelloVersion::V3), Just(HelloVersion::V4)],
        hold in any::<bool>(),
        keepalive_every in 1_usize..4,
    ) {
        // A stream that moves nothing for ever proves nothing.
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
        let stats = carry(version, &mut ends, steps, keepalive_every);
        for (index, landing) in ends.landings.iter().enumerate() {
            prop_assert_eq!(landing, &payloads[index][..landing.len()]);
        }
        let wanted = messages.iter().enumerate().filter(|it| it.1.1.is_some());
        let wanted: Vec<_> = wanted.map(|it| RxToken(it.0 as u64)).collect();
        prop_assert_eq!(&ends.received, &wanted);
        let all: Vec<_> = (0..messages.len()).map(|index| TxToken(index as u64)).collect();
        prop_assert_eq!(&ends.sent, &all);
        prop_assert_eq!(stats.frames_in, stats.frames_out);
        prop_assert_eq!(stats.bytes_in, stats.bytes_out);
        prop_assert_eq!(stats.keepalives_in, (messages.len() / keepalive_every) as u64);
        let landed: usize = ends.landings.iter().map(Vec::len).sum();
        let total: usize = payloads.iter().map(Vec::len).sum();
        prop_assert_eq!(stats.discarded_payload_bytes, (total - landed) as u64);
    }

    #[test]
    fn hostile_bytes_never_panic_the_receiver(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        frame_type in prop_oneof![Just(0xC0_u8), Just(0xC1), any::<u8>()],
        message_type in 0_u8..6,
    ) {
        let mut bytes: VecDeque<u8> = bytes.into();
        for (at, value) in [(0, frame_type), (1, 0), (2, 0), (3, 0), (48, message_type)] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        let mut pipe = Pipe::new(bytes, vec![31]);
        let mut stats = SocklndStats::default();
        let mut rx = Receiver::new(HelloVersion::V3, ByteOrder::Little);
        let mut around = Surroundings {
            ni: NiKey(0),
            peer: ProcessId::ANY,
            scratch: &mut [0; 100],
            stats: &mut stats,
            now: Time::ZERO,
        };
        let mut acks = Transmitter::default();
        while let Ok(Paused::Drained | Paused::TurnOver) =
            rx.read(&mut pipe, false, &mut acks, &mut around, &mut Discarder)
        {
            if pipe.bytes.is_empty() {
                break;
            }
        }
    }
}

struct Discarder;

impl Upper for Discarder {
    fn header(&mut self, _: NiKey, _: ProcessId, _: &Header, _: Time) -> Disposition {
        Disposition::Discard
    }

    fn landing(&mut self, _: RxToken) -> &mut [u8] {
        &mut []
    }

    fn received(&mut self, _: RxToken, _: Result<(), Failure>, _: Time) {}

    fn payload(&self, _: TxToken) -> &[u8] {
        &[]
    }

    fn sent(&mut self, _: TxToken, _: Result<(), Failure>, _: Time) {}

    fn peer_changed(&mut self, _: NiKey, _: ProcessId, _: bool, _: Time) {}
}

#[test]
fn an_acknowledgement_overtakes_messages_but_splits_none() {
    let mut ends = Ends {
        payloads: vec![vec![1; 50], vec![2; 50]],
        wanted: Vec::new(),
        hold: false,
        landings: Vec::new(),
        received: Vec::new(),
        sent: Vec::new(),
    };
    let mut stats = SocklndStats::default();
    let mut pipe = Pipe::new(VecDeque::new(), vec![10, 0, 10_000]);
    let mut tx = Transmitter::default();
    tx.push(HelloVersion::V3, &request(0, 50)).unwrap();
    tx.push(HelloVersion::V3, &request(1, 50)).unwrap();
    let mut departed = |_: &mut Ends, _| {};
    assert_eq!(
        tx.write(&mut pipe, &mut ends, &mut stats, &mut departed),
        Ok(Written::Full)
    );
    tx.push_noop(&KsockHeader::ack(7));
    tx.push_noop(&KsockHeader::ack(8));
    assert_eq!(tx.bytes(), 2 * 146 + 48 - 10);
    tx.write(&mut pipe, &mut ends, &mut stats, &mut departed)
        .unwrap();
    tx.write(&mut pipe, &mut ends, &mut stats, &mut departed)
        .unwrap();
    let bytes: Vec<u8> = pipe.bytes.into();
    assert_eq!(bytes[146..170], KsockHeader::ack(7).to_bytes());
    assert_eq!(bytes[170..194], KsockHeader::ack(8).to_bytes());
    assert_eq!(bytes[194..218], KsockHeader::LNET.to_bytes());
    assert_eq!(bytes.len(), 2 * 146 + 48);
}

#[test]
fn an_idle_connection_costs_less_than_a_kibibyte() {
    let connection = std::mem::size_of::<crate::connection::Connection>();
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

//! Two nodes on two RDMA devices of this machine: each transfer, every byte, faults. Needs devices with the addresses of
//! `FINERAIL_RDMA=ADDRESS,ADDRESS`, as `.ci/rdma` makes them in a virtual machine; skips without.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows only functions with #[test] as tests, not their helpers"
)]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use lnet_o2ib::{
    CloseReason, Disposition, Failure, LndNi, NiId, NiTuning, O2ibConfig, O2iblnd, RxId,
    SendRequest, TxId, Upper,
};
use lnet_types::{LndType, Net, Nid, ProcessId, Time};
use lnet_verbs::{Landing, Payload, VerbsDevice};
use lnet_wire::o2ib::{IMMEDIATE_MAX, MessageKind};
use lnet_wire::{Body, Get, Handle, Header, Put, Reply};
use sys::span::Span;

const NI: NiId = NiId(1);
/// Nobody waits longer for anything here; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(60);

fn payload(operation: u64, len: usize) -> Vec<u8> {
    let byte = |at: u64| (operation.wrapping_mul(0x9e37_79b9).wrapping_add(at * 31) >> 3) as u8;
    (0..len as u64).map(byte).collect()
}

/// The program above a node.
#[derive(Default)]
struct Program {
    sent: BTreeMap<u64, Result<(), Failure>>,
    received: BTreeMap<u64, Result<(), Failure>>,
    gets: BTreeMap<u64, Span>,
    landing: BTreeMap<RxId, (Header, Option<Span>)>,
    replies: Vec<(Nid, Handle, u64, u32)>,
    offers_memory: bool,
    next_rx: u64,
}

impl Upper for Program {
    type Destination = Landing;
    type Payload = Payload;

    fn header(
        &mut self,
        _ni: NiId,
        _peer: ProcessId,
        header: &Header,
        _now: Time,
    ) -> Disposition<Landing> {
        self.next_rx += 1;
        let rx = RxId(self.next_rx);
        let len = header.payload_length as usize;
        let memory = match header.body {
            Body::Reply(reply) => self.gets.get(&reply.dst_wmd.object).cloned(),
            _ => (len > 0).then(|| Span::zeroed(len).unwrap()),
        };
        self.landing.insert(rx, (*header, memory.clone()));
        let destination = memory.map(Landing);
        Disposition::Receive { rx, destination }
    }

    fn received(&mut self, rx: RxId, result: Result<(), Failure>, _now: Time) {
        let (header, memory) = self.landing.remove(&rx).unwrap();
        let operation = match header.body {
            Body::Put(put) => put.match_bits,
            Body::Reply(reply) => reply.dst_wmd.object,
            Body::Get(get) => {
                let asked = (
                    header.src_nid,
                    get.return_wmd,
                    get.match_bits,
                    get.sink_length,
                );
                self.replies.push(asked);
                return;
            }
            Body::Ack(_) => return,
        };
        if let (Ok(()), Some(memory)) = (result, memory) {
            let bytes = memory.to_vec();
            assert_eq!(
                bytes,
                payload(operation, bytes.len()),
                "operation {operation}"
            );
        }
        assert_eq!(
            self.received.insert(operation, result),
            None,
            "reported twice"
        );
    }

    fn sent(&mut self, tx: TxId, result: Result<(), Failure>, _now: Time) {
        assert_eq!(self.sent.insert(tx.0, result), None, "reported twice");
    }

    fn peer_changed(&mut self, _: NiId, _: ProcessId, _: bool, _: Option<u64>, _: Time) {}

    fn reply_memory(&mut self, tx: TxId) -> Option<Landing> {
        let memory = self.gets.get(&tx.0).filter(|_| self.offers_memory)?;
        Some(Landing(memory.clone()))
    }
}

struct Node {
    lnd: O2iblnd<VerbsDevice>,
    program: Program,
    nid: Nid,
}

/// Two nodes in one process, each on its device.
struct Pair {
    nodes: Vec<Node>,
    origin: Instant,
    next: u64,
}

fn nid(address: Ipv4Addr) -> Nid {
    Nid::from_ip(Net::new(LndType::O2IB, 0), address.into())
}

/// Returns the addresses of two devices; `None` without, after a word.
fn addresses() -> Option<[Ipv4Addr; 2]> {
    let Ok(text) = std::env::var("FINERAIL_RDMA") else {
        println!("skipped: FINERAIL_RDMA names no addresses of RDMA devices (see .ci/rdma)");
        return None;
    };
    let all: Vec<Ipv4Addr> = text.split(',').map(|one| one.parse().unwrap()).collect();
    Some(all.try_into().unwrap())
}

impl Pair {
    fn new(config: O2ibConfig, tuning: NiTuning, service: u16) -> Option<Self> {
        let make = |(index, address)| {
            let device = VerbsDevice::new().unwrap().service(service);
            let mut lnd = O2iblnd::new(config, device);
            let nid = nid(address);
            let incarnation = 1_000_000 + index as u64;
            lnd.add_ni(LndNi {
                ni: NI,
                nid,
                tuning,
                incarnation,
            })
            .unwrap();
            let program = Program {
                offers_memory: true,
                ..Program::default()
            };
            Node { lnd, program, nid }
        };
        let nodes = addresses()?.into_iter().enumerate().map(make).collect();
        Some(Self {
            nodes,
            origin: Instant::now(),
            next: 0,
        })
    }

    fn now(&self) -> Time {
        Time::from_secs(1) + self.origin.elapsed()
    }

    fn send(&mut self, from: usize, body: Body, memory: Option<Span>) -> u64 {
        self.next += 1;
        let (now, to) = (self.now(), self.nodes[1 - from].nid);
        let node = &mut self.nodes[from];
        let header = Header {
            dest_nid: to,
            src_nid: node.nid,
            dest_pid: ProcessId::LUSTRE_PID,
            src_pid: ProcessId::LUSTRE_PID,
            payload_length: memory.as_ref().map_or(0, Span::len) as u32,
            body,
        };
        let request = SendRequest {
            tx: TxId(self.next),
            ni: NI,
            to: ProcessId::lustre(to),
            header,
            payload: memory.map(Payload::Span),
            deadline: now + PATIENCE * 2,
        };
        node.lnd.send(request, now, &mut node.program);
        self.next
    }

    fn put(&mut self, from: usize, len: usize) -> u64 {
        let operation = self.next + 1;
        let body = Body::Put(Put {
            ack_wmd: Handle::NONE,
            match_bits: operation,
            hdr_data: 0,
            ptl_index: 0,
            offset: 0,
        });
        let memory = (len > 0).then(|| Span::from(payload(operation, len)));
        self.send(from, body, memory)
    }

    fn get(&mut self, from: usize, len: usize) -> u64 {
        let operation = self.next + 1;
        let memory = Span::zeroed(len).unwrap();
        self.nodes[from].program.gets.insert(operation, memory);
        let body = Body::Get(Get {
            return_wmd: Handle {
                interface: 1,
                object: operation,
            },
            match_bits: operation,
            ptl_index: 0,
            src_offset: 0,
            sink_length: len as u32,
        });
        self.send(from, body, None)
    }

    /// One turn of both nodes.
    fn turn(&mut self) {
        let mut idle = true;
        for index in 0..2 {
            let now = self.now();
            let node = &mut self.nodes[index];
            node.lnd.device().poll().unwrap();
            while let Some(event) = node.lnd.device().next_event() {
                idle = false;
                node.lnd.event(event.view(), now, &mut node.program);
            }
            node.lnd.tick(now, &mut node.program);
            for (to, dst_wmd, operation, len) in std::mem::take(&mut node.program.replies) {
                assert_eq!(to, self.nodes[1 - index].nid);
                let memory = Span::from(payload(operation, len as usize));
                self.send(index, Body::Reply(Reply { dst_wmd }), Some(memory));
            }
        }
        if idle {
            // Both in one process: neither may sleep for long.
            self.nodes[0]
                .lnd
                .device()
                .wait(Duration::from_millis(1))
                .unwrap();
        }
    }

    #[track_caller]
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            assert!(
                begin.elapsed() < PATIENCE,
                "never: {what}; {:#?}",
                self.stats()
            );
            self.turn();
        }
    }

    fn stats(&self) -> Vec<&lnet_o2ib::O2ibStats> {
        self.nodes.iter().map(|node| node.lnd.stats()).collect()
    }

    fn arrived(&self, node: usize, operation: u64) -> bool {
        self.nodes[node].program.received.get(&operation) == Some(&Ok(()))
    }

    /// Shuts both nodes down. Nothing may be left.
    fn end(mut self) {
        for index in 0..2 {
            let now = self.now();
            let node = &mut self.nodes[index];
            node.lnd.close_all(now, &mut node.program);
        }
        self.until("nothing is left", |pair| {
            pair.nodes.iter().all(|node| node.lnd.is_idle())
        });
        for node in &mut self.nodes {
            assert_eq!(node.lnd.device().registrations(), 0);
        }
    }
}

#[test]
fn every_transfer_in_both_directions_has_every_byte() {
    let Some(mut pair) = Pair::new(O2ibConfig::default(), NiTuning::default(), 987) else {
        return;
    };
    for from in [0, 1] {
        for len in [0, 1, 100, IMMEDIATE_MAX, IMMEDIATE_MAX + 1, 65_537, 1 << 20] {
            let put = pair.put(from, len);
            pair.until("the PUT arrives", |pair| pair.arrived(1 - from, put));
            pair.until("the PUT is complete", |pair| {
                pair.nodes[from].program.sent.get(&put) == Some(&Ok(()))
            });
            if len > 0 {
                let get = pair.get(from, len);
                pair.until("the REPLY arrives", |pair| pair.arrived(from, get));
            }
        }
    }
    let sent = |node: usize, kind| pair.nodes[node].lnd.stats().sent.of(kind);
    for node in [0, 1] {
        assert_eq!(sent(node, MessageKind::PutReq), 3);
        assert_eq!(sent(node, MessageKind::GetReq), 3);
        let by_rdma = (IMMEDIATE_MAX as u64 + 1) + 65_537 + (1 << 20);
        let stats = pair.nodes[node].lnd.stats();
        assert_eq!(stats.bytes_landed, 2 * by_rdma);
        assert!(
            stats.bytes_copied < 4 * 2 * (IMMEDIATE_MAX as u64 + 101),
            "no large payload is copied"
        );
    }
    pair.end();
}

#[test]
fn many_transfers_at_once_arrive_over_several_connections() {
    let tuning = NiTuning {
        conns_per_peer: 3,
        ..NiTuning::default()
    };
    let config = O2ibConfig {
        cksum: true,
        ..O2ibConfig::default()
    };
    let Some(mut pair) = Pair::new(config, tuning, 988) else {
        return;
    };
    let mut all = Vec::new();
    for round in 0..200 {
        let (from, len) = (round % 2, [64, 5000, 100_000][round % 3]);
        all.push((1 - from, pair.put(from, len)));
        all.push((from, pair.get(from, len)));
    }
    pair.until("all arrive", |pair| {
        all.iter().all(|&(node, one)| pair.arrived(node, one))
    });
    for stats in pair.stats() {
        assert_eq!(stats.closed.iter().count(), 0, "{stats:#?}");
        assert!(stats.waited_for_credit > 0);
    }
    pair.end();
}

#[test]
fn connections_that_close_come_again_and_leave_nothing() {
    let Some(mut pair) = Pair::new(O2ibConfig::default(), NiTuning::default(), 989) else {
        return;
    };
    for round in 0..20 {
        // A message may meet the end of the last connection, and fails then.
        let mut first = pair.put(0, 100);
        while !pair.arrived(1, first) {
            pair.turn();
            if matches!(pair.nodes[0].program.sent.get(&first), Some(Err(_))) {
                first = pair.put(0, 100);
            }
        }
        let large = pair.put(0, 300_000);
        let back = pair.get(1, 300_000);
        for _ in 0..round {
            pair.turn();
        }
        let now = pair.now();
        let node = &mut pair.nodes[round % 2];
        node.lnd.ni_went_down(NI, now, &mut node.program);
        pair.until("both are reported", |pair| {
            let sent = |node: usize, one| pair.nodes[node].program.sent.contains_key(&one);
            sent(0, large) && sent(1, back)
        });
    }
    let closed = pair
        .stats()
        .into_iter()
        .map(|stats| stats.closed.of(CloseReason::Disconnected));
    assert!(closed.sum::<u64>() >= 20);
    pair.end();
}

#[test]
fn a_peer_where_nobody_listens_is_unreachable() {
    let Some(mut pair) = Pair::new(O2ibConfig::default(), NiTuning::default(), 990) else {
        return;
    };
    let now = pair.now();
    let node = &mut pair.nodes[1];
    node.lnd.close_all(now, &mut node.program);
    let put = pair.put(0, 10);
    pair.until("the message is reported", |pair| {
        pair.nodes[0].program.sent.contains_key(&put)
    });
    let result = pair.nodes[0].program.sent.get(&put);
    assert_eq!(result, Some(&Err(Failure::NetworkTimeout)));
    pair.end();
}

#[test]
fn without_devices_the_reason_is_named() {
    // Wherever the libraries or devices are missing, this says which; where they are there, an address is missing.
    let nid: Nid = "127.0.0.1@o2ib".parse().unwrap();
    let error = match VerbsDevice::new() {
        Err(error) => error.to_string(),
        Ok(device) => {
            let mut lnd = O2iblnd::new(O2ibConfig::default(), device);
            let tuning = NiTuning::default();
            let ni = LndNi {
                ni: NI,
                nid,
                tuning,
                incarnation: 1,
            };
            lnd.add_ni(ni).unwrap_err().to_string()
        }
    };
    let known = [
        "apt-get install",
        "rdma_ucm",
        "no RDMA device",
        "needs a privilege",
    ];
    assert!(known.iter().any(|words| error.contains(words)), "{error}");
}

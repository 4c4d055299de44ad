//! Tests that a peer that never stops sending delays neither a caller nor the shutdown of the node.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lnet_node::{MatchEntry, Md, MdOptions, Node, PutRequest};
use lnet_types::{Nid, ProcessId};
use lnet_wire::{Body, Connreq, Ctype, Handle, Header, HeaderForm, Hello, KsockHeader, Put};

use common::{PATIENCE, nid, start};

const PORTAL: u32 = 40;
const BITS: u64 = 7;

/// Frames in one write: enough that the socket never becomes empty.
const BURST: usize = 1024;

const BLASTERS: usize = 4;

/// A peer that sends 64-byte PUTs until it is dropped.
struct Blaster {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Blaster {
    fn start(port: u16, target: Nid) -> Self {
        let mut stream = TcpStream::connect((target.ip().unwrap(), port)).unwrap();
        greet(&mut stream, target);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let burst = frame(target).repeat(BURST);
            while !stopped.load(Ordering::Relaxed) && stream.write_all(&burst).is_ok() {}
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Blaster {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn stranger() -> Nid {
    nid("127.0.0.9@tcp")
}

fn greet(stream: &mut TcpStream, target: Nid) {
    let hello = Hello::dial(stranger(), target, 77, Ctype::BULK_OUT);
    let mut bytes = [0; Connreq::MAX_LEN + Hello::MAX_LEN];
    let request = Connreq::to(target).encode(&mut bytes).unwrap();
    let len = hello.encode(&mut bytes[request..]).unwrap();
    stream.write_all(&bytes[..request + len]).unwrap();
    let mut reply = vec![0; hello.version.base_len()];
    stream.read_exact(&mut reply).unwrap();
}

fn frame(target: Nid) -> Vec<u8> {
    let put = Put {
        ack_wmd: Handle::NONE,
        match_bits: BITS,
        hdr_data: 0,
        ptl_index: PORTAL,
        offset: 0,
    };
    let header = Header {
        dest_nid: target,
        src_nid: stranger(),
        dest_pid: ProcessId::LUSTRE_PID,
        src_pid: ProcessId::LUSTRE_PID,
        payload_length: 64,
        body: Body::Put(put),
    };
    let mut bytes = KsockHeader::LNET.to_bytes().to_vec();
    let head = bytes.len();
    bytes.resize(head + HeaderForm::Nid4.len(), 0);
    header.encode(HeaderForm::Nid4, &mut bytes[head..]).unwrap();
    bytes.resize(bytes.len() + 64, 0x5A);
    bytes
}

/// Does `work` in another thread and waits for it; returns false if the work takes longer than [`PATIENCE`].
fn ends(work: impl FnOnce() + Send + 'static) -> bool {
    let (done, waiting) = mpsc::channel();
    thread::spawn(move || {
        work();
        // No thread receives any more once the test has timed out.
        let _ = done.send(());
    });
    waiting.recv_timeout(PATIENCE).is_ok()
}

/// Starts a node that receives the messages of blasters, and enough blasters that one of them always has a message
/// ready.
fn under_fire() -> (Node, Vec<Blaster>) {
    let port = testkit::port();
    let node = start(port, &["127.0.0.1@tcp"], &[]);
    let arrivals = node.event_queue();
    let room = Md::sink(vec![0; 64]).options(MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE);
    node.attach(&arrivals, MatchEntry::exact(PORTAL, BITS), room)
        .unwrap();
    thread::spawn(move || while arrivals.wait(Some(PATIENCE)).is_ok() {});
    let target = node.primary_nid();
    let blasters = (0..BLASTERS).map(|_| Blaster::start(port, target));
    (node, blasters.collect())
}

#[test]
fn a_peer_that_never_stops_keeps_no_caller_waiting() {
    let (node, blasters) = under_fire();
    let caller = node.clone();
    let served = ends(move || {
        let first = caller.stats().recv_count;
        // A hundred calls, with messages of the peer before, between and after them.
        for _ in 0..100 {
            let _ = caller.stats();
        }
        while caller.stats().recv_count == first {}
        put_to_itself(&caller);
    });
    drop(blasters);
    assert!(served, "the peer kept a caller waiting");
}

fn put_to_itself(node: &Node) {
    let departures = node.event_queue();
    let md = Md::source(vec![1; 64]).threshold(1);
    let md = node.bind(&departures, md).unwrap();
    node.put(PutRequest {
        md,
        ack: false,
        source: None,
        target: ProcessId::lustre(node.primary_nid()),
        portal: PORTAL,
        match_bits: BITS,
        offset: 0,
        hdr_data: 0,
    })
    .unwrap();
    departures.wait(Some(PATIENCE)).expect("it leaves");
}

#[test]
fn a_peer_that_never_stops_does_not_hold_up_the_end() {
    let (node, blasters) = under_fire();
    let ended = ends(move || {
        node.shutdown(Duration::from_millis(100));
    });
    drop(blasters);
    assert!(ended, "the peer held the shutdown up");
}

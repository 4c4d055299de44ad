//! Counts the instructions of a put of 64 bytes, called from Rust and through the C interface: exact on every machine.
//! The call through C may cost a tenth more.
//!
//! ```text
//! CARGO_PROFILE_RELEASE_STRIP=none cargo bench --profile release -p lnet-ffi --bench call
//! ```
//!
//! What is counted is the call alone, on a node that the waiting thread drives, with a connection to the target: the
//! bytes leave later. Each limit is the last figure and 3 %. Needs valgrind and gungraun-runner.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up fails")]
#![expect(missing_docs, reason = "the macros make items that no program sees")]
#![expect(unsafe_code, reason = "functions of the C interface")]

use std::net::TcpListener;
use std::ptr;

use finerail_lnet::abi::{
    flnet_address, flnet_event, flnet_match, flnet_md, flnet_options, flnet_put,
};
use finerail_lnet::*;
use gungraun::{
    Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use lnet_node::{
    EventQueue, MatchEntry, Md, MdOptions, NiSettings, Node, NodeOptions, Progress, PutRequest,
    StartError,
};
use lnet_types::{Nid, ProcessId};

const HERE: &str = "127.0.0.1@tcp";
const PORTAL: u32 = 10;
const WARM: usize = 8;

fn limit(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

fn port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

fn in_rust() -> (Node, EventQueue, PutRequest) {
    let options = NodeOptions {
        port: port(),
        progress: Progress::Caller,
        ..NodeOptions::default()
    };
    let nid: Nid = HERE.parse().unwrap();
    let node = Node::start_with(options, |engine, now| {
        engine
            .add_interface(nid, NiSettings::default(), now)
            .unwrap();
        Ok::<(), StartError>(())
    });
    let node = node.unwrap();
    let queue = node.event_queue();
    let offered = MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE;
    let sink = Md::sink(vec![0; 64]).options(offered);
    node.attach(&queue, MatchEntry::exact(PORTAL, 0), sink)
        .unwrap();
    let put = PutRequest {
        md: node.bind(&queue, Md::source(vec![7; 64])).unwrap(),
        ack: false,
        source: None,
        target: ProcessId::lustre(nid),
        portal: PORTAL,
        match_bits: 0,
        offset: 0,
        hdr_data: 0,
    };
    for _ in 0..WARM {
        node.put(put).unwrap();
        for _ in 0..2 {
            queue.wait(None).unwrap();
        }
    }
    (node, queue, put)
}

struct InC {
    node: u64,
    put: flnet_put,
    _memory: Box<[u8; 128]>,
}

fn in_c() -> InC {
    let yaml = c"net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n";
    let options = flnet_options {
        size: size_of::<flnet_options>(),
        port: port().into(),
        progress: 1,
        ..flnet_options::default()
    };
    let mut memory = Box::new([7; 128]);
    let (mut node, mut queue, mut source, mut target) = (0, 0, 0, 0);
    let mut to = flnet_address::default();
    let mut event = flnet_event::default();
    let start = memory.as_mut_ptr();
    // SAFETY: all pointers are those of values that live during the calls; `memory` lives as long as the node.
    unsafe {
        assert_eq!(
            flnet_start(yaml.as_ptr(), &raw const options, &raw mut node),
            0
        );
        assert_eq!(flnet_queue_open(node, &raw mut queue), 0);
        let nid = c"127.0.0.1@tcp".as_ptr();
        assert_eq!(flnet_parse_address(nid, PORTAL, 0, &raw mut to), 0);
        let mut md = flnet_md {
            start: start.cast(),
            length: 64,
            options: 0x0001 | 0x0004,
            threshold: 0,
            max_size: 0,
            user: 0,
        };
        let entry = flnet_match {
            portal: PORTAL,
            ..flnet_match::default()
        };
        let attached = flnet_attach(queue, &raw const entry, &raw const md, &raw mut target);
        assert_eq!(attached, 0);
        md.start = start.add(64).cast();
        md.options = 0;
        assert_eq!(flnet_bind(queue, &raw const md, &raw mut source), 0);
        let put = flnet_put {
            md: source,
            to,
            ..flnet_put::default()
        };
        for _ in 0..WARM {
            assert_eq!(flnet_put(node, &raw const put), 0);
            for _ in 0..2 {
                assert_eq!(flnet_wait(queue, &raw mut event, 1, -1), 1);
            }
        }
        InC {
            node,
            put,
            _memory: memory,
        }
    }
}

#[library_benchmark]
#[bench::put(setup = in_rust, config = limit(5580))]
fn rust((node, queue, put): (Node, EventQueue, PutRequest)) -> (Node, EventQueue) {
    node.put(put).unwrap();
    (node, queue)
}

#[library_benchmark]
#[bench::put(setup = in_c, config = limit(5804))]
fn c(of: InC) -> InC {
    // SAFETY: the structure lives during the call, and the memory of its descriptor longer.
    let result = unsafe { flnet_put(of.node, ptr::from_ref(&of.put)) };
    assert_eq!(result, 0);
    of
}

library_benchmark_group!(name = calls; benchmarks = rust, c);
main!(library_benchmark_groups = calls);

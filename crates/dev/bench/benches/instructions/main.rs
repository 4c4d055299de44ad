//! Counts the instructions of messages between two nodes, and of a router between them: exact on every machine, so a
//! limit here fails for what a change costs and for nothing else. Each node has one interface and no rules. In the
//! benches called `crowded`, the nodes discover each other, the target has four interfaces, and each node has ten
//! rules.
//!
//! ```text
//! CARGO_PROFILE_RELEASE_STRIP=none cargo bench --profile release -p finerail-bench --bench instructions
//! ```
//!
//! What is counted begins with the call of a program, or with bytes that have arrived, and ends when the bytes are in
//! the connection and the program's event is in its queue. The connection is a vector. Divide those of a
//! batch by 32. Each limit is the last figure and 3 %; a change that makes a figure smaller makes its limit smaller.
//!
//! Needs valgrind and gungraun-runner.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up fails")]
#![expect(missing_docs, reason = "the macros make items that no program sees")]

mod chain;
mod memory;
mod o2ib;
mod pair;
mod rpcs;

use gungraun::{
    Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};

use crate::chain::{BULK, Chain, REQUEST};
use crate::o2ib::Rdma;
use crate::pair::Pair;
use crate::pair::Setting::{self, Crowded, Plain};
use crate::rpcs::Waiting;

const BATCH: usize = 32;

fn limit(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

/// A pair in which the initiator has begun operations and has not run.
fn begun(setting: Setting, begin: fn(&mut Pair), count: usize) -> Box<Pair> {
    let mut pair = Pair::warm(setting);
    for _ in 0..count {
        begin(&mut pair);
    }
    pair
}

/// A pair whose target has requests to read.
fn asked(setting: Setting, begin: fn(&mut Pair), count: usize) -> Box<Pair> {
    let mut pair = begun(setting, begin, count);
    pair.initiator.run();
    pair
}

/// A pair whose initiator has responses to read.
fn answered(setting: Setting, begin: fn(&mut Pair), count: usize) -> Box<Pair> {
    let mut pair = asked(setting, begin, count);
    pair.target.run();
    pair
}

fn put(pair: &mut Pair) {
    pair.put(false);
}

fn put_ack(pair: &mut Pair) {
    pair.put(true);
}

// A PUT of 64 bytes without ACK, up to its SEND event.
#[library_benchmark]
#[bench::one(args = (Plain, 1), setup = idle, config = limit(5741))]
#[bench::batch(args = (Plain, BATCH), setup = idle, config = limit(146_272))]
#[bench::crowded_one(args = (Crowded, 1), setup = idle, config = limit(7294))]
#[bench::crowded_batch(args = (Crowded, BATCH), setup = idle, config = limit(184_319))]
fn send_put((mut pair, count): (Box<Pair>, usize)) -> Box<Pair> {
    for _ in 0..count {
        put(&mut pair);
    }
    pair.initiator.run();
    assert_eq!(pair.initiator.events(), count);
    pair
}

fn idle(setting: Setting, count: usize) -> (Box<Pair>, usize) {
    (Pair::warm(setting), count)
}

// The same PUT at its target, up to the PUT event.
#[library_benchmark]
#[bench::one(args = (Plain, put, 1), setup = asked, config = limit(5490))]
#[bench::batch(args = (Plain, put, BATCH), setup = asked, config = limit(117_451))]
#[bench::crowded_one(args = (Crowded, put, 1), setup = asked, config = limit(5599))]
#[bench::crowded_batch(args = (Crowded, put, BATCH), setup = asked, config = limit(124_090))]
fn receive_put(mut pair: Box<Pair>) -> Box<Pair> {
    pair.target.run();
    assert!(pair.target.events() > 0);
    pair
}

// A PUT with ACK at its initiator: the request, and then the ACK.
#[library_benchmark]
#[bench::request(args = (Plain, put_ack, 1), setup = begun, config = limit(3976))]
#[bench::ack(args = (Plain, put_ack, 1), setup = answered, config = limit(5448))]
fn put_with_ack(mut pair: Box<Pair>) -> Box<Pair> {
    pair.initiator.run();
    assert!(pair.initiator.events() > 0);
    pair
}

// A GET of 4 KiB at its initiator: the request, and then the REPLY.
#[library_benchmark]
#[bench::request(args = (Plain, Pair::get, 1), setup = begun, config = limit(3634))]
#[bench::reply(args = (Plain, Pair::get, 1), setup = answered, config = limit(6510))]
fn get(mut pair: Box<Pair>) -> Box<Pair> {
    pair.initiator.run();
    pair
}

// The same GET at its target.
#[library_benchmark]
#[bench::one(args = (Plain, Pair::get, 1), setup = asked, config = limit(9800))]
fn answer_get(mut pair: Box<Pair>) -> Box<Pair> {
    pair.target.run();
    assert!(pair.target.events() > 0);
    pair
}

/// A chain whose router has messages of 4 KiB to forward.
fn waiting(portal: u32, is_counting: bool) -> Box<Chain> {
    let mut chain = Chain::warm(is_counting);
    chain.put(portal, BATCH);
    chain
}

// A batch of PUTs of 4 KiB at a router, from the one connection to the other. It counts RPCs, or it does not, which may
// cost 5 %: of bulk it looks at the header, and of a request at 1 KiB more.
#[library_benchmark(teardown = arrived)]
#[bench::plain(args = (BULK, false), setup = waiting, config = limit(441_065))]
#[bench::bulk_counted(args = (BULK, true), setup = waiting, config = limit(449_628))]
#[bench::requests_counted(args = (REQUEST, true), setup = waiting, config = limit(449_628))]
fn forward(mut chain: Box<Chain>) -> Box<Chain> {
    chain.router.run();
    chain
}

fn arrived(mut chain: Box<Chain>) {
    assert_eq!(chain.settle(), BATCH);
}

// RPCs, each a request and its reply, at the thread that counts them.
#[library_benchmark]
#[bench::batch(args = (BATCH / rpcs::EACH), setup = Waiting::with, config = limit(296_625))]
fn count(mut waiting: Box<Waiting>) -> Box<Waiting> {
    assert_eq!(waiting.queue.count_now(), 2 * BATCH);
    waiting
}

// IMMEDIATE messages of 64 bytes over RDMA, from the call to the completion of their sends. They have no limit yet.
#[library_benchmark]
#[bench::one(args = (1), setup = Rdma::warm, config = limit(1_905))]
#[bench::batch(args = (BATCH), setup = Rdma::warm, config = limit(55_624))]
fn send_immediate(mut rdma: Box<Rdma>) -> Box<Rdma> {
    rdma.send();
    assert!(rdma.program.sent > 0);
    rdma
}

/// A node that sends nothing, and the number of messages that arrive.
fn to_receive(count: usize) -> (Box<Rdma>, usize) {
    (Rdma::warm(0), count)
}

// The same messages at the other end, from the receive buffer to the payload in its memory.
#[library_benchmark]
#[bench::one(args = (1), setup = to_receive, config = limit(1_618))]
#[bench::batch(args = (BATCH), setup = to_receive, config = limit(51_046))]
fn receive_immediate((mut rdma, count): (Box<Rdma>, usize)) -> Box<Rdma> {
    rdma.receive(count);
    assert_eq!(rdma.program.received, count);
    rdma
}

library_benchmark_group!(
    name = messages;
    benchmarks = send_put, receive_put, put_with_ack, get, answer_get, forward, count, send_immediate,
        receive_immediate
);
main!(library_benchmark_groups = messages);

//! Measures events of one descriptor per second: 64-byte PUTs that are sent, received and acknowledged, in memory.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up fails")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lnet_core::{
    Core, CoreConfig, Entropy, Globals, InsertPosition, MdHandle, MdOptions, MdSpec, MeSpec,
    MessageStatus, NiConfig, NiId, Output, PutRequest, RouterBuffers, Transmit, Tunables, Verdict,
};
use lnet_types::{Nid, ProcessId, Time};

const LENGTH: u32 = 64;

struct Node {
    core: Core,
    ni: NiId,
    id: ProcessId,
}

fn node(number: u64) -> Node {
    let config = CoreConfig {
        entropy: Entropy::from_seed(number),
        seed: number,
        globals: Globals::default(),
        buffers: RouterBuffers::default(),
        routing: false,
        pid: ProcessId::LUSTRE_PID,
    };
    let mut core = Core::new(config, Time::ZERO);
    let nid: Nid = format!("10.0.0.{number}@tcp").parse().unwrap();
    let tunables = Tunables::default();
    let ni = core.add_ni(NiConfig { nid, tunables }, Time::ZERO).unwrap();
    let id = ProcessId::lustre(nid);
    Node { core, ni, id }
}

fn md(options: MdOptions) -> MdSpec {
    MdSpec {
        length: LENGTH,
        threshold: None,
        max_size: 0,
        options,
        unlink_when_exhausted: false,
        user: 1,
    }
}

/// A node that sends PUTs from one descriptor, and a node that receives them into one.
struct Pair {
    from: Node,
    to: Node,
    source: MdHandle,
    now: Time,
}

impl Pair {
    fn new() -> Self {
        let (mut from, mut to) = (node(1), node(2));
        let me = MeSpec {
            portal: 30,
            match_id: ProcessId::ANY,
            match_bits: 7,
            ignore_bits: 0,
            unlink_with_md: true,
            position: InsertPosition::After,
        };
        let me = to.core.me_attach(me).unwrap();
        let room = md(MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE);
        to.core.md_attach(me, room, Time::ZERO).unwrap();
        let source = from.core.md_bind(md(MdOptions::empty())).unwrap();
        let now = Time::from_secs(1);
        Self {
            from,
            to,
            source,
            now,
        }
    }

    fn put(&mut self, ack: bool) -> Transmit {
        self.now = Time::from_nanos(self.now.as_nanos() + 100);
        let put = PutRequest {
            md: self.source,
            ack,
            source: None,
            target: self.to.id,
            portal: 30,
            match_bits: 7,
            offset: 0,
            hdr_data: 0,
        };
        self.from.core.put(put, self.now).unwrap();
        transmit(&mut self.from.core)
    }

    fn sent(&mut self, message: &Transmit) {
        self.from.core.sent(message.tx, MessageStatus::Ok, self.now);
        event(&mut self.from.core);
    }

    fn arrives(&mut self, message: &Transmit) {
        receive(&mut self.to, self.from.id, message, self.now);
        event(&mut self.to.core);
    }

    fn acknowledges(&mut self) {
        let ack = transmit(&mut self.to.core);
        receive(&mut self.from, self.to.id, &ack, self.now);
        event(&mut self.from.core);
        self.to.core.sent(ack.tx, MessageStatus::Ok, self.now);
    }
}

fn transmit(core: &mut Core) -> Transmit {
    let Some(Output::Transmit(message)) = core.poll_output() else {
        unreachable!("a message goes out")
    };
    message
}

fn event(core: &mut Core) {
    let output = core.poll_output();
    assert!(matches!(output, Some(Output::Event(_))), "{output:?}");
}

fn receive(node: &mut Node, from: ProcessId, message: &Transmit, now: Time) {
    let verdict = node.core.header(node.ni, from, &message.header, now);
    let Verdict::Receive { rx, .. } = verdict else {
        unreachable!("the message is wanted")
    };
    node.core.arrived(rx, Ok(()), now);
}

fn events(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("events");
    group.throughput(Throughput::Elements(1));
    group.bench_function("put_goes_out", |bench| {
        let mut pair = Pair::new();
        bench.iter(|| {
            let message = pair.put(false);
            pair.sent(&message);
        });
    });
    group.bench_function("put_arrives", |bench| {
        let mut pair = Pair::new();
        let message = pair.put(false);
        pair.sent(&message);
        bench.iter(|| pair.arrives(&message));
    });
    group.throughput(Throughput::Elements(3));
    group.bench_function("put_and_ack_both_ends", |bench| {
        let mut pair = Pair::new();
        bench.iter(|| {
            let message = pair.put(true);
            pair.sent(&message);
            pair.arrives(&message);
            pair.acknowledges();
        });
    });
    group.finish();
}

criterion_group!(benches, events);
criterion_main!(benches);

//! Measures the delivered messages per second of one CPU core, on a fabric of 100 nodes, and the cost of one seed
//! of the faults scenario.

use std::hint::black_box;
use std::rc::Rc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use lnet_sim::cores::{Limits, Options, Scenario, Sim, draw};

/// 80 clients put to 20 servers. Each PUT arrives once, so the PUTs are all the messages.
const HUNDRED_NODES: &str = "
name: hundred
summary: Eighty clients, twenty servers
nodes:
  - { name: client, count: 80, nis: [{ net: o2ib }] }
  - { name: server, count: 20, nis: [{ net: o2ib }] }
traffic:
  - { from: client, to: server, kind: put, size: 4096, every_us: 50, count: 1250 }
";

const MESSAGES: u64 = 100_000;

fn messages(criterion: &mut Criterion) {
    let Ok(scenario) = Scenario::parse(HUNDRED_NODES) else {
        return;
    };
    let plan = Rc::new(scenario.plan(1));
    let mut group = criterion.benchmark_group("100 nodes");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(MESSAGES));
    group.bench_function("delivered messages", |bencher| {
        let sim = || Sim::new(Rc::clone(&plan), Options::default());
        bencher.iter_batched(
            sim,
            |mut sim| {
                while sim.step() {}
                let summary = sim.outcome().summary;
                assert_eq!(summary.delivered, MESSAGES);
                summary
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn seeds(criterion: &mut Criterion) {
    let mut seed = 0;
    criterion.bench_function("a seed of all faults", |bencher| {
        bencher.iter(|| {
            seed += 1;
            let plan = Rc::new(draw(&Limits::default(), seed));
            black_box(Sim::run(plan, Options::default()))
        });
    });
}

criterion_group!(benches, messages, seeds);
criterion_main!(benches);

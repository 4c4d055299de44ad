//! Measures one selection. For comparison, measures a loop over all pairs of interfaces that compares the same number
//! of keys in one array, which is the least that the machine needs.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use lnet_core::{Core, CoreConfig, Entropy, Globals, NiConfig, RouterBuffers, SendQuery, Tunables};
use lnet_policy::{Priority, Rule, RuleList};
use lnet_types::{Net, Nid, Time};

/// Number of local interfaces, each with as many of the peer; of nets; of rules.
const SHAPES: [(u32, u16, u32); 4] = [(1, 1, 0), (4, 1, 0), (4, 1, 64), (8, 2, 64)];

fn local(number: u32, nets: u16) -> Nid {
    Nid::from_number(Net::tcp(number as u16 % nets), 0x0A00_0000 | number)
}

fn remote(number: u32, nets: u16) -> Nid {
    Nid::from_number(Net::tcp(number as u16 % nets), 0x0A00_0100 | number)
}

fn core(interfaces: u32, nets: u16, rules: u32) -> Option<Core> {
    let config = CoreConfig {
        entropy: Entropy::from_seed(1),
        seed: 1,
        globals: Globals::default(),
        buffers: RouterBuffers::default(),
        routing: false,
        pid: 12345,
    };
    let now = Time::ZERO;
    let mut core = Core::new(config, now);
    let tunables = Tunables::default();
    for number in 1..=interfaces {
        let nid = local(number, nets);
        core.add_ni(NiConfig { nid, tunables }, now).ok()?;
    }
    let peers: Vec<Nid> = (1..=interfaces)
        .map(|number| remote(number, nets))
        .collect();
    core.add_peer(*peers.first()?, &peers, true).ok()?;
    for number in 0..rules {
        let text = format!("10.0.[1-{}].{}@tcp*", 1 + number / 8, 1 + number % 8);
        let rule = Rule::remote(text.parse().ok()?, Priority::new(number)?).ok()?;
        core.add_rule(rule, None).ok()?;
    }
    Some(core)
}

/// Does the least work for a choice among all pairs: one pass over their keys.
fn all_pairs(keys: &[u64]) -> usize {
    let best = keys.iter().enumerate().min_by_key(|&(_, key)| *key);
    best.map_or(0, |(at, _)| at)
}

fn select(criterion: &mut Criterion) {
    for (interfaces, nets, rules) in SHAPES {
        let Some(core) = core(interfaces, nets, rules) else {
            continue;
        };
        let query = SendQuery::to(remote(1, nets));
        let name = format!("{interfaces}x{interfaces} on {nets} nets, {rules} rules");
        criterion.bench_function(&format!("select {name}"), |bencher| {
            bencher.iter(|| core.choose(black_box(&query)));
        });
    }
    let keys: Vec<u64> = (0..64).map(|pair| pair * 7919 % 64).collect();
    criterion.bench_function("loop over 64 pairs", |bencher| {
        bencher.iter(|| all_pairs(black_box(&keys)));
    });
}

/// Measures the removal of one of 1,000 rules with 25,000 peers of four interfaces, which computes all values again.
fn apply(criterion: &mut Criterion) {
    let Some(mut core) = core(8, 1, 0) else {
        return;
    };
    for peer in 0..25_000_u32 {
        let nid = |rail: u32| Nid::from_number(Net::tcp(0), 0x0B00_0000 | peer << 2 | rail);
        let nids = [nid(0), nid(1), nid(2), nid(3)];
        if core.add_peer(nids[0], &nids, true).is_err() {
            return;
        }
    }
    let mut rules = RuleList::new();
    for number in 0..1001_u32 {
        let text = format!("11.{}.[{}-255].*@tcp", number % 4, number / 4);
        let rule = text.parse().ok().zip(Priority::new(number));
        // No rule is rejected, because each has descriptors of its own.
        let _ = rule.and_then(|(remote, priority)| {
            let rule = Rule::remote(remote, priority).ok()?;
            rules.add(rule, None).ok()
        });
    }
    let mut fewer = rules.clone();
    if fewer.delete(0).is_err() {
        return;
    }
    let mut turns = [rules, fewer].into_iter().cycle();
    let mut group = criterion.benchmark_group("rules");
    group.sample_size(10);
    group.bench_function("applied to 100,000 peer interfaces", |bencher| {
        bencher.iter(|| turns.next().map(|rules| core.set_rules(black_box(rules))));
    });
    group.finish();
}

criterion_group!(benches, select, apply);
criterion_main!(benches);

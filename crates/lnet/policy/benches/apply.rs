//! The cost of a change of a rule, interface or route: 1,000 rules applied to 100,000 peer NIs.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use lnet_policy::{Peer, Policy, Priority, Profile, Rule, RuleList, Topology, evaluate};
use lnet_types::expr::Descriptor;
use lnet_types::{Net, Nid};

const RULES: u32 = 1000;
const PEERS: u32 = 25_000;

fn descriptor(text: &str) -> Option<Descriptor> {
    text.parse().ok()
}

/// Rules of every kind with a remote side; several of them match each peer NI.
fn rules() -> RuleList {
    let mut list = RuleList::new();
    for number in 0..RULES {
        let (a, b) = (number / 250, number % 250);
        let remote = descriptor(&format!("10.{a}.*.[{b}-255/2]@tcp*"));
        let exact = descriptor(&format!("10.{a}.{b}.[1-100]@tcp{a}"));
        let local = descriptor(&format!("10.200.0.[1-{}]@tcp", b % 8 + 1));
        let rule = match (number % 4, remote, exact, local) {
            (0, _, Some(exact), _) => Rule::remote(exact, Priority::BEST).ok(),
            (1, Some(remote), _, Some(local)) => Rule::pair(
                local,
                remote,
                Priority::new(number).unwrap_or(Priority::NONE),
            )
            .ok(),
            (2, Some(remote), _, Some(gateway)) => Rule::router(remote, gateway).ok(),
            (_, Some(remote), _, _) => {
                Rule::remote(remote, Priority::new(number).unwrap_or(Priority::BEST)).ok()
            }
            _ => None,
        };
        if let Some(rule) = rule {
            // No rule is rejected: the numbers make all rules different.
            let _ = list.add(rule, None);
        }
    }
    assert_eq!(list.rules().len(), RULES as usize);
    list
}

fn topology() -> Topology {
    let nid = |net: u32, peer: u32| {
        let address = 0x0A00_0000 + (net << 16) + ((peer % 250) << 8) + peer / 250 % 250;
        Nid::from_number(Net::tcp(u16::try_from(net).unwrap_or_default()), address)
    };
    Topology {
        local: (1..=8)
            .map(|host| Nid::from_number(Net::tcp(0), 0x0AC8_0000 | host))
            .collect(),
        gateways: Vec::new(),
        peers: (0..PEERS)
            .map(|peer| {
                let nis: Vec<Nid> = (0..4).map(|net| nid(net, peer)).collect();
                Peer {
                    primary: nid(0, peer),
                    multi_rail: true,
                    nis,
                }
            })
            .collect(),
    }
}

fn apply(criterion: &mut Criterion) {
    let (rules, topology) = (rules(), topology());
    let mut group = criterion.benchmark_group("policy");
    group.sample_size(10);
    group.bench_function("1,000 rules to 100,000 peer NIs", |bencher| {
        bencher.iter(|| black_box(evaluate(&rules, &topology, Profile::Design)));
    });
    group.bench_function("compile 1,000 rules", |bencher| {
        bencher.iter(|| black_box(Policy::new(&rules, Profile::Design, &topology.local, &[])));
    });
    let mut policy = Policy::new(&rules, Profile::Design, &topology.local, &[]);
    let peer = topology.peers.first().map_or(Nid::ANY, |peer| peer.primary);
    group.bench_function("one peer NI", |bencher| {
        bencher.iter(|| black_box(policy.peer_ni(black_box(peer), true)));
    });
    group.finish();
}

criterion_group!(benches, apply);
criterion_main!(benches);

//! What a scrape of the metrics costs: 16 interfaces, 1,000 interfaces of peers, each with its own
//! series. At one scrape a second, 10 ms are 1 % of a core.

#![expect(clippy::unwrap_used, reason = "a bench")]

use std::fmt::Write;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use lnet_config::PeerConfig;
use lnet_node::{AcceptMode, MetricsOptions, Node, NodeOptions};
use lnet_types::{Net, Nid};

const NIS: u32 = 16;
const PEER_NIS: u32 = 1000;

fn node() -> Node {
    let mut yaml = "net:\n".to_owned();
    for ni in 1..=NIS {
        write!(
            yaml,
            "- net type: tcp{ni}\n  local NI(s):\n  - nid: 127.0.0.{ni}@tcp{ni}\n"
        )
        .unwrap();
    }
    let mut config = lnet_config::parse(&yaml).unwrap();
    let peers = (0..PEER_NIS).map(|number| PeerConfig {
        nids: vec![Nid::from_number(Net::tcp(1), 0x0A00_0000 | number)],
        multi_rail: true,
    });
    config.peers = peers.collect();
    let options = NodeOptions {
        accept: Some(AcceptMode::None),
        ..NodeOptions::default()
    };
    Node::start(&config, options).unwrap()
}

fn scrape(criterion: &mut Criterion) {
    let node = node();
    let options = MetricsOptions::at_port(0);
    let text = node.metrics(&options);
    println!(
        "{} bytes, {} series",
        text.len(),
        text.lines().filter(|line| !line.starts_with('#')).count()
    );
    criterion.bench_function("scrape of 16 NIs and 1,000 peer NIs", |bench| {
        bench.iter(|| black_box(node.metrics(&options)));
    });
}

criterion_group!(benches, scrape);
criterion_main!(benches);

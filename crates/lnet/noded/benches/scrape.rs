//! Measures the cost of a scrape of the metrics: 16 interfaces, and 1,000 or 100,000 interfaces of peers. At one
//! scrape per second, 10 ms are 1 % of a core. `finerail-bench metrics` measures the same from outside.

#![expect(clippy::unwrap_used, reason = "a bench")]

use std::fmt::Write;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use lnet_config::PeerConfig;
use lnet_node::{AcceptMode, Node, NodeOptions};
use lnet_noded::{MetricsOptions, metrics};
use lnet_types::{Net, Nid};

const NIS: u32 = 16;

fn node(peer_nis: u32) -> Node {
    let mut yaml = "net:\n".to_owned();
    for ni in 1..=NIS {
        write!(
            yaml,
            "- net type: tcp{ni}\n  local NI(s):\n  - nid: 127.0.0.{ni}@tcp{ni}\n"
        )
        .unwrap();
    }
    let mut config = lnet_config::parse(&yaml).unwrap();
    let peers = (0..peer_nis).map(|number| PeerConfig {
        nids: vec![Nid::from_number(Net::tcp(1), 0x0A00_0000 | number)],
        multi_rail: true,
    });
    config.peers = peers.collect();
    let options = NodeOptions {
        accept: Some(AcceptMode::None),
        ..NodeOptions::default()
    };
    lnet_noded::start(&config, options).unwrap().into_node()
}

fn scrape(criterion: &mut Criterion) {
    for peer_nis in [1_000, 100_000] {
        let node = node(peer_nis);
        let options = MetricsOptions::at_port(0);
        let text = metrics(&node, &options);
        println!(
            "{} bytes, {} series",
            text.len(),
            text.lines().filter(|line| !line.starts_with('#')).count()
        );
        criterion.bench_function(
            &format!("scrape of 16 NIs and {peer_nis} peer NIs"),
            |bench| {
                bench.iter(|| black_box(metrics(&node, &options)));
            },
        );
    }
}

criterion_group!(benches, scrape);
criterion_main!(benches);

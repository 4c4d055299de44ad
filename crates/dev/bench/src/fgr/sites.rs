//! Sites of today: a dragonfly compared in all policies, chains of routers with each single failure, a site of a million
//! nodes.

use std::fmt::Write as _;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fgr::chain::read_chain;
use fgr::check::check;
use fgr::config::{BackupPriority, Form, Scheme, Server, Site, Slots, Timing};
use fgr::report::Study;
use fgr::topology::{Dimension, Grid, Tie};
use fgr::{Metric, Options, Policy, Synthetic, assign, preset, synthetic};
use lnet_types::{Net, Nid};

use super::{Row, peak_memory_mib};

/// The limit on memory for the largest site.
const LARGE_MEMORY_MIB: f64 = 600.0;

/// Routers of each stage of the chain, and stages between clients and servers.
const STAGE: usize = 8;
const HOPS: usize = 5;

/// The sizes of a measurement.
pub(super) struct Sizes {
    dragonfly: &'static str,
    /// Clients of the chain.
    chain: usize,
    /// Sizes of the grid of the largest site; a client stands at each position.
    grid: [u16; 3],
}

impl Sizes {
    pub(super) fn new(short: bool) -> Self {
        match short {
            true => Self {
                dragonfly: "perlmutter",
                chain: 2_000,
                grid: [50, 16, 125],
            },
            false => Self {
                dragonfly: "frontier",
                chain: 20_000,
                grid: [100, 40, 250],
            },
        }
    }
}

/// Measures each part once. The largest site comes first: its memory is that of the process until then.
pub(super) fn rows(sizes: &Sizes) -> anyhow::Result<Vec<Row>> {
    Ok(vec![large(sizes)?, chains(sizes)?, dragonfly(sizes)?])
}

fn row(what: String, time: Duration, target: Option<f64>) -> Row {
    let milliseconds = time.as_secs_f64() * 1e3;
    Row {
        what,
        milliseconds,
        ratio_to_limit: None,
        target_milliseconds: target,
        met: target.map(|target| milliseconds <= target),
        memory_mib: None,
        memory_target_mib: None,
    }
}

/// Plans, configures and checks a grid with a client at each position.
fn large(sizes: &Sizes) -> anyhow::Result<Row> {
    let start = Instant::now();
    let names = ["x", "y", "z"].into_iter().zip(sizes.grid);
    let dimension = |(name, size): (&str, u16)| Dimension {
        name: name.to_owned(),
        size,
        wrap: true,
        cost: 1,
        capacity: vec![10.0],
    };
    let grid = Grid::new(names.map(dimension).collect())?;
    let size = Synthetic {
        groups: 4,
        modules: 3,
        nets: 1,
    };
    let machine = synthetic("large", grid, Tie::Split, size)?;
    let options = Options::default();
    let plan = assign(&machine, Policy::Nearest { by: Metric::Hops }, &options)?;
    let servers = (1..).zip(&machine.nets).map(|(number, net)| Server {
        name: format!("oss{number}"),
        nids: vec![Nid::from_number(
            net.net,
            Ipv4Addr::new(10, 250, 0, number).to_bits(),
        )],
    });
    let servers: Vec<Server> = servers.collect();
    let scheme = Scheme {
        client_net: Net::tcp(100),
        client_interface: "hsn0".to_owned(),
        server_interface: "ib0".to_owned(),
        client_addresses: Ipv4Addr::new(10, 0, 0, 0),
        server_addresses: Ipv4Addr::new(11, 0, 0, 0),
        backups: BackupPriority::Ranked,
        form: Form::SlotNets,
        slots: Slots::All,
        timing: Timing::PLANNED,
    };
    let site = Site::new(&machine, &plan, &scheme, &servers)?;
    let report = black_box(check(&site));
    ensure!(report.is_proved(), "the large site is not proved");
    let nodes = site.nodes.len();
    let mut row = row(
        format!("{nodes} nodes planned, configured, checked"),
        start.elapsed(),
        None,
    );
    row.memory_mib = peak_memory_mib();
    row.memory_target_mib = Some(LARGE_MEMORY_MIB);
    row.met = row.memory_mib.map(|memory| memory <= LARGE_MEMORY_MIB);
    Ok(row)
}

/// A site whose clients are some routers away from the servers.
fn chain(clients: usize) -> Result<String, std::fmt::Error> {
    let mut text = "site: chain\ngroups:\n".to_owned();
    let mut group = |list: &str, role: &str, on: &[(usize, usize)]| {
        writeln!(text, "  - nodes: {list}\n    role: {role}\n    on:")?;
        for (net, side) in on {
            writeln!(
                text,
                "      - {{net: tcp{net}, first: 10.{}.0.1, interface: eth{side}, rate: 10}}",
                2 * net + side
            )?;
        }
        Ok::<_, std::fmt::Error>(())
    };
    group(&format!("c[1-{clients}]"), "client", &[(1, 0)])?;
    for stage in 1..=HOPS {
        let list = format!("r{stage}x[1-{STAGE}]");
        group(&list, "router", &[(stage, 1), (stage + 1, 0)])?;
    }
    group("oss[1-4]", "server", &[(HOPS + 1, 1)])?;
    Ok(text)
}

/// Checks a chain of routers with each single failure.
fn chains(sizes: &Sizes) -> anyhow::Result<Row> {
    let chain = read_chain("chain", &chain(sizes.chain)?)?;
    let site = chain.site(Timing::PLANNED);
    let start = Instant::now();
    let report = black_box(check(&site));
    let time = start.elapsed();
    ensure!(report.is_proved(), "the chain is not proved");
    let what = format!(
        "chain of {HOPS} hops, {} nodes: checked with every single failure",
        site.nodes.len()
    );
    Ok(row(what, time, Some(60_000.0)))
}

/// Compares all policies that suit a dragonfly.
fn dragonfly(sizes: &Sizes) -> anyhow::Result<Row> {
    let name = sizes.dragonfly;
    let machine = preset(name).context("a preset of this program")??;
    let options = Options::default();
    let start = Instant::now();
    let plan = assign(&machine, Policy::Balanced { by: Metric::Cost }, &options)?;
    let study = black_box(Study::new(&machine, plan, &options));
    let time = start.elapsed();
    let what = format!(
        "preset:{name}: {} policies compared",
        study.comparisons().len()
    );
    Ok(row(what, time, Some(60_000.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_has_its_hops_and_every_node() {
        let site = read_chain("chain", &chain(300).unwrap())
            .unwrap()
            .site(Timing::PLANNED);
        assert_eq!(site.nodes.len(), 300 + HOPS * STAGE + 4);
        let report = check(&site);
        assert!(
            report.is_proved() && report.pairs == 300 * 4,
            "{:?}",
            report.findings
        );
    }
}

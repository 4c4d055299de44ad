//! Reads of 1 MiB as `finerail lst` loads a test node with, beside GETs of the same size. Neither looks at the data: GETs
//! go into one buffer, and reads are discarded.

use std::time::Duration;

use anyhow::{Context, ensure};
use lnet_node::NodeOptions;
use lnet_selftest::TestNode;
use lnet_selftest::console::{Console, Kind};
use lnet_selftest::flow::{Flow, FlowSpec};
use lnet_selftest::pattern::Check;
use serde::Serialize;

use crate::child::{Peer, PeerSpec};
use crate::lnet::{self, LOADER, TESTED, reserve_port};
use crate::measure::{Effort, Side, calibrate};
use crate::peer::{self, PeerArgs, Role};
use crate::placement::Placement;
use crate::report::Summary;
use crate::workload::{GETS_IN_FLIGHT, LARGE, Workload};

/// Least ratio of the load to GETs.
const TARGET: f64 = 0.9;
/// Reads that are tried first.
const FIRST: u64 = 16;
/// A read that takes longer is an error.
const PATIENCE: Duration = Duration::from_secs(30);
/// From one look at whether the flow has ended to the next; the flow itself says how long it took.
const LOOK: Duration = Duration::from_millis(5);

/// The load beside GETs, in turns.
#[derive(Serialize)]
pub(super) struct Load {
    /// In GB/s.
    get: Summary,
    load: Summary,
    ratio: Summary,
    target: f64,
    pub(super) met: bool,
}

impl Load {
    /// Loads a test node, in turns with GETs, as often as asked.
    pub(super) fn measure(
        placement: &Placement,
        congestion: &str,
        effort: &Effort,
    ) -> anyhow::Result<Self> {
        let mut gets = lnet::Initiator::start(placement, congestion, Duration::ZERO)?;
        let mut loader = Loader::start(placement, congestion)?;
        let workload = Workload::GetLarge;
        let get_count = calibrate(FIRST, effort.measurement, |n| gets.run(workload, n))?;
        let read_count = calibrate(FIRST, effort.measurement, |n| loader.reads(n))?;
        let (mut get, mut load) = (Vec::new(), Vec::new());
        for _ in 0..effort.rounds {
            get.push(workload.figure(get_count, gets.run(workload, get_count)?));
            load.push(workload.figure(read_count, loader.reads(read_count)?));
        }
        let ratio = load.iter().zip(&get).map(|(load, get)| load / get);
        let ratio = Summary::of(ratio.collect());
        Ok(Self {
            get: Summary::of(get),
            load: Summary::of(load),
            ratio,
            target: TARGET,
            met: ratio.median >= TARGET,
        })
    }

    pub(super) fn text(&self) -> String {
        let Summary { median, min, max } = self.ratio;
        format!(
            "lst reads of 1 MiB, {GETS_IN_FLIGHT} in flight: {:.2} GB/s beside {:.2} GB/s of GETs, ratio {median:.2} \
             ({min:.2}–{max:.2}), target ≥ {TARGET}",
            self.load.median, self.get.median
        )
    }
}

/// A console of this process, and the test node that it loads.
struct Loader {
    console: Console<TestNode>,
    spec: FlowSpec,
    peer: Peer,
}

impl Loader {
    fn start(placement: &Placement, congestion: &str) -> anyhow::Result<Self> {
        let reserved = reserve_port()?;
        let peer = Peer::start(&PeerSpec {
            role: Role::TestNode,
            cpu: placement.target_cpu,
            congestion,
            port: reserved.number(),
        })?;
        let node = LOADER.start_with(options(reserved.number(), congestion))?;
        let test_node = TestNode::start(node.into_node()).context("cannot start a test node")?;
        let mut console = Console::new(test_node);
        console.new_session("bench", 0, false, 1)?;
        let server = TESTED.nid()?;
        let in_flight = u32::try_from(GETS_IN_FLIGHT)?;
        let len = u32::try_from(LARGE)?;
        let check = Check::Discard;
        let joined = console.add_group("servers", &[server])?;
        ensure!(joined.iter().all(|(_, it)| it.is_ok()), "{joined:?}");
        let kind = Kind::Bulk {
            is_write: false,
            len,
            check,
            offset: 0,
        };
        let added = console.add_servers("batch", "servers", kind, in_flight)?;
        ensure!(added.iter().all(|(_, it)| it.is_ok()), "{added:?}");
        let spec = FlowSpec {
            name: "reads".to_owned(),
            servers: vec![server],
            mix: [1, 0, 0],
            sizes: vec![(len, 1)],
            check,
            concurrency: in_flight,
            rate: None,
            count: None,
            duration: None,
            stop_on_error: true,
            timeout: PATIENCE,
        };
        Ok(Self {
            console,
            spec,
            peer,
        })
    }

    /// So many reads, and how long they took.
    fn reads(&mut self, count: u64) -> anyhow::Result<Duration> {
        let spec = FlowSpec {
            count: Some(count),
            ..self.spec.clone()
        };
        let node = self.console.caller();
        let load = node.load(Flow::new(spec, 1), PATIENCE);
        while node.is_running(load) {
            std::thread::sleep(LOOK);
        }
        let report = node.report(load).context("a flow without a report")?;
        self.peer.check_alive()?;
        ensure!(
            report.errors() == 0 && report.read.done == count,
            "{} of {count} reads were done",
            report.read.done
        );
        Ok(Duration::from_secs_f64(report.seconds))
    }
}

/// As `finerail lst` has them, on the port of the bench.
fn options(port: u16, congestion: &str) -> NodeOptions {
    TestNode::driving(NodeOptions {
        port,
        congestion: Some(congestion.to_owned()),
        ..NodeOptions::default()
    })
}

/// A test node, until the process ends.
pub(crate) fn serve(args: &PeerArgs) -> anyhow::Result<()> {
    let node = TESTED.start_with(options(args.port, &args.congestion))?;
    let _test_node = TestNode::start(node.into_node()).context("cannot start a test node")?;
    peer::ready(args.port)?;
    loop {
        std::thread::park();
    }
}

//! Measures the 1 MiB reads with which `finerail lst` loads a test node, beside GETs of the same size. Neither side
//! examines the data: GETs write to one buffer, and reads are dropped.

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

/// The lowest acceptable ratio of the load to GETs.
const TARGET: f64 = 0.9;
/// The number of reads in the first trial.
const FIRST: u64 = 16;
/// The timeout of a read.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two checks whether the flow has ended. The flow itself reports its duration.
const LOOK: Duration = Duration::from_millis(5);

/// The load beside GETs, measured in turns.
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
    /// Loads a test node in turns with GETs, for as many rounds as requested.
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
        ensure!(
            joined.iter().all(|(_, result)| result.is_ok()),
            "{joined:?}"
        );
        let kind = Kind::Bulk {
            is_write: false,
            len,
            check,
            offset: 0,
        };
        let added = console.add_servers("batch", "servers", kind, in_flight)?;
        ensure!(added.iter().all(|(_, result)| result.is_ok()), "{added:?}");
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

    /// Runs so many reads, and returns the time that they took.
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

/// Returns the options that `finerail lst` uses, with the port of the bench.
fn options(port: u16, congestion: &str) -> NodeOptions {
    TestNode::driving(NodeOptions {
        port,
        congestion: Some(congestion.to_owned()),
        ..NodeOptions::default()
    })
}

/// Runs a test node until the process ends.
pub(crate) fn serve(args: &PeerArgs) -> anyhow::Result<()> {
    let node = TESTED.start_with(options(args.port, &args.congestion))?;
    let _test_node = TestNode::start(node.into_node()).context("cannot start a test node")?;
    peer::ready(args.port)?;
    loop {
        std::thread::park();
    }
}

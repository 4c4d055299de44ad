//! Single hops: the rate that plain programs reach between two processes.

use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use serde::Serialize;
use tempfile::TempDir;

use crate::bmi::limits::{self, Limit, Tuning};
use crate::bmi::peer::Role;
use crate::child::Peer;
use crate::measure::{Side, calibrate};
use crate::placement::{Placement, placements};
use crate::raw;
use crate::workload::{LARGE, Workload};

/// The number of messages of 1 MiB in flight in shared memory.
const SLOTS: u32 = 8;
/// The number of messages in the first trial.
const FIRST: u64 = 16;

/// The rates of single hops, in GB/s.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Hops {
    /// Plain frames over TCP, in one direction.
    pub(super) tcp: f64,
    /// A copy into memory that two processes share.
    pub(super) memory: f64,
}

impl Hops {
    /// Measures both hops, for `length` each. This uses a separate thread, because measuring pins its thread to a
    /// CPU.
    pub(super) fn measure(congestion: &str, length: Duration) -> anyhow::Result<Self> {
        let measured = thread::scope(|scope| scope.spawn(|| measure(congestion, length)).join());
        measured.map_err(|_| anyhow!("the measurement of a hop panicked"))?
    }
}

fn measure(congestion: &str, length: Duration) -> anyhow::Result<Hops> {
    let placement = placements()?
        .into_iter()
        .next()
        .context("no CPU may be used")?;
    let cpu = placement.initiator_cpu;
    sys::pin_to_cpu(cpu).with_context(|| format!("cannot stay on CPU {cpu}"))?;
    let mut frames = raw::Initiator::start(&placement, congestion)?;
    let tcp = rate(length, |count| frames.run(Workload::PutLarge, count))?;
    drop(frames);
    Ok(Hops {
        tcp,
        memory: memory(&placement, length)?,
    })
}

/// Returns the best rate of all methods of waiting.
fn memory(placement: &Placement, length: Duration) -> anyhow::Result<f64> {
    let directory = TempDir::with_prefix("bench")?;
    let shown = directory.path().to_string_lossy();
    let role = Role::Limits
        .to_possible_value()
        .context("a role has a name")?;
    let cpu = placement.target_cpu.to_string();
    let words = [
        "bmi-peer",
        role.get_name(),
        "--directory",
        &shown,
        "--cpu",
        &cpu,
    ];
    let peer = Peer::launch(role.get_name(), &words)?;
    let mut ring = limits::Initiator::connect(directory.path(), peer.port())?;
    let mut best = 0.0_f64;
    for tuning in Tuning::all(Limit::Ring, LARGE, SLOTS, placement.is_one_core()) {
        let run = |count| ring.run(Limit::Ring, LARGE, SLOTS, tuning, count);
        best = best.max(rate(length, run)?);
    }
    Ok(best)
}

fn rate(
    length: Duration,
    mut run: impl FnMut(u64) -> anyhow::Result<Duration>,
) -> anyhow::Result<f64> {
    let count = calibrate(FIRST, length, &mut run)?;
    let took = run(count)?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let bytes = (count * LARGE as u64) as f64;
    Ok(bytes / took.as_secs_f64() / 1e9)
}

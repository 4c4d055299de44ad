//! One figure for others: what this machine's loopback carries between two processes.

use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};

use super::measure::Side;
use super::placement::{congestion_control, placements};
use super::raw;
use super::workload::{LARGE, Workload};

/// What this machine's loopback carries.
#[derive(Clone, Debug)]
pub(crate) struct Loopback {
    /// The congestion control it was measured with; compare only with the same.
    pub(crate) congestion: String,
    /// Framed writes of 1 MiB, one way, on two cores where there are two.
    pub(crate) bytes_per_second: f64,
}

/// 1 MiB messages of one measurement.
const MESSAGES: u64 = 512;
/// Measurements, of which the best counts: it is a limit.
const ROUNDS: usize = 3;

/// Measures the limit, in a thread of its own because measuring pins its thread to a CPU.
pub(crate) fn loopback() -> anyhow::Result<Loopback> {
    let measured = thread::spawn(measure).join();
    measured.map_err(|_| anyhow!("the measurement of the loopback limit panicked"))?
}

fn measure() -> anyhow::Result<Loopback> {
    let congestion = congestion_control(None)?;
    let placement = placements()?
        .into_iter()
        .next()
        .context("no CPU may be used")?;
    let cpu = placement.initiator_cpu;
    sys::pin_to_cpu(cpu).with_context(|| format!("cannot stay on CPU {cpu}"))?;
    let mut limit = raw::Initiator::start(&placement, &congestion)?;
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        best = best.min(limit.run(Workload::PutLarge, MESSAGES)?);
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let bytes = (MESSAGES * LARGE as u64) as f64;
    Ok(Loopback {
        congestion,
        bytes_per_second: bytes / best.as_secs_f64(),
    })
}

//! The soak: many clients, all sizes, every byte looked at, and memory that must not grow.
//!
//! Clients and server know from the number of a message how long it is and what is in it, so each
//! verifies what it receives: the server what clients send, a client what comes back. A client or
//! server that finds a wrong byte ends with an error, and the soak with it.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use clap::ValueEnum;

use super::bed::Bed;
use super::rows::{size, task};
use super::task::{Method, Origin, Pattern, Task};

const CLIENTS: u64 = 8;
/// Bytes of the largest message.
const LARGEST: usize = 4 << 20;
/// Messages of a client between two looks at the memory.
const SLICE: u64 = 20;
/// Slices after which memory is taken to be as large as it becomes: allocators and buffers of every
/// size are warm.
const WARM: usize = 6;
/// Bytes that a process may grow by after that, for what allocators keep.
const GROWTH_MAX: u64 = 48 << 20;

/// Runs for at least so long. What was done, in words.
pub(super) fn run(duration: Duration) -> anyhow::Result<String> {
    let mut bed = Bed::start(None)?;
    let begun = Instant::now();
    let mut warm: Option<Vec<u64>> = None;
    let mut most_grown = 0;
    let mut slices = 0_usize;
    while begun.elapsed() < duration || warm.is_none() {
        let methods = Method::value_variants();
        for &method in methods {
            slice(&mut bed, method, slices as u64)?;
        }
        slices += 1;
        if slices < WARM {
            continue;
        }
        let resident = bed.resident_bytes()?;
        let before = warm.get_or_insert_with(|| resident.clone());
        for (now, before) in resident.iter().zip(before.iter()) {
            most_grown = most_grown.max(now.saturating_sub(*before));
        }
        ensure!(
            most_grown <= GROWTH_MAX,
            "a process has grown by {} after {slices} slices",
            size(usize::try_from(most_grown)?)
        );
    }
    bed.check_alive()?;
    let messages = 2 * CLIENTS * SLICE * 3 * slices as u64;
    Ok(format!(
        "{CLIENTS} clients, {messages} messages of 1 B to {} in {:.0} s over zoid, zero copy and tcp: \
         every byte right\nmost growth of a process: {} KiB\n",
        size(LARGEST),
        begun.elapsed().as_secs_f64(),
        most_grown / 1024,
    ))
}

fn slice(bed: &mut Bed, method: Method, number: u64) -> anyhow::Result<()> {
    // Expected messages alternate between memory of the segment and the heap.
    let origin = if number.is_multiple_of(2) {
        Origin::Pre
    } else {
        Origin::Ext
    };
    let tasks: Vec<Task> = (0..CLIENTS)
        .map(|client| Task {
            count: SLICE,
            client: number * CLIENTS + client,
            ..task(Pattern::Verify, origin, LARGEST, 1)
        })
        .collect();
    let together = bed.together(method, &tasks);
    if let Err(error) = together {
        bed.check_alive()?;
        bail!("{method}: {error:#}");
    }
    Ok(())
}

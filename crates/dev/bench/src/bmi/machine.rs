//! The machine's limits by themselves: those that the rows are compared with, and a copy without messages.

use serde::Serialize;

use super::bed::Bed;
use super::limits::Limit;
use super::measure::{Effort, describe};
use super::plain::Plain;
use super::rows::{Unit, size};
use crate::report::Summary;

/// The figures of one limit.
#[derive(Serialize)]
pub(super) struct Bare {
    pub(super) what: String,
    pub(super) unit: Unit,
    pub(super) measured: Summary,
}

const MIB: usize = 1 << 20;

/// The limit, the bytes of a message, and the messages in flight. Round trips have messages of 64 bytes.
const BARE: [(Limit, usize, u32); 7] = [
    (Limit::Queue, 64, 1),
    (Limit::UnixRoundTrip, 64, 1),
    (Limit::UnixStream, MIB, 8),
    (Limit::Ring, MIB, 8),
    (Limit::Memcpy, MIB, 8),
    // As many messages as 64 clients have: together they exceed any cache.
    (Limit::Memcpy, MIB, 128),
    (Limit::Memcpy, 128 * MIB, 1),
];

/// Measures all of these limits.
pub(super) fn measure(bed: &mut Bed, effort: &Effort) -> anyhow::Result<Vec<Bare>> {
    BARE.into_iter()
        .map(|(limit, bytes, in_flight)| one(bed, limit, bytes, in_flight, effort))
        .collect()
}

fn one(
    bed: &mut Bed,
    limit: Limit,
    bytes: usize,
    in_flight: u32,
    effort: &Effort,
) -> anyhow::Result<Bare> {
    let unit = match limit {
        Limit::Queue | Limit::UnixRoundTrip => Unit::OneWay,
        _ => Unit::Bandwidth,
    };
    let sizes = (bytes, in_flight);
    let mut plain = Plain::tune(bed, (limit, unit), sizes, effort.measurement)?;
    for _ in 0..effort.rounds {
        plain.measure(bed)?;
    }
    Ok(Bare {
        what: format!("{}, {in_flight} × {}", describe(limit), size(bytes)),
        unit,
        measured: Summary::of(plain.figures),
    })
}

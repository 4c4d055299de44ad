//! A limit as rows use it: its best tunings, measured until the figures agree.
//!
//! Interference only makes a plain program slower. A limit is therefore settled when its best figures agree,
//! whatever the other figures are. A limit that does not settle is not used to decide whether a target is met.

use std::time::Duration;

use super::bed::Bed;
use super::limits::{Limit, Tuning};
use super::measure::first;
use super::rows::{Unit, bandwidth, microseconds};
use crate::measure::calibrate;

/// A limit for messages of one size.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    pub(super) limit: Limit,
    unit: Unit,
    bytes: usize,
    in_flight: u32,
    /// The best of all tunings, with the number of messages in a measurement of each.
    best: Vec<(Tuning, u64)>,
    pub(super) figures: Vec<f64>,
}

/// The number of tunings that take part in every round.
const KEPT: usize = 2;
/// The number of figures that must agree.
const AGREEING: usize = 3;
/// The largest difference between agreeing figures, as a share of the best.
const APART: f64 = 0.1;

impl Plain {
    /// Tries every tuning, each for a fraction of `wanted`, and keeps the best.
    pub(super) fn tune(
        bed: &mut Bed,
        (limit, unit): (Limit, Unit),
        (bytes, in_flight): (usize, u32),
        wanted: Duration,
    ) -> anyhow::Result<Self> {
        let mut tried = Vec::new();
        for tuning in Tuning::all(limit, bytes, in_flight, bed.is_one_core()) {
            let mut run = |count| bed.limit(limit, bytes, in_flight, tuning, count);
            let count = calibrate(first(bytes), wanted / 2, &mut run)?;
            let figure = figure(unit, bytes, count, run(count)?);
            tried.push((figure, tuning, 2 * count));
        }
        tried.sort_by(|a, b| unit.order(a.0, b.0));
        tried.truncate(KEPT);
        Ok(Self {
            limit,
            unit,
            bytes,
            in_flight,
            best: tried
                .iter()
                .map(|&(_, tuning, count)| (tuning, count))
                .collect(),
            figures: Vec::new(),
        })
    }

    /// Measures once more, and keeps the best figure of the tunings.
    pub(super) fn measure(&mut self, bed: &mut Bed) -> anyhow::Result<()> {
        let mut figures = Vec::new();
        for &(tuning, count) in &self.best {
            let took = bed.limit(self.limit, self.bytes, self.in_flight, tuning, count)?;
            figures.push(figure(self.unit, self.bytes, count, took));
        }
        figures.sort_by(|a, b| self.unit.order(*a, *b));
        self.figures.extend(figures.first());
        Ok(())
    }

    /// Measures until the limit has settled, at most `most` times.
    pub(super) fn settle(&mut self, bed: &mut Bed, most: u16) -> anyhow::Result<()> {
        for _ in 0..most {
            if settled(self.unit, &self.figures).is_some() {
                break;
            }
            self.measure(bed)?;
        }
        Ok(())
    }

    /// Returns the limit, and whether its best figures agree.
    pub(super) fn value(&self) -> (f64, bool) {
        let mut sorted = self.figures.clone();
        sorted.sort_by(|a, b| self.unit.order(*a, *b));
        let best = sorted.first().copied().unwrap_or_default();
        settled(self.unit, &self.figures).map_or((best, false), |value| (value, true))
    }

    /// Returns the tunings of the figures.
    pub(super) fn tunings(&self) -> Vec<Tuning> {
        self.best.iter().map(|(tuning, _)| *tuning).collect()
    }
}

/// Returns the middle of the best figures if they agree.
fn settled(unit: Unit, figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(|a, b| unit.order(*a, *b));
    let best = sorted.get(..AGREEING)?;
    let (first, last) = (best.first()?, best.last()?);
    ((first - last).abs() <= APART * first).then(|| best.get(AGREEING / 2).copied())?
}

fn figure(unit: Unit, bytes: usize, count: u64, took: Duration) -> f64 {
    match unit {
        Unit::OneWay => microseconds(count, took),
        Unit::Bandwidth => bandwidth(bytes, count, took),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_settled_by_its_best_figures_whatever_the_others_are() {
        let figures = [10.0, 2.0, 9.5, 0.1, 9.8];
        assert_eq!(settled(Unit::Bandwidth, &figures), Some(9.8));
        assert_eq!(settled(Unit::OneWay, &figures), None);
    }

    #[test]
    fn a_limit_whose_best_figures_are_apart_is_none() {
        assert_eq!(settled(Unit::Bandwidth, &[0.36, 7.0, 2.4]), None);
        assert_eq!(settled(Unit::Bandwidth, &[7.0, 7.0]), None);
    }
}

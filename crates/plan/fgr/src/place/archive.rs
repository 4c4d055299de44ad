//! The points that no other point covers: none is at least as good in every figure.

use crate::place::{Figures, Point, covers};

/// Most points kept. In a full archive, a new point only enters in place of points that it covers.
const POINTS_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Archive {
    points: Vec<Point>,
    /// The figures of each point, rounded as they are printed.
    printed: Vec<[u64; 4]>,
}

impl Archive {
    pub(super) fn from_points(points: Vec<Point>) -> Self {
        let printed = points.iter().map(|point| point.figures.printed());
        Self {
            printed: printed.collect(),
            points,
        }
    }

    /// Adds a point unless another point covers it, and removes the points that it covers.
    pub(super) fn offer(&mut self, figures: &Figures, sites: &[u32]) {
        let printed = figures.printed();
        if self.printed.iter().any(|kept| covers(kept, &printed)) {
            return;
        }
        let mut kept = self.printed.iter();
        let mut stays = || kept.next().is_some_and(|kept| !covers(&printed, kept));
        self.points.retain(|_| stays());
        self.printed.retain(|kept| !covers(&printed, kept));
        if self.points.len() < POINTS_MAX {
            self.printed.push(printed);
            self.points.push(Point {
                sites: sites.to_vec(),
                figures: *figures,
            });
        }
    }

    /// Like `offer`, but a full archive drops its last point to make room.
    pub(super) fn offer_first(&mut self, figures: &Figures, sites: &[u32]) {
        if self.points.len() == POINTS_MAX {
            self.points.pop();
            self.printed.pop();
        }
        self.offer(figures, sites);
    }

    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    pub(super) fn points(&self) -> &[Point] {
        &self.points
    }

    /// The lowest value of each figure.
    pub(super) fn best(&self) -> [f64; 4] {
        let mut best = [f64::INFINITY; 4];
        for point in &self.points {
            for (least, value) in best.iter_mut().zip(point.figures.values()) {
                *least = least.min(value);
            }
        }
        best
    }

    /// Returns the points in order of their printed figures.
    pub(super) fn into_points(mut self) -> Vec<Point> {
        self.points.sort_by_key(|point| point.figures.printed());
        self.points
    }
}

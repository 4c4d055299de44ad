//! The points of which none is as good as another in every figure.

use crate::place::{Figures, Point};

/// Most points kept; further ones replace those that they cover.
const POINTS_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Archive {
    points: Vec<Point>,
}

impl Archive {
    pub(super) fn from_points(points: Vec<Point>) -> Self {
        Self { points }
    }

    /// Takes a point in unless one covers it already, and drops those that it covers.
    pub(super) fn offer(&mut self, figures: &Figures, sites: &[u32]) {
        if self.points.iter().any(|p| p.figures.covers(figures)) {
            return;
        }
        self.points.retain(|p| !figures.covers(&p.figures));
        if self.points.len() < POINTS_MAX {
            self.points.push(Point {
                sites: sites.to_vec(),
                figures: *figures,
            });
        }
    }

    /// The same, and a full archive drops its last point for it.
    pub(super) fn offer_first(&mut self, figures: &Figures, sites: &[u32]) {
        if self.points.len() == POINTS_MAX {
            self.points.pop();
        }
        self.offer(figures, sites);
    }

    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    pub(super) fn points(&self) -> &[Point] {
        &self.points
    }

    /// The least of each figure.
    pub(super) fn best(&self) -> [f64; 4] {
        let mut best = [f64::INFINITY; 4];
        for point in &self.points {
            for (least, value) in best.iter_mut().zip(point.figures.values()) {
                *least = least.min(value);
            }
        }
        best
    }

    /// The points by their printed figures.
    pub(super) fn into_points(mut self) -> Vec<Point> {
        self.points.sort_by_key(|point| point.figures.printed());
        self.points
    }
}

//! Distances from any vertex to a fixed set of targets, a row at a time.
//!
//! On a grid a distance is a sum over the dimensions, so that the rows of neighbouring vertices
//! share most of their sum: `partial[d]` holds the sum over dimensions `0..=d` and only what follows
//! the first changed position is added up again. That is one addition a target for most vertices,
//! over contiguous numbers.

use topology::{Coordinates, Fabric, Grid, Vertex};

use crate::policy::Metric;

/// Distances to a fixed set of targets.
pub(crate) struct Costs<'a> {
    fabric: &'a Fabric,
    metric: Metric,
    targets: Vec<Vertex>,
    /// By dimension and position, the distance to each target.
    tables: Vec<Vec<u32>>,
    partial: Vec<Vec<u32>>,
    at: Option<Coordinates>,
}

impl<'a> Costs<'a> {
    pub(crate) fn new(fabric: &'a Fabric, metric: Metric, targets: Vec<Vertex>) -> Self {
        let tables = match fabric {
            Fabric::Grid(grid, _) => (0..grid.dimensions().len())
                .map(|d| table(grid, d, metric, &targets))
                .collect(),
            _ => vec![Vec::new()],
        };
        Self {
            fabric,
            metric,
            partial: vec![vec![0; targets.len()]; tables.len()],
            targets,
            tables,
            at: None,
        }
    }

    /// The distance from a vertex to each target.
    pub(crate) fn row(&mut self, from: Vertex) -> &[u32] {
        match self.fabric {
            Fabric::Grid(grid, _) => self.add_up(&grid.coordinates(from)),
            fabric => {
                for (cost, &target) in self.partial[0].iter_mut().zip(&self.targets) {
                    *cost = match self.metric {
                        Metric::Cost => fabric.cost(from, target),
                        Metric::Hops => fabric.hops(from, target),
                    };
                }
            }
        }
        // A grid has a dimension and another fabric one row.
        self.partial.last().map_or(&[], |row| row)
    }

    fn add_up(&mut self, coordinates: &Coordinates) {
        let count = self.targets.len();
        let same = |d: &usize| self.at.as_ref().is_some_and(|at| at[*d] == coordinates[*d]);
        let unchanged = (0..coordinates.len()).take_while(same).count();
        for d in unchanged..coordinates.len() {
            let first = usize::from(coordinates[d]) * count;
            let table = &self.tables[d][first..first + count];
            let (before, rest) = self.partial.split_at_mut(d);
            match before.last() {
                None => rest[0].copy_from_slice(table),
                Some(sums) => {
                    for ((sum, &base), &more) in rest[0].iter_mut().zip(sums).zip(table) {
                        *sum = base + more;
                    }
                }
            }
        }
        self.at = Some(coordinates.clone());
    }
}

fn table(grid: &Grid, d: usize, metric: Metric, targets: &[Vertex]) -> Vec<u32> {
    let dimension = &grid.dimensions()[d];
    let weight = match metric {
        Metric::Cost => dimension.cost,
        Metric::Hops => 1,
    };
    (0..dimension.size)
        .flat_map(|position| {
            targets.iter().map(move |&target| {
                weight * u32::from(grid.distance(d, position, grid.position(target, d)))
            })
        })
        .collect()
}

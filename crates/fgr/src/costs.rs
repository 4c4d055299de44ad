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

/// The distances from each of these vertices, in ascending order, to each target, target by target.
///
/// On a grid the distances from all vertices are built dimension by dimension, the last one first, in
/// additions over contiguous numbers.
pub(crate) fn columns(
    fabric: &Fabric,
    metric: Metric,
    targets: &[Vertex],
    from: &[Vertex],
) -> Vec<u32> {
    let mut columns = Vec::with_capacity(targets.len() * from.len());
    let Fabric::Grid(grid, _) = fabric else {
        let mut costs = Costs::new(fabric, metric, targets.to_vec());
        columns.resize(targets.len() * from.len(), 0);
        for (site, &vertex) in from.iter().enumerate() {
            for (target, &cost) in costs.row(vertex).iter().enumerate() {
                columns[target * from.len() + site] = cost;
            }
        }
        return columns;
    };
    let runs: Vec<&[Vertex]> = from.chunk_by(|a, b| b.0 == a.0 + 1).collect();
    let tables: Vec<Vec<u32>> = (0..grid.dimensions().len())
        .map(|d| table(grid, d, metric, targets))
        .collect();
    let mut all = vec![0; grid.vertices() as usize];
    for target in 0..targets.len() {
        let mut length = 1;
        all[0] = 0;
        for table in tables.iter().rev() {
            let (first, rest) = all.split_at_mut(length);
            let mut positions = table.iter().skip(target).step_by(targets.len());
            let nearest = positions.next().copied().unwrap_or(0);
            for (part, &more) in rest.chunks_exact_mut(length).zip(positions.by_ref()) {
                for (sum, &base) in part.iter_mut().zip(&*first) {
                    *sum = base + more;
                }
            }
            first.iter_mut().for_each(|sum| *sum += nearest);
            length *= table.len() / targets.len();
        }
        for run in &runs {
            let first = run[0].0 as usize;
            columns.extend_from_slice(&all[first..first + run.len()]);
        }
    }
    columns
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

//! Distances from any vertex to a fixed set of targets, row by row.
//!
//! On a grid a distance is a sum over the dimensions. Rows of neighbouring vertices share most of
//! this sum: `partial[d]` holds the sum over dimensions `0..=d`, and only the part from the first
//! changed position on is added again. For most vertices that is one addition per target, over
//! contiguous numbers.

use std::sync::Arc;

use crate::policy::Metric;
use crate::topology::{Coordinates, Dimension, Fabric, Grid, Vertex};

/// Distances to a fixed set of targets. Clones share what does not change.
#[derive(Clone)]
pub(crate) struct Costs<'a> {
    fabric: &'a Fabric,
    metric: Metric,
    targets: Arc<[Vertex]>,
    /// Distance to each target, by dimension and position.
    tables: Arc<[Vec<u32>]>,
    partial: Vec<Vec<u32>>,
    at: Option<Coordinates>,
}

impl<'a> Costs<'a> {
    pub(crate) fn new(fabric: &'a Fabric, metric: Metric, targets: Vec<Vertex>) -> Self {
        let tables: Arc<[Vec<u32>]> = match fabric {
            Fabric::Grid(grid, _) => (0..grid.dimensions().len())
                .map(|d| table(grid, d, metric, &targets))
                .collect(),
            _ => [Vec::new()].into(),
        };
        Self {
            fabric,
            metric,
            partial: vec![vec![0; targets.len()]; tables.len()],
            targets: targets.into(),
            tables,
            at: None,
        }
    }

    /// Returns the distance from a vertex to each target.
    pub(crate) fn row(&mut self, from: Vertex) -> &[u32] {
        match self.fabric {
            Fabric::Grid(grid, _) => self.add_up(&grid.coordinates(from)),
            fabric => {
                for (cost, &target) in self.partial[0].iter_mut().zip(&*self.targets) {
                    *cost = match self.metric {
                        Metric::Cost => fabric.cost(from, target),
                        Metric::Hops => fabric.hops(from, target),
                    };
                }
            }
        }
        // A grid has at least one dimension, another fabric one row.
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

/// The targets that may be among the nearest of a vertex, with their distances.
///
/// On a grid a target is dropped early: if its distance in the first dimensions exceeds that of
/// enough other targets by more than the remaining dimensions can add, it is left out for all
/// following vertices with the same positions in these dimensions.
///
/// ```text
///   x ──▶ 828 targets ──y──▶ 400 left ──z──▶ 20 left ──▶ …       vertices of one x, of one (x, y), …
/// ```
pub(crate) struct Near<'a> {
    costs: Costs<'a>,
    /// Distances so far and numbers of the remaining targets, by dimension.
    left: Vec<(Vec<u32>, Vec<u16>)>,
    /// Most that the later dimensions add, by dimension.
    behind: Vec<u32>,
    at: Option<Coordinates>,
}

impl<'a> Near<'a> {
    pub(crate) fn new(costs: Costs<'a>) -> Self {
        // Targets are routers, which are numbered in 16 bits.
        let all = (0..costs.targets.len())
            .map(|target| target as u16)
            .collect();
        let dimensions = match costs.fabric {
            Fabric::Grid(grid, _) => grid.dimensions(),
            _ => &[],
        };
        let longest = |dimension: &Dimension| {
            let hops = if dimension.wrap {
                dimension.size / 2
            } else {
                dimension.size - 1
            };
            costs.metric.weight(dimension) * u32::from(hops)
        };
        let behind = (1..=dimensions.len()).map(|d| dimensions[d..].iter().map(longest).sum());
        let behind = behind.collect();
        let mut left = vec![(Vec::new(), Vec::new()); dimensions.len()];
        left.insert(0, (vec![0; costs.targets.len()], all));
        Self {
            costs,
            left,
            behind,
            at: None,
        }
    }

    /// Returns the distances and numbers of the remaining targets of a vertex, in ascending order
    /// of numbers. `last` gets the list and returns the distance of the last wanted target, if the
    /// list holds all wanted targets.
    pub(crate) fn row(
        &mut self,
        from: Vertex,
        mut last: impl FnMut((&[u32], &[u16])) -> Option<u32>,
    ) -> (&[u32], &[u16]) {
        let Fabric::Grid(grid, _) = self.costs.fabric else {
            return (self.costs.row(from), &self.left[0].1);
        };
        let coordinates = grid.coordinates(from);
        let same = |d: &usize| self.at.as_ref().is_some_and(|at| at[*d] == coordinates[*d]);
        let unchanged = (0..coordinates.len()).take_while(same).count();
        let count = self.costs.targets.len();
        for d in unchanged..coordinates.len() {
            let first = usize::from(coordinates[d]) * count;
            let table = &self.costs.tables[d][first..first + count];
            let (before, rest) = self.left.split_at_mut(d + 1);
            let (sums, targets) = &before[d];
            let (new_sums, new_targets) = &mut rest[0];
            new_sums.clear();
            let pairs = sums.iter().zip(targets);
            new_sums.extend(pairs.map(|(&sum, &target)| sum + table[usize::from(target)]));
            new_targets.clone_from(targets);
            if self.behind[d] > 0
                && let Some(last) = last((new_sums, new_targets))
            {
                leave_out(new_sums, new_targets, last + self.behind[d]);
            }
        }
        self.at = Some(coordinates);
        // A grid has at least one dimension.
        let (sums, targets) = &self.left[self.left.len() - 1];
        (sums, targets)
    }
}

/// Removes the targets whose distance exceeds a limit.
fn leave_out(sums: &mut Vec<u32>, targets: &mut Vec<u16>, limit: u32) {
    let mut kept = 0;
    for index in 0..sums.len() {
        if sums[index] <= limit {
            (sums[kept], targets[kept]) = (sums[index], targets[index]);
            kept += 1;
        }
    }
    sums.truncate(kept);
    targets.truncate(kept);
}

/// Returns the distances from each of these vertices, in ascending order, target by target.
///
/// On a grid the distances from all vertices are built dimension by dimension, from the last to the
/// first, in additions over contiguous numbers.
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
    let weight = metric.weight(dimension);
    (0..dimension.size)
        .flat_map(|position| {
            targets.iter().map(move |&target| {
                weight * u32::from(grid.distance(d, position, grid.position(target, d)))
            })
        })
        .collect()
}

impl Metric {
    /// The weight of a hop of a dimension.
    fn weight(self, dimension: &Dimension) -> u32 {
        match self {
            Self::Cost => dimension.cost,
            Self::Hops => 1,
        }
    }
}

//! Positions of vertices in pictures: any fabric as a table of cells, each with a depth.
//!
//! ```text
//!   grid        columns: the dimension in which the nearest module wins; rows: the windowed one;
//!               depth: all others                       Titan: X across, Y down, Z inside a cell
//!   dragonfly   columns: switches of a group; rows: groups
//!   fat tree    ports of leaves, whole leaves in a line if they fit
//! ```

use crate::rule::Axes;
use crate::topology::{Fabric, Grid, Vertex};

/// Most vertices in a line.
const LINE: usize = 64;

/// A table of cells.
pub(super) struct Layout<'a> {
    pub(super) columns: usize,
    pub(super) rows: usize,
    pub(super) depth: usize,
    /// Names of the columns, the rows and the depth.
    pub(super) names: [String; 3],
    kind: Arrangement<'a>,
}

enum Arrangement<'a> {
    Grid {
        grid: &'a Grid,
        column: usize,
        row: usize,
    },
    Lines,
}

/// A position in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) column: usize,
    pub(super) row: usize,
    pub(super) depth: usize,
}

impl<'a> Layout<'a> {
    pub(super) fn of(fabric: &'a Fabric) -> Self {
        match (fabric, Axes::of(fabric)) {
            (_, Some(axes)) => Self::grid(axes.grid, axes.near, axes.window),
            (Fabric::Dragonfly(dragonfly, _), _) => {
                let size = dragonfly.size();
                let names = ["switch of its group", "group", ""];
                Self::lines(size.switches.into(), fabric.vertices() as usize, names)
            }
            (Fabric::FatTree(tree), _) => {
                let down = tree.levels().first().map_or(1, |leaf| leaf.down.into());
                let (columns, names) = match LINE / down {
                    0 => (LINE, ["port".to_owned(), "line".to_owned()]),
                    1 => (down, ["port of its leaf".to_owned(), "leaf".to_owned()]),
                    fit => {
                        let leaves = fit.min(fabric.vertices() as usize / down).max(1);
                        let names =
                            ["port", "line"].map(|name| format!("{name} of {leaves} leaves"));
                        (down * leaves, names)
                    }
                };
                let [across, downwards] = &names;
                Self::lines(columns, fabric.vertices() as usize, [across, downwards, ""])
            }
            (Fabric::Grid(..), None) => {
                Self::lines(LINE, fabric.vertices() as usize, ["switch", "line", ""])
            }
        }
    }

    fn grid(grid: &'a Grid, column: usize, row: usize) -> Self {
        let size = |d: usize| usize::from(grid.dimensions()[d].size);
        let name = |d: usize| grid.dimensions()[d].name.to_uppercase();
        let others = (0..grid.dimensions().len()).filter(|&d| d != column && d != row);
        let inside: Vec<String> = others.map(name).collect();
        Self {
            columns: size(column),
            rows: size(row),
            depth: grid.vertices() as usize / size(column) / size(row),
            names: [name(column), name(row), inside.join(", ")],
            kind: Arrangement::Grid { grid, column, row },
        }
    }

    fn lines(columns: usize, vertices: usize, names: [&str; 3]) -> Self {
        Self {
            columns: columns.min(vertices).max(1),
            rows: vertices.div_ceil(columns.max(1)).max(1),
            depth: 1,
            names: names.map(str::to_owned),
            kind: Arrangement::Lines,
        }
    }

    pub(super) fn cell(&self, vertex: Vertex) -> Cell {
        match self.kind {
            Arrangement::Grid { grid, column, row } => {
                let position = |d| usize::from(grid.position(vertex, d));
                let others = (0..grid.dimensions().len()).filter(|&d| d != column && d != row);
                let depth = others.fold(0, |depth, d| {
                    depth * usize::from(grid.dimensions()[d].size) + position(d)
                });
                Cell {
                    column: position(column),
                    row: position(row),
                    depth,
                }
            }
            Arrangement::Lines => Cell {
                column: vertex.0 as usize % self.columns,
                row: vertex.0 as usize / self.columns,
                depth: 0,
            },
        }
    }

    /// Returns the name of the parts of a machine in which modules stand, in the singular, and the number of a vertex's
    /// part: the rows, or the leaves of a fat tree.
    pub(super) fn part(&self, fabric: &Fabric, vertex: Vertex) -> (&str, usize) {
        match fabric {
            Fabric::FatTree(tree) => {
                let down = tree.levels().first().map_or(1, |leaf| u32::from(leaf.down));
                ("leaf", (vertex.0 / down.max(1)) as usize)
            }
            _ => (&self.names[1], self.cell(vertex).row),
        }
    }

    /// Returns the number of a cell, for tables of cells.
    pub(super) fn index(&self, cell: Cell) -> usize {
        cell.row * self.columns + cell.column
    }
}

//! Makes machine files from what sites have: Slurm's `topology.conf`, `ibnetdiscover`, lists of a
//! dragonfly.
//!
//! ```text
//!   topology.conf, ibnetdiscover, list ─▶ Shape ─┐
//!                     table of routers ──────────┴─▶ machine file, to be read and completed by people
//! ```
//!
//! The import assumes what a source does not say, and writes each assumption as a comment at the
//! top of the file.

mod dragonfly;
mod infiniband;
mod routers;
mod slurm;

use std::fmt::{self, Write};

pub use dragonfly::dragonfly;
pub use infiniband::infiniband;
pub use routers::{RouterLine, read_routers};
pub use slurm::slurm;

use crate::document::quoted;
use crate::problem::{InputError, Place, Problem, Reason};

/// Assumptions for what a source does not say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assumed {
    /// GB/s of a link for which the source gives no rate.
    pub capacity: f64,
    /// Links between each two groups of a dragonfly.
    pub links_per_pair: u16,
}

/// A fabric and its nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The fabric.
    pub fabric: ShapeFabric,
    /// Names of the nodes, each once, with their places as the machine file writes them.
    pub nodes: Vec<(String, Vec<u32>)>,
    /// The assumptions that were made.
    pub assumptions: Vec<String>,
}

/// The fabric of a [`Shape`].
#[derive(Clone, Debug, PartialEq)]
pub enum ShapeFabric {
    /// Levels, leaf switches first.
    FatTree(Vec<ShapeLevel>),
    /// Groups of switches.
    Dragonfly {
        /// Groups.
        groups: u16,
        /// Switches of each group.
        switches: u16,
        /// Links between each two groups.
        links_per_pair: u16,
        /// GB/s of a link.
        capacity: f64,
    },
}

/// One level of a fat tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShapeLevel {
    /// Children of a switch.
    pub down: u16,
    /// Parents of each child.
    pub up: u16,
    /// GB/s from a child to one parent.
    pub capacity: f64,
}

impl ShapeFabric {
    /// Makes a tree of nodes with these paths from the top down, all of the same length. Returns
    /// the tree and the endpoint of each node. `up` and `capacity` start with the leaf level.
    fn tree(paths: &[Vec<u16>], links: &[(u16, f64)]) -> (Self, Vec<u32>) {
        let depth = links.len();
        let widest = |level: usize| paths.iter().map(|path| path[depth - 1 - level]).max();
        let levels: Vec<ShapeLevel> = links
            .iter()
            .enumerate()
            .map(|(level, &(up, capacity))| ShapeLevel {
                down: widest(level).unwrap_or(0).saturating_add(1),
                up,
                capacity,
            })
            .collect();
        let endpoint = |path: &Vec<u16>| {
            let positions = path.iter().zip(levels.iter().rev());
            // Trees with more endpoints than a fabric may have are rejected when the file is read.
            positions.fold(0_u32, |sum, (&position, level)| {
                sum.saturating_mul(level.down.into())
                    .saturating_add(position.into())
            })
        };
        let endpoints = paths.iter().map(endpoint).collect();
        (Self::FatTree(levels), endpoints)
    }
}

impl Shape {
    /// Makes the machine file. Nodes are numbered from 0 in their order. Those in `routers` route,
    /// the others are clients. Without routers, the user has to write the groups.
    ///
    /// # Errors
    ///
    /// Routers that are not among the nodes. The groups are checked when the file is read.
    pub fn machine_file(&self, name: &str, routers: &[RouterLine]) -> Result<String, InputError> {
        routers::check(self, routers)?;
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(name, routers, &mut text);
        Ok(text)
    }

    fn write(&self, name: &str, routers: &[RouterLine], out: &mut String) -> fmt::Result {
        for assumption in &self.assumptions {
            writeln!(out, "# assumed: {assumption}")?;
        }
        writeln!(out, "machine: {}\norigin: assumed\nfabric:", quoted(name))?;
        self.fabric.write(out)?;
        writeln!(out, "clients:\n  list:")?;
        let is_router = |node: &str| routers.iter().any(|line| line.node == node);
        for (id, (node, at)) in self.nodes.iter().enumerate() {
            if !is_router(node) {
                writeln!(
                    out,
                    "    - {{id: {id}, name: {}, at: {at:?}}}",
                    quoted(node)
                )?;
            }
        }
        routers::write(self, routers, out)
    }
}

impl ShapeFabric {
    fn write(&self, out: &mut String) -> fmt::Result {
        match self {
            Self::FatTree(levels) => {
                writeln!(out, "  kind: fat-tree\n  levels:")?;
                for ShapeLevel { down, up, capacity } in levels {
                    writeln!(
                        out,
                        "    - {{down: {down}, up: {up}, capacity: {capacity}, cost: 1}}"
                    )?;
                }
                Ok(())
            }
            Self::Dragonfly {
                groups,
                switches,
                links_per_pair,
                capacity,
            } => {
                writeln!(
                    out,
                    "  kind: dragonfly\n  groups: {groups}\n  switches: {switches}"
                )?;
                writeln!(out, "  links-per-pair: {links_per_pair}")?;
                writeln!(
                    out,
                    "  local-capacity: {capacity}\n  global-capacity: {capacity}"
                )?;
                writeln!(out, "  global-cost: 2")
            }
        }
    }
}

/// Makes the error for a source that is wrong as a whole.
fn rejection(file: &str, reason: Reason) -> InputError {
    let place = Place {
        file: file.into(),
        line: 1,
    };
    InputError(vec![Problem { place, reason }])
}

//! Makes machine files from what sites have: Slurm's `topology.conf` and `topology.yaml`,
//! `ibnetdiscover`, tables of `xtprocadmin`, lists of a dragonfly.
//!
//! ```text
//!   topology.conf, ibnetdiscover, list ─▶ Shape ─┐
//!                     table of routers ──────────┴─▶ machine file, to be read and completed by people
//! ```
//!
//! The import assumes what a source does not say. It writes each assumption, each doubt, and what it
//! left out as comments at the top of the file.

mod cray;
mod dragonfly;
mod infiniband;
mod levels;
mod nics;
mod routers;
mod slurm;
mod slurm_yaml;

use std::collections::BTreeSet;
use std::fmt::{self, Write};

pub use cray::node_table;
pub use dragonfly::dragonfly;
pub(crate) use infiniband::WIDTH_AND_SPEED;
pub use infiniband::{RailAdapter, RailHost, RailHosts, infiniband, rail_hosts};
pub use nics::{NicLine, read_nics};
pub use routers::{RouterLine, read_routers};
pub use slurm::slurm;

use crate::document::quoted;
use crate::machine::Nic;
use crate::problem::{InputError, Place, Problem, Reason};
use crate::rates::{Known, RateSource};

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
    /// The nodes. Each name and each number occurs once.
    pub nodes: Vec<ShapeNode>,
    /// Where the rates of links come from.
    pub rates: RateSource,
    /// The assumptions that were made.
    pub assumptions: Vec<String>,
    /// What is doubtful in the source.
    pub warnings: Vec<String>,
    /// What the source has and the shape has not, each with the count and the reason.
    pub skipped: Vec<String>,
}

/// A node of a [`Shape`].
#[derive(Clone, Debug, PartialEq)]
pub struct ShapeNode {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its place, as the machine file writes places.
    pub at: Vec<u32>,
    /// Whether the node is a client unless it routes.
    pub computes: bool,
    /// Its interfaces, if they are known.
    pub nics: Vec<Nic>,
}

impl ShapeNode {
    /// Numbers compute nodes from 0 in their order.
    fn numbered(nodes: impl IntoIterator<Item = (String, Vec<u32>)>) -> Vec<Self> {
        let numbered = (0..).zip(nodes).map(|(id, (name, at))| Self {
            id,
            name,
            at,
            computes: true,
            nics: Vec::new(),
        });
        numbered.collect()
    }
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
        /// Switches to which a node is attached, one after the other.
        ports: u16,
        /// Links between each two groups.
        links_per_pair: u16,
        /// GB/s of a link inside a group.
        local: f64,
        /// GB/s of a link between groups.
        global: f64,
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

impl Shape {
    /// Makes the machine file. Nodes in `routers` route, the other compute nodes are clients. Without
    /// routers, the user has to write the groups.
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
        let notes = [
            ("assumed", &self.assumptions),
            ("warning", &self.warnings),
            ("skipped", &self.skipped),
        ];
        for (word, texts) in notes {
            for text in texts {
                // A description from the source cannot end the comment.
                let text = text.replace(|c: char| c.is_control(), " ");
                writeln!(out, "# {word}: {text}")?;
            }
        }
        writeln!(out, "machine: {}\norigin: assumed\nfabric:", quoted(name))?;
        self.fabric.write(out)?;
        let links = quoted(&self.rates.to_string());
        writeln!(out, "rates:\n  links: {links}")?;
        if self.nodes.iter().any(|node| !node.nics.is_empty()) {
            let nics = RateSource::new(Known::Assumed, "the table of interfaces names no source");
            writeln!(out, "  nics: {}", quoted(&nics.to_string()))?;
        }
        writeln!(out, "clients:\n  list:")?;
        let routing: BTreeSet<&str> = routers.iter().map(|line| line.node.as_str()).collect();
        let clients = self
            .nodes
            .iter()
            .filter(|node| node.computes && !routing.contains(node.name.as_str()));
        for ShapeNode {
            id, name, at, nics, ..
        } in clients
        {
            let (name, nics) = (quoted(name), nics::text(nics));
            writeln!(out, "    - {{id: {id}, name: {name}, at: {at:?}{nics}}}")?;
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
                ports,
                links_per_pair,
                local,
                global,
            } => {
                writeln!(
                    out,
                    "  kind: dragonfly\n  groups: {groups}\n  switches: {switches}"
                )?;
                if *ports > 1 {
                    writeln!(out, "  ports: {ports}")?;
                }
                writeln!(out, "  links-per-pair: {links_per_pair}")?;
                writeln!(
                    out,
                    "  local-capacity: {local}\n  global-capacity: {global}"
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

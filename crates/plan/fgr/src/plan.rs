//! A plan: the primary router and the backups of every client for every net.
//!
//! ```text
//!   client ──▶ row ──▶ net ──▶ [primary, backup, backup]      indices of routers
//! ```
//!
//! Clients at one vertex that use the same routers share a row. Titan's strict plan thus has 9,600
//! rows instead of 18,688, and a link load takes one addition instead of two.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use thiserror::Error;

use crate::machine::Machine;
use crate::policy::Policy;
use crate::topology::Vertex;

/// Marks a place in the table without router.
const NONE: u16 = u16::MAX;

/// Rows that one thread fills at a time.
const PART: usize = 1024;

/// Clients at the same vertex that use the same routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The vertex of the clients.
    pub vertex: Vertex,
    /// Number of clients.
    pub clients: u32,
}

/// Why no plan can be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The policy uses windows and needs a torus or mesh of at least two dimensions.
    #[error("policy {0} needs a torus or mesh of at least two dimensions")]
    NeedsGrid(&'static str),
    /// All routers of a net are excluded.
    #[error("no router is left for {0}")]
    NoRouter(String),
    /// There are too many pairs of places and routers of one net for an exact optimum.
    #[error("{places} places times {routers} routers of one net are too many for policy {policy}")]
    TooLarge {
        /// The policy.
        policy: &'static str,
        /// Number of places with clients.
        places: usize,
        /// Number of routers of the net.
        routers: usize,
    },
    /// There are more clients on one side of the routers than the limits of all routers allow.
    #[error("no assignment with equal loads gives each router at most {0} clients on either side")]
    Side(u32),
    /// A block has no clients, or the efficiency is outside 1 to 100 per cent.
    #[error("spread needs blocks of at least one client and an efficiency of 1 to 100 per cent")]
    Spread,
    /// The cap is outside 1 to 100 per cent, or runs have no positions.
    #[error("slices need a cap of 1 to 100 per cent and runs of at least one position")]
    Slices,
}

/// Something that does not prevent a plan, but is not as intended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanWarning {
    /// Clients are in the window of no sub-group.
    #[error(
        "group {group}: {} in no window; {consequence}",
        match .clients { 1 => "1 client is".to_owned(), clients => format!("{clients} clients are") }
    )]
    NoWindow {
        /// The group.
        group: String,
        /// Number of these clients.
        clients: u32,
        /// What the policy does with them.
        consequence: &'static str,
    },
    /// Exchanges did not reach the limit of the hottest link.
    #[error(
        "no exchange of clients brings every link to {limit} units per GB/s; the hottest has {}.{}",
        tenths / 10, tenths % 10
    )]
    Hot {
        /// The limit.
        limit: u32,
        /// The load that exchanges reached, in tenths.
        tenths: u32,
    },
    /// There are fewer disjoint backups than requested.
    #[error(
        "{net}: {} fewer backups than wanted",
        match .clients { 1 => "1 client has".to_owned(), clients => format!("{clients} clients have") }
    )]
    FewBackups {
        /// The net.
        net: String,
        /// Number of clients with fewer backups.
        clients: u32,
    },
}

/// The routers of every client for every net, best first.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The policy that made the plan.
    pub policy: Policy,
    /// What is not as intended.
    pub warnings: Vec<PlanWarning>,
    /// Indices of the routers that the plan avoids because they are dead.
    pub dead: BTreeSet<u16>,
    rows: Vec<Row>,
    row_of: Vec<u32>,
    nets: usize,
    choices: usize,
    cells: Vec<u16>,
}

/// Some rows of a plan that is being made.
pub(crate) struct Part<'a> {
    /// The number of the part's first row in the plan. Other row numbers are relative to it.
    pub(crate) first: usize,
    pub(crate) rows: &'a [Row],
    cells: &'a mut [u16],
    nets: usize,
    choices: usize,
}

impl Part<'_> {
    /// Writes the routers of a row for a net, best first. Routers that do not fit are left out.
    pub(crate) fn set(&mut self, row: usize, net: usize, routers: &[u16]) {
        let first = (row * self.nets + net) * self.choices;
        let cells = &mut self.cells[first..first + self.choices];
        let count = routers.len().min(cells.len());
        cells[..count].copy_from_slice(&routers[..count]);
    }

    /// Copies the routers of row `from` to row `to`.
    pub(crate) fn copy(&mut self, from: usize, to: usize) {
        let size = self.nets * self.choices;
        self.cells
            .copy_within(from * size..(from + 1) * size, to * size);
    }
}

impl Plan {
    /// Makes an empty table for these rows. `row_of` holds the row of each client.
    pub(crate) fn new(
        machine: &Machine,
        policy: Policy,
        choices: usize,
        rows: Vec<Row>,
        row_of: Vec<u32>,
    ) -> Self {
        let nets = machine.nets.len();
        Self {
            policy,
            warnings: Vec::new(),
            dead: BTreeSet::new(),
            cells: vec![NONE; rows.len() * nets * choices],
            rows,
            row_of,
            nets,
            choices,
        }
    }

    /// All rows, to be filled.
    pub(crate) fn fill(&mut self) -> Part<'_> {
        Part {
            first: 0,
            rows: &self.rows,
            cells: &mut self.cells,
            nets: self.nets,
            choices: self.choices,
        }
    }

    /// The rows in parts, to be filled by several threads.
    pub(crate) fn fill_in_parts(&mut self) -> impl ParallelIterator<Item = Part<'_>> {
        let (nets, choices) = (self.nets, self.choices);
        let size = (PART * nets * choices).max(1);
        let parts = self
            .rows
            .par_chunks(PART)
            .zip(self.cells.par_chunks_mut(size));
        parts.enumerate().map(move |(index, (rows, cells))| Part {
            first: index * PART,
            rows,
            cells,
            nets,
            choices,
        })
    }

    /// Returns the part of the plan that remains if only these clients use only these nets, given
    /// by index. The result does not know which client has which row.
    pub(crate) fn of_job(&self, clients: &[usize], nets: &[usize]) -> Self {
        let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
        for &client in clients {
            *counts.entry(self.row_of(client)).or_default() += 1;
        }
        let rows = counts.iter().map(|(&row, &clients)| Row {
            clients,
            ..self.rows[row]
        });
        let mut job = Self {
            rows: rows.collect(),
            row_of: Vec::new(),
            cells: vec![NONE; counts.len() * self.nets * self.choices],
            warnings: Vec::new(),
            dead: self.dead.clone(),
            ..*self
        };
        for (to, &from) in counts.keys().enumerate() {
            for &net in nets {
                let routers = self.routers(from, net).to_vec();
                job.fill().set(to, net, &routers);
            }
        }
        job
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the row of a client, given by index.
    #[must_use]
    pub fn row_of(&self, client: usize) -> usize {
        self.row_of[client] as usize
    }

    /// Most routers of one cell: the primary and the backups.
    #[must_use]
    pub fn choices(&self) -> usize {
        self.choices
    }

    /// Returns the routers of a row for a net, the primary first.
    #[must_use]
    pub fn routers(&self, row: usize, net: usize) -> &[u16] {
        let first = (row * self.nets + net) * self.choices;
        let cells = &self.cells[first..first + self.choices];
        let end = cells.iter().position(|&router| router == NONE);
        &cells[..end.unwrap_or(self.choices)]
    }

    /// Returns the primaries of a row for these nets, as far as it has them.
    pub(crate) fn primaries(&self, row: usize, nets: &[usize]) -> impl Iterator<Item = u16> {
        let (table, choices) = (self.table(row), self.choices);
        let routers = nets.iter().map(move |net| table[net * choices]);
        routers.filter(|&router| router != NONE)
    }

    /// Returns the routers of a row for all nets. Rows with equal tables have equal routers.
    pub(crate) fn table(&self, row: usize) -> &[u16] {
        let size = self.nets * self.choices;
        &self.cells[row * size..(row + 1) * size]
    }

    /// Returns whether the routers of a cell share the client's messages; otherwise they are
    /// backups of each other.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.policy == Policy::Flat
    }

    /// Returns a number of parts of a unit that is divisible by any number of sharing routers, so
    /// that loads stay integers. With more than 16 routers: divisible by all of them, and by all
    /// but one.
    pub(crate) fn parts(&self) -> u64 {
        let routers = self.choices as u64;
        match routers {
            _ if !self.is_shared() => 1,
            0..=16 => 720_720,
            _ => routers * (routers - 1),
        }
    }

    /// Returns the number of distinct route tables by primaries only, and by primaries and the
    /// order of backups.
    #[must_use]
    pub fn distinct_tables(&self) -> (usize, usize) {
        let size = (self.nets * self.choices).max(1);
        let mut whole: Vec<&[u16]> = self.cells.chunks(size).collect();
        whole.sort_unstable();
        whole.dedup();
        let primaries = |cells: &[u16]| cells.iter().step_by(self.choices).copied().collect();
        let mut primary: Vec<Vec<u16>> = whole.iter().map(|cells| primaries(cells)).collect();
        primary.sort_unstable();
        primary.dedup();
        (primary.len(), whole.len())
    }

    /// Estimates the total size of the clients' configurations in bytes: one for each distinct
    /// table, with a route for each net and choice.
    #[must_use]
    pub fn config_bytes(&self) -> u64 {
        /// Bytes of a route in the YAML of lnetctl as `finerail fgr config` writes it: four lines
        /// and a share of the nets.
        const ROUTE: u64 = 113;
        let routes = self.nets * self.choices;
        self.distinct_tables().1 as u64 * routes as u64 * ROUTE
    }

    /// Adds a warning for each net with rows that have fewer routers than choices.
    pub(crate) fn warn_of_few_backups(&mut self, machine: &Machine) {
        for (net, entry) in machine.nets.iter().enumerate() {
            let last = self
                .cells
                .iter()
                .skip(net * self.choices + self.choices - 1);
            let cells = self.rows.iter().zip(last.step_by(self.nets * self.choices));
            let lacking = cells.filter(|(_, cell)| **cell == NONE);
            let clients = lacking.map(|(row, _)| row.clients).sum();
            if clients > 0 {
                let net = entry.net.to_string();
                self.warnings.push(PlanWarning::FewBackups { net, clients });
            }
        }
    }
}

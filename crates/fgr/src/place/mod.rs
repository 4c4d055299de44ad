//! Where router modules should stand: placements that none other found is better than in every
//! figure.
//!
//! ```text
//!   start ──▶ walk 1 (weights 1) ─┐      a walk moves a module or swaps two, keeps what is better by
//!         ──▶ walk 2 (weights 2) ─┼─▶    its weights and, at first, what is a little worse
//!         ──▶ …                  ─┘
//!                                 archive: no point is as good in all of cost, balance, write, read
//!                                 ──▶ each point again, with the nodes of vacated blades as clients
//! ```
//!
//! Every candidate is planned with the same policy and loaded with the same code as a real plan, for
//! the groups that it changes. Equal seeds give equal placements on every machine: chance comes from
//! one integer generator, and the figures are sums in a fixed order. The search asks its caller
//! after every candidate whether to go on, and ends with the best so far.

mod archive;
mod bounds;
mod score;
mod search;
mod sites;

pub use bounds::{PlacementBounds, placement_bounds};
pub use sites::{Site, read_sites, titan_sites};

use std::ops::ControlFlow;

use thiserror::Error;

use crate::evaluate::{Evaluation, Gateways};
use crate::machine::{Client, Machine};
use crate::plan::PlanError;
use crate::policy::{Options, Policy};

/// A machine whose modules may stand elsewhere.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// The machine with its modules where the search begins. Groups, sub-groups and nets stay.
    pub machine: &'a Machine,
    /// Blades that modules may stand on, one module each; those of the start among them.
    pub sites: Vec<Site>,
    /// The policy that placements are judged by.
    pub policy: Policy,
}

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Candidates to try in all.
    pub candidates: u64,
    /// Equal seeds find equal placements.
    pub seed: u64,
}

/// The figures that placements are compared by; less is better in each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Mean weighted hops of a pair of a client and a net.
    pub cost: f64,
    /// Most clients of a router over the mean.
    pub balance: f64,
    /// Units per GB/s on the hottest link when clients write.
    pub write: f64,
    /// The same when clients read.
    pub read: f64,
}

impl Figures {
    /// The figures of a plan of this machine by this policy.
    ///
    /// # Errors
    ///
    /// Those of [`assign`](crate::assign()).
    pub fn of(machine: &Machine, policy: Policy) -> Result<Self, PlanError> {
        let plan = crate::assign(machine, policy, &search_options())?;
        let evaluation = Evaluation::new(machine, &plan, Gateways::Primary);
        Ok(Self {
            cost: evaluation.cost.mean,
            balance: evaluation.balance(),
            write: evaluation.write.max,
            read: evaluation.read.max,
        })
    }

    /// The figures in the order cost, balance, write, read.
    #[must_use]
    pub fn values(&self) -> [f64; 4] {
        [self.cost, self.balance, self.write, self.read]
    }

    /// As integers of the digits that are printed: what differs by less is the same.
    fn printed(&self) -> [u64; 4] {
        let digits = [1e3, 1e3, 1e1, 1e1];
        let scaled = self.values().into_iter().zip(digits);
        let mut rounded = [0; 4];
        for (whole, (value, scale)) in rounded.iter_mut().zip(scaled) {
            *whole = (value * scale).round() as u64;
        }
        rounded
    }

    /// Whether no figure is worse than the other's, to the printed digits.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let pairs = self.printed().into_iter().zip(other.printed());
        pairs.into_iter().all(|(mine, theirs)| mine <= theirs)
    }
}

/// A placement that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The index in [`Problem::sites`] of each module's blade, metadata modules included.
    pub sites: Vec<u32>,
    /// Its figures, with the clients as they then are.
    pub figures: Figures,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Placements {
    /// The figures of the start.
    pub start: Figures,
    /// The points, none covered by another, by cost. The start is among them unless it is beaten.
    pub points: Vec<Point>,
    /// Candidates that were tried.
    pub tried: u64,
    /// Whether the caller ended the search early.
    pub interrupted: bool,
}

/// How far a search is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Candidates tried so far.
    pub tried: u64,
    /// Points in the archive.
    pub points: usize,
    /// The least of each figure so far, in the order of [`Figures::values`].
    pub best: [f64; 4],
}

/// Why there is nothing to search.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The start cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A module's blade is not among the sites.
    #[error("module {0} stands on none of the blades that modules may stand on")]
    NoSite(String),
    /// Two sites with one blade.
    #[error("blade {0} is listed twice")]
    SiteTwice(String),
    /// A blade with fewer nodes than a module needs.
    #[error("blade {blade} has {found} nodes; a module needs {needed}")]
    TooFewNodes {
        /// The blade.
        blade: String,
        /// Its nodes.
        found: usize,
        /// Nodes of the largest module.
        needed: usize,
    },
}

/// Searches placements; `progress` is asked after every candidate whether to go on.
///
/// Two modules of one sub-group never share a cabinet unless they do so in the start: they back each
/// other up.
///
/// # Errors
///
/// [`PlaceError`]: a start that cannot be planned, sites that do not fit the modules.
pub fn place(
    problem: &Problem<'_>,
    effort: Effort,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Placements, PlaceError> {
    let start_sites = sites::start(problem)?;
    let start = Figures::of(&moved(problem, &start_sites), problem.policy)?;
    let mut search = search::Search::new(problem, effort, start_sites.clone())?;
    let interrupted = search.run(progress).is_break();
    let tried = search.tried();
    let mut archive = archive::Archive::default();
    archive.offer(&start, &start_sites);
    for sites in search.into_points() {
        let machine = moved(problem, &sites);
        archive.offer(&Figures::of(&machine, problem.policy)?, &sites);
    }
    Ok(Placements {
        start,
        points: archive.into_points(),
        tried,
        interrupted,
    })
}

/// The machine with its modules on these sites: the nodes of a blade that computes when it is free
/// are clients there, and no longer where a module took the blade.
#[must_use]
pub fn moved(problem: &Problem<'_>, at: &[u32]) -> Machine {
    let mut machine = problem.machine.clone();
    for (module, &site) in at.iter().enumerate() {
        score::stand(&mut machine, module, &problem.sites[site as usize]);
    }
    let taken: std::collections::BTreeSet<u32> = at.iter().copied().collect();
    let computing = (0_u32..).zip(&problem.sites).filter(|(_, s)| s.computes);
    let (mut gone, mut new) = (std::collections::BTreeSet::new(), Vec::new());
    for (index, site) in computing {
        for &(id, vertex) in &site.nodes {
            if taken.contains(&index) {
                gone.insert(id);
            } else if machine.client(id).is_none() {
                new.push(Client {
                    id,
                    name: None,
                    vertex,
                });
            }
        }
    }
    machine.clients.retain(|client| !gone.contains(&client.id));
    machine.clients.extend(new);
    machine.clients.sort_by_key(|client| client.id);
    machine
}

/// Primaries alone: backups do not change the figures.
fn search_options() -> Options {
    Options {
        backups: 0,
        ..Options::default()
    }
}

#[cfg(test)]
mod tests;

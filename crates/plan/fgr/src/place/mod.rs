//! Searches good places for router modules: placements that no other found placement beats in every
//! figure.
//!
//! ```text
//!   start ──▶ walk 1 (aims 1) ─┐     a walk moves a module or swaps two, and keeps what brings it
//!         ──▶ walk 2 (aims 2) ─┼─▶   nearer to its goal and, at first, what is a little worse;
//!         ──▶ …               ─┘     a goal that is reached moves on
//!                              archive: no point is as good in all of cost, balance, write, read
//!                              ──▶ each point again, as a whole plan
//! ```
//!
//! A candidate is scored with its own clients: the nodes of a vacated blade compute, and those of a
//! taken blade do not. Under the strict rule on a torus a move changes integers at a few places
//! (`board`). With other policies and fabrics each candidate is planned as a whole. Equal seeds
//! give equal placements on every machine and with any number of threads: each walk has its own
//! random numbers, and walks exchange results after rounds of equal length. The state between two
//! rounds contains everything that a search needs to continue.

mod archive;
mod board;
mod floor;
mod goal;
mod ring;
mod search;
mod shape;
mod sites;

pub use floor::proved_floor;
pub use sites::{Site, read_sites, titan_sites};

use std::ops::ControlFlow;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::evaluate::{Evaluation, Gateways};
use crate::machine::{Client, Machine};
use crate::plan::PlanError;
use crate::policy::{Options, Policy};
use crate::topology::Vertex;

/// A machine whose modules may move.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// The machine, with its modules at their start. Groups, sub-groups and nets stay as they are.
    pub machine: &'a Machine,
    /// Blades for modules, one module each. They include the blades of the start.
    pub sites: Vec<Site>,
    /// The policy that evaluates placements.
    pub policy: Policy,
}

/// The extent of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effort {
    /// Number of candidates to try in all.
    pub candidates: u64,
    /// Seed of the random numbers. Equal seeds find equal placements.
    pub seed: u64,
    /// Figures to reach all at once. All walks look for a placement that reaches them, and for
    /// better ones once it is found. Without a goal each walk looks for figures that are one step
    /// better than its own. A search that continues keeps the goals with which it began.
    pub goal: Option<Figures>,
}

/// The figures that rank placements. Lower is better for each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Mean weighted hops of a pair of a client and a net.
    pub cost: f64,
    /// Clients of the router with the most, relative to the mean.
    pub balance: f64,
    /// Units per GB/s on the hottest link when clients write.
    pub write: f64,
    /// Units per GB/s on the hottest link when clients read.
    pub read: f64,
}

impl Figures {
    /// Calculates the figures of a plan of this machine with this policy.
    ///
    /// # Errors
    ///
    /// Errors of [`assign`](crate::assign()).
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

    fn from_values([cost, balance, write, read]: [f64; 4]) -> Self {
        Self {
            cost,
            balance,
            write,
            read,
        }
    }

    /// The figures as integers of the printed digits. Smaller differences do not count.
    fn printed(&self) -> [u64; 4] {
        let digits = [1e4, 1e4, 1e1, 1e1];
        let scaled = self.values().into_iter().zip(digits);
        let mut rounded = [0; 4];
        for (whole, (value, scale)) in rounded.iter_mut().zip(scaled) {
            // Rounds to nearest, halves up. The library's function is a call on targets without an
            // instruction for it.
            let value = value * scale;
            let below = value as i64;
            *whole = below as u64 + u64::from(value - below as f64 >= 0.5);
        }
        rounded
    }

    /// Returns whether no figure is worse than the other's, to the printed digits.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        covers(&self.printed(), &other.printed())
    }
}

/// Compares figures as they are printed.
fn covers(mine: &[u64; 4], theirs: &[u64; 4]) -> bool {
    mine.iter().zip(theirs).all(|(mine, theirs)| mine <= theirs)
}

/// A placement that a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Index in [`Problem::sites`] of each module's blade, including metadata modules.
    pub sites: Vec<u32>,
    /// The figures, with the clients of this placement.
    pub figures: Figures,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Placements {
    /// The figures of the start.
    pub start: Figures,
    /// The points that no other point covers, in order of cost. The start is among them unless
    /// another covers it.
    pub points: Vec<Point>,
    /// Number of candidates tried.
    pub tried: u64,
    /// Whether the caller ended the search early.
    pub interrupted: bool,
    /// The state from which a later search continues.
    pub state: State,
}

/// The state of a search between two rounds: everything that it needs to continue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The seed with which the search began.
    pub seed: u64,
    /// Number of rounds so far.
    pub rounds: u64,
    /// Number of candidates tried so far.
    pub tried: u64,
    /// The walks.
    pub walks: Vec<WalkState>,
    /// The points found.
    pub points: Vec<Point>,
}

/// The state of one walk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalkState {
    /// The site of each module.
    pub at: Vec<u32>,
    /// The state of its random numbers.
    pub random: u64,
    /// The goal of the walk.
    pub goal: Figures,
}

/// Progress of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Number of candidates tried so far.
    pub tried: u64,
    /// Number of points in the archive.
    pub points: usize,
    /// The lowest value of each figure so far, in the order of [`Figures::values`].
    pub best: [f64; 4],
}

/// Why a search cannot start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// No plan can be made for the start.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The blade of a module is not among the sites.
    #[error("module {0} stands on none of the blades that modules may stand on")]
    NoSite(String),
    /// Two sites have the same blade.
    #[error("blade {0} is listed twice")]
    SiteTwice(String),
    /// The state belongs to a search on another machine or with other sites.
    #[error("the state is that of a search with other modules or blades")]
    OtherState,
    /// A blade has fewer nodes than a module needs.
    #[error("blade {blade} has {found} nodes; a module needs {needed}")]
    TooFewNodes {
        /// The blade.
        blade: String,
        /// Number of its nodes.
        found: usize,
        /// Number of nodes of the largest module.
        needed: usize,
    },
}

/// Searches placements from the start or from the state of an earlier search. After every round
/// `progress` decides whether the search continues. Rounds are never cut short, so the search may
/// try slightly more than [`Effort::candidates`].
///
/// Two modules of one sub-group back each other up. They never share a cabinet unless they share
/// one at the start.
///
/// # Errors
///
/// [`PlaceError`]: a start for which no plan can be made, or sites that do not fit the modules.
pub fn place(
    problem: &Problem<'_>,
    effort: Effort,
    resume: Option<State>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Placements, PlaceError> {
    let start_sites = sites::start(problem)?;
    let start = Figures::of(&moved(problem, &start_sites), problem.policy)?;
    let mut state = match resume {
        Some(state) => checked(problem, state)?,
        None => search::begin(&effort, &start, &start_sites),
    };
    let field = search::Field::new(problem, start);
    let interrupted = search::run(&field, effort, &mut state, progress)?.is_break();
    // Whole plans include links that the search did not examine.
    let points = state.points.par_iter().map(|point| {
        let machine = moved(problem, &point.sites);
        Figures::of(&machine, problem.policy).map(|figures| (figures, &point.sites))
    });
    let points: Vec<_> = points.collect::<Result<_, _>>()?;
    let mut archive = archive::Archive::default();
    archive.offer(&start, &start_sites);
    for (figures, sites) in points {
        archive.offer(&figures, sites);
    }
    Ok(Placements {
        start,
        points: archive.into_points(),
        tried: state.tried,
        interrupted,
        state,
    })
}

/// Checks that a state fits the problem.
fn checked(problem: &Problem<'_>, state: State) -> Result<State, PlaceError> {
    let modules = problem.machine.modules.len();
    let fits = |at: &[u32]| {
        let mut taken = at.to_vec();
        taken.sort_unstable();
        taken.dedup();
        let is_known = |&site: &u32| (site as usize) < problem.sites.len();
        at.len() == modules && taken.len() == modules && taken.iter().all(is_known)
    };
    let walks = state.walks.iter().map(|walk| &walk.at);
    let points = state.points.iter().map(|point| &point.sites);
    if walks.chain(points).all(|at| fits(at)) {
        Ok(state)
    } else {
        Err(PlaceError::OtherState)
    }
}

/// Places a module on a site.
fn place_module(machine: &mut Machine, module: usize, site: &Site) {
    let entry = &mut machine.modules[module];
    entry.blade.clone_from(&site.blade);
    entry.cabinet.clone_from(&site.cabinet);
    entry.home = site.nodes.first().map_or(Vertex(0), |node| node.1);
    let range = usize::from(entry.routers.start)..usize::from(entry.routers.end);
    for (router, &(id, vertex)) in machine.routers[range].iter_mut().zip(&site.nodes) {
        router.id = id;
        router.vertex = vertex;
    }
}

/// Returns the machine with its modules on these sites. Nodes of a free blade that computes are
/// clients; nodes of a blade with a module are not.
#[must_use]
pub fn moved(problem: &Problem<'_>, at: &[u32]) -> Machine {
    let mut machine = problem.machine.clone();
    for (module, &site) in at.iter().enumerate() {
        place_module(&mut machine, module, &problem.sites[site as usize]);
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

/// A search for measuring the time of its moves.
pub struct Trials<'a> {
    field: search::Field<'a>,
    walks: Vec<WalkState>,
}

impl<'a> Trials<'a> {
    /// Evaluates the start.
    ///
    /// # Errors
    ///
    /// Errors of [`place`].
    pub fn new(problem: &'a Problem<'a>, seed: u64) -> Result<Self, PlaceError> {
        let at = sites::start(problem)?;
        let start = Figures::of(&moved(problem, &at), problem.policy)?;
        let effort = Effort {
            seed,
            ..Effort::default()
        };
        let walks = search::begin(&effort, &start, &at).walks;
        let field = search::Field::new(problem, start);
        Ok(Self { field, walks })
    }

    /// Runs one span of the search, in which its walks try this many moves in parallel. Returns the
    /// figures at the end of each walk.
    ///
    /// # Errors
    ///
    /// Errors of [`place`].
    pub fn span(&self, moves: u64) -> Result<Vec<Figures>, PlaceError> {
        search::span(&self.field, &self.walks, moves)
    }
}

/// Primaries only: backups do not change the figures.
fn search_options() -> Options {
    Options {
        backups: 0,
        ..Options::default()
    }
}

#[cfg(test)]
mod tests;

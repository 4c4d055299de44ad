//! Where router modules should stand: placements that none other found is better than in every
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
//! A candidate is scored with the clients that it has: the nodes of a vacated blade compute, and those
//! of a taken one do not. Under the strict rule on a torus a move changes whole numbers at a few
//! places (`board`); elsewhere each candidate is planned as a whole. Equal seeds give equal
//! placements on every machine and with any number of threads: each walk has its own chance, and the
//! walks meet after rounds of equal length. The state between two rounds is all that a search needs to
//! go on.

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
use topology::Vertex;

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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effort {
    /// Candidates to try in all.
    pub candidates: u64,
    /// Equal seeds find equal placements.
    pub seed: u64,
    /// What is to be reached in all figures at once: all walks look for that, and for better once it is
    /// found. Without it each walk looks for figures a step better than those it has. A search that goes
    /// on has the goals that it began with.
    pub goal: Option<Figures>,
}

/// The figures that placements are compared by; less is better in each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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

    fn from_values([cost, balance, write, read]: [f64; 4]) -> Self {
        Self {
            cost,
            balance,
            write,
            read,
        }
    }

    /// As integers of the digits that are printed: what differs by less is the same.
    fn printed(&self) -> [u64; 4] {
        let digits = [1e4, 1e4, 1e1, 1e1];
        let scaled = self.values().into_iter().zip(digits);
        let mut rounded = [0; 4];
        for (whole, (value, scale)) in rounded.iter_mut().zip(scaled) {
            // The nearest, halves up; the library's function is a call where nothing else is.
            let value = value * scale;
            let below = value as i64;
            *whole = below as u64 + u64::from(value - below as f64 >= 0.5);
        }
        rounded
    }

    /// Whether no figure is worse than the other's, to the printed digits.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        covers(&self.printed(), &other.printed())
    }
}

/// The same for figures as they are printed.
fn covers(mine: &[u64; 4], theirs: &[u64; 4]) -> bool {
    mine.iter().zip(theirs).all(|(mine, theirs)| mine <= theirs)
}

/// A placement that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// From where a later search goes on.
    pub state: State,
}

/// Where a search is between two rounds: what it needs to go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The seed that it began with.
    pub seed: u64,
    /// Rounds so far.
    pub rounds: u64,
    /// Candidates tried so far.
    pub tried: u64,
    /// The walks.
    pub walks: Vec<WalkState>,
    /// What was found.
    pub points: Vec<Point>,
}

/// Where one walk is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalkState {
    /// The site of each module.
    pub at: Vec<u32>,
    /// The state of its chance.
    pub random: u64,
    /// What it is to reach.
    pub goal: Figures,
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
    /// A state of a search on another machine or other sites.
    #[error("the state is that of a search with other modules or blades")]
    OtherState,
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

/// Searches placements, from the start or from the state of an earlier search; `progress` is asked
/// after every round whether to go on. The last round is a whole one, so a little more than
/// [`Effort::candidates`] may be tried.
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
    // Whole plans: what the search did not look at counts too.
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

/// A state that fits the problem.
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

/// Puts a module on a site.
fn stand(machine: &mut Machine, module: usize, site: &Site) {
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

/// The machine with its modules on these sites: the nodes of a blade that computes when it is free
/// are clients there, and no longer where a module took the blade.
#[must_use]
pub fn moved(problem: &Problem<'_>, at: &[u32]) -> Machine {
    let mut machine = problem.machine.clone();
    for (module, &site) in at.iter().enumerate() {
        stand(&mut machine, module, &problem.sites[site as usize]);
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

/// A search that has not begun, for measuring what its moves take.
pub struct Trials<'a> {
    field: search::Field<'a>,
    walks: Vec<WalkState>,
}

impl<'a> Trials<'a> {
    /// Evaluates the start.
    ///
    /// # Errors
    ///
    /// Those of [`place`].
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

    /// One span of the search, in which its walks try so many moves side by side; the figures that the walks
    /// end with.
    ///
    /// # Errors
    ///
    /// Those of [`place`].
    pub fn span(&self, moves: u64) -> Result<Vec<Figures>, PlaceError> {
        search::span(&self.field, &self.walks, moves)
    }
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

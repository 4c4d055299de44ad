//! The figures of a placement under the strict rule on a torus, updated after every move.
//!
//! ```text
//!   window ─▶ clients by column and depth ─▶ cell of a module ─▶ its streams along two rings
//!   (planes)      counts[x][z]               (columns nearest)     write: ring of its column (z)
//!                                                                  read:  ring of its row    (x)
//! ```
//!
//! With dimension-ordered routing, everything that a router receives meets on the last ring, and
//! everything that it sends leaves over the first ring: no other link carries more of its streams.
//! The loads of these rings, the clients of each module and the cost are integers. A move changes
//! them at a few places, and the reverse move restores them. The figures of a point that is kept
//! are calculated again from a whole plan, so that hotter links elsewhere count, too.
//!
//! If a module leaves or takes a blade that can compute, the clients of the cells at that blade
//! change, one cell in each group. The board counts these clients.

mod clients;
mod seat;
mod track;
mod trial;

use std::sync::Arc;

use crate::machine::Machine;
use crate::place::board::seat::{Seat, Window, bits};
use crate::place::board::track::{RingState, Track};
use crate::place::board::trial::Trial;
use crate::place::goal::Goal;
use crate::place::ring::{Side, larger};
use crate::place::shape::{Shape, shape};
use crate::place::{Figures, Problem, moved};
use crate::policy::Policy;
use crate::topology::Fabric;

/// A module and the site to which it moves.
pub(super) type Step = (usize, u32);

/// A placement and its figures.
#[derive(Clone)]
pub(super) struct Board {
    shape: Arc<Shape>,
    pub(super) at: Vec<u32>,
    seats: Vec<Seat>,
    /// The seat that serves a column, by sub-group and column.
    server: Vec<u32>,
    windows: Vec<Window>,
    clients: i64,
    /// Cost along the windowed dimension.
    plane_cost: i64,
    cost: i64,
    /// Rings of writes, then rings of reads.
    tracks: Vec<Track>,
    /// Rings whose excess has to be calculated again.
    stale: Vec<usize>,
    /// Rings that the last move changed, with their state before the move.
    reassessed: Vec<(usize, RingState)>,
    goal: Goal,
    /// Sum of the excess of all rings and seats over the goal.
    excess: i64,
    trial: Option<Box<Trial>>,
}

impl Board {
    /// Makes the board of a placement. Returns `None` if its rule does not hold: a policy other
    /// than the strict rule; a fabric other than a torus of three dimensions whose last one the
    /// rule ignores; modules that are not upright blades with one node for each net of their group;
    /// or more clients in a line of a window than 16 bits hold.
    pub(super) fn new(problem: &Problem<'_>, at: &[u32]) -> Option<Self> {
        if problem.policy != Policy::STRICT {
            return None;
        }
        let machine = moved(problem, at);
        let shape = shape(problem, &machine)?;
        let tracks = tracks(&shape);
        let mut board = Self {
            at: at.to_vec(),
            seats: vec![Seat::default(); shape.sub_group_of.len()],
            server: vec![0; shape.sub_groups.len() * shape.columns.size],
            windows: vec![Window::new(&shape); shape.users.len()],
            clients: 0,
            plane_cost: 0,
            cost: 0,
            tracks,
            stale: Vec::new(),
            reassessed: Vec::new(),
            goal: Goal::default(),
            excess: 0,
            trial: None,
            shape: Arc::new(shape),
        };
        board.count(&machine);
        board.seat();
        Some(board)
    }

    fn count(&mut self, machine: &Machine) {
        let Fabric::Grid(grid, _) = &machine.fabric else {
            return;
        };
        let shape = &self.shape;
        for client in &machine.clients {
            let [x, y, z] = [0, 1, 2].map(|d| usize::from(grid.position(client.vertex, d)));
            for &window in &shape.windows_at[y] {
                self.windows[window].change(shape, x, z, 1);
            }
            self.clients += 1;
            self.plane_cost += shape.plane_cost[y];
        }
    }

    /// Places the modules, assigns the clients to them, and calculates the loads of the rings.
    fn seat(&mut self) {
        let shape = Arc::clone(&self.shape);
        for (module, &site) in self.at.iter().enumerate() {
            if let Some(seat) = shape.seat_of[module] {
                let spot = &shape.sites[site as usize];
                let level = shape.sub_groups[shape.sub_group_of[seat]].level;
                self.seats[seat].place_at(&shape, level, spot.column, spot.depth);
                for ring in self.seats[seat].rings {
                    self.tracks[ring].seats.push(seat);
                }
            }
        }
        self.cost = self.plane_cost;
        let mut cells = Vec::new();
        for entry in &shape.sub_groups {
            let seats = self.seats[entry.seats.clone()].iter();
            let columns: Vec<usize> = seats.map(|seat| seat.column).collect();
            shape.cells(&columns, &mut cells);
            for (index, &cell) in entry.seats.clone().zip(&cells) {
                let seat = &mut self.seats[index];
                seat.serve(&shape, cell, &self.windows[entry.window], None);
                seat.reach(&shape, &self.windows[entry.window], None);
                self.cost += seat.cost * entry.nets;
                self.serve(index);
            }
        }
    }

    /// Records the columns that a seat serves.
    fn serve(&mut self, seat: usize) {
        let first = self.shape.sub_group_of[seat] * self.shape.columns.size;
        for x in bits(self.seats[seat].cell) {
            self.server[first + x] = seat as u32;
        }
    }

    /// Returns the figures that follow from rings, seats and cost.
    pub(super) fn figures(&self) -> Figures {
        let most = self.seats.iter().map(|seat| seat.clients).max();
        Figures {
            cost: self.cost as f64 / self.pairs(),
            balance: f64::from(most.unwrap_or(0)) / self.mean(),
            write: self.hottest(Side::Write).into(),
            read: self.hottest(Side::Read).into(),
        }
    }

    /// Returns the load of the hottest ring of a direction. Outdated loads are calculated only if
    /// they may matter.
    fn hottest(&self, side: Side) -> f32 {
        let tracks = || self.tracks.iter().filter(|track| track.side == side);
        let loaded = tracks().filter(|track| track.is_loaded());
        let mut most = loaded.map(Track::temperature).fold(0.0, larger);
        let mut at_work = Track::default();
        for track in tracks().filter(|track| !track.is_loaded()) {
            if track.at_most(&self.goal) > most {
                at_work.reset_to(track);
                at_work.seats.extend(&track.seats);
                at_work.fill(self.shape.ring(side), |seat| &self.seats[seat]);
                most = larger(most, at_work.temperature());
            }
        }
        most
    }

    fn pairs(&self) -> f64 {
        self.clients as f64 * self.shape.nets
    }

    /// Mean number of clients of a router.
    fn mean(&self) -> f64 {
        self.pairs() / self.shape.routers
    }

    /// Sets the goal of the search.
    pub(super) fn set_goal(&mut self, goal: &Figures) {
        self.goal = Goal::new(goal, self.mean(), self.pairs());
        let clients = self.seats.iter().map(|s| self.goal.clients(s.clients));
        self.excess = clients.sum();
        for ring in 0..self.tracks.len() {
            self.reassess(ring);
            self.excess += self.tracks[ring].state.excess;
        }
    }

    /// Calculates the load and the excess of a ring.
    fn reassess(&mut self, ring: usize) {
        let track = &mut self.tracks[ring];
        if !track.is_loaded() {
            track.fill(self.shape.ring(track.side), |seat| &self.seats[seat]);
        }
        track.reassess(&self.goal);
    }

    /// Distance to the goal; 0 if the goal is reached.
    pub(super) fn energy(&self) -> i64 {
        self.excess + self.goal.cost(self.cost)
    }

    /// Returns whether all figures may have reached the goal.
    pub(super) fn may_meet_goal(&self) -> bool {
        self.excess == 0 && self.goal.holds_cost(self.cost)
    }

    /// Makes the steps if the energy afterwards is at most `limit`; otherwise changes nothing.
    pub(super) fn attempt(&mut self, steps: &[Step], limit: i64) -> bool {
        if !self.try_out(steps, limit) {
            return false;
        }
        let before = (self.excess, self.cost);
        self.swap();
        // A swap leaves the number of clients at every blade as it was.
        if let &[(module, site)] = steps {
            self.populate::<false>(self.at[module], site);
        }
        if self.energy() <= limit {
            for &(module, site) in steps {
                self.at[module] = site;
            }
            return true;
        }
        if let &[(module, site)] = steps {
            self.populate::<true>(site, self.at[module]);
        }
        self.swap();
        (self.excess, self.cost) = before;
        false
    }

    fn try_out(&mut self, steps: &[Step], limit: i64) -> bool {
        let mut trial = self.trial.take().unwrap_or_default();
        let is_worth = trial.try_out(self, steps, limit);
        self.trial = Some(trial);
        is_worth
    }

    /// Makes the steps that were just tried, or reverts them if they were just made.
    fn swap(&mut self) {
        if let Some(mut trial) = self.trial.take() {
            trial.swap(self);
            self.trial = Some(trial);
        }
    }

    /// The sub-groups of the modules that move, each once.
    fn sub_groups_of(&self, steps: &[Step]) -> [Option<usize>; 2] {
        let mut own = [None; 2];
        for (&(module, _), slot) in steps.iter().zip(0..2) {
            let sub_group = self.shape.seat_of[module].map(|s| self.shape.sub_group_of[s]);
            if !own.contains(&sub_group) {
                own[slot] = sub_group;
            }
        }
        own
    }
}

/// What a proof needs of a board: each sub-group alone.
impl Board {
    /// Cost along the windowed dimension. Moves that move no client do not change it.
    pub(super) fn fixed_cost(&self) -> f64 {
        self.plane_cost as f64
    }

    pub(super) fn levels(&self) -> std::ops::Range<usize> {
        0..self.shape.nets_at_once.len()
    }

    /// The sites of a level without those of metadata modules.
    pub(super) fn blades_of(&self, level: usize) -> Vec<u32> {
        let planes = &self.shape.planes_of_level[level];
        let fixed = self.at.iter().zip(&self.shape.seat_of);
        let fixed: Vec<u32> = fixed
            .filter(|(_, s)| s.is_none())
            .map(|(&at, _)| at)
            .collect();
        let sites = (0_u32..).zip(&self.shape.sites);
        let on_level =
            sites.filter(|(index, spot)| spot.level == *planes && !fixed.contains(index));
        on_level.map(|(index, _)| index).collect()
    }

    pub(super) fn sub_groups_of_level(&self, level: usize) -> Vec<usize> {
        let all = 0..self.shape.sub_groups.len();
        all.filter(|&s| self.shape.sub_groups[s].level == level)
            .collect()
    }

    pub(super) fn modules_of(&self, sub_group: usize) -> usize {
        self.shape.sub_groups[sub_group].seats.len()
    }

    pub(super) fn window_of(&self, sub_group: usize) -> (usize, i64) {
        let entry = &self.shape.sub_groups[sub_group];
        (entry.window, entry.nets)
    }

    /// Returns the cost of a sub-group with its modules on these sites and without other streams,
    /// the number of clients of its busiest module, and the loads of its hottest write and read
    /// rings.
    pub(super) fn alone(&self, sub_group: usize, at: &[u32]) -> (f64, [f64; 3]) {
        let shape = &*self.shape;
        let entry = &shape.sub_groups[sub_group];
        let times = shape.nets_at_once[entry.level];
        let columns: Vec<usize> = at.iter().map(|&s| shape.sites[s as usize].column).collect();
        let mut cells = Vec::new();
        shape.cells(&columns, &mut cells);
        let (mut cost, mut peaks) = (0, [0.0_f64; 3]);
        for (&site, cell) in at.iter().zip(cells) {
            let spot = &shape.sites[site as usize];
            let mut seat = Seat::default();
            seat.place_at(shape, entry.level, spot.column, spot.depth);
            seat.serve(shape, cell, &self.windows[entry.window], None);
            seat.reach(shape, &self.windows[entry.window], None);
            cost += seat.cost * entry.nets;
            let hot = [Side::Write, Side::Read].map(|side| {
                let mut track = Track::new(shape.ring(side), side, times);
                track.seats.push(0);
                track.fill(shape.ring(side), |_| &seat);
                f64::from(track.temperature())
            });
            let own = [f64::from(seat.clients), hot[0], hot[1]];
            for (most, value) in peaks.iter_mut().zip(own) {
                *most = most.max(value);
            }
        }
        (cost as f64, peaks)
    }

    /// Converts a cost, and maxima of clients and rings, to figures.
    pub(super) fn as_figures(&self, cost: f64, [clients, write, read]: [f64; 3]) -> Figures {
        Figures {
            cost: cost / self.pairs(),
            balance: clients / self.mean(),
            write,
            read,
        }
    }
}

/// Makes all rings, without modules on them.
fn tracks(shape: &Shape) -> Vec<Track> {
    let of = |side, size| {
        let levels = shape.nets_at_once.iter();
        let track = move |&times| (0..size).map(move |_| Track::new(shape.ring(side), side, times));
        levels.flat_map(track)
    };
    let writes = of(Side::Write, shape.columns.size);
    writes.chain(of(Side::Read, shape.depths.size)).collect()
}

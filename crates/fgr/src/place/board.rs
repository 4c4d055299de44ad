//! The figures of a placement under the strict rule on a torus, kept up to date move by move.
//!
//! ```text
//!   window ─▶ clients by column and depth ─▶ cell of a module ─▶ its streams along two rings
//!   (planes)      counts[x][z]               (columns nearest)     write: ring of its column (z)
//!                                                                  read:  ring of its row    (x)
//! ```
//!
//! With dimension-ordered routing everything that a router takes meets on the last ring, and what it
//! gives leaves over the first one: no other link carries more of its streams. These rings, the
//! clients of each module and the cost are whole numbers that a move changes at a few places, and
//! taking a move back is the same in reverse. The figures of a point that is kept are computed again
//! from a whole plan, so a link elsewhere that is hotter is not overlooked.
//!
//! A module that leaves or takes a blade that computes changes the clients of the cells there, one in
//! each group; the board counts them.

mod clients;
mod seat;
mod track;
mod trial;

use std::sync::Arc;

use topology::Fabric;

use crate::machine::Machine;
use crate::place::board::seat::{Seat, Window, bits};
use crate::place::board::track::{Track, Verdict};
use crate::place::board::trial::Trial;
use crate::place::goal::Goal;
use crate::place::ring::{Side, larger};
use crate::place::shape::{Shape, shape};
use crate::place::{Figures, Problem, moved};
use crate::policy::Policy;

/// One module and the site that it goes to.
pub(super) type Step = (usize, u32);

/// A placement with its figures.
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
    /// Rings of writes, then of reads.
    tracks: Vec<Track>,
    /// Rings that are to be looked at again.
    stale: Vec<usize>,
    /// Rings that the last move had looked at again, with what was known of them before.
    judged: Vec<(usize, Verdict)>,
    goal: Goal,
    /// Excess of all rings and seats over the goal.
    excess: i64,
    trial: Option<Box<Trial>>,
}

impl Board {
    /// The board of a placement, or `None` where its rule does not hold: another policy or fabric
    /// than the strict rule on a torus of three dimensions, the last of which the rule does not look
    /// at, modules that are not upright blades with one node for each net of their group, or more clients
    /// in a line of a window than 16 bits hold.
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
            judged: Vec::new(),
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

    /// Seats the modules, divides the clients among them and loads the rings.
    fn seat(&mut self) {
        let shape = Arc::clone(&self.shape);
        for (module, &site) in self.at.iter().enumerate() {
            if let Some(seat) = shape.seat_of[module] {
                let spot = &shape.sites[site as usize];
                let level = shape.sub_groups[shape.sub_group_of[seat]].level;
                self.seats[seat].stand(&shape, level, spot.column, spot.depth);
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

    /// Notes which columns a seat serves.
    fn serve(&mut self, seat: usize) {
        let first = self.shape.sub_group_of[seat] * self.shape.columns.size;
        for x in bits(self.seats[seat].cell) {
            self.server[first + x] = seat as u32;
        }
    }

    /// The figures as far as rings, seats and cost say them.
    pub(super) fn figures(&self) -> Figures {
        let most = self.seats.iter().map(|seat| seat.clients).max();
        Figures {
            cost: self.cost as f64 / self.pairs(),
            balance: f64::from(most.unwrap_or(0)) / self.mean(),
            write: self.hottest(Side::Write).into(),
            read: self.hottest(Side::Read).into(),
        }
    }

    /// How hot the hottest ring of a direction is. Loads that lag are computed only where they may matter.
    fn hottest(&self, side: Side) -> f32 {
        let tracks = || self.tracks.iter().filter(|track| track.side == side);
        let loaded = tracks().filter(|track| track.is_loaded());
        let mut most = loaded.map(Track::temperature).fold(0.0, larger);
        let mut at_work = Track::default();
        for track in tracks().filter(|track| !track.is_loaded()) {
            if track.at_most(&self.goal) > most {
                at_work.be_like(track);
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

    /// Mean clients of a router.
    fn mean(&self) -> f64 {
        self.pairs() / self.shape.routers
    }

    /// Sets what the search is to reach.
    pub(super) fn aim(&mut self, goal: &Figures) {
        self.goal = Goal::new(goal, self.mean(), self.pairs());
        let clients = self.seats.iter().map(|s| self.goal.clients(s.clients));
        self.excess = clients.sum();
        for ring in 0..self.tracks.len() {
            self.judge(ring);
            self.excess += self.tracks[ring].verdict.excess;
        }
    }

    /// Looks at how hot a ring is.
    fn judge(&mut self, ring: usize) {
        let track = &mut self.tracks[ring];
        if !track.is_loaded() {
            track.fill(self.shape.ring(track.side), |seat| &self.seats[seat]);
        }
        track.judge(&self.goal);
    }

    /// What is left to reach; 0 is there.
    pub(super) fn energy(&self) -> i64 {
        self.excess + self.goal.cost(self.cost)
    }

    /// Whether all figures may have reached the goal.
    pub(super) fn may_be_there(&self) -> bool {
        self.excess == 0 && self.goal.holds_cost(self.cost)
    }

    /// Makes the steps if the energy then is at most `limit`; otherwise nothing has changed.
    pub(super) fn attempt(&mut self, steps: &[Step], limit: i64) -> bool {
        if !self.try_out(steps, limit) {
            return false;
        }
        let before = (self.excess, self.cost);
        self.swap();
        // A swap leaves every blade with as many clients as before.
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

    /// Makes the steps that were just tried, or takes them back when they were just made.
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

/// What a proof needs of a board: each sub-group on its own.
impl Board {
    /// Cost along the windowed dimension, which no move changes while no client moves.
    pub(super) fn fixed_cost(&self) -> f64 {
        self.plane_cost as f64
    }

    pub(super) fn levels(&self) -> std::ops::Range<usize> {
        0..self.shape.nets_at_once.len()
    }

    /// The sites of a level, those of metadata modules apart.
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

    /// Cost, and clients of the busiest module and its hottest write and read ring, of a sub-group
    /// whose modules stand on these sites, with no other streams.
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
            seat.stand(shape, entry.level, spot.column, spot.depth);
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

    /// A sum of costs, and peaks of clients and rings, as figures.
    pub(super) fn as_figures(&self, cost: f64, [clients, write, read]: [f64; 3]) -> Figures {
        Figures {
            cost: cost / self.pairs(),
            balance: clients / self.mean(),
            write,
            read,
        }
    }
}

/// Every ring, where nobody stands yet.
fn tracks(shape: &Shape) -> Vec<Track> {
    let of = |side, size| {
        let levels = shape.nets_at_once.iter();
        let track = move |&times| (0..size).map(move |_| Track::new(shape.ring(side), side, times));
        levels.flat_map(track)
    };
    let writes = of(Side::Write, shape.columns.size);
    writes.chain(of(Side::Read, shape.depths.size)).collect()
}

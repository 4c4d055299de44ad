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

mod trial;

use std::sync::Arc;

use topology::Fabric;

use crate::machine::Machine;
use crate::place::board::trial::Trial;
use crate::place::goal::Goal;
use crate::place::shape::{Ring, Shape, peak, shape};
use crate::place::{Figures, Problem, moved};
use crate::policy::Policy;

/// One module and the site that it goes to.
pub(super) type Step = (usize, u32);

/// What a module serves, and its loads.
#[derive(Clone, Default)]
struct Seat {
    column: usize,
    depth: usize,
    /// The columns of its cell, a bit each.
    cell: u64,
    clients: i32,
    /// Hops of its clients along the first dimension.
    hops: i64,
    /// Cost along the first and the last dimension.
    cost: i64,
    by_column: Vec<i32>,
    by_depth: Vec<i32>,
    write: Vec<i32>,
    read: Vec<i32>,
}

/// Rings of one direction of traffic: who stands on each, and how hot it is.
#[derive(Clone)]
struct Rings {
    seats: Vec<Vec<usize>>,
    hot: Vec<f32>,
    /// The move that last changed each ring.
    touched: Vec<u64>,
}

impl Rings {
    fn leave(&mut self, ring: usize, seat: usize) {
        self.seats[ring].retain(|&other| other != seat);
    }

    fn hottest(&self) -> f64 {
        f64::from(self.hot.iter().copied().fold(0.0, f32::max))
    }
}

/// A ring that a move changes: of writes or of reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RingId {
    Write(usize),
    Read(usize),
}

/// A placement with its figures.
#[derive(Clone)]
pub(super) struct Board {
    shape: Arc<Shape>,
    pub(super) at: Vec<u32>,
    seats: Vec<Seat>,
    /// Clients of each window by column, and by column and depth.
    by_column: Vec<Vec<i32>>,
    by_place: Vec<Vec<i32>>,
    clients: i64,
    /// Cost along the windowed dimension.
    plane_cost: i64,
    cost: i64,
    write: Rings,
    read: Rings,
    goal: Goal,
    /// Excess of all rings and seats over the goal.
    excess: i64,
    undo: Undo,
    /// Memory for sums of loads, and for moves that are tried.
    sum: Vec<i32>,
    trial: Trial,
}

/// What takes the move under way back.
#[derive(Clone, Default)]
struct Undo {
    /// Which move this is.
    number: u64,
    /// Seats as they were; what is behind `kept` is memory for later moves.
    seats: Vec<(usize, Seat)>,
    kept: usize,
    rings: Vec<(RingId, f32)>,
    changes: Vec<Change>,
    moved: Vec<(usize, u32)>,
    excess: i64,
    cost: i64,
}

/// Clients that a place gains or loses.
#[derive(Clone, Copy)]
struct Change {
    column: usize,
    plane: usize,
    depth: usize,
    clients: i32,
}

impl Board {
    /// The board of a placement, or `None` where its rule does not hold: another policy or fabric
    /// than the strict rule on a torus of three dimensions, the last of which the rule does not look
    /// at, or modules that are not upright blades with one node for each net of their group.
    pub(super) fn new(problem: &Problem<'_>, at: &[u32]) -> Option<Self> {
        if problem.policy != Policy::STRICT {
            return None;
        }
        let machine = moved(problem, at);
        let shape = shape(problem, &machine)?;
        let windows = shape.users.len();
        let (columns, depths) = (shape.columns.size, shape.depths.size);
        let levels = shape.nets_at_once.len();
        let rings = |count| Rings {
            seats: vec![Vec::new(); count],
            hot: vec![0.0; count],
            touched: vec![0; count],
        };
        let mut board = Self {
            at: at.to_vec(),
            seats: vec![Seat::default(); shape.sub_group_of.len()],
            by_column: vec![vec![0; columns]; windows],
            by_place: vec![vec![0; columns * depths]; windows],
            clients: 0,
            plane_cost: 0,
            cost: 0,
            write: rings(levels * columns),
            read: rings(levels * depths),
            goal: Goal::default(),
            excess: 0,
            undo: Undo::default(),
            sum: Vec::new(),
            trial: Trial::default(),
            shape: Arc::new(shape),
        };
        board.count(&machine);
        board.seat(at);
        Some(board)
    }

    fn count(&mut self, machine: &Machine) {
        let Fabric::Grid(grid, _) = &machine.fabric else {
            return;
        };
        for client in &machine.clients {
            let position = |d| usize::from(grid.position(client.vertex, d));
            self.change(Change {
                column: position(0),
                plane: position(1),
                depth: position(2),
                clients: 1,
            });
        }
    }

    fn seat(&mut self, at: &[u32]) {
        let shape = Arc::clone(&self.shape);
        for (module, &site) in at.iter().enumerate() {
            if let Some(seat) = shape.seat_of[module] {
                self.stand(seat, site);
            }
        }
        for sub_group in 0..shape.sub_groups.len() {
            self.divide(sub_group);
        }
        self.cost = self.total_cost();
        let rings = (0..self.write.hot.len()).map(RingId::Write);
        for ring in rings.chain((0..self.read.hot.len()).map(RingId::Read)) {
            let hot = self.temperature(ring, &mut Vec::new());
            *self.hot(ring) = hot;
        }
    }

    fn total_cost(&self) -> i64 {
        let seats = self.seats.iter().zip(&self.shape.sub_group_of);
        let sum: i64 = seats
            .map(|(seat, &s)| seat.cost * self.shape.sub_groups[s].nets)
            .sum();
        sum + self.plane_cost
    }

    /// Counts clients of a place in or out, for the windows alone.
    fn change(&mut self, change: Change) {
        let shape = Arc::clone(&self.shape);
        for &window in &shape.windows_at[change.plane] {
            self.by_column[window][change.column] += change.clients;
            self.by_place[window][change.column * shape.depths.size + change.depth] +=
                change.clients;
        }
        self.clients += i64::from(change.clients);
        self.plane_cost += i64::from(change.clients) * shape.plane_cost[change.plane];
    }

    fn stand(&mut self, seat: usize, site: u32) {
        let shape = Arc::clone(&self.shape);
        let spot = &shape.sites[site as usize];
        let level = shape.sub_groups[shape.sub_group_of[seat]].level;
        (self.seats[seat].column, self.seats[seat].depth) = (spot.column, spot.depth);
        self.write.seats[level * shape.columns.size + spot.column].push(seat);
        self.read.seats[level * shape.depths.size + spot.depth].push(seat);
    }

    fn rings_of(&self, seat: usize) -> [RingId; 2] {
        self.rings_at(seat, &self.seats[seat])
    }

    /// The rings of a seat that stands as this one does.
    fn rings_at(&self, seat: usize, &Seat { column, depth, .. }: &Seat) -> [RingId; 2] {
        let level = self.shape.sub_groups[self.shape.sub_group_of[seat]].level;
        [
            RingId::Write(level * self.shape.columns.size + column),
            RingId::Read(level * self.shape.depths.size + depth),
        ]
    }

    /// Gives every seat of a sub-group its cell, clients and loads.
    fn divide(&mut self, sub_group: usize) {
        let shape = Arc::clone(&self.shape);
        let entry = &shape.sub_groups[sub_group];
        let columns: Vec<usize> = entry.seats.clone().map(|s| self.seats[s].column).collect();
        let mut cells = Vec::new();
        shape.cells(&columns, &mut cells);
        for (index, cell) in entry.seats.clone().zip(cells) {
            let seat = &mut self.seats[index];
            seat.serve(
                &shape,
                cell,
                &self.by_column[entry.window],
                &self.by_place[entry.window],
            );
        }
    }

    /// How hot a ring is with the seats as they are.
    fn temperature(&self, ring: RingId, sum: &mut Vec<i32>) -> f32 {
        match ring {
            RingId::Write(ring) => {
                let times = self.shape.nets_at_once[ring / self.shape.columns.size];
                let seats = self.write.seats[ring].iter();
                let loads = seats.map(|&s| &self.seats[s].write[..]);
                self.shape.depths.hottest(loads, times, sum)
            }
            RingId::Read(ring) => {
                let times = self.shape.nets_at_once[ring / self.shape.depths.size];
                let seats = self.read.seats[ring].iter();
                let loads = seats.map(|&s| &self.seats[s].read[..]);
                self.shape.columns.hottest(loads, times, sum)
            }
        }
    }

    fn hot(&mut self, ring: RingId) -> &mut f32 {
        match ring {
            RingId::Write(ring) => &mut self.write.hot[ring],
            RingId::Read(ring) => &mut self.read.hot[ring],
        }
    }

    fn heat(&self, ring: RingId) -> f32 {
        match ring {
            RingId::Write(ring) => self.write.hot[ring],
            RingId::Read(ring) => self.read.hot[ring],
        }
    }

    fn excess_of(&self, ring: RingId, hot: f32) -> i64 {
        match ring {
            RingId::Write(_) => self.goal.write(hot),
            RingId::Read(_) => self.goal.read(hot),
        }
    }

    /// The figures as far as rings, seats and cost say them.
    pub(super) fn figures(&self) -> Figures {
        let most = self.seats.iter().map(|seat| seat.clients).max();
        Figures {
            cost: self.cost as f64 / self.pairs(),
            balance: f64::from(most.unwrap_or(0)) / self.mean(),
            write: self.write.hottest(),
            read: self.read.hottest(),
        }
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
        let seats: i64 = self
            .seats
            .iter()
            .map(|s| self.goal.clients(s.clients))
            .sum();
        let write: i64 = self.write.hot.iter().map(|&hot| self.goal.write(hot)).sum();
        let read: i64 = self.read.hot.iter().map(|&hot| self.goal.read(hot)).sum();
        self.excess = seats + write + read;
    }

    /// What is left to reach; 0 is there.
    pub(super) fn energy(&self) -> i64 {
        self.excess + self.goal.cost(self.cost)
    }

    /// Makes the steps if the energy then is at most `limit`; otherwise nothing has changed.
    pub(super) fn attempt(&mut self, steps: &[Step], limit: i64) -> bool {
        let mut trial = std::mem::take(&mut self.trial);
        let is_worth = trial.try_out(self, steps, limit);
        self.trial = trial;
        if !is_worth {
            return false;
        }
        self.make(steps);
        debug_assert!(self.goal.nearly(self.energy()) <= limit, "a trial differs");
        self.populate();
        if self.energy() <= limit {
            return true;
        }
        self.take_back();
        false
    }

    /// Makes the steps and takes them back.
    #[cfg(test)]
    pub(super) fn make_and_take_back(&mut self, steps: &[Step]) {
        self.make(steps);
        self.populate();
        self.take_back();
    }

    /// Moves the modules, every client where it was.
    fn make(&mut self, steps: &[Step]) {
        let shape = Arc::clone(&self.shape);
        self.undo.clear();
        (self.undo.excess, self.undo.cost) = (self.excess, self.cost);
        let own = self.sub_groups_of(steps);
        for &sub_group in own.iter().flatten() {
            for seat in shape.sub_groups[sub_group].seats.clone() {
                self.touch(seat);
                self.weigh_in(seat, -1);
                self.undo.keep(seat, &self.seats[seat]);
            }
        }
        for &(module, site) in steps {
            if let Some(seat) = shape.seat_of[module] {
                self.lift(seat);
                self.stand(seat, site);
            }
            self.undo.moved.push((module, self.at[module]));
            self.at[module] = site;
        }
        for &sub_group in own.iter().flatten() {
            self.divide(sub_group);
            for seat in shape.sub_groups[sub_group].seats.clone() {
                self.touch(seat);
                self.weigh_in(seat, 1);
            }
        }
        self.settle();
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

    /// Counts the clients of the vacated blade in and those of the taken one out. A swap leaves every
    /// blade as it was.
    fn populate(&mut self) {
        let &[(module, was)] = &self.undo.moved[..] else {
            return;
        };
        let shape = Arc::clone(&self.shape);
        for (site, sign) in [(was, 1), (self.at[module], -1)] {
            let spot = &shape.sites[site as usize];
            for &(plane, clients) in &spot.planes {
                let change = Change {
                    column: spot.column,
                    plane,
                    depth: spot.depth,
                    clients: sign * clients,
                };
                self.cost += i64::from(change.clients) * shape.plane_cost[plane];
                self.change(change);
                self.spread(change, true);
                self.undo.changes.push(change);
            }
        }
        self.settle();
    }

    /// Tells the seats whose cells hold a place that its clients change.
    fn spread(&mut self, change: Change, counts: bool) {
        let shape = Arc::clone(&self.shape);
        for &window in &shape.windows_at[change.plane] {
            for &sub_group in &shape.users[window] {
                let bit = 1 << change.column;
                let mut seats = shape.sub_groups[sub_group].seats.clone();
                let Some(seat) = seats.find(|&s| self.seats[s].cell & bit != 0) else {
                    continue;
                };
                if counts {
                    self.touch(seat);
                    self.weigh_in(seat, -1);
                }
                self.seats[seat].grow(&shape, change);
                if counts {
                    self.weigh_in(seat, 1);
                }
            }
        }
    }

    /// Adds a seat's excess and cost to the sums, or takes them out.
    fn weigh_in(&mut self, seat: usize, sign: i64) {
        let nets = self.shape.sub_groups[self.shape.sub_group_of[seat]].nets;
        let Seat { clients, cost, .. } = self.seats[seat];
        self.excess += sign * self.goal.clients(clients);
        self.cost += sign * cost * nets;
    }

    fn lift(&mut self, seat: usize) {
        let [RingId::Write(write), RingId::Read(read)] = self.rings_of(seat) else {
            return;
        };
        self.write.leave(write, seat);
        self.read.leave(read, seat);
    }

    /// Remembers the rings of a seat, which are about to change.
    fn touch(&mut self, seat: usize) {
        let number = self.undo.number;
        for ring in self.rings_of(seat) {
            let (rings, index) = match ring {
                RingId::Write(index) => (&mut self.write, index),
                RingId::Read(index) => (&mut self.read, index),
            };
            if rings.touched[index] != number {
                rings.touched[index] = number;
                self.undo.rings.push((ring, rings.hot[index]));
            }
        }
    }

    /// Brings rings and their excess up to date with the seats.
    fn settle(&mut self) {
        let mut sum = std::mem::take(&mut self.sum);
        for index in 0..self.undo.rings.len() {
            let (ring, _) = self.undo.rings[index];
            let hot = self.temperature(ring, &mut sum);
            let was = std::mem::replace(self.hot(ring), hot);
            self.excess += self.excess_of(ring, hot) - self.excess_of(ring, was);
        }
        self.sum = sum;
    }

    fn take_back(&mut self) {
        let mut undo = std::mem::take(&mut self.undo);
        for &change in undo.changes.iter().rev() {
            let back = Change {
                clients: -change.clients,
                ..change
            };
            self.change(back);
            self.spread(back, false);
        }
        for &(module, site) in undo.moved.iter().rev() {
            if let Some(seat) = self.shape.seat_of[module] {
                self.lift(seat);
                self.stand(seat, site);
            }
            self.at[module] = site;
        }
        for (seat, was) in &mut undo.seats[..undo.kept] {
            std::mem::swap(&mut self.seats[*seat], was);
        }
        for &(ring, was) in &undo.rings {
            *self.hot(ring) = was;
        }
        (self.excess, self.cost) = (undo.excess, undo.cost);
        self.undo = undo;
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
        let shape = &self.shape;
        let entry = &shape.sub_groups[sub_group];
        let times = shape.nets_at_once[entry.level];
        let columns: Vec<usize> = at.iter().map(|&s| shape.sites[s as usize].column).collect();
        let mut cells = Vec::new();
        shape.cells(&columns, &mut cells);
        let (mut cost, mut peaks) = (0, [0.0_f64; 3]);
        for (&site, cell) in at.iter().zip(cells) {
            let spot = &shape.sites[site as usize];
            let mut seat = Seat {
                column: spot.column,
                depth: spot.depth,
                ..Seat::default()
            };
            seat.serve(
                shape,
                cell,
                &self.by_column[entry.window],
                &self.by_place[entry.window],
            );
            cost += seat.cost * entry.nets;
            let write = peak(&seat.write, &shape.depths.scale) * times as f32;
            let read = peak(&seat.read, &shape.columns.scale) * times as f32;
            let own = [f64::from(seat.clients), f64::from(write), f64::from(read)];
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

impl Undo {
    fn keep(&mut self, index: usize, seat: &Seat) {
        if self.kept == self.seats.len() {
            self.seats.push((index, seat.clone()));
        } else {
            let (which, copy) = &mut self.seats[self.kept];
            *which = index;
            copy.copy_from(seat);
        }
        self.kept += 1;
    }

    fn clear(&mut self) {
        self.number += 1;
        self.kept = 0;
        self.rings.clear();
        self.changes.clear();
        self.moved.clear();
    }
}

impl Seat {
    /// A copy that allocates nothing.
    fn copy_from(&mut self, other: &Self) {
        (self.column, self.depth, self.cell) = (other.column, other.depth, other.cell);
        (self.clients, self.hops, self.cost) = (other.clients, other.hops, other.cost);
        self.by_column.clone_from(&other.by_column);
        self.by_depth.clone_from(&other.by_depth);
        self.write.clone_from(&other.write);
        self.read.clone_from(&other.read);
    }

    /// Serves the clients of a cell.
    fn serve(&mut self, shape: &Shape, cell: u64, by_column: &[i32], by_place: &[i32]) {
        let depths = shape.depths.size;
        self.cell = cell;
        self.by_column.clear();
        self.by_column.resize(shape.columns.size, 0);
        self.by_depth.clear();
        self.by_depth.resize(depths, 0);
        let mut rest = cell;
        while rest != 0 {
            let x = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            self.by_column[x] = by_column[x];
            for (sum, &more) in self.by_depth.iter_mut().zip(&by_place[x * depths..]) {
                *sum += more;
            }
        }
        self.clients = self.by_column.iter().sum();
        self.hops = hops(&shape.columns, &self.by_column, self.column);
        self.cost = self.hops * shape.columns.cost
            + hops(&shape.depths, &self.by_depth, self.depth) * shape.depths.cost;
        self.write.resize(2 * depths, 0);
        shape
            .depths
            .gather(&self.by_depth, self.depth, &mut self.write);
        self.read.resize(2 * shape.columns.size, 0);
        shape
            .columns
            .scatter(&self.by_column, self.column, &mut self.read);
    }

    /// Serves more or fewer clients of a place of its cell.
    fn grow(&mut self, shape: &Shape, change: Change) {
        let (columns, depths) = (&shape.columns, &shape.depths);
        self.by_column[change.column] += change.clients;
        self.by_depth[change.depth] += change.clients;
        self.clients += change.clients;
        let hops = i64::from(change.clients) * columns.between(change.column, self.column);
        self.hops += hops;
        self.cost += hops * columns.cost
            + i64::from(change.clients) * depths.cost * depths.between(change.depth, self.depth);
        depths.stream(&mut self.write, change.depth, self.depth, change.clients);
        columns.stream(&mut self.read, self.column, change.column, change.clients);
    }
}

/// Hops of the clients at each position of a ring to one of them.
fn hops(ring: &Ring, clients: &[i32], at: usize) -> i64 {
    let hops = clients.iter().enumerate();
    hops.map(|(p, &count)| i64::from(count) * ring.between(p, at))
        .sum()
}

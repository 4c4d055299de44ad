//! What a move would lead to, found out without making it.
//!
//! Only seats whose cell, column or depth changes are looked at, and only the rings that they leave or
//! come to. Most moves end at cost and clients; the others as soon as what is known of their energy is
//! above the limit, since each further ring only adds to it.

use crate::place::board::{Board, RingId, Seat, Step, hops};

/// Memory for moves that are tried.
#[derive(Clone, Default)]
pub(super) struct Trial {
    columns: Vec<usize>,
    depths: Vec<usize>,
    cells: Vec<u64>,
    /// Seats as they would be; what is behind `used` is memory for later moves.
    fresh: Vec<(usize, Seat)>,
    used: usize,
    rings: Vec<RingId>,
    sum: Vec<i32>,
}

impl Trial {
    /// Whether the energy after these steps, every client where it is, is nearly within the limit.
    pub(super) fn try_out(&mut self, board: &Board, steps: &[Step], limit: i64) -> bool {
        self.used = 0;
        let (mut cost, mut excess) = (board.cost, board.excess);
        for &sub_group in board.sub_groups_of(steps).iter().flatten() {
            self.divide(board, sub_group, steps);
            let nets = board.shape.sub_groups[sub_group].nets;
            for (cell, seat) in board.shape.sub_groups[sub_group].seats.clone().enumerate() {
                let Some(hops) = self.freshen(board, seat, cell) else {
                    continue;
                };
                let (was, is) = (&board.seats[seat], &self.fresh[self.used - 1].1);
                cost += (hops - was.hops) * board.shape.columns.cost * nets;
                excess += board.goal.clients(is.clients) - board.goal.clients(was.clients);
            }
        }
        // Clients that move change little of either.
        if board.goal.nearly(excess + board.goal.cost(cost)) > limit {
            return false;
        }
        self.fill(board, &mut cost);
        self.find_rings(board);
        for &ring in &self.rings {
            excess -= board.excess_of(ring, board.heat(ring));
        }
        let mut energy = excess + board.goal.cost(cost);
        let rings = std::mem::take(&mut self.rings);
        let is_within = rings.iter().all(|&ring| {
            energy += board.excess_of(ring, self.temperature(board, ring));
            board.goal.nearly(energy) <= limit
        });
        self.rings = rings;
        is_within
    }

    /// Columns, depths and cells of a sub-group after the steps.
    fn divide(&mut self, board: &Board, sub_group: usize, steps: &[Step]) {
        let shape = &board.shape;
        let range = shape.sub_groups[sub_group].seats.clone();
        self.columns.clear();
        self.columns
            .extend(board.seats[range.clone()].iter().map(|seat| seat.column));
        self.depths.clear();
        self.depths
            .extend(board.seats[range.clone()].iter().map(|seat| seat.depth));
        for &(module, site) in steps {
            if let Some(seat) = shape.seat_of[module].filter(|seat| range.contains(seat)) {
                let spot = &shape.sites[site as usize];
                self.columns[seat - range.start] = spot.column;
                self.depths[seat - range.start] = spot.depth;
            }
        }
        shape.cells(&self.columns, &mut self.cells);
    }

    /// Begins a changed seat: place, cell, clients, hops. Tells the hops, or `None` for a seat that
    /// stays as it is.
    fn freshen(&mut self, board: &Board, seat: usize, index: usize) -> Option<i64> {
        let was = &board.seats[seat];
        let (column, depth) = (self.columns[index], self.depths[index]);
        let cell = self.cells[index];
        if (was.column, was.depth, was.cell) == (column, depth, cell) {
            return None;
        }
        let shape = &board.shape;
        let window = shape.sub_groups[shape.sub_group_of[seat]].window;
        if self.used == self.fresh.len() {
            self.fresh.push((seat, Seat::default()));
        }
        let (which, is) = &mut self.fresh[self.used];
        self.used += 1;
        *which = seat;
        (is.column, is.depth, is.cell) = (column, depth, cell);
        (is.clients, is.hops) = (was.clients, was.hops);
        if (was.column, was.cell) != (column, cell) {
            let counts = &board.by_column[window];
            (is.clients, is.hops) = (0, 0);
            for x in bits(cell) {
                is.clients += counts[x];
                is.hops += i64::from(counts[x]) * shape.columns.between(x, column);
            }
        }
        Some(is.hops)
    }

    /// Gives the changed seats their clients and loads, and adds what their cost along the last
    /// dimension changes.
    fn fill(&mut self, board: &Board, cost: &mut i64) {
        let shape = &board.shape;
        let depths = shape.depths.size;
        for (seat, is) in &mut self.fresh[..self.used] {
            let was = &board.seats[*seat];
            let entry = &shape.sub_groups[shape.sub_group_of[*seat]];
            is.by_depth.clone_from(&was.by_depth);
            let places = &board.by_place[entry.window];
            for x in bits(is.cell & !was.cell) {
                let more = &places[x * depths..(x + 1) * depths];
                is.by_depth
                    .iter_mut()
                    .zip(more)
                    .for_each(|(sum, more)| *sum += more);
            }
            for x in bits(was.cell & !is.cell) {
                let less = &places[x * depths..(x + 1) * depths];
                is.by_depth
                    .iter_mut()
                    .zip(less)
                    .for_each(|(sum, less)| *sum -= less);
            }
            let along = hops(&shape.depths, &is.by_depth, is.depth) * shape.depths.cost;
            *cost += (along - (was.cost - was.hops * shape.columns.cost)) * entry.nets;
            is.write.resize(2 * depths, 0);
            shape.depths.gather(&is.by_depth, is.depth, &mut is.write);
            is.read.clone_from(&was.read);
            if (was.column, was.cell) != (is.column, is.cell) {
                is.by_column.clear();
                is.by_column.resize(shape.columns.size, 0);
                for x in bits(is.cell) {
                    is.by_column[x] = board.by_column[entry.window][x];
                }
                shape
                    .columns
                    .scatter(&is.by_column, is.column, &mut is.read);
            }
        }
    }

    /// The rings that changed seats come to, then those that they leave.
    fn find_rings(&mut self, board: &Board) {
        self.rings.clear();
        let fresh = &self.fresh[..self.used];
        let to = fresh
            .iter()
            .flat_map(|(seat, is)| board.rings_at(*seat, is));
        let from = fresh
            .iter()
            .flat_map(|(seat, _)| board.rings_at(*seat, &board.seats[*seat]));
        for ring in to.chain(from) {
            if !self.rings.contains(&ring) {
                self.rings.push(ring);
            }
        }
    }

    /// How hot a ring would be.
    fn temperature(&mut self, board: &Board, ring: RingId) -> f32 {
        let shape = &board.shape;
        let fresh = &self.fresh[..self.used];
        let stays = |seat: &&usize| fresh.iter().all(|(changed, _)| changed != *seat);
        let come = fresh
            .iter()
            .filter(|(seat, is)| board.rings_at(*seat, is).contains(&ring));
        match ring {
            RingId::Write(index) => {
                let times = shape.nets_at_once[index / shape.columns.size];
                let there = board.write.seats[index].iter().filter(stays);
                let there = there.map(|&seat| &board.seats[seat].write[..]);
                let loads = there.chain(come.map(|(_, is)| &is.write[..]));
                shape.depths.hottest(loads, times, &mut self.sum)
            }
            RingId::Read(index) => {
                let times = shape.nets_at_once[index / shape.depths.size];
                let there = board.read.seats[index].iter().filter(stays);
                let there = there.map(|&seat| &board.seats[seat].read[..]);
                let loads = there.chain(come.map(|(_, is)| &is.read[..]));
                shape.columns.hottest(loads, times, &mut self.sum)
            }
        }
    }
}

/// The bits of a set, ascending.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(next)
    })
}

//! Evaluates a move with all its clients, without making the move.
//!
//! Only seats whose cell, column or depth changes are examined, and only the rings that they leave
//! or join. Most rejected moves fail on cost and clients. The others fail as soon as the known part
//! of their energy exceeds the limit, since every further ring only adds to the energy. An accepted
//! move swaps its results with the parts of the board that they replace.

use crate::place::board::seat::Seat;
use crate::place::board::track::Track;
use crate::place::board::{Board, Step};

/// A move that is being tried, with reusable memory.
#[derive(Clone, Default)]
pub(super) struct Trial {
    columns: Vec<usize>,
    depths: Vec<usize>,
    cells: Vec<u64>,
    /// Seats after the move. Entries behind `used` are memory for later moves.
    fresh: Vec<(usize, Seat)>,
    used: usize,
    rings: Vec<usize>,
    /// These rings after the move, in the same order.
    tracks: Vec<Track>,
    cost: i64,
    excess: i64,
}

impl Trial {
    /// Returns whether the energy after these steps is nearly within the limit.
    pub(super) fn try_out(&mut self, board: &Board, steps: &[Step], limit: i64) -> bool {
        self.used = 0;
        (self.cost, self.excess) = (board.cost, board.excess);
        for &sub_group in board.sub_groups_of(steps).iter().flatten() {
            self.divide(board, sub_group, steps);
            let entry = &board.shape.sub_groups[sub_group];
            for (index, seat) in entry.seats.clone().enumerate() {
                self.freshen(board, (sub_group, seat), index);
            }
        }
        // Clients that move change little of either value.
        if board.goal.nearly(self.excess + board.goal.cost(self.cost)) > limit {
            return false;
        }
        self.reach(board);
        self.find_rings(board);
        for &ring in &self.rings {
            self.excess -= board.tracks[ring].state.excess;
        }
        let cost = board.goal.cost(self.cost);
        (0..self.rings.len()).all(|index| {
            self.excess += self.load(board, index);
            board.goal.nearly(self.excess + cost) <= limit
        })
    }

    /// Divides a sub-group into columns, depths and cells after the steps.
    fn divide(&mut self, board: &Board, sub_group: usize, steps: &[Step]) {
        let shape = &board.shape;
        let range = shape.sub_groups[sub_group].seats.clone();
        self.columns.clear();
        self.depths.clear();
        for seat in &board.seats[range.clone()] {
            self.columns.push(seat.column);
            self.depths.push(seat.depth);
        }
        for &(module, site) in steps {
            if let Some(seat) = shape.seat_of[module].filter(|seat| range.contains(seat)) {
                let spot = &shape.sites[site as usize];
                self.columns[seat - range.start] = spot.column;
                self.depths[seat - range.start] = spot.depth;
            }
        }
        shape.cells(&self.columns, &mut self.cells);
    }

    /// Starts a changed seat: place, cell, clients, hops. A seat that does not change is not added.
    fn freshen(&mut self, board: &Board, (sub_group, seat): (usize, usize), index: usize) {
        let was = &board.seats[seat];
        let (column, depth) = (self.columns[index], self.depths[index]);
        let cell = self.cells[index];
        if (was.column, was.depth, was.cell) == (column, depth, cell) {
            return;
        }
        let shape = &*board.shape;
        let entry = &shape.sub_groups[sub_group];
        if self.used == self.fresh.len() {
            self.fresh.push((seat, Seat::default()));
        }
        let (which, is) = &mut self.fresh[self.used];
        self.used += 1;
        *which = seat;
        is.place_at(shape, entry.level, column, depth);
        is.serve(shape, cell, &board.windows[entry.window], Some(was));
        self.cost += (is.hops - was.hops) * shape.columns.cost * entry.nets;
        if is.clients.max(was.clients) > board.goal.clients_most {
            self.excess += board.goal.clients(is.clients) - board.goal.clients(was.clients);
        }
    }

    /// Completes the changed seats, and adds the change of their cost along the last dimension.
    fn reach(&mut self, board: &Board) {
        let shape = &*board.shape;
        for (seat, is) in &mut self.fresh[..self.used] {
            let was = &board.seats[*seat];
            let entry = &shape.sub_groups[shape.sub_group_of[*seat]];
            is.reach(shape, &board.windows[entry.window], Some(was));
            let near = (is.hops - was.hops) * shape.columns.cost;
            self.cost += (is.cost - was.cost - near) * entry.nets;
        }
    }

    /// Collects the rings that changed seats join, then those that they leave.
    fn find_rings(&mut self, board: &Board) {
        self.rings.clear();
        let fresh = &self.fresh[..self.used];
        let to = fresh.iter().flat_map(|(_, is)| is.rings);
        let from = fresh.iter().flat_map(|(seat, _)| board.seats[*seat].rings);
        for ring in to.chain(from) {
            if !self.rings.contains(&ring) {
                self.rings.push(ring);
            }
        }
    }

    /// Calculates a ring after the move and returns its excess.
    fn load(&mut self, board: &Board, index: usize) -> i64 {
        let ring = self.rings[index];
        let was = &board.tracks[ring];
        let fresh = &self.fresh[..self.used];
        let changed = |seat| fresh.iter().find(|(other, _)| *other == seat);
        if index == self.tracks.len() {
            self.tracks.push(Track::default());
        }
        let track = &mut self.tracks[index];
        track.reset_to(was);
        let stay = was.seats.iter().filter(|&&seat| changed(seat).is_none());
        track.seats.extend(stay);
        let come = fresh.iter().filter(|(_, is)| is.rings.contains(&ring));
        track.seats.extend(come.map(|(seat, _)| seat));
        let line = board.shape.ring(was.side);
        track.fill(line, |seat| {
            changed(seat).map_or(&board.seats[seat], |(_, is)| is)
        });
        track.reassess(&board.goal);
        track.state.excess
    }

    /// Makes the move that was tried last. A second call reverts it except for cost and excess.
    pub(super) fn swap(&mut self, board: &mut Board) {
        (board.cost, board.excess) = (self.cost, self.excess);
        for (seat, is) in &mut self.fresh[..self.used] {
            std::mem::swap(&mut board.seats[*seat], is);
            if board.seats[*seat].cell != is.cell {
                board.serve(*seat);
            }
        }
        for (&ring, track) in self.rings.iter().zip(&mut self.tracks) {
            std::mem::swap(&mut board.tracks[ring], track);
        }
    }
}

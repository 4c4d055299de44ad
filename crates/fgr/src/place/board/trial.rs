//! What a move leads to, every client where it is, found out without making it.
//!
//! Only seats whose cell, column or depth changes are looked at, and only the rings that they leave or
//! come to. Most refused moves end at cost and clients; the others as soon as what is known of their
//! energy is above the limit, since each further ring only adds to it. What is accepted becomes the
//! board by changing places with what it replaces.

use crate::place::board::seat::Seat;
use crate::place::board::track::Track;
use crate::place::board::{Board, Step};

/// A move that is tried, and memory for it.
#[derive(Clone, Default)]
pub(super) struct Trial {
    columns: Vec<usize>,
    depths: Vec<usize>,
    cells: Vec<u64>,
    /// Seats as they would be; what is behind `used` is memory for later moves.
    fresh: Vec<(usize, Seat)>,
    used: usize,
    rings: Vec<usize>,
    /// These rings as they would be, in the same order.
    tracks: Vec<Track>,
    cost: i64,
    excess: i64,
}

impl Trial {
    /// Whether the energy after these steps is nearly within the limit.
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
        // Clients that move change little of either.
        if board.goal.nearly(self.excess + board.goal.cost(self.cost)) > limit {
            return false;
        }
        self.reach(board);
        self.find_rings(board);
        for &ring in &self.rings {
            self.excess -= board.tracks[ring].verdict.excess;
        }
        let cost = board.goal.cost(self.cost);
        (0..self.rings.len()).all(|index| {
            self.excess += self.load(board, index);
            board.goal.nearly(self.excess + cost) <= limit
        })
    }

    /// Columns, depths and cells of a sub-group after the steps.
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

    /// Begins a changed seat: place, cell, clients, hops. A seat that stays as it is is not among the
    /// changed ones.
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
        is.stand(shape, entry.level, column, depth);
        is.serve(shape, cell, &board.windows[entry.window], Some(was));
        self.cost += (is.hops - was.hops) * shape.columns.cost * entry.nets;
        if is.clients.max(was.clients) > board.goal.clients_most {
            self.excess += board.goal.clients(is.clients) - board.goal.clients(was.clients);
        }
    }

    /// Gives the changed seats the rest, and adds what their cost along the last dimension changes.
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

    /// The rings that changed seats come to, then those that they leave.
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

    /// Looks at a ring as it would be, and tells its excess.
    fn load(&mut self, board: &Board, index: usize) -> i64 {
        let ring = self.rings[index];
        let was = &board.tracks[ring];
        let fresh = &self.fresh[..self.used];
        let changed = |seat| fresh.iter().find(|(other, _)| *other == seat);
        if index == self.tracks.len() {
            self.tracks.push(Track::default());
        }
        let track = &mut self.tracks[index];
        track.be_like(was);
        let stay = was.seats.iter().filter(|&&seat| changed(seat).is_none());
        track.seats.extend(stay);
        let come = fresh.iter().filter(|(_, is)| is.rings.contains(&ring));
        track.seats.extend(come.map(|(seat, _)| seat));
        let line = board.shape.ring(was.side);
        track.fill(line, |seat| {
            changed(seat).map_or(&board.seats[seat], |(_, is)| is)
        });
        track.judge(&board.goal);
        track.verdict.excess
    }

    /// Makes the move that was tried last; once more, and it is taken back but for cost and excess.
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

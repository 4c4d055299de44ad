//! Clients that appear at a blade when a module leaves it, and disappear when a module takes it.
//!
//! In every group one seat serves the blade, so such a move changes many seats and their rings by a
//! little. If the move is finally rejected, the reverse changes restore the state: seats and loads
//! are integers, and the earlier states of changed rings are recorded.

use crate::place::board::Board;
use crate::place::shape::Spot;

impl Board {
    /// Adds the clients of a vacated blade and removes those of a taken blade. With `BACK`, reverts
    /// the opposite call, which must have been the last one, except for cost and excess, which the
    /// caller restores.
    pub(super) fn populate<const BACK: bool>(&mut self, vacated: u32, taken: u32) {
        if BACK {
            for (ring, state) in self.reassessed.drain(..) {
                self.tracks[ring].state = state;
            }
        }
        self.count_site(vacated, 1);
        self.count_site(taken, -1);
        let kind = |site: u32| {
            let Spot { column, class, .. } = self.shape.sites[site as usize];
            (column, class)
        };
        if kind(vacated) == kind(taken) {
            self.shift::<BACK>(vacated, taken);
        } else {
            self.spread::<BACK>(vacated, 1);
            self.spread::<BACK>(taken, -1);
        }
        if !BACK {
            self.update_excess();
        }
    }

    /// Adds or removes the clients of a blade without updating seats.
    fn count_site(&mut self, site: u32, sign: i16) {
        let shape = &*self.shape;
        let spot = &shape.sites[site as usize];
        let class = &shape.classes[spot.class];
        self.clients += i64::from(sign) * class.clients;
        self.plane_cost += i64::from(sign) * class.cost;
        self.cost += i64::from(sign) * class.cost;
        for &(window, clients) in &class.windows {
            self.windows[window].change(shape, spot.column, spot.depth, sign * clients);
        }
    }

    /// Updates the seats whose cells hold a blade for clients that appear or disappear.
    fn spread<const BACK: bool>(&mut self, site: u32, sign: i16) {
        let shape = &*self.shape;
        let &Spot {
            column,
            depth,
            class,
            ..
        } = &shape.sites[site as usize];
        for &(sub_group, clients) in &shape.classes[class].users {
            let index = self.server[sub_group * shape.columns.size + column] as usize;
            let seat = &mut self.seats[index];
            let (cost, served, clients) = (seat.cost, seat.clients, sign * clients);
            seat.grow(shape, column, depth, clients);
            if !BACK {
                self.cost += (seat.cost - cost) * shape.sub_groups[sub_group].nets;
                if seat.clients.max(served) > self.goal.clients_most {
                    self.excess += self.goal.clients(seat.clients) - self.goal.clients(served);
                }
            }
            let [write, read] = seat.rings;
            let lines = [
                (write, &shape.depths, depth),
                (read, &shape.columns, column),
            ];
            for (ring, line, position) in lines {
                let (track, at) = (&mut self.tracks[ring], (position, None));
                if BACK {
                    track.change_back(line, index, at, clients);
                } else if track.change(line, index, at, clients) {
                    self.stale.push(ring);
                }
            }
        }
    }

    /// Updates the seats for clients that move from one blade of a column to another. The numbers
    /// of clients and the reads do not change.
    fn shift<const BACK: bool>(&mut self, to: u32, from: u32) {
        let shape = &*self.shape;
        let [to, from] = [to, from].map(|site| &shape.sites[site as usize]);
        let (ends, positions) = ([from.depth, to.depth], (to.depth, Some(from.depth)));
        for &(sub_group, clients) in &shape.classes[to.class].users {
            let index = self.server[sub_group * shape.columns.size + to.column] as usize;
            let seat = &mut self.seats[index];
            let cost = seat.cost;
            seat.shift(shape, ends, clients);
            let ring = seat.rings[0];
            let track = &mut self.tracks[ring];
            if BACK {
                track.change_back(&shape.depths, index, positions, clients);
                continue;
            }
            self.cost += (seat.cost - cost) * shape.sub_groups[sub_group].nets;
            if track.change(&shape.depths, index, positions, clients) {
                self.stale.push(ring);
            }
        }
    }

    /// Updates the excess of the rings whose streams changed.
    fn update_excess(&mut self) {
        self.reassessed.clear();
        while let Some(ring) = self.stale.pop() {
            let before = self.tracks[ring].state;
            self.reassessed.push((ring, before));
            self.reassess(ring);
            self.excess += self.tracks[ring].state.excess - before.excess;
        }
    }
}

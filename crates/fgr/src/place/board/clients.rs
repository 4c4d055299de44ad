//! Clients that come to a blade when a module leaves it, and go from one when a module takes it.
//!
//! Every group has a seat that serves the place, so such a move changes many seats and their rings by a little.
//! When a move is refused in the end, the same is done in reverse: seats and loads are whole numbers, and what
//! was known of the rings that were looked at is noted.

use crate::place::board::Board;
use crate::place::shape::Spot;

impl Board {
    /// Counts the clients of a vacated blade in and those of a taken one out. With `BACK` that undoes the opposite,
    /// which was the last that was done, but for cost and excess, which the caller knows.
    pub(super) fn populate<const BACK: bool>(&mut self, vacated: u32, taken: u32) {
        if BACK {
            for (ring, verdict) in self.judged.drain(..) {
                self.tracks[ring].verdict = verdict;
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
            self.settle();
        }
    }

    /// Counts the clients of a blade in or out where seats do not matter.
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

    /// Tells the seats whose cells hold a blade that its clients come or go.
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

    /// The same for clients that go from one blade of a column to another: numbers of clients and
    /// reads stay what they are.
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

    /// Brings the excess of rings up to date with their streams.
    fn settle(&mut self) {
        self.judged.clear();
        while let Some(ring) = self.stale.pop() {
            let before = self.tracks[ring].verdict;
            self.judged.push((ring, before));
            self.judge(ring);
            self.excess += self.tracks[ring].verdict.excess - before.excess;
        }
    }
}

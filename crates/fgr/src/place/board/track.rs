//! One ring: who stands on it, and how many clients may come before it exceeds the goal.
//!
//! Clients that come to a place change the streams of a module in every group, and most rings are too
//! cool for that to matter: a ring counts only what it exceeds the goal by. So a ring knows how many
//! clients it can take whatever their place, and is looked at again when more have come or gone. It keeps
//! loads at the links that can be the hottest, and keeps them up to date as long as each change counts.

use crate::place::board::seat::Seat;
use crate::place::goal::Goal;
use crate::place::ring::{Ring, Side, larger};

/// One ring of a level.
#[derive(Clone, Default)]
pub(super) struct Track {
    pub(super) side: Side,
    /// Nets that a module serves at once.
    pub(super) times: i32,
    pub(super) seats: Vec<usize>,
    loads: Vec<Load>,
    /// By seat and load, where the shares are that the link has of the seat's streams.
    rows: Vec<usize>,
    pub(super) verdict: Verdict,
    /// How many clients at least make it hotter by one.
    per_heat: f32,
    /// Whether clients came or went that its loads do not have.
    lags: bool,
    /// Whether it is to be looked at again.
    is_stale: bool,
}

/// How hot a ring is, beside the goal.
#[derive(Clone, Copy, Default)]
pub(super) struct Verdict {
    /// Its excess over the goal.
    pub(super) excess: i64,
    /// Clients that may still come or go before it can exceed the goal.
    spare: i32,
}

/// Halves of units on a link.
#[derive(Clone, Copy)]
struct Load {
    link: usize,
    scale: f32,
    units: i32,
}

impl Track {
    /// A ring where nobody stands.
    pub(super) fn new(ring: &Ring, side: Side, times: i32) -> Self {
        Self {
            side,
            times,
            // A client puts one unit on a link, two halves.
            per_heat: 0.5 / (ring.steepest * times as f32),
            lags: true,
            verdict: Verdict {
                excess: 0,
                spare: -1,
            },
            ..Self::default()
        }
    }

    /// Takes on the kind of another one, with nobody on it.
    pub(super) fn be_like(&mut self, other: &Self) {
        (self.side, self.times) = (other.side, other.times);
        self.per_heat = other.per_heat;
        self.seats.clear();
    }

    /// Computes the loads that its seats make.
    pub(super) fn fill<'a>(&mut self, ring: &Ring, seat: impl Fn(usize) -> &'a Seat) {
        self.lags = false;
        self.loads.clear();
        self.rows.clear();
        if let &[own] = &*self.seats {
            self.fill_with_one(ring, seat(own));
            return;
        }
        for &own in &self.seats {
            let links = ring.links(seat(own).streams(self.side).0);
            self.loads.extend(links.iter().map(|link| Load {
                link: link.index,
                scale: link.scale,
                units: 0,
            }));
        }
        for &own in &self.seats {
            let (at, units) = seat(own).streams(self.side);
            for load in &mut self.loads {
                let row = ring.row(load.link, at);
                load.units += ring.flow(row, units);
                self.rows.push(row);
            }
        }
    }

    /// The same for the only seat of a ring, as most are.
    fn fill_with_one(&mut self, ring: &Ring, seat: &Seat) {
        let (at, units) = seat.streams(self.side);
        let links = ring.links(at).iter();
        self.rows.extend(links.clone().map(|link| link.own));
        self.loads.extend(links.map(|link| Load {
            link: link.index,
            scale: link.scale,
            units: ring.flow(link.own, units),
        }));
    }

    /// How hot it is at most while its loads lag.
    pub(super) fn at_most(&self, goal: &Goal) -> f32 {
        goal.at_most(self.side, self.verdict.spare, self.per_heat)
    }

    /// How hot its hottest link is.
    pub(super) fn temperature(&self) -> f32 {
        let heat = self.loads.iter().map(|load| load.units as f32 * load.scale);
        heat.fold(0.0, larger) * self.times as f32
    }

    /// Takes note of how hot it is.
    pub(super) fn judge(&mut self, goal: &Goal) {
        let hot = self.temperature();
        self.is_stale = false;
        self.verdict = Verdict {
            excess: goal.ring(self.side, hot),
            spare: goal.spare(self.side, hot, self.per_heat),
        };
    }

    /// Whether its loads are those of its seats.
    pub(super) fn is_loaded(&self) -> bool {
        !self.lags
    }

    /// Clients come to the first of two positions of a seat's streams, and go from the second. Whether the
    /// ring is to be looked at again and was not before.
    pub(super) fn change(
        &mut self,
        ring: &Ring,
        seat: usize,
        (to, from): (usize, Option<usize>),
        clients: i16,
    ) -> bool {
        let spare = &mut self.verdict.spare;
        *spare = spare.saturating_sub(clients.unsigned_abs().into());
        if *spare >= 0 {
            self.lags = true;
            return false;
        }
        self.load(ring, seat, (to, from), clients);
        !std::mem::replace(&mut self.is_stale, true)
    }

    /// The opposite of a change that was told before, with clients that now come.
    pub(super) fn change_back(
        &mut self,
        ring: &Ring,
        seat: usize,
        positions: (usize, Option<usize>),
        clients: i16,
    ) {
        let spare = &mut self.verdict.spare;
        *spare = spare.saturating_add(clients.unsigned_abs().into());
        self.load(ring, seat, positions, clients);
    }

    /// Brings the loads up to date, unless they lag anyway.
    fn load(&mut self, ring: &Ring, seat: usize, (to, from): (usize, Option<usize>), clients: i16) {
        if self.lags {
            return;
        }
        let count = self.loads.len();
        let index = self.seats.iter().position(|&other| other == seat);
        let rows = index.and_then(|index| self.rows.get(index * count..));
        for (load, &row) in self.loads.iter_mut().zip(rows.unwrap_or_default()) {
            let less = from.map_or(0, |from| ring.share(row, from));
            load.units += i32::from(clients) * (ring.share(row, to) - less);
        }
    }
}

//! One ring: the seats on it, and how many clients may change before the ring may exceed the goal.
//!
//! Clients that appear at a place change the streams of one module in every group, but most rings
//! are far below the goal and stay there. A ring counts only with its excess over the goal. It
//! therefore knows how many clients it can take at any place, and is calculated again only after
//! more have come or gone. It stores the loads of the links that can be the hottest, and updates
//! them as long as every change counts.

use crate::place::board::seat::Seat;
use crate::place::goal::Goal;
use crate::place::ring::{Ring, Side, larger};

/// One ring of a level.
#[derive(Clone, Default)]
pub(super) struct Track {
    pub(super) side: Side,
    /// Number of nets that a module serves at once.
    pub(super) times: i32,
    pub(super) seats: Vec<usize>,
    loads: Vec<Load>,
    /// Index of the link's shares of the seat's streams, by seat and load.
    rows: Vec<usize>,
    pub(super) state: RingState,
    /// Fewest clients that can raise the load by one.
    per_heat: f32,
    /// Whether clients came or went that the loads do not include.
    lags: bool,
    /// Whether the ring has to be calculated again.
    is_stale: bool,
}

/// The state of a ring relative to the goal.
#[derive(Clone, Copy, Default)]
pub(super) struct RingState {
    /// The excess over the goal.
    pub(super) excess: i64,
    /// Number of clients that may come or go before the ring can exceed the goal.
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
    /// Makes a ring without seats.
    pub(super) fn new(ring: &Ring, side: Side, times: i32) -> Self {
        Self {
            side,
            times,
            // A client adds one unit, which is two halves, to a link.
            per_heat: 0.5 / (ring.steepest * times as f32),
            lags: true,
            state: RingState {
                excess: 0,
                spare: -1,
            },
            ..Self::default()
        }
    }

    /// Takes over the kind of another ring, without seats.
    pub(super) fn reset_to(&mut self, other: &Self) {
        (self.side, self.times) = (other.side, other.times);
        self.per_heat = other.per_heat;
        self.seats.clear();
    }

    /// Calculates the loads from the seats of the ring.
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

    /// Calculates the loads for the only seat of a ring, the most common case.
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

    /// Upper limit of the load while the stored loads are outdated.
    pub(super) fn at_most(&self, goal: &Goal) -> f32 {
        goal.at_most(self.side, self.state.spare, self.per_heat)
    }

    /// Load of the hottest link.
    pub(super) fn temperature(&self) -> f32 {
        let heat = self.loads.iter().map(|load| load.units as f32 * load.scale);
        heat.fold(0.0, larger) * self.times as f32
    }

    /// Updates the state from the load.
    pub(super) fn reassess(&mut self, goal: &Goal) {
        let hot = self.temperature();
        self.is_stale = false;
        self.state = RingState {
            excess: goal.ring(self.side, hot),
            spare: goal.spare(self.side, hot, self.per_heat),
        };
    }

    /// Returns whether the loads match the seats.
    pub(super) fn is_loaded(&self) -> bool {
        !self.lags
    }

    /// Adds clients at the first of two positions of a seat's streams and removes them at the
    /// second. Returns whether the ring now has to be calculated again but did not before.
    pub(super) fn change(
        &mut self,
        ring: &Ring,
        seat: usize,
        (to, from): (usize, Option<usize>),
        clients: i16,
    ) -> bool {
        let spare = &mut self.state.spare;
        *spare = spare.saturating_sub(clients.unsigned_abs().into());
        if *spare >= 0 {
            self.lags = true;
            return false;
        }
        self.load(ring, seat, (to, from), clients);
        !std::mem::replace(&mut self.is_stale, true)
    }

    /// Reverts a change that was reported earlier, with clients that now come.
    pub(super) fn change_back(
        &mut self,
        ring: &Ring,
        seat: usize,
        positions: (usize, Option<usize>),
        clients: i16,
    ) {
        let spare = &mut self.state.spare;
        *spare = spare.saturating_add(clients.unsigned_abs().into());
        self.load(ring, seat, positions, clients);
    }

    /// Updates the loads, unless they are outdated anyway.
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

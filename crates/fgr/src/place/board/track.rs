//! The loads of one ring, kept at the links that can be the hottest.

use crate::place::board::seat::Seat;
use crate::place::ring::{Ring, Side};

/// One ring of a level: who stands on it, and the loads that this makes.
#[derive(Clone, Default)]
pub(super) struct Track {
    pub(super) side: Side,
    /// Nets that a module serves at once.
    pub(super) times: i32,
    pub(super) seats: Vec<usize>,
    loads: Vec<Load>,
    /// By seat and load, where the shares are that the link has of the seat's streams.
    rows: Vec<usize>,
    /// Its excess over the goal.
    pub(super) excess: i64,
    /// Whether its loads have changed since its temperature was taken.
    pub(super) is_stale: bool,
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
    pub(super) fn new(side: Side, times: i32) -> Self {
        Self {
            side,
            times,
            ..Self::default()
        }
    }

    /// Computes the loads that its seats make.
    pub(super) fn fill<'a>(&mut self, ring: &Ring, seat: impl Fn(usize) -> &'a Seat) {
        self.loads.clear();
        self.rows.clear();
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
            self.rows.extend(self.loads.iter_mut().map(|load| {
                let row = ring.row(load.link, at);
                load.units += ring.flow(row, units);
                row
            }));
        }
    }

    /// Adds streams between a seat and so many clients at a position.
    pub(super) fn grow(&mut self, ring: &Ring, seat: usize, from: usize, clients: i16) {
        for (load, row) in self.loads_of(seat) {
            load.units += i32::from(clients) * ring.share(row, from);
        }
    }

    /// The same for clients that go from one position to another.
    pub(super) fn shift(&mut self, ring: &Ring, seat: usize, ends: [usize; 2], clients: i16) {
        for (load, row) in self.loads_of(seat) {
            let [from, to] = ends.map(|position| ring.share(row, position));
            load.units += i32::from(clients) * (to - from);
        }
    }

    /// The loads, each with where the shares are that it has of a seat's streams.
    fn loads_of(&mut self, seat: usize) -> impl Iterator<Item = (&mut Load, usize)> {
        let count = self.loads.len();
        let index = self.seats.iter().position(|&other| other == seat);
        let rows = index.and_then(|index| self.rows.get(index * count..));
        self.loads
            .iter_mut()
            .zip(rows.unwrap_or_default().iter().copied())
    }

    /// The hottest link.
    pub(super) fn temperature(&self) -> f32 {
        let larger = |a: f32, b: f32| if a > b { a } else { b };
        let heat = self.loads.iter().map(|load| load.units as f32 * load.scale);
        heat.fold(0.0, larger) * self.times as f32
    }
}

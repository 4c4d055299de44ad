//! The goal of a walk, and the distance of a placement from it.
//!
//! Every ring, module and cost that exceeds the goal counts with the square of its excess, relative
//! to the range over which the figure can vary. Squares make many links with a small excess as bad
//! as one link with a large excess, so each of them guides the search. The squares are integers: a
//! move and its reverse leave the sum unchanged.

use crate::place::Figures;
use crate::place::ring::Side;

/// Ranges of cost, balance, write and read among interesting placements, relative to their values
/// on Titan.
const RANGES: [f64; 4] = [0.0005, 0.01, 0.1, 0.02];

/// Energy of an excess as large as the range.
const UNIT: f64 = 1_048_576.0;

/// A goal in the units of a board.
#[derive(Clone, Copy, Default)]
pub(super) struct Goal {
    clients: (f32, f32),
    /// Most clients of a module without excess.
    pub(super) clients_most: i32,
    write: (f32, f32),
    read: (f32, f32),
    cost: (f64, f64),
}

impl Goal {
    pub(super) fn new(figures: &Figures, mean_clients: f64, pairs: f64) -> Self {
        let [cost, balance, write, read] = figures.values();
        let of = |value: f64, range: f64| (value as f32, (UNIT.sqrt() / (value * range)) as f32);
        let clients = of(balance * mean_clients, RANGES[1]);
        Self {
            clients,
            clients_most: clients.0 as i32,
            write: of(write, RANGES[2]),
            read: of(read, RANGES[3]),
            cost: (cost * pairs, UNIT.sqrt() / (cost * pairs * RANGES[0])),
        }
    }

    pub(super) fn clients(&self, clients: i32) -> i64 {
        excess(clients as f32, self.clients)
    }

    pub(super) fn ring(&self, side: Side, hot: f32) -> i64 {
        match side {
            Side::Write => excess(hot, self.write),
            Side::Read => excess(hot, self.read),
        }
    }

    /// Returns how many clients may come to or leave a ring before it can exceed the goal, if at
    /// least `per_client` clients raise its load by one. Negative if the ring may exceed the goal
    /// now.
    pub(super) fn spare(&self, side: Side, hot: f32, per_client: f32) -> i32 {
        /// More than the rounding error of a sum of a few products.
        const MARGIN: f32 = 1e-5;
        let (goal, _) = match side {
            Side::Write => self.write,
            Side::Read => self.read,
        };
        let room = goal - goal * MARGIN - hot;
        if room < 0.0 {
            -1
        } else {
            (room * per_client) as i32
        }
    }

    /// Returns the highest load of a ring that can take this many more clients.
    pub(super) fn at_most(&self, side: Side, spare: i32, per_client: f32) -> f32 {
        let (goal, _) = match side {
            Side::Write => self.write,
            Side::Read => self.read,
        };
        if spare < 0 {
            f32::INFINITY
        } else {
            goal - spare as f32 / per_client
        }
    }

    /// Returns whether a cost may be at most that of the goal.
    pub(super) fn holds_cost(&self, cost: i64) -> bool {
        cost as f64 <= self.cost.0 * (1.0 + 1e-9)
    }

    /// Below the goal, a lower cost is still slightly better: it guides the search once everything
    /// else is reached.
    pub(super) fn cost(&self, cost: i64) -> i64 {
        let above = (cost as f64 - self.cost.0) * self.cost.1;
        let square = if above > 0.0 { above * above } else { 0.0 };
        (square + above / 64.0) as i64
    }

    /// Returns the distance of figures from the goal, for a goal with a mean of one client and one
    /// pair.
    pub(super) fn whole(&self, figures: &Figures) -> i64 {
        let above = (figures.cost - self.cost.0) * self.cost.1;
        let square = if above > 0.0 { above * above } else { 0.0 };
        excess(figures.balance as f32, self.clients)
            + excess(figures.write as f32, self.write)
            + excess(figures.read as f32, self.read)
            + (square + above / 64.0) as i64
    }

    /// Returns the energy that may remain if clients have moved, too.
    pub(super) fn nearly(&self, energy: i64) -> i64 {
        energy - energy / 16 - UNIT as i64 / 64
    }
}

fn excess(value: f32, (goal, scale): (f32, f32)) -> i64 {
    if value <= goal {
        return 0;
    }
    let above = (value - goal) * scale;
    (above * above) as i64
}

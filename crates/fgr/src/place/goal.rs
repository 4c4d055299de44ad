//! What a walk is to reach, and how far a placement is from it.
//!
//! Each ring, module and the cost that exceed the goal count with the square of what they exceed it
//! by, in shares of how far the figure can move at all. Squares make many links that are a little
//! too hot as bad as one that is much too hot, so every one of them leads the search. They are whole
//! numbers: a move and its reverse leave the sum as it was.

use crate::place::Figures;
use crate::place::ring::Side;

/// How far cost, balance, write and read differ between placements that are worth a look, as shares
/// of their values on Titan.
const RANGES: [f64; 4] = [0.0005, 0.01, 0.1, 0.02];

/// Energy of one range of excess.
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

    /// How many clients may come to or leave a ring before it can exceed the goal, if at least so many
    /// make it hotter by one; negative if it may exceed the goal now.
    pub(super) fn spare(&self, side: Side, hot: f32, per_client: f32) -> i32 {
        /// More than what rounding makes of a sum of a few products.
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

    /// How hot a ring is at most that can take so many more clients.
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

    /// Whether a cost may be that of the goal or less.
    pub(super) fn holds_cost(&self, cost: i64) -> bool {
        cost as f64 <= self.cost.0 * (1.0 + 1e-9)
    }

    /// Also below the goal a lower cost is a little better: it leads where all else is reached.
    pub(super) fn cost(&self, cost: i64) -> i64 {
        let above = (cost as f64 - self.cost.0) * self.cost.1;
        let square = if above > 0.0 { above * above } else { 0.0 };
        (square + above / 64.0) as i64
    }

    /// How far figures are from the goal, for a goal of a mean of one client and of one pair.
    pub(super) fn whole(&self, figures: &Figures) -> i64 {
        let above = (figures.cost - self.cost.0) * self.cost.1;
        let square = if above > 0.0 { above * above } else { 0.0 };
        excess(figures.balance as f32, self.clients)
            + excess(figures.write as f32, self.write)
            + excess(figures.read as f32, self.read)
            + (square + above / 64.0) as i64
    }

    /// What may be left of an energy when clients have moved too.
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

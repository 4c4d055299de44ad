//! The transport problem: which sink each unit of supply goes to, at the least total cost.
//!
//! With few sinks and many sites the optimum is found by the sinks' rents ([`rents`]), otherwise, and where
//! sides are limited, by chains of moves ([`chains`]); without a table of costs, where both are many, by rents
//! that rise phase by phase ([`phases`]). All are exact.

mod chains;
pub(crate) mod phases;
mod rents;

/// Supplies, costs and capacities.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    /// Units at each site.
    pub(crate) supplies: Vec<u32>,
    /// Cost of a unit from a site to a sink, sink by sink.
    pub(crate) costs: Vec<u32>,
    /// Units that each sink takes.
    pub(crate) base: Vec<u32>,
    /// Sinks that may take one unit more.
    pub(crate) extra: u32,
    /// What a sink takes from one side.
    pub(crate) sides: Option<Sides>,
}

/// Sites lie on one of two sides of a sink, or on neither, and a sink takes so many units from either side.
#[derive(Clone, Debug)]
pub(crate) struct Sides {
    /// The side of each site, sink by sink: 0 neither, 1 or 2.
    pub(crate) of: Vec<u8>,
    /// Units that each sink takes from each side.
    pub(crate) limit: u32,
}

/// Units that go from a site to a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) site: u32,
    pub(crate) sink: usize,
    pub(crate) units: u32,
}

impl Transport {
    /// Cost of a unit from a site to a sink.
    pub(crate) fn cost(&self, site: u32, sink: usize) -> u32 {
        self.costs[sink * self.supplies.len() + site as usize]
    }

    /// Whether the sinks can take all units.
    fn has_room(&self) -> bool {
        let room: u64 = self.base.iter().map(|&base| u64::from(base)).sum();
        let extra = u64::from(self.extra).min(self.base.len() as u64);
        self.supply() <= room + extra
    }

    fn supply(&self) -> u64 {
        self.supplies.iter().map(|&units| u64::from(units)).sum()
    }
}

/// The pieces of a cheapest flow by ascending site, or `None` when the sinks cannot take all.
pub(crate) fn solve(problem: &Transport) -> Option<Vec<Piece>> {
    solve_near(problem, &mut Vec::new())
}

/// The same, beginning at the rents of a similar problem, which become those of this one: what a
/// unit of each sink's room is worth. Any rents lead to an optimum; near ones sooner.
pub(crate) fn solve_near(problem: &Transport, rents: &mut Vec<i32>) -> Option<Vec<Piece>> {
    if !problem.has_room() {
        return None;
    }
    // Rents are found by looking at all sets of sinks, which pays where there are more sites.
    let sets = 1_usize.checked_shl(problem.base.len() as u32);
    let pays = sets.is_some_and(|sets| sets <= problem.supplies.len()) && problem.sides.is_none();
    let by_rents = pays.then(|| rents::solve(problem, rents)).flatten();
    by_rents.or_else(|| chains::solve(problem))
}

#[cfg(test)]
mod tests;

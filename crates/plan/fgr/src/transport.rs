//! The transport problem: assigns each unit of supply to a sink at the lowest total cost.
//!
//! With few sinks and many sites, the sinks' rents give the optimum ([`rents`]). Otherwise, and if
//! sides are limited, chains of moves do ([`chains`]). If sites and sinks are too many for a table
//! of costs, rents that rise phase by phase do ([`phases`]). All three are exact.

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
    /// Number of units that each sink takes.
    pub(crate) base: Vec<u32>,
    /// Number of sinks that may take one more unit.
    pub(crate) extra: u32,
    /// Limits of what a sink takes from one side.
    pub(crate) sides: Option<Sides>,
}

/// A site is on one of two sides of a sink, or on neither. A sink takes a limited number of units
/// from either side.
#[derive(Clone, Debug)]
pub(crate) struct Sides {
    /// The side of each site, sink by sink: 0 for neither, 1 or 2.
    pub(crate) of: Vec<u8>,
    /// Most units that each sink takes from each side.
    pub(crate) limit: u32,
}

/// The units that go from a site to a sink.
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

    /// Returns whether the sinks can take all units.
    fn has_room(&self) -> bool {
        let room: u64 = self.base.iter().map(|&base| u64::from(base)).sum();
        let extra = u64::from(self.extra).min(self.base.len() as u64);
        self.supply() <= room + extra
    }

    fn supply(&self) -> u64 {
        self.supplies.iter().map(|&units| u64::from(units)).sum()
    }
}

/// Returns the pieces of a cheapest flow in ascending order of sites, or `None` if the sinks cannot
/// take all units.
pub(crate) fn solve(problem: &Transport) -> Option<Vec<Piece>> {
    solve_near(problem, &mut Vec::new())
}

/// Like `solve`, but starts from the rents of a similar problem and replaces them by the rents of
/// this one: the value of one unit of each sink's capacity. Any rents lead to an optimum; similar
/// ones reach it sooner.
pub(crate) fn solve_near(problem: &Transport, rents: &mut Vec<i32>) -> Option<Vec<Piece>> {
    if !problem.has_room() {
        return None;
    }
    // Finding rents examines all sets of sinks, which pays off if there are more sites than sets.
    let sets = 1_usize.checked_shl(problem.base.len() as u32);
    let pays = sets.is_some_and(|sets| sets <= problem.supplies.len()) && problem.sides.is_none();
    let by_rents = pays.then(|| rents::solve(problem, rents)).flatten();
    by_rents.or_else(|| chains::solve(problem))
}

#[cfg(test)]
mod tests;

//! The optimum for few sinks, from the sinks' rents.
//!
//! ```text
//!   site ──▶ the sinks whose cost + rent is least       few different sets of tied sinks
//!   set of sinks W: its sites have no other   >  its room       the rents of W rise by 1
//!                   its sites have it too     <  its room       the rents of W fall by 1
//! ```
//!
//! The dual of the transport problem is a function of the rents only,
//!
//! ```text
//!   D(q) = Σ units · min_j (cost_j + q_j)  -  Σ base_j · q_j  -  the largest `extra` of q      q ≥ 0
//! ```
//!
//! and L♮-concave: rents are optimal if no set of sinks improves `D` by moving together by 1, up or
//! down (Murota, Discrete Convex Analysis, theorem 7.14). The number of units for each set of tied
//! sinks determines the effect of moving any set, for all sets at once. `D` is an integer and grows
//! with each step, so the steps end. A flow among tied sinks that fills every sink with a rent then
//! costs exactly `D`, which proves that it is optimal.

use crate::transport::{Piece, Transport};

/// Most sinks, because all their sets are examined.
const SINKS_MAX: usize = 12;

/// Number of sites whose costs are stored together, sink by sink.
const BLOCK: usize = 64;

/// Highest cost, with all bits set, and highest rent for which sums fit in 16 bits.
const COST_MAX: u32 = (1 << 13) - 1;
const RENT_MAX: i32 = 1 << 14;

/// Most units, so that sums over sets fit in 32 bits.
const UNITS_MAX: u64 = 1 << 28;

/// Approximate number of sites from which the first rents are estimated, and the step sizes of that
/// search.
const SAMPLE: usize = 1024;
const STRIDES: [i16; 4] = [8, 4, 2, 1];

/// Returns the pieces of a cheapest flow; `None` if there are too many sinks or units, or costs are
/// too high.
pub(super) fn solve(problem: &Transport, rents: &mut Vec<i32>) -> Option<Vec<Piece>> {
    let sinks = problem.base.len();
    // Vector instructions combine bits but do not compare numbers of 32 bits.
    let bits = problem.costs.iter().fold(0, |bits, cost| bits | cost);
    let room: u64 = problem.base.iter().map(|&base| u64::from(base)).sum();
    if sinks > SINKS_MAX || bits > COST_MAX || problem.supply().max(room) > UNITS_MAX {
        return None;
    }
    if rents.len() != sinks {
        rents.clear();
        rents.resize(sinks, 0);
        let mut sample = Search::sample(problem);
        for stride in STRIDES {
            sample.ascend(rents, stride)?;
        }
    }
    let mut search = Search::new(problem);
    search.ascend(rents, 1)?;
    let flow = TiedFlow::new(problem, &search.counts, rents)?;
    Some(flow.hand_out(problem, &search.ties))
}

/// A search for the optimal rents.
struct Search {
    sinks: usize,
    supplies: Vec<u32>,
    /// Costs in blocks of sites, sink by sink within a block. The last block is padded.
    costs: Vec<i16>,
    base: Vec<i32>,
    extra: u32,
    /// The set of tied sinks of each site, and units by set.
    ties: Vec<u16>,
    counts: Vec<i32>,
    /// For each set, the sum over its subsets.
    sums: Vec<i32>,
}

/// A move of the rents of a set of sinks by an amount.
#[derive(Clone, Copy)]
struct Move {
    set: usize,
    by: i32,
}

impl Search {
    fn new(problem: &Transport) -> Self {
        let base = problem.base.iter().map(|&base| base as i32).collect();
        Self::of(problem, 1, base, problem.extra)
    }

    /// Takes every n-th site, and room in proportion.
    fn sample(problem: &Transport) -> Self {
        let mut step = (problem.supplies.len() / SAMPLE).max(1);
        // The step is coprime to the sizes of usual machines, so that it covers every position.
        while [2, 3, 5, 7]
            .iter()
            .any(|&divisor| step.is_multiple_of(divisor))
        {
            step += 1;
        }
        let supply = problem.supply().max(1);
        let part: u64 = problem
            .supplies
            .iter()
            .step_by(step)
            .map(|&u| u64::from(u))
            .sum();
        let spread = u64::from(problem.extra).div_ceil(problem.base.len().max(1) as u64);
        let scaled = |&base: &u32| ((u64::from(base) + spread) * part).div_ceil(supply) as i32;
        Self::of(problem, step, problem.base.iter().map(scaled).collect(), 0)
    }

    fn of(problem: &Transport, step: usize, base: Vec<i32>, extra: u32) -> Self {
        let sinks = base.len();
        let supplies: Vec<u32> = problem.supplies.iter().step_by(step).copied().collect();
        let blocks = supplies.len().div_ceil(BLOCK);
        let mut costs = vec![0; blocks * sinks * BLOCK];
        let columns = problem.costs.chunks(problem.supplies.len().max(1));
        for (sink, column) in columns.enumerate() {
            let sites = column.chunks(BLOCK * step);
            for (block, sites) in costs.chunks_mut(sinks * BLOCK).zip(sites) {
                let to = &mut block[sink * BLOCK..(sink + 1) * BLOCK];
                // At most COST_MAX. The compiler uses vector instructions for a copy without steps.
                if step == 1 {
                    let both = to.iter_mut().zip(sites);
                    both.for_each(|(cost, &from)| *cost = from as i16);
                } else {
                    let both = to.iter_mut().zip(sites.iter().step_by(step));
                    both.for_each(|(cost, &from)| *cost = from as i16);
                }
            }
        }
        Self {
            sinks,
            costs,
            base,
            extra,
            ties: vec![0; blocks * BLOCK],
            counts: vec![0; 1 << sinks],
            sums: vec![0; 1 << sinks],
            supplies,
        }
    }

    /// Moves rents by `stride` as long as that improves them; returns `None` if they become too
    /// large.
    fn ascend(&mut self, rents: &mut [i32], stride: i16) -> Option<()> {
        loop {
            self.tie(rents, stride - 1)?;
            let Some(Move { set, by }) = self.best(rents, i32::from(stride)) else {
                return Some(());
            };
            for (sink, rent) in rents.iter_mut().enumerate() {
                if set >> sink & 1 == 1 {
                    *rent += by;
                }
            }
        }
    }

    /// Finds for each site the set of sinks that cost at most `slack` more than the cheapest.
    fn tie(&mut self, rents: &[i32], slack: i16) -> Option<()> {
        let mut narrow = [0_i16; SINKS_MAX];
        for (narrow, &rent) in narrow.iter_mut().zip(rents) {
            *narrow = i16::try_from(rent).ok().filter(|_| rent <= RENT_MAX)?;
        }
        let blocks = self.costs.chunks_exact((self.sinks * BLOCK).max(1));
        let (ties, _) = self.ties.as_chunks_mut::<BLOCK>();
        for (block, ties) in blocks.zip(ties) {
            let (columns, _) = block.as_chunks::<BLOCK>();
            tie_block(columns, &narrow, slack, ties);
        }
        self.counts.fill(0);
        for (&set, &units) in self.ties.iter().zip(&self.supplies) {
            // At most UNITS_MAX in all.
            self.counts[usize::from(set)] += units as i32;
        }
        Some(())
    }

    /// Returns the move that improves the dual most, or `None` if no move improves it.
    fn best(&mut self, rents: &[i32], stride: i32) -> Option<Move> {
        let extra = Extra::of(rents, self.extra);
        self.sums.clone_from(&self.counts);
        for (sink, &base) in self.base.iter().enumerate() {
            self.sums[1 << sink] -= base + i32::from(extra.above >> sink & 1 == 1);
        }
        add_subsets(&mut self.sums);
        let all = self.sums.len() - 1;
        let may_fall = rents.iter().enumerate();
        let may_fall = may_fall.filter(|(_, rent)| **rent >= stride);
        let may_fall = may_fall.fold(0, |set, (sink, _)| set | 1 << sink);
        let (mut most, mut found) = (0, None);
        for (set, &gain) in self.sums.iter().enumerate() {
            // The effect of extra sinks is calculated only if it decides: counting bits is slow.
            if gain > most {
                let rising = gain - extra.more(set);
                if rising > most {
                    (most, found) = (rising, Some(Move { set, by: stride }));
                }
            }
            // All sets other than this one's own subsets keep their units.
            let gain = self.sums[all & !set] - self.sums[all];
            if gain + extra.places > most && set & !may_fall == 0 {
                let falling = gain + extra.less(set);
                if falling > most {
                    (most, found) = (falling, Some(Move { set, by: -stride }));
                }
            }
        }
        found
    }
}

/// Finds the ties of one block, in loops that a compiler turns into vector instructions.
fn tie_block(columns: &[[i16; BLOCK]], rents: &[i16], slack: i16, ties: &mut [u16; BLOCK]) {
    let mut least = [i16::MAX; BLOCK];
    for (column, &rent) in columns.iter().zip(rents) {
        for (least, &cost) in least.iter_mut().zip(column) {
            *least = (*least).min(cost + rent);
        }
    }
    *ties = [0; BLOCK];
    for (sink, (column, &rent)) in columns.iter().zip(rents).enumerate() {
        for ((set, &least), &cost) in ties.iter_mut().zip(&least).zip(column) {
            *set |= u16::from(cost + rent - slack <= least) << sink;
        }
    }
}

/// Replaces the value of each set by the sum over its subsets.
fn add_subsets(sums: &mut [i32]) {
    let mut half = 1;
    while half < sums.len() {
        for pair in sums.chunks_exact_mut(2 * half) {
            let (without, with) = pair.split_at_mut(half);
            for (sum, &more) in with.iter_mut().zip(&*without) {
                *sum += more;
            }
        }
        half *= 2;
    }
}

/// The sinks that take one more unit, by their rents: those above the lowest rent that still
/// qualifies, and those at that rent, which share the remaining `places`.
struct Extra {
    above: usize,
    at: usize,
    places: i32,
}

impl Extra {
    fn of(rents: &[i32], extra: u32) -> Self {
        let extra = (extra as usize).min(rents.len());
        let mut sorted = rents.to_vec();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let Some(&least) = extra.checked_sub(1).and_then(|last| sorted.get(last)) else {
            return Self {
                above: 0,
                at: 0,
                places: 0,
            };
        };
        let set = |wanted: std::cmp::Ordering| {
            let sinks = rents.iter().enumerate();
            let sinks = sinks.filter(|(_, rent)| (**rent).cmp(&least) == wanted);
            sinks.fold(0, |set, (sink, _)| set | 1 << sink)
        };
        let above: usize = set(std::cmp::Ordering::Greater);
        Self {
            above,
            at: set(std::cmp::Ordering::Equal),
            // At most the number of sinks.
            places: extra as i32 - above.count_ones() as i32,
        }
    }

    /// What a rise of a set adds to the largest rents, without those above.
    fn more(&self, set: usize) -> i32 {
        if self.places == 0 {
            return 0;
        }
        ((set & self.at).count_ones() as i32).min(self.places)
    }

    /// What a fall of a set subtracts from the largest rents, without those above.
    fn less(&self, set: usize) -> i32 {
        if self.places == 0 {
            return 0;
        }
        (self.places - (self.at & !set).count_ones() as i32).max(0)
    }
}

/// A flow from sets of tied sinks to these sinks, and from the sinks to a hub for the extra units.
struct TiedFlow {
    /// The sets, and their units at each node: the sinks, then the hub.
    sets: Vec<usize>,
    flow: Vec<[u32; SINKS_MAX]>,
    hub: usize,
    /// Which sinks send a unit to the hub, which may, and which must.
    sends: usize,
    may_send: usize,
    must_send: usize,
    load: [i64; SINKS_MAX + 1],
    least: [i64; SINKS_MAX + 1],
    most: [i64; SINKS_MAX + 1],
}

impl TiedFlow {
    /// Returns `None` only if the rents are not optimal.
    fn new(problem: &Transport, counts: &[i32], rents: &[i32]) -> Option<Self> {
        let sinks = problem.base.len();
        let with_units = counts.iter().enumerate().filter(|(_, units)| **units > 0);
        let sets: Vec<usize> = with_units.map(|(set, _)| set).collect();
        let extra = Extra::of(rents, problem.extra);
        let mut flow = Self {
            flow: vec![[0; SINKS_MAX]; sets.len()],
            hub: sinks,
            sends: extra.above,
            may_send: extra.above | extra.at,
            must_send: extra.above,
            load: [0; SINKS_MAX + 1],
            least: [0; SINKS_MAX + 1],
            most: [0; SINKS_MAX + 1],
            sets,
        };
        let wanted = (problem.extra as usize).min(sinks) as i64;
        let is_worth = extra.at != 0 && (0..sinks).any(|s| extra.at >> s & 1 == 1 && rents[s] > 0);
        flow.most[sinks] = wanted;
        flow.least[sinks] = if is_worth { wanted } else { 0 };
        flow.load[sinks] = i64::from(extra.above.count_ones());
        for (sink, &base) in problem.base.iter().enumerate() {
            flow.most[sink] = i64::from(base);
            flow.least[sink] = if rents[sink] > 0 { i64::from(base) } else { 0 };
            flow.load[sink] = -i64::from(extra.above >> sink & 1 == 1);
        }
        flow.begin(counts);
        flow.settle().then_some(flow)
    }

    /// Assigns the units of each set to its sinks as far as they have room, sets with the fewest
    /// sinks first.
    fn begin(&mut self, counts: &[i32]) {
        let mut order: Vec<usize> = (0..self.sets.len()).collect();
        order.sort_by_key(|&index| self.sets[index].count_ones());
        for index in order {
            let set = self.sets[index];
            let mut left = i64::from(counts[set]);
            for sink in members(set) {
                let taken = left.min(self.most[sink] - self.load[sink]).max(0);
                self.put(index, sink, taken);
                left -= taken;
            }
            self.put(index, set.trailing_zeros() as usize, left);
        }
    }

    fn put(&mut self, index: usize, sink: usize, units: i64) {
        // At most UNITS_MAX.
        self.flow[index][sink] += units as u32;
        self.load[sink] += units;
    }

    /// Moves units along chains of tied sinks until every load is within its limits.
    fn settle(&mut self) -> bool {
        self.level(self.most, false) && self.level(self.least, true)
    }

    /// Moves units from nodes above their limit to nodes below it until no node is above its limit
    /// or, with `fills`, until none is below.
    fn level(&mut self, limits: [i64; SINKS_MAX + 1], fills: bool) -> bool {
        loop {
            let nodes = |is: fn(&i64, &i64) -> bool| {
                let nodes = (0..=self.hub).filter(|&n| is(&self.load[n], &limits[n]));
                nodes.fold(0, |set, node| set | 1 << node)
            };
            let (above, below): (usize, usize) = (nodes(i64::gt), nodes(i64::lt));
            if (if fills { below } else { above }) == 0 {
                return true;
            }
            let Some(chain) = self.chain(above, below) else {
                return false;
            };
            self.carry(&chain, &limits);
        }
    }

    /// Returns a shortest chain of steps from one of these nodes to one of those, the last node
    /// first.
    fn chain(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut previous = [usize::MAX; SINKS_MAX + 1];
        let mut queue: Vec<usize> = members(from).collect();
        let (mut seen, mut next) = (from, 0);
        while let Some(&at) = queue.get(next) {
            next += 1;
            if to >> at & 1 == 1 {
                let before = |&node: &usize| Some(previous[node]).filter(|&p| p != usize::MAX);
                return Some(std::iter::successors(Some(at), before).collect());
            }
            let reached = self.reach(at) & !seen;
            seen |= reached;
            for node in members(reached) {
                previous[node] = at;
                queue.push(node);
            }
        }
        None
    }

    /// The nodes to which a unit of this node can move.
    fn reach(&self, at: usize) -> usize {
        if at == self.hub {
            return self.sends & !self.must_send;
        }
        let sets = self.sets.iter().zip(&self.flow);
        let tied = sets.filter(|(_, flow)| flow[at] > 0);
        let sends = self.may_send & !self.sends;
        tied.fold((sends >> at & 1) << self.hub, |all, (&set, _)| all | set)
    }

    /// Moves units along a chain, given with its last node first: as many as both ends need and the
    /// narrowest step allows.
    fn carry(&mut self, chain: &[usize], limits: &[i64]) {
        let (Some(&last), Some(&first)) = (chain.first(), chain.last()) else {
            return;
        };
        let ends = (self.load[first] - limits[first]).min(limits[last] - self.load[last]);
        let steps = chain.windows(2).map(|pair| self.step(pair[1], pair[0]).1);
        let units = steps.fold(ends, i64::min);
        for pair in chain.windows(2) {
            let (to, from) = (pair[0], pair[1]);
            let (index, _) = self.step(from, to);
            self.load[from] -= units;
            self.load[to] += units;
            if from == self.hub {
                self.sends &= !(1 << to);
            } else if to == self.hub {
                self.sends |= 1 << from;
            } else {
                // A step is at most as wide as its units, which fit in 32 bits.
                self.flow[index][from] -= units as u32;
                self.flow[index][to] += units as u32;
            }
        }
    }

    /// Returns the set with the most units that can move from a node to a node that it reaches, and
    /// their number.
    fn step(&self, from: usize, to: usize) -> (usize, i64) {
        if from == self.hub || to == self.hub {
            return (0, 1);
        }
        let both = 1 << from | 1 << to;
        let sets = self.sets.iter().zip(&self.flow).enumerate();
        let tied = sets.filter(|(_, (set, _))| **set & both == both);
        let widths = tied.map(|(index, (_, flow))| (index, i64::from(flow[from])));
        widths.max_by_key(|step| step.1).unwrap_or_default()
    }

    /// Assigns the sites of each set, in order, to the sinks of the set. Few sites are divided.
    fn hand_out(mut self, problem: &Transport, ties: &[u16]) -> Vec<Piece> {
        let mut index_of = vec![0; 1 << self.hub];
        for (index, &set) in self.sets.iter().enumerate() {
            index_of[set] = index;
        }
        let mut pieces = Vec::with_capacity(problem.supplies.len());
        for (site, (&supply, &set)) in (0_u32..).zip(problem.supplies.iter().zip(ties)) {
            let set = usize::from(set);
            let mut left = supply;
            if left == 0 {
                continue;
            }
            for sink in members(set) {
                let there = &mut self.flow[index_of[set]][sink];
                let units = left.min(*there);
                if units > 0 {
                    *there -= units;
                    left -= units;
                    pieces.push(Piece { site, sink, units });
                }
            }
        }
        pieces
    }
}

fn members(mut set: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let node = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(node)
    })
}

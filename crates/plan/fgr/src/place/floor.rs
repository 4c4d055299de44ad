//! Lower limits of the figures of any placement on these blades, proved by trying all divisions of
//! the blades.
//!
//! If no blade computes, moving modules moves no client. The cost of a sub-group, the clients of
//! its busiest module, and the heat that its own streams add to the rings of its modules then
//! depend on its own blades only. All sub-groups of one level (the same planes, the same window)
//! are alike. If a level has few blades, all divisions of them can be tried:
//!
//! ```text
//!   best[set of blades] = least over the triples in it that hold its first blade, or that leave it out
//! ```
//!
//! Streams of other sub-groups only add load to a ring. The hottest ring of the best division is
//! therefore a lower limit for writes and reads; cost and balance are exact.

use crate::place::board::Board;
use crate::place::{Figures, Problem, sites};

/// Most blades of one level. With more, there are too many sets to try.
const BLADES_MAX: usize = 20;

/// Most modules of a sub-group.
const MODULES_MAX: usize = 3;

/// Returns the lowest value of each figure separately. Returns `None` if the proof does not apply:
/// blades that compute while they are free, a rule other than the strict one, too many blades.
#[must_use]
pub fn proved_floor(problem: &Problem<'_>) -> Option<Figures> {
    if problem.sites.iter().any(|site| site.computes) {
        return None;
    }
    let start = sites::start(problem).ok()?;
    let board = Board::new(problem, &start)?;
    let (mut cost, mut worst) = (board.fixed_cost(), [0.0_f64; 3]);
    for level in board.levels() {
        let blades = board.blades_of(level);
        let groups = board.sub_groups_of_level(level);
        let size = board.modules_of(groups.first().copied()?);
        let alike = groups.iter().all(|&s| {
            board.modules_of(s) == size && board.window_of(s) == board.window_of(groups[0])
        });
        if blades.len() > BLADES_MAX || size == 0 || size > MODULES_MAX || !alike {
            return None;
        }
        let ways = arrangements(&board, groups[0], &blades, size);
        let sum = |a: f64, b: f64| a + b;
        cost += share_out(
            &ways,
            blades.len(),
            (size, groups.len()),
            |way| way.cost,
            sum,
        );
        for (index, most) in worst.iter_mut().enumerate() {
            let of = |way: &Arrangement| way.peaks[index];
            let least = share_out(&ways, blades.len(), (size, groups.len()), of, f64::max);
            *most = most.max(least);
        }
    }
    Some(board.as_figures(cost, worst))
}

/// A set of blades for a sub-group, with the lowest value of each figure over the orders of the
/// modules.
struct Arrangement {
    set: usize,
    cost: f64,
    /// Clients of the busiest module, load of the hottest ring of writes, load of the hottest ring
    /// of reads.
    peaks: [f64; 3],
}

fn arrangements(board: &Board, sub_group: usize, blades: &[u32], size: usize) -> Vec<Arrangement> {
    let mut ways: Vec<Arrangement> = Vec::new();
    let mut by_set = vec![usize::MAX; 1 << blades.len()];
    let count = blades.len().pow(size as u32);
    for number in 0..count {
        let mut rest = number;
        let chosen: Vec<usize> = (0..size)
            .map(|_| {
                let index = rest % blades.len();
                rest /= blades.len();
                index
            })
            .collect();
        let set = chosen.iter().fold(0, |set, &index| set | 1 << index);
        if (set as u32).count_ones() as usize != size {
            continue;
        }
        let at: Vec<u32> = chosen.iter().map(|&index| blades[index]).collect();
        let (cost, peaks) = board.alone(sub_group, &at);
        if by_set[set] == usize::MAX {
            by_set[set] = ways.len();
            ways.push(Arrangement { set, cost, peaks });
        } else {
            let way = &mut ways[by_set[set]];
            way.cost = way.cost.min(cost);
            for (least, peak) in way.peaks.iter_mut().zip(peaks) {
                *least = least.min(peak);
            }
        }
    }
    ways
}

/// Returns the lowest total if this number of sub-groups takes disjoint sets of the blades.
fn share_out(
    ways: &[Arrangement],
    blades: usize,
    (size, groups): (usize, usize),
    value: impl Fn(&Arrangement) -> f64,
    join: impl Fn(f64, f64) -> f64,
) -> f64 {
    let spare = blades.saturating_sub(size * groups);
    let mut by_first: Vec<Vec<&Arrangement>> = vec![Vec::new(); blades];
    for way in ways {
        by_first[way.set.trailing_zeros() as usize].push(way);
    }
    // best[left out × sets + used]: the lowest value of the sub-groups so far if the blades `used`
    // are used and `left out` of them are left out. A set is reached from smaller sets only.
    let sets = 1_usize << blades;
    let mut best = vec![f64::INFINITY; sets * (spare + 1)];
    best[0] = 0.0;
    let mut least = f64::INFINITY;
    for used in 0..sets {
        let count = (used as u32).count_ones() as usize;
        let first = (!used).trailing_zeros() as usize;
        for left_out in 0..=spare.min(count) {
            let here = best[left_out * sets + used];
            if here.is_infinite() {
                continue;
            }
            if count - left_out == size * groups {
                least = least.min(here);
                continue;
            }
            if first >= blades {
                continue;
            }
            for way in by_first[first].iter().filter(|way| way.set & used == 0) {
                let next = &mut best[left_out * sets + (used | way.set)];
                *next = next.min(join(here, value(way)));
            }
            if left_out < spare {
                let next = &mut best[(left_out + 1) * sets + (used | 1 << first)];
                *next = next.min(here);
            }
        }
    }
    least
}

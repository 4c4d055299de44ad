//! Compares the flow with a linear program that shares no code with it.

use good_lp::{
    Expression, ResolutionError, Solution, SolverModel, constraint, microlp, variable, variables,
};
use proptest::prelude::*;

use super::*;

fn cost(problem: &Transport, flow: &[Piece]) -> u64 {
    let product = |p: &Piece| u64::from(p.units) * u64::from(problem.cost(p.site, p.sink));
    flow.iter().map(product).sum()
}

/// The lowest cost by the simplex method, on the same network with its arcs as variables. `None` if
/// no flow is possible.
fn optimum(problem: &Transport) -> Option<f64> {
    let sinks = problem.base.len();
    let mut variables = variables!();
    let arcs = variables.add_vector(variable().min(0), problem.costs.len());
    let extras = variables.add_vector(variable().min(0).max(1), sinks);
    let total: Expression = arcs
        .iter()
        .zip(&problem.costs)
        .map(|(&arc, &cost)| f64::from(cost) * arc)
        .sum();
    let mut model = variables.minimise(total).using(microlp);
    let sites = problem.supplies.len();
    for (site, &supply) in problem.supplies.iter().enumerate() {
        let sent: Expression = arcs.iter().skip(site).step_by(sites).sum();
        model.add_constraint(constraint!(sent == f64::from(supply)));
    }
    for (sink, (&base, &extra)) in problem.base.iter().zip(&extras).enumerate() {
        let taken: Expression = arcs[sink * sites..(sink + 1) * sites].iter().sum();
        model.add_constraint(constraint!(taken <= f64::from(base) + extra));
    }
    let used: Expression = extras.iter().sum();
    model.add_constraint(constraint!(used <= f64::from(problem.extra)));
    if let Some(sides) = &problem.sides {
        for (arcs, of) in arcs.chunks(sites).zip(sides.of.chunks(sites)) {
            for side in [1, 2] {
                let there = arcs.iter().zip(of).filter(|(_, of)| **of == side);
                let taken: Expression = there.map(|(arc, _)| arc).sum();
                model.add_constraint(constraint!(taken <= f64::from(sides.limit)));
            }
        }
    }
    let solution = match model.solve() {
        Ok(solution) => solution,
        Err(ResolutionError::Infeasible) => return None,
        Err(error) => panic!("{error}"),
    };
    let value = |(&arc, &cost)| f64::from(cost) * solution.value(arc);
    Some(arcs.iter().zip(&problem.costs).map(value).sum())
}

fn problems() -> impl Strategy<Value = Transport> {
    (1_usize..24, 1_usize..8).prop_flat_map(|(sites, sinks)| {
        let supplies = prop::collection::vec(0_u32..4, sites);
        let costs = prop::collection::vec(0_u32..30, sites * sinks);
        let base = prop::collection::vec(0..=(3 * sites / sinks) as u32, sinks);
        (supplies, costs, base, 0..=sinks as u32).prop_map(|(supplies, costs, base, extra)| {
            Transport {
                supplies,
                costs,
                base,
                extra,
                sides: None,
            }
        })
    })
}

fn problems_with_sides() -> impl Strategy<Value = Transport> {
    problems().prop_flat_map(|problem| {
        let of = prop::collection::vec(0_u8..3, problem.costs.len());
        (of, 0_u32..12).prop_map(move |(of, limit)| Transport {
            sides: Some(Sides { of, limit }),
            ..problem.clone()
        })
    })
}

/// Returns whether a flow sends every unit, and no more to any sink than it takes.
fn is_sound(problem: &Transport, flow: &[Piece]) -> bool {
    let mut sent = vec![0; problem.supplies.len()];
    let mut taken = vec![0; problem.base.len()];
    for piece in flow {
        sent[piece.site as usize] += piece.units;
        taken[piece.sink] += piece.units;
    }
    let over = taken
        .iter()
        .zip(&problem.base)
        .map(|(&t, &b)| t.saturating_sub(b));
    let over: Vec<u32> = over.collect();
    let sites = problem.supplies.len();
    let side = |sides: &Sides, sink: usize, side: u8| -> u32 {
        let there = flow.iter().filter(|piece| piece.sink == sink);
        let there = there.filter(|piece| sides.of[sink * sites + piece.site as usize] == side);
        there.map(|piece| piece.units).sum()
    };
    let is_within = |sides: &Sides| {
        let sinks = 0..problem.base.len();
        sinks
            .flat_map(|sink| [(sink, 1), (sink, 2)])
            .all(|(sink, on)| side(sides, sink, on) <= sides.limit)
    };
    sent == problem.supplies
        && problem.sides.as_ref().is_none_or(is_within)
        && flow.is_sorted_by_key(|piece| piece.site)
        && over.iter().all(|&over| over <= 1)
        && over.iter().sum::<u32>() <= problem.extra
}

proptest! {
    #[test]
    fn the_flow_costs_what_the_linear_program_costs(problem in problems()) {
        let supply: u32 = problem.supplies.iter().sum();
        let room = problem.base.iter().sum::<u32>() + problem.extra;
        let Some(flow) = solve(&problem) else {
            prop_assert!(supply > room);
            return Ok(());
        };
        prop_assert!((cost(&problem, &flow) as f64 - optimum(&problem).unwrap()).abs() < 1e-6);
        prop_assert!(is_sound(&problem, &flow));
        for other in [chains::solve(&problem), rents::solve(&problem, &mut Vec::new())] {
            let other = other.unwrap();
            prop_assert_eq!(cost(&problem, &other), cost(&problem, &flow));
            prop_assert!(is_sound(&problem, &other));
        }
    }

    #[test]
    fn with_limits_of_sides_the_flow_costs_what_the_linear_program_costs(
        problem in problems_with_sides(),
    ) {
        let flow = solve(&problem);
        let least = optimum(&problem);
        prop_assert_eq!(flow.is_some(), least.is_some());
        if let (Some(flow), Some(least)) = (flow, least) {
            prop_assert!((cost(&problem, &flow) as f64 - least).abs() < 1e-6);
            prop_assert!(is_sound(&problem, &flow));
        }
    }

    #[test]
    fn any_rents_to_begin_with_lead_to_an_optimum(
        problem in problems(),
        rents in prop::collection::vec(0_i32..60, 8),
    ) {
        let Some(flow) = solve(&problem) else {
            return Ok(());
        };
        let mut rents = rents[..problem.base.len()].to_vec();
        let other = rents::solve(&problem, &mut rents).unwrap();
        prop_assert_eq!(cost(&problem, &other), cost(&problem, &flow));
        prop_assert!(is_sound(&problem, &other));
    }
}

#[test]
fn with_too_many_sinks_for_rents_chains_assign_the_units() {
    let sinks = 40;
    let problem = Transport {
        supplies: vec![1; sinks],
        // Each site is near one sink, and the first sink is the nearest for all.
        costs: (0..sinks * sinks)
            .map(|i| if i < sinks { 0 } else { (1 + i % 7) as u32 })
            .collect(),
        base: vec![1; sinks],
        extra: 0,
        sides: None,
    };
    assert_eq!(rents::solve(&problem, &mut Vec::new()), None);
    assert!(is_sound(&problem, &solve(&problem).unwrap()));
}

#[test]
fn a_chain_of_moves_beats_a_single_costly_move() {
    // Two units want sink 0, which takes one. Moving one to 1 and one of sink 1's to 2 costs 2, not
    // 9.
    let problem = Transport {
        supplies: vec![2, 1],
        costs: vec![0, 9, 1, 0, 9, 1],
        base: vec![1, 1, 1],
        extra: 0,
        sides: None,
    };
    assert_eq!(cost(&problem, &solve(&problem).unwrap()), 2);
}

proptest! {
    /// With rooms that add up to the number of units.
    #[test]
    fn phases_cost_what_chains_cost(mut problem in problems(), threads in 1_usize..3) {
        let sinks = problem.base.len() as u32;
        let units: u32 = problem.supplies.iter().sum();
        let spread = units.min(problem.base.iter().sum::<u32>());
        let mut left = units - spread.min(units);
        let mut over = problem.base.iter().sum::<u32>() - spread;
        for base in &mut problem.base {
            let less = over.min(*base);
            *base -= less;
            over -= less;
        }
        problem.extra = left.min(sinks).min(problem.extra);
        left -= problem.extra;
        problem.base[0] += left;
        let known = cost(&problem, &chains::solve(&problem).unwrap());
        let rows = |sites: std::ops::Range<usize>, visit: &mut dyn FnMut(usize, &[u32])| {
            for site in sites {
                let row = (0..problem.base.len()).map(|sink| problem.cost(site as u32, sink));
                visit(site, &row.collect::<Vec<_>>());
            }
        };
        let large = phases::Large {
            supplies: &problem.supplies,
            base: &problem.base,
            extra: problem.extra,
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let found = pool.install(|| phases::solve(&large, &rows)).unwrap();
        prop_assert_eq!(cost(&problem, &found), known);
        for (site, &supply) in problem.supplies.iter().enumerate() {
            let pieces = found.iter().filter(|piece| piece.site as usize == site);
            prop_assert_eq!(pieces.map(|piece| piece.units).sum::<u32>(), supply);
        }
        let mut more = 0;
        for (sink, &base) in problem.base.iter().enumerate() {
            let pieces = found.iter().filter(|piece| piece.sink == sink);
            let load = pieces.map(|piece| piece.units).sum::<u32>();
            prop_assert!(load <= base + 1);
            more += load.saturating_sub(base);
        }
        prop_assert!(more <= problem.extra);
    }
}

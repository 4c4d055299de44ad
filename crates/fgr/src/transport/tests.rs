//! The flow against a linear program that shares no code with it.

use good_lp::{Expression, Solution, SolverModel, constraint, microlp, variable, variables};
use proptest::prelude::*;

use super::*;

fn cost(problem: &Transport, flow: &[u32]) -> u64 {
    let products = flow.iter().zip(&problem.costs);
    products
        .map(|(&units, &cost)| u64::from(units) * u64::from(cost))
        .sum()
}

/// The least cost by the simplex method: the same network, its arcs as variables.
fn optimum(problem: &Transport) -> f64 {
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
    for (site, &supply) in problem.supplies.iter().enumerate() {
        let sent: Expression = arcs[site * sinks..(site + 1) * sinks].iter().sum();
        model.add_constraint(constraint!(sent == f64::from(supply)));
    }
    for (sink, (&base, &extra)) in problem.base.iter().zip(&extras).enumerate() {
        let taken: Expression = arcs.iter().skip(sink).step_by(sinks).sum();
        model.add_constraint(constraint!(taken <= f64::from(base) + extra));
    }
    let used: Expression = extras.iter().sum();
    model.add_constraint(constraint!(used <= f64::from(problem.extra)));
    let solution = model.solve().unwrap();
    let value = |(&arc, &cost)| f64::from(cost) * solution.value(arc);
    arcs.iter().zip(&problem.costs).map(value).sum()
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
            }
        })
    })
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
        prop_assert!((cost(&problem, &flow) as f64 - optimum(&problem)).abs() < 1e-6);
        let sinks = problem.base.len();
        for (site, &supply) in problem.supplies.iter().enumerate() {
            prop_assert_eq!(flow[site * sinks..(site + 1) * sinks].iter().sum::<u32>(), supply);
        }
        let loads = (0..sinks).map(|sink| flow.iter().skip(sink).step_by(sinks).sum::<u32>());
        let over: Vec<u32> = loads.zip(&problem.base).map(|(l, &b)| l.saturating_sub(b)).collect();
        prop_assert!(over.iter().all(|&over| over <= 1));
        prop_assert!(over.iter().sum::<u32>() <= problem.extra);
    }
}

#[test]
fn a_chain_of_moves_beats_a_single_dear_one() {
    // Two units want sink 0, which takes one; moving one to 1 and one of 1's to 2 costs 2, not 9.
    let problem = Transport {
        supplies: vec![2, 1],
        costs: vec![0, 1, 9, 9, 0, 1],
        base: vec![1, 1, 1],
        extra: 0,
    };
    assert_eq!(cost(&problem, &solve(&problem).unwrap()), 2);
}

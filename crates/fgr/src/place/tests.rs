//! Searches on the small machine: what must hold of every result.

use topology::{Dimension, Fabric, Grid, Tie, Vertex};

use super::*;
use crate::input::{Synthetic, synthetic};

fn small() -> Machine {
    let dimension = |name: &str, size, cost, capacity: &[f64]| Dimension {
        name: name.to_owned(),
        size,
        wrap: true,
        cost,
        capacity: capacity.to_vec(),
    };
    let dimensions = vec![
        dimension("x", 6, 4, &[2.0]),
        dimension("y", 8, 8, &[2.0]),
        dimension("z", 4, 1, &[2.0, 2.0, 2.0, 0.25]),
    ];
    let size = Synthetic {
        groups: 2,
        modules: 2,
        nets: 1,
    };
    synthetic("small", Grid::new(dimensions).unwrap(), Tie::Split, size).unwrap()
}

/// Every vertex is a site whose one node computes while it is free.
fn sites(machine: &Machine) -> Vec<Site> {
    let Fabric::Grid(grid, _) = &machine.fabric else {
        return Vec::new();
    };
    (0..grid.vertices())
        .map(|v| {
            let at = grid.coordinates(Vertex(v));
            let id = machine.routers.iter().find(|r| r.vertex == Vertex(v));
            Site {
                blade: format!("{}-{}-{}", at[0], at[1], at[2]),
                cabinet: format!("{}-{}", at[0], at[1]),
                nodes: vec![(id.map_or(v, |router| router.id), Vertex(v))],
                computes: true,
            }
        })
        .collect()
}

fn search(machine: &Machine, candidates: u64, seed: u64) -> Placements {
    let problem = Problem {
        machine,
        sites: sites(machine),
        policy: Policy::STRICT,
    };
    let effort = Effort { candidates, seed };
    place(&problem, effort, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn equal_seeds_find_equal_placements() {
    let machine = small();
    let first = search(&machine, 300, 7);
    assert_eq!(first, search(&machine, 300, 7));
    assert_ne!(first.points, search(&machine, 300, 8).points);
}

#[test]
fn no_point_covers_another_and_the_start_is_covered() {
    let found = search(&small(), 300, 1);
    for (i, a) in found.points.iter().enumerate() {
        for (j, b) in found.points.iter().enumerate() {
            assert!(i == j || !a.figures.covers(&b.figures), "{i} {j}");
        }
    }
    assert!(found.points.iter().any(|p| p.figures.covers(&found.start)));
}

#[test]
fn a_longer_search_finds_something_better_than_the_rule() {
    let found = search(&small(), 600, 1);
    let best = found
        .points
        .iter()
        .map(|p| p.figures.write)
        .fold(f64::INFINITY, f64::min);
    assert!(best < found.start.write, "{found:?}");
}

#[test]
fn no_figure_goes_below_its_bound() {
    let machine = small();
    let bounds = placement_bounds(&machine, Policy::STRICT);
    for point in search(&machine, 600, 3).points {
        let f = point.figures;
        let floors = [
            (f.cost, bounds.cost),
            (f.write, bounds.utilisation),
            (f.read, bounds.utilisation),
        ];
        for (found, floor) in floors {
            assert!(found >= floor - 0.05, "{f:?} {bounds:?}");
        }
    }
}

#[test]
fn an_interrupted_search_keeps_what_it_found() {
    let machine = small();
    let problem = Problem {
        machine: &machine,
        sites: sites(&machine),
        policy: Policy::STRICT,
    };
    let effort = Effort {
        candidates: 1_000_000,
        seed: 1,
    };
    let mut stop_at_100 = |progress: Progress| match progress.tried {
        100.. => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let found = place(&problem, effort, &mut stop_at_100).unwrap();
    assert!(found.interrupted);
    assert_eq!(found.tried, 100);
    assert!(!found.points.is_empty());
}

#[test]
fn backups_never_move_into_one_cabinet() {
    let machine = small();
    let sites = sites(&machine);
    for point in search(&machine, 300, 5).points {
        for group in &machine.groups {
            for range in &group.sub_groups {
                let cabinet = |m: u16| &sites[point.sites[usize::from(m)] as usize].cabinet;
                let mut names: Vec<_> = range.clone().map(cabinet).collect();
                names.sort();
                names.dedup();
                assert_eq!(names.len(), range.len());
            }
        }
    }
}

#[test]
fn a_module_on_no_site_is_refused() {
    let machine = small();
    let problem = Problem {
        machine: &machine,
        sites: sites(&machine).split_off(60),
        policy: Policy::STRICT,
    };
    let effort = Effort {
        candidates: 1,
        seed: 1,
    };
    let error = place(&problem, effort, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, PlaceError::NoSite(_)), "{error}");
}

#[test]
fn the_number_of_clients_stays_when_modules_move() {
    let machine = small();
    let problem = Problem {
        machine: &machine,
        sites: sites(&machine),
        policy: Policy::STRICT,
    };
    let clients = moved(&problem, &sites::start(&problem).unwrap())
        .clients
        .len();
    for point in search(&machine, 300, 5).points {
        assert_eq!(moved(&problem, &point.sites).clients.len(), clients);
    }
}

//! Searches on the small machine: rules that hold for every result.

use lnet_types::SplitMix64;

use super::*;
use crate::input::{Synthetic, synthetic};
use crate::topology::{Dimension, Fabric, Grid, Tie, Vertex};

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

/// Every vertex is a site with one node, which computes while the site is free.
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

fn problem(machine: &Machine) -> Problem<'_> {
    Problem {
        machine,
        sites: sites(machine),
        policy: Policy::STRICT,
    }
}

fn search(machine: &Machine, candidates: u64, seed: u64) -> Placements {
    let effort = Effort {
        candidates,
        seed,
        ..Effort::default()
    };
    place(&problem(machine), effort, None, &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap()
}

#[test]
fn equal_seeds_find_equal_placements_with_any_number_of_threads() {
    let machine = small();
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build()
            .unwrap()
            .install(|| search(&machine, 40_000, 7))
    };
    let first = with(1);
    assert_eq!(first, with(3));
    assert_ne!(first.points, search(&machine, 40_000, 8).points);
}

#[test]
fn a_continued_search_finds_the_same_as_an_uninterrupted_one() {
    let machine = small();
    let once = search(&machine, 60_000, 3);
    let half = search(&machine, 20_000, 3);
    assert!(half.state.tried < once.state.tried);
    let effort = Effort {
        candidates: 60_000,
        seed: 99,
        ..Effort::default()
    };
    let mut go = |_| ControlFlow::Continue(());
    let resumed = place(&problem(&machine), effort, Some(half.state), &mut go).unwrap();
    assert_eq!(resumed, once);
}

#[test]
fn the_state_of_another_search_is_rejected() {
    let machine = small();
    let effort = Effort {
        candidates: 1,
        seed: 1,
        ..Effort::default()
    };
    let state = search(&machine, 1, 1).state;
    let mut go = |_| ControlFlow::Continue(());
    for spoil in [0, u32::MAX] {
        let mut state = state.clone();
        // Puts the first module on the blade of the second, or on none.
        state.walks[0].at[0] = state.walks[0].at[1].max(spoil);
        let error = place(&problem(&machine), effort, Some(state), &mut go).unwrap_err();
        assert_eq!(error, PlaceError::OtherState);
    }
}

/// Moves modules on a board and compares the board with whole plans.
fn follow(problem: &Problem<'_>, moves: u32) {
    let at = sites::start(problem).unwrap();
    let mut board = board::Board::new(problem, &at).unwrap();
    let start = Figures::of(&moved(problem, &at), problem.policy).unwrap();
    board.set_goal(&start);
    let mut random = SplitMix64::new(11);
    let (mut made, mut refused) = (0, 0);
    for number in 0..moves {
        let module = random.below(at.len() as u64) as usize;
        let here = board.at[module];
        let site = random.below(problem.sites.len() as u64) as u32;
        let plane = |site: u32| {
            problem.sites[site as usize]
                .blade
                .split('-')
                .nth(1)
                .unwrap()
                .to_owned()
        };
        if site == here || plane(site) != plane(here) {
            continue;
        }
        let other = board.at.iter().position(|&taken| taken == site);
        let mut steps = vec![(module, site)];
        steps.extend(other.map(|other| (other, here)));
        let (before, energy) = (board.figures(), board.energy());
        let mut back = vec![(module, here)];
        back.extend(other.map(|other| (other, site)));
        assert!(board.attempt(&steps, i64::MAX));
        let after = board.energy();
        assert!(board.attempt(&back, i64::MAX));
        assert_eq!(
            (board.figures(), board.energy()),
            (before, energy),
            "{number}"
        );
        // Mostly noticed only after clients have moved, too.
        assert!(!board.attempt(&steps, after - 1), "{number}");
        assert_eq!(
            (board.figures(), board.energy()),
            (before, energy),
            "{number}"
        );
        if !board.attempt(&steps, energy + energy.abs() / 2) {
            refused += 1;
            assert_eq!((board.figures(), board.energy()), (before, energy));
            assert!(board.attempt(&steps, i64::MAX));
        }
        made += 1;
        let whole = Figures::of(&moved(problem, &board.at), problem.policy).unwrap();
        let own = board.figures();
        assert!((own.cost - whole.cost).abs() < 1e-9, "{own:?} {whole:?}");
        assert!(
            (own.balance - whole.balance).abs() < 1e-9,
            "{own:?} {whole:?}"
        );
        assert!(own.write < whole.write + 1e-3, "{own:?} {whole:?}");
        assert!(own.read < whole.read + 1e-3, "{own:?} {whole:?}");
        let fresh = board::Board::new(problem, &board.at).unwrap().figures();
        assert_eq!(own, fresh);
    }
    assert!(made > 20 && refused > 0, "{made} {refused}");
}

#[test]
fn a_board_after_any_moves_has_the_figures_of_a_whole_plan() {
    let machine = small();
    follow(&problem(&machine), 400);
}

#[test]
fn a_board_without_computing_blades_has_the_figures_of_a_whole_plan() {
    let machine = small();
    let mut problem = problem(&machine);
    for site in &mut problem.sites {
        site.computes = false;
    }
    follow(&problem, 400);
}

#[test]
fn a_proved_floor_equals_the_best_of_all_placements() {
    let machine = small();
    let mut problem = problem(&machine);
    let taken: Vec<String> = machine.modules.iter().map(|m| m.blade.clone()).collect();
    // The blades of the modules and the blades next to them: few enough to try all divisions.
    let mut kept = 0;
    problem.sites.retain_mut(|site| {
        site.computes = false;
        let is_extra = site.blade.ends_with("-1") && kept < 8;
        kept += usize::from(is_extra);
        is_extra || taken.contains(&site.blade)
    });
    let floor = proved_floor(&problem).unwrap();
    let effort = Effort {
        candidates: 100_000,
        seed: 1,
        ..Effort::default()
    };
    let found = place(&problem, effort, None, &mut |_| ControlFlow::Continue(())).unwrap();
    let least = |figure: usize| {
        let values = found.points.iter().map(|p| p.figures.values()[figure]);
        values.fold(f64::INFINITY, f64::min)
    };
    assert!((least(0) - floor.cost).abs() < 1e-9, "{floor:?} {found:?}");
    assert!(
        (least(1) - floor.balance).abs() < 1e-9,
        "{floor:?} {found:?}"
    );
    for (figure, bound) in [(2, floor.write), (3, floor.read)] {
        assert!(least(figure) >= bound - 1e-3, "{floor:?} {found:?}");
    }
}

#[test]
fn without_a_board_every_candidate_is_planned_as_a_whole() {
    let machine = small();
    let mut problem = problem(&machine);
    problem.policy = Policy::Nearest {
        by: crate::Metric::Cost,
    };
    let effort = Effort {
        candidates: 64,
        seed: 1,
        ..Effort::default()
    };
    let found = place(&problem, effort, None, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(found.state.tried, 64);
    for point in &found.points {
        let figures = Figures::of(&moved(&problem, &point.sites), problem.policy).unwrap();
        assert_eq!(figures, point.figures);
    }
}

#[test]
fn no_point_covers_another_and_the_start_is_covered() {
    let found = search(&small(), 30_000, 1);
    for (i, a) in found.points.iter().enumerate() {
        for (j, b) in found.points.iter().enumerate() {
            assert!(i == j || !a.figures.covers(&b.figures), "{i} {j}");
        }
    }
    assert!(found.points.iter().any(|p| p.figures.covers(&found.start)));
}

#[test]
fn a_longer_search_finds_a_better_placement_than_the_rule() {
    let found = search(&small(), 60_000, 1);
    let best = found
        .points
        .iter()
        .map(|p| p.figures.write)
        .fold(f64::INFINITY, f64::min);
    assert!(best < found.start.write, "{found:?}");
}

#[test]
fn an_interrupted_search_keeps_what_it_found() {
    let machine = small();
    let effort = Effort {
        candidates: u64::MAX,
        seed: 1,
        ..Effort::default()
    };
    let mut stop = |_| ControlFlow::Break(());
    let found = place(&problem(&machine), effort, None, &mut stop).unwrap();
    assert!(found.interrupted);
    assert!(!found.points.is_empty());
}

#[test]
fn backups_never_move_into_one_cabinet() {
    let machine = small();
    let sites = sites(&machine);
    for point in search(&machine, 30_000, 5).points {
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
fn a_module_on_no_site_is_rejected() {
    let machine = small();
    let problem = Problem {
        machine: &machine,
        sites: sites(&machine).split_off(60),
        policy: Policy::STRICT,
    };
    let effort = Effort {
        candidates: 1,
        seed: 1,
        ..Effort::default()
    };
    let mut go = |_| ControlFlow::Continue(());
    let error = place(&problem, effort, None, &mut go).unwrap_err();
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
    for point in search(&machine, 30_000, 5).points {
        assert_eq!(moved(&problem, &point.sites).clients.len(), clients);
    }
}

//! Link loads: the figures of the small machine, and ring differences compared with walked paths on
//! any grid.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use fgr::evaluate::{
    Evaluation, Gateways, LinkLoads, Traffic, Unit, random_failures, single_failures,
};
use fgr::topology::{Direction, Fabric};
use fgr::{Metric, Options, Policy, assign, read_machine};
use proptest::prelude::*;

use common::{any_machine, mini};

#[test]
fn the_small_machine_has_the_printed_distances_and_loads() {
    let machine = mini();
    let plan = assign(&machine, Policy::STRICT, &Options::default()).unwrap();
    let e = Evaluation::new(&machine, &plan, Gateways::Primary);
    assert_eq!(
        (e.hops.mean, e.hops.max, e.cost.mean, e.cost.max),
        (2.5, 5.0, 11.0, 22.0)
    );
    let Fabric::Grid(grid, _) = &machine.fabric else {
        unreachable!()
    };
    let loads = LinkLoads::new(&machine, &plan, Gateways::Primary, Traffic::Write);
    // Largest load and sum of the loads of the links along each dimension and direction.
    let along = |dimension, direction| {
        let links = loads.links(&machine.fabric).filter(move |(link, ..)| {
            let link = grid.describe(*link);
            (link.dimension, link.direction) == (dimension, direction)
        });
        links.fold((0.0_f64, 0.0), |(most, sum), (_, load, _)| {
            (most.max(load), sum + load)
        })
    };
    let (plus, minus) = (Direction::Plus, Direction::Minus);
    assert_eq!(
        [along(0, plus), along(0, minus)],
        [(2.0, 64.0), (2.0, 128.0)]
    );
    assert_eq!(
        [along(1, plus), along(1, minus)],
        [(3.0, 96.0), (6.0, 288.0)]
    );
    assert_eq!(
        [along(2, plus), along(2, minus)],
        [(18.0, 192.0), (18.0, 192.0)]
    );
}

#[test]
fn a_dragonfly_is_planned_and_loaded_by_walking() {
    let file = "machine: d
fabric: {kind: dragonfly, groups: 3, switches: 2, links-per-pair: 1, local-capacity: 5, global-capacity: 4}
clients: {per-vertex: 3}
groups:
  - name: A
    nets: [tcp1]
    sub-groups:
      - modules:
          - {blade: a, at: [0, 0], nodes: [101]}
          - {blade: b, at: [1, 0], nodes: [102]}\n";
    let machine = read_machine("d", file).unwrap();
    let plan = assign(
        &machine,
        Policy::Balanced { by: Metric::Hops },
        &Options::default(),
    )
    .unwrap();
    let e = Evaluation::new(&machine, &plan, Gateways::Primary);
    assert_eq!((e.router_load.min, e.router_load.max), (9.0, 9.0));
    assert_eq!(e.hops.max, 2.0);
    assert!(e.write.max > 0.0 && e.write.by_dimension.is_empty());
    let failures = single_failures(&machine, &plan, Unit::Node);
    assert_eq!(
        failures
            .iter()
            .map(|f| (f.unreachable, f.write_max))
            .collect::<Vec<_>>(),
        [(0, None), (0, None)]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ring_differences_give_the_loads_that_walking_gives(
        sizes in prop::collection::vec((1_u16..7, any::<bool>()), 1..4),
        tie in prop_oneof![Just("split"), Just("plus"), Just("minus")],
        routers: [u32; 5],
        flat: bool,
    ) {
        let machine = any_machine(&sizes, tie, &routers);
        let policy = if flat { Policy::Flat } else { Policy::Nearest { by: Metric::Hops } };
        let plan = assign(&machine, policy, &Options::default()).unwrap();
        for traffic in [Traffic::Write, Traffic::Read] {
            let fast = LinkLoads::new(&machine, &plan, Gateways::Primary, traffic);
            let slow = LinkLoads::by_walking(&machine, &plan, Gateways::Primary, traffic);
            for (link, load, _) in slow.links(&machine.fabric) {
                prop_assert!((fast.load(link) - load).abs() < 1e-9, "{link:?}");
            }
        }
    }

    #[test]
    fn a_failure_by_differences_is_the_evaluation_without_the_dead(
        routers: [u32; 5],
        flat: bool,
    ) {
        let machine = any_machine(&[(5, true), (4, false), (3, true)], "split", &routers);
        let policy = if flat { Policy::Flat } else { Policy::Nearest { by: Metric::Cost } };
        let plan = assign(&machine, policy, &Options::default()).unwrap();
        for failure in single_failures(&machine, &plan, Unit::Node) {
            let dead = failure.dead.iter().copied().collect();
            let whole = Evaluation::new(&machine, &plan, Gateways::Without(&dead));
            prop_assert_eq!(failure.unreachable, whole.unserved);
            prop_assert!((failure.write_max.unwrap() - whole.write.max).abs() < 1e-9);
            prop_assert!((failure.read_max.unwrap() - whole.read.max).abs() < 1e-9);
        }
    }
}

#[test]
fn random_failures_of_all_but_a_few_leave_pairs_unreachable_and_repeat_for_a_seed() {
    let machine = mini();
    let plan = assign(&machine, Policy::STRICT, &Options::default()).unwrap();
    let draw = |count, seed| random_failures(&machine, &plan, Unit::Module, count, 5, seed);
    assert_eq!(draw(4, 7), draw(4, 7));
    assert_ne!(draw(4, 7), draw(4, 8));
    assert!(draw(1, 7).iter().all(|failure| failure.unreachable == 0));
    assert!(
        draw(12, 7)
            .iter()
            .all(|failure| failure.unreachable == 2 * 192)
    );
}

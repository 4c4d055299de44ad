//! Rules that hold for every fabric, tested on small fabrics of random size.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts test functions, not the helpers of an integration test"
)]

use std::collections::BTreeMap;

use fgr::topology::{
    Dimension, Dragonfly, DragonflySize, Fabric, FatTree, Grid, Level, Link, Routing, Tie,
    TopologyError, Vertex,
};
use proptest::prelude::*;

fn dimension(size: u16, wrap: bool) -> Dimension {
    Dimension {
        name: "d".to_owned(),
        size,
        wrap,
        cost: 1,
        capacity: vec![1.0],
    }
}

fn grids() -> impl Strategy<Value = Fabric> {
    let tie = prop_oneof![Just(Tie::Split), Just(Tie::Plus), Just(Tie::Minus)];
    let dimensions = prop::collection::vec((1_u16..6, any::<bool>()), 1..4);
    (dimensions, tie).prop_map(|(sizes, tie)| {
        let dimensions = sizes.into_iter().map(|(size, wrap)| dimension(size, wrap));
        Fabric::Grid(Grid::new(dimensions.collect()).unwrap(), tie)
    })
}

fn dragonfly(groups: u16, switches: u16, links_per_pair: u16) -> Dragonfly {
    Dragonfly::new(DragonflySize {
        groups,
        switches,
        links_per_pair,
        local_capacity: 1.0,
        global_capacity: 1.0,
        local_cost: 1,
        global_cost: 1,
    })
    .unwrap()
}

fn dragonflies() -> impl Strategy<Value = Fabric> {
    (1_u16..7, 1_u16..6, 1_u16..5)
        .prop_map(|(g, s, l)| Fabric::Dragonfly(dragonfly(g, s, l), Routing::Minimal))
}

fn trees() -> impl Strategy<Value = Fabric> {
    prop::collection::vec((1_u16..5, 1_u16..4), 1..4).prop_map(|levels| {
        let level = |(down, up)| Level {
            down,
            up,
            capacity: 1.0,
            cost: 1,
        };
        Fabric::FatTree(FatTree::new(levels.into_iter().map(level).collect()).unwrap())
    })
}

fn loads(fabric: &Fabric, from: Vertex, to: Vertex) -> BTreeMap<Link, f64> {
    let mut loads = BTreeMap::new();
    fabric.walk(from, to, &mut |link, share| {
        *loads.entry(link).or_insert(0.0) += share;
    });
    loads
}

proptest! {
    #[test]
    fn shares_of_a_shortest_path_add_up_to_its_hops(
        fabric in prop_oneof![grids(), dragonflies(), trees()],
        a: u32,
        b: u32,
    ) {
        let (a, b) = (Vertex(a % fabric.vertices()), Vertex(b % fabric.vertices()));
        let loads = loads(&fabric, a, b);
        let total: f64 = loads.values().sum();
        prop_assert!((total - f64::from(fabric.hops(a, b))).abs() < 1e-9);
        for link in loads.keys() {
            prop_assert!(link.0 < fabric.link_slots());
            prop_assert!(fabric.capacity(*link).is_some());
        }
    }

    #[test]
    fn distance_is_a_metric(fabric in prop_oneof![grids(), trees()], ends: [u32; 3]) {
        let [a, b, c] = ends.map(|v| Vertex(v % fabric.vertices()));
        prop_assert_eq!(fabric.hops(a, b), fabric.hops(b, a));
        prop_assert_eq!(fabric.hops(a, b) == 0, a == b);
        prop_assert!(fabric.hops(a, c) <= fabric.hops(a, b) + fabric.hops(b, c));
    }

    #[test]
    fn neighbours_are_one_hop_away_and_see_each_other(fabric in grids(), v: u32) {
        let Fabric::Grid(grid, _) = &fabric else { unreachable!() };
        let v = Vertex(v % grid.vertices());
        for (link, next) in grid.neighbours(v) {
            prop_assert_eq!(grid.hops(v, next), 1);
            prop_assert_eq!(grid.describe(link).from, v);
            prop_assert!(grid.neighbours(next).any(|(_, back)| back == v));
        }
        prop_assert_eq!(grid.vertex(&grid.coordinates(v)), Some(v));
    }

    #[test]
    fn nodes_with_several_interfaces_use_all_of_them_equally(
        (g, s, ports) in (1_u16..5, 2_u16..6).prop_flat_map(|(g, s)| (Just(g), Just(s), 2..=s)),
        valiant: bool,
        a: u32,
        b: u32,
    ) {
        let routing = if valiant { Routing::Valiant } else { Routing::Minimal };
        let one = dragonfly(g, s, 2);
        let several = Fabric::Dragonfly(one.clone().with_ports(ports).unwrap(), routing);
        let (a, b) = (Vertex(a % one.vertices()), Vertex(b % one.vertices()));
        let port = |switch: Vertex, port: u16| one.switch(one.group(switch), (switch.0 as u16 % s + port) % s).unwrap();
        let mut expected = BTreeMap::new();
        for (from, to) in (0..ports).flat_map(|i| (0..ports).map(move |j| (i, j))) {
            one.walk(port(a, from), port(b, to), routing, &mut |link, share| {
                *expected.entry(link).or_insert(0.0) += share / f64::from(ports * ports);
            });
        }
        let found = loads(&several, a, b);
        prop_assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (link, share) in &found {
            prop_assert!((share - expected[link]).abs() < 1e-9);
        }
        if let Fabric::Dragonfly(several, _) = &several {
            prop_assert!(found.keys().all(|&link| several.may_carry(a, b, link, routing)));
        }
    }

    #[test]
    fn both_ends_of_a_global_link_agree(g in 2_u16..7, s in 1_u16..6, l in 1_u16..5) {
        let dragonfly = dragonfly(g, s, l);
        for (a, b) in (0..g).flat_map(|a| (0..g).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            for i in 0..l {
                let (near, far) = dragonfly.ends(a, b, i);
                prop_assert_eq!(dragonfly.ends(b, a, i), (far, near));
                prop_assert_eq!((dragonfly.group(near), dragonfly.group(far)), (a, b));
            }
        }
    }
}

#[test]
fn half_way_round_a_ring_the_tie_rule_decides() {
    let grid = Grid::new(vec![dimension(4, true)]).unwrap();
    let first_links = |tie| {
        let fabric = Fabric::Grid(grid.clone(), tie);
        loads(&fabric, Vertex(0), Vertex(2))
    };
    // Links are numbered `+` and `-` of vertex 0, `+` and `-` of vertex 1, and so on.
    let link = |numbers: &[u32], share| numbers.iter().map(|&n| (Link(n), share)).collect();
    assert_eq!(first_links(Tie::Plus), link(&[0, 2], 1.0));
    assert_eq!(first_links(Tie::Minus), link(&[1, 7], 1.0));
    assert_eq!(first_links(Tie::Split), link(&[0, 1, 2, 7], 0.5));
}

#[test]
fn a_mesh_has_no_links_over_its_border() {
    let grid = Grid::new(vec![dimension(3, false)]).unwrap();
    assert_eq!(grid.hops(Vertex(0), Vertex(2)), 2);
    assert_eq!(grid.capacity(Link(1)), None);
    assert_eq!(grid.neighbours(Vertex(0)).count(), 1);
}

#[test]
fn dragonfly_hops_are_0_1_and_at_most_3() {
    let dragonfly = dragonfly(74, 32, 4);
    assert_eq!(dragonfly.hops(Vertex(0), Vertex(0)), 0);
    assert_eq!(dragonfly.hops(Vertex(0), Vertex(31)), 1);
    let farthest = (32..dragonfly.vertices()).map(|v| dragonfly.hops(Vertex(5), Vertex(v)));
    assert_eq!(farthest.max(), Some(3));
}

#[test]
fn valiant_takes_two_global_links_and_loads_all_intermediate_groups_evenly() {
    let dragonfly = dragonfly(5, 4, 2);
    let first_global = 5 * 4 * 4;
    let mut by_group = [0.0; 5];
    dragonfly.walk(
        Vertex(0),
        Vertex(7),
        Routing::Valiant,
        &mut |link, share| {
            if link.0 >= first_global && (link.0 - first_global) / (5 * 2) == 0 {
                by_group[((link.0 - first_global) / 2 % 5) as usize] += share;
            }
        },
    );
    for (load, expected) in by_group.iter().zip([0.0, 0.0, 1.0, 1.0, 1.0]) {
        assert!((load - expected / 3.0).abs() < 1e-12, "{by_group:?}");
    }
}

#[test]
fn streams_to_one_endpoint_of_a_fat_tree_share_one_uplink() {
    let level = |down, up| Level {
        down,
        up,
        capacity: 1.0,
        cost: 1,
    };
    let tree = Fabric::FatTree(FatTree::new(vec![level(4, 1), level(3, 4)]).unwrap());
    let mut total = BTreeMap::new();
    for from in 0..4 {
        for (link, share) in loads(&tree, Vertex(from), Vertex(9)) {
            *total.entry(link).or_insert(0.0) += share;
        }
    }
    // One uplink and two downlinks carry all four streams.
    assert_eq!(total.values().filter(|&&load| load == 4.0).count(), 3);
}

#[test]
fn invalid_sizes_are_rejected() {
    let pattern = Dimension {
        capacity: vec![1.0, 2.0],
        ..dimension(5, true)
    };
    assert!(matches!(
        Grid::new(vec![pattern]),
        Err(TopologyError::Pattern { .. })
    ));
    assert_eq!(Grid::new(Vec::new()), Err(TopologyError::Dimensions(0)));
    let long = vec![dimension(u16::MAX, true)];
    assert_eq!(Grid::new(long), Err(TopologyError::TooLong("d".to_owned())));
    let costly = Dimension {
        cost: 10_001,
        ..dimension(5, true)
    };
    assert_eq!(
        Grid::new(vec![costly]),
        Err(TopologyError::CostTooHigh(10_001))
    );
    let huge = vec![dimension(4_096, true); 2];
    assert_eq!(Grid::new(huge), Err(TopologyError::TooLarge("the grid")));
    let negative = Dimension {
        capacity: vec![-1.0],
        ..dimension(5, true)
    };
    assert_eq!(
        Grid::new(vec![negative]),
        Err(TopologyError::Capacity(-1.0))
    );
    assert!(FatTree::new(Vec::new()).is_err());
}

#[test]
fn a_path_has_only_links_that_may_carry_it_and_each_link_has_a_name_of_its_own() {
    let (small, mut excluded) = (dragonfly(5, 4, 3), 0);
    let fabric = Fabric::Dragonfly(small.clone(), Routing::Minimal);
    for (from, to) in (0..20).flat_map(|a| (0..20).map(move |b| (Vertex(a), Vertex(b)))) {
        for link in loads(&fabric, from, to).into_keys() {
            assert!(small.may_carry(from, to, link, Routing::Minimal));
            assert!(small.may_touch(from, false, link, Routing::Minimal));
            assert!(small.may_touch(to, true, link, Routing::Minimal));
        }
        let links = (0..small.link_slots()).map(Link);
        excluded += links
            .filter(|link| !small.may_carry(from, to, *link, Routing::Minimal))
            .count();
    }
    assert!(excluded > 10_000, "{excluded}");
    let links = (0..small.link_slots()).map(Link);
    let links: Vec<Link> = links
        .filter(|link| small.capacity(*link).is_some())
        .collect();
    let names: std::collections::BTreeSet<(String, String)> =
        links.iter().map(|link| small.link_ends(*link)).collect();
    assert_eq!(names.len(), links.len());
}

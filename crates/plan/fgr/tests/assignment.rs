//! Routers under each policy: the printed test vectors, and rules for every plan.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::collections::BTreeSet;

use fgr::topology::{Fabric, Vertex};
use fgr::{
    Cut, Disjoint, Machine, Metric, Options, Plan, PlanError, PlanWarning, Policy, TieRule, assign,
    read_machine, write_csv,
};
use proptest::prelude::*;

use common::{any_machine, mini, mini_file, titan_machine};

fn plan(machine: &Machine, policy: Policy) -> Plan {
    assign(machine, policy, &Options::default()).unwrap()
}

/// Returns the indices, from 1 within their sub-group, of the modules that a vertex uses for a
/// group's first net.
fn order(machine: &Machine, plan: &Plan, row: usize, group: usize) -> Vec<u16> {
    let net = usize::from(machine.groups[group].nets[0]);
    let routers = plan.routers(row, net).iter();
    let module = |&r: &u16| usize::from(machine.routers[usize::from(r)].module);
    routers
        .map(|r| machine.modules[module(r)].index + 1)
        .collect()
}

/// Formats one line of the test vectors for a group, from the plan.
fn group_line(machine: &Machine, plan: &Plan, row: usize, vertex: Vertex, group: usize) -> String {
    let entry = &machine.groups[group];
    let window = machine.window(group, vertex).unwrap();
    let modules = entry.sub_groups[window.sub_group].clone();
    let dx: Vec<u16> = modules
        .map(|m| machine.near_hops(vertex, m).unwrap())
        .collect();
    let order = order(machine, plan, row, group);
    let slot = 3 * window.sub_group as u16 + order[0];
    let (name, s, dy) = (&entry.name, window.sub_group + 1, window.offset);
    format!("  {name}:s{s} dy={dy:+} dx={dx:?} order={order:?} slot={slot}")
}

fn primary_line(machine: &Machine, plan: &Plan, row: usize) -> String {
    let nets = machine.nets.iter().enumerate();
    let entries = nets.map(|(net, entry)| {
        let primary = &machine.routers[usize::from(plan.routers(row, net)[0])];
        format!("{}:{}", entry.net.number, primary.id)
    });
    format!("  primary {}", entries.collect::<Vec<_>>().join(" "))
}

#[test]
fn strict_on_titan_gives_the_printed_vectors() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let Fabric::Grid(grid, _) = &machine.fabric else {
        unreachable!()
    };
    let plan = plan(&machine, Policy::STRICT);
    let vectors = include_str!("vectors/titan-strict.txt");
    for vector in vectors.trim().split("\n\n") {
        let name = vector.split_whitespace().next().unwrap();
        let is_it = |client: &fgr::Client| client.name.as_deref() == Some(name);
        let index = machine.clients.iter().position(is_it).unwrap();
        let client = &machine.clients[index];
        let at = grid.coordinates(client.vertex);
        let mut lines = vec![format!(
            "{name} nid={} xyz=({},{},{})",
            client.id, at[0], at[1], at[2]
        )];
        let row = plan.row_of(index);
        lines.extend((0..9).map(|group| group_line(&machine, &plan, row, client.vertex, group)));
        lines.push(primary_line(&machine, &plan, row));
        assert_eq!(lines.join("\n"), vector);
    }
    assert_eq!(plan.warnings, []);
}

#[test]
fn strict_on_titan_has_96_primary_tables_and_140_with_backups() {
    // Section 2.4 says 400 with backups, the number of (X, Y) positions. But only eight pairs of
    // planes differ in Y, and several X have the same order, which leaves 140.
    let Some(machine) = titan_machine() else {
        return;
    };
    assert_eq!(plan(&machine, Policy::STRICT).distinct_tables(), (96, 140));
}

#[test]
fn strict_on_the_small_machine_gives_the_printed_vectors() {
    let machine = mini();
    let Fabric::Grid(grid, _) = &machine.fabric else {
        unreachable!()
    };
    let plan = plan(&machine, Policy::STRICT);
    // Client, then for each group: sub-group, offset, order, distance in that order.
    type Expected = (usize, i32, [u16; 3], [u16; 3]);
    let vectors: [([u16; 3], [Expected; 2]); 7] = [
        (
            [0, 0, 0],
            [(1, 0, [1, 2, 3], [0, 2, 2]), (2, 2, [1, 2, 3], [0, 2, 2])],
        ),
        (
            [0, 7, 3],
            [(1, -1, [1, 2, 3], [0, 2, 2]), (2, 1, [1, 2, 3], [0, 2, 2])],
        ),
        (
            [5, 3, 1],
            [(2, -1, [3, 1, 2], [0, 2, 2]), (1, 1, [3, 1, 2], [0, 2, 2])],
        ),
        (
            [3, 1, 2],
            [(1, 1, [2, 3, 1], [1, 1, 3]), (1, -1, [2, 1, 3], [0, 2, 2])],
        ),
        (
            [2, 5, 0],
            [(2, 1, [1, 2, 3], [1, 1, 3]), (2, -1, [2, 1, 3], [0, 2, 2])],
        ),
        (
            [4, 6, 3],
            [(2, 2, [2, 3, 1], [1, 1, 3]), (2, 0, [3, 1, 2], [0, 2, 2])],
        ),
        (
            [5, 7, 0],
            [(1, -1, [1, 3, 2], [1, 1, 3]), (2, 1, [1, 3, 2], [1, 1, 3])],
        ),
    ];
    for (at, groups) in vectors {
        let vertex = grid.vertex(&at).unwrap();
        for (group, (sub_group, offset, modules, distances)) in groups.into_iter().enumerate() {
            let window = machine.window(group, vertex).unwrap();
            assert_eq!(
                (window.sub_group + 1, window.offset),
                (sub_group, offset),
                "{at:?}"
            );
            assert_eq!(
                order(&machine, &plan, vertex.0 as usize, group),
                modules,
                "{at:?}"
            );
            let first = machine.groups[group].sub_groups[window.sub_group].start;
            let dx = modules.map(|m| machine.near_hops(vertex, first + m - 1).unwrap());
            assert_eq!(dx, distances, "{at:?}");
        }
    }
}

/// Returns the number of clients of each primary, in the order of the routers.
fn primaries(machine: &Machine, plan: &Plan) -> Vec<u32> {
    let mut clients = vec![0; machine.routers.len()];
    for (row, entry) in plan.rows().iter().enumerate() {
        for net in 0..machine.nets.len() {
            if let Some(&primary) = plan.routers(row, net).first() {
                clients[usize::from(primary)] += entry.clients;
            }
        }
    }
    clients
}

#[test]
fn the_table_of_a_plan_begins_with_its_header_and_the_lowest_client_and_net() {
    let machine = mini();
    let mut table = String::new();
    write_csv(&machine, &plan(&machine, Policy::STRICT), &mut table).unwrap();
    let head: Vec<&str> = table.split_inclusive('\n').take(3).collect();
    assert_eq!(
        head,
        [
            "client_nid,net,primary_nid,backup1_nid,backup2_nid\n",
            "0,o2ib201,1011,1012,1013\n",
            "0,o2ib202,1024,1025,1026\n",
        ]
    );
    assert_eq!(table.lines().count(), 1 + 192 * 2);
}

#[test]
fn ties_load_the_first_module_under_strict_and_none_under_balance() {
    let machine = mini();
    let by_tie = |tie| primaries(&machine, &plan(&machine, Policy::Strict { tie }));
    assert_eq!(by_tie(TieRule::Index)[..3], [48, 32, 16]);
    assert_eq!(by_tie(TieRule::Balance), [32; 12]);
}

#[test]
fn strict_on_titan_loads_modules_with_1476_to_1688_clients() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let loads = primaries(&machine, &plan(&machine, Policy::STRICT));
    assert_eq!(
        (loads.iter().min(), loads.iter().max()),
        (Some(&1_476), Some(&1_688))
    );
}

#[test]
fn the_algorithm_as_printed_misses_one_plane_in_every_group() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let plan = plan(&machine, Policy::Printed { wrap: false });
    let missed = plan.warnings.iter().filter_map(|warning| match warning {
        PlanWarning::NoWindow { group, clients, .. } => Some((group.as_str(), *clients)),
        _ => None,
    });
    let missed: Vec<_> = missed.collect();
    assert_eq!(missed.len(), 9);
    for (group, clients) in missed {
        let plane = if "AFGHI".contains(group) { 0 } else { 15 };
        let Fabric::Grid(grid, _) = &machine.fabric else {
            unreachable!()
        };
        let on_plane = machine
            .clients
            .iter()
            .filter(|c| grid.position(c.vertex, 1) == plane);
        assert_eq!(on_plane.count(), clients as usize, "{group}");
    }
}

#[test]
fn as_printed_a_third_of_the_modules_carries_everything() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let loads = primaries(&machine, &plan(&machine, Policy::Printed { wrap: true }));
    assert_eq!(loads.iter().filter(|&&load| load > 0).count(), 36 * 4);
}

#[test]
fn balanced_loads_differ_by_at_most_one() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let loads = primaries(
        &machine,
        &plan(&machine, Policy::Balanced { by: Metric::Cost }),
    );
    assert_eq!(
        (loads.iter().min(), loads.iter().max()),
        (Some(&1_557), Some(&1_558))
    );
}

#[test]
fn a_dead_router_is_in_no_plan_and_a_net_without_routers_is_rejected() {
    let machine = mini();
    let dead = BTreeSet::from([0, 4]);
    let options = Options {
        dead: dead.clone(),
        ..Options::default()
    };
    for policy in POLICIES {
        let plan = assign(&machine, policy, &options).unwrap();
        let used = all_routers(&machine, &plan);
        assert!(used.is_disjoint(&dead), "{policy:?}");
    }
    let options = Options {
        dead: (0..6).collect(),
        ..Options::default()
    };
    let rejection = assign(&machine, Policy::STRICT, &options);
    assert_eq!(rejection, Err(PlanError::NoRouter("o2ib201".to_owned())));
}

fn all_routers(machine: &Machine, plan: &Plan) -> BTreeSet<u16> {
    let cells =
        (0..plan.rows().len()).flat_map(|row| (0..machine.nets.len()).map(move |net| (row, net)));
    cells
        .flat_map(|(row, net)| plan.routers(row, net).to_vec())
        .collect()
}

#[test]
fn windows_need_a_grid() {
    let file = "machine: f\nfabric: {kind: fat-tree, levels: [{down: 4, up: 1, capacity: 25}]}
clients: {list: [{id: 0, at: [0]}]}
groups: [{name: A, nets: [tcp1], sub-groups: [{modules: [{blade: b, at: [3], nodes: [9]}]}]}]\n";
    let machine = read_machine("f", file).unwrap();
    let rejection = assign(&machine, Policy::STRICT, &Options::default());
    assert_eq!(rejection, Err(PlanError::NeedsGrid("strict")));
    let plan = plan(&machine, Policy::Nearest { by: Metric::Hops });
    assert_eq!(plan.routers(0, 0), [0]);
    assert_eq!(plan.warnings.len(), 1);
}

#[test]
fn metadata_goes_to_the_nearest_module_and_its_nodes_take_turns() {
    let file = mini_file()
        + "  - name: M
    role: metadata
    nets: [o2ib237]
    sub-groups:
      - modules:
          - {blade: m1, at: [0, 0, 3], nodes: [2001, 2002, 2003, 2004]}
          - {blade: m2, at: [3, 4, 3], nodes: [2005, 2006, 2007, 2008]}\n";
    let machine = read_machine("m", &file).unwrap();
    let plan = plan(&machine, Policy::STRICT);
    let loads = primaries(&machine, &plan);
    assert_eq!(loads[12..].iter().sum::<u32>(), 192);
    assert!(loads[12..].iter().all(|&load| load > 0), "{loads:?}");
    let module = |router: u16| machine.routers[usize::from(router)].module;
    let routers = plan.routers(0, 2);
    assert_eq!(routers.len(), 2);
    assert_eq!((module(routers[0]), module(routers[1])), (12, 13));
}

const POLICIES: [Policy; 6] = [
    Policy::STRICT,
    Policy::Strict { tie: TieRule::Rest },
    Policy::Strict {
        tie: TieRule::Balance,
    },
    Policy::Nearest { by: Metric::Cost },
    Policy::Balanced { by: Metric::Hops },
    Policy::Spread {
        block: 24,
        efficiency: 60,
    },
];

/// Returns what the disjointness rule compares.
fn domain(machine: &Machine, router: u16, disjoint: Disjoint) -> (u16, u16) {
    let module = machine.routers[usize::from(router)].module;
    match disjoint {
        Disjoint::Node => (router, 0),
        Disjoint::SubGroup => {
            let module = &machine.modules[usize::from(module)];
            (module.group, module.sub_group)
        }
        Disjoint::Blade | Disjoint::Cabinet => (module, 0),
    }
}

#[test]
fn backups_are_disjoint_under_every_policy() {
    let machine = mini();
    for disjoint in [Disjoint::Node, Disjoint::Blade, Disjoint::SubGroup] {
        for policy in POLICIES {
            let options = Options {
                backups: 1,
                disjoint,
                ..Options::default()
            };
            let plan = assign(&machine, policy, &options).unwrap();
            for (row, net) in (0..plan.rows().len()).flat_map(|row| [(row, 0), (row, 1)]) {
                let routers = plan.routers(row, net);
                assert_eq!(routers.len(), 2, "{policy:?} {disjoint:?}");
                let domains = routers.iter().map(|&r| domain(&machine, r, disjoint));
                assert_eq!(
                    domains.collect::<BTreeSet<_>>().len(),
                    2,
                    "{policy:?} {disjoint:?}"
                );
            }
        }
    }
}

/// The small machine with all places moved by a vector, modulo the torus.
fn moved(by: [u16; 3]) -> Machine {
    let mut machine = mini();
    let Fabric::Grid(grid, _) = machine.fabric.clone() else {
        unreachable!()
    };
    let shift = |vertex: &mut Vertex| {
        let mut at = grid.coordinates(*vertex);
        for (position, (by, size)) in at.iter_mut().zip(by.into_iter().zip([6, 8, 4])) {
            *position = (*position + by) % size;
        }
        *vertex = grid.vertex(&at).unwrap();
    };
    machine
        .clients
        .iter_mut()
        .for_each(|client| shift(&mut client.vertex));
    machine
        .routers
        .iter_mut()
        .for_each(|router| shift(&mut router.vertex));
    machine
        .modules
        .iter_mut()
        .for_each(|module| shift(&mut module.home));
    machine
}

proptest! {
    #[test]
    fn nearest_takes_the_cheapest_routers_of_all_and_of_equal_ones_the_first(
        sizes in prop::collection::vec((1_u16..6, any::<bool>()), 1..5),
        routers in prop::collection::vec(any::<u32>(), 1..40),
    ) {
        let machine = any_machine(&sizes, "split", &routers);
        for disjoint in [Disjoint::Node, Disjoint::Cabinet] {
            let options = Options { disjoint, ..Options::default() };
            let by = Metric::Cost;
            let plan = assign(&machine, Policy::Nearest { by }, &options).unwrap();
            for (row, entry) in plan.rows().iter().enumerate() {
                let mut all = machine.nets[0].routers.clone();
                let there = |&r: &u16| machine.routers[usize::from(r)].vertex;
                all.sort_by_key(|r| machine.fabric.cost(entry.vertex, there(r)));
                all.truncate(plan.choices());
                prop_assert_eq!(plan.routers(row, 0), &all[..]);
            }
        }
    }

    #[test]
    fn strict_does_not_change_when_clients_and_modules_move_together(
        x in 0_u16..6, y in 0_u16..8, z in 0_u16..4,
    ) {
        let (here, there) = (mini(), moved([x, y, z]));
        let (before, after) = (plan(&here, Policy::STRICT), plan(&there, Policy::STRICT));
        for client in 0..here.clients.len() {
            for net in 0..2 {
                let of = |plan: &Plan| plan.routers(plan.row_of(client), net).to_vec();
                prop_assert_eq!(of(&before), of(&after));
            }
        }
    }

    #[test]
    fn every_plane_has_exactly_one_sub_group_and_the_primary_is_nearest(vertex in 0_u32..192) {
        let machine = mini();
        let plan = plan(&machine, Policy::STRICT);
        for group in 0..2 {
            let window = machine.window(group, Vertex(vertex)).unwrap();
            prop_assert!(window.inside);
            let net = usize::from(machine.groups[group].nets[0]);
            let modules = plan.routers(vertex as usize, net).iter().map(|&r| machine.routers[usize::from(r)].module);
            let distances: Vec<_> = modules.map(|m| machine.near_hops(Vertex(vertex), m)).collect();
            prop_assert!(distances.is_sorted());
        }
    }
}

#[test]
fn no_module_serves_more_of_a_line_than_the_cap() {
    let machine = mini();
    for (cap, most) in [(34, 2), (50, 2), (75, 3), (100, 4)] {
        let plan = assign(
            &machine,
            Policy::Slices {
                cut: Cut::Cost { cap, run: 1 },
            },
            &Options::default(),
        )
        .unwrap();
        let mut counts = std::collections::BTreeMap::new();
        for (row, entry) in plan.rows().iter().enumerate() {
            for net in machine.data_nets() {
                // Vertices of a line are consecutive: 4 positions along the last dimension.
                let line = entry.vertex.0 / 4;
                *counts
                    .entry((line, net, plan.routers(row, net)[0]))
                    .or_insert(0) += 1;
            }
        }
        assert!(
            counts.values().all(|&count| count <= most),
            "{cap} {counts:?}"
        );
    }
}

#[test]
fn the_lower_the_cap_the_more_of_the_routers_a_compact_job_can_use() {
    let machine = mini();
    let efficiency = |cap| {
        let plan = assign(
            &machine,
            Policy::Slices {
                cut: Cut::Cost { cap, run: 1 },
            },
            &Options::default(),
        )
        .unwrap();
        fgr::evaluate::compact_jobs(&machine, &plan, 48, 7).mean
    };
    assert!(efficiency(34) > efficiency(100));
}

#[test]
fn slices_without_a_cap_or_a_run_are_rejected() {
    for (cap, run) in [(0, 1), (101, 1), (50, 0)] {
        let error = assign(
            &mini(),
            Policy::Slices {
                cut: Cut::Cost { cap, run },
            },
            &Options::default(),
        )
        .unwrap_err();
        assert_eq!(error, fgr::PlanError::Slices);
    }
}

#[test]
fn cool_keeps_loads_equal_and_its_hottest_link_is_no_hotter() {
    let machine = mini();
    let evaluate = |policy| {
        let plan = assign(&machine, policy, &Options::default()).unwrap();
        fgr::evaluate::Evaluation::new(&machine, &plan, fgr::evaluate::Gateways::Primary)
    };
    let by = fgr::Metric::Cost;
    let balanced = evaluate(Policy::Balanced { by });
    let cool = evaluate(Policy::Cool { write: 0, read: 0 });
    assert_eq!(cool.router_load, balanced.router_load);
    let hottest = |e: &fgr::evaluate::Evaluation| e.write.max.max(e.read.max);
    assert!(hottest(&cool) < hottest(&balanced));
    assert!(cool.cost.mean >= balanced.cost.mean);
}

#[test]
fn a_limit_that_no_exchange_reaches_is_a_warning_with_what_was_reached() {
    let plan = assign(
        &mini(),
        Policy::Cool { write: 1, read: 1 },
        &Options::default(),
    )
    .unwrap();
    let is_hot = |w: &fgr::PlanWarning| matches!(w, fgr::PlanWarning::Hot { limit: 1, .. });
    assert!(plan.warnings.iter().any(is_hot), "{:?}", plan.warnings);
}

#[test]
fn cool_holds_one_limit_of_writes_and_another_of_reads() {
    let machine = mini();
    let evaluate = |policy| {
        let plan = assign(&machine, policy, &Options::default()).unwrap();
        assert!(
            plan.warnings
                .iter()
                .all(|w| !matches!(w, fgr::PlanWarning::Hot { .. }))
        );
        fgr::evaluate::Evaluation::new(&machine, &plan, fgr::evaluate::Gateways::Primary)
    };
    let balanced = evaluate(Policy::Balanced {
        by: fgr::Metric::Cost,
    });
    // Whole units below the value without a limit.
    let below = |heat: f64| heat.ceil() as u32 - 1;
    let (write, read) = (below(balanced.write.max), below(balanced.read.max));
    let cool_read = evaluate(Policy::Cool { write: 0, read });
    assert!(
        cool_read.read.max <= f64::from(read),
        "{:?}",
        cool_read.read
    );
    let cool_write = evaluate(Policy::Cool { write, read: 0 });
    assert!(
        cool_write.write.max <= f64::from(write),
        "{:?}",
        cool_write.write
    );
    for cool in [cool_read, cool_write] {
        assert_eq!(cool.router_load, balanced.router_load);
        assert!(cool.cost.mean >= balanced.cost.mean);
    }
}

#[test]
fn slices_by_turns_and_by_the_nearest_along_a_line_need_few_tables() {
    let machine = mini();
    let grid = match &machine.fabric {
        fgr::topology::Fabric::Grid(grid, _) => grid,
        _ => unreachable!(),
    };
    for cut in [Cut::Near, Cut::Turns] {
        let plan = assign(&machine, Policy::Slices { cut }, &Options::default()).unwrap();
        for (row, entry) in plan.rows().iter().enumerate() {
            let at = grid.position(entry.vertex, 2);
            for net in machine.data_nets() {
                let group = usize::from(machine.nets[net].group);
                let window = machine.window(group, entry.vertex).unwrap();
                let range = machine.groups[group].sub_groups[window.sub_group].clone();
                let primary = &machine.routers[usize::from(plan.routers(row, net)[0])];
                let distance = |m: u16| {
                    let home = machine.modules[usize::from(m)].home;
                    grid.distance(2, at, grid.position(home, 2))
                };
                match cut {
                    Cut::Turns => assert_eq!(
                        usize::from(primary.module - range.start),
                        usize::from(at) % range.len()
                    ),
                    _ => assert_eq!(Some(distance(primary.module)), range.map(distance).min()),
                }
            }
        }
    }
}

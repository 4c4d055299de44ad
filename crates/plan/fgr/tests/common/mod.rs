//! The machines of the tests: Titan, if its data is available, and a small synthetic machine.

#![allow(
    dead_code,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "each test file uses a part of this; a test fails by panicking, in its helpers too"
)]

use std::fmt::Write;

use fgr::topology::Tie;
use fgr::{Machine, MapNode, Role, read_machine, read_map, read_modules, titan};

/// Reads a file of Titan's data. Returns `None` with a message if the file is not available.
///
/// # Panics
///
/// In CI, if the data is missing.
pub(crate) fn titan_file(name: &str) -> Option<String> {
    let path = testkit::shared_data(format!("titan/{name}"))?;
    Some(std::fs::read_to_string(path).expect("a file that can be read"))
}

/// The nodes of Titan.
pub(crate) fn titan_map() -> Option<Vec<MapNode>> {
    Some(read_map("titan.map", &titan_file("titan.map")?).expect("the real map is right"))
}

/// Titan with its 108 modules.
pub(crate) fn titan_machine() -> Option<Machine> {
    let map = titan_map()?;
    let grid = fgr::topology::titan::grid().expect("constants that fit");
    let modules = read_modules(
        "modules.csv",
        &titan_file("modules.csv")?,
        &grid,
        Role::Data,
    );
    let modules = modules.expect("the real table is right");
    Some(titan("titan.map", &map, modules, Tie::Split).expect("the real machine is right"))
}

/// Places of the small machine's modules, by group, sub-group and index.
const MINI: [[[[u16; 3]; 3]; 2]; 2] = [
    [
        [[0, 0, 0], [2, 0, 1], [4, 0, 2]],
        [[1, 4, 3], [3, 4, 0], [5, 4, 1]],
    ],
    [
        [[1, 2, 2], [3, 2, 3], [5, 2, 0]],
        [[0, 6, 1], [2, 6, 2], [4, 6, 3]],
    ],
];

/// The file of the small machine: a 6×8×4 torus, 192 clients, router nodes 1011, 1012, … 1026.
pub(crate) fn mini_file() -> String {
    let mut file = "machine: mini
origin: synthetic
fabric:
  kind: torus
  tie: split
  dimensions:
    - {name: x, size: 6, cost: 4, capacity: [1.0]}
    - {name: y, size: 8, cost: 8, capacity: [1.0]}
    - {name: z, size: 4, cost: 1, capacity: [1.0]}
clients:
  per-vertex: 1
footprint: 2
groups:
"
    .to_owned();
    for (g, group) in MINI.iter().enumerate() {
        let name = ["A", "B"][g];
        let head = format!(
            "  - name: {name}\n    nets: [o2ib{}]\n    sub-groups:\n",
            201 + g
        );
        file.push_str(&head);
        for (s, sub_group) in group.iter().enumerate() {
            file.push_str("      - modules:\n");
            for (j, at) in sub_group.iter().enumerate() {
                let id = 1000 + 10 * (g + 1) + 3 * s + j + 1;
                let blade = format!("{name}{}{}", s + 1, j + 1);
                let line = format!("{{blade: {blade}, at: {at:?}, nodes: [{id}]}}");
                writeln!(file, "          - {line}").unwrap();
            }
        }
    }
    file
}

/// The small machine.
pub(crate) fn mini() -> Machine {
    read_machine("mini.yaml", &mini_file()).expect("the small machine is right")
}

/// Titan's compute blades, and the blades of its modules.
pub(crate) fn blades(machine: &Machine) -> Vec<fgr::place::Site> {
    let fgr::topology::Fabric::Grid(grid, _) = &machine.fabric else {
        return Vec::new();
    };
    let modules: Vec<&str> = machine.modules.iter().map(|m| &*m.blade).collect();
    let map = titan_map().unwrap_or_default();
    fgr::place::titan_sites(&map, grid, true, &modules)
}

/// A grid with a client at every vertex and these routers on one net.
pub(crate) fn any_machine(sizes: &[(u16, bool)], tie: &str, routers: &[u32]) -> Machine {
    let mut file = format!("machine: any\nfabric:\n  kind: torus\n  tie: {tie}\n  dimensions:\n");
    for (cost, (size, wrap)) in sizes.iter().enumerate() {
        let line = format!("{{name: d, size: {size}, wrap: {wrap}, cost: {cost}, capacity: [2]}}");
        writeln!(file, "    - {line}").unwrap();
    }
    file.push_str("clients: {per-vertex: 2}\ngroups:\n  - name: A\n    nets: [tcp1]\n    sub-groups:\n      - modules:\n");
    let vertices: u32 = sizes.iter().map(|(size, _)| u32::from(*size)).product();
    for (index, &router) in routers.iter().enumerate() {
        let mut vertex = router % vertices;
        let mut at = Vec::new();
        for (size, _) in sizes.iter().rev() {
            at.insert(0, vertex % u32::from(*size));
            vertex /= u32::from(*size);
        }
        let id = 1_000_000 + index;
        writeln!(
            file,
            "          - {{blade: b{index}, at: {at:?}, nodes: [{id}]}}"
        )
        .unwrap();
    }
    read_machine("any", &file).unwrap()
}

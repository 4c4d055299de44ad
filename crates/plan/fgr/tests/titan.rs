//! Titan's names, coordinates and NIDs, compared with the machine's own map of 19,200 nodes.

mod common;

use fgr::topology::titan::{NODES, NodeName, grid};

#[test]
fn sample_nodes_have_the_documented_coordinates_and_nids() {
    let points = [
        ("c0-0c1s5n0", [0, 0, 10], 20),
        ("c3-6c0s2n0", [2, 6, 18], 18_106),
        ("c24-7c2s7n3", [13, 9, 23], 9_649),
        ("c12-3c1s4n2", [19, 13, 11], 5_256),
        ("c1-1c0s0n2", [1, 15, 16], 19_166),
    ];
    for (name, coordinates, nid) in points {
        let node: NodeName = name.parse().unwrap();
        assert_eq!(
            (node.coordinates(), node.nid()),
            (coordinates, nid),
            "{name}"
        );
    }
}

#[test]
fn every_nid_names_one_node_and_every_node_has_one_nid() {
    for nid in 0..NODES {
        let node = NodeName::from_nid(nid).unwrap();
        assert_eq!(node.nid(), nid);
        assert_eq!(node.to_string().parse(), Ok(node));
    }
    assert_eq!(NodeName::from_nid(NODES), None);
}

#[test]
fn invalid_names_are_rejected() {
    for text in [
        "",
        "c",
        "c25-0c0s0n0",
        "c0-8c0s0n0",
        "c0-0c3s0n0",
        "c0-0c0s8n0",
        "c0-0c0s0n4",
        "c0-0c0s0",
        "c+1-0c0s0n0",
        "c0-0c0s0n0 ",
        "c001-0c0s0n0",
    ] {
        assert!(text.parse::<NodeName>().is_err(), "{text:?}");
    }
}

#[test]
fn names_coordinates_and_nids_agree_with_the_whole_map() {
    let Some(path) = testkit::shared_data("titan/titan.map") else {
        return;
    };
    let map = std::fs::read_to_string(path).unwrap();
    for line in map.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let node: NodeName = fields[1].parse().unwrap();
        assert_eq!(node.nid().to_string(), fields[0], "{line}");
        assert_eq!(
            node.coordinates().map(|p| p.to_string())[..],
            fields[3..],
            "{line}"
        );
    }
    assert_eq!(map.lines().count(), NODES as usize);
}

#[test]
fn titan_has_9600_vertices_and_the_documented_capacities() {
    use fgr::topology::Direction::{Minus, Plus};
    let grid = grid().unwrap();
    assert_eq!(grid.vertices(), 9_600);
    let capacity = |at: [u16; 3], d, direction| {
        grid.capacity(grid.slot(grid.vertex(&at).unwrap(), d, direction))
    };
    assert_eq!(capacity([3, 0, 0], 0, Plus), Some(9.375));
    assert_eq!(capacity([3, 2, 0], 1, Plus), Some(9.375));
    assert_eq!(capacity([3, 2, 0], 1, Minus), Some(4.6875));
    assert_eq!(capacity([3, 0, 0], 1, Minus), Some(4.6875));
    assert_eq!(capacity([3, 0, 6], 2, Plus), Some(15.0));
    assert_eq!(capacity([3, 0, 7], 2, Plus), Some(9.375));
    assert_eq!(capacity([3, 0, 0], 2, Minus), Some(9.375));
}

#[test]
fn routers_have_the_names_of_the_map_in_plans_configurations_and_reports() {
    let Some(machine) = common::titan_machine() else {
        return;
    };
    assert_eq!(machine.router_name(17_736), "c3-1c1s4n0");
    assert_eq!(machine.details.names.len(), machine.router_nodes());
    let named = fgr::failed(&machine, "c3-1c1s4n0").unwrap();
    assert_eq!(named, fgr::failed(&machine, "17736").unwrap());
    assert_eq!(named.routers.len(), 1);

    let plan = fgr::assign(&machine, fgr::Policy::STRICT, &fgr::Options::default()).unwrap();
    let mut text = String::new();
    fgr::write_yaml(&machine, &plan, &mut text).unwrap();
    assert!(text.contains("17736: \"c3-1c1s4n0\""));
    let read = fgr::read_plan("plan.yaml", &text, &machine).unwrap();
    let row = (read.row_of(0), plan.row_of(0));
    assert_eq!(read.routers(row.0, 0), plan.routers(row.1, 0));
}

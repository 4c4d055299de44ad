//! Inputs: one pass reads them and finds all errors, each with file and line.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use fgr::topology::Fabric;
use fgr::{
    InputError, Options, Origin, Policy, Role, Synthetic, assign, read_machine, read_map,
    read_modules, read_node_table, synthetic, synthetic_metadata, titan,
};
use proptest::prelude::*;

use common::{mini, mini_file, titan_file, titan_machine};

fn complaints<T: std::fmt::Debug>(result: Result<T, InputError>) -> Vec<String> {
    result
        .unwrap_err()
        .0
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn titan_has_18688_clients_and_432_routers_on_36_nets() {
    let Some(machine) = titan_machine() else {
        return;
    };
    assert_eq!(machine.clients.len(), 18_688);
    assert_eq!((machine.modules.len(), machine.routers.len()), (108, 432));
    assert_eq!((machine.groups.len(), machine.nets.len()), (9, 36));
    assert!(machine.nets.iter().all(|net| net.routers.len() == 12));
    assert_eq!(machine.nets[0].net.to_string(), "o2ib201");
    assert_eq!(machine.nets[35].net.to_string(), "o2ib236");
    assert_eq!(machine.footprint, 2);
    assert_eq!(machine.warnings, []);
    assert_eq!(
        machine.client(20).unwrap().name.as_deref(),
        Some("c0-0c1s5n0")
    );
}

#[test]
fn the_machine_file_of_the_small_machine_is_read() {
    let machine = mini();
    assert_eq!((machine.clients.len(), machine.modules.len()), (192, 12));
    assert!(
        machine
            .groups
            .iter()
            .all(|group| group.sub_groups.len() == 2)
    );
    assert_eq!(machine.nets[1].routers.len(), 6);
    assert_eq!(machine.fabric.vertices(), 192);
}

#[test]
fn dragonflies_and_fat_trees_are_read() {
    let tail = "clients: {list: [{id: 0, at: AT}]}
groups: [{name: A, nets: [tcp1], sub-groups: [{modules: [{blade: b, at: AT, nodes: [9]}]}]}]\n";
    let dragonfly = "machine: d\nfabric: {kind: dragonfly, groups: 3, switches: 2, links-per-pair: 1, local-capacity: 25, global-capacity: 25}\n";
    let tree = "machine: f\nfabric: {kind: fat-tree, levels: [{down: 4, up: 1, capacity: 25}]}\n";
    let read = |head: &str, at| read_machine("m", &(head.to_owned() + &tail.replace("AT", at)));
    let machine = read(dragonfly, "[2, 1]").unwrap();
    assert!(matches!(machine.fabric, Fabric::Dragonfly(..)));
    assert_eq!(machine.clients[0].vertex.0, 5);
    assert!(matches!(
        read(tree, "[3]").unwrap().fabric,
        Fabric::FatTree(_)
    ));
    assert!(complaints(read(tree, "[4]"))[0].contains("[4] is not a place of the fabric"));
}

#[test]
fn one_pass_over_a_machine_file_finds_every_problem_with_its_line() {
    let file = mini_file()
        .replace("origin: synthetic", "origin: dreamt\ncolour: red")
        .replace("{name: z, size: 4,", "{name: z, size: four,")
        .replace("  per-vertex: 1\n", "  per-vertex: -1\n");
    assert_eq!(
        complaints(read_machine("mini.yaml", &file)),
        [
            "mini.yaml:2: origin: 'dreamt' is not one of published, assumed, synthetic",
            "mini.yaml:3: unknown key 'colour'; known are machine, origin, fabric, clients, groups, rates, footprint, down",
            "mini.yaml:10: size: 'four' is not a number up to 65535",
        ]
    );
}

#[test]
fn contradictions_between_the_parts_are_found_in_one_pass() {
    let file = mini_file()
        .replace("blade: A12", "blade: A11")
        .replace("nodes: [1026]", "nodes: [5]")
        .replace("nets: [o2ib202]", "nets: [o2ib201]");
    let found = complaints(read_machine("mini.yaml", &file));
    assert!(
        found
            .iter()
            .any(|c| c == "mini.yaml:19: blade A11 is already taken by the module at mini.yaml:18"),
        "{found:#?}"
    );
    assert!(
        found
            .iter()
            .any(|c| c.ends_with("node 5 is already defined at mini.yaml:11")),
        "{found:#?}"
    );
    assert!(
        found
            .iter()
            .any(|c| c.ends_with("net o2ib201 belongs to group A already")),
        "{found:#?}"
    );
}

#[test]
fn a_group_without_modules_a_node_without_net_and_a_place_outside_are_found() {
    let file = mini_file()
        .replace("at: [4, 6, 3]", "at: [4, 8, 3]")
        .replace("nodes: [1011]", "nodes: []")
        + "  - {name: C, nets: [tcp7], sub-groups: []}\n";
    let found = complaints(read_machine("m", &file));
    assert!(
        found
            .iter()
            .any(|c| c.contains("[4, 8, 3] is not a place of the fabric")),
        "{found:#?}"
    );
    assert!(
        found.iter().any(|c| c.contains("group C has no modules")),
        "{found:#?}"
    );
    let file = mini_file().replace("nodes: [1011]", "nodes: []");
    let found = complaints(read_machine("m", &file));
    assert_eq!(
        found,
        ["m:18: module A11 has no router on o2ib201, which its group serves"]
    );
}

#[test]
fn sizes_that_do_not_divide_are_a_warning_of_the_machine() {
    let file = mini_file().replace("name: y, size: 8", "name: y, size: 9");
    let machine = read_machine("m", &file).unwrap();
    let warnings: Vec<String> = machine.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("9 positions of dimension y do not divide into 2 sub-groups"));
}

#[test]
fn a_map_with_errors_names_each_line() {
    let map = "20 c0-0c1s5n0 compute 0 0 10
20 c0-0c1s5n0 compute 0 0 10
21 c0-0c1s5n1 compute 0 0 11
22 c99-0c1s5n1 compute 0 0 11
23 c0-0c1s4n1 login 0 0 11
0 c0-0c0s0n0 service 0 0
";
    let found = complaints(read_map("t.map", map));
    assert_eq!(
        found,
        [
            "t.map:2: node 20 is already defined at t.map:1",
            "t.map:3: c0-0c1s5n1 is at 0 0 10, not 0 0 11",
            "t.map:4: name: 'c99-0c1s5n1' is not a node from c0-0c0s0n0 to c24-7c2s7n3",
            "t.map:5: type: 'login' is not compute or service",
            "t.map:6: 5 columns instead of 6: NID name compute|service X Y Z",
        ]
    );
}

#[test]
fn a_node_table_is_read_past_its_heading_and_its_hexadecimal_nids_are_checked() {
    let table = "   NID    (HEX)    NODENAME     TYPE    STATUS   MODE
    20     0x14  c0-0c1s5n0  compute   up   batch
    21     0x15  c0-0c1s5n1  compute   down   batch\n";
    let nodes = read_node_table("nodes", table).unwrap();
    assert_eq!(
        nodes.iter().map(|n| (n.id, n.up)).collect::<Vec<_>>(),
        [(20, true), (21, false)]
    );
    let wrong = table.replace("0x15", "0x16");
    assert_eq!(
        complaints(read_node_table("nodes", &wrong)),
        ["nodes:3: hexadecimal NID: '0x16' is not 0x15"]
    );
}

#[test]
fn a_module_table_with_errors_names_each_line() {
    let Some(table) = titan_file("modules.csv") else {
        return;
    };
    let grid = fgr::topology::titan::grid().unwrap();
    let wrong = table
        .replacen("4,2,0", "4,3,0", 1)
        .replacen("o2ib210", "o2ib9x", 1)
        .replacen("10638", "10637", 1);
    let found = complaints(read_modules("m.csv", &wrong, &grid, Role::Data));
    assert_eq!(
        found,
        [
            "m.csv:2: c7-2c2s0 is at 4,2,0, not 4,3,0",
            "m.csv:2: net_n2: 'o2ib9x' is not a net such as o2ib201",
            "m.csv:3: nid_n0: '10637' is not 10638, that of c23-2c1s7n0",
        ]
    );
}

#[test]
fn anchors_aliases_and_merged_keys_are_read() {
    let head = "machine: m\nfabric: {kind: fat-tree, levels: [{down: 4, up: 1, capacity: 1}]}\n\
                clients: {list: [{id: 0, at: [0]}]}\ngroups:\n  - name: A\n    nets: [o2ib1]\n    sub-groups:\n      - modules:\n";
    let anchored = format!(
        "{head}          - &first {{blade: r1, at: &place [1], nodes: [10]}}\n          \
         - {{<<: *first, blade: r2, nodes: [11]}}\n          - {{blade: r3, at: *place, nodes: [12]}}\n"
    );
    let plain = format!(
        "{head}          - {{blade: r1, at: [1], nodes: [10]}}\n          - {{blade: r2, at: [1], nodes: [11]}}\n          \
         - {{blade: r3, at: [1], nodes: [12]}}\n"
    );
    assert_eq!(
        read_machine("m", &anchored).unwrap(),
        read_machine("m", &plain).unwrap()
    );
}

#[test]
fn yaml_that_multiplies_itself_and_other_texts_are_rejected() {
    let found = |text: &str| complaints(read_machine("m", text)).remove(0);
    let mut bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
    for level in 1..12 {
        let list = vec![format!("*a{}", level - 1); 8].join(", ");
        bomb += &format!("a{level}: &a{level} [{list}]\n");
    }
    assert!(
        found(&bomb).ends_with("too many values"),
        "{}",
        found(&bomb)
    );
    let mut deep = "a0: &a0 [[[[[[[[1]]]]]]]]\n".to_owned();
    for level in 1..100 {
        deep += &format!("a{level}: &a{level} [[[*a{}]]]\n", level - 1);
    }
    assert!(
        found(&deep).ends_with("too many levels of collections"),
        "{}",
        found(&deep)
    );
    assert!(found("a: &a [1, *a]\n").starts_with("m:1: not a YAML document"));
    assert!(found("a: *b\n").contains("not a YAML document"));
    assert!(found("a: {<<: [1]}\n").contains("<< takes mappings"));
    assert!(found("").contains("it is empty"));
    assert!(found("a: [1").contains("not a YAML"));
    for (text, line) in [
        ("[a\r\0", 1),
        ("a:\r\n b\rc", 2),
        ("a: 1\r", 1),
        ("a\r\r\n", 1),
    ] {
        let complaint = found(text);
        assert!(
            complaint.starts_with(&format!("m:{line}: "))
                && complaint.ends_with("a carriage return without a line feed"),
            "{complaint}"
        );
    }
    assert!(found("a: [1\r\n").contains("not a YAML"));
}

#[test]
fn titan_with_metadata_has_440_routers_and_says_that_their_places_are_synthetic() {
    let (Some(map), Some(table)) = (common::titan_map(), titan_file("modules.csv")) else {
        return;
    };
    let grid = fgr::topology::titan::grid().unwrap();
    let mut modules = read_modules("modules.csv", &table, &grid, Role::Data).unwrap();
    modules.extend(synthetic_metadata(&grid, "o2ib237".parse().unwrap()).unwrap());
    let machine = titan("titan.map", &map, modules, fgr::topology::Tie::Split).unwrap();
    assert_eq!((machine.modules.len(), machine.routers.len()), (110, 440));
    assert_eq!(machine.data_nets().count(), 36);
    let warning = "the places of the metadata modules c7-2c1s3, c14-1c1s0 are synthetic";
    assert!(machine.warnings[0].to_string().ends_with(warning));
}

#[test]
fn a_synthetic_machine_of_titans_size_has_its_counts_and_every_plane_in_a_window() {
    let grid = fgr::topology::titan::grid().unwrap();
    let size = Synthetic {
        groups: 9,
        modules: 3,
        nets: 4,
    };
    let machine = synthetic("like-titan", grid, fgr::topology::Tie::Split, size).unwrap();
    assert_eq!((machine.modules.len(), machine.nets.len()), (108, 36));
    assert_eq!((machine.origin, machine.footprint), (Origin::Synthetic, 2));
    for client in machine.clients.iter().step_by(24) {
        assert!((0..9).all(|group| machine.window(group, client.vertex).unwrap().inside));
    }
}

#[test]
fn a_synthetic_machine_without_room_is_rejected() {
    let grid = fgr::topology::titan::grid().unwrap();
    let size = Synthetic {
        groups: 9,
        modules: 0,
        nets: 4,
    };
    let rejection = complaints(synthetic(
        "m",
        grid.clone(),
        fgr::topology::Tie::Split,
        size,
    ));
    assert_eq!(
        rejection,
        ["m:1: groups, modules and nets: '9x0x4' is not from 1 to 65,000 nets and routers"]
    );
    let size = Synthetic {
        groups: 900,
        modules: 20,
        nets: 1,
    };
    assert!(synthetic("m", grid, fgr::topology::Tie::Split, size).is_err());
}

proptest! {
    #[test]
    fn no_damage_to_a_machine_file_panics(
        at in 0_usize..2_000,
        length in 0_usize..12,
        with in "[-0-9a-z:{}\\[\\], \n]{0,12}",
    ) {
        let mut file = mini_file();
        let start = at.min(file.len());
        let end = (start + length).min(file.len());
        file.replace_range(start..end, &with);
        if let Ok(machine) = read_machine("m", &file) {
            prop_assert!(!machine.nets.is_empty() && !machine.clients.is_empty());
            let _ = assign(&machine, Policy::STRICT, &Options::default());
        }
    }

    #[test]
    fn no_table_panics(text in "([-0-9a-z,x ]{0,20}\n){0,6}", damage in 0_usize..160) {
        let grid = fgr::topology::titan::grid().unwrap();
        let _ = (read_map("m", &text), read_node_table("t", &text));
        let mut line = "group,subgroup,index,slot,blade,x,y0,z,nid_n0,nid_n1,nid_n2,nid_n3,net_n0,net_n2,net_n1,net_n3\nA,1,1,1,c7-2c2s0,4,2,0,16798,16799,16704,16705,o2ib201,o2ib210,o2ib219,o2ib228\n".to_owned();
        let at = damage.min(line.len());
        line.insert_str(at, &text);
        let _ = read_modules("m", &line, &grid, Role::Data);
    }
}

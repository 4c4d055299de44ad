//! Listings in small, with the faults of real ones.

use super::naming::natural;
use super::*;
use crate::import::ShapeLevel;

const ASSUMED: Assumed = Assumed {
    capacity: 25.0,
    links_per_pair: 1,
};

fn levels(shape: &Shape) -> Vec<(u16, u16, f64)> {
    let ShapeFabric::FatTree(levels) = &shape.fabric else {
        return Vec::new();
    };
    let parts = |level: &ShapeLevel| (level.down, level.up, level.capacity);
    levels.iter().map(parts).collect()
}

fn places(shape: &Shape) -> String {
    let nodes = shape.nodes.iter();
    let nodes = nodes.map(|node| format!("{}@{}", node.name, node.at[node.at.len() - 1]));
    nodes.collect::<Vec<_>>().join(" ")
}

/// Two leaves with two hosts each under two spines; each host has two adapters on its leaf.
fn listing() -> String {
    let mut text =
        "#\n# Topology file: generated on Sun\n#\nvendid=0x2c9\ndevid=0xb924\n".to_owned();
    for leaf in 0..2 {
        text += &format!(
            "switchguid=0x{leaf}({leaf})\nSwitch\t36 \"S-{leaf}\"\t# \"leaf {leaf}\" base port 0 lid {leaf} lmc 0\n"
        );
        for host in 0..2 {
            for rail in 1..3 {
                text += &format!(
                    "[{host}{rail}]\t\"H-{leaf}{host}{rail}\"[1](9)\t# \"n{leaf}{host} HCA-{rail}\" lid 4 4xEDR\n"
                );
            }
        }
        for spine in 2..4 {
            text += &format!("[3{spine}]\t\"S-{spine}\"[{leaf}]\t# \"spine\" lid 2 4xHDR\n");
        }
    }
    for spine in 2..4 {
        text += &format!("\nSwitch 36 \"S-{spine}\" # \"spine {spine}\" lid 5\n");
        for leaf in 0..2 {
            text += &format!("[{leaf}] \"S-{leaf}\"[3{spine}] # \"leaf\" lid 2 4xHDR\n");
        }
    }
    for (leaf, host, rail) in (0..8).map(|n| (n / 4, n / 2 % 2, n % 2 + 1)) {
        text += &format!(
            "caguid=0x9\nCa\t1 \"H-{leaf}{host}{rail}\"\t# \"n{leaf}{host} HCA-{rail}\"\n[1](9)\t\"S-{leaf}\"[1]\t# lid 4 lmc 0 \"leaf\" lid 1 4xEDR\n"
        );
    }
    text
}

/// A rail-optimised fabric: leaf `s` of rail `r` has adapter `r` of four hosts. The adapters of a
/// host are listed in the reverse order of their names. `edit` changes the description and the rate
/// of host and rail, or the leaf's rail.
fn rails(edit: impl Fn(usize, usize) -> (String, &'static str, usize)) -> String {
    let mut text = String::new();
    for rail in 0..3 {
        for leaf in 0..2 {
            text += &format!("Switch 65 \"S-{rail}{leaf}\" # \"leaf-{leaf}-{rail}\" lid 1\n");
            for (host, on) in (0..8).flat_map(|host| (0..3).map(move |on| (host, on))) {
                let (name, rate, at) = edit(host, on);
                if host / 4 == leaf && at == rail {
                    text += &format!("[{host}] \"H-{host}{on}\"[1](9) # \"{name}\" lid 4 {rate}\n");
                }
            }
            text += &format!("[64] \"S-9{rail}\"[{leaf}] # \"spine\" lid 1 4xNDR\n");
            text += &format!(
                "[65] \"H-a{rail}{leaf}\"[1](9) # \"Mellanox Technologies Aggregation Node\" lid 4 4xNDR\n"
            );
        }
        text += &format!("Switch 65 \"S-9{rail}\" # \"spine-{rail}\" lid 1\n");
        for leaf in 0..2 {
            text += &format!("[{leaf}] \"S-{rail}{leaf}\"[64] # \"leaf\" lid 1 4xNDR\n");
        }
    }
    for (host, rail) in (0..8).flat_map(|host| (0..3).rev().map(move |rail| (host, rail))) {
        let (name, rate, at) = edit(host, rail);
        let leaf = host / 4;
        text += &format!(
            "Ca 1 \"H-{host}{rail}\" # \"{name}\"\n[1](9) \"S-{at}{leaf}\"[{host}] # lid 4 lmc 0 \"leaf\" lid 1 {rate}\n"
        );
    }
    for (rail, leaf) in (0..3).flat_map(|rail| [(rail, 0), (rail, 1)]) {
        text += &format!(
            "Ca 1 \"H-a{rail}{leaf}\" # \"Mellanox Technologies Aggregation Node\"\n[1](9) \"S-{rail}{leaf}\"[65] # lid 4 lmc 0 \"leaf\" lid 1 4xNDR\n"
        );
    }
    text
}

fn gpu(host: usize, rail: usize) -> (String, &'static str, usize) {
    (
        format!("gpu{host} mlx5_{}", [0, 3, 10][rail]),
        "4xNDR",
        rail,
    )
}

#[test]
fn a_listing_is_a_fat_tree_and_a_rail_takes_one_adapter_of_each_host() {
    for rail in [1, 2] {
        let shape = infiniband("ib", &listing(), rail, ASSUMED).unwrap();
        assert_eq!(levels(&shape), [(2, 1, 12.5), (2, 2, 25.0)]);
        assert_eq!(places(&shape), "n00@0 n01@1 n10@2 n11@3");
        assert_eq!((shape.warnings.len(), shape.skipped.len()), (0, 0));
    }
}

#[test]
fn rails_follow_the_names_of_adapters_and_not_the_order_of_the_file() {
    let text = rails(gpu);
    for rail in 1..4 {
        let shape = infiniband("ib", &text, rail, ASSUMED).unwrap();
        assert_eq!(levels(&shape), [(4, 1, 50.0), (2, 1, 50.0)]);
        assert_eq!(shape.nodes.len(), 8);
        assert_eq!(shape.skipped.len(), 1, "{:?}", shape.skipped);
        assert!(shape.skipped[0].starts_with("6 adapters, because they are aggregation nodes"));
        assert_eq!(shape.warnings, [] as [&str; 0]);
        let name = ["mlx5_0", "mlx5_3", "mlx5_10"][usize::from(rail) - 1];
        assert!(
            shape
                .assumptions
                .contains(&format!("rail {rail} of 3: the adapters {name}"))
        );
    }
    let error = infiniband("ib", &text, 4, ASSUMED).unwrap_err().to_string();
    assert!(
        error.contains("no rail 4; the rails are 1 (mlx5_0), 2 (mlx5_3), 3 (mlx5_10)"),
        "{error}"
    );
}

#[test]
fn a_host_without_its_first_adapter_has_no_adapter_on_the_first_rail() {
    let default = "MT4129 ConnectX7   Mellanox Technologies".to_owned();
    let text = rails(|host, rail| match (host, rail) {
        (1 | 5, 0) => (default.clone(), "4xNDR", 0),
        _ => gpu(host, rail),
    });
    let shape = infiniband("ib", &text, 1, ASSUMED).unwrap();
    assert_eq!(places(&shape), "gpu0@0 gpu2@1 gpu3@2 gpu4@3 gpu6@4 gpu7@5");
    let ids: Vec<u32> = shape.nodes.iter().map(|node| node.id).collect();
    assert_eq!(
        ids,
        [0, 2, 3, 4, 6, 7],
        "numbers are the same on every rail"
    );
    let skipped = shape.skipped.join("\n");
    assert!(skipped.contains("2 adapters, because a default description names no host: H-10 on leaf-0-0, H-50 on leaf-1-0"), "{skipped}");
    assert!(
        skipped.contains("2 hosts, because they have no adapter on rail 1: gpu1, gpu5"),
        "{skipped}"
    );
    assert_eq!(
        shape.warnings,
        ["uneven rails: rail 1 has 6 of 8 hosts, without gpu1, gpu5"]
    );
    assert_eq!(infiniband("ib", &text, 2, ASSUMED).unwrap().nodes.len(), 8);
}

#[test]
fn swapped_adapters_are_on_the_rails_of_their_leaves_and_are_named() {
    let text = rails(|host, rail| {
        let (name, rate, at) = gpu(host, rail);
        (name, rate, if host == 6 && rail < 2 { 1 - at } else { at })
    });
    let hosts = rail_hosts("ib", &text).unwrap();
    let adapters = hosts.hosts[6]
        .adapters
        .iter()
        .flatten()
        .map(|adapter| adapter.name.as_str());
    assert_eq!(
        adapters.collect::<Vec<_>>(),
        ["mlx5_3", "mlx5_0", "mlx5_10"]
    );
    assert_eq!(hosts.warnings.len(), 1);
    assert!(
        hosts.warnings[0].starts_with("2 adapters are on leaves of another rail")
            && hosts.warnings[0]
                .ends_with("gpu6 mlx5_0 on leaf-1-1 of rail 2, gpu6 mlx5_3 on leaf-1-0 of rail 1"),
        "{:?}",
        hosts.warnings
    );
}

#[test]
fn degraded_links_and_odd_widths_are_warnings_that_name_them() {
    let text = rails(|host, rail| {
        let (name, rate, at) = gpu(host, rail);
        let rate = match (host, rail) {
            (2, 0) => "4xDDR",
            (3, 1) => "1xNDR",
            (4, 2) => "8xHDR",
            _ => rate,
        };
        (name, rate, at)
    });
    let warnings = infiniband("ib", &text, 1, ASSUMED).unwrap().warnings;
    assert_eq!(
        warnings,
        [
            "degraded: 2 links of hosts are not 4xNDR as most are: gpu2 mlx5_0 (4xDDR), gpu3 mlx5_3 (1xNDR)",
            "odd widths: 1 links of hosts are not 4xNDR as most are: gpu4 mlx5_10 (8xHDR)",
        ]
    );
}

#[test]
fn second_ports_are_rails_of_their_own() {
    let mut text = String::new();
    for leaf in 1..3 {
        text += &format!("Switch 36 \"S-{leaf}\" # \"leaf{leaf}\" lid 1\n");
        for node in ["a", "b"] {
            text += &format!("[{leaf}] \"H-{node}\"[{leaf}](9) # \"{node} HCA-1\" lid 4 4xHDR\n");
        }
    }
    for node in ["a", "b"] {
        text += &format!("Ca 2 \"H-{node}\" # \"{node} HCA-1\"\n");
        for leaf in 1..3 {
            text += &format!("[{leaf}](9) \"S-{leaf}\"[1] # lid 4 lmc 0 \"leaf\" lid 1 4xHDR\n");
        }
    }
    let hosts = rail_hosts("ib", &text).unwrap();
    assert_eq!(hosts.rails, 2);
    for host in &hosts.hosts {
        let adapters = host
            .adapters
            .iter()
            .flatten()
            .map(|a| format!("{}@{}", a.name, a.leaf));
        assert_eq!(
            adapters.collect::<Vec<_>>(),
            ["HCA-1/1@leaf1", "HCA-1/2@leaf2"]
        );
    }
    let shape = infiniband("ib", &text, 2, ASSUMED).unwrap();
    assert_eq!(places(&shape), "a@0 b@1");
}

/// The form of the example in the manual page: grouped, with default descriptions, and two switches
/// that both have hosts and are linked twice.
const GROUPED: &str = "#\n# Topology file: generated on Tue\n#\n# Max of 3 hops discovered\n\nChassis 1 (guid 0x8f10400410015)\n\nNon-Chassis Nodes\n\nvendid=0x8f1\nswitchguid=0x1(1)\nSwitch  24 \"S-1\"         # \"ISR9024 Voltaire\" base port 0 lid 6 lmc 0\n[22]    \"H-1\"[1](11)         # \"MT23108 InfiniHost Mellanox Technologies\" lid 4 4xSDR\n[10]    \"S-2\"[1]         # \"SW-6IB4 Voltaire\" lid 3 4xSDR\n[6][ext 3]     \"S-2\"[3]         # \"SW-6IB4 Voltaire\" lid 3 4xSDR\n\nSwitch  8 \"S-2\"          # \"SW-6IB4 Voltaire\" base port 0 lid 3 lmc 0\n[6]     \"H-2\"[1](21)         # \"MT23108 InfiniHost Mellanox Technologies\" lid 16 4xSDR\n[1]     \"S-1\"[10]                # \"ISR9024 Voltaire\" lid 6 1xSDR\n[3]     \"S-1\"[6]         # \"ISR9024 Voltaire\" lid 6 4xSDR\n\ncaguid=0x1\nCa      2 \"H-1\"          # \"MT23108 InfiniHost Mellanox Technologies\"\n[1](11)     \"S-1\"[22]         # lid 4 lmc 1 \"ISR9024 Voltaire\" lid 6 4xSDR\n\ncaguid=0x2\nCa      2 \"H-2\"          # \"MT23108 InfiniHost Mellanox Technologies\"\n[1](21)     \"S-2\"[6]         # lid 16 lmc 1 \"SW-6IB4 Voltaire\" lid 3 4xSDR\n";

#[test]
fn the_grouped_form_of_the_manual_is_two_linked_switches_with_hosts_named_by_guid() {
    let shape = infiniband("ib", GROUPED, 1, ASSUMED).unwrap();
    let ShapeFabric::Dragonfly {
        groups,
        switches,
        local,
        ..
    } = shape.fabric
    else {
        unreachable!("a group of switches");
    };
    assert_eq!((groups, switches, local), (1, 2, 1.25));
    assert_eq!(places(&shape), "ca-1@0 ca-2@1");
    assert!(
        shape
            .assumptions
            .iter()
            .any(|text| text.contains("named by its GUID"))
    );
}

#[test]
fn parts_that_no_switch_joins_are_read_with_a_warning() {
    let text = listing();
    let start = text.find("\nSwitch 36 \"S-2\"").unwrap();
    let end = text.find("caguid").unwrap();
    let without: String = [&text[..start], "\n", &text[end..]]
        .concat()
        .lines()
        .filter(|line| !line.contains("\"spine\""))
        .map(|line| format!("{line}\n"))
        .collect();
    let shape = infiniband("ib", &without, 1, ASSUMED).unwrap();
    assert_eq!(levels(&shape), [(2, 1, 12.5), (2, 1, 25.0)]);
    assert!(
        shape.warnings[0].contains("no switch of the listing joins 2 parts"),
        "{:?}",
        shape.warnings
    );
}

#[test]
fn a_single_host_on_a_spine_is_left_out() {
    let manager = "[36] \"H-m\"[1](9) # \"manager HCA-1\" lid 4 4xHDR\n";
    let text = listing().replacen(
        "\"spine 2\" lid 5\n",
        &format!("\"spine 2\" lid 5\n{manager}"),
        1,
    ) + "Ca 1 \"H-m\" # \"manager HCA-1\"\n[1](9) \"S-2\"[36] # lid 4 lmc 0 \"spine\" lid 1 4xEDR\n";
    let more: String = (0..8)
        .map(|n| {
            format!("Ca 1 \"H-x{n}\" # \"x{n} HCA-1\"\n[1](9) \"S-0\"[2{n}] # lid 4 lmc 0 \"leaf\" lid 1 4xEDR\n")
        })
        .collect();
    let shape = infiniband("ib", &(text + &more), 1, ASSUMED).unwrap();
    assert_eq!((levels(&shape).len(), shape.nodes.len()), (2, 12));
    assert!(
        shape.skipped[0].contains("switches above leaves: manager HCA-1"),
        "{:?}",
        shape.skipped
    );
    assert!(
        shape
            .warnings
            .iter()
            .any(|text| text.contains("8 links are listed at one end only"))
    );
}

#[test]
fn other_texts_and_fabrics_that_are_no_fat_tree_are_rejected() {
    let rejection = |text: &str| infiniband("ib", text, 1, ASSUMED).unwrap_err().to_string();
    assert!(rejection(&(listing() + "oops\n")).contains("'oops' is not a Switch"));
    assert!(rejection(&listing().replace("4xHDR", "4xABC")).contains("or a port"));
    assert!(
        rejection(&listing().replace("\"S-3\"[0]", "\"S-9\"[0]")).contains("'S-9' is not a node")
    );
    let ring = listing().replacen(
        "[32]\t\"S-2\"[0]",
        "[35]\t\"S-1\"[9] # \"leaf\" lid 2 4xHDR\n[32]\t\"S-2\"[0]",
        1,
    );
    assert!(
        rejection(&ring).contains("not a fat tree"),
        "{}",
        rejection(&ring)
    );
    assert!(rejection("").contains("no host"));
    let mut chain =
        "Ca 1 \"H-0\" # \"n0 HCA-1\"\n[1](9) \"S-0\"[1] # lid 1 lmc 0 \"s\" lid 1 4xEDR\n"
            .to_owned();
    for switch in 0..50 {
        chain += &format!("Switch 36 \"S-{switch}\" # \"s{switch}\" lid 1\n");
        if switch < 49 {
            chain += &format!("[1] \"S-{}\"[2] # \"s\" lid 1 4xEDR\n", switch + 1);
        }
    }
    assert!(
        rejection(&chain).contains("more than 8 levels"),
        "{}",
        rejection(&chain)
    );
}

#[test]
fn names_sort_as_people_sort_them() {
    let mut names = ["mlx5_10", "n2", "mlx5_9", "n10", "7", "n1b"];
    names.sort_by_key(|name| natural(name));
    assert_eq!(names, ["7", "mlx5_9", "mlx5_10", "n1b", "n2", "n10"]);
}

//! Inputs in the form of published ones, with other names: each is read, or rejected with the reason.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use fgr::config::{NodeRole, Site};
use fgr::hosts;
use fgr::import::{Assumed, Shape, dragonfly, infiniband, slurm};

const ASSUMED: Assumed = Assumed {
    capacity: 25.0,
    links_per_pair: 1,
};

fn names(shape: &Shape) -> String {
    let names: Vec<&str> = shape.nodes.iter().map(|node| node.name.as_str()).collect();
    names.join(" ")
}

/// The form of the example in the documentation of an operator that runs Slurm in Kubernetes.
#[test]
fn slurm_three_topologies_of_a_cluster() {
    let text = "---\n- topology: topo-switch\n  cluster_default: true\n  tree:\n    switches:\n      \
                - switch: sw_root\n        children: s[1-2]\n      - switch: s1\n        nodes: node[1-2]\n      \
                - switch: s2\n        nodes: node[3-4]\n- topology: topo-block\n  cluster_default: false\n  block:\n    \
                block_sizes:\n      - 2\n      - 4\n    blocks:\n      - block: b1\n        nodes: node[1-2]\n      \
                - block: b2\n        nodes: node[3-4]\n- topology: topo-flat\n  cluster_default: false\n  flat: true\n";
    let shape = slurm("topology.yaml", text, ASSUMED).unwrap();
    assert_eq!(names(&shape), "node1 node2 node3 node4");
    assert!(
        shape.skipped[0].ends_with("topo-block, topo-flat"),
        "{:?}",
        shape.skipped
    );
}

/// The file that a fabric's aggregation tool writes for machines in a cloud: GUIDs in place of names.
#[test]
fn slurm_switches_with_guids_as_nodes() {
    let text = "# top of rack\nSwitchName=ibsw1 Nodes=0x155dfffd341acb,0x155dfffd341b0b\n\
                SwitchName=ibsw2 Nodes=0x155dfffd341c01\nSwitchName=ibsw3 Switches=ibsw1,ibsw2\n";
    let shape = slurm("topology.txt", text, ASSUMED).unwrap();
    assert_eq!(
        names(&shape),
        "0x155dfffd341acb 0x155dfffd341b0b 0x155dfffd341c01"
    );
}

/// A switch of a mixed fabric as a fabric manager's tests have one: an older switch beside it, two
/// adapters of one host, an aggregation node.
#[test]
fn ibnetdiscover_a_mixed_fabric_with_an_aggregation_node() {
    let text = "vendid=0x2c9\ndevid=0xd2f0\nsysimgguid=0xb8\nswitchguid=0xb8(b8)\n\
                Switch 41 \"S-b8\" # \"MF0;fm-sw95:MQM8700/U1\" enhanced port 0 lid 13 lmc 0\n\
                [3] \"S-b0\"[1] # \"MF0;fm-sw226:SX6036/U1\" lid 19 4xFDR\n\
                [23] \"H-0a\"[1](0a) # \"rack96 HCA-1\" lid 9 4xEDR\n\
                [24] \"H-0b\"[1](0b) # \"rack96 HCA-2\" lid 28 4xEDR\n\
                [41] \"H-ec\"[1](ec) # \"Mellanox Technologies Aggregation Node\" lid 14 4xHDR\n\
                Switch 36 \"S-b0\" # \"MF0;fm-sw226:SX6036/U1\" enhanced port 0 lid 19 lmc 0\n\
                [1] \"S-b8\"[3] # \"MF0;fm-sw95:MQM8700/U1\" lid 13 4xFDR\n\
                Ca 1 \"H-0a\" # \"rack96 HCA-1\"\n[1](0a) \"S-b8\"[23] # lid 9 lmc 0 \"MF0;fm-sw95:MQM8700/U1\" lid 13 4xEDR\n\
                Ca 1 \"H-0b\" # \"rack96 HCA-2\"\n[1](0b) \"S-b8\"[24] # lid 28 lmc 0 \"MF0;fm-sw95:MQM8700/U1\" lid 13 4xEDR\n\
                Ca 1 \"H-ec\" # \"Mellanox Technologies Aggregation Node\"\n[1](ec) \"S-b8\"[41] # lid 14 lmc 0 \"sw\" lid 13 4xHDR\n";
    for rail in 1..3 {
        let shape = infiniband("ib", text, rail, ASSUMED).unwrap();
        assert_eq!(names(&shape), "rack96");
        assert!(shape.skipped[0].starts_with("1 adapters, because they are aggregation nodes"));
    }
}

/// `lnetctl net show` of a storage node in a tutorial, written to /etc/lnet.conf.
#[test]
fn lnet_conf_that_a_command_printed() {
    let text = "net:\n    - net type: tcp\n      local NI(s):\n        - nid: 192.0.2.11@tcp\n          status: up\n          \
                interfaces:\n              0: enp0s8\n";
    let config = lnet_config::parse(text).unwrap();
    let site = Site::from_nodes([("io1".to_owned(), config)], |_| false);
    assert_eq!(site.classes[0].role, NodeRole::Client);
    // A type of net that nobody knows is rejected by its name; that of cloud machines is known.
    lnet_config::parse(&text.replace("tcp", "efa")).unwrap();
    let error = lnet_config::parse(&text.replace("tcp", "quadrics9x"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("quadrics9x"), "{error}");
}

#[test]
fn host_lists_of_slurm_and_of_other_tools() {
    assert_eq!(hosts("tux[0-3,12,18-20]").unwrap().len(), 8);
    assert_eq!(hosts("x1000c[0-1]s[0-7]b[0-1]n[0-1]").unwrap().len(), 64);
    assert_eq!(hosts("nid[001000-001003]").unwrap()[3], "nid001003");
    // Steps, as other tools write them, and groups are no part of Slurm's lists.
    let error = hosts("node[1-10/2]").unwrap_err().to_string();
    assert!(
        error.contains("'1-10/2' is not a number or a range"),
        "{error}"
    );
}

/// Nodes and switches of a Slingshot machine by the names of their places.
#[test]
fn slingshot_places_are_read_and_a_table_of_cables_is_rejected_with_the_accepted_headers() {
    let list = "node,switch\nx1000c0s0b0n0,x1000c0r3b0\nx1000c0s0b0n1,x1000c0r7b0\nx3000c0s1b0n0,x3000c0r39b0\n";
    let shape = dragonfly("nodes.csv", list, ASSUMED).unwrap();
    assert_eq!(shape.nodes[1].at, [0, 1]);
    assert_eq!(shape.nodes[2].at, [1, 0]);
    let cables = "cable_id,src_conn_a,src_conn_b,dst_conn_a,dst_conn_b\n1,x1000c0r3j10,x1000c0r3j10,x1001c0r3j10,x1001c0r3j10\n";
    let error = dragonfly("cables.csv", cables, ASSUMED)
        .unwrap_err()
        .to_string();
    assert!(error.contains("node,group,switch"), "{error}");
}

//! The meaning of documents.

use crate::{Buffers, Config, Globals, LndTunables, NiConfig, RouteConfig, Tunables, parse};

fn config(source: &str) -> Config {
    parse(source).unwrap_or_else(|error| panic!("{}", error.render("test")))
}

/// The only interface of the only network.
fn ni(source: &str) -> NiConfig {
    let mut config = config(source);
    assert_eq!((config.nets.len(), config.nets[0].nis.len()), (1, 1));
    config.nets[0].nis.remove(0)
}

const CLIENT: &str = r#"
# two-rail client, one remote fabric
net:
    - net type: tcp
      local NI(s):
        - interfaces:
              0: eth0
          tunables:
              peer_timeout: 180
              peer_credits: 8
              peer_buffer_credits: 0
              credits: 256
          CPT: "[0,1]"
        - interfaces:
              0: eth1
    - net type: o2ib1
      local NI(s):
        - interfaces:
              0: ib0
          lnd tunables:
              conns_per_peer: 4
              map_on_demand: 1
route:
    - net: o2ib9
      gateway: 10.20.0.[1-2]@o2ib1
      hop: 1
      priority: 2
peer:
    - primary nid: 10.20.0.50@o2ib1
      Multi-Rail: True
      peer ni:
        - nid: 10.20.0.50@o2ib1
        - nid: 10.30.0.50@tcp
global:
    retry_count: 3
    health_sensitivity: 50
    transaction_timeout: 120
    response_tracking: 3
numa:
    range: 1
"#;

#[test]
fn every_section_is_read() {
    let config = config(CLIENT);
    let tcp = &config.nets[0].nis;
    assert_eq!(tcp[0].interfaces, ["eth0"]);
    assert_eq!(tcp[0].cpts, [0, 1]);
    assert_eq!(tcp[0].tunables.credits, Some(256));
    assert_eq!(tcp[0].tunables.peer_buffer_credits, Some(0));
    assert_eq!(tcp[1].tunables, Tunables::default());
    assert_eq!(config.nets[1].nis[0].lnd_tunables.conns_per_peer, Some(4));
    assert_eq!(config.peers[0].nids.len(), 2);
    assert!(config.peers[0].multi_rail);
    assert_eq!(
        config.globals,
        Globals {
            retry_count: Some(3),
            health_sensitivity: Some(50),
            transaction_timeout: Some(120),
            response_tracking: Some(3),
            numa_range: Some(1),
            ..Globals::default()
        }
    );
}

#[test]
fn gateway_lists_expand_to_one_route_each() {
    let expected = ["10.20.0.1@o2ib1", "10.20.0.2@o2ib1"].map(|gateway| RouteConfig {
        net: "o2ib9".parse().unwrap(),
        gateway: gateway.parse().unwrap(),
        hop: Some(1),
        priority: 2,
    });
    assert_eq!(config(CLIENT).routes, expected);
}

#[test]
fn settings_of_other_lnds_are_kept_as_text() {
    let other = &config(CLIENT).nets[1].nis[0].lnd_tunables.other;
    assert_eq!(other.get("map_on_demand").map(String::as_str), Some("1"));
}

#[test]
fn router_sections_are_read_from_the_map_and_from_the_list_that_show_prints() {
    let expected = Buffers {
        tiny: Some(2048),
        small: Some(16384),
        large: Some(1024),
    };
    let buffers = "buffers: {tiny: 2048, small: 16384, large: 1024}";
    let map = config(&format!("routing:\n    enable: 1\n{buffers}\n"));
    let list = config(&format!(
        "routing:\n    - cpt[0]:\n          tiny:\n              npages: 0\n    - enable: 1\n{buffers}\n"
    ));
    assert_eq!((map.routing, map.buffers), (Some(true), expected));
    assert_eq!(map, list);
}

#[test]
fn minus_one_is_the_default() {
    let ni = ni("net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp,
        tunables: {peer_timeout: -1, peer_credits: -1, peer_buffer_credits: -1, credits: -1},
        lnd tunables: {conns_per_peer: -1, tos: -1, timeout: -1}}]}]");
    assert_eq!(ni.tunables, Tunables::default());
    assert_eq!(ni.lnd_tunables, LndTunables::default());
}

#[test]
fn tunables_of_the_net_hold_where_the_interface_sets_none() {
    let ni = ni(
        "net: [{net type: tcp, tunables: {credits: 64, peer_credits: 4},
        lnd tunables: {tos: 8}, local NI(s): [{nid: 10.0.0.1@tcp, tunables: {credits: 32}}]}]",
    );
    assert_eq!(
        (ni.tunables.credits, ni.tunables.peer_credits),
        (Some(32), Some(4))
    );
    assert_eq!(ni.lnd_tunables.tos, Some(8));
}

#[test]
fn cpt_is_a_quoted_list_or_a_yaml_list() {
    for cpt in ["\"[0,2-3]\"", "[0,2-3]", "\"[3,0,2]\"", "\"[0,2,2-3]\""] {
        let source = format!(
            "net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {{0: eth0}}\n    CPT: {cpt}\n"
        );
        assert_eq!(ni(&source).cpts, [0, 2, 3], "{cpt}");
    }
}

#[test]
fn several_interfaces_may_stand_in_one_item() {
    let ni = ni("net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0, 1: eth1}}]}]");
    assert_eq!(ni.interfaces, ["eth0", "eth1"]);
}

#[test]
fn one_interface_may_carry_two_nids() {
    let config = config(
        "net: [{net type: tcp, local NI(s): [{nid: fd00::1@tcp, interfaces: {0: eth0}},
        {nid: 10.0.0.1@tcp, interfaces: {0: eth0}}]}]",
    );
    assert_eq!(config.nets[0].nis.len(), 2);
}

// [CONF-42]
#[test]
fn parameters_are_taken_outside_their_section_and_by_alias() {
    let config = config("retry_count: 1\nglobal: {max_intf: 300, discovery: 2, lnd_timeout: 9}\n");
    assert_eq!(
        config.globals,
        Globals {
            retry_count: Some(1),
            max_interfaces: Some(300),
            discovery: Some(true),
            ..Globals::default()
        }
    );
}

#[test]
fn primary_nid_is_first_wherever_the_list_has_it() {
    for nis in [
        "",
        "peer ni: [{nid: 5@gni}]",
        "peer ni: [{nid: 4@gni}, {nid: 5@gni}]",
    ] {
        let config = config(&format!("peer: [{{primary nid: 5@gni, {nis}}}]"));
        assert_eq!(config.peers[0].nids[0].to_string(), "5@gni", "{nis}");
    }
}

#[test]
fn peers_of_repeated_sections_add_up() {
    let config = config("peer: [{primary nid: 4@gni}]\npeer: [{primary nid: 5@gni}]\n");
    assert_eq!(config.peers.len(), 2);
}

#[test]
fn routes_without_local_networks_are_a_part_of_a_configuration() {
    let config = config("route: [{net: tcp5, gateway: 10.1.0.3@tcp}]");
    assert_eq!((config.routes[0].hop, config.routes[0].priority), (None, 0));
}

#[test]
fn an_empty_document_sets_nothing() {
    for source in [
        "",
        "# nothing\n",
        "---\n...\n",
        "net:\nroute:\npeer:\nglobal:\n",
    ] {
        assert_eq!(config(source), Config::default(), "{source:?}");
    }
}

#[test]
fn all_indentations_and_line_ends_are_read() {
    for source in [
        "net:\n-     net type: tcp\n      local NI(s):\n      -     nid: 10.1.0.1@tcp\n",
        "net:\n    - net type: tcp\n      local NI(s):\n        - nid: 10.1.0.1@tcp\n",
        "net:\n- net type: tcp\n  local NI(s):\n  - nid: 10.1.0.1@tcp\n",
        "\u{FEFF}net:\r\n- net type: tcp\r\n  local NI(s):\r\n  - nid: 10.1.0.1@tcp\r\n",
        "---\nnet:\n-     net type: tcp\n      local NI(s):\n      -     nid: 10.1.0.1@tcp\n...\n",
    ] {
        assert_eq!(
            ni(source).nid,
            Some("10.1.0.1@tcp".parse().unwrap()),
            "{source}"
        );
    }
}

/// The outputs of kernel nodes, if they are available.
fn outputs(file: &str) -> Option<String> {
    let path = testkit::shared_data(format!("lnetctl/{file}"))?;
    Some(std::fs::read_to_string(path).unwrap())
}

/// The outputs of `command`, one for each run.
fn printed<'a>(outputs: &'a str, command: &str) -> Vec<&'a str> {
    let blocks = outputs.split("\n### ").filter(|block| {
        block
            .lines()
            .next()
            .is_some_and(|first| first.ends_with(&format!("# lnetctl {command}")))
    });
    blocks
        .filter_map(|block| {
            block
                .split_once('\n')?
                .1
                .split_once("[rc=")
                .map(|parts| parts.0)
        })
        .collect()
}

// [CONF-3]
#[test]
fn exports_of_kernel_nodes_are_read() {
    let Some(outputs) = outputs("e-show-export.txt") else {
        return;
    };
    let export = config(printed(&outputs, "export")[0]);
    let backup = config(printed(&outputs, "export --backup")[0]);
    assert_eq!(
        export.nets[0].nis[0].nid,
        Some("10.1.0.1@tcp".parse().unwrap())
    );
    assert_eq!(backup.nets[0].nis[0].nid, None);
    assert_eq!(
        export.nets[1].nis[0].lnd_tunables,
        backup.nets[1].nis[0].lnd_tunables
    );
    assert_eq!(export.peers, backup.peers);
    assert_eq!(export.routes, backup.routes);
    assert_eq!(export.globals, backup.globals);
    assert_eq!(export.globals.transaction_timeout, Some(150));
}

#[test]
fn every_show_of_kernel_nodes_is_read() {
    let mut count = 0;
    for file in [
        "a-ping.txt",
        "b-discover.txt",
        "d-routed.txt",
        "e-show-export.txt",
        "g1-health.txt",
    ] {
        let Some(outputs) = outputs(file) else { return };
        for entity in ["net", "route", "peer", "global", "routing"] {
            for level in ["", " -v", " -v 1", " -v 2", " -v 3", " -v 4"] {
                for text in printed(&outputs, &format!("{entity} show{level}")) {
                    config(text);
                    count += 1;
                }
            }
        }
    }
    assert!(count >= 25, "only {count} outputs were found");
}

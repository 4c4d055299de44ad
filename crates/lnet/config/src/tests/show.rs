//! The outputs of nodes: verbosities, exports, values, and outputs of other versions.

use lnet_policy::{Priority, Profile};

use super::reference::outputs;
use crate::{
    DIFFERENCES, Document, PeerShow, Reply, RouteType, Status, UdspAction, UdspEntry, Verbosity,
    parse, read,
};

fn document(source: &str) -> Document {
    let reading = read(source).unwrap_or_else(|error| panic!("{}", error.render("test")));
    assert_eq!(reading.warnings, []);
    reading.document
}

/// The output of `command` at its first run, in the file of all outputs.
fn printed(command: &str) -> Option<String> {
    let outputs = outputs("e-show-export.txt")?;
    let block = outputs.split("\n### ").find(|block| {
        let first = block.lines().next();
        first.is_some_and(|first| first.ends_with(&format!("# lnetctl {command}")))
    });
    let (_, text) = block.unwrap().split_once('\n').unwrap();
    Some(text.split_once("[rc=").unwrap().0.to_owned())
}

#[test]
fn each_verbosity_is_a_part_of_the_next() {
    for entity in ["net", "peer"] {
        let Some(all) = printed(&format!("{entity} show -v 4")) else {
            return;
        };
        for level in 0..=4 {
            let command = match level {
                0 => format!("{entity} show"),
                // The outputs have `-v 1` of networks only as `-v`.
                1 if entity == "net" => "net show -v".to_owned(),
                _ => format!("{entity} show -v {level}"),
            };
            let limited = document(&all).limited(Verbosity::new(level));
            assert_eq!(limited.to_yaml(), printed(&command).unwrap(), "{command}");
        }
    }
}

#[test]
fn peers_printed_one_by_one_make_the_list() {
    let Some(all) = printed("peer show -v 4") else {
        return;
    };
    let items = document(&all).peers;
    let items: String = items.iter().map(PeerShow::to_yaml_item).collect();
    assert_eq!(format!("peer:\n{items}"), all);
}

#[test]
fn route_details_are_for_verbosity_1() {
    let Some(all) = printed("route show -v 4") else {
        return;
    };
    let limited = document(&all).limited(Verbosity::Names);
    assert_eq!(limited.to_yaml(), printed("route show").unwrap());
    assert_eq!(document(&all).limited(Verbosity::Counts).to_yaml(), all);
}

#[test]
fn an_export_is_what_the_shows_have_together() {
    let Some(export) = printed("export") else {
        return;
    };
    let shown = |command: &str| document(&printed(command).unwrap());
    let all = Document {
        nets: shown("net show -v 4").nets,
        routes: shown("route show -v 4").routes,
        peers: shown("peer show -v 4").peers,
        globals: shown("global show").globals,
        derived: shown("global show").derived,
        ..Document::default()
    };
    assert_eq!(all.exported().to_yaml(), export);
}

#[test]
fn a_backup_is_the_part_of_an_export_that_can_be_imported() {
    let Some(export) = printed("export") else {
        return;
    };
    let backup = printed("export --backup").unwrap();
    assert_eq!(document(&export).backup().to_yaml(), backup);
    assert_eq!(document(&backup).backup().to_yaml(), backup);
}

#[test]
fn what_was_observed_is_typed() {
    let Some(nets) = printed("net show -v 4") else {
        return;
    };
    let nets = document(&nets).nets;
    let ni = &nets[1].nis[0];
    assert_eq!(ni.status, Some(Status::Up));
    assert_eq!(ni.statistics.unwrap().send_count, 2);
    assert_eq!((ni.sent.unwrap().put, ni.received.unwrap().ack), (1, 1));
    assert_eq!(ni.health.unwrap().health_value, 1000);
    assert_eq!(ni.udsp.as_ref().unwrap().net_priority, None);
    assert_eq!(
        (ni.dev_cpt, ni.config.cpts.as_slice()),
        (Some(-1), &[0][..])
    );
    assert_eq!(ni.config.lnd_tunables.tos, None);

    let peers = document(&printed("peer show -v 4").unwrap()).peers;
    assert_eq!(peers[0].state, Some(273));
    let gateway = &peers[1].nis[0];
    assert_eq!(gateway.state, Some(Status::Down));
    assert_eq!(gateway.credits.unwrap().max_tx, 8);
    assert_eq!(gateway.health.unwrap().health_value, 999);

    let route = document(&printed("route show -v").unwrap()).routes[0];
    assert_eq!(route.kind, Some(RouteType::MultiHop));
    assert_eq!((route.hop, route.priority), (Some(1), Some(2)));
}

#[test]
fn unknown_keys_are_passed_over_with_a_warning_that_says_where() {
    let source = "\
net:
-     net type: tcp
      local NI(s):
      -     nid: 10.1.0.1@tcp
            statistics:
                  send_count: 2
                  put_egress_median: 7
future:
      of: lnet
";
    let reading = read(source).unwrap();
    let places: Vec<_> = reading
        .warnings
        .iter()
        .map(|w| (w.line(), w.column()))
        .collect();
    assert_eq!(places, [(7, 19), (8, 1)]);
    let statistics = reading.document.nets[0].nis[0].statistics.unwrap();
    assert_eq!(statistics.send_count, 2);
    insta::assert_snapshot!(reading.warnings[0].render_warning("export.yaml"), @r#"
    warning: unknown key 'put_egress_median' is ignored
     --> export.yaml:7:19
      |
    7 |                   put_egress_median: 7
      |                   ^^^^^^^^^^^^^^^^^ its value is ignored
    "#);
}

#[test]
fn warnings_are_limited_and_the_rest_is_counted() {
    let source: String = (0..500).map(|index| format!("k{index}: 0\n")).collect();
    let reading = read(&source).unwrap();
    assert_eq!((reading.warnings.len(), reading.more_warnings), (100, 400));
}

#[test]
fn the_layout_of_older_nodes_is_read() {
    let classic = "\
net:
    - net type: lo
      local NI(s):
        - nid: 0@lo
          status: up
          udsp info:
              net priority: -1
              nid priority: 4
              Preferred gateway NIDs:
                  NID-0: 10.1.0.9@tcp
          lnd tunables:
";
    let ni = &document(classic).nets[0].nis[0];
    let info = ni.udsp.as_ref().unwrap();
    assert_eq!((info.net_priority, info.nid_priority), (None, Some(4)));
    assert_eq!(info.gateways[0].to_string(), "10.1.0.9@tcp");

    let ping = "ping:\n    - primary nid: 10.1.0.1@tcp\n      Multi-Rail: False\n      \
                peer ni:\n        - nid: 10.1.0.1@tcp\n        - nid: 10.2.0.1@tcp1\n";
    let [Reply::Ping(peers)] = &document(ping).replies[..] else {
        panic!("no answer was read");
    };
    assert_eq!((peers[0].multi_rail, peers[0].nids.len()), (false, 2));
}

#[test]
fn what_newer_nodes_leave_out_is_read_as_what_older_ones_print_as_na() {
    let older = "udsp:\n    - idx: 0\n      src: tcp\n      dst: NA\n      rte: NA\n";
    let newer = "udsp:\n    - idx: 0\n      src: tcp\n";
    assert_eq!(document(older), document(newer));
    assert_eq!(document(newer).to_yaml(), older);
}

#[test]
fn an_update_of_node_counters_is_read_with_the_keys_of_2_17() {
    let source = "statistics:\n    network_timeout_count: 0\n    failed_resends: 1\n    \
                  successful_resends: 2\n    recv_count: 3\n";
    let statistics = document(source).statistics.unwrap();
    assert_eq!(statistics.failed_resends, Some(1));
    assert!(
        document(source)
            .to_yaml()
            .contains("    failed_resends: 1\n")
    );
}

#[test]
fn recovery_queues_are_read_and_printed() {
    for name in ["Local", "Peer"] {
        let source = format!("{name} NI recovery:\n      nid-0: 10.2.0.1@tcp1\n");
        assert_eq!(document(&source).to_yaml(), source);
    }
}

#[test]
fn rules_without_effect_are_shown_and_told_apart() {
    let source = "\
udsp:
    - idx: 0
      src: tcp
      priority: 0
    - idx: 1
      rte: 10.1.0.3@tcp
      priority: 7
    - idx: 2
      src: 10.1.0.[5-1]@tcp
    - idx: 3
      src: tcp[0-4294967295]
      priority: 3
";
    let document = document(source);
    let (config, dead) = document.config();
    let indices: Vec<_> = dead.iter().map(|dead| dead.index).collect();
    assert_eq!(indices, [1, 2]);
    let rules: Vec<_> = config
        .rules
        .rules()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(rules, ["--src tcp --priority 0", "--src tcp* --priority 3"]);
    assert!(parse(source).is_err());
}

#[test]
fn descriptors_are_rendered_as_kernels_render_them() {
    let rendered = |source: &str| {
        let entry = UdspEntry {
            src: Some(source.to_owned()),
            ..UdspEntry::default()
        };
        UdspEntry::new(0, &entry.rule(Profile::Design).unwrap())
            .src
            .unwrap()
    };
    assert_eq!(rendered("10.1.0.*@tcp"), "10.1.0.[0-255]@tcp");
    assert_eq!(rendered("10.1.0.[2-4/2]@tcp1"), "10.1.0.[2-4/2]@tcp1");
    assert_eq!(rendered("10.1.0.[*,3]@tcp"), "10.1.0.[0-255,3]@tcp");
    assert_eq!(rendered("10.1.[1,3-5].1@tcp"), "10.1.[1,3-5].1@tcp");
    assert_eq!(rendered("5@gni"), "5@gni");
    assert_eq!(rendered("tcp*"), "tcp*");
}

/// The rules of an import of `entries` that take effect.
fn imported(entries: &str) -> Vec<String> {
    let config = parse(&format!("udsp:\n{entries}")).unwrap();
    config
        .rules
        .rules()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn q_21_priority_0_is_the_best_priority() {
    let config = parse("udsp: [{src: tcp, action: {priority: 0}}]").unwrap();
    assert_eq!(config.rules.rules()[0].priority(), Priority::BEST);
}

#[test]
fn q_22_an_entry_without_idx_goes_to_the_end() {
    assert_eq!(
        imported("- {src: tcp, idx: 5}\n- {src: o2ib}\n- {idx: 0, src: gni}\n"),
        [
            "--src gni --priority 0",
            "--src tcp --priority 0",
            "--src o2ib --priority 0"
        ]
    );
}

#[test]
fn q_23_an_entry_without_priority_has_the_action_of_its_descriptors() {
    assert_eq!(
        imported(
            "- {idx: 0, src: 10.0.0.1@tcp, dst: 10.0.0.2@tcp}\n- {idx: 1, dst: tcp5, rte: 10.0.0.3@tcp}\n"
        ),
        [
            "--src 10.0.0.1@tcp --dst 10.0.0.2@tcp",
            "--dst tcp5 --rte 10.0.0.3@tcp"
        ]
    );
}

#[test]
fn q_24_a_priority_is_that_of_its_own_entry() {
    assert_eq!(
        imported("- {idx: 0, src: tcp, priority: 7}\n- {idx: 1, src: o2ib}\n"),
        ["--src tcp --priority 7", "--src o2ib --priority 0"]
    );
}

#[test]
fn actions_are_read_in_all_their_forms() {
    for action in [
        "priority: 4",
        "action: {priority: 4}",
        "action: [{priority: 4}]",
    ] {
        assert_eq!(
            imported(&format!("- src: tcp\n  {action}\n")),
            ["--src tcp --priority 4"]
        );
    }
    let document = document("udsp: [{src: 1@gni, dst: 2@gni, action: preferred}]");
    assert_eq!(document.udsp[0].action, Some(UdspAction::Preferred));
}

#[test]
fn every_difference_has_a_name_of_its_own_and_a_reason() {
    let mut codes: Vec<_> = DIFFERENCES
        .iter()
        .map(|difference| difference.code)
        .collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), DIFFERENCES.len());
    assert!(
        DIFFERENCES
            .iter()
            .all(|difference| !difference.reason.is_empty())
    );
}

/// The keys of 2.17.0: absent descriptors are left out, and a pair
/// without a priority prints the number that stands for none.
#[test]
fn rules_as_2_17_shows_them_are_imported() {
    let shown = "\
udsp:
    - idx: 0
      src: tcp
      action:
          priority: 0
    - idx: 1
      dst: 10.1.0.1@tcp
      action:
          priority: 1
    - idx: 2
      src: 10.1.0.2@tcp
      dst: 10.1.0.1@tcp
      action:
          priority: 4294967295
    - idx: 3
      dst: tcp5
      rte: 10.1.0.9@tcp
";
    let config = crate::parse(shown).unwrap();
    let rules: Vec<String> = config
        .rules
        .rules()
        .iter()
        .map(ToString::to_string)
        .collect();
    let expected = [
        "--src tcp --priority 0",
        "--dst 10.1.0.1@tcp --priority 1",
        "--src 10.1.0.2@tcp --dst 10.1.0.1@tcp",
        "--dst tcp5 --rte 10.1.0.9@tcp",
    ];
    assert_eq!(rules, expected);
    let none = "udsp:\n- src: tcp\n  action:\n    priority: 4294967295\n";
    crate::parse(none).unwrap_err();
}

//! Tests that scenarios are read, and that wrong ones are rejected with a place and a remedy.

use super::*;

const HEAD: &str = "name: x\nsummary: y\n";

fn refusal(body: &str) -> String {
    Scenario::parse(&format!("{HEAD}{body}"))
        .unwrap_err()
        .to_string()
}

const NODES: &str = "\
nodes:
  - { name: a, count: 2, nis: [{ net: o2ib }, { net: o2ib }] }
  - { name: b, nis: [{ net: o2ib }] }
";

#[test]
fn every_builtin_scenario_is_read_and_is_called_what_it_says() {
    for builtin in BUILTIN {
        let scenario = Scenario::parse(builtin.text);
        let scenario = scenario.unwrap_or_else(|error| panic!("{}: {error}", builtin.name));
        assert_eq!(scenario.name, builtin.name);
        assert!(
            builtin.text.starts_with("# "),
            "{} explains itself",
            builtin.name
        );
        assert!(builtin.text.contains("\n# Look at: "));
    }
}

#[test]
fn an_unknown_key_is_refused_with_those_that_are_known() {
    let text = refusal("nods: []\n");
    assert!(text.starts_with("line 3, column 1: "), "{text}");
    assert!(text.contains("nods") && text.contains("traffic"), "{text}");
}

#[test]
fn an_unknown_name_is_refused_with_those_that_are_known() {
    let traffic = "{ from: a, to: c, kind: put, size: 1, every_us: 1, count: 1 }";
    let text = refusal(&format!("{NODES}traffic:\n  - {traffic}\n"));
    let expected = "line 7, column 20: no group of nodes 'c'; groups are: a, b";
    assert_eq!(text, expected);
}

#[test]
fn an_unknown_interface_is_refused_with_those_that_are_known() {
    let text = refusal(&format!(
        "{NODES}faults:\n  - {{ at: 1, until: 2, what: {{ port: a1/2 }} }}\n"
    ));
    let expected = "line 7, column 38: no interface 'a1/2'; interfaces of a1 are a1/0 to a1/1";
    assert_eq!(text, expected);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (body, part) in [
        (
            "globals: { transaction_timeout: 2 }\n",
            "more seconds than resends",
        ),
        ("globals: { health_sensitivity: 0 }\n", "write 1 to 1000"),
        (
            "fabric: { fat_tree: { leaves: 0, spines: 3 } }\n",
            "no switches",
        ),
        (
            "fabric: { dragonfly: { groups: 99999, switches: 99999 } }\n",
            "too many",
        ),
        (
            "nodes: [{ name: a, nis: [] }]\n",
            "with 1 to 254 interfaces",
        ),
        (
            "nodes: [{ name: a, count: 4000000000, nis: [{ net: o2ib }] }]\n",
            "at most 200000 nodes",
        ),
        (
            "nodes: [{ name: a, nis: [{ net: lo }] }]\n",
            "'lo' is not a net",
        ),
        (
            "nodes: [{ name: a, nis: [{ net: tcp, switches: [3] }] }]\n",
            "no switch 3",
        ),
        (
            "nodes: [{ name: a, nis: [{ net: tcp }], rules: [{}] }]\n",
            "this rule is rejected",
        ),
        (
            "nodes: [{ name: a, nis: [{ net: tcp }], routes: [{ net: tcp, gateways: a }] }]\n",
            "no route",
        ),
    ] {
        let text = refusal(body);
        assert!(text.contains(part), "{body}: {text}");
    }
}

#[test]
fn a_fault_that_ends_before_it_begins_is_refused() {
    let text = refusal(&format!(
        "{NODES}faults:\n  - {{ at: 3, until: 2, what: {{ crash: a0 }} }}\n"
    ));
    assert!(text.contains("ends before it begins"), "{text}");
}

#[test]
fn nodes_have_the_addresses_that_their_place_gives_them() {
    let scenario = Scenario::parse(&format!("{HEAD}{NODES}")).unwrap();
    let plan = scenario.plan(1);
    let nids: Vec<Vec<String>> = plan
        .world
        .nodes
        .iter()
        .map(|node| node.nis.iter().map(|ni| ni.nid.to_string()).collect())
        .collect();
    let expected = [
        vec!["10.0.0.1@o2ib", "10.0.0.2@o2ib"],
        vec!["10.0.1.1@o2ib", "10.0.1.2@o2ib"],
        vec!["10.1.0.1@o2ib"],
    ];
    assert_eq!(nids, expected);
}

#[test]
fn another_seed_is_another_plan_and_the_same_one_the_same() {
    let scenario = Scenario::builtin("failing-rail").unwrap();
    let operations = |seed| scenario.plan(seed).operations;
    assert_eq!(operations(1), operations(1));
    assert_ne!(operations(1), operations(2));
}

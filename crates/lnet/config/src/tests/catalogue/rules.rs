//! Rules and routes in documents: the cases T-U and T-R that need no node.

use lnet_policy::{Profile, Rule, RuleList, RuleText};

use super::config_of;
use crate::modprobe::{Dialect, ModuleOptions};
use crate::{Config, Document, UdspEntry};

fn list(rules: &[[Option<&str>; 3]]) -> RuleList {
    let mut list = RuleList::new();
    for &[src, dst, rte] in rules {
        let text = RuleText {
            src,
            dst,
            rte,
            action: None,
        };
        let rule = Rule::from_text(&text, Profile::Design).unwrap();
        list.add(rule, None).unwrap();
    }
    list
}

fn shown(rules: &RuleList) -> String {
    let document = Document {
        udsp: UdspEntry::list(rules),
        ..Document::default()
    };
    document.to_yaml()
}

fn assert_exported_and_imported(rules: RuleList) {
    let config = Config {
        rules,
        ..Config::default()
    };
    let export = Document::from(&config).exported().to_yaml();
    assert_eq!(config_of(&export), config, "{export}");
}

#[test]
fn t_u05_a_rule_is_shown_with_its_index_key_and_priority_and_then_nothing() {
    let texts = [
        (0, "src", "tcp"),
        (0, "src", "10.0.0.1@tcp"),
        (1, "dst", "o2ib"),
        (1, "dst", "5@gni"),
    ];
    for (at, key, text) in texts {
        let mut rules = config_of(&format!("udsp: [{{{key}: {text}, priority: 1}}]")).rules;
        let mut expected = ["NA"; 3];
        expected[at] = text;
        let [src, dst, rte] = expected;
        assert_eq!(
            shown(&rules),
            format!(
                "udsp:\n    - idx: 0\n      src: {src}\n      dst: {dst}\n      rte: {rte}\n      action:\n          priority: 1\n"
            )
        );
        rules.delete(0).unwrap();
        assert_eq!(shown(&rules), "");
    }
}

#[test]
fn t_u07_a_rule_of_priority_0_is_exported_and_imported() {
    let rules = list(&[
        [Some("tcp"), None, None],
        [None, Some("10.0.0.*@tcp"), None],
    ]);
    assert_eq!(shown(&rules).matches("priority: 0\n").count(), 2);
    assert_exported_and_imported(rules);
}

#[test]
fn t_u08_pair_and_router_rules_are_exported_and_imported() {
    assert_exported_and_imported(list(&[
        [Some("10.0.0.1@tcp"), Some("10.0.0.2@tcp"), None],
        [Some("tcp"), Some("o2ib"), None],
        [None, Some("tcp5"), Some("10.0.0.3@tcp")],
        [None, Some("10.0.0.[2-4/2]@tcp"), Some("10.0.0.3@tcp")],
    ]));
}

#[test]
fn t_r20_a_range_of_gateways_at_load_makes_5_routes_that_are_exported_and_imported() {
    let source = "options lnet networks=tcp(eth0) routes=\"o2ib 1 10.0.0.[1-5]@tcp\"\n";
    let options = ModuleOptions::parse(source, Dialect::Kernel).unwrap();
    let (config, _) = options.to_config(&Default::default()).unwrap();
    assert_eq!(config.routes.len(), 5);
    assert_eq!(
        config_of(&Document::from(&config).exported().to_yaml()),
        config
    );
}

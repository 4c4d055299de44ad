//! What a conversion of module options loses, in both directions: it is said, with the right advice.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use lnet_config::modprobe::{ConvertDefaults, Dialect, LeftOut, ModuleOptions, is_options};
use lnet_config::{Ip2Nets, NetConfig, parse};

/// What a document lacks of options, and whether it has an effect.
fn notes(source: &str) -> Vec<LeftOut> {
    let options = ModuleOptions::parse(source, Dialect::Kernel)
        .unwrap_or_else(|error| panic!("{}", error.render("test")));
    options.to_config(&ConvertDefaults::default()).unwrap().1
}

/// The notes with an effect, as they are printed.
fn lost(notes: &[LeftOut]) -> Vec<String> {
    let lost = notes.iter().filter(|note| note.has_effect);
    lost.map(ToString::to_string).collect()
}

/// What options lack of a document.
fn lost_of_yaml(yaml: &str) -> Vec<String> {
    let (_, notes) = ModuleOptions::from_config(&parse(yaml).unwrap());
    lost(&notes)
}

// [CONF-55]
#[test]
fn each_rule_is_compared_with_each_earlier_rule_of_its_network() {
    for (rules, hidden, by, advice) in [
        (
            "tcp(eth0,eth1) 10.0.0.1; tcp(eth0) 10.77.0.1; tcp(eth1) 10.77.0.[1-2]",
            "rule 3 (tcp(eth1))",
            "the rule for tcp(eth0) covers",
            "write one rule with tcp(eth0,eth1)",
        ),
        (
            "tcp 10.77.0.*; tcp(eth1) 10.1.*.*",
            "rule 2 (tcp(eth1))",
            "the rule for tcp covers",
            "name the interfaces of both in one rule",
        ),
    ] {
        let lost = lost(&notes(&format!("options lnet ip2nets=\"{rules}\"\n")));
        assert_eq!(lost.len(), 1, "{rules}: {lost:?}");
        for part in [hidden, by, advice] {
            assert!(lost[0].contains(part), "{part}: {lost:?}");
        }
    }
    // Rules for other networks, and rules that add nothing, lose nothing.
    for rules in [
        "tcp 10.0.0.*; tcp 10.1.*.*; o2ib(ib0) 10.0.0.*",
        "tcp(eth0,eth1) 10.0.0.1; tcp(eth1) 10.77.0.1; tcp(eth1) 10.78.0.1",
    ] {
        let notes = notes(&format!("options lnet ip2nets=\"{rules}\"\n"));
        assert!(notes.is_empty(), "{rules}: {notes:?}");
    }
}

// [CONF-55]
#[test]
fn rules_of_a_document_that_the_module_takes_together_are_lost() {
    let lost = lost_of_yaml(
        "ip2nets: [{net-spec: tcp, interfaces: {0: eth0}, ip-range: {0: 10.0.0.*}}, \
         {net-spec: tcp, interfaces: {0: eth1}, ip-range: {0: 10.1.0.*}}]\n",
    );
    assert_eq!(
        lost,
        [
            "ip2nets: rule 2 (tcp(eth1)) on machines that the rule for tcp(eth0) covers too: the YAML takes only the first, \
             and the module both"
        ]
    );
}

#[test]
fn nid_on_an_interface_that_is_named_already_is_lost() {
    let yaml = "net: [{net type: tcp, local NI(s): [{nid: 10.9.9.9@tcp, interfaces: {0: eth0}}, \
                {nid: 10.0.0.7@tcp, interfaces: {0: eth0}}]}]\n";
    let (options, notes) = ModuleOptions::from_config(&parse(yaml).unwrap());
    assert_eq!(
        lost(&notes),
        ["10.0.0.7@tcp: networks names interfaces, and eth0 is named already"]
    );
    assert_eq!(options.networks[0].to_string(), "tcp(eth0)");
}

// [CONF-54]
#[test]
fn options_of_networks_that_are_configured_elsewhere_are_lost() {
    let elsewhere = notes("options lnet forwarding=enabled\noptions ksocklnd credits=512\n");
    assert_eq!(
        lost(&elsewhere),
        [
            "ksocklnd credits=512: the options name no network that could have it; keep it in modprobe.d: options ksocklnd \
             credits=512"
        ]
    );
    let here = notes("options lnet networks=o2ib(ib0)\noptions ksocklnd credits=512\n");
    assert!(here.len() == 1 && lost(&here).is_empty(), "{here:?}");
}

#[test]
fn of_an_option_that_is_given_twice_the_last_value_counts() {
    let source = |values: &str| format!("options lnet networks=tcp(eth0) {values}\n");
    let port = |values: &str| {
        let options = ModuleOptions::parse(&source(values), Dialect::Kernel).unwrap();
        options.port("accept_port")
    };
    assert_eq!(port("accept_port=6988 accept_port=988"), Some(988));
    assert_eq!(port("accept_port=988 accept_port=6988"), Some(6988));
    let safe = notes(&source("accept=all accept=secure"));
    assert!(safe.len() == 2 && lost(&safe).is_empty(), "{safe:?}");
    let open = lost(&notes(&source("accept=secure accept=all")));
    assert_eq!(open.len(), 1, "{open:?}");
}

#[test]
fn networks_that_are_given_twice_are_not_the_sum_of_both() {
    let source = "options lnet networks=tcp(eth0)\noptions lnet networks=tcp(eth1)\n";
    let options = ModuleOptions::parse(source, Dialect::Converter).unwrap();
    let twice = lost(&options.to_config(&ConvertDefaults::default()).unwrap().1);
    assert_eq!(
        twice,
        [
            "lnet networks: given more than once, and the module takes the last value only; join the values, or remove all \
             but one"
        ]
    );
}

#[test]
fn value_that_is_no_number_is_not_to_be_kept() {
    let networks = "options lnet networks=tcp(eth0)\noptions ksocklnd ";
    let invalid = lost(&notes(&format!("{networks}credits=abc\n")));
    assert_eq!(
        invalid,
        ["ksocklnd credits=abc: no decimal number in the range of this option; correct it"]
    );
    let other = lost(&notes(&format!("{networks}nscheds=4\n")));
    assert!(
        other[0].ends_with("keep it in modprobe.d: options ksocklnd nscheds=4"),
        "{other:?}"
    );
}

#[test]
fn line_to_keep_is_quoted_as_modprobe_reads_it() {
    let lost = lost(&notes(
        "options lnet networks=tcp(eth0) accept=\"all of them\"\n",
    ));
    assert!(
        lost[0].ends_with("keep it in modprobe.d: options lnet accept=\"all of them\""),
        "{lost:?}"
    );
}

#[test]
fn line_of_options_may_have_a_tab() {
    for line in ["options\tlnet networks=tcp", " options lnet networks=tcp"] {
        assert!(is_options(line), "{line}");
    }
    assert!(!is_options("optionsfile: 1\n- options\n"));
}

/// Each rule is compared with one earlier rule, not with all: a quadratic time would take minutes.
#[test]
fn many_rules_are_merged_and_proved() {
    let rules: Vec<String> = (0..16_000)
        .map(|at| format!("tcp(eth{}) 10.{}.{}.*", at % 2, at / 2 / 200, at / 2 % 200))
        .collect();
    let source = format!("options lnet ip2nets=\"{}\"\n", rules.join("; "));
    let options = ModuleOptions::parse(&source, Dialect::Kernel).unwrap();
    let defaults = ConvertDefaults::default();
    let (config, _) = options.to_config(&defaults).unwrap();
    assert_eq!(config.ip2nets.len(), 8000);
    let whole = |rule: &Ip2Nets| rule.spec() == "tcp(eth0,eth1)";
    assert!(config.ip2nets.iter().all(whole));
    assert_eq!(options.prove(&config, &defaults).unwrap().rules, 8000);
}

#[test]
fn proof_without_entries_says_so() {
    let options = ModuleOptions::parse("options lnet forwarding=enabled\n", Dialect::Kernel);
    let options = options.unwrap();
    let defaults = ConvertDefaults::default();
    let (config, _) = options.to_config(&defaults).unwrap();
    let proof = options.prove(&config, &defaults).unwrap();
    assert_eq!(proof.to_string(), "no NIs, rules or routes");
}

// [CONF-55]
#[test]
fn module_takes_the_interfaces_of_every_rule_that_covers_a_machine() {
    let source =
        "options lnet ip2nets=\"tcp(eth0) 10.77.0.1; tcp(eth1) 10.1.2.3; tcp(eth0) 10.77.0.*\"";
    let options = ModuleOptions::parse(source, Dialect::Kernel).unwrap();
    let (config, _) = options.to_config(&ConvertDefaults::default()).unwrap();
    let local = [
        ("eth0", [10, 77, 0, 1].into()),
        ("eth1", [10, 1, 2, 3].into()),
    ];
    let names = |nets: Vec<NetConfig>| -> Vec<String> {
        let nis = nets.into_iter().flat_map(|net| net.nis);
        nis.flat_map(|ni| ni.interfaces).collect()
    };
    let rules = &config.ip2nets;
    assert_eq!(names(Ip2Nets::nets(rules, &local).unwrap()), ["eth0"]);
    let of_module = Ip2Nets::nets_of_module(rules, &local).unwrap();
    assert_eq!(of_module.len(), 1);
    assert_eq!(names(of_module), ["eth0", "eth1"]);
    assert!(Ip2Nets::nets_of_module(rules, &local[..0]).is_err());
}

//! The cases T-C: configuration.

use std::net::IpAddr;

use lnet_policy::Priority;

use super::{config_of, rejection};
use crate::modprobe::{Dialect, ModuleOptions};
use crate::{
    Buffers, Config, Document, Ip2Nets, NoRuleApplies, deletion, parse, parse_document, read,
};

/// A document with one interface whose item has these lines.
fn ni(lines: &str) -> String {
    format!("net: [{{net type: tcp, local NI(s): [{{interfaces: {{0: eth0}}, {lines}}}]}}]")
}

const LOCAL: [(&str, &str); 4] = [
    ("eth0", "10.0.0.1"),
    ("eth1", "192.168.2.7"),
    ("ib0", "172.16.3.9"),
    ("eth1", "fd00:1::7"),
];

/// The networks that `ip2nets` rules give this machine, as `net(interface,...)`.
fn by_address(rules: &[Ip2Nets]) -> Result<Vec<String>, NoRuleApplies> {
    let local = LOCAL.map(|(name, address)| (name, address.parse::<IpAddr>().unwrap()));
    let nets = Ip2Nets::nets(rules, &local)?;
    let shown = nets
        .iter()
        .map(|net| format!("{}({})", net.net, net.nis[0].interfaces.join(",")));
    Ok(shown.collect())
}

/// The same of a section.
fn ip2nets(section: &str) -> Result<Vec<String>, NoRuleApplies> {
    by_address(&config_of(&format!("ip2nets: [{section}]")).ip2nets)
}

#[test]
fn t_c01_the_backup_of_an_empty_node_imports_to_an_empty_node() {
    let empty = read(
        "net:\n-     net type: lo\n      local NI(s):\n      -     nid: 0@lo\n            status: up\n",
    );
    let backup = empty.unwrap().document.backup().to_yaml();
    assert_eq!(backup, "");
    assert_eq!(
        Document::from(&config_of(&backup)).backup().to_yaml(),
        backup
    );
}

#[test]
fn t_c02_unknown_keys_missing_values_and_words_for_numbers_are_named() {
    assert_eq!(rejection("global: {foo: 1}"), "invalid key 'foo'");
    assert_eq!(
        rejection("global: {retry_count: }"),
        "no value specified for key 'retry_count'"
    );
    assert_eq!(
        rejection("global: {retry_count: x}"),
        "invalid value 'x' for key 'retry_count'"
    );
}

#[test]
fn t_c03_routing_and_buffers_are_read() {
    assert_eq!(config_of("routing: {enable: 1}").routing, Some(true));
    assert_eq!(config_of("routing: {enable: 0}").routing, Some(false));
    let config = config_of("routing: {enable: 1}\nbuffers: {tiny: 1024, small: 4096, large: 512}");
    let buffers = Buffers {
        tiny: Some(1024),
        small: Some(4096),
        large: Some(512),
    };
    assert_eq!((config.routing, config.buffers), (Some(true), buffers));
}

#[test]
fn t_c04_the_numa_range_is_a_global_parameter() {
    assert_eq!(config_of("numa: {range: 7}").globals.numa_range, Some(7));
}

#[test]
fn t_c05_response_tracking_is_0_to_3() {
    for value in 0..=3u32 {
        let config = config_of(&format!("global: {{response_tracking: {value}}}"));
        assert_eq!(config.globals.response_tracking, Some(value));
    }
    for value in ["-1", "4"] {
        assert!(parse(&format!("global: {{response_tracking: {value}}}")).is_err());
    }
}

#[test]
fn t_c07_aliases_of_interfaces_are_names_in_either_order() {
    for names in ["{0: eth0, 1: 'eth0:1'}", "{0: 'eth0:1', 1: eth0}"] {
        let source = format!("net: [{{net type: tcp, local NI(s): [{{interfaces: {names}}}]}}]");
        let config = config_of(&source);
        assert_eq!(config.nets[0].nis[0].interfaces.len(), 2);
        assert_eq!(config_of(&config.to_yaml()), config);
    }
}

#[test]
fn t_c09_each_of_two_networks_shows_its_lnd_tunables() {
    let config = config_of(
        "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}, lnd tunables: {conns_per_peer: 1}}]},
         {net type: tcp1, local NI(s): [{nid: 10.1.0.1@tcp1, lnd tunables: {conns_per_peer: 1}}]}]",
    );
    let shown = Document::from(&config).exported().to_yaml();
    assert_eq!(shown.matches("            lnd tunables:\n").count(), 2);
    assert_eq!(shown.matches("                  tos: -1\n").count(), 2);
}

#[test]
fn t_c10_ip2nets_rules_configure_what_their_addresses_are_for() {
    let nets = |section: &str| ip2nets(section).unwrap();
    assert_eq!(
        nets("{net-spec: tcp, ip-range: {0: 10.0.0.1}}"),
        ["tcp(eth0)"]
    );
    assert_eq!(
        nets("{net-spec: tcp, interfaces: {0: eth0, 1: eth1}, ip-range: {0: 10.0.0.*}}"),
        ["tcp(eth0,eth1)"]
    );
    assert_eq!(
        nets("{net-spec: tcp, ip-range: {0: 10.*.*.*}}, {net-spec: tcp, ip-range: {0: 192.*.*.*}}"),
        ["tcp(eth0)"]
    );
    assert_eq!(
        nets(
            "{net-spec: tcp, ip-range: {0: 10.*.*.*}}, {net-spec: o2ib, ip-range: {0: 172.16.*.*}}"
        ),
        ["tcp(eth0)", "o2ib(ib0)"]
    );
    for pattern in [
        "'*.*.2.*'",
        "'192.168.[1-2].*'",
        "'192.168.[2-8/3].7'",
        "'192.168.[1,2].[3,7]'",
    ] {
        let section = format!("{{net-spec: tcp1, ip-range: {{0: {pattern}}}}}");
        assert_eq!(nets(&section), ["tcp1(eth1)"], "{pattern}");
    }
    assert_eq!(
        nets("{net-spec: tcp, ip-range: {0: 9.9.9.9, 1: 10.0.0.1}}"),
        ["tcp(eth0)"]
    );
}

#[test]
fn t_c11_rules_that_do_not_apply_or_name_no_network_fail() {
    assert_eq!(
        ip2nets("{net-spec: tcp, ip-range: {0: 9.*.*.*}}"),
        Err(NoRuleApplies)
    );
    assert_eq!(
        rejection("ip2nets: [{interfaces: {0: eth0}}]"),
        "Malformed input. Expect 'net-spec' found 'interfaces'"
    );
}

#[test]
fn t_c12_ipv6_addresses_and_prefixes_are_patterns() {
    for pattern in [
        "'fd00:1::7'",
        "'fd00:1::7/128'",
        "'fd00:1::/64'",
        "'fd00::/16'",
    ] {
        let section = format!("{{net-spec: tcp, ip-range: {{0: {pattern}}}}}");
        assert_eq!(ip2nets(&section).unwrap(), ["tcp(eth1)"], "{pattern}");
        let both = format!(
            "{{net-spec: tcp, interfaces: {{0: eth0, 1: eth1}}, ip-range: {{0: {pattern}}}}}"
        );
        assert_eq!(ip2nets(&both).unwrap(), ["tcp(eth0,eth1)"], "{pattern}");
    }
    assert_eq!(
        ip2nets("{net-spec: tcp, ip-range: {0: 'fd00:2::/64'}}"),
        Err(NoRuleApplies)
    );
}

#[test]
fn t_c13_settings_of_an_interface_are_its_own_and_those_of_the_net_are_for_all() {
    let config = config_of(
        "net: [{net type: tcp, tunables: {credits: 64}, lnd tunables: {conns_per_peer: 2}, local NI(s): [
         {interfaces: {0: eth0}, CPT: '[0]', lnd tunables: {conns_per_peer: 4}},
         {interfaces: {0: eth1}, CPT: '[1]', tunables: {credits: 32}}]}]",
    );
    let [first, second] = &config.nets[0].nis[..] else {
        panic!("two interfaces are configured");
    };
    assert_eq!(
        (first.cpts.as_slice(), second.cpts.as_slice()),
        (&[0][..], &[1][..])
    );
    let conns = |ni: &crate::NiConfig| ni.lnd_tunables.conns_per_peer;
    assert_eq!((conns(first), conns(second)), (Some(4), Some(2)));
    assert_eq!(
        (first.tunables.credits, second.tunables.credits),
        (Some(64), Some(32))
    );
}

#[test]
fn t_c14_cpts_that_are_no_list_are_rejected() {
    for cpt in ["'[1-0]'", "'[]'", "[1-0]", "[]"] {
        assert!(parse(&ni(&format!("CPT: {cpt}"))).is_err(), "{cpt}");
    }
}

#[test]
fn t_c15_a_range_of_cpts_is_the_list_of_them() {
    for cpt in ["'[1-3]'", "[1-3]", "'[1,2,3]'", "[1,2,3]"] {
        assert_eq!(
            config_of(&ni(&format!("CPT: {cpt}"))).nets[0].nis[0].cpts,
            [1, 2, 3],
            "{cpt}"
        );
    }
}

#[test]
fn t_c16_conns_per_peer_is_0_to_127_and_minus_1_is_no_setting() {
    let value = |text: &str| {
        let config = parse(&ni(&format!("lnd tunables: {{conns_per_peer: {text}}}")));
        config.map(|config| config.nets[0].nis[0].lnd_tunables.conns_per_peer)
    };
    for number in 4..=15 {
        assert_eq!(value(&number.to_string()), Ok(Some(number)));
    }
    assert_eq!(value("-1"), Ok(None));
    for bad in ["128", "200", "99999999999999999999", "abc"] {
        assert!(value(bad).is_err(), "{bad}");
    }
}

#[test]
fn t_c17_peer_timeout_of_minus_1_is_the_default_of_the_lnd() {
    for (text, expected) in [
        ("-1", None),
        ("0", Some(0)),
        ("60", Some(60)),
        ("180", Some(180)),
    ] {
        let config = config_of(&ni(&format!("tunables: {{peer_timeout: {text}}}")));
        assert_eq!(config.nets[0].nis[0].tunables.peer_timeout, expected);
    }
}

#[test]
fn t_c18_tos_is_minus_1_to_255() {
    let value = |text: &str| {
        let config = parse(&ni(&format!("lnd tunables: {{tos: {text}}}")));
        config.map(|config| config.nets[0].nis[0].lnd_tunables.tos)
    };
    assert_eq!(
        (value("-1"), value("104"), value("106")),
        (Ok(None), Ok(Some(104)), Ok(Some(106)))
    );
    assert!(value("300").is_err());
    assert_eq!(
        config_of(&ni("CPT: '[0]'")).nets[0].nis[0].lnd_tunables.tos,
        None
    );
}

#[test]
fn t_c19_what_cannot_be_set_is_absent_from_a_backup() {
    let shown =
        "net: [{net type: kfi, local NI(s): [{nid: 5@kfi, status: up, interfaces: {0: cxi0},
        lnd tunables: {auth_key: 255, traffic_class: low_latency, traffic_class_num: 1},
        statistics: {send_count: 1}, dev cpt: 0}]}]";
    let backup = read(shown).unwrap().document.backup().to_yaml();
    for key in [
        "nid:",
        "status",
        "statistics",
        "dev cpt",
        "traffic_class_num",
    ] {
        assert!(!backup.contains(key), "{key} is in {backup}");
    }
    assert!(backup.contains("traffic_class: low_latency"));
    assert!(parse(&backup).is_ok());
}

#[test]
fn t_c20_a_network_is_configured_once() {
    let net = "{net type: tcp, local NI(s): [{interfaces: {0: eth0}}]}";
    assert_eq!(
        rejection(&format!("net: [{net}, {net}]")),
        "network tcp is configured twice"
    );
}

#[test]
fn t_c21_interfaces_of_one_map_come_and_go_together() {
    let two = "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0, 1: eth1}}]}]";
    let config = config_of(two);
    assert_eq!(config.nets[0].nis[0].interfaces, ["eth0", "eth1"]);
    let mut left = config.clone();
    for change in deletion(&config, &parse_document(two).unwrap()) {
        change.apply(&mut left).unwrap();
    }
    assert_eq!(left, Config::default());
}

#[test]
fn t_c24_strings_of_kernel_ip2nets_make_the_networks_of_this_machine() {
    for (value, expected) in [
        ("tcp0(eth0) 10.0.0.*", vec!["tcp(eth0)"]),
        ("tcp 10.0.0.[1-9/2]", vec!["tcp(eth0)"]),
        (
            "tcp(eth0),o2ib(ib0) *.*.*.*",
            vec!["tcp(eth0)", "o2ib(ib0)"],
        ),
        (
            "o2ib 172.16.[1-3].*;tcp1 192.168.*.* # the rest",
            vec!["o2ib(ib0)", "tcp1(eth1)"],
        ),
        (
            "# nothing\ntcp 9.*.*.* 10.*.*.*\ntcp 192.168.*.*",
            vec!["tcp(eth0)"],
        ),
        ("tcp(eth1)[0] 192.168.[1,2].[3,7]", vec!["tcp(eth1)"]),
    ] {
        let mut options = ModuleOptions::default();
        let text = format!("options lnet ip2nets=\"{value}\"").replace('\n', ";");
        let read = if value.contains('#') {
            options.add_text(value, Dialect::Kernel)
        } else {
            options.add_text(&text, Dialect::Kernel)
        };
        read.unwrap_or_else(|error| panic!("{}", error.render("ip2nets")));
        let (config, _) = options.to_config(&Default::default()).unwrap();
        assert_eq!(by_address(&config.ip2nets).unwrap(), expected, "{value}");
    }
}

#[test]
fn t_c26_a_priority_that_is_no_number_ends_with_234() {
    let error = "x".parse::<Priority>().unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.exit_status()),
        ("Invalid priority \"x\"", 234)
    );
}

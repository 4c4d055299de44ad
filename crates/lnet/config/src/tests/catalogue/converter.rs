//! The cases T-L: the converter.

use super::config_of;
use crate::modprobe::{ConvertDefaults, Dialect, ModuleOptions, OptionKind};
use crate::{Config, ConfigError};

fn options(text: &str) -> Result<ModuleOptions, ConfigError> {
    let mut options = ModuleOptions::default();
    options.add_text(text, Dialect::Converter)?;
    Ok(options)
}

/// The document that text is converted to.
fn yaml(text: &str) -> String {
    yaml_with(text, None)
}

fn yaml_with(text: &str, hop: Option<u8>) -> String {
    let defaults = ConvertDefaults {
        hop,
        interface: None,
    };
    let options = options(text).unwrap_or_else(|error| panic!("{}", error.render("text")));
    let (config, _) = options.to_config(&defaults).unwrap();
    let yaml = config.to_yaml();
    assert_eq!(
        config_of(&yaml),
        config,
        "what was converted can be imported"
    );
    yaml
}

fn problem(text: &str) -> String {
    options(text).unwrap_err().problem().to_string()
}

const GATEWAY: &str = "10.0.0.1@o2ib";

#[test]
fn t_l01_two_entries_of_ip2nets_are_two_entries() {
    insta::assert_snapshot!(yaml("tcp0(eth0,eth1) 10.0.0.*; o2ib0 192.168.[1-2].*"), @r#"
    ip2nets:
    -     net-spec: tcp
          interfaces:
                0: eth0
                1: eth1
          ip-range:
                0: 10.0.0.*
    -     net-spec: o2ib
          ip-range:
                0: 192.168.[1-2].*
    "#);
}

#[test]
fn t_l02_routes_have_the_hop_and_priority_that_they_say() {
    let route = |hop: &str, priority: u32| {
        format!(
            "route:\n-     net: tcp\n      gateway: {GATEWAY}\n      hop: {hop}\n      priority: {priority}\n"
        )
    };
    assert_eq!(yaml(&format!("routes='tcp0 1 {GATEWAY}'")), route("1", 0));
    assert_eq!(yaml(&format!("routes=tcp0 1 {GATEWAY}:7")), route("1", 7));
    assert_eq!(yaml(&format!("routes='tcp0 {GATEWAY}'")), route("-1", 0));
    assert_eq!(
        yaml_with(&format!("routes='tcp0 {GATEWAY}'"), Some(1)),
        route("1", 0)
    );
    assert_eq!(
        yaml_with(&format!("routes='tcp0 {GATEWAY}'"), Some(3)),
        route("3", 0)
    );
    assert_eq!(
        yaml_with(&format!("routes='tcp0 2 {GATEWAY}'"), Some(3)),
        route("2", 0)
    );
}

#[test]
fn t_l03_patterns_that_begin_with_a_star_are_quoted() {
    assert_eq!(
        yaml("tcp *.*.*.*"),
        "ip2nets:\n-     net-spec: tcp\n      ip-range:\n            0: \"*.*.*.*\"\n"
    );
}

#[test]
fn t_l04_files_come_in_their_order_and_before_what_is_given_directly() {
    let mut read = ModuleOptions::default();
    let files = ["# first\ntcp 10.0.0.*\n\ntcp1 10.0.1.*\n", "tcp2 10.0.2.*"];
    for file in files {
        read.add_value(OptionKind::Ip2Nets, file, Dialect::Converter)
            .unwrap();
    }
    read.add_file(
        "options lnet ip2nets=\"tcp3 10.0.3.*; \\\n  tcp4 10.0.4.*\"\n",
        Dialect::Converter,
    )
    .unwrap();
    read.add_text("options lnet ip2nets=\"tcp5 10.0.5.*\"", Dialect::Converter)
        .unwrap();
    read.add_text("tcp6 10.0.6.*", Dialect::Converter).unwrap();
    let (config, _) = read.to_config(&ConvertDefaults::default()).unwrap();
    let numbers: Vec<_> = config.ip2nets.iter().map(|rule| rule.net.number).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn t_l05_what_is_wrong_is_named() {
    assert!(problem("tcp0(eth0)").contains("a pattern of addresses behind the networks"));
    assert_eq!(
        problem(&format!("routes='tcp0 0 {GATEWAY}'")),
        "invalid value '0' for key 'hop'"
    );
    assert_eq!(
        problem("tcp 10.0.0"),
        "invalid value '10.0.0' for key 'ip2nets'"
    );
    assert!(problem("networks=tcp0(eth0").contains("',' or ')' behind the interface"));
    let two = format!("routes='tcp0 1 {GATEWAY} tcp1 1 {GATEWAY}'");
    assert!(problem(&two).contains("';' and another entry"));
    let gateways = format!("routes='tcp0 1 {GATEWAY} 10.0.0.2@o2ib'");
    assert!(problem(&gateways).contains("one has one gateway"));
    assert_eq!(
        problem("tcp0 10.0.0.* o2ib0 192.168.1.*"),
        "invalid value 'o2ib0' for key 'ip2nets'"
    );
}

#[test]
fn t_l06_nothing_is_no_data() {
    for text in ["", "# nothing\n", "options lnet accept=all\n", "routes=''"] {
        assert!(options(text).unwrap().is_empty(), "{text}");
    }
    assert!(!options("tcp 10.*.*.*").unwrap().is_empty());
}

#[test]
fn t_l07_several_patterns_and_interfaces_are_enumerated() {
    assert_eq!(
        yaml("tcp(eth0,eth1) 10.0.0.* 10.0.1.*"),
        "ip2nets:\n-     net-spec: tcp\n      interfaces:\n            0: eth0\n            1: eth1\n      \
         ip-range:\n            0: 10.0.0.*\n            1: 10.0.1.*\n"
    );
}

#[test]
fn t_l08_routes_may_be_written_with_keys() {
    let plain = yaml(&format!("routes='tcp0 2 {GATEWAY}:7; tcp1 {GATEWAY}'"));
    for keyed in [
        format!(
            "routes='tcp0: {{ gateway: {GATEWAY}, hop: 2, priority: 7 }}; tcp1: {{gateway: {GATEWAY}}}'"
        ),
        format!("routes='tcp0: {{ priority: 7, hop: 2, gateway: {GATEWAY} }}\ntcp1 {GATEWAY}'"),
    ] {
        assert_eq!(yaml(&keyed), plain, "{keyed}");
    }
    let with_hop = yaml_with(&format!("routes='tcp1: {{ gateway: {GATEWAY} }}'"), Some(1));
    assert!(with_hop.contains("hop: 1\n"));
    let bad = format!("routes='tcp0: {{ gateway: {GATEWAY}, hop: 0 }}'");
    assert_eq!(problem(&bad), "invalid value '0' for key 'hop'");
    assert_eq!(
        problem("routes='tcp0: { hop: 1 }'"),
        "expected a gateway in the entry before, found the end of the text"
    );
    assert_eq!(problem("routes='tcp0: { gw: 1 }'"), "invalid key 'gw'");
}

#[test]
fn t_l09_networks_in_all_forms_come_before_ip2nets_and_routes() {
    insta::assert_snapshot!(
        yaml(
            "options lnet routes=\"tcp9 1 10.0.0.9@tcp\"\n\
             options lnet ip2nets=\"o2ib 192.168.*.*\"\n\
             options lnet networks=\"tcp0(eth0,eth1),tcp1(eth2)[0,1],gni(ipogif0[2])\"\n"
        ),
        @r#"
    net:
    -     net type: tcp
          local NI(s):
          -     interfaces:
                      0: eth0
                      1: eth1
    -     net type: tcp1
          local NI(s):
          -     interfaces:
                      0: eth2
                CPT: "[0,1]"
    -     net type: gni
          local NI(s):
          -     interfaces:
                      0: ipogif0
                CPT: "[2]"
    ip2nets:
    -     net-spec: o2ib
          ip-range:
                0: 192.168.*.*
    route:
    -     net: tcp9
          gateway: 10.0.0.9@tcp
          hop: 1
          priority: 0
    "#
    );
}

#[test]
fn t_l10_what_was_converted_is_what_one_would_write() {
    let converted = yaml(
        "options lnet networks=\"tcp0(eth0),o2ib0(ib0)\" forwarding=enabled\n\
         options lnet routes=\"tcp5 1 10.0.0.[1-2]@tcp\"\n",
    );
    let manual: Config = config_of(
        "net:\n    - net type: tcp\n      local NI(s):\n        - interfaces:\n              0: eth0\n    \
         - net type: o2ib\n      local NI(s):\n        - interfaces:\n              0: ib0\n\
         route:\n    - net: tcp5\n      gateway: 10.0.0.[1-2]@tcp\n      hop: 1\n\
         routing:\n    enable: 1\n",
    );
    let imported = config_of(&converted);
    assert_eq!(imported, manual);
    assert_eq!(imported.to_yaml(), converted);
}

#[test]
fn t_l11_options_that_a_document_has_learnt_are_in_it() {
    let made = yaml(
        "options lnet networks=\"tcp(eth0)\" avoid_asym_router_failure=0 alive_router_check_interval=10 \
         router_ping_timeout=7 check_routers_before_use=1\n\
         options ksocklnd sock_timeout=65\n",
    );
    for line in [
        "avoid_asym_router_failure: 0",
        "alive_router_check_interval: 10",
        "router_ping_timeout: 7",
        "check_routers_before_use: 1",
        "timeout: 65",
    ] {
        assert!(made.contains(line), "no {line} in {made}");
    }
}

#[test]
fn t_l12_two_rules_for_the_same_addresses_are_one_with_both_interfaces() {
    let apart = yaml("tcp(eth0) 10.77.0.1; tcp(eth1) 10.77.0.1");
    assert_eq!(apart, yaml("tcp(eth0,eth1) 10.77.0.1"));
}

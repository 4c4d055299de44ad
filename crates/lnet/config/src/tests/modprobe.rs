//! Module options: the grammar, its errors, and both conversions.

use lnet_types::LndType;
use proptest::collection::vec;
use proptest::prelude::*;

use super::strategies::{any_config, cases};
use crate::modprobe::{ConvertDefaults, ConvertError, Dialect, LeftOut, ModuleOptions};
use crate::{Buffers, Config, Globals, Tunables, parse};

fn options(source: &str) -> ModuleOptions {
    ModuleOptions::parse(source, Dialect::Kernel)
        .unwrap_or_else(|error| panic!("{}", error.render("test")))
}

/// The text that the user sees for rejected options.
fn rejection(source: &str) -> String {
    ModuleOptions::parse(source, Dialect::Kernel)
        .unwrap_err()
        .render("lnet.conf")
}

fn config(source: &str) -> Config {
    options(source)
        .to_config(&ConvertDefaults::default())
        .unwrap()
        .0
}

fn joined(notes: &[LeftOut]) -> String {
    let lines: Vec<String> = notes.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// What a document lacks of options that have an effect.
fn lost(source: &str) -> Vec<String> {
    let (_, notes) = options(source)
        .to_config(&ConvertDefaults::default())
        .unwrap();
    let lost = notes.iter().filter(|note| note.has_effect);
    lost.map(ToString::to_string).collect()
}

#[test]
fn a_whole_file_is_read() {
    let options = options(
        "# the site's options\n\
         alias lnet something\n\
         options lnet networks=\"tcp0(eth0, eth1)[0,1],o2ib(ib0[2]),lo\" \\\n    forwarding=enabled\n\
         options lnet routes=\"tcp[1-2] 2 10.0.0.[1-2]@tcp:7; o2ib1 10.0.0.9@tcp # spare\"\n\
         options lnet lnet_retry_count=1 lnet_peer_discovery_disabled=1 tiny_router_buffers=512\n\
         options lnet accept=all\noptions ksocklnd sock_timeout='50'\n",
    );
    let networks: Vec<_> = options.networks.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["tcp(eth0,eth1)[0,1]", "o2ib(ib0[2])"]);
    let routes: Vec<_> = options.routes.iter().map(ToString::to_string).collect();
    assert_eq!(
        routes,
        ["tcp[1-2] 2 10.0.0.[1-2]@tcp:7", "o2ib1 10.0.0.9@tcp"]
    );
    assert_eq!(options.forwarding, Some(true));
    assert_eq!(options.globals.retry_count, Some(1));
    assert_eq!(options.globals.discovery, Some(false));
    assert_eq!(options.buffers.tiny, Some(512));
    let others: Vec<_> = options
        .others
        .iter()
        .map(|other| other.name.as_str())
        .collect();
    assert_eq!(others, ["accept", "sock_timeout"]);
}

#[test]
fn a_route_is_one_for_each_network_and_gateway() {
    let source = "options lnet networks=tcp(eth0) routes='tcp[1-2] 2 10.0.0.[1-3]@tcp:7'";
    let routes = config(source).routes;
    assert_eq!(routes.len(), 6);
    assert!(
        routes
            .iter()
            .all(|route| (route.hop, route.priority) == (Some(2), 7))
    );
}

// [CONF-51]
#[test]
fn each_gateway_has_its_own_priority() {
    // Kernels give both the last one.
    let routes =
        config("options lnet routes=\"tcp9 10.0.0.1@tcp:1 10.0.0.2@tcp:2 fd00::1@tcp:3\"").routes;
    let priorities: Vec<_> = routes.iter().map(|route| route.priority).collect();
    assert_eq!(priorities, [1, 2, 3]);
}

#[test]
fn routes_that_a_node_cannot_use_are_left_out_and_named() {
    let options = options(
        "options lnet networks=tcp(eth0)\n\
         options lnet routes=\"tcp 10.0.0.1@o2ib; o2ib 10.0.0.1@tcp; o2ib1 7@gni7\"",
    );
    let (config, notes) = options.to_config(&ConvertDefaults::default()).unwrap();
    assert_eq!(config.routes.len(), 1);
    insta::assert_snapshot!(joined(&notes), @r#"
    route to tcp by 10.0.0.1@o2ib: the network is local; the module passes over it, too
    route to o2ib1 by 7@gni7: the gateway is on no local network; the module passes over it, too
    "#);
    assert!(notes.iter().all(|note| !note.has_effect));
}

#[test]
fn a_route_that_stops_the_module_has_an_effect() {
    let lost =
        lost("options lnet networks=tcp(eth0) routes=\"tcp5 10.0.0.1@tcp5; o2ib 10.0.0.1@tcp\"");
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(lost[0].contains("does not start"), "{lost:?}");
}

// [CONF-54]
#[test]
fn options_that_a_document_does_not_have_and_that_change_the_node_are_lost() {
    let networks = "options lnet networks=tcp(eth0)\n";
    for option in [
        "lnet accept_port=6988",
        "lnet accept=all",
        "lnet some_new_option=1",
        "ksocklnd nscheds=4",
        "libcfs cpu_npartitions=2",
        "kgnilnd credits=1",
    ] {
        let lost = lost(&format!("{networks}options {option}\n"));
        assert_eq!(lost.len(), 1, "{option}: {lost:?}");
        let keep = format!("keep it in modprobe.d: options {option}");
        assert!(lost[0].ends_with(&keep), "{option}: {lost:?}");
    }
    for option in [
        "lnet accept_port=988",
        "lnet accept=secure",
        "ptlrpc at_max=600",
        "ko2iblnd credits=9",
        "ksocklnd credits=9",
    ] {
        let lost = lost(&format!("{networks}options {option}\n"));
        assert!(lost.is_empty(), "{option}: {lost:?}");
    }
}

// [CONF-55]
#[test]
fn an_interface_that_a_document_would_not_give_is_lost() {
    let of = |rules: &str| format!("options lnet ip2nets=\"{rules}\"\n");
    let apart = lost(&of("tcp(eth0) 10.77.0.1; tcp(eth1) 10.1.2.3"));
    assert_eq!(apart.len(), 1, "{apart:?}");
    assert!(apart[0].contains("tcp(eth0,eth1)"), "{apart:?}");
    let cpts = lost(&of("tcp(eth0[1]) 10.77.0.1"));
    assert_eq!(cpts.len(), 1, "{cpts:?}");
    assert!(lost(&of("tcp(eth0,eth1) 10.77.0.1; o2ib(ib0) 10.1.2.3")).is_empty());
}

// [CONF-55]
#[test]
fn rules_for_one_network_and_the_same_addresses_are_one_rule() {
    let source =
        "options lnet ip2nets=\"tcp(eth0) 10.77.0.1; o2ib(ib0) 10.*.*.*; tcp(eth1) 10.77.0.1\"\n";
    let options = options(source);
    let defaults = ConvertDefaults::default();
    let (config, notes) = options.to_config(&defaults).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    let specs: Vec<_> = config.ip2nets.iter().map(crate::Ip2Nets::spec).collect();
    assert_eq!(specs, ["tcp(eth0,eth1)", "o2ib(ib0)"]);
    assert!(options.prove(&config, &defaults).is_ok());
    let mut poorer = config;
    poorer.ip2nets[0].interfaces.truncate(1);
    assert!(options.prove(&poorer, &defaults).is_err());
}

#[test]
fn interfaces_with_cpts_of_their_own_are_items_of_their_own() {
    let nets = config("options lnet networks=\"tcp(eth0[1],eth1)[0]\"").nets;
    let cpts: Vec<_> = nets[0].nis.iter().map(|ni| ni.cpts.clone()).collect();
    assert_eq!(cpts, [[1], [0]]);
}

#[test]
fn a_network_without_interface_needs_one_to_be_given() {
    let options = options("options lnet networks=tcp,o2ib(ib0)");
    let rejected = options.to_config(&ConvertDefaults::default()).unwrap_err();
    assert_eq!(rejected, ConvertError::NoInterface("tcp".parse().unwrap()));
    let defaults = ConvertDefaults {
        interface: Some("eth7".to_owned()),
        ..ConvertDefaults::default()
    };
    let (config, _) = options.to_config(&defaults).unwrap();
    assert_eq!(config.nets[0].nis[0].interfaces, ["eth7"]);
    assert_eq!(config.nets[1].nis[0].interfaces, ["ib0"]);
}

#[test]
fn an_unclosed_list_is_rejected_where_it_breaks_off() {
    insta::assert_snapshot!(rejection("options lnet networks=\"tcp0(eth0\"\n"), @r#"
    error: expected ',' or ')' behind the interface, found the end of the text
     --> lnet.conf:1:33
      |
    1 | options lnet networks="tcp0(eth0"
      |                                 ^ here
    "#);
}

#[test]
fn unclosed_quotes_are_rejected() {
    insta::assert_snapshot!(rejection("options lnet \\\n  networks=\"tcp0(eth0)\n"), @r#"
    error: expected a value whose quotes are closed, found '"tcp0(eth0)'
     --> lnet.conf:2:12
      |
    2 |   networks="tcp0(eth0)
      |            ^ here
    "#);
}

#[test]
fn an_entry_behind_a_gateway_needs_a_separator() {
    insta::assert_snapshot!(
        rejection("options lnet routes=\"tcp1 10.0.0.1@tcp tcp2 10.0.0.2@tcp\"\n"),
        @r#"
    error: expected a gateway, or ';' and another entry, found 'tcp2'
     --> lnet.conf:1:40
      |
    1 | options lnet routes="tcp1 10.0.0.1@tcp tcp2 10.0.0.2@tcp"
      |                                        ^ here
    "#
    );
}

#[test]
fn hop_count_out_of_range_is_rejected() {
    insta::assert_snapshot!(rejection("options lnet routes=\"tcp1 256 10.0.0.1@tcp\"\n"), @r#"
    error: invalid value '256' for key 'hop'
     --> lnet.conf:1:27
      |
    1 | options lnet routes="tcp1 256 10.0.0.1@tcp"
      |                           ^^^ invalid hop count must be between 1 and 255
    "#);
}

#[test]
fn a_network_given_twice_has_the_interfaces_of_both() {
    let nets = config("options lnet networks=tcp(eth0)[0],o2ib(ib0),tcp0(eth1)").nets;
    let nis: Vec<_> = nets[0]
        .nis
        .iter()
        .map(|ni| (ni.interfaces.as_slice(), ni.cpts.as_slice()))
        .collect();
    assert_eq!(nets.len(), 2);
    assert_eq!(
        nis,
        [
            (["eth0".to_owned()].as_slice(), [0].as_slice()),
            (["eth1".to_owned()].as_slice(), [].as_slice())
        ]
    );
}

#[test]
fn an_interface_given_twice_for_a_network_is_rejected() {
    insta::assert_snapshot!(rejection("options lnet networks=tcp(eth0),tcp0(eth0)\n"), @r#"
    error: 'tcp' is given twice
     --> lnet.conf:1:33
      |
    1 | options lnet networks=tcp(eth0),tcp0(eth0)
      |                                 ^^^^ remove one of them
    "#);
}

#[test]
fn quotes_inside_quotes_and_doubled_ones_are_read() {
    let plain = config(
        "options lnet ip2nets=\"tcp0(eth0) 192.168.0.[2,4]; o2ib *.*.*.*\" forwarding=enabled",
    );
    for source in [
        "options lnet 'ip2nets=\"tcp0(eth0) 192.168.0.[2,4]; o2ib *.*.*.*\"' forwarding=enabled",
        "options lnet ip2nets='\"tcp0(eth0) 192.168.0.[2,4]; o2ib *.*.*.*\"' forwarding=enabled",
        "options lnet ip2nets=\"\"tcp0(eth0) 192.168.0.[2,4]; o2ib *.*.*.*\"\" forwarding=enabled",
        "options lnet 'ip2nets=\"tcp0(eth0) 192.168.0.[2,4]; o2ib *.*.*.*\" forwarding=enabled'",
    ] {
        assert_eq!(config(source), plain, "{source}");
    }
    for text in [
        "'ip2nets=\"tcp0(eth0) 192.168.0.[2,4]\"'",
        "ip2nets='\"tcp0(eth0) 192.168.0.[2,4]\"'",
        "\"tcp0(eth0) 192.168.0.[2,4]\"",
    ] {
        let mut options = ModuleOptions::default();
        let read = options.add_text(text, Dialect::Converter);
        read.unwrap_or_else(|error| panic!("{}", error.render(text)));
        let (read, _) = options.to_config(&ConvertDefaults::default()).unwrap();
        assert_eq!(read.ip2nets, plain.ip2nets[..1], "{text}");
    }
    let empty = options("options lnet networks=\"\" forwarding=\"\"");
    assert!(empty.networks.is_empty() && empty.forwarding.is_none());
}

#[test]
fn a_comment_ends_at_a_separator() {
    let rules =
        config("options lnet ip2nets=\"# rails; tcp(eth0) 10.0.0.* # first; o2ib(ib0) 10.1.*.*\"")
            .ip2nets;
    let nets: Vec<_> = rules.iter().map(crate::Ip2Nets::spec).collect();
    assert_eq!(nets, ["tcp(eth0)", "o2ib(ib0)"]);
}

#[test]
fn a_gateway_without_network_is_on_tcp() {
    let routes = |value: &str| config(&format!("options lnet routes=\"{value}\"")).routes;
    assert_eq!(
        routes("o2ib 1 10.0.0.[1-2]:7; o2ib1 10.0.0.9"),
        routes("o2ib 1 10.0.0.[1-2]@tcp:7; o2ib1 10.0.0.9@tcp")
    );
    assert_eq!(routes("o2ib 1 10.0.0.[1-2]:7").len(), 2);
}

// [CONF-53]
#[test]
fn what_options_do_not_keep_for_long_or_do_not_mean_is_warned_of() {
    let options = options(
        "options lnet ip2nets=\"tcp(eth0) 10.0.0.*; tcp(eth1) 10.0.1.*; o2ib 10.*.*.*\" \
         routes=\"o2ib1 10.0.0.1@tcp:1 10.0.0.2@tcp:2\"",
    );
    insta::assert_snapshot!(options.warnings().join("\n"), @r#"
    ip2nets, routes: deprecated options of the module, which kernels after 2.19 do not accept; import this YAML (`lnetctl import`, /etc/lnet.conf) and remove them from modprobe.d
    routes: kernels give all gateways of 'o2ib1 10.0.0.1@tcp:1 10.0.0.2@tcp:2' the last priority in the entry; the YAML gives each its own
    "#);
    assert!(ModuleOptions::default().warnings().is_empty());
}

// [CONF-50] [CONF-54]
#[test]
fn networks_and_ip2nets_together_make_no_whole_document() {
    let lost = |text: &str| {
        let options = ModuleOptions::parse(text, Dialect::Converter).unwrap();
        let (config, notes) = options.to_config(&ConvertDefaults::default()).unwrap();
        let lost = notes.iter().filter(|note| note.has_effect);
        let lost: Vec<String> = lost.map(ToString::to_string).collect();
        (lost.join("\n"), config.nets.len(), config.ip2nets.len())
    };
    let both = "options lnet networks=tcp(eth0) ip2nets=\"tcp(eth0) *.*.*.*\"";
    let told = "networks and ip2nets: they exclude each other, and the module does not start with both; remove the \
                wrong one";
    assert_eq!(lost(both), (told.to_owned(), 1, 1));
    assert_eq!(
        lost("options lnet networks=tcp(eth0)"),
        (String::new(), 1, 0)
    );
    let rules = "options lnet ip2nets=\"tcp(eth0) *.*.*.*\"";
    assert_eq!(lost(rules), (String::new(), 0, 1));
}

#[test]
fn a_document_that_lacks_what_options_give_is_not_proved() {
    let options = options(
        "options lnet networks=tcp(eth0,eth1[1]) routes=\"o2ib 2 10.0.0.[1-2]@tcp:3; tcp 10.0.0.9@tcp1\" \
         forwarding=enabled tiny_router_buffers=512 lnet_retry_count=3\n\
         options ksocklnd credits=512 credits=256 conns_per_peer=4 sock_timeout=50 tos=-1",
    );
    let defaults = ConvertDefaults::default();
    let (config, _) = options.to_config(&defaults).unwrap();
    let proof = options.prove(&config, &defaults).unwrap();
    assert_eq!(proof.to_string(), "2 NIs, 2 routes");
    let spoil: [fn(&mut Config); 12] = [
        |config| config.nets[0].nis[0].tunables.credits = Some(512),
        |config| config.nets[0].nis[1].tunables.credits = None,
        |config| config.nets[0].nis[1].lnd_tunables.conns_per_peer = None,
        |config| config.nets[0].nis[0].lnd_tunables.timeout = Some(5),
        |config| config.nets[0].nis[0].lnd_tunables.tos = Some(0),
        |config| config.routing = None,
        |config| config.buffers = Buffers::default(),
        |config| config.globals.retry_count = Some(2),
        |config| config.nets[0].nis.truncate(1),
        |config| config.nets[0].nis[1].cpts.clear(),
        |config| config.routes[1].priority = 0,
        |config| config.routes.reverse(),
    ];
    for (at, spoil) in spoil.iter().enumerate() {
        let mut spoiled = config.clone();
        spoil(&mut spoiled);
        assert!(options.prove(&spoiled, &defaults).is_err(), "{at}");
    }
}

#[test]
fn networks_and_ip2nets_exclude_each_other() {
    insta::assert_snapshot!(
        rejection("options lnet networks=tcp(eth0)\noptions lnet ip2nets=\"tcp 10.*.*.*\"\n"),
        @r#"
    error: networks and ip2nets exclude each other
     --> lnet.conf:2:14
      |
    2 | options lnet ip2nets="tcp 10.*.*.*"
      |              ^^^^^^^ remove one of them
    "#
    );
}

#[test]
fn a_number_out_of_range_is_rejected() {
    insta::assert_snapshot!(rejection("options lnet lnet_health_sensitivity=1001\n"), @r#"
    error: invalid value '1001' for key 'lnet_health_sensitivity'
     --> lnet.conf:1:38
      |
    1 | options lnet lnet_health_sensitivity=1001
      |                                      ^^^^ lnet_health_sensitivity is an integer from 0 to 1000
    "#);
}

#[test]
fn lengths_that_no_kernel_takes_are_rejected() {
    let mut config = Config::default();
    let route = |number: u16| crate::RouteConfig {
        net: lnet_types::Net::tcp(number),
        gateway: "10.0.0.1@o2ib".parse().unwrap(),
        hop: Some(1),
        priority: 0,
    };
    config.routes = (1..100).map(route).collect();
    let (options, _) = ModuleOptions::from_config(&config);
    let error = options.to_modprobe().unwrap_err();
    assert_eq!(error.name, "routes");
}

#[test]
fn what_the_module_has_no_option_for_is_named() {
    let config = parse(
        "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp, tunables: {credits: 8}}, \
         {nid: 10.0.0.3@tcp}]}]\n\
         peer: [{primary nid: 10.0.0.2@tcp}]\nudsp: [{src: tcp}]\n",
    );
    let (options, notes) = ModuleOptions::from_config(&config.unwrap());
    assert_eq!(options, ModuleOptions::default());
    insta::assert_snapshot!(joined(&notes), @r#"
    10.0.0.1@tcp: networks accepts interfaces, not NIDs
    10.0.0.3@tcp: networks accepts interfaces, not NIDs
    tcp: tunables of single interfaces cannot be options of the module
    peer 10.0.0.2@tcp: peers cannot be options of the module
    udsp: selection rules cannot be options of the module
    "#);
}

/// The part of a configuration that options can express.
fn sayable(mut config: Config) -> Config {
    let of_tcp = config.nets.iter().filter(|net| net.net.lnd == LndType::TCP);
    let first = of_tcp.flat_map(|net| &net.nis).next();
    let tunables = first.map_or(Default::default(), |ni| ni.tunables.clone());
    for net in &mut config.nets {
        net.nis.retain(|ni| ni.nid.is_none());
        for ni in &mut net.nis {
            let is_tcp = net.net.lnd == LndType::TCP;
            ni.tunables = if is_tcp {
                tunables.clone()
            } else {
                Default::default()
            };
            ni.lnd_tunables = Default::default();
            ni.interfaces.truncate(1);
            let plain = |c: char| c.is_ascii_alphanumeric();
            ni.interfaces.retain(|name| name.chars().all(plain));
        }
        net.nis.retain(|ni| !ni.interfaces.is_empty());
    }
    config.nets.retain(|net| !net.nis.is_empty());
    config.ip2nets.clear();
    config.peers.clear();
    config.rules = Default::default();
    config.globals = Globals {
        profile: None,
        match_addresses: None,
        ..config.globals
    };
    let local: Vec<_> = config.nets.iter().map(|net| net.net).collect();
    config
        .routes
        .retain(|route| local.contains(&route.gateway.net()));
    config
}

/// The interfaces of each network with their CPTs and tunables, in any grouping.
fn interfaces(config: &Config) -> Vec<(String, Vec<u32>, Tunables)> {
    let nis = config
        .nets
        .iter()
        .flat_map(|net| net.nis.iter().map(move |ni| (net.net, ni)));
    nis.flat_map(|(net, ni)| {
        let named = move |name: &String| {
            (
                format!("{net}({name})"),
                ni.cpts.clone(),
                ni.tunables.clone(),
            )
        };
        ni.interfaces.iter().map(named)
    })
    .collect()
}

#[test]
fn parameters_of_router_checks_are_options_of_the_module() {
    let yaml = "global: {alive_router_check_interval: 5, avoid_asym_router_failure: 0, profile: lustre, match_addresses: 1}\n";
    let (options, notes) = ModuleOptions::from_config(&parse(yaml).unwrap());
    let text = options.to_modprobe().unwrap();
    assert_eq!(
        text,
        "options lnet alive_router_check_interval=5 avoid_asym_router_failure=0\n"
    );
    assert!(notes.iter().all(|note| !note.has_effect));
    assert_eq!(
        joined(&notes),
        ["profile", "match_addresses"]
            .map(|key| format!("{key}: no kernel has this parameter"))
            .join("\n")
    );
    assert_eq!(ModuleOptions::parse(&text, Dialect::Kernel), Ok(options));
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn options_printed_and_read_make_the_same_configuration(config in any_config()) {
        let config = sayable(config);
        let (options, _) = ModuleOptions::from_config(&config);
        let Ok(text) = options.to_modprobe() else { return Ok(()) };
        let read = ModuleOptions::parse(&text, Dialect::Kernel);
        prop_assert_eq!(read.as_ref(), Ok(&options), "{}", text);
        let (back, notes) = options.to_config(&ConvertDefaults::default()).unwrap();
        prop_assert_eq!(notes, Vec::<LeftOut>::new());
        prop_assert_eq!(interfaces(&back), interfaces(&config));
        prop_assert_eq!(&back.routes, &config.routes);
        prop_assert_eq!(back.globals, config.globals);
        prop_assert_eq!(back.routing, config.routing);
        prop_assert!(options.prove(&back, &ConvertDefaults::default()).is_ok());
        prop_assert_eq!(parse(&back.to_yaml()), Ok(back));
    }

    #[test]
    fn no_text_makes_the_reader_of_options_panic(
        words in vec("options|lnet|networks=|ip2nets=|routes=|tcp[0-9]|[(){}\\[\\],;:#@=*\"' \\\\\n]|10\\.0\\.0\\.[1-9]|.{0,3}", 0..30),
    ) {
        let text = words.concat();
        for dialect in [Dialect::Kernel, Dialect::Converter] {
            let mut options = ModuleOptions::default();
            match options.add_text(&text, dialect) {
                Ok(()) => {
                    let _ = options.to_config(&ConvertDefaults::default());
                    let _ = options.to_modprobe();
                }
                Err(error) => prop_assert!(!error.render("test").is_empty()),
            }
        }
    }
}

#[test]
fn options_of_an_lnd_are_those_of_all_its_interfaces_and_back() {
    let source = "\
options lnet networks=\"tcp(eth0),tcp1(eth1),o2ib(ib0)\"
options ksocklnd credits=512
options ksocklnd peer_credits=16
options ksocklnd conns_per_peer=4
options ko2iblnd peer_timeout=60
options ko2iblnd peer_credits_hiw=64
options ko2iblnd ntx=2048
";
    let config = config(source);
    let other = &config.nets[2].nis[0].lnd_tunables.other;
    assert_eq!(other["peercredits_hiw"], "64");
    assert_eq!(parse(&config.to_yaml()).as_ref(), Ok(&config));
    let tcp = |net: usize| &config.nets[net].nis[0];
    for ni in [tcp(0), tcp(1)] {
        assert_eq!(
            (ni.tunables.credits, ni.tunables.peer_credits),
            (Some(512), Some(16))
        );
        assert_eq!(ni.lnd_tunables.conns_per_peer, Some(4));
    }
    assert_eq!(config.nets[2].nis[0].tunables.peer_timeout, Some(60));
    assert_eq!(config.nets[2].nis[0].tunables.credits, None);
    let (back, notes) = ModuleOptions::from_config(&config);
    assert_eq!(
        (back.to_modprobe().unwrap().as_str(), notes.len()),
        (source, 0)
    );
}

#[test]
fn options_of_an_lnd_that_no_interface_has_are_told() {
    let source = "options lnet ip2nets='tcp(eth0) 10.*.*.*'\n\
                  options ksocklnd nscheds=4 credits=many peer_credits=-1 tos=256 peer_timeout=9\n\
                  options ko2iblnd credits=1\noptions kgnilnd credits=1\n";
    let (config, notes) = options(source)
        .to_config(&ConvertDefaults::default())
        .unwrap();
    assert_eq!(config.ip2nets[0].tunables.peer_timeout, Some(9));
    let told = [
        "ksocklnd nscheds",
        "ksocklnd credits",
        "ksocklnd tos",
        "ko2iblnd",
        "kgnilnd",
    ];
    assert_eq!(notes.len(), told.len(), "{notes:?}");
    for (note, begin) in notes.iter().zip(told) {
        assert!(note.text.starts_with(begin), "{note}");
    }
}

#[test]
fn interfaces_that_differ_are_no_options_of_their_lnd() {
    let mut config =
        config("options lnet networks=tcp(eth0,eth1[0])\noptions ksocklnd credits=9\n");
    config.nets[0].nis[1].tunables.credits = Some(10);
    let (back, notes) = ModuleOptions::from_config(&config);
    assert!(back.others.is_empty());
    assert_eq!(
        joined(&notes),
        "tcp: tunables of single interfaces cannot be options of the module"
    );
    assert!(notes.iter().all(|note| note.has_effect));
}

#[test]
fn timeouts_of_modules_are_those_of_their_interfaces_and_come_back() {
    let file = "options lnet networks=\"tcp(eth0),o2ib(ib0)\"\n\
                options ksocklnd sock_timeout=65\noptions ko2iblnd timeout=30\n";
    let options = options(file);
    let (config, notes) = options.to_config(&ConvertDefaults::default()).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    let timeouts = config
        .nets
        .iter()
        .map(|net| net.nis[0].lnd_tunables.timeout);
    assert_eq!(timeouts.collect::<Vec<_>>(), [Some(65), Some(30)]);
    let warnings = options.warnings().join("\n");
    assert!(
        warnings.contains("ksocklnd sock_timeout=65: nodes of Finerail"),
        "{warnings}"
    );
    let (back, notes) = ModuleOptions::from_config(&config);
    assert!(notes.is_empty(), "{notes:?}");
    let text = back.to_modprobe().unwrap();
    assert!(text.contains("options ksocklnd sock_timeout=65"), "{text}");
    assert!(text.contains("options ko2iblnd timeout=30"), "{text}");
}

#[test]
fn routers_parameters_are_parameters_of_the_document() {
    let file = "options lnet networks=tcp(eth0) avoid_asym_router_failure=0 alive_router_check_interval=10 \
                router_ping_timeout=7 check_routers_before_use=1\n";
    let options = options(file);
    let (config, notes) = options.to_config(&ConvertDefaults::default()).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    let globals = crate::parse(&config.to_yaml()).unwrap().globals;
    assert_eq!(globals.avoid_asym_router_failure, Some(false));
    assert_eq!(globals.alive_router_check_interval, Some(10));
    assert_eq!(globals.router_ping_timeout, Some(7));
    assert_eq!(globals.check_routers_before_use, Some(true));
}

#[test]
fn options_whose_entries_are_the_same_may_mean_something_else() {
    let is_same = |source: &str| {
        let options = ModuleOptions::parse(source, Dialect::Converter).unwrap();
        options.is_same_as_yaml()
    };
    assert!(is_same("options lnet networks=tcp(eth0)\n"));
    assert!(is_same("options lnet ip2nets=\"tcp(eth0) *.*.*.*\"\n"));
    assert!(!is_same(
        "options lnet networks=tcp(eth0) ip2nets=\"tcp(eth0) *.*.*.*\"\n"
    ));
    assert!(!is_same(
        "options lnet networks=tcp(eth0)\noptions ksocklnd sock_timeout=65\n"
    ));
}

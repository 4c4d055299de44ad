//! Sites with real names, addresses and several interfaces a node.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::net::Ipv4Addr;

use fgr::check::check;
use fgr::config::{
    BackupPriority, Form, NetTunables, NodeRole, Scheme, Server, Site, SiteError, Slots, Timing,
    read_servers,
};
use fgr::{Machine, Options, Policy, assign, failed, read_machine};
use lnet_types::{LndType, Net};

/// Two gateways between Slingshot (two NICs of 25 GB/s) and InfiniBand (one of 50, one of 25).
const SITE: &str = "\
machine: site
fabric:
  kind: dragonfly
  groups: 2
  switches: 4
  links-per-pair: 2
  local-capacity: 25
  global-capacity: 25
clients:
  list:
    - id: 1
      name: x1000c0s0b0n0
      at: [0, 0]
      nics: &four
        - {interface: hsn0, address: 10.1.0.1, rate: 25}
        - {interface: hsn1, address: 10.1.0.2, rate: 25}
        - {interface: hsn2, address: 10.1.0.3, rate: 25}
        - {interface: hsn3, address: 10.1.0.4, rate: 25}
    - {id: 2, name: login01, at: [0, 1], nics: [{interface: hsn0, address: 10.1.0.9, rate: 25}]}
    - {id: 3, name: uan02, at: [1, 1]}
groups:
  - name: A
    nets: [o2ib1]
    sub-groups:
      - modules:
          - blade: r1
            at: [0, 3]
            nodes:
              - id: 101
                name: gateway01
                nics:
                  - {interface: hsn0, address: 10.1.9.1, rate: 25}
                  - {interface: hsn1, address: 10.1.9.2, rate: 25}
                  - {net: o2ib1, interface: ib0, address: 10.2.9.1, rate: 50}
          - blade: r2
            at: [1, 3]
            nodes:
              - id: 102
                name: gateway02
                nics:
                  - {interface: hsn0, address: 10.1.9.3, rate: 25}
                  - {interface: hsn1, address: 10.1.9.4, rate: 25}
                  - {net: o2ib1, interface: ib0, address: 10.2.9.2, rate: 12.5}
                  - {net: o2ib1, interface: ib1, address: 10.2.9.3, rate: 12.5}
";

fn scheme(form: Form) -> Scheme {
    Scheme {
        client_net: "tcp100".parse().unwrap(),
        client_interface: "hsn0".to_owned(),
        server_interface: "ib0".to_owned(),
        client_addresses: Ipv4Addr::new(10, 8, 0, 0),
        server_addresses: Ipv4Addr::new(10, 9, 0, 0),
        backups: BackupPriority::Ranked,
        form,
        slots: Slots::All,
        timing: Timing::PLANNED,
    }
}

fn servers() -> Vec<Server> {
    read_servers(
        "s",
        "oss1,10.3.0.1@o2ib1\noss1,10.3.0.2@o2ib1\noss2,10.3.0.3@o2ib1\n",
    )
    .unwrap()
}

fn site(machine: &Machine, scheme: &Scheme) -> Result<Site, SiteError> {
    let options = Options {
        backups: 1,
        ..Options::default()
    };
    let plan = assign(machine, Policy::suited(machine), &options).unwrap();
    Site::new(machine, &plan, scheme, &servers())
}

#[test]
fn nodes_have_the_names_addresses_and_interfaces_of_the_machine() {
    let machine = read_machine("m", SITE).unwrap();
    for form in [Form::SlotNets, Form::MultiRail] {
        let site = site(&machine, &scheme(form)).unwrap();
        let node = |name: &str| site.nodes.iter().find(|node| node.name == name).unwrap();
        let config = site.node_config(node("x1000c0s0b0n0"));
        let nids: Vec<String> = config.nets[0]
            .nis
            .iter()
            .map(|ni| ni.nid.unwrap().to_string())
            .collect();
        let net = config.nets[0].net;
        assert_eq!(nids, [1, 2, 3, 4].map(|n| format!("10.1.0.{n}@{net}")));
        let class = &site.class_of(node("x1000c0s0b0n0")).config;
        let names = class.nets[0]
            .nis
            .iter()
            .flat_map(|ni| ni.interfaces.clone());
        assert_eq!(names.collect::<Vec<_>>(), ["hsn0", "hsn1", "hsn2", "hsn3"]);
        let other = site.node_config(node("uan02"));
        assert_eq!(
            other.nets[0].nis[0].nid.unwrap().to_string(),
            format!("10.8.0.3@{net}")
        );
        // Without discovery each interface of a gateway is a peer of its own.
        let gateways = config
            .routes
            .iter()
            .filter(|route| route.priority == 0)
            .count();
        assert_eq!(gateways, if form == Form::SlotNets { 2 } else { 1 });
        let router = site.node_config(node("gateway02"));
        let behind = router
            .nets
            .iter()
            .find(|net| net.net.to_string() == "o2ib1")
            .unwrap();
        let behind = behind.nis.iter().map(|ni| ni.nid.unwrap().to_string());
        assert_eq!(
            behind.collect::<Vec<_>>(),
            ["10.2.9.2@o2ib1", "10.2.9.3@o2ib1"]
        );
        let oss = site.node_config(node("oss1"));
        assert_eq!((oss.nets.len(), oss.nets[0].nis.len()), (1, 2));
        let oss = &site.class_of(node("oss1")).config.nets[0];
        let names = oss.nis.iter().flat_map(|ni| ni.interfaces.clone());
        assert_eq!(names.collect::<Vec<_>>(), ["ib0", "ib1"]);
    }
}

#[test]
fn the_configuration_is_proved_in_both_forms_and_a_lost_interface_is_noticed() {
    let machine = read_machine("m", SITE).unwrap();
    for form in [Form::SlotNets, Form::MultiRail] {
        let mut site = site(&machine, &scheme(form)).unwrap();
        let report = check(&site);
        assert!(
            report.is_proved() && report.pairs > 0,
            "{form:?}: {report:?}"
        );
        for class in site
            .classes
            .iter_mut()
            .filter(|class| class.role == NodeRole::Client)
        {
            class
                .config
                .routes
                .retain(|route| !route.gateway.to_string().starts_with("10.1.9.1@"));
        }
        assert!(!check(&site).is_proved(), "{form:?}");
    }
}

#[test]
fn a_router_promises_no_more_than_its_slower_side() {
    let machine = read_machine("m", SITE).unwrap();
    assert_eq!(machine.details.forwarding_rate(101), Some(50.0));
    assert_eq!(machine.details.forwarding_rate(102), Some(25.0));
    assert_eq!(machine.details.forwarding_rate(2), None);
    let unknown = SITE.replace("address: 10.1.9.4, rate: 25", "address: 10.1.9.4");
    let machine = read_machine("m", &unknown).unwrap();
    assert_eq!(machine.details.forwarding_rate(102), None);
}

#[test]
fn routers_are_found_by_their_names() {
    let machine = read_machine("m", &(SITE.to_owned() + "down: [\"gateway[01-02]\"]\n")).unwrap();
    assert_eq!(machine.down.len(), 2);
    assert_eq!(failed(&machine, "gateway02").unwrap().routers.len(), 1);
}

#[test]
fn contradictions_of_names_and_addresses_have_their_lines() {
    let complaint = |from: &str, to: &str| {
        let error = read_machine("m", &SITE.replacen(from, to, 1)).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        complaint("10.1.9.3", "10.1.9.1"),
        "m:35: 10.1.9.1 belongs to node 101 already"
    );
    assert_eq!(
        complaint("name: gateway02", "name: login01"),
        "m:35: login01 belongs to node 2 already"
    );
    assert!(
        complaint("ib1, address: 10.2.9.3, ", "ib1, ").contains("m:41: an address of interface 4")
    );
    assert!(
        complaint("rate: 12.5", "rate: -1")
            .contains("rate: '-1' is not a number of GB/s from 0.001")
    );
    assert!(
        complaint("{net: o2ib1, interface: ib0", "{net: o2ib7, interface: ib0")
            .contains("not a net of the node")
    );
    assert!(complaint("interface: hsn3", "port: hsn3").contains("unknown key 'port'"));
    // An address that the scheme counts for a node without interfaces.
    let machine = read_machine("m", SITE).unwrap();
    let clash = Scheme {
        client_addresses: Ipv4Addr::new(10, 1, 0, 1),
        ..scheme(Form::SlotNets)
    };
    let error = site(&machine, &clash).unwrap_err();
    assert!(
        matches!(error, SiteError::AddressTwice { nodes: [3, 1], .. }),
        "{error}"
    );
}

#[test]
fn nets_have_the_given_tunables_in_both_forms_and_refuse_those_of_other_lnds() {
    let machine = read_machine("m", SITE).unwrap();
    let mut site = site(&machine, &scheme(Form::SlotNets)).unwrap();
    let is_behind = |net: Net| net.lnd == LndType::O2IB;
    let given = "peer_credits=32,credits=1024,peercredits_hiw=16,conns_per_peer=4";
    site.tune(&given.parse().unwrap(), is_behind).unwrap();
    for role in [NodeRole::Router, NodeRole::Server] {
        let class = site
            .classes
            .iter()
            .find(|class| class.role == role)
            .unwrap();
        let (yaml, options) = (class.yaml(), class.modprobe(Timing::PLANNED).unwrap());
        for pair in given.split(',') {
            assert!(yaml.contains(&pair.replace('=', ": ")), "{yaml}");
            // The module has another name for this one.
            let option = pair.replace("peercredits_hiw", "peer_credits_hiw");
            assert!(
                options.contains(&format!("options ko2iblnd {option}\n")),
                "{options}"
            );
        }
    }
    let client = &site.classes[0];
    assert!(client.role == NodeRole::Client && !client.yaml().contains("peer_credits"));

    let refused = site.tune(&given.parse().unwrap(), |net| !is_behind(net));
    let text = refused.unwrap_err().to_string();
    assert!(text.starts_with("tunables of tcp101: "), "{text}");
    assert!(
        text.contains("peercredits_hiw") && !text.contains("line "),
        "{text}"
    );
    for wrong in ["", "credits", "credits=-1", "credits=1,,", "a b=1"] {
        assert!(wrong.parse::<NetTunables>().is_err(), "{wrong}");
    }
}

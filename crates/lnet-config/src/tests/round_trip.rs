//! Writing and reading agree.

use std::collections::BTreeSet;
use std::net::IpAddr;

use lnet_types::{LndType, Net, Nid};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;

use crate::{
    Buffers, Config, Globals, LndTunables, NetConfig, NiConfig, PeerConfig, RouteConfig, Tunables,
    parse,
};

fn any_net() -> impl Strategy<Value = Net> {
    let lnd = prop::sample::select(vec![2u8, 5, 13, 16, 18, 77]);
    (lnd, prop_oneof![Just(0), any::<u16>()])
        .prop_map(|(lnd, number)| Net::new(LndType(lnd), number))
}

fn any_nid(net: Net) -> impl Strategy<Value = Nid> {
    prop_oneof![
        any::<u32>().prop_map(move |address| Nid::from_number(net, address)),
        any::<u128>().prop_map(move |bits| Nid::from_ip(net, IpAddr::V6(bits.into()))),
    ]
}

fn tunable() -> impl Strategy<Value = Option<u32>> {
    of(0..=0x7FFF_FFFFu32)
}

fn any_tunables() -> impl Strategy<Value = Tunables> {
    (tunable(), tunable(), tunable(), tunable()).prop_map(
        |(peer_timeout, peer_credits, peer_buffer_credits, credits)| Tunables {
            peer_timeout,
            peer_credits,
            peer_buffer_credits,
            credits,
        },
    )
}

fn any_lnd_tunables(lnd: LndType) -> impl Strategy<Value = LndTunables> {
    // A key of more than 1,024 characters is not YAML, nor is an empty value a value.
    let others = btree_map("[a-wyz_]{1,10}x|x.{0,10}", ".{1,20}", 0..3);
    (of(0..=127u8), tunable(), any::<Option<u8>>(), others).prop_map(
        move |(conns_per_peer, timeout, tos, other)| LndTunables {
            conns_per_peer,
            timeout,
            tos,
            other: if lnd == LndType::TCP {
                Default::default()
            } else {
                other
            },
        },
    )
}

fn any_ni(net: Net) -> impl Strategy<Value = NiConfig> {
    let name = prop_oneof!["[a-z]{1,4}[0-9]{1,6}", "[!-~]{1,15}"];
    let names = btree_set(name, 1..4);
    let who = prop_oneof![
        names.clone().prop_map(|names| (None, names)),
        any_nid(net).prop_map(|nid| (Some(nid), BTreeSet::new())),
        (any_nid(net), names)
            .prop_map(|(nid, names)| (Some(nid), names.into_iter().take(1).collect())),
    ];
    let cpts = btree_set(0..5000u32, 0..4);
    (who, any_tunables(), any_lnd_tunables(net.lnd), cpts).prop_map(
        |((nid, interfaces), tunables, lnd_tunables, cpts)| NiConfig {
            nid,
            interfaces: interfaces.into_iter().collect(),
            tunables,
            lnd_tunables,
            cpts: cpts.into_iter().collect(),
        },
    )
}

/// Networks without what a document may not repeat.
fn any_nets() -> impl Strategy<Value = Vec<NetConfig>> {
    let net = any_net().prop_flat_map(|net| (Just(net), vec(any_ni(net), 1..4)));
    vec(net, 0..4).prop_map(|nets| {
        let (mut seen, mut nids) = (BTreeSet::new(), BTreeSet::new());
        let mut result = Vec::new();
        for (net, mut nis) in nets {
            let mut names = BTreeSet::new();
            nis.retain(|ni| match ni.nid {
                Some(nid) => nids.insert(nid),
                None => ni.interfaces.iter().all(|name| names.insert(name.clone())),
            });
            if !nis.is_empty() && seen.insert(net) {
                result.push(NetConfig { net, nis });
            }
        }
        result
    })
}

fn any_globals() -> impl Strategy<Value = Globals> {
    let first = (
        tunable(),
        tunable(),
        of(any::<bool>()),
        of(any::<bool>()),
        of(0..=9u32),
        of(9..=99u32),
    );
    let second = (
        of(1..=1000u32),
        of(0..=100u32),
        of(0..=3u32),
        tunable(),
        of(1..=900u32),
    );
    (first, second).prop_map(|(first, second)| Globals {
        numa_range: first.0,
        max_interfaces: first.1,
        discovery: first.2,
        drop_asym_route: first.3,
        retry_count: first.4,
        transaction_timeout: first.5,
        health_sensitivity: second.0,
        router_sensitivity: second.1,
        response_tracking: second.2,
        recovery_limit: second.3,
        max_recovery_ping_interval: second.4,
    })
}

/// Routes to networks that are not local, by gateways on networks that are.
fn routes(nets: &[NetConfig], picks: Vec<(u32, u16, Option<u8>, u32)>) -> Vec<RouteConfig> {
    let remote = |number| Net::new(LndType(14), number);
    let mut seen = BTreeSet::new();
    picks
        .into_iter()
        .filter_map(|(address, number, hop, priority)| {
            let local = nets.get(usize::from(number) % nets.len().max(1))?;
            let gateway = Nid::from_number(local.net, address);
            let own = nets
                .iter()
                .flat_map(|net| &net.nis)
                .any(|ni| ni.nid == Some(gateway));
            let is_new = !own && seen.insert((number, gateway));
            let hop = hop.filter(|&hop| hop > 0);
            is_new.then_some(RouteConfig {
                net: remote(number),
                gateway,
                hop,
                priority,
            })
        })
        .collect()
}

fn any_peers() -> impl Strategy<Value = Vec<PeerConfig>> {
    let nid = any_net().prop_flat_map(any_nid);
    let peer = (vec(nid, 1..4), any::<bool>());
    vec(peer, 0..4).prop_map(|peers| {
        let mut seen = BTreeSet::new();
        let peers = peers.into_iter().map(|(mut nids, multi_rail)| {
            nids.retain(|nid| seen.insert(*nid));
            PeerConfig { nids, multi_rail }
        });
        peers.filter(|peer| !peer.nids.is_empty()).collect()
    })
}

fn any_config() -> impl Strategy<Value = Config> {
    let picks = vec(
        (
            any::<u32>(),
            any::<u16>(),
            any::<Option<u8>>(),
            any::<u32>(),
        ),
        0..5,
    );
    let buffers = (tunable(), tunable(), tunable());
    (
        any_nets(),
        picks,
        any_peers(),
        of(any::<bool>()),
        buffers,
        any_globals(),
    )
        .prop_map(
            |(nets, picks, peers, routing, (tiny, small, large), globals)| Config {
                routes: routes(&nets, picks),
                nets,
                peers,
                routing,
                buffers: Buffers { tiny, small, large },
                globals,
                ..Config::default()
            },
        )
}

proptest! {
    #[test]
    fn parsing_what_was_written_gives_the_configuration(config in any_config()) {
        let text = config.to_yaml();
        match parse(&text) {
            Ok(parsed) => prop_assert_eq!(parsed, config),
            Err(error) => prop_assert!(false, "{}\n{text}", error.render("written")),
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z0-9:{}\\[\\],&*!|>'\"%@`# \n\t-]{0,60}|.{0,60}") {
        let _ = parse(&text).map_err(|error| error.render("test"));
    }

    #[test]
    fn no_change_of_a_document_makes_the_parser_panic(
        config in any_config(),
        at in any::<prop::sample::Index>(),
        put in "[a-z0-9:{}\\[\\],&*!|>'\"%@`# \n\t-]|.",
    ) {
        let mut text = config.to_yaml();
        let at = at.index(text.len() + 1);
        let at = (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap();
        text.insert_str(at, &put);
        let _ = parse(&text).map_err(|error| error.render("test"));
    }
}

#[test]
fn layout_is_that_of_a_backup() {
    let source = r#"net:
-     net type: tcp
      local NI(s):
      -     interfaces:
                  0: eth0
            tunables:
                  peer_timeout: 180
                  peer_credits: 8
                  peer_buffer_credits: 0
                  credits: 256
            lnd tunables:
                  conns_per_peer: 1
                  timeout: 49
                  tos: 4
            CPT: "[0]"
      -     nid: 10.0.0.2@tcp
            interfaces:
                  0: eth1
route:
-     net: tcp5
      gateway: 10.1.0.3@tcp
      hop: 1
      priority: 2
peer:
-     primary nid: 10.1.0.2@tcp
      Multi-Rail: true
      peer ni:
      -     nid: 10.1.0.2@tcp
      -     nid: 10.2.0.2@tcp1
routing:
    enable: 1
buffers:
    tiny: 2048
    small: 16384
    large: 1024
global:
    numa_range: 0
    max_interfaces: 200
    discovery: 1
    drop_asym_route: 0
    retry_count: 2
    transaction_timeout: 150
    health_sensitivity: 100
    router_sensitivity: 100
    response_tracking: 3
    recovery_limit: 0
    max_recovery_ping_interval: 900
"#;
    assert_eq!(parse(source).unwrap().to_yaml(), source);
}

#[test]
fn nothing_is_written_for_nothing() {
    assert_eq!(Config::default().to_yaml(), "");
}

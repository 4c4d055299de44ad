//! Random configurations and documents.

use std::collections::BTreeSet;
use std::net::IpAddr;

use lnet_policy::{Priority, Profile, Rule, RuleList};
use lnet_types::expr::Descriptor;
use lnet_types::{LndType, Net, Nid};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;

use crate::stats::{Block, Slot};
use crate::{
    Buffers, Config, CptPools, DerivedGlobals, Document, ErrorBlock, ErrorLayout, Globals, Ip2Nets,
    LndTunables, NetConfig, NiConfig, NiShow, PeerConfig, PeerNiShow, PeerReply, Reply,
    RouteConfig, RouteType, Status, Tunables, UdspInfo,
};

/// The number of cases: short for ordinary runs, longer for the long suite.
pub(super) fn cases() -> ProptestConfig {
    let long = std::env::var_os("FINERAIL_LONG").is_some_and(|value| value == "1");
    ProptestConfig::with_cases(if long { 10_000 } else { 100 })
}

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
    // A key of more than 1,024 characters is not YAML, and an empty text is not a value.
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

/// Networks without repetitions, which documents may not have.
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
    let profile = prop_oneof![Just(Profile::Design), Just(Profile::Lustre)];
    let unshown = (
        of(0..=900u32),
        of(1..=900u32),
        of(any::<bool>()),
        of(any::<bool>()),
        of(profile),
        of(any::<bool>()),
    );
    (first, second, unshown).prop_map(|(first, second, unshown)| Globals {
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
        alive_router_check_interval: unshown.0,
        router_ping_timeout: unshown.1,
        check_routers_before_use: unshown.2,
        avoid_asym_router_failure: unshown.3,
        profile: unshown.4,
        match_addresses: unshown.5,
    })
}

/// Routes to networks that are not local, through gateways on local networks.
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

fn any_patterns() -> impl Strategy<Value = Vec<crate::IpPattern>> {
    let pattern = prop_oneof![
        Just("*.*.*.*"),
        Just("192.168.[1-2].*"),
        Just("10.0.0.[1-9/2]"),
        Just("10.[1,3].0.7"),
        Just("fd00::1"),
        Just("fd00:1::/64"),
    ];
    vec(pattern.prop_map(|text| text.parse().unwrap()), 0..3)
}

fn any_ip2nets() -> impl Strategy<Value = Vec<Ip2Nets>> {
    let rule = any_net().prop_flat_map(|net| {
        let names = btree_set("[a-z]{1,4}[0-9]{1,6}", 0..3);
        let cpts = btree_set(0..5000u32, 0..4);
        let settings = (any_tunables(), any_lnd_tunables(net.lnd), cpts);
        (Just(net), names, any_patterns(), settings).prop_map(
            |(net, names, patterns, (tunables, lnd_tunables, cpts))| Ip2Nets {
                net,
                interfaces: names.into_iter().collect(),
                patterns,
                tunables,
                lnd_tunables,
                cpts: cpts.into_iter().collect(),
            },
        )
    });
    vec(rule, 0..3)
}

fn any_descriptor() -> impl Strategy<Value = Descriptor> {
    let net = prop::sample::select(vec!["tcp", "tcp0", "tcp7", "tcp*", "tcp[1-9/2]", "o2ib"]);
    let octet = prop::sample::select(vec!["*", "7", "[1-9/2]", "[1,3-5]", "[*,3]", "0"]);
    let quad =
        (octet.clone(), octet, net.clone()).prop_map(|(a, b, net)| format!("10.{a}.0.{b}@{net}"));
    let number = prop::sample::select(vec!["5@gni", "*@gni*", "[2-8]@kfi3", "fd00::/64@tcp"]);
    prop_oneof![
        4 => quad,
        2 => net.prop_map(str::to_owned),
        1 => number.prop_map(str::to_owned),
    ]
    .prop_map(|text| text.parse().unwrap())
}

/// Rules of every kind, with every kind of priority.
pub(super) fn any_rules() -> impl Strategy<Value = RuleList> {
    let priority = prop_oneof![Just(0), 0..5u32, Just(u32::MAX - 1)];
    let priority = priority
        .prop_map(|value| Priority::new(value).unwrap())
        .boxed();
    let one =
        (any_descriptor(), priority.clone(), any::<bool>()).prop_map(|(what, value, local)| {
            let make = if local { Rule::local } else { Rule::remote };
            make(what, value).unwrap()
        });
    let rank = prop_oneof![Just(Priority::NONE), priority];
    let pair = (any_descriptor(), any_descriptor(), rank)
        .prop_map(|(local, remote, rank)| Rule::pair(local, remote, rank).unwrap());
    let router = (any_descriptor(), any_descriptor())
        .prop_map(|(remote, gateway)| Rule::router(remote, gateway).unwrap());
    let any = (
        prop_oneof![2 => one, 2 => pair, 1 => router],
        prop::bool::weighted(0.1),
    );
    vec(any, 0..8).prop_map(|rules| {
        let mut list = RuleList::new();
        for (rule, disabled) in rules {
            // A rule that the list has already is rejected, which leaves a shorter list.
            let _ = list.add(rule.disabled(disabled), None);
        }
        list
    })
}

pub(super) fn any_config() -> impl Strategy<Value = Config> {
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
        (any_ip2nets(), any_rules()),
    )
        .prop_map(
            |(nets, picks, peers, routing, (tiny, small, large), globals, (ip2nets, rules))| {
                Config {
                    routes: routes(&nets, picks),
                    nets,
                    ip2nets,
                    peers,
                    routing,
                    buffers: Buffers { tiny, small, large },
                    globals,
                    rules,
                }
            },
        )
}

fn any_block<B: Block + std::fmt::Debug + 'static>() -> impl Strategy<Value = B> {
    any::<u64>().prop_map(|seed| {
        let mut block = B::default();
        for (index, (_, slot)) in (0..).zip(block.slots()) {
            let value = seed.rotate_left(index);
            match slot {
                Slot::Count(field) => *field = value,
                Slot::Signed(field) => *field = value.cast_signed(),
                Slot::Optional(field) => *field = (value % 3 != 0).then_some(value),
            }
        }
        block
    })
}

fn any_status() -> impl Strategy<Value = Option<Status>> {
    of(prop::sample::select(vec![
        Status::Up,
        Status::Down,
        Status::NotWatched,
    ]))
}

fn any_udsp_info() -> impl Strategy<Value = Option<UdspInfo>> {
    let nids = || vec(any_net().prop_flat_map(any_nid), 0..3);
    let priority = || of(0..u32::MAX);
    of((priority(), priority(), nids(), nids()).prop_map(
        |(net_priority, nid_priority, gateways, sources)| UdspInfo {
            net_priority,
            nid_priority,
            gateways,
            sources,
        },
    ))
}

fn any_ni_show() -> impl Strategy<Value = NiShow> {
    let messages = (
        of(any_block()),
        of(any_block()),
        of(any_block()),
        of(any_block()),
    );
    let rest = (any_status(), any_udsp_info(), of(any_block()), of(-1..9i64));
    (messages, rest).prop_map(
        |((statistics, sent, received, dropped), (status, udsp, health, dev_cpt))| NiShow {
            config: NiConfig::default(),
            status,
            statistics,
            udsp,
            sent,
            received,
            dropped,
            health,
            dev_cpt,
        },
    )
}

fn any_peer_ni_show() -> impl Strategy<Value = PeerNiShow> {
    let messages = (
        of(any_block()),
        of(any_block()),
        of(any_block()),
        of(any_block()),
    );
    let rest = (
        any_status(),
        any_udsp_info(),
        of(any_block()),
        of(any_block()),
    );
    (messages, rest).prop_map(
        |((statistics, sent, received, dropped), (state, udsp, health, credits))| PeerNiShow {
            nid: Nid::LOOPBACK,
            udsp,
            state,
            credits,
            statistics,
            sent,
            received,
            dropped,
            health,
        },
    )
}

fn any_replies() -> impl Strategy<Value = Vec<Reply>> {
    let nids = || vec(any_net().prop_flat_map(any_nid), 1..4);
    let peer = || {
        (nids(), any::<bool>()).prop_map(|(nids, multi_rail)| PeerReply {
            primary: nids[0],
            multi_rail,
            nids,
        })
    };
    let failure = (".{1,30}", any::<i32>(), of(0..9u32), any::<bool>());
    let failure = failure.prop_map(|(descr, errno, seq_no, nested)| {
        Reply::Failure(ErrorBlock {
            verb: "add".to_owned(),
            entity: "route".to_owned(),
            seq_no,
            errno: errno.into(),
            descr,
            layout: if nested {
                ErrorLayout::Nested
            } else {
                ErrorLayout::Flat
            },
        })
    });
    let cpts = vec((any_net().prop_flat_map(any_nid), -1..9i64), 1..3);
    let reply = prop_oneof![
        vec(peer(), 1..3).prop_map(Reply::Ping),
        vec(peer(), 1..3).prop_map(Reply::Discover),
        nids().prop_map(Reply::PeerList),
        nids().prop_map(Reply::LocalRecovery),
        nids().prop_map(Reply::PeerRecovery),
        cpts.prop_map(Reply::CptOfNid),
        failure,
        ".{1,30}".prop_map(Reply::Message),
    ];
    // Marks begin a new document, so an error must be the only reply.
    vec(reply, 0..2)
}

/// A configuration with observed state, or an answer.
pub(super) fn any_document() -> impl Strategy<Value = Document> {
    let nis = vec(any_ni_show(), 16);
    let peer_nis = vec(any_peer_ni_show(), 16);
    let peer_state = of(any::<u64>());
    let kinds = of(prop::sample::select(vec![
        RouteType::SingleHop,
        RouteType::MultiHop,
    ]));
    let routes = (of(0..99u32), any_status(), kinds, any::<bool>());
    let pools = vec((any_block(), any_block(), any_block()), 0..3);
    let derived = (of(1..9u32), of(1..99u32));
    let node = (pools, derived, of(any_block()));
    let state = (any_config(), nis, peer_nis, peer_state, routes, node);
    let state = state.prop_map(|(config, nis, peer_nis, peer_state, routes, node)| {
        let mut document = Document::from(&config);
        let targets = document.nets.iter_mut().flat_map(|net| &mut net.nis);
        for (target, source) in targets.zip(nis) {
            let config = std::mem::take(&mut target.config);
            *target = NiShow { config, ..source };
        }
        let (health_sensitivity, state, kind, is_terse) = routes;
        for route in &mut document.routes {
            if is_terse {
                (route.hop, route.priority) = (None, None);
            }
            route.health_sensitivity = health_sensitivity;
            (route.state, route.kind) = (state, kind);
        }
        for peer in &mut document.peers {
            peer.state = peer_state;
            for (target, source) in peer.nis.iter_mut().zip(&peer_nis) {
                *target = PeerNiShow {
                    nid: target.nid,
                    ..source.clone()
                };
            }
        }
        let (pools, (recovery_interval, lnd_timeout), statistics) = node;
        let pools = (0..)
            .zip(pools)
            .map(|(cpt, (tiny, small, large))| CptPools {
                cpt,
                tiny,
                small,
                large,
            });
        document.pools = pools.collect();
        document.derived = DerivedGlobals {
            recovery_interval,
            lnd_timeout,
        };
        document.statistics = statistics;
        document
    });
    let replies = any_replies().prop_map(|replies| Document {
        replies,
        ..Document::default()
    });
    prop_oneof![3 => state, 1 => replies]
}

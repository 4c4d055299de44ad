//! Random rules and topologies, small enough for rules to overlap.

use lnet_policy::{Gateway, Peer, Priority, Rule, RuleList, Topology};
use lnet_types::Nid;
use lnet_types::expr::Descriptor;
use proptest::prelude::*;

fn octet() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("*".to_owned()),
        (0..4u8).prop_map(|n| n.to_string()),
        (0..3u8, 2..6u8, 1..3u8).prop_map(|(low, high, stride)| format!("[{low}-{high}/{stride}]")),
        (0..3u8, 3..6u8).prop_map(|(a, b)| format!("[{a},{b}]")),
    ]
}

fn net_text() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "tcp",
        "tcp0",
        "tcp1",
        "tcp*",
        "tcp[1-4/2]",
        "o2ib",
        "gni",
        "gni*",
    ])
}

fn nid_text() -> impl Strategy<Value = String> {
    (net_text(), octet(), octet()).prop_map(|(net, a, b)| {
        if net.starts_with("gni") {
            return format!("{a}@{net}");
        }
        format!("10.0.{a}.{b}@{net}")
    })
}

fn parsed(text: impl Strategy<Value = String>) -> impl Strategy<Value = Descriptor> {
    text.prop_map(|text| text.parse().unwrap())
}

pub(crate) fn descriptor() -> impl Strategy<Value = Descriptor> {
    parsed(prop_oneof![3 => nid_text(), 1 => net_text().prop_map(str::to_owned)])
}

fn value() -> impl Strategy<Value = Priority> {
    prop_oneof![0..5u32, Just(u32::MAX - 1)].prop_map(|value| Priority::new(value).unwrap())
}

pub(crate) fn any_rule() -> impl Strategy<Value = Rule> {
    let rank = prop_oneof![Just(Priority::NONE), value()];
    let one = (descriptor(), value(), any::<bool>()).prop_map(|(descriptor, value, is_local)| {
        let make = if is_local { Rule::local } else { Rule::remote };
        make(descriptor, value).unwrap()
    });
    let pair = (descriptor(), descriptor(), rank)
        .prop_map(|(local, remote, rank)| Rule::pair(local, remote, rank).unwrap());
    let router = (descriptor(), descriptor())
        .prop_map(|(remote, gateway)| Rule::router(remote, gateway).unwrap());
    let any = prop_oneof![2 => one, 2 => pair, 1 => router];
    (any, prop::bool::weighted(0.1)).prop_map(|(rule, disabled)| rule.disabled(disabled))
}

pub(crate) fn any_list(len: usize) -> impl Strategy<Value = RuleList> {
    let rules = prop::collection::vec((any_rule(), prop::option::of(0..8usize)), 0..len);
    rules.prop_map(|rules| {
        let mut list = RuleList::new();
        for (rule, before) in rules {
            // An identical rule is rejected, which leaves a shorter list.
            let _ = list.add(rule, before);
        }
        list
    })
}

pub(crate) fn any_nid() -> impl Strategy<Value = Nid> {
    let quad = (
        0..5u8,
        0..6u8,
        prop::sample::select(vec!["tcp", "tcp1", "tcp3", "o2ib"]),
    )
        .prop_map(|(a, b, net)| format!("10.0.{a}.{b}@{net}"));
    let number = (0..6u8, prop::sample::select(vec!["gni", "gni7"]))
        .prop_map(|(a, net)| format!("{a}@{net}"));
    let large = Just("fd00::1@tcp".to_owned());
    prop_oneof![6 => quad, 2 => number, 1 => large].prop_map(|text| text.parse().unwrap())
}

pub(crate) fn any_topology() -> impl Strategy<Value = Topology> {
    let nids = |min| prop::collection::btree_set(any_nid(), min..5);
    let gateway = nids(1).prop_map(|nids| {
        let mut nids = nids.into_iter();
        let primary = nids.next().unwrap();
        Gateway {
            primary,
            others: nids.collect(),
        }
    });
    let peer = (nids(1), any::<bool>()).prop_map(|(nids, multi_rail)| {
        let nis: Vec<Nid> = nids.into_iter().collect();
        Peer {
            primary: nis[0],
            multi_rail,
            nis,
        }
    });
    (
        nids(0),
        prop::collection::vec(gateway, 0..3),
        prop::collection::vec(peer, 0..4),
    )
        .prop_map(|(local, gateways, peers)| Topology {
            local: local.into_iter().collect(),
            gateways,
            peers,
        })
}

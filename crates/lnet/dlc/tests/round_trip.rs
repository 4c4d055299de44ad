//! An import of an export restores the configuration: random configurations on a running node.
//!
//! ```text
//!  text ── import ──▶ node ── export ──▶ backup ── import --del ──▶ nothing left
//!                                          │
//!                                          └────── import ──▶ node ── export ──▶ the same backup
//! ```
//!
//! The configurations have every section: networks with all their settings, routes, peers, routing,
//! buffers, parameters, and rules of every kind, also with priority 0. Addresses are those of
//! loopback, so that the node can use them.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use lnet_config::{Config, NiConfig};
use lnet_dlc::Dlc;
use lnet_dlc::protocol::{ImportMode, Request};
use proptest::collection::{btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use common::Bed;

/// Networks that a node may have.
const NETS: [&str; 4] = ["tcp", "tcp1", "tcp2", "tcp70"];
/// Networks behind gateways.
const FAR: [&str; 4] = ["tcp20", "tcp21", "o2ib", "o2ib3"];

/// The number of cases: short for ordinary runs, longer for the long suite.
fn cases() -> ProptestConfig {
    let long = std::env::var_os("FINERAIL_LONG").is_some_and(|value| value == "1");
    ProptestConfig {
        cases: if long { 10_000 } else { 150 },
        ..ProptestConfig::default()
    }
}

/// A line `KEY: VALUE`, if there is a value.
fn line(indent: usize, key: &str, value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| {
        format!("{:indent$}{key}: {}\n", "", value.to_string())
    })
}

/// A key with its lines, if there are any.
fn block(indent: usize, key: &str, lines: &str) -> String {
    if lines.is_empty() {
        return String::new();
    }
    format!("{:indent$}{key}:\n{lines}", "")
}

fn tunables() -> impl Strategy<Value = String> {
    let credits = (of(1..300u32), of(0..300u32), of(1..600u32));
    (of(0..500u32), credits).prop_map(|(timeout, (peer, buffers, credits))| {
        // An interface has at least as many credits as a peer.
        let credits = credits.map(|credits| credits.max(peer.unwrap_or(8)));
        let lines = [
            line(6, "peer_timeout", timeout),
            line(6, "peer_credits", peer),
            line(6, "peer_buffer_credits", buffers),
            line(6, "credits", credits),
        ];
        block(4, "tunables", &lines.concat())
    })
}

fn lnd_tunables() -> impl Strategy<Value = String> {
    (of(1..8u8), of(-1..256i32)).prop_map(|(connections, tos)| {
        let lines = [line(6, "conns_per_peer", connections), line(6, "tos", tos)];
        block(4, "lnd tunables", &lines.concat())
    })
}

/// An interface's settings.
fn settings() -> impl Strategy<Value = String> {
    let cpt = prop_oneof![Just(""), Just("    CPT: \"[0]\"\n")];
    (tunables(), lnd_tunables(), cpt).prop_map(|(tunables, lnd, cpt)| tunables + &lnd + cpt)
}

/// The `net` section: one interface to three for each network.
fn nets(names: Vec<&'static str>) -> impl Strategy<Value = String> {
    let settings = vec(vec(settings(), 1..4), names.len());
    settings.prop_map(move |settings| {
        let mut text = String::from("net:\n");
        for (name, nis) in names.iter().zip(settings) {
            let third = NETS.iter().position(|net| net == name).unwrap() + 1;
            let _written = write!(text, "- net type: {name}\n  local NI(s):\n");
            for (settings, last) in nis.iter().zip(1..) {
                let _written = write!(text, "  - nid: 127.0.{third}.{last}@{name}\n{settings}");
            }
        }
        text
    })
}

/// The `route` section: gateways on the node's own networks.
fn routes(names: Vec<&'static str>) -> impl Strategy<Value = String> {
    let one = (of(1..256u32), of(0..100u32));
    let where_to = btree_set((select(&FAR[..]), select(names), 1..20u8), 0..8);
    (where_to, vec(one, 8)).prop_map(|(where_to, settings)| {
        // The gateways of a network are on one local network, because a network is reached through
        // one only.
        let mut entries = String::new();
        for ((far, near, last), (hop, priority)) in where_to.iter().zip(settings) {
            let _written = writeln!(entries, "- net: {far}\n  gateway: 127.9.0.{last}@{near}");
            entries += &line(2, "hop", hop);
            entries += &line(2, "priority", priority);
        }
        block(0, "route", &entries)
    })
}

/// The `peer` section: peers share no NIDs.
fn peers() -> impl Strategy<Value = String> {
    let nids = btree_set((select(&NETS[..]), 1..200u8), 1..5);
    vec((nids, any::<bool>()), 0..6).prop_map(|peers| {
        let mut entries = String::new();
        for (number, (nids, multi_rail)) in peers.iter().enumerate() {
            let nids: Vec<String> = nids
                .iter()
                .map(|(net, last)| format!("127.8.{number}.{last}@{net}"))
                .collect();
            let _written = write!(
                entries,
                "- primary nid: {}\n  Multi-Rail: {multi_rail}\n  peer ni:\n",
                nids[0]
            );
            for nid in nids {
                let _written = writeln!(entries, "  - nid: {nid}");
            }
        }
        block(0, "peer", &entries)
    })
}

/// One side of a rule.
fn side() -> impl Strategy<Value = String> {
    prop_oneof![
        select(&NETS[..]).prop_map(str::to_owned),
        Just("tcp*".to_owned()),
        Just("o2ib[0-3]".to_owned()),
        nids(),
    ]
}

fn nids() -> impl Strategy<Value = String> {
    let address = prop_oneof![
        (1..250u8).prop_map(|last| format!("127.0.1.{last}")),
        (1..100u8, 1..100u8).prop_map(|(low, more)| format!("127.0.1.[{low}-{}]", low + more)),
        (1..100u8).prop_map(|low| format!("127.[0-9].1.[{low},{}]", low + 2)),
        Just("127.*.1.*".to_owned()),
    ];
    (address, select(&NETS[..])).prop_map(|(address, net)| format!("{address}@{net}"))
}

/// A rule of any kind without its index: what it selects, and its priority if it has one.
fn rule() -> impl Strategy<Value = (String, Option<u32>)> {
    let priority = || prop_oneof![Just(0u32), 0..1000u32];
    prop_oneof![
        (side(), priority()).prop_map(|(src, priority)| (format!("src: {src}"), Some(priority))),
        (side(), priority()).prop_map(|(dst, priority)| (format!("dst: {dst}"), Some(priority))),
        (nids(), nids(), of(priority()))
            .prop_map(|(src, dst, priority)| { (format!("src: {src}\n  dst: {dst}"), priority) }),
        (side(), nids()).prop_map(|(dst, rte)| (format!("dst: {dst}\n  rte: {rte}"), None)),
    ]
}

/// The `udsp` section: no two rules select the same.
fn rules() -> impl Strategy<Value = String> {
    vec(rule(), 0..8).prop_map(|rules| {
        let mut entries = String::new();
        let mut seen = BTreeSet::new();
        for (selector, priority) in rules {
            if !seen.insert(selector.clone()) {
                continue;
            }
            let _written = writeln!(entries, "- {selector}");
            entries += &block(2, "action", &line(4, "priority", priority));
        }
        block(0, "udsp", &entries)
    })
}

/// `routing`, `buffers` and `global`.
fn parameters() -> impl Strategy<Value = String> {
    let buffers = (of(64..600u32), of(64..600u32), of(1..64u32));
    let switches = (of(any::<bool>()), of(any::<bool>()));
    let health = (of(0..1001u32), of(0..6u32), of(50..300u32));
    let recovery = (of(0..1000u32), of(1..2000u32), of(0..4u32), of(0..100u32));
    (buffers, switches, health, recovery).prop_map(|(buffers, switches, health, recovery)| {
        let (tiny, small, large) = buffers;
        let (routing, drop_asym) = switches;
        let (sensitivity, retries, timeout) = health;
        // Without health, no message is resent.
        let retries = retries.map(|retries| if sensitivity == Some(0) { 0 } else { retries });
        let sensitivity = sensitivity.filter(|&value| value > 0 || retries == Some(0));
        let (limit, longest, tracking, numa) = recovery;
        let pools = [
            line(2, "tiny", tiny),
            line(2, "small", small),
            line(2, "large", large),
        ];
        let globals = [
            line(2, "numa_range", numa),
            line(2, "drop_asym_route", drop_asym.map(u8::from)),
            line(2, "retry_count", retries),
            line(2, "transaction_timeout", timeout),
            line(2, "health_sensitivity", sensitivity),
            line(2, "response_tracking", tracking),
            line(2, "recovery_limit", limit),
            line(2, "max_recovery_ping_interval", longest),
        ];
        // Only a router shows its buffers.
        let pools = pools.concat();
        let pools = if routing == Some(true) { &pools } else { "" };
        block(0, "routing", &line(2, "enable", routing.map(u8::from)))
            + &block(0, "buffers", pools)
            + &block(0, "global", &globals.concat())
    })
}

/// A document with any of the sections.
fn any_text() -> impl Strategy<Value = String> {
    let names = subsequence(NETS.to_vec(), 1..=NETS.len());
    names
        .prop_flat_map(|names| {
            let near = names.clone();
            (nets(names), routes(near), peers(), parameters(), rules())
        })
        .prop_map(|(nets, routes, peers, parameters, rules)| {
            [nets, routes, peers, parameters, rules].concat()
        })
}

fn import(dlc: &mut Dlc, yaml: &str, mode: ImportMode) -> Result<(), TestCaseError> {
    let request = Request::Import {
        yaml: yaml.to_owned(),
        mode,
        partial: false,
        dry_run: false,
    };
    let done = dlc.request(&request).map(|_| ());
    done.map_err(|error| TestCaseError::fail(format!("{mode:?}: {error}\n{yaml}")))
}

fn export(dlc: &mut Dlc) -> String {
    dlc.request(&Request::Export { backup: true }).unwrap()
}

/// Checks that the node has everything in the document; the node also shows the values that the
/// document leaves open.
fn holds(wanted: &Config, has: &Config) -> Result<(), TestCaseError> {
    prop_assert_eq!(&has.rules, &wanted.rules);
    prop_assert_eq!(has.nets.len(), wanted.nets.len());
    for (wanted, has) in wanted.nets.iter().zip(&has.nets) {
        prop_assert_eq!(wanted.net, has.net);
        let said: Vec<NiConfig> = has
            .nis
            .iter()
            .zip(&wanted.nis)
            .map(|(has, wanted)| only(has, wanted))
            .collect();
        prop_assert_eq!(&said, &wanted.nis);
    }
    let routes = |config: &Config| {
        config
            .routes
            .iter()
            .map(|route| format!("{route:?}"))
            .collect()
    };
    let [wanted_routes, has_routes]: [BTreeSet<String>; 2] = [wanted, has].map(routes);
    prop_assert_eq!(has_routes, wanted_routes);
    for peer in &wanted.peers {
        prop_assert!(has.peers.contains(peer), "{:?}", peer);
    }
    prop_assert_eq!(&has.globals.only(&wanted.globals), &wanted.globals);
    let is_router = |config: &Config| config.routing.unwrap_or(false);
    prop_assert_eq!(is_router(has), is_router(wanted));
    prop_assert_eq!(has.buffers.with(wanted.buffers), has.buffers);
    Ok(())
}

/// The settings of an interface that the document has.
fn only(has: &NiConfig, wanted: &NiConfig) -> NiConfig {
    let mut said = has.clone();
    said.interfaces.clone_from(&wanted.interfaces);
    let (own, other) = (&mut said.tunables, &wanted.tunables);
    own.peer_timeout = own.peer_timeout.filter(|_| other.peer_timeout.is_some());
    own.peer_credits = own.peer_credits.filter(|_| other.peer_credits.is_some());
    own.peer_buffer_credits = own
        .peer_buffer_credits
        .filter(|_| other.peer_buffer_credits.is_some());
    own.credits = own.credits.filter(|_| other.credits.is_some());
    let (own, other) = (&mut said.lnd_tunables, &wanted.lnd_tunables);
    own.conns_per_peer = own
        .conns_per_peer
        .filter(|_| other.conns_per_peer.is_some());
    own.timeout = own.timeout.filter(|_| other.timeout.is_some());
    own.tos = own.tos.filter(|_| other.tos.is_some());
    if wanted.cpts.is_empty() {
        said.cpts.clear();
    }
    said
}

fn goes_round(dlc: &mut Dlc, text: &str) -> Result<(), TestCaseError> {
    import(dlc, text, ImportMode::Add)?;
    let backup = export(dlc);
    let has =
        lnet_config::parse(&backup).map_err(|error| TestCaseError::fail(error.to_string()))?;
    holds(&lnet_config::parse(text).unwrap(), &has)?;
    import(dlc, &backup, ImportMode::Del)?;
    let left = lnet_config::parse(&export(dlc)).unwrap();
    let bare = Config {
        globals: left.globals,
        buffers: left.buffers,
        routing: left.routing,
        ..Config::default()
    };
    prop_assert_eq!(left, bare);
    import(dlc, &backup, ImportMode::Add)?;
    prop_assert_eq!(export(dlc), backup);
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn an_export_imports_and_exports_to_the_same_bytes_through_a_running_node(text in any_text()) {
        let (_bed, mut dlc) = Bed::new();
        import(&mut dlc, "routing:\n  enable: 0\n", ImportMode::Replace)?;
        goes_round(&mut dlc, &text)?;
    }
}

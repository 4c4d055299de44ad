//! The cases T-P: peers and identity.

use super::{config_of, rejection};
use crate::{
    Config, Document, PeerConfig, PeerListError, Request, deletion, parse, parse_document,
};

fn peer(primary: &str, list: &str) -> PeerConfig {
    PeerConfig::from_lists(Some(primary), list, true).unwrap()
}

fn texts(peer: &PeerConfig) -> Vec<String> {
    peer.nids.iter().map(ToString::to_string).collect()
}

#[test]
fn t_p01_an_export_lists_the_primary_nid_first_and_multi_rail_true() {
    for (primary, list) in [
        ("1.1.1.1@tcp", "1.1.1.2@tcp"),
        ("1.1.1.1@o2ib", "1.1.1.2@o2ib"),
        ("7@gni", "8@gni"),
        ("1.1.1.1@tcp", "8@gni,2.2.2.2@o2ib1"),
    ] {
        let document = Document {
            peers: vec![(&peer(primary, list)).into()],
            ..Document::default()
        };
        let export = document.exported().to_yaml();
        let start = format!(
            "peer:\n-     primary nid: {primary}\n      Multi-Rail: true\n      peer ni:\n      -     nid: {primary}\n"
        );
        assert!(export.starts_with(&start), "{export}");
        assert_eq!(config_of(&export).peers, [peer(primary, list)]);
    }
}

#[test]
fn t_p02_ranges_that_overlap_give_each_nid_once_in_order_of_appearance() {
    assert_eq!(
        texts(&peer("1.1.1.2@tcp", "1.1.1.[1,2,3-4]@tcp,1.1.1.[3-5]@tcp")),
        [
            "1.1.1.2@tcp",
            "1.1.1.1@tcp",
            "1.1.1.3@tcp",
            "1.1.1.4@tcp",
            "1.1.1.5@tcp"
        ]
    );
}

#[test]
fn t_p03_ranges_with_strides_over_five_net_types_make_18_secondary_nids() {
    let list = "1.1.1.[2-10/2]@tcp,1.1.2.[1-3]@o2ib,[10-50/10]@gni,1.2.[1-2].1@efa,[5,9,12]@kfi1";
    let peer = peer("1.1.1.1@tcp", list);
    assert_eq!(peer.nids.len(), 1 + 18);
    let expected = ["1.1.1.1@tcp", "1.1.1.2@tcp", "1.1.1.4@tcp", "1.1.1.6@tcp"];
    assert_eq!(texts(&peer)[..4], expected);
    assert_eq!(texts(&peer)[16..], ["5@kfi1", "9@kfi1", "12@kfi1"]);
}

/// The NIDs of a peer with these secondary NIDs that remain after a deletion.
fn left(secondary: &str, deleted: &str) -> Vec<String> {
    let mut config = Config {
        peers: vec![peer("1.1.1.1@tcp", secondary)],
        ..Config::default()
    };
    let named = parse_document(&format!("peer: [{{primary nid: 1.1.1.1@tcp, {deleted}}}]"));
    for change in deletion(&config, &named.unwrap()) {
        change.apply(&mut config).unwrap();
    }
    config.peers.first().map(texts).unwrap_or_default()
}

#[test]
fn t_p04_a_peer_is_deleted_by_its_primary_nid() {
    for secondary in ["", "1.1.1.2@tcp", "7@gni,2.2.2.[1-3]@o2ib"] {
        assert_eq!(left(secondary, ""), [""; 0]);
    }
}

#[test]
fn t_p05_a_list_with_the_primary_nid_deletes_the_peer() {
    let deleted = "peer ni: [{nid: 1.1.1.2@tcp}, {nid: 1.1.1.1@tcp}]";
    assert_eq!(left("1.1.1.[2-4]@tcp", deleted), [""; 0]);
}

#[test]
fn t_p06_secondary_nids_are_deleted_and_the_rest_stays() {
    let rest = left("1.1.1.2@tcp,7@gni", "peer ni: [{nid: 7@gni}]");
    assert_eq!(rest, ["1.1.1.1@tcp", "1.1.1.2@tcp"]);
    let rest = left(
        "1.1.1.2@tcp,7@gni",
        "peer ni: [{nid: 7@gni}, {nid: 1.1.1.2@tcp}]",
    );
    assert_eq!(rest, ["1.1.1.1@tcp"]);
}

#[test]
fn t_p08_an_import_that_deletes_some_nids_leaves_the_others() {
    let rest = left(
        "1.1.1.[2-5]@tcp",
        "Multi-Rail: True, peer ni: [{nid: 1.1.1.3@tcp}, {nid: 1.1.1.5@tcp}]",
    );
    assert_eq!(rest, ["1.1.1.1@tcp", "1.1.1.2@tcp", "1.1.1.4@tcp"]);
}

#[test]
fn t_p07_single_and_multiple_peers_are_imported() {
    let config = config_of(
        "peer:\n- primary nid: 1.1.1.1@tcp\n  peer ni:\n  - nid: 1.1.1.1@tcp\n  - nid: 1.1.1.2@tcp\n\
         - primary nid: 7@gni\n  Multi-Rail: False\n",
    );
    assert_eq!(texts(&config.peers[0]), ["1.1.1.1@tcp", "1.1.1.2@tcp"]);
    assert_eq!(
        (texts(&config.peers[1]), config.peers[1].multi_rail),
        (vec!["7@gni".into()], false)
    );
    assert_eq!(crate::diff(&config, &crate::Config::default()).len(), 2);
}

#[test]
fn t_p15_what_names_no_peer_is_rejected() {
    let rejected = |primary, list| PeerConfig::from_lists(primary, list, true).unwrap_err();
    assert_eq!(rejected(None, "1.1.1.1@tcp"), PeerListError::NoPrimary);
    assert_eq!(rejected(None, ""), PeerListError::NoPrimary);
    let many = rejected(Some("1.1.1.1@tcp"), "1.1.1.[1-129]@tcp");
    assert!(matches!(many, PeerListError::TooMany(_)), "{many}");
    for bad in [
        "foobar",
        "1@foo",
        "1@tcp",
        "1.1.1.1@gni",
        "[2-1]@gni",
        "[a-f/x]@gni",
        "256.1.1.1@tcp",
        "1.1.1.1.1@tcp",
        "1.1.1.]1-2[@tcp",
        "1.1.1.[1@tcp",
    ] {
        assert_eq!(rejected(Some(bad), ""), PeerListError::BadPrimary, "{bad}");
        let error = rejected(Some("1.1.1.1@tcp"), bad);
        assert!(
            matches!(error, PeerListError::Unparsable(_)),
            "{bad}: {error}"
        );
    }
}

#[test]
fn t_p16_multi_rail_is_true_or_false() {
    let problem = rejection("peer: [{primary nid: 1.1.1.1@tcp, Multi-Rail: Foobar}]");
    assert_eq!(problem, "invalid value 'Foobar' for key 'Multi-Rail'");
}

#[test]
fn requests_are_read_in_their_order_and_configurations_are_none() {
    let nid = |text: &str| text.parse().unwrap();
    let source = "discover:\n    nids:\n        0: 1.1.1.1@tcp\n        1: 7@gni\nping: {nids: {0: 2.2.2.2@tcp}}\n";
    assert_eq!(
        Request::parse(source).unwrap(),
        [
            Request::Discover(vec![nid("1.1.1.1@tcp"), nid("7@gni")]),
            Request::Ping(vec![nid("2.2.2.2@tcp")])
        ]
    );
    let error = Request::parse("net: []").unwrap_err();
    assert_eq!(error.problem().to_string(), "invalid key 'net'");
    assert!(parse(source).is_err());
}

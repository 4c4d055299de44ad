//! Which targets of a file system each class of clients reaches.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use lnet_site::{SavedTargets, Site, SiteFile, read, targets};

const CLIENT: &str = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp}]}]\n\
                      route: [{net: tcp1, gateway: 10.0.0.8@tcp, hop: 1}]\n";
const LOST: &str = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.2@tcp}]}]\n";
const ROUTER: &str = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.8@tcp}]}, {net type: tcp1, local NI(s): \
                      [{nid: 10.1.0.8@tcp1}]}]\nrouting: {enable: 1}\n";
const FAR: &str = "net: [{net type: tcp1, local NI(s): [{nid: 10.1.0.7@tcp1}]}]\n\
                   route: [{net: tcp, gateway: 10.1.0.8@tcp1, hop: 1}]\n";
const NEAR: &str = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.7@tcp}]}]\n";

fn site() -> Site {
    let files = [
        ("client", CLIENT),
        ("lost", LOST),
        ("router", ROUTER),
        ("far", FAR),
        ("near", NEAR),
    ];
    let files = files.map(|(name, text)| SiteFile {
        path: format!("{name}.yaml"),
        text: text.to_owned(),
    });
    read(&files).unwrap()
}

fn saved(failover: &str) -> SavedTargets {
    let text = format!(
        r#"{{"fs": "fs1", "mgs": [["10.0.0.7@tcp"]], "targets": {{
            "fs1-MDT0000": {{"index": 0, "nids": ["10.0.0.7@tcp"], "failover": [], "is_inactive": false}},
            "fs1-OST0000": {{"index": 0, "nids": ["10.1.0.7@tcp1"], "failover": [[{failover}]], "is_inactive": false}},
            "fs1-OST0001": {{"index": 1, "nids": ["10.9.0.7@tcp1"], "failover": [], "is_inactive": true}}}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

#[test]
fn class_without_a_route_does_not_reach_the_targets_behind_the_router() {
    let answer = targets(&site(), &saved(r#""10.1.0.7@tcp1""#));
    let names: Vec<&str> = answer
        .classes
        .iter()
        .map(|class| class.name.as_str())
        .collect();
    assert_eq!(names, ["client", "lost"]);
    assert!(answer.classes[0].unreached.is_empty(), "{answer:?}");
    assert!(answer.classes[0].in_part.is_empty(), "{answer:?}");
    let unreached: Vec<&String> = answer.classes[1].unreached.keys().collect();
    assert_eq!(unreached, ["fs1-OST0000"]);
    assert!(!answer.is_whole());
    let text = answer.to_text();
    assert!(text.contains("client (1 node): all of fs1"), "{text}");
    assert!(
        text.contains("  does not reach fs1-OST0000: 10.1.0.7@tcp1: "),
        "{text}"
    );
}

#[test]
fn finding_about_a_client_makes_its_answer_doubtful() {
    let bridge =
        "net: [{net type: tcp, local NI(s): [{nid: 172.17.0.1@tcp, interfaces: {0: docker0}}]}]\n";
    let right =
        "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp, interfaces: {0: eth0}}]}]\n";
    let answer = |client: &str| {
        let files = [("client", client), ("near", NEAR)].map(|(name, text)| SiteFile {
            path: format!("{name}.yaml"),
            text: text.to_owned(),
        });
        let saved = r#"{"fs": "fs1", "mgs": [["10.0.0.7@tcp"]], "targets": {}}"#;
        targets(
            &read(&files).unwrap(),
            &serde_json::from_str(saved).unwrap(),
        )
    };
    let doubtful = answer(bridge);
    let text = doubtful.to_text();
    assert!(!doubtful.is_whole(), "{text}");
    assert!(
        text.contains("  in doubt: warning[virtual-interface] client: "),
        "{text}"
    );
    let sure = answer(right);
    assert!(sure.is_whole() && sure.classes.len() == 1, "{sure:?}");
}

#[test]
fn target_that_is_reached_on_one_of_its_nodes_is_reached_in_part() {
    let answer = targets(&site(), &saved(r#""10.0.0.7@tcp""#));
    assert!(answer.classes[0].in_part.is_empty(), "{answer:?}");
    let in_part: Vec<&String> = answer.classes[1].in_part.keys().collect();
    assert_eq!(in_part, ["fs1-OST0000"]);
}

#[test]
fn nid_of_no_node_of_the_files_is_said_to_be_one() {
    let answer = targets(&site(), &saved(r#""10.7.7.7@tcp""#));
    let text = answer.to_text();
    assert!(
        text.contains("no node of the files has 10.7.7.7@tcp"),
        "{text}"
    );
}

//! `finerail conform` against a running node.

mod common;

use serde_json::Value;

use common::finerail;
use common::process::{Ended, Process, run};
use common::site::{Site, yaml};

const NODE: &str = "127.0.0.2@tcp";

/// Starts a site with one node.
fn site() -> (Site, Process) {
    let site = Site::new();
    site.write("node.yaml", yaml(&[NODE], ""));
    let node = site.start_node("node");
    (site, node)
}

fn conform(site: &Site, more: &[&str]) -> Ended {
    let mut words = vec!["conform", "--timeout", "60", "--port"];
    let port = site.port.to_string();
    words.push(&port);
    words.extend(more);
    run(finerail(words))
}

#[test]
fn a_node_passes_every_check_that_may_be_made_in_production() {
    let (site, node) = site();
    let text = conform(&site, &[NODE]).expect_code(0).out;
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("127.0.0.2@tcp: "), "{text}");
    assert!(last.contains(" 0 failed, 0 not applicable; "), "{text}");
    assert!(
        last.ends_with(" intrusive checks did not run (--intrusive)"),
        "{text}"
    );
    // The node must log nothing: its warnings go to standard error.
    assert_eq!(node.errors(), "");
    drop(node.stop());
}

#[test]
fn a_node_passes_the_intrusive_checks_too() {
    let (site, node) = site();
    let json = conform(&site, &[NODE, "--intrusive", "--json"])
        .expect_code(0)
        .out;
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&report["failed"], &report["not_applicable"]),
        (&0.into(), &0.into())
    );
    let checks = report["checks"].as_array().unwrap();
    assert_eq!(report["passed"], checks.len());
    let push = checks
        .iter()
        .find(|check| check["id"] == "push-ack")
        .unwrap();
    assert_eq!(
        (&push["rules"], &push["result"]),
        (&"PUSH-1, DATA-2".into(), &"passed".into())
    );
    let ways: Vec<&Value> = push["observed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| &message["way"])
        .collect();
    assert_eq!(ways, ["sent", "received", "sent", "received"]);
    drop(node.stop());
}

#[test]
fn chosen_checks_are_made_alone_and_show_their_bytes() {
    let (site, node) = site();
    let ended = conform(
        &site,
        &[NODE, "--only", "hello-version,push-ack", "--verbose"],
    );
    let text = ended.expect_code(0).out;
    assert!(text.starts_with("passed          hello-version "), "{text}");
    assert!(
        text.contains("      0000  00 71 ce ac 01 00 00 00 02 00 00 7f 00 00 02 00\n"),
        "{text}"
    );
    assert!(
        text.ends_with(
            "1 passed, 0 failed, 0 not applicable; 1 intrusive checks did not run (--intrusive)\n"
        ),
        "{text}"
    );
    drop(node.stop());
}

#[test]
fn a_check_that_does_not_exist_and_a_node_that_does_not_are_told_apart() {
    let site = Site::new();
    let unknown = conform(&site, &[NODE, "--only", "everything"]);
    unknown
        .expect_code(2)
        .expect_error("there is no check 'everything' of tcp networks; --list prints all checks");
    let absent = conform(&site, &[NODE]);
    absent
        .expect_code(1)
        .expect_error("cannot connect to 127.0.0.2:");
    let elsewhere = conform(&site, &["1@gni"]);
    elsewhere
        .expect_code(2)
        .expect_error("1@gni is not on a tcp network");
    let itself = conform(&site, &[NODE, "--source", NODE]);
    itself.expect_code(2).expect_error("is the node to check");
}

#[test]
fn the_list_names_each_check_with_its_section_and_whether_it_is_safe() {
    let text = run(finerail(["conform", "--list"])).expect_code(0).out;
    assert!(
        text.contains("push-ack                 PUSH-1, DATA-2   intrusive "),
        "{text}"
    );
    let json = run(finerail(["conform", "--list", "--json"]))
        .expect_code(0)
        .out;
    let rows: Vec<Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(rows.len(), text.lines().count());
    let of = |network: &str| rows.iter().filter(|row| row["network"] == network).count();
    assert!(of("tcp") > 60 && of("o2ib") > 40, "{text}");
    assert_eq!(of("tcp") + of("o2ib"), rows.len());
}

#[test]
fn a_node_over_rdma_is_not_checked_with_the_words_for_tcp_or_without_a_device() {
    let nid = "127.0.0.9@o2ib";
    // No RDMA device is under the loopback interface; of a machine without RDMA the libraries are missing, too.
    let source = ["--source", "127.0.0.1@o2ib"];
    for (more, complaint) in [
        (&[nid, source[0], source[1]][..], "cannot dial over RDMA: "),
        (
            &[nid, "--only", "push-ack"],
            "there is no check 'push-ack' of o2ib networks",
        ),
        (
            &[nid, "--hostile"],
            "--hostile attacks nodes on tcp networks only",
        ),
        (
            &[nid, "--privileged"],
            "--privileged and --port are for tcp networks",
        ),
        (
            &[nid, "--port", "9988"],
            "--privileged and --port are for tcp networks",
        ),
        (&[nid, "--source", nid], "the endpoint would answer itself"),
        (
            &[nid, "--source", "127.0.0.1@o2ib1"],
            "must be another address on o2ib",
        ),
        (&["127.0.0.1@o2ib"], "--source"),
        (&["0.0.0.0@o2ib"], "not the address of one interface"),
    ] {
        let words = ["conform"].iter().chain(more);
        run(finerail(words)).expect_code(2).expect_error(complaint);
    }
}

#[test]
fn a_node_survives_what_a_hostile_peer_does_and_nodes_of_others_are_left_alone() {
    let (site, node) = site();
    let text = conform(&site, &["--hostile", NODE]).expect_code(0).out;
    for attack in [
        "half-open",
        "half-hello",
        "connect-flood",
        "unread-replies",
        "forged-answers",
        "garbage",
    ] {
        assert!(
            text.contains(&format!("passed          {attack} ")),
            "{text}"
        );
    }
    assert!(text.contains("6 passed, 0 failed"), "{text}");
    drop(node.stop());
    conform(&site, &["--hostile", "192.0.2.1@tcp"])
        .expect_code(2)
        .expect_error("needs --own");
    conform(&site, &["--hostile", "--list"]).expect_code(0);
}

//! What trials from outside found silent: the smallest inputs of administrators' troubles, and a site of 200 nodes with
//! planted mistakes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use lnet_site::lint::{Input, lint};
use lnet_site::{
    Check, Extent, Reach, SCREEN, Selection, Site, check, difference_text, differences,
    each_router, impacts_text, reach, what_if,
};

use common::files_of;

/// Returns a site of the trials; `None` if they are not here.
fn site(name: &str) -> Option<Site> {
    let directory = testkit::shared_data(format!("trials/admin/{name}"))?;
    Some(lnet_site::read(&files_of(&directory, "")).unwrap())
}

fn checked(name: &str) -> Option<Check> {
    Some(check(&site(name)?).unwrap())
}

/// Returns whether a check has a finding with this code for a node.
fn names(check: &Check, code: &str, node: &str) -> bool {
    let mut causes = check.causes.iter().filter(|cause| cause.code == code);
    causes.any(|cause| {
        fgr::hosts(&cause.names)
            .unwrap()
            .iter()
            .any(|name| name == node)
    })
}

#[test]
fn every_planted_mistake_of_a_large_site_is_named_at_its_node() {
    const PLANTED: [(&str, &str); 19] = [
        ("cn005", "one-sided-route"),
        ("cn010", "hop-undefined"),
        ("cn015", "gateway-missing"),
        ("cn020", "nid-claimed-twice"),
        ("cn030", "mtu-differs"),
        ("cn035", "parameters-differ"),
        ("cn040", "parameters-differ"),
        ("cn045", "net-alone"),
        ("cn050", "interface-missing"),
        ("cn055", "virtual-interface"),
        ("cn060", "peer-missing"),
        ("cn065", "routes-differ"),
        ("cn070", "interface-down"),
        ("cn075", "prefix-differs"),
        ("cn080", "route-net-missing"),
        ("oss003", "routes-differ"),
        ("oss006", "routes-differ"),
        ("rtr011", "gateway-not-routing"),
        ("rtr016", "gateway-lacks-net"),
    ];
    let Some(check) = checked("site200") else {
        return;
    };
    for (node, code) in PLANTED {
        assert!(
            names(&check, code, node),
            "{code} of {node}: {}",
            check.to_text()
        );
    }
    // Besides, each finding is at a node with a mistake, or tells of the router without its net.
    let planted: BTreeSet<&str> = PLANTED.iter().map(|(node, _)| *node).collect();
    for cause in &check.causes {
        let hosts = fgr::hosts(&cause.names).unwrap();
        let expected = hosts.iter().all(|name| planted.contains(name.as_str()));
        let of_router = cause.first.reason.contains("10.2.1.16@o2ib");
        assert!(expected || of_router, "{cause:?}");
    }
}

#[test]
fn the_same_site_without_the_mistakes_has_no_finding() {
    let Some(directory) = testkit::shared_data("trials/admin/site200") else {
        return;
    };
    let planted = fs::read_to_string(directory.with_file_name("site200-planted.json")).unwrap();
    let planted: serde_json::Value = serde_json::from_str(&planted).unwrap();
    let is_planted = |path: &str| planted.get(path.split('.').next().unwrap()).is_some();
    let mut files = files_of(&directory, "");
    let texts: BTreeMap<String, String> = files
        .iter()
        .map(|file| (file.path.clone(), file.text.clone()))
        .collect();
    let mut mended = 0;
    for file in &mut files {
        let (name, extension) = file.path.split_once('.').unwrap();
        if !is_planted(name) {
            continue;
        }
        let kind = name.trim_end_matches(|one: char| one.is_ascii_digit());
        let number: u32 = name.trim_start_matches(kind).parse().unwrap();
        // The first node of each kind is right.
        file.text = texts[&format!("{kind}001.{extension}")].clone();
        let nets: &[&str] = match kind {
            "cn" => &["10.1.1."],
            "oss" => &["10.2.0."],
            _ => &["10.1.0.", "10.2.1."],
        };
        for net in nets {
            for end in ['@', '"'] {
                let own = format!("{net}{number}{end}");
                file.text = file.text.replace(&format!("{net}1{end}"), &own);
            }
        }
        mended += 1;
    }
    assert_eq!(mended, 2 * 19);
    let check = check(&lnet_site::read(&files).unwrap()).unwrap();
    assert_eq!((check.nodes, check.classes), (200, 3));
    assert!(check.causes.is_empty(), "{}", check.to_text());
}

#[test]
fn what_differs_between_nodes_or_is_wrong_at_one_is_named_at_its_node() {
    for (name, code, node) in [
        ("c03-bridge-nid", "wrong-interface", "client"),
        ("c03-bridge-nid", "virtual-interface", "client"),
        ("cases/c03/site", "wrong-interface", "client"),
        ("port", "port-differs", "gkenode"),
        ("cases/c04/site", "port-differs", "gkenode"),
        ("cases/c09", "parameters-differ", "server"),
        ("cases/c13", "mixed-fabrics", "client"),
        ("cases/c19/site", "parameters-differ", "oss3"),
        ("lone-net", "net-alone", "a"),
        ("lone-net", "net-alone", "mgs"),
    ] {
        let Some(check) = checked(name) else {
            return;
        };
        assert!(names(&check, code, node), "{name}: {}", check.to_text());
    }
}

#[test]
fn single_documents_are_named_in_each_form() {
    for (document, interfaces, code) in [
        ("loopback/lnet.yaml", None, "loopback-interface"),
        (
            "loopback/lnet.conf.modprobe",
            Some("loopback/ip-addr.json"),
            "loopback-interface",
        ),
        ("credits.yaml", None, "credits-too-few"),
        (
            "cases/c01/lnet.conf",
            Some("cases/c01/ip-addr.json"),
            "interface-missing",
        ),
        ("cases/c01/journal.txt", None, "kernel-message"),
        (
            "cases/c02/netshow.yaml",
            Some("cases/c02/ip-addr.json"),
            "subnets-apart",
        ),
        ("cases/c08/lnet.yaml", None, "loopback-interface"),
        (
            "cases/c08/lnet.conf.modprobe",
            Some("cases/c08/ip-addr.json"),
            "loopback-interface",
        ),
        (
            "cases/c11/lustre.conf",
            Some("cases/c11/ip-addr.json"),
            "ip2nets-host-match",
        ),
        (
            "site200/cn075.yaml",
            Some("site200/cn075.json"),
            "outside-subnet",
        ),
        ("cases/c10/router.yaml", None, "credits-too-few"),
        ("cases/c22/lustre.conf", None, "route-passed-over"),
        ("cases/c22/lnet.yaml", None, "gateway-not-local"),
        ("cases/c26/mgs.yaml", None, "virtual-interface"),
        ("cases/c15/dmesg.txt", None, "kernel-message"),
        ("cases/c17/stats.yaml", None, "messages-failed"),
        ("stats.yaml", None, "messages-failed"),
    ] {
        let read = |name: &str| {
            let path = testkit::shared_data(format!("trials/admin/{name}"))?;
            Some(fs::read_to_string(path).unwrap())
        };
        let Some(text) = read(document) else {
            return;
        };
        let interfaces = interfaces.and_then(read);
        let input = Input {
            name: document,
            text: &text,
            interfaces: interfaces.as_deref(),
            port: None,
        };
        let found = lint(&[input]).unwrap().findings;
        assert!(
            found.iter().any(|finding| finding.code == code),
            "{document}: {found:?}"
        );
    }
}

fn reached(name: &str, from: &str, to: &str) -> Option<Reach> {
    let [from, to] = [from, to].map(|name| match name {
        "" => Selection::default(),
        name => Selection::parse(name).unwrap(),
    });
    Some(reach(&site(name)?, &from, &to))
}

#[test]
fn a_pair_that_nothing_joins_and_a_dead_interface_are_no_success() {
    let (Some(apart), Some(all)) = (reached("lone-net", "a", "mgs"), reached("lone-net", "", ""))
    else {
        return;
    };
    assert!(
        !apart.is_whole() && apart.directions.len() == 2,
        "{apart:?}"
    );
    assert!(all.is_whole() && all.apart == 1, "{all:?}");
    let Some(down) = reached("reach-ignores-down-interface", "a", "mgs") else {
        return;
    };
    assert!(!down.is_whole(), "{down:?}");
    assert!(
        down.to_text().contains("10.1.0.5@tcp is down"),
        "{}",
        down.to_text()
    );
}

#[test]
fn what_the_check_contradicts_is_no_success() {
    for (name, says) in [
        (
            "port",
            "ports differ: gkenode listens and dials on 6988, and mgs on 988",
        ),
        ("cases/c04/site", "ports differ"),
        (
            "c03-bridge-nid",
            "in doubt: warning[wrong-interface] client",
        ),
        (
            "cases/c03/site",
            "in doubt: warning[virtual-interface] client",
        ),
        ("cases/c26", "in doubt: error[nid-claimed-twice] mgs"),
        ("reach-ignores-down-interface", "on a: ip link set eth0 up"),
    ] {
        let Some(reach) = reached(name, "", "") else {
            return;
        };
        // The text is wrapped.
        let text = reach
            .to_text()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(!reach.is_whole(), "{name}: {text}");
        assert!(text.contains(says), "{name}: {text}");
    }
}

#[test]
fn the_deletion_of_a_route_is_a_repair() {
    let Some(reach) = reached("no-single-change", "c", "s") else {
        return;
    };
    let repairs: Vec<_> = reach
        .directions
        .iter()
        .filter_map(|one| one.repair.as_deref())
        .collect();
    assert_eq!(
        repairs,
        ["on c: lnetctl route del --net o2ib --gateway 10.1.0.101@tcp"]
    );
}

#[test]
fn the_effects_of_a_failure_fit_a_screen_and_the_cause_comes_first() {
    let Some(site) = site("site200") else { return };
    let failed = Selection::parse("rtr001").unwrap().nids(&site);
    let one = [what_if(&site, &failed, "rtr001")];
    let each = each_router(&site);
    for impacts in [&one[..], &each] {
        let text = impacts_text(impacts, Extent::Screen);
        assert!(text.lines().count() <= SCREEN, "{text}");
        let all = impacts_text(impacts, Extent::All);
        assert!(all.lines().count() >= text.lines().count());
    }
    let text = impacts_text(&one, Extent::Screen);
    let second = text.lines().nth(1).unwrap();
    assert!(
        second.contains("cause: rtr001: no longer forwards between"),
        "{text}"
    );
}

#[test]
fn an_interface_that_does_not_work_is_the_first_repair_and_a_missing_one_is_not_brought_up() {
    for (node, cure) in [
        ("cn050", "name one of: lo, eth9"),
        ("cn070", "ip link set eth0 up"),
    ] {
        let Some(reach) = reached("site200", node, "oss001") else {
            return;
        };
        assert_eq!(reach.directions.len(), 2);
        for one in &reach.directions {
            let repair = one.repair.as_deref().unwrap_or_default();
            assert!(
                repair.starts_with(&format!("on {node}: ")) && repair.contains(cure),
                "{repair}"
            );
        }
    }
}

#[test]
fn nodes_without_any_interface_are_cut_off_and_that_is_a_loss() {
    let Some(site) = site("site200") else { return };
    let failed = Selection::parse("oss[001-020]").unwrap().nids(&site);
    let one = what_if(&site, &failed, "oss[001-020]");
    assert_eq!(one.cut_off, "oss[001-020]");
    assert!(one.loses());
    let text = impacts_text(&[one], Extent::Screen);
    assert!(text.contains("20 nodes cut off"), "{text}");
    assert!(!text.contains("nothing changes"), "{text}");
}

#[test]
fn a_difference_names_the_router_that_no_longer_forwards_before_its_effects() {
    let Some(directory) = testkit::shared_data("trials/admin/site200") else {
        return;
    };
    let before = files_of(&directory, "");
    let mut after = before.clone();
    let router = after
        .iter_mut()
        .find(|file| file.path == "rtr002.yaml")
        .unwrap();
    assert!(router.text.contains("enable: 1"), "{}", router.text);
    router.text = router.text.replace("enable: 1", "enable: 0");
    let [old, new] = [before, after].map(|files| lnet_site::read(&files).unwrap());
    let text = difference_text(&differences(&old, &new), Extent::Screen);
    assert!(text.lines().count() <= SCREEN, "{text}");
    let second = text.lines().nth(1).unwrap();
    assert_eq!(
        second,
        "  cause: rtr002: no longer forwards (routing is off)"
    );
}

#[test]
fn what_was_tried_as_a_repair_is_said() {
    let Some(apart) = reached("lone-net", "a", "mgs") else {
        return;
    };
    let text = apart.to_text();
    assert!(!text.contains("no single change repairs it"), "{text}");
    assert!(text.contains("no repair"), "{text}");
}

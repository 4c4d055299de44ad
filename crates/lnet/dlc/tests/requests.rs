//! Outputs of a running node, and other requests.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod common;

use lnet_dlc::protocol::{
    Fault, FaultPace, FaultRule, HealthTarget, ImportMode, Request, RuleChange, Section, Show,
    Tune, UdspRule,
};
use lnet_dlc::{Dlc, DlcError};

use common::Bed;

const RAILS: &str = "\
net:
- net type: tcp
  local NI(s):
  - nid: 127.0.0.1@tcp
  - nid: 127.0.0.2@tcp
- net type: tcp1
  local NI(s):
  - nid: 127.0.0.3@tcp1
route:
- net: tcp9
  gateway: 127.0.0.9@tcp
  hop: 2
  priority: 1
peer:
- primary nid: 127.0.0.7@tcp
  Multi-Rail: true
  peer ni:
  - nid: 127.0.0.7@tcp
  - nid: 127.0.0.8@tcp1
";

fn show(section: Section, verbosity: u8) -> Show {
    Show::all(section, verbosity)
}

fn shown(dlc: &mut Dlc, show: Show) -> String {
    dlc.request(&Request::Show(show)).unwrap()
}

fn rejected(result: Result<String, DlcError>) -> i32 {
    match result {
        Err(DlcError::Rejected(failures)) => failures[0].errno,
        other => panic!("{other:?}"),
    }
}

#[test]
fn net_show_prints_nets_in_their_order_with_loopback_first() {
    let (_bed, mut dlc) = Bed::with(RAILS);
    let expected = "\
net:
-     net type: lo
      local NI(s):
      -     nid: 0@lo
            status: up
-     net type: tcp
      local NI(s):
      -     nid: 127.0.0.1@tcp
            status: up
            interfaces:
                  0: lo
      -     nid: 127.0.0.2@tcp
            status: up
            interfaces:
                  0: lo
-     net type: tcp1
      local NI(s):
      -     nid: 127.0.0.3@tcp1
            status: up
            interfaces:
                  0: lo
";
    assert_eq!(shown(&mut dlc, show(Section::Net, 0)), expected);
}

#[test]
fn everything_that_is_shown_is_read_back_without_a_warning() {
    let (_bed, mut dlc) = Bed::with(RAILS);
    for section in [
        Section::Net,
        Section::Peer,
        Section::PeerList,
        Section::Route,
        Section::Global,
        Section::Statistics,
    ] {
        for verbosity in 0..=4 {
            let text = shown(&mut dlc, show(section, verbosity));
            assert!(!text.is_empty(), "{section:?}");
            let reading = lnet_config::read(&text).unwrap();
            assert_eq!(reading.warnings, [], "{section:?} {verbosity}");
            assert_eq!(reading.document.to_yaml(), text, "{section:?} {verbosity}");
        }
    }
}

#[test]
fn an_empty_list_prints_nothing() {
    let (_bed, mut dlc) = Bed::new();
    for section in [
        Section::Routing,
        Section::Udsp,
        Section::LocalRecovery,
        Section::PeerRecovery,
        Section::Route,
    ] {
        assert_eq!(shown(&mut dlc, show(section, 4)), "", "{section:?}");
    }
}

#[test]
fn routes_are_shown_by_hop_count_and_priority() {
    let more = "- net: tcp8\n  gateway: 127.0.0.9@tcp\n  priority: 5\n";
    let (_bed, mut dlc) = Bed::with(&RAILS.replace("route:\n", &format!("route:\n{more}")));
    let of_hop = |hop| Show {
        hop: Some(hop),
        ..Show::all(Section::Route, 0)
    };
    let of_priority = |priority| Show {
        priority: Some(priority),
        ..Show::all(Section::Route, 0)
    };
    let nets = |text: &str| ["tcp9", "tcp8"].map(|net| text.contains(net));
    assert_eq!(nets(&shown(&mut dlc, of_hop(2))), [true, false]);
    assert_eq!(nets(&shown(&mut dlc, of_priority(5))), [false, true]);
    assert_eq!(shown(&mut dlc, of_priority(6)), "");
}

#[test]
fn a_show_is_limited_to_a_net_or_a_peer_and_says_when_there_is_none() {
    let (_bed, mut dlc) = Bed::with(RAILS);
    let of_net = |net: &str| Show {
        net: Some(net.to_owned()),
        ..show(Section::Net, 0)
    };
    let of_peer = |nid: &str| Show {
        nid: Some(nid.to_owned()),
        ..show(Section::Peer, 0)
    };
    let nets = shown(&mut dlc, of_net("tcp1"));
    assert!(nets.contains("127.0.0.3@tcp1") && !nets.contains("127.0.0.1@tcp"));
    assert_eq!(rejected(dlc.request(&Request::Show(of_net("tcp5")))), -3);
    let peer = shown(&mut dlc, of_peer("127.0.0.8@tcp1"));
    assert!(peer.contains("primary nid: 127.0.0.7@tcp"), "{peer}");
    assert_eq!(
        rejected(dlc.request(&Request::Show(of_peer("127.0.0.99@tcp")))),
        -2
    );
    assert_eq!(rejected(dlc.request(&Request::Show(of_net("no net")))), -22);
}

/// The peers arrive in several pages, which form one section.
#[test]
fn many_peers_are_one_document() {
    let mut yaml = RAILS.to_owned();
    for last in 1..=200 {
        yaml +=
            &format!("- primary nid: 10.9.0.{last}@tcp\n  peer ni:\n  - nid: 10.9.0.{last}@tcp\n");
    }
    let (_bed, mut dlc) = Bed::with(&yaml);
    let mut pieces = 0;
    let mut text = String::new();
    let request = Request::Show(show(Section::Peer, 4));
    let take = |piece: &str| {
        pieces += 1;
        text.push_str(piece);
    };
    dlc.request_pieces(&request, take).unwrap();
    assert!(pieces > 1);
    let reading = lnet_config::read(&text).unwrap();
    // The gateway is a peer, too.
    assert_eq!(reading.document.peers.len(), 202);
    assert_eq!(text.matches("peer:\n").count(), 1);
}

#[test]
fn an_export_is_a_configuration_that_makes_the_same_node() {
    let (_bed, mut dlc) = Bed::with(RAILS);
    let export = dlc.request(&Request::Export { backup: false }).unwrap();
    let config = lnet_config::parse(&export).unwrap();
    assert_eq!(config.nets.len(), 2);
    assert_eq!(config.routes[0].priority, 1);
    let backup = dlc.request(&Request::Export { backup: true }).unwrap();
    assert!(!backup.contains("0@lo") && !backup.contains("statistics"));
}

#[test]
fn ping_prints_the_peers_nids_and_discover_remembers_them() {
    let (_bed, mut dlc) = Bed::new();
    let ping = |nid: &str, discover| Request::Ping {
        nids: vec![nid.to_owned()],
        source: None,
        timeout: 1,
        discover,
    };
    // Each node of a test has its own port, so the only reachable node is the node itself.
    let answer = dlc.request(&ping("127.0.0.1@tcp", false)).unwrap();
    let expected = "\
ping:
- primary nid: 127.0.0.1@tcp
  Multi-Rail: false
  peer_ni:
  - nid: 127.0.0.1@tcp
";
    assert_eq!(answer, expected);
    let answer = dlc.request(&ping("127.0.0.1@tcp", true)).unwrap();
    assert!(answer.starts_with("discover:\n"), "{answer}");
    match dlc.request(&ping("10.1.1.1@tcp7", false)) {
        Err(DlcError::Rejected(failures)) => {
            let said = &failures[0].descr;
            assert_eq!(said, "failed to ping 10.1.1.1@tcp7: No route to host");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(rejected(dlc.request(&ping("nonsense", false))), -22);
}

#[test]
fn a_drop_rule_is_added_listed_and_removed() {
    let (_bed, mut dlc) = Bed::new();
    let rule = FaultRule {
        source: "*".into(),
        dest: "127.0.0.1@tcp".into(),
        pace: FaultPace::Rate(1),
        random_interval: false,
        all: false,
        messages: vec!["GET".into()],
        portal: None,
        local_nid: None,
        errors: vec!["local_timeout".into()],
        delay: None,
    };
    dlc.request(&Request::Fault(Fault::Add(rule.clone())))
        .unwrap();
    let list = dlc
        .request(&Request::Fault(Fault::Show { delay: false }))
        .unwrap();
    let expected = "LNet drop rules:\n*->127.0.0.1@tcp (1/1 | 0) ptl 0, msg 4, 0/0, PUT 0, ACK 0, \
                    GET 0, REP 0\nfound total 1\n";
    assert_eq!(list, expected);
    let none = Fault::Del {
        delay: false,
        source: None,
        dest: None,
    };
    dlc.request(&Request::Fault(none)).unwrap();
    assert_eq!(
        dlc.request(&Request::Fault(Fault::Show { delay: false }))
            .unwrap(),
        ""
    );
    let wrong = FaultRule {
        errors: vec!["no_such_class".into()],
        ..rule
    };
    assert_eq!(
        rejected(dlc.request(&Request::Fault(Fault::Add(wrong)))),
        -22
    );
}

#[test]
fn health_that_is_set_is_shown() {
    let (_bed, mut dlc) = Bed::new();
    let target = HealthTarget::Ni("127.0.0.1@tcp".into());
    dlc.request(&Request::SetHealth { target, health: 0 })
        .unwrap();
    let text = shown(&mut dlc, show(Section::Net, 2));
    assert!(text.contains("status: down"), "{text}");
}

#[test]
fn a_reset_zeroes_the_node_s_counters() {
    let (_bed, mut dlc) = Bed::new();
    let ping = Request::Ping {
        nids: vec!["127.0.0.1@tcp".into()],
        source: None,
        timeout: 1,
        discover: false,
    };
    dlc.request(&ping).unwrap();
    let sent = |dlc: &mut Dlc| {
        let text = shown(dlc, show(Section::Statistics, 0));
        lnet_config::read(&text)
            .unwrap()
            .document
            .statistics
            .unwrap()
            .send_count
    };
    assert!(sent(&mut dlc) > 0);
    dlc.request(&Request::ResetStatistics).unwrap();
    assert_eq!(sent(&mut dlc), 0);
}

fn tune(nid: Option<&str>, conns_per_peer: Option<u8>, lnd_timeout: Option<u32>) -> Request {
    Request::Tune(Tune {
        nid: nid.map(str::to_owned),
        net: None,
        conns_per_peer,
        lnd_timeout,
    })
}

#[test]
fn settings_of_an_interface_change_are_exported_and_leave_its_counters() {
    let (bed, mut dlc) = Bed::with(RAILS);
    let ping = Request::Ping {
        nids: vec!["127.0.0.1@tcp".to_owned()],
        source: None,
        timeout: 5,
        discover: false,
    };
    dlc.request(&ping).unwrap();
    dlc.request(&tune(Some("127.0.0.1@tcp"), Some(3), Some(21)))
        .unwrap();
    let net = Show {
        net: Some("tcp".to_owned()),
        ..show(Section::Net, 1)
    };
    let text = shown(&mut dlc, net.clone());
    for (setting, count) in [
        ("conns_per_peer: 3", 1),
        ("conns_per_peer: 1", 1),
        ("timeout: 21", 1),
        ("timeout: 49", 1),
    ] {
        assert_eq!(text.matches(setting).count(), count, "{setting} in {text}");
    }
    let backup = dlc.request(&Request::Export { backup: true }).unwrap();
    // The interface has its own timeout; the others follow the node's.
    let global = "global: {transaction_timeout: 50}\n";
    let import = |yaml: &str, mode| Request::Import {
        yaml: yaml.to_owned(),
        mode,
        partial: false,
        dry_run: false,
    };
    dlc.request(&import(global, ImportMode::Add)).unwrap();
    let text = shown(&mut dlc, net.clone());
    assert!(
        text.contains("timeout: 21") && text.contains("timeout: 16"),
        "{text}"
    );
    // An import of the export restores the settings.
    dlc.request(&tune(None, Some(1), Some(0))).unwrap();
    dlc.request(&import(&backup, ImportMode::Replace)).unwrap();
    assert_eq!(
        dlc.request(&Request::Export { backup: true }).unwrap(),
        backup
    );
    assert!(bed.node.node().stats().recv_count > 0);

    assert_eq!(rejected(dlc.request(&tune(None, Some(128), None))), -22);
    assert_eq!(
        rejected(dlc.request(&tune(Some("127.0.0.9@tcp"), Some(1), None))),
        -2
    );
}

#[test]
fn rules_that_no_block_can_hold_do_not_stand_in_the_way_of_others() {
    let (_bed, mut dlc) = Bed::new();
    let add = |src: Option<&str>, dst: Option<&str>| {
        let text = |text: Option<&str>| text.map(str::to_owned);
        Request::Rule(RuleChange::Add {
            rule: UdspRule {
                src: text(src),
                dst: text(dst),
                rte: None,
                priority: Some(3),
            },
            idx: None,
        })
    };
    dlc.request(&add(None, Some("fd00::1@tcp"))).unwrap();
    assert!(dlc.all_rules().is_err());
    dlc.request(&add(Some("tcp"), None)).unwrap();
    assert_eq!(rejected(dlc.request(&add(Some("tcp"), None))), 114);
    assert_eq!(rejected(dlc.request(&add(None, None))), -22);
    let delete = |idx| Request::Rule(RuleChange::Del { idx });
    assert_eq!(rejected(dlc.request(&delete(Some(2)))), -2);
    dlc.request(&delete(Some(0))).unwrap();
    assert_eq!(dlc.all_rules().unwrap().rules().len(), 1);
    dlc.request(&delete(None)).unwrap();
    assert!(dlc.all_rules().unwrap().rules().is_empty());
}

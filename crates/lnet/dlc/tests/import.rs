//! Changes of a running node's configuration.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod common;

use std::time::Duration;

use lnet_dlc::protocol::{Failure, ImportMode, Request, Section, Show};
use lnet_dlc::{Dlc, DlcError};

use common::Bed;

const BASE: &str = "net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n";

fn import(dlc: &mut Dlc, yaml: &str, mode: ImportMode) -> Result<String, DlcError> {
    dlc.request(&Request::Import {
        yaml: yaml.to_owned(),
        mode,
        partial: false,
        dry_run: false,
    })
}

fn add(dlc: &mut Dlc, yaml: &str) -> Result<String, DlcError> {
    import(dlc, yaml, ImportMode::Add)
}

fn failure(result: Result<String, DlcError>) -> Failure {
    match result {
        Err(DlcError::Rejected(mut failures)) => failures.remove(0),
        other => panic!("{other:?}"),
    }
}

fn shown(dlc: &mut Dlc, section: Section) -> String {
    let show = Show::all(section, 1);
    dlc.request(&Request::Show(show)).unwrap()
}

/// The part that an import needs, without peers: a gateway stays a peer after its first use.
fn backup(dlc: &mut Dlc) -> String {
    let text = dlc.request(&Request::Export { backup: true }).unwrap();
    let mut document = lnet_config::read(&text).unwrap().document;
    document.peers.clear();
    document.to_yaml()
}

#[test]
fn each_section_is_added_and_removed_again() {
    let (_bed, mut dlc) = Bed::with(BASE);
    let before = backup(&mut dlc);
    let yaml = "\
net:
- net type: tcp1
  local NI(s):
  - nid: 127.0.0.2@tcp1
- net type: tcp
  local NI(s):
  - nid: 127.0.0.3@tcp
route:
- net: tcp9
  gateway: 127.0.0.9@tcp1
peer:
- primary nid: 127.0.0.7@tcp
  peer ni:
  - nid: 127.0.0.7@tcp
udsp:
- dst: tcp9
  action:
    priority: 0
";
    add(&mut dlc, yaml).unwrap();
    let nets = shown(&mut dlc, Section::Net);
    assert!(
        nets.contains("127.0.0.2@tcp1") && nets.contains("127.0.0.3@tcp"),
        "{nets}"
    );
    assert!(shown(&mut dlc, Section::Route).contains("127.0.0.9@tcp1"));
    assert!(shown(&mut dlc, Section::Peer).contains("127.0.0.7@tcp"));
    assert!(shown(&mut dlc, Section::Udsp).contains("dst: tcp9"));
    import(&mut dlc, yaml, ImportMode::Del).unwrap();
    assert_eq!(backup(&mut dlc), before);
}

#[test]
fn an_import_is_all_or_nothing_unless_it_may_be_partial() {
    let (_bed, mut dlc) = Bed::with(BASE);
    let before = backup(&mut dlc);
    // The second interface is invalid, because its address is not one of this machine.
    let half = "\
global:
  retry_count: 1
net:
- net type: tcp1
  local NI(s):
  - nid: 127.0.0.2@tcp1
- net type: tcp2
  local NI(s):
  - nid: 192.0.2.7@tcp2
";
    let rejected = failure(add(&mut dlc, half));
    assert_eq!(
        (rejected.verb.as_str(), rejected.entity.as_str()),
        ("add", "net")
    );
    assert_eq!(backup(&mut dlc), before);

    let partial = Request::Import {
        yaml: half.to_owned(),
        mode: ImportMode::Add,
        partial: true,
        dry_run: false,
    };
    failure(dlc.request(&partial));
    assert!(shown(&mut dlc, Section::Net).contains("127.0.0.2@tcp1"));
}

#[test]
fn of_several_changes_the_one_that_was_rejected_is_named() {
    let (_bed, mut dlc) = Bed::with(BASE);
    let yaml = format!("{BASE}route:\n- net: tcp9\n  gateway: 127.0.0.9@tcp\n");
    let rejected = failure(add(&mut dlc, &yaml));
    let expected = "net add --net tcp --nid 127.0.0.1@tcp: 127.0.0.1@tcp is already a local NID";
    assert_eq!((rejected.errno, rejected.descr.as_str()), (-17, expected));
}

fn complete(dlc: &mut Dlc, yaml: &str) -> Result<String, DlcError> {
    import(dlc, yaml, ImportMode::Complete)
}

#[test]
fn one_route_more_is_added_by_an_import_of_the_whole_export() {
    let more = "\
route:
- net: tcp7
  gateway: 127.0.0.9@tcp
peer:
- primary nid: 127.0.0.5@tcp
  peer ni:
  - nid: 127.0.0.5@tcp
  - nid: 127.0.0.6@tcp
udsp:
- src: tcp
";
    let (_bed, mut dlc) = Bed::with(&format!("{BASE}{more}"));
    for backup in [true, false] {
        let export = dlc.request(&Request::Export { backup }).unwrap();
        assert!(
            export.contains("127.0.0.9@tcp"),
            "the gateway is a peer, too"
        );
        let said = complete(&mut dlc, &export).unwrap();
        assert!(said.ends_with("nothing new\n"), "{said}");
    }
    let export = dlc.request(&Request::Export { backup: true }).unwrap();
    let route = "route:\n-     net: tcp8\n      gateway: 127.0.0.8@tcp\n";
    let edited = export.replace("route:\n", route);
    assert_ne!(edited, export);
    let expected = "\
exists already: 1 interface: lo of tcp
exists already: 1 route: tcp7 by 127.0.0.9@tcp
exists already: 2 peers: 127.0.0.5@tcp; 127.0.0.9@tcp
exists already: 1 rule: --src tcp --priority 0
new: route add --net tcp8 --gateway 127.0.0.8@tcp --hop -1 --priority 0
";
    assert_eq!(complete(&mut dlc, &edited).unwrap(), expected);
    assert!(shown(&mut dlc, Section::Route).contains("tcp8"));
    failure(add(&mut dlc, &edited));
}

#[test]
fn what_is_there_with_other_settings_is_rejected_and_not_passed_over() {
    let route = "route:\n- net: tcp7\n  gateway: 127.0.0.9@tcp\n";
    let (_bed, mut dlc) = Bed::with(&format!("{BASE}{route}"));
    let before = backup(&mut dlc);
    let changed = [
        format!("{route}  priority: 3\n- net: tcp8\n  gateway: 127.0.0.9@tcp\n"),
        format!("{BASE}    tunables:\n      credits: 100\n"),
    ];
    for yaml in changed {
        let rejected = failure(complete(&mut dlc, &yaml));
        assert_eq!(rejected.errno, -17);
        assert!(
            rejected.descr.contains("other settings"),
            "{}",
            rejected.descr
        );
        assert_eq!(backup(&mut dlc), before);
    }
    // A default of the LND equals the value that is shown for it.
    let open = format!("{BASE}    lnd tunables:\n      conns_per_peer: 0\n      timeout: 5\n");
    complete(&mut dlc, &open).unwrap();
}

#[test]
fn nids_that_a_peer_has_not_are_added_to_it() {
    let peer = "peer:\n- primary nid: 127.0.0.5@tcp\n  peer ni:\n  - nid: 127.0.0.5@tcp\n";
    let (_bed, mut dlc) = Bed::with(&format!("{BASE}{peer}"));
    complete(&mut dlc, &format!("{peer}  - nid: 127.0.0.6@tcp\n")).unwrap();
    assert!(shown(&mut dlc, Section::Peer).contains("127.0.0.6@tcp"));
}

#[test]
fn a_whole_export_is_removed_and_added_again_loopback_included() {
    let (_bed, mut dlc) = Bed::with(BASE);
    let before = backup(&mut dlc);
    let export = dlc.request(&Request::Export { backup: false }).unwrap();
    assert!(export.contains("net type: lo"));
    import(&mut dlc, &export, ImportMode::Del).unwrap();
    assert!(!shown(&mut dlc, Section::Net).contains("127.0.0.1@tcp"));
    add(&mut dlc, &export).unwrap();
    assert_eq!(backup(&mut dlc), before);
}

#[test]
fn a_removal_returns_what_lnetctl_returns_to_its_default() {
    let (_bed, mut dlc) = Bed::with(BASE);
    let yaml = "global:\n  numa_range: 3\n  max_interfaces: 300\n  retry_count: 1\n";
    add(&mut dlc, yaml).unwrap();
    import(&mut dlc, yaml, ImportMode::Del).unwrap();
    let global = shown(&mut dlc, Section::Global);
    for line in ["numa_range: 0", "max_interfaces: 200", "retry_count: 1"] {
        assert!(global.contains(line), "{line}: {global}");
    }
}

#[test]
fn a_dry_run_says_what_the_import_would_say_and_changes_nothing() {
    let (bed, mut dlc) = Bed::with(BASE);
    let mut tell = |yaml: &str, mode, dry_run| {
        dlc.request(&Request::Import {
            yaml: yaml.to_owned(),
            mode,
            partial: false,
            dry_run,
        })
    };
    // Messages create a peer, which an export lists and a removal removes.
    let found = "127.0.0.8@tcp";
    let timeout = Duration::from_secs(10);
    bed.node
        .node()
        .ping(found.parse().unwrap(), None, timeout)
        .unwrap_err();
    assert!(
        tell(
            &format!("peer:\n- primary nid: {found}\n"),
            ImportMode::Del,
            true
        )
        .is_ok()
    );
    let found = format!("peer:\n- primary nid: {found}\n");
    let gateway = "route:\n- net: tcp7\n  gateway: 127.0.0.9@tcp\n";
    let peer = "peer:\n- primary nid: 127.0.0.9@tcp\n";
    let cases = [
        (
            "net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n",
            ImportMode::Add,
        ),
        (
            "net:\n- net type: tcp1\n  local NI(s):\n  - nid: 192.0.2.7@tcp1\n",
            ImportMode::Add,
        ),
        (
            "net:\n- net type: tcp1\n  local NI(s):\n  - interfaces:\n      0: no0\n",
            ImportMode::Add,
        ),
        (
            "route:\n- net: tcp9\n  gateway: 127.0.0.9@tcp5\n",
            ImportMode::Add,
        ),
        (gateway, ImportMode::Add),
        (gateway, ImportMode::Del),
        (peer, ImportMode::Add),
        (peer, ImportMode::Del),
        (peer, ImportMode::Del),
        (&found, ImportMode::Del),
        (
            "global:\n  retry_count: 3\n  health_sensitivity: 0\n",
            ImportMode::Add,
        ),
        ("udsp:\n- src: tcp\n", ImportMode::Add),
        ("udsp:\n- src: tcp\n", ImportMode::Add),
    ];
    for (yaml, mode) in cases {
        let rehearsed = tell(yaml, mode, true).map_err(|error| error.to_string());
        let again = tell(yaml, mode, true).map_err(|error| error.to_string());
        assert_eq!(rehearsed, again, "{yaml}: it changes nothing");
        let made = tell(yaml, mode, false).map_err(|error| error.to_string());
        assert_eq!(rehearsed, made, "{yaml}");
    }
    // A gateway cannot be removed as a peer as long as its route exists.
    tell(gateway, ImportMode::Add, false).unwrap();
    for dry_run in [true, false] {
        tell(peer, ImportMode::Del, dry_run).unwrap_err();
    }
    let both = format!("{gateway}{peer}");
    tell(&both, ImportMode::Del, true).unwrap();
}

#[test]
fn nothing_is_left_of_a_node_that_is_unconfigured() {
    let more = "route:\n- net: tcp7\n  gateway: 127.0.0.9@tcp\nudsp:\n- src: tcp\n";
    let (bed, mut dlc) = Bed::with(&format!("{BASE}{more}"));
    let timeout = Duration::from_secs(10);
    bed.node
        .node()
        .ping("127.0.0.8@tcp".parse().unwrap(), None, timeout)
        .unwrap_err();
    assert!(shown(&mut dlc, Section::PeerList).contains("127.0.0.8@tcp"));
    for _ in 0..2 {
        assert_eq!(dlc.request(&Request::Unconfigure).unwrap(), "");
    }
    for section in [
        Section::PeerList,
        Section::Route,
        Section::Udsp,
        Section::Routing,
    ] {
        assert_eq!(shown(&mut dlc, section), "", "{section:?}");
    }
    assert!(!shown(&mut dlc, Section::Net).contains("tcp"));
}

#[test]
fn a_dry_run_changes_nothing() {
    let (_bed, mut dlc) = Bed::with(BASE);
    let before = backup(&mut dlc);
    dlc.request(&Request::Import {
        yaml: "udsp:\n- src: tcp\nglobal:\n  retry_count: 1\n".to_owned(),
        mode: ImportMode::Add,
        partial: false,
        dry_run: true,
    })
    .unwrap();
    assert_eq!(backup(&mut dlc), before);
}

#[test]
fn an_own_export_in_place_of_the_configuration_changes_nothing() {
    let (_bed, mut dlc) = Bed::with(BASE);
    for backup in [false, true] {
        let export = dlc.request(&Request::Export { backup }).unwrap();
        import(&mut dlc, &export, ImportMode::Replace).unwrap();
        assert_eq!(
            dlc.request(&Request::Export { backup: true }).unwrap(),
            self::backup(&mut dlc)
        );
    }
}

#[test]
fn another_configuration_takes_the_place_of_the_present_one() {
    let (bed, _dlc) = Bed::with(BASE);
    let wanted = "\
net:
- net type: tcp
  local NI(s):
  - nid: 127.0.0.1@tcp
- net type: tcp3
  local NI(s):
  - nid: 127.0.0.4@tcp3
global:
  transaction_timeout: 60
";
    let wanted = lnet_config::parse(wanted).unwrap();
    assert_eq!(bed.node.reconfigure(&wanted).unwrap(), 2);
    assert_eq!(bed.node.reconfigure(&wanted).unwrap(), 0);
    assert_eq!(bed.node.node().nids().len(), 2);
}

#[test]
fn rejections_have_the_words_and_numbers_of_the_tool() {
    let (_bed, mut dlc) = Bed::with(BASE);
    let said = |failure: Failure| (failure.verb, failure.entity, failure.errno, failure.descr);
    let text = |parts: (&str, &str, i32, &str)| {
        (
            parts.0.to_owned(),
            parts.1.to_owned(),
            parts.2,
            parts.3.to_owned(),
        )
    };
    let rejected = failure(add(&mut dlc, BASE));
    assert_eq!(
        said(rejected),
        text(("add", "net", -17, "cannot add LNet NI"))
    );
    let unknown = "net:\n- net type: tcp9\n  local NI(s):\n  - nid: 10.0.0.1@tcp9\n";
    let rejected = failure(import(&mut dlc, unknown, ImportMode::Del));
    assert_eq!(
        said(rejected),
        text(("del", "net", -22, "cannot del network"))
    );
    let far = "route:\n- net: tcp9\n  gateway: 10.7.0.1@tcp7\n";
    let rejected = failure(add(&mut dlc, far));
    let why = "No interface configured on the same net as gateway";
    assert_eq!(said(rejected), text(("add", "route", -113, why)));
    let rejected = failure(import(&mut dlc, far, ImportMode::Del));
    assert_eq!(
        said(rejected),
        text(("del", "route", -2, "failed to delete route"))
    );
    let rejected = failure(add(&mut dlc, "net:\n  - wrong: here\n"));
    assert!(rejected.descr.contains("wrong"), "{}", rejected.descr);
}

/// Kernels make the changes one after the other in their own order; here the whole import is one
/// step.
#[test]
fn ten_thousand_routes_and_a_thousand_rules_are_one_import() {
    let (_bed, mut dlc) = Bed::with(BASE);
    let mut yaml = String::from("route:\n");
    for number in 0..10_000_u32 {
        let (net, host) = (1 + number % 100, 1 + number / 100);
        yaml += &format!(
            "- net: tcp{net}\n  gateway: 127.1.{}.{}@tcp\n",
            host / 200,
            2 + host % 200
        );
    }
    yaml += "udsp:\n";
    for number in 0..1000 {
        yaml += &format!(
            "- dst: 10.{}.{}.*@tcp\n  priority: {number}\n",
            number / 250,
            number % 250
        );
    }
    let begin = std::time::Instant::now();
    add(&mut dlc, &yaml).unwrap();
    eprintln!("10,000 routes and 1,000 rules: {:?}", begin.elapsed());
    assert_eq!(
        shown(&mut dlc, Section::Route).matches("gateway:").count(),
        10_000
    );
}

/// The test applies to both profiles, because no path is selected.
#[test]
fn t_r18_a_gateway_is_neither_added_nor_deleted_as_a_peer() {
    let (_bed, mut dlc) = Bed::with(BASE);
    add(&mut dlc, "route:\n- net: tcp9\n  gateway: 127.0.0.9@tcp\n").unwrap();
    let peer = "peer:\n- primary nid: 127.0.0.9@tcp\n  peer ni:\n  - nid: 127.0.0.9@tcp\n";
    for (verb, mode) in [("add", ImportMode::Add), ("del", ImportMode::Del)] {
        let rejected = failure(import(&mut dlc, peer, mode));
        let expected = format!("failed to {verb} peer: peer 127.0.0.9@tcp is a gateway");
        assert_eq!(rejected.descr, expected);
    }
    assert!(shown(&mut dlc, Section::Peer).contains("127.0.0.9@tcp"));
}

/// The test applies to both profiles: it compares the rules and their values before and after.
#[test]
fn t_u06_rules_are_in_force_again_after_export_restart_and_import() {
    let two_nets = "\
net:
- net type: tcp
  local NI(s):
  - nid: 127.0.0.1@tcp
- net type: tcp1
  local NI(s):
  - nid: 127.0.0.2@tcp1
";
    for rule in ["src: tcp", "dst: tcp1", "src: tcp1"] {
        let (bed, mut dlc) = Bed::with(two_nets);
        add(
            &mut dlc,
            &format!("udsp:\n- {rule}\n  action:\n    priority: 1\n"),
        )
        .unwrap();
        let export = dlc.request(&Request::Export { backup: true }).unwrap();
        let before = priorities(&mut dlc);
        drop(bed);
        let (_bed, mut dlc) = Bed::with(&export);
        assert_eq!(
            dlc.request(&Request::Export { backup: true }).unwrap(),
            export,
            "{rule}"
        );
        assert_eq!(priorities(&mut dlc), before, "{rule}");
    }
}

/// The priorities that rules give to the interfaces.
fn priorities(dlc: &mut Dlc) -> Vec<String> {
    let show = Show::all(Section::Net, 4);
    let text = dlc.request(&Request::Show(show)).unwrap();
    let of_rules = text.lines().filter(|line| line.contains("priority:"));
    of_rules.map(str::to_owned).collect()
}

/// Every section with all its keys.
const EVERYTHING: &str = "\
net:
- net type: tcp
  local NI(s):
  - nid: 127.0.0.1@tcp
    tunables: {peer_timeout: 99, peer_credits: 16, peer_buffer_credits: 3, credits: 128}
    lnd tunables: {conns_per_peer: 2, tos: 8}
    CPT: \"[0]\"
  - nid: 127.0.0.2@tcp
- net type: tcp1
  local NI(s):
  - nid: 127.0.0.3@tcp1
    lnd tunables: {timeout: 11}
route:
- {net: tcp9, gateway: '127.0.0.[9-10]@tcp', hop: 2, priority: 3}
- {net: tcp9, gateway: 127.0.0.11@tcp1, hop: 1, priority: 0}
- {net: o2ib3, gateway: 127.0.0.9@tcp}
- {net: gni1, gateway: 127.0.0.11@tcp1, hop: 255, priority: 4294967295}
routing: {enable: 1}
buffers: {tiny: 600, small: 5000, large: 300}
peer:
- primary nid: 127.0.0.20@tcp
  peer ni: [{nid: 127.0.0.20@tcp}, {nid: 127.0.0.21@tcp1}]
- primary nid: 127.0.0.22@tcp
  Multi-Rail: false
- primary nid: 127.0.0.9@tcp
  peer ni: [{nid: 127.0.0.9@tcp}, {nid: 127.0.0.12@tcp1}]
- primary nid: 7@gni1
- primary nid: 'fd00::7@tcp1'
global:
  numa_range: 5
  max_interfaces: 300
  drop_asym_route: 1
  retry_count: 3
  transaction_timeout: 77
  health_sensitivity: 50
  router_sensitivity: 60
  response_tracking: 2
  recovery_limit: 500
  max_recovery_ping_interval: 64
udsp:
- {src: tcp, priority: 1}
- {dst: tcp1, priority: 0}
- {src: 127.0.0.1@tcp, dst: 127.0.0.20@tcp, priority: 3}
- {dst: tcp9, rte: 127.0.0.9@tcp}
- {src: 127.0.0.3@tcp1, dst: '127.0.0.[2-20/2]@tcp1'}
- {src: 127.0.0.3@tcp1, dst: '127.0.[0,2].[1,3-5]@tcp1'}
- {dst: 'fd00::7@tcp1', priority: 2}
";

fn exported(dlc: &mut Dlc, backup: bool) -> String {
    dlc.request(&Request::Export { backup }).unwrap()
}

/// Both kinds of export of a full configuration: an import into the same node changes nothing, and
/// an import into another node gives the same export.
#[test]
fn everything_survives_export_reload_and_restart_byte_by_byte() {
    let (bed, mut dlc) = Bed::with(EVERYTHING);
    let before = exported(&mut dlc, true);
    let full = exported(&mut dlc, false);
    for document in [EVERYTHING, &before, &full] {
        let config = lnet_config::parse(document).unwrap();
        assert_eq!(bed.node.reconfigure(&config), Ok(0), "{document}");
        assert_eq!(exported(&mut dlc, true), before);
    }
    drop((bed, dlc));
    for document in [&before, &full] {
        let (_bed, mut dlc) = Bed::with(document);
        assert_eq!(exported(&mut dlc, true), before);
        for dry_run in [true, false] {
            dlc.request(&Request::Import {
                yaml: document.clone(),
                mode: ImportMode::Del,
                partial: false,
                dry_run,
            })
            .unwrap();
        }
        let left = exported(&mut dlc, true);
        // A router that stops has its buffers until its peers know.
        assert!(left.starts_with("routing:\n    enable: 0\n"), "{left}");
        let sections = left.lines().filter(|line| !line.starts_with(' '));
        let sections: Vec<&str> = sections.collect();
        assert_eq!(sections, ["routing:", "buffers:", "global:"]);
        assert!(!left.contains("udsp:"), "{left}");
        add(&mut dlc, document).unwrap();
        assert_eq!(exported(&mut dlc, true), before);
    }
}

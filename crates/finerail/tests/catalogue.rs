//! Cases of the catalogue of configurations, `docs/configuration-cases.md`, that need a running
//! node and the commands of `lnetctl`. `crates/lnet/config/tests/catalogue.txt` lists where the other cases are.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::netns::{End, Lab};
use common::process::Process;
use common::site::Site;

/// A node with one interface, and its control socket.
struct Bed {
    site: Site,
    node: Process,
}

const CONFIG: &str = "net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n";

const USAGE: i32 = 234;

impl Bed {
    fn start() -> Self {
        let site = Site::new();
        site.write("node.yaml", CONFIG);
        let control = format!("--control={}", socket(&site).display());
        let node = Process::start(site.command("node", &["node", &control]));
        node.wait_for_output("ready");
        symlink(env!("CARGO_BIN_EXE_finerail"), site.path("lnetctl")).unwrap();
        Self { site, node }
    }

    /// Returns the exit code and both outputs of a command.
    fn lnetctl<S: AsRef<str>>(&self, words: &[S]) -> (i32, String) {
        let mut command = Command::new(self.site.path("lnetctl"));
        command.args(words.iter().map(AsRef::as_ref));
        command.env("FINERAIL_CONTROL", socket(&self.site));
        let output = command.output().unwrap();
        let [out, err] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code().unwrap_or(-1), out + &err)
    }

    /// Returns the output of a command, which must succeed.
    fn done(&self, command: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        let (code, printed) = self.lnetctl(&words);
        assert_eq!(code, 0, "{command}: {printed}");
        printed
    }

    /// Checks that a command is rejected, and that the node still works afterwards.
    fn refused(&self, words: &[&str]) {
        let (code, printed) = self.lnetctl(words);
        assert_eq!(code, USAGE, "{words:?}: {printed}");
        assert!(self.done("net show").contains("127.0.0.1@tcp"));
    }
}

fn socket(site: &Site) -> PathBuf {
    site.path("control.sock")
}

#[test]
fn t_p10_two_peers_that_were_added_are_listed() {
    let bed = Bed::start();
    bed.done("peer add --prim_nid 127.0.0.5@tcp --nid 127.0.0.[6-7]@tcp");
    bed.done("peer add --prim_nid 127.0.0.8@tcp");
    let expected = "peer list:\n-     nid: 127.0.0.5@tcp\n-     nid: 127.0.0.8@tcp\n";
    assert_eq!(bed.done("peer list"), expected);
}

/// Starts a node with two interfaces beside the node of the bed.
fn neighbour(site: &Site) -> Process {
    site.write(
        "neighbour.yaml",
        "net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.5@tcp\n  - nid: 127.0.0.6@tcp\n",
    );
    let node = Process::start(site.command("neighbour", &["node"]));
    node.wait_for_output("ready");
    node
}

/// The output for a discovered peer.
const NEIGHBOUR: &str = "\
peer:
-     primary nid: 127.0.0.5@tcp
      Multi-Rail: true
      peer ni:
      -     nid: 127.0.0.5@tcp
            state: NA
      -     nid: 127.0.0.6@tcp
            state: NA
";

#[test]
fn t_p09_a_locked_peer_goes_by_force_only() {
    let bed = Bed::start();
    let state = |nid: &str| {
        let shown = bed.done(&format!("peer show -v 4 --nid {nid}"));
        let line = shown
            .lines()
            .find(|line| line.contains("peer state: "))
            .unwrap();
        line.trim().to_owned()
    };
    bed.done("peer add --prim_nid 127.0.0.5@tcp --nid 127.0.0.6@tcp --lock_prim");
    assert_eq!(state("127.0.0.5@tcp"), "peer state: 1048585");
    bed.done("peer del --prim_nid 127.0.0.5@tcp");
    let left = bed.done("peer show");
    assert!(
        left.contains("127.0.0.5@tcp") && !left.contains("127.0.0.6@tcp"),
        "{left}"
    );
    bed.done("peer del --prim_nid 127.0.0.5@tcp --force");
    assert_eq!(bed.done("peer show"), "");
}

#[test]
fn t_p11_a_reachable_nid_is_merged_under_an_unreachable_locked_primary() {
    let bed = Bed::start();
    let _neighbour = neighbour(&bed.site);
    bed.done("discover 127.0.0.5@tcp");
    bed.done("peer del --prim_nid 127.0.0.5@tcp");
    bed.done("peer add --prim_nid 127.0.0.77@tcp --nid 127.0.0.5@tcp --lock_prim");
    let shown = bed.done("peer show");
    assert!(shown.contains("primary nid: 127.0.0.77@tcp"), "{shown}");
    // An administrator's list of NIDs is final. Without such a list, discovery adds the NIDs of the peer.
    bed.done("peer set --nid 127.0.0.77@tcp --state 1048577");
    bed.done("discover 127.0.0.6@tcp");
    let shown = bed.done("peer show");
    assert_eq!(shown.matches("primary nid").count(), 1, "{shown}");
    for nid in [
        "primary nid: 127.0.0.77@tcp",
        "127.0.0.5@tcp",
        "127.0.0.6@tcp",
    ] {
        assert!(shown.contains(nid), "{nid}: {shown}");
    }
}

/// The primary NID stays; the interfaces come in the order in which the peer names them (`sanity-lnet` 304).
#[test]
fn t_p12_discovery_keeps_a_locked_primary_nid() {
    let bed = Bed::start();
    let _neighbour = neighbour(&bed.site);
    bed.done("peer add --prim_nid 127.0.0.6@tcp --lock_prim");
    bed.done("peer set --nid 127.0.0.6@tcp --state 1048577");
    bed.done("discover 127.0.0.5@tcp");
    let shown = bed.done("peer show -v 4");
    assert_eq!(shown.matches("primary nid").count(), 1, "{shown}");
    assert!(shown.contains("primary nid: 127.0.0.6@tcp\n"), "{shown}");
    assert!(shown.contains("peer state: 1048849\n"), "{shown}");
    let expected = NEIGHBOUR.replace("primary nid: 127.0.0.5@tcp", "primary nid: 127.0.0.6@tcp");
    assert_eq!(bed.done("peer show"), expected);
}

#[test]
fn t_p13_two_pings_and_a_discovery_make_one_peer() {
    let bed = Bed::start();
    let _neighbour = neighbour(&bed.site);
    bed.done("ping 127.0.0.5@tcp");
    bed.done("ping 127.0.0.6@tcp");
    assert_eq!(bed.done("peer list").matches("nid: ").count(), 2);
    bed.done("discover 127.0.0.6@tcp");
    assert_eq!(bed.done("peer show"), NEIGHBOUR);
}

#[test]
fn t_p17_a_document_pings_and_discovers() {
    let bed = Bed::start();
    let _neighbour = neighbour(&bed.site);
    let document =
        "ping:\n  nids:\n    0: 127.0.0.5@tcp\ndiscover:\n  nids:\n    0: 127.0.0.5@tcp\n";
    let path = bed.site.write("asked.yaml", document);
    let (code, printed) = bed.lnetctl(&["import", "--exec", path.to_str().unwrap()]);
    assert_eq!(code, 0, "{printed}");
    assert!(
        printed.contains("ping:\n") && printed.contains("discover:\n"),
        "{printed}"
    );
    assert_eq!(bed.done("peer show"), NEIGHBOUR);
}

/// Release 2.17.0 does not read the LND's timeout in a backup; release 2.16 prints the timeout.
#[test]
fn a_backup_for_release_2_17_has_the_timeout_of_an_lnd_only_if_the_timeout_was_set() {
    let bed = Bed::start();
    let timeout = "                  timeout: ";
    assert!(
        bed.done("export").contains(timeout),
        "an export shows the timeout"
    );
    assert!(bed.done("export --backup").contains(timeout));
    bed.done("set profile lustre-2.17");
    assert!(!bed.done("export --backup").contains(timeout));
    bed.done("net set --net tcp --lnd-timeout 7");
    assert!(
        bed.done("export --backup")
            .contains("                  timeout: 7\n")
    );
}

#[test]
fn profile_and_discovery_are_set_shown_and_exported() {
    let bed = Bed::start();
    assert!(!bed.done("global show").contains("profile"));
    bed.done("set profile lustre");
    bed.done("set router_ping_timeout 7");
    bed.done("set discovery 0");
    for shown in [bed.done("global show"), bed.done("export --backup")] {
        for line in [
            "    profile: lustre\n",
            "    router_ping_timeout: 7\n",
            "    discovery: 0\n",
        ] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
    }
    // Like kernel nodes, such a node reaches itself by the same path as other nodes.
    bed.done("ping 127.0.0.1@tcp");
    let (code, printed) = bed.lnetctl(&["set", "profile", "solaris"]);
    assert_ne!(code, 0, "{printed}");
    bed.done("set profile design");
    assert!(!bed.done("global show").contains("profile"));
}

#[test]
fn t_p14_a_peer_stays_by_its_other_nid_when_a_local_network_goes() {
    let bed = Bed::start();
    bed.done("net add --nid 127.0.0.2@tcp1");
    bed.done("peer add --prim_nid 127.0.0.5@tcp --nid 127.0.0.6@tcp1");
    bed.done("net del --net tcp1");
    let shown = bed.done("peer show --nid 127.0.0.5@tcp");
    assert!(shown.contains("primary nid: 127.0.0.5@tcp"), "{shown}");
    assert_eq!(bed.lnetctl(&["ping", "127.0.0.1@tcp"]).0, 0);
}

#[test]
fn t_p18_a_host_is_pinged_by_its_name() {
    let bed = Bed::start();
    let answer = bed.done("ping localhost@tcp");
    assert!(answer.contains("- primary nid: 127.0.0.1@tcp"), "{answer}");
    assert_eq!(bed.done("ping localhost"), answer);
    let (code, printed) = bed.lnetctl(&["ping", "no such host@tcp"]);
    assert_eq!(code, USAGE, "{printed}");
}

#[test]
fn t_p19_debug_peer_prints_all_of_a_peer() {
    let bed = Bed::start();
    bed.done("peer add --prim_nid 127.0.0.5@tcp --nid 127.0.0.6@tcp");
    let shown = bed.done("debug peer -k 127.0.0.6@tcp");
    assert_eq!(shown, bed.done("peer show --nid 127.0.0.5@tcp -v 4"));
    assert!(
        shown.contains("      -     nid: 127.0.0.6@tcp\n"),
        "{shown}"
    );
}

#[test]
fn t_c06_a_second_interface_comes_and_goes() {
    let bed = Bed::start();
    let before = bed.done("net show -v 4");
    bed.done("net add --nid 127.0.0.2@tcp");
    let shown = bed.done("net show -v 4");
    let first = shown.find("nid: 127.0.0.1@tcp").unwrap();
    assert!(shown[first..].contains("nid: 127.0.0.2@tcp"), "{shown}");
    assert_eq!(shown.matches("net type: tcp").count(), 1);
    bed.done("net del --nid 127.0.0.2@tcp");
    assert_eq!(bed.done("net show -v 4"), before);
}

#[test]
fn t_c08_a_network_is_added_and_deleted_by_the_nid_of_its_interface() {
    let bed = Bed::start();
    bed.done("net add --nid 127.0.0.2@tcp2");
    let shown = bed.done("net show --net tcp2");
    assert!(shown.contains("nid: 127.0.0.2@tcp2"), "{shown}");
    bed.done("net del --nid 127.0.0.2@tcp2");
    assert_eq!(bed.lnetctl(&["net", "show", "--net", "tcp2"]).0, USAGE);
}

#[test]
fn t_c22_a_reset_of_faults_with_an_empty_argument_is_an_error() {
    let bed = Bed::start();
    for which in ["drop", "delay"] {
        bed.refused(&["fault", which, "reset", ""]);
        bed.done(&format!("fault {which} reset"));
    }
}

/// The interface has its name and its address in one namespace only.
#[test]
fn t_c23_a_network_that_is_added_in_a_namespace_has_the_address_of_that_namespace() {
    let Some(lab) = Lab::build(&["here", "there"]) else {
        return;
    };
    let ends = [("here", "10.23.0.1/24"), ("there", "10.23.0.2/24")];
    let [near, far] = ends.map(|(room, address)| End {
        room,
        interface: "rail0",
        address,
    });
    lab.connect([&near, &far]);
    let site = Site::new();
    site.write("node.yaml", CONFIG);
    let (config, control) = (site.path("node.yaml"), socket(&site));
    let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let options = [option("config", &config), option("control", &control)];
    let _node = lab.start("there", &["node", &options[0], &options[1]]);
    let node = option("node", &control);
    let added = ["ctl", &node, "net", "add", "--net", "tcp1", "--if", "rail0"];
    lab.run("there", &added).expect_code(0);
    // The command may come from any namespace: the namespace of the node counts.
    let shown = lab.run("here", &["ctl", &node, "net", "show", "--net", "tcp1"]);
    let shown = shown.expect_code(0).out;
    assert!(shown.contains("nid: 10.23.0.2@tcp1"), "{shown}");
}

#[test]
fn t_c25_a_fault_needs_where_from_where_to_and_one_pace() {
    let bed = Bed::start();
    let [from, to, rate, interval] = [["-s", "*"], ["-d", "*"], ["-r", "1"], ["-i", "1"]];
    let wrong: [&[[&str; 2]]; 4] = [
        &[to, rate],
        &[from, rate],
        &[from, to],
        &[from, to, rate, interval],
    ];
    for options in wrong {
        let words = [&["fault", "drop", "add"], options.as_flattened()].concat();
        bed.refused(&words);
    }
    assert_eq!(bed.done("fault drop show"), "");
    let words = [&["fault", "drop", "add"], [from, to, rate].as_flattened()].concat();
    assert_eq!(bed.lnetctl(&words).0, 0);
    bed.node.stop();
}

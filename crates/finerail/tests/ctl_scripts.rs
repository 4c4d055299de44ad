//! Commands that scripts and tools of administrators run, under the names `lctl` and `lnetctl`, on a running node.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::process::Command;

use common::process::{Ended, Process, run};
use common::site::{CLIENT, Site, yaml};

/// A node, and the binary under both names.
struct Bed {
    site: Site,
    node: Process,
}

impl Bed {
    fn new() -> Self {
        Self::with(&yaml(&[CLIENT], ""), &[])
    }

    fn with(document: &str, options: &[&str]) -> Self {
        let site = Site::new();
        site.write("node.yaml", document);
        for name in ["lnetctl", "lctl"] {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_finerail"), site.path(name)).unwrap();
        }
        let control = format!("--control={}", site.path("control.sock").display());
        let words = [&["node", control.as_str()], options].concat();
        let node = Process::start(site.command("node", &words));
        node.wait_for_output("ready: ");
        Self { site, node }
    }

    /// Runs a command line without quotes.
    fn run(&self, line: &str) -> Ended {
        let mut words = line.split(' ');
        let mut command = Command::new(self.site.path(words.next().unwrap()));
        command.args(words);
        command.env("FINERAIL_CONTROL", self.site.path("control.sock"));
        command.current_dir(self.site.path(""));
        run(command)
    }

    #[track_caller]
    fn ok(&self, line: &str) -> String {
        self.run(line).expect_code(0).out
    }
}

#[test]
fn t_k05_lctl_has_the_forms_of_networks_that_scripts_use() {
    let bed = Bed::new();
    assert_eq!(bed.ok("lctl net up"), "");
    assert_eq!(bed.ok("lctl network configure"), "");
    assert_eq!(bed.ok("lctl net -l"), "lo\ntcp\n");
    assert_eq!(bed.ok("lctl list_nids all"), "0@lo\n127.0.0.1@tcp\n");
    assert_eq!(bed.ok("lctl list_n"), "127.0.0.1@tcp\n");
    bed.ok("lnetctl discover 127.0.0.1@tcp");
    assert_eq!(
        bed.ok("lctl --net tcp interface_list"),
        "127.0.0.1: (127.0.0.1/255.0.0.0) npeer 1 nroute 0\n"
    );
    assert_eq!(bed.ok("lctl net down"), "");
    assert_eq!(bed.ok("lctl list_nids"), "");
    assert_eq!(bed.ok("lctl net up"), "");
    assert_eq!(bed.ok("lctl list_nids"), "127.0.0.1@tcp\n");
    bed.run("lctl network tcpx").expect_code(22);
    bed.node.stop().expect_code(0);
}

#[test]
fn t_k07_routes_are_added_and_removed_by_lctl() {
    let bed = Bed::new();
    bed.ok("lctl --net tcp5 add_route 127.0.0.2@tcp");
    bed.ok("lctl --net tcp6 add_route 127.0.0.2@tcp 2 3");
    let shown = bed.ok("lnetctl route show -v");
    assert!(
        shown.contains("net: tcp5\n      gateway: 127.0.0.2@tcp\n      hop: -1\n"),
        "{shown}"
    );
    assert!(shown.contains("hop: 2\n      priority: 3\n"), "{shown}");
    bed.ok("lctl --net tcp5 del_route 127.0.0.2@tcp");
    bed.run("lctl --net tcp5 del_route 127.0.0.2@tcp")
        .expect_code(234);
    bed.run("lctl add_route 127.0.0.2@tcp")
        .expect_code(22)
        .expect_error("add_route needs a network");
}

/// The kernel tool remembers the network of an earlier line.
#[test]
fn t_k09_a_network_chosen_in_a_script_holds_for_the_lines_behind_it() {
    let bed = Bed::new();
    bed.site.write(
        "script",
        "network tcp\nconn_list\nnetwork tcp7\nadd_route 127.0.0.2@tcp\n",
    );
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "exec ./lctl < script"])
        .current_dir(bed.site.path(""));
    shell.env("FINERAIL_CONTROL", bed.site.path("control.sock"));
    assert_eq!(run(shell).expect_code(0).out, "<no connections>\n");
    assert!(bed.ok("lnetctl route show").contains("net: tcp7\n"));
}

#[test]
fn t_k06_faults_have_both_spellings() {
    let bed = Bed::new();
    bed.ok("lctl net_drop add -s 127.0.0.1@tcp -d 127.0.0.9@tcp -r 1");
    bed.ok("lctl net_delay add -s 127.0.0.1@tcp -d 127.0.0.9@tcp -r 1 -l 1");
    let drops = bed.ok("lctl net_drop_list");
    assert!(
        drops.contains("127.0.0.1@tcp->127.0.0.9@tcp (1/1 | 0)"),
        "{drops}"
    );
    assert_eq!(bed.ok("lctl net_drop list"), drops);
    assert!(bed.ok("lctl net_delay show").contains("latency 1"));
    bed.ok("lctl net_drop del -a");
    assert!(!bed.ok("lctl net_drop_list").contains("->"));
}

#[test]
fn t_k10_parameters_go_on_behind_one_that_is_unknown() {
    let bed = Bed::new();
    let ended = bed.run("lctl get_param -n version nonsense health_check debug");
    let ended = ended
        .expect_code(2)
        .expect_error("'nonsense': No such file");
    let expected = format!("{}\nhealthy\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(ended.out, expected);
    assert!(ended.err.contains("no debug mask"), "{ended:?}");
    let mut lines = ended.err.lines();
    assert!(lines.all(|line| line.starts_with("error: ")), "{ended:?}");
    let table = bed.ok("lctl get_param -n cpu_partition_table");
    assert!(table.starts_with("0\t: 0"), "{table}");
    assert_eq!(table.lines().count(), 1, "{table}");
    // Of the next release: bulk connections have a port of their own, which is the same here.
    assert_eq!(
        bed.ok("lctl get_param accept_port*"),
        format!("accept_port={0}\naccept_port_bulk={0}\n", bed.site.port)
    );
    bed.run("lctl set_param debug=+net")
        .expect_code(95)
        .expect_error("no debug mask");
    bed.run("lctl set_param -n nonsense=1")
        .expect_code(2)
        .expect_error("set_param 'nonsense': No such file");
}

#[test]
fn t_k08_what_a_node_in_user_space_lacks_is_refused_with_the_reason() {
    let bed = Bed::new();
    assert_eq!(bed.ok("lctl dl"), "");
    for word in ["dk", "debug_kernel"] {
        bed.run(&format!("lctl {word} /tmp/nothing"))
            .expect_code(95)
            .expect_error("the node has no debug buffer");
    }
    let listed = bed.ok("lctl --list-commands");
    for command in ["network", "list_nids", "net_drop_add", "set_param"] {
        assert!(
            listed.split_whitespace().any(|word| word == command),
            "{listed}"
        );
    }
}

/// `sanity-lnet` 230 and 241, and the modules that write what `route show` prints.
#[test]
fn t_k11_values_that_kernels_take_are_taken() {
    let bed = Bed::new();
    bed.ok("lnetctl route add --net tcp5 --gateway 127.0.0.2@tcp --hop -1 --priority 0");
    let exported = bed.ok("lnetctl route show -v");
    assert!(exported.contains("hop: -1\n"), "{exported}");
    bed.run("lnetctl route add --net tcp6 --gateway 127.0.0.2@tcp --hop 0")
        .expect_code(234);
    bed.ok("lnetctl net set --all --conns-per-peer -1");
    assert_eq!(
        bed.ok("lnetctl global show -v"),
        bed.ok("lnetctl global show")
    );
    assert_eq!(
        bed.ok("lnetctl global show -v 4"),
        bed.ok("lnetctl global show")
    );
    let help = bed.ok("lnetctl net set -h");
    assert_eq!(
        help.lines()
            .filter(|line| line.contains("--lnd-timeout:"))
            .count(),
        1,
        "{help}"
    );
    bed.run("lnetctl net set --all").expect_code(234);
    // What is not taken is answered as by kernels, and with the range.
    for value in ["-1", "99999999999", "abc"] {
        bed.run(&format!("lnetctl set retry_count {value}"))
            .expect_code(195)
            .expect_error("retry_count is an integer from 0 to 2147483647");
    }
    bed.run("lnetctl set health_sensitivity 1001")
        .expect_code(195)
        .expect_error("health_sensitivity is an integer from 0 to 1000");
}

#[test]
fn t_k12_a_node_whose_document_has_no_network_says_that_nothing_was_configured() {
    let bed = Bed::with("", &[]);
    for line in ["lnetctl lnet configure --all", "lctl network up"] {
        let ended = bed.run(line);
        assert_eq!(ended.code(), Some(254), "{line}: {ended:?}");
        assert!(ended.err.contains("names no network"), "{line}: {ended:?}");
    }
    bed.ok("lnetctl lnet configure");
}

/// `which_nid` of an own NID is that NID, whichever stands first (`sanity-lnet` 213).
#[test]
fn t_k15_of_own_nids_the_first_one_is_the_nearest() {
    let second = "  - nid: 127.0.0.2@tcp\n";
    let bed = Bed::with(&yaml(&[CLIENT], second), &[]);
    let [one, two] = ["127.0.0.1@tcp", "127.0.0.2@tcp"];
    assert_eq!(
        bed.ok(&format!("lctl which_nid {one} {two}")),
        format!("{one}\n")
    );
    assert_eq!(
        bed.ok(&format!("lctl which_nid {two} {one}")),
        format!("{two}\n")
    );
    assert_eq!(
        bed.ok(&format!("lctl which_nid 127.0.0.9@tcp {two}")),
        format!("{two}\n")
    );
}

/// `sanity-lnet` 50 and 403 of the next release.
#[test]
fn t_k13_the_profile_of_the_next_release_shows_routing_and_rules_as_that_release_does() {
    let bed = Bed::with(&yaml(&[CLIENT], ""), &["--profile", "lustre-2.17"]);
    assert_eq!(
        bed.ok("lnetctl routing show"),
        "routing:\n    - enable: 0\n"
    );
    bed.ok("lnetctl udsp add --src tcp --priority 1");
    let rules = "udsp:\n    - idx: 0\n      src: tcp\n      action:\n          priority: 1\n";
    assert_eq!(bed.ok("lnetctl udsp show"), rules);
    // Of a former router too, which has buffers until it has stopped.
    bed.ok("lnetctl set routing 1");
    bed.ok("lnetctl set routing 0");
    assert!(bed.ok("lnetctl routing show").contains("    - enable: 0\n"));
    // Latencies, of pings of the node itself, too.
    bed.ok("lnetctl ping 127.0.0.1@tcp");
    let shown = bed.ok("lnetctl net show -v");
    assert!(shown.contains("get_rtt_samples: 1\n"), "{shown}");
    let old = Bed::with(&yaml(&[CLIENT], ""), &["--profile", "lustre"]);
    assert_eq!(old.ok("lnetctl routing show"), "");
    assert!(!old.ok("lnetctl net show -v").contains("get_rtt"));
    old.ok("lnetctl udsp add --src tcp --priority 1");
    assert!(
        old.ok("lnetctl udsp show")
            .contains("      dst: NA\n      rte: NA\n")
    );
}

/// `sanity-lnet` 170 of the next release.
#[test]
fn t_k14_in_the_profile_of_the_next_release_the_first_interface_has_the_tunables_of_its_network() {
    let second = "  - nid: 127.0.0.2@tcp\n    tunables:\n      peer_timeout: 181\n";
    let of = |profile: &str| {
        let bed = Bed::with("", &["--profile", profile]);
        bed.site.write("two.yaml", yaml(&[CLIENT], second));
        let ended = bed.run("lnetctl import two.yaml").expect_code(0);
        let backup = bed.ok("lnetctl export --backup");
        let timeouts = backup.lines().filter(|line| line.contains("peer_timeout"));
        let timeouts = timeouts
            .map(|line| line.trim().to_owned())
            .collect::<Vec<_>>();
        (timeouts.join(" "), ended.err)
    };
    let (timeouts, warning) = of("lustre-2.17");
    assert_eq!(timeouts, "peer_timeout: 180 peer_timeout: 180");
    let expected = "tcp: the tunables of the first interface hold for 127.0.0.2@tcp, too";
    assert!(warning.contains(expected), "{warning}");
    // So from the start, too.
    let bed = Bed::with(&yaml(&[CLIENT], second), &["--profile", "lustre-2.17"]);
    let backup = bed.ok("lnetctl export --backup");
    assert_eq!(backup.matches("peer_timeout: 180").count(), 2, "{backup}");
    let (timeouts, warning) = of("lustre");
    assert_eq!(
        (timeouts.as_str(), warning.as_str()),
        ("peer_timeout: 180 peer_timeout: 181", "")
    );
}

/// What tools run one after another, by the commands alone: each line with its exit code.
/// A command line, how it exits, and a part of what it prints; nothing if the part is empty.
type Line = (&'static str, i32, &'static str);

/// The commands of tools.
const TOOLS: [(&str, &[Line]); 5] = [
    (
        "a collector of support data",
        &[
            ("lctl device_list", 0, ""),
            ("lctl debug_kernel", 95, ""),
            ("lctl list_nids", 0, "127.0.0.1@tcp\n"),
            ("lctl route_list", 0, ""),
            (
                "lnetctl net show -v",
                0,
                "nid: 127.0.0.1@tcp\n            status: up\n            interfaces:\n                  0: lo\n",
            ),
            (
                "lctl get_param version health_check debug",
                2,
                "\nhealth_check=healthy\n",
            ),
            (
                "lctl get_param peers routes routers nis",
                0,
                "127.0.0.1@tcp                up ",
            ),
        ],
    ),
    (
        "a module for routes",
        &[
            ("lnetctl route show", 0, ""),
            (
                "lnetctl route add --net tcp5 --gateway 127.0.0.2@tcp --hop -1 --priority 0",
                0,
                "",
            ),
            (
                "lnetctl route show --net tcp5 --verbose",
                0,
                "net: tcp5\n      gateway: 127.0.0.2@tcp\n      hop: -1\n      priority: 0\n",
            ),
            (
                "lctl route_list",
                0,
                "tcp5 hops 4294967295 gw                    127.0.0.2@tcp ",
            ),
            (
                "lnetctl route del --net tcp5 --gateway 127.0.0.2@tcp",
                0,
                "",
            ),
            ("lnetctl route show", 0, ""),
        ],
    ),
    (
        "the start scripts of clouds and of configuration management",
        &[
            ("lnetctl lnet configure", 0, ""),
            ("lctl network up", 0, ""),
            (
                "lnetctl net show --net tcp",
                0,
                "nid: 127.0.0.1@tcp\n            status: up\n",
            ),
            ("lnetctl set discovery 0", 0, ""),
            ("lnetctl global show", 0, "    discovery: 0\n"),
            ("lnetctl import node.yaml", 0, ""),
            ("lnetctl export --backup", 0, "net type: tcp\n"),
        ],
    ),
    (
        "an init script",
        &[
            ("lctl network up", 0, ""),
            ("lctl list_nids", 0, "127.0.0.1@tcp\n"),
            ("lctl network down", 0, ""),
            ("lctl list_nids", 0, ""),
            ("lnetctl lnet unconfigure", 0, ""),
            ("lctl network up", 0, ""),
            ("lctl list_nids", 0, "127.0.0.1@tcp\n"),
        ],
    ),
    (
        "a collector of counters",
        &[
            ("lnetctl peer add --prim_nid 127.0.0.2@tcp", 0, ""),
            (
                "lctl get_param -n peers nis buffers",
                0,
                "pages count credits     min\n",
            ),
            ("lnetctl stats show", 0, "statistics:\n    msgs_alloc: "),
            ("lnetctl net show -v 3", 0, "health value: 1000\n"),
            ("lnetctl peer show -v 3", 0, "primary nid: 127.0.0.2@tcp\n"),
        ],
    ),
];

#[test]
fn t_k16_the_commands_of_tools_that_people_have_are_carried_out() {
    for (tool, lines) in TOOLS {
        let bed = Bed::new();
        for (line, code, part) in lines {
            let ended = bed.run(line);
            let says = match part.is_empty() {
                true => ended.out.is_empty(),
                false => ended.out.contains(part),
            };
            assert!(
                ended.code() == Some(*code) && says,
                "{tool}: {line}: {ended:#?}"
            );
        }
    }
    let stats = Bed::new().ok("lctl get_param -n stats");
    assert_eq!(stats.split_whitespace().count(), 11, "{stats}");
}

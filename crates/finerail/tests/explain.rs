//! `finerail explain`: its expected pages, and its messages about bad input.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Returns the path of one example of a theme of user reports.
fn theme(name: &str) -> String {
    let themes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lnet/explain/tests/themes");
    themes.join(name).join("node.yaml").display().to_string()
}

fn explain(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_finerail"));
    command.arg("explain").args(arguments).output().unwrap()
}

/// After an intended change: `TRYCMD=overwrite cargo test -p finerail --test explain`, and check the difference.
#[test]
fn pages_are_those_written_down() {
    let cases = trycmd::TestCases::new();
    cases.case("tests/explain/*.trycmd").run();
}

#[test]
fn no_line_of_a_page_is_longer_than_a_terminal() {
    let config = theme("gateway-as-a-peer");
    let page = explain(&["--config", &config, "--to", "10.1.0.7@tcp1", "-vv"]).stdout;
    let page = String::from_utf8(page).unwrap();
    let longest = page.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(100), "{longest:?}");
    assert!(!page.contains('\x1b'), "colours without a terminal");
}

#[test]
fn json_holds_what_the_page_tells() {
    let config = theme("dead-remote-rail");
    let ended = explain(&[
        "--config",
        &config,
        "--to",
        "10.0.1.7@tcp",
        "--json",
        "--fail",
        "eth0",
    ]);
    assert_eq!(ended.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let explanation = &report["explanation"];
    assert_eq!(explanation["answer"]["path"]["source"], "10.0.1.1@tcp");
    assert_eq!(explanation["findings"][0]["code"], "rail-mismatch");
    assert_eq!(explanation["classification"]["case"], "B1C");
    let after = &report["difference"]["after"]["answer"]["path"];
    assert_eq!(after["interface"], "eth1");
}

#[test]
fn nothing_is_assumed_of_a_state_that_a_node_sent() {
    let text = fs::read_to_string(theme("dead-remote-rail")).unwrap();
    let source = lnet_explain::Source {
        name: "node",
        text: &text,
    };
    let node = lnet_explain::import(&[source], &lnet_explain::Settings::default())
        .unwrap()
        .node;
    let sent = lnet_core::state_json::to_json(node.state, node.now).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("state.json");
    fs::write(&file, sent).unwrap();
    let ended = explain(&[
        "--state",
        file.to_str().unwrap(),
        "--to",
        "10.0.1.7@tcp",
        "-vv",
    ]);
    let page = String::from_utf8(ended.stdout).unwrap();
    assert!(page.starts_with("10.0.1.1@tcp → 10.0.2.7@tcp\n"), "{page}");
    assert!(!page.contains("Assumed"), "{page}");
}

#[test]
fn bad_input_ends_with_2_and_says_where() {
    let config = theme("dead-remote-rail");
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (empty, junk) = (file("empty", b""), file("junk", b"\xff\x00\xfe"));
    let to = "--to 1.2.3.4@tcp";
    let known = format!("--config {config} {to}");
    let cases = [
        (format!("--config {empty} {to}"), "no local NI"),
        (format!("--config {junk} {to}"), "cannot read"),
        (format!("--config /dev/zero {to}"), "no text: byte 1 is 0"),
        (
            format!("--state {config} {to}"),
            "not the state of a node: expected",
        ),
        (format!("{known} --sends 0"), "--sends"),
        (
            format!("{known} --add-route tcp9=1.1.1.1@tcp8"),
            "1.1.1.1@tcp8",
        ),
        (
            format!("--config /missing.yaml {to}"),
            "cannot read /missing.yaml",
        ),
        (format!("--config Cargo.toml {to}"), "Cargo.toml:2:1"),
        (format!("--config {config} --to 1.2.3.4"), "--to"),
        (format!("{known} --fail eth9"), "no interface eth9"),
        (format!("{known} --del-rule 3"), "no rule 3"),
        (
            format!("{known} --set mtu=9"),
            "is not health_sensitivity=N",
        ),
        (format!("{known} --interfaces Cargo.toml"), "ip -j addr"),
    ];
    for (arguments, expected) in cases {
        let words: Vec<&str> = arguments.split(' ').collect();
        let ended = explain(&words);
        let complaint = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {complaint}");
        assert!(complaint.contains(expected), "{arguments:?}: {complaint}");
    }
}

/// Writes files into a new directory, and returns a function that gives their paths.
fn written(files: &[(&str, &str)]) -> (tempfile::TempDir, impl Fn(&str) -> String + use<>) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let root = directory.path().to_owned();
    (directory, move |name: &str| {
        root.join(name).to_str().unwrap().to_owned()
    })
}

/// Returns the page about this question. There must be a path.
fn page(arguments: &[&str]) -> String {
    page_with(0, arguments)
}

fn page_with(code: i32, arguments: &[&str]) -> String {
    let ended = explain(arguments);
    let page = String::from_utf8(ended.stdout).unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(code), "{page}{errors}");
    page
}

fn of_nid(nid: &str, interface: &str) -> String {
    format!(
        "net:\n- net type: tcp\n  local NI(s):\n  - nid: {nid}@tcp\n    interfaces: {{0: {interface}}}\n"
    )
}

fn addresses(interfaces: &[(&str, &str, u8)]) -> String {
    let each = interfaces.iter().map(|(name, address, prefix)| {
        format!(
            r#"{{"ifname":"{name}","flags":["UP","LOWER_UP"],"addr_info":[{{"local":"{address}","prefixlen":{prefix}}}]}}"#
        )
    });
    format!("[{}]", each.collect::<Vec<_>>().join(","))
}

#[test]
fn the_destination_is_compared_with_all_interfaces() {
    let bridge = addresses(&[("eth0", "10.240.0.7", 16), ("cbr0", "10.244.3.1", 24)]);
    let short = addresses(&[("eth0", "10.1.1.75", 24)]);
    let (_directory, at) = written(&[
        ("bridge.yaml", &of_nid("10.244.3.1", "cbr0")),
        ("bridge.json", &bridge),
        ("right.yaml", &of_nid("10.240.0.7", "eth0")),
        ("short.yaml", &of_nid("10.1.1.75", "eth0")),
        ("short.json", &short),
        (
            "lo.yaml",
            "net: [{net type: tcp, local NI(s): [{interfaces: {0: lo}}]}]\n",
        ),
    ]);
    let found = page(&[
        "--config",
        &at("bridge.yaml"),
        "--interfaces",
        &at("bridge.json"),
        "--to",
        "10.240.9.4@tcp",
    ]);
    for code in ["virtual-interface", "wrong-interface"] {
        assert!(found.contains(code), "{code}: {found}");
    }
    assert!(found.contains("put the NI of tcp on eth0"), "{found}");
    let right = page(&[
        "--config",
        &at("right.yaml"),
        "--interfaces",
        &at("bridge.json"),
        "--to",
        "10.240.9.4@tcp",
    ]);
    assert!(!right.contains("Findings at the ends"), "{right}");
    let short = page(&[
        "--config",
        &at("short.yaml"),
        "--interfaces",
        &at("short.json"),
        "--to",
        "10.1.0.1@tcp",
    ]);
    assert!(short.contains("outside-subnet"), "{short}");
    let lo = page(&["--config", &at("lo.yaml"), "--to", "10.1.0.1@tcp"]);
    assert!(lo.contains("loopback-interface"), "{lo}");
    let json = page(&[
        "--config",
        &at("bridge.yaml"),
        "--to",
        "10.240.9.4@tcp",
        "--json",
    ]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["places"][0]["code"], "virtual-interface");
}

#[test]
fn a_nid_that_the_peer_lacks_is_a_finding_and_no_asymmetry() {
    let (_directory, at) = written(&[
        ("client.yaml", &of_nid("10.240.0.7", "eth0")),
        ("mgs.yaml", &of_nid("10.240.9.4", "eth0")),
    ]);
    let ask = |code: i32, to: &str| {
        let files = [
            "--config",
            &at("client.yaml"),
            "--peer-config",
            &at("mgs.yaml"),
        ];
        page_with(code, &[&files[..], &["--to", to]].concat())
    };
    let wrong = ask(1, "10.240.9.99@tcp");
    assert!(wrong.contains("peer-missing (10.240.9.99@tcp)"), "{wrong}");
    assert!(!wrong.contains("Asymmetric"), "{wrong}");
    let right = ask(0, "10.240.9.4@tcp");
    assert!(!right.contains("peer-missing"), "{right}");
}

#[test]
fn a_nid_of_two_nodes_is_a_finding() {
    let two = "net:\n- net type: tcp\n  local NI(s):\n  - nid: 172.17.0.1@tcp\n    interfaces: {0: docker0}\n  \
               - nid: 10.33.1.2@tcp\n    interfaces: {0: eth0}\n";
    let (_directory, at) = written(&[
        ("client.yaml", &of_nid("172.17.0.1", "docker0")),
        ("mgs.yaml", two),
    ]);
    let ask = |to: &str| {
        explain(&[
            "--config",
            &at("client.yaml"),
            "--peer-config",
            &at("mgs.yaml"),
            "--to",
            to,
        ])
    };
    let ended = ask("172.17.0.1@tcp");
    let found = String::from_utf8(ended.stdout).unwrap();
    assert!(found.contains("nid-claimed-twice"), "{found}");
}

#[test]
fn options_of_the_module_are_explained_too() {
    let (_directory, at) = written(&[
        (
            "node.conf",
            "options lnet accept_port=6988 networks=tcp(eth0)\n",
        ),
        ("node.json", &addresses(&[("eth0", "10.9.1.7", 24)])),
        ("mgs.conf", "options lnet networks=tcp(eth0)\n"),
        ("bad.conf", "options lnet networks=\"tcp(eth0\n"),
    ]);
    let arguments = [
        "--config",
        &at("node.conf"),
        "--interfaces",
        &at("node.json"),
        "--to",
        "10.9.1.4@tcp",
    ];
    let found = page(&arguments);
    assert!(
        found.starts_with("10.9.1.7@tcp (eth0) → 10.9.1.4@tcp"),
        "{found}"
    );
    let warned = String::from_utf8(explain(&arguments).stderr).unwrap();
    assert!(
        warned.contains("accept_port=6988: an option of the module only")
            && !warned.contains("keep it in"),
        "{warned}"
    );
    let peer = at("mgs.conf");
    let with_peer = page_with(1, &[&arguments[..], &["--peer-config", &peer]].concat());
    assert!(with_peer.contains("port-differs"), "{with_peer}");
    assert!(!with_peer.contains("Asymmetric"), "{with_peer}");
    let bad = explain(&["--config", &at("bad.conf"), "--to", "10.9.1.4@tcp"]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&bad.stderr).contains("bad.conf:1:"));
}

/// The reproductions of administrators' troubles.
#[test]
fn trials_that_were_silent_are_findings() {
    let Some(root) = testkit::shared_data("trials/admin") else {
        return;
    };
    let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
    for (files, to, code) in [
        (
            &["c03-bridge-nid/client.yaml", "c03-bridge-nid/client.json"][..],
            "10.240.9.4@tcp",
            "wrong-interface",
        ),
        (
            &["c03-bridge-nid/client.yaml", "c03-bridge-nid/client.json"],
            "10.240.9.4@tcp",
            "virtual-interface",
        ),
        (
            &["c03-bridge-nid/client.yaml", "", "c03-bridge-nid/mgs.yaml"],
            "10.240.9.99@tcp",
            "peer-missing",
        ),
        (
            &["site200/cn055.yaml", "site200/cn055.json"],
            "10.1.0.1@tcp",
            "virtual-interface",
        ),
        (
            &["site200/cn075.yaml", "site200/cn075.json"],
            "10.1.0.1@tcp",
            "outside-subnet",
        ),
        (
            &["cases/c08/lnet.yaml", "cases/c08/ip-addr.json"],
            "10.9.1.5@tcp",
            "loopback-interface",
        ),
        (
            &["cases/c08/lnet.conf.modprobe", "cases/c08/ip-addr.json"],
            "10.9.1.5@tcp",
            "loopback-interface",
        ),
        (
            &["cases/c26/client.yaml", "", "cases/c26/mgs.yaml"],
            "172.17.0.1@tcp",
            "nid-claimed-twice",
        ),
        (
            &["port/gkenode.conf", "port/gkenode.json", "port/mgs.conf"],
            "10.240.9.4@tcp",
            "port-differs",
        ),
    ] {
        let options = ["--config", "--interfaces", "--peer-config"]
            .into_iter()
            .zip(files);
        let given = options.filter(|(_, file)| !file.is_empty());
        let words = given.flat_map(|(option, file)| [option.to_owned(), at(file)]);
        let words: Vec<String> = words.chain(["--to".to_owned(), to.to_owned()]).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let found = String::from_utf8(explain(&words).stdout).unwrap();
        assert!(found.contains(code), "{code}: {words:?}: {found}");
    }
}

#[test]
fn path_that_an_error_blocks_is_no_success() {
    let Some(root) = testkit::shared_data("trials/admin") else {
        return;
    };
    let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let down = "reach-ignores-down-interface/a";
    for (own, interfaces, peer, to, code) in [
        (down, true, "", "10.1.0.100@tcp", 1),
        (down, false, "", "10.1.0.100@tcp", 0),
        ("site200/cn050", true, "", "10.1.0.1@tcp", 1),
        ("site200/cn051", true, "", "10.1.0.1@tcp", 0),
        (
            "c03-bridge-nid/client",
            false,
            "c03-bridge-nid/mgs.yaml",
            "10.240.9.99@tcp",
            1,
        ),
    ] {
        let mut words = vec!["--config".to_owned(), at(&format!("{own}.yaml"))];
        if interfaces {
            words.extend(["--interfaces".to_owned(), at(&format!("{own}.json"))]);
        }
        if !peer.is_empty() {
            words.extend(["--peer-config".to_owned(), at(peer)]);
        }
        words.extend(["--to".to_owned(), to.to_owned()]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ended = explain(&words);
        let out = String::from_utf8_lossy(&ended.stdout);
        assert_eq!(ended.status.code(), Some(code), "{own}: {out}");
    }
    let nameless = explain(&["--config", &at("missing.yaml"), "--to", "10.0.0.9@tcp"]);
    let out = String::from_utf8_lossy(&nameless.stdout);
    assert!(
        out.contains("0.0.0.1@tcp stands for the NID of nosuch0"),
        "{out}"
    );
}

//! The command line: help texts, exit codes, and messages about wrong usage, bad input and a machine that does not
//! permit a command.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use common::process::{Ended, Process, run};
use common::site::{CLIENT, Site, yaml};
use common::{can_run, eventually, finerail, finerail_by, is_root};

/// Exit code for wrong usage or bad input.
const BAD_INPUT: i32 = 2;
/// Exit code if the answer to the question of a command is no.
const NOT_SO: i32 = 1;

/// The directory with the expected `--help` of each command.
const HELP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/help");

/// After an intended change: `TRYCMD=overwrite cargo test -p finerail --test cli`, and check the difference.
#[test]
fn help_texts_and_usage_errors_are_those_written_down() {
    let cases = trycmd::TestCases::new();
    cases.env("COLUMNS", "100");
    cases.case(format!("{HELP}/*.trycmd")).run();
}

/// The file of a new command begins with the line `$ finerail COMMAND --help`. The command above writes the rest.
#[test]
fn every_command_has_its_help_written_down() {
    let mut left = vec![Vec::<String>::new()];
    while let Some(words) = left.pop() {
        let help = run(finerail(words.iter().map(String::as_str).chain(["--help"])));
        let help = help.expect_code(0).out;
        let name = if words.is_empty() {
            "finerail".to_owned()
        } else {
            words.join("-")
        };
        let file = Path::new(HELP).join(format!("{name}.trycmd"));
        assert!(file.exists(), "{} is missing", file.display());
        assert_eq!(wrapped_twice(&help), None, "{name}");
        let children = subcommands(&help)
            .into_iter()
            .filter(|child| child != "help");
        left.extend(children.map(|child| [words.clone(), vec![child]].concat()));
    }
}

/// Returns the place where a paragraph is wrapped twice, by hand and by clap: a short line inside. A paragraph is
/// one line of the source, which clap wraps for the terminal.
fn wrapped_twice(help: &str) -> Option<String> {
    let lines: Vec<&str> = help.lines().collect();
    let is_prose = |line: &&str| !line.is_empty() && !line.starts_with(' ');
    let is_broken = |three: &&[&str]| three[0].len() > 78 && three[1].len() < 28;
    let mut threes = lines.windows(3).filter(|three| three.iter().all(is_prose));
    threes.find(is_broken).map(|three| three.join("\n"))
}

fn subcommands(help: &str) -> Vec<String> {
    let list = help.split_once("Commands:\n").map_or("", |(_, list)| list);
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    // Continued descriptions are indented further.
    let names = lines.filter(|line| !line.starts_with("   "));
    names
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

/// Returns the result of `finerail node` with a configuration that must be rejected.
fn refused(config: impl AsRef<[u8]>) -> Ended {
    let site = Site::new();
    site.write("node.yaml", config);
    run(site.command("node", &["node"])).expect_code(BAD_INPUT)
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_the_keys_there_are() {
    let config = "net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n    tunable: 1\n";
    let ended = refused(config).expect_error("invalid key 'tunable'");
    ended
        .expect_error("node.yaml:5:5")
        .expect_error("keys here are: nid, interfaces, tunables");
}

#[test]
fn a_bad_nid_is_named_with_its_place_and_what_is_wrong() {
    let ended = refused(yaml(&["127.0.0.300@tcp"], "")).expect_error("node.yaml:4:10");
    ended.expect_error("'127.0.0.300' is not an address on a tcp network");
}

#[test]
fn a_duplicate_key_is_named_with_its_place() {
    let ended = refused("net:\n- net type: tcp\n  net type: tcp1\n");
    ended
        .expect_error("'net type' is given twice")
        .expect_error("node.yaml:3:3");
}

#[test]
fn a_tab_is_named_with_its_place() {
    refused("net:\n\t- net type: tcp\n")
        .expect_error("node.yaml:2:")
        .expect_error("tabs");
}

#[test]
fn a_configuration_with_routes_and_no_network_is_refused_with_what_it_lacks() {
    refused("route:\n- net: tcp1\n  gateway: 127.0.0.2@tcp\n")
        .expect_error("node.yaml")
        .expect_error("no network");
}

#[test]
fn a_service_without_a_network_is_refused_with_what_its_configuration_lacks() {
    let site = Site::new();
    site.write("node.yaml", "");
    let mut serve = site.command("node", &["store", "serve"]);
    serve.arg(site.path(""));
    let ended = run(serve).expect_code(BAD_INPUT);
    ended.expect_error("no network");
}

#[test]
fn a_binary_file_is_no_configuration() {
    refused([0x7F, b'E', b'L', b'F', 0xFF, 0xFE, 0])
        .expect_error("node.yaml")
        .expect_error("UTF-8");
}

#[test]
fn a_directory_is_no_configuration() {
    let site = Site::new();
    fs::create_dir(site.path("node.yaml")).unwrap();
    let ended = run(site.command("node", &["node"])).expect_code(BAD_INPUT);
    ended.expect_error("node.yaml: Is a directory");
}

#[test]
fn a_missing_configuration_is_named() {
    let site = Site::new();
    let ended = run(site.command("node", &["node"])).expect_code(BAD_INPUT);
    ended.expect_error("node.yaml: No such file");
}

#[test]
fn an_address_of_another_machine_is_refused_with_where_to_look() {
    // TEST-NET-3 (RFC 5737) is assigned to no machine.
    let ended = refused(yaml(&["203.0.113.77@tcp"], ""));
    ended
        .expect_error("203.0.113.77 is not an address of this machine")
        .expect_error("ip address");
}

#[test]
fn a_network_that_needs_other_hardware_is_refused() {
    let ended = refused(yaml(&["5@gni"], ""));
    ended.expect_error("gni is neither a tcp nor an o2ib network");
}

#[test]
fn a_congestion_control_that_does_not_exist_is_refused_with_where_to_look() {
    let site = Site::new();
    site.write("node.yaml", yaml(&[CLIENT], ""));
    let mut command = site.command("node", &["node"]);
    command.args(["--congestion", "nonesuch"]);
    let ended = run(command).expect_code(BAD_INPUT);
    ended
        .expect_error("'nonesuch' cannot be used")
        .expect_error("tcp_allowed_congestion_control");
}

#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let site = Site::new();
    site.write("node.yaml", yaml(&[CLIENT], ""));
    let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, site.port)).unwrap();
    let ended = run(site.command("node", &["node"])).expect_code(BAD_INPUT);
    ended
        .expect_error(&format!("port {} on 127.0.0.1 is in use", site.port))
        .expect_error("ss -ltnp");
}

/// Runs the program without privileges. If that is not possible, prints the reason and returns `None`.
fn unprivileged(args: &[&str]) -> Option<Ended> {
    const NOBODY: [&str; 6] = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
        "--",
    ];
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    if first.is_ok_and(|first| first.trim().parse().is_ok_and(|port: u16| port <= 988)) {
        eprintln!("skipped: port 988 takes no privilege here");
        return None;
    }
    if !is_root() {
        return Some(run(finerail(args)));
    }
    let binary = env!("CARGO_BIN_EXE_finerail");
    if !can_run(NOBODY[0], &[&NOBODY[1..], &[binary, "--version"]].concat()) {
        eprintln!("skipped: 'setpriv' (Debian: util-linux) cannot run the program as nobody");
        return None;
    }
    Some(run(finerail_by(&NOBODY, args)))
}

/// Returns a configuration that every user can read.
fn public_config() -> (Site, PathBuf) {
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::new();
    let config = site.write("node.yaml", yaml(&[CLIENT], ""));
    fs::set_permissions(site.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    (site, config)
}

#[test]
fn a_missing_privilege_for_the_port_is_named_with_three_ways_out() {
    let (_site, config) = public_config();
    let Some(ended) = unprivileged(&["node", "--config", config.to_str().unwrap()]) else {
        return;
    };
    ended
        .expect_code(BAD_INPUT)
        .expect_error("listening on port 988 needs a privilege")
        .expect_error("setcap cap_net_bind_service")
        .expect_error("ip_unprivileged_port_start=988")
        .expect_error("choose a port above 1023");
}

#[test]
fn a_missing_privilege_for_the_source_port_is_named() {
    let ping = ["ping", "--privileged", "--timeout", "2", "127.0.0.1@tcp"];
    let Some(ended) = unprivileged(&ping) else {
        return;
    };
    ended
        .expect_code(NOT_SO)
        .expect_error("CAP_NET_BIND_SERVICE");
}

#[test]
fn a_ping_of_nobody_says_that_nothing_listens() {
    let site = Site::new();
    let ended = site.ping(CLIENT, &[]).expect_code(NOT_SO);
    ended
        .expect_error(CLIENT)
        .expect_error(&format!("no process listens on port {}", site.port));
}

#[test]
fn a_ping_of_a_node_of_this_machine_is_answered_by_that_node() {
    let site = Site::new();
    site.write("node.yaml", yaml(&[CLIENT, "127.0.0.9@tcp7"], ""));
    let _node = site.start_node("node");
    let out = site.ping(CLIENT, &[]).expect_code(0).out;
    // The endpoint of the ping command has no such interface.
    assert!(out.contains("127.0.0.9@tcp7"), "{out}");
}

#[test]
fn a_ping_from_the_address_that_is_asked_is_refused() {
    let site = Site::new();
    let ended = site
        .ping(CLIENT, &["--source", CLIENT])
        .expect_code(BAD_INPUT);
    ended.expect_error("would answer itself");
}

#[test]
fn a_ping_of_another_nid_at_that_address_is_refused_there() {
    let site = Site::new();
    site.write("node.yaml", yaml(&[CLIENT], ""));
    let _node = site.start_node("node");
    let ended = site.ping("127.0.0.1@tcp5", &[]).expect_code(NOT_SO);
    ended.expect_error("127.0.0.1@tcp5 cannot be reached");
}

#[test]
fn a_ping_of_a_server_that_speaks_something_else_ends_soon() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, testkit::port())).unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    thread::spawn(move || {
        for mut stream in server.incoming().flatten() {
            // The client may have closed the connection already.
            let _unsent = stream.write_all(&b"SSH-2.0-OpenSSH_9.2\r\n".repeat(20));
        }
    });
    let ended = run(finerail([
        "ping",
        "--port",
        &port,
        "--timeout",
        "30",
        CLIENT,
    ]));
    ended
        .expect_code(NOT_SO)
        .expect_error("127.0.0.1@tcp cannot be reached");
}

#[test]
fn a_ping_of_a_silent_server_ends_at_its_timeout() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, testkit::port())).unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let ended = run(finerail([
        "ping",
        "--port",
        &port,
        "--timeout",
        "1",
        CLIENT,
    ]));
    ended
        .expect_code(NOT_SO)
        .expect_error("nothing could be sent to 127.0.0.1@tcp within 1 s");
}

#[test]
fn a_ping_with_several_questions_prints_times_and_json_is_one_document() {
    let site = Site::new();
    site.write("node.yaml", yaml(&[CLIENT], ""));
    let _node = site.start_node("node");
    let many = site
        .ping(CLIENT, &["--count", "3", "--interval", "0"])
        .expect_code(0);
    assert!(
        many.out.contains("    sent: 3\n    received: 3\n"),
        "{many:#?}"
    );
    let json = site.ping(CLIENT, &["--json"]).expect_code(0).out;
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document[0]["primary_nid"], CLIENT);
}

/// Returns the path of a small capture of two nodes.
fn small_capture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lnet/capture/tests/data/ping.pcap")
}

fn dump(site: &Site, content: impl AsRef<[u8]>) -> Ended {
    let file = site.write("file.pcap", content);
    run(finerail(["dump".as_ref(), file.as_os_str()]))
}

#[test]
fn a_dump_of_something_else_says_what_is_wrong_with_the_file() {
    let site = Site::new();
    let empty = dump(&site, "").expect_code(BAD_INPUT);
    empty.expect_error("file.pcap: the capture is empty");
    let text = dump(&site, "what the nodes said, as told by an eye-witness\n");
    text.expect_code(BAD_INPUT)
        .expect_error("file.pcap: not a pcap or pcapng file");
    let missing = run(finerail(["dump", "/nonexistent/file.pcap"]));
    missing
        .expect_code(BAD_INPUT)
        .expect_error("/nonexistent/file.pcap: No such file");
    let directory = run(finerail(["dump".as_ref(), site.path("").as_os_str()]));
    directory
        .expect_code(BAD_INPUT)
        .expect_error("Is a directory");
}

#[test]
fn a_dump_of_a_capture_that_ends_too_early_prints_what_there_is() {
    let site = Site::new();
    let whole = fs::read(small_capture()).unwrap();
    let all = dump(&site, &whole).expect_code(0);
    let cut = dump(&site, &whole[..whole.len() * 2 / 3]).expect_code(BAD_INPUT);
    let cut = cut.expect_error("file.pcap");
    let first = cut.out.lines().next().unwrap();
    assert!(all.out.starts_with(first), "{cut:#?}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let capture = small_capture();
    let capture = capture.to_str().unwrap();
    let printing: [&[&str]; 6] = [
        &["dump", capture],
        &["dump", "-v", capture],
        &["dump", "--json", capture],
        &["completions", "bash"],
        &["--help"],
        &["--version"],
    ];
    for args in printing {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = finerail(args);
        let output = command
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = output.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*error), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_node_whose_output_nobody_reads_runs_all_the_same() {
    let site = Site::new();
    site.write("node.yaml", yaml(&[CLIENT], ""));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = site.command("node", &["--log", "lnet_node=error", "node"]);
    let mut node = command.stdout(writer).spawn().unwrap();
    let answer = eventually("the node answers, or has ended", || {
        let ended = node.try_wait().unwrap().is_some();
        let answered = site.ping(CLIENT, &[]).code() == Some(0);
        (ended || answered).then_some(answered)
    });
    node.kill().unwrap();
    node.wait().unwrap();
    assert!(answer, "the node ended");
}

#[test]
fn a_shell_completes_commands_options_and_their_values() {
    let site = Site::new();
    let script = run(finerail(["completions", "bash"])).expect_code(0).out;
    let file = site.write("finerail.bash", script);
    if !can_run("bash", &["-c", "true"]) {
        eprintln!("skipped: there is no bash");
        return;
    }
    let completed = |words: &str| -> Vec<String> {
        let last = words.split(' ').count() - 1;
        let script = format!(
            "source '{}'; COMP_WORDS=({words}); COMP_WORDS[{last}]=\"${{COMP_WORDS[{last}]-}}\"; COMP_CWORD={last}; \
             _finerail; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &script]).stdin(Stdio::null());
        let out = run(bash).expect_code(0).out;
        out.lines().map(str::to_owned).collect()
    };
    assert_eq!(completed("finerail disc"), ["discover"]);
    assert_eq!(completed("finerail ctl net s"), ["show", "set"]);
    assert_eq!(
        completed("finerail ctl --timeout 3 net add --ni"),
        ["--nid"]
    );
    assert_eq!(completed("finerail node --profile des"), ["design"]);
    assert_eq!(completed("finerail completions ba"), ["bash"]);
}

#[test]
fn without_arguments_the_program_says_what_to_begin_with() {
    let shown = run(finerail::<&str>([])).expect_code(0).out;
    for command in ["demo", "ping", "lint", "explain", "node"] {
        assert!(shown.contains(&format!("  finerail {command} ")), "{shown}");
    }
}

/// A reader of a named pipe waits until a writer has opened the pipe and closed it.
#[test]
fn a_file_that_is_waited_for_is_named() {
    let site = Site::new();
    let pipe = site.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let name = pipe.to_str().unwrap();
    let commands: [&[&str]; 6] = [
        &["lint", name],
        &["explain", "--config", name, "--to", "10.0.0.2@tcp"],
        &["convert", name],
        &["dump", name],
        &["replay", name],
        &["fgr", "plan", "--machine", name],
    ];
    for words in commands {
        let waiting = Process::start(finerail(words));
        waiting.wait_for_error(&format!("waiting for {name}"));
        fs::write(&pipe, "net:\n").unwrap();
        waiting.wait();
    }
}

#[test]
fn a_source_that_the_node_has_not_is_refused_with_those_that_it_has() {
    let site = Site::new();
    site.write("node.yaml", yaml(&["10.0.0.1@tcp"], ""));
    let words = ["explain", "--to", "10.0.0.2@tcp", "--from", "10.9.9.9@tcp"];
    let config = site.path("node.yaml");
    let config = ["--config", config.to_str().unwrap()];
    run(finerail([&words[..], &config].concat()))
        .expect_code(BAD_INPUT)
        .expect_error("--from 10.9.9.9@tcp: the node has no such NID; it has 10.0.0.1@tcp");
}

const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "elvish", "powershell"];

#[test]
fn completions_are_scripts_that_their_shells_can_read() {
    let site = Site::new();
    for shell in SHELLS {
        let script = run(finerail(["completions", shell])).expect_code(0);
        assert!(script.out.contains("finerail"), "{shell}");
        assert_eq!(script.err, "", "{shell}");
        let file = site.write(shell, &script.out);
        // Elvish provides its editor, which the script needs, on a terminal only.
        if shell != "elvish" && can_run(shell, &["-c", "true"]) {
            let mut check = Command::new(shell);
            check.arg("-n").arg(file).stdin(Stdio::null());
            assert_eq!(run(check).expect_code(0).err, "", "{shell}");
        }
    }
    for (name, command) in [("lnetctl", "setup-mrrouting"), ("lctl", "which_nid")] {
        let script = run(finerail(["completions", "bash", name])).expect_code(0);
        assert!(script.out.contains(&format!("_{name}")), "{name}");
        assert!(script.out.contains(command), "{name}");
        assert!(
            !script.out.contains("zoid"),
            "{name} has commands of others"
        );
    }
    let names = ["finerail", "lnetctl", "lctl"];
    for (shell, name) in SHELLS
        .into_iter()
        .flat_map(|shell| names.map(|name| (shell, name)))
    {
        let script = run(finerail(["completions", shell, name]))
            .expect_code(0)
            .out;
        assert!(script.len() < 50_000, "{shell}: {} bytes", script.len());
        assert!(!script.contains("NAME"), "{shell}");
    }
    run(finerail(["completions", "tcsh"]))
        .expect_code(BAD_INPUT)
        .expect_error("tcsh");
}

#[test]
fn man_pages_are_written_for_every_command_and_man_can_read_them() {
    let site = Site::new();
    let directory = site.path("a/new/directory");
    run(finerail(["man".as_ref(), directory.as_os_str()])).expect_code(0);
    for page in [
        "finerail.1",
        "finerail-node.1",
        "finerail-ping.1",
        "finerail-dump.1",
    ] {
        let page = directory.join(page);
        let text = fs::read_to_string(&page).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{}", page.display());
        if !can_run("man", &["--version"]) {
            eprintln!("not read by 'man', which is not installed");
            continue;
        }
        let mut man = Command::new("man");
        man.arg("--warnings")
            .arg("-l")
            .arg(&page)
            .stdin(Stdio::null());
        let shown = run(man).expect_code(0);
        assert_eq!(shown.err, "", "{}", page.display());
    }
}

#[test]
fn man_pages_that_cannot_be_written_are_an_error_that_names_the_directory() {
    let ended = run(finerail(["man", "/dev/null/pages"])).expect_code(BAD_INPUT);
    ended.expect_error("cannot write man pages to /dev/null/pages");
}

#[test]
fn counters_that_cannot_be_written_are_an_error_that_names_the_file() {
    let site = Site::new();
    site.write("node.yaml", yaml(&[CLIENT], ""));
    let mut command = site.command("node", &["node"]);
    command.args(["--stats", "/nonexistent/stats.json"]);
    let node = Process::start(command);
    node.wait_for_output("ready: ");
    let ended = node.stop().expect_code(BAD_INPUT);
    ended.expect_error("cannot write /nonexistent/stats.json");
}

/// Exit codes of the converter of kernel distributions: 0 success, 1 nothing to convert or wrong usage, 2 invalid
/// input.
#[test]
fn the_converter_ends_with_the_codes_of_that_of_kernels() {
    let convert = |words: &[&str]| run(finerail([&["convert"], words].concat()));
    convert(&["tcp0(eth0) 10.0.0.*"]).expect_code(0);
    convert(&["--help"]).expect_code(0);
    convert(&[""]).expect_code(1).expect_error("there is no");
    convert(&["--bogus"]).expect_code(1).expect_error("--bogus");
    convert(&["--default-hop=0", "routes=tcp 10.0.0.1@tcp1"]).expect_code(1);
    convert(&["--to", "modprobe", "--default-hop", "x"]).expect_code(1);
    convert(&["networks=tcp0(eth0"]).expect_code(2);
    let behind_an_option = run(finerail(["--log", "error", "convert", "--bogus"]));
    behind_an_option.expect_code(1);
}

/// What the YAML cannot express is rejected with its way out, and nothing is said to mean the same.
#[test]
fn t_l13_the_converter_rejects_what_the_other_form_cannot_express() {
    let convert = |words: &[&str]| run(finerail([&["convert"], words].concat()));
    let port = "options lnet networks=tcp(eth0) accept_port=6988";
    let accept = "options lnet networks=tcp(eth0) accept=all";
    let rules = "options lnet ip2nets=\"tcp(eth0) 10.77.0.1; tcp(eth1) 10.77.0.2\"";
    let route = "options lnet networks=tcp(eth0) routes=\"tcp5 10.0.0.1@tcp5\"";
    let peers = "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}}]}]\npeer: [{primary nid: 10.0.0.2@tcp}]\n";
    for (words, says) in [
        (
            &[port][..],
            "keep it in modprobe.d: options lnet accept_port=6988",
        ),
        (&[accept], "keep it in modprobe.d: options lnet accept=all"),
        (&[rules], "write one rule with tcp(eth0,eth1)"),
        (&[route], "the module does not start with such a route"),
        (
            &["--to", "modprobe", peers],
            "peers cannot be options of the module",
        ),
    ] {
        let rejected = convert(words).expect_code(2).expect_error(says);
        let rejected = rejected.expect_error("--partial");
        assert_eq!(rejected.out, "", "{words:?}");
        let partial = convert(&[words, &["--partial"]].concat()).expect_code(0);
        let partial = partial.expect_error(says);
        assert!(!partial.err.contains("means the same"), "{words:?}");
        assert!(!partial.out.is_empty(), "{words:?}");
    }
    let both = convert(&["options lnet ip2nets=\"tcp(eth0) 10.77.0.1; tcp(eth1) 10.77.0.1\""])
        .expect_code(0);
    let both = both.expect_error("means the same");
    assert!(both.out.contains("1: eth1"), "{both:#?}");
}

//! `lnetctl` without a command: the effects and the exit code of a script on standard input.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::io::Write as _;
use std::process::{Command, Stdio};

use common::process::{Ended, Process};
use common::site::{CLIENT, Site, yaml};

/// A node, and the binary under all its names.
struct Bed {
    site: Site,
    node: Process,
}

impl Bed {
    fn new() -> Self {
        let site = Site::new();
        site.write("node.yaml", yaml(&[CLIENT], ""));
        Self::of(site)
    }

    /// Starts the bed with the configuration in the site.
    fn of(site: Site) -> Self {
        for name in ["lnetctl", "lctl"] {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_finerail"), site.path(name)).unwrap();
        }
        let node = start(&site);
        Self { site, node }
    }

    fn script(&self, name: &str, script: impl AsRef<[u8]>) -> Ended {
        let mut command = Command::new(self.site.path(name));
        command.env("FINERAIL_CONTROL", self.site.path("control.sock"));
        command.current_dir(self.site.path(""));
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut session = command.stderr(Stdio::piped()).spawn().unwrap();
        session
            .stdin
            .take()
            .unwrap()
            .write_all(script.as_ref())
            .unwrap();
        let output = session.wait_with_output().unwrap();
        let [out, err] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        Ended {
            status: output.status,
            out,
            err,
        }
    }
}

fn start(site: &Site) -> Process {
    let control = format!("--control={}", site.path("control.sock").display());
    let node = Process::start(site.command("node", &["node", &control]));
    node.wait_for_output("ready: ");
    node
}

#[test]
fn a_script_is_carried_out_line_by_line_without_a_prompt() {
    let bed = Bed::new();
    let script = "\
# a comment, and an empty line

lnetctl net add --nid 127.0.0.2@tcp2
udsp add --src 'tcp' --priority 0   # behind a command
net show --net \"tcp2\"
udsp show";
    let ended = bed.script("lnetctl", script).expect_code(0);
    let expected = "\
net:
-     net type: tcp2
      local NI(s):
      -     nid: 127.0.0.2@tcp2
            status: up
            interfaces:
                  0: lo
udsp:
    - idx: 0
      src: tcp
      dst: NA
      rte: NA
      action:
          priority: 0
";
    assert_eq!(ended.out, expected);
    assert_eq!(ended.err, "");
}

#[test]
fn a_node_without_networks_gets_one_while_it_runs() {
    let site = Site::new();
    site.write("node.yaml", "");
    let bed = Bed::of(site);
    let script = "lnet configure\nnet show\nping 127.0.0.1@tcp\nnet add --nid 127.0.0.1@tcp\nnet show --net tcp\n";
    let ended = bed.script("lnetctl", script);
    assert!(ended.out.contains("net type: lo"), "{}", ended.out);
    let added = "-     nid: 127.0.0.1@tcp\n            status: up";
    assert!(ended.out.contains(added), "{}", ended.out);
    bed.site.ping(CLIENT, &[]).expect_code(0);
    bed.node.stop().expect_code(0);
}

#[test]
fn an_import_says_what_was_there_already_and_refuses_it_if_asked_to() {
    let bed = Bed::new();
    bed.site
        .write("more.yaml", yaml(&[CLIENT, "127.0.0.2@tcp1"], ""));
    let refused = bed.script("lnetctl", "import --strict more.yaml\n");
    refused.expect_code(234).expect_error("errno: -17");
    let ended = bed.script(
        "lnetctl",
        "import more.yaml\nimport more.yaml\nlnet configure --large\n",
    );
    let ended = ended.expect_code(0);
    assert_eq!(ended.out, "");
    let added = "new: net add --net tcp1 --nid 127.0.0.2@tcp1";
    ended
        .expect_error("exists already: 1 interface: 127.0.0.1@tcp")
        .expect_error(added)
        .expect_error("nothing new");
}

#[test]
fn a_script_goes_on_after_an_error_and_ends_with_the_code_of_the_first() {
    let bed = Bed::new();
    let script =
        "nonsense\nset retry_count -1\nset retry_count 4\nglobal show\nquit\nset retry_count 5\n";
    let ended = bed.script("lnetctl", script).expect_code(255);
    assert!(
        ended.err.contains("'nonsense' is not a valid command"),
        "{}",
        ended.err
    );
    assert!(ended.out.contains("retry_count: 4"), "{}", ended.out);
    let ended = bed.script("lnetctl", "global show\n").expect_code(0);
    assert!(
        ended.out.contains("retry_count: 4"),
        "nothing comes behind quit"
    );
}

#[test]
fn help_is_no_error_and_needs_no_node() {
    let bed = Bed::new();
    std::fs::rename(bed.site.path("control.sock"), bed.site.path("hidden.sock")).unwrap();
    let ended = bed.script("lnetctl", "help\nnet --help\nhelp udsp\n--list-commands\n");
    let ended = ended.expect_code(0);
    for expected in [
        "Commands:",
        "Add a network",
        "Remove a rule",
        "setup-mrrouting",
    ] {
        assert!(
            ended.out.contains(expected),
            "no '{expected}' in {}",
            ended.out
        );
    }
    bed.script("lnetctl", "").expect_code(0);
}

#[test]
fn lines_that_cannot_be_taken_are_refused_and_the_next_ones_are_not() {
    let bed = Bed::new();
    let lines = [
        "net 'show".as_bytes(),
        b"net \xff\xfe show",
        &[b'a'; 200_000],
        b"import",
        b"--node elsewhere",
        b"peer list",
    ];
    let ended = bed.script("lnetctl", lines.join(&b'\n')).expect_code(234);
    let said: Vec<&str> = ended.out.lines().collect();
    let expected = [
        "a quote is not closed",
        "the line is not text",
        "the line is too long",
        "import needs a file here: standard input has the commands",
        "no command is given",
    ];
    assert_eq!(said[..5], expected, "{}", ended.out);
}

#[test]
fn a_session_outlives_the_node_and_finds_the_next_one() {
    let Bed { site, node } = Bed::new();
    let mut command = Command::new(site.path("lnetctl"));
    command.env("FINERAIL_CONTROL", site.path("control.sock"));
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut session = command.stderr(Stdio::null()).spawn().unwrap();
    let mut lines = session.stdin.take().unwrap();
    let out = session.stdout.take().unwrap();
    let mut out = std::io::BufRead::lines(std::io::BufReader::new(out));
    let mut ask = |command: &str| writeln!(lines, "{command}").unwrap();
    ask("global show");
    assert_eq!(out.next().unwrap().unwrap(), "global:");
    node.stop().expect_code(0);
    ask("net show --net tcp");
    let node = start(&site);
    // The first command may find a broken connection or no node. The later commands reach the new
    // node.
    ask("net show --net tcp");
    ask("net show --net tcp");
    assert!(out.any(|line| line.unwrap() == "net:"));
    drop(lines);
    assert_eq!(session.wait().unwrap().code(), Some(1), "the first error");
    node.stop().expect_code(0);
}

#[test]
fn watch_shows_it_again_until_the_node_is_gone() {
    let Bed { site, node } = Bed::new();
    let mut command = Command::new(site.path("lnetctl"));
    command.env("FINERAIL_CONTROL", site.path("control.sock"));
    command.args(["peer", "list", "--watch", "1"]);
    command.stderr(Stdio::null());
    let add = "peer add --prim_nid 127.0.0.5@tcp\n";
    let bed = Bed { site, node };
    bed.script("lnetctl", add).expect_code(0);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let out = std::io::BufReader::new(watch.stdout.take().unwrap());
    let lists = std::io::BufRead::lines(out).filter(|line| line.as_ref().unwrap() == "peer list:");
    assert_eq!(lists.take(2).count(), 2);
    bed.node.stop().expect_code(0);
    assert_eq!(watch.wait().unwrap().code(), Some(1));
}

#[test]
fn lctl_takes_its_own_commands_line_by_line() {
    let bed = Bed::new();
    let ended = bed
        .script("lctl", "list_nids\nwhich_nid 127.0.0.9@tcp\n")
        .expect_code(0);
    assert_eq!(ended.out, "127.0.0.1@tcp\n127.0.0.1@tcp\n");
    let nets = "net add --nid 127.0.0.2@tcp1\nroute add --net tcp9 --gateway 127.0.0.9@tcp1\n";
    bed.script("lnetctl", nets).expect_code(0);
    let which = "which_nid 127.0.0.8@tcp9 127.0.0.9@tcp\nwhich_nid 127.0.0.9@tcp1 127.0.0.9@tcp\n";
    let ended = bed.script("lctl", which).expect_code(0);
    assert_eq!(
        ended.out, "127.0.0.1@tcp\n127.0.0.2@tcp1\n",
        "the nearest, then the first"
    );
    let ended = bed.script("lctl", "dlx\n--version\nlist_nids extra\n");
    let ended = ended
        .expect_code(255)
        .expect_error("lctl: 'dlx' is not a valid command");
    ended.expect_error("[possible values: all]");
}

#[test]
fn the_wildcard_can_be_neither_pinged_nor_discovered_and_leaves_no_peer() {
    let bed = Bed::new();
    for command in ["ping", "discover"] {
        let ended = bed.script("lnetctl", format!("{command} '<?>'\n"));
        assert!(ended.out.contains("errno: -22"), "{}", ended.out);
    }
    assert_eq!(bed.script("lnetctl", "peer show\n").expect_code(0).out, "");
}

#[test]
fn lctl_lists_connections_by_type_and_peers_with_their_number() {
    let bed = Bed::new();
    let script = "set_param own=1\nping 127.0.0.1@tcp\n";
    bed.script("lctl", script).expect_code(2);
    // A ping of an own NID travels over TCP, so this node has both ends of its connections.
    bed.script("lnetctl", "discover 127.0.0.1@tcp\n")
        .expect_code(0);
    let ended = bed.script("lctl", "--net tcp conn_list\n--net tcp peer_list\n");
    let ended = ended.expect_code(0);
    let (lists, peers) = ended.out.rsplit_once("12345-").unwrap();
    let letters: Vec<&str> = lists
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(_, text)| text.trim())
        .collect();
    assert!(
        letters
            .iter()
            .any(|row| row.starts_with("C[0]127.0.0.1->127.0.0.1:")),
        "{lists}"
    );
    assert!(
        letters.iter().all(|row| row.ends_with(" nonagle")),
        "{lists}"
    );
    assert!(
        peers.starts_with("127.0.0.1@tcp") && peers.contains("[1]127.0.0.1->127.0.0.1:"),
        "{peers}"
    );
}

#[test]
fn documents_that_cannot_be_read_are_refused_here_with_the_reason() {
    let bed = Bed::new();
    bed.site
        .write("cut.yaml", "net:\n- net type: tcp9\n  local NI(s): [\n");
    bed.site.write("no-text.yaml", b"net:\n\xff\xfe\n");
    bed.site.write("long.yaml", vec![b'#'; (16 << 20) + 1]);
    for (file, complaint) in [
        ("cut.yaml", "cut.yaml:3:16"),
        ("no-text.yaml", "no-text.yaml is not text"),
        ("long.yaml", "at most 16777216 bytes"),
    ] {
        for mode in ["--add", "--del", "--show", "--exec"] {
            let ended = bed.script("lnetctl", format!("import {mode} {file}\n"));
            ended.expect_code(234).expect_error(complaint);
        }
    }
    // With escapes, the text exceeds the limit of a request.
    bed.site.write("wide.yaml", "#\"\n".repeat(5 << 20));
    let ended = bed.script("lnetctl", "import wide.yaml\n");
    ended
        .expect_code(1)
        .expect_error("the request cannot be sent");
}

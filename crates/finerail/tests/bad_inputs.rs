//! Bad inputs, one per line: each command ends at once, with the correct exit code and a message that says what to
//! do.
//!
//! `tests/bad_inputs/cases.txt` has the lines. The test creates the files that they name.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use common::process::{Ended, Process};

const CASES: &str = include_str!("bad_inputs/cases.txt");

const NET: &str =
    "net:\n- net type: tcp\n  local NI(s):\n  - nid: 10.0.0.1@tcp\n    interfaces: {0: eth0}\n";

/// A line: the settings for output and environment, the permitted exit codes, words of the message, and the
/// arguments.
struct Case<'a> {
    settings: Vec<&'a str>,
    codes: Vec<i32>,
    says: &'a str,
    arguments: Vec<&'a str>,
}

/// Parses `settings | codes | words | arguments`; `''` stands for an empty argument.
fn cases() -> Vec<Case<'static>> {
    let lines = CASES
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let [settings, codes, says, arguments] = line.split(" | ").collect::<Vec<_>>()[..]
            else {
                panic!("{line}");
            };
            Case {
                settings: settings
                    .split_whitespace()
                    .filter(|one| *one != "-")
                    .collect(),
                codes: codes
                    .split_whitespace()
                    .map(|code| code.parse().unwrap())
                    .collect(),
                says: if says == "-" { "" } else { says },
                arguments: arguments
                    .split_whitespace()
                    .map(|one| if one == "''" { "" } else { one })
                    .collect(),
            }
        })
        .collect()
}

fn write(at: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    let path = at.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn files(at: &Path) {
    configurations(at);
    others(at);
    directories(at);
    links(at);
}

fn configurations(at: &Path) {
    let all: Vec<u8> = (0..=255).cycle().take(12_800).collect();
    write(at, "good.yaml", NET);
    write(at, "good/n1.yaml", NET);
    write(at, "good/n2.yaml", NET.replace("0.1@", "0.2@"));
    write(at, "binary.yaml", &all);
    write(at, "nul.yaml", [0; 4096]);
    write(at, "empty.yaml", "");
    write(at, "blank.yaml", "\n \n");
    write(at, "bom.yaml", format!("\u{feff}{NET}"));
    write(at, "crlf.yaml", NET.replace('\n', "\r\n"));
    write(
        at,
        "utf16.yaml",
        NET.encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<_>>(),
    );
    write(at, "latin1.yaml", b"net: \xe9\n");
    write(at, "tab.yaml", "net:\n\t- net type: tcp\n");
    write(at, "deep.yaml", "[".repeat(100_000));
    write(at, "aliases.yaml", aliases());
    write(
        at,
        "nan.yaml",
        format!("{NET}global: {{numa_range: .nan, transaction_timeout: -5}}\n"),
    );
    write(
        at,
        "negative.yaml",
        format!("{NET}route:\n- {{net: tcp1, gateway: 10.0.0.9@tcp, hop: -7}}\n"),
    );
    write(
        at,
        "huge-number.yaml",
        format!("{NET}global: {{transaction_timeout: {}}}\n", "9".repeat(30)),
    );
    write(at, "no-nid.yaml", NET.replace("10.0.0.1", "10.0.0.300"));
    write(
        at,
        "long-line.yaml",
        format!("net: {}", "x".repeat(3_000_000)),
    );
    File::create(at.join("sparse.yaml"))
        .unwrap()
        .set_len(8 << 30)
        .unwrap();
    write(at, "open.conf", "options lnet networks=tcp(eth0\n");
    write(at, "continued.conf", "options lnet \\\n".repeat(2000));
}

fn others(at: &Path) {
    write(at, "ip.json", "[{\"ifname\":1}]");
    write(
        at,
        "ip.txt",
        "1: lo: <UP,LOWER_UP> mtu 65536\n2: eth0: <UP,LOWER_UP> mtu 1500\n    inet 10.0.0.1/24 scope global eth0\n",
    );
    write(at, "state.json", "{}");
    write(at, "list.json", "[1,2");
    write(
        at,
        "bad.pcap",
        [&[0xd4, 0xc3, 0xb2, 0xa1][..], &[0xff; 60]].concat(),
    );
    write(at, "empty.pcap", "");
}

fn directories(at: &Path) {
    write(at, "bad-name/n[3-1].yaml", NET);
    write(at, "bad-name/n4.yaml", NET);
    write(at, "huge-name/n[0-99999999].yaml", NET);
    write(at, "unread/n1.yaml", NET);
    write(at, "unread/n2.yaml", "net: [\n");
    write(at, "color/\u{1b}[31mn.yaml", NET);
}

fn links(at: &Path) {
    write(at, "cycle/n1.yaml", NET);
    for link in 0..6 {
        symlink(".", at.join(format!("cycle/l{link}"))).unwrap();
    }
    write(at, "up/n1.yaml", NET);
    fs::create_dir(at.join("up/a")).unwrap();
    symlink("..", at.join("up/a/up")).unwrap();
    symlink("nowhere", at.join("dangling.yaml")).unwrap();
    symlink("itself", at.join("itself")).unwrap();
    write(at, "dangling/n2.yaml", NET);
    symlink("nowhere", at.join("dangling/n1.yaml")).unwrap();
    write(at, "pipe/n2.yaml", NET);
    mkfifo(&at.join("pipe/n1.yaml"), Mode::S_IRWXU).unwrap();
    fs::create_dir(at.join("empty")).unwrap();
    fs::create_dir(at.join("bytes")).unwrap();
    let name = std::ffi::OsStr::from_bytes(b"n\xff.yaml");
    fs::write(at.join("bytes").join(name), NET).unwrap();
}

/// Returns a few lines of YAML that expand to a gigabyte.
fn aliases() -> String {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..10 {
        let above = format!("*a{}", level - 1);
        let all = vec![above; 9].join(",");
        text += &format!("a{level}: &a{level} [{all}]\n");
    }
    text + "net: *a9\n"
}

fn run(case: &Case<'_>, at: &Path) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_finerail"));
    command
        .args(&case.arguments)
        .current_dir(at)
        .stdin(Stdio::null());
    for &setting in &case.settings {
        match setting.split_once('=') {
            Some(("out", path)) => {
                command = into(command, path);
            }
            Some((name, value)) => {
                command.env(name, value);
            }
            None if setting == "closed" => {
                // The reader closes the pipe before anything is written.
                command = shell(command, "\"$@\" | true; exit ${PIPESTATUS[0]}");
            }
            None => {
                command.env_remove(setting);
            }
        }
    }
    Process::start(command).wait()
}

/// Returns the command with its output redirected to a file.
fn into(command: Command, path: &str) -> Command {
    shell(command, &format!("exec \"$@\" >{path}"))
}

fn shell(command: Command, script: &str) -> Command {
    let mut whole = Command::new("bash");
    whole
        .args(["-c", script, "bash"])
        .arg(command.get_program())
        .args(command.get_args());
    whole
        .current_dir(command.get_current_dir().unwrap())
        .stdin(Stdio::null());
    whole
}

#[test]
fn each_bad_input_ends_with_its_code_and_says_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    files(directory.path());
    let cases = cases();
    assert!(cases.len() >= 140, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let ended = run(case, directory.path());
        let said = format!("{}{}", ended.out, ended.err);
        let code = ended.status.code();
        let is_right = code.is_some_and(|code| case.codes.contains(&code))
            && said.contains(case.says)
            && !ended.err.contains("panicked")
            && !said.contains('\u{1b}');
        let is_silent = code == Some(2) && said.trim().is_empty();
        if !is_right || is_silent {
            wrong.push(format!("{:?}: {code:?}: {said}", case.arguments));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

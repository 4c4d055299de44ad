//! Mounts beside other clients of the same files, and mounts whose server or process is away.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use common::lab::{Lab, done};
use common::process::{Process, run};
use common::{eventually, finerail, pattern};

/// Limit of a mount's own memory after a walk, in KiB.
const OWN_KIB_MAX: u64 = 40 * 1024;

/// How long a walk over some ten thousand directories may take: a limit that only a hang reaches.
const WALK_LIMIT: Duration = Duration::from_secs(300);

/// Returns the resident memory of a process without that of its program file, of which a build for tests has much.
fn own_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let own = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    own.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_walk_over_many_directories_takes_little_memory() {
    let Some(lab) = Lab::over_zoid("rw") else {
        return;
    };
    for number in 0..10_000 {
        fs::create_dir_all(lab.kept(&format!("d{}/e{number}", number % 100))).unwrap();
        fs::write(lab.kept(&format!("d{}/e{number}/f", number % 100)), "x").unwrap();
    }
    let mount = lab.service.as_ref().unwrap();
    println!("before: {} KiB", own_kib(mount.id()));
    let mut find = Command::new("find");
    find.arg(lab.seen(""));
    let found = Process::start(find).wait_within(WALK_LIMIT);
    assert_eq!(found.expect_code(0).out.lines().count(), 1 + 100 + 20_000);
    let after = own_kib(mount.id());
    println!("after: {after} KiB");
    assert!(after < OWN_KIB_MAX, "{after} KiB");
}

/// Has one client read a file to its end, which another client removes or replaces after the first bytes.
fn is_read_to_its_end(lab: &Lab, how: &str) {
    // More than the kernel reads ahead.
    const LENGTH: usize = 24 << 20;
    let content = pattern(LENGTH);
    let other = |name: &str| lab.directory.path().join("other").join(name);
    fs::write(other("a"), &content).unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(lab.seen("a"))
        .unwrap();
    let mut piece = [0; 4096];
    file.read_exact_at(&mut piece, 0).unwrap();
    match how {
        "removed" => fs::remove_file(other("a")).unwrap(),
        _ => {
            fs::write(other("b"), "new").unwrap();
            fs::rename(other("b"), other("a")).unwrap();
        }
    }
    let mut seen = vec![0; LENGTH];
    file.read_exact_at(&mut seen, 0).unwrap();
    assert!(seen == content, "{how}");
    file.write_all_at(b"more", LENGTH as u64).unwrap();
    assert_eq!(file.metadata().unwrap().len(), LENGTH as u64 + 4, "{how}");
    drop(file);
    // The name is that of the other client's file, or of none.
    let after = fs::read(lab.kept("a")).ok();
    assert_eq!(after.is_some(), how == "replaced");
}

fn others_remove_and_replace(lab: Option<Lab>) {
    let Some(lab) = lab else { return };
    let _other = lab.mount("other", "actimeo=0");
    is_read_to_its_end(&lab, "removed");
    is_read_to_its_end(&lab, "replaced");
}

#[test]
fn a_file_that_another_client_removes_or_replaces_is_read_to_its_end() {
    others_remove_and_replace(Lab::over_zoid("actimeo=0"));
}

#[test]
fn a_file_of_a_directory_that_others_remove_or_replace_is_read_to_its_end() {
    others_remove_and_replace(Lab::new("actimeo=0"));
}

#[test]
fn a_file_is_gone_once_its_last_reader_has_closed_it() {
    let Some(lab) = Lab::over_zoid("actimeo=0") else {
        return;
    };
    let _other = lab.mount("other", "actimeo=0");
    fs::write(lab.seen("a"), pattern(4 << 20)).unwrap();
    let file = File::open(lab.seen("a")).unwrap();
    fs::remove_file(lab.directory.path().join("other/a")).unwrap();
    drop(file);
    let forwarder = lab.forwarder().id();
    eventually("the forwarder has closed the file", || {
        let names = fs::read_dir(format!("/proc/{forwarder}/fd")).unwrap();
        let targets = names.filter_map(|name| fs::read_link(name.ok()?.path()).ok());
        let is_removed = |target: &Path| target.to_string_lossy().ends_with("kept/a (deleted)");
        (!targets.into_iter().any(|target| is_removed(&target))).then_some(())
    });
}

#[test]
fn programs_that_wait_for_a_dead_server_end_when_they_are_killed() {
    let Some(lab) = Lab::over_zoid("actimeo=0,timeout=600") else {
        return;
    };
    if !testkit::require("python3") {
        return;
    }
    fs::write(lab.seen("a"), pattern(8 << 20)).unwrap();
    let begin = "import os, sys\nf = os.open('seen/a', os.O_RDWR)\nprint('ready', flush=True)\nsys.stdin.readline()\n";
    let scripts = [
        "os.stat('seen/a')",
        "os.pread(f, 4096, 4 << 20)",
        "os.listdir('seen')",
        "os.pwrite(f, b'x' * 100, 0)",
        "os.pwrite(f, b'x' * (1 << 20), 0); os.pwrite(f, b'y' * (1 << 20), 0)",
        "os.open('seen/new', os.O_CREAT | os.O_RDWR)",
        "os.unlink('seen/a')",
    ];
    let mut children: Vec<Child> = Vec::new();
    for script in scripts {
        let mut shell = Command::new("python3");
        shell.args(["-c", &format!("{begin}{script}")]);
        shell.current_dir(lab.directory.path());
        shell
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        children.push(shell.spawn().unwrap());
    }
    for child in &mut children {
        let mut word = [0; 5];
        let out = child.stdout.as_mut().unwrap();
        std::io::Read::read_exact(out, &mut word).unwrap();
    }
    lab.forwarder().signal(Signal::SIGSTOP);
    for child in &mut children {
        drop(child.stdin.take());
    }
    for child in &children {
        eventually("the program waits for the mount", || {
            let place = fs::read_to_string(format!("/proc/{}/wchan", child.id())).unwrap();
            (place != "0" && !place.contains("pipe")).then_some(())
        });
    }
    let began = Instant::now();
    for (number, child) in children.iter().enumerate() {
        let signal = [Signal::SIGKILL, Signal::SIGINT][number % 2];
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    }
    for (child, script) in children.iter_mut().zip(scripts) {
        eventually(script, || child.try_wait().unwrap());
    }
    println!("all ended after {:?}", began.elapsed());
    lab.forwarder().signal(Signal::SIGCONT);
    eventually("the mount works", || fs::read(lab.seen("a")).ok());
}

#[test]
fn a_mount_whose_process_died_is_named_and_can_be_unmounted() {
    let Some(mut lab) = Lab::new("rw") else {
        return;
    };
    lab.service.take().unwrap().kill();
    let seen = lab.seen("").display().to_string();
    let mut again = lab.command("seen", "rw");
    again.stderr(Stdio::piped());
    let ended = run(again).expect_code(1);
    let ended = ended.expect_error("a mount is here whose process has ended");
    ended.expect_error(&format!("umount {}", seen.trim_end_matches('/')));
    done("umount", &[&seen]);
    lab.service = Some(lab.mount("seen", "rw"));
    fs::write(lab.seen("a"), "1").unwrap();
}

#[test]
fn the_type_of_a_mount_is_fuse_finerail_for_root_too() {
    let Some(lab) = Lab::new("rw") else { return };
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let seen = lab.seen("").display().to_string();
    let seen = seen.trim_end_matches('/');
    let line = table.lines().find(|line| line.contains(seen)).unwrap();
    assert!(line.contains(" - fuse.finerail dir:"), "{line}");
    assert!(line.contains("nosuid,nodev"), "{line}");
}

#[test]
fn hints_of_a_mount_name_options_of_a_mount() {
    let Some(lab) = Lab::unmounted() else { return };
    if Path::new("/etc/lnet.conf").exists() {
        testkit::absent("/etc/lnet.conf exists");
        return;
    }
    let at = lab.seen("").display().to_string();
    let ended = run(finerail(["mount", "lnet:10.0.0.1@tcp", &at]));
    ended.expect_error("no -o config= is given");
}

/// Returns the commands of README that mount a directory of a gateway, each without its comment.
fn three_commands() -> Vec<String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let (_, behind) = readme.split_once("Three commands mount").unwrap();
    let (_, behind) = behind.split_once("```sh\n").unwrap();
    let (block, _) = behind.split_once("```").unwrap();
    let command = |line: &str| line.split(" # ").next().unwrap().trim().to_owned();
    block.lines().map(command).collect()
}

#[test]
fn readme_s_three_commands_work_as_printed() {
    let Some(lab) = Lab::unmounted() else { return };
    let at = |name: &str| lab.directory.path().join(name).display().to_string();
    let port = testkit::port();
    let node = |name: &str, nid: &str| {
        let net = format!("net:\n- net type: tcp1\n  local NI(s):\n  - nid: {nid}@tcp1\n");
        fs::write(at(name), net).unwrap();
        format!("--config {} --port {port}", at(name))
    };
    // The places and addresses of one machine, in place of those of three.
    let (gateway, io_node) = (node("gw", "127.0.0.4"), node("ion", "127.0.0.5"));
    let here = |line: &str| {
        line.replace(
            "--config /etc/lnet.conf",
            &format!("{gateway} --no-control"),
        )
        .replace(
            "zoid forward",
            &format!("zoid forward {io_node} --no-control"),
        )
        .replace("10.2.0.9@tcp1", "127.0.0.4@tcp1")
        .replace("/srv/scratch", &at("srv/scratch"))
        .replace("/mnt", &at("seen"))
        .replace("finerail ", concat!(env!("CARGO_BIN_EXE_finerail"), " "))
    };
    let instance = format!("readme{}", std::process::id());
    let shell = |line: &str, is_service: bool| {
        let mut shell = Command::new("setsid");
        let text = match is_service {
            true => format!("trap 'trap - TERM; kill 0' TERM; {} wait", here(line)),
            false => here(line),
        };
        shell.args(["sh", "-c", &text]);
        shell.env("ZOID_INSTANCE", &instance);
        shell
    };
    let commands = three_commands();
    let [serve, forward, mount] = &commands[..] else {
        panic!("{commands:?}");
    };
    let gateway = Process::start(shell(serve, true));
    gateway.wait_for_output("ready: 127.0.0.4@tcp1");
    let io_node = Process::start(shell(forward, true));
    io_node.wait_for_output("serves lnet:");
    run(shell(mount, false)).expect_code(0);
    fs::write(lab.seen("root"), "root").unwrap();
    fs::create_dir(lab.seen("d")).unwrap();
    let mut user = Command::new("setpriv");
    user.args([
        "--reuid",
        "1001",
        "--regid",
        "1001",
        "--clear-groups",
        "sh",
        "-c",
    ]);
    user.arg(format!(
        "echo user > {0}/user && cat {0}/user {0}/root",
        at("seen")
    ));
    let out = run(user).expect_code(0).out;
    assert_eq!(out, "user\nroot");
    let owner = |name: &str| fs::metadata(at("srv/scratch/") + name).unwrap().uid();
    assert_eq!((owner("root"), owner("user")), (65534, 1001));
    done("umount", &[&at("seen")]);
    io_node.stop();
    gateway.stop();
}

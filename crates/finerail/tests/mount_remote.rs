//! A mount of a gateway's export, while the gateway is stopped, killed and restarted. Also files behind a
//! forwarder, over BMI.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bmi::tcp::Tcp;
use bmi::{Bmi, Question};
use files::dir::LocalDirectory;
use files_bmi::{Forwarder, ForwarderOptions};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use zoid::Zoid;

use common::process::{Process, run};
use common::site::{CLIENT, Site, yaml};
use common::{eventually, finerail, is_root, pattern};

const GATEWAY: &str = "127.0.0.2@tcp";
const QUICK: &str = "global:\n  transaction_timeout: 4\n";

/// A gateway, and a mount of its export in the mount namespace of this thread.
struct Lab {
    site: Site,
    gateway: Option<Process>,
    mount: Option<Process>,
}

/// Returns a site. If mounts are not possible, prints the reason and returns `None`.
fn site() -> Option<Site> {
    if !is_root() || !Path::new("/dev/fuse").exists() {
        testkit::absent("mounts need root here, and /dev/fuse");
        return None;
    }
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let mut private = Command::new("mount");
    private.args(["--make-rprivate", "/"]);
    run(private).expect_code(0);
    let site = Site::new();
    for name in ["kept", "state", "seen"] {
        fs::create_dir(site.path(name)).unwrap();
    }
    Some(site)
}

impl Lab {
    fn new(path: &str, options: &str) -> Option<Self> {
        let site = site()?;
        site.write("gateway.yaml", yaml(&[GATEWAY], QUICK));
        let client = site.write("client.yaml", yaml(&[CLIENT], QUICK));
        let (client, port) = (client.display().to_string(), site.port);
        let mut lab = Self {
            site,
            gateway: None,
            mount: None,
        };
        lab.start();
        fs::create_dir(lab.kept("sub")).unwrap();
        let node = format!("config={client},port={port},router_check_interval=1,{options}");
        let address = format!("lnet:{GATEWAY}:{path}");
        let seen = lab.seen("").display().to_string();
        let mount = Process::start(finerail(["mount", "-o", &node, &address, &seen]));
        mount.wait_for_output("ready: ");
        lab.mount = Some(mount);
        Some(lab)
    }

    fn start(&mut self) {
        self.start_as("server");
    }

    fn start_as(&mut self, identity: &str) {
        let mut serve = self.site.command("gateway", &["store", "serve"]);
        serve
            .args(["--identity", identity, "--state"])
            .arg(self.site.path("state"));
        serve.arg(self.kept(""));
        let gateway = Process::start(serve);
        gateway.wait_for_output("ready: ");
        self.gateway = Some(gateway);
    }

    fn kill(&mut self) {
        self.gateway.take().unwrap().kill();
    }

    fn signal(&self, signal: Signal) {
        self.gateway.as_ref().unwrap().signal(signal);
    }

    fn kept(&self, name: &str) -> PathBuf {
        self.site.path("kept").join(name)
    }

    fn seen(&self, name: &str) -> PathBuf {
        self.site.path("seen").join(name)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        detach(&self.seen(""));
    }
}

fn detach(path: &Path) {
    let mut umount = Command::new("umount");
    umount.arg("-l").arg(path);
    // There may be no mount.
    let _unmounted = run(umount);
}

#[test]
fn files_of_a_gateway_are_used_like_those_of_this_machine() {
    let Some(mut lab) = Lab::new("/sub", "actimeo=0") else {
        return;
    };
    let bytes = pattern(5_000_000);
    fs::write(lab.seen("a"), &bytes).unwrap();
    assert!(fs::read(lab.kept("sub/a")).unwrap() == bytes);
    fs::create_dir_all(lab.seen("d/e")).unwrap();
    fs::rename(lab.seen("a"), lab.seen("d/e/b")).unwrap();
    assert!(fs::read(lab.seen("d/e/b")).unwrap() == bytes);
    assert_eq!(fs::read_dir(lab.seen("")).unwrap().count(), 1);
    fs::remove_dir_all(lab.seen("d")).unwrap();
    assert_eq!(fs::read_dir(lab.kept("sub")).unwrap().count(), 0);
    let mut umount = Command::new("umount");
    umount.arg(lab.seen(""));
    run(umount).expect_code(0);
    lab.mount.take().unwrap().wait().expect_code(0);
}

#[test]
fn operations_end_while_the_gateway_stands_still_and_go_on_afterwards() {
    let Some(lab) = Lab::new("/", "actimeo=0,timeout=2") else {
        return;
    };
    fs::write(lab.seen("a"), "content").unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(lab.seen("a"))
        .unwrap();
    lab.signal(Signal::SIGSTOP);
    let error = fs::metadata(lab.seen("b")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::ETIMEDOUT as i32));
    let error = file.write_at(b"C", 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::ETIMEDOUT as i32));
    lab.signal(Signal::SIGCONT);
    eventually("the file is written to again", || {
        file.write_at(b"C", 0).ok()
    });
    assert_eq!(fs::read(lab.kept("a")).unwrap(), b"Content");
}

#[test]
fn locks_outlive_a_restart_of_the_gateway() {
    let Some(mut lab) = Lab::new("/", "timeout=20") else {
        return;
    };
    fs::write(lab.seen("a"), "content").unwrap();
    let open = || File::open(lab.seen("a")).unwrap();
    let (mine, other) = (open(), open());
    mine.lock().unwrap();
    assert!(other.try_lock().is_err());
    assert!(lab.site.path("state/locks").exists());
    lab.kill();
    lab.start();
    // Without the lock of before, this call would wait for the end of the grace, and succeed.
    eventually("the lock is there again", || match other.try_lock() {
        Err(std::fs::TryLockError::WouldBlock) => Some(()),
        Ok(()) => panic!("another program got the lock"),
        Err(std::fs::TryLockError::Error(_)) => None,
    });
    mine.unlock().unwrap();
}

#[test]
fn open_files_and_directories_go_on_after_the_gateway_was_started_again() {
    let Some(mut lab) = Lab::new("/", "actimeo=0,timeout=20") else {
        return;
    };
    fs::create_dir(lab.seen("d")).unwrap();
    fs::write(lab.seen("d/a"), "content").unwrap();
    fs::write(lab.seen("d/b"), "other").unwrap();
    let mut open = File::open(lab.seen("d/a")).unwrap();
    let other = OpenOptions::new()
        .write(true)
        .open(lab.seen("d/b"))
        .unwrap();
    lab.kill();
    // Another file has this name when the gateway is restarted.
    fs::remove_file(lab.kept("d/b")).unwrap();
    fs::write(lab.kept("d/b"), "new").unwrap();
    lab.start();
    let mut text = String::new();
    eventually("the open file is read", || {
        open.read_to_string(&mut text).ok()
    });
    assert_eq!(text, "content");
    let error = other.write_at(b"x", 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::ESTALE as i32));
    assert_eq!(fs::read(lab.kept("d/b")).unwrap(), b"new");
    let mut names = fs::read_dir(lab.seen("d")).unwrap().count();
    names += fs::read_dir(lab.seen("")).unwrap().count();
    assert_eq!(names, 4);
    fs::write(lab.seen("d/c"), "later").unwrap();
    assert_eq!(fs::read(lab.kept("d/c")).unwrap(), b"later");
}

#[test]
fn what_must_not_be_repeated_and_has_no_answer_is_eremoteio_and_does_not_happen_later() {
    let Some(mut lab) = Lab::new("/", "actimeo=3600,timeout=2") else {
        return;
    };
    fs::write(lab.seen("a"), "content").unwrap();
    let mut file = OpenOptions::new().append(true).open(lab.seen("a")).unwrap();
    lab.signal(Signal::SIGSTOP);
    let error = file.write_all(b" and more").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::EREMOTEIO as i32));
    lab.signal(Signal::SIGCONT);
    eventually("the gateway answers again", || {
        fs::metadata(lab.seen("b"))
            .err()
            .filter(|error| error.kind() == ErrorKind::NotFound)
    });
    let gateway = lab.gateway.take().unwrap();
    gateway.stop().expect_code(0);
    assert_eq!(fs::read(lab.kept("a")).unwrap(), b"content");
}

#[test]
fn operations_run_in_the_name_of_whoever_opened_the_file() {
    let Some(mut lab) = Lab::new("/", "actimeo=0,allow_other") else {
        return;
    };
    if !testkit::require("python3") {
        return;
    }
    lab.gateway.take().unwrap().stop().expect_code(0);
    fs::set_permissions(lab.site.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(lab.kept("a"), "").unwrap();
    chown(lab.kept("a"), Some(54321), Some(54321)).unwrap();
    fs::set_permissions(lab.kept("a"), fs::Permissions::from_mode(0o600)).unwrap();
    lab.start_as("caller");
    // At the gateway, root is an anonymous user.
    let mut command = Command::new("python3");
    let text = "import os\n\
                try: open('a', 'w').write('roots'); assert False\n\
                except PermissionError: pass\n\
                os.setegid(54321); os.seteuid(54321); fd = os.open('a', os.O_WRONLY)\n\
                os.seteuid(0); os.setegid(0); os.write(fd, b'theirs')\n";
    command.args(["-c", text]).current_dir(lab.seen(""));
    run(command).expect_code(0);
    assert_eq!(fs::read(lab.kept("a")).unwrap(), b"theirs");
}

#[test]
fn mounts_of_one_machine_share_a_port_if_they_accept_nobody() {
    let Some(lab) = Lab::new("/", "accept=none") else {
        return;
    };
    let other = lab.site.path("other");
    fs::create_dir(&other).unwrap();
    let mount = |options: &str| {
        let client = lab.site.path("client.yaml").display().to_string();
        let node = format!("config={client},port={},{options}", lab.site.port);
        let address = format!("lnet:{GATEWAY}");
        finerail(["mount", "-o", &node, &address, other.to_str().unwrap()])
    };
    let second = Process::start(mount("accept=none"));
    second.wait_for_output("ready: ");
    fs::write(other.join("a"), "1").unwrap();
    assert_eq!(fs::read(lab.seen("a")).unwrap(), b"1");
    second.stop();
    let third = Process::start(mount("timeout=2"));
    third.wait_for_output("ready: ");
    run(mount("timeout=2")).expect_error("in use");
    third.stop();
}

#[test]
fn sigterm_ends_a_mount_whose_gateway_stands_still() {
    let Some(mut lab) = Lab::new("/", "timeout=2") else {
        return;
    };
    lab.signal(Signal::SIGSTOP);
    let mount = lab.mount.take().unwrap();
    mount.signal(Signal::SIGTERM);
    mount.wait();
    lab.signal(Signal::SIGCONT);
}

#[test]
fn a_mount_of_nobody_fails_and_says_why() {
    let Some(site) = site() else { return };
    let client = site.write("client.yaml", yaml(&[CLIENT], QUICK));
    let options = format!("config={},port={},timeout=2", client.display(), site.port);
    let seen = site.path("seen");
    let address = format!("lnet:{GATEWAY}");
    let words = ["mount", "-o", &options, &address, seen.to_str().unwrap()];
    run(finerail(words))
        .expect_code(1)
        .expect_error("no gateway answers");
    let words = ["mount", "-o", "port=0", &address, seen.to_str().unwrap()];
    run(finerail(words)).expect_code(2).expect_error("--port");
}

/// Starts a forwarder in this process. Returns its port.
fn forwarder(directory: &Path) -> (Arc<Bmi>, Forwarder, i64) {
    let bmi = Bmi::builder()
        .method(Tcp::new())
        .listen("tcp://127.0.0.1:0")
        .start();
    let bmi = Arc::new(bmi.unwrap());
    let port = i64::try_from(bmi.get(None, Question::TcpPort).unwrap()).unwrap();
    let files = LocalDirectory::open(directory, files::dir::Options::default()).unwrap();
    let options = ForwarderOptions::default();
    let forwarder = Forwarder::start(Arc::clone(&bmi), Arc::new(files), options).unwrap();
    (bmi, forwarder, port)
}

#[test]
fn files_go_through_the_daemon_of_an_io_node() {
    let _turn = testkit::QueueTurn::share();
    let site = Site::new();
    for name in ["kept", "run", "tree"] {
        fs::create_dir(site.path(name)).unwrap();
    }
    fs::write(site.path("tree/large"), pattern(20_000_000)).unwrap();
    fs::write(site.path("tree/small"), "small").unwrap();
    let instance = format!("ft{}", std::process::id());
    let directory = site.path("run").display().to_string();
    let words = [
        "zoid",
        "daemon",
        "--instance",
        &instance,
        "--directory",
        &directory,
    ];
    let daemon = Process::start(finerail([&words[..], &["--total", "64M"]].concat()));
    daemon.wait_for_output("ready");
    let options = zoid::Options {
        instance: instance.parse().unwrap(),
        pipelined: true,
        ..zoid::Options::default()
    };
    let bmi = Bmi::builder()
        .method(Zoid::new(options))
        .listen("zoid://")
        .start();
    let files = LocalDirectory::open(&site.path("kept"), files::dir::Options::default()).unwrap();
    let limits = ForwarderOptions::default();
    let _forwarder = Forwarder::start(Arc::new(bmi.unwrap()), Arc::new(files), limits).unwrap();
    let client = |words: &[&str]| {
        let mut command = finerail([&["files"], words].concat());
        command.env("ZOID_SOCKET", format!("{directory}/zbmi.{instance}.sock"));
        run(command)
    };
    let (tree, back) = (site.path("tree"), site.path("back"));
    let (tree, back) = (tree.to_str().unwrap(), back.to_str().unwrap());
    client(&["put", "-r", tree, "zoid:/tree"]).expect_code(0);
    client(&["check", "-a", tree, "zoid:/tree"]).expect_code(0);
    client(&["get", "-r", "zoid:/tree", back]).expect_code(0);
    client(&["check", tree, back]).expect_code(0);
    client(&["rm", "-r", "zoid:/tree"]).expect_code(0);
    assert_eq!(fs::read_dir(site.path("kept")).unwrap().count(), 0);
    let nobody = run(finerail(["files", "ls", "zoid:nosuch", "--timeout", "1"]));
    nobody.expect_code(1).expect_error("finerail zoid daemon");
}

#[test]
fn a_tree_goes_to_a_forwarder_and_back_and_is_mounted_from_there() {
    let site = Site::new();
    fs::create_dir(site.path("kept")).unwrap();
    fs::create_dir_all(site.path("tree/d/empty")).unwrap();
    fs::write(site.path("tree/large"), pattern(20_000_000)).unwrap();
    fs::write(site.path("tree/d/small"), "small").unwrap();
    let (_bmi, _forwarder, port) = forwarder(&site.path("kept"));
    let there = format!("bmi:tcp://127.0.0.1:{port}:/tree");
    let (tree, back) = (site.path("tree"), site.path("back"));
    let (tree, back) = (tree.to_str().unwrap(), back.to_str().unwrap());
    run(finerail(["files", "put", "-r", tree, &there])).expect_code(0);
    run(finerail(["files", "check", "-a", tree, &there])).expect_code(0);
    run(finerail(["files", "get", "-r", &there, back])).expect_code(0);
    run(finerail(["files", "check", "-a", tree, back])).expect_code(0);
    let missing = format!("bmi:tcp://127.0.0.1:{}:/x", testkit::port());
    let ended = run(finerail(["files", "ls", "--timeout", "2", &missing]));
    ended.expect_code(1);
    let Some(here) = self::site() else { return };
    let seen = here.path("seen");
    let mount = Process::start(finerail(["mount", &there, seen.to_str().unwrap()]));
    mount.wait_for_output("ready: ");
    assert!(fs::read(seen.join("large")).unwrap() == pattern(20_000_000));
    File::create(seen.join("new"))
        .unwrap()
        .write_all(b"new")
        .unwrap();
    assert_eq!(fs::read(site.path("kept/tree/new")).unwrap(), b"new");
    let error = fs::remove_dir(seen.join("d")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty);
    detach(&seen);
}

//! `finerail files` behind a router and a gateway: real processes that are killed, stopped and restarted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use serde_json::Value;

use common::process::{Ended, Process, run};
use common::site::{ROUTER, STORAGE, Site, yaml};
use common::{eventually, is_root, pattern};

/// A client, a router, and a gateway behind the router.
struct Lab {
    site: Site,
    _router: Process,
    gateway: Option<Process>,
}

impl Lab {
    fn new() -> Self {
        let site = Site::new();
        site.write_routed_nodes();
        for name in ["kept", "state"] {
            fs::create_dir(site.path(name)).unwrap();
        }
        let router = site.start_node("router");
        let mut lab = Self {
            site,
            _router: router,
            gateway: None,
        };
        lab.start();
        lab
    }

    fn start(&mut self) {
        self.gateway = Some(gateway(&self.site, "storage", "state"));
    }

    fn gateway(&self) -> &Process {
        self.gateway.as_ref().unwrap()
    }

    fn kill(&mut self) {
        self.gateway.take().unwrap().kill();
    }

    fn kept(&self, name: &str) -> PathBuf {
        self.site.path("kept").join(name)
    }

    /// Returns a command `finerail files`; `@` stands for the gateway, `~` for the directory of the test.
    fn command(&self, words: &[&str]) -> Command {
        let here = self.site.path("");
        let word = |word: &&str| match word.split_at_checked(1) {
            Some(("@", path)) => format!("lnet:{STORAGE}:/{path}"),
            Some(("~", path)) => format!("{}{path}", here.display()),
            _ => (*word).to_owned(),
        };
        let words: Vec<String> = ["files"].iter().chain(words).map(word).collect();
        self.site.command("client", &words)
    }

    fn files(&self, words: &[&str]) -> Ended {
        run(self.command(words))
    }

    fn json(&self, words: &[&str], code: i32) -> Value {
        let ended = self.files(&[words, &["--json"]].concat()).expect_code(code);
        serde_json::from_str(&ended.out).unwrap()
    }

    /// Waits until a running copy has written some of its part.
    fn part(&self, bytes: u64) {
        eventually("a part grows", || {
            let entries = fs::read_dir(self.kept("")).unwrap();
            let blocks = entries.map(|entry| {
                let entry = entry.unwrap();
                let is_part = entry.file_name().as_bytes().starts_with(b".finerail-part-");
                entry
                    .metadata()
                    .map_or(0, |status| status.blocks() * u64::from(is_part))
            });
            (blocks.sum::<u64>() * 512 > bytes).then_some(())
        });
    }
}

fn gateway(site: &Site, node: &str, state: &str) -> Process {
    let mut serve = site.command(node, &["store", "serve", "--identity", "server"]);
    serve
        .args(["--coherent", "kept", "--state"])
        .arg(site.path(state));
    serve.arg(site.path("kept"));
    let gateway = Process::start(serve);
    gateway.wait_for_output("ready: ");
    gateway
}

fn same(one: &Path, other: &Path) -> bool {
    fs::read(one).unwrap() == fs::read(other).unwrap()
}

#[test]
fn a_tree_goes_over_a_router_and_back() {
    let lab = Lab::new();
    fs::create_dir_all(lab.site.path("tree/d/empty")).unwrap();
    for number in 0..200_usize {
        let name = lab.site.path(format!("tree/d/{number}"));
        fs::write(name, pattern(number * 50)).unwrap();
    }
    fs::write(lab.site.path("tree/large"), pattern(20_000_000)).unwrap();
    symlink("large", lab.site.path("tree/link")).unwrap();
    let sum = lab.json(&["put", "-r", "~tree", "@"], 0);
    assert_eq!((&sum["files"], &sum["links"]), (&201.into(), &1.into()));
    lab.files(&["check", "-a", "~tree", "@tree"]).expect_code(0);
    lab.files(&["get", "-r", "@tree", "~back"]).expect_code(0);
    lab.files(&["check", "-a", "~tree", "~back"]).expect_code(0);
    assert!(same(&lab.site.path("tree/large"), &lab.kept("tree/large")));
    let list = lab
        .files(&["check", "--digests", "@tree"])
        .expect_code(0)
        .out;
    let list = lab.site.write("list", list);
    lab.files(&["check", "~back", "--against", list.to_str().unwrap()])
        .expect_code(0);
    let ls = lab.files(&["ls", "@tree"]).expect_code(0).out;
    assert_eq!(ls, "d\nlarge\nlink\n");
    lab.files(&["mv", "@tree/d/7", "@tree/seven"])
        .expect_code(0);
    lab.files(&["ln", "@tree/seven", "@tree/again"])
        .expect_code(0);
    let cat = lab.files(&["cat", "@tree/again"]).expect_code(0).out;
    assert_eq!(cat, String::from_utf8_lossy(&pattern(350)));
    lab.files(&["rm", "-r", "@tree"]).expect_code(0);
    assert_eq!(fs::read_dir(lab.kept("")).unwrap().count(), 0);
}

#[test]
fn after_the_gateway_was_killed_the_next_put_takes_up_what_is_there() {
    let mut lab = Lab::new();
    lab.site.write("large", pattern(100_000_000));
    // One piece after the other, so that the first is whole when the second has begun.
    let put = ["put", "~large", "@large", "--timeout", "4", "--jobs", "1"];
    let putting = Process::start(lab.command(&put));
    lab.part(8 << 20);
    lab.kill();
    let ended = putting.wait().expect_code(1);
    ended.expect_error("is the gateway or forwarder running there");
    assert!(!lab.kept("large").exists());
    lab.start();
    let sum = lab.json(&["put", "~large", "@large"], 0);
    assert!(sum["resumed"].as_u64() > Some(0), "{sum}");
    assert!(same(&lab.site.path("large"), &lab.kept("large")));
    assert_eq!(fs::read_dir(lab.kept("")).unwrap().count(), 1);
}

#[test]
fn a_put_goes_on_by_itself_when_the_gateway_comes_back() {
    let mut lab = Lab::new();
    lab.site.write("large", pattern(100_000_000));
    let putting = Process::start(lab.command(&["put", "~large", "@large", "--json"]));
    lab.part(8 << 20);
    lab.kill();
    lab.start();
    let ended = putting.wait().expect_code(0);
    let sum: Value = serde_json::from_str(&ended.out).unwrap();
    assert!(sum["begun_again"].as_u64() > Some(0), "{sum}");
    assert_eq!(sum["bytes"].as_u64(), Some(100_000_000), "{sum}");
    assert!(same(&lab.site.path("large"), &lab.kept("large")));
}

#[test]
fn a_router_that_does_not_forward_is_named_with_the_reason() {
    let site = Site::new();
    site.write_routed_nodes();
    site.write("router.yaml", yaml(&ROUTER, ""));
    let _router = site.start_node("router");
    for timeout in ["4", "1"] {
        let list = format!("lnet:{STORAGE}:/");
        let words = ["files", "ls", &list, "--timeout", timeout];
        run(site.command("client", &words))
            .expect_code(1)
            .expect_error("no live route to tcp1: gateway 127.0.0.2@tcp does not forward messages")
            .expect_error("the server did not answer in time (ETIMEDOUT)");
    }
}

#[test]
fn a_gateway_that_stands_still_is_told_of_and_waited_for_as_long_as_was_said() {
    let lab = Lab::new();
    lab.site.write("small", "small");
    lab.gateway().signal(Signal::SIGSTOP);
    let ended = lab.files(&["ls", "@", "--timeout", "4"]).expect_code(1);
    ended
        .expect_error(&format!(
            "waiting for an answer of {STORAGE}, 4 s at most for each call"
        ))
        .expect_error("the server did not answer in time (ETIMEDOUT)")
        .expect_error("is the gateway or forwarder running there");
    let put = lab
        .files(&["put", "~small", "@", "--timeout", "2"])
        .expect_code(1);
    put.expect_error("ETIMEDOUT");
    lab.gateway().signal(Signal::SIGCONT);
    lab.files(&["put", "~small", "@"]).expect_code(0);
}

#[test]
fn an_interrupted_put_says_how_far_it_came_and_goes_on_later() {
    let lab = Lab::new();
    fs::create_dir(lab.site.path("tree")).unwrap();
    for number in 0..20 {
        lab.site.write(&format!("tree/{number}"), "small");
    }
    lab.site.write("tree/large", pattern(100_000_000));
    let putting = Process::start(lab.command(&["put", "-r", "~tree/large", "~tree", "@"]));
    lab.part(8 << 20);
    putting.signal(Signal::SIGINT);
    let ended = putting.wait().expect_code(1);
    assert!(
        ended
            .out
            .contains("interrupted; the same command with -s continues"),
        "{ended:?}"
    );
    assert!(!lab.kept("large").exists());
    let sum = lab.json(&["put", "-rs", "~tree/large", "~tree", "@"], 0);
    assert!(sum["resumed"].as_u64() > Some(0), "{sum}");
    lab.files(&["check", "~tree", "@tree"]).expect_code(0);
}

#[test]
fn a_disk_that_is_full_fails_what_does_not_fit_on_either_side() {
    if !is_root() {
        testkit::absent("mount namespaces of threads need root");
        return;
    }
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let mount = |words: &[&str]| {
        let mut command = Command::new("mount");
        command.args(words);
        run(command).expect_code(0);
    };
    mount(&["--make-rprivate", "/"]);
    let mut lab = Lab::new();
    lab.gateway.take().unwrap().stop();
    let small = lab.site.path("small");
    fs::create_dir(&small).unwrap();
    for place in [&lab.site.path("kept"), &small] {
        mount(&[
            "-t",
            "tmpfs",
            "-o",
            "size=6m",
            "none",
            place.to_str().unwrap(),
        ]);
    }
    lab.start();
    fs::create_dir(lab.site.path("tree")).unwrap();
    lab.site.write("tree/large", pattern(9_000_000));
    lab.site.write("tree/fits", pattern(1_000_000));
    let sum = lab.json(&["put", "-r", "~tree", "@tree"], 1);
    assert_eq!((&sum["files"], &sum["failures"]), (&1.into(), &1.into()));
    assert!(
        sum["failed"][0]["error"]
            .as_str()
            .unwrap()
            .contains("ENOSPC"),
        "{sum}"
    );
    assert!(same(&lab.site.path("tree/fits"), &lab.kept("tree/fits")));
    assert_eq!(fs::read_dir(lab.kept("tree")).unwrap().count(), 1);
    lab.files(&["put", "~tree/fits", "@second"]).expect_code(0);
    let sum = lab.json(
        &[
            "get",
            "-r",
            &format!("dir:{}", lab.site.path("tree").display()),
            "~small/tree",
        ],
        1,
    );
    assert_eq!((&sum["files"], &sum["failures"]), (&1.into(), &1.into()));
    assert_eq!(fs::read_dir(small.join("tree")).unwrap().count(), 1);
}

#[test]
fn another_gateway_takes_over_for_one_that_was_killed() {
    let mut lab = Lab::new();
    let other = "127.0.0.5@tcp1";
    let route = "route:\n- net: tcp\n  gateway: 127.0.0.3@tcp1\n";
    lab.site.write("other.yaml", yaml(&[other], route));
    fs::create_dir(lab.site.path("other")).unwrap();
    let _other = gateway(&lab.site, "other", "other");
    lab.site.write("large", pattern(50_000_000));
    let both = format!("lnet:{STORAGE},{other}:/large");
    let words = ["put", "~large", &both, "--failover", "2", "--json"];
    let putting = Process::start(lab.command(&words));
    lab.part(8 << 20);
    lab.kill();
    putting.wait().expect_code(0);
    assert!(same(&lab.site.path("large"), &lab.kept("large")));
    for mode in ["serial", "cluster", "stripe"] {
        let back = format!("~{mode}");
        let words = ["get", &both, &back, "--failover", "2", "--mode", mode];
        lab.files(&words).expect_code(0);
        assert!(same(&lab.site.path("large"), &lab.site.path(mode)));
    }
}

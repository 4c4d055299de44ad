//! Every node is killed with `kill -9` during a transfer: the copy is correct, or the error is clear and in time.
//! There is never a wrong or incomplete file.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use common::process::{Ended, Process};
use common::site::{STORAGE, Site};
use common::{eventually, pattern, scaled};

/// Returns a length that is long enough for a kill during the transfer.
fn length() -> usize {
    scaled(96 << 20, 512 << 20)
}
/// Seconds after which a call without an answer fails: longer than a restart takes.
const PATIENT: &str = "30";
/// Number of bytes after which the transfer counts as in progress.
const MIDDLE: u64 = 4 << 20;

/// Returns the address of a stored file.
fn stored(name: &str) -> String {
    format!("lnet:{STORAGE}:/{name}")
}

/// Three nodes as processes, and one long file to transfer.
struct Carriage {
    site: Site,
    data: Vec<u8>,
    router: Option<Process>,
    storage: Option<Process>,
}

impl Carriage {
    fn prepare() -> Self {
        let site = Site::new();
        site.write_routed_nodes();
        fs::create_dir(site.path("kept")).unwrap();
        fs::create_dir(site.path("back")).unwrap();
        let data = pattern(length());
        site.write("sent", &data);
        let router = Some(site.start_node("router"));
        let mut carriage = Self {
            site,
            data,
            router,
            storage: None,
        };
        carriage.start_storage();
        carriage
    }

    fn start_storage(&mut self) {
        let mut serve = self
            .site
            .command("storage", &["store", "serve", "--identity", "server"]);
        serve.arg(self.kept());
        let storage = Process::start(serve);
        storage.wait_for_output("ready: ");
        self.storage = Some(storage);
    }

    fn kill_router_and_start_it_again(&mut self) {
        self.router.take().unwrap().kill();
        self.router = Some(self.site.start_node("router"));
    }

    fn kill_storage_and_start_it_again(&mut self) {
        self.storage.take().unwrap().kill();
        self.start_storage();
    }

    fn kept(&self) -> PathBuf {
        self.site.path("kept")
    }

    fn client(&self, words: &[&str]) -> Command {
        self.site.command("client", &[&["files"], words].concat())
    }

    /// Stores the file. Calls without an answer fail after `deadline` seconds.
    fn put(&self, deadline: &str) -> Process {
        let sent = self.site.path("sent");
        let words = ["put", sent.to_str().unwrap(), &stored("file")];
        Process::start(self.client(&[&words[..], &["--deadline", deadline]].concat()))
    }

    /// Fetches the file.
    fn get(&self, deadline: &str) -> Process {
        let back = self.site.path("back/file");
        let words = ["get", &stored("file"), back.to_str().unwrap()];
        Process::start(self.client(&[&words[..], &["--deadline", deadline]].concat()))
    }

    /// Puts the file directly into the directory of the service, as if it had been stored before.
    fn keep_file(&self) {
        fs::copy(self.site.path("sent"), self.kept().join("file")).unwrap();
    }

    fn check_copy(&self, ended: &Ended, copy: &Path) {
        check_copy(&self.data, ended, copy);
    }

    /// Ends the services. The storage node must have the complete file or nothing.
    fn end_clean(mut self) {
        self.storage.take().unwrap().stop().expect_code(0);
        self.router.take().unwrap().stop().expect_code(0);
        for directory in ["kept", "back"] {
            let left = names(&self.site.path(directory));
            assert!(
                left.is_empty() || left == ["file"],
                "left in {directory}: {left:?}"
            );
        }
    }
}

/// Checks that the transfer succeeded with a correct copy, or failed with a message and without a copy.
fn check_copy(data: &[u8], ended: &Ended, copy: &Path) {
    match ended.code() {
        Some(0) => assert!(
            fs::read(copy).unwrap() == data,
            "the copy is wrong: {ended:?}"
        ),
        Some(1) => {
            assert!(ended.err.contains("finerail: "), "no message: {ended:?}");
            assert!(
                !copy.exists(),
                "a copy of a transfer that failed: {ended:?}"
            );
        }
        _ => panic!("{ended:?}"),
    }
    assert!(!ended.err.contains("panicked"), "{ended:?}");
    println!("{}{}", ended.out, ended.err);
}

/// Returns every name in a directory, including hidden ones.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// Returns the number of bytes in the files of a directory, complete or not.
fn bytes_below(directory: &Path) -> u64 {
    let mut left = vec![directory.to_owned()];
    let mut bytes = 0;
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            // The file may have been removed since.
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => left.push(entry.path()),
                Ok(metadata) => bytes += metadata.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}

/// Waits until a transfer has written some of a file in a directory, but not all of it.
fn wait_for_the_middle(client: &mut Process, directory: &Path) {
    eventually("the transfer is under way", || {
        assert!(
            client.is_running(),
            "it ended too soon: {}",
            client.errors()
        );
        (bytes_below(directory) >= MIDDLE).then_some(())
    });
    assert!(!directory.join("file").exists(), "it is already done");
}

#[test]
fn a_router_killed_during_a_put_and_started_again_costs_time_only() {
    let mut carriage = Carriage::prepare();
    let mut client = carriage.put(PATIENT);
    wait_for_the_middle(&mut client, &carriage.kept());
    carriage.kill_router_and_start_it_again();
    let ended = client.wait();
    carriage.check_copy(&ended, &carriage.kept().join("file"));
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    carriage.end_clean();
}

#[test]
fn a_router_killed_during_a_get_and_started_again_costs_time_only() {
    let mut carriage = Carriage::prepare();
    carriage.keep_file();
    let mut client = carriage.get(PATIENT);
    wait_for_the_middle(&mut client, &carriage.site.path("back"));
    carriage.kill_router_and_start_it_again();
    let ended = client.wait();
    carriage.check_copy(&ended, &carriage.site.path("back/file"));
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    carriage.end_clean();
}

#[test]
fn a_router_that_stays_away_ends_a_put_with_an_error_within_the_deadline() {
    let mut carriage = Carriage::prepare();
    let mut client = carriage.put("6");
    wait_for_the_middle(&mut client, &carriage.kept());
    carriage.router.take().unwrap().kill();
    let killed = Instant::now();
    let ended = client.wait().expect_code(1);
    // The calls in flight end at their deadline. The client's last message may then wait without an answer.
    assert!(
        killed.elapsed() < Duration::from_secs(30),
        "after {:?}",
        killed.elapsed()
    );
    carriage.check_copy(&ended, &carriage.kept().join("file"));
}

#[test]
fn a_storage_node_killed_during_a_put_and_started_again_ends_in_a_copy_or_an_error() {
    let mut carriage = Carriage::prepare();
    let mut client = carriage.put(PATIENT);
    wait_for_the_middle(&mut client, &carriage.kept());
    carriage.kill_storage_and_start_it_again();
    let ended = client.wait();
    carriage.check_copy(&ended, &carriage.kept().join("file"));
    carriage.end_clean();
}

#[test]
fn a_storage_node_killed_during_a_get_and_started_again_costs_time_only() {
    let mut carriage = Carriage::prepare();
    carriage.keep_file();
    let mut client = carriage.get(PATIENT);
    wait_for_the_middle(&mut client, &carriage.site.path("back"));
    carriage.kill_storage_and_start_it_again();
    let ended = client.wait();
    carriage.check_copy(&ended, &carriage.site.path("back/file"));
    assert_eq!(ended.code(), Some(0), "reading can be repeated: {ended:?}");
    carriage.end_clean();
}

#[test]
fn what_was_stored_before_a_storage_node_was_killed_is_whole_afterwards() {
    let mut carriage = Carriage::prepare();
    let small = carriage.site.path("small");
    fs::create_dir(&small).unwrap();
    for number in 0..200_usize {
        fs::write(small.join(number.to_string()), pattern(number * 97)).unwrap();
    }
    let put = carriage.client(&["put", "-r", small.to_str().unwrap(), &stored("small")]);
    let mut client = Process::start(put);
    eventually("some files are stored", || {
        let small = carriage.kept().join("small");
        (small.is_dir() && names(&small).len() >= 20).then_some(())
    });
    carriage.kill_storage_and_start_it_again();
    eventually("the client ends", || (!client.is_running()).then_some(()));
    let ended = client.wait();
    assert!(matches!(ended.code(), Some(0 | 1)), "{ended:?}");
    carriage.storage.take().unwrap().stop().expect_code(0);
    let kept = names(&carriage.kept().join("small"));
    assert!(
        ended.code() == Some(1) || kept.len() == 200,
        "{} of 200 files",
        kept.len()
    );
    for name in kept {
        let number: usize = name.parse().expect("no other file is there");
        let kept = fs::read(carriage.kept().join("small").join(&name)).unwrap();
        assert!(kept == pattern(number * 97), "file {name} is wrong");
    }
}

#[test]
fn a_client_killed_during_a_put_leaves_a_part_and_no_file_at_the_storage_node() {
    let mut carriage = Carriage::prepare();
    let mut client = carriage.put(PATIENT);
    wait_for_the_middle(&mut client, &carriage.kept());
    client.kill();
    assert!(!carriage.kept().join("file").exists());
    // An incomplete file is not listed.
    let listed = common::process::run(carriage.client(&["ls", &stored("")])).expect_code(0);
    assert_eq!(listed.out.trim(), "");
    carriage.storage.take().unwrap().stop().expect_code(0);
    carriage.start_storage();
    let left = names(&carriage.kept());
    assert!(
        left.iter().all(|name| name.starts_with(".finerail-part-")),
        "only what the next put takes up: {left:?}"
    );
    carriage.put(PATIENT).wait().expect_code(0);
    assert_eq!(names(&carriage.kept()), ["file"]);
    carriage.end_clean();
}

#[test]
fn a_client_killed_during_a_get_leaves_no_file_of_that_name() {
    let carriage = Carriage::prepare();
    carriage.keep_file();
    // The service tries to serve the dead client for half a minute, and must serve others at the same time.
    let mut client = carriage.get(PATIENT);
    wait_for_the_middle(&mut client, &carriage.site.path("back"));
    client.kill();
    assert!(!carriage.site.path("back/file").exists());
    // Fetches the file once more, beside the remains of the dead client.
    let ended = carriage.get(PATIENT).wait().expect_code(0);
    carriage.check_copy(&ended, &carriage.site.path("back/file"));
}

/// Runs [`check_copy`] for a client with this exit code and this error, and a copy with one wrong byte.
fn judged_with_a_wrong_copy(code: i32, err: &str) {
    let site = Site::new();
    let copy = site.write("copy", "right data, wronG");
    let ended = Ended {
        status: ExitStatus::from_raw(code << 8),
        out: String::new(),
        err: err.to_owned(),
    };
    check_copy(b"right data, wrong", &ended, &copy);
}

#[test]
#[should_panic(expected = "the copy is wrong")]
fn the_judge_sees_a_wrong_copy() {
    judged_with_a_wrong_copy(0, "");
}

#[test]
#[should_panic(expected = "a copy of a transfer that failed")]
fn the_judge_sees_the_copy_of_a_transfer_that_failed() {
    judged_with_a_wrong_copy(1, "finerail: no answer\n");
}

#[test]
#[should_panic(expected = "no message")]
fn the_judge_sees_a_failure_that_says_nothing() {
    judged_with_a_wrong_copy(1, "");
}

//! The whole path of an I/O node: clients, the daemon and the forwarder. Each of them may die or stand still.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use bmi::Bmi;
use files::dir::LocalDirectory;
use files::reftest::{compare_repeated, steps};
use files::{Caller, Errno, FileSystem, Handle, OUTCOME_UNKNOWN, Place};
use files_bmi::{BmiFiles, ClientOptions, Forwarder, ForwarderOptions};
use nix::sys::signal::Signal;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;
use testkit::QueueTurn;
use zoid::Zoid;

fn is_long() -> bool {
    std::env::var("FINERAIL_LONG").is_ok_and(|value| value == "1")
}

fn at(path: &str) -> Place {
    Place::from_root(path.as_bytes()).unwrap()
}

/// A process that ends with the test.
struct Process(Child);

impl Process {
    /// Starts `finerail zoid …`, and waits for the line that reports that it is ready.
    fn start(arguments: &[&str]) -> (Self, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_finerail"))
            .arg("zoid")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut ready)
            .unwrap();
        assert!(ready.starts_with("ready: "), "{arguments:?}: {ready}");
        (Self(child), ready)
    }

    fn signal(&self, signal: Signal) {
        testkit::process::signal(self.0.id(), signal);
    }

    /// Kills the process, so that it cannot clean up.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Returns the resident memory in bytes.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib << 10
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended before.
        let _killed = self.0.kill();
        let _waited = self.0.wait();
    }
}

/// A daemon that can be restarted.
struct Node {
    instance: String,
    directory: TempDir,
    daemon: Process,
    settings: Vec<String>,
    _turn: QueueTurn,
}

impl Node {
    fn new(settings: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let turn = QueueTurn::share();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let instance = format!("fw{}-{number}", std::process::id());
        let directory = TempDir::new().unwrap();
        let path = directory.path().to_str().unwrap();
        let own = ["daemon", "--instance", &instance, "--directory", path];
        let settings: Vec<String> = own
            .iter()
            .chain(settings)
            .map(|&text| text.to_owned())
            .collect();
        let daemon = Self::daemon(&settings);
        Self {
            instance,
            directory,
            daemon,
            settings,
            _turn: turn,
        }
    }

    fn daemon(settings: &[String]) -> Process {
        let arguments: Vec<&str> = settings.iter().map(String::as_str).collect();
        Process::start(&arguments).0
    }

    /// Kills the daemon and starts a new one.
    fn restart(&mut self) {
        self.daemon.kill();
        self.daemon = Self::daemon(&self.settings);
    }

    fn options(&self) -> zoid::Options {
        zoid::Options {
            instance: self.instance.parse().unwrap(),
            socket: Some(self.socket()),
            pipelined: true,
            client_connect: Duration::from_secs(60),
            ..zoid::Options::default()
        }
    }

    fn socket(&self) -> PathBuf {
        self.directory
            .path()
            .join(format!("zbmi.{}.sock", self.instance))
    }

    fn client(&self) -> BmiFiles {
        let bmi = Bmi::builder()
            .method(Zoid::new(self.options()))
            .start()
            .unwrap();
        BmiFiles::connect(Arc::new(bmi), "zoid://", ClientOptions::default()).unwrap()
    }

    fn server(&self) -> Arc<Bmi> {
        let method = Zoid::new(self.options());
        Arc::new(
            Bmi::builder()
                .method(method)
                .listen("zoid://")
                .start()
                .unwrap(),
        )
    }

    /// Starts a forwarder as a process.
    fn forward(&self, export: &Path, more: &[&str]) -> Process {
        let export = format!("dir:{}", export.display());
        let directory = self.directory.path().to_str().unwrap();
        let own = [
            "forward",
            &export,
            "--instance",
            &self.instance,
            "--directory",
            directory,
        ];
        let arguments: Vec<&str> = own.iter().chain(more).copied().collect();
        Process::start(&arguments).0
    }
}

impl Drop for Node {
    /// Removes the queues that a killed daemon leaves, because a user has few of them.
    fn drop(&mut self) {
        self.daemon.kill();
        let directory = self.directory.path();
        let cleaned = Command::new(env!("CARGO_BIN_EXE_finerail"))
            .args(["zoid", "daemon", "--cleanup", "--instance", &self.instance])
            .arg("--directory")
            .arg(directory)
            .stdout(Stdio::null())
            .status();
        assert!(cleaned.unwrap().success());
    }
}

fn local(path: &Path) -> Arc<dyn FileSystem> {
    Arc::new(LocalDirectory::open(path, files::dir::Options::default()).unwrap())
}

const SMALL: [&str; 2] = ["--total", "96M"];

#[test]
fn random_operations_give_what_the_model_gives_while_the_daemon_is_killed() {
    let mut node = Node::new(&SMALL);
    let server = node.server();
    let clients = [node.client(), node.client(), node.client()];
    let over = AtomicBool::new(false);
    let restarts = AtomicU32::new(0);
    let (over, restarts) = (&over, &restarts);
    thread::scope(|scope| {
        // If this thread fails, the other thread must end too.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let _over = Over(over);
        let node = &mut node;
        let killer = scope.spawn(move || {
            while !over.load(Ordering::SeqCst) {
                node.restart();
                restarts.fetch_add(1, Ordering::SeqCst);
                thread::park_timeout(Duration::from_millis(250));
            }
        });
        let mut runner = TestRunner::new(ProptestConfig {
            cases: if is_long() { 500 } else { 10 },
            source_file: Some(file!()),
            ..ProptestConfig::default()
        });
        let forwarder: RefCell<Option<Forwarder>> = RefCell::new(None);
        let result = runner.run(&steps(60, 3), |steps| {
            let export = TempDir::new().unwrap();
            *forwarder.borrow_mut() = None;
            let begun = Forwarder::start(
                Arc::clone(&server),
                local(export.path()),
                ForwarderOptions::default(),
            );
            *forwarder.borrow_mut() = Some(begun.unwrap());
            // A client that used the previous forwarder learns of the new one.
            for client in &clients {
                client.null(&Caller::default()).unwrap();
            }
            let clients: Vec<&dyn FileSystem> = clients.iter().map(|client| client as _).collect();
            let before = restarts.load(Ordering::SeqCst);
            killer.thread().unpark();
            let compared = compare_repeated(&clients, &Caller::default(), &steps);
            // The daemon is killed in each case, even if the operations are fast.
            testkit::eventually("the daemon is started again", || {
                restarts.load(Ordering::SeqCst) > before
            });
            compared.map_err(|mismatch| TestCaseError::fail(mismatch.to_string()))
        });
        result.unwrap_or_else(|error| panic!("{error}"));
        let counts = forwarder.borrow().as_ref().unwrap().counters().snapshot();
        println!("the last of them: {counts:?}");
        *forwarder.borrow_mut() = None;
    });
    let lost: u64 = clients
        .iter()
        .map(|client| client.counters().snapshot().lost)
        .sum();
    println!(
        "{} restarts, {lost} attempts lost",
        restarts.load(Ordering::SeqCst)
    );
    assert!(restarts.load(Ordering::SeqCst) > 3);
    server.finalize();
}

#[test]
fn a_forwarder_that_was_killed_leaves_stale_handles_and_no_operation_done_twice() {
    let node = Node::new(&SMALL);
    let export = TempDir::new().unwrap();
    let mut forwarder = node.forward(export.path(), &[]);
    let (files, caller) = (node.client(), Caller::default());
    let file = files
        .create(&caller, at("f"), 0o644, true)
        .unwrap()
        .0
        .handle;
    forwarder.kill();
    let again = thread::scope(|scope| {
        let waits = scope.spawn(|| files.mkdir(&caller, at("d"), 0o755));
        let _forwarder = node.forward(export.path(), &[]);
        let made = waits.join().unwrap();
        // The call was sent before or after the forwarder was replaced: the result must match the files, and the call
        // must not be executed twice.
        match made {
            Ok(_) => assert!(export.path().join("d").is_dir()),
            Err(errno) => assert_eq!(errno, OUTCOME_UNKNOWN),
        }
        assert_eq!(files.getattr(&caller, file).unwrap_err(), Errno::ESTALE);
        files
            .lookup(&caller, at("f"))
            .map(|entry| entry.attributes.size)
    });
    assert_eq!(again, Ok(0));
}

#[test]
fn a_client_goes_on_when_the_daemon_is_killed_in_the_middle_of_a_large_transfer() {
    let mut node = Node::new(&SMALL);
    let export = TempDir::new().unwrap();
    let _forwarder = node.forward(export.path(), &[]);
    let (files, caller) = (node.client(), Caller::default());
    let file = files
        .create(&caller, at("f"), 0o644, true)
        .unwrap()
        .0
        .handle;
    let bytes = testkit::pattern(64 << 20);
    for _ in 0..3 {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(files.write(&caller, file, 0, &bytes), Ok(bytes.len()));
                let mut back = vec![0; bytes.len()];
                assert_eq!(files.read(&caller, file, 0, &mut back), Ok(bytes.len()));
                assert!(back == bytes);
                done.store(true, Ordering::SeqCst);
            });
            node.restart();
        });
        assert!(done.load(Ordering::SeqCst));
    }
    println!("{:?}", files.counters().snapshot());
}

#[test]
fn the_command_says_what_it_serves_counts_and_drains() {
    let node = Node::new(&SMALL);
    let export = TempDir::new().unwrap();
    let metrics = testkit::port();
    let port = metrics.to_string();
    let mut forwarder = node.forward(
        export.path(),
        &["--metrics", &port, "--listen", "tcp://127.0.0.1:0"],
    );
    let (files, caller) = (node.client(), Caller::default());
    files.mkdir(&caller, at("d"), 0o755).unwrap();
    let stat = |more: &[&str]| {
        let directory = node.directory.path().to_str().unwrap();
        let own = [
            "zoid",
            "forward",
            "--stat",
            "--instance",
            &node.instance,
            "--directory",
            directory,
        ];
        let out = Command::new(env!("CARGO_BIN_EXE_finerail"))
            .args(own)
            .args(more)
            .output()
            .unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    let (code, text) = stat(&["--json"]);
    assert_eq!(code, Some(0));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        json["exchanges"], 2,
        "a greeting, and the directory: {json}"
    );
    assert!(stat(&[]).1.contains("memory_limit_bytes"));
    let mut scrape = std::net::TcpStream::connect(("127.0.0.1", metrics)).unwrap();
    std::io::Write::write_all(&mut scrape, b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut scrape, &mut text).unwrap();
    assert!(
        text.contains("finerail_forward_exchanges_total 2\n"),
        "{text}"
    );
    forwarder.signal(Signal::SIGTERM);
    assert_eq!(forwarder.0.wait().unwrap().code(), Some(0));
    assert_eq!(stat(&[]).0, Some(1));
    assert!(
        !Path::new(
            &node
                .directory
                .path()
                .join(format!("forward.{}.sock", node.instance))
        )
        .exists()
    );
}

#[test]
fn a_forwarder_that_stands_still_costs_no_more_than_the_deadline() {
    let node = Node::new(&SMALL);
    let export = TempDir::new().unwrap();
    let forwarder = node.forward(export.path(), &[]);
    let bmi = Bmi::builder()
        .method(Zoid::new(node.options()))
        .start()
        .unwrap();
    let options = ClientOptions {
        deadline: Duration::from_secs(1),
        ..ClientOptions::default()
    };
    let files = BmiFiles::connect(Arc::new(bmi), "zoid://", options).unwrap();
    let caller = Caller::default();
    files.null(&caller).unwrap();
    forwarder.signal(Signal::SIGSTOP);
    assert_eq!(files.null(&caller), Err(Errno::ETIMEDOUT));
    assert_eq!(
        files.mkdir(&caller, at("d"), 0o755).unwrap_err(),
        OUTCOME_UNKNOWN
    );
    forwarder.signal(Signal::SIGCONT);
    // The forwarder then executes what it had received, and the client continues.
    testkit::eventually("the directory is there", || {
        export.path().join("d").is_dir()
    });
    files.lookup(&caller, at("d")).unwrap();
}

#[test]
fn a_client_that_stands_still_in_the_middle_holds_nobody_up_and_finishes_later() {
    let node = Node::new(&SMALL);
    let export = TempDir::new().unwrap();
    let place = TempDir::new().unwrap();
    let bytes = testkit::pattern(96 << 20);
    let source = place.path().join("source");
    std::fs::write(&source, &bytes).unwrap();
    let _forwarder = node.forward(export.path(), &["--memory", "8", "--turn-ms", "20"]);
    let child = Command::new(env!("CARGO_BIN_EXE_finerail"))
        .args(["files", "put"])
        .args([source.to_str().unwrap(), "zoid:/big"])
        .env("ZOID_INSTANCE", &node.instance)
        .env("ZOID_SOCKET", node.socket())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut client = Process(child);
    let written = || {
        let files = std::fs::read_dir(export.path()).unwrap();
        files
            .filter_map(|file| Some(file.ok()?.metadata().ok()?.len()))
            .max()
            .unwrap_or(0)
    };
    testkit::eventually("it writes", || written() > 0);
    client.signal(Signal::SIGSTOP);
    let (files, caller) = (node.client(), Caller::default());
    let file = files
        .create(&caller, at("other"), 0o644, true)
        .unwrap()
        .0
        .handle;
    for _ in 0..4 {
        assert_eq!(
            files.write(&caller, file, 0, &bytes[..20 << 20]),
            Ok(20 << 20)
        );
    }
    client.signal(Signal::SIGCONT);
    assert!(client.0.wait().unwrap().success());
    assert!(std::fs::read(export.path().join("big")).unwrap() == bytes);
}

#[test]
fn sixty_four_clients_lose_nothing_and_memory_stays_within_its_pools() {
    const CLIENTS: usize = 64;
    let node = Node::new(&["--total", "160M"]);
    let export = TempDir::new().unwrap();
    let forwarder = node.forward(export.path(), &["--memory", "64"]);
    let seconds = Duration::from_secs(if is_long() { 60 } else { 4 });
    let before = (node.daemon.resident(), forwarder.resident());
    let caller = Caller::default();
    let over = AtomicBool::new(false);
    let rounds: u32 = thread::scope(|scope| {
        let (node, caller, over) = (&node, &caller, &over);
        let work = move |number: usize| work(&node.client(), caller, number, over);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        thread::park_timeout(seconds);
        over.store(true, Ordering::SeqCst);
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum()
    });
    let after = (node.daemon.resident(), forwarder.resident());
    println!("{rounds} rounds of {CLIENTS} clients; resident before {before:?}, after {after:?}");
    assert!(rounds as usize >= CLIENTS);
    // The segment is 160 MiB, and both processes have its pages mapped or written. The rest of the limit is their own
    // memory.
    let limit = (160 << 20) + (64 << 20);
    assert!(after.0 < limit && after.1 < limit, "{after:?}");
}

/// Writes, reads and checks files of all sizes until `over` is set. Returns the number of rounds.
fn work(files: &BmiFiles, caller: &Caller, number: usize, over: &AtomicBool) -> u32 {
    let name = format!("d{number}");
    files.mkdir(caller, at(&name), 0o755).unwrap();
    let mut rounds = 0;
    while rounds == 0 || !over.load(Ordering::SeqCst) {
        let length = [100, 4096, 70_000, 1 << 20, (3 << 20) + 5][rounds as usize % 5];
        let path = format!("{name}/f{}", rounds % 7);
        let file = files
            .create(caller, at(&path), 0o644, false)
            .unwrap()
            .0
            .handle;
        let mut bytes = testkit::pattern(length + number);
        bytes.rotate_left(rounds as usize % 200);
        assert_eq!(files.write(caller, file, 0, &bytes), Ok(bytes.len()));
        let mut back = vec![0; bytes.len()];
        assert_eq!(files.read(caller, file, 0, &mut back), Ok(bytes.len()));
        assert!(back == bytes, "client {number}, round {rounds}");
        files.remove(caller, at(&path), Some(false)).unwrap();
        rounds += 1;
    }
    assert_eq!(
        files
            .readdir(caller, Handle::ROOT, 0, 10, false)
            .map(|_| ()),
        Ok(())
    );
    rounds
}

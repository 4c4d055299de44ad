//! A daemon in a process of its own, and a raw client and a raw server that exchange bytes with it.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "each test file uses some of it, and a test fails by panicking"
)]

pub mod client;
pub mod server;

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use zoid_proto::Instance;
use zoidd::{Daemon, Options};

/// A limit that only a hang reaches.
pub const LONG: Duration = Duration::from_secs(60);

const SETTINGS: &str = "ZOIDD_TEST_SETTINGS";

/// The body of the test that other tests start as a process: a daemon, if the environment asks for one.
pub fn be_a_daemon() {
    let Ok(settings) = env::var(SETTINGS) else {
        return;
    };
    let mut options = Options::default();
    for line in settings.lines() {
        let (name, value) = line.split_once('=').unwrap();
        match name {
            "failpoint" => options.failpoints.add(value.parse().unwrap()),
            _ => options.set("test", name, value).unwrap(),
        }
    }
    let daemon = Daemon::open(options).unwrap();
    let address = daemon.address().map_or_else(String::new, |a| a.to_string());
    println!("\nready: {} {address}", daemon.removed());
    let stopper = daemon.stopper();
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM]).unwrap();
    thread::spawn(move || {
        signals.forever().next();
        stopper.stop();
    });
    daemon.run().unwrap();
    std::process::exit(0);
}

/// A running daemon.
pub struct Process {
    pub instance: Instance,
    pub directory: TempDir,
    settings: String,
    child: Child,
    /// Its output when it was ready.
    pub ready: String,
}

impl Process {
    /// Unless the settings say otherwise, small, so that many fit, and with heartbeats that no party
    /// misses because the machine is busy with something else.
    pub fn start(settings: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let instance = format!("t{}-{number}", std::process::id());
        let directory = tempfile::tempdir().unwrap();
        let mut all = format!(
            "instance={instance}\ndirectory={}\ntotal=16M\nprefault=off\n\
             heartbeat-ms=60000\n",
            directory.path().display()
        );
        for (name, value) in settings {
            all += &format!("{name}={value}\n");
        }
        let (child, ready) = spawn(&all);
        Self {
            instance: instance.parse().unwrap(),
            directory,
            settings: all,
            child,
            ready,
        }
    }

    /// Another daemon with the same settings, but no failpoints; the old one must be dead.
    pub fn restart(&mut self) {
        let lines = self.settings.lines();
        let kept: Vec<&str> = lines
            .filter(|line| !line.starts_with("failpoint"))
            .collect();
        (self.child, self.ready) = spawn(&(kept.join("\n") + "\n"));
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join(self.instance.socket_file())
    }

    /// The socket of its metrics.
    pub fn metrics_socket(&self) -> std::path::PathBuf {
        let name = format!("zbmi.{}.metrics", self.instance);
        self.directory.path().join(name)
    }

    /// Where it listens over TCP.
    pub fn address(&self) -> String {
        self.ready.rsplit(' ').next().unwrap().to_owned()
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        testkit::process::signal(self.child.id(), signal);
    }

    /// Dead at once, with nothing cleaned up.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end, which comes by itself. `true` when it ended in good order.
    pub fn wait(&mut self) -> bool {
        let handle = sys::ProcessHandle::open(self.child.id());
        if let Ok(handle) = handle {
            let has_ended = handle.wait(LONG).unwrap();
            assert!(has_ended, "the daemon does not end: {:?}", self.metrics());
        }
        self.child.wait().unwrap().success()
    }

    /// Ends it gracefully.
    pub fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        assert!(self.wait());
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// What it has counted that is not zero, if it still says so.
    fn metrics(&self) -> Vec<(String, f64)> {
        let metrics = zoidd::read_metrics(&self.instance, self.directory.path());
        let named = metrics.unwrap_or_default().into_iter();
        let counted = named.map(|metric| (metric.name.to_string(), metric.value));
        counted.filter(|(_, value)| *value != 0.0).collect()
    }

    /// The value of a metric.
    pub fn metric(&self, name: &str) -> f64 {
        let metrics = zoidd::read_metrics(&self.instance, self.directory.path()).unwrap();
        let found = metrics.iter().find(|metric| metric.name == name);
        found.unwrap_or_else(|| panic!("no metric {name}")).value
    }

    /// Waits until a metric has a value.
    pub fn until(&self, name: &str, value: f64) {
        eventually(&format!("{name} = {value}"), || self.metric(name) == value);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
        let cleaned = zoidd::cleanup(&self.instance, Some(self.directory.path()));
        if !thread::panicking() {
            cleaned.unwrap();
        }
    }
}

fn spawn(settings: &str) -> (Child, String) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "daemon_for_the_other_tests", "--nocapture"])
        .env(SETTINGS, settings)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = loop {
        match lines.next() {
            Some(line) => {
                if let Some(ready) = line.unwrap().strip_prefix("ready: ") {
                    break ready.to_owned();
                }
            }
            // A failpoint ended it before it was ready.
            None => break String::new(),
        }
    };
    // Nobody reads what the harness says at the end, but the pipe must not break before.
    thread::spawn(move || lines.for_each(drop));
    (child, ready)
}

/// Waits for a condition.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LONG, "never: {what}");
        thread::yield_now();
    }
}

/// A process that does nothing, to be killed: a server's identity.
pub fn idle_process() -> Child {
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped()).spawn().unwrap()
}

/// Queues of the instance that exist: its control queue and reply queues of a process.
pub fn queues(instance: &Instance, process: u32) -> usize {
    let replies = (0..64).map(|slot| instance.reply_queue(process, slot));
    let names = replies.chain([instance.control_queue()]);
    let exists = |name: &String| sys::MessageQueue::open(name, sys::QueueAccess::Send).is_ok();
    names.filter(exists).count()
}

/// Whether the instance's segment exists.
pub fn has_segment(instance: &Instance) -> bool {
    sys::SharedMemory::open(&instance.segment()).is_ok()
}

/// Names that a directory holds.
pub fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

//! The whole path as processes. Each is a command that a user can type.
//!
//! ```text
//!  client ──▶ zoid daemon ◀──▶ zoid forward ──▶ node ──▶ store serve ──▶ DIR/storage
//!  mount  ──▶                  127.78.0.1@tcp   router   127.78.1.3@tcp1
//! ```
//!
//! The nodes have loopback addresses and a port of their own, and the daemon has an instance of its own, so
//! services that run on the machine are not disturbed.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sys::ReservedPort;
use tempfile::TempDir;

use crate::child::cpu_time_of;

/// The time limit for a process to become ready, or to stop.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two checks of a condition.
const LOOK: Duration = Duration::from_millis(5);
/// The NIDs of the nodes: the I/O node, the router with one interface in each net, and the gateway.
const ION: &str = "127.78.0.1@tcp";
const ROUTER: [&str; 2] = ["127.78.0.2@tcp", "127.78.1.2@tcp1"];
const GATEWAY: &str = "127.78.1.3@tcp1";

/// The directories of a measurement.
pub(super) struct Places {
    /// Files: the storage, the mount, and the source of small files. They are in memory if the system has such a
    /// directory.
    files: TempDir,
    /// Sockets, configurations, logs of processes, and the gateway's log of replies. They are on a disk.
    state: TempDir,
}

impl Places {
    /// Makes the directories. Files are below `directory`, or below the system's directory in memory.
    pub(super) fn make(directory: Option<&Path>) -> anyhow::Result<Self> {
        let memory = Path::new("/dev/shm");
        let above = match directory {
            Some(directory) => directory.to_owned(),
            None if memory.is_dir() => memory.to_owned(),
            None => std::env::temp_dir(),
        };
        let make = |above: &Path| {
            let made = tempfile::Builder::new()
                .prefix("finerail-bench-")
                .tempdir_in(above);
            made.with_context(|| format!("cannot make a directory in {}", above.display()))
        };
        let places = Self {
            files: make(&above)?,
            state: make(&std::env::temp_dir())?,
        };
        for directory in [places.storage(), places.mount(), places.local()] {
            fs::create_dir(&directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        for directory in ["zoid", "replies", "log"] {
            fs::create_dir(places.state().join(directory)).context("cannot make a directory")?;
        }
        Ok(places)
    }

    /// Returns the directory that the gateway exports.
    pub(super) fn storage(&self) -> PathBuf {
        self.files.path().join("storage")
    }

    /// Returns the directory where the storage is mounted.
    pub(super) fn mount(&self) -> PathBuf {
        self.files.path().join("mount")
    }

    /// Returns a directory beside the storage, for the same work without a path.
    pub(super) fn local(&self) -> PathBuf {
        self.files.path().join("local")
    }

    /// Returns the directory for the state of the processes.
    pub(super) fn state(&self) -> &Path {
        self.state.path()
    }

    /// Returns the daemon's socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.state().join("zoid/bench.sock")
    }

    /// Returns the name of the daemon. Only this bench uses it.
    pub(super) fn instance(&self) -> String {
        format!("bench-path-{}", std::process::id())
    }
}

/// Returns the command `finerail`, from the file beside this program.
pub(super) fn finerail() -> anyhow::Result<Command> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let beside = own.with_file_name("finerail");
    ensure!(
        beside.is_file(),
        "{} is not there: the bench runs its commands",
        beside.display()
    );
    let mut command = Command::new(beside);
    command.stdin(Stdio::null());
    Ok(command)
}

/// A process of the path.
pub(super) struct Service {
    pub(super) name: &'static str,
    child: Child,
}

impl Service {
    /// Starts a command, and waits until it reports that it is ready.
    fn start(name: &'static str, places: &Places, words: &[&str]) -> anyhow::Result<Self> {
        let path = places.state().join("log").join(name);
        let log = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let mut command = finerail()?;
        command
            .args(words)
            .env("ZOID_SOCKET", places.socket())
            .env("ZOID_INSTANCE", places.instance())
            .stdout(log.try_clone().context("cannot share a file")?)
            .stderr(log);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start the {name}"))?;
        let mut service = Self { name, child };
        let begun = Instant::now();
        loop {
            let text = fs::read_to_string(&path).unwrap_or_default();
            if text.lines().any(|line| line.starts_with("ready")) {
                return Ok(service);
            }
            if let Some(status) = service.child.try_wait()? {
                bail!("the {name} ended ({status}): {}", text.trim());
            }
            ensure!(
                begun.elapsed() < PATIENCE,
                "the {name} is not ready: {}",
                text.trim()
            );
            thread::sleep(LOOK);
        }
    }

    /// Returns the CPU time so far.
    pub(super) fn cpu_time(&self) -> anyhow::Result<Duration> {
        cpu_time_of(self.child.id())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let begun = Instant::now();
        let asked = i32::try_from(self.child.id())
            .is_ok_and(|id| kill(Pid::from_raw(id), Signal::SIGTERM).is_ok());
        while asked && begun.elapsed() < PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(LOOK);
        }
        // The process may have ended by itself; the wait removes its entry in the system.
        let _already_gone = self.child.kill();
        let _already_reaped = self.child.wait();
    }
}

/// All processes of the path. A process ends before those that it depends on.
pub(super) struct Chain {
    /// The mount, or the reason why there is none.
    pub(super) mount: Result<Service, String>,
    /// The forwarder, the daemon, the gateway and the router.
    services: Vec<Service>,
    _port: ReservedPort,
}

impl Chain {
    /// Starts the path.
    pub(super) fn start(places: &Places, congestion: &str) -> anyhow::Result<Self> {
        let reserved = ReservedPort::on(Ipv4Addr::UNSPECIFIED).context("no TCP port is free")?;
        let port = reserved.number().to_string();
        let node = |name: &'static str, words: &[&str], last: &[&str]| {
            let config = places.state().join(format!("{name}.yaml"));
            fs::write(&config, configuration(name)).context("cannot write a configuration")?;
            let config = config.to_string_lossy();
            let own = [
                "--config",
                &config,
                "--port",
                &port,
                "--congestion",
                congestion,
            ];
            Service::start(name, places, &[words, &own, last].concat())
        };
        let (storage, replies) = (places.storage(), places.state().join("replies"));
        let (storage, replies) = (storage.to_string_lossy(), replies.to_string_lossy());
        let instance = places.instance();
        let (zoid, socket) = (places.state().join("zoid"), places.socket());
        let (zoid, socket) = (zoid.to_string_lossy(), socket.to_string_lossy());
        let daemon = ["--instance", &instance, "--directory", &zoid];
        let segment = ["--socket", &socket, "--total", "256M"];
        let export = format!("lnet:{GATEWAY}");
        let mut services = vec![
            node("router", &["node"], &[])?,
            node(
                "gateway",
                &["store", "serve"],
                &["--identity", "server", "--state", &replies, &storage],
            )?,
            Service::start(
                "daemon",
                places,
                &[&["zoid", "daemon"], &daemon[..], &segment].concat(),
            )?,
            node(
                "forwarder",
                &["zoid", "forward"],
                &[&daemon[..], &[&export]].concat(),
            )?,
        ];
        services.reverse();
        let directory = places.mount();
        let words = ["mount", "zoid:/", &directory.to_string_lossy()];
        let mount = Service::start("mount", places, &words).map_err(|error| format!("{error:#}"));
        Ok(Self {
            mount,
            services,
            _port: reserved,
        })
    }

    /// Returns the processes that carry files, in the order of the path.
    pub(super) fn services(&self) -> Vec<&Service> {
        let order = ["mount", "daemon", "forwarder", "router", "gateway"];
        let all: Vec<&Service> = self.mount.iter().chain(&self.services).collect();
        let named = |name| {
            all.iter()
                .find(move |service| service.name == name)
                .copied()
        };
        order.into_iter().filter_map(named).collect()
    }
}

/// Returns the configuration of a node.
fn configuration(name: &str) -> String {
    let (nids, rest) = match name {
        "router" => (&ROUTER[..], "routing:\n  enable: 1\n".to_owned()),
        "gateway" => (&[GATEWAY][..], route("tcp", ROUTER[1])),
        _ => (&[ION][..], route("tcp1", ROUTER[0])),
    };
    let net = |nid: &&str| {
        let net = nid.split_once('@').map_or("tcp", |(_, net)| net);
        format!("- net type: {net}\n  local NI(s):\n  - nid: {nid}\n")
    };
    let nets: String = nids.iter().map(net).collect();
    format!("net:\n{nets}{rest}")
}

fn route(net: &str, gateway: &str) -> String {
    format!("route:\n- net: {net}\n  gateway: {gateway}\n")
}

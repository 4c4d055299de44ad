//! The processes of the demo: the I/O-node daemon, the forwarder, routers, storage gateways, compute processes.
//!
//! Each process is this program with a command that any user can type. The output of a process goes to a file
//! of its own, so that an error message can show the last lines.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fgr::config::NodeRole;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::plan::{CHECK_INTERVAL, IO_NODE, Plan, PlannedNode};
use super::world::{COMPUTE, World};

/// How long a process may take to become ready, or to stop.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// The interval at which a condition is checked.
const LOOK: Duration = Duration::from_millis(10);
/// The name that both gateways give their common directory.
const EXPORT_NAME: &str = "demo";
/// Milliseconds between two heartbeats of the daemon.
pub(super) const HEARTBEAT_MS: u64 = 500;
/// How long the daemon keeps the place of a client whose connection broke, in milliseconds.
const REATTACH_MS: u64 = 3000;

/// A process that runs until it is stopped.
pub(super) struct Service {
    name: String,
    host: String,
    words: Vec<String>,
    log: PathBuf,
    /// The daemon's socket. Only clients of the daemon have one.
    socket: Option<PathBuf>,
    /// The control socket of the node, and the file with the rules that the node gets there.
    rules: Option<(PathBuf, PathBuf)>,
    child: Option<Child>,
}

impl Service {
    fn new(name: &str, host: &str, log_directory: &Path, words: Vec<String>) -> Self {
        Self {
            name: name.to_owned(),
            host: host.to_owned(),
            words,
            log: log_directory.join(format!("{name}.log")),
            socket: None,
            rules: None,
            child: None,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Starts the process and waits until it is ready.
    pub(super) fn start(&mut self, world: &World) -> anyhow::Result<()> {
        let length = fs::metadata(&self.log).map_or(0, |file| file.len());
        self.launch(world)?;
        let ready = || {
            let text = fs::read_to_string(&self.log).unwrap_or_default();
            let new = text.get(length as usize..).unwrap_or_default();
            new.lines().any(|line| line.starts_with("ready"))
        };
        let begun = Instant::now();
        while !ready() {
            let child = self.child.as_mut().context("the process has ended")?;
            if let Some(status) = child.try_wait()? {
                bail!("{} ended ({status}): {}", self.name, last_lines(&self.log));
            }
            if begun.elapsed() > READY_WITHIN {
                bail!("{} is not ready: {}", self.name, last_lines(&self.log));
            }
            thread::sleep(LOOK);
        }
        match &self.rules {
            Some((control, rules)) => add_rules(control, rules),
            None => Ok(()),
        }
    }

    fn launch(&mut self, world: &World) -> anyhow::Result<()> {
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.with_context(|| format!("cannot write {}", self.log.display()))?;
        let mut command = this_program(&self.words)?;
        command.stdout(log.try_clone()?).stderr(log);
        if let Some(socket) = &self.socket {
            command.env("ZOID_SOCKET", socket);
        }
        self.child = Some(world.spawn(&self.host, &mut command)?);
        Ok(())
    }

    /// Kills the process with SIGKILL.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().context("cannot kill a process")?;
            child.wait().context("cannot wait for a process")?;
        }
        Ok(())
    }

    /// Sends a signal, such as `SIGSTOP`, to the process.
    pub(super) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let child = self.child.as_ref().context("the process does not run")?;
        let id = i32::try_from(child.id()).context("a process id beyond 2^31")?;
        kill(Pid::from_raw(id), signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Asks the process to end, and waits until it has ended.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        if self.child.is_none() {
            return Ok(());
        }
        self.signal(Signal::SIGTERM)?;
        let begun = Instant::now();
        while let Some(child) = self.child.as_mut() {
            if let Some(status) = child.try_wait()? {
                self.child = None;
                return ended_well(&self.name, status, &self.log);
            }
            if begun.elapsed() > READY_WITHIN {
                bail!(
                    "{} did not stop within {} s",
                    self.name,
                    READY_WITHIN.as_secs()
                );
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // SIGKILL also ends a process that SIGSTOP has stopped.
        if let Some(mut child) = self.child.take() {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}

fn ended_well(name: &str, status: ExitStatus, log: &Path) -> anyhow::Result<()> {
    if status.success() {
        return Ok(());
    }
    bail!("{name} ended with {status}: {}", last_lines(log));
}

/// Adds the rules of the plan to a node. Kernels get rules from `lnetctl`, so the YAML does not contain them.
fn add_rules(control: &Path, rules: &Path) -> anyhow::Result<()> {
    let text = fs::read_to_string(rules);
    let text = text.with_context(|| format!("cannot read {}", rules.display()))?;
    for line in text.lines() {
        let mut words = vec![
            "ctl".to_owned(),
            "--node".to_owned(),
            control.display().to_string(),
        ];
        words.extend(line.split_whitespace().skip(1).map(str::to_owned));
        let output = this_program(&words)?
            .output()
            .context("cannot run this program")?;
        if !output.status.success() {
            bail!(
                "'{line}' failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
    }
    Ok(())
}

/// Returns a command that runs this program.
pub(super) fn this_program(words: &[String]) -> anyhow::Result<Command> {
    let binary = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(binary);
    command.args(words).stdin(Stdio::null());
    Ok(command)
}

/// Returns the last five lines that a process printed.
fn last_lines(path: &Path) -> String {
    let mut text = Vec::new();
    if let Ok(mut file) = File::open(path) {
        // An unreadable log is treated as empty.
        let _length = file.read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    if lines.is_empty() {
        return format!("nothing was printed to {}", path.display());
    }
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// The services of the demo.
pub(super) struct Cast {
    pub(super) daemon: Service,
    pub(super) forwarder: Service,
    pub(super) routers: Vec<Service>,
    pub(super) gateways: Vec<Service>,
}

/// Settings that all nodes share.
pub(super) struct Stage<'a> {
    pub(super) directory: &'a Path,
    /// The TCP port of every node; `None` is LNet's default port.
    pub(super) port: Option<u16>,
}

impl Stage<'_> {
    fn node_words(&self, node: &PlannedNode) -> Vec<String> {
        let mut words = vec![
            "--config".to_owned(),
            node.config.display().to_string(),
            "--control".to_owned(),
            self.control(&node.name).display().to_string(),
            "--router-check-interval".to_owned(),
            CHECK_INTERVAL.to_string(),
        ];
        if let Some(port) = self.port {
            words.extend(["--port".to_owned(), port.to_string()]);
        }
        words
    }

    /// Returns the path of a node's control socket.
    pub(super) fn control(&self, node: &str) -> PathBuf {
        self.directory.join(format!("{node}.sock"))
    }

    fn service(&self, node: &PlannedNode, words: &[&str]) -> Service {
        let mut words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        words.extend(self.node_words(node));
        let mut service = Service::new(&node.name, &node.name, self.directory, words);
        let rules = node.rules.as_ref();
        service.rules = rules.map(|rules| (self.control(&node.name), rules.clone()));
        service
    }

    fn gateway(&self, node: &PlannedNode) -> anyhow::Result<Service> {
        let state = self.directory.join(format!("state-{}", node.name));
        fs::create_dir_all(&state).with_context(|| format!("cannot make {}", state.display()))?;
        let mut service = self.service(node, &["store", "serve"]);
        let options = ["--identity", "server", "--coherent", EXPORT_NAME, "--state"];
        service.words.extend(options.map(str::to_owned));
        service.words.push(state.display().to_string());
        service.words.push(self.storage().display().to_string());
        Ok(service)
    }

    /// Returns the path of the daemon's socket for compute processes.
    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join("zoid/zbmi.default.sock")
    }

    /// Returns a service that mounts the files as a directory on the host of the compute processes.
    pub(super) fn mount(&self, path: &Path) -> Service {
        let words = ["mount", "zoid:/", &path.display().to_string()].map(str::to_owned);
        let mut service = Service::new("mount", COMPUTE, self.directory, words.to_vec());
        service.socket = Some(self.socket());
        service
    }

    /// Returns the directory that the gateways serve.
    pub(super) fn storage(&self) -> PathBuf {
        self.directory.join("storage")
    }

    fn forwarder(&self, plan: &Plan) -> anyhow::Result<Service> {
        let gateways: Vec<&str> = plan
            .with_role(NodeRole::Server)
            .map(|node| node.nid.as_str())
            .collect();
        let export = format!("lnet:{}", gateways.join(","));
        let zoid = self.directory.join("zoid");
        let zoid = zoid.display().to_string();
        let words = [
            "zoid",
            "forward",
            "--mode",
            "stripe",
            "--failover",
            "2",
            "--directory",
            &zoid,
            &export,
        ];
        let mut service = self.service(plan.io_node()?, &words);
        "forwarder".clone_into(&mut service.name);
        service.log = self.directory.join("forwarder.log");
        Ok(service)
    }

    fn daemon(&self) -> anyhow::Result<Service> {
        let zoid = self.directory.join("zoid");
        fs::create_dir_all(&zoid).with_context(|| format!("cannot make {}", zoid.display()))?;
        let words = format!(
            "zoid daemon --total 96M --heartbeat-ms {HEARTBEAT_MS} --reattach-ms {REATTACH_MS} --directory"
        );
        let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        words.push(zoid.display().to_string());
        Ok(Service::new("daemon", IO_NODE, self.directory, words))
    }
}

impl Cast {
    /// Starts routers, gateways, daemon and forwarder, in this order: the gateway of a route must run before a
    /// node checks whether the gateway is alive.
    pub(super) fn start(plan: &Plan, stage: &Stage<'_>, world: &World) -> anyhow::Result<Self> {
        let routers = plan.with_role(NodeRole::Router);
        let gateways = plan.with_role(NodeRole::Server);
        let mut cast = Self {
            routers: routers.map(|node| stage.service(node, &["node"])).collect(),
            gateways: gateways
                .map(|node| stage.gateway(node))
                .collect::<anyhow::Result<_>>()?,
            daemon: stage.daemon()?,
            forwarder: stage.forwarder(plan)?,
        };
        for service in cast.services() {
            service.start(world)?;
        }
        Ok(cast)
    }

    /// Returns all services in the order in which they start.
    fn services(&mut self) -> impl DoubleEndedIterator<Item = &mut Service> {
        let nodes = self.routers.iter_mut().chain(&mut self.gateways);
        nodes.chain([&mut self.daemon, &mut self.forwarder])
    }

    /// Returns the names and process ids of the running services.
    pub(super) fn processes(&mut self) -> Vec<(String, u32)> {
        let id = |service: &mut Service| {
            let child = service.child.as_ref()?;
            Some((service.name.clone(), child.id()))
        };
        self.services().filter_map(id).collect()
    }

    /// Stops all services, in the reverse of the order in which they start.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        for service in self.services().rev() {
            service.stop()?;
        }
        Ok(())
    }
}

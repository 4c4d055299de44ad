//! All processes of the bench in one placement.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::ValueEnum;
use tempfile::TempDir;
use zoid_proto::Instance;

use super::limits::{Initiator, Limit, Tuning};
use super::peer::{Place, Role};
use super::task::{Done, Method, Task};
use crate::child::Peer;

/// The limits, daemons, servers and clients. They end when this value is dropped, daemons in good order.
pub(super) struct Bed {
    limits: Initiator,
    clients: Vec<Peer>,
    /// The servers, and the target of the limits. They end before the daemons.
    servers: Processes,
    daemons: Processes,
    tcp_port: u16,
    client_cpu: Option<usize>,
    one_core: bool,
    directory: TempDir,
}

/// Processes that end by themselves when they are told to, so that daemons remove their names.
struct Processes(Vec<Peer>);

impl Drop for Processes {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Peer::finish);
    }
}

/// The kind of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Party {
    Client,
    Server,
    Daemon,
}

impl Party {
    /// All kinds; each is at the index of its discriminant.
    pub(super) const ALL: [Self; 3] = [Self::Client, Self::Server, Self::Daemon];
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Daemon => "daemon",
        })
    }
}

/// The methods with a daemon, in the order of `daemons` and of the last servers.
pub(super) const WITH_DAEMON: [Method; 3] = [Method::Zoid, Method::Spinning, Method::ProcessCopy];

/// The result of several clients that ran at the same time.
#[derive(Clone, Debug)]
pub(super) struct Together {
    /// The time from the first start to the last end.
    pub(super) took: Duration,
    /// The result of each client.
    pub(super) each: Vec<Done>,
}

impl Bed {
    /// Starts all processes except the clients. The bench and the clients use the compute node's CPU, the others
    /// the I/O node's.
    pub(super) fn start(cpus: Option<(usize, usize)>) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("bench").tempdir()?;
        let start = |role| launch(role, &directory, cpus.map(|cpus| cpus.1), 0);
        let limits_target = start(Role::Limits)?;
        let limits = Initiator::connect(directory.path(), limits_target.port())?;
        let mut servers = Processes(vec![limits_target]);
        let mut daemons = Processes(Vec::new());
        for role in [Role::Daemon, Role::SpinningDaemon, Role::CopyingDaemon] {
            daemons.0.push(start(role)?);
        }
        let tcp_server = start(Role::TcpServer)?;
        let tcp_port = tcp_server.port();
        servers.0.push(tcp_server);
        for role in [Role::Server, Role::SpinningServer, Role::ProcessCopyServer] {
            servers.0.push(start(role)?);
        }
        Ok(Self {
            limits,
            clients: Vec::new(),
            servers,
            daemons,
            tcp_port,
            client_cpu: cpus.map(|cpus| cpus.0),
            one_core: cpus.is_some_and(|(clients, others)| clients == others),
            directory,
        })
    }

    /// Returns the limits of the machine in this placement.
    pub(super) fn limits(&mut self) -> &mut Initiator {
        &mut self.limits
    }

    /// Returns true if all processes are on the same CPU.
    pub(super) const fn is_one_core(&self) -> bool {
        self.one_core
    }

    /// Runs `count` round trips or messages of a limit.
    pub(super) fn limit(
        &mut self,
        limit: Limit,
        bytes: usize,
        in_flight: u32,
        tuning: Tuning,
        count: u64,
    ) -> anyhow::Result<Duration> {
        let ran = self.limits.run(limit, bytes, in_flight, tuning, count);
        ran.with_context(|| format!("the limit {limit:?} of {bytes} bytes"))
    }

    /// Runs the task of one client.
    pub(super) fn run(&mut self, method: Method, task: &Task) -> anyhow::Result<Done> {
        let together = self.together(method, &[*task])?;
        together.each.first().copied().context("no client")
    }

    /// Runs the tasks of several clients at the same time.
    pub(super) fn together(&mut self, method: Method, tasks: &[Task]) -> anyhow::Result<Together> {
        while self.clients.len() < tasks.len() {
            let client = launch(
                Role::Client,
                &self.directory,
                self.client_cpu,
                self.tcp_port,
            )?;
            self.clients.push(client);
        }
        let begun = Instant::now();
        for (client, task) in self.clients.iter_mut().zip(tasks) {
            client.tell(&format!("{method} {task}"))?;
        }
        let mut each = Vec::new();
        for (number, client) in self.clients.iter_mut().take(tasks.len()).enumerate() {
            let line = client.hear().with_context(|| format!("client {number}"))?;
            each.push(line.parse()?);
        }
        Ok(Together {
            took: begun.elapsed(),
            each,
        })
    }

    /// Returns an error if a daemon or a server has ended.
    pub(super) fn check_alive(&mut self) -> anyhow::Result<()> {
        let all = self.servers.0.iter_mut().chain(&mut self.daemons.0);
        all.into_iter().try_for_each(Peer::check_alive)
    }

    /// Returns a metric of a method's daemon.
    pub(super) fn metric(&self, method: Method, name: &str) -> anyhow::Result<f64> {
        let instance = self.instance(method)?;
        let metrics = zoidd::read_metrics(&instance, self.directory.path())?;
        let found = metrics.iter().find(|metric| metric.name == name);
        Ok(found.with_context(|| format!("no metric {name}"))?.value)
    }

    /// Returns the name of a method's daemon.
    pub(super) fn instance(&self, method: Method) -> anyhow::Result<Instance> {
        let place = Place {
            directory: self.directory.path().to_path_buf(),
            port: self.tcp_port,
        };
        place.instance(method)
    }

    /// Returns the bytes of the segment that the server of a method uses, and the number of its reply queues.
    pub(super) fn server_holds(&mut self, method: Method) -> anyhow::Result<(u64, u64)> {
        let first = self.servers.0.len() - WITH_DAEMON.len();
        let at = WITH_DAEMON.iter().position(|with| *with == method);
        let at = first + at.context("a method without a daemon")?;
        let server = self.servers.0.get_mut(at).context("no server")?;
        server.tell("holds")?;
        let line = server.hear()?;
        let (bytes, queues) = line.split_once(' ').context("half an answer")?;
        Ok((bytes.parse()?, queues.parse()?))
    }

    /// Returns the resident bytes of every process, without memory that it shares with others.
    pub(super) fn resident_bytes(&self) -> anyhow::Result<Vec<(Party, u64)>> {
        let parties = [
            (Party::Client, &self.clients),
            (Party::Server, &self.servers.0),
            (Party::Daemon, &self.daemons.0),
        ];
        let all = parties.into_iter().flat_map(|(party, peers)| {
            let of_each = peers.iter().map(|peer| resident(peer.pid()));
            of_each.map(move |bytes| Ok((party, bytes?)))
        });
        all.collect()
    }
}

fn launch(role: Role, directory: &TempDir, cpu: Option<usize>, port: u16) -> anyhow::Result<Peer> {
    let value = role.to_possible_value().context("a role has a name")?;
    let name = value.get_name();
    let directory = directory.path().to_str().context("the directory's name")?;
    let port = port.to_string();
    let mut arguments = vec!["bmi-peer", name, "--directory", directory];
    arguments.extend(["--port", &port]);
    let cpu = cpu.map(|cpu| cpu.to_string());
    if let Some(cpu) = &cpu {
        arguments.extend(["--cpu", cpu]);
    }
    Peer::launch(name, &arguments)
}

/// Returns the resident memory of a process that is not shared with files, in bytes.
fn resident(process: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB"));
    let kibibytes: u64 = kibibytes.context("no RssAnon")?.trim().parse()?;
    ensure!(kibibytes > 0, "{path} says that it uses no memory");
    Ok(kibibytes * 1024)
}

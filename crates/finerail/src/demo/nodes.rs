//! The demo's three nodes: their configuration, and the processes that run them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sys::ReservedPort;

/// Where every node of the demo has its files.
pub(super) struct Site {
    pub(super) directory: PathBuf,
    /// Every node's port, which is the demo's on all addresses.
    port: ReservedPort,
    /// TCP congestion control of every node: the one the limit was measured with.
    pub(super) congestion: String,
}

/// A node of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Router,
    Storage,
}

impl Role {
    pub(super) const ALL: [Self; 3] = [Self::Client, Self::Router, Self::Storage];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Router => "router",
            Self::Storage => "storage",
        }
    }

    /// The node's configuration, as an administrator would write it. The short transaction timeout
    /// lets lost messages be noticed within the demo; the default is 150 s.
    pub(super) fn configuration(self) -> &'static str {
        match self {
            Self::Client => {
                "net:\n\
                 \x20   - net type: tcp\n\
                 \x20     local NI(s):\n\
                 \x20       - nid: 127.0.0.2@tcp\n\
                 route:\n\
                 \x20   - net: tcp1\n\
                 \x20     gateway: 127.0.0.3@tcp\n\
                 global:\n\
                 \x20   transaction_timeout: 10\n"
            }
            Self::Router => {
                "net:\n\
                 \x20   - net type: tcp\n\
                 \x20     local NI(s):\n\
                 \x20       - nid: 127.0.0.3@tcp\n\
                 \x20   - net type: tcp1\n\
                 \x20     local NI(s):\n\
                 \x20       - nid: 127.0.0.4@tcp1\n\
                 routing:\n\
                 \x20   enable: 1\n\
                 global:\n\
                 \x20   transaction_timeout: 10\n"
            }
            Self::Storage => {
                "net:\n\
                 \x20   - net type: tcp1\n\
                 \x20     local NI(s):\n\
                 \x20       - nid: 127.0.0.5@tcp1\n\
                 route:\n\
                 \x20   - net: tcp\n\
                 \x20     gateway: 127.0.0.4@tcp1\n\
                 global:\n\
                 \x20   transaction_timeout: 10\n"
            }
        }
    }
}

/// The storage node's NID, as the client names it.
pub(super) const STORAGE_NID: &str = "127.0.0.5@tcp1";

/// How long a node may take to become ready, or to stop.
const PATIENCE: Duration = Duration::from_secs(20);

impl Site {
    /// Writes the configurations below `directory` and reserves a port on every address.
    pub(super) fn prepare(directory: &Path) -> anyhow::Result<Self> {
        for role in Role::ALL {
            let path = directory.join(format!("{}.yaml", role.name()));
            fs::write(&path, role.configuration())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(Self {
            directory: directory.to_owned(),
            port: ReservedPort::on(Ipv4Addr::UNSPECIFIED).context("no TCP port is free")?,
            congestion: String::new(),
        })
    }

    pub(super) fn port(&self) -> u16 {
        self.port.number()
    }

    pub(super) fn config(&self, role: Role) -> PathBuf {
        self.directory.join(format!("{}.yaml", role.name()))
    }

    /// Where a node writes its counters when it ends.
    pub(super) fn stats(&self, role: Role) -> PathBuf {
        self.directory.join(format!("{}.stats.json", role.name()))
    }

    /// A command of this binary with the node arguments of `role`.
    pub(super) fn command(&self, role: Role, words: &[&str]) -> anyhow::Result<Command> {
        let binary = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(binary);
        command.args(words).arg("--config").arg(self.config(role));
        command.args(["--port", &self.port().to_string()]);
        command.arg("--stats").arg(self.stats(role));
        command.args(["--congestion", &self.congestion]);
        // A router that went away is asked for again soon: the demo may kill it.
        command.args(["--router-check-interval", "2"]);
        Ok(command)
    }
}

/// A node in a process of its own. Dropping it kills the process.
pub(super) struct NodeProcess {
    role: Role,
    child: Child,
}

impl NodeProcess {
    /// Starts a node and waits until it says that it is ready.
    pub(super) fn start(role: Role, mut command: Command) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start the {}", role.name()))?;
        let output = child.stdout.take();
        let mut node = Self { role, child };
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output).read_line(&mut line)?;
        }
        if !line.starts_with("ready") {
            let status = node.child.wait()?;
            bail!("the {} did not start ({status})", role.name());
        }
        Ok(node)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process as `kill -9` does.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn terminate(&self) -> anyhow::Result<()> {
        let id = i32::try_from(self.child.id()).context("a process id beyond 2^31")?;
        kill(Pid::from_raw(id), Signal::SIGTERM)
            .with_context(|| format!("cannot stop the {}", self.role.name()))
    }

    /// Asks the process to end and waits for it.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        self.terminate()?;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait()? {
                anyhow::ensure!(
                    status.success(),
                    "the {} ended with {status}",
                    self.role.name()
                );
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!(
            "the {} did not stop within {} s",
            self.role.name(),
            PATIENCE.as_secs()
        );
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // Already gone is what is wanted.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

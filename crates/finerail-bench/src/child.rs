//! The peers of a measurement as the bench sees them: child processes that say when they are ready and
//! end with the bench, however it ends.
//!
//! A peer prints one line: `ready PORT`, or `failed: REASON` before it exits. Some then answer every
//! line with a line. All end when their standard input ends, which the system closes even if the bench
//! is killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::ValueEnum;
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

use super::peer::Role;

/// How a peer is started.
#[derive(Clone, Debug)]
pub(super) struct PeerSpec<'a> {
    pub(super) role: Role,
    pub(super) cpu: usize,
    pub(super) congestion: &'a str,
    /// Where to listen, or for a raw relay where to connect; 0 for a port of the system's choice.
    pub(super) port: u16,
}

/// A running peer; ends when dropped.
pub(super) struct Peer {
    child: Child,
    /// Keeps the peer alive.
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    name: String,
    port: u16,
}

impl Peer {
    /// Starts this program as a peer and waits until it is ready.
    pub(super) fn start(spec: &PeerSpec<'_>) -> anyhow::Result<Self> {
        Self::start_with(spec, &[])
    }

    /// The same with more arguments.
    pub(super) fn start_with(spec: &PeerSpec<'_>, more: &[&str]) -> anyhow::Result<Self> {
        let name = spec
            .role
            .to_possible_value()
            .map_or_else(String::new, |v| v.get_name().into());
        let (cpu, port) = (spec.cpu.to_string(), spec.port.to_string());
        let congestion = ["--congestion", spec.congestion];
        let arguments = ["peer", &name, "--cpu", &cpu, "--port", &port];
        Self::launch(&name, arguments.iter().chain(&congestion).chain(more))
    }

    /// Starts this program with these arguments, and waits until it is ready.
    pub(super) fn launch<'a>(
        name: &str,
        arguments: impl IntoIterator<Item = &'a &'a str>,
    ) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start the {name} process"))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let mut peer = Self {
            child,
            stdin,
            stdout: stdout.map(BufReader::new),
            name: name.to_owned(),
            port: 0,
        };
        let ready = peer.hear()?;
        let port = ready
            .strip_prefix("ready ")
            .and_then(|port| port.parse().ok());
        peer.port = port.with_context(|| format!("the {name} process says {ready:?}"))?;
        Ok(peer)
    }

    /// Gives it a line to answer.
    pub(super) fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().context("its standard input is gone")?;
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .with_context(|| format!("cannot write to the {} process", self.name))
    }

    /// Its next line. One that begins with `failed: ` is an error.
    pub(super) fn hear(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let stdout = self
            .stdout
            .as_mut()
            .context("its standard output is gone")?;
        stdout
            .read_line(&mut line)
            .context("cannot read from a child")?;
        if let Some(reason) = line.strip_prefix("failed: ") {
            bail!("the {} process: {}", self.name, reason.trim());
        }
        if line.is_empty() {
            bail!("the {} process ended early", self.name);
        }
        Ok(line.trim().to_owned())
    }

    /// Lets it end by itself, as long as that does not take too long.
    pub(super) fn finish(&mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + FINISH_MAX;
        // What cannot be asked is killed by the drop.
        while let Ok(None) = self.child.try_wait()
            && Instant::now() < deadline
        {
            std::thread::sleep(FINISH_LOOK);
        }
    }

    /// The port on which it listens.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The process id, under which the system has figures about it.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fails, with its name and its end, when the peer has ended.
    pub(super) fn check_alive(&mut self) -> anyhow::Result<()> {
        match self
            .child
            .try_wait()
            .context("cannot ask for a child's state")?
        {
            None => Ok(()),
            Some(status) => bail!("the {} process ended early ({status})", self.name),
        }
    }
}

/// How long a peer may take to end by itself.
const FINISH_MAX: Duration = Duration::from_secs(12);
/// How often it is looked at meanwhile.
const FINISH_LOOK: Duration = Duration::from_millis(2);

/// The CPU time that this process and these peers have taken so far, all threads together.
pub(super) fn cpu_time(peers: &[Peer]) -> anyhow::Result<Duration> {
    let pids = peers.iter().map(Peer::pid).chain([std::process::id()]);
    pids.map(cpu_time_of).sum()
}

/// The CPU time that a process has taken so far.
pub(super) fn cpu_time_of(pid: u32) -> anyhow::Result<Duration> {
    let pid = Pid::from_raw(i32::try_from(pid)?);
    let time = clock_getcpuclockid(pid).and_then(ClockId::now);
    let time = time.with_context(|| format!("cannot ask for the CPU time of process {pid}"))?;
    Ok(time.into())
}

/// Looks for the peer whose end explains a failure. A dying process closes its sockets a moment before
/// its end can be seen.
pub(super) fn blame(peers: &mut [Peer]) -> anyhow::Result<()> {
    const LOOKS: u32 = 10;
    const PAUSE: Duration = Duration::from_millis(20);
    for _ in 0..LOOKS {
        peers.iter_mut().try_for_each(Peer::check_alive)?;
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill, and waiting removes what is left.
        let _already_gone = self.child.kill();
        let _already_reaped = self.child.wait();
    }
}

//! The peers of a measurement, as the bench sees them: child processes that report when they are ready, and that
//! end when the bench ends, whatever the reason.
//!
//! A peer prints one line: `ready PORT`, or `failed: REASON` before it exits. Some peers then answer every line
//! with a line. All end when their standard input ends; the system closes this input even if the bench is killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::ValueEnum;
use nix::sys::resource::Usage;
use nix::sys::time::TimeVal;
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

use super::peer::Role;

/// The settings with which a peer is started.
#[derive(Clone, Debug)]
pub(super) struct PeerSpec<'a> {
    pub(super) role: Role,
    pub(super) cpu: usize,
    pub(super) congestion: &'a str,
    /// The port to listen on, or for a raw relay the port to connect to; 0 for a port that the system chooses.
    pub(super) port: u16,
}

/// A running peer. It ends when this value is dropped.
pub(super) struct Peer {
    child: Child,
    /// The peer runs for as long as this pipe is open.
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    name: String,
    port: u16,
}

impl Peer {
    /// Starts this program as a peer, and waits until the peer is ready.
    pub(super) fn start(spec: &PeerSpec<'_>) -> anyhow::Result<Self> {
        Self::start_with(spec, &[])
    }

    /// Starts this program as a peer with more arguments, and waits until the peer is ready.
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

    /// Writes a line that the peer answers.
    pub(super) fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().context("its standard input is gone")?;
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .with_context(|| format!("cannot write to the {} process", self.name))
    }

    /// Reads the peer's next line. A line that begins with `failed: ` is an error.
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

    /// Lets the peer end by itself, within a time limit.
    pub(super) fn finish(&mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + FINISH_MAX;
        // A peer whose state cannot be read is killed when this value is dropped.
        while let Ok(None) = self.child.try_wait()
            && Instant::now() < deadline
        {
            std::thread::sleep(FINISH_LOOK);
        }
    }

    /// Returns the port on which the peer listens.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the process id, by which the system reports figures about the process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns an error with the peer's name and exit status if the peer has ended.
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

/// The limit on the time in which a peer ends by itself.
const FINISH_MAX: Duration = Duration::from_secs(12);
/// The time between two checks whether the peer has ended.
const FINISH_LOOK: Duration = Duration::from_millis(2);

/// Returns the CPU time that this process and these peers have used so far, in all threads.
pub(super) fn cpu_time(peers: &[Peer]) -> anyhow::Result<Duration> {
    let pids = peers.iter().map(Peer::pid).chain([std::process::id()]);
    pids.map(cpu_time_of).sum()
}

/// Returns the CPU time of a usage, in user mode and in the system.
pub(super) fn cpu_of(usage: &Usage) -> Duration {
    let of = |time: TimeVal| {
        // Times of a usage are not negative.
        Duration::from_secs(u64::try_from(time.tv_sec()).unwrap_or(0))
            + Duration::from_micros(u64::try_from(time.tv_usec()).unwrap_or(0))
    };
    of(usage.user_time()) + of(usage.system_time())
}

/// Returns the CPU time that a process has used so far.
pub(super) fn cpu_time_of(pid: u32) -> anyhow::Result<Duration> {
    let pid = Pid::from_raw(i32::try_from(pid)?);
    let time = clock_getcpuclockid(pid).and_then(ClockId::now);
    let time = time.with_context(|| format!("cannot ask for the CPU time of process {pid}"))?;
    Ok(time.into())
}

/// Searches for the peer whose end explains a failure. A dying process closes its sockets a moment before its end
/// is visible, so the search is repeated.
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
        // The process may have ended by itself. Then there is nothing to kill, and the wait removes its entry in
        // the system.
        let _already_gone = self.child.kill();
        let _already_reaped = self.child.wait();
    }
}

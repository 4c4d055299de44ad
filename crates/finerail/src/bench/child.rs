//! The peers of a measurement as the bench sees them: child processes that say when they are ready and
//! end with the bench, however it ends.
//!
//! A peer prints one line: `ready PORT`, or `failed: REASON` before it exits. It ends when its standard
//! input ends, which the system closes even if the bench is killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;

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
    /// Keeps the peer alive; never written.
    _stdin: Option<ChildStdin>,
    name: String,
    port: u16,
}

impl Peer {
    /// Starts this program as a peer and waits until it is ready.
    pub(super) fn start(spec: &PeerSpec<'_>) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let name = spec
            .role
            .to_possible_value()
            .map_or_else(String::new, |v| v.get_name().into());
        let mut child = Command::new(program)
            .args(["bench", "peer", &name, "--congestion", spec.congestion])
            .args([
                "--cpu",
                &spec.cpu.to_string(),
                "--port",
                &spec.port.to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start the {name} process"))?;
        let stdin = child.stdin.take();
        let mut peer = Self {
            child,
            _stdin: stdin,
            name,
            port: 0,
        };
        peer.port = peer.wait_until_ready()?;
        Ok(peer)
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<u16> {
        let mut line = String::new();
        if let Some(stdout) = self.child.stdout.take() {
            BufReader::new(stdout)
                .read_line(&mut line)
                .context("cannot read from a child")?;
        }
        let line = line.trim();
        if let Some(port) = line
            .strip_prefix("ready ")
            .and_then(|port| port.parse().ok())
        {
            return Ok(port);
        }
        match line.strip_prefix("failed: ") {
            Some(reason) => bail!("the {} process: {reason}", self.name),
            None => bail!("the {} process ended before it was ready", self.name),
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

//! What `ip` of iproute2 says of this machine: its interfaces, and the route to an address.

use std::fmt;
use std::io::{self, Read};
use std::net::IpAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Deserialize;

/// The most bytes that are read of an output. A machine with 10,000 addresses prints less.
const OUTPUT_MAX: u64 = 16 << 20;

/// How long `ip` may run. It answers in milliseconds.
const RUN_MAX: Duration = Duration::from_secs(10);

/// How often a run looks whether the user interrupts.
const LOOK: Duration = Duration::from_millis(50);

/// How long the end of a run may take behind the end of its output, until somebody looks again.
const NAP: Duration = Duration::from_millis(1);

/// `ip` was ended before its output was complete, which says nothing about the machine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The user interrupted.
    Interrupted,
    /// It ran too long.
    TooLong,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::TooLong => write!(f, "it did not end within {} s", RUN_MAX.as_secs()),
        }
    }
}

impl std::error::Error for Cut {}

/// The way of packets to an address, as the routing table has it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct RouteTo {
    /// The interface.
    pub(crate) dev: String,
    /// The next router; `None` in the subnet of the interface.
    pub(crate) gateway: Option<IpAddr>,
    /// The source address that the system would take.
    pub(crate) prefsrc: Option<IpAddr>,
}

/// Returns the interfaces of this machine as `ip -j addr` prints them.
///
/// # Errors
///
/// `ip` is not installed or fails.
pub(crate) fn addresses() -> anyhow::Result<String> {
    output(&["-j", "addr"], &AtomicBool::new(false))
}

/// Returns the route to an address. With `from`, the route of packets with this source address.
///
/// # Errors
///
/// `ip` is not installed, or there is no route.
pub(crate) fn route_to(to: IpAddr, from: Option<IpAddr>) -> anyhow::Result<RouteTo> {
    route_unless(&AtomicBool::new(false), to, from)
}

/// Returns the route to an address, as [`route_to`] does, unless `stop` becomes true.
///
/// # Errors
///
/// As those of [`route_to`]. [`Cut`] if `ip` was ended.
pub(crate) fn route_unless(
    stop: &AtomicBool,
    to: IpAddr,
    from: Option<IpAddr>,
) -> anyhow::Result<RouteTo> {
    let (to, from) = (to.to_string(), from.map(|from| from.to_string()));
    let mut words = vec!["-j", "route", "get", &to];
    if let Some(from) = &from {
        words.extend(["from", from]);
    }
    let text = output(&words, stop)?;
    let routes: Vec<RouteTo> = serde_json::from_str(&text)
        .with_context(|| format!("cannot read what `ip {}` prints", words.join(" ")))?;
    let first = routes.into_iter().next();
    first.with_context(|| format!("this machine has no route to {to}"))
}

/// Runs `ip` and returns its output. Whatever happens, it has ended afterwards.
fn output(words: &[&str], stop: &AtomicBool) -> anyhow::Result<String> {
    let shown = format!("ip {}", words.join(" "));
    let mut command = Command::new("ip");
    command.args(words).stdin(Stdio::null());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.with_context(|| format!("cannot run `{shown}` (iproute2)"))?;
    let (status, text, complaint) = Run(child)
        .end(stop)
        .with_context(|| format!("`{shown}` was ended"))?;
    if !status.success() {
        bail!("`{shown}` fails: {}", complaint.trim());
    }
    Ok(text)
}

/// A run of `ip`. Dropping it ends `ip`.
struct Run(Child);

impl Run {
    /// Waits for the end, and returns the output and the complaint.
    fn end(mut self, stop: &AtomicBool) -> anyhow::Result<(ExitStatus, String, String)> {
        let until = Instant::now() + RUN_MAX;
        let out = self.0.stdout.take().map(read);
        let err = self.0.stderr.take().map(read);
        let text = received(out, until, stop)?;
        let complaint = received(err, until, stop)?;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok((status, text, complaint));
            }
            look(until, stop)?;
            thread::sleep(NAP);
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ended = self.0.kill();
        let _waited = self.0.wait();
    }
}

/// Returns an error when the time is over, or the user interrupts.
fn look(until: Instant, stop: &AtomicBool) -> Result<(), Cut> {
    match () {
        () if stop.load(Ordering::Relaxed) => Err(Cut::Interrupted),
        () if Instant::now() >= until => Err(Cut::TooLong),
        () => Ok(()),
    }
}

/// Reads an output in a thread of its own: a pipe has no time limit.
fn read(pipe: impl Read + Send + 'static) -> Receiver<io::Result<String>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut text = String::new();
        let read = pipe.take(OUTPUT_MAX).read_to_string(&mut text);
        // Nobody waits for the output of a run that was ended.
        let _unwanted = sender.send(read.map(|_| text));
    });
    receiver
}

fn received(
    output: Option<Receiver<io::Result<String>>>,
    until: Instant,
    stop: &AtomicBool,
) -> anyhow::Result<String> {
    let Some(output) = output else {
        return Ok(String::new());
    };
    loop {
        look(until, stop)?;
        match output.recv_timeout(LOOK) {
            Ok(text) => return Ok(text?),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("its output was not read"),
        }
    }
}

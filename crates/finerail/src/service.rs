//! What the commands share that run until a signal stops them: readiness, signals, the end.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use tracing::{debug, info, warn};

/// How long a service may take to complete operations in flight before it closes its connections.
pub const GRACE: Duration = Duration::from_secs(10);

/// The time between two looks for signals while a service waits for something else.
const LOOK: Duration = Duration::from_millis(200);

/// Raises the limit of open files to the hard limit that the administrator set. Every peer takes three
/// descriptors, so the usual soft limit of 1024 would allow about 340 peers.
pub fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        warn!(%error, "cannot raise the limit of open files; see `ulimit -n`");
    }
}

/// The signals that stop a service. They are registered before the service starts, so that no signal is missed.
pub struct StopSignals(Signals);

impl StopSignals {
    /// Registers SIGINT, SIGTERM and SIGHUP. SIGHUP asks the service to read its configuration again. A second
    /// SIGINT or SIGTERM during the shutdown kills the process.
    pub fn register() -> anyhow::Result<Self> {
        let signals =
            Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot register signal handlers")?;
        Ok(Self(signals))
    }

    /// Returns true if SIGINT or SIGTERM came. SIGHUP before the service is ready asks for nothing.
    pub fn is_stopped(&mut self) -> bool {
        self.0.pending().any(|signal| signal != SIGHUP)
    }

    /// Waits for this time. Returns true if SIGINT or SIGTERM came meanwhile, which ends the wait.
    pub fn wait_at_most(&mut self, time: Duration) -> bool {
        let begun = Instant::now();
        while !self.is_stopped() {
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return false;
            }
            thread::sleep(left.min(LOOK));
        }
        true
    }

    /// Reports on standard output and to the service manager that the service is ready. Then waits for SIGINT
    /// or SIGTERM, and calls `reload` at every SIGHUP.
    pub fn wait_until_stopped(mut self, ready: &str, mut reload: impl FnMut()) {
        // The service runs even if standard output is closed.
        let _unprinted = writeln!(io::stdout(), "{ready}");
        notify(NotifyState::Ready);
        for signal in self.0.forever() {
            if signal == SIGHUP {
                reload();
                continue;
            }
            info!(signal, "stopping");
            restore_default(signal);
            break;
        }
        notify(NotifyState::Stopping);
    }
}

/// Restores the default action of SIGINT and SIGTERM: the next signal ends the process at once.
fn restore_default(_first: i32) {
    for signal in [SIGINT, SIGTERM] {
        let raised = Arc::new(AtomicBool::new(true));
        let registered = flag::register_conditional_default(signal, raised);
        if let Err(error) = registered {
            debug!(%error, signal, "a second signal will be ignored");
        }
    }
}

/// Returns a flag that the first SIGINT or SIGTERM sets, for commands that end by themselves. The second signal
/// ends the process at once.
pub fn raise_on_signals() -> io::Result<Arc<AtomicBool>> {
    let raised = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The order matters: at the second signal the first action finds the flag set and ends the process.
        flag::register_conditional_default(signal, Arc::clone(&raised))?;
        flag::register(signal, Arc::clone(&raised))?;
    }
    Ok(raised)
}

/// Returns the flag of [`raise_on_signals`], which the end of the terminal sets, too, if the program does not ignore that
/// (`nohup`). It may come twice, and does not end the process.
pub fn raise_on_signals_and_hangup() -> io::Result<Arc<AtomicBool>> {
    let raised = raise_on_signals()?;
    if !ignores_hangup() {
        flag::register(SIGHUP, Arc::clone(&raised))?;
    }
    Ok(raised)
}

/// Returns whether the process was started with SIGHUP ignored.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (SIGHUP - 1) != 0)
}

/// Tells the service manager, if there is one, what the service does before it is ready.
pub fn tell_status(text: &str) {
    notify(NotifyState::Status(text));
}

/// Notifies the service manager, if there is one.
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        debug!(%error, "the service manager could not be notified");
    }
}

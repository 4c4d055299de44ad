//! What every command that runs until it is told to stop, or may be told to, has in common: readiness,
//! signals, the end.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use tracing::{debug, info, warn};

/// How long a service finishes what is under way before it closes its connections.
pub const GRACE: Duration = Duration::from_secs(10);

/// Lets this process have as many descriptors as the administrator allows: every peer takes three, and
/// the usual soft limit of 1024 would end at some 340 peers.
pub fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        warn!(%error, "cannot raise the limit of open files; see `ulimit -n`");
    }
}

/// Signals that end a service. Registered before the service starts, so that none is missed.
pub struct StopSignals(Signals);

impl StopSignals {
    /// Takes SIGINT and SIGTERM. A second one during the clean end kills the process as usual. SIGHUP
    /// asks for the configuration to be read again.
    pub fn register() -> anyhow::Result<Self> {
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot take signals")?;
        Ok(Self(signals))
    }

    /// Says on standard output and to the service manager that the service is ready, then waits, and
    /// calls `reload` at every SIGHUP.
    pub fn wait_until_stopped(mut self, ready: &str, mut reload: impl FnMut()) {
        // A service serves whether or not anybody reads what it prints.
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

/// From now on the signals end the process at once.
fn restore_default(_first: i32) {
    for signal in [SIGINT, SIGTERM] {
        let raised = Arc::new(AtomicBool::new(true));
        let registered = flag::register_conditional_default(signal, raised);
        if let Err(error) = registered {
            debug!(%error, signal, "a second signal will be ignored");
        }
    }
}

/// For what ends by itself: a flag that the first SIGINT or SIGTERM raises. The second one ends the
/// process at once.
pub fn raise_on_signals() -> io::Result<Arc<AtomicBool>> {
    let raised = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the second signal finds the flag raised and ends the process.
        flag::register_conditional_default(signal, Arc::clone(&raised))?;
        flag::register(signal, Arc::clone(&raised))?;
    }
    Ok(raised)
}

/// Tells the service manager, where there is one.
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        debug!(%error, "no service manager was told");
    }
}

//! The console process of a session that has a node of its own.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use lnet_noded::{ControlEndpoint, ControlOptions};
use lnet_selftest::{Consoles, TestNode};

use super::host::Host;
use super::talk::log_path;
use crate::common::{ConfigArgs, TransportArgs};
use crate::service::{GRACE, raise_descriptor_limit, raise_on_signals};

/// Arguments of the hidden command.
#[derive(clap::Args)]
pub(super) struct ConsoleArgs {
    /// The socket of the console
    #[arg(long)]
    socket: PathBuf,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    transport: TransportArgs,
}

/// The interval of the checks whether the console must end.
const LOOK: Duration = Duration::from_millis(200);
/// How long the console waits for its first command.
const FIRST: Duration = Duration::from_secs(30);

pub(super) fn run(args: &ConsoleArgs) -> anyhow::Result<ExitCode> {
    let config = args.config.read()?;
    raise_descriptor_limit();
    let interrupted = raise_on_signals().context("cannot register signal handlers")?;
    let managed = lnet_noded::start(&config, TestNode::driving(args.transport.options()))
        .with_context(|| format!("cannot start the node of {}", args.config.config.display()))?;
    let host = Host::start(&managed)?;
    let at = ControlOptions {
        path: args.socket.clone(),
        group: None,
    };
    let control = ControlEndpoint::open(&managed, &at)?;
    writeln!(io::stdout(), "ready")?;
    let began = Instant::now();
    while !interrupted.load(Ordering::Acquire) && !is_over(host.consoles(), began) {
        thread::sleep(LOOK);
    }
    host.consoles().close();
    drop(control);
    managed.node().shutdown(GRACE);
    let log = log_path(&args.socket);
    if fs::metadata(&log).is_ok_and(|metadata| metadata.len() == 0) {
        let _removed = fs::remove_file(log);
    }
    Ok(ExitCode::SUCCESS)
}

fn is_over(consoles: &Consoles, began: Instant) -> bool {
    consoles.count() == 0 && (consoles.is_used() || began.elapsed() >= FIRST)
}

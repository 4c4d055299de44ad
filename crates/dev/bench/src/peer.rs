//! The other end of a measurement: the work of this program when the bench starts it again.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use finerail::common::spin;
use finerail::service::raise_descriptor_limit;

use super::{lnet, raw, router};

/// Arguments of the hidden `finerail-bench peer`.
#[derive(Args)]
pub(super) struct PeerArgs {
    role: Role,
    /// The CPUs to stay on
    #[arg(long, required = true)]
    cpu: Vec<usize>,
    /// The congestion control of every socket
    #[arg(long)]
    pub(super) congestion: String,
    /// The port to listen on, or for a raw relay the port to connect to
    #[arg(long)]
    pub(super) port: u16,
    /// The number of peers of a crowd
    #[arg(long, default_value_t = 0)]
    pub(super) peers: u32,
    /// I/O threads; 0: the waiting thread does the I/O
    #[arg(long, default_value_t = 0)]
    pub(super) threads: u16,
    /// How long a node polls for work before it sleeps
    #[arg(long, default_value = "0", value_parser = spin)]
    pub(super) spin: Duration,
    /// How a raw relay forwards messages
    #[arg(long, default_value = "one-thread")]
    pub(super) relay: raw::Relay,
    /// A router counts the RPCs that pass
    #[arg(long)]
    pub(super) rpc: bool,
    /// The control socket of a node
    #[arg(long)]
    pub(super) control: Option<PathBuf>,
}

/// The role of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Role {
    /// Answers plain framed TCP
    RawTarget,
    /// Forwards plain framed TCP to a raw target
    RawRelay,
    /// Receives plain framed TCP of several senders, and forwards it if a port is given
    RawFan,
    /// A node that is the target of PUTs and GETs
    Target,
    /// The same node behind a router
    RoutedTarget,
    /// A node that forwards
    Router,
    /// A node that sends small PUTs without pause
    Blaster,
    /// An idle node whose memory is measured
    Idle,
    /// Many peers of the idle node, which are connected and silent
    Crowd,
    /// Many peers that answer pings and pushes
    Responder,
    /// A node that serves LNet's own tests
    TestNode,
}

pub(super) fn run(args: &PeerArgs) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The bench reads this line in place of `ready`. If the bench is gone, nothing can be done.
            let _unread = writeln!(io::stdout(), "failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &PeerArgs) -> anyhow::Result<()> {
    end_with_standard_input()?;
    raise_descriptor_limit();
    sys::pin_to_cpus(&args.cpu).with_context(|| format!("cannot stay on CPU {:?}", args.cpu))?;
    match args.role {
        Role::RawTarget => raw::target::serve(&args.congestion),
        Role::RawRelay => raw::serve_relay(&args.congestion, args.port, args.relay),
        Role::RawFan => raw::fan::serve(args),
        Role::Target => lnet::target::serve(lnet::TARGET, args),
        Role::RoutedTarget => lnet::target::serve(lnet::ROUTED_TARGET, args),
        Role::Router => lnet::target::forward(args),
        Role::Blaster => lnet::bystander::blast(args),
        Role::Idle => lnet::target::idle(args),
        Role::Crowd => lnet::crowd::join(args),
        Role::Responder => router::responder::serve(args),
        Role::TestNode => router::serve_tests(args),
    }
}

/// Reports that the peer accepts connections.
pub(super) fn ready(port: u16) -> anyhow::Result<()> {
    writeln!(io::stdout(), "ready {port}").context("cannot write to standard output")
}

/// Makes the process end when its standard input ends, that is, when the bench ends.
pub(super) fn end_with_standard_input() -> anyhow::Result<()> {
    let wait = || {
        // An error counts as the end, too.
        while io::stdin().read(&mut [0]).is_ok_and(|count| count > 0) {}
        std::process::exit(0);
    };
    std::thread::Builder::new()
        .spawn(wait)
        .context("cannot start a thread")?;
    Ok(())
}

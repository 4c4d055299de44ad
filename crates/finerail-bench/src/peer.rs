//! The other end of a measurement: what this program does when the bench starts it again.

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
    /// Where to listen, or for a raw relay where to connect
    #[arg(long)]
    pub(super) port: u16,
    /// Peers that a crowd is made of
    #[arg(long, default_value_t = 0)]
    pub(super) peers: u32,
    /// Threads that move bytes; 0 for whoever waits
    #[arg(long, default_value_t = 0)]
    pub(super) threads: u16,
    /// How long a node looks for work before it sleeps
    #[arg(long, default_value = "0", value_parser = spin)]
    pub(super) spin: Duration,
    /// How a raw relay passes on what comes
    #[arg(long, default_value = "one-thread")]
    pub(super) relay: raw::Relay,
    /// Where a node can be controlled
    #[arg(long)]
    pub(super) control: Option<PathBuf>,
}

/// What a peer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Role {
    /// Answers plain framed TCP
    RawTarget,
    /// Passes plain framed TCP on to a raw target
    RawRelay,
    /// Takes plain framed TCP of several senders, and passes it on where there is a port
    RawFan,
    /// A node that is put to and got from
    Target,
    /// The same behind a router
    RoutedTarget,
    /// A node that forwards
    Router,
    /// A node that sends small PUTs without pause
    Blaster,
    /// A node with nothing to do, whose memory is looked at
    Idle,
    /// Many peers of the node that idles, which are connected and say nothing
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
            // Before `ready` this is what the bench reads. Nothing can be done when it is gone.
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

/// Says that the peer can be connected to.
pub(super) fn ready(port: u16) -> anyhow::Result<()> {
    writeln!(io::stdout(), "ready {port}").context("cannot write to standard output")
}

/// From now on the process ends when its standard input does: when the bench is done, or dead.
pub(super) fn end_with_standard_input() -> anyhow::Result<()> {
    let wait = || {
        // An error is an end, too.
        while io::stdin().read(&mut [0]).is_ok_and(|count| count > 0) {}
        std::process::exit(0);
    };
    std::thread::Builder::new()
        .spawn(wait)
        .context("cannot start a thread")?;
    Ok(())
}

//! `finerail store serve`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;
use lnet_rpc::{Entropy, Server, ServerOptions};
use lnet_store::{Service, ServiceOptions, Sync};

use crate::common::{
    ConfigArgs, ControlArgs, MetricsArgs, ServiceArgs, StatsArgs, TransportArgs, reload,
};
use crate::service::{GRACE, StopSignals, raise_descriptor_limit};

/// Arguments of `finerail store serve`.
#[derive(clap::Args)]
#[command(after_help = "\
Example: keep files under /tmp/kept, without privileges

  mkdir -p /tmp/kept
  cat > storage.yaml <<END
  net:
    - net type: tcp
      local NI(s):
        - nid: 127.0.0.5@tcp
  END
  finerail store serve --config storage.yaml --port 9988 /tmp/kept
")]
pub(super) struct ServeArgs {
    /// The directory to keep files under; it must exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// What is flushed to the disk before a file counts as stored
    #[arg(long, value_enum, default_value_t = Flush::None)]
    sync: Flush,
    /// Threads that execute calls
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    service: ServiceArgs,
    #[command(flatten)]
    control: ControlArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    stats: StatsArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Flush {
    /// Nothing: a file survives the end of the service, and a loss of power if the system wrote it back
    None,
    /// The file, before it gets its name
    File,
    /// The file and its directory: what was acknowledged survives a loss of power
    All,
}

pub(super) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let config = args.config.read()?;
    raise_descriptor_limit();
    let signals = StopSignals::register()?;
    let entropy = || Entropy::from_system().context("cannot read random numbers");
    let sync = match args.sync {
        Flush::None => Sync::None,
        Flush::File => Sync::File,
        Flush::All => Sync::All,
    };
    let options = ServiceOptions {
        sync,
        ..ServiceOptions::default()
    };
    let service = Service::open(&args.directory, entropy()?, options)
        .with_context(|| format!("cannot serve {}", args.directory.display()))?;
    let managed = lnet_noded::start(&config, args.service.on(args.transport.options()))
        .with_context(|| format!("cannot start the node of {}", args.config.config.display()))?;
    let node = managed.node();
    let options = ServerOptions {
        workers: args.workers.into(),
        ..ServerOptions::default()
    };
    let server = Server::start(node.clone(), service, &entropy()?, options)
        .context("cannot start the service")?;
    let control = args.control.open(&managed)?;
    let metrics = args.metrics.open(node)?;
    let nids: Vec<String> = node.nids().iter().map(ToString::to_string).collect();
    let (nids, port) = (nids.join(", "), args.transport.port);
    let ready = format!(
        "ready: {nids} on port {port} serves {}; {control}",
        args.directory.display()
    );
    signals.wait_until_stopped(&ready, || reload(&managed, &args.config));
    tracing::info!(counters = ?server.counters(), "calls");
    drop((control, metrics));
    server.shutdown(GRACE);
    node.shutdown(GRACE);
    args.stats.write(node)?;
    Ok(ExitCode::SUCCESS)
}

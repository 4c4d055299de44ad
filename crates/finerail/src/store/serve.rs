//! `finerail store serve`: runs a storage gateway.

use std::process::ExitCode;

use anyhow::Context;
use lnet_rpc::{Entropy, Server, ServerOptions};

use super::export::ExportArgs;
use crate::common::{
    ConfigArgs, ControlArgs, MetricsArgs, ServiceArgs, StatsArgs, TransportArgs, reload,
};
use crate::service::{GRACE, StopSignals, raise_descriptor_limit};

/// Arguments of `finerail store serve`.
#[derive(clap::Args)]
#[command(after_help = "\
Example: serve /tmp/kept, without privileges

  mkdir -p /tmp/kept /tmp/kept.state
  cat > storage.yaml <<END
  net:
    - net type: tcp
      local NI(s):
        - nid: 127.0.0.5@tcp
  END
  finerail store serve --config storage.yaml --port 9988 --state /tmp/kept.state /tmp/kept
")]
pub(super) struct ServeArgs {
    #[command(flatten)]
    export: ExportArgs,
    /// Threads that execute calls
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
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

pub(super) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let config = args.config.read()?;
    raise_descriptor_limit();
    let signals = StopSignals::register()?;
    let entropy = || Entropy::from_system().context("cannot read random numbers");
    let gateway = args.export.open(&entropy()?)?;
    let managed = lnet_noded::start(&config, args.service.on(args.transport.options()))
        .with_context(|| format!("cannot start the node of {}", args.config.config.display()))?;
    let node = managed.node();
    let options = ServerOptions {
        workers: args.workers.into(),
        ..ServerOptions::default()
    };
    let server = Server::start(node.clone(), gateway, &entropy()?, options)
        .context("cannot start the service")?;
    let control = args.control.open(&managed)?;
    let metrics = args.metrics.open(node)?;
    let nids: Vec<String> = node.nids().iter().map(ToString::to_string).collect();
    let (nids, port) = (nids.join(", "), args.transport.port);
    let ready = format!(
        "ready: {nids} on port {port} serves {}; {control}",
        args.export
    );
    signals.wait_until_stopped(&ready, || reload(&managed, &args.config));
    tracing::info!(counters = ?server.counters(), "calls");
    drop((control, metrics));
    server.shutdown(GRACE);
    node.shutdown(GRACE);
    args.stats.write(node)?;
    Ok(ExitCode::SUCCESS)
}

//! `finerail lst serve`: runs a test node in the foreground.

use std::process::ExitCode;

use anyhow::Context;
use lnet_selftest::TestNode;

use super::host::Host;
use crate::common::{
    ConfigArgs, ControlArgs, MetricsArgs, ServiceArgs, StatsArgs, TransportArgs, reload,
};
use crate::service::{GRACE, StopSignals, raise_descriptor_limit};

/// Arguments of `finerail lst serve`.
#[derive(clap::Args)]
#[command(after_help = "\
Example: a test node without privileges

  cat > node.yaml <<END
  net:
    - net type: tcp
      local NI(s):
        - nid: 127.0.0.5@tcp
  END
  finerail lst serve --config node.yaml --port 9988

The console of any LNet node can start sessions on a test node and make it send load to others: every \
node that can reach a test node can control it. Run test nodes only if that is acceptable.
")]
pub(super) struct ServeArgs {
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
    let options = TestNode::driving(args.service.on(args.transport.options()));
    let managed = lnet_noded::start(&config, options)
        .with_context(|| format!("cannot start the node of {}", args.config.config.display()))?;
    let node = managed.node();
    let host = Host::start(&managed)?;
    let control = args.control.open(&managed)?;
    let metrics = args.metrics.open(node)?;
    let nids: Vec<String> = node.nids().iter().map(ToString::to_string).collect();
    let ready = format!(
        "ready: test node {} on port {}",
        nids.join(", "),
        args.transport.port
    );
    signals.wait_until_stopped(&ready, || reload(&managed, &args.config));
    tracing::info!(counters = ?host.consoles().test_node().counters(), "selftest");
    host.consoles().close();
    drop((control, metrics));
    node.shutdown(GRACE);
    args.stats.write(node)?;
    Ok(ExitCode::SUCCESS)
}

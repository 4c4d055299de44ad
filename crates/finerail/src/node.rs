//! `finerail node`: run a node in the foreground.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use lnet_noded::UsersFile;

use crate::common::{
    ConfigArgs, ControlArgs, MetricsArgs, ServiceArgs, StatsArgs, TransportArgs, reload,
};
use crate::service::{GRACE, StopSignals, raise_descriptor_limit};

/// Arguments of `finerail node`.
#[derive(clap::Args)]
#[command(after_help = "\
Example: a router between two networks of this machine, without privileges

  cat > router.yaml <<END
  net:
    - net type: tcp
      local NI(s):
        - nid: 127.0.0.1@tcp
    - net type: tcp1
      local NI(s):
        - nid: 127.0.0.2@tcp1
  routing:
    enable: 1
  END
  finerail node --config router.yaml --port 9988
")]
pub(crate) struct NodeArgs {
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
    /// Remember in this file who uses this router, 4,096 peers at most, and tell them when it comes back: they use the
    /// router again at once, and not after their next check
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
}

pub(crate) fn run(args: &NodeArgs) -> anyhow::Result<ExitCode> {
    let config = args.config.read()?;
    raise_descriptor_limit();
    let signals = StopSignals::register()?;
    let managed = lnet_noded::start(&config, args.service.on(args.transport.options()))
        .with_context(|| format!("cannot start the node of {}", args.config.config.display()))?;
    let node = managed.node();
    let control = args.control.open(&managed)?;
    let metrics = args.metrics.open(node)?;
    let users = args.users.as_deref().map(|path| {
        let users = UsersFile::open(&managed, path);
        users.with_context(|| format!("cannot use the file of users {}", path.display()))
    });
    let users = users.transpose()?;
    let nids: Vec<String> = node.nids().iter().map(ToString::to_string).collect();
    let ready = format!(
        "ready: {} on port {}; {control}",
        nids.join(", "),
        args.transport.port
    );
    signals.wait_until_stopped(&ready, || reload(&managed, &args.config));
    drop((control, metrics, users));
    let report = node.shutdown(GRACE);
    if !report.clean {
        tracing::warn!("stopped with messages still under way");
    }
    args.stats.write(node)?;
    Ok(ExitCode::SUCCESS)
}

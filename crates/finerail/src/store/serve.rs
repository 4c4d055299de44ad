//! `finerail store serve`: runs a storage gateway.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use lnet_node::NodeOptions;
use lnet_noded::{Service, ServiceMetric};
use lnet_rpc::{Entropy, Server, ServerNumbers, ServerOptions};

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

/// Returns a function that reads what the gateway counts.
fn watch(numbers: ServerNumbers) -> Arc<Service> {
    Arc::new(move || {
        let mut metrics = gauges(&numbers);
        metrics.extend(counters(&numbers));
        metrics
    })
}

fn gauges(numbers: &ServerNumbers) -> Vec<ServiceMetric> {
    let gauge = |name, help, value: usize| ServiceMetric {
        name,
        help,
        value: value as u64,
        is_counter: false,
    };
    vec![
        gauge(
            "rpc_sessions",
            "Clients that have a session.",
            numbers.clients(),
        ),
        gauge(
            "rpc_running",
            "Calls that run or wait for a worker.",
            numbers.running(),
        ),
        gauge(
            "rpc_answers_unacknowledged",
            "Answers that no client has acknowledged yet.",
            numbers.unacknowledged(),
        ),
    ]
}

fn counters(numbers: &ServerNumbers) -> Vec<ServiceMetric> {
    let counted = numbers.counters();
    let counter = |name, help, value| ServiceMetric {
        name,
        help,
        value,
        is_counter: true,
    };
    vec![
        counter(
            "rpc_requests",
            "Requests that arrived and could be decoded.",
            counted.requests,
        ),
        counter("rpc_executed", "Requests executed.", counted.executed),
        counter(
            "rpc_replayed",
            "Requests answered with the kept reply of their call.",
            counted.replayed,
        ),
        counter(
            "rpc_malformed",
            "Messages that are not requests.",
            counted.malformed,
        ),
        counter(
            "rpc_busy",
            "Requests answered with \"busy\" because a limit was reached.",
            counted.busy,
        ),
        counter(
            "rpc_crowded",
            "Requests for a session refused because their NID or router has as many sessions as it may have.",
            counted.crowded,
        ),
        counter(
            "rpc_full",
            "Requests for a session refused because the gateway is full.",
            counted.full,
        ),
        counter(
            "rpc_displaced",
            "Sessions that never began a call, ended to make room for a new client.",
            counted.displaced,
        ),
        counter(
            "rpc_unread",
            "Requests dropped because their peer left too many answers unacknowledged.",
            counted.unread,
        ),
        counter(
            "rpc_refused",
            "Requests that ask for more than the gateway accepts.",
            counted.refused,
        ),
        counter(
            "rpc_voided",
            "Requests that name another incarnation, or a session that is over.",
            counted.voided,
        ),
        counter(
            "rpc_forgotten",
            "Clients forgotten because they were silent.",
            counted.forgotten,
        ),
        counter(
            "rpc_replies_lost",
            "Replies that were not acknowledged.",
            counted.replies_lost,
        ),
    ]
}

pub(super) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let config = args.config.read()?;
    raise_descriptor_limit();
    let signals = StopSignals::register()?;
    let entropy = || Entropy::from_system().context("cannot read random numbers");
    let gateway = args.export.open(&entropy()?)?;
    let node_options = NodeOptions {
        callers_act_as_others: args.export.acts_as_callers(),
        ..args.transport.options()
    };
    let managed = lnet_noded::start(&config, args.service.on(node_options))
        .with_context(|| format!("cannot start the node of {}", args.config.config.display()))?;
    let node = managed.node();
    let options = ServerOptions {
        workers: args.workers.into(),
        ..ServerOptions::default()
    };
    let server = Server::start(node.clone(), gateway, &entropy()?, options)
        .context("cannot start the service")?;
    let service = watch(server.numbers());
    managed.set_service(Arc::clone(&service));
    let control = args.control.open(&managed)?;
    let metrics = args.metrics.open_with(node, service)?;
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

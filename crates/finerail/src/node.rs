//! `finerail node`: runs a node in the foreground.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use lnet_noded::{RecordFile, UsersFile};
use lnet_types::Nid;

use crate::common::{
    ConfigArgs, ControlArgs, MetricsArgs, ServiceArgs, StatsArgs, TransportArgs, reload,
};
use crate::lst::Host;
use crate::replay;
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

A node can start without a network (--config /dev/null) and get one later: finerail ctl net add
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
    /// Keep the peers that use this router in this file, at most 4,096, and notify them after a restart: they then use
    /// the router at once, not after their next check
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Record the node's inputs in this file, for finerail replay: NIDs, match bits, lengths, never payload. The file
    /// contains secrets (handles), so only its owner can read it. An existing file is renamed to FILE.1
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The limit of bytes of the record, such as 64M or 4G; at the limit the record ends, and the node continues to run
    #[arg(long, value_name = "SIZE", default_value = "256M", requires = "record", value_parser = size)]
    record_size: u64,
    /// Serve consoles and tests of LNet selftest too, as kernel nodes do with the module lnet_selftest, and carry out the
    /// commands of `finerail lst` on this machine. Every node that can reach this one can then use it to send load
    #[arg(long)]
    selftest: bool,
}

pub(crate) fn run(args: &NodeArgs) -> anyhow::Result<ExitCode> {
    let config = args.config.read()?;
    raise_descriptor_limit();
    let signals = StopSignals::register()?;
    let options = args.service.on(args.transport.options());
    let record = args.record.as_deref().map(|path| {
        let made = RecordFile::create(path, args.record_size, &replay::software());
        made.with_context(|| format!("cannot record into {}", path.display()))
    });
    let (record, recorder) = record.transpose()?.unzip();
    let managed = lnet_noded::start_recorded(&config, options, recorder)
        .with_context(|| format!("cannot start the node of {}", args.config.config.display()))?;
    if let Some(record) = &record {
        managed.tell_of_record(record);
    }
    let node = managed.node();
    // Before the control endpoint, so that the first command of `lst` finds a console.
    let tests = args.selftest.then(|| Host::start(&managed)).transpose()?;
    let control = args.control.open(&managed)?;
    let metrics = args.metrics.open(node)?;
    let users = args.users.as_deref().map(|path| {
        let users = UsersFile::open(&managed, path);
        users.with_context(|| format!("cannot use the file of users {}", path.display()))
    });
    let users = users.transpose()?;
    let names = names(&node.nids());
    let serves = if tests.is_some() {
        "; serves selftest"
    } else {
        ""
    };
    let port = args.transport.port;
    let ready = format!("ready: {names} on port {port}; {control}{serves}");
    signals.wait_until_stopped(&ready, || reload(&managed, &args.config));
    if let Some(tests) = &tests {
        tests.consoles().close();
    }
    drop((control, metrics, users));
    let report = node.shutdown(GRACE);
    if !report.clean {
        tracing::warn!("stopped with messages in flight");
    }
    args.stats.write(node)?;
    drop(record);
    Ok(ExitCode::SUCCESS)
}

/// Parses a size: `65536`, `64K`, `256M`, `4G`.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match text.strip_prefix(digits) {
        Some("") => 0,
        Some("K") => 10,
        Some("M") => 20,
        Some("G") => 30,
        _ => return Err("write bytes, or a number with K, M or G".to_owned()),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = digits.parse::<u64>().ok();
    let bytes = bytes.and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| match is_number {
        true => format!("more than {} bytes", u64::MAX),
        false => "write bytes, or a number with K, M or G".to_owned(),
    })
}

/// Returns the words for the node in the line that reports the node as ready: its NIDs.
fn names(nids: &[Nid]) -> String {
    if nids.is_empty() {
        return "no network yet (finerail ctl net add)".to_owned();
    }
    let nids: Vec<String> = nids.iter().map(ToString::to_string).collect();
    nids.join(", ")
}

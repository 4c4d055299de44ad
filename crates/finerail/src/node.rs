//! `finerail node`: runs a node in the foreground.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use lnet_config::{Config, Ip2Nets, NetConfig, NoRuleApplies};
use lnet_noded::{RecordFile, RpcCounts, UsersFile};
use lnet_types::Nid;
use sys::InterfaceAddress;

use crate::common::{
    ConfigArgs, ControlArgs, MetricsArgs, ServiceArgs, StatsArgs, TransportArgs, complaint, reload,
};
use crate::lst::Host;
use crate::replay;
use crate::service::{GRACE, StopSignals, raise_descriptor_limit, tell_status};

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
    /// Wait until the interfaces and addresses of the configuration are there, for this time at most, such as 60s: at boot
    /// they may come after the node
    #[arg(long, value_name = "TIME", value_parser = wait_time)]
    wait: Option<Duration>,
    /// Serve consoles and tests of LNet selftest too, as kernel nodes do with the module lnet_selftest, and carry out the
    /// commands of `finerail lst` on this machine. Every node that can reach this one can then use it to send load
    #[arg(long)]
    selftest: bool,
    /// Count the RPCs of Lustre that pass this router, or begin or end at this node, by client, target, job and operation:
    /// for `finerail top --rpc`, `finerail ctl watch --rpc` and --metrics. Only headers and the first KiB of requests and
    /// replies are looked at
    #[arg(long)]
    rpc: bool,
}

pub(crate) fn run(args: &NodeArgs) -> anyhow::Result<ExitCode> {
    let config = args.config.read()?;
    raise_descriptor_limit();
    let mut signals = StopSignals::register()?;
    if let Some(limit) = args.wait
        && !wait_for_interfaces(&config, limit, &mut signals)?
    {
        return Ok(ExitCode::SUCCESS);
    }
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
    let rpcs = args.rpc.then(|| RpcCounts::start(node)).transpose()?;
    if let Some(rpcs) = &rpcs {
        managed.tell_of_rpcs(rpcs);
    }
    let control = args.control.open(&managed)?;
    let metrics = match &rpcs {
        Some(rpcs) => args.metrics.open_beside(node, rpcs.metrics())?,
        None => args.metrics.open(node)?,
    };
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
    drop((control, metrics, rpcs, users));
    let report = node.shutdown(GRACE);
    if !report.clean {
        tracing::warn!("stopped with messages in flight");
    }
    args.stats.write(node)?;
    drop(record);
    Ok(ExitCode::SUCCESS)
}

/// The time between two looks at the interfaces.
const LOOK: Duration = Duration::from_millis(200);

/// Waits until the interfaces of the configuration are up and have addresses, or the time is over. Returns false if a
/// signal stops the service.
fn wait_for_interfaces(
    config: &Config,
    limit: Duration,
    signals: &mut StopSignals,
) -> anyhow::Result<bool> {
    let begun = Instant::now();
    let mut told = Vec::new();
    loop {
        let missing = missing(config)?;
        if missing.is_empty() {
            return Ok(true);
        }
        let left = limit.saturating_sub(begun.elapsed());
        let list = missing.join(", ");
        if left.is_zero() {
            complaint(&format!("waited {} s in vain for {list}", limit.as_secs()));
            return Ok(true);
        }
        if missing != told {
            let text = format!(
                "waiting for {list}, {} s at most",
                left.as_secs_f64().ceil()
            );
            complaint(&text);
            tell_status(&text);
            told = missing;
        }
        if signals.wait_at_most(LOOK.min(left)) {
            return Ok(false);
        }
    }
}

/// Returns what the configuration needs and the system does not have yet, each with the reason.
fn missing(config: &Config) -> anyhow::Result<Vec<String>> {
    let links = sys::links().context("cannot list the interfaces")?;
    let addresses = sys::interface_addresses().context("cannot list the addresses")?;
    let mut missing = Vec::new();
    let by_address = by_address(&config.ip2nets, &addresses).unwrap_or_else(|text| {
        missing.push(text);
        Vec::new()
    });
    let nets = config.nets.iter().chain(&by_address);
    for ni in nets.flat_map(|net| &net.nis) {
        for name in &ni.interfaces {
            let device = name.split(':').next().unwrap_or(name);
            let has_address = addresses.iter().any(|one| one.name == *name);
            match links.get(device) {
                None => missing.push(format!("{name} (there is none)")),
                Some(false) => missing.push(format!("{name} (down, or no carrier)")),
                Some(true) if !has_address => missing.push(format!("{name} (no address)")),
                Some(true) => {}
            }
        }
        let address = ni.nid.and_then(Nid::ip).filter(|ip| !ip.is_loopback());
        if let Some(address) = address.filter(|ip| addresses.iter().all(|one| one.address != *ip)) {
            missing.push(format!("the address {address}"));
        }
    }
    Ok(missing)
}

/// Returns the nets that the rules of `ip2nets` give to a machine with these addresses, or, if they give none, what is
/// missing.
fn by_address(rules: &[Ip2Nets], addresses: &[InterfaceAddress]) -> Result<Vec<NetConfig>, String> {
    // Loopback addresses do not say where a machine is.
    let local = addresses.iter().filter(|one| !one.address.is_loopback());
    let local: Vec<_> = local.map(|one| (one.name.as_str(), one.address)).collect();
    match Ip2Nets::nets(rules, &local) {
        Err(NoRuleApplies) if !rules.is_empty() => {
            Err("an address that a rule of ip2nets covers".to_owned())
        }
        nets => Ok(nets.unwrap_or_default()),
    }
}

/// The longest wait for interfaces.
const WAIT_MAX: Duration = Duration::from_secs(86_400);

/// Parses the time of `--wait`: `60s`, `2m`.
pub(crate) fn wait_time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(['s', 'm']);
    let unit = match text.strip_prefix(digits) {
        Some("s") => 1,
        Some("m") => 60,
        _ => return Err("write a time such as 60s or 2m".to_owned()),
    };
    let seconds = digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit));
    let time = seconds
        .map(Duration::from_secs)
        .filter(|time| *time <= WAIT_MAX);
    time.ok_or_else(|| "write a time such as 60s or 2m, at most a day".to_owned())
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

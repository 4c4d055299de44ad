//! `finerail zoid`: the I/O-node daemon, its counters, and the removal of what a dead daemon left behind.

mod forward;
mod top;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use zoid_proto::Instance;
use zoidd::{Daemon, Failpoint, Metric, Options};

use crate::common::Negative;
use crate::service::{StopSignals, raise_descriptor_limit};

/// The short name of the program: called by it, the program acts as `finerail zoid daemon`.
const SHORT_NAME: &str = "zoidd";

/// Inserts the words `zoid daemon` into the arguments if the program was called as `zoidd`.
pub(crate) fn with_command(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().map(Path::new).and_then(Path::file_stem);
    if name.is_some_and(|name| name == SHORT_NAME) {
        arguments.splice(1..1, ["zoid", "daemon"].map(OsString::from));
    }
    arguments
}

/// Arguments of `finerail zoid`.
#[derive(clap::Args)]
pub(crate) struct ZoidArgs {
    #[command(subcommand)]
    command: ZoidCommand,
}

#[derive(clap::Subcommand)]
enum ZoidCommand {
    /// Run the I/O-node daemon in the foreground; show its counters; remove the remains of a dead daemon
    Daemon(Box<DaemonArgs>),
    /// Export a directory or gateways to the daemon's clients, in the foreground; show its counters
    Forward(Box<forward::ForwardArgs>),
    /// Show a running daemon's clients, pools and waits, live
    Top(top::TopArgs),
}

/// Arguments of `finerail zoid daemon`.
#[derive(clap::Args)]
#[command(after_help = "\
Settings are read from compiled defaults, then --config, then the environment (ZBMI_SHM_SIZE_TOTAL, \
ZBMI_SHM_SIZE_UNEXP, ZOID_MAX_UNEXPECTED_MSG, ZOID_MAX_EXPECTED_MSG, ZOID_INSTANCE, ZOID_SOCKET), \
then these flags; later ones have precedence. A configuration file has one `name = value` a line, \
with the names of the flags; # begins a comment. Sizes can have the suffixes k, M and G (binary). \
docs/zoid-daemon.md describes how to choose them.

Examples
  finerail zoid daemon --total 64M &              serve this user's clients and one server
  finerail zoid daemon --stat                     print its counters
  kill %1                                         drain operations in flight, then end
  finerail zoid daemon --cleanup --instance old   remove queues and memory of a daemon that was killed
")]
pub(crate) struct DaemonArgs {
    /// Read settings from this file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Name of this daemon and its clients and server [default: default]
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// The directory of lock, journal and sockets [default: /run/user/UID, or /tmp/zbmi-UID]
    #[arg(long, value_name = "DIR")]
    directory: Option<String>,
    /// Unix socket for clients [default: zbmi.NAME.sock in the directory]
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,
    /// Listen for clients over TCP too, such as 0.0.0.0:7320; every client that can reach it may use it
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Name or number of a group whose members may use the daemon
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Size of the memory shared with the server [default: 512M]
    #[arg(long, value_name = "SIZE")]
    total: Option<String>,
    /// Size of the part of this memory for unexpected messages [default: 1M]
    #[arg(long, value_name = "SIZE")]
    unexp: Option<String>,
    /// Largest unexpected message [default: 8192]
    #[arg(long, value_name = "SIZE")]
    max_unexpected: Option<String>,
    /// Largest expected message [default: 128M]
    #[arg(long, value_name = "SIZE")]
    max_expected: Option<String>,
    /// Pages of the shared memory: 2M or 1G of the system's reserve (vm.nr_hugepages), or
    /// transparent huge pages if that is empty; auto is 2M without a warning; off [default: off]
    #[arg(long, value_name = "SIZE")]
    hugepages: Option<String>,
    /// Touch the shared memory early: on, off or auto, which is on up to 1G [default: auto]
    #[arg(long, value_name = "WHEN")]
    prefault: Option<String>,
    /// Milliseconds that a post of the server waits for the next test of its client; 0: no wait [default: 2]
    #[arg(long, value_name = "MS")]
    hold_ms: Option<String>,
    /// Milliseconds without progress after which a transfer fails [default: 5000]
    #[arg(long, value_name = "MS")]
    stall_ms: Option<String>,
    /// Milliseconds that the daemon keeps the state of a client after its connection broke; 0: not at all [default: 0]
    #[arg(long, value_name = "MS")]
    reattach_ms: Option<String>,
    /// Milliseconds between pings of an idle client; three pings without a response close the connection [default: 2000]
    #[arg(long, value_name = "MS")]
    heartbeat_ms: Option<String>,
    /// Limit of clients at the same time [default: 4096]
    #[arg(long, value_name = "N")]
    max_clients: Option<String>,
    /// Limit of transfers above 64k to the server at the same time [default: 2]
    #[arg(long, value_name = "N")]
    bulk_slots: Option<String>,
    /// Unexpected messages that a client may send without a request first [default: 0]
    #[arg(long, value_name = "N")]
    credits: Option<String>,
    /// Copy messages of 64k and more directly from and to the memory of clients of this machine, if
    /// the system allows it: on, auto (on without a warning if it does not) or off [default: auto]
    #[arg(long, value_name = "WHEN")]
    client_memory: Option<String>,
    /// Microseconds that the daemon polls for work before it sleeps, for a daemon with a core of its
    /// own [default: 0]
    #[arg(long, value_name = "US")]
    spin_us: Option<String>,
    /// Limit of the unexpected memory that one client may use, in per cent [default: 100]
    #[arg(long, value_name = "PERCENT")]
    unexp_share: Option<String>,
    /// Weights of jobs for transfers above 64k to the server, such as 7:2,9:4: the transfers of a job
    /// for each one of a job with weight 1; clients name their job with ZOID_JOB [default: 1 for every job]
    #[arg(long, value_name = "LIST")]
    job_weights: Option<String>,
    /// Stop or kill the process at a step of the protocol; for tests
    #[arg(long, value_name = "PLACE=ACTION", hide = true)]
    failpoint: Vec<Failpoint>,
    /// Show the counters and the state of the running daemon, and exit
    #[arg(long, conflicts_with = "cleanup")]
    stat: bool,
    /// With --stat: print one JSON document
    #[arg(long, requires = "stat")]
    json: bool,
    /// Remove the remains of a dead daemon of this instance and of its dead servers, and exit
    #[arg(long)]
    cleanup: bool,
}

pub(crate) fn run(args: &ZoidArgs) -> anyhow::Result<ExitCode> {
    let args = match &args.command {
        ZoidCommand::Daemon(args) => args,
        ZoidCommand::Forward(args) => return forward::run(args),
        ZoidCommand::Top(args) => return top::run(args),
    };
    let options = args.options()?;
    if args.stat {
        return stat(&options, args.json);
    }
    if args.cleanup {
        return cleanup(&options);
    }
    serve(options)
}

impl DaemonArgs {
    fn options(&self) -> anyhow::Result<Options> {
        let mut options = Options::default();
        if let Some(file) = &self.config {
            options.read_file(file)?;
        }
        let variables: BTreeMap<String, String> = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        options.read_environment(&variables)?;
        for (name, value) in self.flags() {
            if let Some(value) = value {
                options.set("command line", name, value)?;
            }
        }
        for failpoint in &self.failpoint {
            options.failpoints.add(*failpoint);
        }
        Ok(options)
    }

    /// Returns the flags that are settings, by name.
    fn flags(&self) -> [(&'static str, &Option<String>); 22] {
        [
            ("instance", &self.instance),
            ("directory", &self.directory),
            ("socket", &self.socket),
            ("listen", &self.listen),
            ("group", &self.group),
            ("total", &self.total),
            ("unexp", &self.unexp),
            ("max-unexpected", &self.max_unexpected),
            ("max-expected", &self.max_expected),
            ("hugepages", &self.hugepages),
            ("prefault", &self.prefault),
            ("hold-ms", &self.hold_ms),
            ("stall-ms", &self.stall_ms),
            ("reattach-ms", &self.reattach_ms),
            ("heartbeat-ms", &self.heartbeat_ms),
            ("max-clients", &self.max_clients),
            ("bulk-slots", &self.bulk_slots),
            ("credits", &self.credits),
            ("spin-us", &self.spin_us),
            ("client-memory", &self.client_memory),
            ("unexp-share", &self.unexp_share),
            ("job-weights", &self.job_weights),
        ]
    }
}

fn serve(options: Options) -> anyhow::Result<ExitCode> {
    raise_descriptor_limit();
    let signals = StopSignals::register()?;
    let daemon = Daemon::open(options).map_err(failure)?;
    let mut ready = format!("ready: {}", daemon.socket().display());
    if let Some(address) = daemon.address() {
        ready += &format!(" and {address}");
    }
    let stopper = daemon.stopper();
    // A thread of its own waits for the signals, so that the process ends if the daemon ends by itself.
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            signals.wait_until_stopped(&ready, || {
                tracing::info!("settings cannot change while the daemon runs")
            });
            stopper.stop();
        })
        .context("cannot start a thread")?;
    daemon.run().map_err(failure)?;
    Ok(ExitCode::SUCCESS)
}

/// Classifies an error of the daemon: a wrong setting is bad input, and any other error comes from the machine.
fn failure(error: zoidd::Error) -> anyhow::Error {
    match error {
        zoidd::Error::Setting(_) | zoidd::Error::Engine(_) => error.into(),
        error => Negative(error.to_string()).into(),
    }
}

fn cleanup(options: &Options) -> anyhow::Result<ExitCode> {
    let removed = zoidd::cleanup(&options.instance, options.directory.as_deref());
    let removed = removed.map_err(failure)?;
    writeln!(io::stdout(), "removed: {removed}")?;
    Ok(ExitCode::SUCCESS)
}

fn stat(options: &Options, json: bool) -> anyhow::Result<ExitCode> {
    let metrics = metrics(&options.instance, options.directory.as_deref())?;
    let text = match json {
        true => {
            let map: BTreeMap<&str, serde_json::Number> = metrics
                .iter()
                .filter_map(|metric| Some((metric.name.as_str(), number(metric.value)?)))
                .collect();
            serde_json::to_string_pretty(&map)? + "\n"
        }
        false => table(&metrics),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Converts a value to a JSON number. A whole number is written without a fraction: `7`, not `7.0`.
fn number(value: f64) -> Option<serde_json::Number> {
    // Up to this value, an f64 represents every whole number.
    const WHOLE_MAX: f64 = (1_u64 << 53) as f64;
    if value.fract() == 0.0 && (0.0..WHOLE_MAX).contains(&value) {
        return Some((value as u64).into());
    }
    serde_json::Number::from_f64(value)
}

fn metrics(instance: &Instance, directory: Option<&Path>) -> anyhow::Result<Vec<Metric>> {
    let none = || {
        Negative(format!(
            "no daemon of instance {instance} runs for this user"
        ))
    };
    let directory = match directory {
        Some(directory) => directory.to_path_buf(),
        None => zoidd::find_directory(sys::effective_user()).ok_or_else(none)?,
    };
    zoidd::read_metrics(instance, &directory).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => none().into(),
        _ => anyhow::Error::new(error).context("cannot get the counters of the daemon"),
    })
}

/// Formats the metrics that are not 0, and the numbers of servers and clients, without the histograms. Scripts
/// read the rest as JSON.
fn table(metrics: &[Metric]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["metric", "value"]);
    let shown = metrics
        .iter()
        .filter(|metric| metric.value != 0.0 || ALWAYS.contains(&metric.name.as_str()))
        .filter(|metric| !metric.name.contains("_bucket{"));
    for metric in shown {
        let name = metric.name.trim_start_matches("zoidd_");
        table.add_row([name.to_owned(), metric.value.to_string()]);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n") + "\n"
}

/// Metrics that are shown even if they are 0.
const ALWAYS: [&str; 2] = ["zoidd_clients", "zoidd_server_attached"];

#[cfg(test)]
mod tests {
    use super::*;

    fn command(arguments: &[&str]) -> Vec<OsString> {
        with_command(arguments.iter().map(OsString::from).collect())
    }

    #[test]
    fn numbers_in_json_are_whole_where_they_are_counts() {
        let text = |value| number(value).map(|number| number.to_string());
        assert_eq!(text(0.0).as_deref(), Some("0"));
        assert_eq!(text(67_108_864.0).as_deref(), Some("67108864"));
        assert_eq!(text(0.25).as_deref(), Some("0.25"));
        assert!(text(1e300).unwrap().starts_with("1e"));
        assert_eq!(text(f64::NAN), None);
    }

    #[test]
    fn called_as_zoidd_it_is_the_daemon() {
        let words = ["/usr/sbin/zoidd", "zoid", "daemon", "--stat"].map(OsString::from);
        assert_eq!(command(&["/usr/sbin/zoidd", "--stat"]), words);
        assert_eq!(command(&["finerail", "ping"]), ["finerail", "ping"]);
        assert!(command(&[]).is_empty());
    }
}

//! `finerail zoid forward`: the I/O forwarder, which exports files to compute processes.

mod export;
mod stat;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bmi::tcp::Tcp;
use bmi::{Bmi, Question};
use files_bmi::{Forwarder, ForwarderOptions, Schedule};
use zoid::Zoid;
use zoid_proto::Instance;

use self::export::{Export, ExportArgs};
use self::stat::Stat;
use crate::common::{MetricsArgs, Negative};
use crate::service::{GRACE, StopSignals, raise_descriptor_limit};

/// Arguments of `finerail zoid forward`.
#[derive(clap::Args)]
#[command(after_help = "\
EXPORT is dir:PATH, a directory of this machine, or lnet:NID[,NID…], gateways of one file system \
(finerail store serve) that the node of --config reaches. With several, the next gateway takes over if \
one does not answer.

The forwarder is the only server of the I/O-node daemon; compute processes reach it at zoid:. With \
--listen it also serves BMI's tcp method. After a restart of the daemon the forwarder attaches to it, \
and clients continue. SIGTERM ends the forwarder after the exchanges in flight, within ten seconds. \
docs/zoid-forward.md describes its limits and counters.

Examples
  finerail zoid daemon &                        the I/O-node daemon
  finerail zoid forward dir:/srv/scratch &      serve this directory to its clients
  finerail zoid forward --stat                  print its counters
")]
pub(crate) struct ForwardArgs {
    /// The exported directory or gateways
    #[arg(value_name = "EXPORT", required_unless_present = "stat")]
    export: Option<OsString>,
    /// Name of the daemon whose clients are served [default: that of ZOID_INSTANCE, or default]
    #[arg(long, value_name = "NAME")]
    instance: Option<Instance>,
    /// The directory of the socket for --stat: that of the daemon [default: /run/user/UID, or /tmp/zbmi-UID]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Seconds to wait for the daemon at the start
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(..=86_400))]
    wait: u32,
    /// Serve clients of BMI's tcp method at this address too, such as tcp://0.0.0.0:3334; every client that can reach it
    /// may use it
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Serve only clients of --listen, without a daemon
    #[arg(long, requires = "listen")]
    no_daemon: bool,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    from: ExportArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    /// Show the counters and the state of the running forwarder, and exit
    #[arg(long)]
    stat: bool,
    /// With --stat: print one JSON document
    #[arg(long, requires = "stat")]
    json: bool,
}

/// The limits on what clients can use.
#[derive(clap::Args)]
struct LimitArgs {
    /// Threads that execute operations
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Limit of buffers in use at the same time, in MiB; the daemon's shared memory must have room for them
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..=1 << 20))]
    memory: u32,
    /// KiB of file data in one message
    #[arg(long, value_name = "KIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(64..=64 << 10))]
    piece: u32,
    /// Order of operations within the turns of jobs and clients
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = Order::Merge)]
    schedule: Order,
    /// Operations of one client before the turn of the next client
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    quantum: u16,
    /// Limit of reads or writes that are merged into one
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: u16,
    /// Number of clients whose state is kept, so that no operation of theirs is executed twice
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    max_clients: u32,
    /// Seconds without progress after which an exchange is cancelled
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    patience: u32,
    /// Milliseconds that a client without progress may keep a buffer for which others wait
    #[arg(long, value_name = "MS", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    turn_ms: u32,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Order {
    /// In the order of arrival
    Fifo,
    /// Merge operations that are adjacent in a file
    Merge,
}

impl LimitArgs {
    fn options(&self) -> ForwarderOptions {
        ForwarderOptions {
            workers: self.workers.into(),
            memory: u64::from(self.memory) << 20,
            piece: self.piece << 10,
            schedule: match self.schedule {
                Order::Fifo => Schedule::Fifo,
                Order::Merge => Schedule::Merge,
            },
            quantum: self.quantum.into(),
            batch: self.batch.into(),
            clients_max: self.max_clients as usize,
            patience: Duration::from_secs(self.patience.into()),
            turn: Duration::from_millis(self.turn_ms.into()),
        }
    }
}

pub(super) fn run(args: &ForwardArgs) -> anyhow::Result<ExitCode> {
    let zoid = args.zoid();
    if args.stat {
        return stat::show(&zoid.instance, args.directory.as_deref(), args.json);
    }
    let export = args.export.as_ref().context("no EXPORT")?;
    raise_descriptor_limit();
    let signals = StopSignals::register()?;
    let export = Export::open(export, &args.from)?;
    let instance = zoid.instance.clone();
    let bmi = Arc::new(args.start(zoid)?);
    let at = args.addresses(&bmi, &instance);
    let forwarder = Forwarder::start(Arc::clone(&bmi), export.files(), args.limits.options())
        .context("cannot start the forwarder")?;
    let forwarder = Arc::new(forwarder);
    let metrics = args.metrics.open_text({
        let forwarder = Arc::clone(&forwarder);
        move || forwarder.exposition()
    })?;
    let stat = Stat::open(&instance, args.directory.as_deref(), &forwarder);
    let mut ready = format!("ready: {at} serves {}", export.name());
    if let Some(control) = export.control() {
        ready = format!("{ready}; {control}");
    }
    let reload = || tracing::info!("settings are read at the start only");
    signals.wait_until_stopped(&ready, reload);
    drop((metrics, stat));
    tracing::info!(counters = ?forwarder.counters().snapshot(), "exchanges");
    match Arc::try_unwrap(forwarder) {
        Ok(forwarder) => forwarder.shutdown(GRACE),
        // A connection that still serves metrics holds the forwarder. It ends with the process.
        Err(forwarder) => drop(forwarder),
    }
    bmi.finalize();
    export.close()?;
    Ok(ExitCode::SUCCESS)
}

impl ForwardArgs {
    fn zoid(&self) -> zoid::Options {
        let options = zoid::Options::from_environment();
        zoid::Options {
            instance: self.instance.clone().unwrap_or(options.instance.clone()),
            pipelined: true,
            server_connect: Some(Duration::from_secs(self.wait.into())),
            ..options
        }
    }

    /// Attaches to the daemon, and listens at the addresses of `--listen`.
    fn start(&self, zoid: zoid::Options) -> anyhow::Result<Bmi> {
        let (instance, wait) = (zoid.instance.clone(), self.wait);
        let mut listen: Vec<&str> = Vec::new();
        let mut builder = Bmi::builder();
        if !self.no_daemon {
            builder = builder.method(Zoid::new(zoid));
            listen.push("zoid://");
        }
        if let Some(address) = &self.listen {
            builder = builder.method(Tcp::new());
            listen.push(address);
        }
        let started = builder.listen(&listen.join(",")).start();
        started.map_err(|error| {
            let what = match error {
                bmi::Error::ConnRefused => format!(
                    "there is no daemon of instance {instance} after {wait} s; start one: finerail zoid daemon --instance {instance}"
                ),
                bmi::Error::Busy => format!("the daemon of instance {instance} has a server already"),
                bmi::Error::Inval => format!(
                    "cannot listen on {}: write tcp://HOST:PORT",
                    self.listen.as_deref().unwrap_or("zoid://")
                ),
                error => format!("cannot serve {}: {error}", listen.join(" and ")),
            };
            match error {
                bmi::Error::Inval => anyhow::anyhow!(what),
                _ => Negative(what).into(),
            }
        })
    }

    /// Returns where clients find the forwarder, as file addresses.
    fn addresses(&self, bmi: &Bmi, instance: &Instance) -> String {
        let mut at = Vec::new();
        if !self.no_daemon {
            at.push(format!("zoid:{instance}"));
        }
        if let Some(address) = &self.listen {
            let port = bmi.get(None, Question::TcpPort).unwrap_or(0);
            // With port 0 the system chose a free port, so the chosen port is shown.
            let address = address
                .strip_suffix(":0")
                .map_or(address.clone(), |host| format!("{host}:{port}"));
            at.push(format!("bmi:{address}"));
        }
        at.join(", ")
    }
}

//! The processes of the bench: the work of this program when the bench starts it again.

use std::fs;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use bmi::tcp::Tcp;
use bmi::{Bmi, Question};
use clap::{Args, ValueEnum};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use zoid::{ClientMemory, Zoid};
use zoid_proto::Instance;
use zoidd::{Daemon, PREFAULT_THREAD};

use super::task::Method;
use super::{client, limits, server};
use crate::peer::{end_with_standard_input, ready};

/// The bytes of the segment: enough for 64 clients with four messages of 1 MiB each, and for two messages of 128
/// MiB.
const SEGMENT: u64 = 768 << 20;
/// The bytes of the segment if there is no crowd.
const SMALL_SEGMENT: u64 = 384 << 20;
/// The bytes of the segment if messages are short.
const TINY_SEGMENT: u64 = 16 << 20;
/// The time for which spinning processes look for work.
const SPIN: Duration = Duration::from_micros(200);

const fn spin(method: Method) -> Duration {
    match method {
        Method::Spinning => SPIN,
        _ => Duration::ZERO,
    }
}

/// Arguments of the hidden `finerail-bench bmi-peer`.
#[derive(Args)]
pub(crate) struct BmiPeerArgs {
    role: Role,
    /// The CPU to stay on
    #[arg(long)]
    cpu: Option<usize>,
    /// The directory of sockets
    #[arg(long)]
    directory: PathBuf,
    /// The address of the tcp server
    #[arg(long, default_value_t = 0)]
    port: u16,
}

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// The other end of the machine's limits
    Limits,
    /// A daemon
    Daemon,
    /// A daemon that spins
    SpinningDaemon,
    /// A daemon that copies directly from and to its clients' memory
    CopyingDaemon,
    /// The server at the daemon
    Server,
    /// The server at the daemon that spins
    SpinningServer,
    /// The server at the daemon that copies
    ProcessCopyServer,
    /// The server of the tcp method
    TcpServer,
    /// A client, of all methods
    Client,
}

/// The names by which the processes of one bed find one another.
pub(super) struct Place {
    pub(super) directory: PathBuf,
    /// The port of the tcp server.
    pub(super) port: u16,
}

impl Place {
    /// Returns the address of a method's server.
    pub(super) fn server(&self, method: Method) -> String {
        match method {
            Method::Zoid | Method::Spinning | Method::ProcessCopy => "zoid://".to_owned(),
            Method::Tcp => format!("tcp://127.0.0.1:{}", self.port),
        }
    }

    /// Returns the options with which clients and servers find the daemon of a method.
    pub(super) fn client_options(&self, method: Method) -> anyhow::Result<zoid::Options> {
        Ok(zoid::Options {
            instance: self.instance(method)?,
            socket: Some(self.socket(method)),
            client_memory: ClientMemory::Allow,
            spin: spin(method),
            ..zoid::Options::default()
        })
    }

    fn daemon_options(&self, method: Method) -> anyhow::Result<zoidd::Options> {
        Ok(zoidd::Options {
            instance: self.instance(method)?,
            directory: Some(self.directory.clone()),
            socket: Some(self.socket(method)),
            total: match method {
                Method::ProcessCopy => SMALL_SEGMENT,
                Method::Spinning => TINY_SEGMENT,
                _ => SEGMENT,
            },
            spin: spin(method),
            client_memory: match method {
                Method::ProcessCopy => zoidd::ClientMemory::On,
                _ => zoidd::ClientMemory::Off,
            },
            ..zoidd::Options::default()
        })
    }

    /// Returns the name of a method's daemon. Each bed has a directory of its own, so the directory's name
    /// distinguishes the instances of several beds.
    pub(super) fn instance(&self, method: Method) -> anyhow::Result<Instance> {
        let name = self.directory.file_name().unwrap_or_default();
        let name: String = name
            .to_string_lossy()
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        Ok(format!("{name}-{method}").parse()?)
    }

    fn socket(&self, method: Method) -> PathBuf {
        self.directory.join(method.to_string())
    }
}

pub(crate) fn run(args: &BmiPeerArgs) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The bench reads this line. If the bench is gone, nothing can be done.
            let _unread = writeln!(io::stdout(), "failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &BmiPeerArgs) -> anyhow::Result<()> {
    if let Some(cpu) = args.cpu {
        sys::pin_to_cpu(cpu).with_context(|| format!("cannot stay on CPU {cpu}"))?;
    }
    let place = Place {
        directory: args.directory.clone(),
        port: args.port,
    };
    match args.role {
        Role::Daemon => daemon(&place, Method::Zoid),
        Role::SpinningDaemon => daemon(&place, Method::Spinning),
        Role::CopyingDaemon => daemon(&place, Method::ProcessCopy),
        Role::Server => zoid_server(&place, Method::Zoid),
        Role::SpinningServer => zoid_server(&place, Method::Spinning),
        Role::ProcessCopyServer => zoid_server(&place, Method::ProcessCopy),
        Role::TcpServer => tcp_server(),
        Role::Limits => {
            end_with_standard_input()?;
            limits::target::serve(&place.directory)
        }
        Role::Client => {
            ready(0)?;
            client::serve(&place)
        }
    }
}

/// Runs a daemon until standard input ends; then the daemon removes its names.
fn daemon(place: &Place, method: Method) -> anyhow::Result<()> {
    // A signal to all processes of a terminal must not end the daemon before it has removed its names. The daemon
    // ends when the bench has ended.
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::default()).context("cannot register signal handlers")?;
    }
    let daemon = Daemon::open(place.daemon_options(method)?)?;
    let stopper = daemon.stopper();
    let wait = move || {
        // An error counts as the end, too.
        while io::stdin().read(&mut [0]).is_ok_and(|count| count > 0) {}
        stopper.stop();
    };
    thread::Builder::new()
        .spawn(wait)
        .context("cannot start a thread")?;
    let _unknown = await_prefault();
    ready(0)?;
    Ok(daemon.run()?)
}

/// Waits until the daemon's thread has touched the segment. Otherwise the thread would take CPU time from the first
/// measurement.
fn await_prefault() -> io::Result<()> {
    let prefaults = |thread: io::Result<fs::DirEntry>| {
        let name = thread.and_then(|thread| fs::read_to_string(thread.path().join("comm")));
        name.is_ok_and(|name| name.trim_end() == PREFAULT_THREAD)
    };
    while fs::read_dir("/proc/self/task")?.any(prefaults) {
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Runs a server until standard input ends. The server answers each input line with the used bytes of the segment
/// and the number of reply queues that were made.
fn zoid_server(place: &Place, method: Method) -> anyhow::Result<()> {
    let zoid = Zoid::new(place.client_options(method)?);
    let counters = zoid.counters();
    let answer = move || {
        // An error counts as the end, too, because then nothing reads the answer.
        for _line in io::stdin().lines().map_while(Result::ok) {
            let counts = counters.read();
            let used = counts.memory_taken.saturating_sub(counts.memory_returned);
            if writeln!(io::stdout(), "{used} {}", counts.reply_queues).is_err() {
                break;
            }
        }
        std::process::exit(0);
    };
    thread::Builder::new()
        .spawn(answer)
        .context("cannot start a thread")?;
    let bmi = Bmi::builder().method(zoid).listen("zoid://").start()?;
    ready(0)?;
    server::serve(&bmi)
}

fn tcp_server() -> anyhow::Result<()> {
    end_with_standard_input()?;
    let builder = Bmi::builder().method(Tcp::new()).bind_specific(true);
    let bmi = builder.listen("tcp://127.0.0.1:0").start()?;
    let port = bmi.get(None, Question::TcpPort)?;
    ready(u16::try_from(port)?)?;
    server::serve(&bmi)
}

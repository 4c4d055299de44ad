//! `finerail demo`: three nodes on this machine carry files to storage and back through a router.
//!
//! ```text
//!  client 127.0.0.2@tcp ──▶ 127.0.0.3@tcp  router  127.0.0.4@tcp1 ──▶ 127.0.0.5@tcp1 storage
//! ```
//!
//! Every node is a process of its own, and what carries the files are the commands anybody can type:
//! `finerail node`, `finerail store serve`, `finerail store put` and `get`.

mod data;
mod nodes;
mod report;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use self::data::{Amount, Digests, Plan, Step};
use self::nodes::{NodeProcess, Role, STORAGE_NID, Site};
use self::report::{Report, Transfer};
use crate::bench;
use crate::common::NotSo;
use crate::service::raise_on_signals;

/// Arguments of `finerail demo`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples
  finerail demo                          ten thousand small files and one of 1 GiB
  finerail demo ~/pictures               your own files
  finerail demo --kill-router            the same, with the router killed and restarted midway
")]
pub(crate) struct DemoArgs {
    /// A file or directory to carry [default: generated files]
    path: Option<PathBuf>,
    /// How many small files to generate
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000,
        conflicts_with = "path"
    )]
    small_files: u32,
    /// MiB of the large file to generate; 0 for none
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = 1024,
        conflicts_with = "path"
    )]
    large_mib: u32,
    /// Kill the router in the middle of each direction (kill -9) and start it again
    #[arg(long)]
    kill_router: bool,
    /// Work in this directory and keep everything there [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// How long the killed router stays away.
const ROUTER_ABSENCE: Duration = Duration::from_secs(1);
/// When it is killed: early enough that every transfer worth killing is still under way.
const ROUTER_LIFE: Duration = Duration::from_millis(400);
/// How often is looked whether the client has ended; also the error of a transfer's time.
const CLIENT_LOOK: Duration = Duration::from_millis(2);

pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let temporary = tempfile::Builder::new().prefix("finerail-demo-").tempdir();
    let temporary = temporary.context("cannot make a temporary directory")?;
    let directory = args.directory.as_deref().unwrap_or(temporary.path());
    for name in ["store", "back"] {
        make_empty(&directory.join(name))?;
    }
    let interrupted = raise_on_signals().context("cannot take signals")?;
    let report = prepare(args, directory, &interrupted).and_then(|cargo| {
        let report = carry(args, directory, cargo, &interrupted);
        report.map_err(|error| NotSo(format!("{error:#}")).into())
    });
    // Whatever could not go on because of it: the temporary directory and the nodes go in good order.
    if interrupted.load(Ordering::Relaxed) {
        return Err(NotSo("interrupted".to_owned()).into());
    }
    print(&report?.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Files of an earlier run would be taken for those of this one.
fn make_empty(directory: &Path) -> anyhow::Result<()> {
    let shown = directory.display();
    fs::create_dir_all(directory).with_context(|| format!("cannot make {shown}"))?;
    let mut entries = fs::read_dir(directory).with_context(|| format!("cannot list {shown}"))?;
    ensure!(
        entries.next().is_none(),
        "{shown} is not empty: remove what an earlier demo left there, or choose another directory"
    );
    Ok(())
}

fn carry(
    args: &DemoArgs,
    directory: &Path,
    cargo: Cargo,
    interrupted: &AtomicBool,
) -> anyhow::Result<Report> {
    let Cargo {
        source,
        sent,
        amount,
    } = cargo;
    let mut site = Site::prepare(directory)?;
    show_configuration(&site)?;
    let limit = bench::loopback().context("cannot measure this machine's loopback limit")?;
    site.congestion.clone_from(&limit.congestion);

    let mut router = start_router(&site)?;
    let storage = start_storage(&site)?;
    print(&format!(
        "client  {} → router {} → storage {}, port {}\n\n",
        std::process::id(),
        router.id(),
        storage.id(),
        site.port()
    ))?;
    let mut carry = |words: Vec<String>| transfer(args, &site, &mut router, &words, interrupted);
    let there = carry(storing(&source)?)?;
    let put_stats = report::read_stats(&site.stats(Role::Client))?;
    let back = carry(fetching(directory)?)?;
    let get_stats = report::read_stats(&site.stats(Role::Client))?;
    storage.stop()?;
    router.stop()?;

    let (returned, _) = with_bar("verify", amount.bytes, interrupted, |step| {
        data::digests(&directory.join("back/data"), step)
    })?;
    verify(&sent, &returned)?;
    Ok(Report {
        amount,
        there,
        back,
        limit,
        nodes: vec![
            ("client", put_stats.plus(&get_stats)),
            ("router", report::read_stats(&site.stats(Role::Router))?),
            ("storage", report::read_stats(&site.stats(Role::Storage))?),
        ],
        kill_router: args.kill_router,
    })
}

/// The files to carry: where they are, what is in them, how much they are.
struct Cargo {
    source: PathBuf,
    sent: Digests,
    amount: Amount,
}

fn prepare(args: &DemoArgs, directory: &Path, interrupted: &AtomicBool) -> anyhow::Result<Cargo> {
    let source = match &args.path {
        Some(path) => path.clone(),
        None => {
            let root = directory.join("data");
            let plan = Plan {
                small_files: args.small_files,
                large_bytes: u64::from(args.large_mib) << 20,
            };
            with_bar("generate", plan.large_bytes, interrupted, |step| {
                data::generate(&root, plan, step)
            })?;
            root
        }
    };
    let (sent, amount) = with_bar("digest", 0, interrupted, |step| {
        data::digests(&source, step)
    })?;
    ensure!(amount.files > 0, "{} holds no file", source.display());
    Ok(Cargo {
        source,
        sent,
        amount,
    })
}

fn show_configuration(site: &Site) -> anyhow::Result<()> {
    for role in Role::ALL {
        print(&format!(
            "# {}\n{}\n",
            site.config(role).display(),
            role.configuration()
        ))?;
    }
    Ok(())
}

fn start_router(site: &Site) -> anyhow::Result<NodeProcess> {
    NodeProcess::start(
        Role::Router,
        site.command(Role::Router, &["node", "--no-control"])?,
    )
}

fn start_storage(site: &Site) -> anyhow::Result<NodeProcess> {
    let mut command = site.command(
        Role::Storage,
        &["store", "serve", "--no-control", "--identity", "server"],
    )?;
    command.arg(site.directory.join("store"));
    NodeProcess::start(Role::Storage, command)
}

fn storing(source: &Path) -> anyhow::Result<Vec<String>> {
    let source = source.to_str().context("the path to carry is not UTF-8")?;
    Ok(["store", "put", STORAGE_NID, source, "data"]
        .map(str::to_owned)
        .to_vec())
}

fn fetching(directory: &Path) -> anyhow::Result<Vec<String>> {
    let back = directory.join("back/data");
    let back = back
        .to_str()
        .context("the working directory is not UTF-8")?;
    Ok(["store", "get", STORAGE_NID, "data", back]
        .map(str::to_owned)
        .to_vec())
}

/// Runs one `finerail store` command as the client, if asked for with the router killed meanwhile.
fn transfer(
    args: &DemoArgs,
    site: &Site,
    router: &mut NodeProcess,
    words: &[String],
    interrupted: &AtomicBool,
) -> anyhow::Result<Transfer> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let command = site.command(Role::Client, &words)?;
    let begun = Instant::now();
    let mut client = spawn_client(command)?;
    let router_killed =
        args.kill_router && wait_until(&mut client, begun + ROUTER_LIFE, interrupted)?.is_none();
    if router_killed {
        router.kill()?;
        thread::sleep(ROUTER_ABSENCE);
        *router = start_router(site)?;
    }
    let status = loop {
        let soon = Instant::now() + Duration::from_secs(1);
        if let Some(status) = wait_until(&mut client, soon, interrupted)? {
            break status;
        }
    };
    let took = begun.elapsed();
    ensure!(
        status.success(),
        "'finerail {}' ended with {status}",
        words[..2].join(" ")
    );
    Ok(Transfer {
        took,
        router_killed,
    })
}

/// Waits for the end of the client, until then at the latest. What an interrupted demo has carried is
/// removed anyway, so the client is simply killed.
fn wait_until(
    client: &mut Child,
    until: Instant,
    interrupted: &AtomicBool,
) -> anyhow::Result<Option<ExitStatus>> {
    while Instant::now() < until {
        if let Some(status) = client.try_wait()? {
            return Ok(Some(status));
        }
        if interrupted.load(Ordering::Relaxed) {
            client.kill()?;
            client.wait()?;
            bail!("interrupted");
        }
        thread::sleep(CLIENT_LOOK);
    }
    Ok(None)
}

fn spawn_client(mut command: Command) -> anyhow::Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().context("cannot start the client")
}

fn verify(sent: &Digests, returned: &Digests) -> anyhow::Result<()> {
    let differences = data::differences(sent, returned, 10);
    if !differences.is_empty() {
        bail!(
            "what came back is not what was sent:\n  {}",
            differences.join("\n  ")
        );
    }
    Ok(())
}

/// Runs a step with a progress bar, which shows only on a terminal.
fn with_bar<R>(
    name: &'static str,
    bytes: u64,
    interrupted: &AtomicBool,
    run: impl FnOnce(&Step<'_>) -> anyhow::Result<R>,
) -> anyhow::Result<R> {
    let bar = if io::stderr().is_terminal() {
        ProgressBar::new(bytes)
    } else {
        ProgressBar::hidden()
    };
    let style = ProgressStyle::with_template("{msg:10} {bytes:>10} {bytes_per_sec:>12}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_message(name);
    let step = Step { bar, interrupted };
    let result = run(&step);
    step.bar.finish_and_clear();
    result
}

fn print(text: &str) -> anyhow::Result<()> {
    io::stdout()
        .write_all(text.as_bytes())
        .context("cannot write to standard output")
}

//! `finerail files put` and `get`: copies with progress, interruption, and a summary at the end.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use files::tools::{Failure, Failures, Item, Options, Progress, Verify};
use files::{Errno, Kind, Path};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use serde::Serialize;

use super::address::Address;
use super::connections::{ConnectionArgs, Connections, Links, Located};
use super::{advice, not_so, print};
use crate::common::{NEGATIVE, Negative, complaint};
use crate::service::raise_on_signals;

/// How files are copied.
#[derive(clap::Args, Clone)]
pub(super) struct CopyArgs {
    /// Copy directories with everything below them
    #[arg(long, short)]
    recursive: bool,
    /// Do not verify written files by reading them
    #[arg(long)]
    no_verify: bool,
    /// Skip files that exist with the same length and time: continues an interrupted copy
    #[arg(long, short)]
    skip_same: bool,
    /// Sync each file to the disk before renaming it into place
    #[arg(long)]
    sync: bool,
    /// Also keep owners, extended attributes and times of access, as far as the target permits, as cp -a does
    #[arg(long, short = 'a')]
    preserve: bool,
    /// With -a, also keep set-user-id and set-group-id bits of files that come from a server to this machine
    #[arg(long, requires = "preserve")]
    set_id: bool,
    /// Limit of calls in flight
    #[arg(long, short, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Make missing parent directories of the target
    #[arg(long, short)]
    parents: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `finerail files put`.
#[derive(clap::Args)]
#[command(after_help = "\
A SOURCE is a file or directory of this machine, or an address. With one SOURCE, TARGET is its new name. If TARGET ends \
with a slash or is a whole server, or if there are several sources, TARGET is the directory that receives them. A file of \
the same name is replaced; files that are missing in an existing directory are added.

A file gets its name after all of its data was written, read back and found correct. The next copy of the same file \
continues a partial file that an interrupted copy left. Content, holes, permission bits, times of modification and \
symbolic links are kept; with --preserve also owners, extended attributes and times of access. Hard links become separate \
files. Named pipes, sockets and devices are not copied.

Examples
  finerail files put results.h5 lnet:10.2.0.9@tcp1
  finerail files put -r ~/pictures lnet:10.2.0.9@tcp1:/holiday
  finerail files put -rs ~/pictures lnet:10.2.0.9@tcp1:/holiday     only files that are not there yet
  finerail files put --config client.yaml --port 9988 a.txt b.txt lnet:127.0.0.5@tcp:/notes/
")]
pub(super) struct PutArgs {
    /// Sources, and the target address
    #[arg(required = true, num_args = 2.., value_names = ["SOURCE", "TARGET"])]
    paths: Vec<std::ffi::OsString>,
    #[command(flatten)]
    copy: CopyArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Arguments of `finerail files get`.
#[derive(clap::Args)]
#[command(after_help = "\
With one ADDRESS, LOCAL is its new name, or the directory of this machine that receives a file. If LOCAL ends with a \
slash or is '.', or if there are several addresses, LOCAL is the directory that receives them. Without LOCAL an object \
keeps its name, in the current directory. The help of put describes how files are copied.

Examples
  finerail files get lnet:10.2.0.9@tcp1:/results.h5
  finerail files get -r lnet:10.2.0.9@tcp1:/holiday ~/pictures
  finerail files get -r --config client.yaml --port 9988 lnet:127.0.0.5@tcp everything
")]
pub(super) struct GetArgs {
    /// Addresses, and the target on this machine
    #[arg(required = true, num_args = 1.., value_names = ["ADDRESS", "LOCAL"])]
    paths: Vec<std::ffi::OsString>,
    #[command(flatten)]
    copy: CopyArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) fn put(args: &PutArgs) -> anyhow::Result<ExitCode> {
    let Some((target, sources)) = args.paths.split_last() else {
        bail!("nothing to copy");
    };
    let sources = sources.iter().map(|source| Address::parse(source));
    let job = CopyJob {
        sources: sources.collect::<Result<_, _>>()?,
        target: Address::parse_whole(target)?,
        verb: "stored",
    };
    run(&job, &args.copy, &args.connection)
}

pub(super) fn get(args: &GetArgs) -> anyhow::Result<ExitCode> {
    let paths = args.paths.iter().map(|path| Address::parse(path));
    let mut sources: Vec<Address> = paths.collect::<Result<_, _>>()?;
    let is_local = |text: &OsStr| Address::parse_whole(text).is_err();
    let target = match args.paths.last() {
        Some(last) if args.paths.len() > 1 && is_local(last) => sources.pop(),
        _ => None,
    };
    for (source, text) in sources.iter().zip(&args.paths) {
        if matches!(source, Address::Local(_)) {
            Address::parse_whole(text)?;
        }
    }
    let target = match (target, &sources[..]) {
        (Some(target), _) => target,
        (None, [only]) => Address::Local(own_name_here(only)?),
        _ => bail!("several addresses need a target directory: name it as LOCAL"),
    };
    let job = CopyJob {
        sources,
        target,
        verb: "fetched",
    };
    run(&job, &args.copy, &args.connection)
}

/// Returns the local path for an object that keeps its name.
fn own_name_here(address: &Address) -> anyhow::Result<std::path::PathBuf> {
    let name = own_name(address)?;
    let name = name.context("a whole server needs a target directory: name it as LOCAL")?;
    Ok(OsStr::from_bytes(&name).into())
}

/// A copy to make.
struct CopyJob {
    sources: Vec<Address>,
    target: Address,
    verb: &'static str,
}

/// Copies, and prints the summary.
fn run(job: &CopyJob, args: &CopyArgs, connection: &ConnectionArgs) -> anyhow::Result<ExitCode> {
    let interrupted = raise_on_signals().context("cannot register signal handlers")?;
    let mut connections = Connections::new(connection);
    let summary = prepared(job, args, &mut connections)
        .and_then(|prepared| copy(&prepared, args, &connections, &interrupted));
    connections.close()?;
    summary?.print(job.verb, args.json)
}

/// The sources, each with its path at the target.
struct Prepared {
    sources: Vec<(Located, Option<Path>)>,
    target: Located,
    refused: Vec<Failure>,
}

fn prepared(
    job: &CopyJob,
    args: &CopyArgs,
    connections: &mut Connections<'_>,
) -> anyhow::Result<Prepared> {
    let all = job.sources.iter().chain([&job.target]);
    let all: Vec<_> = all.map(|address| (address, Links::Followed)).collect();
    let mut located = connections.open(&all)?;
    let target = located.pop().context("no target")?;
    let caller = connections.caller();
    let (mut sources, mut refused) = (Vec::new(), Vec::new());
    for (source, address) in located.into_iter().zip(&job.sources) {
        let entry = match source.tree(caller).lookup(source.path.as_ref()) {
            Ok(entry) => entry,
            // A local source that does not exist is a mistake of the user, so the exit code is 2.
            Err(failure) if source.is_local => bail!("{failure}"),
            Err(failure) if failure.is_fatal() || job.sources.len() == 1 => {
                return Err(not_so(&failure));
            }
            Err(failure) => {
                refused.push(failure);
                continue;
            }
        };
        let is_directory = entry.attributes.kind == Kind::Directory;
        let is_inside = match is_directory {
            _ if job.sources.len() > 1 => true,
            true => target.is_directory,
            false => target.is_directory || is_directory_here(&target, caller),
        };
        let name = own_name(address)?.filter(|_| is_inside);
        let to = match (name, &target.path) {
            (None, path) => path.clone(),
            (Some(name), None) => Some(Path::name(&name)?),
            (Some(name), Some(path)) => Some(path.join(&Path::name(&name)?)?),
        };
        sources.push((source, to));
    }
    let prepared = Prepared {
        sources,
        target,
        refused,
    };
    prepared.make_parents(args.parents, caller)?;
    Ok(prepared)
}

/// Returns whether the target is an existing local directory; a file is then copied into it. Does not ask a
/// server: its answer would not be used, and a silent server would cost the timeout twice.
fn is_directory_here(target: &Located, caller: &files::Caller) -> bool {
    if !target.is_local {
        return false;
    }
    let there = target.tree(caller).lookup_if_any(target.path.as_ref());
    let is_directory = |entry: files::Entry| entry.attributes.kind == Kind::Directory;
    there.is_ok_and(|entry| entry.is_some_and(is_directory))
}

/// Returns the last component of an address; `None` for a whole server.
fn own_name(address: &Address) -> anyhow::Result<Option<Vec<u8>>> {
    match address {
        Address::Remote(remote) => {
            let name = remote
                .path
                .as_ref()
                .map(|path| path.split_last().1.to_vec());
            Ok(name)
        }
        Address::Local(path) => {
            let canonical = path.canonicalize();
            let canonical = canonical.with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.file_name().or_else(|| canonical.file_name());
            Ok(name.map(|name| name.as_bytes().to_vec()))
        }
    }
}

impl Prepared {
    /// Makes the directories that receive something if `make` is set; otherwise they must exist, so that a
    /// typing error does not create a tree of directories.
    fn make_parents(&self, make: bool, caller: &files::Caller) -> anyhow::Result<()> {
        let tree = self.target.tree(caller);
        let parents = self
            .sources
            .iter()
            .filter_map(|(_, to)| to.as_ref()?.split_last().0);
        let mut parents: Vec<Path> = parents.collect();
        parents.dedup();
        for parent in parents {
            if make {
                tree.make_directories(&parent)
                    .map_err(|failure| not_so(&failure))?;
                continue;
            }
            match tree.lookup(Some(&parent)) {
                Ok(_) => {}
                Err(failure) if failure.errno() != Some(Errno::ENOENT) => {
                    return Err(not_so(&failure));
                }
                Err(_) if self.target.is_local => {
                    bail!(
                        "{}: no such directory; -p makes it",
                        tree.shown(Some(&parent))
                    )
                }
                Err(failure) => {
                    let text = format!("{failure}; -p makes missing parent directories");
                    return Err(Negative(text).into());
                }
            }
        }
        Ok(())
    }

    /// Groups the sources by file system, each group with its items.
    fn groups(&self) -> Vec<(&Located, Vec<Item>)> {
        let mut groups: Vec<(&Located, Vec<Item>)> = Vec::new();
        for (source, to) in &self.sources {
            let item = Item {
                from: source.path.clone(),
                to: to.clone(),
            };
            match groups.iter_mut().find(|(known, _)| known.is_beside(source)) {
                Some((_, items)) => items.push(item),
                None => groups.push((source, vec![item])),
            }
        }
        groups
    }
}

fn copy(
    prepared: &Prepared,
    args: &CopyArgs,
    connections: &Connections<'_>,
    interrupted: &AtomicBool,
) -> anyhow::Result<Summary> {
    let (caller, target) = (connections.caller(), &prepared.target);
    let progress = Progress::default();
    let begun = Instant::now();
    let mut failures = Failures::default();
    prepared
        .refused
        .iter()
        .cloned()
        .for_each(|failure| failures.add(failure));
    watched(&progress, interrupted, || {
        for (source, items) in prepared.groups() {
            let options = Options {
                jobs: args.jobs.into(),
                recursive: args.recursive,
                verify: verify(args, source),
                skip_same: args.skip_same,
                sync: args.sync,
                preserve: args.preserve,
                set_id: args.set_id || source.is_local || !target.is_local,
                is_one_system: source.is_beside(target) || (source.is_local && target.is_local),
            };
            let (from, to) = (source.tree(caller), target.tree(caller));
            let failed = files::tools::copy(from, to, &items, &options, &progress);
            let kept = failed.list.len() as u64;
            failed
                .list
                .into_iter()
                .for_each(|failure| failures.add(failure));
            failures.count += failed.count - kept;
        }
    });
    Ok(Summary::new(
        &progress,
        failures,
        begun.elapsed(),
        connections.retries(),
    ))
}

fn verify(args: &CopyArgs, source: &Located) -> Verify {
    match source.is_local {
        _ if args.no_verify => Verify::None,
        true => Verify::Written,
        false => Verify::Both,
    }
}

/// The interval at which progress is shown and interruption is checked.
const LOOK: Duration = Duration::from_millis(100);
/// Operations shorter than this show no progress bar.
const BAR_AFTER: Duration = Duration::from_secs(2);

/// Runs an operation, with a progress bar on a terminal. SIGINT and SIGTERM cancel the operation after the
/// calls in flight have completed; a second signal ends the process at once.
pub(super) fn watched<T>(
    progress: &Progress,
    interrupted: &AtomicBool,
    operation: impl FnOnce() -> T,
) -> T {
    thread::scope(|scope| {
        let (ended, watch) = mpsc::channel::<()>();
        scope.spawn(move || watch_progress(&watch, progress, interrupted));
        let done = operation();
        drop(ended);
        done
    })
}

fn watch_progress(ended: &mpsc::Receiver<()>, progress: &Progress, interrupted: &AtomicBool) {
    let begun = Instant::now();
    let mut bar: Option<ProgressBar> = None;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LOOK) {
        if interrupted.load(Ordering::Relaxed) {
            progress.cancel();
        }
        if begun.elapsed() > BAR_AFTER && io::stderr().is_terminal() {
            let bar = bar.get_or_insert_with(new_bar);
            let done = progress.files() + progress.skipped();
            bar.set_length(progress.found_bytes().max(progress.bytes()));
            bar.set_position(progress.bytes());
            bar.set_message(format!("{done}/{} files", progress.found_files()));
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn new_bar() -> ProgressBar {
    let template = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    let bar = ProgressBar::new(0);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The summary of a copy, which `--json` prints.
#[derive(Serialize)]
struct Summary {
    files: u64,
    bytes: u64,
    seconds: f64,
    directories: u64,
    links: u64,
    /// Bytes that an interrupted copy had already transferred.
    resumed: u64,
    /// Files that already existed with the same length and time.
    skipped: u64,
    /// Named pipes, sockets and devices, which are not copied.
    left_out: u64,
    /// Requests that were sent again because no response came.
    retries: u64,
    /// Files that were started again because a server restarted.
    begun_again: u64,
    /// Owners and extended attributes that this user may not set at the target.
    not_kept: u64,
    interrupted: bool,
    /// The number of all objects that failed.
    failures: u64,
    /// The first failures of these.
    failed: Vec<Failed>,
}

#[derive(Serialize)]
struct Failed {
    name: String,
    error: String,
}

impl Summary {
    fn new(progress: &Progress, failures: Failures, time: Duration, retries: u64) -> Self {
        let failed = failures.list.iter().map(|failure| Failed {
            name: failure.object.clone(),
            error: advice(failure),
        });
        Self {
            files: progress.files(),
            bytes: progress.bytes(),
            seconds: time.as_secs_f64(),
            directories: progress.directories(),
            links: progress.links(),
            resumed: progress.resumed(),
            skipped: progress.skipped(),
            left_out: progress.left_out(),
            retries,
            begun_again: progress.restarted(),
            not_kept: progress.not_kept(),
            interrupted: progress.is_cancelled(),
            failures: failures.count,
            failed: failed.collect(),
        }
    }

    /// Prints the summary and the failures. Returns the exit code.
    fn print(&self, verb: &str, json: bool) -> anyhow::Result<ExitCode> {
        for failed in &self.failed {
            complaint(&failed.error);
        }
        if self.failures > self.failed.len() as u64 {
            complaint(&format!("{} failures in all", self.failures));
        }
        if json {
            print(serde_json::to_string_pretty(self)?)?;
        } else {
            print(format_args!("{verb} {self}"))?;
        }
        let is_whole = self.failures == 0 && !self.interrupted;
        Ok(match is_whole {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(NEGATIVE),
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = match self.seconds > 0.0 {
            true => (self.bytes - self.resumed.min(self.bytes)) as f64 / self.seconds,
            false => 0.0,
        };
        let files = if self.files == 1 { "file" } else { "files" };
        let (bytes, rate) = (HumanBytes(self.bytes), HumanBytes(rate as u64));
        write!(
            f,
            "{} {files}, {bytes} in {:.2} s ({rate}/s)",
            self.files, self.seconds
        )?;
        for (count, what) in [
            (self.skipped, "files already present"),
            (self.left_out, "special files left out"),
            (self.retries, "requests retried"),
            (self.begun_again, "files restarted"),
            (self.not_kept, "owners and attributes not permitted"),
            (self.failures, "failed"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        if self.resumed > 0 {
            write!(
                f,
                ", {} already transferred by an interrupted copy",
                HumanBytes(self.resumed)
            )?;
        }
        if self.interrupted {
            write!(f, ", interrupted; the same command with -s continues")?;
        }
        Ok(())
    }
}

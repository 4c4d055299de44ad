//! `finerail files check`: compares two trees, or a tree with a list of digests.

use std::ffi::OsString;
use std::io::{self, BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::SystemTime;

use anyhow::{Context, bail};
use files::tools::{
    CheckOptions, Difference, Entries, Failure, Failures, Item, Manifest, Progress, Tree,
    digest_line,
};
use files::{Kind, Path};
use indicatif::HumanBytes;
use serde::Serialize;

use super::address::Address;
use super::connections::{ConnectionArgs, Connections, Links, Located};
use super::copy::watched;
use super::{Outcome, print};
use crate::common::{NEGATIVE, complaint, open};
use crate::service::raise_on_signals;

/// Arguments of `finerail files check`.
#[derive(clap::Args)]
#[command(after_help = "\
With two trees, prints the name of each difference, as in the second tree. With --digests, prints BLAKE3 digests of all \
files of one tree, as b3sum does; with --against, compares one tree with such a list, whose names are relative to it. \
With --parts, prints the partial files in one tree that copies left which were interrupted more than a day ago. The exit \
code is 1 if something differs or cannot be read.

Examples
  finerail files check ~/pictures lnet:10.2.0.9@tcp1:/holiday
  finerail files check --digests ~/pictures > pictures.b3
  finerail files check --against pictures.b3 lnet:10.2.0.9@tcp1:/holiday
  finerail files check --parts --remove lnet:10.2.0.9@tcp1:/holiday
")]
pub(super) struct CheckArgs {
    /// One tree or two: addresses, or paths of this machine
    #[arg(required = true, num_args = 1..=2, value_name = "TREE")]
    trees: Vec<OsString>,
    /// Compare only length and time of modification, not the content
    #[arg(long, short)]
    quick: bool,
    /// Compare permission bits and times too
    #[arg(long, short)]
    attributes: bool,
    /// Print the digests of one tree
    #[arg(long, conflicts_with_all = ["against", "json", "quick", "attributes"])]
    digests: bool,
    /// Compare one tree with this list of digests; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "attributes"])]
    against: Option<PathBuf>,
    /// Print partial files that interrupted copies left more than a day ago
    #[arg(long, conflicts_with_all = ["against", "digests", "json", "quick", "attributes"])]
    parts: bool,
    /// Remove the partial files that --parts prints
    #[arg(long, requires = "parts")]
    remove: bool,
    /// Number of files that are compared at the same time
    #[arg(long, short, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let trees = args.trees.iter().map(|tree| Address::parse(tree));
    let trees: Vec<Address> = trees.collect::<Result<_, _>>()?;
    let is_single = args.digests || args.parts || args.against.is_some();
    if is_single != (trees.len() == 1) {
        bail!("check compares two trees; --digests, --against and --parts take one");
    }
    let interrupted = raise_on_signals().context("cannot register signal handlers")?;
    let trees: Vec<_> = trees.iter().map(|tree| (tree, Links::Followed)).collect();
    let mut connections = Connections::new(&args.connection);
    let done = connections.open(&trees).and_then(|located| {
        let caller = connections.caller();
        let progress = Progress::default();
        watched(&progress, &interrupted, || {
            match (&located[..], &args.against) {
                ([only], Some(list)) => against(args, only, only.tree(caller), list, &progress),
                ([only], None) if args.parts => parts(args, only, only.tree(caller), &progress),
                ([only], None) => digests(only, only.tree(caller), &progress),
                ([one, other], _) => compare(
                    args,
                    (one, one.tree(caller)),
                    (other, other.tree(caller)),
                    &progress,
                ),
                _ => bail!("no trees"),
            }
        })
    });
    connections.close()?;
    done
}

/// The result, which `--json` prints.
#[derive(Default, Serialize)]
struct Report {
    files: u64,
    bytes: u64,
    differences: Vec<Row>,
    failed: Vec<Row>,
    interrupted: bool,
}

#[derive(Serialize)]
struct Row {
    name: String,
    what: String,
}

impl Report {
    fn failed(&mut self, failure: &Failure) {
        let (name, what) = (failure.object.clone(), failure.to_string());
        self.failed.push(Row { name, what });
    }

    fn print(mut self, progress: &Progress, json: bool) -> anyhow::Result<ExitCode> {
        self.interrupted = progress.is_cancelled();
        (self.files, self.bytes) = (progress.files(), progress.bytes());
        let is_same = self.differences.is_empty() && self.failed.is_empty() && !self.interrupted;
        if json {
            print(serde_json::to_string_pretty(&self)?)?;
        } else {
            for row in &self.differences {
                print(format_args!("{}: {}", row.name, row.what))?;
            }
            self.failed.iter().for_each(|row| complaint(&row.what));
            let interrupted = if self.interrupted {
                ", interrupted"
            } else {
                ""
            };
            print(format_args!(
                "{} files are the same, {} read, {} differences, {} failed{interrupted}",
                self.files,
                HumanBytes(self.bytes),
                self.differences.len(),
                self.failed.len()
            ))?;
        }
        Ok(match is_same {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(NEGATIVE),
        })
    }
}

fn compare(
    args: &CheckArgs,
    (one, one_tree): (&Located, Tree<'_>),
    (other, other_tree): (&Located, Tree<'_>),
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let options = CheckOptions {
        jobs: args.jobs.into(),
        quick: args.quick,
        attributes: args.attributes,
    };
    let item = Item {
        from: one.path.clone(),
        to: other.path.clone(),
    };
    let differences = Mutex::new(Vec::new());
    let found = |path: Option<&Path>, difference: Difference| {
        let (name, what) = (other_tree.shown(path), difference.to_string());
        let mut differences = differences
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        differences.push(Row { name, what });
    };
    let failures = files::tools::check(one_tree, other_tree, &item, &options, progress, &found);
    let mut report = Report {
        differences: differences.into_inner().unwrap_or_default(),
        ..Report::default()
    };
    report
        .differences
        .sort_by(|one, other| one.name.cmp(&other.name));
    failures
        .list
        .iter()
        .for_each(|failure| report.failed(failure));
    report.print(progress, args.json)
}

fn against(
    args: &CheckArgs,
    located: &Located,
    tree: Tree<'_>,
    list: &std::path::Path,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let source: Box<dyn io::Read> = match list.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => {
            let file = open(list);
            Box::new(file.with_context(|| format!("cannot read {}", list.display()))?)
        }
    };
    let mut report = Report::default();
    for line in Manifest::new(BufReader::new(source)) {
        let (expected, path) = line.with_context(|| format!("{}", list.display()))?;
        let path = match &located.path {
            Some(top) => top.join(&path)?,
            None => path,
        };
        match files::tools::digest(tree, &path, progress) {
            _ if progress.is_cancelled() => break,
            Ok(found) if found == expected => progress.note_file(),
            Ok(_) => report.differences.push(Row {
                name: tree.shown(Some(&path)),
                what: "other content".to_owned(),
            }),
            Err(failure) if failure.is_fatal() => {
                report.failed(&failure);
                break;
            }
            Err(failure) => report.failed(&failure),
        }
    }
    report.print(progress, args.json)
}

/// Seconds after the last change until a partial file counts as left over by an interrupted copy.
const OLD: u64 = 24 * 60 * 60;

fn parts(
    args: &CheckArgs,
    located: &Located,
    tree: Tree<'_>,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let before = now.map_or(0, |now| now.as_secs().saturating_sub(OLD));
    let mut failures = Failures::default();
    let mut printed = Ok(());
    let found = |path: &Path| {
        if printed.is_ok() {
            printed = print(tree.shown(Some(path)));
        }
        args.remove
    };
    let before = i64::try_from(before).unwrap_or(i64::MAX);
    files::tools::old_parts(
        tree,
        located.path.as_ref(),
        before,
        progress,
        &mut failures,
        found,
    );
    printed?;
    let mut outcome = Outcome::default();
    for failure in &failures.list {
        outcome.note(failure)?;
    }
    outcome.is_not_so |= progress.is_cancelled();
    Ok(outcome.code())
}

fn digests(located: &Located, tree: Tree<'_>, progress: &Progress) -> anyhow::Result<ExitCode> {
    let mut outcome = Outcome::default();
    let top = tree.lookup(located.path.as_ref());
    let top = top.map_err(|failure| super::not_so(&failure))?;
    if top.attributes.kind != Kind::Directory {
        bail!(
            "{}: not a directory: digests need a directory",
            tree.shown(located.path.as_ref())
        );
    }
    let skip = located
        .path
        .as_ref()
        .map_or(0, |path| path.as_bytes().len() + 1);
    let mut stack = vec![Entries::new(tree, located.path.clone(), top.handle)];
    while let Some(entries) = stack.last_mut() {
        let found = match entries.next() {
            _ if progress.is_cancelled() => break,
            None => {
                stack.pop();
                continue;
            }
            Some(Err(failure)) => {
                outcome.note(&failure)?;
                continue;
            }
            Some(Ok(found)) => found,
        };
        match found.entry.attributes.kind {
            Kind::Directory => {
                stack.push(Entries::new(tree, Some(found.path), found.entry.handle));
            }
            Kind::File if !files::tools::is_part(found.path.split_last().1) => {
                match files::tools::digest(tree, &found.path, progress) {
                    Ok(digest) => {
                        let below = Path::new(&found.path.as_bytes()[skip..])?;
                        let line = digest_line(&digest, &below);
                        io::stdout()
                            .write_all(&line)
                            .context("cannot write to standard output")?;
                    }
                    Err(failure) => outcome.note(&failure)?,
                }
            }
            _ => {}
        }
    }
    outcome.is_not_so |= progress.is_cancelled();
    Ok(outcome.code())
}

//! `finerail files ls`, `stat`, `du` and `cat`: shows directories, attributes, disk usage and contents.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use files::tools::{Entries, Failures, Found, Progress, Tree};
use files::{Attributes, Kind, Path};
use files_lnet::Printable;
use indicatif::HumanBytes;
use jiff::Timestamp;
use serde::Serialize;

use super::address::Address;
use super::connections::{ConnectionArgs, Connections, Links, Located};
use super::copy::watched;
use super::{Outcome, print};
use crate::service::raise_on_signals;

/// Arguments of `finerail files ls`.
#[derive(clap::Args)]
#[command(after_help = "\
With -a it also shows partial files that interrupted copies left.

Examples
  finerail files ls lnet:10.2.0.9@tcp1
  finerail files ls -l --config client.yaml --port 9988 lnet:127.0.0.5@tcp:/holiday
")]
pub(super) struct LsArgs {
    /// Directories, or files
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<OsString>,
    /// Print permissions, size and time of each entry
    #[arg(short)]
    long: bool,
    /// Print all names, including those of partial files
    #[arg(short)]
    all: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Arguments of `finerail files stat`.
#[derive(clap::Args)]
#[command(after_help = "\
Example
  finerail files stat lnet:10.2.0.9@tcp1:/results.h5
")]
pub(super) struct StatArgs {
    /// Files and directories
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<OsString>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Arguments of `finerail files du`.
#[derive(clap::Args)]
#[command(after_help = "\
Prints, for each address, the space that its files use, their total length and their number. A file with several names \
counts once.

Example
  finerail files du lnet:10.2.0.9@tcp1:/holiday
")]
pub(super) struct DuArgs {
    /// Files and directories
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<OsString>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Arguments of `finerail files cat`.
#[derive(clap::Args)]
#[command(after_help = "\
Example
  finerail files cat lnet:10.2.0.9@tcp1:/log/today | grep error
")]
pub(super) struct CatArgs {
    /// Files, written to standard output one after the other
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<OsString>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// The options of a listing.
#[derive(Clone, Copy)]
struct Shown {
    long: bool,
    all: bool,
    json: bool,
}

pub(super) fn ls(args: &LsArgs) -> anyhow::Result<ExitCode> {
    let addresses = whole(&args.addresses)?;
    let shown = Shown {
        long: args.long,
        all: args.all,
        json: args.json,
    };
    list(&addresses, shown, &args.connection)
}

pub(super) fn stat(args: &StatArgs) -> anyhow::Result<ExitCode> {
    stat_all(&whole(&args.addresses)?, args.json, &args.connection)
}

/// Parses addresses that must begin with a carrier.
pub(super) fn whole(texts: &[OsString]) -> anyhow::Result<Vec<Address>> {
    let addresses = texts.iter().map(|text| Address::parse_whole(text));
    Ok(addresses.collect::<Result<_, _>>()?)
}

/// Lists directories.
fn list(
    addresses: &[Address],
    shown: Shown,
    connection: &ConnectionArgs,
) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    let code = each(
        addresses,
        Links::Followed,
        connection,
        |located, tree, outcome| {
            let top = match tree.lookup(located.path.as_ref()) {
                Ok(top) => top,
                Err(failure) => return outcome.note(&failure),
            };
            if top.attributes.kind != Kind::Directory {
                let name = located
                    .path
                    .as_ref()
                    .map_or(&b""[..], |path| path.split_last().1);
                return shown.print(name, &top.attributes, &mut rows);
            }
            if addresses.len() > 1 && !shown.json {
                print(format_args!("{}:", tree.shown(located.path.as_ref())))?;
            }
            let mut found = Vec::new();
            for entry in Entries::new(tree, located.path.clone(), top.handle) {
                match entry {
                    Ok(Found { path, entry }) => {
                        let name = path.split_last().1.to_vec();
                        if shown.all || !files::tools::is_part(&name) {
                            found.push((name, entry.attributes));
                        }
                    }
                    Err(failure) => outcome.note(&failure)?,
                }
            }
            found.sort_by(|(one, _), (other, _)| one.cmp(other));
            for (name, attributes) in &found {
                shown.print(name, attributes, &mut rows)?;
            }
            Ok(())
        },
    )?;
    if shown.json {
        print(serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(code)
}

/// Prints the attributes of objects.
fn stat_all(
    addresses: &[Address],
    json: bool,
    connection: &ConnectionArgs,
) -> anyhow::Result<ExitCode> {
    let shown = Shown {
        long: true,
        all: true,
        json,
    };
    let mut rows = Vec::new();
    let code = each(
        addresses,
        Links::Kept,
        connection,
        |located, tree, outcome| match tree.lookup(located.path.as_ref()) {
            Ok(entry) => {
                let name = located.path.as_ref().map_or(&b"."[..], Path::as_bytes);
                shown.print(name, &entry.attributes, &mut rows)
            }
            Err(failure) => outcome.note(&failure),
        },
    )?;
    if json {
        print(serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(code)
}

pub(super) fn du(args: &DuArgs) -> anyhow::Result<ExitCode> {
    let addresses = whole(&args.addresses)?;
    let interrupted = raise_on_signals().context("cannot register signal handlers")?;
    let mut rows = Vec::new();
    let code = each(
        &addresses,
        Links::Followed,
        &args.connection,
        |located, tree, outcome| {
            let (progress, mut failures) = (Progress::default(), Failures::default());
            let path = located.path.as_ref();
            let usage = watched(&progress, &interrupted, || {
                files::tools::usage(tree, path, &progress, &mut failures)
            });
            failures
                .list
                .iter()
                .try_for_each(|failure| outcome.note(failure))?;
            let usage = match usage {
                Ok(usage) => usage,
                Err(failure) => return outcome.note(&failure),
            };
            outcome.is_not_so |= progress.is_cancelled();
            let row = UsageRow::new(tree.shown(path), usage);
            if !args.json {
                print(format_args!(
                    "{:>12} {:>12} {:>9} files {:>7} directories  {}",
                    HumanBytes(row.space).to_string(),
                    HumanBytes(row.bytes).to_string(),
                    row.files,
                    row.directories,
                    row.name
                ))?;
            }
            rows.push(row);
            Ok(())
        },
    )?;
    if args.json {
        print(serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(code)
}

/// A line of `du` as JSON.
#[derive(Serialize)]
struct UsageRow {
    name: String,
    space: u64,
    bytes: u64,
    files: u64,
    directories: u64,
    others: u64,
    parts: u64,
}

impl UsageRow {
    fn new(name: String, usage: files::tools::Usage) -> Self {
        Self {
            name,
            space: usage.space,
            bytes: usage.bytes,
            files: usage.files,
            directories: usage.directories,
            others: usage.others,
            parts: usage.parts,
        }
    }
}

pub(super) fn cat(args: &CatArgs) -> anyhow::Result<ExitCode> {
    let addresses = whole(&args.addresses)?;
    each(
        &addresses,
        Links::Followed,
        &args.connection,
        |located, tree, outcome| {
            let path = located.path.as_ref();
            let entry = match tree.lookup(path) {
                Ok(entry) => entry,
                Err(failure) => return outcome.note(&failure),
            };
            let (mut offset, mut memory) = (0, vec![0; files::tools::PIECE as usize]);
            loop {
                let read = tree
                    .files
                    .read(tree.caller, entry.handle, offset, &mut memory);
                match read {
                    Ok(0) => return Ok(()),
                    Ok(count) => {
                        io::stdout()
                            .write_all(&memory[..count])
                            .context("cannot write to standard output")?;
                        offset += count as u64;
                    }
                    Err(errno) => return outcome.note(&tree.failure("read", path, errno)),
                }
            }
        },
    )
}

/// Runs an action for each address, and continues after a failure with one of them.
pub(super) fn each(
    addresses: &[Address],
    links: Links,
    connection: &ConnectionArgs,
    mut action: impl FnMut(&Located, Tree<'_>, &mut Outcome) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let mut connections = Connections::new(connection);
    let mut outcome = Outcome::default();
    let mut all = || {
        for address in addresses {
            let located = connections.open_one(address, links)?;
            let caller = connections.caller();
            action(&located, located.tree(caller), &mut outcome)?;
        }
        anyhow::Ok(())
    };
    let done = all();
    connections.close()?;
    done.map(|()| outcome.code())
}

/// An entry as JSON.
#[derive(Serialize)]
pub(crate) struct Row {
    name: String,
    size: u64,
    mtime: i64,
    mtime_nanos: u32,
    mode: u32,
    kind: &'static str,
    uid: u32,
    gid: u32,
    links: u32,
    blocks: u64,
}

impl Shown {
    fn print(
        self,
        name: &[u8],
        attributes: &Attributes,
        rows: &mut Vec<Row>,
    ) -> anyhow::Result<()> {
        match (self.json, self.long) {
            (true, _) => rows.push(row(name, attributes)),
            (false, true) => print(long_line(name, attributes))?,
            (false, false) => print(Printable::new(name))?,
        }
        Ok(())
    }
}

fn row(name: &[u8], attributes: &Attributes) -> Row {
    Row {
        name: String::from_utf8_lossy(name).into_owned(),
        size: attributes.size,
        mtime: attributes.modified.seconds,
        mtime_nanos: attributes.modified.nanoseconds,
        mode: attributes.mode,
        kind: kind_of(attributes.kind).1,
        uid: attributes.uid,
        gid: attributes.gid,
        links: attributes.links,
        blocks: attributes.blocks,
    }
}

/// Returns the letter that `ls -l` prints for a kind, and the kind's name.
fn kind_of(kind: Kind) -> (char, &'static str) {
    match kind {
        Kind::File => ('-', "file"),
        Kind::Directory => ('d', "directory"),
        Kind::Symlink => ('l', "symlink"),
        Kind::CharacterDevice => ('c', "character device"),
        Kind::BlockDevice => ('b', "block device"),
        Kind::Fifo => ('p', "fifo"),
        Kind::Socket => ('s', "socket"),
    }
}

/// Formats permissions, size, time and name like `ls -l`.
fn long_line(name: &[u8], attributes: &Attributes) -> String {
    let kind = kind_of(attributes.kind).0;
    let bit = |shift: u32| {
        let set = attributes.mode >> (8 - shift) & 1 == 1;
        if set {
            ['r', 'w', 'x'][shift as usize % 3]
        } else {
            '-'
        }
    };
    let mode: String = (0..9).map(bit).collect();
    let time = Timestamp::from_second(attributes.modified.seconds);
    let time = time.unwrap_or(Timestamp::UNIX_EPOCH);
    let size = attributes.size;
    format!("{kind}{mode} {size:>14} {time} {}", Printable::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_reads_like_ls() {
        let zero = files::Timestamp::default();
        let attributes = Attributes {
            kind: Kind::File,
            mode: 0o640,
            links: 1,
            uid: 0,
            gid: 0,
            size: 1234,
            blocks: 0,
            block_size: 0,
            device: 0,
            filesystem: 0,
            file: 0,
            accessed: zero,
            modified: zero,
            changed: zero,
            born: zero,
            no_xattrs: true,
            is_settled: true,
        };
        let line = long_line(b"a\n", &attributes);
        assert_eq!(line, "-rw-r-----           1234 1970-01-01T00:00:00Z a\\n");
    }
}

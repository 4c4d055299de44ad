//! `finerail store ls`, `stat`, `rm` and `mv`.

use std::ffi::OsString;
use std::process::ExitCode;

use jiff::Timestamp;
use lnet_store::{Attributes, Entry, Kind, Printable, Store, StoreError};
use serde::Serialize;

use super::{ClientArgs, Session, directory_name, file_name, not_so, print, require_parent};
use crate::common::{NOT_SO, complaint};

/// Arguments of `finerail store ls`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples
  finerail store ls 10.2.0.9@tcp1
  finerail store ls -l --config client.yaml --port 9988 127.0.0.5@tcp holiday
")]
pub(super) struct LsArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// The directory; . is the root
    #[arg(value_name = "NAME", default_value = ".")]
    name: OsString,
    /// Permissions, size and time of each entry
    #[arg(short)]
    long: bool,
    /// Print JSON, one document
    #[arg(long)]
    json: bool,
}

/// Arguments of `finerail store stat`.
#[derive(clap::Args)]
#[command(after_help = "\
Example
  finerail store stat 10.2.0.9@tcp1 results.h5
")]
pub(super) struct StatArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Files and directories
    #[arg(required = true, value_name = "NAME")]
    names: Vec<OsString>,
    /// Print JSON, one document
    #[arg(long)]
    json: bool,
}

/// Arguments of `finerail store rm`.
#[derive(clap::Args)]
#[command(after_help = "\
Example
  finerail store rm 10.2.0.9@tcp1 results.h5
")]
pub(super) struct RmArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Files, and directories that are empty
    #[arg(required = true, value_name = "NAME")]
    names: Vec<OsString>,
}

/// Arguments of `finerail store mv`.
#[derive(clap::Args)]
#[command(after_help = "\
Example
  finerail store mv 10.2.0.9@tcp1 results.h5 archive/2025.h5
")]
pub(super) struct MvArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// The name it has
    #[arg(value_name = "FROM")]
    from: OsString,
    /// The name it gets
    #[arg(value_name = "TO")]
    to: OsString,
    /// Make directories on the way
    #[arg(long, short)]
    parents: bool,
}

/// One line of JSON output.
#[derive(Serialize)]
struct Row {
    name: String,
    #[serde(flatten)]
    attributes: Attributes,
}

pub(super) fn ls(args: &LsArgs) -> anyhow::Result<ExitCode> {
    let name = directory_name(&args.name)?;
    with_store(&args.client, |store| {
        let mut rows = Vec::new();
        for entry in store.list(name.as_ref()) {
            let Entry { name, attributes } = entry.map_err(|error| not_so(&error))?;
            match (args.json, args.long) {
                (true, _) => rows.push(row(&name, attributes)),
                (false, true) => print(long_line(&name, &attributes))?,
                (false, false) => print(Printable::new(&name))?,
            }
        }
        if args.json {
            print(serde_json::to_string_pretty(&rows)?)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

pub(super) fn stat(args: &StatArgs) -> anyhow::Result<ExitCode> {
    let names = args
        .names
        .iter()
        .map(|name| file_name(name))
        .collect::<Result<Vec<_>, _>>()?;
    with_store(&args.client, |store| {
        let (mut rows, mut failed) = (Vec::new(), false);
        for name in &names {
            match store.stat(name) {
                Ok(attributes) if args.json => rows.push(row(name.as_bytes(), attributes)),
                Ok(attributes) => print(long_line(name.as_bytes(), &attributes))?,
                Err(error) => failed |= complain(error)?,
            }
        }
        if args.json {
            print(serde_json::to_string_pretty(&rows)?)?;
        }
        Ok(if failed {
            ExitCode::from(NOT_SO)
        } else {
            ExitCode::SUCCESS
        })
    })
}

pub(super) fn rm(args: &RmArgs) -> anyhow::Result<ExitCode> {
    let names = args
        .names
        .iter()
        .map(|name| file_name(name))
        .collect::<Result<Vec<_>, _>>()?;
    with_store(&args.client, |store| {
        let mut failed = false;
        for name in &names {
            if let Err(error) = store.remove(name) {
                failed |= complain(error)?;
            }
        }
        Ok(if failed {
            ExitCode::from(NOT_SO)
        } else {
            ExitCode::SUCCESS
        })
    })
}

pub(super) fn mv(args: &MvArgs) -> anyhow::Result<ExitCode> {
    let (from, to) = (file_name(&args.from)?, file_name(&args.to)?);
    with_store(&args.client, |store| {
        if !args.parents {
            require_parent(store, &to)?;
        }
        store.rename(&from, &to).map_err(|error| not_so(&error))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Runs a command with a session that is closed whatever comes.
fn with_store(
    args: &ClientArgs,
    command: impl FnOnce(&Store) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let session = Session::open(args)?;
    let result = command(&session.store);
    session.close()?;
    result
}

/// Says what is wrong with one name, so that the others go on; when the service is gone, nothing does.
fn complain(error: StoreError) -> anyhow::Result<bool> {
    if error.is_fatal() {
        return Err(not_so(&error));
    }
    complaint(&error.to_string());
    Ok(true)
}

fn row(name: &[u8], attributes: Attributes) -> Row {
    Row {
        name: String::from_utf8_lossy(name).into_owned(),
        attributes,
    }
}

/// Permissions, size, time and name, as `ls -l` has them.
fn long_line(name: &[u8], attributes: &Attributes) -> String {
    let kind = match attributes.kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Other => '?',
    };
    let bit = |shift: u32| {
        let set = attributes.mode >> (8 - shift) & 1 == 1;
        if set {
            ['r', 'w', 'x'][shift as usize % 3]
        } else {
            '-'
        }
    };
    let mode: String = (0..9).map(bit).collect();
    let time = Timestamp::from_second(attributes.mtime).unwrap_or(Timestamp::UNIX_EPOCH);
    format!(
        "{kind}{mode} {:>14} {time} {}",
        attributes.size,
        Printable::new(name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_reads_like_ls() {
        let attributes = Attributes {
            size: 1234,
            mtime: 0,
            mtime_nanos: 0,
            mode: 0o640,
            kind: Kind::File,
            version: 0,
        };
        let line = long_line(b"a\n", &attributes);
        assert_eq!(line, "-rw-r-----           1234 1970-01-01T00:00:00Z a\\n");
    }
}

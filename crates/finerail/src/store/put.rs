//! `finerail store put`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use lnet_store::StoreName;
use lnet_store::transfer::{self, PutItem};

use super::copy::{self, Amount, FailedFile};
use super::{ClientArgs, Session, file_name, require_parent};

/// Arguments of `finerail store put`.
#[derive(clap::Args)]
#[command(after_help = "\
With one PATH, it is stored under its own name. With several, the last is the name in the store: of
the file or directory itself, or, when it ends with a slash or there is more than one source, of the
directory that receives them. Directories are stored with everything below them; symbolic links and
special files in them are left out. A file of the same name is replaced.

Examples
  finerail store put 10.2.0.9@tcp1 results.h5
  finerail store put 10.2.0.9@tcp1 ~/pictures holiday
  finerail store put --config client.yaml --port 9988 127.0.0.5@tcp a.txt b.txt notes/
")]
pub(super) struct PutArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Files and directories, and where they go
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Calls in flight
    #[arg(long, short, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Make directories of the store that are on the way
    #[arg(long, short)]
    parents: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

/// What is to be stored, and what cannot be.
#[derive(Default)]
struct Found {
    items: Vec<PutItem>,
    bytes: u64,
    refused: Vec<FailedFile>,
}

pub(super) fn run(args: &PutArgs) -> anyhow::Result<ExitCode> {
    let mut found = Found::default();
    let targets = targets(&args.paths)?;
    let names: BTreeSet<StoreName> = targets.iter().map(|(_, name)| name.clone()).collect();
    for (source, name) in targets {
        let metadata =
            fs::metadata(&source).with_context(|| format!("cannot read {}", source.display()))?;
        if metadata.is_dir() {
            walk(&source, &name, &mut found);
        } else {
            found.take(source, name, &metadata);
        }
    }
    let session = Session::open(&args.client)?;
    if !args.parents {
        // Those of one directory are next to each other.
        let mut names: Vec<&StoreName> = names.iter().collect();
        names.dedup_by_key(|name| name.split_last().0);
        let checked = names
            .into_iter()
            .try_for_each(|name| require_parent(&session.store, name));
        if checked.is_err() {
            session.close()?;
            checked?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    let amount = Amount {
        files: found.items.len() as u64,
        bytes: found.bytes,
    };
    let name_of = |item: usize| found.items[item].local.display().to_string();
    let summary = copy::run(&session.store, amount, name_of, |progress| {
        transfer::put(&session.store, &found.items, args.jobs.into(), progress)
    });
    session.close()?;
    let mut summary = summary?;
    summary.add_failed(found.refused);
    summary.print("stored", args.json)
}

/// Each source with the name it gets.
fn targets(paths: &[PathBuf]) -> anyhow::Result<Vec<(PathBuf, StoreName)>> {
    let (destination, sources) = match paths {
        [] => bail!("nothing to store"),
        [only] => (None, std::slice::from_ref(only)),
        [sources @ .., last] => (Some(last.as_os_str().as_bytes()), sources),
    };
    let into = match destination {
        Some(bytes) if bytes.ends_with(b"/") => Some(&bytes[..bytes.len() - 1]),
        Some(bytes) if sources.len() > 1 => Some(bytes),
        _ => None,
    };
    let name = |source: &PathBuf| -> anyhow::Result<StoreName> {
        match (into, destination) {
            (None, Some(whole)) => Ok(StoreName::new(whole)?),
            (None, None) => file_name(&own_name(source)?),
            (Some(b"" | b"."), _) => file_name(&own_name(source)?),
            (Some(into), _) => Ok(StoreName::new(into)?.join(own_name(source)?.as_bytes())?),
        }
    };
    sources
        .iter()
        .map(|source| Ok((source.clone(), name(source)?)))
        .collect()
}

/// The last component of a path, also of `.` and the like.
fn own_name(path: &Path) -> anyhow::Result<OsString> {
    let canonical = fs::canonicalize(path);
    let canonical = canonical.with_context(|| format!("cannot read {}", path.display()))?;
    let named = path.file_name().or_else(|| canonical.file_name());
    named
        .map(OsString::from)
        .with_context(|| format!("{} has no name", path.display()))
}

/// Collects the regular files of a directory, in order of their names. What cannot be read is noted, and
/// the others go on.
fn walk(directory: &Path, name: &StoreName, found: &mut Found) {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => return found.refuse(directory, &error),
    };
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let local = entry.path();
        match (entry.file_type(), name.join(entry.file_name().as_bytes())) {
            (Err(error), _) => found.refuse(&local, &error),
            // Its text names the file as it would be called.
            (_, Err(error)) => found.refused.push(FailedFile {
                name: local.display().to_string(),
                error: error.to_string(),
            }),
            (Ok(kind), Ok(below)) if kind.is_dir() => walk(&local, &below, found),
            (Ok(kind), Ok(below)) if kind.is_file() => match entry.metadata() {
                Ok(metadata) => found.take(local, below, &metadata),
                Err(error) => found.refuse(&local, &error),
            },
            _ => tracing::warn!(path = %local.display(), "left out: not a regular file"),
        }
    }
}

impl Found {
    fn take(&mut self, local: PathBuf, name: StoreName, metadata: &fs::Metadata) {
        self.bytes += metadata.len();
        self.items.push(PutItem { local, name });
    }

    fn refuse(&mut self, path: &Path, error: &io::Error) {
        let name = path.display().to_string();
        let error = format!("cannot read {name}: {error}");
        self.refused.push(FailedFile { name, error });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[&str]) -> Vec<String> {
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        let targets = targets(&paths).unwrap();
        targets
            .into_iter()
            .map(|(_, name)| name.to_string())
            .collect()
    }

    #[test]
    fn a_directory_that_cannot_be_read_is_noted_and_ends_nothing() {
        let mut found = Found::default();
        walk(Path::new("/nonexistent"), &"d".parse().unwrap(), &mut found);
        assert!(
            found.refused[0]
                .error
                .starts_with("cannot read /nonexistent: ")
        );
    }

    #[test]
    fn the_last_path_says_where_the_others_go() {
        assert_eq!(names(&["/etc/hosts"]), ["hosts"]);
        assert_eq!(names(&["/etc/hosts", "kept"]), ["kept"]);
        assert_eq!(names(&["/etc/hosts", "kept/"]), ["kept/hosts"]);
        assert_eq!(
            names(&["/etc/hosts", "/etc/passwd", "d"]),
            ["d/hosts", "d/passwd"]
        );
        assert_eq!(names(&["/etc/hosts", "./"]), ["hosts"]);
    }
}

//! The directory that a command writes into, and texts that are written as they are made.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Makes the directory, or empties it of what the same command wrote there before: otherwise files of
/// two plans would stand side by side. `own` are paths below it, with `*` for the stem of a name.
///
/// # Errors
///
/// A directory that holds anything else; nothing is removed then.
pub(super) fn prepare(directory: &Path, own: &[&str]) -> anyhow::Result<()> {
    let cannot = |what: &str, path: &Path| format!("cannot {what} {}", path.display());
    fs::create_dir_all(directory).with_context(|| cannot("make", directory))?;
    let mut old = Vec::new();
    for path in entries(directory).with_context(|| cannot("read", directory))? {
        let is_folder = own
            .iter()
            .any(|name| name.split_once('/').is_some_and(|(f, _)| path.ends_with(f)));
        match is_folder && path.is_dir() {
            true => old.extend(entries(&path).with_context(|| cannot("read", &path))?),
            false => old.push(path),
        }
    }
    let foreign = |path: &&PathBuf| {
        let below = path.strip_prefix(directory).ok().and_then(Path::to_str);
        !below.is_some_and(|below| own.iter().any(|name| matches(name, below))) || path.is_dir()
    };
    if let Some(path) = old.iter().find(foreign) {
        bail!(
            "{}: {} is not what this command writes: name an empty directory",
            directory.display(),
            path.display()
        );
    }
    for path in old {
        fs::remove_file(&path).with_context(|| cannot("remove", &path))?;
    }
    Ok(())
}

/// Writes a file as its text is made, so that only a part of it is in memory.
///
/// # Errors
///
/// A file that cannot be made or written.
pub(super) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result,
) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let file = File::create(path).with_context(cannot)?;
    stream(BufWriter::new(file), write).with_context(cannot)
}

/// Writes a text as it is made.
///
/// # Errors
///
/// Those of `out`.
pub(super) fn stream(
    out: impl Write,
    write: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result,
) -> io::Result<()> {
    let mut text = Text { out, error: None };
    let written = write(&mut text);
    match text.error {
        Some(error) => Err(error),
        None => {
            written.map_err(io::Error::other)?;
            text.out.flush()
        }
    }
}

/// Bytes to write to, as a place for text. A text has no errors of its own, so the first one is kept.
struct Text<W> {
    out: W,
    error: Option<io::Error>,
}

impl<W: Write> fmt::Write for Text<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}

/// What stands in a directory, in order.
fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
    let mut entries: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
    entries.sort();
    Ok(entries)
}

fn matches(pattern: &str, path: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == path;
    };
    let stem = path
        .strip_prefix(before)
        .and_then(|rest| rest.strip_suffix(after));
    stem.is_some_and(|stem| !stem.is_empty() && !stem.contains('/'))
}

//! The output directory of a command, and texts that are written piece by piece while they are made.

use std::fmt;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Makes the directory, or removes from it the files that the same command wrote there before. Otherwise the
/// directory would hold files of two plans. `own` holds paths below the directory, with `*` for the stem of a
/// name.
///
/// # Errors
///
/// The directory holds anything else. No file is removed in this case.
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
            "{}: {} is not a file of this command: name an empty directory",
            directory.display(),
            path.display()
        );
    }
    for path in old {
        fs::remove_file(&path).with_context(|| cannot("remove", &path))?;
    }
    Ok(())
}

/// Writes a file while its text is made, so that only a part of the text is in memory.
///
/// # Errors
///
/// The file cannot be created or written.
pub(super) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result,
) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let file = sys::create_file(path).with_context(cannot)?;
    stream(BufWriter::new(file), write).with_context(cannot)
}

/// Writes a text to `out` while the text is made.
///
/// # Errors
///
/// The errors of `out`.
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

/// Makes a writer of bytes usable as a [`fmt::Write`]. `fmt::Error` carries no cause, so `error` keeps the
/// error of `out`.
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

/// Returns the paths in a directory, sorted.
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

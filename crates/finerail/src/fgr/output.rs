//! The output directory of a command, and texts that are written piece by piece while they are made.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use fgr::report::Part;

use crate::machine::read;

/// Makes the directory, or removes from it the files that the same command wrote there before. Otherwise the
/// directory would hold files of two plans. `is_own` knows the paths of these files below the directory, in it or in
/// one of the `folders`.
///
/// # Errors
///
/// The directory holds anything else. No file is removed in this case.
pub(super) fn prepare(
    directory: &Path,
    folders: &[&str],
    is_own: impl Fn(&str) -> bool,
) -> anyhow::Result<()> {
    let cannot = |what: &str, path: &Path| format!("cannot {what} {}", path.display());
    fs::create_dir_all(directory).with_context(|| cannot("make", directory))?;
    let mut old = Vec::new();
    for path in entries(directory).with_context(|| cannot("read", directory))? {
        let is_folder = folders.iter().any(|folder| path.ends_with(folder)) && path.is_dir();
        match is_folder {
            true => old.extend(entries(&path).with_context(|| cannot("read", &path))?),
            false => old.push(path),
        }
    }
    let foreign = |path: &&PathBuf| {
        let below = path.strip_prefix(directory).ok().and_then(Path::to_str);
        !below.is_some_and(&is_own) || path.is_dir()
    };
    if let Some(path) = old.iter().find(foreign) {
        bail!(
            "{}: {} is not a file of this command: name an empty directory",
            directory.display(),
            path.display()
        );
    }
    // The files of the folders first, then in the order of names: what says which files are the command's own is the last.
    old.sort_by_key(|path| (Reverse(path.components().count()), path.clone()));
    for path in old {
        fs::remove_file(&path).with_context(|| cannot("remove", &path))?;
    }
    Ok(())
}

/// The file that names the parts of a report in its directory, and its first line.
const PARTS: &str = "parts.txt";
const PARTS_HEADING: &str =
    "# The parts of a report of finerail fgr, which the next report replaces";

/// Writes the parts of a report into a directory, and removes those of an earlier report. Other files stay.
///
/// # Errors
///
/// A file that no earlier report wrote has the name of a part. Nothing is written then.
pub(super) fn write_parts(directory: &Path, parts: &[Part]) -> anyhow::Result<()> {
    let cannot = |what: &str, path: &Path| format!("cannot {what} {}", path.display());
    fs::create_dir_all(directory).with_context(|| cannot("make", directory))?;
    let list = directory.join(PARTS);
    let text = match list.exists() {
        true => read(&list)?,
        false => String::new(),
    };
    let mut lines = text.lines();
    let is_ours = lines.next().is_some_and(|line| line == PARTS_HEADING);
    let earlier: BTreeSet<&str> = lines.filter(|name| is_ours && is_part(name)).collect();
    let names = parts.iter().map(|part| part.name.as_str());
    let is_foreign = |name: &&str| !earlier.contains(name) && directory.join(name).exists();
    let foreign = names.clone().find(is_foreign);
    if let Some(name) = foreign.or((list.exists() && !is_ours).then_some(PARTS)) {
        bail!(
            "{}: {name} is not of an earlier report: name another directory",
            directory.display()
        );
    }
    for name in earlier {
        let path = directory.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| cannot("remove", &path));
            }
            _ => {}
        }
    }
    let names: Vec<&str> = names.collect();
    let text = format!("{PARTS_HEADING}\n{}\n", names.join("\n"));
    sys::write_file(&list, &text).with_context(|| cannot("write", &list))?;
    for part in parts {
        let path = directory.join(&part.name);
        sys::write_file(&path, &part.content).with_context(|| cannot("write", &path))?;
    }
    Ok(())
}

/// Returns whether a name can be that of a part: a picture or a table in the directory itself.
fn is_part(name: &str) -> bool {
    let ends_well = name.ends_with(".svg") || name.ends_with(".csv");
    ends_well && !name.contains(['/', '\\']) && !name.starts_with('.')
}

/// Formats a count with its noun: `1 class`, `2 classes`.
pub(super) fn counted(count: impl fmt::Display, noun: &str) -> String {
    let count = count.to_string();
    let ending = match count.as_str() {
        "1" => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
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

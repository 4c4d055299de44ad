//! The files of a site's directory.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use lnet_site::{Gathered, Site, SiteFile, gather, is_wanted};
use lnet_store::Printable;

use crate::common::{complaint, read_text};

/// Files that are read: three for each node of the largest sites.
const FILES_MAX: usize = 1 << 18;
/// Bytes of all files: outputs of 20,000 nodes with all statistics.
const BYTES_MAX: usize = 2 << 30;
/// Folders below each other; a sosreport has four.
const DEPTH_MAX: usize = 8;

/// A site, and whether some of its files could not be read.
pub(super) struct ReadSite {
    pub(super) site: Site,
    pub(super) is_partial: bool,
}

/// What was gathered of a directory, and whether some of its files could not be read.
pub(super) struct ReadFiles {
    pub(super) gathered: Gathered,
    pub(super) is_partial: bool,
}

/// Reads a site. A file that cannot be read hides nothing of the others, and is told of.
pub(super) fn read_site(directory: &Path) -> anyhow::Result<ReadSite> {
    let read = read_files(directory)?;
    Ok(ReadSite {
        site: Site::new(read.gathered).with_context(|| directory.display().to_string())?,
        is_partial: read.is_partial,
    })
}

/// The files of a directory, or one file.
pub(super) fn read_files(path: &Path) -> anyhow::Result<ReadFiles> {
    let mut reader = Reader::default();
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if path.is_file() => reader.file(path, name.to_owned())?,
        _ => reader.folder(path, "", 0)?,
    }
    for error in &reader.unread {
        complaint(&format!("{error:#}"));
    }
    let name = path.display().to_string();
    Ok(ReadFiles {
        gathered: gather(&reader.files).context(name)?,
        is_partial: !reader.unread.is_empty(),
    })
}

/// Lines of a page; names and rules come from files, and may not command the terminal.
pub(super) fn printable(text: &str) -> String {
    let lines = text.lines();
    lines
        .map(|line| format!("{}\n", Printable::text(line)))
        .collect()
}

#[derive(Default)]
struct Reader {
    files: Vec<SiteFile>,
    bytes: usize,
    unread: Vec<anyhow::Error>,
}

impl Reader {
    fn folder(&mut self, path: &Path, below: &str, depth: usize) -> anyhow::Result<()> {
        let shown = path.display();
        let entries = fs::read_dir(path).with_context(|| format!("cannot read {shown}"))?;
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(
                entry
                    .with_context(|| format!("cannot read {shown}"))?
                    .path(),
            );
        }
        paths.sort_unstable();
        for path in paths {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            let below = match below {
                "" => name.to_owned(),
                above => format!("{above}/{name}"),
            };
            if !path.is_dir() {
                self.file(&path, below)?;
            } else if depth < DEPTH_MAX {
                self.folder(&path, &below, depth + 1)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, below: String) -> anyhow::Result<()> {
        if !is_wanted(&below) || !path.is_file() {
            return Ok(());
        }
        match read_text(path) {
            Ok(text) => {
                self.bytes += text.len();
                if self.files.len() >= FILES_MAX || self.bytes > BYTES_MAX {
                    bail!(
                        "more than {FILES_MAX} files, or {} GiB of them",
                        BYTES_MAX >> 30
                    );
                }
                self.files.push(SiteFile { path: below, text });
            }
            Err(error) => {
                let error = anyhow::Error::new(error);
                let what = format!("cannot read {}", path.display());
                self.unread.push(error.context(what));
            }
        }
        Ok(())
    }
}

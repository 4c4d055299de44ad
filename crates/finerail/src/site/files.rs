//! Reads the files in the directory of a site.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use files_lnet::Printable;
use lnet_site::{Gathered, Site, SiteFile, gather, is_wanted, may_hold};

use crate::common::{complaint, read_text};

/// The limit of files that are read: three for each node of the largest sites.
const FILES_MAX: usize = 1 << 18;
/// The limit of bytes of all files. It allows the output of 20,000 nodes with all statistics.
const BYTES_MAX: usize = 2 << 30;
/// The limit of nested folders; a sosreport has four levels.
const DEPTH_MAX: usize = 8;

/// A site, and whether some of its files could not be read.
pub(super) struct ReadSite {
    pub(super) site: Site,
    pub(super) is_partial: bool,
}

/// The files of a directory, and whether some of them could not be read.
pub(super) struct ReadFiles {
    pub(super) gathered: Gathered,
    pub(super) is_partial: bool,
}

/// Reads a site. A file that cannot be read is reported, and the others are read nevertheless.
pub(super) fn read_site(directory: &Path) -> anyhow::Result<ReadSite> {
    let read = read_files(directory)?;
    Ok(ReadSite {
        site: Site::new(read.gathered).with_context(|| directory.display().to_string())?,
        is_partial: read.is_partial,
    })
}

/// Reads a site for a command that does not itself report the nodes without a readable configuration.
pub(super) fn read_known(directory: &Path) -> anyhow::Result<ReadSite> {
    let mut read = read_site(directory)?;
    read.is_partial |= tell_unread(&read.site, directory);
    Ok(read)
}

/// Reports the nodes whose texts are not configurations. Returns whether there are any.
pub(super) fn tell_unread(site: &Site, directory: &Path) -> bool {
    let unread = site.unread();
    if !unread.is_empty() {
        complaint(&format!(
            "{}: nothing is known of {unread}, whose files are no configurations: `finerail site check` says why",
            directory.display()
        ));
    }
    !unread.is_empty()
}

/// Reads all files of a directory, or one file, and reports the unreadable ones.
pub(super) fn read_files(path: &Path) -> anyhow::Result<ReadFiles> {
    let (gathered, unread) = look(path)?;
    for error in &unread {
        complaint(&format!("{error:#}"));
    }
    Ok(ReadFiles {
        gathered,
        is_partial: !unread.is_empty(),
    })
}

/// Reads the same files a second time; the unreadable ones have been reported.
pub(super) fn read_again(path: &Path) -> anyhow::Result<Gathered> {
    Ok(look(path)?.0)
}

fn look(path: &Path) -> anyhow::Result<(Gathered, Vec<anyhow::Error>)> {
    let mut reader = Reader::default();
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if path.is_file() => reader.file(path, name.to_owned())?,
        _ => {
            let above = list(path).and_then(|paths| Ok((paths, fs::metadata(path)?)));
            let (paths, here) = above.with_context(|| format!("cannot read {}", path.display()))?;
            reader.folder(paths, "", &mut vec![identity(&here)])?;
        }
    }
    let mut gathered = gather(&reader.files);
    for below in &reader.unreadable {
        gathered.note_unreadable(below);
    }
    let unnamed = gathered.unnamed.drain(..).map(|error| {
        let error = anyhow::Error::new(error);
        error.context(path.display().to_string())
    });
    reader.unread.extend(unnamed);
    Ok((gathered, reader.unread))
}

/// Returns the paths in a folder, sorted by name.
fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<io::Result<Vec<PathBuf>>>()?;
    paths.sort_unstable();
    Ok(paths)
}

/// Returns a value that identifies a folder, by whatever path it is reached.
fn identity(of: &Metadata) -> (u64, u64) {
    (of.dev(), of.ino())
}

/// Escapes control characters in the lines of a page: names and rules come from files, and must not send
/// commands to the terminal.
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
    /// Files and folders that cannot be read, below the directory.
    unreadable: Vec<String>,
}

impl Reader {
    /// Reads the files of a folder. `above` holds the identities of this folder and of those that contain it; a
    /// link to one of these is not followed.
    fn folder(
        &mut self,
        paths: Vec<PathBuf>,
        below: &str,
        above: &mut Vec<(u64, u64)>,
    ) -> anyhow::Result<()> {
        for path in paths {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                let what = format!("{}: a name that is not UTF-8", path.display());
                self.unread.push(anyhow::Error::msg(what));
                continue;
            };
            let below = match below {
                "" => name.to_owned(),
                above => format!("{above}/{name}"),
            };
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => {
                    self.enter(&path, &below, identity(&metadata), above)?
                }
                _ => self.file(&path, below)?,
            }
        }
        Ok(())
    }

    /// Reads a folder that is inside another one.
    fn enter(
        &mut self,
        path: &Path,
        below: &str,
        here: (u64, u64),
        above: &mut Vec<(u64, u64)>,
    ) -> anyhow::Result<()> {
        if above.contains(&here) || !may_hold(below) {
            return Ok(());
        }
        let shown = path.display();
        if above.len() > DEPTH_MAX {
            let what = format!("{shown}: more than {DEPTH_MAX} nested folders");
            self.unread.push(anyhow::Error::msg(what));
            return Ok(());
        }
        match list(path) {
            Ok(paths) => {
                above.push(here);
                self.folder(paths, below, above)?;
                above.pop();
            }
            Err(error) => {
                let error = anyhow::Error::new(error);
                self.unread
                    .push(error.context(format!("cannot read {shown}")));
                self.unreadable.push(format!("{below}/"));
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, below: String) -> anyhow::Result<()> {
        if !is_wanted(&below) {
            return Ok(());
        }
        // Reading a pipe would never end, so only regular files are read. A broken link fails here and is
        // reported, because its node is missing from the site.
        let read = match fs::metadata(path) {
            Ok(status) if !status.is_file() => Err(io::Error::other("neither a file nor a folder")),
            _ => read_text(path),
        };
        match read {
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
                self.unreadable.push(below);
            }
        }
        Ok(())
    }
}

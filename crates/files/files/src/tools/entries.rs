//! Reads a directory page by page.

use std::collections::VecDeque;

use crate::tools::failure::{Failure, Why};
use crate::tools::tree::{Tree, below};
use crate::{DirectoryEntry, Entry, Errno, Handle, Path};

/// Number of names in one page.
const PAGE: u32 = 256;
/// Limit of the lookups of a directory after its server forgot the handle.
const LOOKUPS_MAX: u32 = 4;

/// An object that was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Path from the root.
    pub path: Path,
    /// Handle and attributes of the object.
    pub entry: Entry,
}

/// The objects of one directory, in the order of the server, without `.` and `..`. After an error of one name the
/// iterator continues. After an error of the directory it ends. Invalid names are skipped, and are one error at the end.
pub struct Entries<'a> {
    tree: Tree<'a>,
    directory: Option<Path>,
    handle: Handle,
    cookie: u64,
    page: VecDeque<DirectoryEntry>,
    is_end: bool,
    lookups: u32,
    /// Number of invalid names, which are skipped and reported at the end.
    invalid: usize,
}

impl<'a> Entries<'a> {
    /// Returns the entries of the directory at `path`, whose handle is `handle`. `None` is the root.
    #[must_use]
    pub fn new(tree: Tree<'a>, path: Option<Path>, handle: Handle) -> Self {
        Self {
            tree,
            directory: path,
            handle,
            cookie: 0,
            page: VecDeque::new(),
            is_end: false,
            lookups: 0,
            invalid: 0,
        }
    }

    fn turn_page(&mut self) -> Result<(), Failure> {
        let Tree { files, caller, .. } = self.tree;
        let listed = files.readdir(caller, self.handle, self.cookie, PAGE, true);
        let mut listing = match listed {
            Ok(listing) => listing,
            Err(Errno::ESTALE) if self.lookups < LOOKUPS_MAX => {
                self.lookups += 1;
                self.handle = self.tree.lookup(self.directory.as_ref())?.handle;
                return Ok(());
            }
            Err(errno) => return Err(self.failed(Why::Errno(errno))),
        };
        // If a page ended where it started, the listing would never end.
        let last = listing.entries.last().map(|entry| entry.cookie);
        match last {
            Some(cookie) if cookie != self.cookie && cookie != 0 => self.cookie = cookie,
            None if listing.is_end => {}
            _ => return Err(self.failed(Why::BadListing)),
        }
        self.invalid += listing.remove_invalid();
        self.is_end = listing.is_end;
        self.page = listing.entries.into();
        Ok(())
    }

    fn failed(&self, why: Why) -> Failure {
        self.tree.failed("list", self.directory.as_ref(), why)
    }

    fn found(&self, listed: &DirectoryEntry) -> Result<Found, Failure> {
        let path = below(self.directory.as_ref(), &listed.name);
        // The name is valid, but the whole path may be too long.
        let path = path.map_err(|errno| self.failed(Why::Errno(errno)))?;
        let entry = match listed.entry {
            Some(entry) => entry,
            None => self.tree.lookup(Some(&path))?,
        };
        Ok(Found { path, entry })
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Found, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while let Some(listed) = self.page.pop_front() {
                if !matches!(listed.name.as_slice(), b"." | b"..") {
                    return Some(self.found(&listed));
                }
            }
            if self.is_end {
                let invalid = std::mem::take(&mut self.invalid);
                return (invalid > 0).then(|| Err(self.failed(Why::BadNames(invalid))));
            }
            if let Err(failure) = self.turn_page() {
                self.is_end = true;
                return Some(Err(failure));
            }
        }
    }
}

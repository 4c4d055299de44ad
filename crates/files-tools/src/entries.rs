//! A directory, page by page.

use std::collections::VecDeque;

use files::{DirectoryEntry, Entry, Errno, Handle, Path};

use crate::failure::{Failure, Why};
use crate::tree::{Tree, below};

/// Names asked for at a time.
const PAGE: u32 = 256;
/// How often a directory is looked up again because its server has forgotten it.
const LOOKUPS_MAX: u32 = 4;

/// An object that was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its path from the root.
    pub path: Path,
    /// The object.
    pub entry: Entry,
}

/// The objects of one directory, in its own order, without `.` and `..`. After an error that concerns one name the
/// iterator goes on; after one that concerns the directory it ends.
pub struct Entries<'a> {
    tree: Tree<'a>,
    directory: Option<Path>,
    handle: Handle,
    cookie: u64,
    page: VecDeque<DirectoryEntry>,
    is_end: bool,
    lookups: u32,
}

impl<'a> Entries<'a> {
    /// The directory at `path`, whose handle is known; `None` is the root.
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
        }
    }

    fn turn_page(&mut self) -> Result<(), Failure> {
        let Tree { files, caller, .. } = self.tree;
        let listed = files.readdir(caller, self.handle, self.cookie, PAGE, true);
        let listing = match listed {
            Ok(listing) => listing,
            Err(Errno::ESTALE) if self.lookups < LOOKUPS_MAX => {
                self.lookups += 1;
                self.handle = self.tree.lookup(self.directory.as_ref())?.handle;
                return Ok(());
            }
            Err(errno) => return Err(self.failed(Why::Errno(errno))),
        };
        // A page that leads back to where it was asked for would be read for ever.
        let last = listing.entries.last().map(|entry| entry.cookie);
        match last {
            Some(cookie) if cookie != self.cookie && cookie != 0 => self.cookie = cookie,
            None if listing.is_end => {}
            _ => return Err(self.failed(Why::BadListing)),
        }
        self.is_end = listing.is_end;
        self.page = listing.entries.into();
        Ok(())
    }

    fn failed(&self, why: Why) -> Failure {
        self.tree.failed("list", self.directory.as_ref(), why)
    }

    fn found(&self, listed: &DirectoryEntry) -> Result<Found, Failure> {
        let path = below(self.directory.as_ref(), &listed.name);
        let path = path.map_err(|errno| match errno {
            // The name may be right and the whole too long.
            Errno::ENAMETOOLONG => self.failed(Why::Errno(errno)),
            _ => self.failed(Why::BadName),
        })?;
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
                return None;
            }
            if let Err(failure) = self.turn_page() {
                self.is_end = true;
                return Some(Err(failure));
            }
        }
    }
}

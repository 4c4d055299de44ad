//! The entries of an open directory that were fetched ahead.
//!
//! The kernel asks for a few entries at a time, and this module asks the server for many. The entries fetched ahead
//! are dropped if the kernel continues at another place, if names in the directory were removed through this mount,
//! or if the kernel wants objects and only names were fetched.

use std::collections::VecDeque;

use crate::{Caller, DirectoryEntry, Errno, FileSystem, Handle};

/// Number of entries of one request to the server.
const AHEAD: u32 = 512;

/// Entries that were fetched ahead of the kernel.
#[derive(Default)]
pub(crate) struct Stream {
    entries: VecDeque<DirectoryEntry>,
    /// The cookie behind which `entries` begin; `None` before the first fetch.
    from: Option<u64>,
    is_end: bool,
    has_objects: bool,
    removals: u64,
}

/// The directory to list, and its caller.
pub(crate) struct Listed<'a> {
    pub(crate) files: &'a dyn FileSystem,
    pub(crate) caller: &'a Caller,
    pub(crate) handle: Handle,
    /// Number of names that were removed from the directory so far.
    pub(crate) removals: u64,
    /// Whether the objects are listed with their names.
    pub(crate) objects: bool,
}

impl Stream {
    /// Passes entries behind `cookie` to `take` until `take` returns `false` or no fetched entry is left. If `take`
    /// gets no entry at all, the directory has ended.
    pub(crate) fn list(
        &mut self,
        listed: &Listed<'_>,
        cookie: u64,
        mut take: impl FnMut(&DirectoryEntry) -> bool,
    ) -> Result<(), Errno> {
        let is_usable = self.from == Some(cookie)
            && self.removals == listed.removals
            && (self.has_objects || !listed.objects);
        if !is_usable || (self.entries.is_empty() && !self.is_end) {
            self.fetch(listed, cookie)?;
        }
        while let Some(entry) = self.entries.front() {
            if !take(entry) {
                break;
            }
            self.from = Some(entry.cookie);
            self.entries.pop_front();
        }
        Ok(())
    }

    fn fetch(&mut self, listed: &Listed<'_>, cookie: u64) -> Result<(), Errno> {
        *self = Self::default();
        let ask = |objects| {
            let files = listed.files;
            files.readdir(listed.caller, listed.handle, cookie, AHEAD, objects)
        };
        let mut listing = ask(listed.objects)?;
        let is_vague = |entry: &DirectoryEntry| entry.kind.is_none();
        let ask_again = !listed.objects && listing.entries.iter().any(is_vague);
        if ask_again {
            listing = ask(true)?;
        }
        if listing.entries.is_empty() && !listing.is_end {
            return Err(Errno::EPROTO);
        }
        self.entries = listing.entries.into();
        self.from = Some(cookie);
        self.is_end = listing.is_end;
        self.has_objects = listed.objects || ask_again;
        self.removals = listed.removals;
        Ok(())
    }
}

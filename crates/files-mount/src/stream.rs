//! An open directory: what was listed ahead.
//!
//! The kernel asks for a few entries at a time, the server is asked for many. What was listed ahead is dropped
//! where the kernel goes on elsewhere, where names in the directory were removed through this mount meanwhile, and
//! where objects are wanted that were not asked for.

use std::collections::VecDeque;

use files::{Caller, DirectoryEntry, Errno, FileSystem, Handle};

/// Entries that are asked for at once.
const AHEAD: u32 = 512;

/// What was listed ahead of the kernel.
#[derive(Default)]
pub(crate) struct Stream {
    entries: VecDeque<DirectoryEntry>,
    /// The cookie that they begin behind; `None` before the first.
    from: Option<u64>,
    is_end: bool,
    has_objects: bool,
    removals: u64,
}

/// What is listed, on whose behalf.
pub(crate) struct Listed<'a> {
    pub(crate) files: &'a dyn FileSystem,
    pub(crate) caller: &'a Caller,
    pub(crate) handle: Handle,
    /// How many names were removed from the directory so far.
    pub(crate) removals: u64,
    /// Whether the objects come with their names.
    pub(crate) objects: bool,
}

impl Stream {
    /// Gives entries behind `cookie` to `take` until that takes no more (`false`) or the directory ends. None is
    /// given only at the end.
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

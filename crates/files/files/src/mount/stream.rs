//! The entries of an open directory that were fetched ahead.
//!
//! The kernel asks for a few entries at a time, and this module asks the server for many. The entries fetched ahead
//! are dropped if the kernel continues at another place, if names in the directory were removed through this mount,
//! or if the kernel wants objects and only names were fetched.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::warn;

use crate::{Caller, DirectoryEntry, Errno, FileSystem, Handle, Listing};

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
        let is_at = self.from == Some(cookie);
        // Nothing is behind the end, whatever was removed.
        let has_ended = is_at && self.is_end && self.entries.is_empty();
        let is_usable =
            is_at && self.removals == listed.removals && (self.has_objects || !listed.objects);
        if has_ended {
            return Ok(());
        }
        if !is_usable || self.entries.is_empty() {
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

    /// Fetches the entries behind `cookie`. Skips pages that have no valid name.
    fn fetch(&mut self, listed: &Listed<'_>, cookie: u64) -> Result<(), Errno> {
        *self = Self::default();
        let mut behind = cookie;
        loop {
            let (mut listing, has_objects) = ask(listed, behind)?;
            let last = listing.entries.last().map(|last| last.cookie);
            match last {
                None if !listing.is_end => return Err(Errno::EPROTO),
                // A listing that continues where it began would never end.
                Some(last) if last == behind && !listing.is_end => return Err(Errno::EPROTO),
                _ => {}
            }
            note_invalid(listing.remove_invalid());
            if listing.entries.is_empty() && !listing.is_end {
                behind = last.unwrap_or(behind);
                continue;
            }
            self.entries = listing.entries.into();
            self.from = Some(cookie);
            self.is_end = listing.is_end;
            self.has_objects = has_objects;
            self.removals = listed.removals;
            return Ok(());
        }
    }
}

/// Asks the server for entries. Returns them, and whether they have their objects.
fn ask(listed: &Listed<'_>, cookie: u64) -> Result<(Listing, bool), Errno> {
    let ask = |objects| {
        let files = listed.files;
        files.readdir(listed.caller, listed.handle, cookie, AHEAD, objects)
    };
    let listing = ask(listed.objects)?;
    let is_vague = |entry: &DirectoryEntry| entry.kind.is_none();
    if !listed.objects && listing.entries.iter().any(is_vague) {
        return Ok((ask(true)?, true));
    }
    Ok((listing, listed.objects))
}

/// Number of invalid names that servers listed.
static INVALID: AtomicU64 = AtomicU64::new(0);

/// Counts invalid names, and logs the first and each further power of two of their number.
fn note_invalid(count: usize) {
    if count == 0 {
        return;
    }
    let before = INVALID.fetch_add(count as u64, Ordering::Relaxed);
    let total = before + count as u64;
    if before == 0 || before.ilog2() < total.ilog2() {
        warn!(
            total,
            "the server listed names that are not valid: they are skipped"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Data, Kind, Reply, Request};

    /// A server that lists some names, some of them invalid, three at a time.
    struct Liar;

    impl FileSystem for Liar {
        fn call(&self, _: &Caller, request: &Request, _: Data<'_>) -> Result<Reply, Errno> {
            let Request::ReadDir { cookie, .. } = request else {
                return Err(Errno::ENOSYS);
            };
            let names: [&[u8]; 9] = [
                b".",
                b"..",
                b"a",
                b"a/b",
                b"",
                b"\0",
                b"b",
                &[b'x'; 256],
                b"c",
            ];
            let entry = |(number, name): (usize, &&[u8])| DirectoryEntry {
                name: name.to_vec(),
                cookie: number as u64 + 1,
                file: 1,
                kind: Some(Kind::File),
                entry: None,
            };
            let page = names.iter().enumerate().skip(*cookie as usize).take(3);
            Ok(Reply::Listing(Listing {
                entries: page.map(entry).collect(),
                is_end: cookie + 3 >= names.len() as u64,
            }))
        }
    }

    #[test]
    fn invalid_names_are_skipped_also_where_a_page_has_no_others() {
        let listed = Listed {
            files: &Liar,
            caller: &Caller::default(),
            handle: Handle::ROOT,
            removals: 0,
            objects: false,
        };
        let (mut stream, mut names, mut cookie) = (Stream::default(), Vec::new(), 0);
        let mut from = 0;
        loop {
            let before = names.len();
            let take = |entry: &DirectoryEntry| {
                names.push(entry.name.clone());
                cookie = entry.cookie;
                true
            };
            stream.list(&listed, from, take).unwrap();
            from = cookie;
            if names.len() == before {
                break;
            }
        }
        assert_eq!(names, [&b"."[..], b"..", b"a", b"b", b"c"]);
    }
}

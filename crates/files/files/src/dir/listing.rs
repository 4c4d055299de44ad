//! Listing directories.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::fs::{RawDir, RawDirEntry, SeekFrom};

use crate::dir::LocalDirectory;
use crate::dir::attributes::{attributes_at, kind};
use crate::dir::directory::{ROOT, reopen_directory, require_directory};
use crate::dir::identity::{Acting, errno};
use crate::dir::table::{Object, Open};
use crate::{DirectoryEntry, Entry, Errno, Handle, Listing, Reply};

/// Bytes of entries that are read from the system at a time: some hundred entries.
const BUFFER_BYTES: usize = 32 << 10;

impl LocalDirectory {
    pub(crate) fn list(
        &self,
        acting: &Acting,
        handle: Handle,
        cookie: u64,
        entries_max: u32,
        objects: bool,
    ) -> Result<Reply, Errno> {
        let (directory, open) = self.resolve(handle)?;
        require_directory(directory.kind)?;
        let fd = acting.run(|| reopen_directory(open.fd.as_fd()))?;
        if cookie != 0 {
            rustix::fs::seek(&fd, SeekFrom::Start(cookie)).map_err(errno)?;
        }
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
        let mut names = RawDir::new(fd, &mut buffer);
        let mut listing = Listing::default();
        while listing.entries.len() < entries_max as usize {
            match names.next() {
                None => {
                    listing.is_end = true;
                    break;
                }
                Some(found) => {
                    let mut entry = listed(&directory, &found.map_err(errno)?);
                    if objects && !is_dots(&entry.name) {
                        entry.entry = self.listed_object(acting, &directory, &open, &entry.name);
                    }
                    listing.entries.push(entry);
                }
            }
        }
        Ok(Reply::Listing(listing))
    }

    /// Returns the object of a listed name; `None` if it was removed since, or if the caller may only list names.
    fn listed_object(
        &self,
        acting: &Acting,
        directory: &Object,
        open: &Open,
        name: &[u8],
    ) -> Option<Entry> {
        let found = acting.run(|| attributes_at(open.fd.as_fd(), name));
        let (identity, attributes) = found.ok()?;
        let spot = (directory.id, name.into());
        let (_, handle) = self.table().note(identity, attributes.kind, spot);
        Some(Entry { handle, attributes })
    }
}

fn listed(directory: &Object, found: &RawDirEntry<'_>) -> DirectoryEntry {
    let name = found.file_name().to_bytes();
    let leads_out = name == b".." && directory.id == ROOT;
    DirectoryEntry {
        name: name.to_vec(),
        cookie: found.next_entry_cookie(),
        file: if leads_out {
            directory.identity.file
        } else {
            found.ino()
        },
        kind: kind(found.file_type()),
        entry: None,
    }
}

fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

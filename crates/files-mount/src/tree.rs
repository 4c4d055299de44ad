//! What the operations of the kernel are in terms of [`FileSystem`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use files::{
    APPEND_MAX, Attributes, Caller, DirectoryEntry, Entry, Errno, FileSystem, Handle, Kind, Node,
    Place, RenameMode, SetAttributes,
};
use slab::Slab;
use tracing::warn;

use crate::behind::{Behind, Ticket};
use crate::nodes::{HIDDEN_PREFIX, Hidden, Nodes, ROOT};
use crate::stream::{Listed, Stream};

/// A file system as the kernel sees it.
pub(crate) struct Tree {
    pub(crate) files: Arc<dyn FileSystem>,
    nodes: Mutex<Nodes>,
    opened: Mutex<Slab<Arc<Opened>>>,
    streams: Mutex<Slab<Arc<Listing>>>,
    behind: Behind,
    /// Tells hidden names of this mount from those of others.
    salt: u64,
    hidden: AtomicU64,
}

/// An open file, and who opened it.
pub(crate) struct Opened {
    number: u64,
    pub(crate) handle: Handle,
    pub(crate) caller: Caller,
    /// What a piece that went behind met, until somebody was told.
    failure: Mutex<Option<Errno>>,
}

/// An open directory.
struct Listing {
    number: u64,
    handle: Handle,
    caller: Caller,
    stream: Mutex<Stream>,
}

/// A node and what is known of it.
pub(crate) type Known = (u64, Attributes);

/// How often another hidden name is tried.
const HIDDEN_TRIES: usize = 4;

impl Opened {
    fn fail(&self, errno: Errno) {
        lock(&self.failure).get_or_insert(errno);
    }

    fn check(&self) -> Result<(), Errno> {
        lock(&self.failure).take().map_or(Ok(()), Err)
    }
}

impl Tree {
    /// The file system of `files`, whose root has these attributes. At most `behind` pieces of files are under way that
    /// the kernel was told are written.
    pub(crate) fn new(
        files: Arc<dyn FileSystem>,
        root: &Attributes,
        salt: u64,
        behind: usize,
    ) -> Self {
        Self {
            files,
            nodes: Mutex::new(Nodes::new(root.filesystem)),
            opened: Mutex::default(),
            streams: Mutex::default(),
            behind: Behind::new(behind),
            salt,
            hidden: AtomicU64::new(0),
        }
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        lock(&self.nodes)
    }

    pub(crate) fn handle(&self, number: u64) -> Result<Handle, Errno> {
        self.nodes().handle(number)
    }

    fn place(&self, parent: u64, name: &[u8]) -> Result<Place, Errno> {
        Place::of(self.handle(parent)?, name)
    }

    /// Notes a reference of the kernel to an object.
    fn refer(&self, entry: &Entry) -> Known {
        let mut nodes = self.nodes();
        let number = nodes.refer(entry);
        (number, nodes.tell(number, entry.attributes))
    }

    pub(crate) fn forget(&self, number: u64, count: u64) {
        self.nodes().forget(number, count);
    }

    pub(crate) fn lookup(&self, caller: &Caller, parent: u64, name: &[u8]) -> Result<Known, Errno> {
        let under_way = self.behind.nodes();
        let entry = self.files.lookup(caller, self.place(parent, name)?)?;
        let known = self.refer(&entry);
        if !under_way.contains(&known.0) {
            return Ok(known);
        }
        // The server may have been asked before it had what the kernel counts as written.
        let attributes = self.getattr(caller, known.0);
        if attributes.is_err() {
            self.forget(known.0, 1);
        }
        Ok((known.0, attributes?))
    }

    /// Waits until the server has what was written to a node.
    pub(crate) fn settle(&self, number: u64) {
        self.behind.settle(number);
    }

    pub(crate) fn getattr(&self, caller: &Caller, number: u64) -> Result<Attributes, Errno> {
        self.settle(number);
        let attributes = self.files.getattr(caller, self.handle(number)?)?;
        Ok(self.nodes().tell(number, attributes))
    }

    pub(crate) fn setattr(
        &self,
        caller: &Caller,
        number: u64,
        set: SetAttributes,
    ) -> Result<Attributes, Errno> {
        self.settle(number);
        let attributes = self.files.setattr(caller, self.handle(number)?, set)?;
        Ok(self.nodes().tell(number, attributes))
    }

    /// Makes a file of any kind that has no content from elsewhere. `mode` holds the kind, as in mknod(2).
    pub(crate) fn mknod(
        &self,
        caller: &Caller,
        parent: u64,
        name: &[u8],
        mode: u32,
    ) -> Result<Known, Errno> {
        let place = self.place(parent, name)?;
        let bits = mode & 0o7777;
        let entry = match mode & S_IFMT {
            S_IFREG => self.files.create(caller, place, bits, true)?.0,
            S_IFIFO => self.files.mknod(caller, place, Node::Fifo, bits)?,
            S_IFSOCK => self.files.mknod(caller, place, Node::Socket, bits)?,
            // Devices would give access to the server's machine.
            _ => return Err(Errno::EPERM),
        };
        Ok(self.refer(&entry))
    }

    pub(crate) fn mkdir(
        &self,
        caller: &Caller,
        parent: u64,
        name: &[u8],
        mode: u32,
    ) -> Result<Known, Errno> {
        let place = self.place(parent, name)?;
        let entry = self.files.mkdir(caller, place, mode & 0o7777)?;
        Ok(self.refer(&entry))
    }

    pub(crate) fn symlink(
        &self,
        caller: &Caller,
        parent: u64,
        name: &[u8],
        target: &[u8],
    ) -> Result<Known, Errno> {
        let place = self.place(parent, name)?;
        let entry = self.files.symlink(caller, place, target)?;
        Ok(self.refer(&entry))
    }

    pub(crate) fn link(
        &self,
        caller: &Caller,
        number: u64,
        parent: u64,
        name: &[u8],
    ) -> Result<Known, Errno> {
        self.settle(number);
        let (handle, place) = (self.handle(number)?, self.place(parent, name)?);
        let entry = self.files.link(caller, handle, place)?;
        Ok(self.refer(&entry))
    }

    /// Opens a file that exists. Whether the kernel was told other attributes than it has now stands beside its
    /// key.
    pub(crate) fn open(&self, caller: Caller, number: u64) -> Result<(u64, bool), Errno> {
        self.settle(number);
        let handle = self.handle(number)?;
        let attributes = self.files.getattr(&caller, handle)?;
        let is_news = self.nodes().is_news(number, &attributes);
        Ok((self.opened_by(caller, number, handle), is_news))
    }

    fn opened_by(&self, caller: Caller, number: u64, handle: Handle) -> u64 {
        self.nodes().open(number);
        let opened = Opened {
            number,
            handle,
            caller,
            failure: Mutex::default(),
        };
        lock(&self.opened).insert(Arc::new(opened)) as u64
    }

    /// Makes a file and opens it. Where there is something of that name, which the kernel did not see, `ESTALE` makes
    /// the kernel look the name up and open what is there, with all its checks.
    pub(crate) fn create(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
        mode: u32,
        exclusive: bool,
    ) -> Result<(Known, u64), Errno> {
        let place = self.place(parent, name)?;
        let made = self.files.create(&caller, place, mode & 0o7777, exclusive);
        let entry = match made {
            Ok((entry, true)) => entry,
            Ok((_, false)) | Err(Errno::EEXIST) if !exclusive => return Err(Errno::ESTALE),
            Ok((entry, false)) => entry,
            Err(errno) => return Err(errno),
        };
        let known = self.refer(&entry);
        let key = self.opened_by(caller, known.0, entry.handle);
        Ok((known, key))
    }

    /// The open file of a key.
    pub(crate) fn opened(&self, key: u64) -> Result<Arc<Opened>, Errno> {
        let opened = lock(&self.opened);
        let file = usize::try_from(key).ok().and_then(|key| opened.get(key));
        file.cloned().ok_or(Errno::EBADF)
    }

    /// Closes a file; one that was removed goes now.
    pub(crate) fn release(&self, key: u64) {
        let key = usize::try_from(key).ok();
        let file = key.and_then(|key| lock(&self.opened).try_remove(key));
        let hidden = file.and_then(|file| self.nodes().close(file.number));
        if let Some(hidden) = hidden {
            self.remove_hidden(hidden);
        }
    }

    fn remove_hidden(&self, hidden: Hidden) {
        let name = hidden.place.path.clone();
        let removed = self.files.remove(&hidden.caller, hidden.place, Some(false));
        match removed {
            // Another machine was faster, or its directory has gone with it.
            Ok(()) | Err(Errno::ENOENT | Errno::ESTALE) => {}
            Err(errno) => warn!(%name, %errno, "a removed file is left under its hidden name"),
        }
    }

    pub(crate) fn read(
        &self,
        file: &Opened,
        offset: u64,
        memory: &mut [u8],
    ) -> Result<usize, Errno> {
        self.settle(file.number);
        self.files.read(&file.caller, file.handle, offset, memory)
    }

    /// Waits until the server has what was written to an open file, and says what went wrong since the last question.
    pub(crate) fn flush(&self, file: &Opened) -> Result<(), Errno> {
        self.settle(file.number);
        file.check()
    }

    /// Begins a piece of which the kernel is told that it is written; `None` where it must not be. What went wrong with
    /// earlier ones comes first.
    pub(crate) fn begin_behind(
        &self,
        file: &Opened,
        offset: u64,
        length: usize,
    ) -> Result<Option<Ticket<'_>>, Errno> {
        file.check()?;
        let end = offset.checked_add(length as u64).ok_or(Errno::EFBIG)?;
        Ok(self.behind.begin(file.number, offset..end))
    }

    /// Writes a piece that has begun. An error is for whoever asks next.
    pub(crate) fn write_behind(
        &self,
        ticket: Ticket<'_>,
        file: &Opened,
        mut offset: u64,
        mut bytes: &[u8],
    ) {
        while !bytes.is_empty() {
            let written = self.files.write(&file.caller, file.handle, offset, bytes);
            match written {
                // A server that takes a part is asked for the rest, so that it says what is wrong.
                Ok(count @ 1..) => {
                    offset += count as u64;
                    bytes = bytes.get(count..).unwrap_or_default();
                }
                Ok(0) => return file.fail(Errno::EIO),
                Err(errno) => return file.fail(errno),
            }
        }
        drop(ticket);
    }

    /// Writes at an offset, or with `append` wherever the file ends by then.
    pub(crate) fn write(
        &self,
        file: &Opened,
        offset: u64,
        bytes: &[u8],
        append: bool,
    ) -> Result<u64, Errno> {
        let Opened { handle, caller, .. } = file;
        let end = offset.saturating_add(bytes.len() as u64);
        self.behind.settle_range(file.number, &(offset..end));
        if append {
            let most = usize::try_from(APPEND_MAX).unwrap_or(usize::MAX);
            let bytes = &bytes[..bytes.len().min(most)];
            return Ok(self.files.append(caller, *handle, bytes)?.1);
        }
        Ok(self.files.write(caller, *handle, offset, bytes)? as u64)
    }

    pub(crate) fn unlink(&self, caller: &Caller, parent: u64, name: &[u8]) -> Result<(), Errno> {
        let place = self.place(parent, name)?;
        let removed = match self.open_at(caller, &place)? {
            Some(number) => self.hide(caller, number, &place),
            None => self.files.remove(caller, place, Some(false)),
        };
        self.nodes().removed_in(parent);
        removed
    }

    pub(crate) fn rmdir(&self, caller: &Caller, parent: u64, name: &[u8]) -> Result<(), Errno> {
        let place = self.place(parent, name)?;
        let removed = self.files.remove(caller, place, Some(true));
        self.nodes().removed_in(parent);
        removed
    }

    /// The file of this name where it is open and would go with the name.
    fn open_at(&self, caller: &Caller, place: &Place) -> Result<Option<u64>, Errno> {
        if !self.nodes().any_open() {
            return Ok(None);
        }
        let entry = match self.files.lookup(caller, place.clone()) {
            Ok(entry) if entry.attributes.kind == Kind::File => entry,
            // Whatever is wrong, the operation itself says so.
            _ => return Ok(None),
        };
        match self.nodes().opened(entry.handle) {
            Some((_, Some(hidden))) if hidden.place == *place => Err(Errno::EBUSY),
            Some((number, None)) => Ok(Some(number)),
            _ => Ok(None),
        }
    }

    /// Gives an open file a hidden name instead of the one that it has.
    fn hide(&self, caller: &Caller, number: u64, place: &Place) -> Result<(), Errno> {
        for _ in 0..HIDDEN_TRIES {
            let to = self.hidden_place(place)?;
            let keep = RenameMode::Keep;
            match self.files.rename(caller, place.clone(), to.clone(), keep) {
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno),
                Ok(()) => {
                    self.note_hidden(number, to, caller);
                    return Ok(());
                }
            }
        }
        Err(Errno::EBUSY)
    }

    fn note_hidden(&self, number: u64, place: Place, caller: &Caller) {
        let caller = caller.clone();
        let hidden = Hidden { place, caller };
        let closed_meanwhile = self.nodes().hide(number, hidden);
        if let Some(hidden) = closed_meanwhile {
            self.remove_hidden(hidden);
        }
    }

    /// A name beside `place` that nobody has.
    fn hidden_place(&self, place: &Place) -> Result<Place, Errno> {
        let count = self.hidden.fetch_add(1, Ordering::Relaxed);
        let name = format!("{HIDDEN_PREFIX}{:016x}", self.salt.wrapping_add(count));
        Place::of(place.directory, name.as_bytes())
    }

    pub(crate) fn rename(
        &self,
        caller: &Caller,
        (parent, name): (u64, &[u8]),
        (new_parent, new_name): (u64, &[u8]),
        mode: RenameMode,
    ) -> Result<(), Errno> {
        let from = self.place(parent, name)?;
        let to = self.place(new_parent, new_name)?;
        let replaced = match mode {
            RenameMode::Replace => self.open_at(caller, &to)?,
            RenameMode::Keep | RenameMode::Exchange => None,
        };
        if let Some(number) = replaced {
            self.keep_replaced(caller, number, &to)?;
        }
        let renamed = self.files.rename(caller, from, to.clone(), mode);
        if let (Err(_), Some(number)) = (&renamed, replaced) {
            self.restore(caller, number, to);
        }
        let mut nodes = self.nodes();
        nodes.removed_in(parent);
        nodes.removed_in(new_parent);
        renamed
    }

    /// Gives an open file that is about to be replaced a hidden name: one more where that is possible, so that the
    /// name that is replaced always stands for something, else instead of it.
    fn keep_replaced(&self, caller: &Caller, number: u64, place: &Place) -> Result<(), Errno> {
        let to = self.hidden_place(place)?;
        let handle = self.handle(number)?;
        match self.files.link(caller, handle, to.clone()) {
            Ok(_) => {
                self.note_hidden(number, to, caller);
                Ok(())
            }
            Err(_) => self.hide(caller, number, place),
        }
    }

    /// Takes the hidden name back after a replacement that did not happen.
    fn restore(&self, caller: &Caller, number: u64, place: Place) {
        let Some(hidden) = self.nodes().unhide(number) else {
            return;
        };
        let back = self
            .files
            .rename(caller, hidden.place.clone(), place, RenameMode::Keep);
        if back.is_err() {
            self.remove_hidden(hidden);
        }
    }

    /// Opens a directory.
    pub(crate) fn opendir(&self, caller: Caller, number: u64) -> Result<u64, Errno> {
        let handle = self.handle(number)?;
        self.files.getattr(&caller, handle)?;
        let listing = Listing {
            number,
            handle,
            caller,
            stream: Mutex::default(),
        };
        Ok(lock(&self.streams).insert(Arc::new(listing)) as u64)
    }

    pub(crate) fn releasedir(&self, key: u64) {
        if let Ok(key) = usize::try_from(key) {
            lock(&self.streams).try_remove(key);
        }
    }

    /// The handle and the opener of an open directory.
    pub(crate) fn directory(&self, key: u64) -> Result<(Handle, Caller), Errno> {
        let listing = self.listing(key)?;
        Ok((listing.handle, listing.caller.clone()))
    }

    fn listing(&self, key: u64) -> Result<Arc<Listing>, Errno> {
        let streams = lock(&self.streams);
        let listing = usize::try_from(key).ok().and_then(|key| streams.get(key));
        listing.cloned().ok_or(Errno::EBADF)
    }

    /// Lists names until `take` takes no more.
    pub(crate) fn readdir(
        &self,
        key: u64,
        cookie: u64,
        objects: bool,
        take: impl FnMut(&DirectoryEntry) -> bool,
    ) -> Result<(), Errno> {
        let listing = self.listing(key)?;
        if objects {
            self.behind.settle_all();
        }
        let listed = Listed {
            files: &*self.files,
            caller: &listing.caller,
            handle: listing.handle,
            removals: self.nodes().removals(listing.number),
            objects,
        };
        lock(&listing.stream).list(&listed, cookie, take)
    }

    /// Notes a reference to what was listed. A name whose object could not be seen gets a node that is stale: the
    /// kernel looks the name up before it uses the node.
    pub(crate) fn refer_listed(&self, listed: &DirectoryEntry) -> Known {
        match &listed.entry {
            Some(entry) => self.refer(entry),
            None => {
                let attributes = unseen(listed);
                (self.nodes().refer_unseen(&attributes), attributes)
            }
        }
    }
}

const S_IFMT: u32 = 0o170_000;
const S_IFREG: u32 = 0o100_000;
const S_IFIFO: u32 = 0o010_000;
const S_IFSOCK: u32 = 0o140_000;

/// What is shown of a name whose object could not be seen: its kind.
fn unseen(listed: &DirectoryEntry) -> Attributes {
    let zero = files::Timestamp::default();
    Attributes {
        kind: listed.kind.unwrap_or(Kind::File),
        mode: 0,
        links: 1,
        uid: 0,
        gid: 0,
        size: 0,
        blocks: 0,
        block_size: 4096,
        device: 0,
        filesystem: 0,
        file: match listed.name.as_slice() {
            b"." | b".." => listed.file.max(ROOT),
            _ => 0,
        },
        accessed: zero,
        modified: zero,
        changed: zero,
        born: zero,
    }
}

/// What is known of `.` and `..`, which the kernel keeps no reference to.
pub(crate) fn dots(listed: &DirectoryEntry) -> Option<Attributes> {
    matches!(listed.name.as_slice(), b"." | b"..").then(|| unseen(listed))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Maps the operations of the kernel to those of [`FileSystem`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slab::Slab;
use tracing::warn;

use crate::mount::behind::{Behind, Ticket};
use crate::mount::closes::Closes;
use crate::mount::holds::Holds;
use crate::mount::locks::Locks;
use crate::mount::nodes::{HIDDEN_PREFIX, Hidden, Kept, Nodes, ROOT, Version, version};
use crate::mount::stream::{Listed, Stream};
use crate::{
    APPEND_MAX, Attributes, Caller, DirectoryEntry, Entry, Errno, FileSystem, Handle, Kind, Node,
    Place, RenameMode, SetAttributes, XattrMode, check_xattr_name,
};

/// A file system as the kernel uses it.
pub(crate) struct Tree {
    pub(crate) files: Arc<dyn FileSystem>,
    nodes: Mutex<Nodes>,
    opened: Mutex<Slab<Arc<Opened>>>,
    streams: Mutex<Slab<Arc<Listing>>>,
    behind: Behind,
    closes: Closes,
    pub(crate) holds: Arc<Holds>,
    pub(crate) locks: Arc<Locks>,
    /// A random number that distinguishes hidden names of this mount from those of others.
    salt: u64,
    hidden: AtomicU64,
}

/// An open file and its opener.
pub(crate) struct Opened {
    number: u64,
    pub(crate) handle: Handle,
    pub(crate) caller: Caller,
    /// The first error of a piece written behind, until it is reported.
    failure: Mutex<Option<Errno>>,
    /// The owners that locked the file through this open file, and have not closed it.
    pub(crate) lockers: Mutex<Vec<u64>>,
    /// The version of the file, if the kernel dropped all older content at the open. Known once the file is closed: the
    /// kernel does this only after the answer.
    dropped: Option<Version>,
}

/// An open directory.
struct Listing {
    number: u64,
    handle: Handle,
    caller: Caller,
    stream: Mutex<Stream>,
}

/// A node and its attributes.
pub(crate) type Known = (u64, Attributes);

/// The extended attribute with the access control list of new objects in a directory.
const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";
/// Limit of the attempts to find a hidden name that is free.
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
    /// Creates the tree of `files`, whose root has the attributes `root`. `holder` is the number of this
    /// mount among the clients for which the server holds files, `behind` the limit of the pieces in flight that were
    /// confirmed to the kernel.
    pub(crate) fn new(
        files: Arc<dyn FileSystem>,
        root: &Attributes,
        salt: u64,
        holder: u64,
        behind: usize,
    ) -> Self {
        Self {
            nodes: Mutex::new(Nodes::new(root.filesystem)),
            opened: Mutex::default(),
            streams: Mutex::default(),
            behind: Behind::new(behind),
            closes: Closes::default(),
            holds: Holds::new(Arc::clone(&files), holder),
            locks: Locks::new(Arc::clone(&files), holder),
            files,
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

    /// Adds a reference of the kernel to an object.
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
        // The lookup may have reached the server before a confirmed write did: fetch the attributes after the write.
        let attributes = self.getattr(caller, known.0);
        if attributes.is_err() {
            self.forget(known.0, 1);
        }
        Ok((known.0, attributes?))
    }

    /// Waits until the server has all confirmed writes of a node.
    pub(crate) fn settle(&self, number: u64) {
        self.behind.settle(number);
    }

    /// Waits until the server has all confirmed writes of an open file.
    pub(crate) fn settle_file(&self, file: &Opened) {
        self.settle(file.number);
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

    /// Returns the value of an extended attribute. The kernel asks for attributes that no server serves, such as
    /// `security.capability` before a write, and programs that list files ask each for its access control list. The
    /// answer needs no request if the server serves no attribute of this name, or said within the time `fresh` that the
    /// object has none.
    pub(crate) fn getxattr(
        &self,
        caller: &Caller,
        number: u64,
        name: &[u8],
        fresh: Duration,
    ) -> Result<Vec<u8>, Errno> {
        check_xattr_name(name)?;
        let handle = self.handle(number)?;
        if self.nodes().has_no_xattrs(number, fresh) {
            return Err(Errno::ENODATA);
        }
        self.files.getxattr(caller, handle, name)
    }

    /// Returns the mode of an object that is created in a directory: without the bits of the umask, unless the directory
    /// has a default access control list.
    pub(crate) fn masked(
        &self,
        caller: &Caller,
        directory: u64,
        mode: u32,
        umask: u32,
        fresh: Duration,
    ) -> Result<u32, Errno> {
        if umask & mode == 0 {
            return Ok(mode);
        }
        match self.getxattr(caller, directory, DEFAULT_LIST, fresh) {
            Ok(_) => Ok(mode),
            Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(mode & !umask),
            Err(errno) => Err(errno),
        }
    }

    /// Returns the names of the extended attributes, without a request where [`Self::getxattr`] needs none.
    pub(crate) fn listxattr(
        &self,
        caller: &Caller,
        number: u64,
        fresh: Duration,
    ) -> Result<Vec<Vec<u8>>, Errno> {
        let handle = self.handle(number)?;
        if self.nodes().has_no_xattrs(number, fresh) {
            return Ok(Vec::new());
        }
        self.files.listxattr(caller, handle)
    }

    pub(crate) fn setxattr(
        &self,
        caller: &Caller,
        number: u64,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), Errno> {
        check_xattr_name(name)?;
        let handle = self.handle(number)?;
        let set = self.files.setxattr(caller, handle, name, value, mode);
        // Also after an error, which may mean that the outcome is unknown.
        self.nodes().set_xattrs(number);
        set
    }

    pub(crate) fn removexattr(
        &self,
        caller: &Caller,
        number: u64,
        name: &[u8],
    ) -> Result<(), Errno> {
        check_xattr_name(name)?;
        self.files.removexattr(caller, self.handle(number)?, name)
    }

    /// Creates a file, a named pipe or a socket. `mode` contains the type, as in mknod(2).
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

    /// Opens a file that exists. Returns its key, and what the kernel does with the content that it has.
    pub(crate) fn open(&self, caller: Caller, number: u64) -> Result<(u64, Kept), Errno> {
        self.settle(number);
        let handle = self.handle(number)?;
        let attributes = self.holds.open(&caller, handle)?;
        let kept = self.nodes().kept(number, &attributes);
        let drops = attributes.is_settled && kept != Kept::Whole;
        let dropped = drops.then(|| version(&attributes));
        Ok((self.opened_by(caller, number, handle, dropped), kept))
    }

    fn opened_by(
        &self,
        caller: Caller,
        number: u64,
        handle: Handle,
        dropped: Option<Version>,
    ) -> u64 {
        self.nodes().open(number);
        let opened = Opened {
            number,
            handle,
            caller,
            failure: Mutex::default(),
            lockers: Mutex::default(),
            dropped,
        };
        lock(&self.opened).insert(Arc::new(opened)) as u64
    }

    /// Creates a file and opens it. If the name exists already and the kernel did not know that, `ESTALE` makes the
    /// kernel look the name up and open the existing object with all its checks.
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
        self.holds.created(entry.handle);
        let key = self.opened_by(caller, known.0, entry.handle, None);
        Ok((known, key))
    }

    /// Returns the open file of a key.
    pub(crate) fn opened(&self, key: u64) -> Result<Arc<Opened>, Errno> {
        let opened = lock(&self.opened);
        let file = usize::try_from(key).ok().and_then(|key| opened.get(key));
        file.cloned().ok_or(Errno::EBADF)
    }

    /// Closes a file. Removes its hidden name, if it has one.
    pub(crate) fn release(&self, key: u64) {
        let index = usize::try_from(key).ok();
        let file = index.and_then(|index| lock(&self.opened).try_remove(index));
        let hidden = file.and_then(|file| {
            for owner in lock(&file.lockers).drain(..) {
                self.locks.unlock_all(file.handle, owner);
            }
            if self.holds.close(file.handle) {
                self.locks.forget(file.handle);
            }
            let mut nodes = self.nodes();
            if let Some(version) = file.dropped {
                nodes.clean(file.number, version);
            }
            nodes.close(file.number)
        });
        self.closes.end(key);
        if let Some(hidden) = hidden {
            self.remove_hidden(hidden);
        }
    }

    fn remove_hidden(&self, hidden: Hidden) {
        let name = hidden.place.path.clone();
        self.holds.settle();
        let removed = self.files.remove(&hidden.caller, hidden.place, Some(false));
        match removed {
            // Another machine removed the file first, or its directory was removed.
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
        self.locks.check(file.handle)?;
        self.settle(file.number);
        self.files.read(&file.caller, file.handle, offset, memory)
    }

    /// Waits until the server has all confirmed writes of an open file. Returns the error of a piece since the last
    /// report.
    pub(crate) fn flush(&self, file: &Opened) -> Result<(), Errno> {
        self.settle(file.number);
        file.check()
    }

    /// Records that a program closes a descriptor of an open file.
    pub(crate) fn closing(&self, key: u64, file: &Opened) {
        self.closes.begin(key, file.number);
    }

    /// Begins a piece that is confirmed to the kernel before it is written. Returns `None` if the caller must write
    /// the piece first. Returns the error of an earlier piece instead, if there was one.
    pub(crate) fn begin_behind(
        &self,
        file: &Opened,
        offset: u64,
        length: usize,
    ) -> Result<Option<Ticket<'_>>, Errno> {
        file.check()?;
        self.locks.check(file.handle)?;
        let end = offset.checked_add(length as u64).ok_or(Errno::EFBIG)?;
        Ok(self.behind.begin(file.number, offset..end))
    }

    /// Writes a piece that has begun. Keeps an error for the next operation that reports errors.
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
                // After a short write, retry the rest, so that the server returns the error.
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

    /// Writes at an offset, or with `append` at the end of the file at the time of execution.
    pub(crate) fn write(
        &self,
        file: &Opened,
        offset: u64,
        bytes: &[u8],
        append: bool,
    ) -> Result<u64, Errno> {
        let Opened { handle, caller, .. } = file;
        self.locks.check(*handle)?;
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
        self.holds.settle();
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

    /// Returns the file of a name if it is open and would disappear with the name.
    fn open_at(&self, caller: &Caller, place: &Place) -> Result<Option<u64>, Errno> {
        if !self.nodes().any_open() {
            return Ok(None);
        }
        let entry = match self.files.lookup(caller, place.clone()) {
            Ok(entry) if entry.attributes.kind == Kind::File => entry,
            // The operation itself returns the error of the lookup.
            _ => return Ok(None),
        };
        let opened = self.nodes().opened(entry.handle).map(|(number, _)| number);
        if let Some(number) = opened {
            self.closes.settle(number);
        }
        match self.nodes().opened(entry.handle) {
            Some((_, Some(hidden))) if hidden.place == *place => Err(Errno::EBUSY),
            Some((number, None)) => Ok(Some(number)),
            _ => Ok(None),
        }
    }

    /// Replaces the name of an open file by a hidden name.
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

    /// Returns a place for a hidden name in the directory of `place`.
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
        self.holds.settle();
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

    /// Gives an open file that is about to be replaced a hidden name. Adds the hidden name as a link if possible, so
    /// that the replaced name always exists. Otherwise renames the file.
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

    /// Restores the name of a file whose replacement failed.
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

    /// Opens a directory. Asks the server whether the directory is still there, unless the server said something about it
    /// within the time `fresh`.
    pub(crate) fn opendir(
        &self,
        caller: Caller,
        number: u64,
        fresh: Duration,
    ) -> Result<u64, Errno> {
        let handle = self.handle(number)?;
        if !self.nodes().is_fresh(number, fresh) {
            self.getattr(&caller, number)?;
        }
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

    /// Returns the handle and the opener of an open directory.
    pub(crate) fn directory(&self, key: u64) -> Result<(Handle, Caller), Errno> {
        let listing = self.listing(key)?;
        Ok((listing.handle, listing.caller.clone()))
    }

    fn listing(&self, key: u64) -> Result<Arc<Listing>, Errno> {
        let streams = lock(&self.streams);
        let listing = usize::try_from(key).ok().and_then(|key| streams.get(key));
        listing.cloned().ok_or(Errno::EBADF)
    }

    /// Lists entries until `take` returns `false`.
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

    /// Adds a reference to a listed object. A name without an accessible object gets a stale node: the kernel looks
    /// the name up before it uses the node.
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

/// Returns attributes for a name without an accessible object. Only the kind is real.
fn unseen(listed: &DirectoryEntry) -> Attributes {
    Attributes {
        kind: listed.kind.unwrap_or(Kind::File),
        file: match listed.name.as_slice() {
            b"." | b".." => listed.file.max(ROOT),
            _ => 0,
        },
        ..Attributes::NONE
    }
}

/// Returns attributes for `.` and `..`, to which the kernel keeps no reference; `None` for other names.
pub(crate) fn dots(listed: &DirectoryEntry) -> Option<Attributes> {
    matches!(listed.name.as_slice(), b"." | b"..").then(|| unseen(listed))
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

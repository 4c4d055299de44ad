//! Answers the kernel's requests, with the crate `fuser`.
//!
//! Each method answers from the thread that calls it, so the number of threads of the mount limits the operations in
//! flight. A server that does not answer blocks a thread until the file system's own timeout.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, Notifier, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, OFlags};

use crate::mount::callers::Callers;
use crate::mount::convert::{attributes, kind, set_time};
use crate::mount::flags::{appends, may_go_behind, opened_as};
use crate::mount::interrupt::{Fails, Pending, Waits, end_listing, first};
use crate::mount::locking;
use crate::mount::nodes::Kept;
use crate::mount::session::Locking;
use crate::mount::tree::{Known, Opened, Tree, dots};
use crate::{
    AllocateMode, Attributes, Caller, Errno, RenameMode, SeekTarget, Segment, SetAttributes,
    XattrMode,
};

/// Limit of the kernel's background requests (read ahead and write back) in flight.
const BACKGROUND_MAX: u16 = 64;
/// Capabilities that are requested from the kernel.
const WANTED: [InitFlags; 9] = [
    // A listing includes the objects if the kernel sees that programs use them.
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    // The kernel drops cached data when newly fetched attributes show that another client has written.
    InitFlags::FUSE_AUTO_INVAL_DATA,
    InitFlags::FUSE_ASYNC_DIO,
    // The server clears the set-user-id bit at a write, as it acts for the writer. Without this flag, the kernel
    // looks for capabilities before each write.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    // Files that are opened to append can be mapped.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    // The kernel checks access control lists, and leaves the umask to this program: in a directory with a default list,
    // the list takes the place of the umask.
    InitFlags::FUSE_POSIX_ACL,
    InitFlags::FUSE_DONT_MASK,
];
/// Capabilities with which the kernel sends locks here. Without them the kernel grants locks that other clients do not
/// see.
const LOCKS: InitFlags = InitFlags::FUSE_POSIX_LOCKS.union(InitFlags::FUSE_FLOCK_LOCKS);
/// Generation of every node: the number of a node is not reused as long as the kernel knows the node.
const GENERATION: Generation = Generation(0);

/// Answers the kernel.
pub(crate) struct Adapter {
    pub(crate) tree: Arc<Tree>,
    pub(crate) callers: Callers,
    /// How long the kernel may cache the attributes of objects other than directories.
    pub(crate) file_attributes: Duration,
    /// How long the kernel may cache names and the attributes of directories.
    pub(crate) directory_attributes: Duration,
    /// Sends notifications to the kernel. Set once the mount exists.
    pub(crate) notifier: Arc<OnceLock<Notifier>>,
    /// The operations whose programs a signal may end.
    pub(crate) waits: Arc<Waits>,
    /// Among whom locks hold.
    pub(crate) locks: Locking,
    /// Number of programs that wait for a lock or are about to get one.
    pub(crate) lock_threads: Arc<AtomicUsize>,
}

impl Adapter {
    fn caller(&self, request: &Request) -> Caller {
        let (uid, gid, pid) = (request.uid(), request.gid(), request.pid());
        self.callers.caller(uid, gid, pid)
    }

    /// Lists an operation that waits for its reply.
    fn pending<R: Fails>(&self, request: &Request, reply: R) -> Pending<'_, R> {
        self.waits.begin(request.pid(), reply)
    }

    /// Returns how long the kernel may cache the attributes of an object.
    fn believed(&self, known: &Attributes) -> Duration {
        if known.is_directory() {
            self.directory_attributes
        } else {
            self.file_attributes
        }
    }

    /// Returns how long the kernel may cache a name and the attributes of its object: there is only one time for both.
    fn believed_entry(&self, known: &Attributes) -> Duration {
        self.believed(known).min(self.directory_attributes)
    }

    fn entry(&self, known: Result<Known, Errno>, reply: Pending<'_, ReplyEntry>) {
        let waited = reply.finish(known, |reply, (number, known)| {
            let believed = self.believed_entry(&known);
            reply.entry(&believed, &attributes(number, &known), GENERATION);
        });
        if let (false, Ok((number, _))) = (waited, known) {
            // The kernel did not get the reference.
            self.tree.forget(number, 1);
        }
    }

    fn attributes(
        &self,
        ino: INodeNo,
        known: Result<Attributes, Errno>,
        reply: Pending<'_, ReplyAttr>,
    ) {
        reply.finish(known, |reply, known| {
            reply.attr(&self.believed(&known), &attributes(ino.0, &known));
        });
    }

    /// Returns the mode of a new object.
    fn masked(
        &self,
        caller: &Caller,
        parent: INodeNo,
        mode: u32,
        umask: u32,
    ) -> Result<u32, Errno> {
        let fresh = self.directory_attributes;
        self.tree.masked(caller, parent.0, mode, umask, fresh)
    }

    /// Makes the kernel fetch the attributes before it uses the length in its cache.
    fn forget_attributes(&self, ino: INodeNo) {
        if let Some(notifier) = self.notifier.get() {
            // This fails if the kernel has forgotten the node already.
            let _forgotten = notifier.inval_inode(ino, -1, 0);
        }
    }
}

fn empty(result: Result<(), Errno>, reply: Pending<'_, ReplyEmpty>) {
    reply.finish(result, |reply, ()| reply.ok());
}

/// Answers a request for an extended attribute, with a limit of `size` bytes. 0 requests its length only.
fn xattr(result: Result<Vec<u8>, Errno>, size: u32, reply: Pending<'_, ReplyXattr>) {
    reply.finish(result, |reply, value| match value.len() {
        length if size == 0 => reply.size(length as u32),
        length if length > size as usize => reply.error(fuser::Errno::ERANGE),
        _ => reply.data(&value),
    });
}

thread_local! {
    /// Memory for the reads of a thread: fresh pages cost more than a copy.
    static MEMORY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for flag in WANTED {
            // The mount works without a capability that the kernel lacks.
            let _missing = config.add_capabilities(flag);
        }
        if self.locks != Locking::Local {
            let _missing = config.add_capabilities(LOCKS);
        }
        let _refused = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let reply = self.pending(request, reply);
        let caller = self.caller(request);
        match self.tree.lookup(&caller, parent.0, name.as_bytes()) {
            // The kernel remembers for a while that there is no such object, so that the name is not looked up again when
            // an object is created.
            Err(Errno::ENOENT) if !self.directory_attributes.is_zero() => {
                reply.finish(Ok(()), |reply, ()| {
                    let nothing = attributes(0, &Attributes::NONE);
                    reply.entry(&self.directory_attributes, &nothing, GENERATION);
                });
            }
            known => self.entry(known, reply),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        self.tree.forget(ino.0, nlookup);
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let reply = self.pending(request, reply);
        let known = self.tree.getattr(&self.caller(request), ino.0);
        self.attributes(ino, known, reply);
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        fh: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let reply = self.pending(request, reply);
        let set = SetAttributes {
            mode: mode.map(|mode| mode & 0o7777),
            uid,
            gid,
            size,
            accessed: atime.map(set_time),
            modified: mtime.map(set_time),
        };
        // A caller with an open file may truncate it, even if the permission to open it was withdrawn since.
        let opened = match (fh, size) {
            (Some(fh), Some(_)) => self.tree.opened(fh.0).ok(),
            _ => None,
        };
        let caller = opened.map_or_else(|| self.caller(request), |file| file.caller.clone());
        let known = self.tree.setattr(&caller, ino.0, set);
        self.attributes(ino, known, reply);
    }

    fn readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        let reply = self.pending(request, reply);
        let caller = self.caller(request);
        let handle = self.tree.handle(ino.0);
        let target = handle.and_then(|handle| self.tree.files.readlink(&caller, handle));
        reply.finish(target, |reply, target| reply.data(&target));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let reply = self.pending(request, reply);
        let caller = self.caller(request);
        let made = self
            .masked(&caller, parent, mode, umask)
            .and_then(|mode| self.tree.mknod(&caller, parent.0, name.as_bytes(), mode));
        self.entry(made, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let reply = self.pending(request, reply);
        let caller = self.caller(request);
        let made = self
            .masked(&caller, parent, mode, umask)
            .and_then(|mode| self.tree.mkdir(&caller, parent.0, name.as_bytes(), mode));
        self.entry(made, reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let reply = self.pending(request, reply);
        let caller = self.caller(request);
        let removed = self.tree.unlink(&caller, parent.0, name.as_bytes());
        empty(removed, reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let reply = self.pending(request, reply);
        let caller = self.caller(request);
        let removed = self.tree.rmdir(&caller, parent.0, name.as_bytes());
        empty(removed, reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let reply = self.pending(request, reply);
        let caller = self.caller(request);
        let target = target.as_os_str().as_bytes();
        let name = link_name.as_bytes();
        self.entry(self.tree.symlink(&caller, parent.0, name, target), reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let reply = self.pending(request, reply);
        let mode = if flags.is_empty() {
            RenameMode::Replace
        } else if flags == RenameFlags::RENAME_NOREPLACE {
            RenameMode::Keep
        } else if flags == RenameFlags::RENAME_EXCHANGE {
            RenameMode::Exchange
        } else {
            return empty(Err(Errno::EINVAL), reply);
        };
        let caller = self.caller(request);
        let from = (parent.0, name.as_bytes());
        let to = (newparent.0, newname.as_bytes());
        empty(self.tree.rename(&caller, from, to, mode), reply);
    }

    fn link(
        &self,
        request: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let reply = self.pending(request, reply);
        let caller = self.caller(request);
        let name = newname.as_bytes();
        self.entry(self.tree.link(&caller, ino.0, newparent.0, name), reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let reply = self.pending(request, reply);
        let opened = self.tree.open(self.caller(request), ino.0);
        let waited = reply.finish(opened, |reply, (key, kept)| {
            let mut how = opened_as(flags, self.locks);
            match kept {
                Kept::Whole => how |= FopenFlags::FOPEN_KEEP_CACHE,
                Kept::Doubtful => {}
                Kept::Outdated => self.forget_attributes(ino),
            }
            reply.opened(FileHandle(key), how);
        });
        if let (false, Ok((key, _))) = (waited, opened) {
            self.tree.release(key);
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let reply = self.pending(request, reply);
        let flags = OpenFlags(flags);
        let exclusive = OFlags::from_bits_retain(flags.0.cast_unsigned()).contains(OFlags::EXCL);
        let caller = self.caller(request);
        let name = name.as_bytes();
        let made = self
            .masked(&caller, parent, mode, umask)
            .and_then(|mode| self.tree.create(caller, parent.0, name, mode, exclusive));
        let waited = reply.finish(made, |reply, ((number, known), key)| {
            reply.created(
                &self.believed_entry(&known),
                &attributes(number, &known),
                GENERATION,
                FileHandle(key),
                opened_as(flags, self.locks),
            );
        });
        if let (false, Ok(((number, _), key))) = (waited, made) {
            self.tree.release(key);
            self.tree.forget(number, 1);
        }
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let reply = self.pending(request, reply);
        let file = self.tree.opened(fh.0);
        MEMORY.with_borrow_mut(|memory| {
            let size = size as usize;
            memory.resize(memory.len().max(size), 0);
            let memory = &mut memory[..size];
            let count = file.and_then(|file| self.tree.read(&file, offset, memory));
            reply.finish(count, |reply, count| {
                reply.data(&memory[..count.min(size)]);
            });
        });
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let reply = self.pending(request, reply);
        // Data from a map has a fixed offset, even if the kernel sends it through a file that was opened to append.
        let is_from_map = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let append = appends(flags) && !is_from_map;
        let file = match self.tree.opened(fh.0) {
            Ok(file) => file,
            Err(error) => {
                reply.finish(Err(error), ReplyWrite::written);
                return;
            }
        };
        if !is_from_map && may_go_behind(flags, data.len()) {
            match self.tree.begin_behind(&file, offset, data.len()) {
                Ok(Some(ticket)) => {
                    // The length of a kernel request has 32 bits. Nothing is written for a caller that was interrupted.
                    if reply.finish(Ok(data.len() as u32), ReplyWrite::written) {
                        self.tree.write_behind(ticket, &file, offset, data);
                    }
                    return;
                }
                Ok(None) => {}
                Err(error) => {
                    reply.finish(Err(error), ReplyWrite::written);
                    return;
                }
            }
        }
        let count = self.tree.write(&file, offset, data, append);
        // The count cannot exceed the length of a kernel request, which has 32 bits.
        reply.finish(count, |reply, count| reply.written(count as u32));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.tree.release(fh.0);
        reply.ok();
    }

    fn flush(
        &self,
        request: &Request,
        _: INodeNo,
        fh: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let reply = self.pending(request, reply);
        let file = self.tree.opened(fh.0);
        let flush = |file: Arc<Opened>| {
            let flushed = self.tree.flush(&file);
            locking::closed(&self.tree, &file, owner.0);
            self.tree.closing(fh.0, &file);
            flushed
        };
        empty(file.and_then(flush), reply);
    }

    fn fsync(
        &self,
        request: &Request,
        _: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let reply = self.pending(request, reply);
        let file = self.tree.opened(fh.0);
        let commit = |file: Arc<Opened>| {
            self.tree.flush(&file)?;
            let files = &self.tree.files;
            files.commit(&file.caller, file.handle, datasync)
        };
        empty(file.and_then(commit), reply);
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let reply = self.pending(request, reply);
        let fresh = self.directory_attributes;
        let opened = self.tree.opendir(self.caller(request), ino.0, fresh);
        let waited = reply.finish(opened, |reply, key| {
            reply.opened(FileHandle(key), FopenFlags::empty());
        });
        if let (false, Ok(key)) = (waited, opened) {
            self.tree.releasedir(key);
        }
    }

    fn readdir(
        &self,
        request: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let (mut pending, mut reply) = (Some(self.pending(request, reply)), None);
        let listed = self.tree.readdir(fh.0, offset, false, |listed| {
            let Some(reply) = first(&mut pending, &mut reply) else {
                return false;
            };
            let seen = listed.entry.map(|entry| entry.attributes.kind);
            let kind = kind(listed.kind.or(seen).unwrap_or(crate::Kind::File));
            let name = OsStr::from_bytes(&listed.name);
            !reply.add(INodeNo(listed.file), listed.cookie, kind, name)
        });
        end_listing(listed, pending, reply, ReplyDirectory::ok);
    }

    fn readdirplus(
        &self,
        request: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let (mut pending, mut reply) = (Some(self.pending(request, reply)), None);
        let listed = self.tree.readdir(fh.0, offset, true, |listed| {
            let Some(reply) = first(&mut pending, &mut reply) else {
                return false;
            };
            let name = OsStr::from_bytes(&listed.name);
            let mut add = |number: u64, known: &crate::Attributes, ttl: &Duration| {
                let shown = attributes(number, known);
                !reply.add(
                    INodeNo(number),
                    listed.cookie,
                    name,
                    ttl,
                    &shown,
                    GENERATION,
                )
            };
            if let Some(known) = dots(listed) {
                return add(known.file, &known, &Duration::ZERO);
            }
            let (number, known) = self.tree.refer_listed(listed);
            let believed = match listed.entry {
                Some(_) => self.believed_entry(&known),
                None => Duration::ZERO,
            };
            let taken = add(number, &known, &believed);
            if !taken {
                self.tree.forget(number, 1);
            }
            taken
        });
        end_listing(listed, pending, reply, ReplyDirectoryPlus::ok);
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.tree.releasedir(fh.0);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        request: &Request,
        _: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let reply = self.pending(request, reply);
        let directory = self.tree.directory(fh.0);
        let commit = |(handle, caller)| self.tree.files.commit(&caller, handle, datasync);
        empty(directory.and_then(commit), reply);
    }

    fn statfs(&self, request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let reply = self.pending(request, reply);
        let caller = self.caller(request);
        let handle = self.tree.handle(ino.0);
        let space = handle.and_then(|handle| self.tree.files.statfs(&caller, handle));
        reply.finish(space, |reply, space| {
            let block = u32::try_from(space.block_size).unwrap_or(u32::MAX);
            reply.statfs(
                space.blocks,
                space.blocks_free,
                space.blocks_available,
                space.files,
                space.files_free,
                block,
                space.name_max,
                block,
            );
        });
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let reply = self.pending(request, reply);
        // setxattr(2): XATTR_CREATE is 1, XATTR_REPLACE 2.
        let mode = match flags {
            0 => XattrMode::Any,
            1 => XattrMode::Create,
            2 => XattrMode::Replace,
            _ => return empty(Err(Errno::EINVAL), reply),
        };
        let caller = self.caller(request);
        let name = name.as_bytes();
        empty(self.tree.setxattr(&caller, ino.0, name, value, mode), reply);
    }

    fn getxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let reply = self.pending(request, reply);
        let caller = self.caller(request);
        let value = self
            .tree
            .getxattr(&caller, ino.0, name.as_bytes(), self.file_attributes);
        xattr(value, size, reply);
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let reply = self.pending(request, reply);
        let caller = self.caller(request);
        let names = self.tree.listxattr(&caller, ino.0, self.file_attributes);
        let list =
            |names: Vec<Vec<u8>>| names.into_iter().flat_map(|name| [name, vec![0]].concat());
        xattr(names.map(|names| list(names).collect()), size, reply);
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let reply = self.pending(request, reply);
        let caller = self.caller(request);
        empty(
            self.tree.removexattr(&caller, ino.0, name.as_bytes()),
            reply,
        );
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let reply = self.pending(request, reply);
        self.tree.settle(ino.0);
        let keep = FallocateFlags::KEEP_SIZE;
        let (punch, zero) = (FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE);
        let mode = match FallocateFlags::from_bits_retain(mode.cast_unsigned()) {
            flags if flags.is_empty() => AllocateMode::Extend,
            flags if flags == keep => AllocateMode::KeepSize,
            flags if flags == keep | punch => AllocateMode::PunchHole,
            flags if flags == zero => AllocateMode::Zero,
            flags if flags == zero | keep => AllocateMode::ZeroKeepSize,
            _ => return empty(Err(Errno::EOPNOTSUPP), reply),
        };
        let segment = Segment { offset, length };
        let files = &self.tree.files;
        let allocated = self
            .tree
            .opened(fh.0)
            .and_then(|file| files.allocate(&file.caller, file.handle, mode, segment));
        empty(allocated, reply);
    }

    fn lseek(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let reply = self.pending(request, reply);
        self.tree.settle(ino.0);
        // lseek(2): SEEK_DATA is 3, SEEK_HOLE 4. The kernel handles the other values itself.
        let target = match whence {
            3 => Ok(SeekTarget::Data),
            4 => Ok(SeekTarget::Hole),
            _ => Err(Errno::EINVAL),
        };
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO);
        let found = target.and_then(|target| {
            let file = self.tree.opened(fh.0)?;
            let files = &self.tree.files;
            files.seek(&file.caller, file.handle, offset?, target)
        });
        reply.finish(found, |reply, found| reply.offset(found.cast_signed()));
    }

    fn getlk(
        &self,
        request: &Request,
        _: INodeNo,
        fh: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        process: u32,
        reply: ReplyLock,
    ) {
        let reply = self.pending(request, reply);
        let asked = locking::lock(owner.0, (start, end), kind, process);
        let found = locking::test(self, fh.0, asked);
        reply.finish(found, |reply, found| {
            let (lock, kind, process) = found;
            reply.locked(lock.first, lock.last, kind, process);
        });
    }

    fn setlk(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        process: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        let asked = locking::lock(owner.0, (start, end), kind, process);
        if kind == nix::libc::F_UNLCK {
            let reply = self.pending(request, reply);
            return empty(locking::unlock(self, fh.0, asked), reply);
        }
        locking::set(self, (request.pid(), ino), fh.0, asked, sleep, reply);
    }
}

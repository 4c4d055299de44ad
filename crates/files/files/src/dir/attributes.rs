//! Attributes, including extended attributes.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Statx, StatxTimestamp, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT, Uid, XattrFlags, makedev,
};

use crate::dir::LocalDirectory;
use crate::dir::directory::{proc_path, status};
use crate::dir::identity::{Acting, errno};
use crate::dir::table::{Access, Identity, Open};
use crate::{
    Attributes, Errno, Handle, Kind, Reply, Request, SetAttributes, SetTime, Space, Timestamp,
    XATTR_MAX, XattrMode, check_xattr_name,
};

/// Seconds after a change until the object is settled. The clocks from which file systems take times move in steps of
/// some milliseconds, and those of a cluster file system are up to a second apart.
const SETTLED: u64 = 2;
/// Bytes of names of extended attributes that are looked through. An object with longer names may have some.
const NAMES_SEEN: usize = 1024;

impl LocalDirectory {
    pub(crate) fn on_attributes(&self, acting: &Acting, request: &Request) -> Result<Reply, Errno> {
        match request {
            Request::GetAttr { handle } => self.attributes_of(*handle),
            Request::SetAttr { handle, set } => self.set_attributes(acting, *handle, set),
            Request::ReadLink { handle } => self.link_target(*handle),
            Request::StatFs { handle } => self.space(*handle),
            Request::GetXattr { handle, name } => self.xattr(acting, *handle, name),
            Request::ListXattr { handle } => self.xattrs(acting, *handle),
            Request::SetXattr {
                handle,
                name,
                value,
                mode,
            } => self.set_xattr(acting, *handle, name, value, *mode),
            Request::RemoveXattr { handle, name } => self.remove_xattr(acting, *handle, name),
            _ => Err(Errno::ENOSYS),
        }
    }

    fn attributes_of(&self, handle: Handle) -> Result<Reply, Errno> {
        let (_, open) = self.resolve(handle)?;
        attributes_at(open.fd.as_fd(), b"").map(|(_, attributes)| Reply::Attributes(attributes))
    }

    fn set_attributes(
        &self,
        acting: &Acting,
        handle: Handle,
        set: &SetAttributes,
    ) -> Result<Reply, Errno> {
        if let Some(size) = set.size {
            let file = self.content(acting, handle, Access::Write)?;
            acting.run(|| rustix::fs::ftruncate(&file.fd, size).map_err(errno))?;
        }
        let (_, open) = self.resolve(handle)?;
        acting.run(|| set_owner_mode_and_times(&open, set))?;
        attributes_at(open.fd.as_fd(), b"").map(|(_, attributes)| Reply::Attributes(attributes))
    }

    fn link_target(&self, handle: Handle) -> Result<Reply, Errno> {
        let (object, open) = self.resolve(handle)?;
        if object.kind != Kind::Symlink {
            return Err(Errno::EINVAL);
        }
        let target = rustix::fs::readlinkat(&open.fd, c"", Vec::new()).map_err(errno)?;
        Ok(Reply::Bytes(target.into_bytes()))
    }

    fn space(&self, handle: Handle) -> Result<Reply, Errno> {
        let (_, open) = self.resolve(handle)?;
        let found = rustix::fs::fstatvfs(&open.fd).map_err(errno)?;
        Ok(Reply::Space(Space {
            block_size: found.f_frsize,
            blocks: found.f_blocks,
            blocks_free: found.f_bfree,
            blocks_available: found.f_bavail,
            files: found.f_files,
            files_free: found.f_ffree,
            name_max: u32::try_from(found.f_namemax).unwrap_or(u32::MAX),
        }))
    }

    fn xattr(&self, acting: &Acting, handle: Handle, name: &[u8]) -> Result<Reply, Errno> {
        check_xattr_name(name)?;
        let (_, open) = self.resolve(handle)?;
        let path = proc_path(open.fd.as_fd());
        let mut value = vec![0; XATTR_MAX];
        let read = || rustix::fs::getxattr(&path, name, &mut value[..]).map_err(errno);
        let length = acting.run(read)?;
        value.truncate(length);
        Ok(Reply::Bytes(value))
    }

    fn xattrs(&self, acting: &Acting, handle: Handle) -> Result<Reply, Errno> {
        let (_, open) = self.resolve(handle)?;
        let path = proc_path(open.fd.as_fd());
        let mut list = vec![0; XATTR_MAX];
        let read = || rustix::fs::listxattr(&path, &mut list[..]).map_err(errno);
        let length = acting.run(read)?;
        let names = list[..length].split(|&byte| byte == 0);
        let shown = names.filter(|name| check_xattr_name(name).is_ok());
        Ok(Reply::Names(shown.map(<[u8]>::to_vec).collect()))
    }

    fn set_xattr(
        &self,
        acting: &Acting,
        handle: Handle,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<Reply, Errno> {
        check_xattr_name(name)?;
        let (_, open) = self.resolve(handle)?;
        let path = proc_path(open.fd.as_fd());
        let flags = match mode {
            XattrMode::Any => XattrFlags::empty(),
            XattrMode::Create => XattrFlags::CREATE,
            XattrMode::Replace => XattrFlags::REPLACE,
        };
        acting.run(|| rustix::fs::setxattr(&path, name, value, flags).map_err(errno))?;
        Ok(Reply::Done)
    }

    fn remove_xattr(&self, acting: &Acting, handle: Handle, name: &[u8]) -> Result<Reply, Errno> {
        check_xattr_name(name)?;
        let (_, open) = self.resolve(handle)?;
        let path = proc_path(open.fd.as_fd());
        acting.run(|| rustix::fs::removexattr(&path, name).map_err(errno))?;
        Ok(Reply::Done)
    }
}

/// Returns the identity of an object.
pub(crate) fn identity(status: &Statx) -> Identity {
    Identity {
        filesystem: makedev(status.stx_dev_major, status.stx_dev_minor),
        file: status.stx_ino,
        // All zeros if the file system does not know the time of creation.
        born: (status.stx_btime.tv_sec, status.stx_btime.tv_nsec),
    }
}

/// Returns identity and attributes of the object with this name, or of the open object if the name is empty.
pub(crate) fn attributes_at(
    at: BorrowedFd<'_>,
    name: &[u8],
) -> Result<(Identity, Attributes), Errno> {
    let status = status(at, name)?;
    let attributes = attributes(&status, has_no_xattrs(at, name))?;
    Ok((identity(&status), attributes))
}

/// Returns whether an object has not changed within the last [`SETTLED`], by the clock of this machine.
fn is_settled(status: &Statx) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    let changed = u64::try_from(status.stx_ctime.tv_sec).unwrap_or(0);
    now >= changed + SETTLED
}

/// Returns whether an object certainly has no extended attribute that requests may name.
fn has_no_xattrs(at: BorrowedFd<'_>, name: &[u8]) -> bool {
    let mut path = proc_path(at).into_bytes();
    let mut list = [0; NAMES_SEEN];
    let length = if name.is_empty() {
        // The path is a link to the open object, which the call must follow.
        rustix::fs::listxattr(path, &mut list[..])
    } else {
        path.push(b'/');
        path.extend_from_slice(name);
        rustix::fs::llistxattr(path, &mut list[..])
    };
    length.is_ok_and(|length| {
        let mut names = list[..length].split(|&byte| byte == 0);
        names.all(|name| check_xattr_name(name).is_err())
    })
}

/// Returns the attributes of an object.
fn attributes(status: &Statx, no_xattrs: bool) -> Result<Attributes, Errno> {
    let mode = u32::from(status.stx_mode);
    Ok(Attributes {
        kind: kind(FileType::from_raw_mode(mode)).ok_or(Errno::EIO)?,
        mode: mode & 0o7777,
        links: status.stx_nlink,
        uid: status.stx_uid,
        gid: status.stx_gid,
        size: status.stx_size,
        blocks: status.stx_blocks,
        block_size: status.stx_blksize,
        device: makedev(status.stx_rdev_major, status.stx_rdev_minor),
        filesystem: makedev(status.stx_dev_major, status.stx_dev_minor),
        file: status.stx_ino,
        accessed: timestamp(status.stx_atime),
        modified: timestamp(status.stx_mtime),
        changed: timestamp(status.stx_ctime),
        born: timestamp(status.stx_btime),
        no_xattrs,
        is_settled: is_settled(status),
    })
}

/// Returns the kind of an object; `None` if the system does not report its type.
pub(crate) fn kind(file_type: FileType) -> Option<Kind> {
    match file_type {
        FileType::RegularFile => Some(Kind::File),
        FileType::Directory => Some(Kind::Directory),
        FileType::Symlink => Some(Kind::Symlink),
        FileType::CharacterDevice => Some(Kind::CharacterDevice),
        FileType::BlockDevice => Some(Kind::BlockDevice),
        FileType::Fifo => Some(Kind::Fifo),
        FileType::Socket => Some(Kind::Socket),
        FileType::Unknown => None,
    }
}

fn timestamp(time: StatxTimestamp) -> Timestamp {
    Timestamp {
        seconds: time.tv_sec,
        nanoseconds: time.tv_nsec,
    }
}

/// Sets the owner before the mode, because a change of owner clears set-user-id and set-group-id.
fn set_owner_mode_and_times(open: &Open, set: &SetAttributes) -> Result<(), Errno> {
    let fd = open.fd.as_fd();
    if set.uid.is_some() || set.gid.is_some() {
        let (uid, gid) = (set.uid.map(Uid::from_raw), set.gid.map(Gid::from_raw));
        rustix::fs::chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH).map_err(errno)?;
    }
    if let Some(mode) = set.mode {
        let mode = Mode::from_raw_mode(mode);
        rustix::fs::chmodat(CWD, proc_path(fd), mode, AtFlags::empty()).map_err(errno)?;
    }
    if set.accessed.is_some() || set.modified.is_some() {
        let times = Timestamps {
            last_access: timespec(set.accessed),
            last_modification: timespec(set.modified),
        };
        rustix::fs::utimensat(fd, c"", &times, AtFlags::EMPTY_PATH).map_err(errno)?;
    }
    Ok(())
}

fn timespec(time: Option<SetTime>) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        None => special(UTIME_OMIT),
        Some(SetTime::Now) => special(UTIME_NOW),
        Some(SetTime::To(time)) => Timespec {
            tv_sec: time.seconds,
            tv_nsec: time.nanoseconds.into(),
        },
    }
}

//! Looks up, creates and removes names.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};

use crate::dir::LocalDirectory;
use crate::dir::attributes::identity;
use crate::dir::directory::{Target, open_confined, open_path, proc_path, status};
use crate::dir::identity::{Acting, errno};
use crate::dir::table::{Access, Identity, Open};
use crate::{Entry, Errno, Handle, Kind, Node, Place, RenameMode, Reply};

/// Limit of the attempts to create a file while other files come and go under its name.
const TRIES: usize = 8;

impl LocalDirectory {
    pub(crate) fn lookup_at(&self, acting: &Acting, place: &Place) -> Result<Reply, Errno> {
        let target = self.target(place, acting)?;
        self.found(&target, acting).map(Reply::Entry)
    }

    pub(crate) fn create_at(
        &self,
        acting: &Acting,
        place: &Place,
        mode: u32,
        exclusive: bool,
    ) -> Result<Reply, Errno> {
        let target = self.target(place, acting)?;
        for _ in 0..TRIES {
            match self.create_new(&target, acting, mode) {
                Err(Errno::EEXIST) if !exclusive => {}
                made => return Ok(Reply::Created(made?, true)),
            }
            match self.found(&target, acting) {
                Err(Errno::ENOENT) => {}
                found => return existing_file(found?),
            }
        }
        Err(Errno::EAGAIN)
    }

    fn create_new(&self, target: &Target, acting: &Acting, mode: u32) -> Result<Entry, Errno> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = target.open.fd.as_fd();
        let fd = acting.run(|| open_confined(directory, &target.name, flags, mode))?;
        let open = Open {
            fd,
            access: Access::Write,
            acting: acting.clone(),
        };
        self.note(target.directory, &target.name, Arc::new(open))
    }

    pub(crate) fn mkdir_at(
        &self,
        acting: &Acting,
        place: &Place,
        mode: u32,
    ) -> Result<Reply, Errno> {
        self.make(acting, place, |target| {
            rustix::fs::mkdirat(&target.open.fd, &*target.name, Mode::from_raw_mode(mode))
        })
    }

    pub(crate) fn symlink_at(
        &self,
        acting: &Acting,
        place: &Place,
        to: &[u8],
    ) -> Result<Reply, Errno> {
        self.make(acting, place, |target| {
            rustix::fs::symlinkat(to, &target.open.fd, &*target.name)
        })
    }

    pub(crate) fn mknod_at(
        &self,
        acting: &Acting,
        place: &Place,
        node: Node,
        mode: u32,
    ) -> Result<Reply, Errno> {
        let file_type = match node {
            Node::Fifo => FileType::Fifo,
            Node::Socket => FileType::Socket,
        };
        let mode = Mode::from_raw_mode(mode);
        self.make(acting, place, |target| {
            rustix::fs::mknodat(&target.open.fd, &*target.name, file_type, mode, 0)
        })
    }

    pub(crate) fn link_at(
        &self,
        acting: &Acting,
        handle: Handle,
        place: &Place,
    ) -> Result<Reply, Errno> {
        let (object, open) = self.resolve(handle)?;
        if object.kind == Kind::Directory {
            return Err(Errno::EPERM);
        }
        let from = proc_path(open.fd.as_fd());
        self.make(acting, place, |target| {
            let flags = AtFlags::SYMLINK_FOLLOW;
            rustix::fs::linkat(CWD, &from, &target.open.fd, &*target.name, flags)
        })
    }

    pub(crate) fn remove_at(
        &self,
        acting: &Acting,
        place: &Place,
        directory: Option<bool>,
    ) -> Result<Reply, Errno> {
        let target = self.target(place, acting)?;
        let before = acting.run(|| open_path(target.open.fd.as_fd(), &target.name))?;
        let found = status(before.as_fd(), b"")?;
        let is_directory = FileType::from_raw_mode(found.stx_mode.into()).is_dir();
        let flags = if directory.unwrap_or(is_directory) {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        acting
            .run(|| rustix::fs::unlinkat(&target.open.fd, &*target.name, flags).map_err(errno))?;
        self.lost(&before, &target);
        Ok(Reply::Done)
    }

    pub(crate) fn rename_to(
        &self,
        acting: &Acting,
        from: &Place,
        to: &Place,
        mode: RenameMode,
    ) -> Result<Reply, Errno> {
        let (from, to) = (self.target(from, acting)?, self.target(to, acting)?);
        let moved = acting.run(|| open_path(from.open.fd.as_fd(), &from.name))?;
        let replaced = acting.run(|| open_path(to.open.fd.as_fd(), &to.name)).ok();
        let flags = match mode {
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::Keep => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
        };
        acting.run(|| {
            let (old, new) = (&from.open.fd, &to.open.fd);
            rustix::fs::renameat_with(old, &*from.name, new, &*to.name, flags).map_err(errno)
        })?;
        let moved = identity_of(&moved);
        if let Some(replaced) = &replaced {
            match identity_of(replaced) {
                // A rename to another name of the same object leaves both names.
                same if same == moved => return Ok(Reply::Done),
                Some(other) if mode == RenameMode::Exchange => {
                    self.table().moved(other, (from.directory, from.name));
                }
                _ => self.lost(replaced, &to),
            }
        }
        if let Some(moved) = moved {
            self.table().moved(moved, (to.directory, to.name));
        }
        Ok(Reply::Done)
    }

    /// Creates an object and looks it up.
    fn make(
        &self,
        acting: &Acting,
        place: &Place,
        make: impl FnOnce(&Target) -> rustix::io::Result<()>,
    ) -> Result<Reply, Errno> {
        let target = self.target(place, acting)?;
        acting.run(|| make(&target).map_err(errno))?;
        self.found(&target, acting).map(Reply::Entry)
    }

    fn found(&self, target: &Target, acting: &Acting) -> Result<Entry, Errno> {
        let (entry, _) = self.look_up(target.directory, &target.open, &target.name, acting)?;
        Ok(entry)
    }

    /// Records that an object has lost a name.
    fn lost(&self, object: &impl AsFd, name: &Target) {
        if let Ok(after) = status(object.as_fd(), b"") {
            // Some file systems report 1 link for every directory, even for a removed one.
            let is_directory = FileType::from_raw_mode(after.stx_mode.into()).is_dir();
            let last = is_directory || after.stx_nlink == 0;
            let spot = (name.directory, &*name.name);
            self.table().removed(identity(&after), spot, last);
        }
    }
}

fn identity_of(object: &impl AsFd) -> Option<Identity> {
    status(object.as_fd(), b"")
        .ok()
        .map(|status| identity(&status))
}

/// Accepts an existing file as the result of a create. Any other object is an error.
fn existing_file(entry: Entry) -> Result<Reply, Errno> {
    match entry.attributes.kind {
        Kind::File => Ok(Reply::Created(entry, false)),
        Kind::Directory => Err(Errno::EISDIR),
        _ => Err(Errno::EEXIST),
    }
}

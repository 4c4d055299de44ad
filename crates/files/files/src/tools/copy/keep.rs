//! Attributes of the source that a copy keeps.

use super::Copier;
use crate::tools::failure::Failure;
use crate::tools::progress::add;
use crate::{Entry, Errno, Handle, Kind, Path, SetAttributes, SetTime, XattrMode};

/// Permission bits of files to keep. Set-user-id and set-group-id are kept only together with the owner, and only with
/// [`super::Options::set_id`].
const FILE_BITS: u32 = 0o777;
/// The bits set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;
/// Permission bits of directories to keep. Set-user-id has no meaning for directories.
const DIRECTORY_BITS: u32 = 0o3777;

impl Copier<'_> {
    /// Gives an object the mode and time of its source, and with [`super::Options::preserve`] the owner, extended
    /// attributes and time of access. Counts the owners and attributes that the target does not permit.
    pub(super) fn keep(
        &self,
        source: &Entry,
        target: Handle,
        to: Option<&Path>,
    ) -> Result<(), Failure> {
        let seen = source.attributes;
        let mut has_owner = false;
        if self.options.preserve {
            self.keep_extended(source.handle, target, to)?;
            has_owner = self.keep_owner(source, target, to)?;
        }
        let is_cleared = has_owner && !self.options.set_id && seen.kind != Kind::Directory;
        if is_cleared && seen.mode & SET_ID != 0 {
            add(&self.progress.not_kept, 1);
        }
        let bits = match seen.kind {
            Kind::Directory => DIRECTORY_BITS,
            _ if has_owner && self.options.set_id => 0o7777,
            _ => FILE_BITS,
        };
        let accessed = SetTime::To(seen.accessed);
        let set = SetAttributes {
            // A symbolic link has no mode of its own.
            mode: (seen.kind != Kind::Symlink).then_some(seen.mode & bits),
            modified: Some(SetTime::To(seen.modified)),
            accessed: self.options.preserve.then_some(accessed),
            ..SetAttributes::default()
        };
        let done = self.to.files.setattr(self.to.caller, target, set);
        done.map(drop)
            .map_err(|errno| self.to.failure("set mode and time of", to, errno))
    }

    /// Sets the owner. Returns whether the object then has the owner of its source.
    fn keep_owner(
        &self,
        source: &Entry,
        target: Handle,
        to: Option<&Path>,
    ) -> Result<bool, Failure> {
        let (uid, gid) = (source.attributes.uid, source.attributes.gid);
        let both = SetAttributes {
            uid: Some(uid),
            gid: Some(gid),
            ..SetAttributes::default()
        };
        let set = |owner| self.to.files.setattr(self.to.caller, target, owner);
        match set(both) {
            // A server may set owners other than the requested ones.
            Ok(there) if (there.uid, there.gid) == (uid, gid) => return Ok(true),
            Ok(_) => {}
            Err(errno) if is_rejection(errno) => {
                let group = SetAttributes { uid: None, ..both };
                // The owner is not kept, even if the group can be set.
                let _group = set(group);
            }
            Err(errno) => return Err(self.to.failure("set the owner of", to, errno)),
        }
        add(&self.progress.not_kept, 1);
        Ok(false)
    }

    fn keep_extended(
        &self,
        source: Handle,
        target: Handle,
        to: Option<&Path>,
    ) -> Result<(), Failure> {
        let (files, caller) = (self.from.files, self.from.caller);
        let names = match files.listxattr(caller, source) {
            Ok(names) => names,
            Err(errno) if is_rejection(errno) => return Ok(()),
            Err(errno) => return Err(self.from.failure("read the attributes of", to, errno)),
        };
        for name in names {
            let copied = files.getxattr(caller, source, &name).and_then(|value| {
                let (files, caller) = (self.to.files, self.to.caller);
                files.setxattr(caller, target, &name, &value, XattrMode::Any)
            });
            match copied {
                // ENODATA: the attribute was removed from the source during the copy.
                Ok(()) | Err(Errno::ENODATA) => {}
                Err(errno) if is_rejection(errno) => add(&self.progress.not_kept, 1),
                Err(errno) => return Err(self.to.failure("set the attributes of", to, errno)),
            }
        }
        Ok(())
    }
}

/// Returns whether an error means that this user may not set the value, or that the file system does not support it.
fn is_rejection(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::EPERM | Errno::EACCES | Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL
    )
}

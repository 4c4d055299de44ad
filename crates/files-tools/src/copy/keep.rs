//! What a copy keeps of its source besides the content.

use files::{Entry, Errno, Handle, Kind, Path, SetAttributes, SetTime, XattrMode};

use super::Copier;
use crate::failure::Failure;
use crate::progress::add;

/// Permission bits of files that are kept: set-user-id and set-group-id only where the owner is kept too.
const FILE_BITS: u32 = 0o777;
/// Permission bits of directories that are kept: not set-user-id, which means nothing.
const DIRECTORY_BITS: u32 = 0o3777;

impl Copier<'_> {
    /// Gives an object the mode and the time of its source, and with [`super::Options::preserve`] owner, extended attributes
    /// and time of access. What the target does not permit is counted.
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
        let bits = match seen.kind {
            Kind::Directory => DIRECTORY_BITS,
            _ if has_owner => 0o7777,
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

    /// Whether the object has the owner of its source now.
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
            // A server may set other owners than it was told.
            Ok(there) if (there.uid, there.gid) == (uid, gid) => return Ok(true),
            Ok(_) => {}
            Err(errno) if is_refusal(errno) => {
                let group = SetAttributes { uid: None, ..both };
                // Whether it is permitted or not, the owner is not kept.
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
            Err(errno) if is_refusal(errno) => return Ok(()),
            Err(errno) => return Err(self.from.failure("read the attributes of", to, errno)),
        };
        for name in names {
            let copied = files.getxattr(caller, source, &name).and_then(|value| {
                let (files, caller) = (self.to.files, self.to.caller);
                files.setxattr(caller, target, &name, &value, XattrMode::Any)
            });
            match copied {
                // It went meanwhile.
                Ok(()) | Err(Errno::ENODATA) => {}
                Err(errno) if is_refusal(errno) => add(&self.progress.not_kept, 1),
                Err(errno) => return Err(self.to.failure("set the attributes of", to, errno)),
            }
        }
        Ok(())
    }
}

/// Whether an error says that the file system does not let this be set, by this user or at all.
fn is_refusal(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::EPERM | Errno::EACCES | Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL
    )
}

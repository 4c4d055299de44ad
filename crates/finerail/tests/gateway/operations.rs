//! The operations that must run once: their preparation, their request, and how often they were executed.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use files::dir::{LocalDirectory, Options};
use files::{
    Caller, Errno, FileSystem, Handle, Node, OUTCOME_UNKNOWN, Place, RenameMode, XattrMode,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Mkdir,
    Symlink,
    MakeNode,
    Link,
    Remove,
    RemoveDirectory,
    Rename,
    RenameOver,
    Exchange,
    Append,
    SetXattr,
    RemoveXattr,
}

pub(crate) const OPERATIONS: [Operation; 13] = [
    Operation::Create,
    Operation::Mkdir,
    Operation::Symlink,
    Operation::MakeNode,
    Operation::Link,
    Operation::Remove,
    Operation::RemoveDirectory,
    Operation::Rename,
    Operation::RenameOver,
    Operation::Exchange,
    Operation::Append,
    Operation::SetXattr,
    Operation::RemoveXattr,
];

/// An operation with names of its own, prepared for execution.
#[derive(Debug)]
pub(crate) struct Prepared {
    operation: Operation,
    /// The name that is created or used.
    name: String,
    /// The second name of operations with two names.
    other: String,
    /// The handle of the object at `name`, for operations by handle.
    handle: Option<Handle>,
}

const APPENDED: &[u8] = b"one record\n";

impl Operation {
    pub(crate) fn prepare(self, kept: &Path, files: &dyn FileSystem) -> Prepared {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (name, other) = (
            format!("{self:?}-{number}"),
            format!("{self:?}-{number}-other"),
        );
        let (at, at_other) = (kept.join(&name), kept.join(&other));
        match self {
            Self::Create | Self::Mkdir | Self::Symlink | Self::MakeNode => {}
            Self::RemoveDirectory => fs::create_dir(&at).unwrap(),
            Self::Link | Self::Remove | Self::Rename | Self::SetXattr => {
                fs::write(&at, "kept").unwrap()
            }
            Self::RenameOver => {
                fs::write(&at, "new").unwrap();
                symlink("old", &at_other).unwrap();
            }
            Self::Exchange => {
                fs::write(&at, "file").unwrap();
                symlink("link", &at_other).unwrap();
            }
            Self::Append => fs::write(&at, "begin\n").unwrap(),
            Self::RemoveXattr => fs::write(&at, "kept").unwrap(),
        }
        let by_handle = matches!(
            self,
            Self::Link | Self::Append | Self::SetXattr | Self::RemoveXattr
        );
        let handle = by_handle.then(|| {
            let caller = Caller::default();
            let place = Place::from_root(name.as_bytes()).unwrap();
            let handle = files.lookup(&caller, place).unwrap().handle;
            if self == Self::RemoveXattr {
                let any = XattrMode::Any;
                files
                    .setxattr(&caller, handle, b"user.a", b"1", any)
                    .unwrap();
            }
            handle
        });
        Prepared {
            operation: self,
            name,
            other,
            handle,
        }
    }
}

impl Prepared {
    /// Requests the operation, and checks that the handle of a created object can be used.
    pub(crate) fn call(&self, files: &dyn FileSystem) -> Result<(), Errno> {
        let caller = Caller::default();
        let place = |name: &str| Place::from_root(name.as_bytes()).unwrap();
        let (at, other) = (place(&self.name), place(&self.other));
        let handle = self.handle.unwrap_or(Handle::ROOT);
        let rename = |mode| files.rename(&caller, at.clone(), other.clone(), mode);
        let made = match self.operation {
            Operation::Create => files.create(&caller, at, 0o644, true)?.0,
            Operation::Mkdir => files.mkdir(&caller, at, 0o755)?,
            Operation::Symlink => files.symlink(&caller, at, b"target")?,
            Operation::MakeNode => files.mknod(&caller, at, Node::Fifo, 0o644)?,
            Operation::Link => files.link(&caller, handle, other)?,
            Operation::Remove => return files.remove(&caller, at, Some(false)),
            Operation::RemoveDirectory => return files.remove(&caller, at, Some(true)),
            Operation::Rename => return rename(RenameMode::Keep),
            Operation::RenameOver => return rename(RenameMode::Replace),
            Operation::Exchange => return rename(RenameMode::Exchange),
            Operation::Append => {
                let (offset, count) = files.append(&caller, handle, APPENDED)?;
                assert_eq!((offset, count), (6, APPENDED.len() as u64));
                return Ok(());
            }
            Operation::SetXattr => {
                return files.setxattr(&caller, handle, b"user.a", b"1", XattrMode::Create);
            }
            Operation::RemoveXattr => return files.removexattr(&caller, handle, b"user.a"),
        };
        let seen = files.getattr(&caller, made.handle);
        // If the gateway was killed after its answer, its handles have changed.
        assert!(matches!(seen, Ok(_) | Err(Errno::ESTALE)), "{seen:?}");
        Ok(())
    }

    /// Returns how often the operation was executed, as far as the files show.
    pub(crate) fn times(&self, kept: &Path) -> usize {
        let (at, other) = (kept.join(&self.name), kept.join(&self.other));
        let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
        let kind = |path: &PathBuf| path.symlink_metadata().unwrap().file_type();
        match self.operation {
            Operation::Create => usize::from(is_there(&at) && kind(&at).is_file()),
            Operation::Mkdir => usize::from(at.is_dir()),
            Operation::Symlink => usize::from(is_there(&at) && kind(&at).is_symlink()),
            Operation::MakeNode => usize::from(is_there(&at) && kind(&at).is_fifo()),
            Operation::Link => at.metadata().unwrap().nlink() as usize - 1,
            Operation::Remove | Operation::RemoveDirectory => usize::from(!is_there(&at)),
            Operation::Rename => {
                assert_ne!(is_there(&at), is_there(&other), "it has one name");
                usize::from(is_there(&other))
            }
            Operation::RenameOver => {
                assert_eq!(is_there(&at), kind(&other).is_symlink());
                usize::from(!is_there(&at))
            }
            Operation::Exchange => {
                assert_ne!(kind(&at).is_symlink(), kind(&other).is_symlink());
                usize::from(kind(&at).is_symlink())
            }
            Operation::Append => {
                let content = fs::read(&at).unwrap();
                let times = (content.len() - 6) / APPENDED.len();
                assert_eq!(content, [b"begin\n", &APPENDED.repeat(times)[..]].concat());
                times
            }
            Operation::SetXattr => usize::from(has_attribute(&at)),
            Operation::RemoveXattr => usize::from(!has_attribute(&at)),
        }
    }

    /// Undoes the operation, so that a second execution would be visible.
    pub(crate) fn undo(&self, kept: &Path, files: &dyn FileSystem) {
        let (at, other) = (kept.join(&self.name), kept.join(&self.other));
        let handle = self.handle.unwrap_or(Handle::ROOT);
        let caller = Caller::default();
        match self.operation {
            Operation::Mkdir => fs::remove_dir(&at).unwrap(),
            Operation::Create | Operation::Symlink | Operation::MakeNode => {
                fs::remove_file(&at).unwrap();
            }
            Operation::Link => fs::remove_file(&other).unwrap(),
            Operation::Remove => fs::write(&at, "kept").unwrap(),
            Operation::RemoveDirectory => fs::create_dir(&at).unwrap(),
            Operation::Rename => fs::rename(&other, &at).unwrap(),
            Operation::RenameOver => {
                fs::rename(&other, &at).unwrap();
                symlink("old", &other).unwrap();
            }
            Operation::Exchange => {
                let aside = kept.join("aside");
                fs::rename(&at, &aside).unwrap();
                fs::rename(&other, &at).unwrap();
                fs::rename(&aside, &other).unwrap();
            }
            Operation::Append => fs::write(&at, "begin\n").unwrap(),
            Operation::SetXattr => files.removexattr(&caller, handle, b"user.a").unwrap(),
            Operation::RemoveXattr => {
                let any = XattrMode::Any;
                files
                    .setxattr(&caller, handle, b"user.a", b"1", any)
                    .unwrap();
            }
        }
    }

    /// Checks the number of executions: 1 after success, 0 after `ESTALE`, at most 1 if the outcome is unknown.
    /// Any other error would be that of a second execution.
    pub(crate) fn check(&self, kept: &Path, result: Result<(), Errno>, case: &str) {
        let times = self.times(kept);
        match result {
            Ok(()) => assert_eq!(times, 1, "{case}"),
            Err(Errno::ESTALE) => assert_eq!(times, 0, "{case}"),
            Err(OUTCOME_UNKNOWN) => assert!(times <= 1, "{case}"),
            Err(_) => panic!("{case}"),
        }
    }
}

fn has_attribute(path: &Path) -> bool {
    let directory = LocalDirectory::open(path.parent().unwrap(), Options::default()).unwrap();
    let name = path.file_name().unwrap().as_encoded_bytes();
    let (caller, place) = (Caller::default(), Place::from_root(name).unwrap());
    let handle = directory.lookup(&caller, place).unwrap().handle;
    match directory.getxattr(&caller, handle, b"user.a") {
        Ok(_) => true,
        Err(Errno::ENODATA) => false,
        Err(errno) => panic!("{errno}"),
    }
}

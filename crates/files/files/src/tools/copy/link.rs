//! Symbolic links.

use super::file::part;
use super::{Copier, Job};
use crate::tools::failure::Failure;
use crate::tools::tree::place;
use crate::{Entry, Errno, Kind, OUTCOME_UNKNOWN, Path, RenameMode};

/// Limit in bytes of the target of a symbolic link in a server's reply.
const TARGET_MAX: usize = 4095;

impl Copier<'_> {
    /// Copies a link without a check of its target.
    pub(super) fn link(&self, job: &Job, source: &Entry) -> Result<(), Failure> {
        self.make_link(job, source)?;
        if !self.options.preserve {
            return Ok(());
        }
        let made = self.to.lookup(Some(&job.to))?;
        self.keep(source, made.handle, Some(&job.to))
    }

    fn make_link(&self, job: &Job, source: &Entry) -> Result<(), Failure> {
        let target = self.from.files.readlink(self.from.caller, source.handle);
        let target = target
            .and_then(|target| match target.len() {
                1..=TARGET_MAX if !target.contains(&0) => Ok(target),
                _ => Err(Errno::EPROTO),
            })
            .map_err(|errno| self.from.failure("read", Some(&job.from), errno))?;
        match self.symlink(&job.to, &target) {
            Ok(()) => return Ok(()),
            Err(Errno::EEXIST | OUTCOME_UNKNOWN) => {}
            Err(errno) => return Err(self.to.failure("make", Some(&job.to), errno)),
        }
        if self.is_there_already(&job.to, &target)? {
            return Ok(());
        }
        let replaced = self.replace_by_link(job, source, &target);
        replaced.map_err(|errno| self.to.failure("replace", Some(&job.to), errno))
    }

    fn symlink(&self, path: &Path, target: &[u8]) -> Result<(), Errno> {
        let made = self.to.files.symlink(self.to.caller, place(path), target);
        made.map(drop)
    }

    fn is_there_already(&self, path: &Path, target: &[u8]) -> Result<bool, Failure> {
        let Some(entry) = self.to.lookup_if_any(Some(path))? else {
            return Ok(false);
        };
        if entry.attributes.kind != Kind::Symlink {
            return Ok(false);
        }
        let there = self.to.files.readlink(self.to.caller, entry.handle);
        let there = there.map_err(|errno| self.to.failure("read", Some(path), errno))?;
        Ok(there == target)
    }

    fn replace_by_link(&self, job: &Job, source: &Entry, target: &[u8]) -> Result<(), Errno> {
        let part = part(&job.to, &source.attributes)?;
        let (files, caller) = (self.to.files, self.to.caller);
        if let Err(errno) = self.symlink(&part, target) {
            if errno != Errno::EEXIST {
                return Err(errno);
            }
            // An interrupted copy left the part.
            files.remove(caller, place(&part), Some(false))?;
            self.symlink(&part, target)?;
        }
        files.rename(caller, place(&part), place(&job.to), RenameMode::Replace)
    }
}

//! Removes a tree.

use crate::tools::entries::Entries;
use crate::tools::failure::{Failure, Why};
use crate::tools::progress::{Failures, Progress, add};
use crate::tools::tree::{Tree, place};
use crate::{Errno, Kind, Path};

/// Limit of the extra reads of a directory that was not empty after all its entries were removed.
const ROUNDS_MAX: u32 = 3;

/// Removes the object at a path, or with `recursive` a directory and everything below it. Removes a symbolic link
/// itself, never its target. An object that cannot be removed is recorded as a failure, and the removal continues.
pub fn remove(
    tree: Tree<'_>,
    path: &Path,
    recursive: bool,
    progress: &Progress,
    failures: &mut Failures,
) {
    let removal = Removal { tree, progress };
    let entry = match tree.lookup(Some(path)) {
        Ok(entry) => entry,
        Err(failure) => return failures.add(failure),
    };
    if entry.attributes.kind != Kind::Directory {
        if let Err(failure) = removal.unlink(path, false) {
            failures.add(failure);
        }
        return;
    }
    if !recursive {
        let why = Why::IsDirectory;
        return failures.add(tree.failed("remove", Some(path), why));
    }
    removal.directory(path, entry.handle, failures);
}

struct Removal<'a> {
    tree: Tree<'a>,
    progress: &'a Progress,
}

/// A directory whose contents are being removed.
struct Frame<'a> {
    path: Path,
    entries: Entries<'a>,
    rounds: u32,
    /// Whether an object in the directory could not be removed.
    is_kept: bool,
}

impl<'a> Removal<'a> {
    fn unlink(&self, path: &Path, directory: bool) -> Result<(), Failure> {
        let (files, caller) = (self.tree.files, self.tree.caller);
        match files.remove(caller, place(path), Some(directory)) {
            // ENOENT: another process removed the object first.
            Ok(()) | Err(Errno::ENOENT) => {
                let counter = match directory {
                    true => &self.progress.directories,
                    false => &self.progress.files,
                };
                add(counter, 1);
                Ok(())
            }
            Err(errno) => Err(self.tree.failure("remove", Some(path), errno)),
        }
    }

    fn frame(&self, path: Path, handle: crate::Handle) -> Frame<'a> {
        let entries = Entries::new(self.tree, Some(path.clone()), handle);
        Frame {
            path,
            entries,
            rounds: 1,
            is_kept: false,
        }
    }

    fn directory(&self, path: &Path, handle: crate::Handle, failures: &mut Failures) {
        let mut stack = vec![self.frame(path.clone(), handle)];
        while let Some(frame) = stack.last_mut() {
            if self.progress.is_cancelled() || failures.is_fatal() {
                return;
            }
            let failure = match frame.entries.next() {
                Some(Ok(found)) if found.entry.attributes.kind == Kind::Directory => {
                    stack.push(self.frame(found.path, found.entry.handle));
                    continue;
                }
                Some(Ok(found)) => self.unlink(&found.path, false).err(),
                Some(Err(failure)) => Some(failure),
                None => {
                    self.close(&mut stack, failures);
                    continue;
                }
            };
            if let Some(failure) = failure {
                frame.is_kept = true;
                failures.add(failure);
            }
        }
    }

    /// Removes the last directory, which was read to its end.
    fn close(&self, stack: &mut Vec<Frame<'a>>, failures: &mut Failures) {
        let Some(mut frame) = stack.pop() else {
            return;
        };
        let removed = match frame.is_kept {
            // The failure of its content was recorded already: ENOTEMPTY would add nothing.
            true => Ok(false),
            false => self.unlink(&frame.path, true).map(|()| true),
        };
        match removed {
            Ok(true) => return,
            Ok(false) => {}
            // Entries that moved during the removal may be missing from the listing: read the directory once more.
            Err(failure)
                if failure.errno() == Some(Errno::ENOTEMPTY) && frame.rounds < ROUNDS_MAX =>
            {
                if let Ok(entry) = self.tree.lookup(Some(&frame.path)) {
                    frame.rounds += 1;
                    frame.entries = Entries::new(self.tree, Some(frame.path.clone()), entry.handle);
                    return stack.push(frame);
                }
            }
            Err(failure) => failures.add(failure),
        }
        if let Some(parent) = stack.last_mut() {
            parent.is_kept = true;
        }
    }
}

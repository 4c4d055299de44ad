//! The walker: directories at the source become directories at the target.

use std::sync::Arc;

use super::{Copier, Directory, Item, Job, is_part};
use crate::tools::entries::{Entries, Found};
use crate::tools::failure::{Failure, Why};
use crate::tools::progress::add;
use crate::tools::tree::{below, is_same_object, place};
use crate::{Entry, Errno, Kind, Path};

impl Copier<'_> {
    /// Walks through all items. A failure of one item is recorded, and the walk continues.
    pub(super) fn walk(&self, items: &[Item]) {
        for item in items {
            if self.is_over() {
                return;
            }
            if let Err(failure) = self.walk_item(item) {
                self.fail(failure);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.progress.is_cancelled() || self.queue.is_ended()
    }

    fn walk_item(&self, item: &Item) -> Result<(), Failure> {
        let entry = self.from.lookup(item.from.as_ref())?;
        if entry.attributes.kind == Kind::Directory {
            if !self.options.recursive {
                let why = Why::IsDirectory;
                return Err(self.from.failed("copy", item.from.as_ref(), why));
            }
            self.walk_tree(item, &entry);
            return Ok(());
        }
        let (Some(from), Some(to)) = (&item.from, &item.to) else {
            return Err(self.to.failure("replace", None, Errno::EISDIR));
        };
        self.take(from.clone(), to.clone(), entry, None);
        Ok(())
    }

    fn walk_tree(&self, item: &Item, entry: &Entry) {
        let top = Directory {
            from: item.from.clone(),
            to: item.to.clone(),
            source: *entry,
            is_set: false,
            parent: None,
        };
        let mut stack = Vec::new();
        let mut target = None;
        stack.extend(self.enter(top, entry, &mut target));
        while let Some((directory, entries)) = stack.last_mut() {
            if self.is_over() {
                return;
            }
            let directory = Arc::clone(directory);
            match entries.next() {
                Some(Ok(found)) => stack.extend(self.step(&directory, found, &mut target)),
                Some(Err(failure)) => self.fail(failure),
                None => {
                    stack.pop();
                    self.leave(directory);
                }
            }
        }
    }

    /// Processes one name of a directory. Returns the directory to walk next, if the name is that of a directory.
    fn step(
        &self,
        directory: &Arc<Directory>,
        found: Found,
        target: &mut Option<Entry>,
    ) -> Option<(Arc<Directory>, Entries<'_>)> {
        let Found { path, entry } = found;
        let (_, name) = path.split_last();
        if is_part(name) {
            return None;
        }
        let to = match below(directory.to.as_ref(), name) {
            Ok(to) => to,
            Err(errno) => {
                self.fail(self.from.failure("copy", Some(&path), errno));
                return None;
            }
        };
        if entry.attributes.kind != Kind::Directory {
            self.take(path, to, entry, Some(Arc::clone(directory)));
            return None;
        }
        let below = Directory {
            from: Some(path),
            to: Some(to),
            source: entry,
            is_set: true,
            parent: Some(Arc::clone(directory)),
        };
        self.enter(below, &entry, target)
    }

    /// Makes a directory at the target. `target` is the first target directory: the copy must not descend into it,
    /// because it would copy into itself.
    fn enter(
        &self,
        mut directory: Directory,
        entry: &Entry,
        target: &mut Option<Entry>,
    ) -> Option<(Arc<Directory>, Entries<'_>)> {
        let is_target = |target: &Entry| is_same_object(&target.attributes, &entry.attributes);
        if self.options.is_one_system && target.as_ref().is_some_and(is_target) {
            let path = directory.from.as_ref();
            self.fail(self.from.failure("copy into itself", path, Errno::ELOOP));
            return None;
        }
        match self.make(directory.to.as_ref()) {
            Ok((made, is_new)) => {
                directory.is_set |= is_new;
                target.get_or_insert(made);
            }
            Err(failure) => {
                self.fail(failure);
                return None;
            }
        }
        let entries = Entries::new(self.from, directory.from.clone(), entry.handle);
        Some((Arc::new(directory), entries))
    }

    /// Makes or finds the directory at this path. Returns whether it is new.
    fn make(&self, path: Option<&Path>) -> Result<(Entry, bool), Failure> {
        let Some(path) = path else {
            return Ok((self.to.lookup(None)?, false));
        };
        let failed = |errno| self.to.failure("make", Some(path), errno);
        match self.to.files.mkdir(self.to.caller, place(path), 0o700) {
            Ok(entry) => Ok((entry, true)),
            Err(errno) => match self.to.lookup_if_any(Some(path))? {
                Some(entry) if entry.attributes.kind == Kind::Directory => Ok((entry, false)),
                Some(_) => Err(failed(Errno::ENOTDIR)),
                None => Err(failed(errno)),
            },
        }
    }

    /// Puts a file or a link into the queue.
    fn take(&self, from: Path, to: Path, entry: Entry, parent: Option<Arc<Directory>>) {
        match entry.attributes.kind {
            Kind::File => {
                add(&self.progress.found_files, 1);
                add(&self.progress.found_bytes, entry.attributes.size);
            }
            Kind::Symlink => {}
            _ => {
                add(&self.progress.left_out, 1);
                return;
            }
        }
        self.queue.push(Job {
            from,
            to,
            entry: Some(entry),
            parent,
            beginnings: 1,
        });
    }

    /// Releases a reference to a directory. The last release completes the directory.
    pub(super) fn leave(&self, directory: Arc<Directory>) {
        let mut next = Some(directory);
        while let Some(directory) = next.and_then(Arc::into_inner) {
            match self.finish_directory(&directory) {
                Ok(()) => add(&self.progress.directories, 1),
                Err(failure) => self.fail(failure),
            }
            next = directory.parent;
        }
    }

    fn finish_directory(&self, directory: &Directory) -> Result<(), Failure> {
        if !directory.is_set {
            return Ok(());
        }
        let path = directory.to.as_ref();
        let entry = self.to.lookup(path)?;
        self.keep(&directory.source, entry.handle, path)
    }
}

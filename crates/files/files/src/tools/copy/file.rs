//! Regular files: each is written as a part, which is renamed at the end.

use std::sync::{Arc, Mutex, MutexGuard};

use super::piece::Buffers;
use super::{Copier, Directory, Job, PART_DIGITS, PART_PREFIX};
use crate::tools::PIECE;
use crate::tools::failure::{Failure, Why};
use crate::tools::progress::{add, lock, take_back};
use crate::tools::tree::{below, is_same_object, place};
use crate::{
    AllocateMode, Attributes, Entry, Errno, Kind, Path, RenameMode, SeekTarget, Segment,
    SetAttributes,
};

/// Limit of the restarts of one file.
const BEGINNINGS_MAX: u32 = 4;
/// Files of up to this many bytes are not searched for holes.
const SPARSE_MIN: u64 = 64 << 10;
/// The unit of [`Attributes::blocks`], in bytes.
const BLOCK: u64 = 512;

/// A file in progress.
pub(super) struct Long {
    pub(super) from: Path,
    pub(super) to: Path,
    part: Path,
    pub(super) source: Entry,
    pub(super) target: Entry,
    /// Whether an earlier copy left the part.
    pub(super) is_resumed: bool,
    is_sparse: bool,
    beginnings: u32,
    cursor: Mutex<Cursor>,
}

/// Which pieces of a file were taken by workers, and their results.
#[derive(Default)]
struct Cursor {
    next: u64,
    /// Whether no further piece is taken.
    is_exhausted: bool,
    in_flight: u32,
    moved: u64,
    resumed: u64,
    failure: Option<Failure>,
    is_concluded: bool,
    /// The directory of the file, until the file is done.
    parent: Option<Arc<Directory>>,
}

impl Long {
    fn cursor(&self) -> MutexGuard<'_, Cursor> {
        lock(&self.cursor)
    }

    fn size(&self) -> u64 {
        self.source.attributes.size
    }
}

/// Returns the path of the part of a file, in the directory of the file. The same file from the same source has the
/// same part.
pub(super) fn part(path: &Path, source: &Attributes) -> Result<Path, Errno> {
    let (directory, name) = path.split_last();
    let mut hasher = blake3::Hasher::new();
    for number in [source.size, source.file, source.filesystem] {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(&source.modified.seconds.to_le_bytes());
    hasher.update(&source.modified.nanoseconds.to_le_bytes());
    hasher.update(name);
    let digits = hasher.finalize().to_hex();
    let name = format!("{PART_PREFIX}{}", &digits[..PART_DIGITS]);
    below(directory.as_ref(), name.as_bytes())
}

impl Copier<'_> {
    /// Copies a link or a short file, or begins a long file.
    pub(super) fn begin(&self, mut job: Job, buffers: &mut Buffers) {
        let source = match job.entry.take() {
            Some(entry) => Ok(entry),
            None => self.from.lookup(Some(&job.from)),
        };
        let begun = source.and_then(|source| match source.attributes.kind {
            Kind::Symlink => self.link(&job, &source).map(|()| Begun::Link),
            Kind::File => self.open(&job, source),
            _ => Err(self.from.failed("read", Some(&job.from), Why::Changed)),
        });
        let done = match begun {
            Err(failure) => return self.failed(job, failure),
            Ok(Begun::File(long)) => {
                long.cursor().parent = job.parent;
                return self.take_up(Arc::new(*long), buffers);
            }
            Ok(Begun::Link) => &self.progress.links,
            Ok(Begun::Same) => &self.progress.skipped,
        };
        add(done, 1);
        job.parent.into_iter().for_each(|parent| self.leave(parent));
    }

    /// Copies a short file, or queues a long one for all workers.
    fn take_up(&self, long: Arc<Long>, buffers: &mut Buffers) {
        if long.size() > PIECE {
            return self.queue.push_long(long);
        }
        while !long.cursor().is_concluded && !self.progress.is_cancelled() {
            self.advance(&long, buffers);
        }
    }

    /// Opens the source and the part.
    fn open(&self, job: &Job, source: Entry) -> Result<Begun, Failure> {
        if self.options.skip_same && self.is_same(&job.to, &source.attributes)? {
            return Ok(Begun::Same);
        }
        let failed = |errno| self.to.failure("make", Some(&job.to), errno);
        let part = part(&job.to, &source.attributes).map_err(failed)?;
        let (target, is_new) = self.create(&part).map_err(failed)?;
        let Attributes { size, blocks, .. } = source.attributes;
        let is_sparse = size > SPARSE_MIN && blocks.saturating_mul(BLOCK) < size;
        if !is_new || is_sparse || size > PIECE {
            let set = SetAttributes {
                size: Some(size),
                ..SetAttributes::default()
            };
            let set = self.to.files.setattr(self.to.caller, target.handle, set);
            set.map_err(|errno| self.to.failure("write", Some(&job.to), errno))?;
        }
        Ok(Begun::File(Box::new(Long {
            from: job.from.clone(),
            to: job.to.clone(),
            part,
            source,
            target,
            is_resumed: !is_new && target.attributes.size > 0,
            is_sparse,
            beginnings: job.beginnings,
            cursor: Mutex::default(),
        })))
    }

    /// Returns whether the target has a file with the same length and time.
    fn is_same(&self, path: &Path, source: &Attributes) -> Result<bool, Failure> {
        let Some(entry) = self.to.lookup_if_any(Some(path))? else {
            return Ok(false);
        };
        let there = entry.attributes;
        let is_file = there.kind == Kind::File;
        Ok(is_file && (there.size, there.modified) == (source.size, source.modified))
    }

    /// Makes a part or finds the existing one. Returns whether the part is new.
    fn create(&self, part: &Path) -> Result<(Entry, bool), Errno> {
        let (files, caller) = (self.to.files, self.to.caller);
        let (entry, is_new) = files.create(caller, place(part), 0o600, false)?;
        if is_new || (entry.attributes.kind == Kind::File && entry.attributes.links == 1) {
            return Ok((entry, is_new));
        }
        // A file with several names is not a part of this program: a write would change the file under its other
        // names.
        files.remove(caller, place(part), Some(false))?;
        files.create(caller, place(part), 0o600, true)
    }

    /// Moves the next piece of a file. The worker that completes the last piece completes the file.
    pub(super) fn advance(&self, long: &Arc<Long>, buffers: &mut Buffers) {
        match self.claim(long) {
            Ok(Some(piece)) => {
                let moved = self.move_piece(long, piece, buffers);
                let mut cursor = long.cursor();
                cursor.in_flight -= 1;
                match moved {
                    Ok(was_there) => self.count(&mut cursor, piece.length, was_there),
                    Err(failure) => cursor.fail(failure),
                }
            }
            Ok(None) => self.queue.remove_long(long),
            Err(failure) => long.cursor().fail(failure),
        }
        let mut cursor = long.cursor();
        if cursor.is_exhausted && cursor.in_flight == 0 && !cursor.is_concluded {
            cursor.is_concluded = true;
            drop(cursor);
            self.queue.remove_long(long);
            self.complete(long);
        }
    }

    fn count(&self, cursor: &mut Cursor, bytes: u64, was_there: bool) {
        cursor.moved += bytes;
        add(&self.progress.bytes, bytes);
        if was_there {
            cursor.resumed += bytes;
            add(&self.progress.resumed, bytes);
        }
    }

    /// Takes the next piece that contains data, if there is one.
    fn claim(&self, long: &Long) -> Result<Option<Segment>, Failure> {
        let mut cursor = long.cursor();
        if cursor.is_exhausted {
            return Ok(None);
        }
        let (start, end) = match long.is_sparse {
            true => self.next_data(long, cursor.next)?,
            false => (cursor.next, long.size()),
        };
        let end = end.min(start.saturating_add(PIECE));
        cursor.next = end;
        cursor.is_exhausted = end >= long.size();
        if start >= end {
            return Ok(None);
        }
        cursor.in_flight += 1;
        Ok(Some(Segment {
            offset: start,
            length: end - start,
        }))
    }

    /// Returns the start and end of the next data. Punches the hole before this data if an earlier copy may have
    /// written there.
    fn next_data(&self, long: &Long, from: u64) -> Result<(u64, u64), Failure> {
        let size = long.size();
        let (files, caller) = (self.from.files, self.from.caller);
        let seek = |offset, target| {
            let failed = |errno| self.from.failure("read", Some(&long.from), errno);
            match files.seek(caller, long.source.handle, offset, target) {
                Ok(found) if found < offset => Err(failed(Errno::EPROTO)),
                Ok(found) => Ok(found.min(size)),
                Err(Errno::ENXIO) => Ok(size),
                // The server's file system does not support holes.
                Err(Errno::EOPNOTSUPP | Errno::EINVAL) if target == SeekTarget::Data => Ok(offset),
                Err(Errno::EOPNOTSUPP | Errno::EINVAL) => Ok(size),
                Err(errno) => Err(failed(errno)),
            }
        };
        let start = seek(from, SeekTarget::Data)?;
        if long.is_resumed && start > from {
            let hole = Segment {
                offset: from,
                length: start - from,
            };
            let (files, caller) = (self.to.files, self.to.caller);
            let punched = files.allocate(caller, long.target.handle, AllocateMode::PunchHole, hole);
            punched.map_err(|errno| self.to.failure("resume", Some(&long.to), errno))?;
        }
        match start < size {
            true => Ok((start, seek(start, SeekTarget::Hole)?)),
            false => Ok((size, size)),
        }
    }

    /// Ends a file after all pieces were moved or one failed.
    fn complete(&self, long: &Long) {
        let (failure, moved, resumed, parent) = {
            let mut cursor = long.cursor();
            let (failure, parent) = (cursor.failure.take(), cursor.parent.take());
            (failure, cursor.moved, cursor.resumed, parent)
        };
        let Err(failure) = failure.map_or_else(|| self.finish(long), Err) else {
            add(&self.progress.files, 1);
            return parent.into_iter().for_each(|parent| self.leave(parent));
        };
        take_back(&self.progress.bytes, moved);
        take_back(&self.progress.resumed, resumed);
        if !failure.is_stale() && !failure.is_fatal() {
            // The part may not exist any longer.
            let _removed = self
                .to
                .files
                .remove(self.to.caller, place(&long.part), Some(false));
        }
        let job = Job {
            from: long.from.clone(),
            to: long.to.clone(),
            entry: None,
            parent,
            beginnings: long.beginnings,
        };
        self.failed(job, failure);
    }

    /// Gives a file its mode, its time and its name.
    fn finish(&self, long: &Long) -> Result<(), Failure> {
        let (files, caller) = (self.from.files, self.from.caller);
        let now = files.getattr(caller, long.source.handle);
        let now = now.map_err(|errno| self.from.failure("read", Some(&long.from), errno))?;
        let seen = long.source.attributes;
        if (now.size, now.modified) != (seen.size, seen.modified) {
            return Err(self.from.failed("copy", Some(&long.from), Why::Changed));
        }
        self.keep(&long.source, long.target.handle, Some(&long.to))?;
        let failed = |errno| self.to.failure("write", Some(&long.to), errno);
        let (files, caller) = (self.to.files, self.to.caller);
        if self.options.sync {
            files
                .commit(caller, long.target.handle, false)
                .map_err(failed)?;
        }
        self.give_name(long)?;
        if self.options.sync {
            let directory = self.to.lookup(long.to.split_last().0.as_ref())?;
            files
                .commit(caller, directory.handle, false)
                .map_err(failed)?;
        }
        Ok(())
    }

    /// Renames the part. If the part does not exist, or the outcome is unknown, checks whether the file has its name
    /// already.
    fn give_name(&self, long: &Long) -> Result<(), Failure> {
        let (files, caller) = (self.to.files, self.to.caller);
        let (from, to) = (place(&long.part), place(&long.to));
        let Err(errno) = files.rename(caller, from, to, RenameMode::Replace) else {
            return Ok(());
        };
        let failed = || self.to.failure("replace", Some(&long.to), errno);
        if !matches!(errno, Errno::ENOENT | crate::OUTCOME_UNKNOWN) {
            return Err(failed());
        }
        match self.to.lookup_if_any(Some(&long.to))? {
            Some(there) if is_same_object(&there.attributes, &long.target.attributes) => Ok(()),
            _ => Err(failed()),
        }
    }

    /// Restarts a file after a stale handle, or records its failure.
    fn failed(&self, job: Job, failure: Failure) {
        if failure.is_stale() && job.beginnings < BEGINNINGS_MAX {
            add(&self.progress.restarted, 1);
            let beginnings = job.beginnings + 1;
            return self.queue.push_again(Job { beginnings, ..job });
        }
        self.fail(failure);
        job.parent.into_iter().for_each(|parent| self.leave(parent));
    }
}

/// Result of the begin of a job.
enum Begun {
    /// A link, which is done.
    Link,
    /// A file that the target has already.
    Same,
    /// A file in progress.
    File(Box<Long>),
}

impl Cursor {
    /// Records the first failure. No further piece is taken.
    fn fail(&mut self, failure: Failure) {
        self.is_exhausted = true;
        self.failure.get_or_insert(failure);
    }
}

//! Copies trees of files from one file system to another.
//!
//! ```text
//!   walker: directories ──▶ made at the target; their names ──▶ queue, as long as there is space
//!   workers: queue ──▶ short file, link ──▶ done
//!                  ──▶ long file, begun ──▶ pieces ──▶ any worker ──▶ the last piece completes the file
//!   last file below a directory done ──▶ the directory gets its mode and time
//! ```
//!
//! **A name at the target belongs either to its old object or to the complete new file.** A file is written under a
//! temporary name in the same directory, and renamed after all of it was written, read back and compared. This file
//! is called a part. Its name begins with [`PART_PREFIX`]. The rest of the name is derived from the name of the file,
//! and from the length, time and number of its source. A later copy of the same file therefore finds the part that an
//! interrupted copy left, compares it with the source piece by piece, and writes only missing or wrong pieces. Two
//! processes that copy different files to one name write to different parts.
//!
//! **What is kept**: content, holes, permission bits, times of modification, the targets of symbolic links, empty
//! directories. Set-user-id and set-group-id bits of files are not kept, because the source need not be trusted. Hard
//! links become separate files. Named pipes, sockets and devices are not copied. The user who copies owns the copies.
//! [`Options::preserve`] also keeps owners, extended attributes and times of access, and the two bits of those files
//! whose owner was kept.

mod file;
mod keep;
mod link;
mod piece;
mod queue;
mod walk;

use std::sync::{Arc, Mutex};
use std::thread;

use self::piece::Buffers;
pub(crate) use self::piece::read_whole;
use self::queue::{Queue, Work};
use crate::tools::failure::Failure;
use crate::tools::progress::{Failures, Progress, lock};
use crate::tools::tree::Tree;
use crate::{Entry, Path};

/// Prefix of the names of incomplete files.
pub const PART_PREFIX: &str = ".finerail-part-";
/// Number of hexadecimal digits behind the prefix.
const PART_DIGITS: usize = 32;

/// Returns whether a name is that of a part, which an interrupted copy may have left.
#[must_use]
pub fn is_part(name: &[u8]) -> bool {
    let rest = name.strip_prefix(PART_PREFIX.as_bytes());
    rest.is_some_and(|rest| rest.len() == PART_DIGITS && rest.iter().all(u8::is_ascii_hexdigit))
}

/// What to read a second time before a file gets its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Nothing.
    None,
    /// The written bytes, to compare them with those read from the source. Enough if the source is local.
    #[default]
    Written,
    /// The written bytes and the source, so that damage on the path from the source is found too.
    Both,
}

/// Options of a copy.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of operations in flight, at least 1. Each uses up to two times [`crate::tools::PIECE`] bytes of memory.
    pub jobs: usize,
    /// Whether directories are copied, with everything below them.
    pub recursive: bool,
    /// What to read a second time.
    pub verify: Verify,
    /// Whether a file is skipped if the target has a file with the same length and time of modification.
    pub skip_same: bool,
    /// Whether each file and its name are written to the target's stable storage before the file counts as done.
    pub sync: bool,
    /// Whether owners, extended attributes and times of access are kept too, as far as the target permits.
    pub preserve: bool,
    /// Whether [`Options::preserve`] also keeps the bits set-user-id and set-group-id of files. A source that is not
    /// trusted could give programs the rights of any user of the target.
    pub set_id: bool,
    /// Whether source and target are one file system, so that equal numbers mean the same object.
    pub is_one_system: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            jobs: 8,
            recursive: true,
            verify: Verify::default(),
            skip_same: false,
            sync: false,
            preserve: false,
            set_id: false,
            is_one_system: false,
        }
    }
}

/// An object to copy and its new path. `None` is the root, which is a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Path at the source.
    pub from: Option<Path>,
    /// Path at the target. Its directory must exist.
    pub to: Option<Path>,
}

/// Copies objects from one file system to another, and returns the failures. Replaces files that exist. Adds the
/// missing objects to directories that exist.
///
/// If a server does not answer, or [`Progress::cancel`] was called, the copy ends after the operations in flight.
/// Complete files have their names by then. The others stay as parts, which the next copy continues.
#[must_use]
pub fn copy(
    from: Tree<'_>,
    to: Tree<'_>,
    items: &[Item],
    options: &Options,
    progress: &Progress,
) -> Failures {
    let jobs = options.jobs.max(1);
    let copier = Copier {
        from,
        to,
        options,
        progress,
        queue: Queue::new(jobs * 4),
        failures: Mutex::default(),
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| copier.work());
        }
        copier.walk(items);
        copier.queue.walked();
    });
    copier.failures.into_inner().unwrap_or_default()
}

/// The state of a copy in progress.
struct Copier<'a> {
    from: Tree<'a>,
    to: Tree<'a>,
    options: &'a Options,
    progress: &'a Progress,
    queue: Queue,
    failures: Mutex<Failures>,
}

/// A file or a symbolic link to copy.
struct Job {
    from: Path,
    to: Path,
    /// The object, if its handle is fresh.
    entry: Option<Entry>,
    /// The directory of the object, if the directory is copied too.
    parent: Option<Arc<Directory>>,
    /// How often the copy of this object was restarted.
    beginnings: u32,
}

/// A directory in progress. When the last reference to it is released, everything below it is done.
struct Directory {
    from: Option<Path>,
    to: Option<Path>,
    source: Entry,
    /// Whether the directory gets the source's mode and time.
    is_set: bool,
    parent: Option<Arc<Directory>>,
}

impl Copier<'_> {
    fn work(&self) {
        let mut buffers = Buffers::default();
        while let Some(work) = self.queue.take(|| self.progress.is_cancelled()) {
            match work {
                Work::Begin(job) => self.begin(job, &mut buffers),
                Work::Piece(long) => self.advance(&long, &mut buffers),
            }
            self.queue.done();
        }
    }

    /// Records a failure. A fatal failure ends the whole copy.
    fn fail(&self, failure: Failure) {
        if failure.is_fatal() {
            self.queue.end();
            let mut failures = lock(&self.failures);
            // Record only the first fatal failure: the other operations in flight fail for the same reason.
            if !failures.is_fatal() {
                failures.add(failure);
            }
        } else {
            lock(&self.failures).add(failure);
        }
    }
}

//! Trees of files from one file system to another.
//!
//! ```text
//!   walker: directories ──▶ made at the target; their names ──▶ queue, as long as there is room
//!   workers: queue ──▶ short file, link ──▶ done
//!                  ──▶ long file, begun ──▶ pieces ──▶ any worker ──▶ the last one finishes the file
//!   last file below a directory done ──▶ the directory gets its mode and time
//! ```
//!
//! **A name stands for a whole file or for what it stood for before.** A file is written under a name that begins with
//! [`PART_PREFIX`], beside its place, and renamed when all of it is there, was read back and is right. The rest of
//! that name is made of the file's name and of the length, time and number of its source. So whoever copies the same
//! file again finds the part that an interrupted copy left, compares it with the source piece by piece, and writes
//! only what is missing or wrong; and two that copy different files to one name do not write to one part.
//!
//! **What is kept**: content, holes, permission bits, times of modification, symbolic links as they are, empty
//! directories. Set-user-id and set-group-id bits of files are not, because the source need not be trusted. Hard links
//! become files of their own. Named pipes, sockets and devices are left out. Owners are those of whoever copies. With
//! [`Options::preserve`] owners, extended attributes, times of access, and the two bits of files whose owner is kept, too.

mod file;
mod keep;
mod link;
mod piece;
mod queue;
mod walk;

use std::sync::{Arc, Mutex};
use std::thread;

use files::{Entry, Path};

use self::piece::Buffers;
pub(crate) use self::piece::read_whole;
use self::queue::{Queue, Work};
use crate::failure::Failure;
use crate::progress::{Failures, Progress, lock};
use crate::tree::Tree;

/// What the names of files begin with that are not complete.
pub const PART_PREFIX: &str = ".finerail-part-";
/// Hexadecimal digits behind it.
const PART_DIGITS: usize = 32;

/// Whether a name is that of a file that an interrupted copy left.
#[must_use]
pub fn is_part(name: &[u8]) -> bool {
    let rest = name.strip_prefix(PART_PREFIX.as_bytes());
    rest.is_some_and(|rest| rest.len() == PART_DIGITS && rest.iter().all(u8::is_ascii_hexdigit))
}

/// What is read a second time before a file gets its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Nothing.
    None,
    /// What was written, and it is compared with what was read: for a source that is at hand.
    #[default]
    Written,
    /// The source too, so that damage on the way from it is found.
    Both,
}

/// How a tree is copied.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Operations in flight, at least 1. Each takes up to two times [`crate::PIECE`] bytes of memory.
    pub jobs: usize,
    /// Whether directories are copied, with everything below them.
    pub recursive: bool,
    /// What is read again.
    pub verify: Verify,
    /// Whether a file is left alone that is there with the same length and time of modification.
    pub skip_same: bool,
    /// Whether each file, and its name, is brought to the target's disk before it counts as done.
    pub sync: bool,
    /// Whether owners, extended attributes and times of access are kept too, as far as the target permits.
    pub preserve: bool,
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
            is_one_system: false,
        }
    }
}

/// An object and the path that it gets; `None` is the root, which is a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its path at the source.
    pub from: Option<Path>,
    /// Its path at the target, whose directory must exist.
    pub to: Option<Path>,
}

/// Copies objects from one file system to another, and says what failed. A file that exists is replaced; a directory
/// that exists gets what is not there.
///
/// When a server does not answer, or [`Progress::cancel`] was called, the copy ends after the operations under way. What
/// is complete by then has its name; the rest stays in parts that the next copy takes up.
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

/// A copy under way.
struct Copier<'a> {
    from: Tree<'a>,
    to: Tree<'a>,
    options: &'a Options,
    progress: &'a Progress,
    queue: Queue,
    failures: Mutex<Failures>,
}

/// A file or a symbolic link that is to be copied.
struct Job {
    from: Path,
    to: Path,
    /// The object, where its handle is fresh.
    entry: Option<Entry>,
    /// The directory that it is in, where that is copied too.
    parent: Option<Arc<Directory>>,
    /// How often it began.
    beginnings: u32,
}

/// A directory under way. When nobody refers to it any longer, everything below it is done.
struct Directory {
    from: Option<Path>,
    to: Option<Path>,
    source: Entry,
    /// Whether it gets the source's mode and time.
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

    /// Notes a failure; one that concerns everything ends everything.
    fn fail(&self, failure: Failure) {
        if failure.is_fatal() {
            self.queue.end();
            let mut failures = lock(&self.failures);
            // All that are under way at this time fail for the same reason.
            if !failures.is_fatal() {
                failures.add(failure);
            }
        } else {
            lock(&self.failures).add(failure);
        }
    }
}

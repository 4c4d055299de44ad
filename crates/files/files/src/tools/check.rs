//! Compares two trees.

use std::fmt;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::tools::PIECE;
use crate::tools::copy::{Item, is_part, read_whole};
use crate::tools::entries::Entries;
use crate::tools::failure::Failure;
use crate::tools::progress::{Failures, Progress, add, lock};
use crate::tools::tree::{Tree, below};
use crate::{Attributes, Entry, Kind, Path};

/// Options of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    /// Number of files that are compared at the same time, at least 1.
    pub jobs: usize,
    /// Whether files with equal length and time of modification count as equal, without a read of their contents.
    pub quick: bool,
    /// Whether permission bits and times of modification are compared too.
    pub attributes: bool,
}

/// One difference between the trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The object exists in the first tree only.
    Missing,
    /// The object exists in the second tree only.
    Extra,
    /// The objects are of different types.
    Kind,
    /// The files have these different lengths, in bytes: in the first tree, and in the second.
    Size(u64, u64),
    /// The contents differ at this offset or less than [`PIECE`] bytes behind it.
    Content(u64),
    /// The symbolic links have different targets.
    Target,
    /// The permission bits differ: in the first tree, and in the second.
    Mode(u32, u32),
    /// The times of modification differ.
    Modified,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("missing"),
            Self::Extra => f.write_str("only there"),
            Self::Kind => f.write_str("of another kind"),
            Self::Size(one, other) => write!(f, "{other} bytes instead of {one}"),
            Self::Content(offset) => write!(f, "other content, at byte {offset}"),
            Self::Target => f.write_str("points elsewhere"),
            Self::Mode(one, other) => write!(f, "mode {other:04o} instead of {one:04o}"),
            Self::Modified => f.write_str("another time of modification"),
        }
    }
}

/// Compares two objects and, for directories, everything below them. Calls `found` for each difference, with the path
/// in the second tree. An object that cannot be compared is a failure.
#[must_use]
pub fn check(
    one: Tree<'_>,
    other: Tree<'_>,
    item: &Item,
    options: &CheckOptions,
    progress: &Progress,
    found: &(dyn Fn(Option<&Path>, Difference) + Sync),
) -> Failures {
    let checker = Checker {
        one,
        other,
        options,
        progress,
        found,
        failures: Mutex::default(),
    };
    let jobs = options.jobs.max(1);
    let (sender, receiver) = sync_channel(jobs * 4);
    let receiver = Mutex::new(receiver);
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| checker.work(&receiver));
        }
        checker.walk(item, &sender);
        drop(sender);
    });
    checker.failures.into_inner().unwrap_or_default()
}

struct Checker<'a> {
    one: Tree<'a>,
    other: Tree<'a>,
    options: &'a CheckOptions,
    progress: &'a Progress,
    found: &'a (dyn Fn(Option<&Path>, Difference) + Sync),
    failures: Mutex<Failures>,
}

/// Two files of the same length, to be compared.
struct Pair {
    from: Option<Path>,
    to: Option<Path>,
    one: Entry,
    other: Entry,
}

impl Checker<'_> {
    fn fail(&self, failure: Failure) {
        if failure.is_fatal() {
            self.progress.cancel();
        }
        lock(&self.failures).add(failure);
    }

    fn work(&self, pairs: &Mutex<Receiver<Pair>>) {
        let mut memory = (Vec::new(), Vec::new());
        loop {
            let next = lock(pairs).recv();
            let Ok(pair) = next else { return };
            // Continue to receive pairs: otherwise the sender would wait for space in the channel for ever.
            if self.progress.is_cancelled() {
                continue;
            }
            match self.compare(&pair, &mut memory) {
                Ok(None) => add(&self.progress.files, 1),
                Ok(Some(difference)) => (self.found)(pair.to.as_ref(), difference),
                Err(failure) => self.fail(failure),
            }
        }
    }

    /// Compares the contents of two files of the same length.
    fn compare(
        &self,
        pair: &Pair,
        (first, second): &mut (Vec<u8>, Vec<u8>),
    ) -> Result<Option<Difference>, Failure> {
        let size = pair.one.attributes.size;
        let mut offset = 0;
        while offset < size && !self.progress.is_cancelled() {
            let length = PIECE.min(size - offset) as usize;
            first.resize(length, 0);
            second.resize(length, 0);
            let one = read_whole(self.one, pair.one.handle, offset, first);
            let other = read_whole(self.other, pair.other.handle, offset, second);
            let one = one.map_err(|errno| self.one.failure("read", pair.from.as_ref(), errno))?;
            let other =
                other.map_err(|errno| self.other.failure("read", pair.to.as_ref(), errno))?;
            if !one || !other || first != second {
                let same = first.iter().zip(&*second).take_while(|(a, b)| a == b);
                return Ok(Some(Difference::Content(offset + same.count() as u64)));
            }
            add(&self.progress.bytes, length as u64);
            offset += length as u64;
        }
        Ok(None)
    }

    fn walk(&self, top: &Item, pairs: &SyncSender<Pair>) {
        let mut stack = Vec::new();
        stack.extend(self.enter(top.clone(), pairs));
        while let Some((item, entries)) = stack.last_mut() {
            if self.progress.is_cancelled() {
                return;
            }
            match entries.next() {
                Some(Ok(found)) if is_part(found.path.split_last().1) => {}
                Some(Ok(found)) => {
                    let below = self.item_below(item, found.path.split_last().1);
                    stack.extend(below.and_then(|below| self.enter(below, pairs)));
                }
                Some(Err(failure)) => self.fail(failure),
                None => {
                    self.find_extras(item);
                    stack.pop();
                }
            }
        }
    }

    /// Compares two objects. Returns the entries to compare below them if both are directories.
    fn enter(&self, item: Item, pairs: &SyncSender<Pair>) -> Option<(Item, Entries<'_>)> {
        let entered = self.visit(&item, pairs).and_then(|is_directory| {
            let path = item.from.as_ref();
            let entry = is_directory.then(|| self.one.lookup(path)).transpose()?;
            Ok(entry.map(|entry| Entries::new(self.one, item.from.clone(), entry.handle)))
        });
        match entered {
            Ok(entries) => Some((item, entries?)),
            Err(failure) => {
                self.fail(failure);
                None
            }
        }
    }

    /// Compares two objects. Returns true if both are directories.
    fn visit(&self, item: &Item, pairs: &SyncSender<Pair>) -> Result<bool, Failure> {
        let one = self.one.lookup_if_any(item.from.as_ref())?;
        let other = self.other.lookup_if_any(item.to.as_ref())?;
        let (one, other) = match (one, other) {
            (Some(one), Some(other)) => (one, other),
            (Some(_), None) => return Ok(self.tell(item, Difference::Missing)),
            (None, Some(_)) => return Ok(self.tell(item, Difference::Extra)),
            (None, None) => return self.one.lookup(item.from.as_ref()).map(|_| false),
        };
        let (kind, other_kind) = (one.attributes.kind, other.attributes.kind);
        if kind != other_kind {
            return Ok(self.tell(item, Difference::Kind));
        }
        if self.options.attributes && kind != Kind::Symlink {
            self.compare_attributes(item, &one.attributes, &other.attributes);
        }
        match kind {
            Kind::Directory => {
                add(&self.progress.directories, 1);
                Ok(true)
            }
            Kind::File => self.files(item, one, other, pairs),
            Kind::Symlink => self.links(item, &one, &other),
            _ => Ok(false),
        }
    }

    fn tell(&self, item: &Item, difference: Difference) -> bool {
        (self.found)(item.to.as_ref(), difference);
        false
    }

    fn compare_attributes(&self, item: &Item, one: &Attributes, other: &Attributes) {
        if one.mode != other.mode {
            self.tell(item, Difference::Mode(one.mode, other.mode));
        }
        if one.modified != other.modified {
            self.tell(item, Difference::Modified);
        }
    }

    fn files(
        &self,
        item: &Item,
        one: Entry,
        other: Entry,
        pairs: &SyncSender<Pair>,
    ) -> Result<bool, Failure> {
        let (size, other_size) = (one.attributes.size, other.attributes.size);
        add(&self.progress.found_files, 1);
        if size != other_size {
            return Ok(self.tell(item, Difference::Size(size, other_size)));
        }
        if self.options.quick && one.attributes.modified == other.attributes.modified {
            add(&self.progress.files, 1);
            return Ok(false);
        }
        add(&self.progress.found_bytes, size);
        let Item { from, to } = item.clone();
        // The send cannot fail, because the workers end after the walk.
        let _sent = pairs.send(Pair {
            from,
            to,
            one,
            other,
        });
        Ok(false)
    }

    fn links(&self, item: &Item, one: &Entry, other: &Entry) -> Result<bool, Failure> {
        let read = |tree: Tree<'_>, path: Option<&Path>, entry: &Entry| {
            let target = tree.files.readlink(tree.caller, entry.handle);
            target.map_err(|errno| tree.failure("read", path, errno))
        };
        let one = read(self.one, item.from.as_ref(), one)?;
        let other = read(self.other, item.to.as_ref(), other)?;
        if one != other {
            return Ok(self.tell(item, Difference::Target));
        }
        add(&self.progress.links, 1);
        Ok(false)
    }

    /// Reports the names that only the directory of the second tree has.
    fn find_extras(&self, item: &Item) {
        let entry = match self.other.lookup(item.to.as_ref()) {
            Ok(entry) => entry,
            Err(failure) => return self.fail(failure),
        };
        for found in Entries::new(self.other, item.to.clone(), entry.handle) {
            let looked_up = found.and_then(|found| {
                let name = found.path.split_last().1;
                let below = self.item_below(item, name).filter(|_| !is_part(name));
                let Some(Item { from, to }) = below else {
                    return Ok(());
                };
                if self.one.lookup_if_any(from.as_ref())?.is_none() {
                    (self.found)(to.as_ref(), Difference::Extra);
                }
                Ok(())
            });
            if let Err(failure) = looked_up {
                self.fail(failure);
            }
            if self.progress.is_cancelled() {
                return;
            }
        }
    }

    fn item_below(&self, item: &Item, name: &[u8]) -> Option<Item> {
        let joined = below(item.from.as_ref(), name)
            .and_then(|from| Ok((from, below(item.to.as_ref(), name)?)));
        match joined {
            Ok((from, to)) => Some(Item {
                from: Some(from),
                to: Some(to),
            }),
            Err(errno) => {
                self.fail(self.other.failure("find", item.to.as_ref(), errno));
                None
            }
        }
    }
}

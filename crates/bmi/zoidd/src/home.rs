//! An instance's traces on the machine: a directory, a lock, and a journal of names.
//!
//! ```text
//!  DIRECTORY/zbmi.INSTANCE.lock      held (flock) as long as the daemon lives, however it ends
//!  DIRECTORY/zbmi.INSTANCE.journal   every name, written before it is created:
//!      queue /zbmi.default.ctl
//!      segment /zbmi.default
//!      socket /run/user/1000/zbmi.default.sock
//!      replies 4711 88541            reply queues of process 4711, which started at tick 88541
//! ```
//!
//! A process that holds the lock knows that the names in the journal are leftovers. Queues cannot be listed
//! if the mqueue file system is not mounted, so the journal is their only trace. Reply queues belong to a
//! server and stay as long as that process lives. A server writes its own line before it creates its first
//! queue; lines are appended completely.
//!
//! Queue and segment are named by the instance alone, whatever the directory is. The segment is therefore
//! locked as well, as long as its daemon lives, so that no daemon with another directory removes it as a
//! leftover.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sys::SharedMemory;
use tracing::{debug, info};
use zoid_proto::ctl::REPLY_SLOTS;
use zoid_proto::{Instance, runtime_directories};

use crate::error::Error;

/// A line of the journal.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Entry {
    /// A message queue.
    Queue(String),
    /// A shared-memory object.
    Segment(String),
    /// A Unix-domain socket.
    Socket(PathBuf),
    /// The reply queues of a process: its number and start, in clock ticks since boot.
    Replies { process: u32, start: u64 },
}

/// The number of leftovers that were removed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Removed {
    /// Message queues.
    pub queues: usize,
    /// Shared-memory objects.
    pub segments: usize,
    /// Unix-domain sockets.
    pub sockets: usize,
}

impl Removed {
    /// Returns whether there was nothing to remove.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            queues,
            segments,
            sockets,
        } = self;
        write!(f, "{queues} queues, {segments} segments, {sockets} sockets")
    }
}

/// The directory of an instance, with its lock held and its journal open.
#[derive(Debug)]
pub(crate) struct Home {
    instance: Instance,
    directory: PathBuf,
    /// Unlocked when closed, at the latest at the end of the process.
    _lock: File,
    /// The segment, locked.
    segment: Option<SharedMemory>,
    journal: File,
    /// The entries of the journal, so that a server that attaches repeatedly adds one line only.
    recorded: BTreeSet<Entry>,
}

impl Home {
    /// Takes the lock and removes what an earlier daemon left.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyRunning`]: the lock is held.
    pub(crate) fn take(
        instance: &Instance,
        directory: Option<&Path>,
    ) -> Result<(Self, Removed), Error> {
        let directory = prepare_directory(directory)?;
        let lock = lock(instance, &directory.join(instance.lock_file()))?;
        let path = directory.join(instance.journal_file());
        let leftover = lock_segment(instance).inspect_err(|_| {
            if !path.exists() {
                remove_file(&directory.join(instance.lock_file()));
            }
        })?;
        let old = read_journal(&path);
        let (kept, removed) = remove_leftovers(instance, old, Names::Ours);
        drop(leftover);
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        let journal = sys::without_following(&mut options)
            .open(&path)
            .map_err(Error::file("open", &path))?;
        journal.set_len(0).map_err(Error::file("empty", &path))?;
        let mut home = Self {
            instance: instance.clone(),
            directory,
            _lock: lock,
            segment: None,
            journal,
            recorded: BTreeSet::new(),
        };
        for entry in kept {
            home.record(&entry)?;
        }
        Ok((home, removed))
    }

    /// Returns the directory of lock, journal and sockets.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Records a name; must be called before the name is created.
    // [DEATH-41]
    pub(crate) fn record(&mut self, entry: &Entry) -> Result<(), Error> {
        if !self.recorded.insert(entry.clone()) {
            return Ok(());
        }
        let path = self.directory.join(self.instance.journal_file());
        let line = format!("{entry}\n");
        self.journal
            .write_all(line.as_bytes())
            .map_err(Error::file("write", &path))
    }

    /// Locks the segment, which has just been created.
    pub(crate) fn hold_segment(&mut self) -> Result<(), Error> {
        self.segment = lock_segment(&self.instance)?;
        Ok(())
    }

    /// Removes every name, including journal and lock: the orderly end.
    pub(crate) fn leave(mut self) -> Removed {
        let path = self.directory.join(self.instance.journal_file());
        let segment = match self.segment.take() {
            Some(ours) => Ok(Some(ours)),
            // The start failed, perhaps because another daemon started first.
            None => lock_segment(&self.instance),
        };
        let names = match &segment {
            Ok(_) => Names::Ours,
            Err(_) => Names::Others,
        };
        let (kept, removed) = remove_leftovers(&self.instance, read_journal(&path), names);
        drop(segment);
        if kept.is_empty() {
            remove_file(&path);
            // Removed while locked: a process that has opened it sees that the path no longer leads to it.
            remove_file(&self.directory.join(self.instance.lock_file()));
        } else {
            debug!(?kept, "reply queues of a living server stay");
        }
        removed
    }
}

/// Removes what a dead daemon of this instance and its dead servers left behind.
///
/// # Errors
///
/// [`Error::AlreadyRunning`]: a daemon is running.
// [DEATH-43]
pub fn cleanup(instance: &Instance, directory: Option<&Path>) -> Result<Removed, Error> {
    let (home, first) = Home::take(instance, directory)?;
    let second = home.leave();
    Ok(Removed {
        queues: first.queues + second.queues,
        segments: first.segments + second.segments,
        sockets: first.sockets + second.sockets,
    })
}

/// Returns the directory that a daemon without `--directory` would use, if it exists and belongs to this user
/// alone.
#[must_use]
pub fn find_directory(user: u32) -> Option<PathBuf> {
    let candidates = runtime_directories(user).map(PathBuf::from);
    // In /tmp, the directory may be one of another user, or a link.
    let is_own = |path: &PathBuf| path.is_dir() && sys::own_directory(path, 0o022).is_ok();
    candidates.into_iter().find(is_own)
}

// [SAFE-2]
fn prepare_directory(given: Option<&Path>) -> Result<PathBuf, Error> {
    let user = sys::effective_user();
    let [first, fallback] = runtime_directories(user).map(PathBuf::from);
    let path = match given {
        Some(path) => path.to_path_buf(),
        None if first.is_dir() => first,
        None => fallback,
    };
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(Error::file("create", &path)(error));
        }
        _ => {}
    }
    match sys::own_directory(&path, 0o022) {
        Ok(_) => Ok(path),
        Err(problem) => match problem.kind() {
            ErrorKind::PermissionDenied | ErrorKind::NotADirectory => {
                Err(Error::UnsafeDirectory { path, problem })
            }
            _ => Err(Error::file("use", &path)(problem)),
        },
    }
}

/// Locks the file that is at `path` after locking; a lock on a file that a leaving daemon has removed means
/// nothing.
// [DEATH-40]
fn lock(instance: &Instance, path: &Path) -> Result<File, Error> {
    loop {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = sys::without_following(&mut options)
            .open(path)
            .map_err(Error::file("open", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let (instance, path) = (instance.clone(), path.to_path_buf());
                return Err(Error::AlreadyRunning { instance, path });
            }
            Err(TryLockError::Error(error)) => return Err(Error::file("lock", path)(error)),
        }
        let ours = file
            .metadata()
            .map_err(Error::file("read the status of", path))?
            .ino();
        if fs::metadata(path).is_ok_and(|there| there.ino() == ours) {
            return Ok(file);
        }
    }
}

/// Locks the segment that has the instance's name, if there is one.
///
/// # Errors
///
/// [`Error::AlreadyRunning`]: its daemon lives.
fn lock_segment(instance: &Instance) -> Result<Option<SharedMemory>, Error> {
    let path = Path::new("/dev/shm").join(instance.segment().trim_start_matches('/'));
    // A segment that cannot be opened belongs to another user and cannot be removed either.
    let Ok(segment) = SharedMemory::open(&instance.segment()) else {
        return Ok(None);
    };
    match segment.try_lock() {
        Ok(()) => Ok(Some(segment)),
        Err(TryLockError::WouldBlock) => Err(Error::AlreadyRunning {
            instance: instance.clone(),
            path,
        }),
        Err(TryLockError::Error(error)) => Err(Error::file("lock", &path)(error)),
    }
}

fn read_journal(path: &Path) -> BTreeSet<Entry> {
    // If there is no journal, or a link in its place, no names are known.
    let mut text = String::new();
    let opened = sys::without_following(OpenOptions::new().read(true)).open(path);
    let _unknown = opened.and_then(|mut journal| journal.read_to_string(&mut text));
    text.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Entry> {
    let (kind, rest) = line.split_once(' ')?;
    Some(match kind {
        "queue" => Entry::Queue(rest.to_owned()),
        "segment" => Entry::Segment(rest.to_owned()),
        "socket" => Entry::Socket(PathBuf::from(rest)),
        "replies" => {
            let (process, start) = rest.split_once(' ')?;
            Entry::Replies {
                process: process.parse().ok()?,
                start: start.parse().ok()?,
            }
        }
        _ => return None,
    })
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => write!(f, "queue {name}"),
            Self::Segment(name) => write!(f, "segment {name}"),
            Self::Socket(path) => write!(f, "socket {}", path.display()),
            Self::Replies { process, start } => write!(f, "replies {process} {start}"),
        }
    }
}

/// The owner of an instance's queue and segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Nobody, or the caller.
    Ours,
    /// A living daemon with another directory.
    Others,
}

/// Removes every name in the journal, and the two names that an instance always has, in case the journal is
/// lost. Returns the entries that must stay: the queues of living servers.
// [DEATH-42]
fn remove_leftovers(
    instance: &Instance,
    journal: BTreeSet<Entry>,
    names: Names,
) -> (Vec<Entry>, Removed) {
    let mut entries = journal;
    match names {
        Names::Ours => entries.extend([
            Entry::Queue(instance.control_queue()),
            Entry::Segment(instance.segment()),
        ]),
        Names::Others => {
            entries.retain(|entry| !matches!(entry, Entry::Queue(_) | Entry::Segment(_)));
        }
    }
    let mut kept = Vec::new();
    let mut removed = Removed::default();
    for entry in entries {
        match &entry {
            // Any process of this user can write the journal, so only names of this instance are accepted.
            // [SAFE-3]
            Entry::Queue(name) if *name == instance.control_queue() => {
                removed.queues += usize::from(sys::unlink_queue(name).is_ok());
            }
            Entry::Segment(name) if *name == instance.segment() => {
                removed.segments += usize::from(sys::unlink_shared_memory(name).is_ok());
            }
            Entry::Socket(path) if is_socket(path) => {
                removed.sockets += usize::from(remove_file(path));
            }
            Entry::Replies { process, start } => {
                if sys::process_start(*process) == Some(*start) {
                    kept.push(entry);
                } else {
                    removed.queues += remove_replies(instance, *process);
                }
            }
            Entry::Queue(_) | Entry::Segment(_) | Entry::Socket(_) => {}
        }
    }
    if !removed.is_empty() {
        info!(%instance, %removed, "removed");
    }
    (kept, removed)
}

/// Removes the reply queues of a dead server. Returns their number.
pub(crate) fn remove_replies(instance: &Instance, process: u32) -> usize {
    let names = (0..REPLY_SLOTS).map(|slot| instance.reply_queue(process, slot));
    names.filter(|name| sys::unlink_queue(name).is_ok()).count()
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

fn remove_file(path: &Path) -> bool {
    fs::remove_file(path).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use sys::{MessageQueue, QueueAccess, QueueShape};

    use super::*;

    fn instance(what: &str) -> Instance {
        format!("h{}-{what}", std::process::id()).parse().unwrap()
    }

    fn entries() -> Vec<Entry> {
        vec![
            Entry::Queue("/zbmi.a.ctl".to_owned()),
            Entry::Segment("/zbmi.a".to_owned()),
            Entry::Socket(PathBuf::from("/tmp/with space/a.sock")),
            Entry::Replies {
                process: 17,
                start: 4711,
            },
        ]
    }

    #[test]
    fn entries_read_back_as_written_and_broken_lines_name_nothing() {
        for entry in entries() {
            assert_eq!(parse(&entry.to_string()), Some(entry));
        }
        for broken in ["", "queue", "replies 1", "replies x 1", "other /x"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }

    // [DEATH-40]
    #[test]
    fn a_second_daemon_of_an_instance_is_refused_while_the_first_lives() {
        let directory = tempfile::tempdir().unwrap();
        let instance = instance("second");
        let (first, _) = Home::take(&instance, Some(directory.path())).unwrap();
        let second = Home::take(&instance, Some(directory.path())).unwrap_err();
        assert!(matches!(second, Error::AlreadyRunning { .. }), "{second}");
        drop(first);
        Home::take(&instance, Some(directory.path())).unwrap();
    }

    // [DEATH-40]
    #[test]
    fn a_daemon_with_another_directory_keeps_its_names() {
        let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let instance = instance("robbed");
        let (mut first, _) = Home::take(&instance, Some(one.path())).unwrap();
        let _segment = SharedMemory::create(&instance.segment(), 4096).unwrap();
        first.hold_segment().unwrap();
        let there = || SharedMemory::open(&instance.segment()).is_ok();
        let error = cleanup(&instance, Some(two.path())).unwrap_err();
        assert!(matches!(error, Error::AlreadyRunning { .. }), "{error}");
        assert_eq!(fs::read_dir(two.path()).unwrap().count(), 0);
        assert!(there());
        // As if killed: the names then belong to the daemon that asks first.
        drop(first);
        let (mut second, removed) = Home::take(&instance, Some(two.path())).unwrap();
        assert_eq!((removed.segments, there()), (1, false));
        let _segment = SharedMemory::create(&instance.segment(), 4096).unwrap();
        second.hold_segment().unwrap();
        assert_eq!(second.leave().segments, 1);
        assert!(!there());
    }

    #[test]
    fn a_start_that_fails_removes_nothing_of_who_was_quicker() {
        let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let instance = instance("quicker");
        let (slower, _) = Home::take(&instance, Some(one.path())).unwrap();
        let (mut quicker, _) = Home::take(&instance, Some(two.path())).unwrap();
        let _segment = SharedMemory::create(&instance.segment(), 4096).unwrap();
        quicker.hold_segment().unwrap();
        assert!(slower.leave().is_empty());
        assert_eq!(quicker.leave().segments, 1);
    }

    // [DEATH-42]
    #[test]
    fn leftovers_of_a_dead_daemon_are_removed_and_a_living_servers_queues_stay() {
        let directory = tempfile::tempdir().unwrap();
        let instance = instance("left");
        let own = std::process::id();
        let shape = QueueShape {
            messages: 1,
            message_bytes: 64,
        };
        let create = |name: &str| MessageQueue::create(name, QueueAccess::Receive, shape).unwrap();
        let (mut home, _) = Home::take(&instance, Some(directory.path())).unwrap();
        let dead = Entry::Replies {
            process: own,
            start: 1,
        };
        home.record(&dead).unwrap();
        let _control = create(&instance.control_queue());
        let _reply = create(&instance.reply_queue(own, 3));
        let _segment = SharedMemory::create(&instance.segment(), 4096).unwrap();
        let socket = directory.path().join(instance.socket_file());
        home.record(&Entry::Socket(socket.clone())).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        // As if killed, without cleaning up.
        drop(home);
        let expected = Removed {
            queues: 2,
            segments: 1,
            sockets: 1,
        };
        let (mut home, removed) = Home::take(&instance, Some(directory.path())).unwrap();
        assert_eq!(removed, expected);
        let living = Entry::Replies {
            process: own,
            start: sys::process_start(own).unwrap(),
        };
        home.record(&living).unwrap();
        let _reply = create(&instance.reply_queue(own, 0));
        drop(home);
        let (_home, removed) = Home::take(&instance, Some(directory.path())).unwrap();
        assert!(removed.is_empty(), "{removed}");
        assert_eq!(remove_replies(&instance, own), 1);
    }

    // [DEATH-41]
    #[test]
    fn a_name_is_written_down_once() {
        let directory = tempfile::tempdir().unwrap();
        let instance = instance("once");
        let (mut home, _) = Home::take(&instance, Some(directory.path())).unwrap();
        for entry in entries().iter().chain(&entries()) {
            home.record(entry).unwrap();
        }
        let text = fs::read_to_string(directory.path().join(instance.journal_file())).unwrap();
        assert_eq!(text.lines().count(), entries().len(), "{text}");
    }

    #[test]
    fn leaving_in_good_order_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let instance = instance("leave");
        let (home, _) = Home::take(&instance, Some(directory.path())).unwrap();
        home.leave();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(
            cleanup(&instance, Some(directory.path()))
                .unwrap()
                .is_empty()
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    // [SAFE-2]
    #[test]
    fn a_journal_is_not_followed_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let instance = instance("link");
        let victim = directory.path().join("victim");
        fs::write(&victim, "precious\n").unwrap();
        let path = directory.path().join(instance.journal_file());
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let error = Home::take(&instance, Some(directory.path())).err().unwrap();
        assert!(error.to_string().contains("journal"), "{error}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n");
        assert!(read_journal(&path).is_empty());
    }

    // [SAFE-3]
    #[test]
    fn a_journal_that_names_things_of_others_removes_nothing_of_theirs() {
        let directory = tempfile::tempdir().unwrap();
        let instance = instance("hostile");
        let victim = directory.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let lines = format!("socket {}\nqueue /zbmi.other.ctl\n", victim.display());
        fs::write(directory.path().join(instance.journal_file()), lines).unwrap();
        let removed = cleanup(&instance, Some(directory.path())).unwrap();
        assert!(removed.is_empty(), "{removed}");
        assert!(victim.exists());
    }

    // [SAFE-2]
    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(directory.path(), open).unwrap();
        let error = Home::take(&instance("open"), Some(directory.path())).unwrap_err();
        assert!(matches!(error, Error::UnsafeDirectory { .. }), "{error}");
    }
}

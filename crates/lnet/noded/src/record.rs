//! The file that a node records into.
//!
//! ```text
//!  node's lock:  Writer ─▶ Recording::take ─▶ pending bytes ─┐
//!  thread:                       every 200 ms, or when woken └─▶ file
//! ```
//!
//! The node never waits for the disk. If inputs do not fit into the pending bytes or into the file, the record ends,
//! because a record with a hole could not be replayed behind the hole. The end item says why the record ended and how
//! many inputs are missing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lnet_core::record_file::{End, Ended, Sink, Writer, end_item};
use lnet_core::{Recorded, Recorder};
use tracing::{info, warn};

/// The most bytes that wait for the disk: a second or more of a busy node.
const PENDING_MAX: usize = 8 << 20;

/// The number of pending bytes that wakes the thread. Without a wake-up, it looks after [`LOOK`].
const PENDING_WAKES: usize = 256 << 10;

const LOOK: Duration = Duration::from_millis(200);

/// The smallest limit of a file, in bytes: the beginning and an end item fit.
const LIMIT_MIN: u64 = 64 << 10;

/// The bytes reserved for the end item.
const END_ROOM: u64 = 4 << 10;

/// A file that a node records into. Dropping this value ends the record and waits for the disk.
#[derive(Debug)]
pub struct RecordFile {
    shared: Arc<Shared>,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
}

/// Read access to a record, which remains after the record has ended.
#[derive(Clone, Debug)]
pub(crate) struct RecordView {
    shared: Arc<Shared>,
    path: PathBuf,
}

/// The state of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordStatus {
    /// The path of the file.
    pub path: PathBuf,
    /// The length of the record in bytes, including bytes not yet on the disk.
    pub bytes: u64,
    /// The limit of the length in bytes.
    pub limit: u64,
    /// The number of inputs in the record.
    pub events: u64,
    /// Why the record has ended and how many inputs are missing so far; `None` while it continues.
    pub ended: Option<Ended>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    limit: u64,
}

#[derive(Debug, Default)]
struct State {
    pending: Vec<u8>,
    bytes: u64,
    events: u64,
    missing: u64,
    /// Why the record has ended; `None` while it accepts inputs.
    end: Option<End>,
    /// True when the node has ended or the record is no longer wanted.
    closing: bool,
}

/// The core's end of the record.
#[derive(Debug)]
struct Recording(Arc<Shared>);

impl RecordFile {
    /// Creates the file, readable by its owner only, and the recorder that fills it. An existing file is renamed to
    /// `FILE.1`. `limit` in bytes is raised to at least 64 KiB; `software` tells readers what the node runs.
    ///
    /// # Errors
    ///
    /// The file or the thread cannot be created, or `path` is there and is not a file.
    pub fn create(
        path: &Path,
        limit: u64,
        software: &str,
    ) -> io::Result<(Self, Box<dyn Recorder>)> {
        keep_older(path)?;
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            limit: limit.max(LIMIT_MIN),
        });
        let body = {
            let (shared, path) = (Arc::clone(&shared), path.to_owned());
            move || shared.write(file, &path)
        };
        let thread = thread::Builder::new().name("record".into()).spawn(body)?;
        let recorder = Writer::new(Recording(Arc::clone(&shared)), software);
        info!(file = %path.display(), "recording the node's inputs");
        let file = Self {
            shared,
            // A client that asks for the path may run in another directory.
            path: std::path::absolute(path)?,
            thread: Some(thread),
        };
        Ok((file, Box::new(recorder)))
    }

    /// Returns the state of the record.
    #[must_use]
    pub fn status(&self) -> RecordStatus {
        self.view().status()
    }

    pub(crate) fn view(&self) -> RecordView {
        RecordView {
            shared: Arc::clone(&self.shared),
            path: self.path.clone(),
        }
    }
}

impl RecordView {
    pub(crate) fn status(&self) -> RecordStatus {
        let state = self.shared.lock();
        RecordStatus {
            path: self.path.clone(),
            bytes: state.bytes,
            limit: self.shared.limit,
            events: state.events,
            ended: state.ended(),
        }
    }
}

impl Drop for RecordFile {
    fn drop(&mut self) {
        self.shared.close();
        if self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            warn!("the thread of the record ended with a panic");
        }
    }
}

impl Sink for Recording {
    fn take(&mut self, items: &[u8], inputs: u64) -> bool {
        let mut state = self.0.lock();
        let length = items.len() as u64;
        if state.end.is_none() {
            if state.bytes + length > self.0.limit - END_ROOM {
                state.end = Some(End::Limit);
            } else if state.pending.len() + items.len() > PENDING_MAX {
                state.end = Some(End::TooSlow);
            }
        }
        if state.end.is_some() {
            state.missing += inputs;
            return false;
        }
        let begins = state.bytes == 0;
        let before = state.pending.len();
        state.pending.extend_from_slice(items);
        state.bytes += length;
        state.events += inputs;
        let after = state.pending.len();
        drop(state);
        if begins || before < PENDING_WAKES && after >= PENDING_WAKES {
            self.0.changed.notify_one();
        }
        true
    }

    fn progress(&self) -> Recorded {
        let state = self.0.lock();
        Recorded {
            events: state.events,
            bytes: state.bytes,
            missing: state.missing,
        }
    }
}

/// Ends the file: the core has dropped the recorder, because the node ended or was told to stop the record.
impl Drop for Recording {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl State {
    fn ended(&self) -> Option<Ended> {
        self.end.clone().map(|why| Ended {
            why,
            missing: self.missing,
        })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that no more inputs come: the thread writes the end.
    fn close(&self) {
        let mut state = self.lock();
        state.end.get_or_insert(End::Stopped);
        state.closing = true;
        drop(state);
        self.changed.notify_one();
    }

    /// Runs the thread: writes the inputs, then the end, and rewrites the end once the number of missing inputs is
    /// known.
    fn write(&self, mut file: File, path: &Path) {
        if let Err(error) = self.write_inputs(&mut file) {
            let error = error.to_string();
            self.lock().end = Some(End::Failed { error });
        }
        let Some(ended) = self.lock().ended() else {
            return;
        };
        if ended.why != End::Stopped {
            warn!(file = %path.display(), "the record ends: {ended}");
        }
        if let Err(error) = self.write_end(&mut file, &ended) {
            warn!(file = %path.display(), "the end of the record cannot be written: {error}");
        }
    }

    fn write_inputs(&self, file: &mut File) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            let mut state = self.lock();
            let begins = state.bytes == state.pending.len() as u64 && state.bytes > 0;
            if state.end.is_none() && state.pending.len() < PENDING_WAKES && !begins {
                let waited = self.changed.wait_timeout(state, LOOK);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            std::mem::swap(&mut state.pending, &mut bytes);
            let ended = state.end.is_some();
            drop(state);
            file.write_all(&bytes)?;
            bytes.clear();
            if ended {
                return Ok(());
            }
        }
    }

    /// Writes the end. A failed write may have left a part of an item; the end behind it cannot be found then.
    fn write_end(&self, file: &mut File, first: &Ended) -> io::Result<()> {
        let at = file.stream_position()?;
        file.write_all(&end_item(first))?;
        let mut state = self.lock();
        while !state.closing {
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let Some(last) = state.ended().filter(|last| last != first) else {
            return Ok(());
        };
        drop(state);
        file.seek(SeekFrom::Start(at))?;
        file.set_len(at)?;
        file.write_all(&end_item(&last))
    }
}

/// Renames the record of an earlier run: somebody may need it.
fn keep_older(path: &Path) -> io::Result<()> {
    let there = match fs::symlink_metadata(path) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !there.is_file() {
        let what = "it exists and is not a file";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    let mut older = path.to_owned().into_os_string();
    older.push(".1");
    fs::rename(path, older)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use lnet_core::record_file::{Log, Replay};
    use lnet_core::{Core, CoreConfig, Entropy, Globals, RouterBuffers};
    use lnet_types::Time;

    use super::*;

    fn core(recorder: Box<dyn Recorder>) -> Core {
        let config = CoreConfig {
            entropy: Entropy::from_seed(1),
            seed: 1,
            globals: Globals::default(),
            buffers: RouterBuffers::default(),
            routing: false,
            pid: 12345,
        };
        let mut core = Core::new(config, Time::ZERO);
        core.record(recorder).unwrap();
        core
    }

    /// Returns how many inputs of the file replay, and the file's end.
    fn replayed(path: &Path) -> (u64, Ended) {
        let bytes = fs::read(path).unwrap();
        let mut replay = Replay::new(Log::open(bytes.as_slice()).unwrap());
        let mut last = 0;
        while let Some(step) = replay.step(false).unwrap() {
            assert_ne!(step.agrees, Some(false));
            last = step.number;
        }
        (last, replay.log().ended().unwrap().clone())
    }

    fn in_directory() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.rec");
        (directory, path)
    }

    #[test]
    fn a_record_is_its_owners_alone_and_ends_with_the_node() {
        let (_directory, path) = in_directory();
        let (file, recorder) = RecordFile::create(&path, 1 << 20, "a test").unwrap();
        let mut core = core(recorder);
        core.set_lazy(30).unwrap();
        drop(core);
        drop(file);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (events, ended) = replayed(&path);
        assert_eq!((events, ended.why, ended.missing), (1, End::Stopped, 0));
    }

    #[test]
    fn a_full_record_ends_and_says_what_is_missing() {
        let (_directory, path) = in_directory();
        let (file, recorder) = RecordFile::create(&path, 0, "a test").unwrap();
        let mut core = core(recorder);
        for _ in 0..10_000 {
            core.set_lazy(30).unwrap();
        }
        let status = file.status();
        drop(file);
        assert!(fs::metadata(&path).unwrap().len() <= LIMIT_MIN);
        let (events, ended) = replayed(&path);
        assert_eq!(status.ended, Some(ended.clone()));
        assert_eq!(ended.why, End::Limit);
        // The last input may have no decision in the record.
        assert!((9_999..=10_000).contains(&(events + ended.missing)));
    }

    #[test]
    fn a_record_ends_when_the_core_is_told_to_record_no_more() {
        let (_directory, path) = in_directory();
        let (file, recorder) = RecordFile::create(&path, 1 << 20, "a test").unwrap();
        let mut core = core(recorder);
        core.set_lazy(30).unwrap();
        let recorded = core.recorded().unwrap();
        assert_eq!((recorded.events, recorded.missing), (1, 0));
        assert_eq!(recorded.bytes, file.status().bytes);
        drop(core.end_record());
        core.set_lazy(31).unwrap();
        assert_eq!(core.recorded(), None);
        drop(file);
        let (events, ended) = replayed(&path);
        assert_eq!((events, ended.why, ended.missing), (1, End::Stopped, 0));
    }

    #[test]
    fn an_older_record_is_kept_once() {
        let (_directory, path) = in_directory();
        fs::write(&path, "older").unwrap();
        drop(RecordFile::create(&path, 0, "a test").unwrap());
        let older = path.with_extension("rec.1");
        assert_eq!(fs::read_to_string(older).unwrap(), "older");
    }

    #[test]
    fn a_record_never_goes_through_a_link_or_into_a_device() {
        let (directory, path) = in_directory();
        let target = directory.path().join("precious");
        fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        RecordFile::create(&path, 0, "a test").unwrap_err();
        RecordFile::create(Path::new("/dev/null"), 0, "a test").unwrap_err();
        assert_eq!(fs::read_to_string(target).unwrap(), "precious");
    }

    #[test]
    fn a_disk_that_fails_ends_the_record_and_not_the_node() {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            limit: 1 << 20,
        });
        let mut recording = Recording(Arc::clone(&shared));
        assert!(recording.take(b"items", 1));
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        shared.lock().closing = true;
        shared.write(full, Path::new("/dev/full"));
        let ended = shared.lock().ended().unwrap();
        assert!(matches!(ended.why, End::Failed { .. }), "{ended}");
        assert!(!recording.take(b"more", 1));
        assert_eq!(shared.lock().missing, 1);
    }

    #[test]
    fn a_disk_that_stands_still_ends_the_record_within_its_memory() {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            limit: 1 << 40,
        });
        let mut recording = Recording(Arc::clone(&shared));
        let taken = (0..).take_while(|_| recording.take(&[0; 1 << 16], 1));
        assert_eq!(taken.count(), PENDING_MAX >> 16);
        let state = shared.lock();
        assert_eq!((state.end.clone(), state.missing), (Some(End::TooSlow), 1));
        assert!(state.pending.len() <= PENDING_MAX);
    }
}

//! Watches whether the daemon lives.
//!
//! The daemon stores a heartbeat in the segment's first page every 100 ms. A daemon is dead if its state says
//! so or if its process has ended. A silent daemon whose process exists, as under a debugger, is waited for.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bmi::Error;
use sys::{Mapping, ProcessHandle, process_start};
use zoid_proto::{DaemonState, SegmentHeader};

/// The length of silence that is worth a warning.
const STALE: Duration = Duration::from_secs(2);

/// How often a silent but living daemon is reported.
const WARNING: Duration = Duration::from_secs(10);

/// Watches one daemon.
pub(super) struct Watch {
    mapping: Mapping,
    process: Process,
    /// The last heartbeat: the word, and when it changed.
    last: Mutex<(u64, Instant)>,
    warned_s: AtomicU64,
    began: Instant,
    closed: AtomicBool,
    /// Whether a check has found no process.
    died: AtomicBool,
}

/// How the daemon's process is distinguished from a later one with the same number.
enum Process {
    Handle(ProcessHandle),
    Started(u32, Option<u64>),
}

impl Watch {
    pub(super) fn new(mapping: Mapping, daemon: u32) -> Self {
        let process = match ProcessHandle::open(daemon) {
            Ok(handle) => Process::Handle(handle),
            Err(_) => Process::Started(daemon, process_start(daemon)),
        };
        let now = Instant::now();
        Self {
            mapping,
            process,
            last: Mutex::new((0, now)),
            warned_s: AtomicU64::new(0),
            began: now,
            closed: AtomicBool::new(false),
            died: AtomicBool::new(false),
        }
    }

    /// Closes this side: every check fails from now on.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Returns the result of earlier checks, without looking at the daemon.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub(super) fn check_known(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::NetDown);
        }
        match self.died.load(Ordering::SeqCst) {
            true => Err(Error::NetReset),
            false => Ok(()),
        }
    }

    /// Checks whether the daemon lives.
    ///
    /// # Errors
    ///
    /// [`Error::NetReset`]: the daemon is dead. [`Error::NetDown`]: this side is closed, or the daemon has
    /// shut down in order.
    // [DEATH-26]
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::NetDown);
        }
        let state = self.mapping.load_u32(SegmentHeader::STATE_AT);
        if state == Some(DaemonState::DEAD.0) {
            return Err(Error::NetDown);
        }
        let beat = self.mapping.load_u64(SegmentHeader::HEARTBEAT_AT);
        if !self.lives() {
            self.died.store(true, Ordering::SeqCst);
            return Err(Error::NetReset);
        }
        let silence = self.silence(beat.unwrap_or(0));
        if silence > STALE {
            self.warn(silence);
        }
        Ok(())
    }

    /// Returns whether the daemon serves and has shown so within `limit`.
    pub(super) fn is_serving(&self, limit: Duration) -> bool {
        let state = self.mapping.load_u32(SegmentHeader::STATE_AT);
        let beat = self.mapping.load_u64(SegmentHeader::HEARTBEAT_AT);
        self.check_known().is_ok()
            && state == Some(DaemonState::READY.0)
            && self.silence(beat.unwrap_or(0)) < limit
    }

    /// Returns whether the process exists.
    pub(super) fn lives(&self) -> bool {
        match &self.process {
            Process::Handle(handle) => !handle.has_ended().unwrap_or(true),
            Process::Started(id, start) => start.is_some() && process_start(*id) == *start,
        }
    }

    fn silence(&self, beat: u64) -> Duration {
        let mut last = self
            .last
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if last.0 != beat {
            *last = (beat, Instant::now());
        }
        last.1.elapsed()
    }

    fn warn(&self, silence: Duration) {
        let now = self.began.elapsed().as_secs();
        let warned = self.warned_s.load(Ordering::Relaxed);
        if now >= warned + WARNING.as_secs() {
            self.warned_s.store(now, Ordering::Relaxed);
            tracing::warn!(?silence, "the daemon is silent but lives; waiting for it");
        }
    }
}

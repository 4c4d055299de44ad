//! One attachment of the server to a daemon: session, segment, memory, queues.
//!
//! An attachment ends with its daemon. The old segment stays mapped as long as the program holds memory in
//! it.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bmi::Error;
use sys::span::{Leases, Span};
use sys::{Mapping, SharedMemory, explain_queue_error};
use zoid_proto::ctl::{InitReply, Reply, Request};
use zoid_proto::{
    DaemonState, DecodeError, Extent, Problem, SEGMENT_HEADER_LEN, SegmentHeader, ServerStatistics,
};

use super::control::{Answer, Control, Interrupted, WHILE_IT_LIVES};
use super::journal;
use super::pool::{Piece, Pool};
use super::watch::Watch;
use crate::counters::Counters;
use crate::options::Options;

/// The version in INIT, for the daemon's log.
const LIBRARY_VERSION: u32 = 1;

/// How long a daemon may take to answer INIT before the attempt is given up and repeated.
const INIT: Duration = Duration::from_secs(2);

/// How old the last heartbeat may be of a daemon that need not be asked. It beats every 50 ms.
const FRESH: Duration = Duration::from_millis(200);

/// The time limit of FINI.
const FAREWELL: Duration = Duration::from_secs(1);

/// An attachment.
pub(super) struct Attachment {
    pub(super) session: u64,
    pub(super) epoch: u64,
    pub(super) max_expected: u64,
    pub(super) max_unexpected: u64,
    /// Whether the daemon registers posts without an answer.
    pub(super) unanswered_posts: bool,
    control: Control,
    /// The header page; the regions may be in another object.
    page: Mapping,
    pub(super) watch: Watch,
    /// The regions, with the header page before them, which is not leased.
    regions: Arc<Leases>,
    /// The places of the regions in the segment.
    expected_offsets: Range<u64>,
    unexpected_offsets: Range<u64>,
    pub(super) pool: Arc<Pool>,
    gate: Mutex<Gate>,
    /// The number of unexpected messages that were handed out, modulo 2^32.
    taken: AtomicU32,
    /// Whether a test was told that an unexpected message waits.
    told: AtomicBool,
    /// Whether the plugin was asked for messages that had arrived before this attachment.
    asked: AtomicBool,
}

/// The threads that sleep in the plugin.
#[derive(Debug, Default)]
struct Gate {
    sleepers: usize,
    wakes: u64,
}

/// Why there is no attachment.
pub(super) enum NotAttached {
    /// The daemon is not running yet.
    NotYet,
    /// The daemon rejects this server.
    Refused(Error),
}

impl From<Error> for NotAttached {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<io::Error> for NotAttached {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::NotYet,
            _ => Self::Refused(error.into()),
        }
    }
}

impl Attachment {
    /// Attaches to the daemon, if it is running.
    pub(super) fn attach(
        options: &Options,
        process: u32,
        counters: &Arc<Counters>,
    ) -> Result<Self, NotAttached> {
        let (object, page, header) = map_segment(options)?;
        let watch = Watch::new(page.clone(), header.daemon_pid);
        if header.state != DaemonState::READY || !watch.lives() {
            return Err(NotAttached::NotYet);
        }
        let regions = map_regions(&object, &header)?;
        // The mapping is new, so it has no other span.
        let regions = regions.into_exclusive().and_then(Leases::new);
        let regions = regions.ok_or(Error::Proto)?;
        let within = regions.addresses().len();
        let region = |range: &Range<u64>| place_of(range, within).ok_or(Error::Proto);
        let expected = region(&header.expected_region())?;
        region(&header.unexpected_region())?;
        let instance = &options.instance;
        journal::announce(options, process);
        let manner = (object.group()?, options.spin);
        let control = Control::open(instance, process, manner, Arc::clone(counters));
        let control = control.inspect_err(|error| {
            if let Some(why) = explain_queue_error(error) {
                tracing::error!(%error, "no reply queue for this server: {why}");
            }
        })?;
        let init = introduce(&control, instance, process, &watch);
        let init = init.inspect_err(|_| control.unlink())?;
        if (init.total, init.unexpected, init.epoch)
            != (header.total, header.unexpected, header.epoch)
        {
            control.unlink();
            return Err(NotAttached::NotYet);
        }
        let arrived = page.load_u32(SegmentHeader::UNEXPECTED_READY_AT);
        Ok(Self {
            session: init.session,
            epoch: init.epoch,
            max_expected: init.max_expected,
            max_unexpected: init.max_unexpected,
            unanswered_posts: page
                .load_u32(SegmentHeader::CAPS_AT)
                .is_some_and(|caps| caps & SegmentHeader::UNANSWERED_POSTS != 0),
            control,
            watch,
            pool: Pool::new(Arc::clone(&regions), expected, Arc::clone(counters)),
            regions,
            expected_offsets: header.expected_region(),
            unexpected_offsets: header.unexpected_region(),
            page,
            gate: Mutex::default(),
            // The first test is told whether earlier messages wait.
            taken: AtomicU32::new(arrived.unwrap_or(0)),
            told: AtomicBool::new(false),
            asked: AtomicBool::new(false),
        })
    }

    /// Sends a command that does not sleep: it is answered at once, or at the end of a transfer.
    pub(super) fn call(&self, request: &Request<'_>) -> Result<Answer, Error> {
        self.control
            .call(self.session, request, &self.watch, WHILE_IT_LIVES)
    }

    /// Sends a command that is not answered.
    pub(super) fn send_unanswered(&self, request: &Request<'_>) -> Result<(), Error> {
        self.control
            .send_unanswered(self.session, request, &self.watch)
    }

    /// Sends a command that may sleep in the plugin. Returns no answer if all sleepers were woken since
    /// [`wakes`](Self::wakes) was `wakes`.
    ///
    /// The plugin measures the time. A late answer is still waited for, because its contents would be lost; a
    /// signal that is to end the sleep therefore makes the plugin end it.
    pub(super) fn sleep(
        &self,
        request: &Request<'_>,
        wakes: u64,
        interruptible: bool,
    ) -> Result<Option<(Answer, Interrupted)>, Error> {
        let slot = self.control.slot(&self.watch, WHILE_IT_LIVES)?;
        let mut gate = self.gate();
        if gate.wakes != wakes {
            return Ok(None);
        }
        // Under the lock, so that a wake that counts this sleeper is queued after its command.
        let call = slot.ask(self.session, request, &self.watch)?;
        gate.sleepers += 1;
        drop(gate);
        let answer = match interruptible {
            false => call
                .answer(&self.watch, WHILE_IT_LIVES)
                .map(|answer| (answer, Interrupted(false))),
            true => call.answer_or_signal(&self.watch, || self.wake()),
        };
        self.gate().sleepers -= 1;
        answer.map(Some)
    }

    /// Returns how often the sleepers have been woken.
    pub(super) fn wakes(&self) -> u64 {
        self.gate().wakes
    }

    /// Ends every sleep in the plugin.
    pub(super) fn wake(&self) {
        let mut gate = self.gate();
        gate.wakes += 1;
        if gate.sleepers > 0
            && let Err(error) = self.send_unanswered(&Request::Wake)
        {
            // The sleepers will notice the cause themselves.
            tracing::debug!(%error, "sleeping tests could not be woken");
        }
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates memory for a program: a lease of the expected region that frees itself.
    pub(super) fn lease(&self, len: usize) -> Option<Span> {
        let span = self.pool.allocate(len)?.into_span()?;
        zero(&span);
        Some(span)
    }

    /// Returns the place in the segment of a span of the expected region.
    // [MEM-2]
    pub(super) fn extent_of(&self, span: &Span) -> Option<Extent> {
        let region = self.pool.addresses();
        if !span.is_inside(&region) {
            return None;
        }
        let offset = span.addresses().start - region.start;
        Some(Extent {
            offset: self.expected_offsets.start + offset as u64,
            len: span.len() as u64,
        })
    }

    /// Returns the place in the segment of a piece of the pool.
    pub(super) fn extent_of_piece(&self, piece: &Piece, len: usize) -> Extent {
        Extent {
            offset: self.expected_offsets.start + piece.start as u64,
            len: len as u64,
        }
    }

    /// Returns the memory of an unexpected message, which `keeper` frees; `None` if the plugin names an
    /// invalid place, or one that it has already named.
    pub(super) fn unexpected(
        &self,
        place: Extent,
        keeper: impl Send + Sync + 'static,
    ) -> Option<Span> {
        if !place.is_inside(&self.unexpected_offsets) {
            return None;
        }
        let range = place.offset..place.offset.checked_add(place.len)?;
        let range = place_of(&range, self.regions.addresses().len())?;
        self.regions.lease(range, keeper)
    }

    /// Returns whether unexpected messages have arrived that were not handed out.
    pub(super) fn unexpected_waiting(&self) -> bool {
        self.told.load(Ordering::Relaxed) || self.arrived() != self.taken.load(Ordering::Relaxed)
    }

    /// Returns whether the plugin would report no message, as the segment's header says. A daemon that has not
    /// beaten lately is asked, because it may be gone.
    pub(super) fn knows_that_none_waits(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
            && !self.unexpected_waiting()
            && self.watch.is_serving(FRESH)
    }

    /// Returns the number of unexpected messages that have arrived, modulo 2^32.
    fn arrived(&self) -> u32 {
        let arrived = self.page.load_u32(SegmentHeader::UNEXPECTED_READY_AT);
        arrived.unwrap_or(0)
    }

    /// Records that a test took `found` messages; unless it was `full`, none of its class is left.
    pub(super) fn note_taken(&self, found: usize, full: bool) {
        self.asked.store(true, Ordering::Relaxed);
        let arrived = self.arrived();
        let taken = self.taken.load(Ordering::Relaxed);
        let ahead = arrived.wrapping_sub(taken);
        // Messages from before this attachment are not counted; never count beyond the number of arrived
        // ones.
        let step = u32::try_from(found).unwrap_or(u32::MAX).min(ahead);
        self.taken
            .store(taken.wrapping_add(step), Ordering::Relaxed);
        if !full {
            self.told.store(false, Ordering::Relaxed);
        }
    }

    pub(super) fn note_told(&self) {
        self.told.store(true, Ordering::Relaxed);
    }

    /// Writes this server's statistics to the header page, for the daemon's metrics.
    pub(super) fn report(&self, counters: &Counters) {
        let words = counters.read().statistics().words();
        for (index, word) in words.into_iter().enumerate() {
            // The place is within the header page, which is mapped.
            let _there = self.page.store_u64(ServerStatistics::AT + 8 * index, word);
        }
    }

    /// Sends FINI and removes the queues' names.
    pub(super) fn detach(&self) {
        let farewell = self
            .control
            .call(self.session, &Request::Fini, &self.watch, FAREWELL);
        if let Err(error) = farewell {
            tracing::debug!(%error, "cannot notify the daemon that the server detaches");
        }
        self.close_queues();
    }

    /// Removes the queues' names and ends every wait.
    pub(super) fn close_queues(&self) {
        self.watch.close();
        self.control.unlink();
    }
}

/// Opens the object with the segment's name, the whole segment or its header page, and maps the header page.
fn map_segment(options: &Options) -> Result<(SharedMemory, Mapping, SegmentHeader), NotAttached> {
    let object = SharedMemory::open(&options.instance.segment())?;
    let size = usize::try_from(object.size()?).map_err(|_| Error::NoMem)?;
    if size < SEGMENT_HEADER_LEN {
        return Err(NotAttached::NotYet);
    }
    let mapping = object.map(SEGMENT_HEADER_LEN)?;
    let mut bytes = [0; SegmentHeader::LEN];
    let page = mapping.span(0, SegmentHeader::LEN).ok_or(Error::Proto)?;
    page.copy_out(&mut bytes);
    let header = SegmentHeader::decode(&bytes).map_err(not_understood)?;
    Ok((object, mapping, header))
}

/// Maps the object that contains the regions: that of the header page, or another one.
fn map_regions(named: &SharedMemory, header: &SegmentHeader) -> Result<Mapping, NotAttached> {
    let needed = header.total.checked_add(SEGMENT_HEADER_LEN as u64);
    let needed = needed.ok_or(Error::NoMem)?;
    let opened;
    let object = match header.regions {
        0 => named,
        descriptor => {
            opened = SharedMemory::open_of_process(header.daemon_pid, descriptor).inspect_err(
                |error| {
                    let daemon = header.daemon_pid;
                    tracing::warn!(%error, daemon, "cannot open the daemon's huge pages");
                },
            )?;
            &opened
        }
    };
    // The whole object: a mapping of huge pages must be unmapped in whole pages.
    let size = object.size()?;
    if size < needed {
        return Err(NotAttached::NotYet);
    }
    let size = usize::try_from(size).map_err(|_| Error::NoMem)?;
    Ok(object.map(size)?)
}

/// Returns why the header is invalid. A daemon that is starting has not written it yet. A daemon of another
/// version will never write a valid one, so the server does not wait for it.
fn not_understood(error: DecodeError) -> NotAttached {
    match error.problem {
        Problem::UnknownVersion(_) => {
            tracing::error!(%error, "the daemon is of another version");
            NotAttached::Refused(Error::ProtoNoSupport)
        }
        _ => NotAttached::NotYet,
    }
}

fn introduce(
    control: &Control,
    instance: &zoid_proto::Instance,
    process: u32,
    watch: &Watch,
) -> Result<InitReply, NotAttached> {
    let name = instance.reply_queue(process, 0);
    let request = Request::Init(zoid_proto::ctl::Init {
        unix_pid: process,
        uid: sys::effective_user(),
        library_version: LIBRARY_VERSION,
        reply_queue: &name,
    });
    let answer = match control.call(0, &request, watch, INIT) {
        Ok(answer) => answer,
        // Either nobody reads the queue any more, or the daemon has just died.
        Err(Error::TimedOut | Error::NetReset | Error::NetDown) => {
            return Err(NotAttached::NotYet);
        }
        Err(error) => return Err(error.into()),
    };
    match answer.reply()? {
        Reply::Init(init) => Ok(init),
        _ => Err(Error::Proto.into()),
    }
}

/// Returns the place in the mapping of a part of the segment, if the mapping of `len` bytes contains it.
fn place_of(range: &Range<u64>, len: usize) -> Option<Range<usize>> {
    let place = |offset: u64| {
        usize::try_from(offset)
            .ok()?
            .checked_add(SEGMENT_HEADER_LEN)
    };
    let (start, end) = (place(range.start)?, place(range.end)?);
    (start <= end && end <= len).then_some(start..end)
}

fn zero(span: &Span) {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut at = 0;
    while let Some(rest) = span.part(at..span.len()).filter(|rest| !rest.is_empty()) {
        at += rest.copy_in(&ZEROS);
    }
}

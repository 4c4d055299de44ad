//! The daemon's side of the segment that it shares with the server.
//!
//! ```text
//!  /zbmi.INSTANCE: header page │ unexpected region │ expected region
//!
//!  with huge pages:
//!  /zbmi.INSTANCE: header page ──descriptor──▶ unused page │ unexpected region │ expected region
//! ```
//!
//! Huge pages of the system's reserve are in an object without a name, so that a killed daemon frees them at
//! once and no file system need be mounted. A server that has found the header page opens that object through
//! the daemon's entry in `/proc`, which the same user may do.
//!
//! The daemon passes places of the segment to the kernel (sockets are read into it and written from it), and
//! writes the header page by system calls. It never touches the memory directly. If another process truncates
//! the object, system calls fail, and the daemon is not killed by a signal; the heartbeat notices.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sys::span::Span;
use sys::{Mapping, PageSize, SharedMemory};
use tracing::{info, warn};
use zoid_proto::{DaemonState, Extent, SEGMENT_HEADER_LEN, SegmentHeader, ServerStatistics};

use crate::error::Error;
use crate::options::{HugePages, Options};

/// The name of the daemon's thread that touches the segment's pages, while it runs.
pub const PREFAULT_THREAD: &str = "prefault";

/// The segment.
#[derive(Debug)]
pub(crate) struct Segment {
    name: String,
    /// The object with the name, which contains the header page.
    object: SharedMemory,
    page: Mapping,
    /// The object that contains the regions, if it is another one.
    regions: Option<SharedMemory>,
    mapping: Mapping,
    pages: PageSize,
    header: SegmentHeader,
    stop_prefault: Arc<AtomicBool>,
}

impl Segment {
    /// Creates the segment under the instance's name, in state "starting".
    // [SEG-7]
    pub(crate) fn create(options: &Options, epoch: u64) -> Result<Self, Error> {
        let name = options.instance.segment();
        let bytes = SEGMENT_HEADER_LEN as u64 + options.total;
        let failed = |cause| Error::Segment {
            name: name.clone(),
            bytes,
            cause,
        };
        let length =
            usize::try_from(bytes).map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
        let reserved = reserved_pages(options, length);
        let named = match &reserved {
            Some(_) => SEGMENT_HEADER_LEN,
            None => length,
        };
        let object = SharedMemory::create(&name, named as u64).map_err(failed)?;
        let page = object.map(named).map_err(failed)?;
        let (regions, mapping, pages) = match reserved {
            Some((regions, mapping, pages)) => (Some(regions), mapping, pages),
            None => (None, page.clone(), PageSize::Normal),
        };
        if let Some(group) = options.group {
            sys::share_with_group(&object, group).map_err(failed)?;
        }
        let header = SegmentHeader {
            total: options.total,
            unexpected: options.unexpected,
            max_unexpected: options.max_unexpected,
            max_expected: options.max_expected,
            epoch,
            daemon_pid: std::process::id(),
            state: DaemonState::STARTING,
            heartbeat_ns: 0,
            session: 0,
            unexpected_ready: 0,
            regions: regions.as_ref().map_or(0, descriptor),
        };
        let segment = Self {
            name: name.clone(),
            object,
            page,
            regions,
            mapping,
            pages,
            header,
            stop_prefault: Arc::default(),
        };
        segment.write_header().map_err(failed)?;
        segment.provide_pages(options);
        Ok(segment)
    }

    fn write_header(&self) -> io::Result<()> {
        let mut page = [0; SegmentHeader::LEN];
        self.header.encode(&mut page).map_err(io::Error::other)?;
        self.object.write_at(0, &page)?;
        let caps = SegmentHeader::UNANSWERED_POSTS.to_le_bytes();
        self.object.write_at(SegmentHeader::CAPS_AT as u64, &caps)
    }

    /// Returns whether [`write`](Self::write) works; objects of huge pages cannot be written by a system
    /// call.
    pub(crate) fn takes_writes(&self) -> bool {
        self.regions.is_none()
    }

    /// Writes a short message to its places, whose total length is the message's.
    ///
    /// # Errors
    ///
    /// Errors of `pwrite(2)`.
    pub(crate) fn write(&self, places: &[crate::zbmi::Segment], message: &[u8]) -> io::Result<()> {
        let mut left = message;
        for place in places {
            let len = usize::try_from(place.len).unwrap_or(usize::MAX);
            let (piece, rest) = left.split_at_checked(len).unwrap_or((left, &[]));
            let offset = place.offset + SEGMENT_HEADER_LEN as u64;
            self.object.write_at(offset, piece)?;
            left = rest;
        }
        Ok(())
    }

    /// Requests transparent huge pages, and starts the thread that touches the pages; the thread ends by
    /// itself.
    fn provide_pages(&self, options: &Options) {
        if self.regions.is_none()
            && options.huge_pages != HugePages::Off
            && let Err(error) = self.mapping.advise_huge_pages()
        {
            info!(%error, "no huge pages for the segment; using normal pages");
        }
        if !options.prefault.wanted(options.total) {
            return;
        }
        let (mapping, stop) = (self.mapping.clone(), Arc::clone(&self.stop_prefault));
        let body = move || match mapping.prefault(&stop) {
            Ok(bytes) => info!(bytes, "all pages of the segment are allocated"),
            Err(error) => warn!(%error, "the segment's pages are allocated when first used"),
        };
        let thread = thread::Builder::new().name(PREFAULT_THREAD.to_owned());
        if let Err(error) = thread.spawn(body) {
            warn!(%error, "the segment's pages are allocated when first used");
        }
    }

    /// Returns the epoch: random, new at each start.
    pub(crate) fn epoch(&self) -> u64 {
        self.header.epoch
    }

    /// Returns the object that contains the regions.
    fn object(&self) -> &SharedMemory {
        self.regions.as_ref().unwrap_or(&self.object)
    }

    /// Returns the size of the regions' huge pages in bytes; 0 for normal pages.
    pub(crate) fn huge_page_bytes(&self) -> u64 {
        self.pages.huge_bytes().unwrap_or(0)
    }

    /// Returns the statistics of the attached server, or of the last one.
    pub(crate) fn server_statistics(&self) -> ServerStatistics {
        let mut bytes = [0; 8 * ServerStatistics::COUNT];
        // If a page is gone, the daemon ends at the next heartbeat.
        let _cut = self.object.read_at(ServerStatistics::AT as u64, &mut bytes);
        let (words, _) = bytes.as_chunks::<8>();
        let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
        ServerStatistics::from_words(std::array::from_fn(word))
    }

    /// Returns places of the segment as memory, in order; `None` if one is outside the segment.
    // [SEG-2]
    pub(crate) fn spans(&self, places: &[crate::zbmi::Segment]) -> Option<Vec<Span>> {
        places
            .iter()
            .map(|place| {
                let offset = usize::try_from(place.offset).ok()?;
                let offset = offset.checked_add(SEGMENT_HEADER_LEN)?;
                self.mapping.span(offset, usize::try_from(place.len).ok()?)
            })
            .collect()
    }

    /// Returns a copy of an extent of the expected region, where servers write lists that do not fit in a
    /// command. `None` if it is not inside that region or longer than `limit` bytes.
    // [CTL-16]
    pub(crate) fn scratch(&self, extent: Extent, limit: usize) -> Option<Vec<u8>> {
        let len = usize::try_from(extent.len)
            .ok()
            .filter(|len| *len <= limit)?;
        if !extent.is_inside(&self.header.expected_region()) {
            return None;
        }
        let mut bytes = vec![0; len];
        let offset = extent.offset + SEGMENT_HEADER_LEN as u64;
        self.object().read_at(offset, &mut bytes).ok()?;
        Some(bytes)
    }

    /// Writes a heartbeat with the machine's monotonic time `since_boot`.
    ///
    /// # Errors
    ///
    /// [`Error::SegmentCut`]: the object was truncated.
    // [SEG-8]
    pub(crate) fn beat(&mut self, since_boot: Duration) -> Result<(), Error> {
        // An object without a name is sealed against truncation.
        let expected = self.page.len() as u64;
        let found = self
            .object
            .size()
            .map_err(Error::system("fstat of the segment"))?;
        if found < expected {
            return Err(Error::SegmentCut {
                name: self.name.clone(),
                expected,
                found,
            });
        }
        let nanoseconds = u64::try_from(since_boot.as_nanos()).unwrap_or(u64::MAX);
        self.header.heartbeat_ns = nanoseconds;
        self.store(SegmentHeader::HEARTBEAT_AT, &nanoseconds.to_le_bytes());
        Ok(())
    }

    /// Writes the daemon's state.
    pub(crate) fn set_state(&mut self, state: DaemonState) {
        self.header.state = state;
        self.store(SegmentHeader::STATE_AT, &state.0.to_le_bytes());
    }

    /// Writes the session of the attached server; 0 for none.
    pub(crate) fn set_session(&mut self, session: u64) {
        self.header.session = session;
        self.store(SegmentHeader::SESSION_AT, &session.to_le_bytes());
    }

    /// Writes the count of unexpected messages, modulo 2^32, and wakes the waiters of the futex word.
    pub(crate) fn set_unexpected_ready(&mut self, count: u32) {
        if self.header.unexpected_ready != count {
            self.header.unexpected_ready = count;
            self.store(SegmentHeader::UNEXPECTED_READY_AT, &count.to_le_bytes());
            self.page.wake_word(SegmentHeader::UNEXPECTED_READY_AT);
        }
    }

    /// The next heartbeat notices a failure, because it checks the object's size.
    fn store(&self, at: usize, bytes: &[u8]) {
        if let Err(error) = self.object.write_at(at as u64, bytes) {
            warn!(%error, segment = self.name, "cannot write the segment's header");
        }
    }
}

/// Returns an object of huge pages from the system's reserve, if they are wanted and available.
// [MEM-30]
fn reserved_pages(options: &Options, length: usize) -> Option<(SharedMemory, Mapping, PageSize)> {
    let pages = match options.huge_pages {
        HugePages::Off => return None,
        HugePages::Auto | HugePages::Huge2M => PageSize::Huge2M,
        HugePages::Huge1G => PageSize::Huge1G,
    };
    if options.group.is_some() {
        warn!("huge pages of the reserve cannot be shared with a group; using normal pages");
        return None;
    }
    // Only a successful mapping proves that there are pages.
    let made = SharedMemory::anonymous(&options.instance.segment(), length as u64, pages);
    let mapped = made.and_then(|object| {
        // The whole object: a mapping of huge pages must be unmapped in whole pages.
        let size = usize::try_from(object.size()?).map_err(io::Error::other)?;
        let mapping = object.map(size)?;
        Ok((object, mapping, pages))
    });
    match (mapped, options.huge_pages) {
        (Ok(mapped), _) => Some(mapped),
        (Err(error), HugePages::Auto) => {
            info!(%error, "no huge pages in the reserve; advising transparent ones");
            None
        }
        (Err(error), _) => {
            warn!(
                %error,
                "not enough huge pages of this size in the reserve (see vm.nr_hugepages); \
                 advising transparent ones"
            );
            None
        }
    }
}

fn descriptor(object: &SharedMemory) -> u32 {
    // An open descriptor is not negative.
    object.as_fd().as_raw_fd().unsigned_abs()
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.stop_prefault.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Made(Segment);

    impl Drop for Made {
        fn drop(&mut self) {
            let _absent = sys::unlink_shared_memory(&self.0.name);
        }
    }

    fn segment(what: &str) -> Made {
        let mut options = Options::default();
        let instance = format!("s{}-{what}", std::process::id());
        options.set("test", "instance", &instance).unwrap();
        options.set("test", "total", "64k").unwrap();
        options.set("test", "unexp", "16k").unwrap();
        options.set("test", "max-unexpected", "8k").unwrap();
        Made(Segment::create(&options, 77).unwrap())
    }

    fn read_header(segment: &Segment) -> SegmentHeader {
        let mut page = [0; SEGMENT_HEADER_LEN];
        segment.object.read_at(0, &mut page).unwrap();
        SegmentHeader::decode(&page).unwrap()
    }

    #[test]
    fn the_header_page_says_what_the_daemon_does() {
        let mut made = segment("header");
        let segment = &mut made.0;
        assert_eq!(segment.object.size().unwrap(), 4096 + 65536);
        assert_eq!(read_header(segment).state, DaemonState::STARTING);
        segment.set_state(DaemonState::READY);
        segment.set_session(9);
        segment.set_unexpected_ready(3);
        segment.beat(Duration::from_nanos(123)).unwrap();
        assert_eq!(read_header(segment), segment.header);
        let header = read_header(segment);
        assert_eq!(
            (header.epoch, header.session, header.heartbeat_ns),
            (77, 9, 123)
        );
    }

    // [SEG-2]
    #[test]
    fn r49_offsets_count_from_the_end_of_the_header_page() {
        let made = segment("spans");
        let spans = made
            .0
            .spans(&[crate::zbmi::Segment { offset: 0, len: 4 }])
            .unwrap();
        spans[0].copy_in(b"here");
        let mut bytes = [0; 4];
        made.0.object.read_at(4096, &mut bytes).unwrap();
        assert_eq!(&bytes, b"here");
        let outside = crate::zbmi::Segment {
            offset: 65_536 - 3,
            len: 4,
        };
        assert!(made.0.spans(&[outside]).is_none());
    }

    // [CTL-16]
    #[test]
    fn lists_are_read_from_the_expected_region_only() {
        let made = segment("scratch");
        let extent = |offset, len| Extent { offset, len };
        assert_eq!(made.0.scratch(extent(16 << 10, 8), 64), Some(vec![0; 8]));
        for bad in [extent(0, 8), extent((16 << 10) - 1, 8), extent(65_530, 8)] {
            assert_eq!(made.0.scratch(bad, 64), None, "{bad:?}");
        }
        assert_eq!(made.0.scratch(extent(16 << 10, 65), 64), None);
        assert_eq!(made.0.scratch(extent(u64::MAX, u64::MAX), 64), None);
    }

    // [SEG-8]
    #[test]
    fn a_segment_cut_by_a_third_party_is_noticed_at_the_next_heartbeat() {
        let mut made = segment("cut");
        let path = format!("/dev/shm{}", made.0.name);
        let Ok(file) = std::fs::OpenOptions::new().write(true).open(&path) else {
            println!("skipped: {path} is not where shared memory is");
            return;
        };
        file.set_len(4096).unwrap();
        let error = made.0.beat(Duration::ZERO).unwrap_err();
        assert!(
            matches!(error, Error::SegmentCut { found: 4096, .. }),
            "{error}"
        );
    }
}

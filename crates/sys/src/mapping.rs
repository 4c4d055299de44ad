//! Shared memory mapped into this process: words that are loaded and stored whole, and spans for
//! everything else.
//!
//! Other processes may write this memory at any time, so this module never makes a reference to its
//! bytes. Words are accessed as atomics, payload through [`Span`], which copies bytes or passes
//! addresses to the kernel.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, munmap};

use crate::span::Span;

/// A shared-memory object in the address space of this process. It is unmapped when the last clone
/// and the last span of the mapping are dropped.
#[derive(Clone, Debug)]
pub struct Mapping(Arc<Mapped>);

#[derive(Debug)]
struct Mapped {
    start: NonNull<libc::c_void>,
    length: usize,
}

#[expect(unsafe_code, reason = "the raw pointer hides that sharing is sound")]
// SAFETY: the address is that of a mapping that lives as long as this value. No part of it belongs
// to a thread, and it is accessed only as atomics and by raw copies of spans.
unsafe impl Send for Mapped {}

#[expect(unsafe_code, reason = "the raw pointer hides that sharing is sound")]
// SAFETY: as for `Send`. A shared reference gives access to atomics and spans only.
unsafe impl Sync for Mapped {}

impl Drop for Mapped {
    #[expect(unsafe_code, reason = "memory was mapped, so it must be unmapped")]
    fn drop(&mut self) {
        // SAFETY: `start` and `length` are those of a mapping that `of` made and that nothing else
        // unmaps. Spans keep this value alive, so no span is left.
        let unmapped = unsafe { munmap(self.start, self.length) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

impl Mapping {
    #[expect(unsafe_code, reason = "mapping memory is unsafe by nature")]
    pub(crate) fn of(file: &File, length: NonZeroUsize) -> io::Result<Self> {
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so the call replaces no memory of this process.
        let start = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, file, 0)? };
        let length = length.get();
        Ok(Self(Arc::new(Mapped { start, length })))
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.length
    }

    /// Returns whether the mapping has no bytes. No mapping is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.length == 0
    }

    /// Returns `length` bytes from `offset` as a span that keeps the mapping alive, or `None` if
    /// they are not within the mapping.
    #[must_use]
    #[expect(unsafe_code, reason = "an address becomes a span here")]
    pub fn span(&self, offset: usize, length: usize) -> Option<Span> {
        let start = self.address(offset, length, 1)?;
        let keeper: Arc<dyn Send + Sync> = self.0.clone();
        // SAFETY: `address` has checked that the range is within the mapping, which the keeper
        // keeps mapped. This module makes no references into the mapping except to atomics, which
        // other processes may write.
        Some(unsafe { Span::kept(start.cast(), length, keeper) })
    }

    /// Gives up words and shared spans: returns the whole mapping as its first and only span, which
    /// [`Leases`](crate::span::Leases) can take over. Returns `None` if a clone or a span of the
    /// mapping exists. See [`crate::span`] for other mappings of the same object.
    #[must_use]
    #[expect(unsafe_code, reason = "an address becomes a span here")]
    pub fn into_exclusive(self) -> Option<Span> {
        let mapped = Arc::try_unwrap(self.0).ok()?;
        let (start, length) = (mapped.start.cast(), mapped.length);
        // SAFETY: `mapped` keeps the whole range mapped, and the kernel initialised it. Every word
        // borrows a `Mapping`, every span has a clone of the `Arc`, and there is none.
        Some(unsafe { Span::first(start, length, mapped) })
    }

    /// Loads an aligned 32-bit word in the machine's byte order. Everything that other processes
    /// stored before the word is visible afterwards. Returns `None` if the word is not within the
    /// mapping or not aligned.
    #[must_use]
    pub fn load_u32(&self, offset: usize) -> Option<u32> {
        Some(self.word32(offset)?.load(Ordering::Acquire))
    }

    /// Stores an aligned 32-bit word after everything that was written before. Returns false in the
    /// cases in which [`load_u32`](Self::load_u32) returns `None`.
    pub fn store_u32(&self, offset: usize, value: u32) -> bool {
        let word = self.word32(offset);
        word.is_some_and(|word| {
            word.store(value, Ordering::Release);
            true
        })
    }

    /// Loads an aligned 64-bit word like [`load_u32`](Self::load_u32).
    #[must_use]
    pub fn load_u64(&self, offset: usize) -> Option<u64> {
        Some(self.word64(offset)?.load(Ordering::Acquire))
    }

    /// Stores an aligned 64-bit word like [`store_u32`](Self::store_u32).
    pub fn store_u64(&self, offset: usize, value: u64) -> bool {
        let word = self.word64(offset);
        word.is_some_and(|word| {
            word.store(value, Ordering::Release);
            true
        })
    }

    #[expect(unsafe_code, reason = "a word of shared memory has no other form")]
    fn word32(&self, offset: usize) -> Option<&AtomicU32> {
        let address = self.address(offset, 4, align_of::<AtomicU32>())?;
        // SAFETY: the pointer is to four aligned bytes of a mapping that lives as long as `self`.
        // This process accesses the word only atomically.
        Some(unsafe { AtomicU32::from_ptr(address.cast().as_ptr()) })
    }

    #[expect(unsafe_code, reason = "a word of shared memory has no other form")]
    fn word64(&self, offset: usize) -> Option<&AtomicU64> {
        let address = self.address(offset, 8, align_of::<AtomicU64>())?;
        // SAFETY: as in `word32`, for eight bytes.
        Some(unsafe { AtomicU64::from_ptr(address.cast().as_ptr()) })
    }

    #[expect(unsafe_code, reason = "an offset becomes an address here")]
    fn address(&self, offset: usize, bytes: usize, align: usize) -> Option<NonNull<libc::c_void>> {
        let end = offset.checked_add(bytes)?;
        if end > self.0.length || !offset.is_multiple_of(align) {
            return None;
        }
        // SAFETY: `offset` is at most the length of the mapping, so the result is within it or one
        // past its end. A mapping starts at a page, so the address is aligned if the offset is.
        Some(unsafe { self.0.start.byte_add(offset) })
    }

    /// Makes the kernel provide every page now, without changing a byte: the first access to a
    /// fresh page costs four times as much as a copy into a warm page. For a thread of its own;
    /// stops between two pieces of 8 MiB when `stop` is set.
    ///
    /// # Returns
    ///
    /// The number of bytes provided.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] before Linux 5.14, `EFAULT` if another process shrank the
    /// object, [`io::ErrorKind::OutOfMemory`].
    pub fn prefault(&self, stop: &AtomicBool) -> io::Result<usize> {
        const PIECE: usize = 8 << 20;
        let mut done = 0;
        while done < self.0.length && !stop.load(Ordering::Relaxed) {
            let piece = PIECE.min(self.0.length - done);
            match self.advise(done, piece, MmapAdvise::MADV_POPULATE_WRITE) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            done += piece;
        }
        Ok(done)
    }

    /// Asks the kernel to use transparent huge pages. This is only advice:
    /// `/sys/kernel/mm/transparent_hugepage/shmem_enabled` decides whether the kernel follows it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the kernel was built without them.
    pub fn advise_huge_pages(&self) -> io::Result<()> {
        self.advise(0, self.0.length, MmapAdvise::MADV_HUGEPAGE)
    }

    #[expect(
        unsafe_code,
        reason = "nix marks all advice unsafe because some of it is"
    )]
    fn advise(&self, offset: usize, bytes: usize, advice: MmapAdvise) -> io::Result<()> {
        let address = self.address(offset, bytes, 1);
        let address = address.ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the range is within this mapping. This module gives two kinds of advice, which
        // provide pages or choose their size; neither changes the contents of memory.
        unsafe { madvise(address, bytes, advice) }?;
        Ok(())
    }

    /// Wakes every thread of every process that sleeps in [`wait_word`](Self::wait_word) for this
    /// aligned 32-bit word. Returns the number of threads; 0 for an invalid offset.
    #[expect(unsafe_code, reason = "neither std nor nix has this system call")]
    pub fn wake_word(&self, offset: usize) -> usize {
        let Some(address) = self.address(offset, 4, 4) else {
            return 0;
        };
        // SAFETY: FUTEX_WAKE uses the address as a name and accesses no memory. Processes share the
        // word, so FUTEX_PRIVATE_FLAG is not set.
        let woken = unsafe {
            libc::syscall(
                libc::SYS_futex,
                address.as_ptr(),
                libc::FUTEX_WAKE,
                i32::MAX,
            )
        };
        usize::try_from(woken).unwrap_or(0)
    }

    /// Sleeps while the aligned 32-bit word at `offset` holds `value`, for at most `limit`. May
    /// return early without reason, so the caller loads the word again.
    ///
    /// # Returns
    ///
    /// `false` if the limit has expired.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] for an invalid offset; `EFAULT` if another process shrank
    /// the object.
    #[expect(unsafe_code, reason = "neither std nor nix has this system call")]
    pub fn wait_word(&self, offset: usize, value: u32, limit: Duration) -> io::Result<bool> {
        let address = self.address(offset, 4, 4);
        let address = address.ok_or(io::ErrorKind::InvalidInput)?;
        let limit = libc::timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        // SAFETY: the address is that of an aligned word in a mapping that lives as long as `self`.
        // The kernel reads this word and a `timespec` that lives during the call. The timeout of
        // FUTEX_WAIT is a duration on the monotonic clock.
        let result = unsafe {
            libc::syscall(
                libc::SYS_futex,
                address.as_ptr(),
                libc::FUTEX_WAIT,
                value,
                &raw const limit,
            )
        };
        match Errno::result(result) {
            Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => Ok(true),
            Err(Errno::ETIMEDOUT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PageSize, SharedMemory};

    fn mapping() -> Mapping {
        let object = SharedMemory::anonymous("mapping", 4096, PageSize::Normal).unwrap();
        object.map(4096).unwrap()
    }

    #[test]
    fn spans_lie_within_the_mapping_and_outlive_it() {
        let mapping = mapping();
        assert!(mapping.span(0, 4097).is_none());
        assert!(mapping.span(4096, 1).is_none());
        assert!(mapping.span(usize::MAX, 2).is_none());
        assert!(mapping.span(4096, 0).is_some());
        let span = mapping.span(8, 8).unwrap();
        assert!(mapping.store_u64(8, u64::from_ne_bytes(*b"outlives")));
        drop(mapping);
        let mut copy = [0; 8];
        assert_eq!(span.copy_out(&mut copy), 8);
        assert_eq!(&copy, b"outlives");
    }

    #[test]
    fn a_mapping_becomes_exclusive_only_if_nothing_else_refers_to_it() {
        let mapping = mapping();
        let (span, clone) = (mapping.span(0, 8).unwrap(), mapping.clone());
        assert!(mapping.into_exclusive().is_none(), "a clone is alive");
        assert!(clone.into_exclusive().is_none(), "a span is alive");
        drop(span);
        let mut whole = self::mapping().into_exclusive().unwrap();
        assert_eq!((whole.len(), whole.is_unique()), (4096, true));
    }

    #[test]
    fn a_waiter_is_woken_by_the_word_it_waits_for() {
        let mapping = mapping();
        let waiter = mapping.clone();
        let thread = std::thread::spawn(move || {
            while waiter.load_u32(80) == Some(0) {
                let limit = Duration::from_secs(60);
                assert!(waiter.wait_word(80, 0, limit).unwrap());
            }
        });
        assert!(mapping.store_u32(80, 1));
        while !thread.is_finished() {
            mapping.wake_word(80);
            std::thread::yield_now();
        }
        thread.join().unwrap();
    }

    #[test]
    fn waiting_for_a_word_that_stays_ends_at_the_limit() {
        let mapping = mapping();
        let limit = Duration::from_millis(5);
        assert!(!mapping.wait_word(0, 0, limit).unwrap());
        // The word has another value, so the call does not wait.
        assert!(mapping.wait_word(0, 1, Duration::MAX).unwrap());
        assert!(mapping.wait_word(2, 0, limit).is_err());
        assert_eq!(mapping.wake_word(4096), 0);
    }
}

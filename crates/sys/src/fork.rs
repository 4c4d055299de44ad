//! Distinguishes a process from a child that `fork(2)` made of it, without a system call each time.
//!
//! ```text
//!   parent: page [1]                 child: page [0], because the system wipes it (madvise(2))
//! ```
//!
//! A process id serves the same purpose, but costs a system call for every call of a library. If
//! the system cannot wipe pages (before Linux 4.14, or in a sandbox), the mark compares process
//! ids.

use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

/// A mark that belongs to the process that made it, and not to its forked children.
#[derive(Debug)]
pub struct ForkMark {
    /// A page of this mark, mapped until the mark is dropped.
    page: Option<NonNull<AtomicU8>>,
    process: u32,
}

/// Number of bytes to map. The system rounds up to a page.
const PAGE: NonZeroUsize = NonZeroUsize::MIN;

#[expect(
    unsafe_code,
    reason = "a raw pointer keeps the compiler from seeing this"
)]
// SAFETY: every thread accesses the page only as an atomic, and only `drop` unmaps it.
unsafe impl Send for ForkMark {}

#[expect(
    unsafe_code,
    reason = "a raw pointer keeps the compiler from seeing this"
)]
// SAFETY: as for `Send`.
unsafe impl Sync for ForkMark {}

impl ForkMark {
    /// Makes a mark of this process.
    #[must_use]
    pub fn new() -> Self {
        Self {
            page: marked_page(),
            process: std::process::id(),
        }
    }

    /// Returns whether this process made the mark. Returns false in a child that was forked later.
    #[must_use]
    pub fn is_own(&self) -> bool {
        match self.page {
            #[expect(unsafe_code, reason = "mapped memory has no owner in Rust")]
            // SAFETY: the page is mapped as long as `self` lives, is aligned, and is accessed only
            // as this atomic. A forked child has the page mapped, too.
            Some(page) => unsafe { page.as_ref() }.load(Ordering::Relaxed) != 0,
            None => std::process::id() == self.process,
        }
    }
}

impl Default for ForkMark {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        if let Some(page) = self.page {
            #[expect(unsafe_code, reason = "mapped memory has no owner in Rust")]
            // SAFETY: `marked_page` mapped the page, and nothing else has its address.
            let unmapped = unsafe { munmap(page.cast(), PAGE.get()) };
            debug_assert!(unmapped.is_ok(), "{unmapped:?}");
        }
    }
}

/// Maps a page that holds 1 in this process and 0 in forked children. Returns `None` if the system
/// cannot do that.
fn marked_page() -> Option<NonNull<AtomicU8>> {
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    #[expect(unsafe_code, reason = "mapping memory is unsafe in nix")]
    // SAFETY: a new mapping at an address of the system's choice touches no other memory.
    let page = unsafe { mmap_anonymous(None, PAGE, access, MapFlags::MAP_PRIVATE) }.ok()?;
    #[expect(unsafe_code, reason = "some advice changes memory")]
    // SAFETY: this advice changes no byte now and applies only to the page that was mapped above.
    let advised = unsafe { madvise(page, PAGE.get(), MmapAdvise::MADV_WIPEONFORK) };
    let page: NonNull<AtomicU8> = page.cast();
    if advised.is_err() {
        #[expect(unsafe_code, reason = "mapped memory has no owner in Rust")]
        // SAFETY: the page was mapped above, and nothing has its address.
        let unmapped = unsafe { munmap(page.cast(), PAGE.get()) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
        return None;
    }
    #[expect(unsafe_code, reason = "mapped memory has no owner in Rust")]
    // SAFETY: a fresh page is writable and holds zeroes, which are a valid atomic.
    unsafe { page.as_ref() }.store(1, Ordering::Relaxed);
    Some(page)
}

#[cfg(test)]
mod tests {
    use nix::libc;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    use super::*;

    /// Returns what a forked child says about a mark.
    fn in_child(mark: &ForkMark) -> bool {
        #[expect(unsafe_code, reason = "fork is unsafe in programs of several threads")]
        // SAFETY: the child calls only `is_own`, which takes no lock, and `_exit`.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let code = i32::from(mark.is_own());
                // SAFETY: ends the process at once, without destructors.
                unsafe { libc::_exit(code) }
            }
            ForkResult::Parent { child } => match waitpid(child, None).unwrap() {
                WaitStatus::Exited(_, code) => code != 0,
                other => panic!("{other:?}"),
            },
        }
    }

    #[test]
    fn a_mark_belongs_to_its_process_and_not_to_a_forked_child() {
        let mark = ForkMark::new();
        assert!(mark.page.is_some(), "this system wipes nothing");
        assert!(mark.is_own());
        assert!(!in_child(&mark));
        assert!(mark.is_own());
    }

    #[test]
    fn without_a_page_the_process_id_gives_the_same_answer() {
        let mark = ForkMark {
            page: None,
            process: std::process::id(),
        };
        assert!(mark.is_own());
        assert!(!in_child(&mark));
    }
}

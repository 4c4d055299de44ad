//! Telling a process from a child that `fork(2)` has made of it, without a system call each time.
//!
//! ```text
//!   parent: page [1]                 child: page [0], because the system wipes it (madvise(2))
//! ```
//!
//! A process id tells the same, and costs a call of the system for every call of a library. Where
//! the system wipes nothing (before Linux 4.14, in a sandbox), the process id is what is asked.

use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

/// A mark that a process makes and its forked children do not have.
#[derive(Debug)]
pub struct ForkMark {
    /// A page of this mark's own, mapped until it is dropped.
    page: Option<NonNull<AtomicU8>>,
    process: u32,
}

/// Bytes that are asked for; the system rounds up to a page.
const PAGE: NonZeroUsize = NonZeroUsize::MIN;

#[expect(
    unsafe_code,
    reason = "a raw pointer keeps the compiler from seeing this"
)]
// SAFETY: the page is reached as an atomic only, by whichever thread has the mark, and unmapped by
// its drop alone.
unsafe impl Send for ForkMark {}

#[expect(
    unsafe_code,
    reason = "a raw pointer keeps the compiler from seeing this"
)]
// SAFETY: as above.
unsafe impl Sync for ForkMark {}

impl ForkMark {
    /// The mark of this process.
    #[must_use]
    pub fn new() -> Self {
        Self {
            page: marked_page(),
            process: std::process::id(),
        }
    }

    /// Whether this process made the mark. In a child that was forked since it is `false`.
    #[must_use]
    pub fn is_own(&self) -> bool {
        match self.page {
            #[expect(unsafe_code, reason = "mapped memory has no owner in Rust")]
            // SAFETY: the page is mapped as long as `self` lives, aligned, and only read or written
            // as this atomic; a child has it mapped, too.
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
            // SAFETY: `marked_page` mapped it, and nobody else has its address.
            let unmapped = unsafe { munmap(page.cast(), PAGE.get()) };
            debug_assert!(unmapped.is_ok(), "{unmapped:?}");
        }
    }
}

/// A page that holds a 1 here and a 0 in children; none where the system cannot do that.
fn marked_page() -> Option<NonNull<AtomicU8>> {
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    #[expect(unsafe_code, reason = "mapping memory is unsafe in nix")]
    // SAFETY: a new mapping at an address that the system chooses touches no other memory.
    let page = unsafe { mmap_anonymous(None, PAGE, access, MapFlags::MAP_PRIVATE) }.ok()?;
    #[expect(unsafe_code, reason = "some advice changes memory")]
    // SAFETY: this one changes no byte here, and concerns the page that was mapped above.
    let advised = unsafe { madvise(page, PAGE.get(), MmapAdvise::MADV_WIPEONFORK) };
    let page: NonNull<AtomicU8> = page.cast();
    if advised.is_err() {
        #[expect(unsafe_code, reason = "mapped memory has no owner in Rust")]
        // SAFETY: it was mapped above, and nobody has its address.
        let unmapped = unsafe { munmap(page.cast(), PAGE.get()) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
        return None;
    }
    #[expect(unsafe_code, reason = "mapped memory has no owner in Rust")]
    // SAFETY: a fresh page is zeroed, which is an atomic's value, and writable.
    unsafe { page.as_ref() }.store(1, Ordering::Relaxed);
    Some(page)
}

#[cfg(test)]
mod tests {
    use nix::libc;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    use super::*;

    /// What a forked child says of a mark.
    fn in_child(mark: &ForkMark) -> bool {
        #[expect(unsafe_code, reason = "fork is unsafe in programs of several threads")]
        // SAFETY: the child calls nothing but `is_own`, which takes no lock, and `_exit`.
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
    fn a_mark_is_the_own_of_its_process_and_not_of_a_forked_child() {
        let mark = ForkMark::new();
        assert!(mark.page.is_some(), "this system wipes nothing");
        assert!(mark.is_own());
        assert!(!in_child(&mark));
        assert!(mark.is_own());
    }

    #[test]
    fn without_a_page_the_process_id_tells_the_same() {
        let mark = ForkMark {
            page: None,
            process: std::process::id(),
        };
        assert!(mark.is_own());
        assert!(!in_child(&mark));
    }
}

//! Memory that several processes map, under a name or passed as a descriptor.
//!
//! The blocks of an object are allocated when it is created. A full `/dev/shm` is then an error of
//! `create`, not a SIGBUS at the first access to a missing page.
//!
//! Another process with the right to write a named object can still shrink it. Access to the
//! missing pages then kills the accessing process. There are two protections: system calls on such
//! memory fail with `EFAULT`, so that transfers of [`Span`](crate::span::Span)s and
//! [`SharedMemory::write_at`] are safe; and an object without a name can be sealed.

use std::ffi::CString;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, OFlag, SealFlag, fallocate, fcntl};
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{shm_open, shm_unlink};
use nix::sys::stat::Mode;

/// A shared-memory object. Dropping it closes the descriptor. A name remains until it is unlinked.
#[derive(Debug)]
pub struct SharedMemory(File);

/// The size of the pages of an object without a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PageSize {
    /// The machine's default, mostly 4 KiB.
    Normal,
    /// 2 MiB pages from the system's reserve.
    Huge2M,
    /// 1 GiB pages from the system's reserve.
    Huge1G,
}

impl PageSize {
    /// Bytes of one page; `None` for [`PageSize::Normal`], which depends on the machine.
    #[must_use]
    pub const fn huge_bytes(self) -> Option<u64> {
        match self {
            Self::Normal => None,
            Self::Huge2M => Some(2 << 20),
            Self::Huge1G => Some(1 << 30),
        }
    }
}

impl SharedMemory {
    /// Creates an object of `bytes` zero bytes under a free name. `name` is `/` followed by at most
    /// 254 bytes without another `/`. Only the owner may open the object; see
    /// [`crate::share_with_group`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if the name is taken; [`ErrorKind::StorageFull`] or
    /// [`ErrorKind::OutOfMemory`] if there is no room. The name stays free after these errors.
    pub fn create(name: &str, bytes: u64) -> io::Result<Self> {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_RDWR | OFlag::O_CLOEXEC;
        let descriptor = shm_open(name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
        let object = Self(File::from(descriptor));
        if let Err(error) = object.allocate(bytes) {
            let _unlinked = unlink_shared_memory(name);
            return Err(error);
        }
        Ok(object)
    }

    /// Opens an existing object for reading and writing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] or [`ErrorKind::PermissionDenied`].
    pub fn open(name: &str) -> io::Result<Self> {
        let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC;
        let descriptor = shm_open(name, flags, Mode::empty())?;
        Ok(Self(File::from(descriptor)))
    }

    /// Creates a sealed object without a name in any directory: no process can shrink or grow it.
    /// It has at least `bytes` zero bytes, rounded up to whole pages. `label` is only shown in
    /// `/proc`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OutOfMemory`] if the system's reserve of huge pages is too small (it is empty
    /// unless `vm.nr_hugepages` was set); `EINVAL` if the machine has no pages of that size.
    pub fn anonymous(label: &str, bytes: u64, pages: PageSize) -> io::Result<Self> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING | huge_flags(pages);
        let label = CString::new(label).map_err(|_| ErrorKind::InvalidInput)?;
        let object = Self(File::from(memfd_create(label.as_c_str(), flags)?));
        let page = pages.huge_bytes().unwrap_or(1);
        let bytes = bytes
            .checked_next_multiple_of(page)
            .ok_or(ErrorKind::InvalidInput)?;
        object.allocate(bytes).map_err(without_huge_pages)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&object.0, FcntlArg::F_ADD_SEALS(seals))?;
        Ok(object)
    }

    /// Opens an object without a name that another process has under a descriptor, for reading and
    /// writing. This process must be allowed to read the other's `/proc` entry, which mostly means
    /// the same user.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] if there is no such process or descriptor,
    /// [`ErrorKind::PermissionDenied`] if it belongs to another user.
    pub fn open_of_process(process: u32, descriptor: u32) -> io::Result<Self> {
        // The descriptor may be something else; opening it must not block.
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let mut options = File::options();
        options.read(true).write(true).custom_flags(flags.bits());
        let path = format!("/proc/{process}/fd/{descriptor}");
        Ok(Self(options.open(path)?))
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let length = libc::off_t::try_from(bytes).map_err(|_| ErrorKind::InvalidInput)?;
        if length == 0 {
            return Err(ErrorKind::InvalidInput.into());
        }
        loop {
            match fallocate(&self.0, FallocateFlags::empty(), 0, length) {
                Err(Errno::EINTR) => {}
                done => return Ok(done?),
            }
        }
    }

    /// Returns the present size of the object in bytes. It is smaller than the allocated size only
    /// if another process shrank the object.
    ///
    /// # Errors
    ///
    /// Errors of `fstat(2)`.
    pub fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    /// Takes the lock of the object (`flock(2)`) until this descriptor and all its copies are
    /// closed. A process that opens the name again has another descriptor and cannot take the lock
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if another descriptor holds the lock.
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        self.0.try_lock()
    }

    /// Returns the group to which [`crate::share_with_group`] gave access, if any.
    ///
    /// # Errors
    ///
    /// Errors of `fstat(2)`.
    pub fn group(&self) -> io::Result<Option<u32>> {
        let metadata = self.0.metadata()?;
        let shared = metadata.mode() & 0o060 == 0o060;
        Ok(shared.then_some(metadata.gid()))
    }

    /// Returns whether the object can no longer shrink.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        let seals = fcntl(&self.0, FcntlArg::F_GET_SEALS).unwrap_or(0);
        SealFlag::from_bits_truncate(seals).contains(SealFlag::F_SEAL_SHRINK)
    }

    /// Writes bytes at an offset by a system call, which cannot fault on a missing page. Processes
    /// that map the object see the bytes at once. They may see half of an aligned word of 4 or 8
    /// bytes. A word that other processes watch is therefore stored through
    /// [`Mapping`](crate::Mapping), or has a single writer and readers that tolerate such values.
    ///
    /// # Errors
    ///
    /// Errors of `pwrite(2)`; `EINVAL` for objects with huge pages.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    /// Reads bytes at an offset by a system call, which cannot fault on a missing page.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnexpectedEof`] if the object ends earlier.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, offset)
    }

    /// Maps the first `bytes` bytes of the object.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] if the object is shorter than `bytes` or `bytes` is 0,
    /// [`ErrorKind::OutOfMemory`] if there is no address space or no huge page.
    pub fn map(&self, bytes: usize) -> io::Result<crate::Mapping> {
        let length = NonZeroUsize::new(bytes).ok_or(ErrorKind::InvalidInput)?;
        if self.size()? < bytes as u64 {
            return Err(ErrorKind::InvalidInput.into());
        }
        crate::Mapping::of(&self.0, length)
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Removes the name of a shared-memory object. Processes that have it mapped keep it.
///
/// # Errors
///
/// [`ErrorKind::NotFound`] or [`ErrorKind::PermissionDenied`].
pub fn unlink_shared_memory(name: &str) -> io::Result<()> {
    Ok(shm_unlink(name)?)
}

fn huge_flags(pages: PageSize) -> MFdFlags {
    match pages {
        PageSize::Normal => MFdFlags::empty(),
        PageSize::Huge2M => MFdFlags::MFD_HUGETLB | MFdFlags::MFD_HUGE_2MB,
        PageSize::Huge1G => MFdFlags::MFD_HUGETLB | MFdFlags::MFD_HUGE_1GB,
    }
}

/// `fallocate(2)` reports an empty reserve of huge pages as a full disk.
fn without_huge_pages(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::StorageFull => ErrorKind::OutOfMemory.into(),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::AtomicBool;

    use super::*;

    struct Name(String);

    impl Name {
        fn new(what: &str) -> Self {
            Self(format!("/finerail-sys.{}.{what}", std::process::id()))
        }
    }

    impl Drop for Name {
        fn drop(&mut self) {
            let _absent = unlink_shared_memory(&self.0);
        }
    }

    #[test]
    fn what_one_mapping_stores_the_other_loads() {
        let name = Name::new("words");
        let made = SharedMemory::create(&name.0, 8192).unwrap();
        let near = made.map(8192).unwrap();
        let far = SharedMemory::open(&name.0).unwrap().map(8192).unwrap();
        assert_eq!(far.load_u64(4096), Some(0));
        assert!(near.store_u64(4096, 7));
        assert!(near.store_u32(8, 9));
        assert_eq!(far.load_u64(4096), Some(7));
        assert_eq!(far.load_u32(8), Some(9));
        made.write_at(16, &5_u64.to_ne_bytes()).unwrap();
        assert_eq!(far.load_u64(16), Some(5));
        let mut bytes = [0; 8];
        made.read_at(16, &mut bytes).unwrap();
        assert_eq!(bytes, 5_u64.to_ne_bytes());
        assert!(made.read_at(8190, &mut bytes).is_err());
    }

    #[test]
    fn words_outside_or_across_their_alignment_are_rejected() {
        let object = SharedMemory::anonymous("words", 4096, PageSize::Normal).unwrap();
        let mapping = object.map(4096).unwrap();
        for bad in [1, 4, 4089, 4096, usize::MAX, usize::MAX - 7] {
            assert_eq!(mapping.load_u64(bad), None, "{bad}");
            assert!(!mapping.store_u64(bad, 1), "{bad}");
        }
        assert_eq!(mapping.load_u64(4088), Some(0));
        assert_eq!(mapping.load_u32(4092), Some(0));
        assert_eq!(mapping.load_u32(4094), None);
    }

    #[test]
    fn only_the_owner_may_open_it_and_the_blocks_are_there() {
        let name = Name::new("blocks");
        let made = SharedMemory::create(&name.0, 1 << 20).unwrap();
        let metadata = made.0.metadata().unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        assert_eq!(made.group().unwrap(), None);
        crate::share_with_group(&made, metadata.gid()).unwrap();
        assert_eq!(made.group().unwrap(), Some(metadata.gid()));
        assert_eq!(metadata.len(), 1 << 20);
        let allocated = std::os::unix::fs::MetadataExt::blocks(&metadata) * 512;
        assert!(allocated >= 1 << 20, "{allocated}");
    }

    #[test]
    fn no_room_is_an_error_at_creation_and_leaves_no_name() {
        let name = Name::new("full");
        // More than any machine's /dev/shm.
        let full = SharedMemory::create(&name.0, 1 << 60).unwrap_err();
        let kinds = [
            ErrorKind::StorageFull,
            ErrorKind::OutOfMemory,
            ErrorKind::FileTooLarge,
        ];
        assert!(kinds.contains(&full.kind()), "{full:?}");
        let absent = SharedMemory::open(&name.0).unwrap_err();
        assert_eq!(absent.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_taken_name_is_rejected() {
        let name = Name::new("taken");
        let _made = SharedMemory::create(&name.0, 4096).unwrap();
        let taken = SharedMemory::create(&name.0, 4096).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    }

    #[test]
    fn an_object_without_a_name_cannot_be_shrunk() {
        let object = SharedMemory::anonymous("sealed", 8192, PageSize::Normal).unwrap();
        assert!(object.is_sealed());
        assert!(object.0.set_len(0).is_err());
        assert_eq!(object.size().unwrap(), 8192);
    }

    #[test]
    fn an_object_without_a_name_is_found_by_its_process_and_descriptor() {
        let object = SharedMemory::anonymous("found", 4096, PageSize::Normal).unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&object.0).unsigned_abs();
        let process = std::process::id();
        let found = SharedMemory::open_of_process(process, descriptor).unwrap();
        assert!(found.is_sealed());
        assert!(object.map(4096).unwrap().store_u32(8, 7));
        assert_eq!(found.map(4096).unwrap().load_u32(8), Some(7));
        let nothing = SharedMemory::open_of_process(process, 1 << 20).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn memory_that_another_process_cut_off_fails_in_system_calls_without_a_signal() {
        let name = Name::new("cut");
        let object = SharedMemory::create(&name.0, 1 << 16).unwrap();
        let mapping = object.map(1 << 16).unwrap();
        assert!(!object.is_sealed());
        SharedMemory::open(&name.0)
            .unwrap()
            .0
            .set_len(4096)
            .unwrap();
        assert_eq!(object.size().unwrap(), 4096);
        let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let span = mapping.span(8192, 4096).unwrap();
        let sent = crate::span::write(&far, &[], &[span], 0);
        assert_eq!(sent.unwrap_err().raw_os_error(), Some(libc::EFAULT));
        drop(far);
        assert_eq!(near.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn huge_pages_are_used_or_reported_missing() {
        for pages in [PageSize::Huge2M, PageSize::Huge1G] {
            match SharedMemory::anonymous("huge", 1, pages) {
                Ok(object) => {
                    assert_eq!(object.size().unwrap(), pages.huge_bytes().unwrap());
                    let bytes = usize::try_from(object.size().unwrap()).unwrap();
                    assert_eq!(object.map(bytes).unwrap().load_u64(0), Some(0));
                }
                Err(error) => assert!(
                    error.kind() == ErrorKind::OutOfMemory
                        || error.raw_os_error() == Some(libc::EINVAL),
                    "{error:?}"
                ),
            }
        }
    }

    #[test]
    fn a_mapping_is_never_longer_than_its_object() {
        let object = SharedMemory::anonymous("short", 4096, PageSize::Normal).unwrap();
        assert!(object.map(4097).is_err());
        assert!(object.map(0).is_err());
    }

    #[test]
    fn prefaulting_keeps_the_contents_and_stops_on_request() {
        let object = SharedMemory::anonymous("prefault", 1 << 22, PageSize::Normal).unwrap();
        let mapping = object.map(1 << 22).unwrap();
        assert!(mapping.store_u64(1 << 20, 42));
        let stop = AtomicBool::new(false);
        assert_eq!(mapping.prefault(&stop).unwrap(), 1 << 22);
        assert_eq!(mapping.load_u64(1 << 20), Some(42));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(mapping.prefault(&stop).unwrap(), 0);
    }
}

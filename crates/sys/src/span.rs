//! Memory that outlives a call: its address, its length, and the owner that keeps it valid.
//!
//! ```text
//!                     ┌── start          start + len ──┐
//!  Span ──────────────▶████████████████████████████████
//!    └─ owner
//!        ├ Exclusive(Arc)   a heap allocation, a lease of a region, or what a caller lent: reachable through it alone
//!        ├ Vector(Arc)      the same, of memory that was a vector and can be one again
//!        ├ Shared(Arc)      a mapping that other processes, or other spans, reach too
//!        └ Foreign          a C caller's; it promised to keep the memory
//! ```
//!
//! A message is received into memory that is not on the stack, from another thread, and possibly
//! while another process writes there. No `&[u8]` to such memory may exist. A [`Span`] therefore
//! only copies bytes in and out, and passes addresses to the kernel; a clone refers to the same
//! bytes. [`Exclusive`] is the form for programs: the only handle of its memory, which is
//! accessible as a slice.
//!
//! If another thread or process writes bytes while they are copied, the copy has old bytes, new
//! bytes, or a mix, and nothing else happens: see `copy`. Code of this workspace copies bytes that
//! another process may change before it makes decisions on them.
//!
//! A slice needs more: nobody else may write. [`Exclusive`] has the only span of its memory, and
//! [`Leases`] has the only span of the region that it leases out. What the compiler cannot check
//! are other processes, and other mappings of the same object, which are like other processes. Those
//! that map an exclusive region promise to write to a part only while an operation is posted on it,
//! so while it is a [`Span`].
//!
//! A span never reads or writes outside its range: parts are checked when they are made.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut, Range};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use nix::libc;

/// Alignment of memory that this module allocates, in bytes: a cache line. BMI promises 16.
pub const ALIGNMENT: usize = 64;

/// The smallest page of Linux, in bytes.
pub const PAGE: usize = 4096;

/// A range of memory that stays valid as long as the span or a clone of it lives.
#[derive(Clone)]
pub struct Span {
    start: NonNull<u8>,
    len: usize,
    owner: Owner,
}

/// The owner that keeps the memory of a span valid.
#[derive(Clone)]
enum Owner {
    Exclusive(Arc<dyn Send + Sync>),
    /// Like `Exclusive`, for memory that was a vector or can become one.
    Vector(Arc<Heap>),
    Shared(#[expect(dead_code, reason = "kept for its drop")] Arc<dyn Send + Sync>),
    Foreign,
}

#[expect(
    unsafe_code,
    reason = "a raw pointer is what keeps the compiler from seeing that this is safe"
)]
// SAFETY: a span has no state that is bound to a thread. The owner moves with the span, is Send and
// Sync itself, and keeps the memory mapped.
unsafe impl Send for Span {}

#[expect(
    unsafe_code,
    reason = "a raw pointer is what keeps the compiler from seeing that this is safe"
)]
// SAFETY: a shared span makes no reference to its memory. It passes the address to the kernel, or
// copies bytes with `copy`, which tolerates concurrent copies.
unsafe impl Sync for Span {}

impl Span {
    /// Allocates `len` zero bytes, aligned to [`ALIGNMENT`]. An empty span also has an address of
    /// its own.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::OutOfMemory`]: the allocator has no range of this length.
    pub fn zeroed(len: usize) -> io::Result<Span> {
        Self::aligned(len, ALIGNMENT)
    }

    /// Allocates `len` zero bytes, aligned to [`PAGE`]: the kernel copies long messages fastest from
    /// and to whole pages.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::OutOfMemory`]: the allocator has no range of this length.
    pub fn pages(len: usize) -> io::Result<Span> {
        Self::aligned(len, PAGE)
    }

    fn aligned(len: usize, alignment: usize) -> io::Result<Span> {
        let heap = Heap::zeroed(len, alignment)?;
        Ok(Span {
            start: heap.start,
            len,
            owner: Owner::Exclusive(Arc::new(heap)),
        })
    }

    /// Makes a span of memory for which the caller is responsible.
    ///
    /// # Safety
    ///
    /// The `len` bytes at `start` are valid for reads and writes until the span and every span made
    /// from it are dropped. While one of them is in use, no reference to the memory exists. `start`
    /// may be null or dangling if `len` is 0.
    #[must_use]
    #[expect(
        unsafe_code,
        reason = "only the caller knows how long the memory lives"
    )]
    pub unsafe fn foreign(start: *mut u8, len: usize) -> Span {
        Span {
            start: NonNull::new(start).unwrap_or(NonNull::dangling()),
            len,
            owner: Owner::Foreign,
        }
    }

    /// Does the same as [`Span::foreign`], for a caller that asks [`Span::is_unique`] whether the memory is still used.
    ///
    /// # Safety
    ///
    /// As [`Span::foreign`].
    #[must_use]
    #[expect(
        unsafe_code,
        reason = "only the caller knows how long the memory lives"
    )]
    pub unsafe fn lent(start: *mut u8, len: usize) -> Span {
        Span {
            start: NonNull::new(start).unwrap_or(NonNull::dangling()),
            len,
            owner: Owner::Exclusive(Arc::new(())),
        }
    }

    /// Makes a span of memory that `keeper` keeps mapped and that others access, too.
    ///
    /// # Safety
    ///
    /// The `len` bytes at `start` are valid for reads and writes as long as `keeper` lives, and
    /// this process holds no reference to them.
    #[must_use]
    #[expect(unsafe_code, reason = "only the caller knows what the keeper keeps")]
    pub(crate) unsafe fn kept(
        start: NonNull<u8>,
        len: usize,
        keeper: Arc<dyn Send + Sync>,
    ) -> Span {
        Span {
            start,
            len,
            owner: Owner::Shared(keeper),
        }
    }

    /// Makes the first span of memory that `keeper` keeps mapped.
    ///
    /// # Safety
    ///
    /// The `len` initialised bytes at `start` are valid for reads and writes as long as `keeper`
    /// lives, and nothing else in this process knows their address.
    #[must_use]
    #[expect(unsafe_code, reason = "only the caller knows what the keeper keeps")]
    pub(crate) unsafe fn first(
        start: NonNull<u8>,
        len: usize,
        keeper: impl Send + Sync + 'static,
    ) -> Span {
        Span {
            start,
            len,
            owner: Owner::Exclusive(Arc::new(keeper)),
        }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the span has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the first byte, for a C caller. Never null.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Addresses of the bytes.
    #[must_use]
    pub fn addresses(&self) -> Range<usize> {
        let first = self.start.addr().get();
        first..first + self.len
    }

    /// Returns whether every byte is in the given range of addresses. An empty span is inside if
    /// its address is in the range or at its end.
    #[must_use]
    pub fn is_inside(&self, range: &Range<usize>) -> bool {
        let own = self.addresses();
        range.start <= own.start && own.end <= range.end
    }

    /// Returns the bytes `range` of this span, relative to its start, or `None` if some of them are
    /// outside the span.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Option<Span> {
        let len = range.end.checked_sub(range.start)?;
        if range.end > self.len {
            return None;
        }
        Some(Span {
            start: self.at(range.start),
            len,
            owner: self.owner.clone(),
        })
    }

    /// Copies `bytes` to the start of the span. Returns the number of bytes that fitted.
    pub fn copy_in(&self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.len);
        #[expect(unsafe_code, reason = "no reference to the target may exist")]
        // SAFETY: `count` bytes are readable at `bytes` and, because the owner lives, writable at
        // `start`. No reference to the span's memory exists, so the two do not overlap.
        unsafe {
            copy(bytes.as_ptr(), self.start.as_ptr(), count);
        }
        count
    }

    /// Copies the start of the span to `bytes`. Returns the number of bytes copied.
    pub fn copy_out(&self, bytes: &mut [u8]) -> usize {
        let count = bytes.len().min(self.len);
        #[expect(unsafe_code, reason = "no reference to the source may exist")]
        // SAFETY: `count` bytes are writable at `bytes` and, because the owner lives, readable at
        // `start`.
        unsafe {
            copy(self.start.as_ptr(), bytes.as_mut_ptr(), count);
        }
        count
    }

    /// Copies the start of this span to the start of another, which may overlap it. Returns the
    /// number of bytes: the shorter of the two lengths.
    pub fn copy_to(&self, target: &Span) -> usize {
        let count = self.len.min(target.len);
        #[expect(unsafe_code, reason = "no reference to either side may exist")]
        // SAFETY: both owners live, so `count` bytes are readable in this span and writable in the
        // other; `copy` allows an overlap.
        unsafe {
            copy(self.start.as_ptr(), target.start.as_ptr(), count);
        }
        count
    }

    /// Returns a copy of the bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.copy_out(&mut bytes);
        bytes
    }

    /// Returns whether no other span refers to the memory, so that nothing else accesses it. Always
    /// false for a mapping and for foreign memory.
    pub fn is_unique(&mut self) -> bool {
        match &mut self.owner {
            Owner::Exclusive(owner) => Arc::get_mut(owner).is_some(),
            Owner::Vector(owner) => Arc::get_mut(owner).is_some(),
            Owner::Shared(_) | Owner::Foreign => false,
        }
    }

    /// Returns the bytes as a vector. Does not copy if the span was made from a vector, is the
    /// whole vector, and is the only span of it.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        let is_whole = |heap: &Heap| heap.start == self.start && heap.len == self.len;
        match &self.owner {
            Owner::Vector(heap) if is_whole(heap) && Arc::strong_count(heap) == 1 => {}
            _ => return self.to_vec(),
        }
        let len = self.len;
        let Owner::Vector(heap) = self.owner else {
            return Vec::new();
        };
        match Arc::try_unwrap(heap) {
            Ok(heap) => heap.into_vec(),
            // The owner was unique above, and only a clone could be cloned again.
            Err(_) => vec![0; len],
        }
    }

    /// Returns the address at `offset`, which must not exceed the length.
    fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.len);
        // This dereferences nothing. The length of a mapped range is at most `isize::MAX`, so the
        // addition cannot wrap.
        NonNull::new(self.start.as_ptr().wrapping_add(offset)).unwrap_or(self.start)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = match &self.owner {
            Owner::Exclusive(_) | Owner::Vector(_) => "exclusive",
            Owner::Shared(_) => "shared",
            Owner::Foreign => "foreign",
        };
        write!(f, "Span({:p}+{}, {owner})", self.start, self.len)
    }
}

impl From<Vec<u8>> for Span {
    /// Takes over the memory of the vector without copying. Capacity beyond the length is not part
    /// of the span.
    fn from(bytes: Vec<u8>) -> Span {
        let heap = Heap::from(bytes);
        Span {
            start: heap.start,
            len: heap.len,
            owner: Owner::Vector(Arc::new(heap)),
        }
    }
}

/// The only handle of its memory, which is therefore accessible as a slice of bytes.
#[derive(Debug)]
pub struct Exclusive {
    span: Span,
}

impl Exclusive {
    /// Allocates `len` zero bytes, aligned to [`ALIGNMENT`].
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::OutOfMemory`]: the allocator has no range of this length.
    pub fn zeroed(len: usize) -> io::Result<Exclusive> {
        Span::zeroed(len).map(|span| Exclusive { span })
    }

    /// Makes a span exclusive again.
    ///
    /// If there are other clones of the span, or if it was never exclusive, its bytes are copied to
    /// fresh memory, which is always safe and rarely wanted.
    #[must_use]
    pub fn reclaim(mut span: Span) -> Exclusive {
        if !span.is_unique() {
            span = Span::from(span.to_vec());
        }
        Exclusive { span }
    }

    /// Gives up access as a slice, so that the memory can be posted.
    #[must_use]
    pub fn into_span(self) -> Span {
        self.span
    }

    /// Addresses of the bytes.
    #[must_use]
    pub fn addresses(&self) -> Range<usize> {
        self.span.addresses()
    }
}

impl From<Vec<u8>> for Exclusive {
    fn from(bytes: Vec<u8>) -> Exclusive {
        Exclusive {
            span: Span::from(bytes),
        }
    }
}

impl Deref for Exclusive {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        #[expect(unsafe_code, reason = "exclusive memory is a slice")]
        // SAFETY: the memory is initialised (zeroed, from a vector, or mapped) and lives as long as
        // the span. No other span of this process refers to it: `zeroed` and `from` made the only
        // one; `reclaim` checked that the owner has no other span; the owner of a lease is the
        // lease, which overlaps no other lease of a region that has no span but that of `Leases`;
        // and this type gives out no clone.
        unsafe {
            std::slice::from_raw_parts(self.span.start.as_ptr(), self.span.len)
        }
    }
}

impl DerefMut for Exclusive {
    fn deref_mut(&mut self) -> &mut [u8] {
        #[expect(unsafe_code, reason = "exclusive memory is a slice")]
        // SAFETY: as for `deref`, and `self` is borrowed as long as the slice.
        unsafe {
            std::slice::from_raw_parts_mut(self.span.start.as_ptr(), self.span.len)
        }
    }
}

/// Leases disjoint parts of a region that it owns, each exclusive within this process.
///
/// This is not an allocator: the caller chooses the ranges, and `Leases` checks that they do not
/// overlap.
#[derive(Debug)]
pub struct Leases {
    region: Span,
    /// The first byte of each lease, with the byte after its last one.
    taken: Mutex<BTreeMap<usize, usize>>,
}

impl Leases {
    /// Takes over a region, without leases. Returns `None` unless the span is the only one of its
    /// memory: a second one could write to what is leased.
    #[must_use]
    pub fn new(mut region: Span) -> Option<Arc<Leases>> {
        region.is_unique().then(|| {
            Arc::new(Leases {
                region,
                taken: Mutex::default(),
            })
        })
    }

    /// Addresses of the region.
    #[must_use]
    pub fn addresses(&self) -> Range<usize> {
        self.region.addresses()
    }

    /// Leases the bytes `range` of the region. Returns `None` if some of them are outside the
    /// region or leased already. `keeper` is dropped after the last span of the lease, when the
    /// range may be leased again; its `drop` can return the range to an allocator.
    ///
    /// A lease of no bytes still takes its first byte, so that its address is unique.
    #[must_use]
    pub fn lease(
        self: &Arc<Leases>,
        range: Range<usize>,
        keeper: impl Send + Sync + 'static,
    ) -> Option<Span> {
        let part = self.region.part(range.clone())?;
        let end = range.end.max(range.start + 1);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let before = taken.range(..end).next_back();
        if before.is_some_and(|(_, &before_end)| before_end > range.start) {
            return None;
        }
        taken.insert(range.start, end);
        let lease = Lease {
            leases: Arc::clone(self),
            first: range.start,
            _keeper: keeper,
        };
        Some(Span {
            owner: Owner::Exclusive(Arc::new(lease)),
            ..part
        })
    }
}

/// Keeps one leased part.
struct Lease<K> {
    leases: Arc<Leases>,
    first: usize,
    /// Fields are dropped after `drop`: the range is free before the allocator learns of that.
    _keeper: K,
}

impl<K> Drop for Lease<K> {
    fn drop(&mut self) {
        let taken = &self.leases.taken;
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.remove(&self.first);
    }
}

/// Copies bytes that other threads and processes may read or write at the same time. Source and
/// target may overlap.
///
/// For the language, a plain copy of bytes that another thread writes is undefined behaviour, and it
/// has no atomic copy of many bytes. This function calls the C library's `memmove` by an address
/// that the compiler does not know, so the compiler assumes nothing of what the call accesses. The
/// processor executes it as loads and stores of bytes or larger pieces, each of which gives old or
/// new bytes: what relaxed atomic bytes would give.
///
/// # Safety
///
/// `count` bytes are readable at `from` and writable at `to` during the call. No `&mut` to the bytes
/// at `from` and no reference to those at `to` is in use elsewhere.
#[inline]
#[expect(unsafe_code, reason = "raw memory is copied")]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, count: usize) {
    type Move =
        unsafe extern "C" fn(*mut libc::c_void, *const libc::c_void, usize) -> *mut libc::c_void;
    static MOVE: Move = libc::memmove;
    if cfg!(miri) {
        // SAFETY: as the caller promises. Miri does not know `memmove`; it runs one thread here.
        return unsafe { ptr::copy(from, to, count) };
    }
    // SAFETY: `MOVE` is an initialised static. The read is volatile so that the compiler does not
    // replace the call by a copy of its own.
    let copy = unsafe { ptr::read_volatile(&raw const MOVE) };
    // SAFETY: as the caller promises; `memmove` allows an overlap.
    unsafe {
        copy(to.cast(), from.cast(), count);
    }
}

/// Copies `bytes` into spans, as if they were contiguous, from byte `skip` of the spans. Returns
/// the number of bytes that fitted.
pub fn scatter(spans: &[Span], mut skip: usize, bytes: &[u8]) -> usize {
    let mut done = 0;
    for span in spans {
        let left_out = skip.min(span.len);
        skip -= left_out;
        if let Some(rest) = span.part(left_out..span.len) {
            done += rest.copy_in(&bytes[done..]);
        }
    }
    done
}

/// Copies bytes from spans, as if they were contiguous, from byte `skip` of the spans. Returns the
/// number of bytes copied.
pub fn gather(spans: &[Span], mut skip: usize, bytes: &mut [u8]) -> usize {
    let mut done = 0;
    for span in spans {
        let left_out = skip.min(span.len);
        skip -= left_out;
        if let Some(rest) = span.part(left_out..span.len) {
            done += rest.copy_out(&mut bytes[done..]);
        }
    }
    done
}

/// Reads from a descriptor into spans and then into `tail`, with one `readv(2)`.
///
/// Skips the first `skip` bytes of the spans, which an earlier call read. Returns 0 at the end of
/// the stream or if there is no room. One call uses at most [`PARTS_MAX`] parts, so it may read
/// less than there is room for.
///
/// # Errors
///
/// Errors of `readv(2)`, including [`io::ErrorKind::WouldBlock`].
pub fn read(source: &impl AsFd, spans: &[Span], skip: usize, tail: &mut [u8]) -> io::Result<usize> {
    let mut parts = Parts::new();
    parts.add_spans(spans, skip);
    parts.add(tail.as_mut_ptr(), tail.len());
    let descriptor = source.as_fd().as_raw_fd();
    #[expect(
        unsafe_code,
        reason = "the kernel writes to memory without a reference"
    )]
    // SAFETY: the descriptor is open while `source` is borrowed. Every part is in a span, whose
    // owner is borrowed, or in `tail`, which is borrowed exclusively.
    let count = unsafe { libc::readv(descriptor, parts.list.as_ptr(), parts.count()) };
    counted(count)
}

/// Writes `head` and then spans to a descriptor, with one `writev(2)`.
///
/// Skips the first `skip` bytes of head and spans, which an earlier call wrote. One call uses at
/// most [`PARTS_MAX`] parts, so it may write less than there is.
///
/// # Errors
///
/// Errors of `writev(2)`, including [`io::ErrorKind::WouldBlock`]. A socket or pipe whose other end
/// is closed raises `SIGPIPE`, which Rust programs ignore and C programs may not: see [`send`].
pub fn write(target: &impl AsFd, head: &[u8], spans: &[Span], skip: usize) -> io::Result<usize> {
    let parts = Parts::of_message(head, spans, skip);
    let descriptor = target.as_fd().as_raw_fd();
    #[expect(unsafe_code, reason = "the kernel reads memory without a reference")]
    // SAFETY: the descriptor is open while `target` is borrowed. Every part is in a span, whose
    // owner is borrowed, or in `head`, which is borrowed and only read.
    let count = unsafe { libc::writev(descriptor, parts.list.as_ptr(), parts.count()) };
    counted(count)
}

/// Like [`write()`] for sockets, without raising `SIGPIPE`.
///
/// # Errors
///
/// Errors of `sendmsg(2)`; [`io::ErrorKind::BrokenPipe`] if the other end is closed.
pub fn send(socket: &impl AsFd, head: &[u8], spans: &[Span], skip: usize) -> io::Result<usize> {
    let mut parts = Parts::of_message(head, spans, skip);
    let descriptor = socket.as_fd().as_raw_fd();
    #[expect(unsafe_code, reason = "an all-zero msghdr is how C initialises it")]
    // SAFETY: every field of msghdr is an integer or a pointer, for which zero is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.list.as_mut_ptr();
    message.msg_iovlen = parts.used as _; // `size_t` with glibc, `int` with musl
    #[expect(unsafe_code, reason = "the kernel reads memory without a reference")]
    // SAFETY: as for `write`. The message refers only to the list of parts, which outlives the
    // call.
    let count = unsafe { libc::sendmsg(descriptor, &raw const message, libc::MSG_NOSIGNAL) };
    counted(count)
}

/// Like [`read`], named as the counterpart of [`send`].
///
/// # Errors
///
/// Errors of [`read`].
pub fn receive(
    socket: &impl AsFd,
    spans: &[Span],
    skip: usize,
    tail: &mut [u8],
) -> io::Result<usize> {
    read(socket, spans, skip, tail)
}

/// Most parts of one system call. Linux allows 1024, but this many fit on the stack without a page
/// of their own, and lists of more than a few dozen parts rarely have small ones.
pub const PARTS_MAX: usize = 64;

/// The parts of one vectored call.
pub(crate) struct Parts {
    list: [libc::iovec; PARTS_MAX],
    used: usize,
}

impl Parts {
    pub(crate) fn new() -> Parts {
        let empty = libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        Parts {
            list: [empty; PARTS_MAX],
            used: 0,
        }
    }

    fn of_message(head: &[u8], spans: &[Span], skip: usize) -> Parts {
        let mut parts = Parts::new();
        let rest = &head[skip.min(head.len())..];
        parts.add(rest.as_ptr().cast_mut(), rest.len());
        parts.add_spans(spans, skip.saturating_sub(head.len()));
        parts
    }

    pub(crate) fn add(&mut self, start: *mut u8, len: usize) {
        if len > 0 && self.used < PARTS_MAX {
            self.list[self.used] = libc::iovec {
                iov_base: start.cast(),
                iov_len: len,
            };
            self.used += 1;
        }
    }

    pub(crate) fn add_spans(&mut self, spans: &[Span], mut skip: usize) {
        for span in spans {
            let left_out = skip.min(span.len);
            skip -= left_out;
            self.add(span.at(left_out).as_ptr(), span.len - left_out);
        }
    }

    pub(crate) fn as_ptr(&self) -> *const libc::iovec {
        self.list.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.used
    }

    pub(crate) fn list(&self) -> &[libc::iovec] {
        &self.list[..self.used]
    }

    pub(crate) fn bytes(&self) -> usize {
        self.list().iter().map(|part| part.iov_len).sum()
    }

    fn count(&self) -> libc::c_int {
        // At most PARTS_MAX, which fits in any C int.
        self.used as libc::c_int
    }
}

pub(crate) fn counted(count: isize) -> io::Result<usize> {
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Memory of the global allocator.
struct Heap {
    start: NonNull<u8>,
    len: usize,
    layout: Layout,
}

impl Heap {
    fn zeroed(len: usize, alignment: usize) -> io::Result<Heap> {
        let exhausted = || io::Error::from(io::ErrorKind::OutOfMemory);
        let layout = Layout::from_size_align(len.max(1), alignment).map_err(|_| exhausted())?;
        #[expect(unsafe_code, reason = "std has no zeroed allocation with an alignment")]
        // SAFETY: the layout has at least one byte.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or_else(exhausted)?;
        Ok(Heap { start, len, layout })
    }
}

impl From<Vec<u8>> for Heap {
    fn from(bytes: Vec<u8>) -> Heap {
        let mut bytes = ManuallyDrop::new(bytes);
        // A vector's layout is that of an array of its capacity, and a capacity of 0 has none. The
        // size was checked when the vector grew, so the array's layout exists.
        let layout = Layout::array::<u8>(bytes.capacity()).unwrap_or(Layout::new::<()>());
        Heap {
            start: NonNull::new(bytes.as_mut_ptr()).unwrap_or(NonNull::dangling()),
            len: bytes.len(),
            layout,
        }
    }
}

impl Heap {
    /// Only for memory that came from a vector.
    fn into_vec(self) -> Vec<u8> {
        let heap = ManuallyDrop::new(self);
        #[expect(unsafe_code, reason = "the counterpart of taking a vector apart")]
        // SAFETY: `start`, `len` and the size of the layout are the pointer, length and capacity of
        // the original vector, which was forgotten and whose bytes are initialised.
        unsafe {
            Vec::from_raw_parts(heap.start.as_ptr(), heap.len, heap.layout.size())
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            #[expect(unsafe_code, reason = "the counterpart of the allocation")]
            // SAFETY: `start` came from the global allocator with this layout, from `zeroed` or
            // from a vector, and is freed once.
            unsafe {
                dealloc(self.start.as_ptr(), self.layout);
            }
        }
    }
}

#[expect(
    unsafe_code,
    reason = "a raw pointer is what keeps the compiler from seeing that this is safe"
)]
// SAFETY: the global allocator frees memory on any thread.
unsafe impl Send for Heap {}

#[expect(
    unsafe_code,
    reason = "a raw pointer is what keeps the compiler from seeing that this is safe"
)]
// SAFETY: a shared `Heap` has no operations.
unsafe impl Sync for Heap {}

#[cfg(test)]
#[path = "span_tests.rs"]
mod tests;

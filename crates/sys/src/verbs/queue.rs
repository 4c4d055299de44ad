//! Protection domains, registered memory and completion queues of a device.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use bytes::Bytes;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::layout::{
    AsyncElement, AsyncEvent, CompChannel, Completion, Context, Cq, DeviceAttributes, Mr, Pd,
    PortAttributes, Qp, ReceiveWork, SendWork, Sge,
};
use super::library::{Verbs, check};
use crate::span::Span;

/// The state of a port that carries traffic.
pub(super) const PORT_ACTIVE: i32 = 4;
const LOCAL_WRITE: i32 = 1;
const REMOTE_WRITE: i32 = 2;
/// The bit of the completions of receives.
const WC_RECV: i32 = 1 << 7;
/// Completions that one poll takes.
const POLL_MAX: usize = 32;

struct DomainInner {
    verbs: Verbs,
    context: NonNull<Context>,
    pd: NonNull<Pd>,
}

/// A protection domain. Clones are the same domain.
#[derive(Clone)]
pub struct Domain(Arc<DomainInner>);

#[expect(
    unsafe_code,
    reason = "a raw pointer hides that libibverbs locks its objects"
)]
// SAFETY: libibverbs may be called from any thread, with locks of its own.
unsafe impl Send for DomainInner {}

#[expect(
    unsafe_code,
    reason = "a raw pointer hides that libibverbs locks its objects"
)]
// SAFETY: as above.
unsafe impl Sync for DomainInner {}

#[expect(unsafe_code, reason = "calls of libibverbs")]
impl Drop for DomainInner {
    fn drop(&mut self) {
        // SAFETY: what was made in the domain holds it, so that nothing is left.
        let _freed = unsafe { (self.verbs.0.ibv_dealloc_pd)(self.pd.as_ptr()) };
    }
}

/// News of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceNews {
    /// A port is active.
    PortActive(u8),
    /// A port is not active any more.
    PortError(u8),
    /// The device has failed.
    Fatal,
    /// A queue has failed: what is posted there does not complete.
    QueueError(QueueName),
    /// A message arrived at a queue pair before the other end's last message of the handshake.
    Established(QueueName),
    /// Something else, by its number.
    Other(i32),
}

/// The name of a queue pair or of a completion queue in news: the number of its address, which nothing is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueName(pub(super) usize);

#[expect(unsafe_code, reason = "calls of libibverbs")]
impl Domain {
    pub(super) fn new(verbs: &Verbs, context: NonNull<Context>) -> io::Result<Self> {
        // SAFETY: librdmacm keeps the devices open as long as it is loaded.
        let pd = unsafe { (verbs.0.ibv_alloc_pd)(context.as_ptr()) };
        let pd = NonNull::new(pd).ok_or_else(io::Error::last_os_error)?;
        let inner = DomainInner {
            verbs: verbs.clone(),
            context,
            pd,
        };
        let made = Self(Arc::new(inner));
        fcntl(made.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(made)
    }

    pub(super) fn pointer(&self) -> *mut Pd {
        self.0.pd.as_ptr()
    }

    /// Returns a number that tells the devices apart.
    #[must_use]
    pub fn device(&self) -> usize {
        self.0.context.as_ptr() as usize
    }

    /// Returns the most work requests of one queue.
    ///
    /// # Errors
    ///
    /// Those of `ibv_query_device(3)`.
    pub fn work_max(&self) -> io::Result<u32> {
        // SAFETY: the structure consists of numbers.
        let mut attributes: DeviceAttributes = unsafe { std::mem::zeroed() };
        let query = self.0.verbs.0.ibv_query_device;
        // SAFETY: the context is valid; the structure is as long as the library's.
        check(unsafe { query(self.0.context.as_ptr(), &raw mut attributes) })?;
        Ok(u32::try_from(attributes.max_qp_wr).unwrap_or(0))
    }

    /// Returns whether a port is active.
    ///
    /// # Errors
    ///
    /// Those of `ibv_query_port(3)`, such as for a port that the device does not have.
    pub fn is_port_active(&self, port: u8) -> io::Result<bool> {
        // SAFETY: the structure consists of numbers.
        let mut attributes: PortAttributes = unsafe { std::mem::zeroed() };
        let query = self.0.verbs.0.ibv_query_port;
        // SAFETY: the context is valid; the structure is longer than the library's.
        check(unsafe { query(self.0.context.as_ptr(), port, &raw mut attributes) })?;
        Ok(attributes.state == PORT_ACTIVE)
    }

    /// Returns the next news of the device; `None` if there is none now. The descriptor of the domain is readable when
    /// there may be news.
    ///
    /// # Errors
    ///
    /// Those of `ibv_get_async_event(3)`.
    pub fn next_news(&self) -> io::Result<Option<DeviceNews>> {
        let mut event = AsyncEvent {
            element: AsyncElement {
                pointer: null_mut(),
            },
            event_type: 0,
        };
        let next = self.0.verbs.0.ibv_get_async_event;
        // SAFETY: the context is valid; the event is written only.
        match check(unsafe { next(self.0.context.as_ptr(), &raw mut event) }) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        // SAFETY: events of ports have this member; for others the number is not used.
        let port = unsafe { event.element.port_num } as u8;
        // SAFETY: each member is as long as a pointer or shorter, and zeros were there before.
        let queue = QueueName(unsafe { event.element.pointer }.addr());
        // SAFETY: the event was returned above and is acknowledged once.
        unsafe { (self.0.verbs.0.ibv_ack_async_event)(&raw mut event) };
        Ok(Some(match event.event_type {
            // Of a completion queue; of a queue pair: fatal, bad request, access.
            0..=3 => DeviceNews::QueueError(queue),
            4 => DeviceNews::Established(queue),
            8 => DeviceNews::Fatal,
            9 => DeviceNews::PortActive(port),
            10 => DeviceNews::PortError(port),
            other => DeviceNews::Other(other),
        }))
    }
}

impl AsFd for Domain {
    #[expect(unsafe_code, reason = "the library owns the descriptor")]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the device.
        unsafe { BorrowedFd::borrow_raw(self.0.context.as_ref().async_fd) }
    }
}

/// Memory that is registered with a device, and kept until the registration ends.
pub struct Registered {
    domain: Domain,
    mr: NonNull<Mr>,
    address: u64,
    len: usize,
    /// The memory, which stays where it is as long as this lives.
    keeper: Option<Keeper>,
}

/// The owner of registered memory.
enum Keeper {
    Span(#[expect(dead_code, reason = "kept for its drop")] Span),
    Bytes(#[expect(dead_code, reason = "kept for its drop")] Bytes),
}

#[expect(
    unsafe_code,
    reason = "a raw pointer hides that libibverbs locks its objects"
)]
// SAFETY: libibverbs may be called from any thread, with locks of its own.
unsafe impl Send for Registered {}

#[expect(unsafe_code, reason = "calls of libibverbs")]
impl Registered {
    /// Registers memory. With `is_sink`, peers that have the key may write to it.
    ///
    /// # Errors
    ///
    /// Those of `ibv_reg_mr(3)`: `ENOMEM` if the process may pin no more memory.
    pub fn new(domain: &Domain, memory: &Span, is_sink: bool) -> io::Result<Self> {
        let access = if is_sink {
            LOCAL_WRITE | REMOTE_WRITE
        } else {
            0
        };
        Self::of_span(domain, memory, access)
    }

    /// Registers immutable bytes, which the device only reads.
    ///
    /// # Errors
    ///
    /// Those of [`Registered::new`].
    pub fn source(domain: &Domain, bytes: &Bytes) -> io::Result<Self> {
        let (start, len) = (bytes.as_ptr().cast_mut(), bytes.len());
        Self::with(domain, start, len, 0, Keeper::Bytes(bytes.clone()))
    }

    /// Registers memory for receive buffers and messages.
    ///
    /// # Errors
    ///
    /// Those of [`Registered::new`].
    pub fn buffers(domain: &Domain, memory: &Span) -> io::Result<Self> {
        Self::of_span(domain, memory, LOCAL_WRITE)
    }

    fn of_span(domain: &Domain, memory: &Span, access: i32) -> io::Result<Self> {
        let (start, len) = (memory.as_ptr(), memory.len());
        Self::with(domain, start, len, access, Keeper::Span(memory.clone()))
    }

    fn with(
        domain: &Domain,
        start: *mut u8,
        len: usize,
        access: i32,
        keeper: Keeper,
    ) -> io::Result<Self> {
        let register = domain.0.verbs.0.ibv_reg_mr;
        // SAFETY: the domain is valid. The keeper keeps the memory mapped until the registration ends. A span tolerates
        // concurrent writes, and bytes are registered without the right to write.
        let mr = unsafe { register(domain.pointer(), start.cast(), len, access) };
        Ok(Self {
            domain: domain.clone(),
            mr: NonNull::new(mr).ok_or_else(io::Error::last_os_error)?,
            address: start as u64,
            len,
            keeper: Some(keeper),
        })
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the key for peers.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        // SAFETY: the registration is valid.
        unsafe { self.mr.as_ref() }.rkey
    }

    /// Returns the address for peers.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns a part of the memory; `None` if the part is not inside.
    #[must_use]
    pub fn part(&self, offset: usize, length: u32) -> Option<Part<'_>> {
        let end = offset.checked_add(length as usize)?;
        (end <= self.len).then_some(Part {
            registered: self,
            offset,
            length,
        })
    }
}

#[expect(unsafe_code, reason = "calls of libibverbs")]
impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: the registration is valid and ends once. Work that still names it fails.
        let freed = unsafe { (self.domain.0.verbs.0.ibv_dereg_mr)(self.mr.as_ptr()) };
        if freed != 0 {
            // The device may still use the memory, which must therefore stay.
            std::mem::forget(self.keeper.take());
        }
    }
}

/// A part of registered memory.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    registered: &'a Registered,
    offset: usize,
    length: u32,
}

impl Part<'_> {
    #[expect(unsafe_code, reason = "the library's structure")]
    pub(super) fn sge(&self) -> Sge {
        Sge {
            addr: self.registered.address() + self.offset as u64,
            length: self.length,
            // SAFETY: the registration is valid as long as the part.
            lkey: unsafe { self.registered.mr.as_ref() }.lkey,
        }
    }
}

/// A place in a peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemotePart {
    /// The address as the peer has given it.
    pub address: u64,
    /// The key.
    pub rkey: u32,
}

/// A completed work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The number that the work was posted with.
    pub number: u64,
    /// 0, or the status of `ibv_wc`, such as 5 for flushed and 12 for too many retries.
    pub status: i32,
    /// The bytes that were received.
    pub length: u32,
    /// Whether it was a receive; not valid after an error.
    pub is_receive: bool,
}

struct CompletionsInner {
    domain: Domain,
    channel: NonNull<CompChannel>,
    cq: NonNull<Cq>,
}

/// A completion queue with its channel. Clones are the same queue.
#[derive(Clone)]
pub struct Completions(Arc<CompletionsInner>);

#[expect(
    unsafe_code,
    reason = "a raw pointer hides that libibverbs locks its objects"
)]
// SAFETY: libibverbs may be called from any thread, with locks of its own.
unsafe impl Send for CompletionsInner {}

#[expect(
    unsafe_code,
    reason = "a raw pointer hides that libibverbs locks its objects"
)]
// SAFETY: as above.
unsafe impl Sync for CompletionsInner {}

#[expect(unsafe_code, reason = "calls of libibverbs")]
impl Drop for CompletionsInner {
    fn drop(&mut self) {
        let functions = &self.domain.0.verbs.0;
        // SAFETY: each connection with queues holds this object, so that none uses the queue. Its events are acknowledged.
        let _destroyed = unsafe { (functions.ibv_destroy_cq)(self.cq.as_ptr()) };
        // SAFETY: the queue of the channel is destroyed.
        let _destroyed = unsafe { (functions.ibv_destroy_comp_channel)(self.channel.as_ptr()) };
    }
}

#[expect(unsafe_code, reason = "calls of libibverbs")]
impl Completions {
    /// Makes a queue for this many completions.
    ///
    /// # Errors
    ///
    /// Those of `ibv_create_comp_channel(3)` and `ibv_create_cq(3)`.
    pub fn new(domain: &Domain, entries: i32) -> io::Result<Self> {
        let (functions, context) = (&domain.0.verbs.0, domain.0.context.as_ptr());
        // SAFETY: the context is valid.
        let channel = unsafe { (functions.ibv_create_comp_channel)(context) };
        let channel = NonNull::new(channel).ok_or_else(io::Error::last_os_error)?;
        let (none, notify) = (null_mut(), channel.as_ptr());
        // SAFETY: context and channel are valid.
        let cq = unsafe { (functions.ibv_create_cq)(context, entries, none, notify, 0) };
        let Some(cq) = NonNull::new(cq) else {
            let error = io::Error::last_os_error();
            // SAFETY: the channel was made above and has no queue.
            let _destroyed = unsafe { (functions.ibv_destroy_comp_channel)(channel.as_ptr()) };
            return Err(error);
        };
        let inner = CompletionsInner {
            domain: domain.clone(),
            channel,
            cq,
        };
        let made = Self(Arc::new(inner));
        fcntl(made.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(made)
    }

    pub(super) fn pointer(&self) -> *mut Cq {
        self.0.cq.as_ptr()
    }

    /// Returns the domain.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        &self.0.domain
    }

    /// Returns a number that tells the devices apart.
    #[must_use]
    pub fn device(&self) -> usize {
        self.0.domain.device()
    }

    /// Arranges that the descriptor of the queue becomes readable with the next completion. Completions that came before
    /// do not count: poll once more afterwards.
    ///
    /// # Errors
    ///
    /// Those of `ibv_req_notify_cq(3)`.
    pub fn arm(&self) -> io::Result<()> {
        // SAFETY: the context of the queue is valid.
        let call = unsafe { self.0.cq.as_ref().context.as_ref() }.and_then(|c| c.ops.req_notify_cq);
        let call = call.ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the queue is valid.
        check(unsafe { call(self.pointer(), 0) })
    }

    /// Takes the news of the descriptor.
    ///
    /// # Errors
    ///
    /// Those of `ibv_get_cq_event(3)`.
    pub fn take_news(&self) -> io::Result<()> {
        let functions = &self.0.domain.0.verbs.0;
        let (mut cq, mut context) = (null_mut(), null_mut());
        let channel = self.0.channel.as_ptr();
        // SAFETY: the channel is valid; the pointers are written only.
        match check(unsafe { (functions.ibv_get_cq_event)(channel, &raw mut cq, &raw mut context) })
        {
            Ok(()) => {
                // SAFETY: the event was returned above and is acknowledged once.
                unsafe { (functions.ibv_ack_cq_events)(cq, 1) };
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes completions; none if there are none now.
    ///
    /// # Errors
    ///
    /// Those of `ibv_poll_cq(3)`.
    pub fn poll(&self) -> io::Result<Vec<Completed>> {
        // SAFETY: the context of the queue is valid.
        let call = unsafe { self.0.cq.as_ref().context.as_ref() }.and_then(|c| c.ops.poll_cq);
        let call = call.ok_or(io::ErrorKind::Unsupported)?;
        let mut taken = [Completion::default(); POLL_MAX];
        // SAFETY: the queue is valid, and the array has as many places as stated.
        let count = unsafe { call(self.pointer(), POLL_MAX as i32, taken.as_mut_ptr()) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        let completed = taken.iter().take(count).map(|one| Completed {
            number: one.wr_id,
            status: one.status,
            length: one.byte_len,
            is_receive: one.opcode & WC_RECV != 0,
        });
        Ok(completed.collect())
    }

    pub(super) fn post_receive(&self, qp: *mut Qp, mut place: Sge, number: u64) -> io::Result<()> {
        // SAFETY: the context of the queue is valid.
        let call = unsafe { self.0.cq.as_ref().context.as_ref() }.and_then(|c| c.ops.post_recv);
        let call = call.ok_or(io::ErrorKind::Unsupported)?;
        let mut work = ReceiveWork {
            wr_id: number,
            next: null_mut(),
            sg_list: &raw mut place,
            num_sge: 1,
        };
        let mut bad = null_mut();
        // SAFETY: the queue pair is one of this device; the call copies the work.
        check(unsafe { call(qp, &raw mut work, &raw mut bad) })
    }

    pub(super) fn post_send(&self, qp: *mut Qp, chain: *mut SendWork) -> io::Result<()> {
        // SAFETY: the context of the queue is valid.
        let call = unsafe { self.0.cq.as_ref().context.as_ref() }.and_then(|c| c.ops.post_send);
        let call = call.ok_or(io::ErrorKind::Unsupported)?;
        let mut bad = null_mut();
        // SAFETY: the queue pair is one of this device; the chain is valid during the call, which copies it.
        check(unsafe { call(qp, chain, &raw mut bad) })
    }
}

impl AsFd for Completions {
    #[expect(unsafe_code, reason = "the library owns the descriptor")]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel.
        unsafe { BorrowedFd::borrow_raw(self.0.channel.as_ref().fd) }
    }
}

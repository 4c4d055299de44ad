//! Connections of the RDMA CM.

use std::ffi::c_void;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc::{AF_INET, in_addr, sockaddr, sockaddr_in};

use super::layout::{CmEvent, CmId, ConnParam, EventChannel, QpInit, SendWork, Sge};
use super::library::{Verbs, check};
use super::queue::{Completions, Domain, Part, QueueName, RemotePart};

/// The port space of reliable connections.
const PS_TCP: i32 = 0x0106;
/// The event of a queue pair that [`CmConnection::notify_established`] passes on.
const COMM_EST: i32 = 4;
/// The event of an address that has moved.
pub(super) const ADDR_CHANGE: i32 = 14;
/// Reliable connected.
const QPT_RC: i32 = 2;
const WR_WRITE: i32 = 0;
const WR_SEND: i32 = 2;
const SEND_SIGNALED: u32 = 2;

/// A kind of CM event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmEventKind {
    /// The address of a peer is known.
    AddressResolved,
    /// The route to a peer is known.
    RouteResolved,
    /// A peer asks for a connection.
    ConnectRequest,
    /// Both ends have agreed.
    Established,
    /// The peer, or its CM, rejected a request.
    Rejected,
    /// A peer cannot be reached, or a step of connecting failed.
    Unreachable,
    /// The connection has ended.
    Disconnected,
    /// The device was removed.
    DeviceRemoved,
    /// The address has moved to another port or device.
    AddressChanged,
    /// Something else.
    Other(i32),
}

impl CmEventKind {
    fn of(number: i32) -> Self {
        match number {
            0 => Self::AddressResolved,
            2 => Self::RouteResolved,
            4 => Self::ConnectRequest,
            1 | 3 | 6 | 7 => Self::Unreachable,
            8 => Self::Rejected,
            9 => Self::Established,
            10 => Self::Disconnected,
            11 => Self::DeviceRemoved,
            ADDR_CHANGE => Self::AddressChanged,
            other => Self::Other(other),
        }
    }
}

/// An event of the CM.
pub struct CmNews {
    /// The kind.
    pub kind: CmEventKind,
    /// 0, a negative errno, or the reason of a rejection.
    pub status: i32,
    /// The token of the connection, or of the listener that a request came to.
    pub token: u64,
    /// The private data of the peer, with zeros behind.
    pub private_data: Vec<u8>,
    /// The new connection of a request.
    pub request: Option<CmConnection>,
}

struct ChannelInner {
    verbs: Verbs,
    channel: NonNull<EventChannel>,
}

/// Where the events of connections come from. Clones are the same channel.
#[derive(Clone)]
pub struct CmChannel(Arc<ChannelInner>);

#[expect(
    unsafe_code,
    reason = "a raw pointer hides that librdmacm locks its objects"
)]
// SAFETY: librdmacm may be called from any thread, with locks of its own.
unsafe impl Send for ChannelInner {}

#[expect(
    unsafe_code,
    reason = "a raw pointer hides that librdmacm locks its objects"
)]
// SAFETY: as above.
unsafe impl Sync for ChannelInner {}

#[expect(unsafe_code, reason = "calls of librdmacm")]
impl Drop for ChannelInner {
    fn drop(&mut self) {
        // SAFETY: each connection holds the channel, so that none is left.
        unsafe { (self.verbs.0.rdma_destroy_event_channel)(self.channel.as_ptr()) }
    }
}

#[expect(unsafe_code, reason = "calls of librdmacm")]
impl CmChannel {
    /// Makes a channel whose reads do not wait.
    ///
    /// # Errors
    ///
    /// Those of the kernel, such as `ENODEV` if the module `rdma_ucm` is not loaded.
    pub fn new(verbs: &Verbs) -> io::Result<Self> {
        // SAFETY: the call has no conditions.
        let channel = unsafe { (verbs.0.rdma_create_event_channel)() };
        let channel = NonNull::new(channel).ok_or_else(io::Error::last_os_error)?;
        let inner = ChannelInner {
            verbs: verbs.clone(),
            channel,
        };
        let made = Self(Arc::new(inner));
        fcntl(made.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(made)
    }

    /// Returns the next event; `None` if there is none now.
    ///
    /// # Errors
    ///
    /// Those of `rdma_get_cm_event(3)`.
    pub fn next_event(&self) -> io::Result<Option<CmNews>> {
        let mut event: *mut CmEvent = null_mut();
        // SAFETY: the channel is valid, and the pointer is written only.
        let got = check(unsafe {
            (self.0.verbs.0.rdma_get_cm_event)(self.0.channel.as_ptr(), &raw mut event)
        });
        match got {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        // SAFETY: the library returned an event, which stays valid until it is acknowledged below.
        let news = unsafe { self.copy(&*event) };
        // SAFETY: the event was returned above and is acknowledged once.
        check(unsafe { (self.0.verbs.0.rdma_ack_cm_event)(event) })?;
        Ok(Some(news))
    }

    /// Copies an event.
    ///
    /// # Safety
    ///
    /// The event is one that the library has returned, and is not acknowledged.
    unsafe fn copy(&self, event: &CmEvent) -> CmNews {
        let kind = CmEventKind::of(event.event);
        let has_data = matches!(
            kind,
            CmEventKind::ConnectRequest | CmEventKind::Established | CmEventKind::Rejected
        );
        let private_data = if has_data && !event.conn.private_data.is_null() {
            let len = event.conn.private_data_len.into();
            // SAFETY: the library states how many bytes there are, for these kinds.
            unsafe { std::slice::from_raw_parts(event.conn.private_data.cast::<u8>(), len) }
                .to_vec()
        } else {
            Vec::new()
        };
        let is_request = kind == CmEventKind::ConnectRequest;
        let request = NonNull::new(event.id)
            .filter(|_| is_request)
            .map(|id| CmConnection {
                channel: self.clone(),
                id,
                completions: None,
            });
        // SAFETY: the id of an event is valid until its connection is destroyed, which drops its events. A request has
        // the token of its listener.
        let token = unsafe { (*event.id).context } as u64;
        CmNews {
            kind,
            status: event.status,
            token,
            private_data,
            request,
        }
    }
}

impl AsFd for CmChannel {
    #[expect(unsafe_code, reason = "the library owns the descriptor")]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel.
        unsafe { BorrowedFd::borrow_raw(self.0.channel.as_ref().fd) }
    }
}

/// A connection or a listener. When it is dropped, it is destroyed with its queues: the device touches no memory of
/// its work any more.
pub struct CmConnection {
    channel: CmChannel,
    id: NonNull<CmId>,
    /// The queue that its work completes in, from the time that it has queues.
    completions: Option<Completions>,
}

#[expect(
    unsafe_code,
    reason = "a raw pointer hides that librdmacm locks its objects"
)]
// SAFETY: librdmacm may be called from any thread, with locks of its own.
unsafe impl Send for CmConnection {}

#[expect(unsafe_code, reason = "calls of librdmacm")]
impl CmConnection {
    /// Makes a connection whose events carry a token.
    ///
    /// # Errors
    ///
    /// Those of `rdma_create_id(3)`.
    pub fn new(channel: &CmChannel, token: u64) -> io::Result<Self> {
        let mut id: *mut CmId = null_mut();
        let (events, context) = (channel.0.channel.as_ptr(), token as *mut c_void);
        // SAFETY: the channel is valid; the library only keeps the context.
        check(unsafe { (channel.0.verbs.0.rdma_create_id)(events, &raw mut id, context, PS_TCP) })?;
        let id = NonNull::new(id).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self {
            channel: channel.clone(),
            id,
            completions: None,
        })
    }

    /// Sets the token of later events.
    pub fn set_token(&mut self, token: u64) {
        // SAFETY: the id is valid; only this module reads the field.
        unsafe { (*self.id.as_ptr()).context = token as *mut c_void };
    }

    /// Binds a local address.
    ///
    /// # Errors
    ///
    /// Those of `rdma_bind_addr(3)`: `EACCES` for a port below 1024 without the privilege, `EADDRINUSE`, `ENODEV`
    /// or `EADDRNOTAVAIL` if no RDMA device has the address.
    pub fn bind(&self, address: SocketAddrV4) -> io::Result<()> {
        let mut address = socket_address(address);
        let pointer = (&raw mut address).cast::<sockaddr>();
        // SAFETY: the id is valid, and the address is one of the family that it states.
        check(unsafe { (self.channel.0.verbs.0.rdma_bind_addr)(self.id.as_ptr(), pointer) })
    }

    /// Returns the port of the device that the bound or resolved address belongs to; 0 before.
    #[must_use]
    pub fn port(&self) -> u8 {
        // SAFETY: the id is valid.
        unsafe { (*self.id.as_ptr()).port_num }
    }

    /// Returns true if the queue is one of this connection.
    #[must_use]
    pub fn has_queue(&self, queue: QueueName) -> bool {
        // SAFETY: the id is valid.
        let pair = unsafe { (*self.id.as_ptr()).qp };
        let completions = self.completions.as_ref();
        let completions = completions.map(|completions| completions.pointer().addr());
        queue.0 != 0 && (pair.addr() == queue.0 || completions == Some(queue.0))
    }

    /// Tells the connection manager that a message has arrived, which shows that the other end is established.
    ///
    /// # Errors
    ///
    /// Those of `rdma_notify(3)`.
    pub fn notify_established(&self) -> io::Result<()> {
        // SAFETY: the id is valid.
        check(unsafe { (self.channel.0.verbs.0.rdma_notify)(self.id.as_ptr(), COMM_EST) })
    }

    /// Listens at the bound address.
    ///
    /// # Errors
    ///
    /// Those of `rdma_listen(3)`.
    pub fn listen(&self, backlog: i32) -> io::Result<()> {
        // SAFETY: the id is valid.
        check(unsafe { (self.channel.0.verbs.0.rdma_listen)(self.id.as_ptr(), backlog) })
    }

    /// Begins to resolve the address of a peer, from a local address or from the bound one.
    ///
    /// # Errors
    ///
    /// Those of `rdma_resolve_addr(3)`.
    pub fn resolve_address(
        &self,
        from: Option<Ipv4Addr>,
        to: SocketAddrV4,
        timeout: Duration,
    ) -> io::Result<()> {
        let mut source = from.map(|from| socket_address(SocketAddrV4::new(from, 0)));
        let source = source
            .as_mut()
            .map_or(null_mut(), |source| (&raw mut *source).cast());
        let mut target = socket_address(to);
        let target = (&raw mut target).cast::<sockaddr>();
        let resolve = self.channel.0.verbs.0.rdma_resolve_addr;
        // SAFETY: the id is valid, and the addresses are ones of the family that they state.
        check(unsafe { resolve(self.id.as_ptr(), source, target, milliseconds(timeout)) })
    }

    /// Begins to resolve the route to a peer.
    ///
    /// # Errors
    ///
    /// Those of `rdma_resolve_route(3)`.
    pub fn resolve_route(&self, timeout: Duration) -> io::Result<()> {
        let resolve = self.channel.0.verbs.0.rdma_resolve_route;
        // SAFETY: the id is valid.
        check(unsafe { resolve(self.id.as_ptr(), milliseconds(timeout)) })
    }

    /// Returns the protection domain of the connection's device, as a new one; `None` if it has no device yet.
    ///
    /// # Errors
    ///
    /// Those of `ibv_alloc_pd(3)`.
    pub fn new_domain(&self) -> io::Result<Option<Domain>> {
        // SAFETY: the id is valid.
        let context = unsafe { (*self.id.as_ptr()).verbs };
        let context = NonNull::new(context);
        context
            .map(|context| Domain::new(&self.channel.0.verbs, context))
            .transpose()
    }

    /// Returns a number that tells the devices apart; 0 without a device.
    #[must_use]
    pub fn device(&self) -> usize {
        // SAFETY: the id is valid.
        (unsafe { (*self.id.as_ptr()).verbs }) as usize
    }

    /// Returns the port of the peer.
    #[must_use]
    pub fn peer_port(&self) -> u16 {
        // SAFETY: the id is valid, and its address has room for every family.
        let address = unsafe { (*self.id.as_ptr()).destination };
        let address = (&raw const address).cast::<sockaddr_in>();
        // SAFETY: the address has at least the bytes of this family.
        u16::from_be(unsafe { (*address).sin_port })
    }

    /// Makes the queues of the connection.
    ///
    /// # Errors
    ///
    /// Those of `rdma_create_qp(3)`, and `EINVAL` for a connection without a device, with another device or with queues.
    pub fn make_queues(
        &mut self,
        completions: &Completions,
        sends: u32,
        receives: u32,
    ) -> io::Result<()> {
        if self.completions.is_some() || completions.device() != self.device() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut init = QpInit {
            qp_context: null_mut(),
            send_cq: completions.pointer(),
            recv_cq: completions.pointer(),
            srq: null_mut(),
            max_send_wr: sends,
            max_recv_wr: receives,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
            qp_type: QPT_RC,
            sq_sig_all: 0,
        };
        let create = self.channel.0.verbs.0.rdma_create_qp;
        let domain = completions.domain().pointer();
        // SAFETY: the id is valid, domain and queue are those of its device and live as long as the queues.
        check(unsafe { create(self.id.as_ptr(), domain, &raw mut init) })?;
        self.completions = Some(completions.clone());
        Ok(())
    }

    /// Connects, with private data of at most 56 bytes.
    ///
    /// # Errors
    ///
    /// Those of `rdma_connect(3)`.
    pub fn connect(&self, private_data: &[u8]) -> io::Result<()> {
        let mut param = parameters(private_data);
        // SAFETY: the id is valid; the library copies the private data.
        check(unsafe { (self.channel.0.verbs.0.rdma_connect)(self.id.as_ptr(), &raw mut param) })
    }

    /// Accepts, with private data of at most 196 bytes.
    ///
    /// # Errors
    ///
    /// Those of `rdma_accept(3)`.
    pub fn accept(&self, private_data: &[u8]) -> io::Result<()> {
        let mut param = parameters(private_data);
        // SAFETY: as for `connect`.
        check(unsafe { (self.channel.0.verbs.0.rdma_accept)(self.id.as_ptr(), &raw mut param) })
    }

    /// Rejects, with private data of at most 148 bytes.
    ///
    /// # Errors
    ///
    /// Those of `rdma_reject(3)`.
    pub fn reject(&self, private_data: &[u8]) -> io::Result<()> {
        let (data, len) = (private_data.as_ptr().cast(), length(private_data));
        // SAFETY: the id is valid; the library copies the private data.
        check(unsafe { (self.channel.0.verbs.0.rdma_reject)(self.id.as_ptr(), data, len) })
    }

    /// Ends the connection: the queues go into error state.
    ///
    /// # Errors
    ///
    /// Those of `rdma_disconnect(3)`, such as for a connection that never was.
    pub fn disconnect(&self) -> io::Result<()> {
        // SAFETY: the id is valid.
        check(unsafe { (self.channel.0.verbs.0.rdma_disconnect)(self.id.as_ptr()) })
    }

    /// Destroys the queues: afterwards the device touches no memory of their work.
    pub fn destroy_queues(&mut self) {
        if self.completions.take().is_some() {
            // SAFETY: the id is valid and has queues.
            unsafe { (self.channel.0.verbs.0.rdma_destroy_qp)(self.id.as_ptr()) };
        }
    }

    /// Posts a receive buffer.
    ///
    /// # Errors
    ///
    /// Those of `ibv_post_recv(3)`, and `EINVAL` without queues.
    pub fn post_receive(&self, buffer: &Part<'_>, number: u64) -> io::Result<()> {
        let completions = self
            .completions
            .as_ref()
            .ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the id is valid and has queues.
        let qp = unsafe { (*self.id.as_ptr()).qp };
        completions.post_receive(qp, buffer.sge(), number)
    }

    /// Posts writes and a message behind them. One completion comes for all, with the number.
    ///
    /// # Errors
    ///
    /// Those of `ibv_post_send(3)`, and `EINVAL` without queues. Nothing is posted, or the connection is broken.
    pub fn post_send(
        &self,
        writes: &[(Part<'_>, RemotePart)],
        message: &Part<'_>,
        number: u64,
    ) -> io::Result<()> {
        let completions = self
            .completions
            .as_ref()
            .ok_or(io::ErrorKind::InvalidInput)?;
        let mut places: Vec<Sge> = writes.iter().map(|(part, _)| part.sge()).collect();
        places.push(message.sge());
        let mut chain: Vec<SendWork> = Vec::with_capacity(places.len());
        for (index, place) in places.iter_mut().enumerate() {
            let remote = writes.get(index).map(|(_, remote)| *remote);
            chain.push(SendWork {
                wr_id: number,
                next: null_mut(),
                sg_list: place,
                num_sge: 1,
                opcode: if remote.is_some() { WR_WRITE } else { WR_SEND },
                send_flags: if remote.is_some() { 0 } else { SEND_SIGNALED },
                imm_data: 0,
                remote_addr: remote.map_or(0, |remote| remote.address),
                rkey: remote.map_or(0, |remote| remote.rkey),
                rest_of_wr: [0; 2],
                qp_type: 0,
                rest: [0; 6],
            });
        }
        let mut next = null_mut();
        for work in chain.iter_mut().rev() {
            work.next = next;
            next = work;
        }
        // SAFETY: the id is valid and has queues.
        let qp = unsafe { (*self.id.as_ptr()).qp };
        completions.post_send(qp, next)
    }
}

#[expect(unsafe_code, reason = "calls of librdmacm")]
impl Drop for CmConnection {
    fn drop(&mut self) {
        self.destroy_queues();
        // SAFETY: the id is valid, has no queues, and all its events that were taken are acknowledged. Nobody uses the
        // id afterwards. An error leaves the id to the end of the process.
        let _destroyed = unsafe { (self.channel.0.verbs.0.rdma_destroy_id)(self.id.as_ptr()) };
    }
}

fn socket_address(address: SocketAddrV4) -> sockaddr_in {
    sockaddr_in {
        // The family is a small number.
        sin_family: AF_INET as u16,
        sin_port: address.port().to_be(),
        sin_addr: in_addr {
            s_addr: u32::from(*address.ip()).to_be(),
        },
        sin_zero: [0; 8],
    }
}

fn milliseconds(timeout: Duration) -> i32 {
    i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX)
}

fn length(private_data: &[u8]) -> u8 {
    u8::try_from(private_data.len()).unwrap_or(u8::MAX)
}

/// No RDMA reads, flow control, five retries, six if the receiver is not ready.
fn parameters(private_data: &[u8]) -> ConnParam {
    ConnParam {
        private_data: private_data.as_ptr().cast(),
        private_data_len: length(private_data),
        responder_resources: 0,
        initiator_depth: 0,
        flow_control: 1,
        retry_count: 5,
        rnr_retry_count: 6,
        srq: 0,
        qp_num: 0,
    }
}

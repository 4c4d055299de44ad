//! The device of a node: its listeners, connections and registrations.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use lnet_o2ib::{
    ConnId, ConnectFailure, Device, DeviceError, Event, Mapped, MappingId, PolledDevice, PortState,
    RequestId, Shape, Write,
};
use lnet_wire::o2ib::{Fragment, SERVICE};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use sys::verbs::{
    CmChannel, CmConnection, CmEventKind, CmNews, DeviceNews, Domain, Registered, RemotePart, Verbs,
};
use tracing::{debug, warn};

use crate::link::Link;
use crate::memory::{Landing, Payload};

/// The bit of a token that tells a listener from a connection.
const IS_LISTENER: u64 = 1 << 40;
/// The descriptor of the connection manager among those that are waited for; those of connections have their tokens.
const CM: u64 = 0;
/// The bit of a device among the descriptors; its number is below.
const IS_DEVICE: u64 = 1 << 63;
/// Descriptors that one look takes.
const READY_MAX: usize = 64;
/// What the dynamic linker says behind the name of a library that is missing.
const NOT_FOUND: &str = ": cannot open shared object file: No such file or directory";
/// How long resolving an address may take, and how long a route.
const RESOLVE: Duration = Duration::from_secs(5);
/// Connection requests that wait in the kernel.
const BACKLOG: i32 = 128;
/// The ports that only privileged programs may dial from, from the first that is tried.
const PRIVILEGED: std::ops::RangeInclusive<u16> = 512..=1023;
/// Reasons of rejections in the terms of the CM.
const REJECT_NO_SERVICE: i32 = 8;
const REJECT_STALE: i32 = 10;
const REJECT_CONSUMER: i32 = 28;

struct Listener {
    cm: CmConnection,
    device: usize,
}

/// RDMA devices of this machine.
pub struct VerbsDevice {
    channel: CmChannel,
    /// All descriptors that tell of news.
    epoll: Epoll,
    service: u16,
    is_listening: bool,
    listeners: BTreeMap<Ipv4Addr, Listener>,
    domains: BTreeMap<usize, Domain>,
    /// Connections by the tokens of their events.
    links: BTreeMap<u64, Link>,
    tokens: BTreeMap<ConnId, u64>,
    requests: BTreeMap<RequestId, CmConnection>,
    mappings: BTreeMap<MappingId, Registered>,
    /// The connections whose completions wake nobody, so that they are looked at.
    hot: BTreeSet<u64>,
    /// True if a user was told that memory could not be registered.
    has_warned: bool,
    events: VecDeque<Event>,
    next: u64,
}

impl VerbsDevice {
    /// Loads the libraries and opens the connection manager.
    ///
    /// # Errors
    ///
    /// Libraries or kernel modules are missing; the error says which.
    pub fn new() -> io::Result<Self> {
        let verbs = Verbs::load().map_err(|error| {
            let what = error.to_string().replace(NOT_FOUND, " is not installed");
            io::Error::new(error.kind(), what)
        })?;
        let channel = CmChannel::new(&verbs).map_err(|error| {
            let what = format!("no RDMA connection manager: {error} (modprobe rdma_ucm)");
            io::Error::new(error.kind(), what)
        })?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&channel, readable(CM))?;
        Ok(Self {
            channel,
            epoll,
            service: SERVICE,
            is_listening: true,
            listeners: BTreeMap::new(),
            domains: BTreeMap::new(),
            links: BTreeMap::new(),
            tokens: BTreeMap::new(),
            requests: BTreeMap::new(),
            mappings: BTreeMap::new(),
            hot: BTreeSet::new(),
            has_warned: false,
            events: VecDeque::new(),
            next: 0,
        })
    }

    /// Sets the service number at which this node and its peers listen.
    #[must_use]
    pub fn service(mut self, service: u16) -> Self {
        self.service = service;
        self
    }

    /// Lets this node dial only: it takes no service number, so it needs no privilege, and a node at the same address
    /// is not in its way.
    #[must_use]
    pub fn dial_only(mut self) -> Self {
        self.is_listening = false;
        self
    }

    /// Returns whether another program of this machine, or its kernel, listens at this address. Without the privilege to
    /// listen there, nobody can tell, and the answer is no.
    pub fn is_taken(&mut self, address: Ipv4Addr) -> bool {
        let listener = self.begin_listen(address);
        let is_taken = listener.is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse);
        self.release_devices();
        is_taken
    }

    /// Returns the bytes of memory that devices have pinned: message buffers, and payload of transfers under way.
    #[must_use]
    pub fn pinned(&self) -> usize {
        let buffers = self.links.values().map(Link::pinned);
        let payload = self.mappings.values().map(Registered::len);
        buffers.chain(payload).sum()
    }

    /// Returns the number of registrations of payload that are in use.
    #[must_use]
    pub fn registrations(&self) -> usize {
        self.mappings.len()
    }

    /// Returns the next event; `None` until [`Self::poll`] finds more.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes what has happened. Returns whether there is an event.
    ///
    /// # Errors
    ///
    /// Those of the libraries.
    pub fn poll(&mut self) -> io::Result<bool> {
        let mut ready = [EpollEvent::empty(); READY_MAX];
        loop {
            let count = match self.epoll.wait(&mut ready, EpollTimeout::ZERO) {
                Err(nix::errno::Errno::EINTR) => continue,
                count => count?,
            };
            for event in ready.iter().take(count) {
                self.take_news(event.data())?;
            }
            if count < READY_MAX {
                break;
            }
        }
        let mut broken = Vec::new();
        for token in &self.hot {
            if let Some(link) = self.links.get_mut(token)
                && let Err(error) = link.poll(&mut self.events)
            {
                warn!(%error, "a completion queue cannot be read: its connection ends");
                broken.push((*token, link.conn));
            }
        }
        for (token, conn) in broken {
            self.hot.remove(&token);
            self.events.push_back(Event::Disconnected(conn));
        }
        Ok(!self.events.is_empty())
    }

    /// Prepares a wait for the descriptor of this device. Returns true if there is an event, so that no wait is due.
    ///
    /// # Errors
    ///
    /// Those of the libraries.
    pub fn arm(&mut self) -> io::Result<bool> {
        for token in std::mem::take(&mut self.hot) {
            let Some(link) = self.links.get_mut(&token) else {
                continue;
            };
            // What came before the queue was armed wakes nobody.
            match link.arm().and_then(|()| link.poll(&mut self.events)) {
                Ok(false) => {}
                Ok(true) => {
                    self.hot.insert(token);
                }
                Err(error) => {
                    warn!(%error, "a completion queue cannot be armed: its connection ends");
                    self.events.push_back(Event::Disconnected(link.conn));
                }
            }
        }
        Ok(!self.events.is_empty())
    }

    /// Waits until something has happened, at most for a time.
    ///
    /// # Errors
    ///
    /// Those of the libraries and of `poll(2)`.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        if self.arm()? {
            return Ok(());
        }
        let mut all = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        match poll(&mut all, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the news of one descriptor.
    fn take_news(&mut self, name: u64) -> io::Result<()> {
        if name == CM {
            while let Some(news) = self.channel.next_event()? {
                self.cm_news(news);
            }
        } else if name & IS_DEVICE != 0 {
            self.device_news()?;
        } else if let Some(link) = self.links.get_mut(&name) {
            if let Err(error) = link.take_news() {
                warn!(%error, "a completion queue has no news: its connection ends");
                self.events.push_back(Event::Disconnected(link.conn));
            }
            self.hot.insert(name);
        }
        Ok(())
    }

    fn device_news(&mut self) -> io::Result<()> {
        let devices: Vec<usize> = self.domains.keys().copied().collect();
        for device in devices {
            while let Some(domain) = self.domains.get(&device)
                && let Some(news) = domain.next_news()?
            {
                self.take_device_news(device, news);
            }
        }
        Ok(())
    }

    fn take_device_news(&mut self, device: usize, news: DeviceNews) {
        let (port, state) = match news {
            DeviceNews::PortActive(port) => (Some(port), PortState::Up),
            DeviceNews::PortError(port) => (Some(port), PortState::Down),
            DeviceNews::Fatal => (None, PortState::Down),
            DeviceNews::QueueError(queue) => {
                let link = self.links.values().find(|link| link.cm.has_queue(queue));
                if let Some(link) = link {
                    warn!("a queue of an RDMA device has failed: its connection ends");
                    self.events.push_back(Event::Disconnected(link.conn));
                }
                return;
            }
            DeviceNews::Established(queue) => {
                let link = self.links.values().find(|link| link.cm.has_queue(queue));
                // Fails if the connection is established already.
                let _told = link.map(|link| link.cm.notify_established());
                return;
            }
            DeviceNews::Other(number) => return debug!(number, "news of an RDMA device"),
        };
        let is_here =
            |one: &Listener| one.device == device && port.is_none_or(|port| one.cm.port() == port);
        let here = self.listeners.iter().filter(|(_, one)| is_here(one));
        self.events
            .extend(here.map(|(&address, _)| Event::Port(address, state)));
    }

    fn cm_news(&mut self, news: CmNews) {
        debug!(kind = ?news.kind, status = news.status, "CM event");
        if let Some(request) = news.request {
            return self.requested(news.token, request, news.private_data);
        }
        if news.token & IS_LISTENER != 0 {
            let address = Ipv4Addr::from((news.token & u64::from(u32::MAX)) as u32);
            match news.kind {
                CmEventKind::DeviceRemoved => {
                    self.events
                        .push_back(Event::Port(address, PortState::Removed));
                }
                CmEventKind::AddressChanged => self.events.push_back(Event::Moved(address)),
                _ => {}
            }
            return;
        }
        let Some(link) = self.links.get_mut(&news.token) else {
            return;
        };
        let conn = link.conn;
        match news.kind {
            CmEventKind::AddressResolved => {
                if link.cm.resolve_route(RESOLVE).is_err() {
                    self.fail(news.token, ConnectFailure::Unreachable, Vec::new());
                }
            }
            CmEventKind::RouteResolved => self.events.push_back(Event::Resolved(conn)),
            CmEventKind::Established => {
                self.events
                    .push_back(Event::Established(conn, news.private_data));
            }
            CmEventKind::Rejected => {
                let failure = match news.status {
                    REJECT_CONSUMER => ConnectFailure::Rejected,
                    REJECT_NO_SERVICE => ConnectFailure::NobodyListens,
                    REJECT_STALE => ConnectFailure::Stale,
                    _ => ConnectFailure::Unreachable,
                };
                self.fail(news.token, failure, news.private_data);
            }
            CmEventKind::Unreachable => {
                self.fail(news.token, ConnectFailure::Unreachable, Vec::new());
            }
            CmEventKind::Disconnected
            | CmEventKind::DeviceRemoved
            | CmEventKind::AddressChanged => {
                self.events.push_back(Event::Disconnected(conn));
            }
            CmEventKind::ConnectRequest | CmEventKind::Other(_) => {}
        }
    }

    /// Forgets a connection that was not made.
    fn fail(&mut self, token: u64, failure: ConnectFailure, data: Vec<u8>) {
        if let Some(link) = self.links.remove(&token) {
            self.tokens.remove(&link.conn);
            self.events
                .push_back(Event::Failed(link.conn, failure, data));
        }
    }

    fn requested(&mut self, token: u64, request: CmConnection, data: Vec<u8>) {
        let address = Ipv4Addr::from((token & u64::from(u32::MAX)) as u32);
        let port = request.peer_port();
        let id = RequestId(self.number());
        self.requests.insert(id, request);
        self.events
            .push_back(Event::Requested(id, address, port, data));
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn domain_of(&mut self, cm: &CmConnection) -> io::Result<Domain> {
        if let Some(domain) = self.domains.get(&cm.device()) {
            return Ok(domain.clone());
        }
        let domain = cm.new_domain()?.ok_or(io::ErrorKind::NotConnected)?;
        self.epoll.add(&domain, readable(IS_DEVICE))?;
        self.domains.insert(cm.device(), domain.clone());
        Ok(domain)
    }

    /// Releases the devices that nothing uses any more, such as one that was removed.
    fn release_devices(&mut self) {
        let Self {
            domains,
            listeners,
            links,
            epoll,
            ..
        } = self;
        domains.retain(|&device, domain| {
            let listens = listeners.values().any(|one| one.device == device);
            let is_used = listens || links.values().any(|link| link.cm.device() == device);
            if !is_used {
                // A descriptor that is gone has no news, either.
                let _deleted = epoll.delete(&*domain);
            }
            is_used
        });
    }

    fn link(&mut self, conn: ConnId) -> Result<&mut Link, DeviceError> {
        let token = self.tokens.get(&conn);
        let link = token.and_then(|token| self.links.get_mut(token));
        link.ok_or_else(|| DeviceError("no such connection".to_owned()))
    }

    fn add(&mut self, cm: CmConnection, token: u64, conn: ConnId) {
        self.tokens.insert(conn, token);
        self.links.insert(token, Link::new(cm, conn));
    }

    fn map(
        &mut self,
        conn: ConnId,
        register: impl FnOnce(&Domain) -> io::Result<Registered>,
    ) -> Result<Mapped, DeviceError> {
        let device = self.link(conn)?.cm.device();
        let domain = self.domains.get(&device);
        let domain = domain.ok_or_else(|| DeviceError("no such device".to_owned()))?;
        let registered = register(domain).map_err(|error| self.unregistered(&error))?;
        let id = MappingId(self.number());
        let mapped = Mapped {
            id,
            rkey: registered.rkey(),
            fragments: vec![Fragment {
                // Payload has at most 1 MiB.
                length: registered.len() as u32,
                address: registered.address(),
            }],
        };
        self.mappings.insert(id, registered);
        Ok(mapped)
    }

    /// Says once what helps if memory cannot be registered.
    fn unregistered(&mut self, error: &io::Error) -> DeviceError {
        let pinned = self.pinned();
        let text = format!(
            "cannot register memory with an RDMA device: {error}; {pinned} bytes are pinned, `ulimit -l` is the limit \
             (LimitMEMLOCK=infinity in a unit of systemd)"
        );
        if !std::mem::replace(&mut self.has_warned, true) {
            warn!("{text}");
        }
        DeviceError(text)
    }

    /// Binds a port below 1024 if this process may, as acceptors may demand.
    fn bind_source(cm: &CmConnection, from: Ipv4Addr) -> io::Result<bool> {
        for port in PRIVILEGED.rev() {
            match cm.bind(SocketAddrV4::new(from, port)) {
                Ok(()) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn begin_dial(&mut self, token: u64, from: Ipv4Addr, to: Ipv4Addr) -> io::Result<CmConnection> {
        let cm = CmConnection::new(&self.channel, token)?;
        let is_bound = Self::bind_source(&cm, from)?;
        let source = (!is_bound).then_some(from);
        cm.resolve_address(source, SocketAddrV4::new(to, self.service), RESOLVE)?;
        Ok(cm)
    }

    fn begin_listen(&mut self, address: Ipv4Addr) -> io::Result<Listener> {
        let token = IS_LISTENER | u64::from(u32::from(address));
        let cm = CmConnection::new(&self.channel, token)?;
        let service = if self.is_listening { self.service } else { 0 };
        cm.bind(SocketAddrV4::new(address, service))?;
        if self.is_listening {
            cm.listen(BACKLOG)?;
        }
        let device = cm.device();
        self.domain_of(&cm)?;
        Ok(Listener { cm, device })
    }
}

impl AsFd for VerbsDevice {
    /// Returns the descriptor that is readable when there is news, if [`VerbsDevice::arm`] came before.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

/// Adds the completions of a connection to what is waited for.
fn watch(epoll: &Epoll, link: &Link, token: u64) -> io::Result<()> {
    let descriptor = link.descriptor().ok_or(io::ErrorKind::NotConnected)?;
    Ok(epoll.add(descriptor, readable(token))?)
}

fn readable(name: u64) -> EpollEvent {
    EpollEvent::new(EpollFlags::EPOLLIN, name)
}

fn failed(error: &io::Error) -> DeviceError {
    debug!(%error, "an RDMA device refused a call");
    DeviceError(error.to_string())
}

/// Says what to do about an address at which the device cannot listen.
fn advise(error: &io::Error, address: Ipv4Addr, service: u16) -> DeviceError {
    let no_device = || {
        let system = sys::interface_addresses().unwrap_or_default();
        let place = system.iter().find(|known| known.address == address);
        let place = place.map_or("this address", |known| known.name.as_str());
        format!("no RDMA device under {place}: `rdma link show` lists the devices")
    };
    DeviceError(match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "RDMA service {service} needs a privilege: run `setcap cap_net_bind_service=+ep` on the program"
        ),
        io::ErrorKind::AddrInUse => format!(
            "RDMA service {service} is in use, such as by the kernel module ko2iblnd: `rdma resource show cm_id`"
        ),
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::NotConnected => no_device(),
        _ if error.raw_os_error() == Some(nix::errno::Errno::ENODEV as i32) => no_device(),
        _ => error.to_string(),
    })
}

impl Device for VerbsDevice {
    type Source = Payload;
    type Sink = Landing;

    fn listen(&mut self, address: Ipv4Addr) -> Result<(), DeviceError> {
        let listener = self.begin_listen(address);
        let listener = listener.map_err(|error| advise(&error, address, self.service))?;
        self.listeners.insert(address, listener);
        Ok(())
    }

    fn unlisten(&mut self, address: Ipv4Addr) {
        self.listeners.remove(&address);
        self.release_devices();
    }

    fn port_state(&self, address: Ipv4Addr) -> PortState {
        let Some(listener) = self.listeners.get(&address) else {
            return PortState::Removed;
        };
        let domain = self.domains.get(&listener.device);
        let active = domain.map(|domain| domain.is_port_active(listener.cm.port()));
        match active {
            Some(Ok(false)) => PortState::Down,
            Some(Err(error)) => {
                debug!(%error, "a port cannot be asked for its state: it counts as active");
                PortState::Up
            }
            Some(Ok(true)) | None => PortState::Up,
        }
    }

    fn sends_max(&self, address: Ipv4Addr) -> u32 {
        let device = self.listeners.get(&address).map(|listener| listener.device);
        let domain = device.and_then(|device| self.domains.get(&device));
        domain
            .and_then(|domain| domain.work_max().ok())
            .unwrap_or(0)
    }

    fn resolve(&mut self, conn: ConnId, from: Ipv4Addr, to: Ipv4Addr) -> Result<(), DeviceError> {
        let token = self.number();
        let cm = self
            .begin_dial(token, from, to)
            .map_err(|error| failed(&error))?;
        self.add(cm, token, conn);
        Ok(())
    }

    fn connect(
        &mut self,
        conn: ConnId,
        shape: Shape,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        let connected = (|| {
            let token = *self.tokens.get(&conn).ok_or(io::ErrorKind::NotConnected)?;
            let link = self.links.get(&token).ok_or(io::ErrorKind::NotConnected)?;
            let domain = self.domains.get(&link.cm.device()).cloned();
            let domain = domain.ok_or(io::ErrorKind::NotConnected)?;
            let link = self
                .links
                .get_mut(&token)
                .ok_or(io::ErrorKind::NotConnected)?;
            link.prepare(&domain, shape)?;
            watch(&self.epoll, link, token)?;
            self.hot.insert(token);
            link.cm.connect(private_data)
        })();
        connected.map_err(|error: io::Error| {
            if error.kind() == io::ErrorKind::OutOfMemory {
                self.unregistered(&error);
            }
            if let Some(token) = self.tokens.remove(&conn) {
                self.links.remove(&token);
            }
            failed(&error)
        })
    }

    fn accept(
        &mut self,
        request: RequestId,
        conn: ConnId,
        shape: Shape,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        let cm = self.requests.remove(&request);
        let mut cm = cm.ok_or_else(|| DeviceError("no such request".to_owned()))?;
        let token = self.number();
        cm.set_token(token);
        let domain = self.domain_of(&cm).map_err(|error| failed(&error))?;
        let mut link = Link::new(cm, conn);
        let prepared = link.prepare(&domain, shape);
        let watched = prepared.and_then(|()| watch(&self.epoll, &link, token));
        match watched.and_then(|()| link.cm.accept(private_data)) {
            Ok(()) => {
                self.tokens.insert(conn, token);
                self.links.insert(token, link);
                self.hot.insert(token);
                Ok(())
            }
            Err(error) => {
                if error.kind() == io::ErrorKind::OutOfMemory {
                    self.unregistered(&error);
                }
                link.cm.destroy_queues();
                self.requests.insert(request, link.cm);
                Err(failed(&error))
            }
        }
    }

    fn reject(&mut self, request: RequestId, private_data: &[u8]) {
        if let Some(cm) = self.requests.remove(&request)
            && let Err(error) = cm.reject(private_data)
        {
            debug!(%error, "a connection request could not be rejected");
        }
    }

    fn post_receive(&mut self, conn: ConnId, buffer: u32) -> Result<(), DeviceError> {
        let posted = self.link(conn)?.post_receive(buffer);
        posted.map_err(|error| failed(&error))
    }

    fn post_send(
        &mut self,
        conn: ConnId,
        writes: &[Write],
        message: &[u8],
        ticket: u64,
    ) -> Result<(), DeviceError> {
        let missing = || DeviceError("no such memory".to_owned());
        let mut parts = Vec::with_capacity(writes.len());
        for write in writes {
            let registered = self.mappings.get(&write.mapping).ok_or_else(missing)?;
            let part = registered.part(write.offset as usize, write.length);
            let remote = RemotePart {
                address: write.address,
                rkey: write.rkey,
            };
            parts.push((part.ok_or_else(missing)?, remote));
        }
        let token = self.tokens.get(&conn);
        let link = token.and_then(|token| self.links.get_mut(token));
        let link = link.ok_or_else(|| DeviceError("no such connection".to_owned()))?;
        let posted = link.post_send(&parts, message, ticket);
        posted.map_err(|error| failed(&error))
    }

    fn map_source(&mut self, conn: ConnId, memory: &Payload) -> Result<Mapped, DeviceError> {
        self.map(conn, |domain| match memory {
            Payload::Shared(bytes) => Registered::source(domain, bytes),
            Payload::Span(span) => Registered::new(domain, span, false),
        })
    }

    fn map_sink(&mut self, conn: ConnId, memory: &Landing) -> Result<Mapped, DeviceError> {
        self.map(conn, |domain| Registered::new(domain, &memory.0, true))
    }

    fn unmap(&mut self, mapping: MappingId) {
        self.mappings.remove(&mapping);
    }

    fn disconnect(&mut self, conn: ConnId) {
        let Some(mut link) = self
            .tokens
            .remove(&conn)
            .and_then(|token| self.links.remove(&token))
        else {
            return;
        };
        if let Err(error) = link.cm.disconnect() {
            debug!(%error, "a connection was not established, or is broken");
        }
        // What has completed before the end is not lost.
        while matches!(link.poll(&mut self.events), Ok(true)) {}
        drop(link);
        self.release_devices();
        self.events.push_back(Event::Drained(conn));
    }
}

impl PolledDevice for VerbsDevice {
    fn poll(&mut self) -> Result<bool, DeviceError> {
        Self::poll(self).map_err(|error| DeviceError(error.to_string()))
    }

    fn arm(&mut self) -> Result<bool, DeviceError> {
        Self::arm(self).map_err(|error| DeviceError(error.to_string()))
    }

    fn next_event(&mut self) -> Option<Event> {
        Self::next_event(self)
    }
}

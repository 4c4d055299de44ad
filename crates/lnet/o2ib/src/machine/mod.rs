//! The LND, as the node above drives it.
//!
//! | File | Part |
//! |---|---|
//! | `dial` | dialling, and what rejections mean |
//! | `accept` | requests of peers |
//! | `send` | messages of the node above |
//! | `receive` | messages of peers |
//! | `closing` | closing, deadlines, ports, interfaces |

mod accept;
mod closing;
mod dial;
mod receive;
mod send;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use lnd::{NiId, RxId, Upper};
use lnet_types::{LndType, Nid, Time};
use lnet_wire::o2ib::{MESSAGE_MAX, Parameters};
use thiserror::Error;

use self::dial::SPARE_SENDS;
use crate::config::{LndNi, O2ibConfig};
use crate::connection::{Around, Conn, State};
use crate::device::{ConnId, Device, DeviceError, DeviceEvent, PortState};
use crate::peer::Peer;
use crate::stats::{CloseReason, O2ibStats};
use crate::table::Table;
use crate::version::{OtherVersion, Versions};

/// The reason why an interface cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddNiError {
    /// The NID is not on an o2ib network.
    #[error("{0} is not a NID of an o2ib network, such as 10.0.0.1@o2ib")]
    NotO2ib(Nid),
    /// The NID has no IPv4 address.
    #[error(
        "{0} has no IPv4 address: the messages of o2ib have no room for another; choose an interface with one"
    )]
    NotIpv4(Nid),
    /// The key or the NID is in use.
    #[error("{0} is already configured")]
    Duplicate(Nid),
    /// The device cannot listen at the address.
    #[error("cannot listen at {0}: {1}")]
    Listen(Ipv4Addr, DeviceError),
}

/// A connection, as a user sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionView {
    /// The interface.
    pub ni: NiId,
    /// The peer.
    pub peer: Nid,
    /// True if it is established.
    pub is_open: bool,
    /// The negotiated depth of the queue.
    pub depth: u16,
    /// Credited messages that may be sent now.
    pub credits: u16,
    /// Messages that wait in queues.
    pub queued: usize,
    /// Messages that are posted and not completed.
    pub posted: u16,
}

/// What is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A look at all deadlines.
    Check,
    /// An attempt to connect is given up.
    Connect(ConnId),
    /// A peer is dialled again.
    Dial(u64),
    /// The device of an address may be there again.
    Listen(Ipv4Addr),
}

/// How long a device stays removed until the interface tries to listen again: no event tells that a device has come.
const LISTEN_AGAIN: Duration = Duration::from_secs(10);

/// An interface.
#[derive(Clone, Copy, Debug)]
struct Ni {
    config: LndNi,
    address: Ipv4Addr,
    is_fatal: bool,
}

/// The o2ib LND of one node: all its interfaces, peers and connections.
///
/// The LND reads no clock and waits for nothing. The node above passes the time `now` to each call; times must not go
/// backwards. It calls [`event`](Self::event) for each event of the device, [`tick`](Self::tick) when
/// [`next_deadline`](Self::next_deadline) has come, and [`send`](Self::send), [`resume`](Self::resume) and
/// [`cancel`](Self::cancel) for its own decisions. During a call, the LND reports to the [`Upper`] that is passed to
/// it, which must be the same one each time.
pub struct O2iblnd<D: Device> {
    config: O2ibConfig,
    device: D,
    nis: BTreeMap<NiId, Ni>,
    peers: Table<Peer<D::Source>>,
    peer_by_key: BTreeMap<(NiId, Nid), u64>,
    /// Addresses whose device was removed: nobody listens there until the device is back.
    removed: BTreeSet<Ipv4Addr>,
    conns: Table<Conn<D>>,
    /// Where the held messages are.
    held: BTreeMap<RxId, (ConnId, u64)>,
    /// GET_REQs that wait for their REPLY, by the object of the handle in their header.
    gets: BTreeMap<(Nid, u64, u64), (ConnId, u64)>,
    timers: BTreeSet<(Time, Timer)>,
    is_checking: bool,
    /// Connections to be closed: a handler that finds a fault cannot close the connection it works on.
    doomed: VecDeque<(ConnId, CloseReason)>,
    scratch: Box<[u8; MESSAGE_MAX]>,
    versions: Versions,
    stats: O2ibStats,
    #[cfg(feature = "defects")]
    pub(crate) defect: Option<Defect>,
}

/// A planted defect, for tests of the checkers.
#[cfg(feature = "defects")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A credit is given back twice.
    CreditTwice,
    /// A transfer is reported before the device has stopped to use its memory.
    EarlyReport,
    /// Writes use the key of the first transfer of their connection.
    FirstKey,
}

/// An upper side whose memory is that of the device.
pub trait Above<D: Device>: Upper<Destination = D::Sink, Payload = D::Source> {}

impl<D: Device, U: Upper<Destination = D::Sink, Payload = D::Source>> Above<D> for U {}

impl<D: Device> O2iblnd<D> {
    /// Makes an LND without interfaces.
    #[must_use]
    pub fn new(config: O2ibConfig, device: D) -> Self {
        Self {
            config,
            device,
            nis: BTreeMap::new(),
            peers: Table::default(),
            peer_by_key: BTreeMap::new(),
            removed: BTreeSet::new(),
            conns: Table::default(),
            held: BTreeMap::new(),
            gets: BTreeMap::new(),
            timers: BTreeSet::new(),
            is_checking: false,
            doomed: VecDeque::new(),
            scratch: Box::new([0; MESSAGE_MAX]),
            versions: Versions::default(),
            stats: O2ibStats::default(),
            #[cfg(feature = "defects")]
            defect: None,
        }
    }

    /// Plants a defect.
    #[cfg(feature = "defects")]
    pub fn plant(&mut self, defect: Defect) {
        self.defect = Some(defect);
    }

    /// Adds an interface and listens at its address. Interfaces with the same address share the listener; peers name
    /// the interface that they mean. If the port is not active, the interface begins with a fatal error
    /// ([`Self::is_fatal`]).
    ///
    /// # Errors
    ///
    /// [`AddNiError`] says what is wrong.
    // [IB-1] [IB-34]
    pub fn add_ni(&mut self, ni: LndNi) -> Result<(), AddNiError> {
        if ni.nid.net().lnd != LndType::O2IB {
            return Err(AddNiError::NotO2ib(ni.nid));
        }
        let Some(IpAddr::V4(address)) = ni.nid.ip() else {
            return Err(AddNiError::NotIpv4(ni.nid));
        };
        let is_known = self.nis.values().any(|other| other.config.nid == ni.nid);
        if is_known || self.nis.contains_key(&ni.ni) {
            return Err(AddNiError::Duplicate(ni.nid));
        }
        if !self.nis.values().any(|other| other.address == address) {
            let listening = self.device.listen(address);
            listening.map_err(|error| AddNiError::Listen(address, error))?;
        }
        let is_removed = self.removed.contains(&address);
        let added = Ni {
            config: ni,
            address,
            is_fatal: is_removed || self.device.port_state(address) != PortState::Up,
        };
        self.nis.insert(ni.ni, added);
        Ok(())
    }

    /// Returns true if the interface is one of this LND.
    #[must_use]
    pub fn has_ni(&self, ni: NiId) -> bool {
        self.nis.contains_key(&ni)
    }

    /// Returns true if the interface has a fatal error: its port is not active, or its device is gone.
    #[must_use]
    pub fn is_fatal(&self, ni: NiId) -> bool {
        self.nis.get(&ni).is_some_and(|ni| ni.is_fatal)
    }

    /// Returns true if the message is held here until the node above resumes or cancels it.
    #[must_use]
    pub fn holds(&self, rx: RxId) -> bool {
        self.held.contains_key(&rx)
    }

    /// Changes the settings of an interface that concern only what comes later: connections for a new peer, and the
    /// timeout. Without effect if this LND does not have the interface.
    pub fn tune(&mut self, ni: NiId, conns_per_peer: u8, timeout: Option<Duration>) {
        if let Some(ni) = self.nis.get_mut(&ni) {
            ni.config.tuning.conns_per_peer = conns_per_peer;
            ni.config.tuning.timeout = timeout;
        }
    }

    /// Sets how long a message may take from now on, on interfaces without a timeout of their own.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.config.timeout = timeout;
    }

    /// Handles an event of the device. Events that name nothing are counted and ignored.
    pub fn event(&mut self, event: DeviceEvent<'_>, now: Time, upper: &mut impl Above<D>) {
        match event {
            DeviceEvent::Resolved(conn) => self.resolved(conn, now, upper),
            DeviceEvent::Established(conn, data) => self.established(conn, data, now, upper),
            DeviceEvent::Failed(conn, failure, data) => {
                self.dial_failed(conn, failure, data, now, upper);
            }
            DeviceEvent::Requested {
                request,
                address,
                source_port,
                private_data,
            } => {
                self.requested((request, address, source_port), private_data, now);
            }
            DeviceEvent::Received {
                conn,
                buffer,
                bytes,
            } => self.received(conn, buffer, bytes, now, upper),
            DeviceEvent::Sent {
                conn,
                ticket,
                result,
            } => self.completed(conn, ticket, result, now, upper),
            DeviceEvent::Disconnected(conn) => self.doom(conn, CloseReason::Disconnected),
            DeviceEvent::Drained(conn) => self.drained(conn, now, upper),
            DeviceEvent::Port(address, state) => self.port(address, state, now, upper),
            DeviceEvent::Moved(address) => self.moved(address, now, upper),
        }
        self.settle(now, upper);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Time, upper: &mut impl Above<D>) {
        while let Some(&(time, timer)) = self.timers.first()
            && time <= now
        {
            self.timers.remove(&(time, timer));
            match timer {
                Timer::Check => self.check(now, upper),
                Timer::Connect(conn) => self.doom(conn, CloseReason::ConnectDeadline),
                Timer::Dial(peer) => self.dial_again(peer, now, upper),
                Timer::Listen(address) => self.listen_again(address, now, upper),
            }
            self.settle(now, upper);
        }
    }

    /// Returns when [`Self::tick`] has work to do next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|&(time, _)| time)
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> &O2ibStats {
        &self.stats
    }

    /// Returns a peer that speaks another version of the protocol, each once. The program that drives the LND tells the
    /// administrator.
    pub fn next_other_version(&mut self) -> Option<OtherVersion> {
        self.versions.next()
    }

    /// Returns the device, for the program that drives it.
    pub fn device(&mut self) -> &mut D {
        &mut self.device
    }

    /// Returns the device, to look at it.
    #[must_use]
    pub fn driver(&self) -> &D {
        &self.device
    }

    /// Returns the connections that are not closed.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionView> {
        let open = self.conns.iter().map(|(_, conn)| conn);
        let open = open.filter(|conn| conn.state != State::Closing);
        open.map(|conn| ConnectionView {
            ni: conn.ni,
            peer: conn.theirs.nid,
            is_open: conn.state == State::Open,
            depth: conn.depth,
            credits: conn.credits,
            queued: conn.queued(),
            posted: conn.posted,
        })
    }

    /// Returns true if nothing of any message or connection is left, as after [`Self::close_all`] and the device's
    /// last event.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.conns.is_empty() && self.held.is_empty() && self.gets.is_empty()
    }

    /// Returns how long a message of an interface may take.
    fn timeout_of(&self, ni: NiId) -> Duration {
        let own = self.nis.get(&ni).and_then(|ni| ni.config.tuning.timeout);
        own.unwrap_or(self.config.timeout)
    }

    /// Returns how long a message on a connection may take.
    fn timeout(&self, id: ConnId) -> Duration {
        let ni = self.conns.get(id.0).map(|conn| conn.ni);
        ni.map_or(self.config.timeout, |ni| self.timeout_of(ni))
    }

    /// Returns how long a connection request may take.
    fn connect_timeout(&self, ni: NiId) -> Duration {
        Duration::from_secs(5).max(self.timeout_of(ni) / 4)
    }

    /// Returns what an interface asks for and accepts.
    fn parameters(&self, ni: &Ni) -> Parameters {
        Parameters {
            queue_depth: ni.config.tuning.depth(),
            fragments: self.config.fragments,
            message_size: MESSAGE_MAX as u32,
        }
    }

    /// Returns the depth that the device can hold, at most the given one.
    fn fitting_depth(&self, address: Ipv4Addr, depth: u16, fragments: u16) -> u16 {
        let each = 1 + u32::from(fragments) + 2;
        let most = self.device.sends_max(address) / each;
        // At most the depth.
        u32::from(depth).min(most).max(1) as u16
    }

    /// Returns how many sends of a connection with this depth and these fragments the device can hold, at most as many as
    /// configured.
    fn fitting_sends(&self, ni: &Ni, depth: u16, fragments: u16) -> u16 {
        let most = self
            .device
            .sends_max(ni.address)
            .saturating_sub(SPARE_SENDS);
        let most = most / (1 + u32::from(fragments));
        let sends = u32::from(ni.config.tuning.sends(depth));
        // At most what is configured.
        sends.min(most).max(1) as u16
    }

    fn peer_of(&mut self, ni: NiId, nid: Nid) -> u64 {
        if let Some(&peer) = self.peer_by_key.get(&(ni, nid)) {
            return peer;
        }
        let peer = self.peers.insert(Peer::new(ni, nid));
        self.peer_by_key.insert((ni, nid), peer);
        peer
    }

    fn add_conn(&mut self, conn: Conn<D>) -> ConnId {
        let id = ConnId(self.conns.insert(conn));
        if let Some(conn) = self.conns.get_mut(id.0) {
            conn.id = id;
            #[cfg(feature = "defects")]
            {
                conn.returns_twice = self.defect == Some(Defect::CreditTwice);
            }
        }
        self.arm_check(Time::ZERO);
        id
    }

    /// Arranges that deadlines are looked at four times a timeout while there is anything.
    // [IB-32]
    fn arm_check(&mut self, now: Time) {
        if !self.is_checking && now != Time::ZERO {
            self.is_checking = true;
            let own = self.nis.values().filter_map(|ni| ni.config.tuning.timeout);
            let pause = own.fold(self.config.timeout, Duration::min) / 4;
            self.timers
                .insert((now + pause.max(Duration::from_millis(1)), Timer::Check));
        }
    }

    fn doom(&mut self, conn: ConnId, reason: CloseReason) {
        self.doomed.push_back((conn, reason));
    }

    /// Closes what was found faulty, until nothing more is.
    fn settle(&mut self, now: Time, upper: &mut impl Above<D>) {
        while let Some((conn, reason)) = self.doomed.pop_front() {
            self.close(conn, reason, now, upper);
        }
        if !self.conns.is_empty() || self.peers.iter().any(|(_, peer)| !peer.waiting.is_empty()) {
            self.arm_check(now);
        }
    }

    /// Posts what may be posted on a connection.
    fn pump(&mut self, id: ConnId, now: Time) {
        let timeout = self.timeout(id);
        let Some(conn) = self.conns.get_mut(id.0) else {
            return;
        };
        let mut around = Around {
            timeout,
            device: &mut self.device,
            stats: &mut self.stats,
            config: &self.config,
            scratch: &mut self.scratch,
            now,
        };
        if let Err(reason) = conn.pump(&mut around) {
            self.doom(id, reason);
        }
    }
}

//! The node of a check: how it reaches a NID, pings, and the requests of one conversation after the other.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use lnet_config::Config;
use lnet_node::{
    AcceptMode, EventKind, EventQueue, InterfaceError, MatchEntry, Md, MdHandle, MdOptions,
    NiSettings, Node, NodeEvent, NodeOptions, PingError, PutRequest, SourcePorts, WaitError,
    has_driver, has_o2ib_listener,
};
use lnet_ptlrpc::client::{Exchange, Limits, Outgoing, Start, Step};
use lnet_ptlrpc::mount::{Answer, Way, Why};
use lnet_types::{LndType, Net, Nid, ProcessId, Time};
use nix::errno::Errno;

use super::MountArgs;
use super::source::Source;
use crate::common::{complaint, read_config};
use crate::ping::{endpoint_address, has_kernel_node, is_here};
use crate::rdma::has_device;

/// The node.
pub(super) struct Endpoint {
    node: Node,
    /// The document, if the node has one.
    config: Option<Config>,
    source: Option<IpAddr>,
    pub(super) port: u16,
    /// The times of a check that begins with the node.
    limits: Limits,
    begun: Instant,
    next_xid: AtomicU64,
    /// The nets for which an interface was looked for, and why there is none.
    nets: Mutex<BTreeMap<Net, Option<Way>>>,
    /// The NIDs that a node told with the answer to a ping, by the NID that was pinged.
    told: Mutex<BTreeMap<Nid, Vec<Nid>>>,
}

/// A server, by its NIDs.
pub(super) struct Peer {
    /// Those that answered a ping. Requests go to the first, and to the next where that is lost.
    answering: Vec<Nid>,
    /// All of them: a reply may come from each.
    all: Vec<Nid>,
    /// Those that were lost before the server accepted a connection.
    pub(super) lost: Vec<Lost>,
    /// The place of the NID that is asked now.
    at: usize,
    /// The turns of the conversation that were taken.
    turns: usize,
}

impl Peer {
    /// Returns the NID to which requests go now.
    pub(super) fn current(&self) -> Option<Nid> {
        self.answering.get(self.at).copied()
    }

    /// Takes the turns of a conversation: each goes to the next NID that was not lost, and behind the last comes the first.
    fn follow(&mut self, turns: usize) {
        let count = self.answering.len();
        for _ in self.turns..turns {
            let mut next = (1..=count).map(|step| (self.at + step) % count);
            self.at = next.find(|at| self.has(*at)).unwrap_or(self.at);
        }
        self.turns = turns;
    }

    /// Returns whether the NID at this place was not lost.
    fn has(&self, at: usize) -> bool {
        let nid = self.answering.get(at);
        nid.is_some_and(|nid| self.lost.iter().all(|(lost, _)| lost != nid))
    }

    fn has_some(&self) -> bool {
        (0..self.answering.len()).any(|at| self.has(at))
    }
}

/// A NID that answered a ping, and could not be reached for a connect.
pub(super) type Lost = (Nid, Answer);

/// The room for a reply. A block of a log with its frame has 8472 bytes.
const ROOM: usize = 16 << 10;

/// The most NIDs of a node that are noted.
const TOLD_MAX: usize = 32;

/// The most nets on which the check makes interfaces.
const NETS_MAX: usize = 64;

/// The shortest time in which a ping can say something about its target: connections take a few round trips.
const PING_MIN: Duration = Duration::from_millis(10);

/// The replies that may come to one request before the first is read: early ones, and the final one.
const REPLIES: usize = 4;

/// How often a wait looks whether the user interrupts.
const LOOK: Duration = Duration::from_millis(50);

/// The xids that a conversation may use.
const XIDS: u64 = 1 << 21;

impl Endpoint {
    /// Starts the node. Without a document, it has an interface on each tcp net of the MGS; those on other nets are made when
    /// they are needed.
    pub(super) fn start(args: &MountArgs, source: &Source) -> anyhow::Result<Self> {
        let config = args.config.as_deref().map(read_config).transpose()?;
        let port = match (args.port, args.config.as_deref()) {
            (Some(port), _) => port,
            (None, Some(path)) => accept_port(path)?.unwrap_or(NodeOptions::LNET_PORT),
            (None, None) => NodeOptions::LNET_PORT,
        };
        let options = NodeOptions {
            port,
            accept: Some(AcceptMode::None),
            source_ports: Some(match args.privileged {
                true => SourcePorts::Privileged,
                false => SourcePorts::Any,
            }),
            ..NodeOptions::default()
        };
        let node = match &config {
            Some(config) => {
                spare_own_node(config, port)?;
                lnet_noded::start(config, options)?.into_node()
            }
            None => Node::start(options)?,
        };
        // xids begin at a clock, so that no reply to an earlier run fits a request of this one.
        let clock = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = clock.map_or(0, |since| since.as_millis() as u64);
        let this = Self {
            node,
            config,
            source: args.source_address,
            port,
            limits: Limits::within(Duration::from_secs_f64(args.timeout)),
            begun: Instant::now(),
            next_xid: AtomicU64::new(millis << 10),
            nets: Mutex::default(),
            told: Mutex::default(),
        };
        let of_mgs = source.nodes.iter().flatten();
        for nid in of_mgs.filter(|nid| this.config.is_none() && nid.net().lnd == LndType::TCP) {
            let is_made = this.nets().get(&nid.net()).is_some_and(Option::is_none);
            if !is_made {
                let missing = this.begin_at(*nid)?;
                this.nets().insert(nid.net(), missing);
            }
        }
        Ok(this)
    }

    /// Makes the interface for a NID of the MGS. Without an IP route there, the net is one that this machine is not on;
    /// whatever else is wrong is an error.
    fn begin_at(&self, nid: Nid) -> anyhow::Result<Option<Way>> {
        match self.add_interface(nid) {
            Ok(()) => Ok(None),
            Err(error) if error.is::<io::Error>() => {
                complaint(&format!("{nid}: {error:#}"));
                Ok(Some(Way::NoNet))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the server that has these NIDs, and those that it told when these answered a ping.
    pub(super) fn peer(&self, listed: impl Iterator<Item = Nid>, answering: Vec<Nid>) -> Peer {
        let mut all: Vec<Nid> = listed.collect();
        let told = self.told();
        let told = answering.iter().filter_map(|nid| told.get(nid));
        all.extend(told.flatten());
        Peer {
            answering,
            all,
            lost: Vec::new(),
            at: 0,
            turns: 0,
        }
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<Nid, Vec<Nid>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how this machine reaches a NID. Without a document, an interface is made for each tcp and o2ib net.
    pub(super) fn way(&self, nid: Nid) -> Way {
        let own = self.node.nids();
        if own.contains(&nid) || nid.is_loopback() {
            return Way::Here;
        }
        let way = match &self.config {
            Some(config) => of_document(config, nid, &own),
            None => self.interface(nid),
        };
        match way {
            // It may be a server all the same: then it answers.
            Way::Direct { .. } if is_of_this_machine(nid) => Way::Here,
            way => way,
        }
    }

    /// Returns the way from an interface on the net of a NID, which is made once.
    fn interface(&self, nid: Nid) -> Way {
        // Held while the interface is made, so that no other thread makes it, too.
        let mut nets = self.nets();
        if nets.len() >= NETS_MAX && !nets.contains_key(&nid.net()) {
            return Way::Unexamined {
                why: format!("interfaces are made on {NETS_MAX} nets at most"),
            };
        }
        let missing = nets
            .entry(nid.net())
            .or_insert_with(|| self.provide(nid).err())
            .clone();
        let own = self.node.nids();
        let from = own.iter().find(|own| own.net() == nid.net());
        match (missing, from) {
            (Some(way), _) => way,
            (None, Some(from)) => Way::Direct {
                from: from.to_string(),
            },
            (None, None) => Way::NoNet,
        }
    }

    fn nets(&self) -> MutexGuard<'_, BTreeMap<Net, Option<Way>>> {
        self.nets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an interface on the net of a NID. An error is what is known of the way to that net.
    fn provide(&self, nid: Nid) -> Result<(), Way> {
        let unexamined = |why: String| Way::Unexamined { why };
        if !has_driver(nid.net()) {
            let why =
                "only tcp and o2ib nets can be tried from here, others through routers (--config)";
            return Err(unexamined(why.to_owned()));
        }
        if nid.net().lnd == LndType::O2IB {
            if self.source.is_none() && has_kernel_node() {
                let why = "the kernel module ko2iblnd runs here, and its peers would take the check at its address for a \
                           restart: give an address without a node (--source-address)";
                return Err(unexamined(why.to_owned()));
            }
            if !has_device() {
                return Err(Way::NoDevice {
                    why: "this machine has no RDMA device (`rdma link` lists them)".to_owned(),
                });
            }
        }
        self.add_interface(nid).map_err(|error| {
            let why = format!("{error:#}");
            if error.is::<Occupied>() {
                return unexamined(why);
            }
            match error.downcast_ref::<InterfaceError>() {
                Some(InterfaceError::O2ib(_)) if self.source.is_none() => Way::NoDevice { why },
                _ if nid.net().lnd == LndType::O2IB => unexamined(why),
                _ => {
                    complaint(&format!("{nid}: {why}"));
                    Way::NoNet
                }
            }
        })
    }

    /// Adds an interface from which the NID can be dialled.
    fn add_interface(&self, nid: Nid) -> anyhow::Result<()> {
        let Some(target) = nid.ip() else {
            bail!("{nid} has no address");
        };
        let address = match self.source {
            Some(source) => source,
            None => endpoint_address(target, self.port)?,
        };
        let from = Nid::from_ip(nid.net(), address);
        if is_occupied(from, self.port) {
            let has_document = false;
            return Err(Occupied { from, has_document }.into());
        }
        let settings = NiSettings::default();
        let made = self
            .node
            .with_engine(|engine, now| engine.add_interface(from, settings, now));
        made.map(|_| ())
            .with_context(|| format!("cannot use {from}"))
    }

    /// Returns whether the check itself would answer at this NID.
    pub(super) fn is_own(&self, nid: Nid) -> bool {
        nid.is_loopback() || self.node.nids().contains(&nid)
    }

    /// Returns how long questions may still be asked.
    fn left(&self) -> Duration {
        self.limits.whole.saturating_sub(self.begun.elapsed())
    }

    /// Returns whether this share of the time for questions is over.
    pub(super) fn is_over(&self, share: u32) -> bool {
        self.left() <= self.limits.whole - self.limits.whole / share
    }

    /// Pings a NID. Where NIDs take turns, all have had theirs in half of the time.
    pub(super) fn ping(&self, nid: Nid, turns: usize) -> Answer {
        let turns = u32::try_from(turns).unwrap_or(u32::MAX).max(1);
        let limit = self.limits.connect.min(self.limits.whole / 2 / turns);
        if self.left() < limit || limit < PING_MIN {
            return Answer::NotAsked;
        }
        match self.node.ping(nid, None, limit) {
            Ok(reply) => {
                let nids = reply.nis.iter().map(|ni| ni.nid);
                let nids: Vec<Nid> = nids.filter(|told| *told != nid).take(TOLD_MAX).collect();
                self.told().insert(nid, nids);
                Answer::Yes
            }
            Err(error) => Answer::No {
                why: why(&error),
                seen: error.to_string(),
            },
        }
    }

    /// Returns the numbers with which a conversation begins.
    pub(super) fn beginning(&self) -> Start {
        let limits = Limits {
            whole: self.left(),
            ..self.limits
        };
        Start {
            first_xid: self.next_xid.fetch_add(XIDS, Ordering::Relaxed),
            limits,
            now: self.now(),
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.begun.elapsed()
    }

    /// Drives a conversation with a server to its end, and notes the NIDs that were lost before it began. Before a
    /// request leaves for a NID, `note` writes the connection down; if it cannot, nothing is sent.
    pub(super) fn converse(
        &self,
        exchange: &mut Exchange,
        peer: &mut Peer,
        stop: &AtomicBool,
        mut note: impl FnMut(&Exchange, Nid) -> anyhow::Result<()>,
    ) {
        let mut call = Call {
            endpoint: self,
            queue: self.node.event_queue(),
            peer,
            replies: Vec::new(),
            bulk: None,
            sent: None,
            request: None,
        };
        let mut has_stopped = false;
        loop {
            if stop.load(Ordering::Relaxed) && !has_stopped {
                has_stopped = true;
                exchange.stop(self.now());
            }
            match exchange.step(self.now()) {
                Step::Over => return,
                Step::Wait(until) => call.wait(exchange, until),
                Step::Send(request) => {
                    call.peer.follow(exchange.turns());
                    let Some(target) = call.peer.current() else {
                        return;
                    };
                    // What fails here, and not on the way, says nothing about the server.
                    if let Err(error) = note(exchange, target) {
                        exchange.never_left();
                        exchange.unable(&format!("{error:#}"), self.now());
                    } else if let Err(error) = call.send(target, request) {
                        exchange.never_left();
                        call.lose(exchange, Why::Other, &format!("{error:#}"));
                    }
                }
            }
        }
    }

    /// Returns the port and the nets of the document's routes for the lnet.conf.
    pub(super) fn config(&self) -> Option<&Config> {
        self.config.as_ref()
    }

    pub(super) fn end(&self) {
        self.node.shutdown(Duration::ZERO);
    }
}

/// A NID whose address a node of this machine has.
#[derive(Debug)]
struct Occupied {
    from: Nid,
    has_document: bool,
}

impl fmt::Display for Occupied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.from;
        let instead = if self.has_document {
            " instead of --config"
        } else {
            ""
        };
        write!(
            f,
            "a node of this machine listens at the address of {from}, and the check would look like its restart: give \
             another address of this machine with --source-address{instead}, check from another machine, or stop that node"
        )
    }
}

impl std::error::Error for Occupied {}

/// The messages of one conversation.
struct Call<'a> {
    endpoint: &'a Endpoint,
    queue: EventQueue,
    peer: &'a mut Peer,
    /// The descriptors that await replies.
    replies: Vec<MdHandle>,
    /// The descriptor that awaits bulk.
    bulk: Option<MdHandle>,
    /// The descriptor of the request.
    sent: Option<MdHandle>,
    request: Option<Outgoing>,
}

impl Call<'_> {
    fn send(&mut self, target: Nid, request: Outgoing) -> anyhow::Result<()> {
        self.forget();
        self.request = Some(request.clone());
        for _ in 0..REPLIES {
            self.await_reply()?;
        }
        self.await_bulk(&request)?;
        let node = &self.endpoint.node;
        let md = node.bind(&self.queue, Md::source(request.bytes).threshold(1))?;
        self.sent = Some(md);
        let sent = node.put(PutRequest {
            md,
            ack: false,
            source: None,
            target: ProcessId::lustre(target),
            portal: request.portal,
            match_bits: request.match_bits,
            offset: 0,
            hdr_data: 0,
        });
        if sent.is_err() {
            // Its event returns memory that nobody needs.
            let _gone = node.unlink(md);
        }
        sent.context("cannot send")
    }

    /// The server waits for the ACK of its bulk before it replies.
    fn await_bulk(&mut self, request: &Outgoing) -> anyhow::Result<()> {
        if let Some(bulk) = &request.bulk {
            let entry = MatchEntry::exact(bulk.portal, request.match_bits);
            let md = Md::sink(vec![0; bulk.room])
                .threshold(1)
                .options(MdOptions::OP_PUT);
            self.bulk = Some(self.endpoint.node.attach(&self.queue, entry, md)?);
        }
        Ok(())
    }

    fn await_reply(&mut self) -> anyhow::Result<()> {
        let Some(request) = &self.request else {
            return Ok(());
        };
        let entry = MatchEntry::exact(request.reply_portal, request.match_bits);
        // Wherever a server puts its reply, it stands at the start of the room.
        let md = Md::sink(vec![0; ROOM])
            .threshold(1)
            .options(MdOptions::OP_PUT | MdOptions::TRUNCATE | MdOptions::ACK_DISABLE);
        let md = self.endpoint.node.attach(&self.queue, entry, md)?;
        self.replies.push(md);
        Ok(())
    }

    /// No reply to an earlier request is awaited any more: LNet drops what comes.
    fn forget(&mut self) {
        for md in self.replies.drain(..).chain(self.bulk.take()) {
            // An error means that the descriptor is gone already.
            let _gone = self.endpoint.node.cancel(md);
        }
    }

    /// The request could not be sent. A connect goes to the next NID that was not lost.
    fn lose(&mut self, exchange: &mut Exchange, why: Why, error: &str) {
        let now = self.endpoint.now();
        // Once the check is interrupted, or its time over, nothing more is said of the server.
        let is_lost = exchange.is_connecting() && exchange.failure().is_none();
        if let Some(nid) = self.peer.current().filter(|_| is_lost) {
            let seen = format!("{nid} answered a ping, and then: {error}");
            self.peer.lost.push((nid, Answer::No { why, seen }));
        }
        if !(self.peer.has_some() && exchange.hand_over(now)) {
            exchange.unsent(error, now);
        }
    }

    fn wait(&mut self, exchange: &mut Exchange, until: Time) {
        let left = until.saturating_since(self.endpoint.now());
        match self.queue.wait(Some(left.min(LOOK))) {
            Ok(event) => self.take(exchange, event),
            Err(WaitError::TimedOut | WaitError::PathLost) => {}
            Err(WaitError::Closed) => {
                exchange.unable("the node of the check has ended", self.endpoint.now())
            }
        }
    }

    fn take(&mut self, exchange: &mut Exchange, NodeEvent { event, memory }: NodeEvent) {
        let now = self.endpoint.now();
        match (event.kind, event.status) {
            (EventKind::Put, Ok(())) => {
                // A reply whose bytes are not there is an empty one, which `answer` finds malformed.
                let bytes = memory.map(lnet_node::Memory::into_vec).unwrap_or_default();
                let bytes = bytes.get(..event.mlength as usize).unwrap_or_default();
                let is_bulk = self.bulk == Some(event.md);
                if is_bulk {
                    self.bulk = None;
                } else {
                    self.replies.retain(|md| *md != event.md);
                    // Another reply may follow an early one. Without room for it, the request is sent again.
                    let _room = self.await_reply();
                }
                // Either name may be known: that of the message, and that of the peer.
                let from = [event.source.nid, event.initiator.nid];
                if !from.iter().any(|nid| self.peer.all.contains(nid)) {
                    exchange.stray();
                } else if is_bulk {
                    exchange.bulk(event.match_bits, bytes);
                } else {
                    exchange.answer(event.match_bits, bytes, event.rlength as usize, now);
                }
            }
            // An error of an earlier request says nothing about this one.
            (EventKind::Send, Err(errno)) if self.sent == Some(event.md) => {
                let target = self.peer.current();
                let node = &self.endpoint.node;
                let errno = target.map_or(errno, |target| node.cause_of(target, errno));
                if why_of(errno.0) == Why::PortClosed {
                    // Where nothing listens, no server has a connection.
                    exchange.never_left();
                }
                let error = io::Error::from_raw_os_error(errno.0);
                self.lose(exchange, why_of(errno.0), &error.to_string());
            }
            _ => {}
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.forget();
    }
}

/// Returns how the node of a document reaches a NID.
fn of_document(config: &Config, nid: Nid, own: &[Nid]) -> Way {
    let of_net = own.iter().find(|own| own.net() == nid.net());
    let routes = config.routes.iter().filter(|route| route.net == nid.net());
    let gateways: Vec<String> = routes.map(|route| route.gateway.to_string()).collect();
    match of_net {
        Some(from) => Way::Direct {
            from: from.to_string(),
        },
        None if gateways.is_empty() => Way::NoNet,
        None => Way::Through { gateways },
    }
}

fn accept_port(path: &Path) -> anyhow::Result<Option<u16>> {
    let text = crate::common::read_text(path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let name = path.display().to_string();
    let input = lnet_site::lint::Input {
        name: &name,
        text: &text,
        interfaces: None,
        port: None,
    };
    Ok(lnet_site::lint::settings(&input)?.port)
}

/// Refuses a document whose node runs on this machine: its peers would take the check for it.
fn spare_own_node(config: &Config, port: u16) -> anyhow::Result<()> {
    for from in lnet_noded::own_nids(config)? {
        if from.net().lnd == LndType::O2IB && has_kernel_node() {
            bail!(
                "the kernel module ko2iblnd runs here, and its peers would take the check at {from} for a restart: give an \
                 address without a node with --source-address instead of --config, or check from another machine"
            );
        }
        if is_occupied(from, port) {
            let has_document = true;
            return Err(Occupied { from, has_document }.into());
        }
    }
    Ok(())
}

/// Returns whether a node of this machine has the address of a NID.
fn is_occupied(own: Nid, port: u16) -> bool {
    match (own.net().lnd, own.ip()) {
        (LndType::TCP, Some(address)) => has_node(address, port),
        (LndType::O2IB, Some(IpAddr::V4(address))) => has_o2ib_listener(address),
        _ => false,
    }
}

/// Returns whether a node of this machine has the address. Its peers would take the check for it.
fn has_node(address: IpAddr, port: u16) -> bool {
    match TcpListener::bind((address, port)) {
        Ok(_) => false,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let address = SocketAddr::new(address, port);
            TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
        }
        Err(error) => error.kind() == io::ErrorKind::AddrInUse,
    }
}

/// Returns whether the NID is of this machine: what a server registers whose own name resolves to such an address. Others
/// of 127.0.0.0/8 are nodes of a test.
fn is_of_this_machine(nid: Nid) -> bool {
    const DEBIAN: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);
    match nid.ip() {
        Some(IpAddr::V4(Ipv4Addr::LOCALHOST | DEBIAN)) => true,
        Some(IpAddr::V6(address)) if address.is_loopback() => true,
        Some(address) => !address.is_loopback() && is_here(address),
        None => false,
    }
}

fn why(error: &PingError) -> Why {
    match error {
        PingError::TimedOut { .. } | PingError::NotSent { .. } => Why::Silent,
        PingError::NoPath { .. } => Why::NoPath,
        PingError::Malformed { .. } | PingError::Invalid { .. } => Why::NotLnet,
        PingError::Failed { errno, .. } => why_of(errno.0),
        _ => Why::Other,
    }
}

fn why_of(errno: i32) -> Why {
    match Errno::from_raw(errno) {
        Errno::ECONNREFUSED => Why::PortClosed,
        Errno::ECONNRESET | Errno::EPROTO => Why::NotLnet,
        Errno::EHOSTUNREACH => Why::NoPath,
        Errno::ETIMEDOUT => Why::Silent,
        _ => Why::Other,
    }
}

//! A small MGS, MDT and OST for tests: bytes in, bytes out, without I/O. It answers only what a check of a mount may
//! ask, does what [`Trouble`] says, and notes every request that could do harm.

mod harm;
mod log;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use log::{LogWriter, Nodes};

use crate::body::{Body, Type, flags};
use crate::client::{Service, message};
use crate::message::{Message, early_checksum};
use crate::opcode::{opc, portal};
use crate::view::View;

/// The fault of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No reply comes, and nothing is executed.
    Silence,
    /// The request is executed, and its reply is lost, once.
    LostReply,
    /// The request is executed, and its reply is lost always.
    LostReplies,
    /// The reply is this error.
    Status(i32),
    /// The reply is EPERM, and says that the client is banned.
    Banned,
    /// The reply is empty.
    Empty,
    /// The reply is text.
    Text,
    /// The lengths of the reply are longer than the reply.
    Lengths,
    /// The reply ends behind its body.
    Short,
    /// The reply answers another operation.
    OtherOperation,
    /// The reply has the match bits of nobody.
    OtherXid,
    /// The reply is a request.
    Echo,
    /// Early replies come, and never a final one.
    EarlyForever,
    /// The block or the header is full of ones.
    Ones,
    /// Every block is the first one.
    SameBlock,
    /// The state of the target's space.
    State(u32),
    /// The request is executed, and its reply comes after this time.
    Slow(Duration),
    /// The target recovers: it takes connects of clients that no recovery waits for, and answers pings.
    Recovery,
}

/// A target that is served.
#[derive(Clone, Debug)]
pub struct Served {
    /// Its kind.
    pub service: Service,
    /// Its name with `_UUID`; `MGS`.
    pub name: String,
    /// Its faults: the operation, or 0 for every one.
    pub troubles: Vec<(u32, Trouble)>,
    /// The logs of an MGS, by name.
    pub logs: BTreeMap<String, LogWriter>,
    /// The parts of the table of an MGS that says where targets are, by the first version in each.
    pub tables: BTreeMap<u64, Vec<u8>>,
    /// The most that a connect is granted, as connect data; empty for what it asks.
    pub grants: Vec<u8>,
    /// The space of a target, as the reply to a question for it.
    pub statfs: Vec<u8>,
}

impl Served {
    /// Returns a healthy target.
    #[must_use]
    pub fn new(service: Service, name: &str) -> Self {
        Self {
            service,
            name: name.to_owned(),
            troubles: Vec::new(),
            logs: BTreeMap::new(),
            tables: BTreeMap::new(),
            grants: Vec::new(),
            statfs: vec![0; 144],
        }
    }

    /// Adds a fault.
    #[must_use]
    pub fn with(mut self, opc: u32, trouble: Trouble) -> Self {
        self.troubles.push((opc, trouble));
        self
    }

    /// Adds an entry to the table that says where targets are: the part of this version, the index of an OST, its NIDs as 8
    /// bytes.
    #[must_use]
    pub fn ost_is_at(mut self, version: u64, index: u32, nids: &[u64]) -> Self {
        let len = 24 + 8 * nids.len();
        let mut entry = version.to_le_bytes().to_vec();
        for word in [1, index, len as u32] {
            entry.extend(word.to_le_bytes());
        }
        entry.extend([2, 0, 8, nids.len() as u8]);
        entry.extend(nids.iter().flat_map(|nid| nid.to_le_bytes()));
        self.tables.entry(version).or_default().extend(entry);
        self
    }

    /// Adds a log.
    #[must_use]
    pub fn log(mut self, name: &str, log: LogWriter) -> Self {
        self.logs.insert(name.to_owned(), log);
        self
    }
}

/// A connection of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Connection {
    handle: u64,
    cookie: u64,
    conn_cnt: u32,
    /// When the client connected.
    since: Duration,
}

/// A reply to be sent as a PUT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The portal.
    pub portal: u32,
    /// The match bits.
    pub match_bits: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How long after the request it is sent.
    pub after: Duration,
}

/// The targets of one node.
#[derive(Debug, Default)]
pub struct Server {
    targets: Vec<Served>,
    /// By the names of target and client.
    connections: BTreeMap<(String, String), Connection>,
    next_cookie: u64,
    harm: harm::Harm,
    lost: BTreeSet<u32>,
    /// How much time has passed.
    now: Duration,
    /// The opcodes of the requests that came.
    pub asked: Vec<u32>,
}

/// How long a target may have the connection of a check.
const HELD_MAX: Duration = Duration::from_secs(10);

const ENOENT: i32 = -2;
const EIO: i32 = -5;
const EAGAIN: i32 = -11;
const EBUSY: i32 = -16;
const ENODEV: i32 = -19;
const EBADR: i32 = -53;
const ENOTCONN: i32 = -107;
const EALREADY: i32 = -114;

/// The errors of a request that was executed: EPERM, ENOENT, EACCES, ENOSPC, EROFS, EINPROGRESS, EDQUOT. Others are of a request
/// that was refused, and their reply has another type.
const EXECUTED: [i32; 7] = [-1, -2, -13, -28, -30, -115, -122];

/// The flag of a client that no recovery waits for.
const LIGHTWEIGHT: u64 = 1 << 48;

/// The flags of a reply to a connect: the target can be asked again after a restart.
const REPLAYABLE: u32 = 0x4;

impl Server {
    /// Returns a node that serves these targets.
    #[must_use]
    pub fn new(targets: Vec<Served>) -> Self {
        Self {
            targets,
            next_cookie: 0x1000,
            ..Self::default()
        }
    }

    /// Returns the names of the targets and of the clients that are connected.
    #[must_use]
    pub fn connected(&self) -> Vec<(String, String)> {
        self.connections.keys().cloned().collect()
    }

    /// Ends all troubles; the connections stay.
    pub fn heal(&mut self) {
        self.targets
            .iter_mut()
            .for_each(|target| target.troubles.clear());
    }

    /// Returns what came that could do harm.
    #[must_use]
    pub fn harm(&self) -> &[String] {
        self.harm.seen()
    }

    /// Learns how much time has passed since the start.
    pub fn at(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// Takes a request. A portal that no target of this node has loses it, as LNet does.
    pub fn request(&mut self, portal: u32, match_bits: u64, bytes: &[u8]) -> Vec<Answer> {
        let serves = |served: &Served| served.service.request_portal() == portal;
        let Some(service) = self
            .targets
            .iter()
            .find(|served| serves(served))
            .map(|s| s.service)
        else {
            self.harm.look_at_portal(portal);
            return Vec::new();
        };
        let parsed = Message::parse(bytes).ok();
        let Some((message, body)) = parsed.and_then(|m| Some((m, Body::of(&m)?))) else {
            self.harm.note("bytes that are no request");
            return Vec::new();
        };
        let opc = body.opc();
        self.asked.push(opc);
        self.harm.look(service, match_bits, &message, &body);
        self.look_at_time(service, &body);
        let target = self.target_of(service, &message, &body);
        let trouble = target.and_then(|at| self.trouble(at, opc));
        if trouble == Some(Trouble::Silence) {
            return Vec::new();
        }
        let (status, mut buffers) = match trouble {
            Some(Trouble::Status(status)) => {
                if status == ENOTCONN {
                    self.connections
                        .retain(|_, held| held.cookie != body.handle());
                }
                (status, Vec::new())
            }
            Some(Trouble::Banned) => (-1, Vec::new()),
            _ => self.execute(service, target, &message, &body, trouble),
        };
        if self.is_lost(trouble, opc) {
            return Vec::new();
        }
        let cookie = match buffers.first() {
            Some(first) if opc_is_connect(opc) && status == 0 => View::little(first).u64(0),
            _ => None,
        };
        if cookie.is_some() {
            buffers.remove(0);
        }
        let bulk = match opc {
            opc::MGS_CONFIG_READ if buffers.len() > 1 => buffers.pop(),
            _ => None,
        };
        let bulk = bulk.map(|bytes| Answer {
            portal: portal::MGS_BULK,
            match_bits,
            bytes,
            after: delay(trouble),
        });
        let op_flags = match service {
            Service::Mdt | Service::Ost if cookie.is_some() => REPLAYABLE,
            _ => 0,
        };
        let body = reply_body(opc, status, cookie.unwrap_or(0), op_flags, trouble);
        let reply = Reply { body, buffers };
        let answers = reply.answers(service.reply_portal(), match_bits, trouble, bytes);
        bulk.into_iter().chain(answers).collect()
    }

    /// A target should not have the connection of a check for long.
    fn look_at_time(&mut self, service: Service, body: &Body<'_>) {
        let cookie = body.handle();
        let mut held = self.connections.values();
        let held = held.find(|held| held.cookie == cookie && service != Service::Mgs);
        let held = held.map(|held| self.now.saturating_sub(held.since));
        if let Some(time) = held.filter(|time| *time > HELD_MAX) {
            self.harm
                .note(format!("a connection that is held for {time:?}"));
        }
    }

    /// Executes a request. The first buffer of the answer to a connect is the cookie.
    fn execute(
        &mut self,
        service: Service,
        target: Option<usize>,
        message: &Message<'_>,
        body: &Body<'_>,
        trouble: Option<Trouble>,
    ) -> (i32, Vec<Vec<u8>>) {
        let Some(target) = target else {
            let missing = if opc_is_connect(body.opc()) {
                ENODEV
            } else {
                ENOTCONN
            };
            return (missing, Vec::new());
        };
        match body.opc() {
            connect if opc_is_connect(connect) => self.connect(target, message, body, trouble),
            opc::MGS_DISCONNECT | opc::MDS_DISCONNECT | opc::OST_DISCONNECT => {
                let cookie = body.handle();
                self.connections.retain(|_, held| held.cookie != cookie);
                (0, Vec::new())
            }
            opc::OBD_PING => (0, Vec::new()),
            opc::OST_STATFS | opc::MDS_STATFS if trouble == Some(Trouble::Recovery) => {
                (EAGAIN, Vec::new())
            }
            opc::OST_STATFS | opc::MDS_STATFS => {
                let served = self.targets.get(target);
                let mut statfs = served.map_or_else(Vec::new, |served| served.statfs.clone());
                if let (Some(Trouble::State(state)), Some(place)) =
                    (trouble, statfs.get_mut(104..108))
                {
                    place.copy_from_slice(&state.to_le_bytes());
                }
                (0, vec![statfs])
            }
            opc::MGS_CONFIG_READ if service == Service::Mgs => {
                self.read_table(target, message, trouble)
            }
            log if service == Service::Mgs => self.read_log(target, log, message, trouble),
            _ => (EIO, Vec::new()),
        }
    }

    fn connect(
        &mut self,
        target: usize,
        message: &Message<'_>,
        body: &Body<'_>,
        trouble: Option<Trouble>,
    ) -> (i32, Vec<Vec<u8>>) {
        let data = message.buffer(4).map(|view| view.bytes().to_vec());
        let data = data.unwrap_or_default();
        let asked = View::little(&data).u64(0).unwrap_or_default();
        if trouble == Some(Trouble::Recovery) && asked & LIGHTWEIGHT == 0 {
            return (EBUSY, Vec::new());
        }
        let name = self.targets.get(target).map(|served| served.name.clone());
        let key = (name.unwrap_or_default(), harm::name_of(message, 2));
        let handle = message
            .buffer(3)
            .and_then(|view| view.u64(0))
            .unwrap_or_default();
        let conn_cnt = body.conn_cnt();
        let held = self.connections.get(&key);
        if held.is_some_and(|held| held.handle != handle || held.conn_cnt >= conn_cnt) {
            return (EALREADY, Vec::new());
        }
        self.next_cookie += 1;
        let cookie = self.next_cookie;
        // A second connect soon after the first is the same client's, whose reply was lost.
        let since = held
            .map(|held| held.since)
            .filter(|since| self.now.saturating_sub(*since) <= HELD_MAX);
        let connection = Connection {
            since: since.unwrap_or(self.now),
            handle,
            cookie,
            conn_cnt,
        };
        self.connections.insert(key, connection);
        let grants = self.targets.get(target).map(|served| &served.grants);
        let granted = grants.map_or_else(Vec::new, |grants| granted(grants, data));
        (0, vec![cookie.to_le_bytes().to_vec(), granted])
    }

    fn read_log(
        &self,
        target: usize,
        opcode: u32,
        message: &Message<'_>,
        trouble: Option<Trouble>,
    ) -> (i32, Vec<Vec<u8>>) {
        let Some(served) = self.targets.get(target) else {
            return (EIO, Vec::new());
        };
        let place = message
            .buffer(1)
            .map(|view| view.bytes().to_vec())
            .unwrap_or_default();
        if opcode == opc::LLOG_CREATE {
            let names = served.logs.keys();
            let wanted = harm::name_of(message, 2);
            let Some(at) = names.into_iter().position(|name| *name == wanted) else {
                return (ENOENT, vec![place]);
            };
            let mut place = place;
            if let Some(first) = place.first_mut() {
                *first = at as u8 + 1;
            }
            return (0, vec![place]);
        }
        let at = place.first().map_or(0, |first| usize::from(*first));
        let Some(log) = at
            .checked_sub(1)
            .and_then(|at| served.logs.values().nth(at))
        else {
            return (EIO, Vec::new());
        };
        let ones = trouble == Some(Trouble::Ones);
        if opcode == opc::LLOG_READ_HEADER {
            let header = if ones { vec![0xff; 8192] } else { log.header() };
            return (0, vec![header]);
        }
        let view = View::little(&place);
        let offset = match trouble {
            Some(Trouble::SameBlock) => 8192,
            _ => view.u64(40).unwrap_or_default(),
        };
        let Some((block, last, end)) = log.block(offset) else {
            return (EBADR, vec![place]);
        };
        let mut answer = place.get(..32).unwrap_or_default().to_vec();
        let said = if trouble == Some(Trouble::SameBlock) {
            1
        } else {
            last
        };
        answer.extend(said.to_le_bytes());
        answer.extend(8192u32.to_le_bytes());
        answer.extend(end.to_le_bytes());
        (0, vec![answer, if ones { vec![0xff; 8192] } else { block }])
    }

    /// The last buffer is the bulk.
    fn read_table(
        &self,
        target: usize,
        message: &Message<'_>,
        trouble: Option<Trouble>,
    ) -> (i32, Vec<Vec<u8>>) {
        let tables = self.targets.get(target).map(|served| &served.tables);
        let from = message.buffer(1).and_then(|view| view.u64(64));
        let part = tables
            .zip(from)
            .and_then(|(tables, from)| tables.range(from..).next());
        let (Some(tables), Some((first, part))) = (tables, part) else {
            return (ENOENT, Vec::new());
        };
        let next = tables.range(first + 1..).next().map(|(next, _)| next - 1);
        let newest = tables.keys().last().copied().unwrap_or_default();
        let mut result = next.unwrap_or(newest).to_le_bytes().to_vec();
        result.extend(newest.to_le_bytes());
        let bulk = match trouble {
            Some(Trouble::Ones) => vec![0xff; 8192],
            _ => part.clone(),
        };
        (0, vec![result, bulk])
    }

    /// Returns the target of a request: named by a connect, otherwise by the cookie.
    fn target_of(&self, service: Service, message: &Message<'_>, body: &Body<'_>) -> Option<usize> {
        let name = if opc_is_connect(body.opc()) {
            harm::name_of(message, 1)
        } else {
            let cookie = body.handle();
            let mut held = self.connections.iter();
            held.find(|(_, held)| held.cookie == cookie)?.0.0.clone()
        };
        let mut targets = self.targets.iter();
        targets.position(|served| served.service == service && served.name == name)
    }

    fn trouble(&self, target: usize, opc: u32) -> Option<Trouble> {
        let troubles = &self.targets.get(target)?.troubles;
        let found = troubles.iter().find(|(of, _)| *of == opc || *of == 0);
        found.map(|(_, trouble)| *trouble)
    }

    fn is_lost(&mut self, trouble: Option<Trouble>, opc: u32) -> bool {
        match trouble {
            Some(Trouble::LostReplies) => true,
            Some(Trouble::LostReply) => self.lost.insert(opc),
            _ => false,
        }
    }
}

fn opc_is_connect(opc: u32) -> bool {
    matches!(opc, opc::MGS_CONNECT | opc::MDS_CONNECT | opc::OST_CONNECT)
}

/// Returns what a connect is granted: of the flags at 0 and at 80 those that it asked for, and the rest as the target has it.
fn granted(grants: &[u8], asked: Vec<u8>) -> Vec<u8> {
    if grants.is_empty() {
        return asked;
    }
    let mut data = grants.to_vec();
    for at in (0..8).chain(80..88) {
        if let (Some(byte), Some(asked)) = (data.get_mut(at), asked.get(at)) {
            *byte &= asked;
        }
    }
    data
}

fn delay(trouble: Option<Trouble>) -> Duration {
    match trouble {
        Some(Trouble::Slow(delay)) => delay,
        _ => Duration::ZERO,
    }
}

/// Only the reply to a connect has a handle.
fn reply_body(
    opc: u32,
    status: i32,
    handle: u64,
    op_flags: u32,
    trouble: Option<Trouble>,
) -> Vec<u8> {
    let kind = match (status, trouble) {
        (_, Some(Trouble::Echo)) => Type::Request,
        (0, _) => Type::Reply,
        (executed, _) if EXECUTED.contains(&executed) => Type::Reply,
        _ => Type::Error,
    };
    let opc = if trouble == Some(Trouble::OtherOperation) {
        36
    } else {
        opc
    };
    let banned = if trouble == Some(Trouble::Banned) {
        flags::BANNED
    } else {
        0
    };
    let mut body = handle.to_le_bytes().to_vec();
    for word in [kind.number(), 3, opc, status as u32] {
        body.extend(word.to_le_bytes());
    }
    body.resize(56, 0);
    body.extend(banned.to_le_bytes());
    body.extend(op_flags.to_le_bytes());
    body.resize(68, 0);
    body.extend(1u32.to_le_bytes());
    body.resize(184, 0);
    body
}

struct Reply {
    body: Vec<u8>,
    buffers: Vec<Vec<u8>>,
}

impl Reply {
    fn answers(
        self,
        portal: u32,
        xid: u64,
        trouble: Option<Trouble>,
        request: &[u8],
    ) -> Vec<Answer> {
        let checksum = early_checksum(&self.body);
        let mut buffers = vec![self.body];
        if !matches!(trouble, Some(Trouble::Short | Trouble::EarlyForever)) {
            buffers.extend(self.buffers);
        }
        let mut bytes = message(0, &buffers);
        let mut match_bits = xid;
        let mut copies = 1;
        match trouble {
            Some(Trouble::Empty) => bytes.clear(),
            Some(Trouble::Text) => bytes = b"220 mail.example.com ESMTP\r\n".to_vec(),
            Some(Trouble::Lengths) => put(&mut bytes, 32, u32::MAX),
            Some(Trouble::OtherXid) => match_bits = xid ^ 0x40,
            Some(Trouble::Echo) => request.clone_into(&mut bytes),
            Some(Trouble::EarlyForever) => {
                put(&mut bytes, 16, checksum);
                copies = 3;
            }
            _ => {}
        }
        let answer = Answer {
            portal,
            match_bits,
            bytes,
            after: delay(trouble),
        };
        vec![answer; copies]
    }
}

fn put(bytes: &mut [u8], at: usize, word: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

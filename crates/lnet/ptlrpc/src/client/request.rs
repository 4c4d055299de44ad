//! The requests that the check may send, as bytes. There are no others: what could change a log, a lock, recovery or
//! another client's state cannot be expressed here.

use serde::{Deserialize, Serialize};

use crate::body::{BODY_LEN, Type, flags};
use crate::message::MAGIC;
use crate::opcode::{opc, portal};
use crate::view::pad8;

/// The kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Service {
    /// The management service, which has the configuration logs.
    Mgs,
    /// A metadata target.
    Mdt,
    /// An object target.
    Ost,
}

/// `VERSION`, `FULL20`, `IMP_RECOV`: without the last, a connection turns imperative recovery off for everyone.
const MGS_FLAGS: u64 = 0x0000_0110_0000_0020;

/// `RDONLY`, `VERSION`, `FULL20`, `FID`, `LIGHTWEIGHT`: without the last, recovery would wait for this client.
const TARGET_FLAGS: u64 = 0x0001_0010_4000_0021;

/// The release that the requests claim.
const RELEASE: u32 = 0x0211_0000;

/// `INITIAL`.
const FIRST_CONNECT: u32 = 0x20;

/// The job of every request.
const JOB: &[u8] = b"finerail-doctor";

/// The length of a target's name and of a client's, in bytes.
const UUID_LEN: usize = 39;

/// The room for a part of the table of whereabouts: 256 units of 2^12 bytes. An MGS trusts these two numbers, so they are
/// those of every client, and cannot be others.
const TABLE_UNITS: (u8, u32) = (12, 256);

/// The same in bytes.
pub(crate) const TABLE_ROOM: usize = (TABLE_UNITS.1 as usize) << TABLE_UNITS.0;

/// The length of a block of a log, in bytes.
pub(crate) const BLOCK: u32 = 8192;

impl Service {
    /// Returns the kind of the target with this name, such as `fs-OST0003`; `None` for other names.
    #[must_use]
    pub fn of_target(name: &str) -> Option<Self> {
        let (_, suffix) = name.rsplit_once('-')?;
        match suffix.get(..3)? {
            "MDT" => Some(Self::Mdt),
            "OST" => Some(Self::Ost),
            _ => None,
        }
    }

    /// Returns the portal of the requests.
    #[must_use]
    pub const fn request_portal(self) -> u32 {
        match self {
            Self::Mgs => portal::MGS_REQUEST,
            Self::Mdt => portal::MDS_REQUEST,
            Self::Ost => portal::OST_REQUEST,
        }
    }

    /// Returns the portal of the replies.
    #[must_use]
    pub const fn reply_portal(self) -> u32 {
        match self {
            Self::Mgs => portal::MGC_REPLY,
            Self::Mdt => portal::MDC_REPLY,
            Self::Ost => portal::OSC_REPLY,
        }
    }

    const fn connect_flags(self) -> u64 {
        match self {
            Self::Mgs => MGS_FLAGS,
            Self::Mdt | Self::Ost => TARGET_FLAGS,
        }
    }

    /// The null flavor, and the part of the sender.
    const fn flavor(self) -> u32 {
        match self {
            Self::Mgs => 0x0300_0000,
            Self::Mdt | Self::Ost => 0,
        }
    }
}

/// One of the questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    Connect,
    Disconnect,
    Ping,
    Statfs,
    OpenLog(String),
    LogHeader(LogId),
    LogBlock(LogId, Place),
    /// Where the targets of this file system are, from this version of the table on.
    Whereabouts(String, u64),
}

/// The name of a log, as the MGS gave it.
pub(crate) type LogId = [u8; 20];

/// The place of a block in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The index of the next record.
    pub(crate) next: u32,
    /// The index of the last record that was read.
    pub(crate) seen: u32,
    /// The offset of the block.
    pub(crate) at: u64,
}

/// What every request of a connection says.
pub(crate) struct Envelope<'a> {
    pub(crate) service: Service,
    pub(crate) target: &'a str,
    pub(crate) uuid: &'a str,
    pub(crate) handle: u64,
    pub(crate) cookie: u64,
    pub(crate) conn_cnt: u32,
    pub(crate) is_resent: bool,
}

impl Question {
    /// Returns the opcode.
    pub(crate) const fn opc(&self, service: Service) -> u32 {
        match (self, service) {
            (Self::Connect, Service::Mgs) => opc::MGS_CONNECT,
            (Self::Connect, Service::Mdt) => opc::MDS_CONNECT,
            (Self::Connect, Service::Ost) => opc::OST_CONNECT,
            (Self::Disconnect, Service::Mgs) => opc::MGS_DISCONNECT,
            (Self::Disconnect, Service::Mdt) => opc::MDS_DISCONNECT,
            (Self::Disconnect, Service::Ost) => opc::OST_DISCONNECT,
            (Self::Statfs, Service::Mdt) => opc::MDS_STATFS,
            (Self::Statfs, _) => opc::OST_STATFS,
            (Self::Ping, _) => opc::OBD_PING,
            (Self::OpenLog(_), _) => opc::LLOG_CREATE,
            (Self::LogHeader(_), _) => opc::LLOG_READ_HEADER,
            (Self::LogBlock(..), _) => opc::LLOG_NEXT_BLOCK,
            (Self::Whereabouts(..), _) => opc::MGS_CONFIG_READ,
        }
    }

    /// The high half of the version names the service that handles the request.
    const fn version(&self, service: Service) -> u32 {
        let handler = match (self, service) {
            (Self::Connect | Self::Disconnect | Self::Ping, _) => 1,
            (Self::Statfs, Service::Mdt) => 2,
            (Self::Statfs, _) => 3,
            (Self::OpenLog(_) | Self::LogHeader(_) | Self::LogBlock(..), _) => 5,
            (Self::Whereabouts(..), _) => 6,
        };
        handler << 16 | 3
    }

    /// Returns the bytes of the request.
    // [PTLRPC-20] [PTLRPC-21]
    pub(crate) fn encode(&self, envelope: &Envelope<'_>) -> Vec<u8> {
        let mut buffers = vec![self.body(envelope)];
        match self {
            Self::Connect => {
                buffers.push(padded(envelope.target.as_bytes()));
                buffers.push(padded(envelope.uuid.as_bytes()));
                buffers.push(envelope.handle.to_le_bytes().to_vec());
                buffers.push(connect_data(envelope.service.connect_flags()));
                buffers.push(Vec::new());
            }
            Self::Disconnect | Self::Ping | Self::Statfs => {}
            Self::OpenLog(name) => {
                buffers.push(vec![0; 48]);
                buffers.push([name.as_bytes(), &[0]].concat());
                // An mdt_body, which servers before 2.15 do not expect and ignore.
                buffers.push(vec![0; 216]);
            }
            Self::LogHeader(id) => buffers.push(log_body(id, None)),
            Self::LogBlock(id, place) => buffers.push(log_body(id, Some(*place))),
            Self::Whereabouts(fs, from) => buffers.push(table_body(fs, *from)),
        }
        message(envelope.service.flavor(), &buffers)
    }

    fn body(&self, envelope: &Envelope<'_>) -> Vec<u8> {
        let is_connect = *self == Self::Connect;
        let handle = if is_connect { 0 } else { envelope.cookie };
        let resent = if envelope.is_resent && !is_connect {
            flags::RESENT
        } else {
            0
        };
        let (op_flags, timeout) = if is_connect {
            (FIRST_CONNECT, 5)
        } else {
            (0, 30)
        };
        let mut body = Vec::with_capacity(BODY_LEN);
        body.extend(handle.to_le_bytes());
        body.extend(Type::Request.number().to_le_bytes());
        body.extend(self.version(envelope.service).to_le_bytes());
        body.extend(self.opc(envelope.service).to_le_bytes());
        body.resize(56, 0);
        for word in [resent, op_flags, envelope.conn_cnt, timeout] {
            body.extend(word.to_le_bytes());
        }
        body.resize(152, 0);
        body.extend(JOB);
        body.resize(BODY_LEN, 0);
        body
    }
}

fn padded(name: &[u8]) -> Vec<u8> {
    // The last byte stays NUL.
    let mut bytes = name.get(..UUID_LEN - 1).unwrap_or(name).to_vec();
    bytes.resize(UUID_LEN, 0);
    bytes
}

fn connect_data(flags: u64) -> Vec<u8> {
    let mut data = flags.to_le_bytes().to_vec();
    data.extend(RELEASE.to_le_bytes());
    data.resize(192, 0);
    data
}

/// A `llogd_body`: a plain log of the context of configurations, and a place in it.
fn log_body(id: &LogId, place: Option<Place>) -> Vec<u8> {
    let mut body = id.to_vec();
    let (next, seen, len, at) = place.map_or((0, 0, 0, 0), |place| {
        (place.next, place.seen, BLOCK, place.at)
    });
    for word in [0, 4, next, seen, len] {
        body.extend(u32::to_le_bytes(word));
    }
    body.extend(at.to_le_bytes());
    body
}

/// The name of the table, the first version that is wanted, its type, and how NIDs and room are given.
fn table_body(fs: &str, from: u64) -> Vec<u8> {
    const OF_WHEREABOUTS: u16 = 2;
    const LARGE_NIDS: u8 = 20;
    let name = format!("{fs}-cliir");
    let mut body = name
        .as_bytes()
        .get(..63)
        .unwrap_or(name.as_bytes())
        .to_vec();
    body.resize(64, 0);
    body.extend(from.to_le_bytes());
    body.extend(OF_WHEREABOUTS.to_le_bytes());
    body.extend([LARGE_NIDS, TABLE_UNITS.0]);
    body.extend(TABLE_UNITS.1.to_le_bytes());
    body
}

/// Returns a message of these buffers.
pub(crate) fn message(flavor: u32, buffers: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [buffers.len() as u32, flavor, MAGIC, 0, 0, 0, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    for buffer in buffers {
        bytes.extend((buffer.len() as u32).to_le_bytes());
    }
    bytes.resize(pad8(bytes.len()), 0);
    for buffer in buffers {
        bytes.extend(buffer);
        bytes.resize(pad8(bytes.len()), 0);
    }
    bytes
}

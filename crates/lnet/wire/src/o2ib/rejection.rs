//! The private data of a rejected connection request.
//!
//! ```text
//!  0       4       6    7    8             16      18      20      24
//!  +-------+-------+----+----+-------------+-------+-------+-------+
//!  | magic | versn | why| 0  | incarnation | depth | frags | size  |
//!  +-------+-------+----+----+-------------+-------+-------+-------+
//! ```
//!
//! librdmacm pads private data with zeros, so the length says nothing.

use super::message::Parameters;
use super::{MAGIC, VERSION};
use crate::bytes::{ByteOrder, Reader, Writer};
use crate::error::{DecodeError, EncodeError, Problem};

const WHAT: &str = "o2ib rejection";

/// Bytes of a rejection.
pub const REJECTION_LEN: usize = 24;

/// The reason why an acceptor rejects a connection request.
// [IB-16]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RejectionReason {
    /// Both nodes dial, and the acceptor's connection wins.
    ConnRace = 1,
    /// The acceptor has no memory or no resources of the device.
    NoResources = 2,
    /// The request is wrong in a way that another attempt does not change.
    Fatal = 3,
    /// The versions do not match.
    ConnUncompat = 4,
    /// The request names an incarnation that is gone, or comes from a new one: dial again.
    ConnStale = 5,
    /// The request asks for more fragments than the acceptor has.
    RdmaFrags = 6,
    /// The request asks for a deeper queue than the acceptor has.
    MsgQueueSize = 7,
    /// Nobody listens at the service number.
    InvalidSrvId = 8,
    /// The acceptor's interface is not active yet.
    Early = 9,
}

impl RejectionReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::ConnRace,
        Self::NoResources,
        Self::Fatal,
        Self::ConnUncompat,
        Self::ConnStale,
        Self::RdmaFrags,
        Self::MsgQueueSize,
        Self::InvalidSrvId,
        Self::Early,
    ];

    /// Returns what the reason says of the node that rejected a request, in words for an administrator of the dialler.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::ConnRace => "both nodes dial at the same moment",
            Self::NoResources => {
                "the node has no memory, or its device no resources, for another connection"
            }
            Self::Fatal => {
                "the node has no interface with this NID (perhaps another o2ib network or another address), or does not \
                 accept the request"
            }
            Self::ConnUncompat => "the node speaks another version of the protocol",
            Self::ConnStale => "the node closes connections of an earlier start of this machine",
            Self::RdmaFrags => {
                "the node accepts fewer fragments than this machine needs (map_on_demand)"
            }
            Self::MsgQueueSize => "the node accepts fewer peer_credits than this machine has",
            Self::InvalidSrvId => "nothing listens at LNet's service number",
            Self::Early => {
                "the node's interface with this address is not active yet, or has no LNet network"
            }
        }
    }

    fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u8 == number)
    }
}

/// A rejection of a connection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The acceptor's version.
    pub version: u16,
    /// The reason.
    pub reason: RejectionReason,
    /// The acceptor's incarnation; 0 if it is not known.
    pub incarnation: u64,
    /// The most that the acceptor accepts.
    pub parameters: Parameters,
}

impl Rejection {
    /// Decodes the rejection at the start of `bytes`; ignores bytes after it, and accepts any version.
    ///
    /// # Errors
    ///
    /// A short input, a wrong magic number or an unknown reason.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new(WHAT, bytes);
        reader.require(REJECTION_LEN)?;
        let magic = reader.u32(0)?;
        let order =
            ByteOrder::of_magic(magic, MAGIC).ok_or(reader.error(0, Problem::BadMagic(magic)))?;
        let reader = reader.with_order(order);
        let [number] = reader.array(6)?;
        let unknown = Problem::UnknownValue {
            field: "reason",
            value: number.into(),
        };
        Ok(Self {
            version: reader.u16(4)?,
            reason: RejectionReason::of_number(number).ok_or(reader.error(6, unknown))?,
            incarnation: reader.u64(8)?,
            parameters: Parameters::read(&reader, 16)?,
        })
    }

    /// Writes the rejection.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; REJECTION_LEN] {
        let mut bytes = [0; REJECTION_LEN];
        // The buffer is as long as the structure, so that writing cannot fail.
        let _written: Result<(), EncodeError> = self.write(&mut bytes);
        bytes
    }

    fn write(&self, bytes: &mut [u8]) -> Result<(), EncodeError> {
        let mut writer = Writer::new(bytes, REJECTION_LEN)?;
        writer.u32(MAGIC).u16(self.version);
        writer.bytes(&[self.reason as u8, 0]).u64(self.incarnation);
        self.parameters.write(&mut writer);
        Ok(())
    }

    /// Returns a rejection in the version that this crate speaks.
    #[must_use]
    pub const fn new(reason: RejectionReason, incarnation: u64, parameters: Parameters) -> Self {
        Self {
            version: VERSION,
            reason,
            incarnation,
            parameters,
        }
    }
}

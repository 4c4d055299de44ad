//! Rule blocks: the form in which a library and a node exchange rules. `docs/selection/policies.md` has
//! them.
//!
//! ```text
//!  0        4         8        12        16         24
//!  +--------+---------+--------+---------+----------+------------------ … -+
//!  | length | version | type   | size of | offset   | rules                |
//!  | of all |         |        | a rule  | of rules |                      |
//!  +--------+---------+--------+---------+----------+------------------ … -+
//!   v1: 0x00010000, type 0 nets, 1 NIDs, 2 pairs; rules of one size
//!   v2: 0x00020000, type 0xffffffff, size 0; every rule begins with its length
//! ```
//!
//! All integers are little-endian. v1 holds the rules of the design; v2 holds every rule of a list
//! except those with IPv6 addresses, for which no layout has room. A reader accepts any minor
//! version, ignores the unknown end of longer rules, and ignores bytes between the header and the
//! rules.
//!
//! A v1 block replaces the rules of its type, a v2 block the whole list. A rejected block changes
//! nothing.

mod convert;
mod error;
mod kernel;
mod record;
mod v1;
mod v2;

pub use error::{BlockError, BlockProblem, Place};
pub use kernel::kernel_rule;
pub use record::{Expr, NetDescr, NetRule, NidDescr, NidRule, P2pRule};
pub use v2::IndexedRule;

use self::record::{put, words};
use crate::list::RuleList;

/// The type of the rules of a block: `lnet_sel_rule_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum RuleType {
    /// Net rules (v1).
    Net = 0,
    /// NID rules (v1).
    Nid = 1,
    /// Peer-to-peer rules (v1).
    P2p = 2,
    /// Rules of all kinds with their indices (v2).
    Mixed = 0xFFFF_FFFF,
}

impl RuleType {
    /// The type with this number.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Net,
            1 => Self::Nid,
            2 => Self::P2p,
            0xFFFF_FFFF => Self::Mixed,
            _ => return None,
        })
    }

    /// Bytes of a rule; 0 if every rule has its own length.
    const fn rule_size(self) -> u32 {
        match self {
            Self::Net => size_of::<NetRule>() as u32,
            Self::Nid => size_of::<NidRule>() as u32,
            Self::P2p => size_of::<P2pRule>() as u32,
            Self::Mixed => 0,
        }
    }

    const fn version(self) -> u32 {
        match self {
            Self::Mixed => 0x0002_0000,
            Self::Net | Self::Nid | Self::P2p => 0x0001_0000,
        }
    }

    const fn rules_max(self) -> usize {
        match self {
            Self::Mixed => RuleList::MAX_LEN,
            Self::Net | Self::Nid | Self::P2p => RuleBlock::V1_RULES_MAX,
        }
    }
}

/// The header of a block: `lnet_ioctl_rule_blk`, 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RuleBlockHeader {
    /// `ioc_len`: bytes of the whole block.
    pub len: u32,
    /// `ioc_version`: major version << 16 | minor version.
    pub version: u32,
    /// `rule_type`: see [`RuleType`].
    pub rule_type: u32,
    /// `rule_size`: bytes of a rule.
    pub rule_size: u32,
    /// `rule_bulk`: offset of the rules from the start of the block.
    pub rule_bulk: u64,
}

impl RuleBlockHeader {
    /// Bytes of the header.
    pub const LEN: usize = 24;

    fn write(&self, out: &mut Vec<u8>) {
        put(
            out,
            &[self.len, self.version, self.rule_type, self.rule_size],
        );
        out.extend_from_slice(&self.rule_bulk.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Self {
        let mut words = words(bytes);
        let mut next = || words.next().unwrap_or_default();
        Self {
            len: next(),
            version: next(),
            rule_type: next(),
            rule_size: next(),
            rule_bulk: u64::from(next()) | u64::from(next()) << 32,
        }
    }

    /// The type, if the version has it and it fits the size of a rule.
    fn rule_type(&self) -> Result<RuleType, BlockError> {
        let major = self.version >> 16;
        if !matches!(major, 1 | 2) {
            let problem = BlockProblem::UnknownVersion(self.version);
            return Err(BlockError::at(4, problem));
        }
        let rule_type = RuleType::from_number(self.rule_type)
            .filter(|rule_type| rule_type.version() >> 16 == major)
            .ok_or_else(|| BlockError::at(8, BlockProblem::UnknownType(self.rule_type)))?;
        let least = rule_type.rule_size();
        let most = match rule_type {
            RuleType::Mixed => 0,
            RuleType::Net | RuleType::Nid | RuleType::P2p => u32::MAX,
        };
        if !(least..=most).contains(&self.rule_size) {
            let (value, least, most) = (self.rule_size.into(), least.into(), most.into());
            let problem = BlockProblem::out_of_range("rule size", value, least, most);
            return Err(BlockError::at(12, problem));
        }
        Ok(rule_type)
    }
}

// The design's size on a 64-bit machine, where the last member is a pointer.
const _: () = assert!(size_of::<RuleBlockHeader>() == RuleBlockHeader::LEN);

/// The content of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleBlock {
    /// Net rules (v1).
    Net(Vec<NetRule>),
    /// NID rules (v1).
    Nid(Vec<NidRule>),
    /// Peer-to-peer rules (v1).
    P2p(Vec<P2pRule>),
    /// Rules of all kinds (v2).
    Mixed(Vec<IndexedRule>),
}

impl RuleBlock {
    /// The most rules of a v1 block.
    pub const V1_RULES_MAX: usize = 1024;

    /// The type of the rules.
    #[must_use]
    pub const fn rule_type(&self) -> RuleType {
        match self {
            Self::Net(_) => RuleType::Net,
            Self::Nid(_) => RuleType::Nid,
            Self::P2p(_) => RuleType::P2p,
            Self::Mixed(_) => RuleType::Mixed,
        }
    }

    /// How many rules there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Net(rules) => rules.len(),
            Self::Nid(rules) => rules.len(),
            Self::P2p(rules) => rules.len(),
            Self::Mixed(rules) => rules.len(),
        }
    }

    /// Returns true if the block has no rules, which is the empty list.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The block's bytes.
    ///
    /// # Errors
    ///
    /// As [`lnet_sel_rule_serialize`], except those of the buffer.
    pub fn encode(&self) -> Result<Vec<u8>, BlockError> {
        let rule_type = self.rule_type();
        let (count, max) = (self.len(), rule_type.rules_max());
        if count > max {
            let problem = BlockProblem::TooManyRules { count, max };
            return Err(BlockError::in_rule(max, problem));
        }
        let mut out = vec![0; RuleBlockHeader::LEN];
        match self {
            Self::Net(rules) => v1::write(rules, &mut out)?,
            Self::Nid(rules) => v1::write(rules, &mut out)?,
            Self::P2p(rules) => v1::write(rules, &mut out)?,
            Self::Mixed(rules) => v2::write(rules, &mut out)?,
        }
        let len = u32::try_from(out.len())
            .map_err(|_| BlockError::in_rule(count, BlockProblem::NotExpressible("4 GiB")))?;
        let mut header = Vec::with_capacity(RuleBlockHeader::LEN);
        RuleBlockHeader {
            len,
            version: rule_type.version(),
            rule_type: rule_type as u32,
            rule_size: rule_type.rule_size(),
            rule_bulk: RuleBlockHeader::LEN as u64,
        }
        .write(&mut header);
        out.splice(..RuleBlockHeader::LEN, header);
        Ok(out)
    }
}

/// Writes `block` to the start of `out` and returns the number of bytes.
///
/// Libraries and nodes use this one function, for requests and for replies.
///
/// # Errors
///
/// [`BlockProblem::BufferTooSmall`] (−ENOSPC) with the required size; if `out` has room for a
/// header, its `ioc_len` is set to that size. [`BlockProblem::TooManyRules`] (−E2BIG).
/// [`BlockProblem::NotExpressible`] (−EOPNOTSUPP) for IPv6 addresses. Rules that
/// [`lnet_sel_rule_deserialize`] would reject are errors, too.
pub fn lnet_sel_rule_serialize(block: &RuleBlock, out: &mut [u8]) -> Result<usize, BlockError> {
    let bytes = block.encode()?;
    let (needed, available) = (bytes.len(), out.len());
    if let Some(place) = out.get_mut(..needed) {
        place.copy_from_slice(&bytes);
        return Ok(needed);
    }
    if let (Some(place), Some(header)) = (
        out.get_mut(..RuleBlockHeader::LEN),
        bytes.get(..RuleBlockHeader::LEN),
    ) {
        place.copy_from_slice(header);
    }
    let problem = BlockProblem::BufferTooSmall { needed, available };
    Err(BlockError::at(0, problem))
}

/// Reads the block at the start of `bytes`. Bytes after its length are ignored.
///
/// ```
/// use lnet_policy::{RuleBlock, lnet_sel_rule_deserialize};
///
/// let mut bytes = RuleBlock::Net(Vec::new()).encode()?;
/// assert_eq!(lnet_sel_rule_deserialize(&bytes)?, RuleBlock::Net(Vec::new()));
/// bytes[8] = 9;
/// assert_eq!(lnet_sel_rule_deserialize(&bytes).unwrap_err().errno(), -22);
/// # Ok::<(), lnet_policy::BlockError>(())
/// ```
///
/// # Errors
///
/// [`BlockError`] with the offset of a value that may not be there; −EINVAL, or −E2BIG
/// for too many rules.
// [BLOCK-3]
pub fn lnet_sel_rule_deserialize(bytes: &[u8]) -> Result<RuleBlock, BlockError> {
    let (header, rule_type) = header(bytes)?;
    let (len, start) = (header.len as usize, header.rule_bulk as usize);
    // Both offsets were checked against the input.
    let rules = bytes.get(start..len).unwrap_or_default();
    if rule_type == RuleType::Mixed {
        return v2::read(rules, start).map(RuleBlock::Mixed);
    }
    let count = v1::count(&header, rules.len(), rule_type)?;
    if count > rule_type.rules_max() {
        let max = rule_type.rules_max();
        return Err(BlockError::at(0, BlockProblem::TooManyRules { count, max }));
    }
    let size = header.rule_size as usize;
    Ok(match rule_type {
        RuleType::Net => RuleBlock::Net(v1::read(rules, size, start)?),
        RuleType::Nid => RuleBlock::Nid(v1::read(rules, size, start)?),
        RuleType::P2p | RuleType::Mixed => RuleBlock::P2p(v1::read(rules, size, start)?),
    })
}

/// The header and its type, if they fit each other and the input.
fn header(bytes: &[u8]) -> Result<(RuleBlockHeader, RuleType), BlockError> {
    let available = bytes.len();
    let truncated = |needed| BlockProblem::Truncated { needed, available };
    let head = bytes
        .get(..RuleBlockHeader::LEN)
        .ok_or_else(|| BlockError::at(available, truncated(RuleBlockHeader::LEN)))?;
    let header = RuleBlockHeader::read(head);
    let (len, least) = (header.len as usize, RuleBlockHeader::LEN as u64);
    if len < RuleBlockHeader::LEN {
        let (value, most) = (u64::from(header.len), available as u64);
        let problem = BlockProblem::out_of_range("length", value, least, most);
        return Err(BlockError::at(0, problem));
    }
    if len > available {
        return Err(BlockError::at(0, truncated(len)));
    }
    let rule_type = header.rule_type()?;
    let most = u64::from(header.len);
    if header.rule_bulk < least || header.rule_bulk > most {
        let problem = BlockProblem::out_of_range("rule offset", header.rule_bulk, least, most);
        return Err(BlockError::at(16, problem));
    }
    Ok((header, rule_type))
}

//! Ping info: a node's description of itself, in a REPLY to a ping and in a push.
//!
//! ```text
//!  0        4          8      12      16
//!  +--------+----------+------+-------+
//!  | magic  | features | pid  | nnis  |
//!  +--------+----------+------+-------+-------------------+
//!  | 0@lo              | sequence     | info size, or 0   |  entry 0
//!  +-------------------+--------------+-------------------+
//!  | NID, 8 bytes      | status       | 0                 |  entries 1 to nnis - 1
//!  +--------------+----+--------------+-----+-------------+
//!  | status       | NID, 8 to 20 bytes      |             with LARGE_ADDR: records of 4-byte units
//!  +--------------+-------------------------+             up to the info size
//!  | count | count * 40 bytes |                           with METADATA; skipped
//! ```
//!
//! Integers have the sender's byte order, which the magic shows; NIDs of records are never swapped.
//!
//! A ping asks for as many bytes as its buffer has, so a reply may end anywhere after the first 16
//! bytes. [`PingInfo`] returns the entries that are complete and reports that it
//! [`is_truncated`](PingInfo::is_truncated). It does not trust a count that exceeds the bytes.

mod encode;

use bitflags::bitflags;
use lnet_types::Nid;
use thiserror::Error;

use crate::bytes::{ByteOrder, Reader};
use crate::error::{DecodeError, Problem};
use crate::header::LNET_MTU;

pub use encode::PingInfoRepr;

/// First word of a ping info.
pub const PING_MAGIC: u32 = 0x7069_6E67;

/// The smallest buffer of pings and of push targets in kernels: 16 entries, in bytes.
// [PING-3]
pub const PING_BUFFER_MIN: u32 = 272;

const WHAT: &str = "ping info";
const HEADER_LEN: usize = 16;
const ENTRY_LEN: usize = 16;
const METADATA_ENTRY_LEN: usize = 40;

bitflags! {
    /// The abilities of a node. Unknown bits are kept.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct PingFeatures: u32 {
        /// Not set by any known node.
        const BASE = 0x01;
        /// Entries have a status; mandatory.
        const NI_STATUS = 0x02;
        /// The node is *not* a router.
        const RTE_DISABLED = 0x04;
        /// The node supports several NIDs for each peer, and pushes.
        const MULTI_RAIL = 0x08;
        /// Discovery is on.
        const DISCOVERY = 0x10;
        /// Large records are present.
        const LARGE_ADDR = 0x20;
        /// The first large record is the primary NID.
        const PRIMARY_LARGE = 0x40;
        /// A metadata block follows.
        const METADATA = 0x80;
        const _ = !0;
    }
}

/// The status of a network interface. The set of values is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NiStatus(pub u32);

impl NiStatus {
    /// Usable.
    pub const UP: Self = Self(0x15AA_C0DE);
    /// Not usable.
    pub const DOWN: Self = Self(0xDEAD_FACE);
    /// No information.
    pub const INVALID: Self = Self(0);
}

/// One network interface of a ping info.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingNi {
    /// Its NID.
    pub nid: Nid,
    /// Whether it is usable.
    pub status: NiStatus,
}

/// A ping info in the bytes that carried it, complete or truncated.
///
/// [`parse`](Self::parse) has checked every complete entry and record, so reads cannot fail.
#[derive(Clone, Copy, Debug)]
pub struct PingInfo<'a> {
    reader: Reader<'a>,
    bytes: &'a [u8],
    features: PingFeatures,
    pid: u32,
    nnis: u32,
    info_size: usize,
}

impl<'a> PingInfo<'a> {
    /// Reads a ping info in either byte order. `bytes` may be only its beginning; bytes after it
    /// (the unused part of a larger buffer) are ignored.
    ///
    /// This checks the layout. [`validate`](Self::validate) checks whether a receiver may use the
    /// info.
    ///
    /// # Errors
    ///
    /// Fewer than 16 bytes, a wrong magic, sizes beyond the limit of a message, a malformed NID.
    // [PING-13] [PING-14] [PING-15]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let reader = Reader::new(WHAT, bytes);
        let magic = reader.u32(0)?;
        let order = ByteOrder::of_magic(magic, PING_MAGIC)
            .ok_or(reader.error(0, Problem::BadMagic(magic)))?;
        let reader = reader.with_order(order);
        reader.require(HEADER_LEN)?;
        let features = PingFeatures::from_bits_retain(reader.u32(4)?);
        let nnis = reader.u32(12)?;
        let info_size = read_info_size(&reader, bytes.len(), features, nnis)?;
        let info = Self {
            reader,
            bytes,
            features,
            pid: reader.u32(8)?,
            nnis,
            info_size,
        };
        info.check_entries()?;
        info.check_records()?;
        Ok(info)
    }

    /// Checks whether a receiver may use the info. `nnis_max` is the most entries
    /// that the receiver takes: kernels have 200 or 4096, and never fewer than 16.
    ///
    /// # Errors
    ///
    /// The first check that fails.
    // [PING-11] [PING-12]
    pub fn validate(&self, nnis_max: u32) -> Result<(), PingInfoError> {
        if !self.features.contains(PingFeatures::NI_STATUS) {
            return Err(PingInfoError::NoNiStatus);
        }
        if self.nnis == 0 || self.nnis > nnis_max {
            return Err(PingInfoError::EntryCount {
                nnis: self.nnis,
                max: nnis_max,
            });
        }
        match self.entry(0) {
            None => Err(PingInfoError::NoWholeEntry),
            Some(first) if !first.nid.is_loopback() => {
                Err(PingInfoError::FirstNotLoopback(first.nid))
            }
            Some(_) => Ok(()),
        }
    }

    /// The sender's byte order.
    #[must_use]
    pub const fn order(&self) -> ByteOrder {
        self.reader.order()
    }

    /// The abilities of the node.
    #[must_use]
    pub const fn features(&self) -> PingFeatures {
        self.features
    }

    /// The node's process id.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// The announced number of 8-byte entries with loopback; a truncated info has fewer.
    #[must_use]
    pub const fn nnis(&self) -> u32 {
        self.nnis
    }

    /// The sequence number of this info, which the loopback entry holds. `None` if that entry is
    /// not complete.
    #[must_use]
    pub fn sequence(&self) -> Option<u32> {
        self.entry(0).map(|entry| entry.status.0)
    }

    /// Bytes of the whole info without metadata, as announced. If an info with large records ends
    /// before byte 32, which holds its size, this counts only the part before the records.
    #[must_use]
    pub const fn info_size(&self) -> usize {
        self.info_size
    }

    /// Returns true if the info is longer than the given bytes. Ping again with a buffer of
    /// [`info_size`](Self::info_size) bytes.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        let size_is_cut = self.has_records() && self.bytes.len() < HEADER_LEN + ENTRY_LEN;
        self.bytes.len() < self.info_size || size_is_cut
    }

    /// Every NID in order, the loopback entry first, large ones last: what `lnetctl ping` prints.
    pub fn nids(&self) -> impl Iterator<Item = Nid> + use<'a> {
        self.small().chain(self.large()).map(|ni| ni.nid)
    }

    /// The network interfaces: all entries except loopback, then the large records.
    pub fn nis(&self) -> impl Iterator<Item = PingNi> + use<'a> {
        self.small().skip(1).chain(self.large())
    }

    /// The primary NID of the node. `None` if the given bytes do not contain it.
    // [PING-7] [LARGE-12]
    #[must_use]
    pub fn primary_nid(&self) -> Option<Nid> {
        let primary = if self.features.contains(PingFeatures::PRIMARY_LARGE) {
            self.large().next()
        } else {
            self.entry(1).or_else(|| self.large().next())
        };
        primary.map(|ni| ni.nid)
    }

    /// The metadata block without its count, 40 bytes for each entry; receivers that do not use it
    /// skip it. Empty if there is none; truncated if the input is.
    #[must_use]
    pub fn metadata(&self) -> &'a [u8] {
        self.read_metadata().unwrap_or_default()
    }

    /// The 8-byte entry with this index, if it is complete.
    fn entry(&self, index: usize) -> Option<PingNi> {
        if index >= self.whole_entries() {
            return None;
        }
        read_entry(&self.reader, index).ok()
    }

    /// The number of 8-byte entries that the input contains completely.
    const fn whole_entries(&self) -> usize {
        // `parse` has checked the header, and that the count fits a message.
        let held = self.bytes.len().saturating_sub(HEADER_LEN) / ENTRY_LEN;
        if held < self.nnis as usize {
            held
        } else {
            self.nnis as usize
        }
    }

    const fn has_records(&self) -> bool {
        self.features.contains(PingFeatures::LARGE_ADDR)
    }

    fn small(&self) -> impl Iterator<Item = PingNi> + use<'a> {
        let reader = self.reader;
        (0..self.whole_entries()).map_while(move |index| read_entry(&reader, index).ok())
    }

    fn large(&self) -> Records<'a> {
        let at = HEADER_LEN + self.nnis as usize * ENTRY_LEN;
        let end = if self.has_records() {
            self.info_size.min(self.bytes.len())
        } else {
            at
        };
        Records {
            reader: self.reader,
            at,
            end,
            cut: end < self.info_size,
        }
    }

    fn check_entries(&self) -> Result<(), DecodeError> {
        (0..self.whole_entries()).try_for_each(|index| read_entry(&self.reader, index).map(drop))
    }

    // [LARGE-14]
    fn check_records(&self) -> Result<(), DecodeError> {
        let mut records = self.large();
        while records.read()?.is_some() {}
        Ok(())
    }

    // [LARGE-15]
    fn read_metadata(&self) -> Option<&'a [u8]> {
        if !self.features.contains(PingFeatures::METADATA) {
            return None;
        }
        let count = self.reader.u32(self.info_size).ok()?;
        let announced = usize::try_from(count)
            .ok()?
            .saturating_mul(METADATA_ENTRY_LEN);
        let rest = self.bytes.get(self.info_size + 4..)?;
        rest.get(..announced.min(rest.len()))
    }
}

/// Why a receiver must not use a ping info whose layout is correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PingInfoError {
    /// The mandatory feature bit is missing.
    #[error("the info carries no interface status")]
    NoNiStatus,
    /// No entries, or more than the receiver takes.
    #[error("{nnis} entries, not 1 to {max}")]
    EntryCount {
        /// The count found.
        nnis: u32,
        /// The most that the receiver takes.
        max: u32,
    },
    /// The reply stops before the end of the loopback entry.
    #[error("short reply: not one whole entry")]
    NoWholeEntry,
    /// Entry 0 must be `0@lo`.
    #[error("entry 0 is {0}, not 0@lo")]
    FirstNotLoopback(Nid),
}

impl PingInfoError {
    /// The errno that kernels report, positive: ERANGE for the count, otherwise EPROTO.
    #[must_use]
    pub const fn errno(self) -> i32 {
        match self {
            Self::EntryCount { .. } => 34,
            Self::NoNiStatus | Self::NoWholeEntry | Self::FirstNotLoopback(_) => 71,
        }
    }
}

/// The large records; ends at the first one that is not complete.
#[derive(Clone, Copy, Debug)]
struct Records<'a> {
    reader: Reader<'a>,
    at: usize,
    end: usize,
    /// The input ends before the info, so the last record may be incomplete.
    cut: bool,
}

impl Records<'_> {
    fn read(&mut self) -> Result<Option<PingNi>, DecodeError> {
        let nid_at = self.at + 4;
        let Some(room) = self.end.checked_sub(self.at).filter(|&room| room > 0) else {
            return Ok(None);
        };
        let whole = if room < 5 {
            8
        } else {
            self.record_len(nid_at)?
        };
        if whole > room {
            let (needed, available) = (self.at + whole, self.end);
            let short = self
                .reader
                .error(self.at, Problem::Truncated { needed, available });
            return if self.cut { Ok(None) } else { Err(short) };
        }
        let status = NiStatus(self.reader.u32(self.at)?);
        let nid = self.reader.nid16_of(nid_at, whole - 4)?;
        self.at += whole;
        Ok(Some(PingNi { nid, status }))
    }

    /// Bytes of the record whose NID is at `nid_at`. The NID's first byte is the number of its used
    /// bytes, less 8; records consist of whole 4-byte units.
    fn record_len(&self, nid_at: usize) -> Result<usize, DecodeError> {
        let [size] = self.reader.array::<1>(nid_at)?;
        let used = 8 + usize::from(size);
        if used > Nid::WIRE_LEN {
            return Err(self.reader.error(nid_at, Problem::BadNid));
        }
        Ok((4 + used).next_multiple_of(4))
    }
}

impl Iterator for Records<'_> {
    type Item = PingNi;

    fn next(&mut self) -> Option<PingNi> {
        self.read().ok().flatten()
    }
}

fn read_entry(reader: &Reader<'_>, index: usize) -> Result<PingNi, DecodeError> {
    let at = HEADER_LEN + index * ENTRY_LEN;
    Ok(PingNi {
        nid: reader.nid4(at)?,
        status: NiStatus(reader.u32(at + 8)?),
    })
}

/// The announced size without metadata. Without large records it follows from the number of
/// entries; with large records entry 0 holds it, and its low two bits are cleared. It
/// must fit one message.
// [LARGE-13]
fn read_info_size(
    reader: &Reader<'_>,
    available: usize,
    features: PingFeatures,
    nnis: u32,
) -> Result<usize, DecodeError> {
    let max = (LNET_MTU as usize - HEADER_LEN) / ENTRY_LEN;
    if nnis as usize > max {
        let problem = Problem::OutOfRange {
            field: "nnis",
            value: nnis.into(),
            min: 1,
            max: max as u64,
        };
        return Err(reader.error(12, problem));
    }
    let entries_end = HEADER_LEN + nnis as usize * ENTRY_LEN;
    let size_at = HEADER_LEN + 12;
    if !features.contains(PingFeatures::LARGE_ADDR) || nnis == 0 || available < size_at + 4 {
        return Ok(entries_end);
    }
    let size = reader.u32(size_at)? & !3;
    if size > LNET_MTU || (size as usize) < entries_end {
        let (min, max) = (entries_end as u64, LNET_MTU.into());
        let problem = Problem::OutOfRange {
            field: "info size",
            value: size.into(),
            min,
            max,
        };
        return Err(reader.error(size_at, problem));
    }
    Ok(size as usize)
}

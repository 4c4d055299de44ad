//! Reads a record. For any bytes, reading ends with a value or an error, and the memory is limited.

use std::fmt;
use std::io::{self, BufRead, Read};

use crc32c::{crc32c, crc32c_append};
use lnet_types::Time;
use thiserror::Error;

use super::codec::{Malformed, Take, choices, fields};
use super::{BEGIN, Chain, DECIDED, END, INPUT, ITEM_MAX, MAGIC, VERSION};
use crate::{CoreConfig, Input};

/// The beginning of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Begin {
    /// The name and version of the node's software.
    pub software: String,
    /// The configuration of the core. Its entropy is secret.
    pub config: CoreConfig,
    /// The time of the beginning, on the node's clock.
    pub at: Time,
}

/// Why the node ended a record, and how many inputs are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The reason.
    pub why: End,
    /// Inputs of the core after the last one in the record.
    pub missing: u64,
}

/// The reason for the end of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The node was stopped, or the record was ended by a request.
    Stopped,
    /// The record reached its size limit.
    Limit,
    /// The disk was slower than the node.
    TooSlow,
    /// Writing failed.
    Failed {
        /// The error of the system.
        error: String,
    },
    /// The bytes end without an item of this kind: the node was killed, or is still writing.
    CutOff,
}

fields! {
    Begin { software, config, at }
    Ended { why, missing }
}

choices! {
    End { 0 Stopped, 1 Limit, 2 TooSlow, 3 Failed { error }, 4 CutOff }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("the node or the record was stopped"),
            Self::Limit => f.write_str("the record reached its size limit"),
            Self::TooSlow => f.write_str("the disk was slower than the node"),
            Self::Failed { error } => write!(f, "writing the record failed: {error}"),
            Self::CutOff => f.write_str("the node was killed, or is still writing"),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)?;
        match self.missing {
            0 => Ok(()),
            missing => write!(f, "; at least {missing} later events are missing"),
        }
    }
}

/// Why a record cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BadLog {
    /// The file is not a record of a node.
    #[error("not a record of a node")]
    NotALog,
    /// The version of the format is not supported.
    #[error(
        "the record has version {0}: this finerail reads only version {VERSION}; use the finerail that wrote the record"
    )]
    Version(u16),
    /// The record is damaged.
    #[error("the record is damaged at event {event} (byte {offset}): it has {what}")]
    Damaged {
        /// The event, counted from 1; 0 is the beginning.
        event: u64,
        /// Where the item begins, in bytes.
        offset: u64,
        /// What is wrong, as the end of a sentence that begins with "it has".
        what: &'static str,
    },
    /// The file cannot be read.
    #[error("the record cannot be read")]
    Io(#[from] io::Error),
}

/// An input and the decision of the node.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its number, counted from 1.
    pub number: u64,
    /// The latest time that the core had received before.
    pub latest: Time,
    /// The input.
    pub input: Input,
    /// The bytes of the input, which are part of the hash.
    pub(crate) body: Vec<u8>,
    /// The hash of the decision; `None` if the record ends before it. This input may then have
    /// killed the node.
    pub(crate) decided: Option<Chain>,
}

/// A record that is being read.
#[derive(Debug)]
pub struct Log<R> {
    from: R,
    begin: Begin,
    begin_body: Vec<u8>,
    /// The latest time that the core had received before the last input.
    latest: Time,
    /// The latest time with the last input.
    newest: Time,
    event: u64,
    /// Bytes read so far.
    offset: u64,
    /// Set when there are no more inputs.
    ended: Option<Ended>,
}

impl<R: BufRead> Log<R> {
    /// Opens a record.
    ///
    /// # Errors
    ///
    /// A file that is not a record, or has another version.
    pub fn open(mut from: R) -> Result<Self, BadLog> {
        let mut start = [0; 10];
        let read = read_up_to(&mut from, &mut start)?;
        let (magic, version) = start.split_at(MAGIC.len());
        if read < start.len() || magic != MAGIC {
            return Err(BadLog::NotALog);
        }
        let version = u16::from_le_bytes(version.try_into().unwrap_or_default());
        if version != VERSION {
            return Err(BadLog::Version(version));
        }
        let mut offset = read as u64;
        let at = offset;
        let damaged = |what| BadLog::Damaged {
            event: 0,
            offset: at,
            what,
        };
        let item = read_item(&mut from, &mut offset)?.map_err(|Malformed(what)| damaged(what))?;
        let Some((BEGIN, body)) = item else {
            return Err(damaged("no beginning"));
        };
        let begin: Begin = whole(&body).map_err(|Malformed(what)| damaged(what))?;
        Ok(Self {
            from,
            latest: begin.at,
            newest: begin.at,
            begin,
            begin_body: body,
            event: 0,
            offset,
            ended: None,
        })
    }

    /// The beginning of the record.
    #[must_use]
    pub const fn begin(&self) -> &Begin {
        &self.begin
    }

    /// The bytes of the beginning, which are part of the first hash.
    pub(crate) fn begin_body(&self) -> &[u8] {
        &self.begin_body
    }

    /// Why there are no more inputs; `None` if there may be more.
    #[must_use]
    pub const fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Reads the next input.
    ///
    /// # Errors
    ///
    /// A damaged record, or an error of the reader.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, BadLog> {
        if self.ended.is_some() {
            return Ok(None);
        }
        let at = self.offset;
        // An error after this point belongs to the next event.
        self.event += 1;
        match self.item(at)? {
            Some((INPUT, body)) => self.entry(body, at).map(Some),
            Some((END, body)) => {
                let ended = whole(&body).map_err(|Malformed(what)| self.damaged(at, what))?;
                self.ended = Some(ended);
                Ok(None)
            }
            Some(_) => Err(self.damaged(at, "an item of the wrong kind")),
            None => {
                self.cut_off();
                Ok(None)
            }
        }
    }

    fn entry(&mut self, body: Vec<u8>, at: u64) -> Result<Entry, BadLog> {
        let read = self.input(&body);
        let input = read.map_err(|Malformed(what)| self.damaged(at, what))?;
        let latest = self.latest;
        let at = self.offset;
        let decided = match self.item(at)? {
            Some((DECIDED, chain)) => {
                let chain = Chain::try_from(chain.as_slice());
                Some(chain.map_err(|_| self.damaged(at, "a hash of another length"))?)
            }
            // The record reached its limit between the two.
            Some((END, body)) => {
                let ended = whole(&body).map_err(|Malformed(what)| self.damaged(at, what))?;
                self.ended = Some(ended);
                None
            }
            Some(_) => return Err(self.damaged(at, "no decision behind its input")),
            None => {
                self.cut_off();
                None
            }
        };
        Ok(Entry {
            number: self.event,
            latest,
            input,
            body,
            decided,
        })
    }

    fn input(&mut self, mut body: &[u8]) -> Result<Input, Malformed> {
        self.latest = after(self.latest, u64::take(&mut body)?)?;
        let input = whole::<Input>(body)?;
        self.newest = self.newest.max(self.latest);
        if input.now().is_some_and(|now| now < self.newest) {
            return Err(Malformed("a time that goes back"));
        }
        self.newest = self.newest.max(input.now().unwrap_or_default());
        Ok(input)
    }

    fn item(&mut self, at: u64) -> Result<Option<(u8, Vec<u8>)>, BadLog> {
        let item = read_item(&mut self.from, &mut self.offset)?;
        item.map_err(|Malformed(what)| self.damaged(at, what))
    }

    fn cut_off(&mut self) {
        self.ended = Some(Ended {
            why: End::CutOff,
            missing: 0,
        });
    }

    const fn damaged(&self, offset: u64, what: &'static str) -> BadLog {
        BadLog::Damaged {
            event: self.event,
            offset,
            what,
        }
    }
}

/// An item's kind and body; `None` if the bytes end, at the end of an item or within one.
type Item = Option<(u8, Vec<u8>)>;

fn read_item(from: &mut impl Read, offset: &mut u64) -> Result<Result<Item, Malformed>, io::Error> {
    let mut length = Vec::new();
    loop {
        let mut next = [0];
        if read_up_to(from, &mut next)? == 0 {
            return Ok(Ok(None));
        }
        length.extend_from_slice(&next);
        if next[0] & 0x80 == 0 || length.len() > 10 {
            break;
        }
    }
    let mut check = [0];
    if read_up_to(from, &mut check)? == 0 {
        return Ok(Ok(None));
    }
    let mut begun = length.clone();
    begun.extend(check);
    *offset += begun.len() as u64;
    if check != [length_check(&length)] {
        return Ok(Err(Malformed("a changed length")));
    }
    let length = match usize::take(&mut length.as_slice()) {
        Ok(length @ 1..=ITEM_MAX) => length,
        _ => return Ok(Err(Malformed("an item of an impossible length"))),
    };
    // Memory grows only with the bytes that arrive, whatever the length is.
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body)?;
    let mut checksum = [0; 4];
    if body.len() < length || read_up_to(from, &mut checksum)? < checksum.len() {
        return Ok(Ok(None));
    }
    *offset += (length + checksum.len()) as u64;
    if crc32c_append(crc32c(&begun), &body) != u32::from_le_bytes(checksum) {
        return Ok(Err(Malformed("a checksum that is not that of its bytes")));
    }
    Ok(Ok(Some((body.remove(0), body))))
}

/// A byte after the length, so that a damaged length is not taken for the end of the record.
pub(crate) fn length_check(length: &[u8]) -> u8 {
    length.iter().fold(0xA5, |check, byte| check ^ byte)
}

/// Reads until the buffer is full or the bytes end; returns the number of bytes.
fn read_up_to(from: &mut impl Read, room: &mut [u8]) -> io::Result<usize> {
    let mut bytes = Vec::new();
    let read = from.take(room.len() as u64).read_to_end(&mut bytes)?;
    for (to, from) in room.iter_mut().zip(bytes) {
        *to = from;
    }
    Ok(read)
}

/// Decodes a value that must have all of these bytes.
fn whole<T: Take>(mut body: &[u8]) -> Result<T, Malformed> {
    let value = T::take(&mut body)?;
    match body {
        [] => Ok(value),
        _ => Err(Malformed("bytes behind the end of an item")),
    }
}

fn after(time: Time, nanos: u64) -> Result<Time, Malformed> {
    let later = time.as_nanos().checked_add(nanos);
    later
        .filter(|&nanos| nanos <= super::types::TIME_MAX)
        .map(Time::from_nanos)
        .ok_or(Malformed("a time beyond all clocks"))
}

/// The range of each event with its decision in these bytes, for tests that change one.
///
/// # Errors
///
/// Those of reading the record.
pub fn places(record: &[u8]) -> Result<Vec<(u64, std::ops::Range<usize>)>, BadLog> {
    let mut log = Log::open(record)?;
    let mut found = Vec::new();
    let mut start = log.offset as usize;
    while let Some(entry) = log.next_entry()? {
        let end = log.offset as usize;
        found.push((entry.number, start..end));
        start = end;
    }
    Ok(found)
}

/// Returns a record with recomputed checks of each item, so that tests and fuzzing can change bytes behind the checksums.
#[must_use]
pub fn with_checks(record: &[u8]) -> Vec<u8> {
    let (begun, mut rest) = record.split_at(record.len().min(MAGIC.len() + 2));
    let mut out = begun.to_vec();
    while let Some((length, body, behind)) = item_parts(rest) {
        let start = out.len();
        out.extend_from_slice(length);
        out.push(length_check(length));
        out.extend_from_slice(body);
        let checksum = crc32c(out.get(start..).unwrap_or_default());
        out.extend_from_slice(&checksum.to_le_bytes());
        rest = behind;
    }
    out.extend_from_slice(rest);
    out
}

/// Splits a record into the length and the body (with the kind) of its first item, and the bytes after this item.
fn item_parts(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let mut behind = bytes;
    let count = usize::take(&mut behind).ok().filter(|&it| it > 0)?;
    let length = bytes.get(..bytes.len() - behind.len())?;
    let (_, behind) = behind.split_first()?;
    let (body, behind) = behind.split_at_checked(count)?;
    let (_, behind) = behind.split_first_chunk::<4>()?;
    Some((length, body, behind))
}

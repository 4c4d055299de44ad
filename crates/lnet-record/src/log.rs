//! Reading a record. Whatever the bytes are, reading ends with a value or an error, in memory of a bounded size.

use std::fmt;
use std::io::{self, BufRead, Read};

use lnet_core::{CoreConfig, Input};
use lnet_types::Time;
use thiserror::Error;

use crate::codec::{Malformed, Take, choices, fields};
use crate::{BEGIN, Chain, DECIDED, END, INPUT, ITEM_MAX, MAGIC, VERSION};

/// What a record begins with.
#[derive(Clone, Debug, PartialEq)]
pub struct Begin {
    /// The software that the node ran, in its own words.
    pub software: String,
    /// What the core was created with. Its entropy is a secret.
    pub config: CoreConfig,
    /// When, on the node's clock.
    pub at: Time,
}

/// Why the node ended a record, and what is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub why: End,
    /// Inputs that the core took after the last one of the record.
    pub missing: u64,
}

/// Why a record ends where it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The node was stopped, or told to end the record.
    Stopped,
    /// The record has as many bytes as it may have.
    Limit,
    /// The disk did not keep pace with the node.
    TooSlow,
    /// Writing failed.
    Failed {
        /// What the system said.
        error: String,
    },
    /// The bytes just end: the node was killed, or is still writing.
    CutOff,
}

fields! {
    Begin { software, config, at }
    Ended { why, missing }
}

choices! {
    End { 0 Stopped, 1 Limit, 2 TooSlow, 3 Failed { error }, 4 CutOff }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            End::Stopped => f.write_str("the node was stopped, or told to end the record")?,
            End::Limit => f.write_str("the record reached its size limit")?,
            End::TooSlow => f.write_str("the disk did not keep pace with the node")?,
            End::Failed { error } => write!(f, "writing the record failed: {error}")?,
            End::CutOff => f.write_str("the node was killed, or is still writing")?,
        }
        match self.missing {
            0 => Ok(()),
            missing => write!(f, "; at least {missing} later events are missing"),
        }
    }
}

/// Why a record cannot be read, or not further.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BadLog {
    /// It is no record of a node.
    #[error("not a record of a node")]
    NotALog,
    /// It is of a version of the format that this software does not read.
    #[error("a record of version {0}; this finerail reads version {VERSION}")]
    Version(u16),
    /// It is damaged.
    #[error("the record is damaged at event {event} (byte {offset}): it has {what}")]
    Damaged {
        /// The event, from 1 on; 0 is the beginning.
        event: u64,
        /// Where the item begins, in bytes.
        offset: u64,
        /// What is wrong, behind "it has".
        what: &'static str,
    },
    /// The file cannot be read.
    #[error("the record cannot be read")]
    Io(#[from] io::Error),
}

/// An input, and what the node decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its number, from 1 on.
    pub number: u64,
    /// The latest time that the core had seen before.
    pub latest: Time,
    /// The input.
    pub input: Input,
    /// Its bytes, which the hash of the decision is over.
    pub(crate) body: Vec<u8>,
    /// The hash of the decision; `None` when the record ends before it: the node may have died of this very input.
    pub(crate) decided: Option<Chain>,
}

/// A record that is being read.
#[derive(Debug)]
pub struct Log<R> {
    from: R,
    begin: Begin,
    begin_body: Vec<u8>,
    /// The latest time that the core had seen before the last input.
    latest: Time,
    /// And with that one.
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
    /// When it is none, or none that this software reads.
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

    /// What the record begins with.
    #[must_use]
    pub const fn begin(&self) -> &Begin {
        &self.begin
    }

    /// The bytes of that, which the first hash is over.
    pub(crate) fn begin_body(&self) -> &[u8] {
        &self.begin_body
    }

    /// Why there are no more inputs; `None` while there may be some.
    #[must_use]
    pub const fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Reads the next input.
    ///
    /// # Errors
    ///
    /// When the record is damaged there, or cannot be read.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, BadLog> {
        if self.ended.is_some() {
            return Ok(None);
        }
        let at = self.offset;
        // What is wrong from here on is wrong with the next event.
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
            // The record was full between the two.
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

/// An item's kind and body; `None` where the bytes end, at the end of an item or within one.
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
    *offset += length.len() as u64 + 1;
    if check != [length_check(&length)] {
        return Ok(Err(Malformed("a changed length")));
    }
    let length = match usize::take(&mut length.as_slice()) {
        Ok(length @ 1..=ITEM_MAX) => length,
        _ => return Ok(Err(Malformed("an item of an impossible length"))),
    };
    // A length costs no more memory than there are bytes.
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Ok(Ok(None));
    }
    *offset += length as u64;
    Ok(Ok(Some((body.remove(0), body))))
}

/// A byte behind a length, so that a changed one is not taken for the end of the record.
pub(crate) fn length_check(length: &[u8]) -> u8 {
    length.iter().fold(0xA5, |check, byte| check ^ byte)
}

/// Reads until the room is full or the bytes end; returns how many there were.
fn read_up_to(from: &mut impl Read, room: &mut [u8]) -> io::Result<usize> {
    let mut bytes = Vec::new();
    let read = from.take(room.len() as u64).read_to_end(&mut bytes)?;
    for (to, from) in room.iter_mut().zip(bytes) {
        *to = from;
    }
    Ok(read)
}

/// The value that all of these bytes are.
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
        .filter(|&nanos| nanos <= crate::types::TIME_MAX)
        .map(Time::from_nanos)
        .ok_or(Malformed("a time beyond all clocks"))
}

/// Where each event lies in these bytes, its decision with it, for tests that change one.
///
/// # Errors
///
/// As reading the record.
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

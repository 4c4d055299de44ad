//! The records of a configuration log, one behind the other in blocks.
//!
//! ```text
//!  0      4      8      12    16                           len - 8
//!  | len  |index | type | id  | data                        | len | index |
//! ```
//!
//! A block ends with zeros, or with a record that says so. Each length is compared with the bytes of the block.

use std::fmt;

use lnet_types::Nid;
use lnet_wire::ByteOrder;
use thiserror::Error;

use crate::text::Text;
use crate::view::{View, pad8};

/// A record with a configuration command.
const CONFIG: u32 = 0x1062_0000;

/// The bytes in front of and behind a record's data.
const FRAME: usize = 24;

/// The most buffers of a command.
const BUFFERS_MAX: u32 = 7;

/// The version of a command's layout.
const COMMAND_VERSION: u32 = 0x1cf6_0001;

/// The reason why a block cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LogError {
    /// A record's length is no multiple of 8, too small, or leaves the block.
    #[error("a record of {len} bytes at offset {at} of a block of {block}")]
    Length {
        /// Its offset in the block.
        at: usize,
        /// Its length as it says.
        len: u32,
        /// The bytes of the block.
        block: usize,
    },
    /// A record does not end as it begins.
    #[error("the record at offset {at} does not end with its length and its index")]
    Tail {
        /// Its offset in the block.
        at: usize,
    },
}

/// A record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its place in the log, from 1.
    pub index: u32,
    /// Its type.
    pub kind: u32,
    /// What stands between its head and its tail.
    pub data: View<'a>,
}

impl<'a> Record<'a> {
    pub(crate) const fn is_config(&self) -> bool {
        self.kind == CONFIG
    }

    /// Returns the configuration command; `None` for other records, and for commands that nobody can read.
    #[must_use]
    pub fn command(&self) -> Option<Command<'a>> {
        self.is_config().then(|| Command::read(self.data))?
    }
}

/// The records of a block.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    block: &'a [u8],
    at: usize,
    has_ended: bool,
}

impl<'a> Records<'a> {
    /// Returns the records of a block.
    #[must_use]
    pub const fn new(block: &'a [u8]) -> Self {
        Self {
            block,
            at: 0,
            has_ended: false,
        }
    }

    // [PTLRPC-17]
    fn record(&mut self) -> Option<Result<Record<'a>, LogError>> {
        let rest = self.block.get(self.at..).unwrap_or_default();
        let little = View::little(rest);
        let kind = little.u32(8)?;
        if kind == 0 && little.u32(0) == Some(0) {
            return None;
        }
        let order = match kind & 0xfff0_0000 {
            0x1060_0000 => ByteOrder::Little,
            _ => ByteOrder::Big,
        };
        let view = View::new(rest, order);
        let len = view.u32(0)?;
        let size = len as usize;
        let (at, block) = (self.at, self.block.len());
        if size < FRAME || !size.is_multiple_of(8) || size > rest.len() {
            return Some(Err(LogError::Length { at, len, block }));
        }
        let index = view.u32(4)?;
        if view.u32(size - 8) != Some(len) || view.u32(size - 4) != Some(index) {
            return Some(Err(LogError::Tail { at }));
        }
        self.at += size;
        Some(Ok(Record {
            index,
            kind: view.u32(8)?,
            data: view.part(16, size - FRAME),
        }))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let record = self.record();
        self.has_ended = !matches!(record, Some(Ok(_)));
        record
    }
}

/// The commands that have names.
const COMMANDS: &[(u32, &str)] = &[
    (0xc_e011, "log_start"),
    (0xc_e012, "log_end"),
    (0xc_e013, "add_inactive_ost"),
    (0xc_e016, "security_rule"),
    (0xc_e020, "pool_new"),
    (0xc_e021, "pool_add"),
    (0xc_e022, "pool_remove"),
    (0xc_e023, "pool_del"),
    (0xc_e030, "ldlm_timeout"),
    (0xc_e032, "set_param"),
    (0xc_f001, "attach"),
    (0xc_f002, "detach"),
    (0xc_f003, "setup"),
    (0xc_f004, "cleanup"),
    (0xc_f005, "add_uuid"),
    (0xc_f006, "del_uuid"),
    (0xc_f007, "mount_option"),
    (0xc_f008, "del_mount_option"),
    (0xc_f009, "timeout"),
    (0xc_f00b, "add_conn"),
    (0xc_f00c, "del_conn"),
    (0xc_f00d, "add_ost"),
    (0xc_f00e, "del_ost"),
    (0xc_f00f, "param"),
    (0xc_f010, "marker"),
    (0xc_f014, "add_mdt"),
    (0xc_f015, "del_mdt"),
];

/// A configuration command.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    view: View<'a>,
    /// What it does.
    pub code: u32,
    count: usize,
}

impl<'a> Command<'a> {
    /// Reads a command; `None` if it has another layout.
    // [PTLRPC-18]
    #[must_use]
    pub fn read(data: View<'a>) -> Option<Self> {
        let order = match data.u32(0)? {
            COMMAND_VERSION => data.order(),
            swapped if swapped == COMMAND_VERSION.swap_bytes() => match data.order() {
                ByteOrder::Little => ByteOrder::Big,
                ByteOrder::Big => ByteOrder::Little,
            },
            _ => return None,
        };
        let view = View::new(data.bytes(), order);
        let count = view.u32(28)?;
        if count > BUFFERS_MAX {
            return None;
        }
        Some(Self {
            view,
            code: view.u32(4)?,
            count: count as usize,
        })
    }

    /// Returns the name of the command.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        let known = COMMANDS.iter().find(|(code, _)| *code == self.code);
        known.map(|(_, name)| *name)
    }

    /// Returns whether a client that does not know the command must refuse the log.
    #[must_use]
    pub const fn is_required(&self) -> bool {
        self.code & 0x1000 != 0
    }

    /// Returns the NID of `add_uuid`; `None` if the NID is a text.
    #[must_use]
    pub fn nid(&self) -> Option<Nid> {
        let number = self.view.u64(16).filter(|number| *number != 0)?;
        Nid::from_nid4(number)
    }

    /// Returns a buffer as a name; empty if the command has none there.
    #[must_use]
    pub fn text(&self, index: usize) -> Text<'a> {
        Text::new(self.buffer(index).bytes())
    }

    /// Returns a buffer; empty if the command has none there.
    #[must_use]
    pub fn buffer(&self, index: usize) -> View<'a> {
        let mut at = pad8(32 + 4 * self.count);
        for before in 0..index.min(self.count) {
            at = at.saturating_add(pad8(self.len(before)));
        }
        let len = if index < self.count {
            self.len(index)
        } else {
            0
        };
        self.view.part(at, len)
    }

    pub(crate) const fn buffers(&self) -> usize {
        self.count
    }

    /// Returns whether the record has all bytes of the buffers.
    pub(crate) fn is_whole(&self) -> bool {
        (0..self.count).all(|index| self.buffer(index).bytes().len() == self.len(index))
    }

    fn len(&self, index: usize) -> usize {
        self.view.u32(32 + 4 * index).unwrap_or_default() as usize
    }

    /// Returns the marker in a command that is one.
    #[must_use]
    pub fn marker(&self) -> Option<Marker<'a>> {
        let view = self.buffer(1);
        if self.code != 0xc_f010 {
            return None;
        }
        Some(Marker {
            flags: view.u32(4)?,
            target: Text::new(view.part(32, 64).bytes()),
            comment: Text::new(view.part(96, 64).bytes()),
        })
    }
}

impl fmt::Display for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name)?,
            None => write!(f, "command {:#x}", self.code)?,
        }
        if let Some(marker) = self.marker() {
            let edge = match marker.flags & 3 {
                1 => "start",
                2 => "end",
                _ => "?",
            };
            let skip = if marker.is_skipped() {
                " (skipped)"
            } else {
                ""
            };
            return write!(f, " {edge} {} {}{skip}", marker.target, marker.comment);
        }
        if let Some(nid) = self.nid() {
            write!(f, " {nid}")?;
        }
        // The descriptor of a lov or an lmv is binary: a buffer that is no text is not printed.
        for index in 0..self.count {
            let text = self.text(index);
            let is_text = text.bytes().iter().all(|byte| (0x20..0x7f).contains(byte));
            if is_text && !text.is_empty() {
                write!(f, " {text}")?;
            }
        }
        Ok(())
    }
}

/// Where the reading of a log stands between markers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Group {
    #[default]
    Outside,
    Counts,
    Skipped,
}

impl Group {
    /// Takes the next command, and returns whether the command counts. A marker does not.
    pub(crate) fn counts(&mut self, command: &Command<'_>) -> bool {
        let Some(marker) = command.marker() else {
            return *self == Self::Counts;
        };
        *self = match (marker.is_start(), marker.is_skipped()) {
            (true, true) => Self::Skipped,
            (true, false) => Self::Counts,
            (false, _) => Self::Outside,
        };
        false
    }
}

/// The edge of a group of commands.
#[derive(Clone, Copy, Debug)]
pub struct Marker<'a> {
    /// 1 start, 2 end, 4 the group does not count.
    pub flags: u32,
    /// The target that the group concerns.
    pub target: Text<'a>,
    /// What the group does.
    pub comment: Text<'a>,
}

impl Marker<'_> {
    /// Returns whether the group begins here.
    #[must_use]
    pub const fn is_start(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Returns whether the group does not count any more.
    #[must_use]
    pub const fn is_skipped(&self) -> bool {
        self.flags & 4 != 0
    }
}

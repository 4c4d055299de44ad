//! What stands inside the block of a log, the header of a log, and the table of an MGS, for people: bounded, names escaped.

use lnet_wire::ByteOrder;
use serde::Serialize;

use crate::body::Body;
use crate::client::Service;
use crate::log::{Command, Record, Records};
use crate::message::Message;
use crate::opcode::opc;
use crate::view::View;
use crate::whereabouts::{Whereabouts, whereabouts};

/// The most entries that are shown of a block, a header or a table.
pub const ENTRIES_MAX: usize = 64;

/// The most NIDs of an entry that are shown.
const NIDS_MAX: usize = 8;

/// The type of the table of where the targets are.
const TARGETS: u16 = 2;

/// The type of a log's header.
const HEADER: u32 = 0x1064_5539;

/// The type of a record that fills a gap.
const PAD: u32 = 0x1060_0000;

/// The bytes in front of a header's bitmap, and behind.
const BITMAP: (usize, usize) = (88, 8);

/// What stands inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// `log_block`, `log_header`, or `targets` for a table.
    #[serde(skip)]
    pub what: &'static str,
    /// At most [`ENTRIES_MAX`].
    #[serde(flatten)]
    pub entries: Entries,
    /// Entries that are not shown.
    pub more: usize,
    /// The reason why not all is decoded.
    pub problem: Option<String>,
}

/// The entries of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Entries {
    /// The records of a configuration log.
    Records(Vec<LogRecord>),
    /// The first and the last of each row of records that are in use.
    InUse(Vec<(usize, usize)>),
    /// The entries of the table of where the targets are.
    Targets(Vec<TableEntry>),
}

/// What a request for a table asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigRead {
    /// The type of the table.
    pub kind: u16,
}

impl ConfigRead {
    /// Returns what a message asks for; `None` if the message is no request for a table.
    #[must_use]
    pub fn of(message: &Message<'_>) -> Option<Self> {
        let body = Body::of(message).filter(Body::is_request)?;
        let is_it = body.opc() == opc::MGS_CONFIG_READ;
        let asked = message.buffer(1).filter(|_| is_it)?;
        let kind = asked.u16(72)?;
        Some(Self { kind })
    }
}

/// Where a target is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableEntry {
    /// Its name without that of the file system.
    pub target: String,
    /// The version of the table that the entry came with.
    pub version: u64,
    /// The number that the target gave itself at its last start.
    pub instance: u32,
    /// Its first NIDs.
    pub nids: Vec<String>,
    /// NIDs that are not shown.
    pub more_nids: usize,
}

/// A record of a configuration log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogRecord {
    /// Its place in the log.
    pub index: u32,
    /// The name of its command; the number of one without a name.
    pub command: String,
    /// The NID of `add_uuid`.
    pub nid: Option<String>,
    /// Edge, target, comment of a marker; otherwise the buffers in their order, and the length of one that is no text.
    pub arguments: Vec<String>,
    /// The reason why the record is not decoded.
    pub problem: Option<String>,
}

/// A line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What the line is about.
    pub part: &'static str,
    /// Which one.
    pub name: String,
    /// The line.
    pub text: String,
}

impl Contents {
    /// Returns the contents of a reply that has the block or the header of a log; `None` for other messages.
    #[must_use]
    pub fn of_log(message: &Message<'_>) -> Option<Self> {
        let body = Body::of(message).filter(|body| !body.is_request())?;
        let (what, place) = match body.opc() {
            opc::LLOG_NEXT_BLOCK | opc::LLOG_PREV_BLOCK => ("log_block", 2),
            opc::LLOG_READ_HEADER => ("log_header", 1),
            _ => return None,
        };
        let buffer = message.buffers().nth(place).filter(|found| found.len > 0)?;
        let bytes = buffer.view.bytes();
        let cut = (bytes.len() < buffer.len).then(|| in_part(bytes.len(), buffer.len));
        Some(match what {
            "log_block" => Self::block(bytes, cut),
            _ => Self::header(bytes, cut),
        })
    }

    fn block(bytes: &[u8], cut: Option<String>) -> Self {
        let (mut records, mut more) = (Vec::new(), 0);
        let mut problem = cut;
        // A log has records of one type, and such that fill gaps.
        let (mut is_config, mut other) = (false, None);
        for record in Records::new(bytes) {
            match record {
                Ok(record) => {
                    is_config |= record.is_config();
                    if !record.is_config() && record.kind != PAD {
                        other.get_or_insert(record.kind);
                    }
                    match records.len() < ENTRIES_MAX {
                        true => records.push(LogRecord::of(&record)),
                        false => more += 1,
                    }
                }
                // A record that was captured in part is no mistake of the block.
                Err(error) => {
                    problem.get_or_insert(format!("not decoded any further: {error}"));
                }
            }
        }
        if let (false, Some(kind)) = (is_config, other) {
            let text = format!("the block is of another kind of log, type {kind:#x}: not decoded");
            (records, more, problem) = (Vec::new(), 0, Some(text));
        }
        let (what, entries) = ("log_block", Entries::Records(records));
        Self {
            what,
            entries,
            more,
            problem,
        }
    }

    fn header(bytes: &[u8], cut: Option<String>) -> Self {
        let (mut rows, mut more) = (Vec::new(), 0);
        let bitmap = bitmap(bytes);
        for row in rows_of(bitmap.as_deref().unwrap_or_default()) {
            match rows.len() < ENTRIES_MAX {
                true => rows.push(row),
                false => more += 1,
            }
        }
        Self {
            what: "log_header",
            entries: Entries::InUse(rows),
            more,
            problem: cut.or(bitmap.err()),
        }
    }

    /// Returns the contents of a table of `whole` bytes of which the first are at hand.
    #[must_use]
    pub fn of_table(read: ConfigRead, bytes: &[u8], whole: usize) -> Self {
        let kind = read.kind;
        if kind != TARGETS {
            let problem = format!("a table of type {kind}: not decoded");
            return Self::targets(Vec::new(), 0, Some(problem));
        }
        if bytes.len() < whole {
            let problem = format!("{}: not decoded", in_part(bytes.len(), whole));
            return Self::targets(Vec::new(), 0, Some(problem));
        }
        let (mut entries, mut more, mut problem) = (Vec::new(), 0, None);
        for entry in whereabouts(View::new(bytes, order_of_table(bytes))) {
            match entry {
                Ok(entry) if entries.len() < ENTRIES_MAX => entries.push(TableEntry::of(&entry)),
                Ok(_) => more += 1,
                Err(error) => problem = Some(error),
            }
        }
        Self::targets(entries, more, problem)
    }

    fn targets(entries: Vec<TableEntry>, more: usize, problem: Option<String>) -> Self {
        Self {
            what: "targets",
            entries: Entries::Targets(entries),
            more,
            problem,
        }
    }

    /// Returns lines of text.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let mut lines = match &self.entries {
            Entries::Records(records) if records.is_empty() => self.none("records", "in block"),
            Entries::Records(records) => records.iter().map(LogRecord::line).collect(),
            Entries::Targets(entries) if entries.is_empty() => self.none("targets", "in table"),
            Entries::Targets(entries) => entries.iter().map(TableEntry::line).collect(),
            Entries::InUse(rows) => vec![in_use(rows, self.problem.is_some())],
        };
        if self.more > 0 {
            let text = format!("{} more are not shown", self.more);
            lines.push(Line::new(self.what, "and", text));
        }
        if let Some(problem) = &self.problem {
            lines.push(Line::new(self.what, "problem", problem.clone()));
        }
        lines
    }
}

impl Contents {
    /// Says that nothing is there, if nothing else is said.
    fn none(&self, part: &'static str, name: &str) -> Vec<Line> {
        match self.problem {
            Some(_) => Vec::new(),
            None => vec![Line::new(part, name, "none".to_owned())],
        }
    }
}

/// The table has the byte order of its MGS, which nothing in the table says: that with which the first entry can be read.
fn order_of_table(bytes: &[u8]) -> ByteOrder {
    let orders = [ByteOrder::Little, ByteOrder::Big];
    let mut orders = orders.into_iter().filter(|order| {
        let first = whereabouts(View::new(bytes, *order)).next();
        first.is_some_and(|entry| entry.is_ok())
    });
    orders.next().unwrap_or(ByteOrder::Little)
}

impl TableEntry {
    fn of(entry: &Whereabouts) -> Self {
        let kind = match entry.service {
            Service::Mgs => "MGS",
            Service::Mdt => "MDT",
            Service::Ost => "OST",
        };
        let nids = entry.nids.iter().take(NIDS_MAX);
        Self {
            target: format!("{kind}{:04x}", entry.index),
            version: entry.version,
            instance: entry.instance,
            nids: nids.map(ToString::to_string).collect(),
            more_nids: entry.nids.len().saturating_sub(NIDS_MAX),
        }
    }

    fn line(&self) -> Line {
        let more = (self.more_nids > 0).then(|| format!("and {} more", self.more_nids));
        let nids: Vec<String> = self.nids.iter().cloned().chain(more).collect();
        let (version, instance, nids) = (self.version, self.instance, nids.join(", "));
        let text = format!("version {version}, instance {instance}: {nids}");
        Line::new("target", self.target.clone(), text)
    }
}

impl Line {
    fn new(part: &'static str, name: impl Into<String>, text: String) -> Self {
        let name = name.into();
        Self { part, name, text }
    }
}

fn in_part(present: usize, whole: usize) -> String {
    format!("only the first {present} of {whole} bytes are at hand")
}

/// Returns the bits of a header's records. Bit 0 is the header's.
fn bitmap(bytes: &[u8]) -> Result<Vec<bool>, String> {
    let view = match View::little(bytes).u32(8) {
        Some(HEADER) => View::little(bytes),
        Some(kind) if kind == HEADER.swap_bytes() => View::new(bytes, ByteOrder::Big),
        Some(kind) => {
            let text = format!("type {kind:#x} is no header of a log: not decoded");
            return Err(text);
        }
        None => return Err("too short for the header of a log".to_owned()),
    };
    let (from, behind) = BITMAP;
    let (len, at) = (view.u32(0).unwrap_or(0), view.u32(28).unwrap_or(0));
    if len as usize != bytes.len() || at as usize != from || bytes.len() < from + behind {
        let whole = bytes.len();
        let text =
            format!("a header of {len} bytes with a bitmap at {at}, in {whole} bytes: not decoded");
        return Err(text);
    }
    let bits = view.part(from, bytes.len() - from - behind);
    let bits = bits.bytes().iter();
    Ok(bits
        .flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1))
        .collect())
}

fn rows_of(bits: &[bool]) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    let rows = bits
        .chunk_by(|before, next| before == next)
        .map(move |row| {
            let first = at;
            at += row.len();
            (row.first() == Some(&true), first.max(1), at - 1)
        });
    rows.filter(|(is_set, first, last)| *is_set && first <= last)
        .map(|(_, first, last)| (first, last))
}

fn in_use(rows: &[(usize, usize)], has_problem: bool) -> Line {
    let shown = rows.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    let shown: Vec<String> = shown.collect();
    let text = match (shown.is_empty(), has_problem) {
        (true, true) => "not known".to_owned(),
        (true, false) => "none".to_owned(),
        (false, _) => shown.join(", "),
    };
    Line::new("records", "in use", text)
}

impl LogRecord {
    fn of(record: &Record<'_>) -> Self {
        let unread = |command: &str, problem| Self {
            index: record.index,
            command: command.to_owned(),
            problem,
            ..Self::default()
        };
        if record.kind == PAD {
            return unread("pad", None);
        }
        if !record.is_config() {
            let problem = format!("type {:#x}: not decoded", record.kind);
            return unread("", Some(problem));
        }
        let Some(command) = record.command() else {
            let problem = "another layout of commands: not decoded".to_owned();
            return unread("", Some(problem));
        };
        let name = command.name().map(str::to_owned);
        let problem = match command.is_whole() {
            true => None,
            false => Some("the arguments leave the record".to_owned()),
        };
        Self {
            index: record.index,
            command: name.unwrap_or_else(|| format!("{:#x}", command.code)),
            nid: command.nid().map(|nid| nid.to_string()),
            arguments: arguments(&command),
            problem,
        }
    }

    fn line(&self) -> Line {
        let nid = self.nid.iter();
        // An empty argument has its place.
        let arguments = self.arguments.iter().map(|argument| match argument {
            empty if empty.is_empty() => "-",
            argument => argument,
        });
        let words = [self.command.as_str()].into_iter();
        let words = words
            .chain(nid.map(String::as_str))
            .chain(arguments)
            .filter(|word| !word.is_empty());
        let mut text = words.collect::<Vec<_>>().join(" ");
        if let Some(problem) = &self.problem {
            text = match text.is_empty() {
                true => problem.clone(),
                false => format!("{text}  ({problem})"),
            };
        }
        Line::new("record", self.index.to_string(), text)
    }
}

fn arguments(command: &Command<'_>) -> Vec<String> {
    if let Some(marker) = command.marker() {
        let edge = match marker.flags & 3 {
            1 => "start",
            2 => "end",
            _ => "?",
        };
        let skipped = marker.is_skipped().then(|| "(skipped)".to_owned());
        let texts = [marker.target, marker.comment].map(|text| text.to_string());
        let words = [edge.to_owned()].into_iter().chain(texts);
        return words.chain(skipped).collect();
    }
    let buffers = (0..command.buffers()).map(|index| {
        let bytes = command.buffer(index).bytes();
        let text = command.text(index);
        let behind = bytes.iter().skip(text.bytes().len());
        let is_text = behind.copied().all(|byte| byte == 0) && str::from_utf8(bytes).is_ok();
        match is_text {
            true => text.to_string(),
            false => format!("({} bytes)", bytes.len()),
        }
    });
    buffers.collect()
}

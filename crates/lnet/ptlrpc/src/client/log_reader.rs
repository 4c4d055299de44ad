//! Reads configuration logs block by block, without a lock, and then where the targets are now.
//!
//! ```text
//!  OPEN fs-client ─▶ HEADER ─▶ BLOCK … BLOCK ─▶ HEADER: did it grow? ─▶ OPEN fs-sptlrpc ─▶ … ─▶ fs-cliir ─▶ done
//!        └ ENOENT: no such file system                                       └ ENOENT: no rules    └ any error: no table
//! ```

use super::failure::Failure;
use super::request::{BLOCK, LogId, Place, Question};
use crate::file_system::FileSystem;
use crate::log::Records;
use crate::message::Message;
use crate::rules::SecurityRules;
use crate::text::Status;
use crate::view::View;
use crate::whereabouts::whereabouts;

/// The type of the record that begins a log.
const HEADER_RECORD: u32 = 0x1064_5539;

/// The offset and the length of the bits of the records that are alive, in bytes.
const BITMAP: (usize, usize) = (88, 8192 - 88 - 8);

/// The most bytes of a log that are read.
const BYTES_MAX: u64 = 64 << 20;

/// The most parts of the table of whereabouts, of up to 1 MiB each.
const PARTS_MAX: u32 = 1024;

/// The most records of a log: the header has a bit for itself and for each of them.
const RECORDS_MAX: u32 = BITMAP.1 as u32 * 8 - 1;

const EPERM: i32 = -1;
const ENOENT: i32 = -2;
const EACCES: i32 = -13;
/// What servers answer behind the last record: `EBADR` from 2.16 on, before it `EIO`.
const BEHIND_END: [i32; 2] = [-53, -5];
const ESTALE: i32 = -116;

/// The log that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Client,
    Rules,
    /// The table of whereabouts, from this version on.
    Whereabouts(u64),
    Done,
}

/// The reading of the logs.
#[derive(Debug)]
pub(crate) struct LogReader {
    fs: String,
    which: Which,
    id: Option<LogId>,
    header: Option<LogHeader>,
    place: Place,
    bytes: u64,
    /// How many parts of the table were taken.
    parts: u32,
    has_started_over: bool,
    pub(crate) system: FileSystem,
    /// The rules of security, as the log has them.
    pub(crate) rules: SecurityRules,
}

/// What the first record of a log says.
#[derive(Debug)]
struct LogHeader {
    last: u32,
    alive: Vec<u8>,
}

impl LogHeader {
    fn is_alive(&self, index: u32) -> bool {
        let byte = self.alive.get(index as usize / 8).copied();
        byte.is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }
}

const START: Place = Place {
    next: 1,
    seen: 0,
    at: BLOCK as u64,
};

impl LogReader {
    pub(crate) fn new(fs: &str) -> Self {
        Self {
            fs: fs.to_owned(),
            which: Which::Client,
            id: None,
            header: None,
            place: START,
            bytes: 0,
            parts: 0,
            has_started_over: false,
            system: FileSystem::default(),
            rules: SecurityRules::default(),
        }
    }

    /// Returns the next question; `None` after the last log.
    pub(crate) fn question(&self) -> Option<Question> {
        let name = match self.which {
            Which::Client => "client",
            Which::Rules => "sptlrpc",
            Which::Whereabouts(from) => return Some(Question::Whereabouts(self.fs.clone(), from)),
            Which::Done => return None,
        };
        Some(match self.id {
            None => Question::OpenLog(format!("{}-{name}", self.fs)),
            Some(id) if self.is_in_blocks() => Question::LogBlock(id, self.place),
            Some(id) => Question::LogHeader(id),
        })
    }

    /// Takes the answer to the question.
    pub(crate) fn answer(
        &mut self,
        status: i32,
        reply: &Message<'_>,
        bulk: &[u8],
        refused: Failure,
    ) -> Result<(), Failure> {
        if let Which::Whereabouts(from) = self.which {
            self.take_whereabouts(from, status, reply, bulk);
            return Ok(());
        }
        let opened = self.id.is_some();
        match status {
            0 => {}
            ENOENT if !opened && self.which == Which::Client => return Err(Failure::NoFileSystem),
            ENOENT if !opened => {
                self.next_log();
                return Ok(());
            }
            end if BEHIND_END.contains(&end) && self.is_in_blocks() => return self.take_end(),
            ESTALE if opened && !self.has_started_over => {
                self.start_over();
                return Ok(());
            }
            EPERM | EACCES => return Err(refused),
            _ if !opened => return Err(refused),
            other => return Err(log_error(format!("the MGS answers {}", Status(other)))),
        }
        let first = reply.buffer(1).unwrap_or(View::little(&[]));
        match self.id {
            None => {
                let id = first
                    .bytes()
                    .get(..20)
                    .and_then(|bytes| bytes.try_into().ok());
                self.id = Some(id.ok_or_else(|| log_error("the reply names no log"))?);
                Ok(())
            }
            _ if self.is_in_blocks() => self.take_block(first, reply),
            _ => self.take_header(first),
        }
    }

    /// Returns whether a block is read, and no header.
    fn is_in_blocks(&self) -> bool {
        let header = self.header.as_ref();
        header.is_some_and(|header| self.place.seen < header.last)
    }

    /// Returns whether everything was read that a mount needs.
    pub(crate) const fn has_logs(&self) -> bool {
        matches!(self.which, Which::Whereabouts(_) | Which::Done)
    }

    /// Takes a header. If no record came since the header before, the log has been read.
    // [PTLRPC-22]
    fn take_header(&mut self, record: View<'_>) -> Result<(), Failure> {
        let record = View::little(record.bytes());
        let (len, kind) = (record.u32(0), record.u32(8));
        if kind != Some(HEADER_RECORD) {
            return Err(log_error("the log does not begin with a header"));
        }
        let (tail, last) = (record.u32(8192 - 8), record.u32(8192 - 4));
        if len != Some(BLOCK) || tail != len {
            return Err(log_error(format!(
                "the header says {} bytes, and not 8192",
                len.unwrap_or_default()
            )));
        }
        let last = last.unwrap_or_default();
        if last > RECORDS_MAX {
            return Err(log_error(format!(
                "{last} records, and at most {RECORDS_MAX} are read"
            )));
        }
        let has_read = self
            .header
            .as_ref()
            .is_some_and(|before| before.last >= last);
        let alive = record.part(BITMAP.0, BITMAP.1).bytes().to_vec();
        self.header = Some(LogHeader { last, alive });
        if has_read || last == 0 {
            self.next_log();
        }
        Ok(())
    }

    fn take_block(&mut self, body: View<'_>, reply: &Message<'_>) -> Result<(), Failure> {
        let block = reply.buffer(2).unwrap_or(View::little(&[]));
        self.bytes += block.bytes().len() as u64;
        if block.bytes().is_empty() || self.bytes > BYTES_MAX {
            return Err(log_error(format!(
                "{} bytes of it came, and no end",
                self.bytes
            )));
        }
        let before = self.place.seen;
        let last = self.header.as_ref().map_or(0, |header| header.last);
        let mut has_grown = false;
        for record in Records::new(block.bytes()) {
            let record = record.map_err(|error| log_error(error.to_string()))?;
            // The next header says whether a record that is newer than this header is alive.
            has_grown |= record.index > last;
            if record.index <= self.place.seen || record.index > last {
                continue;
            }
            self.place.seen = record.index;
            let alive = self
                .header
                .as_ref()
                .is_some_and(|header| header.is_alive(record.index));
            if let Some(command) = record.command().filter(|_| alive) {
                match self.which {
                    Which::Client => self.system.take(&command),
                    Which::Rules | Which::Whereabouts(_) | Which::Done => self.rules.take(&command),
                }
            }
        }
        // The log says how far it was read; records that are not alive may be missing.
        let said = body.u32(32).unwrap_or_default();
        self.place.seen = self.place.seen.max(said.min(last));
        if self.place.seen <= before {
            return Err(log_error(format!(
                "the reading stands still at record {before} of {last}"
            )));
        }
        self.place.next = self.place.seen.saturating_add(1);
        if !has_grown {
            // Servers read on from the start of the block that the last reading ended in.
            self.place.at = body.u64(40).unwrap_or_default() & !u64::from(BLOCK - 1);
        }
        Ok(())
    }

    /// The server has no more. That is the end of the log if no record is missing that is alive.
    fn take_end(&mut self) -> Result<(), Failure> {
        let Some(header) = &self.header else {
            return Ok(());
        };
        let mut missing = self.place.next..=header.last;
        if let Some(index) = missing.find(|index| header.is_alive(*index)) {
            return Err(log_error(format!(
                "it ends before record {index} of {}",
                header.last
            )));
        }
        self.place.seen = header.last;
        Ok(())
    }

    fn next_log(&mut self) {
        self.which = match self.which {
            Which::Client => Which::Rules,
            Which::Rules => Which::Whereabouts(1),
            Which::Whereabouts(_) | Which::Done => Which::Done,
        };
        self.restart();
    }

    fn start_over(&mut self) {
        self.has_started_over = true;
        match self.which {
            Which::Client => self.system = FileSystem::default(),
            Which::Rules | Which::Whereabouts(_) | Which::Done => {
                self.rules = SecurityRules::default();
            }
        }
        self.restart();
    }

    /// Takes a part of the table. A mount works without it, and so does the check: an error ends the reading.
    // [PTLRPC-24]
    fn take_whereabouts(&mut self, from: u64, status: i32, reply: &Message<'_>, bulk: &[u8]) {
        self.which = Which::Done;
        let result = reply.buffer(1).unwrap_or(View::little(&[]));
        let (Some(last), Some(newest)) = (result.u64(0), result.u64(8)) else {
            return;
        };
        if status != 0 {
            return;
        }
        self.bytes = self.bytes.saturating_add(bulk.len() as u64);
        for entry in whereabouts(View::new(bulk, result.order())) {
            match entry {
                Ok(entry) => self.system.is_now_at(&self.fs, &entry),
                Err(what) => return self.system.problem(what),
            }
        }
        self.parts += 1;
        let has_room = self.bytes < BYTES_MAX && self.parts < PARTS_MAX;
        if (from..newest).contains(&last) && !bulk.is_empty() && has_room {
            self.which = Which::Whereabouts(last + 1);
        }
    }

    fn restart(&mut self) {
        self.id = None;
        self.header = None;
        self.place = START;
        self.bytes = 0;
    }
}

fn log_error(what: impl Into<String>) -> Failure {
    Failure::Log(what.into())
}

//! The log of replies, which makes a gateway execute an operation once that must not be executed twice, across
//! restarts of the gateway.
//!
//! ```text
//!   intend ── record on the disk ──▶ the operation ──▶ reply ── record written ──▶ the client gets it
//!     ╵ one fdatasync for all calls                       ╵ on the disk with the next intent
//!       that wait for one
//! ```
//!
//! A gateway writes an operation to the log before it executes the operation, and writes the reply afterwards.
//! After a restart, a call with a reply in the log gets that reply. A call with an intent and without a reply
//! was under way: the gateway decides by the files whether the call was executed. A call without an intent was
//! never begun.
//!
//! * **A reply is written before it is sent, and reaches the disk later.** A process that is killed loses
//!   nothing that it wrote. A machine that goes down may lose a reply. Then the log has the intent only, and
//!   the gateway decides by the files.
//! * **Sessions are in the log**, with the incarnation that clients know, so that clients notice no restart. A
//!   log that is new, because the old log was removed, has another incarnation. Then clients get "outcome
//!   unknown".
//! * **The log has a limit.** A rewrite omits the records that no client can ask for any more. The log is
//!   rewritten at each start, and when most of it consists of such records. A client that never acknowledges
//!   replies is rejected at a limit.
//! * **The log is checked when it is read**: `record.rs` says which damage is a torn tail, and which is
//!   rejected.
//! * **If the log cannot be written**, because the disk is full or the directory is gone, the calls that need
//!   it are rejected (`EIO`) and the others go on. Each further call that needs the log retries to write it.

mod file;
mod record;
mod report;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use lnet_rpc::{ClientId, Entropy, Reply, Restored, RestoredClient, Session};
use tracing::{error, info, warn};

use self::file::{Home, LogFile};
pub use self::record::fuzz_log;
use self::record::{Damage, Record, decode};
pub(super) use self::record::{Fields, Out};
use self::report::{Counting, count};
pub use self::report::{LogCounters, LogError};

/// The error that the log cannot be written. The call that needs the log must not be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unwritten;

/// The log of replies of one gateway.
#[derive(Debug)]
pub struct ReplyLog {
    home: Home,
    head: Record,
    incarnation: u64,
    starts: u64,
    state: Mutex<State>,
    synced: Condvar,
    /// Sessions that began or ended since a call was last written to the log. They wait here because the thread
    /// that reports them must not wait for a disk.
    news: Mutex<Vec<News>>,
    counting: Counting,
}

#[derive(Debug)]
enum News {
    Came(Session),
    Gone(ClientId),
}

#[derive(Debug)]
struct State {
    file: LogFile,
    clients: BTreeMap<ClientId, Client>,
    /// The size of everything that must be kept, in bytes.
    kept: usize,
    /// True while a thread brings the log to the disk. Only one thread at a time does so.
    is_syncing: bool,
    /// True if the file lacks a record, or is not at its path any more. The log must then be rewritten before
    /// anything else.
    is_bad: bool,
    /// The number of records added since the start, over all files.
    added: u64,
    /// The number of these records that are on the disk.
    durable: u64,
}

#[derive(Debug)]
struct Client {
    session: Session,
    lowest: u64,
    calls: BTreeMap<u64, Kept>,
    kept: usize,
}

/// A call that its client may ask for a second time.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) intent: Vec<u8>,
    pub(super) reply: Option<Reply>,
}

/// The outcome of a call that was under way at the end of an earlier life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The call was executed, with this reply.
    Done(Reply),
    /// The call was not executed.
    Undone,
    /// The outcome is unknown; the client gets this reply.
    Unknown(Reply),
}

/// The limit of calls of one client that are kept: as many as the server of `lnet-rpc` remembers.
const CALLS_PER_CLIENT_MAX: usize = 16_384;
/// The limit of bytes that are kept for one client.
const KEPT_PER_CLIENT_MAX: usize = 16 << 20;
/// The limit of bytes that are kept for all clients.
const KEPT_MAX: usize = 256 << 20;
/// A log shorter than this is never rewritten because of its length. In bytes.
const REWRITE_MIN: u64 = 4 << 20;
/// The limit of changes that wait until the next call writes them to the log.
const NEWS_MAX: usize = 1024;
/// The size that a call counts besides its own bytes, in bytes.
const CALL_OVERHEAD: usize = 128;

impl ReplyLog {
    /// Opens the log in `directory`, or begins a new log. The directory belongs to this gateway alone. `export`
    /// is the directory that is served.
    ///
    /// # Errors
    ///
    /// The directory cannot be used, another process uses it, or the log in it is not valid.
    pub fn open(directory: &Path, export: &Path, entropy: &Entropy) -> Result<Self, LogError> {
        let home = Home::lock(directory, entropy.number("salt of a log"))?;
        let records = match home.read()? {
            Some(bytes) => read(&home.path(), &bytes)?,
            None => Vec::new(),
        };
        let (incarnation, starts) = match records.first() {
            Some(Record::Head {
                incarnation,
                starts,
                export: of,
            }) => {
                require_same(&home.path(), of, export)?;
                (*incarnation, starts + 1)
            }
            _ => (entropy.number("incarnation"), 1),
        };
        let head = Record::Head {
            incarnation,
            starts,
            export: export.as_os_str().as_encoded_bytes().to_vec(),
        };
        let clients = replay(records);
        let write = |clients: &BTreeMap<ClientId, Client>| home.replace(&all(&head, clients));
        let file = write(&clients).map_err(|source| LogError::Write {
            path: home.path(),
            source,
        })?;
        Ok(Self {
            state: Mutex::new(State::new(file, clients)),
            home,
            head,
            incarnation,
            starts,
            synced: Condvar::new(),
            news: Mutex::default(),
            counting: Counting::default(),
        })
    }

    /// Returns what the log has counted so far.
    #[must_use]
    pub fn counters(&self) -> LogCounters {
        self.counting.snapshot()
    }

    /// Settles the calls that an earlier life left, before the gateway serves any call. `decide` decides the
    /// outcome of a call that was under way. `refresh` may replace a reply whose handles are void.
    pub(super) fn settle(
        &self,
        decide: impl Fn(&[u8]) -> Verdict,
        refresh: impl Fn(&[u8], Reply) -> Reply,
    ) -> Result<(), LogError> {
        let mut state = self.state();
        for client in state.clients.values_mut() {
            let calls = std::mem::take(&mut client.calls);
            for (xid, kept) in calls {
                let reply = match kept.reply {
                    Some(reply) => {
                        count(&self.counting.replies_found);
                        Some(refresh(&kept.intent, reply))
                    }
                    None => self.judged(decide(&kept.intent), client.session.client, xid),
                };
                if reply.is_some() {
                    client.calls.insert(xid, Kept { reply, ..kept });
                }
            }
        }
        state.count_kept();
        // The verdicts must be on the disk; otherwise the next life would decide by files that have changed
        // since.
        self.rewrite(&mut state).map_err(|source| LogError::Write {
            path: self.home.path(),
            source,
        })
    }

    fn judged(&self, verdict: Verdict, client: ClientId, xid: u64) -> Option<Reply> {
        match verdict {
            Verdict::Done(reply) => {
                count(&self.counting.found_done);
                Some(reply)
            }
            Verdict::Undone => {
                count(&self.counting.found_undone);
                None
            }
            Verdict::Unknown(reply) => {
                warn!(%client, xid, "the outcome of a call that was in progress is unknown");
                count(&self.counting.unknown);
                Some(reply)
            }
        }
    }

    /// Returns what the server continues from, after everything is settled.
    pub(super) fn restored(&self) -> Restored {
        let state = self.state();
        let restore = |client: &Client| RestoredClient {
            session: client.session,
            lowest: client.lowest,
            calls: client
                .calls
                .iter()
                .filter_map(|(&xid, kept)| Some((xid, kept.reply.clone()?)))
                .collect(),
        };
        Restored {
            incarnation: self.incarnation,
            // Each start has a range of session numbers of its own, so that the number of a session whose
            // record was lost is not given out a second time.
            sessions: self.starts << 32,
            clients: state.clients.values().map(restore).collect(),
        }
    }

    /// Notes that a client has a session.
    pub(super) fn came(&self, session: &Session) {
        self.hear(News::Came(*session));
    }

    /// Notes that the session of a client has ended.
    pub(super) fn gone(&self, client: ClientId) {
        self.hear(News::Gone(client));
    }

    fn hear(&self, news: News) {
        let mut list = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(news);
        if list.len() > NEWS_MAX {
            drop(list);
            drop(self.informed());
        }
    }

    /// Writes to the log which sessions began and ended, if there are any. After a restart the server rejects
    /// calls of a session that is not in the log.
    pub(super) fn write_news(&self) {
        let is_empty = self
            .news
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty();
        if !is_empty {
            drop(self.informed());
        }
    }

    /// Returns the locked state, with all news added to it.
    fn informed(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        let news = std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner));
        for news in news {
            match news {
                News::Came(session) => {
                    let client = Client::new(session);
                    let record = client.record();
                    state.clients.insert(session.client, client);
                    self.add(&mut state, &record);
                }
                News::Gone(client) => {
                    if let Some(gone) = state.clients.remove(&client) {
                        state.kept -= gone.kept;
                        self.add(&mut state, &Record::Gone { client });
                    }
                }
            }
        }
        state
    }

    /// Writes an intent to the log: the operation that is about to be executed. The intent is on the disk when
    /// this returns.
    pub(super) fn intend(
        &self,
        client: ClientId,
        xid: u64,
        lowest: u64,
        intent: Vec<u8>,
    ) -> Result<(), Unwritten> {
        let written = self.write_intent(client, xid, lowest, intent);
        if written.is_err() {
            count(&self.counting.refused);
            self.state().drop_call(client, xid);
        }
        written
    }

    fn write_intent(
        &self,
        client: ClientId,
        xid: u64,
        lowest: u64,
        intent: Vec<u8>,
    ) -> Result<(), Unwritten> {
        let mut state = self.informed();
        state.raise(client, lowest);
        state.keep(client, xid, &intent)?;
        count(&self.counting.intents);
        let record = Record::Intent {
            client,
            xid,
            lowest,
            intent,
        };
        self.add(&mut state, &record);
        let position = state.added;
        self.sync(state, position)
    }

    /// Writes the reply of a call to the log.
    pub(super) fn reply(&self, client: ClientId, xid: u64, reply: &Reply) {
        let mut state = self.state();
        if !state.answer(client, xid, reply) {
            return;
        }
        let record = Record::Reply {
            client,
            xid,
            status: reply.status,
            body: reply.body.clone(),
        };
        self.add(&mut state, &record);
        if state.is_bad {
            count(&self.counting.replies_lost);
        }
    }

    /// Adds a record to the file. If this fails, the log is rewritten with the next intent.
    fn add(&self, state: &mut State, record: &Record) {
        state.added += 1;
        if !state.is_bad
            && let Err(error) = state.file.append(record)
        {
            self.complain(state, &error);
        }
    }

    fn complain(&self, state: &mut State, error: &io::Error) {
        let path = self.home.path();
        if !state.is_bad {
            error!(path = %path.display(), %error, "the log cannot be written: calls that need it are rejected");
        }
        state.is_bad = true;
    }

    /// Waits until everything up to `position` is on the disk. The first thread that waits brings the file to
    /// the disk for all.
    fn sync<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        position: u64,
    ) -> Result<(), Unwritten> {
        loop {
            if state.durable >= position {
                return Ok(());
            }
            if state.is_syncing {
                let waited = self.synced.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state = self.lead(state)?;
        }
    }

    /// Brings the file to the disk, while other threads may add to it.
    fn lead<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, Unwritten> {
        if state.is_bad {
            return self.recover(state);
        }
        let (file, end, added) = (state.file.file(), state.file.end(), state.added);
        state.is_syncing = true;
        drop(state);
        let result = self.bring_to_disk(&file);
        let mut state = self.state();
        state.is_syncing = false;
        match result {
            Ok(()) => {
                state.file.synced(end);
                state.durable = state.durable.max(added);
            }
            Err(error) => {
                self.complain(&mut state, &error);
                return self.recover(state);
            }
        }
        if !state.is_bad && state.is_long() {
            // If this fails, the old file stays, and it serves as well.
            let _kept = self.rewrite(&mut state);
        }
        self.synced.notify_all();
        Ok(state)
    }

    fn recover<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, Unwritten> {
        let written = self.rewrite(&mut state);
        self.synced.notify_all();
        match written {
            Ok(()) => {
                info!(path = %self.home.path().display(), "the log can be written again");
                Ok(state)
            }
            Err(_) => Err(Unwritten),
        }
    }

    fn bring_to_disk(&self, file: &File) -> io::Result<()> {
        file.sync_data()?;
        count(&self.counting.syncs);
        self.home.holds(file)
    }

    /// Rewrites the log with only the records that must be kept.
    fn rewrite(&self, state: &mut State) -> io::Result<()> {
        state.file = self.home.replace(&all(&self.head, &state.clients))?;
        state.durable = state.added;
        state.is_bad = false;
        count(&self.counting.rewrites);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(file: LogFile, clients: BTreeMap<ClientId, Client>) -> Self {
        let mut state = Self {
            file,
            clients,
            kept: 0,
            is_syncing: false,
            is_bad: false,
            added: 0,
            durable: 0,
        };
        state.count_kept();
        state
    }

    /// Reports whether most of the file is of no use any more.
    fn is_long(&self) -> bool {
        self.file.end() > REWRITE_MIN.max(4 * self.kept as u64)
    }

    fn count_kept(&mut self) {
        for client in self.clients.values_mut() {
            client.kept = client.calls.values().map(Kept::length).sum();
        }
        self.kept = self.clients.values().map(|client| client.kept).sum();
    }

    /// Forgets the executed calls that a client does not wait for any more.
    fn raise(&mut self, client: ClientId, lowest: u64) {
        if let Some(client) = self.clients.get_mut(&client) {
            self.kept -= client.raise(lowest);
        }
    }

    fn keep(&mut self, client: ClientId, xid: u64, intent: &[u8]) -> Result<(), Unwritten> {
        let room = KEPT_MAX.saturating_sub(self.kept);
        // The server reports a client before it executes the client's calls.
        let client = self.clients.get_mut(&client).ok_or(Unwritten)?;
        let kept = Kept {
            intent: intent.to_vec(),
            reply: None,
        };
        let length = kept.length();
        let is_full = client.calls.len() >= CALLS_PER_CLIENT_MAX
            || client.kept + length > KEPT_PER_CLIENT_MAX
            || length > room;
        if is_full {
            return Err(Unwritten);
        }
        client.calls.insert(xid, kept);
        client.kept += length;
        self.kept += length;
        Ok(())
    }

    fn drop_call(&mut self, client: ClientId, xid: u64) {
        let client = self.clients.get_mut(&client);
        if let Some((client, kept)) = client.and_then(|client| {
            let kept = client.calls.remove(&xid)?;
            Some((client, kept))
        }) {
            client.kept -= kept.length();
            self.kept -= kept.length();
        }
    }

    /// Records the reply of a call. Returns false if the client's session has ended meanwhile.
    fn answer(&mut self, client: ClientId, xid: u64, reply: &Reply) -> bool {
        let Some(client) = self.clients.get_mut(&client) else {
            return false;
        };
        let Some(kept) = client.calls.get_mut(&xid) else {
            return false;
        };
        kept.reply = Some(reply.clone());
        client.kept += reply.body.len();
        self.kept += reply.body.len();
        true
    }
}

impl Client {
    fn new(session: Session) -> Self {
        Self {
            session,
            lowest: 0,
            calls: BTreeMap::new(),
            kept: 0,
        }
    }

    fn record(&self) -> Record {
        Record::Came {
            client: self.session.client,
            session: self.session.number,
            nid: self.session.nid,
            lowest: self.lowest,
        }
    }

    /// Forgets executed calls below `lowest`. Returns the bytes that were kept for them.
    fn raise(&mut self, lowest: u64) -> usize {
        self.lowest = self.lowest.max(lowest);
        let mut freed = 0;
        while let Some(first) = self.calls.first_entry()
            && *first.key() < self.lowest
            && first.get().reply.is_some()
        {
            freed += first.remove().length();
        }
        // While a log is read, no bytes are counted yet.
        self.kept = self.kept.saturating_sub(freed);
        freed
    }
}

impl Kept {
    fn length(&self) -> usize {
        let reply = self.reply.as_ref().map_or(0, |reply| reply.body.len());
        CALL_OVERHEAD + self.intent.len() + reply
    }
}

fn read(path: &Path, bytes: &[u8]) -> Result<Vec<Record>, LogError> {
    let path = path.to_owned();
    let contents = decode(bytes).map_err(|damage| match damage {
        Damage::Foreign => LogError::Foreign(path.clone()),
        Damage::Version => LogError::Version(path.clone()),
        Damage::At(offset) => LogError::Damaged {
            path: path.clone(),
            offset,
        },
    })?;
    if contents.torn > 0 {
        info!(path = %path.display(), bytes = contents.torn, "the log ends within a record that was being written");
    }
    Ok(contents.records)
}

fn require_same(path: &Path, of: &[u8], export: &Path) -> Result<(), LogError> {
    if of == export.as_os_str().as_encoded_bytes() {
        return Ok(());
    }
    Err(LogError::Other {
        path: path.to_owned(),
        of: PathBuf::from(String::from_utf8_lossy(of).into_owned()),
        not: export.to_owned(),
    })
}

/// Builds the state of the clients from the records.
fn replay(records: Vec<Record>) -> BTreeMap<ClientId, Client> {
    let mut clients: BTreeMap<ClientId, Client> = BTreeMap::new();
    for record in records {
        match record {
            Record::Head { .. } => {}
            Record::Came {
                client,
                session: number,
                nid,
                lowest,
            } => {
                let session = Session {
                    client,
                    nid,
                    number,
                };
                let mut came = Client::new(session);
                came.lowest = lowest;
                clients.insert(client, came);
            }
            Record::Gone { client } => drop(clients.remove(&client)),
            Record::Intent {
                client,
                xid,
                lowest,
                intent,
            } => {
                if let Some(client) = clients.get_mut(&client) {
                    let reply = None;
                    client.raise(lowest);
                    client.calls.insert(xid, Kept { intent, reply });
                }
            }
            Record::Reply {
                client,
                xid,
                status,
                body,
            } => {
                let client = clients.get_mut(&client);
                if let Some(kept) = client.and_then(|client| client.calls.get_mut(&xid)) {
                    kept.reply = Some(Reply { status, body });
                }
            }
        }
    }
    clients
}

/// Returns the records for everything that must be kept.
fn all(head: &Record, clients: &BTreeMap<ClientId, Client>) -> Vec<Record> {
    let mut records = vec![head.clone()];
    for (&client, of) in clients {
        records.push(of.record());
        for (&xid, kept) in &of.calls {
            let lowest = of.lowest;
            let intent = kept.intent.clone();
            records.push(Record::Intent {
                client,
                xid,
                lowest,
                intent,
            });
            if let Some(Reply { status, body }) = kept.reply.clone() {
                records.push(Record::Reply {
                    client,
                    xid,
                    status,
                    body,
                });
            }
        }
    }
    records
}

#[cfg(test)]
mod tests;
